"""What the official engine takes for evidence: values as they are written, found by experiment (docs/contract.md).

Only contract needle asks here. Its faults are kept: -7 is never found, "twenty five" is not 25 while "seven" is 7.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from .codes import said
from .dates import ISO
from .evidence import number_text

Schema = Mapping[str, object]

_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_WORD = re.compile(r"[^\W_]+")
_BELOW_TWENTY = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen"""
_ROUND = "twenty thirty forty fifty sixty seventy eighty ninety"
_MEASURES = (
    """half quarter dozen hundred thousand second seconds minute minutes hour hours day days week weeks percent"""
)


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_NUMBER_WORDS = {
    **{word: at for at, word in enumerate(_words(_BELOW_TWENTY))},
    **{word: 10 * at for at, word in enumerate(_words(_ROUND), 2)},
    "a": 1,
    "an": 1,
}
_COUNTED = (_NUMBER_WORDS.keys() - {"a", "an"}) | frozenset(_words(_MEASURES))
"""Words after which a number that is not in the request is let pass."""
_TIME = re.compile(r"^\s*(?:\d{1,2}(?::\d{2})?\s*(?:[ap]m)?|now|today|tonight|tomorrow|noon|midnight)\b", re.I)
_OPEN = frozenset(
    ["action", "category", "format", "kind", "level", "mode", "priority", "sentiment", "status", "type", "unit"]
)
"""Last words of the names of enums whose value need not be said."""
_LOOSE = frozenset(["label", "title", "subject", "message", "note", "text", "currency", "time"])
"""Last words of the names of texts that need not be said."""
_ACTS = frozenset(["on", "off", "up", "down", "dim"])
"""Texts that say what to do, and so are the value of no argument but of those that are named as if they were."""
_ACTING = frozenset(["action", "command", "mode", "power", "setting", "state", "status", "switch"])
CUE = re.compile(r"\b(?:do\s?n['’]?t|do not|never)\b", re.I)


def numbers(text: str) -> set[str]:
    """The numbers of a text as JSON would write them, words up to twenty and tens included."""
    out = set(_NUMBER.findall(text))
    return out | {str(_NUMBER_WORDS[w]) for w in _WORD.findall(text.lower()) if w in _NUMBER_WORDS}


def flags(value: object, schema: Schema, request: str, facts: str) -> bool:
    """Whether `validation.ungrounded` lists an argument of this value."""
    if isinstance(value, (bool, dict)) or value is None or schema.keys() & {"enum", "const"}:
        return False
    if isinstance(value, (int, float)):
        return number_text(value) not in numbers(request)
    if isinstance(value, list):
        items = schema.get("items")
        return any(flags(item, items if isinstance(items, dict) else {}, request, facts) for item in value)
    if not isinstance(value, str) or not value or ISO.match(value):
        return False
    known = f"{request}\n{facts}".lower()
    return value.lower() not in known and not (len(value) == 2 and said(value, known, frozenset(_WORD.findall(known))))


def withholds(name: str, value: object, schema: Schema, request: str, facts: str, earlier: str = "") -> bool:
    """Whether a required argument of this value withholds the call. `earlier`: the turns before, parts of `facts`."""
    if isinstance(value, bool) or "const" in schema or "default" in schema:
        return False
    told = f"{request}\n{earlier}"
    counted = bool(_NUMBER.search(told)) or not _COUNTED.isdisjoint(_WORD.findall(told.lower()))
    if "enum" in schema:
        return isinstance(value, str) and name.split("_")[-1] not in _OPEN and not _shares_word(value, request)
    if isinstance(value, (int, float)):
        return not counted
    last = name.split("_")[-1]
    if not isinstance(value, str) or last in _LOOSE:
        return False
    if value.lower() in _ACTS and last not in _ACTING:
        return True
    return flags(value, schema, request, facts) and not _TIME.match(value)


def repeats(name: str, arguments: Mapping[str, object], needed: Iterable[str]) -> bool:
    """Whether an optional text is left out because it only repeats one that is required."""
    value = arguments[name]
    if not isinstance(value, str) or name.split("_")[-1] in _LOOSE:
        return False
    others = (arguments.get(other) for other in needed if other != name)
    return any(isinstance(other, str) and other.lower() == value.lower() for other in others)


def _shares_word(value: str, request: str) -> bool:
    return any(word in request.lower() for word in _WORD.findall(value.lower()))


def negated(request: str) -> bool:
    """What the official engine reports as `validation.negation`."""
    return CUE.search(request) is not None


def forbids(tool: str, values: list[object], request: str) -> bool:
    """Whether a cue withholds a call: one of the three words after it is of the tool's name, and the clause, which ends
    at the next stop even in `Dr.` or 15.40, has all of the values that the request says."""
    for cue in CUE.finditer(request):
        clause = re.split(r"[.!?]", request[cue.end() :], maxsplit=1)[0]
        near = [word for word in re.findall(r"[^\W_]+", clause.lower())[:3]]
        if not set(near) & set(tool.lower().split("_")):
            continue
        if all(_inside(value, clause) or not _inside(value, request) for value in values):
            return True
    return False


def _inside(value: object, clause: str) -> bool:
    if isinstance(value, bool) or value is None or isinstance(value, (dict, list)):
        return True
    if isinstance(value, (int, float)):
        return number_text(value) in numbers(clause)
    return isinstance(value, str) and value.lower() in clause.lower()
