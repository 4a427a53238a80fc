"""A first-fit allocator over a wasm memory that only its host can grow.

The core's module has no allocator of its own: the host gives it whole arenas. They are few and large, so a sorted
list of gaps is enough.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable

from ..errors import CoreError

ALIGN = 64
PAGE = 65536
ROOM_AFTER = 4096
"""Bytes kept readable behind everything: kernels touch weights a little ahead of where they read."""


def aligned(n: int) -> int:
    return (n + ALIGN - 1) & ~(ALIGN - 1)


class Heap:
    """Addresses from `base` up. `grow(pages)` enlarges the memory or raises; `size()` is its length in bytes."""

    def __init__(self, base: int, size: Callable[[], int], grow: Callable[[int], None]) -> None:
        self._end = aligned(base)
        self._size, self._grow = size, grow
        self._gaps: list[tuple[int, int]] = []  # (address, nbytes), by address, never touching each other
        self._used: dict[int, int] = {}

    def alloc(self, nbytes: int) -> int:
        if nbytes <= 0:
            raise CoreError("core_memory", f"cannot allocate {nbytes} bytes", {"needed": nbytes})
        need = aligned(nbytes)
        for i, (address, room) in enumerate(self._gaps):
            if room >= need:
                del self._gaps[i]
                if room > need:
                    insort(self._gaps, (address + need, room - need))
                self._used[address] = need
                return address
        return self._extend(need)

    def _extend(self, need: int) -> int:
        address = self._end
        missing = address + need + ROOM_AFTER - self._size()
        if missing > 0:
            try:
                self._grow(-(-missing // PAGE))
            except Exception as error:  # each host has its own way of saying no
                raise CoreError(
                    "core_memory",
                    f"the core needs {need} more bytes and its memory could not grow by {missing}: close other tabs,"
                    " use a smaller max_tokens, or close sessions that are no longer used",
                    {"needed": need, "memory_bytes": self._size()},
                ) from error
        self._end = address + need
        self._used[address] = need
        return address

    def adopt(self, address: int, nbytes: int) -> None:
        """Takes over a region at the start of the heap that the host filled before there was a heap."""
        if address != self._end or self._used or self._gaps:
            raise CoreError(
                "core_memory",
                f"only the first region can be adopted, at {self._end}, not {address}",
                {"got": address, "needed": self._end},
            )
        self._extend(aligned(nbytes))

    def free(self, address: int) -> None:
        size = self._used.pop(address, None)
        if size is None:
            raise CoreError("core_memory", f"nothing was allocated at {address}", {"got": address})
        insort(self._gaps, (address, size))
        merged: list[tuple[int, int]] = []
        for start, room in self._gaps:
            if merged and sum(merged[-1]) == start:
                merged[-1] = (merged[-1][0], merged[-1][1] + room)
            else:
                merged.append((start, room))
        if merged and sum(merged[-1]) == self._end:
            self._end = merged.pop()[0]
        self._gaps = merged
