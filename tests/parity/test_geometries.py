"""Everything that a header can say, on the archives of geometries.py, against the reference package.

The twin in float is the reference in float: 2e-3 (measured: 1.2e-4), which proves the formulas. The twin with the
reference's roundings is the quantised reference (measured: 1e-13; 5e-5 where a rounding was a toss-up). The core is
held to the quantised reference and to the twin with the core's roundings, to BAR: a cosine of 0.9998 at every position
(measured: 0.99983 and 0.99998). The first is the further one, for the core rounds activations after their rotation and
the reference before it.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

import geometries
import numpy as np
import pytest
from goldens import CONFIDENCE, cosine
from twin import CoreTwin, Twin

from areole.archive import Archive, parse
from areole.core import load_core
from areole.model import Model

FLOAT, SAME, BAR = 2e-3, 1e-4, 2e-4
CASES = [pytest.param(generation, index, id=f"{generation}-{index}") for generation in (3, 2) for index in range(30)]
Golden = dict[str, np.ndarray]


def distance(a: object, b: object) -> float:
    """1 - cosine, of the position where it is largest."""
    return float(1 - cosine(np.asarray(a), np.asarray(b)).min())


@functools.cache
def goldens(generation: int) -> Golden:
    with np.load(Path(__file__).parents[1] / "data" / f"geometries{generation}.npz") as file:
        return dict(file)


@functools.lru_cache(maxsize=2)
def case(generation: int, index: int) -> tuple[bytes, Archive, list[int], Golden]:
    """An archive, its tokens, and the reference's outputs by name."""
    data, start = geometries.archive(generation, index), f"{index}_"
    golden = {name.removeprefix(start): a for name, a in goldens(generation).items() if name.startswith(start)}
    assert hashlib.sha256(data).digest() == golden["sha256"].tobytes(), "the writer makes another archive than it did"
    return data, parse(data), geometries.tokens(index), golden


@functools.cache
def core_logits(generation: int, index: int) -> np.ndarray:
    """(T, out_vocab), the first tokens pinned."""
    data, _, ids, _ = case(generation, index)
    prefix, window = geometries.PREFIX, geometries.seen(index).get("window", 0)
    with (
        Model.load(data, load_core("native")) as model,
        model.session(prefix_capacity=prefix, kv_window=window) as session,
    ):
        rows = [*session.all_logits(ids[:prefix], pin=True), *session.all_logits(ids[prefix:])]
    return np.array(rows, np.float32).reshape(len(ids), -1)


@pytest.mark.parametrize(("generation", "index"), CASES)
def test_the_twin_is_the_reference(generation: int, index: int) -> None:
    _, archive, ids, golden = case(generation, index)
    logits, _ = Twin(archive).run(ids, **geometries.seen(index))
    assert np.abs(geometries.some(logits) - golden["float"]).max() < FLOAT
    logits, _ = Twin(archive, quantised=True).run(ids, **geometries.seen(index))
    assert distance(geometries.some(logits), golden["logits"]) < SAME


@pytest.mark.parametrize(("generation", "index"), CASES)
def test_the_core(generation: int, index: int) -> None:
    data, archive, ids, golden = case(generation, index)
    twin, logits = CoreTwin(archive), core_logits(generation, index)
    assert distance(logits, twin.run(ids, **geometries.seen(index))[0]) < BAR
    assert distance(geometries.some(logits), golden["logits"]) < BAR
    cells = twin.run(ids)[1]
    with Model.load(data, load_core("native")) as model, model.session(kv_window=0) as session:
        session.prefill(ids, logits=False)
        for _, head in archive.heads:
            found, own = np.array(session.head(head)), twin.head_output(twin.pooled(cells, head), head)
            if head == "embedding":
                assert distance(found, own) < BAR
                assert distance(found, golden[head]) < BAR
            else:
                assert abs(found[0] - own[0]) < CONFIDENCE and abs(found[0] - golden[head][0]) < CONFIDENCE


def test_what_the_archives_cover() -> None:
    """The extremes that the format is to be tested at."""
    three, two = ([geometries.options(g, index) for index in range(geometries.COUNT)] for g in (3, 2))
    for every in (three, two):
        assert {given["lanes"] for given in every} == set(range(1, 9))
        assert {given["kv_bits"] for given in every} == {2, 3, 4, 8}
        assert {given["group"] for given in every} >= {32, 64, 128, 256}
        assert {len(given["orders"]) for given in every if given["sites"]} == {1, 2, 3, 4}
        assert 64 in {given["layers"] for given in every}
        assert any(not given["sites"] for given in every)
        assert any(given["kv_heads"] == given["heads"] > 1 for given in every)
    assert {given["qkv_taps"] for given in three} == {0, 1, 2, 3, 4}
    assert {given["sliding_window"] for given in three} >= {0, 1, 5}
    assert any(given["qk_dim"] != given["v_dim"] for given in three)
    assert any(0 < given["out_vocab"] < given["vocab"] for given in three)
    assert any(given["engram_seed_heads"] for given in three)
