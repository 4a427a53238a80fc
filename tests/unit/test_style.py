"""The house's style, judged by ruff, mypy, clang-format, eslint and tsc; and no trace of one machine in the sources."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT_SUFFIXES = {
    *(".c", ".cjs", ".css", ".h", ".html", ".js", ".json", ".md", ".py", ".pyi", ".svg", ".toml", ".ts", ".txt"),
    *(".webmanifest", ".yml", ""),
}


def check(command: Sequence[str | Path], **environment: str) -> None:
    """The tool says nothing is wrong, or its findings are the failure."""
    env = {**os.environ, **environment}
    done = subprocess.run([str(word) for word in command], cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(map(str, command[:4]))}\n{done.stdout}{done.stderr}"


def node_tool(name: str) -> tuple[Path, Path]:
    """A program from npm, and the folder it lies in; build.py says where that is."""
    modules = os.environ.get("AREOLE_NODE_MODULES")
    if not modules:
        pytest.skip(f"{name} comes with: python build.py test")
    return Path(modules, ".bin", name), Path(modules)


def source_files() -> list[Path]:
    """What is committed, or about to be; outside a checkout, all but what tools leave behind."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if listed.returncode == 0:
        paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    else:
        skipped = {"build", "node_modules", "__pycache__"}
        paths = [path for path in ROOT.rglob("*") if not skipped & set(path.relative_to(ROOT).parts)]
    return [path for path in paths if path.is_file()]


def test_ruff() -> None:
    check([sys.executable, "-m", "ruff", "check", "--no-cache", "."])


@pytest.mark.slow
def test_mypy() -> None:
    check([sys.executable, "-m", "mypy", "--no-error-summary"])


def test_clang_format() -> None:
    sources = sorted([*(ROOT / "core_c").glob("*.c"), *(ROOT / "core_c").glob("*.h")])
    assert sources
    check([Path(sys.executable).with_name("clang-format"), "--dry-run", "-Werror", *sources])


def test_eslint() -> None:
    eslint, modules = node_tool("eslint")
    check([eslint, "--max-warnings", "0", "web", "eslint.config.cjs"], NODE_PATH=str(modules))


@pytest.mark.slow
def test_tsc() -> None:
    tsc, _ = node_tool("tsc")
    check([tsc, "--project", "tsconfig.json"])


# Put together here, so that this file is not its own finding.
HOSTS = [
    *("pypi" + ".org", "python" + "hosted.org", "npmjs" + ".org", "npmjs" + ".com", "yarn" + "pkg.com"),
    *("debian" + ".org", "ubuntu" + ".com", "jsdelivr" + ".net", "unpkg" + ".com", "hugging" + "face.co"),
]
PATHS = re.compile(r"(?<![\w.$}])/(?:work|root|farm|tmp|home)/")


def faults(path: Path) -> list[str]:
    """What a file should not have: hosts and paths of one machine, and ends of lines that tools quarrel about."""
    text = path.read_text(encoding="utf-8")
    found = [f"names the host {host}" for host in HOSTS if host in text]
    found += [f"a path of one machine: {line.strip()[:80]}" for line in text.splitlines() if PATHS.search(line)]
    if "data" not in path.parts:  # test data is as its maker wrote it
        found += ["a carriage return"] if "\r" in text else []
        found += ["blanks at the end of a line"] if re.search(r"[ \t]$", text, re.MULTILINE) else []
        found += ["no end of the last line"] if text and not text.endswith("\n") else []
    return [f"{path.relative_to(ROOT)}: {fault}" for fault in found]


def test_no_trace_of_one_machine() -> None:
    paths = [path for path in source_files() if path.suffix in TEXT_SUFFIXES]
    assert len(paths) > 20
    assert [fault for path in paths for fault in faults(path)] == []


def test_the_trace_finder_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    bad = tmp_path / "bad.md"
    bad.write_text(f"see {HOSTS[0]}\nin /{'work'}/main \nbuild/work/x is fine, so is ${{X}}/{'root'}/y")
    assert [fault.split(": ")[1].split(" ")[0] for fault in faults(bad)] == ["names", "a", "blanks", "no"]
