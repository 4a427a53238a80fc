"""Which legal tokens are passed over for what the request says, and that there is always another way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from fakes import TOKENIZER

from areole.evidence import Evidence
from areole.guide import Guide
from areole.offers import Offers
from areole.pieces import pieces_of
from areole.places import Place
from areole.prompt import ToolSpec, render_tools

BEGUN = '[{"name":"do_it","arguments":{'
WHOLE: dict[str, object] = {"type": "integer"}
TEXT: dict[str, object] = {"type": "string"}
ROOM: dict[str, object] = {"enum": ["kitchen", "hall", "living_room"]}
ROOMS: dict[str, object] = {"type": "array", "items": ROOM}
PIECES = pieces_of(TOKENIZER)


def declared(properties: Mapping[str, object], required: Sequence[str] | None = None) -> tuple[ToolSpec, ...]:
    schema = {"type": "object", "properties": properties, "required": [*properties] if required is None else required}
    return render_tools([{"name": "doIt", "parameters": schema}]).declared


def guide(
    text: str,
    properties: Mapping[str, object],
    written: str = BEGUN,
    *,
    required: Sequence[str] | None = None,
    single: bool = False,
) -> Guide:
    """A guide that was told of what is written so far."""
    made = Guide(Offers(declared(properties, required), Evidence(text, "date: 2026-09-18 Fri 09:41")), single=single)
    made.accept(written.encode("utf-8"))
    return made


def admitted(made: Guide, *tokens: str) -> list[bool]:
    return [made.admits(token.encode("utf-8")) for token in tokens]


def test_what_the_request_says_is_admitted_and_nothing_else() -> None:
    made = guide("the living room", {"room": ROOM}, BEGUN + '"room":"')
    assert admitted(made, "l", "living", 'living_room"', 'living_room"}}]') == [True] * 4
    assert admitted(made, "k", "kitchen", "lively", 'living"', '"') == [False] * 5


@pytest.mark.parametrize("token", ['"living_room"', '":"living_room"}}]', '"room":"living_room","'])
def test_a_token_may_hold_more_than_the_value(token: str) -> None:
    whole = BEGUN + '"room":"living_room","'
    begun = whole[: whole.index(token.rstrip("}]"))]
    made = guide("the living room", {"room": ROOM}, begun)
    assert admitted(made, token, token.replace("living_room", "kitchen")) == [True, False]


def test_where_the_request_offers_nothing_anything_goes() -> None:
    made = guide("the lights", {"room": ROOM, "note": TEXT}, BEGUN + '"room":"')
    assert admitted(made, "kitchen", "hall", 'living_room"') == [True] * 3
    assert admitted(guide("the hall", {"note": TEXT}, BEGUN + '"note":"'), "x", '"') == [True, True]


def test_numbers_begin_and_end_as_they_are_said() -> None:
    made = guide("channel 45", {"channel": WHOLE}, BEGUN + '"channel":')
    assert admitted(made, "4", "45", "45}", "45,") == [True] * 4
    assert admitted(made, "5", "4}", "450", "-4") == [False] * 4
    made.accept(b"4")
    assert admitted(made, "5", "5}}]", "}", ",", "6") == [True, True, False, False, False]


def test_keys_are_the_grammars_business() -> None:
    assert admitted(guide("the kitchen", {"room": ROOM}), '"hall"', '"x', '"room":"kitchen') == [True, True, True]


def test_the_offer_is_for_the_argument_and_the_call_at_hand() -> None:
    made = guide("hall 7", {"room": ROOM, "level": WHOLE}, BEGUN + '"room":"hall","level":')
    assert admitted(made, "7", "hall", "8") == [True, False, False]
    second = guide("hall 7", {"room": ROOM, "level": WHOLE}, BEGUN + '"room":"hall","level":7}},' + BEGUN[1:])
    assert admitted(second, '"room":"hall"', '"room":"kitchen"', '"level":7', '"level":8') == [True, False, True, False]


def test_a_request_of_one_clause_that_means_one_tool_calls_that_tool() -> None:
    tools = render_tools([{"name": "playMusic"}, {"name": "setAlarm"}]).declared
    for text, wanted in (("play something", [True, False]), ("hello", [True, True])):
        made = Guide(Offers(tools, Evidence(text)))
        made.accept(b'[{"name":"')
        assert admitted(made, 'play_music"', 'set_alarm"') == wanted
    second = Guide(Offers(tools, Evidence("play something")))
    second.accept(b'[{"name":"play_music","arguments":{}},{"name":"')
    assert admitted(second, "play_music", "set_alarm") == [True, True]


def test_continuations_go_on_with_what_is_offered() -> None:
    made = guide("the living room or the hall", {"room": ROOM}, BEGUN + '"room":')
    texts = {PIECES.texts[token] for token in made.continuations(PIECES)}
    assert b'"' in texts and all(text in (b'"', *texts) for text in texts)
    assert all(b'"living_room"'.startswith(text) or b'"hall"'.startswith(text) for text in texts)
    made.accept(b'"liv')
    rest = [PIECES.texts[token] for token in made.continuations(PIECES)]
    assert b"i" in rest and all(b'ing_room"'.startswith(text) for text in rest)
    assert all(made.admits(text) for text in rest)
    made.accept(b'ing_room"')
    assert made.continuations(PIECES) == []


def test_there_are_no_continuations_where_nothing_is_offered() -> None:
    assert guide("the lights", {"room": ROOM}, BEGUN + '"room":').continuations(PIECES) == []
    assert guide("the hall", {"room": ROOM}, BEGUN).continuations(PIECES) == []
    assert guide("the hall", {"room": ROOM}, BEGUN + '"room":"kitchen').continuations(PIECES) == []


@pytest.mark.parametrize(
    ("text", "items", "comma", "end"),
    [
        ("kitchen and hall", '"kitchen"', True, False),
        ("kitchen and hall", '"hall"', True, False),
        ("kitchen and hall", '"kitchen","hall"', False, True),
        ("kitchen", '"kitchen"', False, True),
        ("the lights", '"kitchen"', True, True),
        ("kitchen lights, and open what is in the hall", '"kitchen"', True, True),
    ],
)
def test_a_list_has_the_enum_values_that_are_said_in_a_row(text: str, items: str, comma: bool, end: bool) -> None:
    made = guide(text, {"rooms": ROOMS}, BEGUN + f'"rooms":[{items}')
    assert admitted(made, ",", ',"', "]", "]}}]") == [comma, comma, end, end]


def test_a_list_of_objects_has_the_enum_values_that_are_said_in_a_row() -> None:
    size: dict[str, object] = {"enum": ["20ft", "40ft"]}
    item = {"type": "object", "properties": {"size": size, "count": WHOLE}, "required": ["size", "count"]}
    boxes: dict[str, object] = {"boxes": {"type": "array", "items": item}}
    made = guide("twelve 40ft and three 20ft", boxes, BEGUN + '"boxes":[{"size":"20ft","count":3}')
    assert admitted(made, "]", ",", "]}}]") == [False, True, False]
    made = guide(
        "twelve 40ft and three 20ft", boxes, BEGUN + '"boxes":[{"size":"20ft","count":3},{"size":"40ft","count":12}'
    )
    assert admitted(made, "]") == [True]


def test_the_comma_is_refused_within_a_longer_token_too() -> None:
    made = guide("kitchen and hall", {"rooms": ROOMS}, BEGUN + '"rooms":["kitchen","ha')
    assert admitted(made, 'll"', 'll"]', 'll","') == [True, True, False]
    first = guide("kitchen and hall", {"rooms": ROOMS}, BEGUN + '"rooms":["kitc')
    assert admitted(first, 'hen","hall', 'hen","kitchen') == [True, False]


STOP: dict[str, object] = {"type": "object", "properties": {"city": TEXT, "nights": WHOLE}}
STOPS = {"stops": {"type": "array", "items": STOP}}


@pytest.mark.parametrize(
    ("items", "comma"),
    [
        ('{"city":"Rome"}', True),
        ('{"city":"Rome"},{"city":"Oslo"}', True),
        ('{"city":"Rome"},{"city":"Rome"}', False),
        ('{"city":"Rome","nights":2},{"nights":2,"city":"Rome"}', False),
        ('{"city":"Rome"},{"city":"Oslo"},{"city":"Rome"}', False),
        ('{"city":"Rome"},{"city":"Rome","nights":2}', True),
    ],
)
def test_no_comma_after_an_item_that_repeats_an_earlier_one(items: str, comma: bool) -> None:
    made = guide("Rome and Oslo", STOPS, BEGUN + f'"stops":[{items}')
    assert admitted(made, ",", "]") == [comma, True]
    assert admitted(guide("Rome and Oslo", STOPS, BEGUN + f'"stops":[{items}],'), '"') == [True]


EMPTY = [
    ({"a": {"type": "array", "items": TEXT}}, '"a":', ("[", '["'), ("[]", "[]}")),
    ({"a": {"type": "array", "items": TEXT}}, '"a":[', ('"',), ("]", "]}")),
    ({"a": STOP}, '"a":', ("{", '{"'), ("{}", "{}}")),
    ({"a": STOP}, '"a":{', ('"',), ("}", "}}]")),
    ({"a": {"type": "array", "items": STOP}}, '"a":[', ("{",), ("{}", "]")),
    ({"a": {"type": "array", "items": STOP}}, '"a":[{"city":"x"},', ('{"',), ("{}",)),
]


@pytest.mark.parametrize(("properties", "written", "good", "bad"), EMPTY)
def test_required_lists_and_objects_are_not_left_empty(
    properties: dict[str, object], written: str, good: tuple[str, ...], bad: tuple[str, ...]
) -> None:
    made = guide("x", properties, BEGUN + written)
    assert admitted(made, *good) == [True] * len(good)
    assert admitted(made, *bad) == [False] * len(bad)
    optional = guide("x", properties, BEGUN + written, required=[])
    assert admitted(optional, *good, *bad) == [True] * len(good + bad)


def test_lists_and_objects_that_may_be_empty_can_be() -> None:
    for schema, token in [
        ({"type": "array", "items": TEXT, "minItems": 0}, "[]"),
        ({**STOP, "minProperties": 0}, "{}"),
        ({"type": "object"}, "{}"),
    ]:
        assert admitted(guide("x", {"a": schema}, BEGUN + '"a":'), token) == [True], schema
    assert admitted(guide("x", {}, '[{"name":"do_it","arguments":'), "{}", "{}}]") == [True, True]
    assert admitted(guide("x", {"a": {"type": "array", "items": TEXT}}, BEGUN + '"a":["x"'), "]") == [True]


def test_filled_says_where_a_list_must_begin_with_an_item() -> None:
    properties = {"a": {"type": "array", "items": TEXT}, "n": WHOLE}

    def filled(written: str, required: Sequence[str] | None = None) -> bool:
        place = Place()
        for byte in (BEGUN + written).encode():
            place.step(byte)
        return guide("x", properties, required=required).filled(place)

    assert filled('"a":[') and not filled('"a":') and not filled('"a":["x') and not filled('"a":["x",')
    assert not filled('"a":[', []) and not filled('"n":') and not filled("")


@pytest.mark.parametrize("sign", ["{", "}", "[", "]", "\\"])
def test_signs_that_the_request_has_not_are_no_text(sign: str) -> None:
    made = guide("say hello", {"note": TEXT}, BEGUN + '"note":"hello')
    assert admitted(made, sign, f" {sign}", f"!{sign}x") == [False] * 3
    assert admitted(made, "!", " world", '"', '"}}]') == [True] * 4


def test_signs_that_the_request_has_are_text() -> None:
    made = guide("say {x} or [y]", {"note": TEXT}, BEGUN + '"note":"')
    assert admitted(made, "{x}", "[y]", '\\"') == [True, True, False]
    for text in ('say "hi"', "a\\b", "two\nlines"):
        assert admitted(guide(text, {"note": TEXT}, BEGUN + '"note":"'), "\\", '\\"', "{") == [True, True, False], text


def test_one_call_is_enough_where_only_one_is_wanted() -> None:
    call = BEGUN + '"note":"x"}}'
    assert admitted(guide("x", {"note": TEXT}, call, single=True), ",", ",{", "]") == [False, False, True]
    assert admitted(guide("x", {"note": TEXT}, call), ",", ",{", "]") == [True] * 3
    inside = guide("x", {"note": TEXT, "other": TEXT}, BEGUN + '"note":"x"', single=True)
    assert admitted(inside, ",", ',"') == [True, True]


CODES = ["P-1", "P-2", "P-7"]


@pytest.mark.parametrize(
    ("written", "ends"),
    [
        (CODES[:1], False),
        (CODES[:2], False),
        (CODES, True),
        (CODES[1:2], True),  # not from its beginning: it is about something else
        ([], True),
        (["P-1", "P-1"], True),
        (["P-12"], True),
    ],
)
def test_the_list_of_calls_does_not_end_within_a_series(written: list[str], ends: bool) -> None:
    calls = ",".join(f'{BEGUN[1:]}"label":"{code}"}}}}' for code in written)
    made = guide("open P-1, P-2 and P-7", {"label": TEXT}, "[" + calls)
    assert admitted(made, "]") == [ends]
    assert admitted(guide("open P-1, P-2 and P-7", {"label": TEXT}, "[" + calls, single=True), "]") == [True]


def test_a_token_that_ends_the_call_and_the_list_is_looked_at_too() -> None:
    made = guide("open P-1 and P-2", {"label": TEXT}, BEGUN + '"label":"P-1')
    assert admitted(made, '"}}]', '"}}', '"') == [False, True, True]


def test_an_id_that_an_earlier_call_has_is_not_written_again() -> None:
    first = BEGUN + '"order_id":"A-17"}},' + BEGUN[1:] + '"order_id":"'
    made = guide("track orders A-17 and B20", {"order_id": TEXT}, first)
    assert admitted(made, "B20", "A") == [True, False]


def test_numbers_in_a_list_go_with_the_texts_of_their_item() -> None:
    text = "2 nights in Rome and 3 nights in Oslo"
    for city, number in (("Rome", "2"), ("Oslo", "3")):
        needed = {"stops": {"type": "array", "items": {**STOP, "required": ["city", "nights"]}}}
        made = guide(text, needed, BEGUN + f'"stops":[{{"city":"{city}","nights":')
        assert admitted(made, "2", "3") == [number == "2", number == "3"]
