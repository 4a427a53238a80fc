"""Writes `.cact` archives: header, codebooks, directory, tensors at multiples of 64.

Owns where things go in a file, nothing of what they mean. A tensor's bytes come as an iterable of chunks, so that a
whole archive is never held twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .layout import ALIGN, DTYPES, RECORD

_CODES = {name: code for code, name in DTYPES.items()}


@dataclass(frozen=True)
class Entry:
    """A tensor to be written: `chunks` are `nbytes` bytes together. group and bits are 0 unless dtype is "cq"."""

    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    chunks: Iterable[bytes]
    group: int = 0
    bits: int = 0


def archive_chunks(head: bytes, entries: list[Entry]) -> Iterator[bytes]:
    """The file in pieces: `head` (header and codebooks), the directory, the tensors."""
    for part in archive_parts(head, entries):
        if isinstance(part, Entry):
            yield from part.chunks
        else:
            yield part


def archive_parts(head: bytes, entries: list[Entry]) -> Iterator[bytes | Entry]:
    """The file in order: an entry stands for its tensor's bytes."""
    at = len(head) + len(entries) * RECORD.size
    directory = bytearray()
    gaps = []
    for entry in entries:
        gap = -at % ALIGN
        dims = (*entry.shape, 0, 0, 0, 0)[:4]
        directory += RECORD.pack(
            _CODES[entry.dtype], len(entry.shape), 0, *dims, at + gap, entry.nbytes, entry.group, entry.bits
        )
        gaps.append(gap)
        at += gap + entry.nbytes
    yield head + bytes(directory)
    for gap, entry in zip(gaps, entries, strict=True):
        if gap:
            yield bytes(gap)
        yield entry


def archive_size(head: bytes, entries: list[Entry]) -> int:
    """Bytes of the file that `archive_chunks` makes."""
    at = len(head) + len(entries) * RECORD.size
    for entry in entries:
        at += -at % ALIGN + entry.nbytes
    return at
