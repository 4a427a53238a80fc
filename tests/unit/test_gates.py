"""Each gate by itself, what they come to together, and the agent's envelope."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

import pytest

from areole.contract import CONTRACTS, Contract
from areole.evidence import Evidence
from areole.gates import FLOOR, Context, Outcome, Steered, apply, confidence_of
from areole.literal import withholds
from areole.postprocess import Draft
from areole.prompt import render_tools

TOOLS = {
    tool.exposed: tool
    for tool in render_tools(
        [
            {
                "name": "setLights", "description": "Turn lights on or dim them.",
                "parameters": {
                    "properties": {
                        "roomName": {"type": "string"},
                        "level": {"type": "integer", "minimum": 0, "maximum": 100},
                        "mode": {"type": "string", "enum": ["eco", "party", "movie"]},
                    },
                    "required": ["roomName", "level"],
                },
            },
            {
                "name": "dim", "description": "Dim a lamp.",
                "parameters": {
                    "properties": {"room": {"type": "string"}, "level": {"type": "integer"}}, "required": ["room"],
                },
            },
            {"name": "lock_door", "parameters": {"properties": {"door": {"type": "string"}}, "required": ["door"]}},
            {
                "name": "pick", "description": "Pick a mode.",
                "parameters": {"properties": {"mode": {"enum": ["eco", "party", "movie"]}}, "required": ["mode"]},
            },
            {"name": "find_phone", "parameters": {"properties": {}}},
            {
                "name": "reply", "description": "Reply to a message.",
                "parameters": {
                    "properties": {"text": {"type": "string"}, "hint": {"type": "string"}}, "required": ["text"],
                },
            },
            {
                "name": "plan",
                "parameters": {
                    "properties": {
                        "stops": {
                            "type": "array", "maxItems": 3,
                            "items": {
                                "type": "object",
                                "properties": {"city": {"type": "string"}, "nights": {"type": "integer"}},
                            },
                        },
                        "place": {"type": "object", "properties": {"city": {"type": "string"}}},
                    },
                    "required": ["stops"],
                },
            },
            {
                "name": "book",
                "parameters": {
                    "properties": {
                        "stays": {
                            "type": "array",
                            "items": {
                                "type": "object",
                                "properties": {"city": {"type": "string"}, "nights": {"type": "integer"}},
                                "required": ["city", "nights"],
                            },
                        },
                    },
                    "required": ["stays"],
                },
            },
            {
                "name": "fly",
                "parameters": {
                    "properties": {
                        "origin": {"type": "string"}, "to": {"type": "string"}, "title": {"type": "string"},
                    },
                    "required": ["to"],
                },
            },
            {"name": "switch", "parameters": {"properties": {"on": {"type": "boolean"}}, "required": ["on"]}},
        ]
    ).declared
}  # fmt: skip


def call(name: str, first: dict[str, float] | None = None, **arguments: object) -> Draft:
    return Draft(TOOLS[name], arguments, first or {})


def judged(
    text: str,
    *drafts: Draft,
    contract: str | Contract = "areole",
    head: float = 0.9,
    reasoning: str = "",
    steered: Sequence[Steered] = (),
    facts: str = "",
    alone: bool = False,
    earlier: Sequence[str] = (),
) -> Outcome:
    rules = CONTRACTS[contract] if isinstance(contract, str) else contract
    evidence = Evidence(text, facts, tuple(earlier))
    return apply(drafts, Context(rules, evidence, head, reasoning, tuple(steered), alone))


def test_a_call_out_of_earlier_turns_is_withheld_where_a_number_of_the_request_is_lost() -> None:
    before = ["light the hall"]

    def asked(text: str) -> Outcome:
        return judged(text, call("set_lights", room_name="hall", level=12), head=0.83, earlier=before)

    assert gates(asked("what is 12 times 34")) == [("steering", None)]
    for text in ("now 12", "what is 12 times 12", "dim it to 12, I paid 34", "the hall to 12, I paid 34"):
        assert asked(text).suppressed_calls == [], text


def gates(outcome: Outcome) -> list[tuple[str, str | None]]:
    return [(reason.gate, reason.argument) for reason in outcome.reasons]


def lights(**more: object) -> Draft:
    return call("set_lights", **{"room_name": "kitchen", "level": 40, **more})


def test_what_is_supported_passes_under_the_callers_names() -> None:
    for contract in CONTRACTS:
        outcome = judged("kitchen lights to 40", lights(), contract=contract)
        assert outcome.function_calls == [{"name": "setLights", "arguments": {"roomName": "kitchen", "level": 40}}]
        assert outcome.suppressed_calls == [] == outcome.reasons
        assert outcome.validation == (None if contract == "raw" else {"ungrounded": [], "negation": False})


def test_no_call_has_no_validation() -> None:
    assert judged("hello").validation is None and judged("hello", contract="needle").function_calls == []


def test_raw_withholds_nothing() -> None:
    outcome = judged("don't", lights(level=900), lights(level=900), contract="raw", head=0.01)
    assert len(outcome.function_calls) == 2 and outcome.reasons == []


def test_the_floor_withholds_the_turn_under_needle() -> None:
    text, pair = "kitchen to 40, lock the front door", [lights(), call("lock_door", door="front")]
    low = judged(text, *pair, contract="needle", head=0.0999)
    assert low.function_calls == [] and len(low.suppressed_calls) == 2
    assert gates(low) == [("floor", None), ("floor", None)]
    assert judged("kitchen lights to 40", lights(), contract="needle", head=FLOOR).suppressed_calls == []
    off = CONTRACTS["needle"].without(["floor"])
    assert judged("kitchen lights to 40", lights(), contract=off, head=0.01).suppressed_calls == []


@pytest.mark.parametrize(
    ("text", "draft"),
    [
        ("lock the front door", call("lock_door", door="front")),  # a word of the tool's name
        ("dim the kitchen to 40", lights()),  # a number among two required values
        ("which mode is eco", call("pick", mode="eco")),  # a word of the description, and an enum's value
    ],
)
def test_the_floor_spares_a_call_that_says_all_its_values_under_areole(text: str, draft: Draft) -> None:
    outcome = judged(text, draft, head=0.0001)
    assert len(outcome.function_calls) == 1 and outcome.reasons == []
    assert outcome.confidence == 0.0001


@pytest.mark.parametrize(
    ("text", "draft"),
    [
        ("the front one, please", call("lock_door", door="front")),  # nothing speaks of the tool
        ("where is my phone", call("find_phone")),  # no value at all
        ("lock the front window", call("lock_door", door="front porch")),  # a value that is only half said
    ],
)
def test_the_floor_withholds_other_calls_under_areole(text: str, draft: Draft) -> None:
    low = judged(text, draft, head=0.0999)
    assert low.function_calls == [] and ("floor", None) in gates(low)
    assert ("floor", None) not in gates(judged(text, draft, head=FLOOR))
    assert ("floor", None) not in gates(judged(text, draft, head=0.01, contract=CONTRACTS["areole"].without(["floor"])))


def test_the_only_tool_declared_needs_no_word_of_its_name_to_be_above_the_floor() -> None:
    draft = call("lock_door", door="front")
    assert judged("the front one, please", draft, head=0.01, alone=True).suppressed_calls == []


def test_a_call_of_which_an_echo_was_left_out_is_not_spared() -> None:
    text = "reply see you soon"
    assert judged(text, call("reply", text="see you soon"), head=0.01).suppressed_calls == []
    echo = judged(text, call("reply", text="see you soon", hint="see you"), head=0.01)
    assert gates(echo) == [("drop_unsupported", "hint"), ("floor", None)]


def test_the_floor_is_not_per_turn_under_areole() -> None:
    low = judged("lock the front door", call("lock_door", door="front"), call("find_phone"), head=0.0999)
    assert [one["name"] for one in low.function_calls] == ["lock_door"]
    assert [one["name"] for one in low.suppressed_calls] == ["find_phone"]


def test_confidence_is_the_least_of_the_head_and_the_first_tokens_of_numbers_and_switches() -> None:
    def level(contract: str, draft: Draft) -> float:
        return confidence_of([draft], Context(CONTRACTS[contract], Evidence("x"), 0.8))

    first = {"level": 0.3, "room_name": 0.01}
    assert level("needle", call("set_lights", first, room_name="x", level=4)) == 0.3
    assert level("needle", call("switch", {"on": 0.2}, on=True)) == 0.2
    assert level("raw", call("switch", {"on": 0.2}, on=True)) == 0.8
    nested = call("plan", {}, place={"city": "Rome"}, stops=[{"city": "Rome"}])
    assert level("needle", nested) == 0.0 and level("areole", nested) == 0.8
    assert level("needle", call("plan", {}, stops=[{"city": "Rome"}])) == 0.8


def test_no_call_is_as_sure_as_the_model_was_of_making_none() -> None:
    def level(contract: str) -> float:
        return apply([], Context(CONTRACTS[contract], Evidence("done"), 0.96, none=0.81)).confidence

    assert level("needle") == level("areole") == 0.81
    assert level("raw") == 0.96


def test_doubt_withholds_only_what_the_request_does_not_say() -> None:
    doubtful = {"on": 0.01}
    assert gates(judged("the pump please", call("switch", doubtful, on=True))) == [("doubt", "on")]
    said = call("set_lights", {"level": 0.01}, room_name="kitchen", level=40)
    assert judged("kitchen lights to 40", said).suppressed_calls == []
    needle = judged("the pump please", call("switch", doubtful, on=True), contract="needle")
    assert needle.confidence == 0.01 and gates(needle) == [("floor", None)]


@pytest.mark.parametrize(
    ("draft", "text", "argument"),
    [
        (lights(level=400), "kitchen lights to 400", "level"),
        (lights(level=-1), "kitchen lights to -1", "level"),
        (lights(level=4.5), "kitchen lights to 4.5", "level"),
        (lights(mode="disco"), "kitchen lights to 40 in disco mode", "mode"),
        (call("set_lights", room_name="kitchen"), "kitchen lights", "level"),
        (call("plan", stops=[{"city": c} for c in ("Rome", "Oslo", "Bonn", "Nice")]), "Rome Oslo Bonn Nice", "stops"),
    ],
)
def test_values_outside_their_schema(draft: Draft, text: str, argument: str) -> None:
    outcome = judged(text, draft)
    assert ("schema", argument) in gates(outcome) and outcome.function_calls == []
    assert judged(text, draft, contract=CONTRACTS["areole"].without(["schema"])).suppressed_calls == []


def test_required_arguments_need_support() -> None:
    outcome = judged("dim the kitchen", lights(level=50))
    assert gates(outcome) == [("grounding", "level")] and "50" in outcome.reasons[0].why
    assert outcome.validation == {"ungrounded": ["setLights.level"], "negation": False}
    assert judged("dim the kitchen to fifty", lights(level=50)).suppressed_calls == []
    assert gates(judged("lock the door", call("lock_door", door="garage"))) == [("grounding", "door")]
    assert gates(judged("lock it", call("lock_door", door=""))) == [("grounding", "door")]
    loose = CONTRACTS["areole"].without(["grounding", "negation"])
    assert judged("dim the kitchen", lights(level=50), contract=loose).validation is None


def test_one_call_withheld_leaves_the_others() -> None:
    text = "lock the front door and dim the kitchen"
    pair = [call("lock_door", door="front"), lights(level=50)]
    outcome = judged(text, *pair)
    assert [one["name"] for one in outcome.function_calls] == ["lock_door"]
    assert [one["name"] for one in outcome.suppressed_calls] == ["setLights"]
    assert outcome.validation == {"ungrounded": [], "negation": False}
    needle = judged(text, *pair, contract="needle")
    assert needle.function_calls == [] and len(needle.suppressed_calls) == 2
    assert needle.validation == {"ungrounded": ["setLights.level"], "negation": False}


def test_an_enums_value_that_is_not_said_needs_a_sure_model() -> None:
    assert judged("something for dancing", call("pick", mode="party"), head=0.8).suppressed_calls == []
    assert gates(judged("something for dancing", call("pick", mode="party"), head=0.3)) == [("grounding", "mode")]
    rival = judged("eco mode", call("pick", mode="party"), head=0.9)
    assert gates(rival) == [("grounding", "mode")] and '"eco"' in rival.reasons[0].why


def test_nested_values_are_looked_at_one_by_one() -> None:
    stops = [{"city": "Rome", "nights": 2}, {"city": "Oslo", "nights": 3}]
    text = "book two nights in Rome and 3 in Oslo"
    for name, argument in (("plan", "stops"), ("book", "stays")):
        assert judged(text, call(name, **{argument: deepcopy(stops)})).reasons == []
    required = judged("book two nights in Rome, then Oslo", call("book", stays=deepcopy(stops)))
    assert gates(required) == [("grounding", "stays[1].nights")] and required.function_calls == []
    optional = judged("two nights in Rome, then Oslo", call("plan", stops=deepcopy(stops)))
    assert gates(optional) == [("drop_unsupported", "stops[1].nights")]
    assert optional.function_calls == [
        {"name": "plan", "arguments": {"stops": [{"city": "Rome", "nights": 2}, {"city": "Oslo"}]}}
    ]
    assert optional.reasons[0].to_json()["tool"] == "plan"


def test_a_call_without_arguments_needs_a_word_of_its_name_or_a_sure_model() -> None:
    assert gates(judged("check my heart rate", call("find_phone"), head=0.3)) == [("relevance", None)]
    assert judged("check my heart rate", call("find_phone"), head=0.6).suppressed_calls == []
    assert judged("where is my phone", call("find_phone"), head=0.3).suppressed_calls == []


def test_bent_values_are_withheld() -> None:
    bent = [Steered(0, "level", "140", "14")]
    assert ("steering", "level") in gates(judged("kitchen lights to 140", lights(level=14), steered=bent))
    same = [Steered(0, "level", "40.0", "40"), Steered(0, "mode", "Movie", "movie"), Steered(7, "level", "1", "2")]
    assert judged("kitchen lights to 40, movie mode", lights(mode="movie"), steered=same).suppressed_calls == []
    text = "start pilates mode"
    thought = judged(text, call("pick", mode="movie"), reasoning="mode 'pilates' from query")
    assert gates(thought) == [("steering", "mode")]
    assert judged(text, call("pick", mode="movie"), reasoning="mode 'dance' from query").suppressed_calls == []


def test_a_word_for_what_the_tool_does_is_no_value_that_was_bent() -> None:
    bent = [Steered(0, "mode", "dim", "movie")]
    assert judged("dim the kitchen to 40 for a movie", lights(mode="movie"), steered=bent).suppressed_calls == []
    other, text = [Steered(0, "mode", "pil", "movie")], "kitchen to 40 for pilates and a movie"
    assert gates(judged(text, lights(mode="movie"), steered=other)) == [("steering", "mode")]


def test_a_word_that_the_request_does_not_have_is_not_lost_where_the_given_value_is_said() -> None:
    bent = [Steered(0, "mode", "pil", "movie")]
    assert judged("kitchen to 40 for a movie", lights(mode="movie"), steered=bent).reasons == []
    assert gates(judged("pick one", call("pick", mode="movie"), steered=bent)) == [("steering", "mode")]


def test_an_empty_list_is_no_value() -> None:
    assert gates(judged("plan a trip", call("plan", stops=[]))) == [("grounding", "stops")]


def test_a_number_that_no_call_carries() -> None:
    dropped = call("dim", room="kitchen", level=100)
    outcome = judged("dim the kitchen to 150", dropped)
    assert gates(outcome) == [("drop_unsupported", "level"), ("steering", "level")] and outcome.function_calls == []
    assert judged("dim the kitchen", call("dim", room="kitchen", level=100)).function_calls == [
        {"name": "dim", "arguments": {"room": "kitchen"}}
    ]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("don't set the kitchen lights to 40", []),
        ("don't set the kitchen lights to 40 but lock the front door", ["lock_door"]),
        ("lock the front door, don't touch the kitchen lights, not even to 40", ["lock_door"]),
        ("kitchen lights to 40, never lock the front door", ["setLights"]),
        ("kitchen lights to 40, not 30, and lock the front door", ["setLights", "lock_door"]),
        ("don't forget: kitchen lights to 40 and lock the front door", ["setLights", "lock_door"]),
        ("kitchen lights to 40, lock the front door, no, don't", []),
    ],
)
def test_only_what_is_forbidden_is_withheld(text: str, kept: list[str]) -> None:
    outcome = judged(text, lights(), call("lock_door", door="front"))
    assert [one["name"] for one in outcome.function_calls] == kept
    if kept:
        assert outcome.validation == {"ungrounded": [], "negation": False}


def test_a_cue_that_is_passed_on_is_not_meant() -> None:
    assert judged("reply saying don't wait for me", call("reply", text="don't wait for me")).suppressed_calls == []
    assert gates(judged("don't reply to Leo", call("reply", text="don't reply"))) == [("negation", None)]


def test_duplicates_are_not_made_again_nor_withheld() -> None:
    outcome = judged("kitchen lights to 40", lights(), lights())
    assert (
        len(outcome.function_calls) == 1 and outcome.suppressed_calls == [] and gates(outcome) == [("duplicates", None)]
    )
    two = judged("kitchen to 40 and hall to 40", lights(), lights(room_name="hall"))
    assert len(two.function_calls) == 2
    both = judged("kitchen to 40", lights(), lights(), contract=CONTRACTS["areole"].without(["duplicates"]))
    assert len(both.function_calls) == 2


NEEDLE_CASES = [
    ("set the lights to twenty five", 25, ["setLights.level"], True),
    ("set the lights to seven", 7, [], True),
    ("set the lights to -7", -7, ["setLights.level"], True),
    ("set the lights to 007", 7, ["setLights.level"], True),
    ("set the lights to 42.7", 42, ["setLights.level"], True),
    ("set the lights", 50, ["setLights.level"], False),
]


@pytest.mark.parametrize(("text", "level", "ungrounded", "kept"), NEEDLE_CASES)
def test_needle_takes_numbers_as_written(text: str, level: int, ungrounded: list[str], kept: bool) -> None:
    outcome = judged(f"{text} kitchen", lights(level=level), contract="needle")
    assert outcome.validation == {"ungrounded": ungrounded, "negation": False}
    assert bool(outcome.function_calls) is kept


@pytest.mark.parametrize(
    ("text", "flag", "kept"),
    [
        ("don't lock the front door", True, False),
        ("don't close that old front door", True, True),
        ("never lock Dr. front", True, True),
        ("not the front door", False, True),
        ("avoid the front door", False, True),
        ("do not lock front", True, False),
    ],
)
def test_needle_looks_three_words_past_the_cue(text: str, flag: bool, kept: bool) -> None:
    outcome = judged(text, call("lock_door", door="front"), contract="needle")
    assert outcome.validation == {"ungrounded": [], "negation": flag} and bool(outcome.function_calls) is kept


def test_needle_leaves_out_optional_texts_that_are_empty_or_repeat_a_required_one() -> None:
    def left(**arguments: object) -> object:
        outcome = judged("fly to Oslo, say hi", call("fly", **arguments), contract="needle")
        return outcome.function_calls[0]["arguments"]

    assert left(origin="oslo", to="Oslo") == {"to": "Oslo"}
    assert left(origin="", to="Oslo") == {"to": "Oslo"}
    assert left(title="oslo", to="Oslo") == {"title": "Oslo", "to": "Oslo"}, "a title may repeat"


@pytest.mark.parametrize(
    ("text", "name", "value", "kept"),
    [
        ("lights on", "level", "on", False),
        ("lights on", "state", "on", True),
        ("lights low", "level", "low", True),
        ("set it to 5", "level", "5", True),
        ("translate it to German", "language", "de", True),
        ("translate it to German", "language", "fr", False),
        ("weather in Germany", "country", "DE", True),
    ],
)
def test_what_needle_takes_for_a_required_text(text: str, name: str, value: str, kept: bool) -> None:
    assert withholds(name, value, {"type": "string"}, text, "") is not kept


def test_needle_lets_a_number_pass_where_an_earlier_turn_had_one() -> None:
    assert withholds("level", 0, {"type": "integer"}, "mute", "set it to 30")
    assert not withholds("level", 0, {"type": "integer"}, "mute", "set it to 30", "set it to 30")
