"""What requests say: numbers in figures and words, units, days, clauses, and what they support."""

from __future__ import annotations

from datetime import date

import pytest

from areole.clauses import cue_spans, split
from areole.dates import iso_date, named_days, today_of
from areole.evidence import Evidence, clock_times, name_words, quantities, stem, unit_of

FACTS = "date: 2026-09-18 Fri 09:41; location: Paris; battery: 60"
TODAY = date(2026, 9, 18)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("set it to 40", [40]),
        ("twenty five", [25]),
        ("twenty-five percent", [25]),
        ("one hundred and twenty", [120]),
        ("two thousand three hundred", [2300]),
        ("a hundred", [100]),
        ("1,250 and 0.5 and .5", [1250, 0.5, 0.5]),
        ("minus 7", [-7]),
        ("81 minus 17", [81, 17]),
        ("eighty minus seventeen", [80, 17]),
        ("81 minus minus 17, or 4 and minus 5", [81, -17, 4, -5]),
        ("-7 degrees", [-7]),
        ("negative five", [-5]),
        ("2-3 days", [2, 3]),
        ("rooms 1-4", [1, 4]),
        ("$5 or 5k", [5, 5000]),
        ("2 million", [2_000_000]),
        ("the third one", [3, 1]),
        ("the twenty first", [21]),
        ("half an hour", [0.5]),
        ("an hour and a half", [1.5, 0.5]),
        ("two and a half", [2.5]),
        ("two dozen", [24]),
        ("three point one four", [3.14]),
        ("seven thirty", [7, 30]),
        ("7pm", [7, 19]),
        ("15.40", [15.4]),
        ("a pizza", []),
        ("", []),
    ],
)
def test_quantities(text: str, values: list[float]) -> None:
    assert [item.value for item in quantities(text)] == pytest.approx(values)


def test_quantities_say_where_they_stand_and_in_what_unit() -> None:
    text = "water it for twenty five minutes, not minus 3 kg"
    found = quantities(text)
    assert [text[item.start : item.end] for item in found] == ["twenty five", "minus 3"]
    assert [item.unit for item in found] == [stem("minutes"), "kg"]


@pytest.mark.parametrize(
    ("text", "name", "value", "schema", "supported"),
    [
        ("for 2 hours", "minutes", 120, {}, True),
        ("for 2 hours", "minutes", 2, {}, False),
        ("for 2 hours", "duration", 2, {}, True),
        ("for 2 hours", "duration", 7200, {"description": "Length in seconds."}, True),
        ("half an hour", "minutes", 30, {}, True),
        ("an hour and a half", "minutes", 90, {}, True),
        ("for a minute", "seconds", 60, {}, True),
        ("750 ml", "amount_ml", 750, {}, True),
        ("half a litre", "amount_ml", 500, {}, True),
        ("40 percent", "level", 0.4, {"maximum": 1}, True),
        ("40 percent", "level", 0.4, {"maximum": 100}, False),
        ("full brightness", "level", 100, {"maximum": 100}, True),
        ("full brightness", "level", 80, {"maximum": 100}, False),
        ("as low as the minimum", "level", 5, {"minimum": 5}, True),
        ("halfway", "level", 50, {"minimum": 0, "maximum": 100}, True),
        ("dim it", "battery", 60, {}, True),
        ("dim it", "level", 60, {}, False),
        ("dim it", "level", 18, {}, False),
    ],
)
def test_numbers(text: str, name: str, value: float, schema: dict[str, object], supported: bool) -> None:
    assert Evidence(text, FACTS).supports_number(value, name, schema) is supported


@pytest.mark.parametrize(
    ("text", "value", "supported"),
    [
        ("turn on the Kitchen lights", "kitchen", True),
        ("message José", "Jose", True),
        ("call 415 555 0162", "415-555-0162", True),
        ("check my calendar", "check calendar", True),
        ("play something", "something", False),
        ("play it", "it", False),
        ("what is the weather", "Paris", True),
        ("what is the weather", "Canyon", False),
        ("remind me at 5pm", "17:00", True),
        ("remind me at noon", "12:00", True),
        ("remind me at 5pm", "18:00", False),
        ("remind me tomorrow", "2026-09-19", True),
        ("remind me tomorrow", "2026-09-20", False),
        ("remind me tomorrow at 5pm", "2026-09-19 17:00", True),
        ("remind me", "today 09:41", False),
        ("a timer for negative 5 minutes", "5 minutes", False),
        ("a timer for 5 minutes", "5 minutes", True),
        ("twenty minutes", "20 minutes", True),
        ("", "x", False),
    ],
)
def test_texts(text: str, value: str, supported: bool) -> None:
    assert Evidence(text, FACTS).supports_text(value) is supported


def test_earlier_turns_count_and_their_negations_do_not() -> None:
    evidence = Evidence("make it brighter", "", ("dim the kitchen to 20",))
    assert evidence.supports_text("kitchen") and evidence.supports_number(20, "level", {})
    assert evidence.own_quantities == []


def test_an_enums_value_is_said_or_stands_beside_what_is() -> None:
    schema: dict[str, object] = {
        "enum": ["billing", "login", "living_room"],
        "description": "billing: charges, invoices. login: passwords. living_room (the lounge).",
    }
    for text, value in [
        ("billing please", "billing"),
        ("I was charged twice", "billing"),
        ("my password is lost", "login"),
        ("the living room", "living_room"),
        ("the lounge", "living_room"),
    ]:
        evidence = Evidence(text)
        assert [item for item in ("billing", "login", "living_room") if evidence.supports_choice(item, schema)] == [
            value
        ]
    assert not Evidence("where is my parcel").supports_choice("billing", schema)


def test_words() -> None:
    assert stem("lights") == stem("light") == stem("lighting")
    assert stem("vacuuming") == stem("vacuum") and stem("stopped") == stem("stop") and stem("parties") == stem("party")
    assert stem("class") == "class"
    assert name_words("weightKg") == ("weight", "kg")
    assert unit_of("weightKg", {}) == "kg" and unit_of("level", {"description": "In percent."}) == ""
    assert clock_times("9:15pm or 7 am, not 30") == {(21, 15), (7, 0)} and clock_times("12 am") == {(0, 0)}


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("tomorrow", ["2026-09-19"]),
        ("yesterday at 4pm", ["2026-09-17"]),
        ("the day after tomorrow", ["2026-09-20"]),
        ("friday", ["2026-09-25"]),
        ("next monday", ["2026-09-21"]),
        ("on March 4th", ["2027-03-04"]),
        ("4 March 2028", ["2028-03-04"]),
        ("December 3rd", ["2026-12-03"]),
        ("in three days", ["2026-09-21"]),
        ("in 2 weeks", ["2026-10-02"]),
        ("2026-10-02", ["2026-10-02"]),
        ("2026-13-02 and February 30", []),
        ("monday and tuesday", ["2026-09-21", "2026-09-22"]),
        ("I may go", []),
        ("aqua on Monday and again on Thursday the 24th", ["2026-09-21", "2026-09-24"]),
        (
            "a van from 1 to 3 October and a mini from 5-9 October",
            ["2026-10-01", "2026-10-03", "2026-10-05", "2026-10-09"],
        ),
        ("the 2nd until the 4th of May 2027", ["2027-05-02", "2027-05-04"]),
    ],
)
def test_days(text: str, days: list[str]) -> None:
    assert [item.day.isoformat() for item in named_days(text, TODAY)] == days


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("on March 4th", ["2027-03-04", "2026-03-04"]),
        ("3 December", ["2026-12-03", "2025-12-03"]),
        ("March 4th, 2028", ["2028-03-04"]),
        ("29 February 2028", ["2028-02-29"]),
        ("friday", ["2026-09-25"]),
        ("2026-10-02", ["2026-10-02"]),
    ],
)
def test_a_day_without_a_year_may_also_be_last_years(text: str, options: list[str]) -> None:
    (named,) = named_days(text, TODAY)
    assert [day.isoformat() for day in named.options] == options


def test_days_need_a_date_fact() -> None:
    assert today_of(FACTS) == TODAY and today_of("location: Paris") is None and today_of("date: 2026-02-30") is None
    assert named_days("tomorrow", None) == [] and len(named_days("2026-10-02", None)) == 1
    assert iso_date("2026-10-02T10:00") == date(2026, 10, 2) and iso_date("soon") is None


@pytest.mark.parametrize(
    ("text", "forbidden"),
    [
        ("don't turn on the lights but lock the door", ["don't turn on the lights "]),
        ("lock the door, never the window", ["never the window"]),
        ("do not lock it. open it", ["do not lock it"]),
        ("don't dismiss anything from Dr. Bob", ["don't dismiss anything from Dr. Bob"]),
        ("never log 79.4 kg", ["never log 79.4 kg"]),
        ("don’t lock and close it", ["don’t lock and close it"]),
        ("I don't want the lights on", ["don't want the lights on"]),
        ("volume 90? no, don't", ["volume 90? no, don't"]),
        ("lock it. never mind", ["lock it. never mind"]),
        ("lock it, scratch that, open it", ["lock it, scratch that"]),
        ("why don't you lock it", []),
        ("don't forget to lock it", []),
        ("can't you lock it", []),
        ("I never got the refund", []),
        ("it does not work", []),
        ("tell me if the door is not locked", []),
        ("lock it", []),
    ],
)
def test_clauses_that_forbid(text: str, forbidden: list[str]) -> None:
    assert [text[c.start : c.end] for c in split(text) if c.negated] == forbidden


def test_quoted_cues_are_not_meant() -> None:
    text = "reply saying don't wait for me"
    at = text.index("don't")
    assert cue_spans(text) == [(at, at + 5)]
    assert not any(clause.negated for clause in split(text, ((at, len(text)),)))


@pytest.mark.parametrize(
    ("text", "value", "said"),
    [
        ("add 2.5 litres of acetone", "L", True),
        ("add 250 millilitres", "mL", True),
        ("add 250 millilitres", "L", False),
        ("a litre more", "L", True),
        ("send it to Germany", "DE", True),
        ("send it to France", "DE", False),
    ],
)
def test_codes_and_units_are_said_by_their_names(text: str, value: str, said: bool) -> None:
    assert Evidence(text).names_code(value) is said
