"""The conversation: verdicts, results, retries, copies and what is kept, on a stand-in site."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pages import Opener, settled
from playwright.sync_api import Locator, Page, Route, expect

from headless import Headless

pytestmark = pytest.mark.browser

CALL = {"name": "lock_door", "arguments": {"door": "front"}}


@pytest.fixture
def page(quick: Headless, open_page: Opener) -> Iterator[Page]:
    page = open_page(quick, permissions=["clipboard-read", "clipboard-write"])
    settled(page)
    yield page


def ask(page: Page, text: str | dict[str, Any]) -> None:
    request = text if isinstance(text, str) else "=> " + json.dumps(text)
    page.get_by_role("textbox", name="Request").fill(request)
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.locator("#stop")).to_be_disabled()


def turns(page: Page) -> Locator:
    return page.locator(".turn")


def lets_run(page: Page, body: str = "") -> None:
    """Gives lock_door a function."""
    page.evaluate(
        """async (body) => {
          const { toolset } = await import("./page/toolset.js");
          window.ran = [];
          const run = (args) => {
            window.ran.push(args);
            if (body === "throw") throw new Error("jammed");
            return { locked: args.door };
          };
          toolset.setRunnable("javascript", { lock_door: run });
        }""",
        body,
    )


def test_a_sure_call_runs_and_the_model_hears_of_it(page: Page) -> None:
    lets_run(page)
    ask(page, {"calls": [CALL], "confidence": 0.9})
    expect(turns(page)).to_have_count(2)
    expect(turns(page).first.locator(".outcome")).to_have_text('{"locked":"front"}')
    expect(turns(page).last.locator(".answer-text")).to_have_text('told [{"locked":"front"}]')
    assert page.evaluate("() => ran") == [{"door": "front"}]


def test_an_unsure_call_asks_first(page: Page) -> None:
    lets_run(page)
    ask(page, {"calls": [CALL], "confidence": 0.3})
    card = turns(page).first.locator(".call")
    expect(card).to_have_attribute("data-verdict", "confirm")
    expect(card).to_contain_text("asks first")
    assert page.evaluate("() => ran") == []
    card.get_by_role("button", name="Run", exact=True).click()
    expect(turns(page)).to_have_count(2)
    assert page.evaluate("() => ran") == [{"door": "front"}]
    ask(page, {"calls": [CALL], "confidence": 0.3})
    turns(page).last.get_by_role("button", name="Don't").click()
    expect(turns(page).last.locator(".outcome")).to_have_text("not run")
    expect(turns(page)).to_have_count(3)
    assert page.evaluate("() => document.activeElement.className") == "turn"  # not lost with the button


def test_the_thresholds_decide_and_are_kept(page: Page) -> None:
    lets_run(page)
    page.locator("#trust-editor > summary").click()
    page.get_by_label("is refused below").fill("80")
    expect(page.locator("#act-shown")).to_have_text("80 %")  # never below the other
    ask(page, {"calls": [CALL], "confidence": 0.79})
    card = turns(page).first.locator(".call")
    expect(card).to_have_attribute("data-verdict", "refuse")
    expect(card.get_by_role("button", name="Run it nevertheless")).to_be_visible()
    assert page.evaluate("() => ran") == []
    page.get_by_label("is refused below").fill("10")
    expect(card).to_have_attribute("data-verdict", "confirm")
    page.reload()
    settled(page)
    expect(page.locator("#act-shown")).to_have_text("80 %")
    expect(page.locator("#refuse-shown")).to_have_text("10 %")


def test_a_function_that_fails_is_shown_and_told(page: Page) -> None:
    lets_run(page, "throw")
    ask(page, {"calls": [CALL]})
    expect(turns(page).first.locator(".outcome.bad")).to_have_text("failed: jammed")
    expect(turns(page).last.locator(".answer-text")).to_have_text('told [{"error":"jammed"}]')


def test_a_result_is_typed_by_hand_where_nothing_runs(page: Page) -> None:
    ask(page, {"calls": [CALL, {"name": "set_lights", "arguments": {}}]})
    first, second = turns(page).first.locator(".call").all()
    first.get_by_text("Tell the model what came of it").click()
    box = first.get_by_role("textbox", name="Result of lock_door, as JSON")
    box.fill("{locked")
    first.get_by_role("button", name="Send the result").click()
    expect(first.get_by_role("alert")).to_contain_text("Not JSON")
    box.fill('{"locked": true}')
    first.get_by_role("button", name="Send the result").click()
    expect(turns(page)).to_have_count(1)  # the other call has none yet
    second.get_by_text("Tell the model what came of it").click()
    page.get_by_role("textbox", name="Request").fill("not yet")
    second.get_by_role("textbox").press("Control+Enter")  # sends what is in this box, and not the request
    expect(turns(page).last.locator(".answer-text")).to_have_text('told [{"locked":true},{"ok":true}]')
    page.locator("#rules-editor > summary").click()
    for elsewhere in ("#contract", "#rules-editor > summary"):
        page.locator(elsewhere).press("Control+Enter")
    expect(page.get_by_role("textbox", name="Request")).to_have_value("not yet")
    expect(turns(page)).to_have_count(2)


def test_turns_are_one_conversation_until_a_new_one(page: Page, quick: Headless) -> None:
    for text in ("one", "two", "three"):
        ask(page, text)
    seen = page.evaluate("() => areole.complete('four').then(({ seen }) => seen)")
    assert seen["turns"] == 4
    # Somebody else was in the worker's conversation: what belongs to this one is put back.
    ask(page, "five")
    seen = page.evaluate("() => areole.complete('six').then(({ seen }) => seen)")
    assert [turn["said"] for turn in seen["replayed"]] == ["one", "two", "three"]
    expect(page.locator("#log-long")).to_be_hidden()
    ask(page, "seven")
    expect(page.locator("#log-long")).to_be_visible()
    page.get_by_role("button", name="New conversation").click()
    expect(turns(page)).to_have_count(0)
    ask(page, "hello")
    seen = page.evaluate("() => areole.complete('next').then(({ seen }) => seen)")
    assert (seen["turns"], seen["replayed"]) == (2, [])


def test_asking_again_takes_the_last_request_back(page: Page) -> None:
    lets_run(page)
    ask(page, "one")
    ask(page, {"calls": [CALL]})
    expect(turns(page)).to_have_count(3)
    page.get_by_role("button", name="Ask again").click()
    expect(turns(page)).to_have_count(3)
    expect(turns(page).last.locator(".answer-text")).to_have_text('told [{"locked":"front"}]')
    assert len(page.evaluate("() => ran")) == 2
    page.get_by_role("button", name="New conversation").click()
    expect(page.get_by_role("button", name="Ask again")).to_be_disabled()


def test_stopped_requests_leave_no_trace_in_the_conversation(page: Page) -> None:
    ask(page, "one")
    page.get_by_role("textbox", name="Request").fill("slow")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(turns(page).last.locator(".reasoning")).to_contain_text("word9")
    page.get_by_role("button", name="Stop").click()
    expect(turns(page).last.locator(".answer-text")).to_have_text("Stopped.")
    ask(page, "two")
    seen = page.evaluate("() => areole.complete('three').then(({ seen }) => seen)")
    assert [turn["said"] for turn in seen["replayed"]] == ["one"]
    assert seen["turns"] == 3


def test_a_request_that_waits_for_the_model_is_stopped_at_once(quick: Headless, open_page: Opener) -> None:
    held: list[Route] = []
    page = open_page(quick, before=lambda page: page.route("**/model/*", lambda route: held.append(route)))
    expect(page.locator("#presets button")).to_have_count(14)
    page.get_by_role("textbox", name="Request").fill("one")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(turns(page).last.locator(".answer-text")).to_have_text("Waiting for the model …")
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(turns(page).last).to_have_attribute("data-state", "stopped")
    page.get_by_role("button", name="Ask again").click()
    expect(turns(page).last.locator(".answer-text")).to_have_text("Waiting for the model …")
    for route in held:
        route.continue_()
    expect(turns(page)).to_have_count(1)
    expect(turns(page).last).to_have_attribute("data-state", "done")


def test_copies(page: Page) -> None:
    call = {"name": "move", "arguments": {"direction": "forward", "distance_m": 2.5, "fast": True, "via": None}}
    ask(page, {"calls": [call, {"name": "class", "arguments": {"a-b": ["x", {"y": False}]}}]})
    read = "() => navigator.clipboard.readText()"

    def copied(name: str) -> str:
        turns(page).last.get_by_role("button", name=name).click()
        expect(page.get_by_role("status")).to_have_text("Copied.")
        page.evaluate("() => { document.querySelector('#announce').textContent = ''; }")
        return str(page.evaluate(read))

    assert copied("Copy Python").splitlines() == [
        'move(direction="forward", distance_m=2.5, fast=True, via=None)',
        'tools["class"](**{"a-b": ["x", {"y": False}]})',
    ]
    message = json.loads(copied("Copy OpenAI message"))
    assert message["role"] == "assistant" and message["content"] is None
    assert message["tool_calls"][0]["type"] == "function"
    assert json.loads(message["tool_calls"][0]["function"]["arguments"]) == call["arguments"]
    assert len({one["id"] for one in message["tool_calls"]}) == 2
    assert json.loads(copied("Copy JSON"))["function_calls"][0] == call

    # Numbers as they are written, which JavaScript's own are not; keys in their order, which digits would change.
    written = '{"whole":2.0,"big":9007199254740993,"huge":1e+30,"zero":-0.0,'
    written += '"b":{"10":[0.5,[]],"2":{}},"__proto__":"a\\"b"}'
    numbers = repr(json.loads(written))
    ask(page, {"json": f'[{{"name":"count","arguments":{written}}}]'})
    assert copied("Copy Python") == (
        'count(whole=2.0, big=9007199254740993, huge=1e+30, zero=-0.0, b={"10": [0.5, []], "2": {}}, __proto__="a\\"b")'
    )
    (copy,) = json.loads(copied("Copy OpenAI message"))["tool_calls"]
    assert copy["function"]["arguments"] == written
    assert repr(json.loads(copied("Copy JSON"))["function_calls"][0]["arguments"]) == numbers
    with page.expect_download() as download:
        page.get_by_role("button", name="Export").click()
    exported = json.loads(download.value.path().read_text(encoding="utf-8"))
    assert repr(exported["turns"][-1]["answer"]["function_calls"][0]["arguments"]) == numbers


def test_without_a_clipboard_the_text_is_shown(quick: Headless, open_page: Opener) -> None:
    deny = "navigator.clipboard.writeText = () => Promise.reject(new Error('no'));"
    page = open_page(quick, before=lambda page: page.add_init_script(deny))
    settled(page)
    ask(page, {"calls": [CALL]})
    turns(page).last.get_by_role("button", name="Copy Python").click()
    expect(page.get_by_role("dialog")).to_contain_text('lock_door(door="front")')
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_the_conversation_is_kept_and_goes_on(page: Page) -> None:
    lets_run(page)
    ask(page, {"calls": [CALL], "reasoning": "the door"})
    expect(turns(page)).to_have_count(2)
    page.reload()
    settled(page)
    expect(turns(page)).to_have_count(2)
    expect(turns(page).first.locator(".outcome")).to_have_text('{"locked":"front"}')
    ask(page, "and now")
    seen = page.evaluate("() => areole.complete('six').then(({ seen }) => seen)")
    first, second = seen["replayed"]
    assert (first["calls"], first["reasoning"], first["is_result"]) == ([CALL], "the door", False)
    assert (second["is_result"], second["calls"], second["text"]) == (True, None, 'told [{"locked":"front"}]')
    page.get_by_role("button", name="New conversation").click()
    page.reload()
    settled(page)
    expect(turns(page)).to_have_count(0)


def test_a_request_outlives_a_reload_in_the_middle_of_its_answer(page: Page) -> None:
    ask(page, {"calls": [CALL], "confidence": 0.3})
    page.get_by_role("textbox", name="Request").fill("slow")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(turns(page).last.locator(".reasoning")).to_contain_text("word3")
    page.reload()
    settled(page)
    expect(turns(page)).to_have_count(2)
    expect(turns(page).last.locator(".said")).to_have_text("slow")
    expect(turns(page).last).to_have_attribute("data-state", "stopped")
    page.get_by_role("button", name="Ask again").click()
    expect(turns(page).last.locator(".reasoning")).to_contain_text("word3")
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(turns(page).last).to_have_attribute("data-state", "stopped")
    turns(page).first.get_by_role("button", name="Look inside").click()
    expect(page.locator("#inside-empty")).to_contain_text("were not kept")


def test_the_last_answer_is_in_sight_for_those_who_are_at_the_end(page: Page) -> None:
    below = """() => document.querySelector(".turn:last-child").getBoundingClientRect().bottom
      - document.querySelector(".composer").getBoundingClientRect().top"""
    for width, height in ((1280, 800), (390, 700)):
        page.set_viewport_size({"width": width, "height": height})
        for _ in range(4):
            ask(page, {"calls": [CALL, CALL], "confidence": 0.3, "reasoning": "word " * 80})
            page.wait_for_function(f"() => ({below})() <= 0")
    page.get_by_role("textbox", name="Request").fill("slow")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(turns(page).last.locator(".reasoning")).to_contain_text("word20")
    page.evaluate("() => scrollTo(0, 0)")  # who reads further up is left there
    expect(turns(page).last.locator(".reasoning")).to_contain_text("word200")
    page.evaluate("() => document.querySelector('#stop').click()")
    expect(turns(page).last).to_have_attribute("data-state", "stopped")
    assert page.evaluate("() => scrollY") == 0


def test_a_function_that_never_ends_is_left_behind_by_stop(page: Page) -> None:
    page.evaluate(
        """async () => {
          const { toolset } = await import("./page/toolset.js");
          toolset.setRunnable("javascript", { lock_door: () => new Promise(() => {}) });
        }"""
    )
    request = "=> " + json.dumps({"calls": [CALL], "confidence": 0.9})
    page.get_by_role("textbox", name="Request").fill(request)
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(turns(page).last).to_have_attribute("data-state", "done")
    for name in ("Ask again", "New conversation"):
        expect(page.get_by_role("button", name=name)).to_be_disabled()
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.locator(".outcome")).to_have_text("failed: It was stopped.")
    expect(page.get_by_role("button", name="Ask again")).to_be_enabled()
    expect(page.locator("#stop")).to_be_disabled()


def test_other_tools_are_another_conversation_other_rules_are_not(page: Page) -> None:
    ask(page, "one")
    page.locator("#rules-editor > summary").click()
    page.locator("#contract").select_option("raw")
    ask(page, "two")
    expect(turns(page)).to_have_count(2)
    expect(turns(page).last.locator(".envelope")).to_contain_text('"contract": "raw"')
    page.get_by_role("button", name="Small robot").click()
    expect(turns(page)).to_have_count(0)


def test_export(page: Page) -> None:
    ask(page, {"calls": [CALL]})
    with page.expect_download() as download:
        page.get_by_role("button", name="Export").click()
    exported = json.loads(download.value.path().read_text(encoding="utf-8"))
    assert {"tools", "system", "contract", "turns"} <= set(exported)
    assert exported["turns"][0]["answer"]["function_calls"] == [CALL]


def another_tab(page: Page, quick: Headless) -> Page:
    other = page.context.new_page()
    other.goto(quick.server.address)
    other.wait_for_function("() => window.areole?.state === 'ready'")
    expect(other.locator("#tool-list > li").first).to_be_visible()
    return other


def test_two_tabs_do_not_disturb_each_other(page: Page, quick: Headless) -> None:
    ask(page, "one")
    other = another_tab(page, quick)
    expect(turns(other)).to_have_count(0)  # what is open in a tab belongs to that tab
    ask(other, "two")
    ask(page, "three")
    for _ in range(2):
        for tab, texts in ((page, ["one", "three"]), (other, ["two"])):
            expect(turns(tab).locator(".said")).to_have_text(texts)
            tab.reload()
    # Once they are closed, new tabs go on with what they had: the one that was kept last first.
    ask(page, "four")
    empty = another_tab(page, quick)
    expect(turns(empty)).to_have_count(0)
    for tab in (page, other, empty):
        tab.goto("about:blank")
    for texts in (["one", "three", "four"], ["two"]):
        expect(turns(another_tab(page, quick)).locator(".said")).to_have_text(texts)


def test_a_conversation_that_was_put_aside_can_be_brought_back(page: Page) -> None:
    lets_run(page)
    back = page.get_by_role("button", name="Bring the earlier one back")
    expect(back).to_be_hidden()
    ask(page, {"calls": [CALL]})
    tools = page.locator("#tools").input_value()
    page.get_by_role("button", name="Small robot").click()
    expect(turns(page)).to_have_count(0)
    expect(page.locator("#log-earlier")).to_contain_text("The tools changed, so this is a new conversation.")
    expect(page.get_by_role("status").last).to_contain_text("can be brought back")
    ask(page, "to the robot")
    page.reload()
    settled(page)
    back.click()
    expect(turns(page)).to_have_count(2)
    expect(page.locator("#tools")).to_have_value(tools)
    ask(page, "and now")
    seen = page.evaluate("() => areole.complete('next').then(({ seen }) => seen)")
    assert [turn["is_result"] for turn in seen["replayed"]] == [False, True]
    back.click()  # the other one is not lost by it
    expect(turns(page).locator(".said")).to_have_text("to the robot")
    page.get_by_role("button", name="New conversation").click()
    expect(page.locator("#log-earlier")).to_contain_text("This is a new conversation.")
    back.click()
    expect(turns(page).locator(".said")).to_have_text("to the robot")
    expect(back).to_be_hidden()


def test_a_request_that_is_too_long_is_not_kept_whole(page: Page) -> None:
    long = "full" + " " * 30 + "x" * 1_000_000
    page.get_by_role("textbox", name="Request").fill("full")
    page.evaluate("(text) => { document.querySelector('#request').value = text; }", long)
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(turns(page).last).to_have_attribute("data-state", "failed")
    expect(turns(page).last).to_contain_text("context_full")
    assert page.evaluate("() => JSON.stringify(localStorage).length") < 50_000
    page.reload()
    settled(page)
    expect(turns(page).locator(".said")).to_contain_text("1000034 characters; the rest was not kept")
    expect(page.get_by_role("button", name="Ask again")).to_be_disabled()
    ask(page, "short")
    expect(page.get_by_role("button", name="Ask again")).to_be_enabled()


def test_where_there_is_no_room_the_page_says_so_once(page: Page) -> None:
    page.evaluate(
        """() => {
          let size = 4 << 20;
          for (let n = 0; size > 16; n++) {
            try { localStorage.setItem(`filler ${n}`, "x".repeat(size)); } catch { size >>= 1; }
          }
        }"""
    )
    notice = page.locator("#notices")
    ask(page, "one")
    expect(notice).to_contain_text("There is no room in this browser's storage for the conversation")
    notice.get_by_role("button", name="Close").click()
    ask(page, "two")
    expect(notice).to_be_empty()
    page.evaluate("() => localStorage.clear()")
    ask(page, "three")
    page.reload()
    settled(page)
    expect(turns(page)).to_have_count(3)
