"""Each kernel of each build against its scalar twin, to the bit; and the twins' own accuracy against exact maths."""

from __future__ import annotations

import kernel_twins as twins
import numpy as np
import pytest
from goldens import cosine
from kernel_twins import F, f32
from twin import hadamard

from areole.core import Core, check

WIDTHS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 2}
LEVELS = {
    2: [-1.506671, -0.451441, 0.452948, 1.509933],
    3: [-2.141248, -1.333716, -0.748398, -0.237740, 0.250045, 0.755587, 1.337983, 2.147636],
    4: [
        -2.709990,
        -2.044456,
        -1.594757,
        -1.233336,
        -0.922214,
        -0.639537,
        -0.372664,
        -0.114451,
        0.143806,
        0.403989,
        0.672693,
        0.961405,
        1.275526,
        1.637059,
        2.084426,
        2.741014,
    ],
    1: [-0.797885, 0.797885],
    5: [0.0, 1.224006, 0.0, -1.224006],
}


class Memory:
    """Arrays in a core's memory for the length of a `with`."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.addresses: list[int] = []

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *_: object) -> None:
        for address in self.addresses:
            self.core.free(address)

    def put(self, values: np.ndarray) -> int:
        address = self.room(max(values.nbytes, 1))
        self.core.write(address, values.tobytes())
        return address

    def room(self, nbytes: int) -> int:
        self.addresses.append(self.core.alloc(nbytes))
        return self.addresses[-1]

    def get(self, address: int, count: int, kind: type = np.float32) -> np.ndarray:
        return np.frombuffer(self.core.read(address, count * np.dtype(kind).itemsize), kind)


def same_bits(a: np.ndarray, b: np.ndarray) -> None:
    np.testing.assert_array_equal(np.asarray(a, f32).view(np.int32), np.asarray(b, f32).view(np.int32))


def normal(seed: int, *shape: int) -> F:
    return np.random.default_rng(seed).standard_normal(shape).astype(f32)


def test_exp_and_sigmoid(core: Core) -> None:
    x = np.concatenate([np.linspace(-100, 100, 4000), [0, -0.0, 88, -86, 1e-30, -1e30, 1e30, 0.5]]).astype(f32)
    with Memory(core) as memory:
        out = memory.room(x.nbytes)
        for name, twin in (("exp", twins.exp), ("sigmoid", twins.sigmoid)):
            check(core.call(f"areole_kernel_{name}", memory.put(x), len(x), out), name)
            same_bits(memory.get(out, len(x)), twin(x))
    inside = x[(x > -86) & (x < 88)]
    assert np.abs(twins.exp(inside) / np.exp(inside.astype(np.float64)) - 1).max() < 2e-7


def test_log_twin() -> None:
    values = np.exp(np.linspace(-80, 80, 3001)).astype(f32)
    got = np.array([twins.log(v) for v in values], np.float64)
    assert np.abs(got - np.log(values.astype(np.float64))).max() < 4e-6
    near = np.linspace(0.7, 1.5, 500).astype(f32)
    assert np.abs(np.array([twins.log(v) for v in near]) - np.log(near.astype(np.float64))).max() < 1.2e-7


@pytest.mark.parametrize("n", [2, 4, 24, 40, 48, 64, 250, 768])
def test_norm(core: Core, n: int) -> None:
    x, scale = normal(n, n) * 3, normal(n + 1, n)
    with Memory(core) as memory:
        out = memory.room(4 * n)
        check(core.call("areole_kernel_norm", memory.put(x), memory.put(scale), n, out), "norm")
        same_bits(memory.get(out, n), twins.norm(x, scale))


@pytest.mark.parametrize(
    ("columns", "group"), [(16, 16), (64, 32), (192, 64), (768, 128), (3072, 128), (200, 64), (512, 256), (7, 16)]
)
def test_rotate(core: Core, columns: int, group: int) -> None:
    x = normal(columns, columns)
    padded = -(-columns // group) * group
    groups = padded // group
    with Memory(core) as memory:
        work = 8 * padded + 64 * groups + 4096
        out, sums, scales = memory.room(padded), memory.room(4 * groups), memory.room(4 * groups)
        check(
            core.call(
                "areole_kernel_rotate", memory.put(x), columns, group, out, sums, scales, memory.room(work), work
            ),
            "rotate",
        )
        values, total, scale = twins.quantise(twins.rotate(x, group))
        np.testing.assert_array_equal(memory.get(out, padded, np.int8), values.reshape(-1))
        np.testing.assert_array_equal(memory.get(sums, groups, np.int32), total)
        same_bits(memory.get(scales, groups), scale)
    exact = np.pad(x, (0, padded - columns)).reshape(-1, group) @ hadamard(group)
    assert np.abs(values * scale[:, None] - exact).max() <= np.abs(exact).max() / 127 * 0.501


def test_rotate_of_zeros(core: Core) -> None:
    """A group of zeros has no scale to divide by."""
    with Memory(core) as memory:
        out, sums, scales, work = memory.room(64), memory.room(4), memory.room(4), memory.room(8192)
        check(
            core.call("areole_kernel_rotate", memory.put(np.zeros(64, f32)), 64, 64, out, sums, scales, work, 8192),
            "rotate",
        )
        assert not memory.get(out, 64, np.int8).any() and memory.get(scales, 1)[0] == 0


def packed(codes: np.ndarray, width: int) -> np.ndarray:
    bits = (codes[..., None] >> np.arange(width)) & 1
    return np.packbits(bits.reshape(len(codes), -1).astype(np.uint8), axis=1, bitorder="little")


class Matrix:
    """A random CQ matrix of (rows, columns), and the core's products with it."""

    def __init__(self, bits: int, rows: int, columns: int, group: int) -> None:
        rng = np.random.default_rng(rows * columns + bits)
        padded = -(-columns // group) * group
        self.bits, self.shape, self.group = bits, (rows, columns), group
        self.levels = np.array(LEVELS[bits], f32) / f32(np.sqrt(f32(group)))
        choices = [0, 1, 3] if bits == 5 else list(range(1 << WIDTHS[bits]))
        self.codes = rng.choice(choices, (rows, padded)).astype(np.uint8)
        self.norms = (rng.random((rows, padded // group)) * 2).astype(np.float16)
        self.norms[0, 0] = np.float16(3e-7)  # a subnormal half

    def dense(self) -> F:
        rows, columns = self.shape
        weights = self.levels[self.codes].reshape(rows, -1, self.group) * self.norms[..., None].astype(f32)
        return (weights @ hadamard(self.group)).reshape(rows, -1)[:, :columns]

    def times(self, core: Core, x: F) -> F:
        """x (tokens, columns) -> (tokens, rows), both ways to it; each is the twin's to the bit."""
        tokens, (rows, columns) = len(x), self.shape
        blob = np.frombuffer(packed(self.codes, WIDTHS[self.bits]).tobytes() + self.norms.tobytes(), np.uint8)
        arguments = (len(blob), rows, columns, self.group, self.bits)
        twin = twins.matmul(self.codes, self.norms, self.levels, self.bits, self.group, x)
        with Memory(core) as memory:
            size = memory.room(4)
            check(core.call("areole_kernel_matmul_size", *arguments[1:], tokens, size), "size")
            nbytes = int(memory.get(size, 1, np.uint32)[0])
            work, y = memory.room(nbytes), memory.room(4 * rows * tokens)
            inputs = memory.put(self.levels), memory.put(x)
            for pairs in (0, 1):
                status = core.call(
                    "areole_kernel_matmul", memory.put(blob), *arguments, pairs, *inputs, tokens, y, work, nbytes
                )
                check(status, "matmul")
                got = memory.get(y, rows * tokens).reshape(tokens, rows)
                same_bits(got, twin)
        return got


@pytest.mark.parametrize("bits", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(
    ("rows", "columns", "group"),
    [(16, 128, 128), (37, 192, 64), (6, 40, 32), (96, 300, 128), (3, 512, 256), (20, 64, 16)],
)
@pytest.mark.parametrize("tokens", [1, 2, 6, 13])
def test_matmul(core: Core, bits: int, rows: int, columns: int, group: int, tokens: int) -> None:
    matrix, x = Matrix(bits, rows, columns, group), normal(tokens, tokens, columns)
    got = matrix.times(core, x)
    assert cosine(got.reshape(-1), (x @ matrix.dense().T).reshape(-1)) > 0.9997


@pytest.mark.parametrize("bits", [1, 2, 5])
@pytest.mark.parametrize(("rows", "columns", "group"), [(16, 256, 128), (80, 512, 256)])
@pytest.mark.parametrize("tokens", [1, 13])
def test_matmul_of_groups_of_one_size(core: Core, bits: int, rows: int, columns: int, group: int, tokens: int) -> None:
    """A spike turns into a group of one value, whose products with a row of the largest level add up to more than an
    i16 holds; next to it are tokens whose sums fit."""
    matrix, x = Matrix(bits, rows, columns, group), normal(tokens, tokens, columns)
    matrix.codes[0, :group] = np.argmax(matrix.levels)
    x[::3, :group] = 0
    x[::3, 0] = 1
    matrix.times(core, x)


@pytest.mark.parametrize(("a", "b"), [(2, 4), (4, 4), (16, 16), (16, 32), (32, 32), (64, 64)])
def test_kron(core: Core, a: int, b: int) -> None:
    left, right, z = normal(1, a, a), normal(2, b, b), normal(3, a, b)
    with Memory(core) as memory:
        out = memory.room(4 * a * b)
        check(
            core.call(
                "areole_kernel_kron",
                memory.put(left.T.copy()),
                memory.put(right),
                memory.put(z),
                a,
                b,
                memory.room(4 * a * b),
                out,
            ),
            "kron",
        )
        got = memory.get(out, a * b).reshape(a, b)
    same_bits(got, twins.kron(left, right, z))
    np.testing.assert_allclose(got, left.T.astype(np.float64) @ z @ right, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("spread", [1, 20, 120])
def test_sinkhorn(core: Core, n: int, spread: float) -> None:
    logits = (np.random.default_rng(n).random((n, n)) * spread * 2 - spread).astype(f32)
    with Memory(core) as memory:
        out = memory.room(4 * n * n)
        check(core.call("areole_kernel_sinkhorn", memory.put(logits), n, out), "sinkhorn")
        got = memory.get(out, n * n).reshape(n, n)
    same_bits(got, twins.sinkhorn(logits))
    exact = logits.astype(np.float64)
    for _ in range(20):
        for axis in (1, 0):
            top = exact.max(axis, keepdims=True)
            exact = exact - (top + np.log(np.exp(exact - top).sum(axis, keepdims=True)))
    np.testing.assert_allclose(got, np.exp(exact), atol=3e-5)


@pytest.mark.parametrize(
    ("count", "first", "heads", "qk_dim", "v_dim"),
    [
        (1, 0, 1, 2, 1), (5, 0, 6, 48, 64), (83, 0, 6, 48, 64), (300, 41, 12, 48, 64), (64, 63, 7, 48, 40),
        (130, 2, 5, 10, 7), (33, 3, 13, 64, 4), (1000, 0, 6, 48, 66),
    ],
)  # fmt: skip
@pytest.mark.parametrize("spread", [0.05, 1, 12])
def test_attention(core: Core, count: int, first: int, heads: int, qk_dim: int, v_dim: int, spread: float) -> None:
    """Flat, ordinary and sharp rows, from a position that need not lie on a group of four."""
    keys, values, queries = (
        normal(1, count, qk_dim),
        normal(2, count, v_dim) * 3,
        normal(3, heads, qk_dim) * f32(spread),
    )
    values[::7] *= f32(1e-3)
    got = attention(core, keys, values, first, queries)
    same_bits(got, twins.attention(keys[first:], values[first:], queries))
    q, k, v = (
        np.array([whole * np.float64(scale) for whole, scale in map(twins.round_int8, rows)])
        for rows in (queries, keys[first:], values[first:])
    )
    scores = q @ k.T / np.sqrt(qk_dim)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    exact = weights / weights.sum(1, keepdims=True) @ v
    np.testing.assert_allclose(got, exact, rtol=1e-3, atol=1e-3 * np.abs(v).max())


def attention(core: Core, keys: F, values: F, first: int, queries: F) -> F:
    heads, v_dim = len(queries), values.shape[1]
    with Memory(core) as memory:
        needed, out = memory.room(4), memory.room(4 * heads * v_dim)
        sizes = len(keys), heads, keys.shape[1], v_dim
        check(core.call("areole_kernel_attention_size", *sizes, needed), "attention_size")
        size = int(memory.get(needed, 1, np.uint32)[0])
        work = memory.room(size)
        rest = len(keys), first, memory.put(queries), heads, keys.shape[1], v_dim, out, work, size
        check(core.call("areole_kernel_attention", memory.put(keys), memory.put(values), *rest), "attention")
        got = memory.get(out, heads * v_dim).copy()
        check(core.call("areole_kernel_attention", 0, 0, *rest), "attention")  # what is stored stays
        same_bits(memory.get(out, heads * v_dim), got)
    return got.reshape(heads, v_dim)


@pytest.mark.parametrize("count", [600, 4096, 16000, 16001, 65536])
def test_attention_over_long_flat_rows(core: Core, count: int) -> None:
    """Weights that are all near the largest add up to more than fits, and are scaled down; their exponentials too."""
    keys, values, queries = np.zeros((count, 4), f32), normal(2, count, 8), normal(3, 6, 4)
    values /= np.abs(values).max(1, keepdims=True)
    same_bits(attention(core, keys, values, 0, queries), twins.attention(keys, values, queries))


def test_attention_of_values_that_are_all_zero(core: Core) -> None:
    keys, queries = normal(1, 9, 6), normal(2, 6, 6)
    assert not attention(core, keys, np.zeros((9, 12), f32), 0, queries).any()


def test_attention_refuses_what_it_cannot_do(core: Core) -> None:
    with Memory(core) as memory:
        out, room = memory.room(4), memory.room(1024)
        for sizes, status in (((0, 1, 2, 2), -1), ((1, 1, 3, 2), -2), ((65537, 1, 2, 2), -2)):
            assert core.call("areole_kernel_attention_size", *sizes, out) == status
        call = [room, room, 4, 4, room, 1, 2, 2, room, room, 1024]
        assert core.call("areole_kernel_attention", *call) == -1  # nothing is visible
        call[3], call[-1] = 0, 16
        assert core.call("areole_kernel_attention", *call) == -6


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("d", [4, 24, 768])
def test_lanes(core: Core, n: int, d: int) -> None:
    before, x = normal(1, n, d), normal(2, d)
    weights, mix, post = (np.abs(normal(seed, *shape)) for seed, shape in enumerate(((n,), (n, n), (n,)), 3))
    with Memory(core) as memory:
        stream, u, mean = memory.put(before), memory.room(4 * d), memory.room(4 * d)
        arguments = memory.put(weights), memory.put(mix), memory.put(post), memory.put(x)
        check(core.call("areole_kernel_lanes", stream, *arguments, n, d, u, mean), "lanes")
        got = memory.get(u, d), memory.get(stream, n * d).reshape(n, d), memory.get(mean, d)
    for ours, twin in zip(got, twins.lanes(before, weights, mix, post, x), strict=True):
        same_bits(ours, twin)
    exact = mix.astype(np.float64) @ before + np.outer(post, x - weights.astype(np.float64) @ before)
    np.testing.assert_allclose(got[1], exact, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("position", [0, 1, 17, 4095, 8191, 100000])
def test_rope(core: Core, position: int) -> None:
    """Single-precision angles, exact sines of them: against numpy in double precision."""
    half = 24
    with Memory(core) as memory:
        cosine_out, sine_out = memory.room(4 * half), memory.room(4 * half)
        check(core.call("areole_kernel_rope", position, half, 100000.0, cosine_out, sine_out), "rope")
        frequency = (100000.0 ** (-np.arange(half) / half)).astype(f32)
        angle = (f32(position) * frequency).astype(np.float64)
        assert np.abs(memory.get(cosine_out, half) - np.cos(angle)).max() < 1e-7
        assert np.abs(memory.get(sine_out, half) - np.sin(angle)).max() < 1e-7


def test_top(core: Core) -> None:
    values = np.array([1, 5, 5, -2, 9, 5, 9, 0], f32)
    with Memory(core) as memory:
        ids, top = memory.room(64), memory.room(64)
        assert core.call("areole_top", memory.put(values), 8, 5, ids, top) == 5
        assert memory.get(ids, 5, np.uint32).tolist() == [4, 6, 1, 2, 5]
        assert memory.get(top, 5).tolist() == [9, 9, 5, 5, 5]
        assert core.call("areole_top", memory.put(values), 8, 16, ids, top) == 8
        assert core.call("areole_top", memory.put(values), 8, 0, ids, top) < 0


def test_log_sum_exp(core: Core) -> None:
    values = normal(4, 8193) * 6
    with Memory(core) as memory:
        out = memory.room(4)
        check(core.call("areole_log_sum_exp", memory.put(values), len(values), out), "log_sum_exp")
        exact = np.log(np.exp(values.astype(np.float64)).sum())
        assert abs(memory.get(out, 1)[0] - exact) < 1e-4


@pytest.mark.parametrize(("n", "d"), [(16, 4), (16, 16), (64, 40), (256, 192), (512, 512), (1024, 768), (4096, 2052)])
def test_walsh(core: Core, n: int, d: int) -> None:
    d1, d2, d3, z, x = (normal(seed, size) for seed, size in enumerate((n, n, n, d, d)))
    with Memory(core) as memory:
        into = memory.put(x)
        diagonals = memory.put(d1), memory.put(d2), memory.put(d3)
        status = core.call("areole_kernel_walsh", *diagonals, n, memory.put(z), d, memory.room(8 * n), into)
        check(status, "walsh")
        got = memory.get(into, d)
    same_bits(got, twins.walsh(d1, d2, d3, z, x))
    y = d2 * (np.pad((d1[:d] * z).astype(np.float64), (0, n - d)) @ hadamard(n))
    exact = x + d3[:d] * ((y / (1 + np.exp(-y))) @ hadamard(n))[:d]
    np.testing.assert_allclose(got, exact, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("bits", [2, 3, 4])
@pytest.mark.parametrize("n", [8, 40, 64, 96, 128])
def test_kv_round(core: Core, bits: int, n: int) -> None:
    levels = np.array(LEVELS[bits], f32) / f32(8)
    for seed, scale in ((n, 1), (n + 1, 1e-7), (n + 2, 3000)):
        x = normal(seed, n) * f32(scale)
        with Memory(core) as memory:
            into = memory.put(x)
            check(core.call("areole_kernel_kv_round", memory.put(levels), bits, into, n, memory.room(512)), "kv_round")
            same_bits(memory.get(into, n), twins.kv_round(levels, x))


def test_kv_round_of_zeros(core: Core) -> None:
    with Memory(core) as memory:
        into = memory.put(np.zeros(24, f32))
        levels = memory.put(np.array(LEVELS[2], f32))
        check(core.call("areole_kernel_kv_round", levels, 2, into, 24, memory.room(512)), "kv_round")
        assert not memory.get(into, 24).any()
