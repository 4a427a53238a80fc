"""Which keywords are understood, what is refused and how, and what schemas at one place mean together."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from areole.errors import SchemaError, ToolsError
from areole.regex import FORMATS, Regexes
from areole.schema import (
    FREE_FORMATS,
    INTEGER_FORMATS,
    KEYWORDS,
    Anything,
    Array,
    Never,
    Node,
    Number,
    Reader,
    Record,
    String,
    Union,
    Values,
    key_of,
)

ROOT = Path(__file__).parents[2]
SIX = ["string", "number", "object", "array", "boolean", "null"]


def arguments(parameters: object, strict: bool = True) -> tuple[Node, Reader]:
    reader = Reader(parameters, "tool", Regexes(), strict=strict)
    return reader.parameters(), reader


def argument(schema: object, **more: Any) -> Node:
    """The shape of a property with some schema."""
    node, _ = arguments({"type": "object", "properties": {"a": schema}, **more})
    assert isinstance(node, Record)
    return node.properties["a"]


def refused(parameters: object) -> dict[str, object]:
    with pytest.raises(SchemaError) as caught:
        arguments(parameters)
    assert isinstance(caught.value, ToolsError) and caught.value.code == "tools_schema"
    return caught.value.details


def refused_property(schema: object, **more: Any) -> dict[str, object]:
    return refused({"type": "object", "properties": {"a": schema}, **more})


def test_the_page_lists_what_the_table_says() -> None:
    page = (ROOT / "docs" / "schema.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([^`]+)` \| (enforced|refused|no rule) \|", page, re.MULTILINE))
    assert rows == {keyword: support for keyword, (support, _) in KEYWORDS.items()}
    for keyword, (_, remark) in KEYWORDS.items():
        line = next(line for line in page.splitlines() if line.startswith(f"| `{keyword}` |"))
        assert line.split(" | ", 2)[2].rstrip("| ").strip() == remark.replace("|", "\\|"), keyword
    listed = re.findall(r"^- `([a-z0-9-]+)`: ", page, re.MULTILINE)
    assert set(listed) == {*FORMATS, *FREE_FORMATS, *INTEGER_FORMATS}


@pytest.mark.parametrize("keyword", sorted(k for k, (support, _) in KEYWORDS.items() if support == "refused"))
def test_refused_keywords_are_named_with_their_place(keyword: str) -> None:
    details = refused_property({"type": "object", "properties": {"b": {"type": "string", keyword: {}}}})
    assert (details["path"], details["keyword"]) == ("tool.a.b", keyword)
    assert details["do"] == KEYWORDS[keyword][1]


def test_unknown_keywords_are_refused_but_not_extensions() -> None:
    assert refused_property({"type": "string", "maxlength": 3})["keyword"] == "maxlength"
    assert isinstance(argument({"type": "string", "x-unit": "m", "title": "A"}), String)


@pytest.mark.parametrize(
    ("schema", "keyword"),
    [
        ({"type": "strnig"}, "type"),
        ({"type": 3}, "type"),
        ({"enum": []}, "enum"),
        ({"enum": "a"}, "enum"),
        ({"const": "\ud800"}, "const"),
        ({"type": "string", "pattern": "(?=a)"}, "pattern"),
        ({"type": "string", "pattern": 5}, "pattern"),
        ({"type": "string", "format": "iban"}, "format"),
        ({"type": "integer", "format": "date"}, "format"),
        ({"type": "string", "minLength": -1}, "minLength"),
        ({"type": "string", "minLength": 5000}, "minLength"),
        ({"type": "string", "maxLength": "3"}, "maxLength"),
        ({"type": "number", "minimum": "3"}, "minimum"),
        ({"type": "number", "multipleOf": 0}, "multipleOf"),
        ({"type": "number", "maximum": 1e200}, "maximum"),
        ({"$ref": "#/$defs/none"}, "$ref"),
        ({"$ref": "other.json"}, "$ref"),
        ({"anyOf": []}, "anyOf"),
        ({"oneOf": {}}, "oneOf"),
        ("string", "schema"),
        ({"type": "object", "properties": []}, "properties"),
        ({"type": "object", "required": True}, "required"),
        ({"type": "array", "prefixItems": [{}], "uniqueItems": True}, "uniqueItems"),
        ({"oneOf": [{"type": "number"}, {"type": "integer"}]}, "oneOf"),
        ({"oneOf": [{"type": "object"}, {"type": "object", "required": ["x"]}]}, "oneOf"),
    ],
)
def test_bad_values_are_refused(schema: object, keyword: str) -> None:
    details = refused_property(schema)
    assert details["keyword"] == keyword and details["path"] == "tool.a"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "minimum": 3, "maximum": 2},
        {"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 2},
        {"type": "integer", "minimum": 1, "maximum": 6, "multipleOf": 7},
        {"type": "string", "minLength": 3, "maxLength": 2},
        {"type": "string", "pattern": "^(ab)*$", "minLength": 3, "maxLength": 3},
        {"type": "integer", "enum": ["a"]},
        {"type": "string", "format": "date", "maxLength": 9},
        {"allOf": [{"type": "string"}, {"type": "integer"}]},
        {"type": "array", "minItems": 3, "maxItems": 2},
        {"type": "array", "items": False, "minItems": 1},
        False,
        {"type": "object", "additionalProperties": False, "minProperties": 1},
        {"enum": [1, 2], "minimum": 3},
        {"type": "object", "properties": {"b": False}, "required": ["b"]},
    ],
)
def test_contradictions_are_refused_where_required(schema: object) -> None:
    assert "cannot be satisfied" in str(refused_property(schema, required=["a"])["what"])
    assert isinstance(argument(schema), Never)  # an optional property without a value is one that never comes


def test_types_aliases_and_nullable() -> None:
    assert isinstance(argument({"type": "float"}), Number)
    whole = argument({"type": "int", "minimum": 2})
    assert isinstance(whole, Number) and whole.bounds.whole and whole.bounds.least == 2
    both = argument({"type": ["integer", "number", "null"]})
    assert isinstance(both, Union) and sum(isinstance(option, Number) for option in both.options) == 1
    assert isinstance(argument({}), Anything) and isinstance(argument(True), Anything)
    nullable = argument({"type": "string", "nullable": True})
    assert isinstance(nullable, Union) and any(isinstance(o, Values) and o.texts == ("null",) for o in nullable.options)
    assert isinstance(argument({"maxLength": 3}), String) and isinstance(argument({"minItems": 1}), Array)


def texts(schema: object) -> list[str]:
    node = argument(schema)
    assert isinstance(node, Values), node
    return list(node.texts)


def test_listed_values_keep_to_the_other_rules() -> None:
    assert texts({"enum": ["a", 1, 1.0, True, None]}) == ['"a"', "1", "true", "null"]
    assert texts({"type": "integer", "enum": ["a", 1, 2.0, 2.5]}) == ["1", "2"]
    assert set(texts({"enum": [1, 5, "x"], "minimum": 3})) == {"5", '"x"'}
    assert texts({"allOf": [{"enum": [1.0, "a"]}, {"enum": [1]}]}) == ["1"]
    assert texts({"enum": ["a", "b"], "const": "b"}) == ['"b"']
    assert texts({"type": "string", "enum": ["ab", "abc"], "pattern": "^..$"}) == ['"ab"']
    assert texts({"type": "object", "enum": [{"b": 1}, {"c": 2}], "required": ["b"]}) == ['{"b":1}']


def test_all_of_puts_rules_together() -> None:
    node = argument({"allOf": [{"type": "integer", "minimum": 2, "multipleOf": 4}, {"maximum": 30, "multipleOf": 6}]})
    assert isinstance(node, Number)
    assert (node.bounds.least, node.bounds.most, node.bounds.multiple, node.bounds.whole) == (2, 30, 12, True)
    merged = argument(
        {
            "type": "object",
            "properties": {"x": {"type": "string"}},
            "allOf": [{"properties": {"x": {"maxLength": 3}, "y": {"type": "null"}}, "required": ["y"]}],
        }
    )
    assert isinstance(merged, Record) and merged.required == ("y",)
    inner = merged.properties["x"]
    assert isinstance(inner, String) and inner.most == 3
    either = argument(
        {
            "type": "object",
            "properties": {"x": {"type": "string"}, "y": {"type": "string"}},
            "anyOf": [{"required": ["x"]}, {"required": ["y"]}],
        }
    )
    assert isinstance(either, Union)
    assert [option.required for option in either.options if isinstance(option, Record)] == [("x",), ("y",)]


def test_one_of_where_branches_part() -> None:
    kinds = [
        {"type": "object", "properties": {"kind": {"const": kind}, "n": {"type": "integer"}}, "required": ["kind"]}
        for kind in ("a", "b")
    ]
    assert isinstance(argument({"oneOf": kinds}), Union)
    assert isinstance(
        argument({"oneOf": [{"type": "integer", "maximum": 3}, {"type": "integer", "minimum": 4}]}), Union
    )
    assert isinstance(
        argument({"oneOf": [{"type": "string", "pattern": "^a"}, {"type": "string", "pattern": "^b"}]}), Union
    )
    assert isinstance(argument({"oneOf": [{"enum": [1, 2]}, {"type": "integer", "minimum": 3}]}), Union)


def test_references_also_into_themselves() -> None:
    tree = {"type": "object", "properties": {"left": {"$ref": "#/$defs/t~1ree"}}, "required": []}
    node = argument({"$ref": "#/$defs/t~1ree"}, **{"$defs": {"t/ree": tree}})
    depth = 0
    while isinstance(node, Record):
        node, depth = node.properties["left"], depth + 1
    assert isinstance(node, Never) and 2 < depth < 20
    endless = {**tree, "required": ["left"]}
    what = refused_property(
        {"$ref": "#/$defs/t"},
        required=["a"],
        **{"$defs": {"t": {**endless, "properties": {"left": {"$ref": "#/$defs/t"}}}}},
    )["what"]
    assert "without end" in str(what)


def test_parameters_in_all_their_forms() -> None:
    free, _ = arguments(None)
    assert isinstance(free, Record) and isinstance(free.others, Anything)
    none, _ = arguments({"type": "object", "properties": {}})
    assert isinstance(none, Record) and none.others is None
    bare, _ = arguments({"room": {"type": "string"}, "required": ["room"]})
    assert isinstance(bare, Record) and list(bare.properties) == ["room"] and bare.required == ("room",)
    assert refused({"type": "string"})["keyword"] == "parameters"
    undeclared, _ = arguments({"type": "object", "properties": {}, "required": ["x"]})
    assert isinstance(undeclared, Record) and isinstance(undeclared.properties["x"], Anything)


def test_not_strict_goes_on_and_remembers() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "not": {}, "format": "iban"}}, "required": ["b"]}
    node, reader = arguments(schema, strict=False)
    assert isinstance(node, Record) and isinstance(node.properties["a"], String) and node.required == ()
    assert [problem.details["keyword"] for problem in reader.problems] == ["not", "format"]


def test_equal_values() -> None:
    assert key_of(1) == key_of(1.0) != key_of(True) != key_of("1")
    assert key_of({"a": 1, "b": [2]}) == key_of(json.loads('{"b":[2.0],"a":1}'))
