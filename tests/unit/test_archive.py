"""Sound archives: names, shapes, geometry, values; the twin arithmetic is numpy written from the format."""

from __future__ import annotations

import json
import math
import re
import struct
from array import array
from pathlib import Path

import numpy as np
import pytest
from archive_writer import SMALL, assemble, plan, write

from areole import archive
from areole.archive import Archive, BufferReader, parse
from areole.tokenizer import Tokenizer

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tiny(tiny_path: Path) -> Archive:
    return parse(tiny_path.read_bytes(), tiny_path.name)


def unpack_matrix(found: Archive, data: bytes, name: str) -> np.ndarray:
    """A "cq" tensor dequantised in float64: codes bit by bit, levels times norm, one product with Hadamard's matrix."""
    tensor = found.by_name[name]
    rows, cols = tensor.shape
    size = tensor.group
    padded = -(-cols // size) * size
    width = 2 if tensor.bits == 5 else tensor.bits
    blob = np.frombuffer(data[tensor.offset : tensor.offset + tensor.nbytes], np.uint8)
    packed = blob[: rows * padded * width // 8].reshape(rows, -1)
    bits = np.unpackbits(packed, axis=1, bitorder="little").reshape(rows, padded, width)
    codes = (bits.astype(np.int64) << np.arange(width)).sum(-1)
    norms = blob[rows * padded * width // 8 :].view("<f2").astype(np.float64).reshape(rows, -1, 1)
    if tensor.bits == 5:
        table = np.array([0, 1.2240064, np.nan, -1.2240064]) / math.sqrt(size)
    elif tensor.bits == 1:
        table = np.array([-1, 1]) * math.sqrt(2 / math.pi) / math.sqrt(size)
    else:
        stored = np.frombuffer(data[196 : 196 + 112], "<f4").astype(np.float64)
        table = {2: stored[:4], 3: stored[4:12], 4: stored[12:]}[tensor.bits]
        table = table * math.sqrt(found.by_name["embedding"].group / size)
    hadamard = np.array([[1.0]])
    while len(hadamard) < size:
        hadamard = np.block([[hadamard, hadamard], [hadamard, -hadamard]])
    dense = (table[codes].reshape(rows, -1, size) * norms) @ (hadamard / math.sqrt(size))
    return dense.reshape(rows, padded)[:, :cols]


def test_tiny_archive_has_the_geometry_it_was_made_with(tiny: Archive) -> None:
    g = tiny.geometry
    assert (g.vocab, g.out_vocab, g.d_model, g.heads, g.kv_heads, g.layers) == (300, 300, 192, 6, 2, 5)
    assert (g.qk_dim, g.v_dim, g.max_seq, g.hada_n, g.lanes) == (24, 40, 256, 256, 4)
    assert (g.sliding_window, g.global_layers, g.qkv_taps) == (9, (2, 4), 3)
    assert (g.engram_slots, g.engram_sub_dim, g.engram_tables, g.engram_taps) == (61, 48, 4, 4)
    assert (g.engram_dilation, g.engram_seed_heads, g.engram_orders, g.engram_sites) == (3, 0, (2, 3), (1, 4))
    assert (g.rope_theta, g.kv_window, g.kv_bits) == (10000.0, 12, 8)
    assert (g.engram_heads, g.kron_a, g.kron_b) == (2, 16, 16)
    assert tiny.heads == ((1, "embedding"), (2, "confidence"))
    assert {tensor.bits for tensor in tiny.tensors if tensor.dtype == "cq"} == {2, 3, 4, 5}
    assert (len(tiny.tensors), tiny.base_group, tiny.cond_rank, len(tiny.vocabulary.pieces)) == (170, 64, 8, 300)


def test_embedding_rows_are_those_of_the_reference(tiny: Archive, data_dir: Path) -> None:
    # Cell row 0 of the golden run is the token's embedding times sqrt(d_model).
    with np.load(data_dir / "needle3_tiny.npz") as golden:
        for token, cell in list(zip(golden["ids"], golden["cells"][:, 0], strict=True))[:12]:
            row = np.array(tiny.matrix_row("embedding", int(token))) * math.sqrt(tiny.geometry.d_model)
            np.testing.assert_allclose(row, cell, rtol=0, atol=2e-5)


@pytest.mark.parametrize("name", ["embedding", "layers.0.q_proj", "layers.0.k_proj", "layers.0.v_proj",
                                  "layers.1.out_proj", "engrams.0.tables", "heads.embedding.proj"])  # fmt: skip
def test_matrix_rows_agree_with_numpy(tiny: Archive, tiny_path: Path, name: str) -> None:
    dense = unpack_matrix(tiny, tiny_path.read_bytes(), name)
    for row in (0, 1, len(dense) // 2, len(dense) - 1):
        np.testing.assert_allclose(tiny.matrix_row(name, row), dense[row], rtol=0, atol=1e-6)


@pytest.mark.parametrize("bits", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("group", [16, 32, 64, 128, 256])
def test_every_width_and_group_is_read(bits: int, group: int) -> None:
    data = write(bits=bits, group=group)
    found = parse(data)
    for name in ("embedding", "layers.1.out_proj", "mhc.phi_res"):
        dense = unpack_matrix(found, data, name)
        assert np.isfinite(dense).all()
        np.testing.assert_allclose(found.matrix_row(name, len(dense) - 1), dense[-1], rtol=0, atol=1e-6)
        assert found.packed_bytes(found.by_name[name]) + 2 * found.by_name[name].norm_count == (
            found.by_name[name].nbytes
        )


def test_a_group_of_its_own_rescales_the_shared_levels() -> None:
    data = write(bits=3, group=lambda name: 64 if name.endswith("q_proj") else 16)
    found = parse(data)
    assert found.base_group == 16
    assert found.levels(3, 64) == tuple(level / 2 for level in found.levels(3, 16))
    np.testing.assert_allclose(
        found.matrix_row("layers.0.q_proj", 5), unpack_matrix(found, data, "layers.0.q_proj")[5], rtol=0, atol=1e-6
    )


def test_levels_by_code(tiny: Archive) -> None:
    assert [len(tiny.levels(bits, 64)) for bits in (1, 2, 3, 4, 5)] == [2, 4, 8, 16, 4]
    assert tiny.levels(4, 64) == tiny.cb4
    zero, plus, unused, minus = tiny.levels(5, 64)
    assert (zero, unused, minus) == (0.0, 0.0, -plus)
    assert plus == pytest.approx(1.2240064 / 8)
    assert tiny.levels(1, 16)[1] == pytest.approx(math.sqrt(2 / math.pi) / 4)
    with pytest.raises(ValueError, match="6 is no width"):
        tiny.levels(6, 64)


def test_dense_values_agree_with_numpy(tiny: Archive, tiny_path: Path) -> None:
    data = tiny_path.read_bytes()
    for tensor in tiny.tensors:
        if tensor.dtype in ("f16", "f32"):
            values = tiny.dense(tensor.name)
            assert isinstance(values, array) and values.typecode == "f"
            stored = np.frombuffer(
                data, "<f2" if tensor.dtype == "f16" else "<f4", math.prod(tensor.shape), tensor.offset
            )
            assert np.array_equal(np.frombuffer(values, np.float32), stored.astype(np.float32))


def test_wrong_readings_are_named(tiny: Archive) -> None:
    with pytest.raises(ValueError, match="matrix_row"):
        tiny.dense("embedding")
    with pytest.raises(ValueError, match="dense"):
        tiny.matrix_row("final_norm", 0)
    with pytest.raises(IndexError, match="rows 0 to 299"):
        tiny.matrix_row("embedding", 300)
    with pytest.raises(KeyError):
        tiny.dense("layers.9.norm_in")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"heads": ()},
        {"heads": (1,)},
        {"heads": (3,)},
        {"heads": (2, 3)},
        {"heads": (1, 2, 3)},
        {"qkv_taps": 0},
        {"sites": (), "orders": (), "engram_tables": 0, "engram_slots": 0, "engram_sub_dim": 0, "engram_taps": 0},
        {"sites": ()},
        {"sites": (0, 1), "orders": (1, 2, 3, 8), "engram_tables": 8, "engram_sub_dim": 4, "engram_seed_heads": 2},
        {"hada_n": 256},
        {"lanes": 1},
        {"lanes": 8},
        {"kv_heads": 4, "global_mask": 0, "sliding_window": 0, "kv_window": 0},
        {"out_vocab": 100},
        {"d_model": 20, "engram_sub_dim": 5},
    ],
    ids=str,
)
def test_geometries_the_header_can_say(options: dict[str, object]) -> None:
    parts = plan(**options)
    data = assemble(parts)
    found = parse(data)
    assert [tensor.name for tensor in found.tensors] == [record.name for record in parts.records]
    assert [tensor.offset for tensor in found.tensors] == [record.offset for record in parts.records]
    assert [tensor.record for tensor in found.tensors] == list(range(len(parts.records)))
    for tensor, record in zip(found.tensors, parts.records, strict=True):
        assert tensor.dtype == {1: "f16", 2: "f32", 3: "cq", 4: "raw"}[record.dtype]
        assert (tensor.shape, tensor.group, tensor.bits) == (record.shape, record.group, record.bits)
        assert tensor.nbytes == len(record.blob)
    assert [code for code, _ in found.heads] == list(options.get("heads", (2,)))  # type: ignore[call-overload]
    assert found.geometry.out_vocab == options.get("out_vocab", SMALL["vocab"])
    assert found.tokenizer_blob == parts["tokenizer"].blob
    assert found.header_bytes == 196 + 112 + 44 * len(parts.records)


def test_unequal_kron_factors() -> None:
    g = parse(write(hada_n=32)).geometry
    assert (g.kron_a, g.kron_b) == (4, 8)


def test_64_layers_with_the_highest_mask_bit() -> None:
    g = parse(write(layers=64, global_mask=1 << 63 | 1 << 31 | 1, sites=(63,))).geometry
    assert (g.layers, g.global_layers, g.engram_sites) == (64, (0, 31, 63), (63,))


def test_any_buffer_or_reader_gives_the_same(tiny: Archive, tiny_path: Path) -> None:
    data = tiny_path.read_bytes()

    class Elsewhere:
        size = len(data)

        def read(self, offset: int, length: int) -> bytes:
            return data[offset : offset + length]

    wide = array("B", data)
    for source in (bytearray(data), memoryview(data), wide, BufferReader(data), Elsewhere()):
        found = parse(source)
        assert found.tensors == tiny.tensors
        assert found.dense("final_norm") == tiny.dense("final_norm")


def test_gaps_between_tensors_are_allowed() -> None:
    # The format promises order and alignment, not tightness: a writer may align to more than 64.
    parts = plan()
    data = assemble(parts)
    index = next(i for i, record in enumerate(parts.records) if record.name == "final_norm")
    cut = parts.records[index].offset
    moved = bytearray(data[:cut] + bytes(128) + data[cut:])
    for record in range(index, len(parts.records)):
        at = 196 + 112 + 44 * record + 20
        struct.pack_into("<Q", moved, at, struct.unpack_from("<Q", moved, at)[0] + 128)
    assert parse(bytes(moved)).by_name["final_norm"].offset == cut + 128


def test_zero_and_tiny_norms_are_allowed() -> None:
    parts = plan()
    record = parts["embedding"]
    values = struct.pack("<3e", 0.0, 0.5, 6e-8)
    record.blob = record.blob[:-6] + values
    assert parse(assemble(parts)).by_name["embedding"].nbytes == len(record.blob)


def test_describe_is_json(tiny: Archive) -> None:
    summary = json.loads(json.dumps(tiny.describe(), allow_nan=False))
    assert (summary["name"], summary["generation"], summary["bytes"], summary["records"]) == (
        "needle3_tiny.cact", 3, 569815, 170,
    )  # fmt: skip
    assert summary["heads"] == ["embedding", "confidence"]
    assert set(summary["storage"]) == {"cq2", "cq3", "cq4", "ternary", "f16", "f32", "raw"}
    assert sum(summary["storage"].values()) == sum(tensor.nbytes for tensor in tiny.tensors)
    assert summary["geometry"]["engram_orders"] == [2, 3]


def test_tokenizer_of_the_archive(tiny: Archive) -> None:
    tokenizer = Tokenizer.from_blob(tiny.tokenizer_blob)
    assert tokenizer.vocab_size == 300
    assert tokenizer.vocabulary == tiny.vocabulary


@pytest.mark.model
def test_the_real_archive(real_model_path: Path, data_dir: Path) -> None:
    found = parse(real_model_path.read_bytes(), real_model_path.name)
    g = found.geometry
    assert len(found.tensors) == 581
    assert (g.vocab, g.out_vocab, g.d_model, g.layers, g.heads, g.kv_heads) == (8192, 8192, 768, 20, 12, 2)
    assert (g.qk_dim, g.v_dim, g.max_seq, g.hada_n, g.lanes, g.qkv_taps) == (48, 64, 8192, 1024, 4, 3)
    assert (g.global_layers, g.sliding_window, g.kv_window) == ((4, 9, 14, 19), 1024, 256)
    assert (g.engram_sites, g.engram_orders, g.engram_slots, g.engram_sub_dim) == (
        (3, 7, 11, 15, 19),
        (2, 3),
        18432,
        128,
    )
    assert (g.rope_theta, g.kron_a, g.kron_b, found.cond_rank) == (100000.0, 32, 32, 8)
    assert found.heads == ((2, "confidence"),)
    assert found.by_name["heads.confidence.query"].shape == (4, 768)
    assert found.by_name["engrams.4.tables"].shape == (110592, 128)
    scaled = [round(level * math.sqrt(128), 6) for level in found.cb2]
    assert scaled == [-1.506671, -0.451441, 0.452948, 1.509933]
    assert found.tokenizer_blob == (data_dir / "needle3_tokenizer.bin").read_bytes()


def _documented() -> str:
    return (ROOT / "docs" / "archive.md").read_text(encoding="utf-8")


def test_docs_name_every_tensor_family_and_no_other() -> None:
    families = set()
    for heads in ((1, 2, 3), ()):
        for tensor in parse(write(heads=heads)).tensors:
            name = re.sub(r"^layers\.\d+", "layers.{i}", tensor.name)
            name = re.sub(r"^engrams\.\d+", "engrams.{s}", name)
            families.add(re.sub(r"^heads\.(embedding|confidence|router)\.", "heads.{head}.", name))
    table = re.findall(r"^\| `([^`]+)` \| (f16|f32|cq|raw) \|", _documented(), re.MULTILINE)
    assert {name for name, _ in table} == families
    assert len(table) == len(families)


def test_docs_give_the_limits_in_force() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([\d,]+) \| ([\d,]+) \|", _documented(), re.MULTILINE)
    documented = {name: (int(low.replace(",", "")), int(high.replace(",", ""))) for name, low, high in rows}
    assert documented == archive.LIMITS
