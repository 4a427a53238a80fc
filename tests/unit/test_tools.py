"""Tools from Python: what signatures and docstrings become, what is refused by name, and that calls are read back as
the hints promise."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import functools
import pathlib
import typing
import uuid
from collections.abc import Callable
from typing import Annotated, Any, Literal, NotRequired, Optional, TypedDict, Union

import pytest
from fakes import TOKENIZER

from areole.docstrings import read_docstring
from areole.errors import ArgumentsError, ToolsError
from areole.grammar import compile_tools
from areole.prompt import render_tools
from areole.tools import Field, Tool, collect, tool


class Mode(enum.Enum):
    """How hard it works."""

    ECO = "eco"
    TURBO = "turbo"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Corner(enum.Enum):
    TOP = (0, 0)
    END = (1, 1)


@dataclasses.dataclass(frozen=True)
class Address:
    """Where something is.

    Args:
        street: street and number
    """

    street: str
    zip_code: Annotated[str, Field(pattern="^[0-9]{4}$")]
    floor: int | None = None
    notes: list[str] = dataclasses.field(default_factory=list)
    planet: str = dataclasses.field(default="Earth", metadata={"description": "for couriers"})


@dataclasses.dataclass
class Tree:
    name: str
    children: list[Tree] = dataclasses.field(default_factory=list)


class Stop(TypedDict):
    city: str
    minutes: NotRequired[int]
    platform: Optional[str]  # noqa: UP045


UserId = typing.NewType("UserId", int)


def parameters_of(function: Callable[..., Any]) -> dict[str, Any]:
    found = Tool.of(function).parameters
    assert found is not None
    return dict(found)


def property_of(hint: Any) -> dict[str, Any]:
    def probe(value):  # type: ignore[no-untyped-def]
        return value

    probe.__annotations__ = {"value": hint}
    found = parameters_of(probe)["properties"]["value"]
    assert isinstance(found, dict)
    return found


def read(hint: Any, value: Any) -> Any:
    """The value that a function with a parameter of this hint gets."""

    def probe(value):  # type: ignore[no-untyped-def]
        return value

    probe.__annotations__ = {"value": hint}
    return Tool.of(probe).run({"value": value})


def set_lights(room: str, brightness: int = 100, *, on: bool | None = None, scene: Mode = Mode.ECO) -> str:
    """Switch the lights
    of a room.

    Args:
        room (str): the room's name,
            as people say it
        brightness: in percent

    Returns:
        what happened
    """
    return f"{room} {brightness} {on} {scene}"


def test_a_function_becomes_a_declaration() -> None:
    assert Tool.of(set_lights).declaration() == {
        "name": "set_lights",
        "description": "Switch the lights of a room.",
        "parameters": {
            "type": "object",
            "properties": {
                "room": {"type": "string", "description": "the room's name, as people say it"},
                "brightness": {"type": "integer", "description": "in percent"},
                "on": {"type": "boolean"},
                "scene": {"type": "string", "enum": ["eco", "turbo"]},
            },
            "required": ["room"],
        },
    }


def test_a_function_without_parameters_takes_none() -> None:
    def stop() -> None:
        pass

    assert Tool.of(stop).declaration() == {"name": "stop", "parameters": {"type": "object", "properties": {}}}
    with pytest.raises(ArgumentsError, match="only no argument"):
        Tool.of(stop).run({"now": True})


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (list, {"type": "array"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (typing.List[str], {"type": "array", "items": {"type": "string"}}),  # noqa: UP006
        (typing.Sequence[str], {"type": "array", "items": {"type": "string"}}),  # noqa: UP006
        (set[str], {"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
        (
            tuple[int, str],
            {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2, "maxItems": 2},
        ),
        (dict, {"type": "object"}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (dict[str, Any], {"type": "object"}),
        (Any, {}),
        (object, {}),
        (Optional[int], {"type": "integer"}),  # noqa: UP045
        (int | None, {"type": "integer"}),  # noqa: UP045
        (Union[int, str], {"anyOf": [{"type": "integer"}, {"type": "string"}]}),  # noqa: UP007
        (list[int | None], {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal[1, "b"], {"enum": [1, "b"]}),
        (Literal["a", None], {"type": "string", "enum": ["a"]}),
        (Literal[True], {"type": "boolean", "enum": [True]}),
        (Mode, {"type": "string", "enum": ["eco", "turbo"]}),
        (Level, {"type": "integer", "enum": [1, 2]}),
        (Corner, {"type": "string", "enum": ["TOP", "END"]}),
        (UserId, {"type": "integer"}),
        (datetime.date, {"type": "string", "format": "date"}),
        (datetime.time, {"type": "string", "format": "time"}),
        (datetime.datetime, {"type": "string", "format": "date-time"}),
        (uuid.UUID, {"type": "string", "format": "uuid"}),
        (decimal.Decimal, {"type": "number"}),
        (pathlib.Path, {"type": "string"}),
        (Annotated[int, "in degrees"], {"type": "integer", "description": "in degrees"}),
        (Annotated[int, Field(ge=1, le=5)], {"type": "integer", "minimum": 1, "maximum": 5}),
        (
            Annotated[int | None, Field(gt=1, lt=5, multiple_of=2)],
            {"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 5, "multipleOf": 2},
        ),
        (
            Optional[Annotated[str, Field(min_length=1, max_length=4, pattern="^a", format="email")]],  # noqa: UP045
            {"type": "string", "minLength": 1, "maxLength": 4, "pattern": "^a", "format": "email"},
        ),
        (
            Annotated[list[str], Field(min_items=1, max_items=2, unique_items=True)],
            {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2, "uniqueItems": True},
        ),
        (
            list[Annotated[str, Field(enum=("x", "y"))]],
            {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}},
        ),
        (Annotated[Any, Field(const=None)], {"const": None}),
        (
            Stop,
            {
                "type": "object",
                "properties": {
                    "city": {"type": "string"},
                    "minutes": {"type": "integer"},
                    "platform": {"type": "string"},
                },
                "required": ["city"],
            },
        ),
        (
            Address,
            {
                "type": "object",
                "description": "Where something is.",
                "required": ["street", "zip_code"],
                "properties": {
                    "street": {"type": "string", "description": "street and number"},
                    "zip_code": {"type": "string", "pattern": "^[0-9]{4}$"},
                    "floor": {"type": "integer"},
                    "notes": {"type": "array", "items": {"type": "string"}},
                    "planet": {"type": "string", "description": "for couriers"},
                },
            },
        ),
    ],
    ids=str,
)
def test_hints_become_schemas(hint: Any, schema: dict[str, Any]) -> None:
    assert property_of(hint) == schema


def test_what_is_declared_can_be_enforced() -> None:
    """Each of those schemas is one that the grammar takes, refusing nothing."""
    marks = test_hints_become_schemas.pytestmark  # type: ignore[attr-defined]
    hints = [hint for hint, _ in marks[0].args[1]]
    assert len(hints) > 40
    for hint in [*hints, Tree, list[Tree]]:

        def probe(value):  # type: ignore[no-untyped-def]
            pass

        probe.__annotations__ = {"value": hint}
        declared = render_tools([Tool.of(probe).declaration()]).declared
        assert compile_tools(declared, TOKENIZER).problems == ()


@pytest.mark.parametrize(
    ("hint", "value", "wanted"),
    [
        (int, 2.0, 2),
        (float, 2, 2.0),
        (float | int, 3, 3.0),
        (Union[int, str], "2", "2"),  # noqa: UP007
        (Mode, "eco", Mode.ECO),  # noqa: UP007
        (Level, 2, Level.HIGH),
        (Corner, "END", Corner.END),
        (set[int], [1, 2], {1, 2}),
        (tuple[int, str], [1, "a"], (1, "a")),
        (tuple[int, ...], [1, 2], (1, 2)),
        (Optional[int], None, None),  # noqa: UP045
        (dict[str, Mode], {"a": "eco"}, {"a": Mode.ECO}),  # noqa: UP045
        (datetime.date, "2026-09-18", datetime.date(2026, 9, 18)),
        (datetime.time, "09:41", datetime.time(9, 41)),
        (datetime.datetime, "2026-09-18T09:41:00", datetime.datetime(2026, 9, 18, 9, 41)),
        (decimal.Decimal, 0.1, decimal.Decimal("0.1")),
        (pathlib.Path, "a/b", pathlib.Path("a/b")),
        (uuid.UUID, "12345678123456781234567812345678", uuid.UUID("12345678123456781234567812345678")),
        (list[Address], [{"street": "Elm 1", "zip_code": "8000", "floor": 2}], [Address("Elm 1", "8000", 2)]),
        (Stop, {"city": "Bern"}, {"city": "Bern", "platform": None}),
        (Any, {"a": [1]}, {"a": [1]}),
        (Literal[1, True], True, True),
        (Annotated[str, Field(min_length=2)], "ab", "ab"),
        (Annotated[float, Field(multiple_of=0.1)], 0.3, 0.3),
        (
            Tree,
            {"name": "a", "children": [{"name": "b", "children": [{"name": "c"}]}]},
            Tree("a", [Tree("b", [Tree("c")])]),
        ),
    ],
    ids=str,
)
def test_values_are_converted_to_what_the_hint_promises(hint: Any, value: Any, wanted: Any) -> None:
    got = read(hint, value)
    assert got == wanted and type(got) is type(wanted)


@pytest.mark.parametrize(
    ("hint", "value", "parameter", "needed"),
    [
        (int, "2", "value", "a whole number"),
        (int, 2.5, "value", "a whole number"),
        (int, True, "value", "a whole number"),
        (float, "x", "value", "a number"),
        (float, float("nan"), "value", "a number"),
        (bool, 1, "value", "true or false"),
        (str, 5, "value", "text"),
        (str, None, "value", "text"),
        (list[int], [1, "b"], "value[1]", "a whole number"),
        (list[int], "12", "value", "a list"),
        (set[Any], [[1]], "value", "items that a set can hold"),
        (tuple[int, int], [1], "value", "a list of 2"),
        (dict[str, int], {"a": "b"}, "value.a", "a whole number"),
        (dict, [], "value", "an object"),
        (Mode, "ECO", "value", 'one of ["eco", "turbo"]'),
        (Literal[1], True, "value", "one of [1]"),
        (Union[int, bool], "x", "value", "a whole number or true or false"),  # noqa: UP007
        (datetime.date, "friday", "value", "a date, as 2026-09-18"),
        (uuid.UUID, "x", "value", "a UUID"),
        (datetime.date, 5, "value", "a date, as 2026-09-18"),
        (list[Address], [{"street": "x"}], "value[0].zip_code", "a value, for it is required"),
        (Address, {"street": "x", "zip_code": "80"}, "value.zip_code", "text that matches ^[0-9]{4}$"),
        (
            Address,
            {"street": "x", "zip_code": "8000", "town": "y"},
            "value.town",
            "only street, zip_code, floor, notes, planet",
        ),
        (Tree, {"name": "a", "children": [{"name": 1}]}, "value.children[0].name", "text"),
        (Annotated[int, Field(ge=3)], 2, "value", "at least 3"),
        (Annotated[int, Field(le=3)], 4, "value", "at most 3"),
        (Annotated[int, Field(gt=3)], 3, "value", "more than 3"),
        (Annotated[int, Field(lt=3)], 3, "value", "less than 3"),
        (Annotated[int, Field(multiple_of=5)], 7, "value", "a multiple of 5"),
        (Annotated[str, Field(min_length=2)], "a", "value", "at least 2 characters"),
        (Annotated[str, Field(max_length=2)], "abc", "value", "at most 2 characters"),
        (Annotated[str, Field(const="a")], "b", "value", '"a"'),
        (Annotated[int, Field(enum=[1])], 2, "value", "one of [1]"),
        (Annotated[list[int], Field(min_items=1)], [], "value", "at least 1 items"),
        (Annotated[list[int], Field(max_items=1)], [1, 2], "value", "at most 1 items"),
        (Annotated[list[int], Field(unique_items=True)], [1, 1], "value", "no item twice"),
    ],
    ids=str,
)
def test_values_that_do_not_fit_are_refused_with_their_place(
    hint: Any, value: Any, parameter: str, needed: str
) -> None:
    with pytest.raises(ArgumentsError) as error:
        read(hint, value)
    assert error.value.code == "call_arguments"
    details = error.value.details
    assert (details["function"], details["parameter"], details["needed"]) == ("probe", parameter, needed)
    assert "probe" in error.value.message and parameter in error.value.message and needed in error.value.message


@pytest.mark.parametrize(
    ("hint", "parameter"),
    [
        (bytes, "value"),
        (complex, "value"),
        (Callable[[], int], "value"),
        (dict[int, str], "value"),
        (list[bytes], "value[]"),
        (type, "value"),
        (Literal[b"x"], "value"),
        ("NoSuchName", "value"),
        (dict[str, bytes], "value.*"),
        (Annotated[int, Field(min_length=3)], "value"),
        (Annotated[str, Field(ge=3)], "value"),
        (Annotated[str, Field(max_items=3)], "value"),
        (typing.TypeVar("T"), "value"),
        (range, "value"),
    ],
    ids=str,
)
def test_hints_without_a_schema_are_refused_by_name(hint: Any, parameter: str) -> None:
    with pytest.raises(ToolsError) as error:
        property_of(hint)
    assert error.value.code == "tools_signature"
    assert (error.value.details["function"], error.value.details["parameter"]) == ("probe", parameter)
    assert "probe" in error.value.message and parameter in error.value.message


def test_a_record_that_holds_itself_is_a_definition() -> None:
    assert Tool.of(Tree).declaration() == {
        "name": "Tree",
        "parameters": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}},
            },
            "required": ["name"],
            "$defs": {
                "Tree": {
                    "type": "object",
                    "properties": {
                        "name": {"type": "string"},
                        "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}},
                    },
                    "required": ["name"],
                }
            },
        },
    }


def test_record_classes_are_tools() -> None:
    assert Tool.of(Address).run({"street": "Elm", "zip_code": "1234"}) == Address("Elm", "1234")
    assert Tool.of(Address).declaration()["description"] == "Where something is."
    assert Tool.of(Stop).run({"city": "Bern", "platform": "3"}) == {"city": "Bern", "platform": "3"}
    assert "description" not in Tool.of(Tree).declaration()


def test_defaults_and_fields() -> None:
    def order(
        item: str,
        count: int = Field(1, ge=1, description="how many"),  # type: ignore[assignment]
        size: Annotated[str, Field("M", enum=["S", "M"])] = "S",
        tags: Annotated[list[str], Field([])] = [],  # noqa: B006
        note: str | None = Field(description="free text"),  # type: ignore[assignment]
        gift: bool = Field(),  # type: ignore[assignment]
        plain=3,  # type: ignore[no-untyped-def]
        bare=None,  # type: ignore[no-untyped-def]
    ) -> Any:
        return item, count, size, tags, note, gift, plain, bare

    schema = parameters_of(order)
    assert schema["required"] == ["item", "gift"]
    assert schema["properties"]["count"] == {"type": "integer", "minimum": 1, "description": "how many"}
    assert schema["properties"]["note"] == {"type": "string", "description": "free text"}
    assert schema["properties"]["plain"] == {"type": "integer"} and schema["properties"]["bare"] == {"type": "string"}
    made = Tool.of(order)
    first = made.run({"item": "cup", "gift": True})
    assert first == ("cup", 1, "S", [], None, True, 3, None)
    with pytest.raises(ArgumentsError, match="count is 0; needed at least 1"):
        made.run({"item": "cup", "gift": True, "count": 0})
    with pytest.raises(ArgumentsError, match="gift is missing"):
        made.run({"item": "cup"})


def test_a_default_from_a_field_is_not_shared_between_calls() -> None:
    def add(tags: list[str] = Field([])) -> list[str]:  # type: ignore[assignment]  # noqa: B008
        tags.append("x")
        return tags

    made = Tool.of(add)
    assert made.run({}) == made.run({}) == ["x"]


def test_methods_partials_callables_and_positional_parameters() -> None:
    class House:
        def __init__(self) -> None:
            self.lit: list[str] = []

        @tool(description="Light a room.", triggers=["lamp"])
        def light(self, room: str, /, level: int = 3, *more: str, **rest: int) -> str:
            self.lit.append(f"{room} {level}")
            return self.lit[-1]

        def __call__(self, a: int) -> int:
            return a + 1

    house = House()
    found = collect([house.light])
    assert found.declared == [
        {
            "name": "light", "description": "Light a room.", "triggers": ["lamp"],
            "parameters": {
                "type": "object", "properties": {"room": {"type": "string"}, "level": {"type": "integer"}},
                "required": ["room"],
            },
        }
    ]  # fmt: skip
    assert found.runnable["light"].run({"room": "hall", "level": 2}) == "hall 2" and house.lit == ["hall 2"]

    def scale(a: float = 1.5, b: float = 2.5, /, c: float = 0) -> tuple[float, ...]:
        return a, b, c

    assert Tool.of(scale).run({"b": 9, "c": 1}) == (1.5, 9, 1)
    assert Tool.of(house, name="next").run({"a": 1}) == 2
    assert Tool.of(functools.partial(set_lights, "hall"), name="hall").run({"brightness": 5}).startswith("hall 5")  # type: ignore[attr-defined]
    for nameless in (house, functools.partial(set_lights), lambda room: room):
        with pytest.raises(ToolsError, match="name"):
            collect([nameless])


def test_the_decorator_gives_the_function_back_and_checks_it_at_once() -> None:
    @tool
    def plain(room: str) -> str:
        """Say it."""
        return room

    @tool(name="lampe", description="Licht", triggers=["hell"])
    def other(room: str) -> str:
        return room

    assert plain("x") == other("x") == "x"
    first, second = collect([plain, other]).declared
    assert isinstance(first, dict) and isinstance(second, dict)
    assert (first["name"], first["description"]) == ("plain", "Say it.")
    assert (second["name"], second["description"], second["triggers"]) == ("lampe", "Licht", ["hell"])
    with pytest.raises(ToolsError, match="bad: the type of data is bytes"):

        @tool
        def bad(data: bytes) -> None:
            pass


def test_a_mixed_list() -> None:
    plain = {"name": "a", "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}}}
    wrapped = {"type": "function", "function": {"name": "b"}}
    by_hand = Tool("c", "See.", {"type": "object"}, function=lambda **given: given)
    found = collect([plain, wrapped, by_hand, Tool("d"), set_lights, Address])
    assert isinstance(found.declared, list)
    assert found.declared[0] is plain and found.declared[1] is wrapped
    assert found.declared[2:4] == [
        {"name": "c", "description": "See.", "parameters": {"type": "object"}},
        {"name": "d"},
    ]
    assert list(found.runnable) == ["c", "set_lights", "Address"]
    assert found.runnable["c"].run({"anything": [1]}) == {"anything": [1]}
    with pytest.raises(ToolsError, match="without a function"):
        Tool("d").run({})
    assert collect('[{"name": "a"}]').declared == '[{"name": "a"}]'


@pytest.mark.parametrize(
    "tools",
    [
        [set_lights, set_lights],
        [{"name": "set_lights"}, set_lights],
        [set_lights, {"function": {"name": "set_lights"}}],
    ],
)
def test_two_tools_of_one_name_are_refused_where_one_runs(tools: list[object]) -> None:
    with pytest.raises(ToolsError) as error:
        collect(tools)
    assert error.value.code == "tools_duplicate" and error.value.details["got"] == "set_lights"
    collect([{"name": "a"}, {"name": "a"}])


@pytest.mark.parametrize("tools", [set_lights, Address, {"name": "x"}, 5, None])
def test_what_is_no_list_is_refused(tools: Any) -> None:
    with pytest.raises(ToolsError) as error:
        collect(tools)
    assert error.value.code == "tools_shape"


def test_classes_that_are_no_records_are_refused() -> None:
    class Plain:
        pass

    with pytest.raises(ToolsError, match="Plain cannot be a tool"):
        collect([Plain])


GOOGLE = """Do it.

    And more.

    Args:
        a: the first
            of them: really
        b (int, optional): the second
        *rest: others
    Raises:
        ValueError: never
    """
NUMPY = """Do it.

    And more.

    Parameters
    ----------
    a : int
        the first
        of them: really
    b, c : str, optional
        the second

    Returns
    -------
    int
        nothing
    """
REST = """Do it.

    And more.

    :param a: the first
        of them: really
    :param int b: the second
    :type a: int
    :returns: nothing
    """


@pytest.mark.parametrize(
    ("doc", "parameters"),
    [
        (GOOGLE, {"a": "the first of them: really", "b": "the second", "rest": "others"}),
        (NUMPY, {"a": "the first of them: really", "b": "the second", "c": "the second"}),
        (REST, {"a": "the first of them: really", "b": "the second"}),
        ("Do it.\n\nAnd more.", {}),
        ("Do it.\nAnd more.\n\nReturns:\n    x: y\n", {}),
        ("Do it. And more.\nArgs:\n\tx:\n\t\tfar\n", {"x": "far"}),
    ],
)
def test_docstring_styles(doc: str, parameters: dict[str, str]) -> None:
    assert read_docstring(doc) == ("Do it. And more.", parameters)


def test_docstrings_without_sections_are_all_description() -> None:
    assert read_docstring(None) == ("", {})
    text = "Note: lights only.\n\nA list: one, two."
    assert read_docstring(text) == ("Note: lights only. A list: one, two.", {})


def test_async_functions_are_told_apart() -> None:
    async def wait(seconds: int) -> None:
        pass

    assert Tool.of(wait).is_async and not Tool.of(set_lights).is_async and not Tool.of(Address).is_async
