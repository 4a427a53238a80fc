"""From what the model wrote between the call markers to function calls, strictly: what is not exactly a JSON list of
calls to declared tools is refused with the place and the reason, never repaired or guessed at."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NoReturn

from .errors import CallParseError
from .names import Names
from .prompt import ToolSpec

_MEMBERS = {"name", "arguments"}
CAPITALISED = frozenset({"subject", "title", "label", "message", "note", "event_title", "event_name"})
"""Arguments, by the name that the model sees, whose text starts with a capital, as the official engine has it."""
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


class CallParser:
    """Reads calls to the given tools. `capitals`: give titles and the like (see CAPITALISED) a capital letter."""

    def __init__(self, tools: Iterable[ToolSpec], *, capitals: bool = True) -> None:
        self._tools: dict[str, tuple[str, Names]] = {}
        self._capitalised: dict[str, set[str]] = {}
        for tool in tools:
            name, names = self._tools.get(tool.exposed, (tool.name, tool.names))
            # A name may be declared twice with different parameters; both sets of arguments find their way back.
            self._tools[tool.exposed] = name, names.merged(tool.names)
            if capitals:
                self._capitalised.setdefault(tool.exposed, set()).update(_free_texts(tool) & CAPITALISED)

    def parse(self, text: str) -> list[dict[str, object]]:
        """The calls [{"name", "arguments"}, ...] with the caller's own names. CallParseError otherwise."""
        try:
            value = _DECODER.decode(text)
        except json.JSONDecodeError as error:
            self._refuse(text, f"{error.msg} at character {error.pos}", error.pos)
        except (_Fault, RecursionError, ValueError) as error:
            self._refuse(text, str(error) or "it is nested too deep")
        if not isinstance(value, list):
            self._refuse(text, "it is not a list")
        return [self._call(text, place, item) for place, item in enumerate(value)]

    def complete_calls(self, text: str) -> list[dict[str, object]]:
        """The calls that are whole in a list that was cut off; the same rules for each of them."""
        calls: list[dict[str, object]] = []
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

    def _call(self, text: str, place: int, item: object) -> dict[str, object]:
        if not isinstance(item, dict) or set(item) != _MEMBERS:
            self._refuse(text, f'call {place + 1} is not an object of exactly "name" and "arguments"')
        name, arguments = item["name"], item["arguments"]
        if not isinstance(name, str) or name not in self._tools:
            self._refuse(text, f"call {place + 1} is to {_shown(name)}, which is no declared tool")
        if not isinstance(arguments, dict):
            self._refuse(text, f"the arguments of call {place + 1} are not an object")
        if _deeper(arguments, MAX_DEPTH):
            self._refuse(text, f"the arguments of call {place + 1} are nested deeper than {MAX_DEPTH} levels")
        for key in self._capitalised.get(name, set()) & arguments.keys():
            arguments[key] = _capital(arguments[key])
        original, names = self._tools[name]
        try:
            return {"name": original, "arguments": names.restore(arguments)}
        except CallParseError as error:
            self._refuse(text, f"in call {place + 1} {error.message}")

    def _refuse(self, text: str, what: str, offset: int | None = None) -> NoReturn:
        details = {"text": text, "what": what, "offset": offset, "tools": sorted(self._tools)}
        raise CallParseError("call_unparsable", f"The model's tool call cannot be used: {what}.", details)


def _free_texts(tool: ToolSpec) -> set[str]:
    """The tool's own properties, but for those that list their values."""
    properties = tool.schema.get("properties") if tool.schema is not None else None
    if not isinstance(properties, dict):
        return set()
    listed = {"enum", "const"}
    return {name for name, schema in properties.items() if not (isinstance(schema, dict) and listed & schema.keys())}


def _capital(value: object) -> object:
    """Text with its first letter as a capital, if that is an ASCII letter."""
    if isinstance(value, str) and value[:1].isascii():
        return value[:1].upper() + value[1:]
    return value


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
