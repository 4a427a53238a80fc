"""A plain numpy twin of the forward pass: whole sequences, dense float32 matrices, no cache and no kernels.

It is the formulas and nothing else, so it says whether the formulas are right (against the reference's float
logits, within 2e-3); the core is then held to the quantised reference. `Twin(archive)` makes the tensors dense; they go
by their archive names (see docs/archive.md). Shapes use T tokens, L blocks, n lanes, D = d_model.

With `quantised=True` the activations, queries, keys and values go through int8 as the reference simulates it:
one scale per row (per head for q, k, v), absmax / 127, half to even. Needle 2 leaves out the lanes, q, k and v. With 2
to 4 kv_bits, keys and values go through the codebook of that width in groups of 64 instead.

`CoreTwin` rounds where the core does (docs/arithmetic.md): the formulas are the same, so what the core has besides is
float32's own noise.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
from kernel_twins import fit_levels
from numpy.typing import NDArray

from areole.archive import Archive, Tensor

F = NDArray[np.float32]
EPSILON = 1e-6
SINKHORN_ROUNDS = 20


@functools.cache
def hadamard(order: int) -> F:
    """The normalised Walsh-Hadamard matrix of a power-of-two order: symmetric and its own inverse."""
    h = np.ones((1, 1), np.float32)
    while len(h) < order:
        h = np.block([[h, h], [h, -h]])
    return (h / np.sqrt(np.float32(order))).astype(np.float32)


def unpack_codes(packed: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    """Codes (rows, columns) of a little-endian bitstream (rows, bytes); `bits` is the width of one code."""
    stream = np.unpackbits(packed, axis=1, bitorder="little")
    return (stream.reshape(len(packed), -1, bits) << np.arange(bits, dtype=np.uint8)).sum(-1, dtype=np.uint8)


def codes_and_norms(archive: Archive, tensor: Tensor) -> tuple[NDArray[np.uint8], F]:
    """Of a CQ tensor: codes (rows, groups, group) and norms (rows, groups, 1)."""
    rows, columns = tensor.shape
    group = tensor.group
    width = 2 if tensor.bits == 5 else tensor.bits
    padded = -(-columns // group) * group
    blob = np.frombuffer(archive.reader.read(tensor.offset, tensor.nbytes), np.uint8)
    split = rows * padded * width // 8
    codes = unpack_codes(blob[:split].reshape(rows, -1), width).reshape(rows, -1, group)
    return codes, blob[split:].view(np.float16).astype(np.float32).reshape(rows, -1, 1)


def dense_matrix(archive: Archive, tensor: Tensor) -> F:
    """A CQ tensor as float32 (rows, columns): (level * norm) rotated back group by group."""
    codes, norms = codes_and_norms(archive, tensor)
    levels = np.array(archive.levels(tensor.bits, tensor.group), np.float32)
    dense = (levels[codes] * norms) @ hadamard(tensor.group)
    return np.ascontiguousarray(dense.reshape(len(dense), -1)[:, : tensor.shape[1]])


@functools.cache
def fitted(levels: bytes, most: int) -> tuple[NDArray[np.int64], np.float32]:
    return fit_levels(np.frombuffer(levels, np.float32), most)


def whole_levels(archive: Archive, tensor: Tensor) -> F:
    """A CQ tensor as the core multiplies by it, still rotated: (rows, groups, group)."""
    codes, norms = codes_and_norms(archive, tensor)
    levels = np.array(archive.levels(tensor.bits, tensor.group), np.float32)
    whole, unit = fitted(levels.tobytes(), 16 if tensor.bits in (1, 2, 5) else 63)
    return np.asarray((whole * unit).astype(np.float32)[codes] * norms)


def dense_weights(archive: Archive) -> dict[str, F]:
    """Every tensor of the archive but the tokenizer, dense, by name."""
    out: dict[str, F] = {}
    for tensor in archive.tensors:
        if tensor.dtype == "cq":
            out[tensor.name] = dense_matrix(archive, tensor)
        elif tensor.dtype != "raw":
            out[tensor.name] = np.array(archive.dense(tensor.name), np.float32).reshape(tensor.shape)
    return out


def rms(x: F) -> F:
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True, dtype=np.float32) + np.float32(EPSILON))


def zero_centred(x: F, scale: F) -> F:
    return rms(x) * (1 + scale)


def sigmoid(x: F) -> F:
    return 1 / (1 + np.exp(-np.clip(x, -80, 80)))


def softmax(x: F) -> F:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def fake_int8(x: F) -> F:
    """Symmetric int8 with one scale per row of the last axis."""
    top = np.abs(x).max(-1, keepdims=True)
    scale = np.where(top > 0, top / np.float32(127), np.float32(1)).astype(np.float32)
    return (np.clip(np.rint(x / scale), -128, 127) * scale).astype(np.float32)


def fake_codebook(x: F, levels: F, group: int = 64) -> F:
    """Each group of the last axis rotated, to the nearest level times its f16 length, and rotated back."""
    width = x.shape[-1]
    padded = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, -width % group)])
    rotated = padded.reshape(*x.shape[:-1], -1, group) @ hadamard(group)
    length = np.sqrt((rotated**2).sum(-1, keepdims=True))
    unit = rotated / np.maximum(length, np.float32(1e-12))
    nearest = levels[np.abs(unit[..., None] - levels).argmin(-1)]
    back = (nearest * length.astype(np.float16).astype(np.float32)) @ hadamard(group)
    return back.reshape(padded.shape)[..., :width].astype(np.float32)


def log_sum_exp(x: F, axis: int) -> F:
    top = x.max(axis, keepdims=True)
    return top + np.log(np.exp(x - top).sum(axis, keepdims=True))


def sinkhorn(logits: F) -> F:
    """(..., n, n) -> doubly stochastic: rounds of dividing exp(logits) by row sums, then by column sums. On logarithms:
    the trained logits spread over more than single precision's exp can hold."""
    for _ in range(SINKHORN_ROUNDS):
        logits = logits - log_sum_exp(logits, -1)
        logits = logits - log_sum_exp(logits, -2)
    return np.exp(logits)


def kron(z: F, a: F, b: F) -> F:
    """(T, a*b) -> A^T Z B, row by row."""
    square = z.reshape(len(z), len(a), len(b))
    return np.einsum("tij,ik,jl->tkl", square, a, b, optimize=True).reshape(len(z), -1)


def rope(x: F, theta: float) -> F:
    """(T, heads, dim): first and second half rotated together by t / theta^(2i/dim)."""
    half = x.shape[-1] // 2
    frequency = (1.0 / theta ** (np.arange(0, 2 * half, 2) / (2 * half))).astype(np.float32)
    angle = np.arange(len(x), dtype=np.float32)[:, None] * frequency
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    first, second = x[..., :half], x[..., half:]
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], -1).astype(np.float32)


def shifted(x: F, by: int) -> F:
    """x[t - by], zeros before the start."""
    return np.concatenate([np.zeros_like(x[:by]), x[: len(x) - by]]) if by else x


class Twin:
    """The model of one archive as dense matrices; see the module's text."""

    def __init__(self, archive: Archive, quantised: bool = False) -> None:
        self.w, self.g = dense_weights(archive), archive.geometry
        same: Callable[[F], F] = lambda x: x  # noqa: E731
        self.int8 = fake_int8 if quantised else same
        self.int8_lanes = self.int8_query = self.kept = self.int8
        if self.g.generation == 2:
            self.int8_lanes = self.int8_query = self.kept = same
        if quantised and self.g.kv_bits < 8:
            levels = np.array(archive.levels(self.g.kv_bits, 64), np.float32)
            self.kept = lambda x: fake_codebook(x, levels)

    def times(self, x: F, name: str, rows: slice = slice(None)) -> F:
        """x (T, columns) times some rows of a CQ matrix."""
        rounded = self.int8_lanes(x) if name.startswith("mhc.") else self.int8(x)
        return np.asarray(rounded @ self.w[name][rows].T)

    def visible(self, count: int, window: int, prefix: int) -> NDArray[np.bool_]:
        """(T, T) mask: causal, and within the KV window or in the pinned prefix."""
        at = np.arange(count)
        mask = at[:, None] >= at
        if window:
            mask &= ((at[:, None] - at) < window) | (at < prefix)
        return mask

    def engram(self, site: int, ids: NDArray[np.int64], mask: NDArray[np.bool_]) -> tuple[F, F]:
        """Keys and values (T, D) of one site."""
        g, w = self.g, self.w
        count, heads = len(ids), g.engram_tables // len(g.engram_orders)
        stride = g.engram_seed_heads or heads
        table = w[f"engrams.{site}.tables"].reshape(g.engram_tables, g.engram_slots, g.engram_sub_dim)
        parts = []
        for index, order in enumerate(g.engram_orders):
            whole = np.array([t >= order - 1 and mask[t, t - order + 1] for t in range(count)])
            for head in range(heads):
                acc = np.full(count, 0x9E3779B9 * (index * stride + head + 1) & 0xFFFFFFFF, np.uint64)
                for j in range(order):
                    before = np.concatenate([np.zeros(j, np.uint64), ids[: count - j].astype(np.uint64)])[:count]
                    acc = ((acc ^ before) * np.uint64(0x01000193)) & np.uint64(0xFFFFFFFF)
                acc ^= acc >> np.uint64(15)
                rows = (acc % np.uint64(g.engram_slots)).astype(np.int64)
                parts.append(table[index * heads + head, rows] * whole[:, None])
        e = np.concatenate(parts, -1).astype(np.float32)
        key, value = self.times(e, f"engrams.{site}.key_proj"), self.times(e, f"engrams.{site}.value_proj")
        taps = w[f"engrams.{site}.taps"]
        return key, self.tapped(value, taps, mask, g.engram_dilation)

    def tapped(self, x: F, taps: F, mask: NDArray[np.bool_], dilation: int = 1) -> F:
        """sum_j taps[j] * x[t - j * dilation] over visible positions."""
        out = np.zeros_like(x)
        for j, tap in enumerate(taps):
            by = j * dilation
            if by < len(x):
                seen = np.array([t >= by and mask[t, t - by] for t in range(len(x))])
                out += tap * shifted(x, by) * seen[:, None]
        return out

    def attention(self, i: int, x: F, mask: NDArray[np.bool_]) -> F:
        g, at = self.g, f"layers.{i}."
        z = zero_centred(x, self.w[at + "norm_in"])
        q, k, v = (self.times(z, f"{at}{name}_proj") for name in "qkv")
        if g.qkv_taps:
            q, k, v = (self.tapped(a, self.w[f"{at}{n}_taps"], mask) for a, n in ((q, "q"), (k, "k"), (v, "v")))
        q, k = q.reshape(len(x), g.heads, g.qk_dim), k.reshape(len(x), g.kv_heads, g.qk_dim)
        v = v.reshape(len(x), g.kv_heads, g.v_dim)
        q = rope(zero_centred(q, self.w[at + "q_norm"]), g.rope_theta)
        k = rope(zero_centred(k, self.w[at + "k_norm"]), g.rope_theta)
        q, k, v = self.int8_query(q), self.kept(k), self.kept(v)
        repeats = g.heads // g.kv_heads
        scores = np.einsum("thd,shd->hts", q, np.repeat(k, repeats, 1), optimize=True) / np.sqrt(np.float32(g.qk_dim))
        weights = softmax(np.where(mask, scores, np.float32(-1e30)))
        out = np.einsum("hts,shd->thd", weights, np.repeat(v, repeats, 1), optimize=True).reshape(len(x), -1)
        gated = (out * sigmoid(self.times(z, at + "gate_proj"))).astype(np.float32)
        return self.times(gated, at + "out_proj")

    def walsh(self, i: int, x: F) -> F:
        """The MLP of Needle 2."""
        d1, d2, d3 = (self.w[f"layers.{i}.{name}"] for name in ("d1", "d2", "d3"))
        h = hadamard(self.g.hada_n)
        z = d2 * ((d1 * np.pad(x, ((0, 0), (0, self.g.hada_n - x.shape[1])))) @ h)
        return (d3 * ((z * sigmoid(z)) @ h))[:, : x.shape[1]].astype(np.float32)

    def mlp(self, i: int, x: F) -> F:
        if self.g.generation == 2:
            return self.walsh(i, x)
        w = {
            k: self.w[f"layers.{i}.{k}"]
            for k in ("d1", "d2", "b2", "d3", "d4", "w1a", "w1b", "w2a", "w2b", "w3a", "w3b", "cond_v", "cond_u")
        }
        p1, p2 = self.w["hada_p1"].astype(int), self.w["hada_p2"].astype(int)
        cond = 1 + softmax(x @ w["cond_v"]) @ w["cond_u"]
        z = np.pad(x, ((0, 0), (0, self.g.hada_n - x.shape[1])))
        z = kron(w["d1"] * z, w["w1a"], w["w1b"])[:, p1]
        z = w["d2"] * cond * z + w["b2"]
        z = kron(z * sigmoid(z), w["w2a"], w["w2b"])[:, p2]
        z = kron(w["d3"] * z, w["w3a"], w["w3b"])
        return (w["d4"] * z)[:, : x.shape[1]].astype(np.float32)

    def block(self, i: int, lanes: F, mask: NDArray[np.bool_], engram: tuple[F, F] | None) -> F:
        """One block over the lane stream (T, n, D)."""
        g, w = self.g, self.w
        count, n = len(lanes), g.lanes
        own = np.eye(n, dtype=np.float32)[i % n]
        flat = rms(lanes.reshape(count, -1))
        phi = {
            k: self.times(flat, f"mhc.phi_{k}", slice(i * many, (i + 1) * many))
            for k, many in (("pre", n), ("post", n), ("res", n * n))
        }
        a, b = ({k: w[f"mhc.{which}_{k}"][i] for k in ("pre", "post", "res")} for which in "ab")
        pre = sigmoid(a["pre"] * phi["pre"] + b["pre"] + 8 * own - 4)
        u = np.einsum("tn,tnd->td", pre, lanes)
        x = u
        if engram is not None:
            key, value = engram
            alpha = sigmoid(np.sum(rms(u) * rms(key), -1, keepdims=True) / np.sqrt(np.float32(g.d_model)))
            x = u + alpha * value
        if g.sliding_window and i not in g.global_layers:
            at = np.arange(count)
            mask = mask & ((at[:, None] - at) < g.sliding_window)
        o = zero_centred(self.attention(i, x, mask), w[f"layers.{i}.post_norm"])
        x = x + sigmoid(w[f"layers.{i}.attn_gate"]) * o
        x = x + self.mlp(i, zero_centred(x, w[f"layers.{i}.pre_hada"]))
        post = 2 * sigmoid(a["post"] * phi["post"] + b["post"] - 4 * (1 - own))
        res = sinkhorn(a["res"] * phi["res"].reshape(count, n, n) + b["res"])
        return (np.einsum("tij,tjd->tid", res, lanes) + post[..., None] * (x - u)[:, None]).astype(np.float32)

    def run(self, ids: list[int], window: int = 0, prefix: int = 0) -> tuple[F, F]:
        """Logits (T, out_vocab) and cells (T, L + 1, D) of a sequence."""
        g, w = self.g, self.w
        tokens = np.asarray(ids, np.int64)
        mask = self.visible(len(tokens), window, prefix)
        x = (w["embedding"][tokens] * np.sqrt(np.float32(g.d_model))).astype(np.float32)
        cells = [x]
        lanes = np.repeat(x[:, None], g.lanes, 1)
        engrams = {layer: self.engram(s, tokens, mask) for s, layer in enumerate(g.engram_sites)}
        for i in range(g.layers):
            lanes = self.block(i, lanes, mask, engrams.get(i))
            cells.append(lanes.mean(1, dtype=np.float32))
        final = zero_centred(cells[-1], w["final_norm"])
        return self.times(final, "embedding", slice(g.out_vocab)), np.stack(cells, 1)

    def pooled(self, cells: F, head: str) -> F:
        """The (q * D,) pooled vector of a probe head over cells (T, L + 1, D)."""
        d = self.g.d_model
        if self.g.generation == 2:
            flat, probes = cells.reshape(-1, d), self.w[f"heads.{head}.probes"]
            return (softmax(probes @ flat.T / np.sqrt(np.float32(d))) @ flat).reshape(-1).astype(np.float32)
        gain, query = self.w[f"heads.{head}.gain"], self.w[f"heads.{head}.query"]
        probes = self.w[f"heads.{head}.probes"].reshape(*gain.shape, d)
        scores = np.einsum("tld,lkd->lkt", cells, probes, optimize=True) / np.sqrt(np.float32(d))
        r = rms(np.einsum("lkt,tld->lkd", softmax(scores), cells, optimize=True)) * gain[..., None]
        u = np.einsum("lkd,qd->qlk", r, query) / np.sqrt(np.float32(d)) + self.w[f"heads.{head}.row_bias"]
        weights = softmax(u.reshape(len(query), -1))
        return (weights @ r.reshape(-1, d)).astype(np.float32).reshape(-1)

    def head_output(self, pooled: F, head: str) -> F:
        """proj . pooled + bias: a logit for confidence, the raw vector for embedding."""
        out = pooled @ self.w[f"heads.{head}.proj"].T
        return out if head == "embedding" else out + self.w[f"heads.{head}.bias"]


class CoreTwin(Twin):
    """The twin with the core's roundings: a matrix's input is int8 per group after the rotation, its levels are whole
    numbers of one unit, and queries, keys and values are int8 in both generations, after the codebook if there is one.
    The 15-bit softmax weights are left out: they are below anything seen here."""

    def __init__(self, archive: Archive) -> None:
        super().__init__(archive, quantised=True)
        codebook = self.kept
        self.int8_query = fake_int8
        self.kept = fake_int8 if self.g.kv_bits == 8 else lambda x: fake_int8(codebook(x))
        self.rotated = {
            tensor.name: whole_levels(archive, tensor) for tensor in archive.tensors if tensor.dtype == "cq"
        }

    def times(self, x: F, name: str, rows: slice = slice(None)) -> F:
        weights = self.rotated[name][rows]
        groups, group = weights.shape[1:]
        padded = np.pad(x, ((0, 0), (0, groups * group - x.shape[1]))).reshape(len(x), groups, group)
        return np.asarray(np.einsum("tgc,rgc->tr", fake_int8(padded @ hadamard(group)), weights, optimize=True))
