"""Tools chosen by the embedding head of the tiny archives, and what the model then sees."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from areole.agent import Needle
from areole.core import load_core
from areole.model import Model
from areole.prompt import render_tools
from areole.retrieval import MOST, can_retrieve, chosen, ranked, subset, text_of, vector


@pytest.fixture(scope="module")
def golden(data_dir: Path) -> dict[str, Any]:
    """Tools, requests, and by generation the reference's cosines of them: a row a request."""
    found: dict[str, Any] = json.loads((data_dir / "retrieval.json").read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="module", params=[3, 2])
def model(request: pytest.FixtureRequest, data_dir: Path) -> Iterator[Model]:
    with Model.load(data_dir / f"needle{request.param}_tiny.cact", load_core("native")) as loaded:
        yield loaded


def test_tools_are_ranked_by_cosine(model: Model, golden: dict[str, Any]) -> None:
    tools = render_tools(golden["tools"]).declared
    for text in golden["requests"]:
        order = ranked(model, tools, text)
        wanted = vector(model, text)
        cosines = [float(np.dot(wanted, vector(model, text_of(tool)))) for tool in tools]
        assert order == sorted(range(len(tools)), key=lambda place: (-round(cosines[place], 12), place))


def test_the_reference(model: Model, golden: dict[str, Any]) -> None:
    """The reference's order of all ten tools for each request, and its cosines (measured: within 0.0004)."""
    tools = render_tools(golden["tools"]).declared
    for text, wanted in zip(golden["requests"], golden["cosines"][str(model.geometry.generation)], strict=True):
        cosines = [float(np.dot(vector(model, text), vector(model, text_of(tool)))) for tool in tools]
        assert np.abs(np.array(cosines) - wanted).max() < 1e-3
        order = np.argsort(wanted)[::-1].tolist()
        assert ranked(model, tools, text) == order
        assert chosen(model, tools, text) == tuple(sorted(order[:MOST]))


def test_the_model_sees_the_nearest_five(model: Model, golden: dict[str, Any]) -> None:
    text = golden["requests"][1]
    with Needle(model, golden["tools"], contract="raw") as needle:
        assert needle.shown == () and needle.prefix_tokens == 0
        needle.complete(text, 3)
        places = chosen(model, needle.tools, text)
        assert len(places) == MOST and needle.shown == tuple(golden["tools"][place]["name"] for place in places)
        with Needle(model, subset(golden["tools"], places), contract="raw") as five:
            assert needle.prefix_tokens == five.prefix_tokens
            needle.reset()
            again, alone = needle.complete(text, 8), five.complete(text, 8)
        assert again["reasoning"] == alone["reasoning"] and again["function_calls"] == alone["function_calls"]
        needle.reset()
        assert needle.shown == ()


def test_a_conversation_keeps_its_tools(model: Model, golden: dict[str, Any]) -> None:
    with Needle(model, golden["tools"], contract="raw") as needle:
        needle.complete(golden["requests"][0], 3)
        shown = needle.shown
        needle.complete(golden["requests"][3], 2)
        assert needle.shown == shown
        with needle.stateless():
            needle.complete(golden["requests"][3], 3)
        assert needle.shown == shown
    with Needle(model, golden["tools"][:6], contract="raw", retrieve=False) as needle:
        assert len(needle.shown) == 6 and needle.prefix_tokens > 0
    with Needle(model, golden["tools"][:MOST], contract="raw") as needle:
        assert len(needle.shown) == MOST and needle.prefix_tokens > 0


def test_tools_as_text_stay_text(golden: dict[str, Any]) -> None:
    text = '[{"name": "a", "parameters": {"x": 1.0}}, {"name":"b"}, {"name":"c"}]'
    assert subset(text, (0, 2)) == '[{"name":"a","parameters":{"x":1.0}},{"name":"c"}]'


def test_a_named_tool_is_among_them(model: Model, golden: dict[str, Any]) -> None:
    tools = render_tools(golden["tools"]).declared
    last = ranked(model, tools, "dim")[-1]
    assert last not in chosen(model, tools, "dim") and last in chosen(model, tools, "dim", tools[last].name)


@pytest.mark.model
def test_the_released_weights_have_no_head_for_it(real_model_path: Path) -> None:
    with Model.load(real_model_path, load_core("native")) as model:
        assert not can_retrieve(model)
