"""A rung at run time against the archive that is cut for it, to the bit, and against the reference's own rung."""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path

import numpy as np
import pytest
from goldens import ROW_COSINE, cosine

from areole.agent import Needle
from areole.archive import Archive, parse
from areole.bridge import Bridge
from areole.core import Core, load_core
from areole.errors import CoreError, RequestError
from areole.golden import evaluate
from areole.ladder import rung
from areole.model import Model

Golden = dict[str, np.ndarray]


@pytest.fixture(scope="module")
def golden(data_dir: Path) -> Golden:
    """Orders, and the reference's rungs of the tiny archive and of the real weights."""
    with np.load(data_dir / "ladder.npz") as file:
        return dict(file)


@pytest.mark.parametrize("depth", [2, 3, 4, 5])
def test_at_run_time_and_cut(
    core: Core, tiny_model: Model, tiny_archive: Archive, tiny_golden: Golden, depth: int
) -> None:
    """Logits, pooled vectors and heads, through a window and from one session to the next."""
    request = {"ids": tiny_golden["ids"].tolist(), "prefix": 5, "positions": [3, 39]}
    short = tiny_model.at_depth(depth)
    assert short.geometry.layers == depth
    with Model.load(rung(tiny_archive, depth).to_bytes(), core) as cut:
        assert cut.geometry == short.geometry
        assert evaluate(short, request) == evaluate(cut, request)
    with Model.load(rung(tiny_archive, 5).to_bytes(), core, depth=depth) as loaded:
        assert loaded.geometry == short.geometry
        assert evaluate(short, request) == evaluate(loaded, request)


@pytest.mark.parametrize("depth", [2, 3, 4])
def test_the_reference(tiny_model: Model, tiny_golden: Golden, golden: Golden, depth: int) -> None:
    ids = tiny_golden["ids"].tolist()
    with tiny_model.at_depth(depth).session(kv_window=0) as session:
        logits = np.array(session.all_logits(ids)).reshape(len(ids), -1)
        embedding, confidence = np.array(session.head("embedding")), session.head("confidence")[0]
    assert cosine(logits, golden[f"tiny_{depth}"]).min() > 0.9998
    assert cosine(embedding, golden[f"tiny_{depth}_embedding_head"]) > 0.9995
    assert abs(confidence - golden[f"tiny_{depth}_confidence_head"]) < 0.04


def test_the_page_s_pieces(tiny_path: Path, tiny_archive: Archive) -> None:
    """What a bridge plans, with a core that has repacked its copy, is what is cut from the file."""
    data = tiny_path.read_bytes()
    with Model.load(tiny_path, load_core("native")) as model:
        bridge = Bridge(model)
        for depth in (2, 4, 5):
            plan = json.loads(bridge.slice(depth))
            pieces = [b64decode(p) if isinstance(p, str) else data[p[0] : p[0] + p[1]] for p in plan["pieces"]]
            assert b"".join(pieces) == rung(tiny_archive, depth).to_bytes() and plan["bytes"] == sum(map(len, pieces))
            assert plan["name"] == f"needle3_tiny-{depth}.cact"
        assert json.loads(bridge.slice(6))["code"] == "request_option"


def test_rungs_live_side_by_side(tiny_model: Model, tiny_golden: Golden) -> None:
    """Sessions of several depths take turns and do not disturb each other, nor the whole model."""
    ids = tiny_golden["ids"].tolist()[:20]
    models = [tiny_model.at_depth(depth) for depth in (2, 4, 5)]
    assert models[2] is tiny_model and models[0] is tiny_model.at_depth(2)
    alone = []
    for model in models:
        with model.session() as session:
            alone.append(session.all_logits(ids))
    sessions = [model.session() for model in models]
    for at in range(0, 20, 5):
        for session in sessions:
            session.prefill(ids[at : at + 5])
    for session, logits in zip(sessions, alone, strict=True):
        assert session.logits() == logits[-len(session.logits()) :]
        session.close()


def test_a_rung_closes_with_its_model(tiny_path: Path) -> None:
    model = Model.load(tiny_path, load_core("native"))
    before = model.core.memory_bytes
    short = model.at_depth(3)
    short.close()
    assert model.core.memory_bytes == before
    short, shortest = model.at_depth(3), model.at_depth(2)
    session = short.session()
    model.close()
    assert short.closed and shortest.closed
    with pytest.raises(RequestError, match="closed"):
        session.prefill([2])


def test_a_depth_that_there_is_not(tiny_path: Path, tiny_model: Model) -> None:
    for depth in (1, 6):
        with pytest.raises(RequestError, match="2 to 5"):
            tiny_model.at_depth(depth)
        with pytest.raises(RequestError, match="2 to 5"):
            Model.load(tiny_path, tiny_model.core, depth=depth)
        with pytest.raises(RequestError, match="2 to 5"):
            Needle(tiny_model, [], depth=depth)


def test_a_snapshot_of_another_depth_is_refused(tiny_model: Model, tiny_golden: Golden) -> None:
    with tiny_model.session() as whole, tiny_model.at_depth(4).session() as short:
        whole.prefill(tiny_golden["ids"].tolist()[:9])
        with pytest.raises(CoreError) as caught:
            short.restore(whole.snapshot())
    assert caught.value.code == "core_bad_snapshot"


@pytest.mark.parametrize("blocks", [[], [1, 1], [3, 2], [5], [0, 1, 2, 3, 4, 5]])
def test_the_core_refuses_blocks_that_are_none(tiny_model: Model, blocks: list[int]) -> None:
    core = tiny_model.core
    scratch = core.alloc(256)
    core.write(scratch, memoryview(np.array([*blocks, 0], np.uint32)).cast("B"))
    out = scratch + 128
    assert core.call("areole_rung_size", tiny_model.arena, scratch, len(blocks), out) == -1
    core.free(scratch)


@pytest.fixture(scope="module")
def real(real_model_path: Path) -> Model:
    return Model.load(real_model_path, load_core("native"))


@pytest.mark.model
@pytest.mark.parametrize("depth", [2, 4, 8, 12, 16, 20])
def test_the_real_weights(real: Model, real_model_path: Path, data_dir: Path, golden: Golden, depth: int) -> None:
    entry = json.loads((data_dir / "needle3_golden.json").read_text(encoding="utf-8"))[0]
    request = {"ids": entry["ids"], "prefix": entry["prefix_tokens"], "positions": entry["positions"][1:3]}
    result = evaluate(real.at_depth(depth), request)
    cut = rung(parse(real_model_path.read_bytes()), depth).to_bytes()
    with Model.load(cut, real.core) as short:
        assert evaluate(short, request) == result
    if depth < 20:
        with real.at_depth(depth).session(prefix_capacity=entry["prefix_tokens"]) as session:
            at = entry["prefix_tokens"]
            session.prefill(entry["ids"][:at], pin=True, logits=False)
            rows = []
            for position in request["positions"]:
                session.prefill(entry["ids"][at : position + 1])
                rows.append(np.array(session.logits()))
                at = position + 1
        assert cosine(np.array(rows), golden[f"real_{depth}"]).min() > ROW_COSINE
