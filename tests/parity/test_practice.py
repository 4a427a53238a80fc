"""A request answered again without a model: what is recited is what was recorded, and nothing stays of it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from areole.archive import Archive
from areole.bridge import Bridge
from areole.core import Core, load_core
from areole.errors import RequestError
from areole.known import remember
from areole.model import Model
from areole.practice import LESSONS, Lesson, Practice, Reciting, practise
from areole.tokenizer import Tokenizer

TIMES = {"confidence", "prefill_tps", "decode_tps", "peak_ram_mb"}
TOOLS = '[{"name":"note","parameters":{"type":"object","properties":{"text":{"type":"string"}}}}]'
CALL = '[{"name":"note","arguments":{"text":"milk"}}]'


def last_of(practice: Practice) -> tuple[list[int], dict[str, Any]]:
    """Token ids and the result of the request under way."""
    ids: list[int] = []
    while True:
        event = json.loads(practice.step())
        if event["type"] != "token":
            assert event["type"] == "result", event
            return ids, event["result"]
        ids.append(event["id"])


def lesson_of(tokenizer: Tokenizer, digest: str = "digest") -> Lesson:
    said = f"<think>\nso</think>\n<tool_call>{CALL}</tool_call>"
    return Lesson(digest, TOOLS, "", "note milk", tuple(tokenizer.encode(said)))


def test_the_tokens_of_a_lesson_are_answered(tiny_archive: Archive) -> None:
    tokenizer = Tokenizer(tiny_archive.vocabulary)
    lesson = lesson_of(tokenizer)
    practice = Practice([lesson], tiny_archive, tokenizer)
    for _ in range(2):
        ids, result = last_of(practice)
        assert tuple(ids) == lesson.tokens
        assert result["function_calls"] == json.loads(CALL) and result["reasoning"] == "so"


def test_only_lessons_of_a_known_archive_are_practised(tiny_archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = Tokenizer(tiny_archive.vocabulary)
    monkeypatch.setattr("areole.practice.LESSONS", [lesson_of(tokenizer, "another")])
    remember("of practice", tiny_archive, tokenizer)
    assert practise("of practice") is None and practise("another") is None
    monkeypatch.setattr("areole.practice.LESSONS", [lesson_of(tokenizer, "of practice")])
    practice = practise("of practice")
    assert practice is not None and last_of(practice)[1]["function_calls"] == json.loads(CALL)


def test_a_lesson_that_is_refused_says_why(tiny_archive: Archive) -> None:
    lesson = Lesson("", '[{"name":"note","parameters":{"type":"nothing"}}]', "", "note milk", (1,))
    with pytest.raises(RequestError, match="schema"):
        Practice([lesson], tiny_archive, Tokenizer(tiny_archive.vocabulary)).step()


def test_what_it_allocates_it_frees(tiny_archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    cores: list[Reciting] = []

    def kept(tokens: tuple[int, ...]) -> Reciting:
        cores.append(Reciting(tokens))
        return cores[-1]

    monkeypatch.setattr("areole.practice.Reciting", kept)
    tokenizer = Tokenizer(tiny_archive.vocabulary)
    practice = Practice([lesson_of(tokenizer)], tiny_archive, tokenizer)
    last_of(practice)
    practice.step()
    practice.close()
    assert len(cores) == 2 and all(not core._heap._used for core in cores)


@pytest.mark.model
def test_the_real_model_s_answer_is_recited(real_model_path: Path, data_dir: Path) -> None:
    data = real_model_path.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    core: Core = load_core("native")
    presets = json.loads((data_dir / "presets.json").read_text(encoding="utf-8"))
    entry = next(entry for entry in presets if entry["id"] == "preset/home")
    with Model.load(data, core) as model:
        remember(digest, model.archive, model.tokenizer)
        bridge = Bridge(model)
        bridge.declare(json.dumps(entry["tools"]), entry["system"])
        run = bridge.begin(entry["turns"][0]["text"])
        assert not isinstance(run, str)
        events = [json.loads(event) for event in iter(run.step, "")]
    ids = tuple(event["id"] for event in events[:-1])
    lesson = Lesson(digest, json.dumps(entry["tools"]), entry["system"], entry["turns"][0]["text"], ids)
    LESSONS.append(lesson)
    try:
        practice = practise(digest)
        assert practice is not None
        answered, result = last_of(practice)
    finally:
        LESSONS.remove(lesson)
    assert tuple(answered) == ids
    lasting = [{key: value for key, value in one.items() if key not in TIMES} for one in (result, events[-1]["result"])]
    assert lasting[0] == lasting[1]
