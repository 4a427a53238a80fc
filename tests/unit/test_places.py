"""Where compact JSON stands, byte by byte."""

from __future__ import annotations

import json

import pytest

from areole.places import Place, Steps

CALL = '[{"name":"f","arguments":{'


def at(text: str) -> Place:
    place = Place()
    for byte in text.encode("utf-8"):
        place.step(byte)
    return place


@pytest.mark.parametrize(
    ("text", "steps", "value"),
    [
        ("", (), b""),
        ("[", (0,), b""),
        ("[{", (0, ""), None),
        ('[{"na', (0, ""), b'"na'),
        ('[{"name"', (0, "name"), None),
        ('[{"name":', (0, "name"), b""),
        ('[{"name":"f', (0, "name"), b'"f'),
        ('[{"name":"f"', (0, "name"), b'"f"'),
        ('[{"name":"f",', (0, ""), None),
        (CALL, (0, "arguments", ""), None),
        (CALL + '"a"', (0, "arguments", "a"), None),
        (CALL + '"a":', (0, "arguments", "a"), b""),
        (CALL + '"a":-1.5', (0, "arguments", "a"), b"-1.5"),
        (CALL + '"a":tru', (0, "arguments", "a"), b"tru"),
        (CALL + '"a":1,', (0, "arguments", ""), None),
        (CALL + '"a":1,"b":2', (0, "arguments", "b"), b"2"),
        (CALL + '"a":[', (0, "arguments", "a", 0), b""),
        (CALL + '"a":[1,', (0, "arguments", "a", 1), b""),
        (CALL + '"a":[1,2', (0, "arguments", "a", 1), b"2"),
        (CALL + '"a":[1]', (0, "arguments", "a"), None),
        (CALL + '"a":[]', (0, "arguments", "a"), None),
        (CALL + '"a":[{"b":[[', (0, "arguments", "a", 0, "b", 0, 0), b""),
        (CALL + '"a":[{"b":1},{"c":"', (0, "arguments", "a", 1, "c"), b'"'),
        (CALL + '"a":{"b":1}', (0, "arguments", "a"), None),
        (CALL + "}", (0, "arguments"), None),
        (CALL + "}}", (0,), None),
        (CALL + "}},", (1,), b""),
        (CALL + "}}]", (), None),
        ("[]", (), None),
    ],
)
def test_the_place_and_the_value_that_is_being_written(text: str, steps: Steps, value: bytes | None) -> None:
    place = at(text)
    assert (place.steps, place.value) == (steps, value)


@pytest.mark.parametrize("text", ['a"b', "back\\slash", "]},{[:", "日本 😀", "\n\u0001", '\\"', ""])
def test_what_stands_in_a_string_is_no_structure(text: str) -> None:
    written = json.dumps(text, ensure_ascii=False)
    open_place = at(CALL + '"a":' + written[:-1])
    assert open_place.steps == (0, "arguments", "a") and open_place.in_string
    place = at(CALL + '"a":' + written)
    assert place.value == written.encode("utf-8") and place.closed and not place.in_string
    assert at(CALL + written + ":1").steps == (0, "arguments", text)


def test_a_key_is_no_string_value() -> None:
    assert not at(CALL + '"a').in_string and not at(CALL + '"a":').in_string and not at(CALL + '"a":1').in_string
    assert at(CALL + '"a":"').in_string and at('[{"name":"').in_string


def test_closed_is_only_the_byte_after_a_strings_end() -> None:
    text = CALL + '"a":"x",'
    assert [at(text[:n]).closed for n in range(len(CALL), len(text) + 1)] == [False] * 7 + [True, False]
    assert not at(CALL + '"a"').closed and not at(CALL + '"a":1').closed


def test_tools_are_the_names_of_all_calls_so_far() -> None:
    assert at('[{"name":"f').tools == ()
    assert at('[{"name":"f"').tools == ("f",)
    assert at(CALL + '"name":"x"').tools == ("f",)
    assert at(CALL + '"a":[{"name":"x"').tools == ("f",)
    assert at(CALL + '}},{"name":"g\\u0041"').tools == ("f", "gA")


def test_a_copy_goes_its_own_way() -> None:
    place = at(CALL + '"a":["x')
    other = place.copy()
    for byte in b'","y"]}},{"name":"g"':
        other.step(byte)
    assert (place.steps, place.value, place.tools) == ((0, "arguments", "a", 0), b'"x', ("f",))
    assert place.in_string and not place.closed
    assert (other.steps, other.value, other.tools) == ((1, "name"), b'"g"', ("f", "g"))
    for byte in b'","y"]}},{"name":"g"':
        place.step(byte)
    assert (place.steps, place.value, place.tools) == (other.steps, other.value, other.tools)
