"""Scalar twins of the core's kernels: the same arithmetic in the same order, written for reading.

Everything is float32 with one rounding an operation, as the core does it, so a twin and its kernel agree to the bit.
numpy never fuses a multiplication with an addition, and its float32 +, -, *, / and sqrt are IEEE's.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

F = NDArray[np.float32]
f32 = np.float32
MAGIC = f32(12582912.0)  # 1.5 * 2^23: adding it rounds to an integer, half to even
EXP_POLYNOMIAL = [
    f32(c)
    for c in (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
]


def exp(x: F) -> F:
    x = np.minimum(np.maximum(x.astype(f32), f32(-86)), f32(88))
    n = (x * f32(1.44269504) + MAGIC) - MAGIC
    r = (x - n * f32(0.693359375)) - n * f32(-2.12194440e-4)
    p = np.full_like(r, EXP_POLYNOMIAL[0])
    for c in EXP_POLYNOMIAL[1:]:
        p = p * r + c
    p = (p * r) * r + (r + f32(1))
    return (p.view(np.int32) + (n.astype(np.int32) << 23)).view(f32)


def sigmoid(x: F) -> F:
    return (f32(1) / (f32(1) + exp(-x))).astype(f32)


def log(x: np.float32) -> np.float32:
    m, e = math.frexp(float(x))
    if m < math.sqrt(0.5):
        m, e = m * 2, e - 1
    m = f32(m)
    s = (m - f32(1)) / (m + f32(1))
    s2 = s * s
    p = s2 * f32(1.0 / 9.0) + f32(1.0 / 7.0)
    p = p * s2 + f32(1.0 / 5.0)
    p = p * s2 + f32(1.0 / 3.0)
    tail = f32(2) * s * (s2 * p)
    return f32(e) * f32(0.693359375) + (f32(2) * s + (tail + f32(e) * f32(-2.12194440e-4)))


def sum_lanes(v: F) -> np.float32:
    """(4,) -> (0 + 2) + (1 + 3)."""
    return (v[0] + v[2]) + (v[1] + v[3])


def sum_products(x: F, y: F) -> np.float32:
    """Four vector sums in turn over 16 values, added (0 + 1) + (2 + 3); what is left of four comes last."""
    sums = np.zeros((4, 4), f32)
    n = len(x) // 4 * 4
    at = 0
    while at + 16 <= n:
        sums += (x[at : at + 16] * y[at : at + 16]).reshape(4, 4)
        at += 16
    for rest in range(at, n, 4):
        sums[0] += x[rest : rest + 4] * y[rest : rest + 4]
    total = sum_lanes((sums[0] + sums[1]) + (sums[2] + sums[3]))
    for i in range(n, len(x)):
        total = total + x[i] * y[i]
    return total


def inverse_rms(x: F) -> np.float32:
    return f32(1) / np.sqrt(sum_products(x, x) / f32(len(x)) + f32(1e-6))


def norm(x: F, scale: F) -> F:
    return (x * inverse_rms(x)) * (f32(1) + scale)


def rotate(x: F, group: int) -> F:
    """Unnormalised Walsh-Hadamard per group (zeros fill the last), butterflies of stride 4, 8, 1, 2, 16, 32, ..."""
    groups = np.pad(x, (0, -len(x) % group)).reshape(-1, group).astype(f32)
    for stride in [4, 8, 1, 2, *(2**k for k in range(4, group.bit_length() - 1))]:
        pairs = groups.reshape(len(groups), -1, 2, stride)
        groups = np.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], 2).reshape(
            len(groups), group
        )
    return groups


def quantise(groups: F) -> tuple[NDArray[np.int8], NDArray[np.int32], F]:
    """int8 (groups, group), their sums, and the scales that carry 1 / sqrt(group)."""
    top = np.abs(groups).max(1)
    root = f32(1) / np.sqrt(f32(groups.shape[1]))
    scales = (top * f32(1.0 / 127.0)) * root
    inverse = np.array([f32(127) / t if t > 0 else f32(0) for t in top], f32)
    values = ((groups * inverse[:, None] + MAGIC) - MAGIC).astype(np.int8)
    return values, values.sum(1, dtype=np.int32), scales.astype(f32)


def fit_levels(values: F, most: int) -> tuple[NDArray[np.int64], np.float32]:
    """Integers in [-most, most] and one unit, by least squares over a scan of units."""
    exact = values.astype(np.float64)
    top, best = np.abs(exact).max(), None
    for reach in range(1, most + 1):
        for step in range(40):
            trial = top / (reach - 0.5 + (step + 0.5) / 40.0)
            ratio = exact / trial
            q = np.trunc(np.where(ratio < 0, ratio - 0.5, ratio + 0.5)).astype(np.int64)
            if np.abs(q).max() > most or not q.any():
                continue
            dot = square = error = 0.0
            for k, v in zip(q.tolist(), exact.tolist(), strict=True):
                dot, square = dot + k * v, square + k * k
            for k, v in zip(q.tolist(), exact.tolist(), strict=True):
                error += (k * (dot / square) - v) * (k * (dot / square) - v)
            if best is None or error < best[0]:
                best = (error, q, f32(dot / square))
    if best is None:
        return np.zeros(len(values), np.int64), f32(0)
    return best[1], best[2]


def matmul(codes: NDArray[np.uint8], norms: NDArray[np.float16], levels: F, bits: int, group: int, x: F) -> F:
    """x (tokens, columns) times a CQ matrix with codes (rows, padded) and norms (rows, groups), group by group."""
    q, unit = fit_levels(levels, 16 if bits in (1, 2, 5) else 63)
    weights = q[codes].reshape(len(codes), -1, group)
    out = np.zeros((len(x), len(codes)), f32)
    for t, row in enumerate(x):
        values, _, scales = quantise(rotate(row, group))
        for g in range(norms.shape[1]):
            dot = (weights[:, g] @ values[g].astype(np.int64)).astype(f32)
            out[t] = out[t] + dot * (norms[:, g].astype(f32) * (scales[g] * unit))
    return out


def kron(a: F, b: F, z: F) -> F:
    """A^T Z B as sums of rows in ascending order: first Z B, then A^T of that."""
    first = np.zeros_like(z)
    for k in range(len(b)):
        first = first + z[:, k : k + 1] * b[k]
    out = np.zeros_like(z)
    for k in range(len(a)):
        out = out + a[k][:, None] * first[k]
    return out


def sinkhorn(logits: F) -> F:
    """Rounds on logarithms until every row has an entry above e^-60, then divisions; 20 in all."""
    x, n, rounds = logits.astype(f32).copy(), len(logits), 0

    def log_normalise(v: F) -> F:
        top, total = v.max(), f32(0)
        for value in v:
            total = total + exp(np.array([value - top], f32))[0]
        return v - (top + log(total))

    while rounds < 20 and (rounds == 0 or (x.max(1) < -60).any()):
        for i in range(n):
            x[i] = log_normalise(x[i])
        for j in range(n):
            x[:, j] = log_normalise(x[:, j])
        rounds += 1
    k = exp(x)
    for _ in range(20 - rounds):
        for axis in (1, 0):
            total = np.take(k, 0, axis)
            for i in range(1, n):
                total = total + np.take(k, i, axis)
            k = k / np.expand_dims(total, axis)
    return k


def unrotate(x: F) -> F:
    """(n,) through the normalised Walsh-Hadamard matrix, its own inverse."""
    return (rotate(x, len(x))[0] * (f32(1) / np.sqrt(f32(len(x))))).astype(f32)


def walsh(d1: F, d2: F, d3: F, z: F, x: F) -> F:
    """x + the MLP of Needle 2 over z."""
    y = d2 * unrotate(np.pad(d1[: len(z)] * z, (0, len(d1) - len(z))).astype(f32))
    y = unrotate(y / (f32(1) + exp(f32(0) - y)))
    return x + d3[: len(z)] * y[: len(z)]


def kv_round(levels: F, x: F) -> F:
    """Groups of 64: the nearest levels of the rotated group times its f16 length, rotated back."""
    out = np.zeros_like(x)
    for at in range(0, len(x), 64):
        group = unrotate(np.pad(x[at : at + 64], (0, max(0, at + 64 - len(x)))))
        length = np.sqrt(sum_products(group, group))
        unit = group / max(length, f32(1e-12))
        left = np.clip(np.searchsorted(levels, unit), 1, len(levels) - 1) - 1
        lower = np.abs(unit - levels[left]) <= np.abs(unit - levels[left + 1])
        kept = levels[np.where(lower, left, left + 1)] * length.astype(np.float16).astype(f32)
        out[at : at + 64] = unrotate(kept)[: len(x) - at]
    return out


def round_int8(x: F) -> tuple[NDArray[np.int64], np.float32]:
    """A vector as int8 and its one scale."""
    most = np.abs(x).max()
    inverse = f32(127) / most if most > 0 else f32(0)
    return ((x * inverse + MAGIC) - MAGIC).astype(np.int64), most * f32(1.0 / 127.0)


def to_integers(x: F) -> NDArray[np.int64]:
    """Half to even, by the same addition as the core's: values stay below 2^22."""
    return ((x + MAGIC) - MAGIC).astype(np.int64)


def attention(keys: F, values: F, queries: F) -> F:
    """keys (count, qk_dim), values (count, v_dim), queries (heads, qk_dim) -> (heads, v_dim). All sums are of integers,
    so their order does not matter."""
    int_keys, key_scales = zip(*(round_int8(key) for key in keys), strict=True)
    int_values, value_scales = zip(*(round_int8(value) for value in values), strict=True)
    root = f32(1) / np.sqrt(f32(keys.shape[1]))
    out = []
    for query in queries:
        rounded, scale = round_int8(query)
        dots = np.array(int_keys) @ rounded
        scores = dots.astype(f32) * (np.array(key_scales, f32) * (scale * root))
        e = exp(scores - scores.max())
        one = f32(1048576 if len(e) <= 16000 else 131072)
        total = to_integers(e * one).sum()
        e = e * np.array(value_scales, f32)
        biggest, limit = e.max(), f32(32767)
        if not biggest > 0:
            out.append(np.zeros(values.shape[1], f32))
            continue
        while True:
            weights = to_integers(e * (limit / biggest))
            whole = weights.sum().astype(f32)
            if whole <= f32(16700000):
                break
            limit = np.floor(limit * (f32(16600000) / whole))
        denominator = total.astype(f32) * (f32(1) / one)
        out.append((weights @ np.array(int_values)).astype(f32) * (biggest / limit / denominator))
    return np.array(out, f32)


def lanes(before: F, weights: F, mix: F, post: F, x: F) -> tuple[F, F, F]:
    """before (n, d), weights (n,), mix (n, n), post (n,), x (d,) -> u (d,), the lanes (n, d) and their mean (d,)."""
    n = len(before)
    u = weights[0] * before[0]
    for i in range(1, n):
        u = u + weights[i] * before[i]
    after, mean = np.empty_like(before), np.zeros_like(u)
    for i in range(n):
        after[i] = mix[i, 0] * before[0]
        for j in range(1, n):
            after[i] = after[i] + mix[i, j] * before[j]
        after[i] = after[i] + post[i] * (x - u)
        mean = mean + after[i]
    return u, after, mean * (f32(1) / f32(n))
