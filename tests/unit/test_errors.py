"""The closed list of codes: complete, documented, and the only codes that the sources use."""

from __future__ import annotations

import ast
import json
import pickle
import re
from pathlib import Path

import pytest

from areole import errors
from areole.errors import ERROR_CODES, ArchiveError, AreoleError, ContextFullError

ROOT = Path(__file__).parents[2]
CLASSES = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, AreoleError)]
SOURCES = sorted((ROOT / "pyshim" / "areole").rglob("*.py"))


def test_codes_are_stable_names_with_one_sentence() -> None:
    for code, meaning in ERROR_CODES.items():
        assert re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", code), code
        assert re.fullmatch(r"[A-Z].*[A-Za-z0-9]\.", meaning), (code, meaning)
        assert ". " not in meaning, f"{code}: more than one sentence"


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_class_carries_code_message_and_details(kind: type[AreoleError]) -> None:
    error = kind("context_full", "Too long.", {"needed": 9}, available=3)
    assert (error.code, error.message, str(error)) == ("context_full", "Too long.", "Too long.")
    assert error.details == {"needed": 9, "available": 3}
    assert isinstance(error, AreoleError)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.code, again.message, again.details) == (kind, error.code, error.message, error.details)


def test_to_json_turns_what_json_lacks_into_text() -> None:
    error = ArchiveError(
        "archive_tensor", "Bad.", got=float("nan"), needed=(1, 2.5), what=b"\x00\xff", where={"a": {3}}, odd=object
    )
    data = error.to_json()
    assert json.loads(json.dumps(data, allow_nan=False)) == {
        "code": "archive_tensor",
        "message": "Bad.",
        "details": {"got": "nan", "needed": [1, 2.5], "what": "00ff", "where": {"a": [3]}, "odd": repr(object)},
    }


def test_archive_error_names_its_place() -> None:
    error = ArchiveError(
        "archive_norms", "Bad.", what="a norm", offset=12, record=3, tensor="embedding", got=1, needed=2
    )
    assert (error.what, error.offset, error.record, error.tensor, error.got, error.needed) == (
        "a norm", 12, 3, "embedding", 1, 2,
    )  # fmt: skip
    assert ArchiveError("archive_norms", "Bad.").offset is None


def test_context_full_is_not_caught_as_another_error() -> None:
    with pytest.raises(ContextFullError):
        try:
            raise ContextFullError("context_full", "Too long.", needed=2, available=1)
        except ArchiveError:
            pytest.fail("a ContextFullError was caught as an ArchiveError")


def _codes_used(path: Path) -> list[tuple[str, int]]:
    """(code, line) of each call of an error class, or of a helper that makes one, whose first argument is a literal."""
    names = {kind.__name__ for kind in CLASSES} | {"_refuse", "at"}
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        first = node.args[0] if node.args else None
        # `_refuse` of areole.header takes a field's name, and names no code by itself.
        if name == "_refuse" and path.name == "header.py":
            continue
        if name in names and isinstance(first, ast.Constant) and isinstance(first.value, str):
            found.append((first.value, node.lineno))
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "pyshim" / "areole")))
def test_python_uses_only_listed_codes(path: Path) -> None:
    unlisted = [(code, line) for code, line in _codes_used(path) if code not in ERROR_CODES]
    assert unlisted == []


def test_the_search_for_used_codes_finds_some() -> None:
    assert {code for path in SOURCES for code, _ in _codes_used(path)} >= {"tokenizer_id", "archive_norms"}


@pytest.mark.skipif(not (ROOT / "web").is_dir(), reason="the page's sources are not here")
def test_javascript_uses_only_listed_codes() -> None:
    pattern = re.compile(r"""AreoleError(?:\.wrap)?\(\s*(?:[\w.]+,\s*)?["']([a-z_]+)["']""")
    unlisted = []
    for path in sorted((ROOT / "web").glob("*.js")):
        codes = pattern.findall(path.read_text(encoding="utf-8"))
        unlisted += [(path.name, code) for code in codes if code not in ERROR_CODES]
    assert unlisted == []


@pytest.mark.skipif(not (ROOT / "core_c" / "areole.h").is_file(), reason="the core's header is not here")
def test_every_status_of_the_core_has_a_code() -> None:
    header = (ROOT / "core_c" / "areole.h").read_text(encoding="utf-8")
    body = re.search(r"enum areole_status \{(.*?)\};", header, re.DOTALL)
    assert body is not None
    statuses = re.findall(r"AREOLE_(\w+) = -\d+", body.group(1))
    assert statuses
    assert [status for status in statuses if f"core_{status.lower()}" not in ERROR_CODES] == []


def test_docs_list_exactly_the_codes() -> None:
    text = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z0-9_]+)` \| (.*?) \|", text, re.MULTILINE)
    assert dict(rows) == ERROR_CODES
    assert [code for code, _ in rows] == list(ERROR_CODES), "the table is in another order than ERROR_CODES"


def test_docs_name_every_class() -> None:
    text = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    assert [kind.__name__ for kind in CLASSES if f"`{kind.__name__}`" not in text] == []
