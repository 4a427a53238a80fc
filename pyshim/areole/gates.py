"""The gates: what is withheld from the caller, and why. One function a gate; each is a rule of the contract.

A gate looks at calls that were parsed and polished, and gives its reasons; `apply` puts them together into what is
returned, what is withheld, and `validation`. A gate never changes a call.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from . import literal
from .clauses import Clause, split
from .contract import Contract
from .dates import iso_date, named_days, today_of
from .errors import CallParseError
from .evidence import (
    STOP,
    Evidence,
    Quantity,
    Schema,
    fold,
    name_words,
    number_text,
    quantities,
    stem,
    telling,
    unit_of,
    words_of,
)
from .postprocess import (
    Draft,
    Reason,
    drop_unsupported,
    duplicates,
    kinds,
    leaves,
    number_fault,
    original,
    polish,
    properties,
    property_schema,
    required,
    shape,
)  # fmt: skip
from .support import support, worst_part

FLOOR = 0.1
"""Confidence below which a turn is withheld."""
SURE = 0.5
"""Confidence from which a value that may be meant is taken for meant."""
_NAME_WEIGHT, _VALUE_WEIGHT, _DESCRIPTION_WEIGHT = 2.0, 3.0, 1.0


@dataclass(frozen=True)
class Steered:
    """Where the grammar kept the model from the value it was writing. `wanted`: what it had begun; `given`: what came
    of it."""

    call: int
    path: str
    wanted: str
    given: str


@dataclass(frozen=True)
class Context:
    """What the gates know beside the calls. head: the confidence head's value, 0 to 1."""

    contract: Contract
    evidence: Evidence
    head: float
    reasoning: str = ""
    steered: tuple[Steered, ...] = ()
    alone: bool = False
    """Whether only one tool is declared."""
    sorting: bool = False
    """Whether that tool only sorts: see sorting.py."""
    choices: tuple[object, ...] = ()
    """The values of all enums of the declared tools' arguments."""
    none: float = 1.0
    """The model's own probability of making no call, where it made none."""

    def is_class(self, draft: Draft, path: str) -> bool:
        """Whether an argument is the class that a message was sorted into."""
        return self.sorting and path in required(draft.tool)


@dataclass
class Outcome:
    """What is returned and what is withheld, by the caller's names; `validation` is None where there is no call."""

    function_calls: list[dict[str, object]] = field(default_factory=list)
    suppressed_calls: list[dict[str, object]] = field(default_factory=list)
    validation: dict[str, object] | None = None
    confidence: float = 0.0
    reasons: list[Reason] = field(default_factory=list)


Gate = Callable[[Sequence[Draft], Context], list[Reason]]


def apply(drafts: Sequence[Draft], context: Context) -> Outcome:
    """Post-processing and then the gates of the contract. `drafts` are changed."""
    contract, evidence = context.contract, context.evidence
    values = [_value_texts(draft) for draft in drafts]
    notes = polish(drafts, evidence, contract)
    left_out = (
        drop_unsupported(drafts, evidence, contract, sure=context.head >= SURE) if contract.drop_unsupported else []
    )
    doubled = duplicates(drafts, evidence, parts=not contract.literal) if contract.duplicates else []
    reasons = [Reason("duplicates", at, None, "it repeats an earlier call") for at in doubled]
    withheld: dict[int, list[Reason]] = {}
    found: list[Reason] = []
    for rule, gate in GATES.items():
        if getattr(contract, rule):
            found += gate(drafts, context)
    if contract.steering:
        found += _left_out(drafts, left_out, context, values)
    for reason in found:
        if reason.call not in doubled:
            withheld.setdefault(reason.call, []).append(reason)
    confidence = confidence_of(drafts, context)
    echoing = {one.call for one in left_out if one.echo}
    if contract.floor and drafts:
        level = confidence if contract.by_turn else context.head
        if level < FLOOR:
            why = f"the confidence is {level:.4f}, below {FLOOR}"
            for at in range(len(drafts)):
                if not contract.by_turn and at not in echoing and _plain(drafts[at], context):
                    continue
                withheld.setdefault(at, []).append(Reason("floor", at, None, why))
    kept = [at for at in range(len(drafts)) if at not in doubled]
    taken = [at for at in kept if at in withheld or (contract.by_turn and withheld)]
    returned = [at for at in kept if at not in taken]
    outcome = Outcome(
        [_restored(drafts[at]) for at in returned],
        [_restored(drafts[at]) for at in taken],
        None,
        confidence,
        [
            replace(reason, tool=drafts[reason.call].tool.name)
            for reason in (*notes, *left_out, *reasons, *(item for at in sorted(withheld) for item in withheld[at]))
        ],
    )
    if drafts and (contract.grounding or contract.negation):
        outcome.validation = _validation(
            [drafts[at] for at in (kept if contract.by_turn else returned or taken)], context
        )
    return outcome


def _plain(draft: Draft, context: Context) -> bool:
    """Whether a call is the request's own words: it has a word of the tool's name (or there is no other tool), and says
    every value."""
    evidence, root = context.evidence, draft.tool.schema or {}
    if context.sorting:
        return True
    spoken = bool(context.alone or telling(name_words(draft.tool.exposed)) & evidence.stems)
    if not spoken and telling(word.stem for word in words_of(draft.tool.description)) & evidence.stems:
        spoken = any(
            "enum" in property_schema(draft.tool, name) for name in draft.arguments if name in required(draft.tool)
        )
    spoken = spoken or _telling_values(draft, context)
    return (
        spoken
        and bool(draft.arguments)
        and all(
            support(name, value, property_schema(draft.tool, name), root, evidence) == "said"
            for name, value in draft.arguments.items()
        )
    )


def _telling_values(draft: Draft, context: Context) -> bool:
    """Whether a call has two required values at least, and one of them has a digit or is another tool's in no case."""
    needed = [name for name in draft.arguments if name in required(draft.tool)]
    if len(needed) < 2:
        return False
    for name in needed:
        value = draft.arguments[name]
        if _is_number(value) or (isinstance(value, str) and any(char.isdigit() for char in value)):
            return True
        if "enum" in property_schema(draft.tool, name) and context.choices.count(value) == 1:
            return True
    return False


def confidence_of(drafts: Sequence[Draft], context: Context) -> float:
    """The head's value, or the raw probability of the first token of a number or switch, or of no call at all, where
    that is lower; 0 for an object among a call's arguments where the contract has it so."""
    level = min(context.head, context.none) if context.contract.doubt else context.head
    for draft in drafts:
        for name, value in draft.arguments.items():
            if context.contract.objects_doubted and isinstance(value, dict):
                return 0.0
            if context.contract.doubt and isinstance(value, (bool, int, float)):
                level = min(level, draft.first.get(name, 1.0))
    return level


def doubt(drafts: Sequence[Draft], context: Context) -> list[Reason]:
    """A number or switch that the model by itself would not have begun: its call is a guess. Where a turn is withheld
    as a whole the confidence says this already."""
    if context.contract.by_turn:
        return []
    out = []
    for at, draft in enumerate(drafts):
        for name, value in draft.arguments.items():
            chance = draft.first.get(name, 1.0)
            if isinstance(value, (bool, int, float)) and chance < FLOOR and not _said(draft, name, value, context):
                why = f"the model gave {json.dumps(value)} a chance of {chance:.4f}"
                out.append(Reason("doubt", at, original(draft.tool, name), why))
    return out


def _said(draft: Draft, name: str, value: object, context: Context) -> bool:
    schema = property_schema(draft.tool, name)
    return (
        not isinstance(value, bool)
        and support(name, value, schema, draft.tool.schema or {}, context.evidence) == "said"
    )


def schema(drafts: Sequence[Draft], context: Context) -> list[Reason]:
    """A value outside its schema, or a required argument that is not there."""
    out = []
    for at, draft in enumerate(drafts):
        root = draft.tool.schema or {}
        for name in sorted(required(draft.tool) & properties(draft.tool).keys() - draft.arguments.keys()):
            out.append(Reason("schema", at, original(draft.tool, name), "it is required and was left out"))
        for name, value in draft.arguments.items():
            top = property_schema(draft.tool, name)
            for path, _, item, inside in leaves(value, top, root, name):
                fault = _fault(item, inside)
                if fault is not None:
                    where = original(draft.tool, name) + path
                    out.append(Reason("schema", at, where, f"{json.dumps(item, ensure_ascii=False)} is {fault}"))
            if isinstance(value, list):
                out += _list_faults(at, original(draft.tool, name), value, top)
    return out


def _list_faults(at: int, name: str, value: list[object], inside: object) -> list[Reason]:
    least, most = (inside.get(key) if isinstance(inside, dict) else None for key in ("minItems", "maxItems"))
    if isinstance(least, int) and len(value) < least:
        return [Reason("schema", at, name, f"{len(value)} items are fewer than {least}")]
    if isinstance(most, int) and len(value) > most:
        return [Reason("schema", at, name, f"{len(value)} items are more than {most}")]
    return []


def _fault(value: object, inside: object) -> str | None:
    """What is wrong with a value without parts, for what the contract's grammar also keeps to; None if nothing is."""
    if not isinstance(inside, dict):
        return None
    options = inside.get("enum")
    if isinstance(options, list) and value not in options:
        return f"none of {', '.join(map(str, options[:8]))}"
    if "const" in inside and inside["const"] != value:
        return f"not {inside['const']}"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        size = len(value) if isinstance(value, str) else None
        least, most = inside.get("minLength"), inside.get("maxLength")
        if size is not None and isinstance(least, int) and size < least:
            return f"shorter than {least} characters"
        return f"longer than {most} characters" if size is not None and isinstance(most, int) and size > most else None
    return number_fault(value, inside)


def grounding(drafts: Sequence[Draft], context: Context) -> list[Reason]:
    """A required argument that neither the request nor the facts support."""
    return (_grounding_literal if context.contract.literal else _grounding)(drafts, context)


def _grounding_literal(drafts: Sequence[Draft], context: Context) -> list[Reason]:
    out = []
    evidence, earlier = context.evidence, "\n".join(context.evidence.earlier)
    for at, draft in enumerate(drafts):
        for name in [n for n in draft.arguments if n in required(draft.tool)]:
            value, inside = draft.arguments[name], property_schema(draft.tool, name)
            if literal.withholds(name, value, inside, evidence.text, evidence.background, earlier):
                out.append(Reason("grounding", at, original(draft.tool, name), _unsupported(value)))
    return out


def _grounding(drafts: Sequence[Draft], context: Context) -> list[Reason]:
    out = []
    for at, draft in enumerate(drafts):
        root = draft.tool.schema or {}
        for name, value in draft.arguments.items():
            inside = property_schema(draft.tool, name)
            verdict = support(name, value, inside, root, context.evidence)
            if name in required(draft.tool) and _says_nothing(draft, name, value, inside, context):
                out.append(Reason("grounding", at, original(draft.tool, name), f"{_shown(value)} is no value for it"))
                continue
            if verdict == "said" or context.is_class(draft, name):
                continue
            rival = _rival(value, inside, context.evidence)
            if rival is not None:
                why = f"the request says {_shown(rival)}, not {_shown(value)}"
                out.append(Reason("grounding", at, original(draft.tool, name), why))
            elif verdict == "none" or context.head < SURE:
                path, item = worst_part(name, value, inside, root, context.evidence)
                where = original(draft.tool, name) + (path if path.startswith("[") else f".{path}" if path else "")
                out.append(Reason("grounding", at, where, _unsupported(item)))
    return out


def _says_nothing(draft: Draft, name: str, value: object, inside: Schema, context: Context) -> bool:
    """Whether a required value is no value at all: a text that has only words of the tool's or the argument's name (who
    asks to move a pallet has not said which), or something that the request says once and another argument has."""
    if inside.keys() & {"const", "default"} or isinstance(value, (bool, dict, list)) or value is None:
        return False
    if isinstance(value, str) and "enum" not in inside:
        words = [word for word in words_of(value) if word.fold not in STOP]
        told = {*name_words(draft.tool.exposed), *name_words(name)}
        if context.head < SURE and len(words) == 1 and value[:1].islower():
            told |= {word.stem for word in words_of(draft.tool.description)}
        if words and all(word.stem in told for word in words):
            return True
    others = [(key, item) for key, item in draft.arguments.items() if key != name and key in required(draft.tool)]
    text = context.evidence.text
    if isinstance(value, str):
        twin = any(isinstance(item, str) and fold(item) == fold(value) for _, item in others)
        once = len(re.findall(rf"(?<!\w){re.escape(value)}(?!\w)", text, re.I)) == 1 or _one_day(value, context)
        if value.strip().isdigit():
            said = [item for item in context.evidence.own_quantities if item.written == value.strip()]
            return len(said) == 1 and any(_is_number(item) and item == said[0].value for _, item in others)
        return twin and once and bool(context.evidence.meant.words) and list(draft.arguments).index(name) > 0
    earlier = list(draft.arguments)[: list(draft.arguments).index(name)]
    said = [item for item in context.evidence.quantities if item.value == value]
    spread = {word.fold for word in context.evidence.words} & _SPREAD
    return (
        len(said) == 1
        and not spread
        and any(key in earlier and _is_number(item) and item == value for key, item in others)
    )


def _one_day(value: str, context: Context) -> bool:
    """Whether a value is a day that the request names once, and not as one on which something begins and ends."""
    day, evidence = iso_date(value), context.evidence
    named = [item for item in named_days(evidence.text, today_of(evidence.facts)) if day in item.options]
    words = {word.fold for word in evidence.words}
    return day is not None and len(named) == 1 and not words & {*_SPREAD, "day", "today", "tonight", "tomorrow"}


_SPREAD = frozenset({"both", "each", "every", "all", "same", "square", "squared", "equal", "equally", "everything"})


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def relevance(drafts: Sequence[Draft], context: Context) -> list[Reason]:
    """A call without arguments to a tool of whose name the request has no word, where the model is not sure."""
    if context.head >= SURE:
        return []
    return [
        Reason("relevance", at, None, f"the request does not speak of {draft.tool.name}")
        for at, draft in enumerate(drafts)
        if not draft.arguments and not telling(name_words(draft.tool.exposed)) & context.evidence.stems
    ]


def _unsupported(value: object) -> str:
    return f"nothing in the request supports {_shown(value)}"


def _shown(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _rival(value: object, inside: object, evidence: Evidence) -> object:
    """Another of an enum's values that the request says, where the given one is not said."""
    options = inside.get("enum") if isinstance(inside, dict) else None
    if not isinstance(options, list) or not isinstance(value, str):
        return None
    others = [item for item in options if isinstance(item, str) and item != value]
    return next((item for item in others if evidence.says(item.replace("_", " "))), None)


def steering(drafts: Sequence[Draft], context: Context) -> list[Reason]:
    """A value other than what the model was about to write, or than what its reasoning took from the request."""
    out = []
    for item in context.steered:
        if item.call < len(drafts) and not _same(item.wanted, item.given):
            draft = drafts[item.call]
            if (
                context.is_class(draft, item.path)
                or _is_deed(item.wanted, draft)
                or _harmless(item, drafts, context.evidence)
            ):
                continue
            name = re.split(r"[.\[]", item.path, maxsplit=1)[0]
            where = original(draft.tool, name) + item.path[len(name) :]
            out.append(
                Reason("steering", item.call, where, f"the model was about to write {item.wanted}, not {item.given}")
            )
    for at, draft in enumerate(drafts):
        for name, value in draft.arguments.items():
            inside = property_schema(draft.tool, name)
            if isinstance(value, (bool, dict, list)) or value is None or not isinstance(value, (int, float, str)):
                continue
            if isinstance(value, str) and "enum" not in inside:
                continue
            thought = _thought(name, context.reasoning)
            if (
                context.is_class(draft, name)
                or len(thought) != 1
                or support(name, value, inside, draft.tool.schema or {}, context.evidence) == "said"
            ):
                continue
            if _is_deed(thought[0], draft):
                continue
            if not _same(thought[0], str(value)) and context.evidence.says(thought[0]):
                why = f"the request says {thought[0]}, not {json.dumps(value, ensure_ascii=False)}"
                out.append(Reason("steering", at, original(draft.tool, name), why))
    return out


def _harmless(item: Steered, drafts: Sequence[Draft], evidence: Evidence) -> bool:
    """Whether a value is the request's own, or was left out, and what the model had begun is no word of the request
    that got lost."""
    draft = drafts[item.call]
    given, begun = _part_at(draft, item.path), fold(item.wanted.strip(' "'))
    if given is not None and fold(str(given)).startswith(begun):
        return True
    name, inside, verdict = _leaf_at(draft, item.path, evidence)
    if given is not None and verdict != "said":
        return False
    if isinstance(given, str) and "enum" not in inside:
        return True
    if given is None and "null".startswith(begun) or "none".startswith(begun):
        return True
    used = {word.stem for one in drafts for text in _value_texts(one) for word in words_of(text.replace("_", " "))}
    counted = {value for one in drafts for value in _numbers(one)}
    if any(char.isdigit() for char in begun):
        unit = unit_of(name, inside)
        same = isinstance(given, (int, float))
        return not any(
            quantity.written.startswith(begun)
            and quantity.value not in counted
            and not (same and quantity.means(float(given), unit))  # type: ignore[arg-type]
            for quantity in evidence.own_quantities
        )
    return not any(
        word.fold.startswith(begun) and word.fold not in STOP and word.stem not in used
        for word in evidence.meant.words
        if begun[:1].isalnum()
    )


def _part_at(draft: Draft, path: str) -> object:
    """The part of a call's arguments at a path such as `stops[1].level`; None if there is none any more."""
    value: object = draft.arguments
    for step in re.findall(r"[^.\[\]]+", path):
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list):
            value = value[int(step)] if step.isdigit() and int(step) < len(value) else None
    return value


def _leaf_at(draft: Draft, path: str, evidence: Evidence) -> tuple[str, Schema, str]:
    """The name and schema of the part at a path, and the verdict on it."""
    top, *_ = re.findall(r"[^.\[\]]+", path)
    root = draft.tool.schema or {}
    below = path[len(top) :].removeprefix(".")
    for where, name, item, inside in leaves(draft.arguments.get(top), property_schema(draft.tool, top), root, top):
        if where == below:
            return name, inside, support(name, item, inside, root, evidence)
    return "", {}, "none"


def _is_deed(wanted: str, draft: Draft) -> bool:
    """Whether a word that could not be written only says what the tool does: "dim", where it is said to dim lights."""
    begun = fold(wanted.strip().strip('"'))
    told = [*words_of(draft.tool.exposed.replace("_", " ")), *words_of(draft.tool.description)]
    return len(begun) >= 3 and begun.isalpha() and any(word.fold.startswith(begun) for word in told)


def _thought(name: str, reasoning: str) -> list[str]:
    """The values that the reasoning gives a property: `room 'kitchen'`, `level 140`."""
    found = re.findall(rf"\b{re.escape(name)}\s*(?:=|:|is)?\s*(?:'([^']*)'|\"([^\"]*)\"|(-?\d+(?:\.\d+)?))", reasoning)
    return sorted({quoted or double or number for quoted, double, number in found} - {""})


def _same(one: str, other: str) -> bool:
    try:
        return math.isclose(float(one.strip('"')), float(other.strip('"')))
    except ValueError:
        return fold(one.strip('"')).replace("_", " ") == fold(other.strip('"')).replace("_", " ")


def _left_out(
    drafts: Sequence[Draft], dropped: Sequence[Reason], context: Context, values: Sequence[Sequence[str]]
) -> list[Reason]:
    """A number of the request that no call carries, where a number was dropped from a call, the model is not sure, or
    the request does not speak of the tool: the request has a value and the call has not."""
    used = {item.value for texts in values for text in texts for item in quantities(text)}
    kept = {value for draft in drafts for value in _numbers(draft)}
    evidence = context.evidence.meant
    spare = [item for item in evidence.own_quantities if item.value not in used | kept]
    out = []
    for reason in dropped:
        draft = drafts[reason.call]
        name = next((n for n in properties(draft.tool) if original(draft.tool, n) == reason.argument), "")
        if spare and kinds(property_schema(draft.tool, name)) & {"integer", "number"}:
            why = f"the request says {number_text(spare[0].value)}, which {reason.argument} does not carry"
            out.append(Reason("steering", reason.call, reason.argument, why))
    counts = {item.start for item in evidence.countable if item.written}
    lost = next((item for item in spare if item.start in counts and not _carried(item, drafts)), None)
    if lost is not None and not out and not context.sorting:
        why = f"the request says {number_text(lost.value)}, which no call carries"
        out += [
            Reason("steering", at, None, why)
            for at, draft in enumerate(drafts)
            if context.head < SURE or not _speaks_of(draft, context.evidence)
        ]
    return out


def _speaks_of(draft: Draft, evidence: Evidence) -> bool:
    """Whether the request itself has a word of a call's tool (name, description, arguments) or of one of its texts."""
    tool = draft.tool
    texts = [tool.description, *(text.replace("_", " ") for text in _value_texts(draft))]
    names = [word for name in (tool.exposed, *properties(tool)) for word in name_words(name)]
    return bool(telling([*names, *(word.stem for text in texts for word in words_of(text))]) & evidence.stems)


def _carried(item: Quantity, drafts: Sequence[Draft]) -> bool:
    """Whether a call has the quantity in another unit."""
    for draft in drafts:
        root = draft.tool.schema or {}
        for name, value in draft.arguments.items():
            for _, own, part, inside in leaves(value, property_schema(draft.tool, name), root, name):
                number = isinstance(part, (int, float)) and not isinstance(part, bool)
                if number and item.means(float(part), unit_of(own, inside)):  # type: ignore[arg-type]
                    return True
    return False


def negation(drafts: Sequence[Draft], context: Context) -> list[Reason]:
    """A call that the request forbids."""
    text = context.evidence.text
    out: list[Reason] = []
    if context.sorting:
        return out  # "I can't sign in" is what the message is about
    for at, draft in enumerate(drafts):
        if context.contract.literal:
            if literal.forbids(draft.tool.exposed, list(draft.arguments.values()), text):
                out.append(Reason("negation", at, None, "the request forbids it"))
            continue
        clause = forbidding(draft, text)
        if clause is not None:
            said = text[clause.start : clause.end].strip()
            out.append(Reason("negation", at, None, f"the request forbids it: {json.dumps(said, ensure_ascii=False)}"))
    return out


def forbidding(draft: Draft, text: str) -> Clause | None:
    """The clause that forbids a call: it forbids, and no other clause speaks of the call more."""
    clauses = split(text, tuple(_quoted(draft, text)))
    forbidden = [clause for clause in clauses if clause.negated]
    if not forbidden:
        return None
    subject = _Subject.of(draft)
    plain = max((subject.spoken_of(text[c.start : c.end]) for c in clauses if not c.negated), default=0.0)
    worst = max(forbidden, key=lambda c: subject.spoken_of(text[c.start : c.end]))
    against = subject.spoken_of(text[worst.start : worst.end])
    plain_stems = {word.stem for c in clauses if not c.negated for word in words_of(text[c.start : c.end])}
    verbs = {*name_words(draft.tool.exposed)[:1], *(word.stem for word in words_of(draft.tool.description)[:1])}
    for clause in forbidden:
        words = words_of(text[clause.start : clause.end])
        if not verbs & {word.stem for word in words} - plain_stems:
            continue
        numbers = {item.value for item in quantities(text[clause.start : clause.end])} & {*subject.numbers}
        if numbers or subject.values & {word.stem for word in words} or {word.fold for word in words} & _PRONOUNS:
            return clause
    return worst if against > plain or plain == 0 else None


_PRONOUNS = frozenset({"it", "that", "this", "them", "those", "these", "him", "her"})


@dataclass(frozen=True)
class _Subject:
    """What a call is about: the words of its tool's name, of its description and of its values, and its numbers."""

    names: frozenset[str]
    described: frozenset[str]
    values: frozenset[str]
    numbers: tuple[float, ...]

    @staticmethod
    def of(draft: Draft) -> _Subject:
        names = telling(name_words(draft.tool.exposed))
        return _Subject(
            names,
            telling(word.stem for word in words_of(draft.tool.description)) - names,
            telling(word.stem for text in _value_texts(draft) for word in words_of(text.replace("_", " "))),
            tuple(_numbers(draft)),
        )

    def spoken_of(self, clause: str) -> float:
        """How much a clause is about the call: the words that it shares with it."""
        stems = telling(word.stem for word in words_of(clause))
        said = {item.value for item in quantities(clause)} if self.numbers else set()
        return (
            _NAME_WEIGHT * len(stems & self.names)
            + _DESCRIPTION_WEIGHT * len(stems & self.described)
            + _VALUE_WEIGHT * (len(stems & self.values) + sum(1 for number in self.numbers if number in said))
        )


def _numbers(draft: Draft) -> list[float]:
    found = leaves(draft.arguments, draft.tool.schema or {}, draft.tool.schema or {}, "")
    return [float(item) for _, _, item, _ in found if isinstance(item, (int, float)) and not isinstance(item, bool)]


def _value_texts(draft: Draft) -> list[str]:
    found = leaves(draft.arguments, draft.tool.schema or {}, draft.tool.schema or {}, "")
    return [item for _, _, item, _ in found if isinstance(item, str)]


def _quoted(draft: Draft, text: str) -> list[tuple[int, int]]:
    """Where free texts that a call passes on stand in the request, if something of the request comes before them."""
    out = []
    root = draft.tool.schema or {}
    for name, value in draft.arguments.items():
        for _, _, item, inside in leaves(value, property_schema(draft.tool, name), root, name):
            if not isinstance(item, str) or "enum" in inside or len(item.split()) < 2:
                continue
            at = fold_find(text, item)
            if at > 0 and any(word.stem in _tool_stems(draft) for word in words_of(text[:at])):
                out.append((at, at + len(item)))
    return out


def _tool_stems(draft: Draft) -> frozenset[str]:
    described = (stem(word.fold) for word in words_of(draft.tool.description))
    return telling([*name_words(draft.tool.exposed), *described])


def fold_find(text: str, phrase: str) -> int:
    """Where a phrase stands in a text, case aside; -1 where it does not. Both keep their length."""
    at = text.find(phrase)
    return at if at >= 0 else text.lower().find(phrase.lower())


GATES: dict[str, Gate] = {
    "schema": schema, "grounding": grounding, "steering": steering, "negation": negation, "doubt": doubt,
    "relevance": relevance,
}  # fmt: skip


def _validation(drafts: Sequence[Draft], context: Context) -> dict[str, object]:
    """`ungrounded`: the arguments that the request does not support; `negation`: whether it forbids. Of a contract that
    withholds call by call, what is said is about the calls that are returned."""
    evidence, contract = context.evidence, context.contract
    ungrounded: list[str] = []
    for draft in drafts:
        root = draft.tool.schema or {}
        for name, value in draft.arguments.items():
            inside = shape(properties(draft.tool).get(name), root)
            if contract.literal or not contract.grounding:
                flag = literal.flags(value, inside, evidence.text, evidence.background)
            else:
                flag = "enum" not in inside and support(name, value, inside, root, evidence) == "none"
            path = f"{draft.tool.name}.{original(draft.tool, name)}"
            if flag and path not in ungrounded:
                ungrounded.append(path)
    if contract.by_turn:
        negated = literal.negated(evidence.text)
    else:
        negated = not context.sorting and any(forbidding(draft, evidence.text) is not None for draft in drafts)
    return {"ungrounded": ungrounded, "negation": negated}


def _restored(draft: Draft) -> dict[str, object]:
    try:
        return {"name": draft.tool.name, "arguments": draft.tool.names.restore(draft.arguments)}
    except CallParseError as error:
        details = {**error.details, "what": error.message}
        message = f"The model's tool call cannot be used: {error.message}."
        raise CallParseError("call_unparsable", message, details) from error
