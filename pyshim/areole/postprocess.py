"""From what the model wrote to what the caller gets: number forms, capitals, dates, switches, what is left out.

Owns changes to arguments and the schema look-ups that they and the gates share. Each change that is more than a form
comes with its reason. Never adds an argument. Works on the names that the model sees.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from .clauses import cue_spans
from .contract import Contract
from .dates import iso_date, named_days, today_of
from .evidence import STOP, Evidence, Schema, fold, name_words, number_text, stem, words_of
from .literal import flags, repeats
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
    tool: the caller's name of the call's tool, once the reason is part of an outcome; echo: what was left out only
    repeated another argument."""

    gate: str
    call: int
    argument: str | None
    why: str
    tool: str = ""
    echo: bool = False

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
    return required_names(tool.schema or {})


def required_names(schema: Schema) -> frozenset[str]:
    """The properties that an object must have."""
    names = schema.get("required")
    return frozenset(n for n in names if isinstance(n, str)) if isinstance(names, list) else frozenset()


_BOUNDS: tuple[tuple[str, Callable[[float, float], bool], str], ...] = (
    ("minimum", operator.lt, "below"),
    ("maximum", operator.gt, "above"),
    ("exclusiveMinimum", operator.le, "not above"),
    ("exclusiveMaximum", operator.ge, "not below"),
)


def number_fault(value: float, schema: Schema) -> str | None:
    """What is wrong with a number by its type and bounds; None if nothing is."""
    if "integer" in kinds(schema) and "number" not in kinds(schema) and not float(value).is_integer():
        return "not a whole number"
    for key, broken, words in _BOUNDS:
        bound = schema.get(key)
        if isinstance(bound, (int, float)) and not isinstance(bound, bool) and broken(value, bound):
            return f"{words} {number_text(bound)}"
    return None


def choices_of(tools: Sequence[ToolSpec]) -> tuple[object, ...]:
    """The values of all enums among the tools' arguments, each as often as a tool has it."""
    found: list[object] = []
    for tool in tools:
        for name in properties(tool):
            options = property_schema(tool, name).get("enum")
            found += options if isinstance(options, list) else []
    return tuple(found)


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
    named = named_days(evidence.text, today, counted=not literal)
    if not literal and any(iso_date(value) in item.options for item in named):
        return None
    days = {item.day for item in named}
    if iso_date(value) is None or len(value.strip()) > 10:
        if literal or not wants_iso(schema) or len(value.strip()) > 10 and iso_date(value) is not None:
            return None
        days = {item.day for item in named_days(value, today)} or days
    return days.pop().isoformat() if len(days) == 1 else None


def switch_for(name: str, value: object, schema: Schema, evidence: Evidence, *, literal: bool) -> bool | None:
    """What a request sets a switch to, where it says it: on or off, and not both; or the verb that the argument's name
    is made of ("mute" for `muted`, "unmute" for its opposite). None where it says neither or forbids something."""
    request = evidence.text
    if not isinstance(value, bool):
        return None
    if name in _SWITCHES and not cue_spans(request):
        folds = [word.fold for word in words_of(request)]
        off = "off" in folds
        on = re.search(r"\b(?:turn|switch|power|put)\w*\b(?: \w+)*? on\b", request, re.I) is not None
        return None if on == off else on
    if literal or not name.endswith(("ed", "en")):
        return None
    verbs = {_verb(name.split("_")[-1])}
    said = {_verb(word.fold) for word in evidence.meant.words}
    if re.search(r"\b(?:no|not|without|never|any)\b", request, re.I):
        return None
    does, undoes = verbs & said, {prefix + verb for verb in verbs for prefix in ("un", "de", "dis")} & said
    return None if bool(does) == bool(undoes) else bool(does)


_IRREGULAR = {"frozen": "freeze", "hidden": "hide", "broken": "break", "open": "open", "opened": "open"}


def _verb(word: str) -> str:
    """The stem of a verb form: `muted`, `mutes` and `mute`; `frozen` and `freeze`."""
    prefix = next((p for p in ("un", "de", "dis") if word.startswith(p) and word[len(p) :] in _IRREGULAR), "")
    return prefix + stem(_IRREGULAR.get(word[len(prefix) :], word[len(prefix) :]))


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
            if (
                contract.switch_words
                and (on := switch_for(name, value, schema, evidence, literal=contract.literal)) is not None
            ):
                if on != value:
                    why = (
                        f"the request says {'on' if on else 'off'}"
                        if name in _SWITCHES
                        else "the request's verb says so"
                    )
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


def drop_unsupported(
    drafts: Sequence[Draft], evidence: Evidence, contract: Contract, *, sure: bool = True
) -> list[Reason]:
    """Leaves out optional arguments that nothing supports: the caller's default is better than the model's guess.

    sure: whether the model is; if it is not, an enum's value that is not said and a boolean of which the request does
    not speak are guesses too.
    """
    from .support import support  # here for the look-ups above, which it needs

    reasons = []
    for place, draft in enumerate(drafts):
        if draft.tool.schema is None:
            continue
        for name in list(draft.arguments):
            value, schema = draft.arguments[name], property_schema(draft.tool, name)
            if name in required(draft.tool):
                if not contract.literal:
                    reasons += _drop_parts(place, draft, name, value, schema, evidence)
                continue
            if contract.literal:
                unsupported = value == "" or flags(value, schema, evidence.text, evidence.background)
            elif name not in properties(draft.tool) and draft.tool.schema.get("additionalProperties") in (None, False):
                unsupported = True
            else:
                verdict = support(name, value, schema, draft.tool.schema, evidence)
                unsupported = verdict == "none" or (verdict == "likely" and not sure and "enum" in schema)
                unsupported = unsupported or (
                    isinstance(value, bool) and not sure and not evidence.speaks_of(name, schema)
                )
            if unsupported:
                echo = False
            elif contract.literal:
                echo = repeats(name, draft.arguments, required(draft.tool))
            else:
                echo = _echoes(name, value, schema, draft, evidence)
            if unsupported or echo:
                del draft.arguments[name]
                shown = json.dumps(value, ensure_ascii=False)
                why = f"{shown} only repeats another argument" if echo else f"nothing in the request supports {shown}"
                reasons.append(Reason("drop_unsupported", place, original(draft.tool, name), why, echo=echo))
            elif not contract.literal:
                reasons += _drop_parts(place, draft, name, value, schema, evidence)
    return reasons


def _drop_parts(place: int, draft: Draft, name: str, value: object, schema: Schema, evidence: Evidence) -> list[Reason]:
    """Leaves out optional properties of objects inside an argument. In a list, an enum's value must be said beside the
    texts of its own item."""
    from .support import support

    root = draft.tool.schema or {}
    reasons: list[Reason] = []

    def walk(value: object, schema: Schema, path: str, item: bool) -> None:
        if isinstance(value, list):
            inside = shape(schema.get("items"), root)
            for at in range(len(value) - 1, 0, -1):
                if any(_equal(value[at], one) for one in value[:at]) and not _said_again(value[at], value, evidence):
                    why = f"{json.dumps(value.pop(at), ensure_ascii=False)} repeats an earlier item"
                    reasons.append(Reason("drop_unsupported", place, f"{original(draft.tool, name)}{path}[{at}]", why))
            for at, one in enumerate(value):
                walk(one, inside, f"{path}[{at}]", len(value) > 1)
        if not isinstance(value, dict):
            return
        known, needed = schema.get("properties"), schema.get("required")
        for key in list(value):
            below = shape(known.get(key), root) if isinstance(known, Mapping) else {}
            if isinstance(value[key], (dict, list)):
                walk(value[key], below, f"{path}.{key}", item)
            if isinstance(needed, list) and key in needed:
                continue
            unsupported = value[key] in ({}, []) or support(key, value[key], below, root, evidence) == "none"
            if not unsupported and item and "enum" in below:
                near = evidence.beside(
                    [text for text in value.values() if isinstance(text, str) and text != value[key]]
                )
                unsupported = near is not None and support(key, value[key], below, root, near) != "said"
            if unsupported:
                shown = json.dumps(value.pop(key), ensure_ascii=False)
                why = f"nothing in the request supports {shown}"
                reasons.append(Reason("drop_unsupported", place, f"{original(draft.tool, name)}{path}.{key}", why))

    walk(value, schema, "", False)
    return reasons


def _said_again(item: object, items: Sequence[object], evidence: Evidence) -> bool:
    """Whether the request has the words of an item as often as the list has it."""
    words = [word.stem for text in _texts(item) for word in words_of(text.replace("_", " ")) if word.fold not in STOP]
    times = sum(_equal(item, one) for one in items)
    return bool(words) and all(_count(word, evidence) >= times for word in words)


def _echoes(name: str, value: object, schema: Schema, draft: Draft, evidence: Evidence) -> bool:
    """Whether a free text has nothing but another argument's words, which the request has once."""
    if not isinstance(value, str) or "enum" in schema or "default" in schema:
        return False
    others = [text for key, item in draft.arguments.items() if key != name for text in _texts(item)]
    own = [w.stem for w in words_of(value) if w.fold not in STOP and w.stem not in name_stems(draft.tool)]
    heard = [stem for text in others for stem in (w.stem for w in words_of(text.replace("_", " ")))]
    if not own or not set(own) <= set(heard):
        return False
    said = {w.stem for w in words_of(value)}
    if set(name_words(name)) <= said and any(fold(text) == fold(value) for text in others):
        return False  # of hotel and room_type, both "Harbor Light Hotel", the room_type is the echo
    if name_stems(draft.tool) & said:
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
        if isinstance(value, list) and isinstance(other, list) and value:
            if not all(any(_equal(item, one) for one in other) for item in value):
                return False
            continue
        if not isinstance(value, str) or not isinstance(other, str):
            return False
        own, theirs = [w.stem for w in words_of(value)], [w.stem for w in words_of(other)]
        if not own or not set(own) <= set(theirs) or any(_count(word, evidence) > theirs.count(word) for word in own):
            return False
        free = True
    return free
