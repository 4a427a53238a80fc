"""What a docstring says of a function and of each of its parameters, in the Google, NumPy and reST styles.

Owns the reading only. Nothing is refused: what is in none of the three styles belongs to the description.
"""

from __future__ import annotations

import inspect
import re

_PARAMETERS = {"args", "arguments", "parameters", "params", "keyword args", "keyword arguments", "other parameters"}
_OTHER_SECTIONS = {
    *("returns", "return", "yields", "yield", "raises", "raise", "except", "exceptions", "warns", "warnings"),
    *("example", "examples", "note", "notes", "see also", "references", "todo", "attributes", "methods", "warning"),
}
_GOOGLE_ENTRY = re.compile(r"\*{0,2}(\w+)\s*(?:\(.*?\))?\s*:(?:\s+(.*))?$")
_NUMPY_ENTRY = re.compile(r"\*{0,2}(\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$")
_FIELD = re.compile(r"[:@](\w+)(?:\s+([^:]*?))?\s*:(?:\s+(.*))?$")
_FIELD_PARAMETER = {"param", "parameter", "arg", "argument", "key", "keyword"}


def read_docstring(doc: str | None) -> tuple[str, dict[str, str]]:
    """(what the function does, parameter -> what it means), each in one line.

    The first is all text before the first section; text after a section of another kind counts for nothing.
    """
    lines = inspect.cleandoc(doc).splitlines() if doc else []
    description: list[str] = []
    parameters: dict[str, list[str]] = {}
    at, ended = 0, False
    while at < len(lines):
        section, underlined = _section(lines, at)
        if section is not None:
            ended = True
            at += 2 if underlined else 1
            end = _section_end(lines, at, underlined)
            if section in _PARAMETERS:
                _entries(lines[at:end], underlined, parameters)
            at = end
            continue
        found = _FIELD.match(lines[at])
        if found is not None:
            ended = True
            end = at + 1
            while end < len(lines) and lines[end][:1].isspace():
                end += 1
            if found.group(1) in _FIELD_PARAMETER and found.group(2):
                name = found.group(2).split()[-1].lstrip("*")  # `:param int count:` has a type before the name
                parameters[name] = [found.group(3) or "", *lines[at + 1 : end]]
            at = end
            continue
        if not ended:
            description.append(lines[at])
        at += 1
    return _one_line(description), {name: text for name, part in parameters.items() if (text := _one_line(part))}


def _section(lines: list[str], at: int) -> tuple[str | None, bool]:
    """The section that begins at a line, in small letters, and whether its title is underlined (NumPy)."""
    line = lines[at]
    title = line.strip().lower()
    following = lines[at + 1].strip() if at + 1 < len(lines) else ""
    if title in _PARAMETERS | _OTHER_SECTIONS and len(following) >= 3 and set(following) == {"-"}:
        return title, True
    if title.endswith(":") and title[:-1].strip() in _PARAMETERS | _OTHER_SECTIONS and not line[:1].isspace():
        return title[:-1].strip(), False
    return None, False


def _section_end(lines: list[str], at: int, underlined: bool) -> int:
    """The first line that belongs to the section no more: another section, or, without underlines, text at the left."""
    while at < len(lines):
        if _section(lines, at)[0] is not None or _FIELD.match(lines[at]):
            break
        if not underlined and lines[at].strip() and not lines[at][:1].isspace():
            break
        at += 1
    return at


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _entries(lines: list[str], underlined: bool, out: dict[str, list[str]]) -> None:
    """The parameters of a section; a line that is indented deeper than its entry goes on with it."""
    names: list[str] = []
    depth = 0
    for line in lines:
        if not line.strip():
            continue
        found = (_NUMPY_ENTRY if underlined else _GOOGLE_ENTRY).match(line.strip())
        if found is not None and (not names or _indent(line) <= depth):
            depth = _indent(line)
            names = [name.strip().lstrip("*") for name in found.group(1).split(",")]
            for name in names:
                out[name] = [] if underlined else [found.group(2) or ""]
        elif names and _indent(line) > depth:
            for name in names:
                out[name].append(line)


def _one_line(lines: list[str]) -> str:
    return " ".join(word for line in lines for word in line.split())
