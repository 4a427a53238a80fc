"""The rules that change or leave out arguments."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from areole.contract import CONTRACTS
from areole.evidence import Evidence
from areole.postprocess import Draft, capital, drop_unsupported, duplicates, formatted, polish, shape
from areole.prompt import render_tools

AREOLE, NEEDLE = CONTRACTS["areole"], CONTRACTS["needle"]
FACTS = "date: 2026-09-18 Fri 09:41"


def draft(properties: Mapping[str, object], arguments: dict[str, object], required: list[str] | None = None) -> Draft:
    schema = {"type": "object", "properties": properties, "required": required or []}
    return Draft(render_tools([{"name": "doIt", "parameters": schema}]).declared[0], arguments)


def polished(properties: Mapping[str, object], arguments: dict[str, object], text: str, facts: str = FACTS) -> object:
    one = draft(properties, arguments)
    polish([one], Evidence(text, facts), AREOLE)
    return one.arguments


def test_numbers_have_the_form_of_their_type() -> None:
    schema = {
        "properties": {
            "n": {"type": "number"}, "i": {"type": "integer"}, "f": {"type": "float"}, "b": {"type": "boolean"},
            "l": {"type": "array", "items": {"type": "number"}}, "o": {"type": ["number", "null"]},
            "e": {"enum": [1, 2]},
            "r": {"$ref": "#/$defs/r"}, "x": {},
        },
        "$defs": {"r": {"type": "number"}},
    }  # fmt: skip
    given = {"n": 2, "i": 2.0, "f": -7, "b": True, "l": [1, 2.5], "o": 3, "e": 1, "r": 4, "x": 5, "y": 6}
    out = formatted(given, schema, schema)
    assert repr(out) == repr(
        {"n": 2.0, "i": 2, "f": -7.0, "b": True, "l": [1.0, 2.5], "o": 3.0, "e": 1, "r": 4.0, "x": 5, "y": 6}
    )


def test_titles_get_a_capital_and_nothing_else_does() -> None:
    properties = {"eventTitle": {}, "title": {"enum": ["low"]}, "label": {"const": "x"}, "note": {}, "text": {}}
    given: dict[str, object] = {
        "event_title": "iPhone deals", "title": "low", "label": "x", "note": "élan", "text": "abc",
        "message": "undeclared",
    }  # fmt: skip
    assert polished(properties, dict(given), "x") == {**given, "event_title": "IPhone deals"}
    assert [capital(value) for value in ("", 5, None, "a b")] == ["", 5, None, "A b"]
    plain = draft(properties, dict(given))
    polish([plain], Evidence("x"), AREOLE.without(["capitals"]))
    assert plain.arguments == given


@pytest.mark.parametrize(
    ("text", "facts", "schema", "given", "becomes"),
    [
        ("on friday", FACTS, {"type": "string"}, "2026-09-21", "2026-09-25"),
        ("on March 4th", FACTS, {"type": "string"}, "2026-03-05", "2027-03-04"),
        ("on March 4th", FACTS, {"type": "string"}, "2026-03-04", "2026-03-04"),
        ("on March 4th", FACTS, {"type": "string"}, "2025-03-04", "2027-03-04"),
        ("on March 4th 2027", FACTS, {"type": "string"}, "2026-03-04", "2027-03-04"),
        ("on friday", FACTS, {"type": "string"}, "friday", "friday"),
        ("on friday", FACTS, {"type": "string", "format": "date"}, "friday", "2026-09-25"),
        ("on friday", FACTS, {"type": "string", "description": "YYYY-MM-DD"}, "friday", "2026-09-25"),
        ("on friday", "", {"type": "string"}, "2026-09-21", "2026-09-21"),
        ("on friday or monday", FACTS, {"type": "string"}, "2026-09-22", "2026-09-22"),
        ("soon", FACTS, {"type": "string"}, "2026-09-22", "2026-09-22"),
        ("on friday", FACTS, {"enum": ["2026-09-21"]}, "2026-09-21", "2026-09-21"),
        ("friday at 5", FACTS, {"type": "string"}, "2026-09-21T05:00", "2026-09-21T05:00"),
    ],
)
def test_days_are_counted_from_the_date_fact(
    text: str, facts: str, schema: dict[str, object], given: str, becomes: str
) -> None:
    assert polished({"when": schema}, {"when": given}, text, facts) == {"when": becomes}


@pytest.mark.parametrize(
    ("text", "given", "becomes"),
    [
        ("turn off the lights", True, False),
        ("switch the lights on", False, True),
        ("turn it off and on", True, True),
        ("don't turn off the lights", True, True),
        ("lights in the hall", True, True),
    ],
)
def test_switches_follow_on_and_off(text: str, given: bool, becomes: bool) -> None:
    assert polished({"on": {"type": "boolean"}}, {"on": given}, text) == {"on": becomes}
    assert polished({"loud": {"type": "boolean"}}, {"loud": given}, text) == {"loud": given}


def left(one: Draft, text: str, contract: str = "areole") -> object:
    drop_unsupported([one], Evidence(text, FACTS), CONTRACTS[contract])
    return one.arguments


def test_optional_arguments_that_nothing_supports_are_left_out() -> None:
    properties = {
        "room": {"type": "string"}, "level": {"type": "integer"}, "copies": {"type": "integer", "default": 1},
        "mode": {"enum": ["eco", "fast"]},
    }  # fmt: skip
    given: dict[str, object] = {"room": "hall", "level": 50, "copies": 1, "mode": "eco"}
    one = draft(properties, dict(given), ["room"])
    reasons = drop_unsupported([one], Evidence("dim it"), AREOLE)
    assert one.arguments == {"room": "hall", "copies": 1, "mode": "eco"}
    assert [(reason.gate, reason.argument) for reason in reasons] == [("drop_unsupported", "level")]
    assert left(draft(properties, dict(given), ["room"]), "dim it to fifty") == given
    assert left(draft(properties, dict(given), ["room"]), "dim it to fifty one", "needle") == {
        "room": "hall", "level": 50, "copies": 1, "mode": "eco",
    }  # fmt: skip


def test_undeclared_arguments_are_left_out_unless_the_schema_allows_them() -> None:
    assert left(draft({"a": {}}, {"a": "x", "b": "y"}), "x y") == {"a": "x"}
    free = Draft(render_tools([{"name": "free"}]).declared[0], {"b": "y"})
    assert left(free, "x") == {"b": "y"}


def test_of_two_arguments_with_one_text_that_one_stays_of_whose_name_the_text_is() -> None:
    properties = {key: {"type": "string"} for key in ("hotel", "room_type", "guest")}
    text = "we confirm your stay at the Harbor Light Hotel"
    for order in (["hotel", "room_type", "guest"], ["guest", "room_type", "hotel"]):
        given: dict[str, object] = dict.fromkeys(order, "Harbor Light Hotel")
        assert left(draft(properties, given), text) == {"hotel": "Harbor Light Hotel"}


def test_an_optional_text_that_repeats_another_argument_is_left_out() -> None:
    properties = {"to": {"type": "string"}, "subject": {"type": "string"}, "body": {"type": "string"}}
    text = "email kim with the subject Report"
    echo: dict[str, object] = {"to": "kim", "subject": "Report", "body": "the subject Report"}
    assert left(draft(properties, echo, ["to", "subject"]), text) == {"to": "kim", "subject": "Report"}
    named = "don't print report.pdf, email kim with the subject Report"
    assert "body" not in left(  # type: ignore[operator]
        draft(properties, {"to": "kim", "subject": "Report", "body": "the subject Report"}, ["to", "subject"]), named
    )
    twice = "email kim with the subject Report and the text report"
    assert "body" in left(
        draft(properties, {"to": "kim", "subject": "Report", "body": "report"}, ["to", "subject"]), twice
    )  # type: ignore[operator]


def places(text: str, *arguments: dict[str, object], parts: bool = True) -> list[int]:
    return duplicates([draft({}, one) for one in arguments], Evidence(text), parts=parts)


def test_duplicates() -> None:
    assert places("x", {"a": 1}, {"a": 1}, {"a": 2}, {"a": True}) == [1]
    assert places("a turkey sandwich on rye", {"d": "turkey sandwich on rye"}, {"d": "rye"}) == [1]
    assert places("a turkey sandwich on rye", {"d": "turkey sandwich on rye"}, {"d": "rye"}, parts=False) == []
    assert places("oat milk and milk", {"d": "oat milk"}, {"d": "milk"}) == []
    assert places("2 nights and 3 nights in Rome", {"c": "Rome", "n": 2}, {"c": "Rome", "n": 3}) == []


def test_shapes_follow_references_and_nullable_alternatives() -> None:
    root = {"$defs": {"a": {"type": "string"}, "loop": {"$ref": "#/$defs/loop"}}}
    assert shape({"$ref": "#/$defs/a", "description": "x"}, root) == {"type": "string", "description": "x"}
    assert shape({"anyOf": [{"type": "integer"}, {"type": "null"}]}, root) == {"type": "integer"}
    assert shape({"allOf": [{"type": "integer"}, {"minimum": 3}]}, root) == {"type": "integer", "minimum": 3}
    assert shape({"$ref": "#/$defs/loop"}, root) == {} == shape(None, root) == shape({"$ref": "#/$defs/b"}, root)
