"""What the build made: the core's modules and their size, and the wheel. `python build.py test` builds them first."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import wasmtime

import build
from toolchain import FLAVORS, THREADED, wasm_imports

ROOT = Path(build.__file__).resolve().parent
MAX_RELAXED_BYTES = 128 * 1024


def product(path: Path) -> Path:
    if not path.exists():
        pytest.skip(f"{path.relative_to(ROOT)} is not built; run: python build.py test")
    return path


def core(flavor: str) -> Path:
    return product(ROOT / "build" / "core" / f"areole-{flavor}.wasm")


@pytest.fixture(scope="module")
def wheel() -> Path:
    return product(ROOT / "build" / "dist" / f"areole-{build.project()['version']}-py3-none-any.whl")


@pytest.mark.parametrize("flavor", FLAVORS)
def test_the_core_imports_nothing(flavor: str) -> None:
    assert wasm_imports(core(flavor).read_bytes()) == []


def test_the_threaded_core_imports_its_memory_alone_and_shares_it() -> None:
    data = core(THREADED).read_bytes()
    assert wasm_imports(data) == [("env", "memory")]
    (memory,) = wasmtime.Module(wasmtime.Engine(), data).imports
    kind = memory.type
    assert isinstance(kind, wasmtime.MemoryType) and kind.is_shared
    assert (kind.limits.min, kind.limits.max) == (16, 16384)  # what web/threads.js makes


@pytest.mark.parametrize("flavor", ["relaxed", THREADED])
def test_the_relaxed_core_is_small(flavor: str) -> None:
    assert core(flavor).stat().st_size <= MAX_RELAXED_BYTES


def test_only_the_relaxed_core_needs_relaxed_simd() -> None:
    config = wasmtime.Config()
    config.wasm_relaxed_simd = False
    old = wasmtime.Engine(config)
    wasmtime.Module(old, core("simd128").read_bytes())
    with pytest.raises(wasmtime.WasmtimeError, match="relaxed SIMD"):
        wasmtime.Module(old, core("relaxed").read_bytes())


def test_both_cores_export_the_same() -> None:
    engine = wasmtime.Engine()
    exports = {
        flavor: sorted(export.name for export in wasmtime.Module(engine, core(flavor).read_bytes()).exports)
        for flavor in FLAVORS
    }
    assert exports["relaxed"] == exports["simd128"]
    assert {"memory", "__heap_base"} <= set(exports["relaxed"])
    assert any(name.startswith("areole_") for name in exports["relaxed"])


def test_the_threaded_core_exports_more() -> None:
    engine = wasmtime.Engine()
    one, more = (
        {export.name for export in wasmtime.Module(engine, core(f).read_bytes()).exports} for f in ("relaxed", THREADED)
    )
    assert one < more
    header = (ROOT / "core_c" / "threads.h").read_text(encoding="utf-8")
    named = set(re.findall(r"AREOLE_API \w+ (areole_\w+)\(", header))
    assert more - one == named | {"__stack_pointer"}


def test_the_wheel_is_whole_and_imports_from_the_archive(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        for flavor in FLAVORS:
            assert archive.read(f"areole/core/areole-{flavor}.wasm") == core(flavor).read_bytes()
    assert "areole/__init__.py" in names and "areole/py.typed" in names
    assert not [name for name in names if "__pycache__" in name or name.endswith(".so")]
    script = "import sys; sys.path.insert(0, sys.argv[1]); import areole; print(areole.__file__)"
    done = subprocess.run([sys.executable, "-I", "-c", script, str(wheel)], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(str(wheel))


@pytest.mark.slow
def test_hatchling_packs_the_same_files(wheel: Path, tmp_path: Path) -> None:
    script = "import sys, hatchling.build; print(hatchling.build.build_wheel(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], cwd=ROOT, check=True, capture_output=True)
    (other,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as ours, zipfile.ZipFile(other) as theirs:
        assert other.name == wheel.name
        assert sorted(ours.namelist()) == sorted(theirs.namelist())
        differing = [name for name in ours.namelist() if ours.read(name) != theirs.read(name)]
    info = f"areole-{build.project()['version']}.dist-info"
    # The generator's name, and how a field is spelt, are each tool's own.
    assert set(differing) <= {f"{info}/WHEEL", f"{info}/RECORD", f"{info}/METADATA"}
