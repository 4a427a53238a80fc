"""What the core refuses, and that a refused call has changed nothing."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from areole.archive import Archive
from areole.core import Core, check
from areole.core.abi import STATUSES, STRUCTS
from areole.errors import ContextFullError, CoreError, RequestError
from areole.model import Model, geometry_struct, tensor_table


def sized(core: Core, geometry: bytes, table: bytes, count: int, archive: bytes) -> int:
    """The status of areole_model_size for this geometry and table."""
    address = core.alloc(len(archive) + len(geometry) + len(table) + 256)
    try:
        core.write(address, archive)
        at = address + (len(archive) + 63) // 64 * 64
        core.write(at, geometry)
        core.write(at + len(geometry), table)
        return core.call(
            "areole_model_size", at, at + len(geometry), count, address, len(archive), at + len(geometry) + len(table)
        )
    finally:
        core.free(address)


def words_of(archive: Archive) -> list[list[int]]:
    """The tensor table as rows of seven numbers."""
    return [list(row) for row in struct.iter_unpack("<7I", tensor_table(archive)[0])]


def status_of(core: Core, archive: Archive, path: Path, words: list[list[int]]) -> int:
    """The status of areole_model_size for a changed table."""
    table = b"".join(struct.pack("<7I", *row) for row in words)
    return sized(core, geometry_struct(archive), table, len(words), path.read_bytes())


def offset_of(field: str) -> int:
    at = 0
    for name, _, count in STRUCTS["areole_geometry"]:
        if name == field:
            return at
        at += 4 * count
    raise KeyError(field)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("vocab", 0),
        ("out_vocab", 1 << 30),
        ("d_model", 0),
        ("d_model", 190),
        ("heads", 5),
        ("kv_heads", 0),
        ("layers", 0),
        ("layers", 65),
        ("qk_dim", 23),
        ("v_dim", 0),
        ("max_seq", 0),
        ("hada_n", 255),
        ("hada_n", 64),
        ("lanes", 0),
        ("lanes", 9),
        ("engram_slots", 0),
        ("engram_tables", 3),
        ("engram_sub_dim", 7),
        ("engram_order_count", 5),
        ("engram_site_count", 17),
    ],
)
def test_bad_geometry(core: Core, tiny_archive: Archive, tiny_path: Path, field: str, value: int) -> None:
    geometry = bytearray(geometry_struct(tiny_archive))
    table, count = tensor_table(tiny_archive)
    archive = tiny_path.read_bytes()
    assert sized(core, bytes(geometry), table, count, archive) == STATUSES["ok"]
    struct.pack_into("<I", geometry, offset_of(field), value)
    assert sized(core, bytes(geometry), table, count, archive) in (STATUSES["bad_geometry"], STATUSES["bad_tensor"])


@pytest.mark.parametrize(
    "change",
    [
        lambda t, i: (9, *t[1:]),
        lambda t, i: (t[0], t[1] + (1 << 31), *t[2:]),
        lambda t, i: (*t[:2], t[2] + 2, *t[3:]),
        lambda t, i: (*t[:3], t[3] + 1, *t[4:]),
        lambda t, i: (*t[:4], 0, *t[5:]),
    ],
)
@pytest.mark.parametrize("record", [0, 1, 3, 40, 100, -1])
def test_bad_table(
    core: Core, tiny_archive: Archive, tiny_path: Path, record: int, change: Callable[..., tuple[int, ...]]
) -> None:
    words = words_of(tiny_archive)
    words[record] = list(change(tuple(words[record]), record))
    status = status_of(core, tiny_archive, tiny_path, words)
    assert status == STATUSES["bad_tensor"]


@pytest.mark.parametrize(("group", "bits"), [(65, 4), (8, 4), (512, 4), (0, 4), (64, 0), (64, 6)])
def test_bad_group_or_width(core: Core, tiny_archive: Archive, tiny_path: Path, group: int, bits: int) -> None:
    words = words_of(tiny_archive)
    words[0][5:] = group, bits
    status = status_of(core, tiny_archive, tiny_path, words)
    assert status == STATUSES["bad_tensor"]


def test_too_few_or_too_many_tensors(core: Core, tiny_archive: Archive, tiny_path: Path) -> None:
    table, count = tensor_table(tiny_archive)
    geometry, archive = geometry_struct(tiny_archive), tiny_path.read_bytes()
    assert sized(core, geometry, table, count - 1, archive) == STATUSES["bad_tensor"]
    assert sized(core, geometry, table + table[-28:], count + 1, archive) == STATUSES["bad_tensor"]


def test_a_refused_call_changes_nothing(tiny_model: Model) -> None:
    with tiny_model.session(prefix_capacity=4, max_tokens=10) as session:
        session.prefill([2, 5, 6], pin=True)
        before = (session.logits().tobytes(), session.snapshot().data)
        for bad, code in (([1, 2, 100000], "core_bad_token"),):
            with pytest.raises(CoreError) as caught:
                session.prefill(bad)
            assert caught.value.code == code
        with pytest.raises(ContextFullError) as full:
            session.prefill(list(range(4, 12)))
        assert full.value.details == {"needed": 8, "available": 7}
        with pytest.raises(ContextFullError):
            session.prefill([4, 5], pin=True)
        assert (session.logits().tobytes(), session.snapshot().data) == before
        session.prefill([4, 5, 6, 7, 8, 9, 10])
        with pytest.raises(ContextFullError):
            session.decode(4)
        assert session.position == 10


def test_pinning_after_the_prefix(tiny_model: Model) -> None:
    with tiny_model.session(prefix_capacity=8) as session:
        session.prefill([2], pin=True)
        session.prefill([5])
        with pytest.raises(CoreError) as caught:
            session.prefill([6], pin=True)
        assert caught.value.code == "core_bad_argument"


def test_foreign_snapshot(tiny_model: Model) -> None:
    with tiny_model.session(max_tokens=20) as a, tiny_model.session(max_tokens=30) as b:
        a.prefill([2, 5])
        with pytest.raises(CoreError) as caught:
            b.restore(a.snapshot())
        assert caught.value.code == "core_bad_snapshot"
        cut = a.snapshot()
        with pytest.raises(CoreError):
            a.restore(type(cut)(cut.position, cut.data[:-4]))


def test_missing_head_and_empty_session(tiny_model: Model) -> None:
    with tiny_model.session() as session:
        with pytest.raises(CoreError) as caught:
            session.confidence()
        assert caught.value.code == "core_bad_argument"
        session.prefill([2])
        with pytest.raises(CoreError) as caught:
            session.head("router")
        assert caught.value.code == "core_no_head"


@pytest.mark.parametrize(("capacity", "most"), [(0, 257), (11, 10), (0, -1)])
def test_session_options(tiny_model: Model, capacity: int, most: int) -> None:
    with pytest.raises(RequestError):
        tiny_model.session(prefix_capacity=capacity, max_tokens=most)


def test_memory_is_given_back(core: Core, tiny_path: Path) -> None:
    """A second model of the same size fits where the first was."""
    with Model.load(tiny_path, core) as model, model.session() as session:
        session.prefill([2, 5, 6])
    before = core.memory_bytes
    for _ in range(3):
        with Model.load(tiny_path, core) as model, model.session() as session:
            session.prefill([2, 5, 6])
    assert core.memory_bytes == before


def test_closed_things_say_so(core: Core, tiny_path: Path) -> None:
    model = Model.load(tiny_path, core)
    session = model.session()
    model.close()
    model.close()
    with pytest.raises(RequestError) as caught:
        session.prefill([2])
    assert caught.value.code == "request_closed"
    with pytest.raises(RequestError):
        model.session()


def test_unknown_status_is_internal() -> None:
    with pytest.raises(CoreError) as caught:
        check(-99, "a test")
    assert caught.value.code == "internal"
