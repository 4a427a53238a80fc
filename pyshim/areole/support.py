"""Whether a request supports an argument: contract areole's answer, value by value.

Owns the verdicts: "said" (the request or the facts have it), "likely" (it could be meant, nothing says so) and "none".
The worst part of an array or object is its verdict;
an empty list is no value unless the schema says minItems 0. Knows arguments and schemas, not calls.
"""

from __future__ import annotations

from datetime import date
from typing import Literal

from .dates import iso_date, named_days, today_of
from .evidence import STOP, Evidence, Schema, name_words, number_text, quantities, words_of
from .postprocess import is_date, leaves

Verdict = Literal["said", "likely", "none"]
_RANK: dict[Verdict, int] = {"said": 0, "likely": 1, "none": 2}


_NUMBERED = {"number", "no", "num", "phone", "zip", "postcode"}
"""Last words of the names of texts that have a digit: no `order_number` is "tracking"."""


def support(name: str, value: object, schema: Schema, root: Schema, evidence: Evidence) -> Verdict:
    """The verdict on an argument. A schema's own default and its constant are said by the schema."""
    if "default" in schema and schema["default"] == value:
        return "said"
    if value == [] and schema.get("minItems") != 0:
        return "none"
    if value == {} and schema.get("properties"):
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
    if not value.strip() or (_NUMBERED & {*name_words(name)[-1:]} and not any(c.isdigit() for c in value)):
        return "none"
    if is_date(name, schema) and (day := iso_date(value)) is not None and len(value.strip()) == 10:
        if value in evidence.text or any(value in text for text in evidence.earlier):
            return "said"
        days = {day for item in evidence.days for day in item.options}
        return (
            "said" if day in days else "none" if today_of(evidence.facts) else "likely" if _dated(evidence) else "none"
        )
    if evidence.supports_text(value):
        return "said"
    if evidence.names_code(value):
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
