"""Calls are read strictly: exactly a list of calls to declared tools, or a refusal that says why."""

from __future__ import annotations

import json

import pytest

from areole.calls import MAX_DEPTH, CallParser, value_starts
from areole.errors import CallParseError
from areole.prompt import render_tools

TOOLS = render_tools(
    [
        {"name": "setLights", "parameters": {"properties": {"roomName": {}, "on": {"type": "boolean"}}}},
        {"name": "lock_door"},
    ]
).declared
PARSER = CallParser(TOOLS)
GOOD = (
    '[{"name":"set_lights","arguments":{"room_name":"bed","level":2.0,"x":{"y":[1,null]}}},'
    '{"arguments":{},"name":"lock_door"}]'
)


def test_names_come_back_as_declared_and_values_as_written() -> None:
    calls = PARSER.parse(GOOD)
    assert calls == [
        {"name": "setLights", "arguments": {"roomName": "bed", "level": 2.0, "x": {"y": [1, None]}}},
        {"name": "lock_door", "arguments": {}},
    ]
    assert '"level": 2.0' in json.dumps(calls)
    assert [list(call) for call in calls] == [["name", "arguments"]] * 2
    assert PARSER.parse("[]") == [] == PARSER.parse(" [ ]\n")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "Expecting value at character 0"),
        ("null", "not a list"),
        ('{"name":"lock_door","arguments":{}}', "not a list"),
        ('[{"name":"lock_door","arguments":{}}] thanks', "Extra data at character 38"),
        ('[{"name":"lock_door","arguments":{}}', "delimiter"),
        ('[{"name":"lock_door","arguments":{}},]', "Expecting value"),
        ('[{"name":"lock_door"}]', "exactly"),
        ('[{"name":"lock_door","arguments":{},"id":1}]', "exactly"),
        ('["lock_door"]', "exactly"),
        ('[{"name":"lock_door","arguments":[]}]', "arguments of call 1 are not an object"),
        ('[{"name":"lock_door","arguments":"{}"}]', "not an object"),
        ('[{"name":"lock_door","arguments":{}},{"name":"LockDoor","arguments":{}}]', 'call 2 is to "LockDoor"'),
        ('[{"name":"setLights","arguments":{}}]', "no declared tool"),
        ('[{"name":["lock_door"],"arguments":{}}]', "no declared tool"),
        ('[{"name":"set_lights","arguments":{"on":true,"on":false}}]', "'on' comes twice"),
        ('[{"name":"lock_door","name":"set_lights","arguments":{}}]', "'name' comes twice"),
        ('[{"name":"set_lights","arguments":{"room_name":1,"roomName":2}}]', "roomName is given twice"),
        ('[{"name":"lock_door","arguments":{"x":NaN}}]', "NaN"),
        ('[{"name":"lock_door","arguments":{"x":-Infinity}}]', "Infinity"),
        ('[{"name":"lock_door","arguments":{"x":1e999}}]', "too large"),
        ('[{"name":"lock_door","arguments":{"x":"a\nb"}}]', "control character"),
        ("[" * 100_000, "nested|recursion|Expecting"),
        ('[{"name":"lock_door","arguments":{"x":' + "[" * 70 + "]" * 70 + "}}]", "nested deeper"),
        ('[{"name":"lock_door","arguments":{"x":' + "9" * 5000 + "}}]", "digits"),
    ],
)
def test_everything_else_is_refused(text: str, why: str) -> None:
    with pytest.raises(CallParseError, match=why) as error:
        PARSER.parse(text)
    assert error.value.code == "call_unparsable"
    assert error.value.details["text"] == text
    assert error.value.details["tools"] == ["lock_door", "set_lights"]


def test_the_depth_that_is_allowed_is() -> None:
    inner = MAX_DEPTH - 1
    text = '[{"name":"lock_door","arguments":{"x":' + "[" * inner + "]" * inner + "}}]"
    assert PARSER.parse(text)


@pytest.mark.parametrize(
    ("text", "count"),
    [(GOOD[:-1], 2), (GOOD[:-2], 1), (GOOD[:-20] + '"', 1), (GOOD[:40], 0), ("[", 0), ("", 0), ("{}", 0), (GOOD, 2)],
)
def test_whole_calls_of_a_list_that_was_cut_off(text: str, count: int) -> None:
    assert [call.restored() for call in PARSER.complete_calls(text)] == PARSER.parse(GOOD)[:count]


def test_a_whole_call_that_is_wrong_is_refused_there_too() -> None:
    with pytest.raises(CallParseError, match="no declared tool"):
        PARSER.complete_calls('[{"name":"other","arguments":{}},{"na')


def test_one_name_with_two_schemas_finds_all_its_arguments() -> None:
    twice = [{"name": "aB", "parameters": {"properties": {name: {}}}} for name in ("oneThing", "twoThing")]
    calls = CallParser(render_tools(twice).declared).parse('[{"name":"a_b","arguments":{"one_thing":1,"two_thing":2}}]')
    assert calls == [{"name": "aB", "arguments": {"oneThing": 1, "twoThing": 2}}]


def test_where_values_begin() -> None:
    text = '[{"name":"a","arguments":{"x":"[\\"{","y":{"z":1},"on":true}},{"name":"b","arguments":{"n":-2}}]'
    starts = value_starts(text)
    assert [{name: text[at : at + 2] for name, at in call.items()} for call in starts] == [
        {"x": '"[', "y": '{"', "on": "tr"},
        {"n": "-2"},
    ]
    assert value_starts("") == [] == value_starts("[]") and value_starts('[{"name":"a') == [{}]
