"""needle2_tiny.cact (random weights, CQ widths 2, 3, 4 and ternary, group 64) against the reference's outputs.

As test_tiny.py, for the other generation. The reference leaves the lanes, queries, keys and values of Needle 2 in
float, where the core's kernels have them in int8; that is within the same bars: cosine 0.99993 was measured.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import geometries
import numpy as np
import pytest
from archive_writer import plan
from goldens import CONFIDENCE, cosine
from twin import CoreTwin, Twin

from areole.agent import Needle
from areole.archive import parse
from areole.core import Core, load_core
from areole.errors import RequestError
from areole.golden import evaluate
from areole.ladder import rung
from areole.model import Model

Golden = dict[str, np.ndarray]


@pytest.fixture(scope="module")
def path(data_dir: Path) -> Path:
    return data_dir / "needle2_tiny.cact"


@pytest.fixture(scope="module")
def golden(data_dir: Path) -> Golden:
    with np.load(data_dir / "needle2_tiny.npz") as file:
        return dict(file)


@pytest.fixture(scope="module")
def model(core: Core, path: Path) -> Iterator[Model]:
    with Model.load(path, core) as loaded:
        yield loaded


def test_twin(path: Path, golden: Golden) -> None:
    archive, ids = parse(path.read_bytes()), golden["ids"].tolist()
    assert np.abs(Twin(archive).run(ids)[0] - golden["logits_float"]).max() < 2e-3
    twin = Twin(archive, quantised=True)
    logits, cells = twin.run(ids)
    assert cosine(logits, golden["logits"]).min() > 0.99999
    assert cosine(cells, golden["cells"]).min() > 0.99999
    assert cosine(twin.run(ids, window=12, prefix=5)[0], golden["logits_window"]).min() > 0.99999
    assert abs(twin.head_output(twin.pooled(cells, "confidence"), "confidence")[0] - golden["confidence"][0]) < 0.01
    assert cosine(twin.head_output(twin.pooled(cells, "embedding"), "embedding"), golden["embedding"]) > 0.99999


def test_logits_and_heads(model: Model, golden: Golden) -> None:
    ids = golden["ids"].tolist()
    with model.session(kv_window=0) as session:
        logits = np.array(session.all_logits(ids)).reshape(len(ids), -1)
        assert cosine(logits, golden["logits"]).min() > 0.9998
        assert abs(session.head("confidence")[0] - golden["confidence"][0]) < CONFIDENCE
        assert cosine(np.array(session.head("embedding")), golden["embedding"]) > 0.9998
        assert len(session.pooled("confidence")) == 8 * 256


def test_window_and_batches(model: Model, golden: Golden) -> None:
    ids = golden["ids"].tolist()
    with model.session(prefix_capacity=5, kv_window=12) as session:
        logits = [*session.all_logits(ids[:5], pin=True), *session.all_logits(ids[5:])]
        pool = session.pooled().tobytes()
        assert cosine(np.array(logits).reshape(len(ids), -1), golden["logits_window"]).min() > 0.9998
        session.reset()
        again = [*session.all_logits(ids[:5], pin=True)]
        for token in ids[5:]:
            again += session.all_logits([token])
        assert again == logits and session.pooled().tobytes() == pool


def test_every_build_gives_the_same_bits(path: Path, golden: Golden) -> None:
    request = {"ids": golden["ids"].tolist(), "prefix": 5, "positions": [3, 39]}
    seen = []
    for kind in ("native", "wasmtime", "wasmtime-simd128"):
        with Model.load(path, load_core(kind)) as model:
            result = evaluate(model, request)
            result.pop("flavor")
            seen.append(result)
    assert seen[0] == seen[1] == seen[2]


def test_it_has_no_ladder(model: Model, path: Path) -> None:
    for ask in (lambda: model.at_depth(3), lambda: rung(parse(path.read_bytes()), 3)):
        with pytest.raises(RequestError, match="not trained for any but its 5"):
            ask()
    assert rung(parse(path.read_bytes()), 5).to_bytes() == path.read_bytes()


def test_the_space_before_the_text(model: Model) -> None:
    """The tokenizer puts one before each text that it is given whole."""
    tokenizer = model.tokenizer
    assert tokenizer.vocabulary.add_dummy_prefix
    assert tokenizer.decode(tokenizer.encode("the light")) == "the light"


# ---------------------------------------------------------------------------------------------------------------------
# The shipped geometry
# ---------------------------------------------------------------------------------------------------------------------

SHIPPED = {
    "layers": 27, "d_model": 512, "hada_n": 512, "query_heads": 8, "kv_heads": 4, "qk_dim": 64, "v_dim": 64,
    "vocab": 8192, "max_seq": 2048, "lanes": 4, "engram_slots": 8192, "engram_sub_dim": 128, "engram_tables": 4,
    "engram_taps": 4, "engram_dilation": 3, "orders": (2, 3), "sites": (2, 15), "rope_theta": 1e5, "kv_window": 256,
}  # fmt: skip


@pytest.fixture(scope="module")
def shipped() -> bytes:
    """Random weights in the shape of the released model: no released file of that generation is at hand."""
    return geometries.settled(plan(generation=2, heads=(1, 2), group=64, bits=2, seed=27, **SHIPPED))


def agrees(data: bytes) -> None:
    """The core and the twin that rounds as it does, through prompt and window; every build to the bit."""
    archive = parse(data)
    ids = [2, *(random.Random(0).randrange(4, archive.geometry.vocab) for _ in range(15))]
    twin, rows = CoreTwin(archive), []
    for kind in ("native", "wasmtime"):
        with Model.load(data, load_core(kind)) as model:
            with model.session(prefix_capacity=3, kv_window=6) as session:
                rows.append([*session.all_logits(ids[:3], pin=True), *session.all_logits(ids[3:])])
            assert model.tokenizer.decode(model.tokenizer.encode("a light")) == "a light"
    assert rows[0] == rows[1]
    logits = np.array(rows[0]).reshape(len(ids), -1)
    assert cosine(logits, twin.run(ids, window=6, prefix=3)[0]).min() > 0.9998


def test_the_shipped_geometry(shipped: bytes) -> None:
    archive = parse(shipped)
    assert len(archive.tensors) == 405 and archive.geometry.generation == 2
    assert 12e6 < len(shipped) < 14.5e6  # the released file has 13.7 million bytes
    agrees(shipped)


def test_tools_and_heads_in_the_shipped_geometry(shipped: bytes) -> None:
    """A request over many tools: the nearest are chosen, and no other is called."""
    tools = [{"name": f"tool{n}", "description": f"does {n}", "parameters": {"type": "object"}} for n in range(8)]
    with Model.load(shipped, load_core("native")) as model, Needle(model, tools, contract="raw") as needle:
        envelope = needle.complete("do a thing", 12)
        assert len(needle.shown) == 5 and {call["name"] for call in envelope["function_calls"]} <= set(needle.shown)
        assert 0 <= envelope["confidence"] <= 1


@pytest.mark.model
def test_a_file_of_your_own() -> None:
    named = os.environ.get("AREOLE_NEEDLE2")
    if not named:
        pytest.skip("no released Needle 2 weights are known; AREOLE_NEEDLE2 names a file to test with")
    data = Path(named).read_bytes()
    assert parse(data).geometry.generation == 2
    agrees(data)
