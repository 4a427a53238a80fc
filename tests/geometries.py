"""Thirty small archives of each generation that between them have everything a header can say, with random weights.

`archive(generation, index)` makes one, the same every time; geometries2.npz and geometries3.npz have what the reference
package makes of them. The first ones hold the extremes, the rest are drawn.
"""

from __future__ import annotations

import math
import random
import struct
from typing import Any

import numpy as np
from archive_writer import CQ, F16, Plan, Record, assemble, plan
from numpy.typing import NDArray

from areole.quantise import lloyd_max

COUNT = 30
HEADS = {"embedding_head": "embedding", "contrastive_head": "embedding", "confidence_head": "confidence"}
"""The reference's names of the heads."""
TOKENS = 24
WINDOW, PREFIX = 7, 4
VOCAB = 280
ROWS = {"embedding": 0.5, "others": 0.12}
"""Root mean squares of the matrices' entries."""
CORNERS: dict[int, list[dict[str, Any]]] = {
    3: [
        {"lanes": 1, "layers": 1, "qkv_taps": 0, "sites": (), "sliding_window": 0},
        {"lanes": 8, "qkv_taps": 4, "orders": (1, 2, 3, 4), "engram_tables": 4, "layers": 2},
        {"layers": 64, "d_model": 256, "heads": 2, "kv_heads": 1, "qk_dim": 24, "v_dim": 32, "lanes": 4, "qkv_taps": 2,
         "group": 64, "global_mask": 0x8421084210842108, "sites": (0, 31, 63)},
        {"kv_heads": 4, "heads": 4, "qk_dim": 30, "v_dim": 6, "group": 32},
        {"group": 256, "d_model": 160, "hada_n": 256, "out_vocab": 40, "qkv_taps": 1},
        {"kv_bits": 4, "qk_dim": 64, "v_dim": 72, "d_model": 192, "orders": (1, 2, 4), "engram_tables": 3,
         "sites": (0,)},
        {"kv_bits": 3}, {"kv_bits": 2, "lanes": 5},
        {"orders": (3,), "engram_tables": 1, "group": 128, "kv_heads": 1, "lanes": 2},
        {"engram_seed_heads": 9, "sites": (0, 1, 2), "layers": 3, "lanes": 7},
        {"d_model": 64, "hada_n": 64, "lanes": 2, "layers": 1, "qk_dim": 6, "v_dim": 5, "heads": 2, "kv_heads": 1},
    ],
    2: [
        {"lanes": 1, "layers": 1, "sites": ()},
        {"lanes": 8, "orders": (1, 2, 3, 4), "engram_tables": 4, "layers": 4, "sites": (0, 1, 2, 3)},
        {"layers": 64, "d_model": 128, "heads": 2, "kv_heads": 1, "qk_dim": 8, "v_dim": 8, "lanes": 4,
         "sites": (0, 63)},
        {"kv_heads": 4, "heads": 4, "group": 32},
        {"group": 256, "d_model": 160, "hada_n": 256, "heads": 4},
        {"kv_bits": 4, "heads": 2, "kv_heads": 2, "d_model": 192, "orders": (2, 3, 4), "engram_tables": 3,
         "sites": (0,)},
        {"kv_bits": 3}, {"kv_bits": 2, "lanes": 5},
        {"orders": (3,), "engram_tables": 1, "group": 128, "kv_heads": 1, "lanes": 2},
        {"d_model": 64, "hada_n": 64, "lanes": 2, "layers": 1, "qk_dim": 8, "v_dim": 8, "heads": 1, "kv_heads": 1},
    ],
}  # fmt: skip


def options(generation: int, index: int) -> dict[str, Any]:
    """What `plan` is asked for."""
    rng = random.Random(1000 * generation + index)
    corners = CORNERS[generation]
    chosen = corners[index] if index < len(corners) else {}
    layers = chosen.get("layers", rng.choice((1, 1, 2)))
    d = chosen.get("d_model", rng.choice((192, 256)))
    heads = chosen.get("heads", rng.choice((2, 4, 8)))
    orders = chosen.get("orders", tuple(sorted(rng.sample((1, 2, 3, 4), rng.choice((1, 2, 4))))))
    tables = chosen.get("engram_tables", len(orders) * rng.choice((1, 2)))
    out: dict[str, Any] = {
        "layers": layers, "d_model": d, "hada_n": 1 << (d - 1).bit_length(), "heads": heads,
        "kv_heads": rng.choice([k for k in (1, 2, 4, 8) if heads % k == 0]),
        "qk_dim": rng.choice((6, 10, 24, 48)), "v_dim": rng.choice((5, 12, 24, 40)),
        "lanes": rng.randrange(3, 9), "out_vocab": rng.choice((0, 0, 33, 279)), "max_seq": 64, "vocab": VOCAB,
        "sliding_window": rng.choice((0, 1, 5, 9)), "global_mask": rng.getrandbits(layers),
        "qkv_taps": rng.randrange(5), "orders": orders, "engram_tables": tables, "engram_sub_dim": d // tables,
        "engram_slots": rng.choice((1, 7, 61)), "engram_taps": 4, "engram_dilation": max(orders),
        "sites": tuple(sorted(rng.sample(range(layers), min(layers, rng.choice((0, 1, 2)))))),
        "engram_seed_heads": rng.choice((0, 0, 9)), "kv_bits": 8, "kv_window": WINDOW,
        "rope_theta": rng.choice((100.0, 1e5)), "group": rng.choice((32, 64, 128)),
    }  # fmt: skip
    if generation == 2:
        size = rng.choice((8, 12, 32, 66))
        out |= {"qk_dim": size, "v_dim": size, "out_vocab": 0, "sliding_window": 0, "global_mask": 0, "qkv_taps": 0}
        out |= {"engram_seed_heads": 0}
    return {**out, **chosen}


def archive(generation: int, index: int) -> bytes:
    """With heads of four kinds in turn, matrices of every width and, in every third, of several groups."""
    given = options(generation, index)
    rng = random.Random(index)
    first, mixed = given.pop("group"), index % 3 == 0
    groups: dict[str, int] = {}

    def group(name: str) -> int:
        if not mixed or name == "embedding":
            return int(first)
        return groups.setdefault(name, rng.choice((32, 64, 128)))

    parts = plan(
        generation=generation, seed=index, rank=8, heads=((1, 2), (2,), (1,), ())[index % 4],
        bits=lambda name: (2, 3, 4, 5, 4, 3)[sum(name.encode()) % 6], group=group,
        query_heads=given.pop("heads"), **given,
    )  # fmt: skip
    return settled(parts)


def settled(parts: Plan) -> bytes:
    """The archive of a plan, with the codebooks that are shipped and its dense values settled."""
    for record in parts.records:
        settle(record)
    root = parts["embedding"].group ** 0.5
    parts.codebook = [float(level) / root for width in (2, 3, 4) for level in lloyd_max(width)]
    return assemble(parts)


def settle(record: Record) -> None:
    """Values of the sizes that the reference's own small archives have (needle3_tiny.cact), where the plan's are too
    wild for int8: rows of 0.5 in the embedding and 0.12 elsewhere, scales near one, taps near the newest position. A
    residual stream that is small beside what is added to it makes int8 cost a model ten times what it costs a trained
    one, whose embedding has rows of 25."""
    name = record.name.rpartition(".")[2]
    if record.dtype == CQ:
        rows, columns = record.shape
        count = rows * -(-columns // record.group)
        norms = np.frombuffer(record.blob[-2 * count :], "<f2").astype(np.float64)
        size = ROWS["embedding" if record.name == "embedding" else "others"]
        norms *= size * math.sqrt(record.group / np.mean(norms**2))
        record.blob = record.blob[: -2 * count] + norms.astype("<f2").tobytes()
    if record.dtype != F16 or name == "manifest" or name[0] == "w":
        return
    values = [0.3 * value for (value,) in struct.iter_unpack("<e", record.blob)]
    if record.name == "heads.embedding.bias":
        values = [0.0] * len(values)  # as every exporter writes it: the reference has none
    if name in ("d1", "d2", "d3", "gain"):
        values = [1 + value for value in values]
    if name.endswith("taps"):
        values[: record.shape[1]] = [1 + value for value in values[: record.shape[1]]]
    record.blob = struct.pack(f"<{len(values)}e", *values)


def tokens(index: int) -> list[int]:
    """After the start, any of the vocabulary."""
    rng = random.Random(-1 - index)
    return [2, *(rng.randrange(4, VOCAB) for _ in range(TOKENS - 1))]


def seen(index: int) -> dict[str, int]:
    """Every other one is run through a KV window with a pinned prefix."""
    return {"window": WINDOW, "prefix": PREFIX} if index % 2 else {}


def some(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """The logits (T, out_vocab) that are kept: all of a small vocabulary, every fourth of a large one."""
    return logits[:, :: 4 if logits.shape[1] > 100 else 1]
