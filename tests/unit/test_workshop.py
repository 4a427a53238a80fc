"""What the page's workshop asks of Python: reports on schemas, tools written in the page, and looking into archives."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from fakes import TOKENIZER, FakeModel

from areole.agent import Needle
from areole.archive import parse
from areole.archive_survey import survey, survey_page
from areole.bridge import Bridge
from areole.errors import AreoleError
from areole.page_tools import MOST_OUTPUT, PageTools
from areole.schema_report import report


def checked(*tools: dict[str, Any]) -> dict[str, Any]:
    return report(json.dumps(tools), TOKENIZER)  # type: ignore[arg-type]


def tool(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": "setLights", "parameters": {"type": "object", "properties": properties, **more}}


def test_each_rule_is_told_with_its_place_and_support() -> None:
    level = {"type": "integer", "minimum": 1, "description": "Percent"}
    items = {"type": "array", "items": {"type": "string", "format": "byte"}}
    found = checked(tool({"level": level, "rooms": items}, required=["level"]))
    (one,) = found["tools"]
    rules = {(rule["path"], rule["keyword"]): rule for rule in one["rules"]}
    assert rules["level", "minimum"]["support"] == "enforced" and rules["level", "minimum"]["value"] == "1"
    assert rules["level", "description"]["support"] == "no rule"
    assert rules["rooms[]", "format"]["support"] == "no rule"
    assert rules["", "properties"]["value"] == ""
    assert (one["name"], one["exposed"], one["refused"], one["dropped"]) == ("setLights", "set_lights", [], [])
    assert found["problem"] is None and '"set_lights"' in found["prompt"] and found["prompt_tokens"] > 5
    assert found["compile_seconds"] >= 0


def test_what_is_refused_and_what_the_official_engine_drops() -> None:
    bad = tool({"level": {"type": "integer", "not": {"const": 3}}, "name": {"type": "string", "colour": "red"}})
    found = checked(bad, {"name": "fine"})
    first, second = found["tools"]
    assert any("not" in one["details"]["keyword"] for one in first["refused"])
    assert {one["details"]["keyword"] for one in first["dropped"]} == {"not", "colour"}
    assert second["refused"] == second["dropped"] == []
    supports = {rule["keyword"]: rule["support"] for rule in first["rules"]}
    assert supports["not"] == supports["colour"] == "refused"


@pytest.mark.parametrize("text", ["[", "7", '[{"description": "no name"}]'])
def test_text_that_is_no_list_of_tools(text: str) -> None:
    found = report(text, TOKENIZER)  # type: ignore[arg-type]
    assert found["tools"] == [] and found["problem"] is not None


WRONG = [
    ([{"name": "a", "parameters": 5}], "tools_shape", "a: `parameters` is 5; needed a JSON Schema"),
    ([{"name": "a", "parameters": [1]}], "tools_shape", "a: `parameters` is [1]; needed a JSON Schema"),
    ([{"name": "b"}, {"function": {"name": "a", "parameters": "x"}}], "tools_shape", 'a: `parameters` is "x"'),
    ([{"name": "a", "description": 5}], "tools_shape", "a: `description` is 5; needed a text"),
    ([{"name": "a"}, {"name": "b"}, {"name": "a"}], "tools_duplicate", "Two tools are called a"),
    ([{"name": "a", "parameters": {"type": "object", "not": {}}}], "tools_schema", "not"),
    ([{"name": "a", "parameters": 5, "description": []}, {"name": "a"}], "tools_shape", "a: `parameters` is 5"),
    ([{"name": "a", "description": "long " * 9000}], "context_full", "the context holds 8192"),
    ([5], "tools_shape", "Tool 1 is not an object"),
]


@pytest.mark.parametrize(("tools", "code", "words"), WRONG)
def test_the_report_says_what_declaring_says(tools: list[Any], code: str, words: str) -> None:
    text = json.dumps(tools)
    with pytest.raises(AreoleError) as refused:
        Needle(FakeModel(), text)  # type: ignore[arg-type]
    assert refused.value.code == code and words in refused.value.message
    found = json.loads(str(Bridge(FakeModel()).check(text)))  # type: ignore[arg-type]
    told = [found["problem"]] if found["problem"] else [one for tool in found["tools"] for one in tool["refused"]]
    first = {key: value for key, value in refused.value.details.items() if key != "problems"}
    assert told[0] == {"code": code, "message": refused.value.message, "details": first}
    assert told == refused.value.details.get("problems", told[:1])


def test_what_is_refused_is_told_at_its_own_tool() -> None:
    found = checked({"name": "a"}, {"name": "a.b", "parameters": {"x": {"not": {}}}}, {"name": "a", "parameters": None})
    assert [[one["code"] for one in tool["refused"]] for tool in found["tools"]] == [
        [],
        ["tools_schema"],
        ["tools_duplicate"],
    ]


def test_other_contracts_take_tools_as_the_official_engine_does() -> None:
    tools = [{"name": "a", "parameters": 5, "description": 5}, {"name": "a"}]
    for contract in ("needle", "raw"):
        with Needle(FakeModel(), tools, contract=contract) as needle:  # type: ignore[arg-type]
            assert len(needle.tools) == 2


SOURCE = '''
from typing import Literal

@tool
def light(room: str, state: Literal["on", "off"] = "on") -> dict:
    """Light a room.

    Args:
        room: which one
    """
    print("lighting", room)
    return {"room": room, "state": state}

@tool(name="later")
async def wait(seconds: float) -> float:
    return seconds * 2

print("defined")
'''


def call(tools: PageTools, name: str, **arguments: object) -> dict[str, Any]:
    return asyncio.run(tools.invoke(name, arguments))


def test_functions_are_declared_and_called() -> None:
    tools = PageTools()
    made: Any = tools.define(SOURCE)
    assert made["error"] is None and made["output"] == "defined\n"
    assert [one["name"] for one in made["tools"]] == ["light", "later"]
    assert made["tools"][0]["parameters"]["properties"]["state"]["enum"] == ["on", "off"]
    assert call(tools, "light", room="hall") == {
        "value": {"room": "hall", "state": "on"},
        "output": "lighting hall\n",
        "error": None,
    }
    assert call(tools, "later", seconds=2)["value"] == 4
    assert "room" in call(tools, "light", room=7)["error"]["message"]
    assert "no function" in call(tools, "gone")["error"]["message"]


@pytest.mark.parametrize(
    ("source", "line", "words"),
    [
        ("x = 1\nif\n", 2, "SyntaxError"),
        ("x = 1\n\nraise ValueError('no')", 3, "ValueError: no"),
        ("raise SystemExit(3)", 1, "SystemExit"),
        ("x = 1", None, "@tool"),
        ("@tool\ndef f(x: bytes): ...", 1, "bytes"),
    ],
)
def test_a_source_that_fails_says_where_and_the_old_tools_stay(source: str, line: int | None, words: str) -> None:
    tools = PageTools()
    tools.define(SOURCE)
    made: Any = tools.define("print('so far')\n" + source)
    assert made["tools"] is None and words in made["error"]["message"]
    assert made["error"]["line"] == (line + 1 if line is not None else None)
    assert made["output"] == ("" if words == "SyntaxError" else "so far\n")
    assert call(tools, "light", room="hall")["error"] is None


def test_a_call_that_fails_says_where() -> None:
    tools = PageTools()
    tools.define("@tool\ndef f(x: int):\n    print('before')\n    return 1 / x\n@tool\ndef g():\n    return f")
    failed = call(tools, "f", x=0)
    assert failed["output"] == "before\n" and failed["error"]["line"] == 4
    assert "return 1 / x" in failed["error"]["trace"]
    assert call(tools, "g")["error"] is None  # what JSON cannot say is told as text


def test_only_the_end_of_much_output_is_kept() -> None:
    made: Any = PageTools().define(f"print('x' * {MOST_OUTPUT * 3} + 'end')\n@tool\ndef f(): ...")
    assert len(made["output"]) == MOST_OUTPUT + 1 and made["output"].endswith("end\n")


class View:
    """As a Uint8Array of the page."""

    def __init__(self, data: bytes) -> None:
        self.data, self.read = data, 0

    def subarray(self, start: int, end: int) -> View:
        return View(self.data[start:end])

    def to_bytes(self) -> bytes:
        return self.data


def test_a_survey_of_an_archive(tiny_path: Path) -> None:
    data = tiny_path.read_bytes()
    found: Any = survey_page(View(data), len(data), "tiny.cact")
    assert found == survey(parse(data, "tiny.cact"))
    assert found["records"] == len(found["tensors"]) and found["bytes"] == len(data)
    quantised = [row for row in found["tensors"] if row["norms"]]
    assert {row["bits"] for row in quantised} >= {2, 3, 4}
    for row in quantised:
        assert 0 <= row["norms"]["least"] <= row["norms"]["mean"] <= row["norms"]["most"]
    assert all(row["dtype"] != "cq" for row in found["tensors"] if row["norms"] is None)


def test_all_of_it_through_the_bridge(tiny_path: Path) -> None:
    bridge = Bridge(FakeModel())  # type: ignore[arg-type]

    def message(text: object) -> Any:
        assert isinstance(text, str)
        return json.loads(text)

    assert message(bridge.check('[{"name":"a"}]'))["tools"][0]["name"] == "a"
    assert message(bridge.define(SOURCE))["tools"][0]["name"] == "light"
    assert message(asyncio.run(bridge.invoke("light", '{"room":"hall"}')))["value"]["room"] == "hall"
    assert message(asyncio.run(bridge.invoke("light", "{")))["type"] == "error"
    data = tiny_path.read_bytes()
    assert message(bridge.survey(View(data), len(data), "tiny"))["generation"] == 3
    assert message(bridge.survey(View(b"xxxx"), 4, "bad"))["code"].startswith("archive_")
