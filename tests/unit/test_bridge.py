"""The worker's side of Python: text in, text out, errors as values, one step at a time."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fakes import TOKENIZER, FakeModel, ids

from areole import bridge as module
from areole.bridge import Bridge, Run
from areole.contract import CONTRACTS
from areole.errors import ERROR_CODES

pytestmark = pytest.mark.usefixtures("raw_contract")

PROPERTIES = {"roomName": {"type": "string"}, "level": {"type": "number"}}
TOOLS = json.dumps([{"name": "setLights", "parameters": {"properties": PROPERTIES}}])
CALL = '[{"name":"set_lights","arguments":{"room_name":"hall","level":2.0}}]'
GOOD = f"<think>\nthe 'hall'\n</think>\n<tool_call>{CALL}</tool_call>"


def make(*script: str) -> tuple[Bridge, FakeModel]:
    model = FakeModel(*script)
    return Bridge(model), model  # type: ignore[arg-type]


def message(text: object) -> dict[str, Any]:
    assert isinstance(text, str)
    value = json.loads(text)
    assert isinstance(value, dict)
    return value


def refused(text: object, code: str) -> dict[str, Any]:
    value = message(text)
    assert (value["type"], value["code"]) == ("error", code) and code in ERROR_CODES
    assert set(value) == {"type", "code", "message", "details"}
    return value


def declared(*script: str) -> tuple[Bridge, FakeModel]:
    bridge, model = make(*script)
    assert message(bridge.declare(TOOLS, ""))["type"] == "declared"
    return bridge, model


def drive(run: object) -> list[dict[str, Any]]:
    assert isinstance(run, Run)
    events = []
    while text := run.step():
        events.append(message(text))
    assert run.step() == ""
    return events


def test_declaring_tells_the_tools_and_their_price() -> None:
    bridge, model = make()
    answer = message(bridge.declare(TOOLS, "2026-09-18T09:41:00"))
    assert answer["type"] == "declared" and answer["tools"] == ["setLights"] and answer["problem"] is None
    assert answer["prefix_tokens"] == model.sessions[0].pinned
    assert "date: 2026-09-18 Fri 09:41" in TOKENIZER.decode(model.sessions[0].context)


@pytest.mark.usefixtures("default_contract")
def test_the_contract_is_areole_unless_another_is_declared() -> None:
    bridge, _ = make()
    assert message(bridge.declare(TOOLS))["contract"] == "areole"
    assert message(bridge.declare(TOOLS, "", "{}"))["contract"] == "areole"
    for name in CONTRACTS:
        assert message(bridge.declare(TOOLS, "", json.dumps({"contract": name})))["contract"] == name
    assert message(bridge.declare(TOOLS))["contract"] == "areole"


@pytest.mark.usefixtures("default_contract")
def test_a_declared_contract_decides_what_is_withheld() -> None:
    def names(**options: object) -> tuple[list[str], list[str]]:
        bridge, _ = make(GOOD)
        assert message(bridge.declare(TOOLS, "", json.dumps(options)))["type"] == "declared"
        result = drive(bridge.begin("don't light the hall to 2"))[-1]["result"]
        return tuple([one["name"] for one in result[key]] for key in ("function_calls", "suppressed_calls"))  # type: ignore[return-value]

    assert names() == names(contract="areole") == names(gates=True) == ([], ["setLights"])
    assert names(contract="raw") == names(gates=False) == names(gates={"negation": False}) == (["setLights"], [])
    assert names(gates={"negation": True, "floor": False}) == ([], ["setLights"])


@pytest.mark.usefixtures("default_contract")
def test_reasons_are_in_the_result_if_asked_for() -> None:
    bridge, _ = make(GOOD)
    bridge.declare(TOOLS, "", '{"explain":true}')
    told = drive(bridge.begin("don't light the hall to 2"))[-1]["result"]["areole"]
    assert told["contract"] == "areole"
    (reason,) = told["reasons"]
    assert set(reason) == {"gate", "call", "tool", "argument", "why"}
    assert (reason["gate"], reason["call"], reason["tool"], reason["argument"]) == ("negation", 0, "setLights", None)
    assert "don't light the hall" in reason["why"]
    bridge.declare(TOOLS)
    assert "areole" not in drive(bridge.begin("don't light the hall to 2"))[-1]["result"]


@pytest.mark.parametrize(
    "options",
    [
        *("{", "[]", "null", '"areole"', '{"contracts":"areole"}', '{"max_new_tokens":5}'),
        *('{"contract":"neddle"}', '{"contract":5}', '{"contract":["areole"]}'),
        *('{"gates":"negation"}', '{"gates":["negation"]}', '{"gates":0}', '{"gates":{"grammer":false}}'),
    ],
)
def test_declaring_with_other_options_is_refused_and_the_old_tools_stay(options: str) -> None:
    bridge, model = declared(GOOD)
    refused(bridge.declare('[{"name":"y"}]', "", options), "request_option")
    assert not model.sessions[0].closed
    assert drive(bridge.begin("x"))[-1]["result"]["function_calls"][0]["name"] == "setLights"


def test_text_that_is_no_list_of_tools_is_taken_and_the_problem_told() -> None:
    bridge, _ = make()
    answer = message(bridge.declare("garbage", ""))
    assert answer["prefix_tokens"] == 9 and answer["tools"] == []
    assert answer["problem"]["code"] == "tools_json" and answer["problem"]["details"]["line"] == 1
    (result,) = drive(bridge.begin("x", "{}"))
    assert result["result"]["reasoning"] == "no tools declared, returning the empty call"


def test_a_request_gives_tokens_and_one_result() -> None:
    bridge, _ = declared(GOOD)
    *tokens, result = drive(bridge.begin("light the hall", '{"max_new_tokens":100}'))
    assert [event["id"] for event in tokens] == ids(GOOD)
    assert {event["type"] for event in tokens} == {"token"}
    assert all(set(event) == {"type", "id", "delta", "phase", "forced"} for event in tokens)
    assert "".join(event["delta"] for event in tokens if event["phase"] == "call") == CALL
    assert result["type"] == "result" and result["tokens"] == len(tokens) == result["timings"]["tokens"]
    assert set(result) == {"type", "json", "result", "tokens", "prompt_tokens", "timings", "text"}
    assert result["result"]["function_calls"] == [
        {"name": "setLights", "arguments": {"roomName": "hall", "level": 2.0}}
    ]
    assert '"level":2.0' in result["json"] and json.loads(result["json"]) == result["result"]


def test_probabilities_on_request() -> None:
    bridge, _ = declared(GOOD)
    *tokens, _ = drive(bridge.begin("x", '{"probabilities":true}'))
    assert {event["probability"] for event in tokens} == {0.75}


def test_an_unusable_call_is_a_result_that_says_so() -> None:
    bridge, _ = declared("<think></think>\n<tool_call>no</tool_call>")
    result = drive(bridge.begin("x"))[-1]
    assert result["result"]["success"] is False and result["failure"]["code"] == "call_unparsable"


def test_cancelling() -> None:
    bridge, model = declared(GOOD)
    before = list(model.sessions[0].context)
    run = bridge.begin("light the hall")
    assert isinstance(run, Run)
    run.step()
    refused(bridge.begin("other"), "request_busy")
    run.cancel()
    refused(run.step(), "cancelled")
    assert run.step() == "" and model.sessions[0].context == before
    assert drive(bridge.begin("light the hall"))[-1]["result"]["success"] is True


def test_dropping_a_run_cancels_it() -> None:
    bridge, model = declared(GOOD)
    before = list(model.sessions[0].context)
    run = bridge.begin("light the hall")
    assert isinstance(run, Run)
    run.step()
    del run
    assert model.sessions[0].context == before


def test_errors_in_the_middle_come_back_as_values() -> None:
    bridge, model = declared(GOOD)
    model.sessions[0].fail_in = 5
    events = drive(bridge.begin("x"))
    refused(json.dumps(events[-1]), "core_bad_argument")
    model.sessions[0].fail_in = None
    assert drive(bridge.begin("x"))[-1]["result"]["success"] is True


@pytest.mark.parametrize(
    ("text", "options", "code"),
    [
        ("x", "{", "request_option"),
        ("x", "[]", "request_option"),
        ("x", '{"max_tokens":5}', "request_option"),
        ("x", '{"max_new_tokens":"5"}', "request_option"),
        ("x", '{"max_new_tokens":8192}', "context_full"),
        (None, "{}", "request_text"),
    ],
)
def test_requests_that_are_refused(text: Any, options: str, code: str) -> None:
    bridge, _ = declared(GOOD)
    refused(bridge.begin(text, options), code)
    assert drive(bridge.begin("x"))[-1]["result"]["success"] is True


def test_before_any_tools() -> None:
    bridge, _ = make()
    refused(bridge.begin("x"), "request_unknown")
    assert message(bridge.reset()) == {"type": "reset"}


def test_new_tools_take_the_place_of_the_old_and_bad_ones_do_not() -> None:
    bridge, model = declared(GOOD)
    refused(bridge.declare(json.dumps([{"name": "x", "description": "word " * 9000}]), ""), "context_full")
    refused(bridge.declare(TOOLS, None), "request_text")  # type: ignore[arg-type]
    assert drive(bridge.begin("x"))[-1]["result"]["success"] is True
    bridge.declare('[{"name":"y"}]', "")
    old, new = model.sessions
    assert old.closed and not new.closed


def test_reset_starts_over() -> None:
    bridge, model = declared(GOOD)
    fresh = list(model.sessions[0].context)
    drive(bridge.begin("x"))
    assert message(bridge.reset()) == {"type": "reset"}
    assert model.sessions[0].context == fresh


def test_past_turns_are_fed_and_go_on() -> None:
    bridge, model = declared(GOOD)
    calls = [{"name": "setLights", "arguments": {"roomName": "hall"}}]
    turns = [
        {"said": "light the hall", "is_result": False, "calls": calls, "text": "", "reasoning": "the hall"},
        {"said": '[{"ok":true}]', "is_result": True, "calls": None, "text": "Done."},
    ]
    answer = message(bridge.replay(json.dumps(turns)))
    assert answer["type"] == "replayed" and answer["tokens"] > 10
    context = TOKENIZER.decode(model.sessions[0].context)
    assert "light the hall" in context and "Done." in context
    assert drive(bridge.begin("and now"))[-1]["type"] == "result"
    refused(bridge.replay('{"said": "x"}'), "request_option")
    refused(bridge.replay('[{"said": "x", "by": "me"}]'), "request_option")
    assert message(bridge.replay("[]"))["tokens"] == 0


def test_embedding_needs_no_tools() -> None:
    bridge, _ = make()
    assert message(bridge.embed("x"))["embedding"][:2] == pytest.approx([0.6, 0.8])
    refused(bridge.embed(5), "request_text")  # type: ignore[arg-type]


def test_info() -> None:
    bridge, _ = make()
    assert message(bridge.info()) == {
        "type": "info", "flavor": "native", "kernels": "dots", "memory_bytes": 3 * 2**20, "max_tokens": 8192,
        "kv_window": 256, "archive": {"name": "scripted"},
    }  # fmt: skip


def test_closing() -> None:
    bridge, model = declared(GOOD)
    assert message(bridge.close()) == message(bridge.close()) == {"type": "closed"}
    assert model.closed
    for call in (bridge.info, bridge.reset, lambda: bridge.begin("x"), lambda: bridge.embed("x"),
                 lambda: bridge.declare("[]", ""), lambda: bridge.golden("{}")):  # fmt: skip
        refused(call(), "request_closed")


def test_bugs_are_errors_too(monkeypatch: pytest.MonkeyPatch) -> None:
    bridge, _ = make()
    monkeypatch.setattr(module, "embed", lambda *_: 1 / 0)
    assert "ZeroDivisionError" in refused(bridge.embed("x"), "internal")["message"]
    refused(bridge.golden("[]"), "request_option")
    refused(bridge.golden("{"), "internal")


def test_starting_without_pyodide_is_an_error_not_an_exception() -> None:
    refused(module.start(object(), object(), 64, 10, "x"), "internal")
