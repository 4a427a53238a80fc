"""docs/python.md against the code: the tables and the names that it promises."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path

import pytest

import areole
from areole.agent import Needle
from areole.errors import ERROR_CODES
from areole.openai import OPTIONS
from areole.prefixes import BYTES, COUNT
from areole.results import MAX_TURNS
from areole.shapes import Field

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")


def test_the_table_of_parameters_is_that_of_the_code() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (used|ignored|refused|only .+?) \| (.+) \|$", TEXT, re.MULTILINE)
    wanted = [
        (
            name,
            "only " + " or ".join(map(json.dumps, option.only)) if option.rule == "fixed" else option.rule,
            option.why,
        )
        for name, option in OPTIONS.items()
    ]
    assert rows == wanted


@pytest.mark.parametrize(
    "name", sorted(set(re.findall(r"areole\.(\w+)", TEXT)) | set(re.findall(r"import (\w+)", TEXT)))
)
def test_names_of_the_package_exist(name: str) -> None:
    assert hasattr(areole, name)


@pytest.mark.parametrize("code", sorted(set(re.findall(r"`((?:tools|extract|chat|request)_[a-z]+)`", TEXT))))
def test_codes_exist(code: str) -> None:
    assert code in ERROR_CODES


def test_methods_and_defaults_are_as_said() -> None:
    requests = TEXT.partition("## Requests")[2].partition("### run")[0]
    methods = {
        name for cell in re.findall(r"^\| (.+?) \|", requests, re.MULTILINE) for name in re.findall(r"`(\w+)\(", cell)
    }
    assert len(methods) >= 10 and all(callable(getattr(Needle, name)) for name in methods)
    assert all(
        callable(getattr(Needle, name))
        for name in re.findall(r"`(a(?:complete|answer|stream|run|extract|embed))`", requests)
    )
    assert f"`run(text, max_turns={MAX_TURNS}, strict=True)`" in requests
    assert f"`count` ({COUNT})" in TEXT and f"`capacity` ({BYTES // 2**20} MiB)" in TEXT
    fields = re.search(r"`Field\(default, (.*?)\)`", TEXT, re.DOTALL)
    assert fields is not None
    assert re.findall(r"(\w+)=", fields.group(1)) == [
        name for name in inspect.signature(Field).parameters if name != "default"
    ]


def test_the_examples_are_named() -> None:
    assert "`examples/`" in TEXT and len(list((ROOT / "examples").glob("*.py"))) == 2
