"""Pydantic models as tools, parameters and records. areole does not import pydantic; who has a model has it already."""

from __future__ import annotations

import datetime
import enum
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import pytest
from fakes import TOKENIZER, FakeModel
from test_run import needle, prose, said

from areole.agent import Needle
from areole.errors import ArgumentsError
from areole.results import plain
from areole.tools import Tool, collect, tool

pytestmark = pytest.mark.usefixtures("raw_contract")

pydantic = pytest.importorskip("pydantic", minversion="2", reason="pydantic is in the test extra")


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Room(pydantic.BaseModel):
    name: str
    colour: Colour = Colour.RED
    title: str = pydantic.Field("", title="Title", description="what is on the door")


class House(pydantic.BaseModel):
    """A house."""

    model_config = pydantic.ConfigDict(strict=True)

    street_name: str
    rooms: list[Room] = []
    built: datetime.date | None = None
    floors: int = pydantic.Field(1, ge=1, le=9, title="Storeys")


class Node(pydantic.BaseModel):
    name: str
    children: list[Node] = []


def paint(room: Room, coats: Annotated[int, pydantic.Field(ge=1)] = 2) -> str:
    """Paint a room.

    Args:
        room: which one
    """
    return f"{room.name} {room.colour.value} {coats}"


def test_a_model_becomes_a_tool_without_titles_that_repeat_names() -> None:
    declared = Tool.of(House).declaration()
    assert declared["name"] == "House" and declared["description"] == "A house."
    parameters: Any = declared["parameters"]
    assert parameters["required"] == ["street_name"] and "title" not in parameters and "description" not in parameters
    assert parameters["properties"] == {
        "street_name": {"type": "string"},
        "rooms": {"type": "array", "items": {"$ref": "#/$defs/Room"}, "default": []},
        "built": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}], "default": None},
        "floors": {"type": "integer", "minimum": 1, "maximum": 9, "default": 1, "title": "Storeys"},
    }
    assert parameters["$defs"] == {
        "Colour": {"enum": ["red", "blue"], "type": "string"},
        "Room": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "colour": {"$ref": "#/$defs/Colour", "default": "red"},
                "title": {"type": "string", "default": "", "description": "what is on the door"},
            },
            "required": ["name"],
        },
    }


def test_models_are_read_as_json_even_when_strict() -> None:
    found = Tool.of(House).run(
        {"street_name": "Elm", "rooms": [{"name": "hall", "colour": "blue"}], "built": "1999-01-02", "floors": 2}
    )
    assert found == House(
        street_name="Elm", rooms=[Room(name="hall", colour=Colour.BLUE)], built=datetime.date(1999, 1, 2), floors=2
    )
    with pytest.raises(ArgumentsError) as error:
        Tool.of(House).run({"street_name": "Elm", "rooms": [{"name": 5}]})
    assert error.value.details["parameter"] == "rooms[0].name" and "House" in error.value.message


def test_models_and_notes_in_signatures() -> None:
    made = Tool.of(paint)
    parameters: Any = made.parameters
    room = Tool.of(Room).declaration()["parameters"]
    assert isinstance(room, dict) and room.pop("$defs") == parameters["$defs"]
    assert parameters["properties"] == {
        "room": {**room, "description": "which one"},
        "coats": {"type": "integer", "minimum": 1},
    }
    assert parameters["required"] == ["room"]
    assert made.run({"room": {"name": "hall", "colour": "blue"}, "coats": 3}) == "hall blue 3"
    with pytest.raises(ArgumentsError, match="coats"):
        made.run({"room": {"name": "hall"}, "coats": 0})
    with pytest.raises(ArgumentsError, match=r"room\.colour"):
        made.run({"room": {"name": "hall", "colour": "green"}})


def test_a_model_that_holds_itself() -> None:
    declared: Any = Tool.of(Node).declaration()["parameters"]
    assert declared["type"] == "object" and declared["properties"]["children"]["items"] == {"$ref": "#/$defs/Node"}
    assert set(declared["$defs"]) == {"Node"}
    assert Tool.of(Node).run({"name": "a", "children": [{"name": "b"}]}) == Node(name="a", children=[Node(name="b")])


def test_definitions_of_one_name_do_not_mix() -> None:
    other: Any = pydantic.create_model("Colour", depth=(int, ...))
    holder: Any = pydantic.create_model("Holder", colour=(other, ...))

    def mix(house: House, holder) -> None:  # type: ignore[no-untyped-def]
        pass

    mix.__annotations__["holder"] = holder
    parameters: Any = Tool.of(mix).parameters
    reference = parameters["properties"]["holder"]["properties"]["colour"]["$ref"].rpartition("/")[2]
    assert reference != "Colour" and parameters["$defs"][reference]["properties"] == {"depth": {"type": "integer"}}
    assert parameters["$defs"]["Colour"]["enum"] == ["red", "blue"]
    made: Any = Tool.of(mix).read({"house": {"street_name": "x"}, "holder": {"colour": {"depth": 1}}})
    assert made["holder"].colour.depth == 1


def test_models_run_and_their_instances_are_told_as_json() -> None:
    agent, model = needle(
        said(("room", {"name": "hall"}), ("paint", {"room": {"name": "x"}})), prose("ok"), tools=[Room, paint]
    )
    result = agent.run("x")
    assert result.results == [Room(name="hall"), "x red 2"]
    assert '[{"name":"hall","colour":"red","title":""},"x red 2"]' in TOKENIZER.decode(model.sessions[0].context)
    assert plain({"a": Room(name="b")}) == {"a": {"name": "b", "colour": "red", "title": ""}}


def test_extract_a_model() -> None:
    model = FakeModel(said(("node", {"name": "a", "children": [{"name": "b", "children": []}]})))
    with Needle(model, [], contract="raw") as agent:  # type: ignore[arg-type]
        assert agent.extract("x", Node) == Node(name="a", children=[Node(name="b")])


def test_a_marked_model_and_its_heirs() -> None:
    @tool(name="space", description="A space.")
    class Space(pydantic.BaseModel):
        size: int

    class Large(Space):
        """Large."""

        size: int = 100

    declared: Any = collect([Space, Large]).declared
    assert [(one["name"], one["description"]) for one in declared] == [("space", "A space."), ("Large", "Large.")]


def test_pydantic_is_not_imported_by_areole() -> None:
    code = "import sys, areole.agent, areole.tools, areole.openai; print('pydantic' in sys.modules)"
    root = Path(__file__).parents[2] / "pyshim"
    paths = ":".join([str(root), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": paths}
    )
    assert done.stdout.strip() == "False"
