"""From what the model wrote to what the caller gets: number forms, capitals, dates, switches, what is left out.

Owns changes to arguments and the schema look-ups that they and the gates share. Each change that is more than a form
comes with its reason. Never adds an argument. Works on the names that the model sees.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from .clauses import cue_spans
from .contract import Contract
from .dates import iso_date, named_days, today_of
from .evidence import STOP, Evidence, Schema, name_words, words_of
from .literal import flags
from .prompt import ToolSpec

CAPITALISED = frozenset({"subject", "title", "label", "message", "note", "event_title", "event_name"})
"""Arguments, by the name that the model sees, whose text starts with a capital, as the official engine has it."""
_SWITCHES = frozenset(
    {"on", "enabled", "enable", "active", "power", "powered", "is_on", "turned_on", "state", "running"}
)
_DATE_NAMES = frozenset({"date", "day"})
_DEPTH = 16


@dataclass
class Draft:
    """A call on its way: the tool, the arguments by the model's names, and for each argument at the top the raw
    probability of its value's first token where that is known."""

    tool: ToolSpec
    arguments: dict[str, object]
    first: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Reason:
    """Why something was withheld or changed. gate: the rule; call: which one, from 0; argument: the caller's name;
    tool: the caller's name of the call's tool, once the reason is part of an outcome."""

    gate: str
    call: int
    argument: str | None
    why: str
    tool: str = ""

    def to_json(self) -> dict[str, object]:
        return {"gate": self.gate, "call": self.call, "tool": self.tool, "argument": self.argument, "why": self.why}


def shape(schema: object, root: Schema, depth: int = _DEPTH) -> Schema:
    """A schema with its references followed and, where null is the only alternative, without it."""
    if not isinstance(schema, dict) or depth == 0:
        return {}
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/"):
        node: object = root
        for part in reference[2:].split("/"):
            node = node.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None
        return {**shape(node, root, depth - 1), **{k: v for k, v in schema.items() if k != "$ref"}}
    for key in ("anyOf", "oneOf"):
        options = schema.get(key)
        if isinstance(options, list):
            real = [o for o in options if not (isinstance(o, dict) and o.get("type") == "null")]
            if len(real) == 1:
                return {**{k: v for k, v in schema.items() if k != key}, **shape(real[0], root, depth - 1)}
    parts = schema.get("allOf")
    if isinstance(parts, list):
        merged = {k: v for k, v in schema.items() if k != "allOf"}
        for part in parts:
            merged = {**shape(part, root, depth - 1), **merged}
        return merged
    return schema


def kinds(schema: Schema) -> frozenset[str]:
    """The types that a schema names, by JSON Schema's names."""
    kind = schema.get("type")
    names = kind if isinstance(kind, list) else [kind]
    return frozenset({"float": "number", "int": "integer"}.get(str(n), str(n)) for n in names if n is not None)


def properties(tool: ToolSpec) -> Mapping[str, object]:
    """The tool's properties; for parameters that are a bare map of them, that map."""
    if tool.schema is None:
        return {}
    own = tool.schema.get("properties")
    return own if isinstance(own, dict) else {}


def property_schema(tool: ToolSpec, name: str) -> Schema:
    return shape(properties(tool).get(name), tool.schema or {})


def required(tool: ToolSpec) -> frozenset[str]:
    names = (tool.schema or {}).get("required")
    return frozenset(n for n in names if isinstance(n, str)) if isinstance(names, list) else frozenset()


def original(tool: ToolSpec, name: str) -> str:
    """The caller's name of a property."""
    return tool.names.properties.get(name, (name, None))[0]


def leaves(
    value: object, schema: Schema, root: Schema, name: str, path: str = ""
) -> Iterator[tuple[str, str, object, Schema]]:
    """(path, property name, value, schema) of each value in a value that has no parts."""
    if isinstance(value, dict):
        inside = schema.get("properties")
        for key, item in value.items():
            below = shape(inside.get(key), root) if isinstance(inside, dict) else {}
            yield from leaves(item, below, root, key, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        items = shape(schema.get("items"), root)
        for at, item in enumerate(value):
            yield from leaves(item, {"description": schema.get("description"), **items}, root, name, f"{path}[{at}]")
    else:
        yield path, name, value, schema


def formatted(value: object, schema: Schema, root: Schema) -> object:
    """Numbers in the form of their type: a `number` with a fraction, an `integer` without."""
    if isinstance(value, dict):
        inside = schema.get("properties")
        known = inside if isinstance(inside, dict) else {}
        return {key: formatted(item, shape(known.get(key), root), root) for key, item in value.items()}
    if isinstance(value, list):
        items = shape(schema.get("items"), root)
        return [formatted(item, items, root) for item in value]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    types = kinds(schema)
    if "integer" in types and float(value).is_integer():
        return int(value)
    if "number" in types and "enum" not in schema and "const" not in schema and abs(value) < 2**53:
        return float(value)
    return value


def capital(value: object) -> object:
    """Text with its first letter as a capital, if that is an ASCII letter."""
    if isinstance(value, str) and value[:1].isascii():
        return value[:1].upper() + value[1:]
    return value


def is_date(name: str, schema: Schema) -> bool:
    """Whether an argument is a day: by its format, or a text whose name or description says so."""
    if schema.get("format") == "date":
        return True
    if "string" not in kinds(schema) or schema.keys() & {"enum", "const", "pattern", "format"}:
        return False
    described = schema.get("description")
    return name.split("_")[-1] in _DATE_NAMES or (isinstance(described, str) and "yyyy-mm-dd" in described.lower())


def wants_iso(schema: Schema) -> bool:
    described = schema.get("description")
    return schema.get("format") == "date" or (isinstance(described, str) and "yyyy-mm-dd" in described.lower())


def day_for(name: str, value: object, schema: Schema, evidence: Evidence, literal: bool) -> str | None:
    """The day that an argument means by the request, where the rule has a say; else None.

    Only with a date fact, for a text that is a day as YYYY-MM-DD, and where the request names one day in words or
    figures. A phrase stays as it is unless the schema asks for YYYY-MM-DD: who copies `friday` wants it so.
    """
    today = today_of(evidence.facts)
    if today is None or not isinstance(value, str) or schema.keys() & {"enum", "const"}:
        return None
    days = {item.day for item in named_days(evidence.text, today, counted=not literal)}
    if iso_date(value) is None or len(value.strip()) > 10:
        if literal or not wants_iso(schema) or len(value.strip()) > 10 and iso_date(value) is not None:
            return None
        days = {item.day for item in named_days(value, today)} or days
    return days.pop().isoformat() if len(days) == 1 else None


def switch_for(name: str, value: object, schema: Schema, request: str) -> bool | None:
    """What a request that says on or off, and not both, and forbids nothing, sets a switch to; else None."""
    if not isinstance(value, bool) or name not in _SWITCHES or cue_spans(request):
        return None
    folds = [word.fold for word in words_of(request)]
    off = "off" in folds
    on = re.search(r"\b(?:turn|switch|power|put)\w*\b(?: \w+)*? on\b", request, re.I) is not None
    return None if on == off else on


def polish(drafts: Sequence[Draft], evidence: Evidence, contract: Contract) -> list[Reason]:
    """Applies the rules that change arguments, in place; the reasons of those that change more than a form."""
    reasons: list[Reason] = []
    for place, draft in enumerate(drafts):
        root = draft.tool.schema or {}
        for name, value in draft.arguments.items():
            schema = property_schema(draft.tool, name)
            if contract.clock_dates and (day := day_for(name, value, schema, evidence, contract.literal)) is not None:
                if day != value:
                    why = f"the request's day is {day}, not {value}"
                    reasons.append(Reason("clock_dates", place, original(draft.tool, name), why))
                value = day
            if contract.switch_words and (on := switch_for(name, value, schema, evidence.text)) is not None:
                if on != value:
                    why = f"the request says {'on' if on else 'off'}"
                    reasons.append(Reason("switch_words", place, original(draft.tool, name), why))
                value = on
            if contract.number_format:
                value = formatted(value, schema, root)
            if (
                contract.capitals
                and name in CAPITALISED & properties(draft.tool).keys()
                and not schema.keys() & {"enum", "const"}
            ):
                value = capital(value)
            draft.arguments[name] = value
    return reasons


def drop_unsupported(drafts: Sequence[Draft], evidence: Evidence, contract: Contract) -> list[Reason]:
    """Leaves out optional arguments that nothing supports: the caller's default is better than the model's guess."""
    from .support import support  # here for the look-ups above, which it needs

    reasons = []
    for place, draft in enumerate(drafts):
        if draft.tool.schema is None:
            continue
        for name in [n for n in draft.arguments if n not in required(draft.tool)]:
            value, schema = draft.arguments[name], property_schema(draft.tool, name)
            if contract.literal:
                unsupported = flags(value, schema, evidence.text, evidence.background)
            elif name not in properties(draft.tool) and draft.tool.schema.get("additionalProperties") in (None, False):
                unsupported = True
            else:
                unsupported = support(name, value, schema, draft.tool.schema, evidence) == "none"
            why = f"nothing in the request supports {json.dumps(value, ensure_ascii=False)}"
            if not unsupported and not contract.literal and _echoes(name, value, schema, draft, evidence):
                unsupported, why = True, f"{json.dumps(value, ensure_ascii=False)} only repeats another argument"
            if unsupported:
                del draft.arguments[name]
                reasons.append(Reason("drop_unsupported", place, original(draft.tool, name), why))
    return reasons


def _echoes(name: str, value: object, schema: Schema, draft: Draft, evidence: Evidence) -> bool:
    """Whether a free text has nothing but another argument's words, which the request has once."""
    if not isinstance(value, str) or "enum" in schema or "default" in schema:
        return False
    others = [text for key, item in draft.arguments.items() if key != name for text in _texts(item)]
    own = [w.stem for w in words_of(value) if w.fold not in STOP and w.stem not in name_stems(draft.tool)]
    heard = [stem for text in others for stem in (w.stem for w in words_of(text.replace("_", " ")))]
    if not own or not set(own) <= set(heard):
        return False
    if name_stems(draft.tool) & {w.stem for w in words_of(value)}:
        return True  # "the subject Report" beside the subject "Report"
    return all(_count(word, evidence) <= heard.count(word) for word in own)


def name_stems(tool: ToolSpec) -> frozenset[str]:
    return frozenset(word for name in properties(tool) for word in name_words(name))


def _texts(value: object) -> list[str]:
    return [item for _, _, item, _ in leaves(value, {}, {}, "") if isinstance(item, str)]


def _count(word: str, evidence: Evidence) -> int:
    return sum(item.stem == word for item in evidence.words)


def duplicates(drafts: Sequence[Draft], evidence: Evidence, *, parts: bool) -> list[int]:
    """The places of calls that were made already, equal in every argument.

    `parts`: also those whose values are all parts of an earlier call's to the same tool, if the request has their words
    no more often than that call: who says "a turkey sandwich on rye" has not asked for rye as well.
    """
    seen: dict[str, list[dict[str, object]]] = {}
    out = []
    for place, draft in enumerate(drafts):
        earlier = seen.setdefault(draft.tool.exposed, [])
        if any(_equal(draft.arguments, one) or (parts and _part(draft.arguments, one, evidence)) for one in earlier):
            out.append(place)
        else:
            earlier.append(draft.arguments)
    return out


def _equal(one: object, other: object) -> bool:
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _part(one: dict[str, object], whole: dict[str, object], evidence: Evidence) -> bool:
    free = False
    for name, value in one.items():
        other = whole.get(name)
        if _equal(value, other):
            continue
        if not isinstance(value, str) or not isinstance(other, str):
            return False
        own, theirs = [w.stem for w in words_of(value)], [w.stem for w in words_of(other)]
        if not own or not set(own) <= set(theirs) or any(_count(word, evidence) > theirs.count(word) for word in own):
            return False
        free = True
    return free
