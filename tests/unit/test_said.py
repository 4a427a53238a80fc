"""Contract needle writes the enum values that a request says."""

from __future__ import annotations

from pathlib import Path

import pytest

from areole.grammar import compile_tools
from areole.prompt import render_tools
from areole.said import SaidConstraint, first_said
from areole.tokenizer import Tokenizer

TOOLS = [
    {
        "name": "setFan",
        "parameters": {
            "type": "object",
            "properties": {"roomName": {"enum": ["kitchen", "living_room"]}, "note": {"type": "string"}},
            "required": ["roomName"],
        },
    }
]


@pytest.fixture(scope="module")
def tokenizer(data_dir: Path) -> Tokenizer:
    return Tokenizer.from_blob((data_dir / "needle3_tokenizer.bin").read_bytes())


@pytest.mark.parametrize(
    ("request_text", "value"),
    [
        ("the living room fan", "living_room"),
        ("Kitchen, then the living room", "kitchen"),
        ("the living room, then the kitchen", "living_room"),
        ("kitchenette", None),
        ("", None),
    ],
)
def test_the_first_said_value(request_text: str, value: str | None) -> None:
    assert first_said(["kitchen", "living_room", 3], request_text) == value


def written(constraint: SaidConstraint, tokenizer: Tokenizer, text: str) -> str:
    """Feeds a text, and then what the constraint forces."""
    for token in tokenizer.encode(text, markers=False):
        constraint.accept(token)
    out = b""
    while constraint._forced:
        choice = constraint.choose(None)  # type: ignore[arg-type]
        assert choice is not None and choice[1]
        out += tokenizer.piece_bytes(choice[0])
        constraint.accept(choice[0])
    return out.decode()


def test_a_said_value_and_its_quote_are_forced_and_nothing_else(tokenizer: Tokenizer) -> None:
    tools = render_tools(TOOLS).declared
    grammar = compile_tools(tools, tokenizer, "needle")

    def constraint(text: str) -> SaidConstraint:
        return SaidConstraint(grammar.start(), tools, tokenizer, text)

    begun = '[{"name":"set_fan","arguments":{"room_name":"'
    assert written(constraint("the living room fan"), tokenizer, begun) == 'living_room"'
    assert written(constraint("the hall fan"), tokenizer, begun) == ""
    assert written(constraint("the kitchen fan"), tokenizer, '[{"name":"set_fan","arguments":{"note":"') == ""
    assert written(constraint("the kitchen fan"), tokenizer, '[{"name":"') == ""
