"""What a request offers for an argument: enum values, numbers, days, times, addresses and codes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pytest

from areole.evidence import Evidence
from areole.offers import Offers
from areole.places import Steps
from areole.prompt import render_tools

FACTS = "date: 2026-09-18 Fri 09:41"
WHOLE: dict[str, object] = {"type": "integer"}
TEXT: dict[str, object] = {"type": "string"}


def offers(
    text: str, properties: Mapping[str, object], required: Sequence[str] | None = None, facts: str = FACTS
) -> Offers:
    schema = {"type": "object", "properties": properties, "required": [*properties] if required is None else required}
    return Offers(render_tools([{"name": "doIt", "parameters": schema}]).declared, Evidence(text, facts))


def one(text: str, name: str, schema: object, *, wanted: bool = True, facts: str = FACTS) -> list[object]:
    """What is offered for a tool's only argument."""
    found = offers(text, {name: schema}, None if wanted else [], facts).at("do_it", ("arguments", name))
    return [json.loads(item) for item in found]


ROOMS: dict[str, object] = {"enum": ["kitchen", "living_room", "ebike"]}


@pytest.mark.parametrize(
    ("text", "schema", "offered"),
    [
        ("the kitchen lights", ROOMS, ["kitchen"]),
        ("the Living Room lights", ROOMS, ["living_room"]),
        ("kitchens", ROOMS, ["kitchen"]),
        ("the living room, then the kitchen", ROOMS, ["kitchen", "living_room"]),
        ("charge my e-bike", ROOMS, ["ebike"]),
        ("the lights", ROOMS, []),
        ("pay in dollars", {"enum": ["USD", "EUR"]}, ["USD"]),
        ("EUR and no dollars", {"enum": ["USD", "EUR"]}, ["EUR"]),
        ("I was charged twice", {"enum": ["billing", "login"], "description": "billing: charges."}, ["billing"]),
        ("start brewing", {"enum": ["brew", "clean"]}, ["brew"]),
        ("3 or 1", {"enum": [1, 2, 3]}, []),
        ("", {"enum": ["", "a"]}, []),
    ],
)
def test_enum_values_that_are_said(text: str, schema: object, offered: list[object]) -> None:
    assert one(text, "room", schema) == offered


@pytest.mark.parametrize(
    ("text", "offered"),
    [
        ("don't touch the kitchen, the living room", ["living_room"]),
        ("the living room instead of the kitchen", ["living_room"]),
        ("never the kitchen", []),
        ("don't forget the kitchen", ["kitchen"]),
    ],
)
def test_what_is_forbidden_is_not_offered(text: str, offered: list[object]) -> None:
    assert one(text, "room", ROOMS) == offered


@pytest.mark.parametrize(("taken", "offered"), [([], ["kitchen", "hall"]), (["kitchen"], ["hall"])])
def test_enum_values_that_a_list_has_are_not_offered_again(taken: list[str], offered: list[str]) -> None:
    found = offers("kitchen and hall", {"rooms": {"type": "array", "items": {"enum": ["hall", "kitchen", "bath"]}}})
    items = found.at("do_it", ("arguments", "rooms", len(taken)), [json.dumps(item) for item in taken])
    assert sorted(json.loads(item) for item in items) == sorted(offered)
    assert found.at("do_it", ("arguments", "rooms", 2), ['"kitchen"', '"hall"']) == []


@pytest.mark.parametrize(
    ("beside", "offered"),
    [(["Ann"], ["large"]), (["Bo"], ["small"]), ([], ["small", "large"]), (["Cy"], ["small", "large"])],
)
def test_enum_values_beside_the_texts_of_their_item_come_first(beside: list[str], offered: list[str]) -> None:
    found = offers("a large one for Ann and a small one for Bo", {"size": {"enum": ["small", "large"]}})
    assert [json.loads(item) for item in found.at("do_it", ("arguments", "size"), beside=beside)] == offered


def test_constants_and_optional_defaults_have_no_offer() -> None:
    assert one("the kitchen", "room", {"const": "kitchen"}) == []
    assert one("the kitchen", "room", {**ROOMS, "default": "ebike"}, wanted=False) == []
    assert one("the kitchen", "room", {**ROOMS, "default": "ebike"}) == ["kitchen"]
    assert one("the kitchen", "room", ROOMS, wanted=False) == ["kitchen"]


PEOPLE = ("adults", "children")


@pytest.mark.parametrize(
    ("text", "names", "offered"),
    [
        ("two adults and 3 children", PEOPLE, [["2"], ["3"]]),
        ("adults 2, children 1", PEOPLE, [["2"], ["1"]]),
        ("two adults", PEOPLE, [["2"], []]),
        ("4 of us", PEOPLE, [["4"], ["4"]]),
        ("channels 4, 5 and 6", ("channel", "level"), [["4", "5", "6"], []]),
        ("channels 4, 5 and 6 to 70", ("channel", "level"), [["4", "5", "6"], ["70"]]),
        ("channel 4 or 5", ("channel", "level"), [["4", "5"], []]),
        ("3 times", ("repeat_times", "level"), [["3"], []]),
    ],
)
def test_numbers_belong_to_the_argument_whose_name_stands_beside_them(
    text: str, names: Sequence[str], offered: list[list[str]]
) -> None:
    found = offers(text, dict.fromkeys(names, WHOLE))
    assert [found.at("do_it", ("arguments", name)) for name in names] == offered


def test_a_number_that_belongs_to_none_is_only_for_a_required_argument() -> None:
    assert one("set it to 4", "channel", WHOLE) == [4]
    assert one("set it to 4", "channel", WHOLE, wanted=False) == []
    assert one("channel 4", "channel", WHOLE, wanted=False) == [4]


@pytest.mark.parametrize(
    ("text", "name", "schema", "offered"),
    [
        ("for 2 hours", "minutes", WHOLE, [120]),
        ("for an hour and ten minutes", "minutes", WHOLE, [70]),
        ("half a litre", "amount_ml", WHOLE, [500]),
        ("750 ml", "amount_ml", WHOLE, [750]),
        ("for 2 hours", "duration", {**WHOLE, "description": "Length in seconds."}, [7200]),
        ("for 2 hours", "duration", WHOLE, [2]),
        ("5 kg", "minutes", WHOLE, []),
        ("40 percent", "level", {"type": "number", "maximum": 1}, [0.4]),
        ("40 percent", "level", {**WHOLE, "maximum": 100}, [40]),
    ],
)
def test_numbers_are_counted_in_the_arguments_unit(text: str, name: str, schema: object, offered: list[object]) -> None:
    assert one(text, name, schema) == offered


@pytest.mark.parametrize(
    ("value", "schema", "fits"),
    [
        ("100", {"maximum": 100}, True),
        ("101", {"maximum": 100}, False),
        ("100", {"exclusiveMaximum": 100}, False),
        ("5", {"minimum": 5}, True),
        ("-1", {"minimum": 0}, False),
        ("0", {"exclusiveMinimum": 0}, False),
        ("0", {"exclusiveMinimum": True}, True),
        ("2.5", {}, False),
    ],
)
def test_a_number_out_of_range_gives_no_offer(value: str, schema: dict[str, object], fits: bool) -> None:
    assert one(f"the level at {value}", "level", {**WHOLE, **schema}) == ([int(value)] if fits else [])


def test_one_number_out_of_range_leaves_the_choice_to_the_model() -> None:
    assert one("levels 150 and 20", "level", {**WHOLE, "maximum": 100}) == []


def test_a_number_may_be_written_with_a_fraction_where_it_is_no_integer() -> None:
    found = offers("2", {"level": {"type": "number"}})
    assert found.at("do_it", ("arguments", "level")) == ["2", "2.0"]
    assert one("2.5", "level", {"type": "number"}) == [2.5]
    assert one("5", "level", {"type": ["integer", "null"]}) == [5]
    assert one("5", "level", {"type": ["integer", "string"]}) == []
    assert one("5", "level", {"type": "boolean"}) == []


@pytest.mark.parametrize(
    "text",
    [
        *("flight AB123", "room B-12", "version v1.2", "call 555-0162", "code 007", "mail a@b42.co"),
        *("on 2026-10-02", "on March 4th", "in 3 days", "at 18:30"),
    ],
)
def test_parts_of_codes_days_and_times_are_no_counts(text: str) -> None:
    assert one(text, "count", WHOLE) == []
    assert one(f"{text} for 6", "count", WHOLE) == [6]


def test_a_or_an_before_the_name_of_a_count_is_one() -> None:
    found = offers("book a dog in", {"dogs": WHOLE, "cats": WHOLE})
    assert [found.at("do_it", ("arguments", name)) for name in ("dogs", "cats")] == [["1"], []]
    assert offers("a dog", {"dogs": {"type": "number"}}).at("do_it", ("arguments", "dogs")) == ["1", "1.0"]
    assert one("a dog", "dogs", WHOLE, wanted=False) == []
    assert one("a dog and 3 dogs", "dogs", WHOLE) == [3]


def test_numbers_that_are_forbidden_are_not_offered() -> None:
    assert one("not 5 but 7", "level", WHOLE) == [7]
    assert one("never 5", "level", WHOLE) == []


STOPS = {
    "stops": {
        "type": "array",
        "items": {"type": "object", "properties": {"city": TEXT, "nights": WHOLE}, "required": ["city", "nights"]},
    }
}


def test_numbers_beside_the_texts_of_their_item_come_first() -> None:
    found = offers("2 nights in Rome and 3 nights in Oslo", STOPS)
    place: Steps = ("arguments", "stops", 1, "nights")
    assert found.at("do_it", place, beside=["Rome"]) == ["2"]
    assert found.at("do_it", place, beside=["Oslo"]) == ["3"]
    assert found.at("do_it", place, beside=["Bonn"]) == ["2", "3"]


def test_numbers_that_earlier_items_have_come_last() -> None:
    found = offers("2 nights in Rome and 3 nights in Oslo", STOPS)
    place: Steps = ("arguments", "stops", 1, "nights")
    assert found.at("do_it", place, used=["2"]) == ["3"]
    assert found.at("do_it", place, used=["2", "3"]) == ["2", "3"]


def test_words_that_only_sometimes_are_numbers_count_beside_texts_only() -> None:
    assert one("both lamps in Rome to 40", "level", WHOLE) == [40]
    assert one("both lamps in Rome", "count", WHOLE) == []
    found = offers("both lamps in Rome", {"count": WHOLE})
    assert found.at("do_it", ("arguments", "count"), beside=["Rome"]) == ["2"]


DAY: dict[str, object] = {"type": "string", "format": "date"}
TIME: dict[str, object] = {"type": "string", "format": "time"}
MOMENT: dict[str, object] = {"type": "string", "format": "date-time"}
MAIL: dict[str, object] = {"type": "string", "format": "email"}


@pytest.mark.parametrize(
    ("text", "name", "schema", "offered"),
    [
        ("tomorrow", "when", DAY, ["2026-09-19"]),
        ("on friday and monday", "when", DAY, ["2026-09-21", "2026-09-25"]),
        ("on March 4th", "when", DAY, ["2026-03-04", "2027-03-04"]),
        ("not tomorrow, friday", "when", DAY, ["2026-09-25"]),
        ("soon", "when", DAY, []),
        ("tomorrow", "when", {**TEXT, "description": "As YYYY-MM-DD."}, ["2026-09-19"]),
        ("tomorrow", "date", TEXT, []),
        ("at 5pm", "start", TIME, ["17:00"]),
        ("from 9 am to 17:30", "start", TIME, ["09:00", "17:30"]),
        ("at noon", "start", TIME, ["12:00"]),
        ("tomorrow at 5pm", "start", MOMENT, ["2026-09-19T17:00"]),
        ("at 5pm", "start", MOMENT, []),
        ("tomorrow", "start", MOMENT, []),
        ("mail ann@x.example and bo@y.example.", "to", MAIL, ["ann@x.example", "bo@y.example"]),
        ("mail ann", "to", MAIL, []),
        ("mail ann@x.example", "to", TEXT, []),
    ],
)
def test_days_times_and_addresses(text: str, name: str, schema: object, offered: list[object]) -> None:
    assert one(text, name, schema) == offered


def test_days_need_a_date_fact_and_full_dates_do_not() -> None:
    assert one("tomorrow", "when", DAY, facts="") == []
    assert one("on 2026-10-02", "when", DAY, facts="") == ["2026-10-02"]


@pytest.mark.parametrize(
    ("text", "name", "offered"),
    [
        ("order A-17, ship 3 boxes to B20", "order_id", ["A-17", "B20"]),
        ("order A-17, then A-17 again", "orderNumber", ["A-17"]),
        ("order 1234", "reference", ["1234"]),
        ("order 1234", "order", []),
        ("order 42", "order_id", []),
        ("1234 boxes", "order_id", []),
        ("12345 boxes", "order_id", ["12345"]),
        ("order A-17 on March 4th", "order_id", ["A-17"]),
        ("order A-17 on 2026-10-02", "order_id", ["A-17"]),
        ("order A-17, the 3rd, for 12.50", "order_id", ["A-17"]),
        ("order A-17 for ann4@x.example", "order_id", ["A-17"]),
        ("order A-17, not A-18", "order_id", ["A-17"]),
    ],
)
def test_words_with_a_digit_are_ids_unless_they_count(text: str, name: str, offered: list[object]) -> None:
    exposed = {"orderNumber": "order_number"}.get(name, name)
    found = offers(text, {name: TEXT}).at("do_it", ("arguments", exposed))
    assert [json.loads(item) for item in found] == offered


def test_ids_that_earlier_calls_have_come_last() -> None:
    found = offers("orders A-17 and B20", {"order_id": TEXT})
    assert found.at("do_it", ("arguments", "order_id"), used=['"A-17"']) == ['"B20"']
    assert found.at("do_it", ("arguments", "order_id"), used=['"A-17"', '"B20"']) == ['"A-17"', '"B20"']


def test_places_that_no_schema_knows_have_no_offer() -> None:
    found = offers("kitchen 4", {"room": ROOMS, "stay": {"type": "object", "properties": {"n": WHOLE}}})
    assert found.at("do_it", ("arguments", "room")) == ['"kitchen"']
    for tool, steps in [
        ("other", ("arguments", "room")), ("do_it", ("arguments",)), ("do_it", ("name", "room")),
        ("do_it", ("arguments", "hall")), ("do_it", ("arguments", "stay", "m")), ("do_it", ("arguments", "stay")),
    ]:  # fmt: skip
        assert found.at(tool, steps) == [], (tool, steps)


def test_an_argument_inside_an_optional_object_is_not_required() -> None:
    stay = {"stay": {"type": "object", "properties": {"n": WHOLE, "m": WHOLE}, "required": ["n"]}}
    place: Steps = ("arguments", "stay", "n")
    assert offers("for 4", stay).at("do_it", place) == ["4"]
    assert offers("for 4", stay, []).at("do_it", place) == []
    assert offers("for 4", stay).at("do_it", ("arguments", "stay", "m")) == []


@pytest.mark.parametrize(
    ("text", "series"),
    [
        ("open P-1, P-2 and P-7", [["P-1", "P-2", "P-7"]]),
        ("channels 2, 4 and 6", [["2", "4", "6"]]),
        ("2 & 3, then X1 and X2", [["2", "3"], ["X1", "X2"]]),
        ("P-1, P-2, and P-3", [["P-1", "P-2", "P-3"]]),
        ("P-1 and Q_7", []),
        ("2, 2 and 3", []),
        ("room 5", []),
        ("2 eggs and 3 apples", []),
        ("not 2 and 3, but 4 and 5", [["4", "5"]]),
    ],
)
def test_series_are_codes_of_one_form_in_a_row(text: str, series: list[list[str]]) -> None:
    assert offers(text, {"a": TEXT}).series == series


CATALOGUE = render_tools(
    [
        {"name": "play_music", "parameters": {"properties": {"genre": {"enum": ["jazz", "heavy_metal"]}}}},
        {"name": "setAlarm"},
        {"name": "set_timer"},
    ]
).declared


@pytest.mark.parametrize(
    ("text", "tools"),
    [
        ("play something", ["play_music"]),
        ("set the alarm", ["set_alarm", "set_timer"]),
        ("play heavy metal", ["play_music"]),
        ("an alarm for the jazz hour", ["play_music", "set_alarm"]),
        ("set it", []),  # both have the word
        ("some jazz", []),  # a value alone
        ("hello", []),
        ("set the alarm and play music", []),  # two clauses
        ("the alarm, never the music", ["set_alarm"]),
        ("don't play music", []),
    ],
)
def test_tools_that_a_request_of_one_clause_can_mean(text: str, tools: list[str]) -> None:
    assert Offers(CATALOGUE, Evidence(text)).tools() == tools


LIST: dict[str, object] = {"type": "array", "items": TEXT}
THING: dict[str, object] = {"type": "object", "properties": {"b": LIST}}


@pytest.mark.parametrize(
    ("schema", "below", "filled"),
    [
        (LIST, (), True),
        ({**LIST, "minItems": 0}, (), False),
        ({**LIST, "minItems": 2}, (), True),
        (THING, (), True),
        ({**THING, "minProperties": 0}, (), False),
        ({"type": "object"}, (), False),
        (TEXT, (), False),
        ({**THING, "required": ["b"]}, ("b",), True),
        (THING, ("b",), False),
        ({"type": "array", "items": THING}, (0,), True),
        ({"type": "array", "items": LIST}, (0,), True),
        (THING, ("c",), False),
    ],
)
def test_required_lists_and_objects_must_be_filled(schema: object, below: Steps, filled: bool) -> None:
    place: Steps = ("arguments", "a", *below)
    assert offers("x", {"a": schema}).filled("do_it", place) is filled
    assert not offers("x", {"a": schema}, []).filled("do_it", place)
    assert not offers("x", {"a": schema}).filled("other", place)


def test_a_number_belongs_to_the_name_that_says_most_of_what_stands_beside_it() -> None:
    dose = {
        "dose_mg": {"type": "number"},
        "times_per_day": {"type": "integer", "maximum": 6},
        "days": {"type": "integer"},
    }
    made = offers("250 mg twice a day for 10 days", dose)
    assert made.at("do_it", ("arguments", "times_per_day")) == ["2"]
    assert made.at("do_it", ("arguments", "days")) == ["10"]


def test_a_series_of_enum_values_is_owed_as_far_as_it_is_in_one_place() -> None:
    themes: dict[str, object] = {"type": "array", "items": {"enum": ["egypt", "rome", "dinosaurs"]}}
    made = offers("a route through Egypt, Rome and the dinosaurs", {"themes": themes})
    at = ("arguments", "themes")
    assert made.owed("do_it", at, ['"egypt"']) and made.owed("do_it", at, ['"egypt"', '"rome"'])
    assert not made.owed("do_it", at, ['"egypt"', '"rome"', '"dinosaurs"'])
    assert not made.owed("do_it", at, ['"greece"']), "not the series"
    apart = offers("show Egypt first, and after lunch with the children we would like Rome", {"themes": themes})
    assert not apart.owed("do_it", at, ['"egypt"'])
    few = offers("Egypt, Rome and the dinosaurs", {"themes": {**themes, "maxItems": 1}})
    assert not few.owed("do_it", at, ['"egypt"'])
    optional = offers("Egypt and Rome", {"themes": themes}, [])
    assert not optional.owed("do_it", at, ['"egypt"'])


def test_what_the_model_thought_counts_where_a_message_says_none_of_the_classes() -> None:
    kinds = {"category": {"enum": ["network", "hardware", "software_install"]}}
    made = offers("my screen has a crack", kinds)
    at = ("arguments", "category")
    assert made.at("do_it", at) == []
    made.thought = "'crack' is a hardware issue; category 'network'"
    assert made.at("do_it", at) == ['"hardware"']
    made.thought = "this is a software install"
    assert made.at("do_it", at) == ['"software_install"']
    said = offers("my network is down", kinds)
    said.thought = "hardware"
    assert said.at("do_it", at) == ['"network"']
