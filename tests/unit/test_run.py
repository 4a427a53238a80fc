"""run, extract, stateless use, warnings and the cache of prefixes, over a scripted model."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from fakes import TOKENIZER, FakeModel, ScriptedSession

from areole import sharing
from areole.agent import Answer, Needle
from areole.errors import ArgumentsError, CallParseError, ContextFullError, ExtractError, RequestError, ToolsError
from areole.prefixes import PrefixCache
from areole.results import Call, Ran, Result, RunResult, plain
from areole.sharing import LongConversationWarning, dated_facts, shared_model
from areole.tools import Field, Tool, tool

pytestmark = pytest.mark.usefixtures("raw_contract")


class Mode(enum.Enum):
    DAY = "day"
    NIGHT = "night"


@dataclasses.dataclass
class Weather:
    city: str
    degrees: float


@dataclasses.dataclass
class Invoice:
    """An invoice."""

    number: str
    total: float
    due: datetime.date | None = None
    lines: list[str] = dataclasses.field(default_factory=list)


class Pair(TypedDict):
    a: int
    b: int


def said(*calls: tuple[str, dict[str, Any]], reasoning: str = "ok") -> str:
    text = json.dumps([{"name": name, "arguments": arguments} for name, arguments in calls], separators=(",", ":"))
    return f"<think>\n{reasoning}\n</think>\n<tool_call>{text}</tool_call>"


def prose(text: str) -> str:
    return f"<think></think>\n{text}"


NOTHING = "<think></think>\n<tool_call>[]</tool_call>"


def needle(*script: str, tools: Any, **options: Any) -> tuple[Needle, FakeModel]:
    """The contract is raw unless given: what the script says reaches the loop as it is."""
    model = FakeModel(*script)
    return Needle(model, tools, **{"contract": "raw", **options}), model  # type: ignore[arg-type]


def text_of(model: FakeModel, place: int = 0) -> str:
    return TOKENIZER.decode(model.sessions[place].context)


class House:
    """Functions that remember how they were called."""

    def __init__(self) -> None:
        self.log: list[Any] = []

    def get_weather(self, city: str) -> Weather:
        """Get the weather.

        Args:
            city: a city's name
        """
        self.log.append(city)
        return Weather(city, 21.5)

    def set_mode(self, roomName: str, mode: Mode, level: Annotated[int, Field(ge=0)] = 3) -> None:  # noqa: N803
        self.log.append((roomName, mode, level))

    def fail(self, how: str) -> None:
        self.log.append(how)
        raise ValueError(how)

    @property
    def tools(self) -> list[Callable[..., Any]]:
        return [self.get_weather, self.set_mode, self.fail]


def test_run_executes_the_calls_and_gives_their_results_back() -> None:
    house = House()
    first = said(("get_weather", {"city": "Lagos"}), ("set_mode", {"room_name": "hall", "mode": "night"}))
    agent, model = needle(first, prose("It is warm."), tools=house.tools)
    result = agent.run("weather in Lagos, and night in the hall")
    assert house.log == ["Lagos", ("hall", Mode.NIGHT, 3)]
    assert result.results == [Weather("Lagos", 21.5), None] == result["results"]
    assert [one.call for one in result.ran] == [
        Call("get_weather", {"city": "Lagos"}), Call("set_mode", {"roomName": "hall", "mode": "night"}),
    ]  # fmt: skip
    assert (result.text, result.stopped, result.failure) == ("It is warm.", "done", None)
    assert result.result.type == "respond" and result["type"] == "respond"
    assert '<tool_result>[{"city":"Lagos","degrees":21.5},null]</tool_result>' in text_of(model)
    assert "<|im_start|>user\nweather" not in text_of(model) and text_of(model).count("<|im_start|>tool\n") == 1
    assert result.to_json()["results"] == [{"city": "Lagos", "degrees": 21.5}, None]
    assert json.loads(json.dumps(result.to_json())) == result.to_json()
    assert set(result) == {*result.result, "results"} and len(result) == len(list(result))


def test_run_goes_on_while_there_are_calls_and_stops_at_the_limit() -> None:
    house = House()
    turns = [said(("get_weather", {"city": name})) for name in ("A", "B", "C")]
    agent, _ = needle(*turns, prose("Done."), tools=house.tools)
    result = agent.run("all of them")
    assert house.log == ["A", "B", "C"] and result.stopped == "done" and result.text == "Done."
    agent.reset()
    house.log.clear()
    limited = agent.run("all of them", max_turns=2)
    assert house.log == ["A", "B"] and limited.stopped == "limit"
    assert limited.result.function_calls == (Call("get_weather", {"city": "C"}),)
    agent.reset()
    assert agent.run("x", max_steps=0).ran == () and house.log == ["A", "B"]


def test_run_without_calls_is_one_answer() -> None:
    agent, model = needle(NOTHING, tools=House().tools)
    result = agent.run("a poem")
    assert (result.ran, result.results, result.stopped) == ((), [], "done")
    assert "<tool_result>" not in text_of(model)


def test_what_a_function_raises_is_told_and_reported() -> None:
    house = House()
    first = said(("fail", {"how": "no power"}), ("get_weather", {"city": "Bern"}))
    agent, model = needle(first, prose("Sorry."), tools=house.tools)
    result = agent.run("x")
    assert house.log == ["no power", "Bern"]
    assert isinstance(result.ran[0].error, ValueError) and not result.ran[0].ok and result.ran[1].ok
    assert result.results == [{"error": "no power"}, Weather("Bern", 21.5)]
    assert '[{"error":"no power"},{"city":"Bern","degrees":21.5}]' in text_of(model)


def test_what_cannot_be_told_does_not_end_the_run() -> None:
    class Odd:
        def __str__(self) -> str:
            raise OSError("no text")

    odd = Odd()
    log: list[str] = []

    def make() -> Odd:
        log.append("make")
        return odd

    def count() -> int:
        return 10**5000

    agent, model = needle(said(("make", {}), ("count", {})), prose("ok"), tools=[make, count])
    result = agent.run("x")
    assert result.text == "ok" and log == ["make"]
    assert result.ran[0].value is odd and isinstance(result.ran[0].error, OSError)
    assert '[{"error":"no text"},"0x' in text_of(model)


def test_an_error_without_text_is_told_by_its_name() -> None:
    assert Ran(Call("x", {}), error=KeyError()).reported() == {"error": "KeyError"}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            ("set_mode", {"room_name": "hall", "mode": "noon"}),
            'set_mode: mode is "noon"; needed one of ["day", "night"].',
        ),
        (("set_mode", {"room_name": "hall", "mode": "day", "level": -1}), "set_mode: level is -1; needed at least 0."),
        (("set_mode", {"mode": "day"}), "set_mode: roomName is missing; needed a value, for it is required."),
        (("bare", {}), "bare has no function to run"),
    ],
)
def test_calls_that_cannot_run_are_told_why(call: tuple[str, dict[str, Any]], message: str) -> None:
    house = House()
    agent, model = needle(said(call), prose("Hm."), tools=[*house.tools, {"name": "bare"}])
    result = agent.run("x")
    assert house.log == [] and result.results == [{"error": message}]
    assert json.dumps(message, ensure_ascii=False) in text_of(model)
    assert isinstance(result.ran[0].error, (ArgumentsError, ToolsError))


def flagged(agent: Needle, monkeypatch: pytest.MonkeyPatch, *names: str, **more: Any) -> None:
    """Answers carry a validation, as the gates make it."""
    plain_answer = agent._answer_of

    def answer_of(*turn: Any) -> Answer:
        answer = plain_answer(*turn)
        found = {"validation": {"ungrounded": list(names), "negation": False}, **more}
        return dataclasses.replace(answer, envelope={**answer.envelope, **found})

    monkeypatch.setattr(agent, "_answer_of", answer_of)


def test_a_call_with_a_made_up_value_is_not_run_unless_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    for strict in (True, False):
        house = House()
        first = said(("get_weather", {"city": "Lagos"}), ("fail", {"how": "x"}))
        agent, _ = needle(first, prose("Hm."), tools=house.tools)
        flagged(agent, monkeypatch, "get_weather.city", "get_weather_now.city")
        result = agent.run("x", strict=strict)
        assert house.log == (["x"] if strict else ["Lagos", "x"])
        assert (result.results[0] == {"error": "the request does not say city"}) is strict


def test_a_failed_answer_ends_the_run() -> None:
    agent, _ = needle("<think></think>\n<tool_call>garbage</tool_call>", tools=House().tools)
    result = agent.run("x")
    assert result.stopped == "failed" and isinstance(result.failure, CallParseError) and result["success"] is False


def test_results_that_no_longer_fit_do_not_lose_what_was_done() -> None:
    house = House()

    def big() -> str:
        house.log.append("big")
        return "word " * 500

    agent, model = needle(said(("big", {})), prose("x"), tools=[big], max_tokens=400)
    result = agent.run("x", max_new_tokens=100)
    assert house.log == ["big"] and result.stopped == "failed" and isinstance(result.failure, ContextFullError)
    assert result.ran[0].ok and result.result.function_calls == (Call("big", {}),)
    before = list(model.sessions[0].context)
    with pytest.raises(ContextFullError):
        agent.run("word " * 500, max_new_tokens=100)
    assert model.sessions[0].context == before


@pytest.mark.parametrize("turns", [-1, 1.5, True, "2"])
def test_bad_limits_are_refused_before_anything_runs(turns: Any) -> None:
    agent, model = needle(NOTHING, tools=House().tools)
    with pytest.raises(RequestError) as error:
        agent.run("x", max_turns=turns)
    assert error.value.code == "request_option" and model.sessions[0].log.count("snapshot") == 1


def test_async_functions_need_arun() -> None:
    async def wait() -> None:
        pass

    agent, _ = needle(said(("wait", {})), tools=[wait])
    with pytest.raises(RequestError, match="wait must be awaited"):
        agent.run("x")


def test_run_is_one_conversation_even_without_state() -> None:
    house = House()
    agent, model = needle(said(("get_weather", {"city": "A"})), prose("ok"), tools=house.tools, stateless=True)
    for _ in range(2):
        assert agent.run("x").text == "ok"
    assert house.log == ["A", "A"] and text_of(model).count("\nx<|im_end|>") == 1


def test_a_typed_result_is_the_envelope_with_names() -> None:
    agent, _ = needle(said(("get_weather", {"city": "A"})), tools=House().tools)
    answer = agent.answer("x")
    result = answer.result
    assert result.function_calls == (Call("get_weather", {"city": "A"}),) and result.suppressed_calls == ()
    assert result.to_json() == answer.envelope == dict(result)
    assert list(result.to_json()) == list(answer.envelope) and result["confidence"] == result.confidence
    assert result.validation is None and result.ungrounded == ()
    assert result.function_calls[0].to_json() == {"name": "get_weather", "arguments": {"city": "A"}}
    result.to_json()["function_calls"] = []
    assert result["function_calls"] and Result.of(answer.envelope) == result
    empty, _ = needle(tools=[])
    short = empty.answer("x").result
    assert short.error_code is None and "error_code" not in short and short.confidence == 1.0


def test_a_results_validation_and_suppressed_calls() -> None:
    envelope = {"type": "call", "success": True, "validation": {"ungrounded": ["a.b"], "negation": True}, "new": [1],
                "suppressed_calls": [{"name": "a", "arguments": {"b": 1}}]}  # fmt: skip
    result = Result.of(envelope)
    assert result.ungrounded == ("a.b",) and result.suppressed_calls == (Call("a", {"b": 1}),)
    assert result.to_json() == envelope and list(result.to_json()) == list(envelope)


def test_python_values_as_json() -> None:
    class Odd:
        def __str__(self) -> str:
            return "odd"

    value = {
        1: Weather("A", float("nan")), "b": {3, 1}, "c": (Mode.DAY, datetime.date(2026, 9, 18)), "d": Odd(), "e": None,
    }  # fmt: skip
    wanted = {"1": {"city": "A", "degrees": "nan"}, "b": [1, 3], "c": ["day", "2026-09-18"], "d": "odd", "e": None}
    assert plain(value) == wanted
    knot: list[Any] = []
    knot.append(knot)
    json.dumps(plain(knot))


INVOICE = {"number": "A-1", "total": 12.5, "due": "2026-09-18"}


def test_extract_gives_the_typed_record() -> None:
    agent, model = needle(said(("invoice", INVOICE)), tools=House().tools, system="user: Sam")
    found = agent.extract("Invoice A-1 over 12.50, due 2026-09-18", Invoice)
    assert found == Invoice("A-1", 12.5, datetime.date(2026, 9, 18))
    own = text_of(model, 1)
    assert "user: Sam" in own and '"name":"invoice"' in own and "get_weather" not in own
    assert model.sessions[1].closed and text_of(model).count("<|im_end|>") == 1  # the conversation has no turn


SCHEMA = {"type": "object", "properties": {"number": {"type": "string"}, "total": {"type": "number"}}}


@pytest.mark.parametrize(
    ("schema", "name"),
    [
        (SCHEMA, "record"),
        ({**SCHEMA, "title": "Bill Of Sale", "description": "x"}, "bill_of_sale"),
        ({"name": "invoice", "description": "x", "parameters": SCHEMA}, "invoice"),
        ({"type": "function", "function": {"name": "invoice", "parameters": SCHEMA}}, "invoice"),
        (Tool("invoice", parameters=SCHEMA), "invoice"),
        ({"name": "x", "parameters": None}, "x"),
    ],
    ids=str,
)
def test_extract_takes_schemas_and_declarations(schema: Any, name: str) -> None:
    agent, _ = needle(said((name, {"number": "A", "total": 1})), tools=[])
    assert agent.extract("x", schema) == {"number": "A", "total": 1}


def test_extract_a_typed_dict() -> None:
    agent, _ = needle(said(("pair", {"a": 1.0, "b": 2})), tools=[])
    found = agent.extract("one and two", Pair)
    assert found == {"a": 1, "b": 2} and isinstance(found, dict) and type(found["a"]) is int


@pytest.mark.parametrize("schema", [5, "text", {"type": "array"}, {"title": "x"}, None])
def test_extract_refuses_what_describes_no_record(schema: Any) -> None:
    agent, _ = needle(tools=[])
    with pytest.raises(ToolsError) as error:
        agent.extract("x", schema)
    assert error.value.code == "tools_shape"


@pytest.mark.parametrize(
    ("script", "kind", "code"),
    [
        (NOTHING, ExtractError, "extract_nothing"),
        ("<think></think>\n<tool_call>[{", CallParseError, "call_unparsable"),
        (said(("invoice", {"number": "A"})), ArgumentsError, "call_arguments"),
        (said(("invoice", INVOICE), ("invoice", {**INVOICE, "number": "B"})), ExtractError, "extract_several"),
    ],
)
def test_extract_raises_typed_errors(script: str, kind: type[Exception], code: str) -> None:
    agent, model = needle(script, tools=[])
    with pytest.raises(kind) as error:
        agent.extract("x", Invoice)
    assert getattr(error.value, "code", None) == code
    assert all(session.closed for session in model.sessions)


def test_extract_several() -> None:
    other = {**INVOICE, "number": "B"}
    agent, _ = needle(said(("invoice", INVOICE), ("invoice", other), ("invoice", INVOICE)), tools=[])
    found = agent.extract("x", Invoice, many=True)
    assert [one.number for one in found if isinstance(one, Invoice)] == ["A-1", "B", "A-1"]
    assert agent.extract("x", Invoice, strict=False) == found[0]
    same, _ = needle(said(("invoice", INVOICE), ("invoice", INVOICE)), tools=[])
    assert same.extract("x", Invoice) == found[0]


@pytest.mark.parametrize(
    ("names", "more"),
    [
        (["Invoice.total"], {}),
        ([], {"function_calls": [], "suppressed_calls": [{"name": "Invoice", "arguments": INVOICE}]}),
    ],
)
def test_extract_withholds_what_the_text_does_not_support(
    monkeypatch: pytest.MonkeyPatch, names: list[str], more: dict[str, Any]
) -> None:
    agent, _ = needle(said(("invoice", INVOICE)), tools=[])
    plain_sibling = agent.sibling

    def sibling(tools: Any) -> Needle:
        one = plain_sibling(tools)
        flagged(one, monkeypatch, *names, **more)
        return one

    monkeypatch.setattr(agent, "sibling", sibling)
    with pytest.raises(ExtractError) as error:
        agent.extract("x", Invoice)
    assert error.value.code == "extract_withheld" and error.value.details["records"] == [INVOICE]
    assert error.value.details["ungrounded"] == names
    assert agent.extract("x", Invoice, strict=False) == Invoice("A-1", 12.5, datetime.date(2026, 9, 18))


def test_stateless_requests_do_not_see_each_other() -> None:
    agent, model = needle(said(("get_weather", {"city": "A"})), tools=House().tools, stateless=True)
    for word in ("one", "two", "three", "four", "five", "six"):
        assert agent.complete(word)["function_calls"]
        assert text_of(model).count("<|im_start|>assistant") == 1 and f"\n{word}<|im_end|>" in text_of(model)
    assert agent.complete('{"ok":true}')["function_calls"] and "<tool_result>" not in text_of(model)


def test_stateless_for_a_while() -> None:
    call = said(("get_weather", {"city": "A"}))
    agent, model = needle(call, prose("Warm."), tools=House().tools)
    agent.complete("one")
    before = list(model.sessions[0].context)
    with agent.stateless() as same:
        assert same is agent
        assert agent.complete("two")["function_calls"] and agent.complete("three")["function_calls"]
        assert "one" not in text_of(model) and "two" not in text_of(model)
    assert model.sessions[0].context == before
    assert agent.answer('{"sky":"clear"}').text == "Warm."  # the call from before still waits for its result
    with pytest.raises(KeyError), agent.stateless():
        raise KeyError
    assert text_of(model).count("<|im_start|>assistant") == 2
    with agent.stateless():
        agent.close()
    without, _ = needle(tools=[])
    with without.stateless():
        assert without.complete("x")["confidence"] == 1.0


def test_a_long_conversation_is_warned_of_once() -> None:
    agent, _ = needle(*[said(("get_weather", {"city": "A"})), prose("ok")] * 9, tools=House().tools)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(4):
            agent.run("x")
    with pytest.warns(LongConversationWarning, match="reset") as caught:
        agent.run("x")
    assert [Path(one.filename).name for one in caught] == [Path(__file__).name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        agent.run("x")
        agent.reset()
        agent.run("x")


def test_declaring_the_same_tools_again_does_not_feed_them_again() -> None:
    model = FakeModel(NOTHING)
    tools = [{"name": "a"}, {"name": "b"}]
    first = Needle(model, tools, "user: Sam", contract="raw")  # type: ignore[arg-type]
    second = Needle(model, json.dumps(tools), "user: Sam", contract="raw")  # type: ignore[arg-type]
    assert not first.prefix_cached and second.prefix_cached and second.prefix_seconds == 0
    assert model.sessions[1].log == ["restore"]
    assert second.complete("x") and text_of(model, 1).startswith(TOKENIZER.decode(model.sessions[0].context))
    second.reset()
    assert model.sessions[1].context == model.sessions[0].context
    for other in (
        {"tools": [{"name": "a"}]}, {"system": "user: Tom"}, {"max_tokens": 500}, {"kv_window": 0},
    ):  # fmt: skip
        different: dict[str, Any] = {"tools": tools, "system": "user: Sam", **other}
        assert not Needle(model, **different, contract="raw").prefix_cached  # type: ignore[arg-type]
    assert not Needle(FakeModel(), tools, "user: Sam", contract="raw").prefix_cached  # type: ignore[arg-type]
    assert PrefixCache.of(model) is PrefixCache.of(model) and len(PrefixCache.of(model)) == 5


class Fed:
    def __init__(self, size: int) -> None:
        self.data = bytes(size)


def test_the_cache_keeps_what_was_used_last() -> None:
    cache = PrefixCache(count=2, capacity=100)
    sizes = (10, 100, None)
    kept = {name: Fed(size) for name, size in (("a", 40), ("b", 40), ("c", 40), ("large", 101), ("d", 90))}
    cache.keep([1], sizes, kept["a"])
    cache.keep([2], sizes, kept["b"])
    assert cache.find([1], sizes) is kept["a"] and cache.find([1], (10, 101, None)) is None
    cache.keep([3], sizes, kept["c"])
    assert cache.find([2], sizes) is None and cache.find([1], sizes) is kept["a"] and cache.nbytes == 80
    cache.keep([4], sizes, kept["large"])
    assert len(cache) == 2 and cache.find([4], sizes) is None
    cache.keep([5], sizes, kept["d"])
    assert len(cache) == 1 and cache.nbytes == 90 and cache.find([5], sizes) is kept["d"]
    cache.keep([5], sizes, kept["a"])
    assert cache.nbytes == 40
    cache.count = 0
    cache.trim()
    assert (len(cache), cache.nbytes) == (0, 0)
    cache.keep([1], sizes, kept["a"])
    assert len(cache) == 0
    cache.count = 5
    cache.keep([1], sizes, kept["a"])
    cache.clear()
    assert (len(cache), cache.nbytes, cache.hits, cache.misses) == (0, 0, 3, 3)


def test_a_prefix_that_failed_is_not_kept() -> None:
    model = FakeModel(NOTHING)

    def break_it(session: ScriptedSession) -> None:
        session.prefix_capacity = 1

    model.on_session = break_it
    with pytest.raises(ContextFullError):
        Needle(model, [{"name": "a"}])  # type: ignore[arg-type]
    assert len(PrefixCache.of(model)) == 0


def test_functions_are_declared_and_two_of_one_name_refused() -> None:
    @tool(name="lamp")
    def other(on: bool) -> None:
        """Light."""

    agent, model = needle(tools=[other])
    assert (
        '[{"name":"lamp","description":"Light.","parameters":{"type":"object","properties":{"on":{"type":"boolean"}}'
        in (text_of(model))
    )
    assert [spec.name for spec in agent.tools] == ["lamp"] == list(agent.runnable)
    with pytest.raises(ToolsError):
        needle(tools=[other, other])


def test_the_date_fact() -> None:
    now = datetime.datetime(2026, 9, 18, 9, 41)
    assert dated_facts("", now) == "date: 2026-09-18 Fri 09:41"
    assert dated_facts("user: Sam", now) == "date: 2026-09-18 Fri 09:41; user: Sam"
    assert dated_facts("update: x", now).startswith("date: 2026-09-18 Fri 09:41; ")
    for kept in ("date: today", "since 2026-09-01", ' {"user": "Sam"}'):
        assert dated_facts(kept, now) == kept
    agent, model = needle(tools=[{"name": "a"}], auto_date=True)
    assert "<|im_start|>system\ndate: 20" in text_of(model) and agent.system.startswith("date: 20")


def test_weights_by_path_are_loaded_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    loads: list[Path] = []

    class Loaded:
        closed = False

    def load(path: Path) -> Loaded:
        loads.append(path)
        return Loaded()

    monkeypatch.setattr(sharing.Model, "load", load)
    monkeypatch.setattr(sharing, "_SHARED", {})
    weights = tmp_path / "needle3.cact"
    weights.write_bytes(b"x")
    monkeypatch.setenv("AREOLE_MODEL", str(weights))
    first = shared_model(None)
    assert first is shared_model(weights) is shared_model(str(weights)) and loads == [weights.resolve()]
    first.closed = True  # type: ignore[misc]
    assert shared_model(None) is not first
    with pytest.raises(RequestError, match="not at"):
        shared_model(tmp_path / "none.cact")
    with pytest.raises(RequestError, match=r"Needle\(tools="):
        Needle([House().get_weather])  # type: ignore[arg-type]


def test_the_last_envelope_has_the_results_as_json() -> None:
    run = RunResult(Result.of({"type": "call", "success": True}), (Ran(Call("a", {}), {1, 2}),))
    assert run["results"] == [{1, 2}] and run.to_json() == {"type": "call", "success": True, "results": [[1, 2]]}
