"""Cactus Quants the other way: dense matrices to codes and norms, and back, for every width. Needs numpy.

A matrix goes row by row in groups: each is rotated by the normalised Walsh-Hadamard matrix; its length is the norm;
each coordinate of the unit vector becomes the code of the nearest level. The levels are the Lloyd-Max quantiser of a
unit Gaussian over the square root of the group size, for such are the coordinates of a rotated unit vector.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from numpy.typing import NDArray

from .archive import BINARY_LEVEL, TERNARY_LEVEL
from .layout import BINARY, TERNARY

F32 = NDArray[np.float32]
_SAMPLES, _ROUNDS = 400_000, 200
_BLOCK = 1 << 22
"""Values that are rotated at once, so that a large table needs little memory."""


@functools.cache
def lloyd_max(bits: int) -> NDArray[np.float64]:
    """The 2^bits levels of a unit Gaussian, ascending: each the mean of the samples that are nearest to it.

    The sample is the one that the reference package takes, so the levels are its levels to the last bit.
    """
    sample = np.sort(np.random.RandomState(0).randn(_SAMPLES))
    count = 1 << bits
    levels = sample[((np.arange(count) + 0.5) / count * _SAMPLES).astype(int)]
    for _ in range(_ROUNDS):
        ends = np.searchsorted(sample, (levels[:-1] + levels[1:]) / 2, side="right")
        parts = np.split(sample, ends)
        levels = np.array([part.mean() if len(part) else level for part, level in zip(parts, levels, strict=True)])
    return np.sort(levels)


def ascending_levels(bits: int, group: int) -> F32:
    """The levels of a record's width for a group size: 2, 3, 4, 8 or 16 of them."""
    if bits == BINARY:
        unit = np.array([-BINARY_LEVEL, BINARY_LEVEL])
    elif bits == TERNARY:
        unit = np.array([-TERNARY_LEVEL, 0.0, TERNARY_LEVEL])
    else:
        unit = lloyd_max(bits)
    return (unit / math.sqrt(group)).astype(np.float32)


@functools.cache
def hadamard(order: int) -> F32:
    """The normalised Walsh-Hadamard matrix of a power of two."""
    matrix = np.ones((1, 1), np.float32)
    while len(matrix) < order:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return np.asarray(matrix / np.sqrt(order), np.float32)


def nearest(values: F32, levels: F32) -> NDArray[np.uint8]:
    """The index of the nearest level, the lower of two that are as near."""
    upper = np.clip(np.searchsorted(levels, values.reshape(-1)), 1, len(levels) - 1).reshape(values.shape)
    lower_wins = np.abs(values - levels[upper - 1]) <= np.abs(values - levels[upper])
    return np.asarray(upper - lower_wins, np.uint8)


def pack_codes(codes: NDArray[np.uint8], width: int) -> bytes:
    """Rows of codes (rows, multiple of 8) as a stream of bits, lowest first."""
    stream = codes[..., None] >> np.arange(width, dtype=np.uint8) & 1
    return np.packbits(stream.reshape(len(codes), -1), axis=1, bitorder="little").tobytes()


def unpack_codes(packed: bytes, rows: int, width: int) -> NDArray[np.uint8]:
    """The inverse of pack_codes, (rows, columns)."""
    stream = np.unpackbits(np.frombuffer(packed, np.uint8).reshape(rows, -1), axis=1, bitorder="little")
    weights = np.array([1 << bit for bit in range(width)], np.uint8)
    return np.asarray(stream.reshape(rows, -1, width) @ weights, np.uint8)


def quantise(matrix: F32, bits: int, group: int) -> bytes:
    """A matrix (rows, columns) as the blob of a "cq" tensor: packed codes, then one f16 norm a row and group."""
    rows, columns = matrix.shape
    padded = -(-columns // group) * group
    levels, rotation = ascending_levels(bits, group), hadamard(group)
    step = max(1, _BLOCK // padded)
    codes, norms = [], []
    for at in range(0, rows, step):
        part = np.zeros((min(step, rows - at), padded), np.float32)
        part[:, :columns] = matrix[at : at + step]
        rotated = part.reshape(len(part), -1, group) @ rotation
        length = np.sqrt((rotated**2).sum(-1, keepdims=True))
        index = nearest(rotated / np.maximum(length, np.float32(1e-12)), levels).reshape(len(part), padded)
        if bits == TERNARY:  # stored as signed two-bit numbers
            index = np.where(index == 0, 3, index - 1).astype(np.uint8)
        codes.append(pack_codes(index, 2 if bits == TERNARY else bits))
        norms.append(length[..., 0].astype(np.float16).tobytes())
    return b"".join(codes + norms)


def dequantise(blob: bytes, rows: int, columns: int, bits: int, group: int, levels: tuple[float, ...]) -> F32:
    """The values (rows, columns) of a "cq" tensor's blob; `levels` by stored code, as Archive.levels gives them."""
    width = 2 if bits == TERNARY else bits
    padded = -(-columns // group) * group
    split = rows * padded * width // 8
    by_code, rotation = np.array(levels, np.float32), hadamard(group)
    norms = np.frombuffer(blob[split:], np.float16).astype(np.float32).reshape(rows, -1, 1)
    out = np.empty((rows, columns), np.float32)
    step = max(1, _BLOCK // padded)
    for at in range(0, rows, step):
        end = min(rows, at + step)
        codes = unpack_codes(blob[at * padded * width // 8 : end * padded * width // 8], end - at, width)
        rotated = by_code[codes].reshape(end - at, -1, group) * norms[at:end]
        out[at:end] = (rotated @ rotation).reshape(end - at, padded)[:, :columns]
    return out
