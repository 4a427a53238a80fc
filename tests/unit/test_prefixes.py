"""Prefixes as records that leave and come back, and the cache that they come back to."""

from __future__ import annotations

import pytest

from areole.prefixes import PrefixCache, Record

RECORD = Record(20, (2, 7, 9), (3, 8192, None), 3, b"state of a session")


@pytest.mark.parametrize("window", [None, 0, 256])
def test_a_record_comes_back_as_it_was(window: int | None) -> None:
    record = Record(20, (2, 7, 9), (3, 8192, window), 3, b"state")
    assert Record.read(record.to_bytes()) == record


def test_anything_else_is_no_record() -> None:
    whole = RECORD.to_bytes()
    assert all(Record.read(whole[:end]) is None for end in range(len(whole)))
    assert Record.read(whole + b"x") is None and Record.read(b"another" + whole[7:]) is None
    for field in (20, 24, 28, 36):  # tokens, pinned, limit, position
        changed = bytearray(whole)
        changed[field : field + 4] = (1).to_bytes(4, "little")
        assert Record.read(bytes(changed)) is None, field


def test_what_is_dropped_is_gone_and_its_room_free() -> None:
    cache = PrefixCache()
    cache.keep(RECORD.tokens, RECORD.sizes, RECORD)
    assert cache.find(RECORD.tokens, RECORD.sizes) is RECORD and cache.nbytes == len(RECORD.data)
    cache.drop(RECORD.tokens, RECORD.sizes)
    cache.drop(RECORD.tokens, RECORD.sizes)
    assert cache.find(RECORD.tokens, RECORD.sizes) is None and cache.nbytes == 0
