"""JSON text that keeps what its author wrote, and refusals that say where."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from areole.jsontext import MAX_DEPTH, Array, JsonFault, Literal, Object, Text, minify, parse, to_python, write

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES, st.sampled_from([None, 1, "\t"]), st.booleans())
@settings(max_examples=150, deadline=None)
def test_it_agrees_with_pythons_json(value: object, indent: int | str | None, escaped: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=escaped)
    tree = parse(text)
    assert to_python(tree) == value
    assert json.loads(write(tree)) == value
    assert write(parse(write(tree))) == write(tree)
    assert json.loads(minify(text)) == value


@given(st.text(alphabet='[]{}",: \n\\u1ae-.tn0', max_size=24))
@settings(max_examples=400, deadline=None)
def test_it_takes_what_pythons_json_takes(text: str) -> None:
    """Strings are read more generously, so only texts without a backslash or a raw control character compare."""
    try:
        json.loads(text)
        valid = True
    except ValueError:
        valid = False
    try:
        parse(text)
        taken = True
    except JsonFault:
        taken = False
    if "\\" not in text and "\n" not in text:
        assert taken == valid
    assert taken or not valid


@pytest.mark.parametrize("literal", ["1.50", "1E+2", "3.0e-7", "-0", "0.60", "123456789012345678901234567890"])
def test_numbers_keep_their_digits(literal: str) -> None:
    assert write(parse(f' {{ "a" : [ {literal} ] }} ')) == f'{{"a":[{literal}]}}'


def test_order_and_repeated_keys_stay_and_the_first_counts() -> None:
    tree = parse('{"b":1,"a":2,"b":3}')
    assert write(tree) == '{"b":1,"a":2,"b":3}'
    assert isinstance(tree, Object) and tree.first("b") == Literal("1") and tree.first("c") is None
    assert to_python(tree) == {"b": 1, "a": 2}


@pytest.mark.parametrize(
    ("written", "read", "again"),
    [
        (r'"caf\u00e9"', "café", '"café"'),
        (r'"\ud83d\ude00"', "😀", '"😀"'),
        (r'"\ud83d x"', "\ud83d x", '"\ud83d x"'),
        (r'"a\/b"', "a/b", '"a/b"'),
        (r'"\u000a\u0022\u005c"', '\n"\\', r'"\n\"\\"'),
        (r'"\b\f\r\t\u0001\u001F"', "\b\f\r\t\x01\x1f", r'"\b\f\r\t\u0001\u001f"'),
        ('"a\tb\nc\x01"', "a\tb\nc\x01", r'"a\tb\nc\u0001"'),
        (r'"\q\x41\u00zz"', "qx41u00zz", '"qx41u00zz"'),
        ('"\x7f\u2028"', "\x7f\u2028", '"\x7f\u2028"'),
    ],
)
def test_strings_are_read_generously_and_written_plainly(written: str, read: str, again: str) -> None:
    assert parse(written) == Text(read)
    assert write(Text(read)) == again


@pytest.mark.parametrize(
    ("text", "what", "line", "column"),
    [
        ("", "ends where a value", 1, 1),
        ("[1,\n 2,]", "not ']'", 2, 4),
        ('{"a" 1}', "colon", 1, 6),
        ("{a:1}", "key in double quotes", 1, 2),
        ('[{"a":1}', "no ] closes", 1, 1),
        ('{"a":"b', "no quote", 1, 6),
        ('"a\\', "no quote", 1, 1),
        ("[01]", "not a number", 1, 2),
        ("[1.]", "not a number", 1, 2),
        ("truex", "not a number, true", 1, 1),
        ("[NaN]", "not 'N'", 1, 2),
        ("[1] x", "more text", 1, 5),
        ("[1 2]", "comma or ]", 1, 4),
    ],
)
def test_faults_say_where(text: str, what: str, line: int, column: int) -> None:
    with pytest.raises(JsonFault, match="line") as fault:
        parse(text)
    assert what in str(fault.value)
    assert (fault.value.line, fault.value.column) == (line, column)


def test_depth_has_a_limit_and_no_stack_breaks() -> None:
    assert parse("[" * MAX_DEPTH + "]" * MAX_DEPTH) != Array(())
    with pytest.raises(JsonFault, match="nested deeper"):
        parse("[" * 100_000)


@pytest.mark.parametrize(
    ("text", "small"),
    [
        (' [ "a  b\\" c" ,\n\t1 ] ', '["a  b\\" c",1]'),
        ("foo  bar", "foobar"),
        ('[{"name":"x"} ', '[{"name":"x"}'),
        ('"x  y', '"x  y'),
        ('"a\\', '"a\\'),
        ("\x0c\x0b\xa0 \u2003", "\x0c\x0b\xa0\u2003"),
    ],
)
def test_minify_takes_any_text(text: str, small: str) -> None:
    assert minify(text) == small


def test_a_huge_number_is_no_trap() -> None:
    assert to_python(parse("9" * 5000)) == float("inf")
