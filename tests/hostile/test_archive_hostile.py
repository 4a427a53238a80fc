"""Damaged and hostile archives: each is refused with an ArchiveError that says where, and nothing else ever comes out.

No read may leave the file, and no promise in a header may cost memory that the file does not have.
"""

from __future__ import annotations

import json
import struct
import tracemalloc
from collections.abc import Callable
from typing import cast

import pytest
from archive_writer import SMALL, Record, assemble, plan, tokenizer_blob, write
from hypothesis import given, settings
from hypothesis import strategies as st

from areole.archive import Archive, BufferReader, parse
from areole.errors import ERROR_CODES, ArchiveError

HEADER_BYTES, CODEBOOK_BYTES, RECORD_BYTES = 196, 112, 44
DIRECTORY = HEADER_BYTES + CODEBOOK_BYTES
PARTS = plan(heads=(1, 2, 3), bits=lambda name: 5 if name.endswith("v_proj") else 4)
SOUND = assemble(PARTS)
NAMES = [record.name for record in PARTS.records]
WORDS = [
    "tag", "records", "codebook_len", "kv_window", "kv_bits", "vocab", "out_vocab", "d_model", "heads", "kv_heads",
    "layers", "qk_dim", "v_dim", "max_seq", "hada_n", "lanes", "sliding_window", "global_lo", "global_hi", "qkv_taps",
    "slots", "sub_dim", "tables", "taps", "dilation", "seed_heads", "orders", "order0", "order1", "order2", "order3",
    "sites", "site0", "site1",
]  # fmt: skip
# Fields in which a wrong number can still be a possible one: no other number in the file depends on them.
FREE = {
    "kv_window", "out_vocab", "max_seq", "sliding_window", "global_lo", "dilation", "seed_heads", "order0", "order1",
    "site0",
}  # fmt: skip
SURFACES_AT = {"d_model": ["hada_n", "sub_dim"], "heads": ["kv_heads"], "layers": ["global_lo"], "tables": ["sub_dim"],
               "orders": ["order0", "order1", "order2", "tables"], "order0": ["order1"]}  # fmt: skip


class WatchedReader:
    """A reader that fails the test when a read would leave the file."""

    def __init__(self, data: bytes) -> None:
        self._inner = BufferReader(data)
        self.size = len(data)

    def read(self, offset: int, length: int) -> bytes:
        assert offset >= 0 and length >= 0 and offset + length <= self.size, (offset, length, self.size)
        return self._inner.read(offset, length)


def refusal(data: bytes, code: str | None = None) -> ArchiveError:
    """The error that `data` is refused with, complete and able to cross to a page."""
    with pytest.raises(ArchiveError) as caught:
        parse(WatchedReader(data), "notes.cact")
    error = caught.value
    assert error.code in ERROR_CODES
    assert error.message.startswith("notes.cact: ")
    assert f"got {error.got}" in error.message and f"needed {error.needed}" in error.message
    assert set(error.details) == {"what", "offset", "record", "tensor", "got", "needed", "name"}
    assert isinstance(error.offset, int) and 0 <= error.offset <= max(len(data), 1)
    json.dumps(error.to_json(), allow_nan=False)
    if code is not None:
        assert error.code == code, error.message
    return error


def outcome(data: bytes) -> Archive | ArchiveError:
    """What parsing gives; any other exception fails the test."""
    try:
        return parse(WatchedReader(data), "notes.cact")
    except ArchiveError as error:
        return error


def with_word(index: int, value: int) -> bytes:
    data = bytearray(SOUND)
    struct.pack_into("<I", data, 4 * index, value)
    return bytes(data)


def with_record(name: str, at: int, layout: str, *values: int, data: bytes = SOUND) -> bytes:
    out = bytearray(data)
    struct.pack_into(layout, out, DIRECTORY + RECORD_BYTES * NAMES.index(name) + at, *values)
    return bytes(out)


def changed(name: str, change: Callable[[Record], bytes], code: str, **options: object) -> ArchiveError:
    """The refusal of a sound archive in which one tensor's blob was changed."""
    parts = plan(**options)  # type: ignore[arg-type]
    parts[name].blob = change(parts[name])
    error = refusal(assemble(parts), code)
    assert error.tensor == name
    return error


def test_the_sound_archive_is_sound() -> None:
    assert len(parse(WatchedReader(SOUND)).tensors) == len(NAMES)


# The tag


def test_both_generations_are_named() -> None:
    assert "Needle 2" in refusal(with_word(0, 5), "archive_tag").message


@pytest.mark.parametrize(
    ("data", "hint"),
    [
        (b"<!DOCTYPE html><html><body>Not found</body></html>", "HTML"),
        (b"\n  <html>" + b" " * 500, "HTML"),
        (b"\xef\xbb\xbf<?xml version='1.0'?>" + b"x" * 400, "XML"),
        (b"<a>", "HTML"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "Git LFS"),
        (b'{"error": "not found"}', "JSON"),
        (b"\x1f\x8b\x08\x00" + SOUND, "gzip"),
        (b"PK\x03\x04" + SOUND, "zip"),
        (b"GGUF" + bytes(300), "0x46554747"),
        (b"\x00" * 400, "0x00000000"),
        (SOUND[1:], "0x"),
    ],
)
def test_other_files_are_refused_by_what_they_are(data: bytes, hint: str) -> None:
    error = refusal(data, "archive_tag")
    assert hint in error.message and error.offset == 0


def test_an_empty_file() -> None:
    assert "empty" in refusal(b"", "archive_truncated").message


# The header


@pytest.mark.parametrize(
    ("field", "values", "code"),
    [
        ("records", [0, 1, len(NAMES) - 1, len(NAMES) + 1, len(NAMES) + 7, 2**32 - 1], "archive_directory"),
        ("codebook_len", [0, 27, 29, 2**32 - 1], "archive_codebook"),
        ("kv_window", [2**20 + 1, 2**32 - 1], "archive_header"),
        ("kv_bits", [0, 1, 5, 7, 9, 16, 2**32 - 1], "archive_header"),
        ("vocab", [0, 2**20 + 1, 2**32 - 1], "archive_header"),
        ("vocab", [279, 281, 2**20], "archive_tensor"),
        ("out_vocab", [281, 2**32 - 1], "archive_header"),
        ("d_model", [0, 2**14 + 1, 2**32 - 1, 33, 31], "archive_header"),
        ("heads", [0, 3, 5, 257, 2**32 - 1], "archive_header"),
        ("heads", [2, 6, 8], "archive_tensor"),
        ("kv_heads", [0, 3, 5, 8, 257, 2**32 - 1], "archive_header"),
        ("kv_heads", [1, 4], "archive_tensor"),
        ("layers", [0, 1, 65, 2**32 - 1], "archive_header"),
        ("layers", [3, 64], "archive_directory"),
        ("qk_dim", [0, 1, 7, 1025, 2**32 - 1], "archive_header"),
        ("qk_dim", [4, 8, 1024], "archive_tensor"),
        ("v_dim", [0, 1025, 2**32 - 1], "archive_header"),
        ("v_dim", [9, 11], "archive_tensor"),
        ("max_seq", [0, 2**16 + 1, 2**32 - 1], "archive_header"),
        ("hada_n", [0, 16, 31, 33, 48, 2**16 + 1, 2**17, 2**32 - 1], "archive_header"),
        ("hada_n", [64, 2**16], "archive_tensor"),
        ("lanes", [0, 9, 2**32 - 1], "archive_header"),
        ("lanes", [1, 3, 8], "archive_tensor"),
        ("sliding_window", [2**20 + 1, 2**32 - 1], "archive_header"),
        ("global_lo", [4, 6, 2**31, 2**32 - 1], "archive_header"),
        ("global_hi", [1, 2**31, 2**32 - 1], "archive_header"),
        ("qkv_taps", [17, 2**32 - 1], "archive_header"),
        ("qkv_taps", [0], "archive_directory"),
        ("qkv_taps", [1, 3], "archive_tensor"),
        ("slots", [0, 2**24 + 1, 2**32 - 1], "archive_header"),
        ("slots", [6, 8, 2**20], "archive_tensor"),
        ("sub_dim", [0, 7, 9, 2**32 - 1], "archive_header"),
        ("tables", [0, 3, 5, 6, 257, 2**32 - 1], "archive_header"),
        ("taps", [0, 17, 2**32 - 1], "archive_header"),
        ("taps", [1, 3], "archive_tensor"),
        ("dilation", [0, 65, 2**32 - 1], "archive_header"),
        ("seed_heads", [1, 2**16 + 1, 2**32 - 1], "archive_header"),
        ("orders", [0, 1, 3, 5, 2**32 - 1], "archive_header"),
        ("order0", [0, 3, 9, 2**32 - 1], "archive_header"),
        ("order1", [0, 2, 9, 2**32 - 1], "archive_header"),
        ("order2", [1, 2**32 - 1], "archive_header"),
        ("order3", [1, 2**32 - 1], "archive_header"),
        ("sites", [0, 2, 17, 2**32 - 1], None),
        ("site0", [2, 64, 2**32 - 1], "archive_header"),
        ("site1", [1, 2**32 - 1], "archive_header"),
    ],
)
def test_hostile_header_values(field: str, values: list[int], code: str | None) -> None:
    for value in values:
        error = refusal(with_word(WORDS.index(field), value), code)
        if code == "archive_header":
            # A number that is possible by itself surfaces at the field that no longer agrees with it.
            at = {WORDS.index(name) for name in (field, *SURFACES_AT.get(field, ()))}
            assert cast(int, error.offset) // 4 in at, (value, error.message)


@pytest.mark.parametrize("site", range(1, 16))
def test_unused_site_places_must_be_zero(site: int) -> None:
    assert refusal(with_word(32 + site, 1), "archive_header").offset == 4 * (32 + site)


@pytest.mark.parametrize("theta", [0.0, 1.0, -10000.0, float("nan"), float("inf"), float("-inf"), 1e13, 1e-40])
def test_hostile_rope_theta(theta: float) -> None:
    data = bytearray(SOUND)
    struct.pack_into("<f", data, 4 * 48, theta)
    assert refusal(bytes(data), "archive_header").offset == 4 * 48


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"orders": (), "engram_tables": 0, "sites": (1,)}, "orders"),
        ({"orders": (), "sites": ()}, "tables"),
        ({"orders": (1, 2, 3)}, "tables"),
        ({"sites": (1, 1)}, "site1"),
        ({"sites": (1, 0)}, "site1"),
        ({"orders": (2, 2)}, "order1"),
    ],
    ids=str,
)
def test_orders_tables_and_sites_need_each_other(changes: dict[str, object], word: str) -> None:
    assert refusal(write(**changes), "archive_header").offset == 4 * WORDS.index(word)


def test_every_flipped_header_byte_is_refused_or_stays_possible() -> None:
    sound = parse(SOUND).geometry
    refused = 0
    for at in range(HEADER_BYTES):
        for mask in (0xFF, 0x01, 0x80):
            data = bytearray(SOUND)
            data[at] ^= mask
            found = outcome(bytes(data))
            if isinstance(found, ArchiveError):
                refused += 1
                continue
            field = WORDS[at // 4] if at // 4 < len(WORDS) else "rope_theta"
            assert field in FREE or at // 4 == 48, f"byte {at} ({field}) xor {mask:#x} went unseen"
            assert found.geometry != sound
    assert refused > 480


# The codebooks


@pytest.mark.parametrize(
    ("index", "value"),
    [(0, float("nan")), (3, float("inf")), (5, float("-inf")), (1, -1.0), (2, 0.9), (7, -0.5), (27, 1.5), (12, -1.01)],
)
def test_hostile_codebooks(index: int, value: float) -> None:
    parts = plan()
    parts.codebook[index] = value
    error = refusal(assemble(parts), "archive_codebook")
    assert error.offset in (HEADER_BYTES + 4 * index, HEADER_BYTES + 4 * (index + 1))


def test_equal_neighbours_in_a_codebook() -> None:
    parts = plan()
    parts.codebook[9] = parts.codebook[8]
    assert refusal(assemble(parts), "archive_codebook").offset == HEADER_BYTES + 4 * 9


# The directory

KINDS = [
    "embedding", *(name for name in NAMES if name.startswith("layers.0.")), "layers.1.q_proj", "layers.1.cond_u",
    *(name for name in NAMES if name.startswith(("mhc.", "hada", "engrams.", "heads."))), "final_norm", "tokenizer",
]  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_every_flipped_directory_byte_is_refused(name: str) -> None:
    start = DIRECTORY + RECORD_BYTES * NAMES.index(name)
    for at in range(start, start + RECORD_BYTES):
        for mask in (0xFF, 0x01) if name in ("embedding", "final_norm", "hada_p1", "tokenizer") else (0xFF,):
            data = bytearray(SOUND)
            data[at] ^= mask
            error = refusal(bytes(data))
            assert error.code in ("archive_tensor", "archive_directory", "archive_truncated"), error.message


@pytest.mark.parametrize("name", KINDS)
def test_hostile_directory_values(name: str) -> None:
    record = PARTS[name]
    start = DIRECTORY + RECORD_BYTES * NAMES.index(name)
    is_cq = record.dtype == 3
    cases: list[tuple[int, str, list[int], str]] = [
        (0, "<B", [0, 5, 255, *({1, 2, 3, 4} - {record.dtype})], "archive_tensor"),
        (1, "<B", [len(record.shape) + 1, 4 if len(record.shape) != 4 else 3, 5, 255], "archive_tensor"),
        (2, "<H", [1, 65535], "archive_tensor"),
        (20, "<Q", [record.offset + 1, record.offset + 2, record.offset + 32], "archive_directory"),
        (20, "<Q", [0, 64, record.offset // 64 * 64 - 64], "archive_directory"),
        (20, "<Q", [2**63, 2**64 - 64, -(-len(SOUND) // 64) * 64 + 64], "archive_truncated"),
        (36, "<I", [1, 15, 48, 512, 2**31, 2**32 - 1] if is_cq else [16, 2**32 - 1], "archive_tensor"),
        (40, "<I", [0, 6, 8, 2**32 - 1] if is_cq else [4, 2**32 - 1], "archive_tensor"),
    ]
    cases += [(4 + 4 * axis, "<I", [0, 2**31, 2**32 - 1], "archive_tensor") for axis in range(len(record.shape))]
    cases += [(4 + 4 * axis, "<I", [1, 2**32 - 1], "archive_tensor") for axis in range(len(record.shape), 4)]
    if record.dtype != 4:
        cases.append((28, "<Q", [0, len(record.blob) - 1, len(record.blob) + 1, 2**63, 2**64 - 1], "archive_tensor"))
    for at, layout, values, code in cases:
        for value in values:
            error = refusal(with_record(name, at, layout, value), code)
            if at < 4 or at in (20, 36, 40):
                assert error.tensor == name and error.record == NAMES.index(name)
                assert code == "archive_truncated" or error.offset == start + at
            # A tensor that claims more than the file has is named by what it claims, wherever the sum would wrap.
            assert "needed" in error.details


def test_offset_and_length_that_wrap_around_together() -> None:
    data = with_record("tokenizer", 20, "<QQ", 2**64 - 64, 128)
    assert refusal(data, "archive_truncated").tensor == "tokenizer"


def test_tokenizer_length_beyond_and_short_of_the_file() -> None:
    length = len(PARTS["tokenizer"].blob)
    for value in (length + 1, 2**63, 2**64 - 1):
        refusal(with_record("tokenizer", 28, "<Q", value), "archive_truncated")
    for value in (0, 1, length - 1):
        refusal(with_record("tokenizer", 28, "<Q", value), "archive_directory")


def test_two_tensors_in_one_place() -> None:
    one, two = PARTS["layers.0.d1"], PARTS["layers.0.d2"]
    assert one.shape == two.shape
    error = refusal(with_record("layers.0.d2", 20, "<Q", one.offset), "archive_directory")
    assert error.tensor == "layers.0.d2"


def test_tensors_out_of_order() -> None:
    one, two = PARTS["layers.0.d1"], PARTS["layers.0.d2"]
    data = with_record("layers.0.d1", 20, "<Q", two.offset)
    refusal(with_record("layers.0.d2", 20, "<Q", one.offset, data=data), "archive_directory")


def test_a_tensor_inside_the_directory() -> None:
    error = refusal(with_record("embedding", 20, "<Q", 320), "archive_directory")
    assert error.tensor == "embedding"


def test_reordered_records() -> None:
    data = bytearray(SOUND)
    first = DIRECTORY + RECORD_BYTES * NAMES.index("layers.0.q_proj")
    one, two = data[first : first + 44], data[first + 44 : first + 88]
    data[first : first + 88] = two + one
    assert refusal(bytes(data), "archive_tensor").tensor == "layers.0.q_proj"


def test_trailing_bytes() -> None:
    for more in (1, 64, 4096):
        assert refusal(SOUND + bytes(more), "archive_directory").offset == len(SOUND)


def test_shapes_too_large_for_32_bits() -> None:
    data = bytearray(SOUND)
    for field, value in (("vocab", 2**20), ("d_model", 2**14), ("hada_n", 2**14), ("sub_dim", 2**12)):
        struct.pack_into("<I", data, 4 * WORDS.index(field), value)
    error = refusal(with_record("embedding", 4, "<II", 2**20, 2**14, data=bytes(data)), "archive_tensor")
    assert error.tensor == "embedding" and "at most 2147483647 values" in error.message
    refusal(write(engram_slots=2**24, engram_tables=256, engram_sub_dim=1, d_model=256, hada_n=256, sites=()),
            "archive_header")  # fmt: skip


# Heads


def test_hostile_manifests() -> None:
    for codes in ((2, 1), (2, 2), (4,), (0,), (1.5,), (float("nan"),), (float("inf"),)):
        parts = plan(heads=(1, 2) if len(codes) == 2 else (2,))
        parts["heads.manifest"].blob = struct.pack(f"<{len(codes)}e", *codes)
        assert refusal(assemble(parts), "archive_tensor").tensor == "heads.manifest"


def test_a_router_needs_its_calibration_and_no_other_head_has_one() -> None:
    parts = plan(heads=(3,))
    parts.records.remove(parts["heads.router.calibration"])
    assert refusal(assemble(parts), "archive_tensor").tensor == "heads.manifest"
    parts = plan(heads=(2,))
    parts.records.insert(-1, Record("heads.confidence.calibration", 1, (3,), bytes(6)))
    assert refusal(assemble(parts), "archive_tensor").tensor == "heads.manifest"


def test_half_precision_heads_are_refused_by_name() -> None:
    parts = plan(heads=(2,))
    g = parts.geometry
    shape = (g["layers"] + 1, 4, g["d_model"])
    at = parts.records.index(parts["heads.confidence.probes"])
    size = 2 * shape[0] * shape[1] * shape[2]
    parts.records[at] = Record("heads.confidence.probes", 1, shape, bytes(size))
    error = refusal(assemble(parts), "archive_tensor")
    assert "all-float16" in error.message and error.tensor == "heads.confidence.probes"


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("heads.confidence.proj", (2, 96)),
        ("heads.confidence.gain", (3, 65)),
        ("heads.confidence.query", (65, 32)),
        ("heads.confidence.probes", (13, 32)),
        ("heads.confidence.bias", (2,)),
        ("heads.confidence.row_bias", (3, 4, 3)),
    ],
)
def test_head_shapes_must_agree(name: str, shape: tuple[int, ...]) -> None:
    parts = plan(heads=(2,))
    parts[name].shape = shape
    refusal(assemble(parts), "archive_tensor")


def test_a_confidence_head_has_one_output() -> None:
    parts = plan(heads=(2,))
    proj, bias = parts["heads.confidence.proj"], parts["heads.confidence.bias"]
    proj.shape, proj.blob = (2, proj.shape[1]), proj.blob * 2
    bias.shape, bias.blob = (2,), bias.blob * 2
    assert refusal(assemble(parts), "archive_tensor").tensor == "heads.confidence.proj"


def test_conditioning_rank() -> None:
    for rank in (0, 257, 2**32 - 1):
        assert "a rank of 1 to 256" in refusal(with_record("layers.0.cond_v", 8, "<I", rank), "archive_tensor").message
    parts = plan()
    for name in ("layers.1.cond_v", "layers.1.cond_u"):
        record = parts[name]
        record.shape = (32, 4) if name.endswith("v") else (4, 32)
        record.blob = bytes(2 * 4 * 32)
    assert refusal(assemble(parts), "archive_tensor").tensor == "layers.1.cond_v"


# Values


@pytest.mark.parametrize("bad", [0x7C00, 0xFC00, 0x7E00, 0x7C01, 0xFFFF, 0x8000, 0xB800])
@pytest.mark.parametrize("name", ["embedding", "layers.1.v_proj", "engrams.0.tables", "heads.confidence.proj"])
def test_norms_must_be_lengths(name: str, bad: int) -> None:
    for place in (0, -1):

        def change(record: Record, place: int = place) -> bytes:
            rows, cols = record.shape
            count = rows * (-(-cols // record.group))
            at = len(record.blob) - 2 * (count if place == 0 else 1)
            return record.blob[:at] + struct.pack("<H", bad) + record.blob[at + 2 :]

        error = changed(name, change, "archive_norms")
        assert "row 0, group 0" in error.message or place == -1


@pytest.mark.parametrize("name", ["layers.0.norm_in", "layers.1.attn_gate", "layers.1.w3b", "mhc.b_res", "final_norm",
                                  "engrams.0.taps", "heads.confidence.gain", "heads.confidence.bias"])  # fmt: skip
def test_dense_values_must_be_finite(name: str) -> None:
    for bad in (0x7C00, 0xFE00):
        error = changed(name, lambda record, bad=bad: record.blob[:-2] + struct.pack("<H", bad), "archive_tensor")
        last = assemble(parts := plan()) and parts[name].offset + len(parts[name].blob) - 2
        assert error.offset == last


@pytest.mark.parametrize("value", [-1.0, 32.0, 0.5, 31.5, 1e30, float("nan"), float("inf"), float("-inf"), None])
@pytest.mark.parametrize("name", ["hada_p1", "hada_p2"])
def test_permutations_must_permute(name: str, value: float | None) -> None:
    def change(record: Record) -> bytes:
        entries = list(struct.unpack("<32f", record.blob))
        entries[7] = entries[3] if value is None else value
        return struct.pack("<32f", *entries)

    assert "entry 7" in changed(name, change, "archive_permutation").message


@pytest.mark.parametrize("byte", [0b10, 0b1000, 0b100000, 0b10000000, 0b10101010])
def test_ternary_code_2_is_refused(byte: int) -> None:
    error = changed(
        "layers.0.k_proj", lambda record: record.blob[:9] + bytes((byte,)) + record.blob[10:], "archive_tensor", bits=5
    )
    assert "ternary" in error.message


def test_the_same_byte_is_sound_in_a_norm_or_another_width() -> None:
    parts = plan(bits=2)
    parts["layers.0.k_proj"].blob = b"\xaa" + parts["layers.0.k_proj"].blob[1:]
    assert parse(assemble(parts)).by_name["layers.0.k_proj"].bits == 2


# The tokenizer


def bytes_pieces() -> list[tuple[str, float, int]]:
    return [(f"<0x{value:02X}>", 0.0, 4) for value in range(256)]


@pytest.mark.parametrize(
    ("what", "blob"),
    [
        ("length", b""),
        ("length", tokenizer_blob()[:23]),
        ("number of pieces", tokenizer_blob()[:24]),
        ("number of pieces", struct.pack("<I", 0) + tokenizer_blob()[4:]),
        ("number of pieces", struct.pack("<I", 2**32 - 1) + tokenizer_blob()[4:]),
        ("length", struct.pack("<I", 269) + tokenizer_blob()[4:]),
        ("piece 270", struct.pack("<I", 271) + tokenizer_blob()[4:]),
        ("length", tokenizer_blob() + b"\0"),
        ("length", tokenizer_blob()[:-1]),
        ("number of pieces", tokenizer_blob(bytes_pieces() + [(f"x{i}", 0.0, 0) for i in range(21)])),
        ("unique", tokenizer_blob([*bytes_pieces(), ("ab", 0.0, 0), ("ab", -1.0, 0)])),
        ("score", tokenizer_blob([*bytes_pieces(), ("ab", float("nan"), 0)])),
        ("score", tokenizer_blob([*bytes_pieces(), ("ab", float("inf"), 0)])),
        ("kind", tokenizer_blob([*bytes_pieces(), ("ab", 0.0, 5)])),
        ("empty", tokenizer_blob([*bytes_pieces(), ("", 0.0, 0)])),
        ("byte pieces", tokenizer_blob(bytes_pieces()[1:])),
        ("byte piece", tokenizer_blob([*bytes_pieces(), ("<0xG0>", 0.0, 4)])),
        ("byte piece", tokenizer_blob([*bytes_pieces(), ("<0x0a>", 0.0, 4)])),
        ("flag", tokenizer_blob(dummy=2)),
        ("flag", tokenizer_blob(fallback=2)),
        ("pad id", tokenizer_blob()[:4] + struct.pack("<I", 270) + tokenizer_blob()[8:]),
        ("eos id", tokenizer_blob()[:8] + struct.pack("<I", 2**32 - 1) + tokenizer_blob()[12:]),
        ("bos id", tokenizer_blob()[:12] + struct.pack("<I", 1) + tokenizer_blob()[16:]),
        ("unk piece", tokenizer_blob()[:16] + struct.pack("<I", 4) + tokenizer_blob()[20:]),
        ("padding", tokenizer_blob()[:22] + b"\1\0" + tokenizer_blob()[24:]),
        ("UTF-8", tokenizer_blob().replace(b"<think>", b"<th\xffnk>")),
        ("UTF-8", tokenizer_blob().replace(b"<think>", b"<th\xed\xa0\x80>")),
    ],
)
def test_damaged_tokenizers(what: str, blob: bytes) -> None:
    error = changed("tokenizer", lambda _: blob, "archive_tokenizer")
    names = {"unique": "does not have", "empty": "length of piece"}
    assert names.get(what, what) in error.message


def test_a_missing_tokenizer() -> None:
    parts = plan()
    del parts.records[-1]
    refusal(assemble(parts), "archive_directory")


# Whole files


def test_every_truncation_is_refused() -> None:
    lengths = {*range(DIRECTORY + RECORD_BYTES), *range(DIRECTORY, DIRECTORY + RECORD_BYTES * len(NAMES), 41)}
    for record in PARTS.records:
        lengths |= {record.offset - 1, record.offset, record.offset + 1, record.offset + len(record.blob) // 2}
    lengths |= set(range(len(SOUND) - 30, len(SOUND)))
    for length in lengths:
        error = refusal(SOUND[:length], "archive_truncated")
        assert error.offset == length or length < 4


def test_readers_that_lie_about_their_size() -> None:
    class Liar:
        size = len(SOUND)

        def __init__(self, honest: int) -> None:
            self.honest = honest

        def read(self, offset: int, length: int) -> bytes:
            return SOUND[: self.honest][offset : offset + length]

    for honest in (0, 3, 100, 250, 400, PARTS["final_norm"].offset, len(SOUND) - 1):
        with pytest.raises(ArchiveError) as caught:
            parse(Liar(honest))
        assert caught.value.code == "archive_truncated"


def test_a_file_too_large_for_the_core() -> None:
    class Huge:
        size = 2**31

        def read(self, offset: int, length: int) -> bytes:
            assert offset + length <= len(SOUND), "read far into a file that was to be refused"
            return SOUND[offset : offset + length]

    with pytest.raises(ArchiveError, match="2147483648") as caught:
        parse(Huge())
    assert caught.value.code == "archive_header"


def greedy() -> list[bytes]:
    """Archives whose numbers ask for far more memory than the file has."""
    big = [with_word(WORDS.index(field), value) for field, value in (
        ("vocab", 2**20), ("records", 2**32 - 1), ("codebook_len", 2**32 - 1), ("layers", 64), ("slots", 2**24),
        ("max_seq", 2**16), ("hada_n", 2**16), ("d_model", 2**14), ("kv_window", 2**20),
    )]  # fmt: skip
    big += [with_record(name, 28, "<Q", 2**31) for name in ("embedding", "hada_p1", "tokenizer", "heads.manifest")]
    huge_count = bytearray(SOUND)
    struct.pack_into("<I", huge_count, PARTS["tokenizer"].offset, 2**31)
    return [*big, bytes(huge_count)]


@pytest.mark.parametrize("index", range(len(greedy())))
def test_no_promise_costs_memory_beyond_the_file(index: int) -> None:
    data = greedy()[index]
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        outcome(data)
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    # Python's objects for the directory and the vocabulary are larger than the bytes they come from, but no more than
    # this; a promise that was believed would cost from 16 MB to 4 GB.
    assert peak < 4_000_000


@settings(max_examples=120, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(SOUND) - 1), st.integers(1, 255)), min_size=1, max_size=6))
def test_random_flips_give_an_archive_or_an_archive_error(flips: list[tuple[int, int]]) -> None:
    data = bytearray(SOUND)
    for at, mask in flips:
        data[at] ^= mask
    outcome(bytes(data))


@settings(max_examples=120, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, DIRECTORY + RECORD_BYTES * len(NAMES) - 4), st.integers(0, 2**32 - 1)),
             min_size=1, max_size=4)
)  # fmt: skip
def test_random_words_in_header_and_directory(words: list[tuple[int, int]]) -> None:
    data = bytearray(SOUND)
    for at, value in words:
        struct.pack_into("<I", data, at // 4 * 4, value)
    outcome(bytes(data))


@settings(max_examples=80, deadline=None)
@given(st.binary(max_size=400))
def test_random_bytes(data: bytes) -> None:
    assert isinstance(outcome(data), ArchiveError)
    assert isinstance(outcome(SOUND[:4] + data), ArchiveError)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, len(SOUND)), st.integers(0, 200), st.binary(max_size=200))
def test_random_cuts_and_insertions(at: int, removed: int, inserted: bytes) -> None:
    data = SOUND[:at] + inserted + SOUND[at + removed :]
    found = outcome(data)
    if len(data) != len(SOUND):
        assert isinstance(found, ArchiveError)


def test_the_geometry_that_the_hostile_values_are_chosen_for() -> None:
    assert [SMALL[key] for key in ("vocab", "layers", "heads", "kv_heads", "hada_n")] == [280, 2, 4, 2, 32]
    assert [len(WORDS), len(set(WORDS))] == [34, 34] and set(WORDS) >= FREE
