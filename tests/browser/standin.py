"""A site with the real page, the real Pyodide, and stand-ins for the core, the Python package and the weights.

It loads without the model and does on command what the real one must never do: trap, raise, run for ever. What is
tested on it is the page's and the worker's; the model's answers are tested on the real site.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import struct
import zipfile
from pathlib import Path

from areole.archive import TAG
from precache import NAME as PRECACHE
from precache import precache_script

HERE = Path(__file__).resolve().parent
WEB = HERE.parent.parent / "web"
PYODIDE_FILES = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")
WEIGHTS_BYTES = 5_000_000
HEAP_BASE = 0x10410  # not a multiple of 64: the loader has to round it up


def leb(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def vector(*items: bytes) -> bytes:
    return leb(len(items)) + b"".join(items)


def section(number: int, body: bytes) -> bytes:
    return bytes([number]) + leb(len(body)) + body


def named(text: str, kind: int, index: int) -> bytes:
    return leb(len(text)) + text.encode() + bytes([kind, index])


def core_module() -> bytes:
    """A module like the core's: no imports, its memory and heap base exported; `echo(i32)->i32` and `boom()` traps."""
    return b"\0asm\x01\0\0\0" + b"".join(
        [
            section(1, vector(b"\x60\x01\x7f\x01\x7f", b"\x60\0\0")),  # (i32)->i32, ()->()
            section(3, vector(b"\0", b"\x01")),
            section(5, vector(b"\0\x02")),  # two pages
            section(6, vector(b"\x7f\0\x41" + signed(HEAP_BASE) + b"\x0b")),
            section(
                7, vector(named("memory", 2, 0), named("__heap_base", 3, 0), named("echo", 0, 0), named("boom", 0, 1))
            ),
            section(10, vector(b"\x04\0\x20\0\x0b", b"\x03\0\0\x0b")),
        ]
    )


def signed(value: int) -> bytes:
    """Signed LEB128 of a number that is not negative."""
    body = bytearray(leb(value))
    if body[-1] & 0x40:
        body[-1] |= 0x80
        body.append(0)
    return bytes(body)


def wheel(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("areole/__init__.py", "")
        archive.writestr("areole/bridge.py", (HERE / "standin_bridge.py").read_text(encoding="utf-8"))
        info = "areole-0.0.0.dist-info"
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: areole\nVersion: 0.0.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")


def weights() -> bytes:
    """Right in its first word and nothing else: only Python looks further, and the stand-in does not."""
    return struct.pack("<I", TAG) + random.Random(3).randbytes(WEIGHTS_BYTES - 4)


def build_standin(folder: Path, pyodide: Path) -> Path:
    """The stand-in site in `folder`; `pyodide` is the folder of a real site."""
    for name in ("core", "py", "model", "pyodide"):
        (folder / name).mkdir(parents=True)
    for path in WEB.rglob("*"):
        if path.suffix in (".html", ".js", ".css", ".json", ".svg", ".png", ".webmanifest"):
            target = folder / path.relative_to(WEB)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    for name in PYODIDE_FILES:
        try:
            os.link(pyodide / name, folder / "pyodide" / name)
        except OSError:
            shutil.copyfile(pyodide / name, folder / "pyodide" / name)
    core = {flavor: f"core/areole-{flavor}.wasm" for flavor in ("relaxed", "simd128")}
    for name in core.values():
        (folder / name).write_bytes(core_module())
    wheel(folder / "py" / "areole-0.0.0-py3-none-any.whl")
    (folder / "model" / "needle3.cact").write_bytes(weights())
    list_files(folder)
    return folder


def build_quick(folder: Path, standin: Path) -> Path:
    """The stand-in site without Python: the bridge is JavaScript, and all is ready in a moment."""
    shutil.copytree(standin, folder, ignore=shutil.ignore_patterns("pyodide", "site.json"))
    (folder / "pyodide").mkdir()
    for name in PYODIDE_FILES:
        (folder / "pyodide" / name).write_bytes(b"{}")
    shutil.copyfile(HERE / "standin_pyodide.mjs", folder / "pyodide" / "pyodide.mjs")
    list_files(folder)
    return folder


def list_files(folder: Path) -> None:
    """site.json and the list for the service worker, for the files as they are now."""
    made = ("site.json", PRECACHE)
    files = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and name not in made:
            data = path.read_bytes()
            files[name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    manifest = {
        "version": "0.0.0",
        "model": {"url": "model/needle3.cact", "name": "needle3.cact", **files["model/needle3.cact"]},
        "core": {flavor: f"core/areole-{flavor}.wasm" for flavor in ("relaxed", "simd128")},
        "wheel": "py/areole-0.0.0-py3-none-any.whl",
        "pyodide": "pyodide/",
        "files": files,
    }
    listing = json.dumps(manifest).encode()
    (folder / "site.json").write_bytes(listing)
    hashes = {name: str(row["sha256"]) for name, row in files.items()}
    hashes["site.json"] = hashlib.sha256(listing).hexdigest()
    (folder / PRECACHE).write_text(precache_script(hashes), encoding="utf-8")
