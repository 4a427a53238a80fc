"""The worker and its client: the queue, cancelling, faults and new starts, on the stand-in site."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pages import Opener, settled
from playwright.sync_api import expect

from headless import Headless, HeadlessError

pytestmark = pytest.mark.browser

TOOLS = [{"name": "lights"}, {"name": "doors"}]


@pytest.fixture(autouse=True)
def no_console_errors(lab: Headless) -> Iterator[None]:
    lab.console_errors.clear()
    yield
    assert lab.console_errors == []


def code_of(lab: Headless, name: str, *values: Any) -> str:
    with pytest.raises(HeadlessError) as caught:
        lab.call(name, *values)
    return caught.value.code


def test_tokens_come_one_by_one_and_then_the_result(lab: Headless) -> None:
    lab.call("declare", TOOLS)
    events, answer = lab.evaluate(
        """async () => {
          const events = [];
          const answer = await areole.complete("hello", { maxNewTokens: 7, onEvent: (event) => events.push(event) });
          return [events, answer];
        }"""
    )
    assert [event["type"] for event in events] == ["token"] * answer["tokens"]
    assert "".join(event["delta"] for event in events if event["phase"] == "reasoning") == "because the words say so"
    assert [call["name"] for call in answer["result"]["function_calls"]] == ["lights", "doors"]
    assert answer["options"] == {"max_new_tokens": 7}


def test_requests_are_answered_in_the_order_they_were_made(lab: Headless) -> None:
    order = lab.evaluate(
        """async () => {
          const order = [];
          const note = (name) => (answer) => order.push([name, answer?.prefix_tokens ?? answer?.tokens ?? null]);
          await Promise.all([
            areole.declare([{ name: "one" }]).then(note("declare")),
            areole.complete("hello").then(note("first")),
            areole.embed("text").then(note("embed")),
            areole.complete("none").then(note("second")),
            areole.reset().then(note("reset")),
          ]);
          return order;
        }"""
    )
    assert [name for name, _ in order] == ["declare", "first", "embed", "second", "reset"]
    assert order[1][1] != order[3][1]


def test_cancel_in_the_middle_and_the_next_request_works(lab: Headless) -> None:
    lab.call("declare", TOOLS)
    code, seen = lab.evaluate(
        """async () => {
          const stop = new AbortController();
          let seen = 0;
          const onEvent = () => { seen += 1; if (seen === 20) stop.abort(); };
          const code = await areole.complete("slow", { onEvent, signal: stop.signal }).catch((error) => error.code);
          return [code, seen];
        }"""
    )
    assert code == "cancelled"
    assert 20 <= seen < 50_000  # it stopped well before its 100,000 tokens
    assert lab.call("complete", "hello")["result"]["success"] is True


def test_cancel_of_a_waiting_request_leaves_the_running_one_alone(lab: Headless) -> None:
    lab.call("declare", TOOLS)
    answers = lab.evaluate(
        """async () => {
          const stopFirst = new AbortController();
          const stopSecond = new AbortController();
          let started;
          const running = new Promise((resolve) => { started = resolve; });
          const settle = (promise) => promise.then(() => "answered", (error) => error.code);
          const first = settle(areole.complete("slow", { signal: stopFirst.signal, onEvent: () => started() }));
          const second = settle(areole.complete("hello", { signal: stopSecond.signal }));
          const third = settle(areole.complete("hello"));
          await running;
          stopSecond.abort();
          const early = await second;
          stopFirst.abort();
          return [early, await first, await third];
        }"""
    )
    assert answers == ["cancelled", "cancelled", "answered"]


def test_a_signal_that_was_aborted_before_sends_nothing(lab: Headless) -> None:
    code = lab.evaluate("() => areole.complete('trap', { signal: AbortSignal.abort() }).catch((error) => error.code)")
    assert code == "cancelled"
    assert lab.evaluate("() => areole.state") == "ready"


def test_a_typed_error_of_python_arrives_whole(lab: Headless) -> None:
    with pytest.raises(HeadlessError) as caught:
        lab.call("complete", "full")
    assert caught.value.code == "context_full"
    assert caught.value.details == {"needed": 9, "available": 3}
    assert code_of(lab, "declare", "refuse") == "tools_json"
    assert lab.call("complete", "hello")["result"]["success"] is True


def test_an_unexpected_exception_is_internal_and_the_next_request_works(lab: Headless) -> None:
    with pytest.raises(HeadlessError) as caught:
        lab.call("complete", "crash")
    assert caught.value.code == "internal"
    assert "ZeroDivisionError: planted fault" in caught.value.message
    assert lab.call("complete", "hello")["result"]["success"] is True


def test_after_a_trap_the_next_request_has_a_new_worker_and_the_same_tools(lab: Headless, open_page: Opener) -> None:
    page = open_page(lab)
    settled(page)
    answers = page.evaluate(
        """async (tools) => {
          const settle = (promise) => promise.then((answer) => answer, ({ code, details }) => ({ code, details }));
          await areole.declare(tools, "date: today");
          const both = await Promise.all([settle(areole.complete("trap")), settle(areole.complete("hello"))]);
          const state = areole.state;
          return [...both, state, await settle(areole.complete("hello"))];
        }""",
        TOOLS,
    )
    trapped, behind, state, later = answers
    assert trapped["code"] == behind["code"] == "worker_failed"
    assert trapped["details"]["cause"].startswith("boom: ")
    assert state == "dead"
    assert later["seen"] == {"turns": 1, "declared": 1, "system": "date: today"}
    assert [call["name"] for call in later["result"]["function_calls"]] == ["lights", "doors"]
    assert page.evaluate("() => window.seen.states") == ["loading", "ready", "dead", "loading", "ready"]
    expect(page.locator("#load-text")).to_contain_text("ready")


def test_requests_of_the_wrong_shape_are_refused_by_name(lab: Headless) -> None:
    assert code_of(lab, "complete", 7) == "request_text"
    assert code_of(lab, "embed") == "request_text"
    assert code_of(lab, "complete", "hello", {"maxNewTokens": 1.5}) == "request_option"
    assert code_of(lab, "declare", [], 7) == "request_option"


def test_embed_golden_and_reset_go_through(lab: Headless) -> None:
    assert lab.call("embed", "four") == [4.0, 0.5]
    assert lab.call("golden", {"ids": [1, 2], "prefix": 1})["got"] == {"ids": [1, 2], "prefix": 1}
    lab.call("declare", TOOLS)
    lab.call("complete", "hello")
    assert lab.call("complete", "hello")["seen"]["turns"] == 2
    lab.call("reset")
    assert lab.call("complete", "hello")["seen"]["turns"] == 1


def test_tools_as_text_pass_as_they_are(lab: Headless) -> None:
    text = '[ {"name": "a",  "x": 1.50} ]'
    assert lab.call("declare", text)["prefix_tokens"] == len(text)


def test_prepare_does_not_read_the_same_tools_twice(lab: Headless) -> None:
    lab.call("prepare", TOOLS, "facts")
    before = lab.call("complete", "hello")["seen"]
    lab.call("prepare", TOOLS, "facts")
    after = lab.call("complete", "hello")["seen"]
    assert after == {**before, "turns": 1}
    lab.call("prepare", TOOLS, "other facts")
    assert lab.call("complete", "hello")["seen"]["declared"] == before["declared"] + 1


def test_an_entry_of_cases_starts_each_afresh_and_goes_on_after_a_fault(lab: Headless) -> None:
    entry = {
        "id": "suite",
        "system": "facts",
        "tools": TOOLS,
        "cases": [
            {"text": "hello", "want": "kept"},
            {"text": "full"},
            {"turns": [{"text": "hello"}, {"text": "hello", "max_new_tokens": 9}]},
            {"turns": [{"text": "crash"}, {"text": "hello"}]},
            {"text": "none"},
        ],
    }
    answer = lab.ask_entry(entry)
    assert answer["tools"] == TOOLS
    first, full, talk, crash, none = answer["cases"]
    assert answer["id"] == "suite"
    assert answer["prefix_tokens"] == len(json.dumps(TOOLS)) + len("facts")
    assert first["want"] == "kept"
    assert first["response"]["success"] is True
    level = first["response"]["function_calls"][0]["arguments"]["level"]
    assert level == 2
    assert isinstance(level, float)  # JavaScript would have made it the integer 2
    assert first["tokens"] > 0
    assert first["timings"] == {"prefill_s": 0.2, "decode_s": 0.1, "turn": 1}
    assert first["text"] == "hello"  # the request stays; what Python calls `text` is something else
    assert full["error"] == {"code": "context_full", "message": "The context is full: 9 tokens needed, 3 free."}
    assert "response" not in full
    assert [turn["timings"]["turn"] for turn in talk["turns"]] == [1, 2]
    assert [turn["timings"].get("max_new_tokens") for turn in talk["turns"]] == [None, 9]
    assert crash["turns"][0]["error"]["code"] == "internal"
    assert crash["turns"][1] == {"text": "hello"}  # the rest of a broken conversation is not asked
    assert none["response"]["function_calls"] == []
    assert none["timings"]["turn"] == 1


def test_an_entry_whose_tools_are_refused_says_so_everywhere(lab: Headless) -> None:
    answer = lab.ask_entry({"tools": "refuse", "turns": [{"text": "hello"}]})
    assert answer["error"]["code"] == "tools_json"
    assert answer["turns"][0]["error"]["code"] == "tools_json"
    assert lab.ask_entry({"tools": [], "turns": [{"text": "hello"}]})["turns"][0]["response"]["success"] is True


def test_no_python_object_is_left_behind(lab: Headless) -> None:
    lab.call("declare", TOOLS)
    lab.call("complete", "hello")
    before = lab.call("stats")
    for text in ("hello", "full", "crash", "none") * 5:
        lab.evaluate("(text) => areole.complete(text).catch(() => {})", text)
        lab.call("embed", text)
        lab.call("declare", TOOLS)
    after = lab.call("stats")
    assert before["proxies"] > 0
    assert after == before


def test_a_closed_client_refuses(lab: Headless, open_page: Opener) -> None:
    page = open_page(lab)
    settled(page)
    codes = page.evaluate(
        """async () => {
          const code = (error) => error.code;
          const running = areole.complete("slow").catch(code);
          areole.close();
          return [await running, await areole.complete("hello").catch(code), areole.state];
        }"""
    )
    assert codes == ["request_closed", "request_closed", "closed"]
