"""The core's wasm modules outside a browser, through the wasmtime package: the same bytes that the page runs."""

from __future__ import annotations

from pathlib import Path

from ..errors import CoreError
from . import find_product, flavor_of
from .abi import FUNCTIONS
from .arena import Heap


class WasmtimeCore:
    """One instance of a module, with its memory."""

    def __init__(self, path: Path) -> None:
        try:
            from wasmtime import Config, Engine, Func, Global, Instance, Memory, Module, Store, WasmtimeError
        except ImportError as error:
            raise CoreError("core_missing", "this core needs wasmtime: pip install 'areole[wasmtime]'") from error
        config = Config()
        config.wasm_relaxed_simd = True
        config.wasm_relaxed_simd_deterministic = False
        engine = Engine(config)
        self._store = Store(engine)
        try:
            exports = Instance(self._store, Module.from_file(engine, str(path)), []).exports(self._store)
        except WasmtimeError as error:
            raise CoreError("core_missing", f"{path.name} could not be started: {error}") from error
        memory, base = exports["memory"], exports["__heap_base"]
        if not isinstance(memory, Memory) or not isinstance(base, Global):
            raise CoreError("core_abi", f"{path.name} does not export its memory and __heap_base")
        self._memory = memory
        self._functions: dict[str, Func] = {}
        for name in FUNCTIONS:
            function = exports[name]
            if not isinstance(function, Func):
                raise CoreError("core_abi", f"{path.name} does not export {name}")
            self._functions[name] = function
        self._heap = Heap(int(base.value(self._store)), lambda: self.memory_bytes, self._grow)
        self._flavor = flavor_of(self)

    def _grow(self, pages: int) -> None:
        self._memory.grow(self._store, pages)

    @property
    def flavor(self) -> str:
        return self._flavor

    @property
    def memory_bytes(self) -> int:
        return int(self._memory.data_len(self._store))

    def call(self, name: str, *args: int | float) -> int:
        return int(self._functions[name](self._store, *args))

    def alloc(self, nbytes: int) -> int:
        return self._heap.alloc(nbytes)

    def free(self, address: int) -> None:
        self._heap.free(address)

    def read(self, address: int, nbytes: int) -> bytes:
        return bytes(self._memory.read(self._store, address, address + nbytes))

    def write(self, address: int, data: bytes | bytearray | memoryview) -> None:
        self._memory.write(self._store, bytearray(data), address)


def load_wasmtime(path: str | Path | None = None, flavor: str = "relaxed") -> WasmtimeCore:
    """The module at `path`, else areole-<flavor>.wasm as `build.py core` made it or the wheel carries it."""
    found = Path(path) if path else find_product("core", f"areole-{flavor}.wasm")
    if found is None or not found.is_file():
        raise CoreError("core_missing", f"there is no areole-{flavor}.wasm: run `python build.py core`, or give a path")
    return WasmtimeCore(found)
