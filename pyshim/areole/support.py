"""Whether a request supports an argument: contract areole's answer, value by value.

Owns the verdicts: "said" (the request or the facts have it), "likely" (it could be meant, nothing says so) and "none".
The worst part of an array or object is its verdict;
an empty list is no value unless the schema says minItems 0. Knows arguments and schemas, not calls.
"""

from __future__ import annotations

from datetime import date
from typing import Literal

from . import codes
from .dates import iso_date, named_days, today_of
from .evidence import STOP, Evidence, Schema, fold, number_text, quantities, words_of
from .postprocess import is_date, leaves

Verdict = Literal["said", "likely", "none"]
_RANK: dict[Verdict, int] = {"said": 0, "likely": 1, "none": 2}


def support(name: str, value: object, schema: Schema, root: Schema, evidence: Evidence) -> Verdict:
    """The verdict on an argument. A schema's own default and its constant are said by the schema."""
    if "default" in schema and schema["default"] == value:
        return "said"
    if value == [] and schema.get("minItems") != 0:
        return "none"
    parts = [_leaf(own, item, inside, evidence) for _, own, item, inside in leaves(value, schema, root, name)]
    return max(parts, key=_RANK.__getitem__, default="said")


def worst_part(name: str, value: object, schema: Schema, root: Schema, evidence: Evidence) -> tuple[str, object]:
    """The path below the argument ("" for itself) and the value of the part with the worst verdict."""
    found = [
        (path, item, _leaf(own, item, inside, evidence))
        for path, own, item, inside in leaves(value, schema, root, name)
    ]
    path, item, _ = max(found, key=lambda entry: _RANK[entry[2]], default=("", value, "said"))
    return path, item


def _leaf(name: str, value: object, schema: Schema, evidence: Evidence) -> Verdict:
    if (
        value is None
        or isinstance(value, bool)
        or "const" in schema
        or ("default" in schema and schema["default"] == value)
    ):
        return "said"
    if isinstance(value, (int, float)):
        return "said" if evidence.supports_number(float(value), name, schema) else "none"
    if not isinstance(value, str):
        return "said"
    if "enum" in schema:
        return "said" if evidence.supports_choice(value, schema) else "likely"
    if not value.strip():
        return "none"
    if is_date(name, schema) and (day := iso_date(value)) is not None and len(value.strip()) == 10:
        if evidence.says(value):
            return "said"
        days = {item.day for item in evidence.days}
        return (
            "said" if day in days else "none" if today_of(evidence.facts) else "likely" if _dated(evidence) else "none"
        )
    if evidence.supports_text(value):
        return "said"
    if codes.said(value, fold(evidence.text), frozenset(word.fold for word in evidence.words)):
        return "said"
    return "likely" if _partly(value, evidence) else "none"


def _dated(evidence: Evidence) -> bool:
    """Whether the request speaks of a day at all."""
    return bool(named_days(evidence.text, date.min.replace(year=2001)))


def _partly(value: str, evidence: Evidence) -> bool:
    """Whether half of a text's telling words are the request's, and all of its numbers."""
    telling = [word for word in words_of(value) if word.fold not in STOP]
    numbers = {number_text(item.value) for item in evidence.quantities}
    if any(number_text(item.value) not in numbers for item in quantities(value)):
        return False
    stems = {word.stem for word in evidence.words}
    known = sum(word.stem in stems or word.fold in numbers for word in telling)
    return bool(telling) and 2 * known >= len(telling)
