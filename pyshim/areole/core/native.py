"""The core as a shared library, through cffi: for tests, sanitizers, debugging and command-line use."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ..errors import CoreError
from . import find_product, flavor_of
from .abi import CDEF, FUNCTIONS
from .arena import ALIGN

LIBRARY = "libareole.so"


class NativeCore:
    """Memory is the process's own, so an address is a pointer."""

    def __init__(self, path: Path) -> None:
        try:
            from cffi import FFI
        except ImportError as error:
            raise CoreError("core_missing", "the native core needs cffi: pip install 'areole[native]'") from error
        self._ffi = FFI()
        self._ffi.cdef(CDEF)
        try:
            library = self._ffi.dlopen(str(path))
        except OSError as error:
            raise CoreError(
                "core_missing", f"{path.name} could not be loaded: {error}; rebuild it with `python build.py core`"
            ) from error
        self._functions = {name: (getattr(library, name), kinds) for name, kinds in FUNCTIONS.items()}
        self._blocks: dict[int, tuple[Any, int]] = {}
        self._flavor = flavor_of(self)

    @property
    def flavor(self) -> str:
        return self._flavor

    @property
    def memory_bytes(self) -> int:
        return sum(size for _, size in self._blocks.values())

    def call(self, name: str, *args: int | float) -> int:
        function, kinds = self._functions[name]
        cast = self._ffi.cast
        return int(function(*(cast("void *", a) if k == "p" else a for a, k in zip(args, kinds, strict=True))))

    def alloc(self, nbytes: int) -> int:
        if nbytes <= 0:
            raise CoreError("core_memory", f"cannot allocate {nbytes} bytes", {"needed": nbytes})
        try:
            block = self._ffi.new("char[]", nbytes + ALIGN)
        except MemoryError as error:
            raise CoreError("core_memory", f"{nbytes} bytes could not be had", {"needed": nbytes}) from error
        start = int(self._ffi.cast("uintptr_t", block))
        address = (start + ALIGN - 1) & ~(ALIGN - 1)
        self._blocks[address] = (block, nbytes)
        return address

    def free(self, address: int) -> None:
        if self._blocks.pop(address, None) is None:
            raise CoreError("core_memory", f"nothing was allocated at {address}", {"got": address})

    def read(self, address: int, nbytes: int) -> bytes:
        return bytes(self._ffi.buffer(self._ffi.cast("char *", address), nbytes)[:])

    def write(self, address: int, data: bytes | bytearray | memoryview) -> None:
        self._ffi.memmove(self._ffi.cast("char *", address), data, memoryview(data).nbytes)


def load_native(path: str | Path | None = None) -> NativeCore:
    """The library at `path`, else at $AREOLE_NATIVE, else where `build.py core` puts it."""
    named = path or os.environ.get("AREOLE_NATIVE")
    found = Path(named) if named else find_product("native", LIBRARY)
    if found is None or not found.is_file():
        raise CoreError(
            "core_missing",
            f"there is no {LIBRARY} {f'at {named}' if named else 'in build/native'}: run"
            " `python build.py core`, or set AREOLE_NATIVE to one",
        )
    return NativeCore(found)
