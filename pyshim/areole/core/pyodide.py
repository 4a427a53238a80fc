"""The core in the tab: an instance that the worker made, reached through Pyodide's proxies.

A view of a wasm memory dies when the memory grows, so none is kept: each read and write makes its own.
"""

from __future__ import annotations

from typing import Any

from ..errors import CoreError
from . import flavor_of
from .abi import FUNCTIONS
from .arena import PAGE, Heap


def _heap_base(exports: Any) -> int:
    """The first address behind the core's own data. Not in the class, where two underscores would be mangled."""
    return int(exports.__heap_base.value)


class PyodideCore:
    """`exports` is the instance's exports object. `adopted` is a region that the worker filled already."""

    def __init__(self, exports: Any, adopted: tuple[int, int] | None = None) -> None:
        from js import Uint8Array  # only there under Pyodide

        self._bytes = Uint8Array
        self._memory = exports.memory
        missing = [name for name in FUNCTIONS if not hasattr(exports, name)]
        if missing:
            raise CoreError("core_abi", f"the core does not export {', '.join(missing)}", {"missing": missing})
        self._functions = {name: getattr(exports, name) for name in FUNCTIONS}
        self._heap = Heap(_heap_base(exports), lambda: self.memory_bytes, self._grow)
        if adopted is not None:
            self._heap.adopt(*adopted)
        self._flavor = flavor_of(self)

    def _grow(self, pages: int) -> None:
        self._memory.grow(pages)

    @property
    def flavor(self) -> str:
        return self._flavor

    @property
    def memory_bytes(self) -> int:
        return int(self._memory.buffer.byteLength) // PAGE * PAGE

    def call(self, name: str, *args: int | float) -> int:
        return int(self._functions[name](*args))

    def alloc(self, nbytes: int) -> int:
        return self._heap.alloc(nbytes)

    def free(self, address: int) -> None:
        self._heap.free(address)

    def read(self, address: int, nbytes: int) -> bytes:
        return bytes(self._bytes.new(self._memory.buffer, address, nbytes).to_bytes())

    def write(self, address: int, data: bytes | bytearray | memoryview) -> None:
        self._bytes.new(self._memory.buffer, address, memoryview(data).nbytes).assign(data)
