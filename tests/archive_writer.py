"""Writes Needle 3 and Needle 2 archives for tests: any geometry, random values, any width per matrix.

Written from the format's description and independent of `areole.archive`, so that the reader is not checked against
itself. Values are random but plausible; only what a test sets by hand means anything.
"""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

F16, F32, CQ, RAW = 1, 2, 3, 4
TERNARY = 5
MARKERS = ("<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tools>", "</tools>", "<tool_call>", "</tool_call>")

SMALL: dict[str, Any] = {
    "kv_window": 8, "kv_bits": 8, "vocab": 280, "out_vocab": 0, "d_model": 32, "heads": 4, "kv_heads": 2, "layers": 2,
    "qk_dim": 6, "v_dim": 10, "max_seq": 64, "hada_n": 32, "lanes": 2, "sliding_window": 5, "global_mask": 0b10,
    "qkv_taps": 2, "engram_slots": 7, "engram_sub_dim": 8, "engram_tables": 4, "engram_taps": 2, "engram_dilation": 3,
    "engram_seed_heads": 0, "orders": (2, 3), "sites": (1,), "rope_theta": 10000.0,
}  # fmt: skip
"""A geometry in which no two dimensions that could be confused are equal, except where the format ties them."""
SMALL2: dict[str, Any] = {
    **SMALL, "qk_dim": 6, "v_dim": 6, "sliding_window": 0, "global_mask": 0, "qkv_taps": 0,
}  # fmt: skip
"""The same as Needle 2 can have it."""


@dataclass
class Record:
    """A tensor to be written; `blob` may be changed by a test before `assemble`."""

    name: str
    dtype: int
    shape: tuple[int, ...]
    blob: bytes
    group: int = 0
    bits: int = 0
    offset: int = 0


@dataclass
class Plan:
    """Everything an archive is made of; a test may change any part of it before `assemble`."""

    geometry: dict[str, Any]
    codebook: list[float]
    records: list[Record] = field(default_factory=list)
    generation: int = 3

    def __getitem__(self, name: str) -> Record:
        return next(record for record in self.records if record.name == name)


def gaussian_levels(count: int, group: int) -> list[float]:
    """Ascending, roughly Gaussian levels for unit vectors of `group` values."""
    return [2.2 * (2 * i + 1 - count) / count / math.sqrt(group) for i in range(count)]


def tokenizer_blob(
    pieces: Sequence[tuple[str, float, int]] | None = None, *, dummy: int = 0, fallback: int = 1
) -> bytes:
    """A blob in the RAW layout; `pieces` are (surface, score, kind) after the four special tokens."""
    if pieces is None:
        pieces = [(marker, 0.0, 3) for marker in MARKERS]
        pieces += [(f"<0x{value:02X}>", 0.0, 4) for value in range(256)]
        pieces += [("▁a", -1.0, 0), ("b", -2.0, 0)]
    every = [("<pad>", 0.0, 2), ("</s>", 0.0, 2), ("<s>", 0.0, 2), ("<unk>", 0.0, 1), *pieces]
    out = bytearray(struct.pack("<IIIIIBBH", len(every), 0, 1, 2, 3, dummy, fallback, 0))
    for surface, score, kind in every:
        data = surface.encode()
        out += struct.pack("<fBH", score, kind, len(data)) + data
    return bytes(out)


def plan(
    *, heads: Sequence[int] = (2,), group: int | Callable[[str], int] = 16,
    bits: int | Callable[[str], int] = 4, seed: int = 0, generation: int = 3, rank: int = 3,
    query_heads: int = 0, **changes: Any,
) -> Plan:  # fmt: skip
    """A sound archive of the geometry SMALL or SMALL2 with `changes`; `group` and `bits` may depend on a matrix's
    name. heads: codes of the probe heads. query_heads: the geometry's `heads`. rank: of the conditioning."""
    rng = random.Random(seed)
    g = {**(SMALL if generation == 3 else SMALL2), **changes}
    if query_heads:
        g["heads"] = query_heads
    group_of = group if callable(group) else lambda _: group
    bits_of = bits if callable(bits) else lambda _: bits
    base_group = group_of("embedding")
    levels = [level for count in (4, 8, 16) for level in gaussian_levels(count, base_group)]
    result = Plan(g, levels, generation=generation)

    def f16(name: str, *shape: int) -> None:
        values = [rng.uniform(-0.5, 0.5) for _ in range(math.prod(shape))]
        result.records.append(Record(name, F16, shape, struct.pack(f"<{len(values)}e", *values)))

    def cq(name: str, rows: int, cols: int) -> None:
        size, width = group_of(name), bits_of(name)
        padded = -(-cols // size) * size
        if width == TERNARY:
            codes = bytes(
                sum(rng.choice((0, 1, 3)) << shift for shift in (0, 2, 4, 6)) for _ in range(rows * padded // 4)
            )
        else:
            codes = rng.randbytes(rows * padded * width // 8)
        norms = [rng.uniform(0.1, 1.0) for _ in range(rows * padded // size)]
        blob = codes + struct.pack(f"<{len(norms)}e", *norms)
        result.records.append(Record(name, CQ, (rows, cols), blob, size, width))

    d, n, layers, lanes = g["d_model"], g["hada_n"], g["layers"], g["lanes"]
    a = 2 ** (int(math.log2(n)) // 2)
    b = n // a
    q, k, v, gated = (
        g["heads"] * g["qk_dim"], g["kv_heads"] * g["qk_dim"], g["kv_heads"] * g["v_dim"], g["heads"] * g["v_dim"],
    )  # fmt: skip
    cq("embedding", g["vocab"], d)
    for layer in range(layers):
        at = f"layers.{layer}."
        f16(at + "norm_in", d)
        cq(at + "q_proj", q, d)
        cq(at + "k_proj", k, d)
        cq(at + "v_proj", v, d)
        if g["qkv_taps"]:
            f16(at + "q_taps", g["qkv_taps"], q)
            f16(at + "k_taps", g["qkv_taps"], k)
            f16(at + "v_taps", g["qkv_taps"], v)
        f16(at + "q_norm", g["qk_dim"])
        f16(at + "k_norm", g["qk_dim"])
        cq(at + "gate_proj", gated, d)
        cq(at + "out_proj", d, gated)
        f16(at + "post_norm", d)
        f16(at + "attn_gate", 1)
        f16(at + "pre_hada", d)
        if generation == 2:
            for name in ("d1", "d2", "d3"):
                f16(at + name, n)
            continue
        for name in ("d1", "d2", "b2", "d3", "d4"):
            f16(at + name, n)
        for name in ("w1", "w2", "w3"):
            f16(at + name + "a", a, a)
            f16(at + name + "b", b, b)
        f16(at + "cond_v", d, rank)
        f16(at + "cond_u", rank, n)
    for name in ("a_pre", "a_post", "a_res"):
        f16("mhc." + name, layers)
    f16("mhc.b_pre", layers, lanes)
    f16("mhc.b_post", layers, lanes)
    f16("mhc.b_res", layers, lanes, lanes)
    cq("mhc.phi_pre", layers * lanes, lanes * d)
    cq("mhc.phi_post", layers * lanes, lanes * d)
    cq("mhc.phi_res", layers * lanes * lanes, lanes * d)
    for name in ("hada_p1", "hada_p2") if generation == 3 else ():
        order = list(range(n))
        rng.shuffle(order)
        result.records.append(Record(name, F32, (n,), struct.pack(f"<{n}f", *order)))
    for site in range(len(g["sites"])):
        at = f"engrams.{site}."
        cq(at + "tables", g["engram_tables"] * g["engram_slots"], g["engram_sub_dim"])
        cq(at + "key_proj", d, d)
        cq(at + "value_proj", d, d)
        f16(at + "taps", g["engram_taps"], d)
    f16("final_norm", d)
    if heads:
        result.records.append(Record("heads.manifest", F16, (len(heads),), struct.pack(f"<{len(heads)}e", *heads)))
    for code in heads:
        at = f"heads.{ {1: 'embedding', 2: 'confidence', 3: 'router'}.get(code, 'unknown') }."
        probes, queries, outputs = 2 + code, 1 + code, {2: 1, 3: 3}.get(code, 9)
        if generation == 2:
            f16(at + "probes", probes, d)
            f16(at + "proj", outputs, probes * d)
            f16(at + "bias", outputs)
            continue
        cq(at + "probes", (layers + 1) * probes, d)
        f16(at + "gain", layers + 1, probes)
        cq(at + "query", queries, d)
        f16(at + "row_bias", queries, layers + 1, probes)
        cq(at + "proj", outputs, queries * d)
        f16(at + "bias", outputs)
        if code == 3:
            f16(at + "calibration", 3)
    result.records.append(Record("tokenizer", RAW, (), tokenizer_blob()))
    return result


def assemble(parts: Plan) -> bytes:
    """The file, with blobs laid out one after the other at multiples of 64."""
    g = parts.geometry
    orders = [*g["orders"], 0, 0, 0, 0][:4]
    sites = [*g["sites"], *[0] * 16][:16]
    engrams = ("engram_slots", "engram_sub_dim", "engram_tables", "engram_taps", "engram_dilation")
    start = [len(parts.records), len(parts.codebook), g["kv_window"], g["kv_bits"], g["vocab"]]
    if parts.generation == 2:
        middle = [g[name] for name in ("d_model", "heads", "kv_heads", "layers", "qk_dim")]
        middle += [g[name] for name in ("max_seq", "hada_n", "lanes")]
        words = [0x05E12A83, *start, *middle, *(g[name] for name in engrams), len(g["orders"]), *orders]
        words += [len(g["sites"]), *sites[:4]]
    else:
        middle = [g[name] for name in ("out_vocab", "d_model", "heads", "kv_heads", "layers", "qk_dim", "v_dim")]
        middle += [g[name] for name in ("max_seq", "hada_n", "lanes", "sliding_window")]
        middle += [g["global_mask"] & 0xFFFFFFFF, g["global_mask"] >> 32, g["qkv_taps"]]
        words = [0x05E12A84, *start, *middle, *(g[name] for name in engrams), g["engram_seed_heads"]]
        words += [len(g["orders"]), *orders, len(g["sites"]), *sites]
    header = struct.pack(f"<{len(words)}If", *words, g["rope_theta"])
    header += struct.pack(f"<{len(parts.codebook)}f", *parts.codebook)
    at = len(header) + 44 * len(parts.records)
    directory, body = bytearray(), bytearray()
    first = at
    for record in parts.records:
        record.offset = -(-at // 64) * 64
        body += bytes(record.offset - at) + record.blob
        at = record.offset + len(record.blob)
        dims = [*record.shape, 0, 0, 0, 0][:4]
        directory += struct.pack(
            "<BBHIIIIQQII", record.dtype, len(record.shape), 0, *dims, record.offset, len(record.blob), record.group,
            record.bits,
        )  # fmt: skip
    if len(header) + len(directory) != first:
        raise ValueError("the directory's length does not agree with the offsets")
    return bytes(header + directory + body)


def write(**options: Any) -> bytes:
    """`assemble(plan(...))`."""
    return assemble(plan(**options))
