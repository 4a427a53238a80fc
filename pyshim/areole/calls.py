"""From what the model wrote between the call markers to function calls, strictly: what is not exactly a JSON list of
calls to declared tools is refused with the place and the reason, never repaired or guessed at."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import NoReturn

from .errors import CallParseError
from .prompt import ToolSpec

_MEMBERS = {"name", "arguments"}
_SHOWN = 100
MAX_DEPTH = 64
"""Arguments nested deeper are refused: no tool means that, and everything behind this would have to recurse as deep."""


class _Fault(ValueError):
    """What is wrong inside JSON that parses."""


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    out: dict[str, object] = {}
    for key, value in pairs:
        if key in out:
            raise _Fault(f"the key {key!r} comes twice in one object")
        out[key] = value
    return out


def _no_constant(word: str) -> NoReturn:
    raise _Fault(f"{word} is not JSON")


def _finite(word: str) -> float:
    value = float(word)
    if value in (float("inf"), float("-inf")):
        raise _Fault(f"the number {word[:_SHOWN]} is too large")
    return value


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite)


@dataclass(frozen=True)
class ReadCall:
    """A call as the model wrote it: the tool, and the arguments by the names that the model sees."""

    tool: ToolSpec
    arguments: dict[str, object]

    def restored(self) -> dict[str, object]:
        """{"name", "arguments"} with the caller's own names."""
        return {"name": self.tool.name, "arguments": self.tool.names.restore(self.arguments)}


class CallParser:
    """Reads calls to the given tools."""

    def __init__(self, tools: Iterable[ToolSpec]) -> None:
        self._tools: dict[str, ToolSpec] = {}
        for tool in tools:
            first = self._tools.get(tool.exposed, tool)
            # A name may be declared twice with different parameters; both sets of arguments find their way back.
            self._tools[tool.exposed] = replace(first, names=first.names.merged(tool.names))

    def parse(self, text: str) -> list[dict[str, object]]:
        """The calls [{"name", "arguments"}, ...] with the caller's own names. CallParseError otherwise."""
        return [call.restored() for call in self.read(text)]

    def read(self, text: str) -> list[ReadCall]:
        """The calls, each with its tool. CallParseError if the text is anything but a list of them."""
        try:
            value = _DECODER.decode(text)
        except json.JSONDecodeError as error:
            self._refuse(text, f"{error.msg} at character {error.pos}", error.pos)
        except (_Fault, RecursionError, ValueError) as error:
            self._refuse(text, str(error) or "it is nested too deep")
        if not isinstance(value, list):
            self._refuse(text, "it is not a list")
        return [self._call(text, place, item) for place, item in enumerate(value)]

    def complete_calls(self, text: str) -> list[ReadCall]:
        """The calls that are whole in a list that was cut off; the same rules for each of them."""
        calls: list[ReadCall] = []
        at = 1 if text.startswith("[") else len(text)
        while at < len(text):
            try:
                value, end = _DECODER.raw_decode(text, at)
            except (_Fault, RecursionError, ValueError):
                break
            calls.append(self._call(text, len(calls), value))
            if not text.startswith(",", end):
                break
            at = end + 1
        return calls

    def _call(self, text: str, place: int, item: object) -> ReadCall:
        if not isinstance(item, dict) or set(item) != _MEMBERS:
            self._refuse(text, f'call {place + 1} is not an object of exactly "name" and "arguments"')
        name, arguments = item["name"], item["arguments"]
        if not isinstance(name, str) or name not in self._tools:
            self._refuse(text, f"call {place + 1} is to {_shown(name)}, which is no declared tool")
        if not isinstance(arguments, dict):
            self._refuse(text, f"the arguments of call {place + 1} are not an object")
        if _deeper(arguments, MAX_DEPTH):
            self._refuse(text, f"the arguments of call {place + 1} are nested deeper than {MAX_DEPTH} levels")
        call = ReadCall(self._tools[name], arguments)
        try:
            call.restored()
        except CallParseError as error:
            self._refuse(text, f"in call {place + 1} {error.message}")
        return call

    def _refuse(self, text: str, what: str, offset: int | None = None) -> NoReturn:
        details = {"text": text, "what": what, "offset": offset, "tools": sorted(self._tools)}
        raise CallParseError("call_unparsable", f"The model's tool call cannot be used: {what}.", details)


def value_starts(text: str) -> list[dict[str, int]]:
    """Where the value of each argument begins in a call's text, call by call: {argument: offset in characters}. Text
    that is no list of calls gives what could be read."""
    calls: list[dict[str, int]] = []
    key, place, expect = "", 0, False
    holders: list[str] = []
    while place < len(text):
        char = text[place]
        if char == '"':
            try:
                word, end = scanstring(text, place + 1)
            except ValueError:
                break
            if expect:
                expect = False
                if holders == ["[", "{", "{"]:
                    calls[-1].setdefault(key, place)
            elif text[end : end + 1] == ":":
                key = word
            place = end
            continue
        if expect and not char.isspace():
            expect = False
            if holders == ["[", "{", "{"] and calls:
                calls[-1].setdefault(key, place)
        if char in "[{":
            holders.append(char)
            if holders == ["[", "{"]:
                calls.append({})
        elif char in "]}":
            holders = holders[:-1]
        elif char == ":":
            expect = True
        place += 1
    return calls


def _deeper(value: dict[str, object], levels: int) -> bool:
    """Whether objects and arrays are nested deeper than `levels`."""
    layer: list[dict[str, object] | list[object]] = [value]
    for _ in range(levels):
        inside = (item for outer in layer for item in (outer.values() if isinstance(outer, dict) else outer))
        layer = [item for item in inside if isinstance(item, (dict, list))]
        if not layer:
            return False
    return True


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
