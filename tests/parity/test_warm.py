"""What a page has ready before its first request: an archive that is known, and a small model for the kernels."""

from __future__ import annotations

import base64
import hashlib
import json
import sys
from pathlib import Path

import pytest
from archive_writer import write

from areole.archive import Archive, parse
from areole.bridge import Bridge
from areole.core import Core, check
from areole.known import MOST, recall, remember
from areole.model import CoreReader, Model
from areole.prefixes import Record
from areole.tokenizer import Tokenizer

sys.path.append(str(Path(__file__).resolve().parents[2] / "web"))  # for rehearsal

from rehearsal import TOKENS, VOCAB, rehearsal  # noqa: E402

TOOLS = '[{"name":"a"}]'


class View(bytes):
    """Bytes as the page hands them over."""

    def to_bytes(self) -> bytes:
        return bytes(self)


def placed(core: Core, data: bytes) -> int:
    address = core.alloc(len(data))
    core.write(address, data)
    return address


def test_an_archive_that_was_read_before_is_not_read_again(
    core: Core, tiny_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tiny_path.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    logits, tokenizers, addresses = [], [], []
    for turn in range(2):
        addresses.append(placed(core, data))
        with Model.adopt(core, addresses[-1], len(data), f"copy {turn}", digest=digest) as model:
            monkeypatch.setattr("areole.model.parse", lambda *_: pytest.fail("it was read again"))
            assert model.archive.name == f"copy {turn}" and model.archive.nbytes == len(data)
            tokenizers.append(model.tokenizer)
            with model.session() as session:
                logits.append(session.all_logits([1, 2, 3]))
    assert logits[0] == logits[1] and tokenizers[0] is tokenizers[1]
    for address in addresses:
        core.free(address)


def test_only_the_same_bytes_are_known(core: Core, tiny_archive: Archive) -> None:
    reader = CoreReader(core, 0, tiny_archive.nbytes)
    remember("this", tiny_archive, Tokenizer(tiny_archive.vocabulary))
    assert recall("this", reader, "x") is not None
    assert recall("that", reader, "x") is None and recall(None, reader, "x") is None
    assert recall("this", CoreReader(core, 0, tiny_archive.nbytes - 1), "x") is None
    for place in range(MOST):
        remember(f"later {place}", tiny_archive, Tokenizer(tiny_archive.vocabulary))
    assert recall("this", reader, "x") is None


@pytest.mark.parametrize("kind", ["tiny", "needle 2", "without heads"])
def test_the_small_model_of_zeros_runs(kind: str, core: Core, tiny_archive: Archive) -> None:
    made = {"needle 2": {"generation": 2}, "without heads": {"heads": ()}}
    archive = parse(write(**made[kind])) if kind in made else tiny_archive
    spec = rehearsal(archive)
    assert spec["vocab"] == VOCAB and spec["bytes"] < 2**22
    geometry, tensors = (placed(core, base64.b64decode(spec[key])) for key in ("geometry", "tensors"))
    described = [geometry, tensors, spec["count"], placed(core, bytes(spec["bytes"])), spec["bytes"]]
    codes = base64.b64decode(spec["manifest"]["codes"])
    core.write(described[3] + spec["manifest"]["at"], codes)
    assert bool(codes) == bool(archive.heads)
    out = core.alloc(64)

    def arena(name: str, *args: int) -> tuple[int, int]:
        check(core.call(name, *args, out), name)
        size = int.from_bytes(core.read(out, 4), "little")
        return core.alloc(size), size

    model, size = arena("areole_model_size", *described)
    check(core.call("areole_model_init", model, size, *described), "the model")
    session, size = arena("areole_session_size", model, 2, TOKENS, 0)
    check(core.call("areole_session_init", session, size, model, 2, TOKENS, 0), "the session")
    ids, logits = placed(core, bytes([1, 0, 0, 0, 2, 0, 0, 0])), core.alloc(8 * VOCAB)
    check(core.call("areole_prefill", session, ids, 2, 1, 0), "a prefix")
    check(core.call("areole_decode", session, 1, logits), "a token")
    check(core.call("areole_draft", session, ids, 2, logits), "a draft")
    assert core.read(logits, 8 * VOCAB) == bytes(8 * VOCAB)
    for address in (*(described[i] for i in (0, 1, 3)), out, model, session, ids, logits):
        core.free(address)


def test_a_prefix_of_an_earlier_visit_gives_the_same_bits_and_one_of_no_use_is_fed_again(
    core: Core, tiny_path: Path
) -> None:
    def first_logits(kept: bytes | None) -> tuple[bool, bytes, list[float]]:
        with Model.load(tiny_path, core) as model:
            bridge = Bridge(model)
            if kept is not None:
                assert json.loads(bridge.offer(View(kept)))["taken"] is True
            told = json.loads(bridge.declare(TOOLS, "", '{"contract": "raw"}'))
            record = bridge.prefix()
            assert record is not None and bridge._needle is not None and bridge._needle._conversation is not None
            session = bridge._needle._conversation.session
            session.decode(5)
            return told["prefix_cached"], record, list(session.logits())  # type: ignore[attr-defined]

    cached, record, logits = first_logits(None)
    assert not cached
    assert first_logits(record) == (True, record, logits)
    # The hash of a record is the page's to check; this one has another model's state in it.
    broken = bytearray(record)
    broken[-len(Record.read(record).data) :] = bytes(len(Record.read(record).data))  # type: ignore[union-attr]
    assert first_logits(bytes(broken)) == (False, record, logits)


def test_no_record_is_not_taken(core: Core, tiny_path: Path) -> None:
    with Model.load(tiny_path, core) as model:
        bridge = Bridge(model)
        assert bridge.prefix() is None
        deeper = Record(model.geometry.layers + 1, (1,), (1, 64, None), 1, b"x").to_bytes()
        for record in (b"", b"no record", deeper):
            assert json.loads(bridge.offer(View(record)))["taken"] is False
