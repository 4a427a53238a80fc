"""Weights whose quantisation is exact arithmetic: small whole numbers over a power of two, in groups of 64.

A rotation of 64 such values by the normalised Walsh-Hadamard matrix is a sum of whole numbers over eight times that
power, and so is the square of its length, exact in single precision whatever the order of the additions. So an archive
made of them is the same to the byte on every machine and in every library.
"""

from __future__ import annotations

import functools
import random
import zlib
from typing import Any

import numpy as np
from archive_writer import tokenizer_blob
from numpy.typing import NDArray

from areole.header import Geometry
from areole.layout import Need, head_needs, model_needs

COMMON: dict[str, Any] = {
    "vocab": 280, "out_vocab": 280, "d_model": 64, "heads": 4, "kv_heads": 2, "layers": 7, "max_seq": 256, "hada_n": 64,
    "lanes": 2, "engram_slots": 11, "engram_sub_dim": 16, "engram_tables": 4, "engram_taps": 4, "engram_dilation": 3,
    "engram_seed_heads": 0, "engram_orders": (2, 3), "rope_theta": 10000.0, "kv_window": 16, "kv_bits": 8,
}  # fmt: skip
GEOMETRY = {
    3: Geometry(**COMMON, qk_dim=8, v_dim=24, sliding_window=6, global_layers=(2, 5, 6), qkv_taps=3,
                engram_sites=(1, 3, 6), generation=3),
    2: Geometry(**COMMON, qk_dim=16, v_dim=16, sliding_window=0, global_layers=(), qkv_taps=0, engram_sites=(1, 3, 6),
                generation=2),
}  # fmt: skip


def needs(g: Geometry) -> list[Need]:
    """Every tensor of an archive with an embedding and a confidence head."""
    heads = [need for code in (1, 2) for need in head_needs(g, code, 4, 4, {1: 16, 2: 1}[code])]
    return [*model_needs(g, 8), Need("heads.manifest", "f16", (2,)), *heads, Need("tokenizer", "raw", ())]


@functools.cache
def weights(generation: int) -> dict[str, NDArray[Any]]:
    """By name, in the archive's order; the permutations are the reference's own."""
    g = GEOMETRY[generation]
    out: dict[str, NDArray[Any]] = {}
    for need in needs(g):
        rng = random.Random(zlib.crc32(need.name.encode()))
        if need.dtype == "raw":
            out[need.name] = np.frombuffer(tokenizer_blob(dummy=int(generation == 2)), np.uint8)
        elif need.name == "heads.manifest":
            out[need.name] = np.array([1, 2], np.float32)
        elif need.name in ("hada_p1", "hada_p2"):
            seed = {"hada_p1": 11, "hada_p2": 13}[need.name]
            out[need.name] = np.random.RandomState(seed).permutation(g.hada_n).astype(np.float32)
        elif need.name == "heads.embedding.bias":
            out[need.name] = np.zeros(need.shape, np.float32)  # the reference exports none
        else:
            values = [rng.randint(-15, 15) / 64 for _ in range(int(np.prod(need.shape)))]
            out[need.name] = np.array(values, np.float32).reshape(need.shape)
    return out
