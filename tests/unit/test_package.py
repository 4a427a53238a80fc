"""The package's front door: cheap to import, each public name where it says."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import areole

ROOT = Path(__file__).parents[2]
PUBLIC = [name for name in areole.__all__ if name != "__version__"]


def test_version_is_that_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert areole.__version__ == project["version"]


def test_importing_the_package_imports_no_module_of_it() -> None:
    code = "import sys, areole; print([name for name in sys.modules if name.startswith('areole.')])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(ROOT / "pyshim")},
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_resolve(name: str) -> None:
    assert getattr(areole, name) is not None
    assert name in dir(areole)


def test_other_names_do_not() -> None:
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        areole.nothing_of_the_kind  # noqa: B018
