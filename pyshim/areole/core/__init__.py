"""How Python reaches the compiled core: one small protocol, three hosts behind it.

`native` loads a shared library through cffi, `wasmtime` a wasm module outside a browser, `pyodide` an instance that
the page's worker made. Addresses are plain integers in the core's memory; everything that a call needs lies there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from ..errors import CoreError
from .abi import ABI_VERSION, FLAVORS, STATUSES

_STATUS_NAMES = {value: name for name, value in STATUSES.items()}
_FLAVOR_NAMES = {FLAVORS["plain"]: "native", FLAVORS["simd128"]: "simd128", FLAVORS["relaxed_simd"]: "relaxed"}


class Core(Protocol):
    """A compiled core and its memory. `flavor` is "native", "simd128" or "relaxed"."""

    @property
    def flavor(self) -> str: ...

    @property
    def memory_bytes(self) -> int:
        """Bytes of memory that the core holds now (its linear memory, or what was allocated)."""
        ...

    def call(self, name: str, *args: int | float) -> int:
        """Calls an exported function; what it returns, negative statuses included."""
        ...

    def alloc(self, nbytes: int) -> int:
        """A 64-byte aligned address of nbytes, zeroed or not; CoreError("core_memory") if there is none."""
        ...

    def free(self, address: int) -> None: ...

    def read(self, address: int, nbytes: int) -> bytes: ...

    def write(self, address: int, data: bytes | bytearray | memoryview) -> None: ...


def check(status: int, what: str) -> int:
    """`status` when it is not negative; else the CoreError that it stands for. `what` says what was being done."""
    if status >= 0:
        return status
    name = _STATUS_NAMES.get(status, "internal")
    code = f"core_{name}" if name != "internal" else "internal"
    raise CoreError(code, f"{what}: the core answered {name.replace('_', ' ')} ({status})", {"status": status})


def flavor_of(core: Core) -> str:
    """How a core was built, after checking that its ABI is this package's."""
    version = core.call("areole_abi_version")
    if version != ABI_VERSION:
        raise CoreError(
            "core_abi",
            f"the compiled core speaks ABI {version}, this package speaks {ABI_VERSION}: rebuild it with"
            " `python build.py core`",
            {"got": version, "needed": ABI_VERSION},
        )
    return _FLAVOR_NAMES.get(core.call("areole_flavor"), "unknown")


def find_product(*parts: str) -> Path | None:
    """A compiled product: beside this file in a wheel, or under build/ in a checkout."""
    packaged = Path(__file__).with_name(parts[-1])
    built = Path(__file__).resolve().parents[3].joinpath("build", *parts)
    return next((p for p in (packaged, built) if p.is_file()), None)


def load_core(kind: str = "auto") -> Core:
    """A core for CPython: "native", "wasmtime" (or "wasmtime-simd128"), or the first of them that is there."""
    if kind in ("auto", "native"):
        from .native import load_native

        try:
            return load_native()
        except CoreError as error:
            if kind == "native" or error.code != "core_missing":
                raise
    if kind in ("auto", "wasmtime", "wasmtime-simd128"):
        from .wasmtime import load_wasmtime

        return load_wasmtime(flavor="simd128" if kind == "wasmtime-simd128" else "relaxed")
    raise CoreError(
        "core_missing", f"there is no core called {kind!r}: use native, wasmtime or wasmtime-simd128", {"got": kind}
    )
