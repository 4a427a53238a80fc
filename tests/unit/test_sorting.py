"""Which tools only sort a message into classes."""

from __future__ import annotations

import pytest

from areole.prompt import ToolSpec, render_tools
from areole.sorting import sorts

CLASSES = {"enum": ["spam", "fine"]}


def tool(name: str, properties: object, required: object = None, description: str = "") -> dict[str, object]:
    names = list(properties) if required is None and isinstance(properties, dict) else required
    schema = {"type": "object", "properties": properties, "required": names}
    return {"name": name, "description": description, "parameters": schema}


def declared(*tools: object) -> tuple[ToolSpec, ...]:
    return render_tools(tools).declared


@pytest.mark.parametrize(
    ("name", "argument", "description"),
    [
        ("classifyMessage", "value", ""),
        ("route", "value", ""),
        ("handle", "sentiment", ""),
        ("handle", "mainTopic", ""),
        ("handle", "value", "Triages an incoming ticket."),
        ("handle", "value", "Says what kind of text it is, to categorise it."),
        ("detectLanguage", "value", ""),
    ],
)
def test_one_tool_that_says_so_sorts(name: str, argument: str, description: str) -> None:
    assert sorts(declared(tool(name, {argument: CLASSES}, description=description)))


def test_a_tool_that_does_not_say_so_does_not_sort() -> None:
    assert not sorts(declared(tool("set_mode", {"mode": CLASSES}, description="Sets the mode of the fan.")))


def test_one_of_several_tools_does_not_sort() -> None:
    one = tool("classify", {"topic": CLASSES})
    assert sorts(declared(one)) and not sorts(declared(one, tool("other", {}))) and not sorts(())


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string"},
        {"enum": ["only"]},
        {"enum": []},
        {"enum": [1, 2]},
        {"enum": ["a", None]},
        {"type": "array", "items": CLASSES},
    ],
)
def test_every_required_argument_is_one_of_several_texts(schema: object) -> None:
    assert not sorts(declared(tool("classify", {"topic": schema})))
    assert not sorts(declared(tool("classify", {"topic": CLASSES, "tone": schema})))
    assert sorts(declared(tool("classify", {"topic": CLASSES, "tone": schema}, ["topic"])))


def test_an_argument_must_be_required() -> None:
    assert not sorts(declared(tool("classify", {"topic": CLASSES}, [])))
    assert not sorts(declared(tool("classify", {"topic": CLASSES}, ["missing"])))
    assert not sorts(declared({"name": "classify"}))


def test_references_to_classes_are_followed() -> None:
    schema = {
        "type": "object", "properties": {"topic": {"$ref": "#/$defs/classes"}}, "required": ["topic"],
        "$defs": {"classes": CLASSES},
    }  # fmt: skip
    assert sorts(declared({"name": "classify", "parameters": schema}))
