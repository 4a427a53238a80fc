"""Whole answers of the real weights against the official engine's, on the native core: where neither its grammar nor
its gates had a say, counts, reasoning, calls and confidences agree, for every budget and across turns."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from areole.agent import Needle
from areole.core import load_core
from areole.gates import FLOOR
from areole.model import Model

pytestmark = pytest.mark.model

DATA = Path(__file__).parents[1] / "data"
WEB = Path(__file__).parents[2] / "web"
EXAMPLES = [
    entry for file in ("presets.json", "domains.json") for entry in json.loads((WEB / file).read_text(encoding="utf-8"))
]
CASES = {entry["id"]: entry for entry in json.loads((DATA / "contract_cases.json").read_text(encoding="utf-8"))}
BUDGETS = sorted(name for name in CASES if name.startswith("budget/"))
RESULTS = ["turns/02", "turns/03", "turns/04", "turns/06", "turns/07", "turns/08"]
SAME = ("type", "success", "error", "error_code", "reason", "function_calls", "suppressed_calls", "reasoning")


@pytest.fixture(scope="module")
def model(real_model_path: Path) -> Iterator[Model]:
    with Model.load(real_model_path, load_core("native")) as loaded:
        yield loaded


@pytest.fixture(scope="module")
def kitchen(model: Model) -> Iterator[Needle]:
    """The one tool that these cases share."""
    tools = [CASES[name]["tools"] for name in BUDGETS + RESULTS]
    assert all(one == tools[0] for one in tools)
    with Needle(model, tools[0], contract="raw") as needle:
        yield needle


def check(needle: Needle, turn: dict[str, Any], confidence: float | None) -> None:
    answer, official = needle.answer(turn["text"], turn["max_new_tokens"]), turn["response"]
    mine = {key: answer.envelope[key] for key in SAME}
    assert mine == {key: official[key] for key in SAME}
    assert answer.tokens == turn["tokens"]
    if confidence is not None:
        assert answer.envelope["confidence"] == pytest.approx(official["confidence"], abs=confidence)


@pytest.mark.parametrize("name", BUDGETS)
def test_every_budget_ends_where_the_official_engine_ends(kitchen: Needle, name: str) -> None:
    (turn,) = CASES[name]["turns"]
    kitchen.reset()
    check(kitchen, turn, 0.04)


@pytest.mark.parametrize("name", RESULTS)
def test_a_second_turn_goes_on_where_the_first_ended(kitchen: Needle, name: str) -> None:
    """A tool's result or another request, answered in words, with another call or with none. Without rules the
    confidence is the head's alone; under the contract needle it is the official engine's."""
    first, second = CASES[name]["turns"]
    kitchen.reset()
    check(kitchen, first, 0.04)
    check(kitchen, second, None)
    with kitchen.sibling(CASES[name]["tools"], contract="needle") as needle:
        check(needle, first, 0.04)
        check(needle, second, 0.05)


def test_a_stream_of_the_real_model_can_be_cancelled_and_asked_again(kitchen: Needle) -> None:
    (turn,) = CASES["budget/13"]["turns"]
    kitchen.reset()
    stream = kitchen.stream(turn["text"], turn["max_new_tokens"])
    for _ in range(9):
        next(stream)
    stream.close()
    check(kitchen, turn, 0.04)


@pytest.mark.parametrize("contract", ["areole", "needle"])
def test_looking_ahead_changes_nothing(model: Model, contract: str) -> None:
    presets = json.loads((DATA / "presets.json").read_text(encoding="utf-8"))
    guessed = 0
    for entry in presets:
        told = []
        for lookahead in (False, True):
            options: dict[str, Any] = {"contract": contract, "explain": True, "lookahead": lookahead}
            with Needle(model, entry["tools"], entry["system"], **options) as needle:
                answers = [needle.answer(entry["turns"][0]["text"], 200) for _ in range(2)]
                told.append([{key: a.envelope.get(key) for key in (*SAME, "confidence", "areole")} for a in answers])
                guessed += needle.guesses
        assert told[0] == told[1]
    assert guessed > 0


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: str(example["id"]))
def test_the_page_s_examples_show_what_it_can_do(model: Model, example: dict[str, Any]) -> None:
    """Each with its own request makes calls that the page would not refuse; one shows that nothing fits."""
    with Needle(model, json.dumps(example["tools"]), example["system"]) as needle:
        result = needle.complete(example["text"])
    if example["id"] == "refuse":
        assert result["function_calls"] == []
        return
    assert result["function_calls"] and result["suppressed_calls"] == []
    assert isinstance(result["confidence"], float) and result["confidence"] >= FLOOR
