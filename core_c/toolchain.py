"""What build.py must know to compile the core: flags, the compiler to look for, what a good module looks like.

Constants and pure functions, each with a test; nothing here runs a program or writes a file. The list of sources is
not here: every .c in this folder is part of the core, and each exported function is marked in areole.h.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

MIN_EMCC = (3, 1, 60)  # the first release line whose relaxed SIMD has its final instruction codes
SUITE_WITH_EMCC = "trixie"  # a Debian suite whose emscripten package is new enough

FLAVORS: dict[str, tuple[str, ...]] = {
    "relaxed": ("-mrelaxed-simd", "-DAREOLE_RELAXED=1"),
    "simd128": (),
}
# For pages that are isolated; several instances run over one memory, which their host makes. The C library that a
# standalone module is linked with was compiled without atomics; what is used of it (memcpy and the like) needs none.
THREADED = "relaxed-threads"
THREADED_FLAGS = (
    *FLAVORS["relaxed"],
    *("-matomics", "-DAREOLE_THREADS=1"),
    "-Wl,--shared-memory,--import-memory,--export-memory,--no-check-features,--export=__stack_pointer",
)
IMPORTS: dict[str, list[tuple[str, str]]] = {THREADED: [("env", "memory")]}
"""What a build imports; the others nothing."""
# No contraction, no fast-math: the builds must give the same bits. No entry and no imports: any host can start it.
WASM_FLAGS = (
    *("-O3", "-std=c11", "-msimd128", "-mbulk-memory", "-ffp-contract=off", "-fno-math-errno", "-Wall", "-Wextra"),
    *("--no-entry", "-sSTANDALONE_WASM", "-sALLOW_MEMORY_GROWTH=1", "-sMAXIMUM_MEMORY=1GB", "-sINITIAL_MEMORY=1MB"),
    *("-sSTACK_SIZE=128KB", "-Wl,--export=__heap_base"),
)
# The library is built where it runs, so it may use this machine's instructions; no choice of them changes a bit.
NATIVE_FLAGS = (
    "-march=native",
    *("-O3", "-std=c11", "-fPIC", "-shared", "-ffp-contract=off", "-fno-math-errno", "-fvisibility=hidden"),
    *("-Wall", "-Wextra"),
)
SANITIZE_FLAGS = (
    *("-O1", "-g", "-fno-omit-frame-pointer"),
    *("-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize-recover=all"),
)


# Both instructions that the relaxed build stands on; a compiler that knows neither is of no use.
EMCC_PROBE = """#include <wasm_simd128.h>
__attribute__((export_name("probe"))) int probe(int a, int b) {
    v128_t x = wasm_i8x16_relaxed_swizzle(wasm_i32x4_splat(a), wasm_i32x4_splat(b));
    return wasm_i32x4_extract_lane(wasm_i32x4_relaxed_dot_i8x16_i7x16_add(x, wasm_i32x4_splat(b), x), 0);
}
"""

EMCC_WAYS = f"""areole's core needs Emscripten {".".join(map(str, MIN_EMCC))} or newer. Ways to have it:
    - an emsdk whose folder is in $EMSDK, or any new enough emcc on PATH (no root needed);
    - Debian 13 or newer: apt-get install emscripten;
    - Debian 12 as root: nothing to do, build.py makes a small Debian 13 in its cache for the compiler."""


def parse_version(text: str) -> tuple[int, ...]:
    """The first `1.2.3` of a text such as `emcc --version`; () where there is none."""
    match = re.search(r"\b(\d+)\.(\d+)\.(\d+)", text)
    return tuple(int(part) for part in match.groups()) if match else ()


def wasm_imports(module: bytes) -> list[tuple[str, str]]:
    """The (module, name) pairs in the import section of a wasm binary. ValueError: not a wasm module."""
    if module[:8] != b"\0asm\x01\0\0\0":
        raise ValueError(f"not a wasm module: starts with {module[:8].hex(' ')}")
    at = 8

    def uleb() -> int:
        nonlocal at
        value = shift = 0
        while True:
            if at >= len(module):
                raise ValueError("wasm module ends inside a number")
            byte = module[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def text() -> str:
        nonlocal at
        length = uleb()
        at += length
        if at > len(module):
            raise ValueError("wasm module ends inside a name")
        return module[at - length : at].decode("utf-8")

    def limits() -> None:
        flags = uleb()
        uleb()
        if flags & 1:
            uleb()

    while at < len(module):
        section, size = uleb(), uleb()
        if section != 2:
            at += size
            continue
        found = []
        for _ in range(uleb()):
            found.append((text(), text()))
            kind = uleb()
            if kind == 0:  # function: a type index
                uleb()
            elif kind == 1:  # table: element type, limits
                uleb()
                limits()
            elif kind == 2:  # memory: limits
                limits()
            elif kind in (3, 4):  # global: value type, mutability; tag: attribute, type index
                uleb()
                uleb()
            else:
                raise ValueError(f"wasm import of unknown kind {kind}")
        return found
    return []


@dataclass(frozen=True)
class AptSource:
    """One `deb` line: where packages come from, for which suites and components."""

    uri: str
    suites: tuple[str, ...]
    components: tuple[str, ...]


def parse_apt_list(text: str) -> list[AptSource]:
    """The one-line format of sources.list: `deb [options] URI SUITE COMPONENT...`."""
    found: list[AptSource] = []
    for line in text.splitlines():
        match = re.match(r"deb\s+(?:\[[^\]]*\]\s*)?(\S+)\s+(\S+)\s*([^#]*)", line.strip())
        if match:
            found.append(AptSource(match[1], (match[2],), tuple(match[3].split())))
    return found


def parse_apt_deb822(text: str) -> list[AptSource]:
    """The paragraph format of *.sources: fields with continuation lines, `Enabled: no` leaves a paragraph out."""
    found: list[AptSource] = []
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    for paragraph in re.split(r"\n[ \t]*\n", "\n".join(lines)):
        fields: dict[str, list[str]] = {}
        words: list[str] = []
        for line in paragraph.splitlines():
            if line[:1] not in (" ", "\t"):
                name, _, line = line.partition(":")
                words = fields.setdefault(name.strip().lower(), [])
            words.extend(line.split())
        if "deb" in fields.get("types", []) and fields.get("enabled", ["yes"])[0].lower() not in ("no", "false", "0"):
            suites, components = tuple(fields.get("suites", ())), tuple(fields.get("components", ()))
            found.extend(AptSource(uri, suites, components) for uri in fields.get("uris", ()))
    return found


def choose_mirror(sources: Iterable[AptSource]) -> str | None:
    """The first source of whole releases (not of security updates, not a third party's) that debootstrap can read."""
    for source in sources:
        whole = [suite for suite in source.suites if not re.search(r"security|updates|backports|proposed|/", suite)]
        if whole and "main" in source.components and re.match(r"https?://|file:/", source.uri):
            return source.uri
    return None
