"""The Python API over the real weights: what is taken from a cache, fed from messages or awaited is the same to the
bit, and the examples do what they say."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from areole.agent import Needle
from areole.core import load_core
from areole.model import Model
from areole.openai import chat_completions
from areole.prefixes import PrefixCache

pytestmark = pytest.mark.model

ROOT = Path(__file__).parents[2]
TOOLS = [
    {
        "name": "setLights",
        "description": "Set a room's lights.",
        "parameters": {
            "type": "object",
            "properties": {"roomName": {"type": "string"}, "brightness": {"type": "integer"}},
            "required": ["roomName", "brightness"],
        },
    },
    {
        "name": "lock_door",
        "description": "Lock a door.",
        "parameters": {"type": "object", "properties": {"door": {"type": "string"}}, "required": ["door"]},
    },
]
REQUEST = "dim the kitchen lights to 20 percent and lock the front door"


@pytest.fixture(scope="module")
def model(real_model_path: Path) -> Iterator[Model]:
    with Model.load(real_model_path, load_core("native")) as loaded:
        yield loaded


def same(envelope: dict[str, Any]) -> dict[str, Any]:
    """An envelope without what a clock or a meter says."""
    return {key: value for key, value in envelope.items() if key not in ("prefill_tps", "decode_tps", "peak_ram_mb")}


def test_a_prefix_from_the_cache_gives_the_same_answer(model: Model) -> None:
    PrefixCache.of(model).clear()
    with Needle(model, TOOLS, "user: Sam") as first, Needle(model, TOOLS, "user: Sam") as second:
        assert (first.prefix_cached, second.prefix_cached) == (False, True)
        for text in (REQUEST, '[{"ok":true},{"ok":true}]'):
            one, other = first.answer(text), second.answer(text)
            assert same(one.envelope) == same(other.envelope) and one.text == other.text
        second.reset()
        assert same(second.complete(REQUEST))["function_calls"]


def test_history_from_messages_goes_on_as_the_conversation_did(model: Model) -> None:
    with Needle(model, TOOLS) as needle:
        first = needle.answer(REQUEST)
        second = needle.answer('["done","done"]')
        third = needle.answer("now lock the back door")
    messages: list[Any] = [{"role": "user", "content": REQUEST}]
    answer: Any = chat_completions(model, messages, TOOLS)
    message = answer["choices"][0]["message"]
    calls = [
        {"name": call["function"]["name"], "arguments": json.loads(call["function"]["arguments"])}
        for call in message["tool_calls"]
    ]
    assert calls == first.function_calls and len(calls) == 2
    assert message["areole"]["confidence"] == first.envelope["confidence"]
    messages += [
        message,
        *({"role": "tool", "tool_call_id": call["id"], "content": "done"} for call in message["tool_calls"]),
    ]
    answer = chat_completions(model, messages, TOOLS)
    message = answer["choices"][0]["message"]
    assert (message["content"], message["areole"]["confidence"]) == (second.text, second.envelope["confidence"])
    assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
    messages += [message, {"role": "user", "content": "now lock the back door"}]
    answer = chat_completions(model, messages, TOOLS)
    message = answer["choices"][0]["message"]
    assert message["areole"]["reasoning"] == third.envelope["reasoning"]
    assert message["areole"]["confidence"] == third.envelope["confidence"]


def test_an_awaited_embedding_is_the_same_to_the_bit(model: Model) -> None:
    text = "lock the front door and dim the lights " * 20
    with Needle(model, []) as needle:
        assert asyncio.run(needle.aembed(text)) == needle.embed(text)


def example(name: str, *arguments: str, model_path: Path) -> str:
    environment = {**os.environ, "AREOLE_MODEL": str(model_path), "PYTHONPATH": str(ROOT / "pyshim")}
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / name), *arguments], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_smart_home_example(real_model_path: Path) -> None:
    first = example("smart_home.py", model_path=real_model_path).splitlines()
    wanted = "set_lights({\"room\": \"kitchen\", \"brightness\": 40}) -> {'room': 'kitchen', 'brightness': 40}"
    assert first[0] == wanted and first[1]
    both = example("smart_home.py", "set the heating to eco", model_path=real_model_path)
    assert both.startswith("set_heating({\"mode\": \"eco\"}) -> {'heating': 'ECO'}\n")


def test_the_booking_example(real_model_path: Path) -> None:
    found = example("extract_booking.py", model_path=real_model_path)
    assert found == "Booking(restaurant=\"Luigi's\", guests=4, name='Sam Carter')\n"
