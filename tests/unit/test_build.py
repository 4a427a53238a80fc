"""build.py without a network, a compiler or a browser: what it parses, decides, remembers and says."""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import build
from ask import AskError, declared, entries_to_ask, fault_of, pieces_of, read_json, show_answer, turns_of
from devserver import CONTENT_SECURITY_POLICY
from pack_wheel import write_wheel
from toolchain import MIN_EMCC, AptSource, choose_mirror, parse_apt_deb822, parse_apt_list, parse_version, wasm_imports

ROOT = Path(build.__file__).resolve().parent


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """build.py with its products and its cache in a folder of the test's own, on a machine with no tools at all."""
    shutil.copyfile(ROOT / "pyproject.toml", tmp_path / "pyproject.toml")
    monkeypatch.setattr(build, "BUILD", tmp_path / "build")
    monkeypatch.setattr(build, "ROOT", tmp_path)
    monkeypatch.setenv("AREOLE_CACHE", str(tmp_path / "cache"))
    for name in ("EMSDK", "CC", "AREOLE_MODEL", "AREOLE_CHROMIUM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(shutil, "which", lambda name, *rest, **more: None)
    monkeypatch.setattr(build, "is_root", lambda: False)
    monkeypatch.setattr(build.Voice, "level", 0)
    return tmp_path


# ---------------------------------------------------------------------------------------------------------------------
# apt sources
# ---------------------------------------------------------------------------------------------------------------------


def test_one_line_sources_with_options_comments_and_sources_of_source() -> None:
    text = """
# deb http://commented.example/debian bookworm main
deb-src http://mirror.example/debian bookworm main
deb [arch=amd64 signed-by=/usr/share/keyrings/a.gpg] http://mirror.example/debian bookworm main contrib # why
"""
    assert parse_apt_list(text) == [AptSource("http://mirror.example/debian", ("bookworm",), ("main", "contrib"))]


def test_deb822_sources_with_continuations_comments_and_disabled_paragraphs() -> None:
    text = """Types: deb deb-src
# a comment inside a paragraph
URIs: http://one.example/debian
  http://two.example/debian
Suites: bookworm bookworm-updates
Components: main

Types: deb
URIs: http://off.example/debian
Suites: bookworm
Components: main
Enabled: no

Types: deb-src
URIs: http://src.example/debian
Suites: bookworm
Components: main
"""
    suites = ("bookworm", "bookworm-updates")
    assert parse_apt_deb822(text) == [
        AptSource("http://one.example/debian", suites, ("main",)),
        AptSource("http://two.example/debian", suites, ("main",)),
    ]


def test_the_mirror_is_the_first_that_has_whole_releases() -> None:
    security = AptSource("http://mirror.example/debian-security", ("bookworm-security",), ("main",))
    updates = AptSource("http://mirror.example/debian", ("bookworm-updates",), ("main",))
    other = AptSource("http://other.example/repo", ("stable",), ("contrib",))
    flat = AptSource("http://flat.example/repo", ("./",), ("main",))
    disc = AptSource("cdrom:[Debian]/", ("bookworm",), ("main",))
    whole = AptSource("https://mirror.example/debian", ("bookworm", "bookworm-updates"), ("main",))
    assert choose_mirror([security, updates, other, flat, disc, whole]) == "https://mirror.example/debian"
    assert choose_mirror([security, updates, other, flat, disc]) is None


# ---------------------------------------------------------------------------------------------------------------------
# Compilers
# ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("emcc (Emscripten gcc/clang-like replacement + linker emulating GNU ld) 3.1.69 ()", (3, 1, 69)),
        ("emcc (Emscripten gcc/clang-like replacement) 6.0.5 (0123abcd)\nCopyright (C) 2014", (6, 0, 5)),
        ("3.1.6~dfsg-5", (3, 1, 6)),
        ("(none)", ()),
        ("", ()),
    ],
)
def test_versions(text: str, version: tuple[int, ...]) -> None:
    assert parse_version(text) == version


def test_an_unknown_version_is_older_than_any() -> None:
    assert parse_version("no digits") < MIN_EMCC


def test_no_emcc_and_no_root_names_the_ways(workshop: Path) -> None:
    with pytest.raises(build.BuildError, match=r"no usable emcc") as caught:
        build.ensure_emcc()
    for way in ("$EMSDK", "3.1.60", "apt-get install emscripten", "no root needed"):
        assert way in str(caught.value)


def test_an_old_emcc_is_named_with_its_version(workshop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, *rest, **more: "/opt/emcc" if name == "emcc" else None)
    monkeypatch.setattr(build, "quick_output", lambda command: "emcc (Emscripten) 3.1.6 ()")
    with pytest.raises(build.BuildError, match=r"emcc on PATH: version 3\.1\.6 is older than 3\.1\.60"):
        build.ensure_emcc()


def test_a_compiler_that_fails_the_probe_is_tried_once(workshop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def compile(self: build.Emcc, files: Any, flags: Any, output: Path, what: str) -> None:
        tried.append((files[0].read_text(encoding="utf-8"), tuple(flags)))
        raise build.BuildError("unknown instruction")

    monkeypatch.setattr(build, "quick_output", lambda command: "emcc (Emscripten) 4.0.0 ()")
    monkeypatch.setattr(build.Emcc, "compile", compile)
    emcc = build.Emcc(("/opt/emcc",), "$EMSDK")
    first, second = build.emcc_fault(emcc), build.emcc_fault(emcc)
    assert first == second and "does not compile relaxed SIMD: unknown instruction" in first
    assert len(tried) == 1
    assert "relaxed" in tried[0][0] and "-mrelaxed-simd" in tried[0][1]


@pytest.mark.parametrize(
    ("policy", "installed", "chroots"),
    [
        ("emscripten:\n  Installed: (none)\n  Candidate: 3.1.69~dfsg-3\n", [["emscripten"]], 0),
        ("emscripten:\n  Installed: (none)\n  Candidate: 3.1.6~dfsg-5\n", [], 1),
        ("", [], 1),
    ],
)
def test_root_gets_a_compiler_from_debian(
    workshop: Path, monkeypatch: pytest.MonkeyPatch, policy: str, installed: list[list[str]], chroots: int
) -> None:
    packages: list[Sequence[str]] = []
    made: list[bool] = []
    usable = build.Emcc(("emcc",), "what was installed")
    monkeypatch.setattr(build, "is_root", lambda: True)
    monkeypatch.setattr(shutil, "which", lambda name, *rest, **more: f"/usr/bin/{name}" if "apt" in name else None)
    monkeypatch.setattr(build, "quick_output", lambda command: policy)
    monkeypatch.setattr(build, "apt_install", lambda names, why: packages.append(names))
    monkeypatch.setattr(build, "make_chroot", lambda: made.append(True))
    monkeypatch.setattr(build, "find_emcc", lambda refused: usable if packages or made else None)
    assert build.ensure_emcc() is usable
    assert (packages, len(made)) == (installed, chroots)


def test_a_machine_without_a_debian_mirror_is_told_the_ways(workshop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "debian_mirror", lambda: None)
    with pytest.raises(build.BuildError, match=r"(?s)no Debian mirror.*\$EMSDK"):
        build.make_chroot()


def test_other_missing_tools_say_what_to_install(workshop: Path) -> None:
    with pytest.raises(build.BuildError, match="needs nodejs npm"):
        build.ensure_node()
    with pytest.raises(build.BuildError, match="needs chromium"):
        build.ensure_chromium()


def test_without_root_apt_is_a_suggestion(workshop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, *rest, **more: "/usr/bin/apt-get" if name == "apt-get" else None)
    with pytest.raises(build.BuildError, match="sudo apt-get install gcc"):
        build.apt_install(["gcc"], "the native build")


def test_doctor_reports_every_need_of_a_bare_machine(workshop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert build.command_doctor(argparse.Namespace(json=True)) == 1
    report = json.loads(capsys.readouterr().out)
    for name in ("emcc", "cc", "node", "chromium", "model", "environment", "pyodide", "core"):
        assert report[name]["found"] is False and report[name]["remedy"], name
    assert report["python"]["found"] is True
    assert build.command_doctor(argparse.Namespace(json=False)) == 1
    assert "missing emcc" in capsys.readouterr().out


# ---------------------------------------------------------------------------------------------------------------------
# The import section
# ---------------------------------------------------------------------------------------------------------------------

MAGIC = b"\0asm\x01\0\0\0"


def name(text: str) -> bytes:
    return bytes([len(text)]) + text.encode()


def section(number: int, body: bytes) -> bytes:
    return bytes([number]) + bytes([len(body) & 0x7F | 0x80, len(body) >> 7]) + body


def test_imports_of_every_kind_are_listed() -> None:
    entries = [
        name("env") + name("f") + b"\0\x81\x01",  # a function of type 129: two bytes
        name("env") + name("t") + b"\x01\x70\x01\x02\x05",  # a table with a maximum
        name("env") + name("memory") + b"\x02\0\x10",  # a memory without one
        name("wasi") + name("g") + b"\x03\x7f\0",
        name("wasi") + name("tag") + b"\x04\0\0",
    ]
    module = MAGIC + section(1, b"\x01\x60\0\0") + section(2, bytes([len(entries)]) + b"".join(entries))
    assert wasm_imports(module) == [
        ("env", "f"),
        ("env", "t"),
        ("env", "memory"),
        ("wasi", "g"),
        ("wasi", "tag"),
    ]


def test_a_module_without_an_import_section() -> None:
    assert wasm_imports(MAGIC) == []
    assert wasm_imports(MAGIC + section(0, name("name") + b"\x02\x02") + section(1, b"\0")) == []


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (b"<!doctype html>", "not a wasm module"),
        (b"", "not a wasm module"),
        (MAGIC + b"\x02\x05\x01\x03env", "ends inside"),
        (MAGIC + b"\x02\x05\x01\x7fenv", "ends inside a name"),
        (MAGIC + section(2, b"\x01" + name("env") + name("x") + b"\x09"), "unknown kind 9"),
    ],
)
def test_what_is_not_a_whole_module_is_refused(module: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        wasm_imports(module)


def test_a_core_that_imports_is_refused(workshop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = workshop / "core_c"
    sources.mkdir()
    (sources / "a.c").write_text("int x;", encoding="utf-8")
    bad = MAGIC + section(2, b"\x01" + name("env") + name("memory_growth") + b"\0\0")

    def compile(self: build.Emcc, files: Any, flags: Any, output: Path, what: str) -> None:
        build.write_atomically(output, bad)

    monkeypatch.setattr(build, "CORE_SOURCES", sources)
    monkeypatch.setattr(build, "ensure_emcc", lambda: build.Emcc(("emcc",), "a test"))
    monkeypatch.setattr(build.Emcc, "compile", compile)
    with pytest.raises(build.BuildError, match=r"imports env\.memory_growth; it must import nothing,"):
        build.ensure_core("relaxed")
    assert not list((workshop / "build" / "core").iterdir())


# ---------------------------------------------------------------------------------------------------------------------
# Stamps, files, running
# ---------------------------------------------------------------------------------------------------------------------


def test_digest_sees_names_bytes_and_flags(tmp_path: Path) -> None:
    one, two = tmp_path / "one.c", tmp_path / "two.c"
    one.write_text("1", encoding="utf-8")
    two.write_text("2", encoding="utf-8")
    base = build.digest([one, two], ["-O3"])
    assert base == build.digest([two, one], ["-O3"])
    assert base != build.digest([one, two], ["-O2"])
    assert base != build.digest([one], ["-O3"])
    two.write_text("3", encoding="utf-8")
    assert base != build.digest([one, two], ["-O3"])
    assert build.digest([one], []) != build.digest([one.rename(tmp_path / "renamed.c")], [])


def test_fresh_only_with_the_same_key_and_all_outputs(workshop: Path) -> None:
    output = workshop / "product"
    assert not build.is_fresh("thing", "key", [output])
    build.mark_fresh("thing", "key")
    assert not build.is_fresh("thing", "key", [output])
    output.touch()
    assert build.is_fresh("thing", "key", [output])
    assert not build.is_fresh("thing", "other", [output])


def test_core_is_compiled_again_only_when_a_source_changes(workshop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = workshop / "core_c"
    sources.mkdir()
    (sources / "a.c").write_text("int x;", encoding="utf-8")
    runs = []

    def compile(self: build.Emcc, files: list[Path], flags: Any, output: Path, what: str) -> None:
        runs.append([path.name for path in files])
        build.write_atomically(output, MAGIC)

    monkeypatch.setattr(build, "CORE_SOURCES", sources)
    monkeypatch.setattr(build, "ensure_emcc", lambda: build.Emcc(("emcc",), "a test"))
    monkeypatch.setattr(build.Emcc, "compile", compile)
    path = build.ensure_core("simd128")
    assert path.read_bytes() == MAGIC and build.ensure_core("simd128") == path
    assert runs == [["a.c"]]
    (sources / "a.h").write_text("// new", encoding="utf-8")
    build.ensure_core("simd128")
    assert runs == [["a.c"], ["a.c", "a.h"]]


def test_a_remembered_hash_follows_the_file(workshop: Path) -> None:
    path = workshop / "file"
    path.write_bytes(b"one")
    assert build.file_sha256(path) == hashlib.sha256(b"one").hexdigest() == build.file_sha256(path)
    build.write_atomically(path, b"two")
    assert build.file_sha256(path) == hashlib.sha256(b"two").hexdigest()


def test_a_failed_step_names_itself_and_keeps_its_output(workshop: Path) -> None:
    script = "import sys; print('out'); print('the reason', file=sys.stderr); sys.exit(3)"
    with pytest.raises(build.BuildError, match=r"packing the thing failed: .* ended with code 3") as caught:
        build.run([sys.executable, "-c", script], "packing the thing", hint="Try later.")
    assert "the reason" in str(caught.value) and "Try later." in str(caught.value)
    log = (workshop / "build" / "logs" / "packing-the-thing.log").read_text(encoding="utf-8")
    assert "out\n" in log and "the reason\n" in log
    with pytest.raises(build.BuildError, match="cannot run"):
        build.run([str(workshop / "no-such-program")], "packing the thing")


def test_a_folder_with_a_foreign_mount_is_not_deleted(workshop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unmounted: list[Path] = []
    keep = workshop / "keep"
    (keep / "data").mkdir(parents=True)
    monkeypatch.setattr(build, "mounts_below", lambda path: [path / "proc", path / "data"])
    monkeypatch.setattr(build, "run", lambda command, what: unmounted.append(command[-1]))
    with pytest.raises(build.BuildError, match="something is mounted at .*data"):
        build.remove_tree(keep)
    assert keep.exists()
    monkeypatch.setattr(build, "mounts_below", lambda path: [path / "trixie" / "proc"])
    unmounted.clear()
    build.remove_tree(keep)
    assert unmounted == [keep / "trixie" / "proc"] and not keep.exists()


def test_progress_shows_the_last_line_so_far(tmp_path: Path) -> None:
    for written, shown in [(b"", ""), (b"one\ntwo\n", "two"), (b"10 %\r20 %", "20 %"), (b"x" * 900, "x" * 100)]:
        path = tmp_path / "output"
        path.write_bytes(written)
        with path.open("rb") as stream:
            assert build.last_line(stream.fileno()) == shown


def test_cache_dir_in_its_three_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AREOLE_CACHE", str(tmp_path / "named"))
    assert build.cache_dir() == (tmp_path / "named").resolve()
    monkeypatch.delenv("AREOLE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert build.cache_dir() == (tmp_path / "xdg" / "areole").resolve()
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert build.cache_dir() == (tmp_path / ".cache" / "areole").resolve()


# ---------------------------------------------------------------------------------------------------------------------
# The model
# ---------------------------------------------------------------------------------------------------------------------


def test_a_model_of_the_users_own_is_taken_with_a_word(
    workshop: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = workshop / "own.cact"
    own.write_bytes(b"weights")
    monkeypatch.setattr(build.Voice, "level", 1)
    assert build.ensure_model(str(own)) == own.resolve()
    assert hashlib.sha256(b"weights").hexdigest() in capsys.readouterr().err
    monkeypatch.setenv("AREOLE_MODEL", str(workshop / "missing.cact"))
    with pytest.raises(build.BuildError, match=r"\$AREOLE_MODEL names .*missing\.cact, which is not a file"):
        build.ensure_model(None)


def test_a_damaged_model_in_the_cache_is_refused(workshop: Path) -> None:
    build.write_atomically(workshop / "cache" / "model" / "needle3.cact", b"half a download")
    with pytest.raises(build.BuildError, match="is damaged .*Delete it and run again"):
        build.ensure_model(None)


# ---------------------------------------------------------------------------------------------------------------------
# The wheel and the site
# ---------------------------------------------------------------------------------------------------------------------


def test_the_wheel_is_reproducible_and_its_record_is_right(tmp_path: Path) -> None:
    files = {"areole/b.py": b"b = 1\n", "areole/__init__.py": b"", "areole/core/areole-relaxed.wasm": MAGIC}
    table = build.project()
    first, second = tmp_path / "first.whl", tmp_path / "second.whl"
    write_wheel(first, ROOT, table, files)
    write_wheel(second, ROOT, table, dict(reversed(files.items())))
    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        info = f"areole-{table['version']}.dist-info"
        rows = [line.split(",") for line in archive.read(f"{info}/RECORD").decode().splitlines()]
        assert sorted(row[0] for row in rows) == sorted(names)
        assert all(int(size) == len(archive.read(file)) for file, _, size in rows if size)
        metadata = archive.read(f"{info}/METADATA").decode()
    assert f"\nVersion: {table['version']}\n" in metadata
    assert "\nLicense-Expression: Apache-2.0\n" in metadata
    assert "Requires-Dist: cffi" in metadata and not any(
        line.startswith("Requires-Dist:") and "extra ==" not in line for line in metadata.splitlines()
    )


def test_site_manifest_lists_every_file(workshop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "project", lambda: {"version": "1.2.3"})
    files = {}
    for path in ("core/areole-relaxed.wasm", "index.html", "py/areole-1.2.3-py3-none-any.whl"):
        files[path] = workshop / path.replace("/", "-")
        files[path].write_bytes(path.encode())
    own = workshop / "own.cact"
    own.write_bytes(b"weights")
    files["model/own.cact"] = own
    manifest = build.site_manifest(files, own)
    assert set(manifest["files"]) == set(files)
    assert manifest["model"] == {
        "url": "model/own.cact",
        "bytes": 7,
        "sha256": hashlib.sha256(b"weights").hexdigest(),
        "name": "own.cact",
    }
    assert manifest["wheel"] == "py/areole-1.2.3-py3-none-any.whl" and manifest["snapshot"] is None
    assert manifest["core"] == {name: f"core/areole-{name}.wasm" for name in ("relaxed", "simd128", "relaxed-threads")}
    assert manifest["pyodide"] == "pyodide/"


# ---------------------------------------------------------------------------------------------------------------------
# ask
# ---------------------------------------------------------------------------------------------------------------------


def asked(tmp_path: Path, *words: str) -> list[dict[str, Any]]:
    presets = tmp_path / "presets.json"
    tools = [{"name": "lock_door"}]
    presets.write_text(json.dumps([{"id": "home", "system": "date: x", "text": "lock it", "tools": tools}]))
    return entries_to_ask(build.arguments().parse_args(["ask", *words]), presets)


def test_ask_takes_the_presets_tools_and_its_own_request(tmp_path: Path) -> None:
    (entry,) = asked(tmp_path, "--preset", "home")
    assert entry["tools"] == [{"name": "lock_door"}] and entry["system"] == "date: x"
    assert entry["turns"] == [{"text": "lock it", "max_new_tokens": 512}]
    (entry,) = asked(tmp_path, "open it", "--preset", "home", "--system", "", "--max-new-tokens", "9")
    assert entry["system"] == "" and entry["turns"] == [{"text": "open it", "max_new_tokens": 9}]


def test_ask_takes_tools_from_a_file_as_they_are(tmp_path: Path) -> None:
    file = tmp_path / "tools.json"
    file.write_text('[{"name": "a"}]')
    (entry,) = asked(tmp_path, "x", "--tools", str(file))
    assert entry["tools"] == [{"name": "a"}]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--preset", "hom"], "no preset 'hom'; there are home"),
        ([], "what to ask"),
        (["--file", "x.json"], "go together"),
        (["--out", "x.json"], "go together"),
        (["--file", "missing.json", "--out", "x.json"], "cannot read missing.json"),
        (["x", "--tools", "missing.json"], "cannot read missing.json"),
        (["x", "--preset", "home", "--tools", "t.json"], "--preset or --tools, not both"),
    ],
)
def test_ask_says_what_is_wrong(tmp_path: Path, words: list[str], message: str) -> None:
    with pytest.raises(AskError, match=message):
        asked(tmp_path, *words)


def test_a_case_file_must_be_a_list_of_entries(tmp_path: Path) -> None:
    file = tmp_path / "cases.json"
    for text, message in [("{}", "not a list of entries"), ("7", "not a list of entries"), ("[", "is not JSON")]:
        file.write_text(text)
        with pytest.raises(AskError, match=message):
            asked(tmp_path, "--file", str(file), "--out", "x")
    file.write_text('[1, {"turns": [{"text": "a"}]}]')
    wrong, right = asked(tmp_path, "--file", str(file), "--out", "x")
    assert wrong == {"entry": 1} and "an entry is an object" in str(fault_of(wrong))
    assert fault_of(right) is None


def test_an_entry_is_cut_into_cases_and_put_together_again() -> None:
    entry = {"id": "e", "tools": "[]", "cases": [{"text": "a"}, {"turns": [{"text": "b"}, {"text": "c"}]}]}
    assert [turn["text"] for turn in turns_of(entry)] == ["a", "b", "c"]
    for piece, put in pieces_of(entry):
        assert len(piece["cases"]) == 1 and piece["tools"] == "[]"
        answer = json.loads(json.dumps(piece))
        answer["prefix_tokens"] = 5
        for turn in turns_of(answer):
            turn["tokens"] = len(turn["text"])
        put(answer)
    assert entry["prefix_tokens"] == 5
    assert entry["cases"] == [
        {"text": "a", "tokens": 1},
        {"turns": [{"text": "b", "tokens": 1}, {"text": "c", "tokens": 1}]},
    ]
    single = {"id": "s", "turns": [{"text": "a"}]}
    ((piece, put),) = pieces_of(single)
    put({**piece, "prefix_tokens": 2})
    assert single["prefix_tokens"] == 2


def test_answers_for_a_person() -> None:
    calls = [{"name": "lock", "arguments": {"door": "front", "n": 2.0, "ä": None}}, {"name": "stop", "arguments": {}}]
    assert show_answer({"response": {"function_calls": calls}}) == 'lock(door="front", n=2.0, ä=null)\nstop()'
    refused = {"response": {"function_calls": [], "response": None, "error": "cannot parse"}}
    assert show_answer(refused) == "error: cannot parse"
    assert show_answer({"response": {"function_calls": [], "response": "hello"}}) == "hello"


def test_unknown_arguments_are_refused_but_pass_to_pytest(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        build.main(["ask", "x", "--no-such-option"])
    assert "--no-such-option" in capsys.readouterr().err


def test_further_arguments_of_test_and_bench_are_passed_on(workshop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = []

    def run(command: list[str], **more: Any) -> subprocess.CompletedProcess[str]:
        ran.append(command[1:])
        return subprocess.CompletedProcess(command, 5)

    (workshop / "bench").mkdir()
    (workshop / "bench" / "speed.py").touch()
    monkeypatch.setattr(build, "ensure_everything", lambda: (Path("python"), {}))
    monkeypatch.setattr(subprocess, "run", run)
    assert build.main(["test", "-q", "-m", "not model", "tests/unit", "-k", "x"]) == 5
    assert build.main(["bench", "speed", "--json", "-v"]) == 5
    assert ran == [
        ["-m", "pytest", "-q", "-m", "not model", "tests/unit", "-k", "x"],
        [str(workshop / "bench" / "speed.py"), "--json", "-v"],
    ]


def test_an_unknown_benchmark_lists_the_known_ones(workshop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (workshop / "bench").mkdir()
    (workshop / "bench" / "speed.py").touch()
    (workshop / "bench" / "_shared.py").touch()
    assert build.main(["bench", "sped"]) == 1
    assert "no benchmark 'sped'; there are: speed." in capsys.readouterr().err


def test_the_readme_names_commands_and_folders_that_exist() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = build.arguments()._subparsers._group_actions[0].choices  # type: ignore[union-attr]
    named = set(re.findall(r"build\.py ([a-z]+)", readme))
    assert {"serve", "test", "ask", "doctor", "site", "wheel"} <= named <= set(commands or ())
    assert f"\n    {CONTENT_SECURITY_POLICY}\n" in readme
    section = readme.split("## Where things are")[1].split("\n## ")[0]
    paths = re.findall(r"^    (\S+)  +\S", section, re.MULTILINE)
    assert "build.py" in paths and "web/" in paths
    assert [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize(
    ("entry", "word"),
    [
        ({"cases": [1, 2]}, "case"),
        ({"turns": "hi"}, "turns"),
        ({"turns": [None]}, "text"),
        ({"turns": []}, "turns"),
        ({"turns": [{"text": "a"}], "cases": [{"text": "a"}]}, "either"),
        ({}, "either"),
        ({"cases": [{"turns": []}]}, "turns"),
        ({"cases": [{"text": 5}]}, "case"),
    ],
)
def test_faulty_entries_are_told(entry: dict[str, object], word: str) -> None:
    assert word in str(fault_of(entry))
    assert list(turns_of(entry)) is not None and len(list(pieces_of(entry))) >= 1


def test_sound_entries_have_no_fault() -> None:
    for entry in ({"turns": [{"text": ""}]}, {"cases": [{"text": "a"}, {"turns": [{"text": "b"}]}]}):
        assert fault_of(entry) is None


@pytest.mark.parametrize(
    "tools", ['{"name": "a"}', "NaN", '"x"', "[1]", "[[]]", '[{"description": "x"}]', '[{"function": {}}]']
)
def test_a_tools_file_is_a_list_of_named_tools(tools: str, tmp_path: Path) -> None:
    path = tmp_path / "tools.json"
    path.write_text(tools, encoding="utf-8")
    with pytest.raises(AskError, match="tool"):
        declared(read_json(path), path)


def test_what_a_request_may_hold(tmp_path: Path) -> None:
    path = tmp_path / "tools.json"
    path.write_text('\ufeff[{"name": "a", "description": "\\ud800"}]', encoding="utf-8")
    (entry,) = entries_to_ask(build.arguments().parse_args(["ask", "on \udcff", "--tools", str(path)]), path)
    assert (entry["turns"][0]["text"], entry["tools"][0]["description"]) == ("on \ufffd", "\ufffd")
    for words in (["ask", " "], ["ask", "x", "--max-new-tokens", "0"]):
        with pytest.raises(AskError):
            entries_to_ask(build.arguments().parse_args(words), path)
    path.write_text("[" * 100_000, encoding="utf-8")
    with pytest.raises(AskError, match="nested|JSON"):
        read_json(path)


def test_answers_need_a_folder_that_exists(tmp_path: Path) -> None:
    (tmp_path / "cases.json").write_text("[]", encoding="utf-8")
    words = ["ask", "--file", str(tmp_path / "cases.json"), "--out", str(tmp_path / "nowhere" / "out.json")]
    with pytest.raises(AskError, match="folder"):
        entries_to_ask(build.arguments().parse_args(words), tmp_path)
