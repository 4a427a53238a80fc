"""Quantising and packing: against the reference exporter to the byte, and back again within what a width can hold."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import int_weights
import numpy as np
import pytest
from archive_writer import write

from areole.archive import parse
from areole.checkpoint import dense_arrays, geometry_of, metadata, pack, read_safetensors, safetensors_bytes
from areole.errors import ArchiveError, RequestError
from areole.ladder import rung
from areole.quantise import ascending_levels, dequantise, lloyd_max, nearest, pack_codes, quantise, unpack_codes


@pytest.fixture(scope="module")
def golden(data_dir: Path) -> dict[str, dict[str, str]]:
    """SHA-256 of the reference's exports of int_weights, by generation, then width or depth."""
    found: dict[str, dict[str, str]] = json.loads((data_dir / "pack.json").read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize(("generation", "bits"), [(3, 4), (2, 2), (2, 3), (2, 4), (2, 5)])
def test_the_reference_exporter_to_the_byte(golden: dict[str, dict[str, str]], generation: int, bits: int) -> None:
    data = pack(int_weights.weights(generation), int_weights.GEOMETRY[generation], bits=bits, group=64)
    assert hashlib.sha256(data).hexdigest() == golden[str(generation)][str(bits)]


@pytest.mark.parametrize("depth", range(2, 7))
def test_the_references_rungs_to_the_byte(golden: dict[str, dict[str, str]], depth: int) -> None:
    """What the reference exports of its own rung is what a rung of the whole export is."""
    whole = parse(pack(int_weights.weights(3), int_weights.GEOMETRY[3], group=64))
    assert hashlib.sha256(rung(whole, depth).to_bytes()).hexdigest() == golden["3"][f"depth {depth}"]


def test_levels_are_a_lloyd_max_quantiser(tiny_path: Path) -> None:
    """The shipped archives' levels; and each is the mean of a Gaussian's values that are nearest to it."""
    archive = parse(tiny_path.read_bytes())
    for bits, shared in ((2, archive.cb2), (3, archive.cb3), (4, archive.cb4)):
        assert ascending_levels(bits, 64).tolist() == list(shared)
        levels = lloyd_max(bits)
        grid = np.linspace(-6, 6, 400_001)
        weight = np.exp(-grid * grid / 2)
        owner = nearest(grid, levels)
        means = [(grid * weight)[owner == i].sum() / weight[owner == i].sum() for i in range(1 << bits)]
        np.testing.assert_allclose(levels, means, atol=0.02)


@pytest.mark.parametrize(("bits", "error"), [(1, 0.61), (5, 0.44), (2, 0.35), (3, 0.19), (4, 0.10)])
@pytest.mark.parametrize(("columns", "group"), [(128, 128), (200, 64), (48, 16), (256, 256)])
def test_there_and_back(bits: int, error: float, columns: int, group: int) -> None:
    """The relative error is what the width's quantiser of a Gaussian has; the codes take the bytes they should."""
    matrix = np.random.default_rng(bits).standard_normal((33, columns)).astype(np.float32)
    blob = quantise(matrix, bits, group)
    padded = -(-columns // group) * group
    width = 2 if bits == 5 else bits
    assert len(blob) == 33 * (padded * width // 8 + padded // group * 2)
    levels = ascending_levels(bits, group).tolist()
    by_code = (levels[1], levels[2], 0.0, levels[0]) if bits == 5 else tuple(levels)
    back = dequantise(blob, 33, columns, bits, group, by_code)
    assert np.linalg.norm(back - matrix) / np.linalg.norm(matrix) < error


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_codes_are_a_stream_of_bits(width: int) -> None:
    codes = np.random.default_rng(width).integers(0, 1 << width, (5, 48)).astype(np.uint8)
    packed = pack_codes(codes, width)
    stream = int.from_bytes(packed[: len(packed) // 5], "little")
    assert [stream >> (k * width) & ((1 << width) - 1) for k in range(48)] == codes[0].tolist()
    assert unpack_codes(packed, 5, width).tolist() == codes.tolist()


def test_a_group_of_zeros() -> None:
    blob = quantise(np.zeros((2, 32), np.float32), 4, 32)
    assert not np.frombuffer(blob[-4:], np.float16).any()
    assert not dequantise(blob, 2, 32, 4, 32, tuple(ascending_levels(4, 32).tolist())).any()


@pytest.mark.parametrize("name", ["needle2_tiny.cact", "needle3_tiny.cact"])
def test_dense_arrays_are_the_archives_values(data_dir: Path, name: str) -> None:
    archive = parse((data_dir / name).read_bytes())
    arrays = dense_arrays(archive)
    assert list(arrays) == [tensor.name for tensor in archive.tensors]
    for tensor in archive.tensors:
        if tensor.dtype == "cq":
            for row in (0, tensor.shape[0] - 1):
                np.testing.assert_allclose(arrays[tensor.name][row], archive.matrix_row(tensor.name, row), atol=1e-5)
        elif tensor.dtype != "raw":
            assert arrays[tensor.name].reshape(-1).tolist() == list(archive.dense(tensor.name))
    assert arrays["tokenizer"].tobytes() == archive.tokenizer_blob


@pytest.mark.parametrize("heads", [(1, 2, 3), (3,), ()])
def test_through_safetensors_and_back(tmp_path: Path, heads: tuple[int, ...]) -> None:
    """Dense tensors, geometry and storage survive; a matrix loses what quantising it again costs."""
    archive = parse(
        write(heads=heads, layers=3, out_vocab=200, group=lambda name: 32 if "proj" in name else 16,
              bits=lambda name: 2 if name.startswith("engrams") else 3)
    )  # fmt: skip
    path = tmp_path / "dense.safetensors"
    path.write_bytes(safetensors_bytes(dense_arrays(archive), metadata(archive)))
    arrays, about = read_safetensors(path)
    assert geometry_of(about) == archive.geometry
    stored = json.loads(about["storage"])
    rules = [[(name, pair[place]) for name, pair in stored.items()] for place in (0, 1)]
    again = parse(pack(arrays, geometry_of(about), bits_for=rules[0], group_for=rules[1]))
    assert again.geometry == archive.geometry and again.heads == archive.heads
    for tensor in archive.tensors:
        other = again.by_name[tensor.name]
        assert (tensor.shape, tensor.bits, tensor.group) == (other.shape, other.bits, other.group)
        if tensor.dtype in ("f16", "f32"):
            assert archive.dense(tensor.name) == again.dense(tensor.name)
    assert again.tokenizer_blob == archive.tokenizer_blob


def test_rules_choose_widths() -> None:
    rules = [("layers.0.*", 1), ("layers.*.q_proj", 2), ("engrams.*", 5)]
    archive = parse(pack(int_weights.weights(3), int_weights.GEOMETRY[3], bits=3, group=64, bits_for=rules))
    width = {name: tensor.bits for name, tensor in archive.by_name.items() if tensor.dtype == "cq"}
    assert (width["layers.0.q_proj"], width["layers.1.q_proj"], width["layers.1.k_proj"]) == (1, 2, 3)
    assert (width["engrams.2.tables"], width["embedding"], width["heads.confidence.proj"]) == (5, 3, 4)


def changed(**more: Any) -> dict[str, Any]:
    return {**int_weights.weights(3), **more}


@pytest.mark.parametrize(
    ("arrays", "match"),
    [
        (changed(final_norm=np.zeros(5)), r"final_norm: got shape \(5,\); needed an array of shape \(64,\)"),
        ({k: v for k, v in changed().items() if k != "embedding"}, "embedding: got nothing"),
        (changed(extra=np.zeros(5)), "no tensor called extra"),
        ({k: v for k, v in changed().items() if k != "layers.0.cond_v"}, "layers.0.cond_v: got nothing"),
    ],
)
def test_arrays_that_do_not_fit(arrays: dict[str, Any], match: str) -> None:
    with pytest.raises(RequestError, match=match):
        pack(arrays, int_weights.GEOMETRY[3], group=64)


def test_values_that_no_archive_can_hold() -> None:
    for name, value in (("final_norm", 1e6), ("layers.1.q_proj", np.inf), ("embedding", np.nan)):
        shape = int_weights.weights(3)[name].shape
        with pytest.raises(ArchiveError), np.errstate(invalid="ignore"):
            pack(changed(**{name: np.full(shape, value)}), int_weights.GEOMETRY[3], group=64)


@pytest.mark.parametrize(("bits", "group"), [(0, 64), (6, 64), (4, 48), (4, 512), (4, 8)])
def test_widths_that_there_are_not(bits: int, group: int) -> None:
    with pytest.raises(RequestError, match="needed 1 to 5 bits"):
        pack(int_weights.weights(3), int_weights.GEOMETRY[3], bits=bits, group=group)


@pytest.mark.parametrize(
    "change",
    [{"layers": 65}, {"layers": "7"}, {"generation": 4}, {"hada_n": 63}, {"kv_bits": 5}, {"vocab": None},
     {"engram_sites": list(range(17))}, {"rope_theta": "x"}, {"heads": 4.0}],
)  # fmt: skip
def test_a_geometry_that_is_none(change: dict[str, Any]) -> None:
    given = {**asdict(int_weights.GEOMETRY[3]), **change}
    with pytest.raises(RequestError, match="no geometry that can be used"):
        geometry_of({"geometry": json.dumps(given)})


def test_metadata_without_a_geometry() -> None:
    for about in ({}, {"geometry": "["}, {"geometry": "3"}, {"geometry": "{}"}):
        with pytest.raises(RequestError, match="no geometry that can be used"):
            geometry_of(about)


def test_a_geometry_that_the_format_refuses() -> None:
    with pytest.raises((ArchiveError, RequestError)):
        pack(int_weights.weights(3), replace(int_weights.GEOMETRY[3], global_layers=(99,)), group=64)
