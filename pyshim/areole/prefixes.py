"""Prefixes that have been fed already: declaring the same tools and facts again costs a copy instead of a prefill.

Owns which are kept, per model, the least recently used going first. A prefix is known by its tokens and by its
session's sizes, so that another one can never be taken for it. What it holds are snapshots, which a conversation that
is open holds anyway. A snapshot can also leave as a record, for a host that keeps it between visits, and come back;
that it belongs to the same weights and the same core is the host's to know.
"""

from __future__ import annotations

import struct
import weakref
from array import array
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

COUNT, BYTES = 8, 32 * 2**20
"""What a cache holds unless told otherwise."""


class Fed(Protocol):
    """What the cache needs of a model.Snapshot."""

    @property
    def data(self) -> bytes: ...


Sizes = tuple[int, int, int | None]
"""A session's prefix capacity, its tokens, and its window; a snapshot fits sessions of the same ones only."""


_MAGIC = b"areole prefix 1\n"
_HEAD = struct.Struct("<16s7I")
_NO_WINDOW = 2**32 - 1


@dataclass(frozen=True)
class Record:
    """A prefix that was fed, with all that it is known by. layers: of the model that fed it."""

    layers: int
    tokens: tuple[int, ...]
    sizes: Sizes
    position: int
    data: bytes

    def to_bytes(self) -> bytes:
        capacity, limit, window = self.sizes
        head = _HEAD.pack(
            _MAGIC, self.layers, len(self.tokens), capacity, limit, _NO_WINDOW if window is None else window,
            self.position, len(self.data),
        )  # fmt: skip
        return b"".join((head, array("I", self.tokens).tobytes(), self.data))

    @classmethod
    def read(cls, record: bytes) -> Record | None:
        """What `to_bytes` wrote; None for anything else."""
        if len(record) < _HEAD.size:
            return None
        magic, layers, count, capacity, limit, window, position, nbytes = _HEAD.unpack_from(record)
        start = _HEAD.size + 4 * count
        if magic != _MAGIC or len(record) != start + nbytes or not position == count == capacity <= limit:
            return None
        tokens = array("I", record[_HEAD.size : start])
        sizes = capacity, limit, None if window == _NO_WINDOW else window
        return cls(layers, tuple(tokens), sizes, position, record[start:])


class PrefixCache:
    """Snapshots after a prefix; at most `count` of them and `capacity` bytes. 0 of either keeps none."""

    def __init__(self, count: int = COUNT, capacity: int = BYTES) -> None:
        self.count, self.capacity = count, capacity
        self.hits = self.misses = self.nbytes = 0
        self._kept: OrderedDict[tuple[bytes, Sizes], Fed] = OrderedDict()

    @classmethod
    def of(cls, model: object) -> PrefixCache:
        """The model's own, made when it is first asked for; it goes when the model does."""
        found = _CACHES.get(model)
        if found is None:
            found = _CACHES[model] = cls()
        return found

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, prefix: Sequence[int], sizes: Sizes) -> Fed | None:
        """The snapshot after these tokens in a session of these sizes, if it is there."""
        key = _key(prefix, sizes)
        found = self._kept.get(key)
        if found is None:
            self.misses += 1
            return None
        self.hits += 1
        self._kept.move_to_end(key)
        return found

    def keep(self, prefix: Sequence[int], sizes: Sizes, fed: Fed) -> None:
        """Remembers a snapshot; one that is larger than the whole cache is not kept and drives nothing out."""
        key = _key(prefix, sizes)
        old = self._kept.pop(key, None)
        self.nbytes -= len(old.data) if old is not None else 0
        if len(fed.data) > self.capacity or self.count < 1:
            return
        self._kept[key] = fed
        self.nbytes += len(fed.data)
        self.trim()

    def drop(self, prefix: Sequence[int], sizes: Sizes) -> None:
        """Forgets one that turned out to be of no use."""
        found = self._kept.pop(_key(prefix, sizes), None)
        self.nbytes -= len(found.data) if found is not None else 0

    def trim(self) -> None:
        """Drops what is too much, after `count` or `capacity` was lowered."""
        while self._kept and (len(self._kept) > self.count or self.nbytes > self.capacity):
            _, dropped = self._kept.popitem(last=False)
            self.nbytes -= len(dropped.data)

    def clear(self) -> None:
        self._kept.clear()
        self.nbytes = 0


_CACHES: weakref.WeakKeyDictionary[object, PrefixCache] = weakref.WeakKeyDictionary()


def _key(prefix: Sequence[int], sizes: Sizes) -> tuple[bytes, Sizes]:
    return array("I", prefix).tobytes(), sizes
