"""JSON text as its author wrote it: a tree that keeps key order, repeated keys and the digits of numbers.

A prompt shows the model the caller's own text, so `1.50` must stay `1.50`; Python's json module would lose that. Owns
reading, compact writing and minifying. Strings are read generously (raw control characters and unknown escapes are
taken as the characters they are), everything else strictly. Refuses what is not JSON with the place where it fails.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

MAX_DEPTH = 200
"""Objects and arrays nested deeper than this are refused: no schema needs it, and Python's stack has an end."""

_BLANKS = " \t\n\r"
_BLANK = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORD = re.compile(r"true|false|null")
_PLAIN = re.compile(r'[^"\\]*')
_HEX = re.compile(r"[0-9a-fA-F]{4}")
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_WRITTEN = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_WORDS: dict[str, object] = {"true": True, "false": False, "null": None}
_LONGEST_INT = 4000  # Python refuses to read longer ones, because it would take too long
_MUST_ESCAPE = re.compile(r'["\\\x00-\x1f]')
_OUTSIDE = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|[ \t\n\r]+', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Literal:
    """A number, true, false or null, by its text."""

    text: str


@dataclass(frozen=True, slots=True)
class Text:
    """A string, decoded."""

    value: str


@dataclass(frozen=True, slots=True)
class Array:
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Object:
    """Members in order; a key may come more than once."""

    members: tuple[tuple[str, Node], ...]

    def first(self, key: str) -> Node | None:
        """The value at the first of the keys called `key`."""
        return next((value for name, value in self.members if name == key), None)


Node = Literal | Text | Array | Object


class JsonFault(ValueError):
    """The text is not JSON. `offset`, `line` and `column` (both from 1) say where, in characters."""

    def __init__(self, what: str, text: str, offset: int) -> None:
        before = text[:offset]
        self.what, self.offset = what, offset
        self.line = before.count("\n") + 1
        self.column = offset - (before.rfind("\n") + 1) + 1
        super().__init__(f"{what} at line {self.line}, column {self.column}")


def parse(text: str) -> Node:
    """The one JSON value that `text` is; JsonFault if it is not one."""
    return _Reader(text).document()


class _Reader:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def fail(self, what: str, at: int | None = None) -> NoReturn:
        raise JsonFault(what, self.text, self.at if at is None else at)

    def document(self) -> Node:
        value = self.value(0)
        self.blanks()
        if self.at < len(self.text):
            self.fail("more text after the end of the value")
        return value

    def blanks(self) -> None:
        found = _BLANK.match(self.text, self.at)
        if found is not None:
            self.at = found.end()

    def peek(self) -> str:
        """The next character that is not blank; "" at the end."""
        self.blanks()
        return self.text[self.at : self.at + 1]

    def value(self, depth: int) -> Node:
        head = self.peek()
        if head == '"':
            return Text(self.string())
        if head == "{" or head == "[":
            if depth >= MAX_DEPTH:
                self.fail(f"nested deeper than {MAX_DEPTH} levels")
            return self.object(depth + 1) if head == "{" else self.array(depth + 1)
        found = _NUMBER.match(self.text, self.at) or _WORD.match(self.text, self.at)
        if found is None:
            self.fail(f"a value was expected, not {head!r}" if head else "the text ends where a value was expected")
        end = found.end()
        follower = self.text[end : end + 1]
        if follower.isalnum() or (follower and follower in "._+-"):
            self.fail("not a number, true, false or null")
        self.at = end
        return Literal(found.group())

    def object(self, depth: int) -> Object:
        start = self.at
        self.at += 1
        members: list[tuple[str, Node]] = []
        if self.peek() == "}":
            self.at += 1
            return Object(())
        while True:
            if self.peek() != '"':
                self.fail("a key in double quotes was expected")
            key = self.string()
            if self.peek() != ":":
                self.fail("a colon was expected after the key")
            self.at += 1
            members.append((key, self.value(depth)))
            if self.another("}", start):
                continue
            return Object(tuple(members))

    def array(self, depth: int) -> Array:
        start = self.at
        self.at += 1
        items: list[Node] = []
        if self.peek() == "]":
            self.at += 1
            return Array(())
        while True:
            items.append(self.value(depth))
            if self.another("]", start):
                continue
            return Array(tuple(items))

    def another(self, closer: str, start: int) -> bool:
        """After a member: True behind a comma, False behind the closing bracket."""
        head = self.peek()
        if head == ",":
            self.at += 1
            return True
        if head == closer:
            self.at += 1
            return False
        if head:
            self.fail(f"a comma or {closer} was expected, not {head!r}")
        self.fail(f"no {closer} closes this", start)

    def string(self) -> str:
        start = self.at
        self.at += 1
        parts: list[str] = []
        while True:
            found = _PLAIN.match(self.text, self.at)
            end = found.end() if found is not None else self.at
            parts.append(self.text[self.at : end])
            self.at = end
            head = self.text[end : end + 1]
            if head == '"':
                self.at += 1
                return _join_surrogates("".join(parts))
            if not head or end + 1 == len(self.text):
                self.fail("no quote closes this string", start)
            parts.append(self.escape(self.text[end + 1]))

    def escape(self, letter: str) -> str:
        self.at += 2
        if letter == "u":
            found = _HEX.match(self.text, self.at)
            if found is not None:
                self.at = found.end()
                return chr(int(found.group(), 16))
        return _ESCAPES.get(letter, letter)


def _join_surrogates(text: str) -> str:
    """Two \\u escapes that make a pair are one character; a lone half stays as it is."""
    if not any("\ud800" <= c <= "\udbff" for c in text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _escaped(found: re.Match[str]) -> str:
    return _WRITTEN.get(found.group()) or f"\\u{ord(found.group()):04x}"


def write_string(value: str) -> str:
    """A JSON string in which only what must be escaped is."""
    return f'"{_MUST_ESCAPE.sub(_escaped, value)}"'


def write(node: Node) -> str:
    """Compact JSON text of a tree."""
    return "".join(_write(node))


def _write(node: Node) -> Iterator[str]:
    if isinstance(node, Literal):
        yield node.text
    elif isinstance(node, Text):
        yield write_string(node.value)
    elif isinstance(node, Array):
        yield "["
        for index, item in enumerate(node.items):
            if index:
                yield ","
            yield from _write(item)
        yield "]"
    else:
        yield "{"
        for index, (key, value) in enumerate(node.members):
            if index:
                yield ","
            yield write_string(key) + ":"
            yield from _write(value)
        yield "}"


def to_python(node: Node) -> object:
    """Python's own values; the first of repeated keys counts."""
    if isinstance(node, Text):
        return node.value
    if isinstance(node, Array):
        return [to_python(item) for item in node.items]
    if isinstance(node, Object):
        out: dict[str, object] = {}
        for key, value in node.members:
            if key not in out:
                out[key] = to_python(value)
        return out
    if node.text in _WORDS:
        return _WORDS[node.text]
    whole = len(node.text) <= _LONGEST_INT and not any(c in node.text for c in ".eE")
    return int(node.text) if whole else float(node.text)


def minify(text: str) -> str:
    """`text` without the blanks outside its strings. It need not be JSON; a string that never ends is kept whole."""
    return _OUTSIDE.sub(lambda m: m.group() if m.group()[0] not in _BLANKS else "", text)
