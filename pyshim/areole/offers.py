"""What a request offers for an argument: the enum values, numbers, days, times and addresses in it that would fit.

Owns the choice between what the model would write and what the request says, before it is written (rule `offers`). An
offer is a whole value as JSON text. Where the request says nothing that fits, or a number that does not, there is none:
then the model writes what it wants, and the gates look at it. See docs/contract.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from .dates import Named, named_days, today_of
from .evidence import (
    OFTEN,
    SOMETIMES,
    Evidence,
    Quantity,
    Schema,
    clock_spans,
    clock_times,
    dimension,
    fold,
    mask,
    name_words,
    number_text,
    stem,
    telling,
    unit_of,
    words_of,
)
from .places import Steps
from .postprocess import (
    is_date,
    kinds,
    number_fault,
    properties,
    property_schema,
    required_names,
    shape,
    wants_iso,
)
from .prompt import ToolSpec

_EMAIL = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+")
_JOIN = re.compile(r"\s*(?:,|and|&|or|,\s*and)\s*")
_CODE = r"(?:[A-Za-z]{0,5}[-_]?\d[\w-]*)"
_SERIES = re.compile(rf"(?<![\w.-]){_CODE}(?:(?:\s*,\s*(?:and\s+)?|\s+and\s+|\s*&\s*){_CODE})+(?![\w-])")
_ROW = re.compile(r"(?:\s*\w+){0,2}\s*(?:,|&|\band\b|\bplus\b)(?:\s*\w+){0,3}\s*")
"""What stands between two values of a series."""
_IDS = {
    stem(word) for word in ("id", "number", "no", "code", "reference", "ref", "sku", "barcode", "pnr", "serial", "tag")
}


class Offers:
    """The offers of one request to some tools."""

    def __init__(self, tools: Sequence[ToolSpec], evidence: Evidence) -> None:
        self._tools = {tool.exposed: tool for tool in tools}
        self.evidence = evidence
        self.thought = ""
        """What the model thought of a message that is to be sorted."""

    @property
    def meant(self) -> Evidence:
        """The request without the clauses that forbid."""
        return self.evidence.meant

    def tools(self) -> list[str]:
        """Where the request is one clause: the tools that it has a word of the name or a value of, if one of the words
        is in no other tool's name; [] if there is none."""
        if sum(not clause.negated for clause in self.evidence.clauses) != 1:
            return []
        words = {name: telling(name_words(name)) for name in self._tools}
        said = self.meant.stems
        own = any(
            mine & said - frozenset().union(*(other for at, other in words.items() if at != name))
            for name, mine in words.items()
        )
        return [name for name, mine in words.items() if mine & said or self._has_choice(name)] if own else []

    def _has_choice(self, name: str) -> bool:
        """Whether the request says a value of one of a tool's enums."""
        tool = self._tools[name]
        found = (property_schema(tool, key).get("enum") for key in properties(tool))
        options = [item for listed in found if isinstance(listed, list) for item in listed if isinstance(item, str)]
        return any(self.meant.writes(option.replace("_", " ")) for option in options)

    @cached_property
    def series(self) -> list[list[str]]:
        """Codes and numbers of one form that the request has in a row: "P-1, P-2 and P-7", "channels 2, 4 and 6"."""
        out = []
        for match in _SERIES.finditer(self.meant.text):
            items = re.findall(r"[^\s,&]+", re.sub(r"\band\b", " ", match.group()))
            forms = {re.sub(r"[A-Za-z]+", "a", re.sub(r"\d+", "9", item)) for item in items}
            if len(forms) == 1 and len(set(items)) == len(items):
                out.append(items)
        return out

    def at(
        self, tool: str, steps: Steps, taken: Iterable[str] = (), beside: Sequence[str] = (), used: Iterable[str] = ()
    ) -> list[str]:
        """Values as JSON text for the argument at `steps` (without the call's place) of a call; [] for no say.

        taken: what the same list has already. beside: texts that belong to it, where the request says several of the
        kind; what stands beside them counts first. used: what the argument is in earlier items of the list.
        """
        spec = self._tools.get(tool)
        if spec is None or len(steps) < 2 or steps[0] != "arguments":
            return []
        place = self._schema(spec, steps[1:])
        if place is None:
            return []
        name, schema, wanted = place
        if "const" in schema or "default" in schema and not wanted:
            return []
        if isinstance(schema.get("enum"), list):
            near = self.meant.beside(beside)
            told = self._choices(schema, set(), near) if near is not None else []
            told = told or self._choices(schema, set(taken), self.meant)
            return told or (self._thought_of(schema) if self.thought else [])
        types = kinds(schema)
        if types & {"integer", "number"} and not types & {"string", "array", "object", "boolean"}:
            found = self._numbers(spec, name, schema, wanted, beside)
            fresh = [text for text in found if text not in set(used)]
            return fresh or found
        if "string" in types and not types & {"array", "object", "integer", "number"}:
            return self._texts(name, schema, set(used))
        return []

    def _schema(self, tool: ToolSpec, steps: Steps) -> tuple[str, Schema, bool] | None:
        """(name, schema, whether it and all around it are required) of an argument."""
        root = tool.schema or {}
        top = str(steps[0])
        if top not in properties(tool):
            return None
        name, schema = top, property_schema(tool, top)
        wanted = top in required_names(root)
        for step in steps[1:]:
            if isinstance(step, int):
                items = shape(schema.get("items"), root)
                schema = {**({"description": schema["description"]} if "description" in schema else {}), **items}
                continue
            inside = schema.get("properties")
            if not isinstance(inside, Mapping) or step not in inside:
                return None
            wanted = wanted and step in required_names(schema)
            name, schema = step, shape(inside[step], root)
        return name, schema, wanted

    def _choices(self, schema: Schema, taken: set[str], evidence: Evidence) -> list[str]:
        """Of an enum, the values that the request says and does not forbid."""
        options = [item for item in schema["enum"] if isinstance(item, str) and item]  # type: ignore[attr-defined]
        said = [item for item in options if evidence.writes(item.replace("_", " ")) or evidence.writes_closely(item)]
        said = said or [item for item in options if evidence.names_code(item)]
        said = said or [item for item in options if evidence.supports_choice(item, schema)]
        return [text for item in said if (text := json.dumps(item, ensure_ascii=False)) not in taken]

    def _thought_of(self, schema: Schema) -> list[str]:
        """Of an enum, the value that the model named first while it thought."""
        text, first = fold(self.thought), {}
        for item in schema["enum"]:  # type: ignore[attr-defined]
            if isinstance(item, str) and item:
                words = re.escape(fold(item)).replace("_", "[_ ]")
                found = re.search(rf"(?<!\w){words}(?!\w)", text)
                if found is not None:
                    first[found.start()] = json.dumps(item, ensure_ascii=False)
        return [first[min(first)]] if first else []

    def _numbers(self, tool: ToolSpec, name: str, schema: Schema, wanted: bool, beside: Sequence[str]) -> list[str]:
        """The request's numbers for a required number: those beside the argument's name, or those beside no other's."""
        own: list[Quantity] = []
        free: list[Quantity] = []
        loose: list[Quantity] = []
        unit = unit_of(name, schema)
        for item, owners in self._owned(tool):
            if name in owners or dimension(item.unit) == dimension(unit) != "":
                own.append(item)
            elif not owners:
                (loose if self._is_loose(item) else free).append(item)
        if not own and wanted and self.meant.one_of(name):
            return ["1", *(["1.0"] if "number" in kinds(schema) else [])]
        picked = own or (free if wanted else [])
        pieces = self.meant.pieces(beside)

        def near(items: list[Quantity]) -> list[Quantity]:
            return [item for item in items if any(start <= item.start and item.end <= end for start, end in pieces)]

        beside_it = near(own) or (near(free) or near(loose) if wanted else [])
        picked = beside_it or picked
        values: list[float] = []
        for item in picked:
            value = _converted(item, unit, schema)
            if value is None:
                continue
            if number_fault(value, schema) is not None:
                return []  # a number that the argument cannot have is no reason to write another one
            values.append(value)
        out: list[str] = []
        for value in values:
            out.append(number_text(value))
            if "number" in kinds(schema) and value.is_integer():
                out.append(f"{number_text(value)}.0")
        return list(dict.fromkeys(out))

    def _is_loose(self, item: Quantity) -> bool:
        """Whether it is a word that only sometimes is a number: "both", "half", "the first"."""
        return self.meant.text[item.start : item.end].lower() in SOMETIMES

    def _owned(self, tool: ToolSpec) -> list[tuple[Quantity, frozenset[str]]]:
        """Each number with the arguments whose name stands beside it: "two adults", "channels 4, 5 and 6"."""
        names = {name: set(name_words(name)) for name in _number_names(tool)}
        out: list[tuple[Quantity, frozenset[str]]] = []
        text = self.meant.text
        for item in self.meant.countable:
            before = words_of(text[max(out[-1][0].end if out else 0, item.start - 40) : item.start])[-1:]
            if out and before and before[0].stem == out[-1][0].unit:
                before = ()  # it counts what the number before counts
            beside = {item.unit, *(word.stem for word in before)} - {""}
            if item.unit in ("x", OFTEN):
                beside.update(word.stem for word in words_of(text[item.end : item.end + 40])[1:2])
            shares = {name: (len(beside & words), len(beside & words) / len(words)) for name, words in names.items()}
            most = max(shares.values(), default=(0, 0.0))
            owners = frozenset(name for name, share in shares.items() if share == most and share[0])
            if not owners and out and _JOIN.fullmatch(text[out[-1][0].end : item.start]):
                owners = out[-1][1]
            out.append((item, owners))
        return out

    def filled(self, tool: str, steps: Steps) -> bool:
        """Whether a list or object must have something in it: it is required, and its schema does not say that it may
        be empty (minItems or minProperties 0)."""
        spec = self._tools.get(tool)
        found = self._schema(spec, steps[1:]) if spec is not None and len(steps) > 1 else None
        if found is None or not found[2]:
            return False
        schema = found[1]
        listed = "array" in kinds(schema)
        return schema.get("minItems" if listed else "minProperties") != 0 and (listed or bool(schema.get("properties")))

    def owed(self, tool: str, steps: Steps, items: Sequence[str]) -> bool:
        """Whether the request goes on with a series of an enum's values of which a list, with these items as JSON text,
        has the beginning: "Egypt, Rome and the dinosaurs"; for objects, of a required property's values."""
        spec = self._tools.get(tool)
        found = self._schema(spec, steps[1:]) if spec is not None and len(steps) > 1 else None
        if spec is None or found is None or not found[2]:
            return False
        inside = shape(found[1].get("items"), spec.schema or {})
        most = found[1].get("maxItems")
        if isinstance(most, int) and len(items) >= most:
            return False
        known = inside.get("properties")
        keys = required_names(inside) if isinstance(known, Mapping) else ()
        enums = [(None, inside)] if "enum" in inside else [(key, shape(known[key], spec.schema or {})) for key in keys]  # type: ignore[index]
        return any(self._goes_on(schema["enum"], _values(items, key)) for key, schema in enums if "enum" in schema)

    def _goes_on(self, options: object, taken: Sequence[object]) -> bool:
        """Whether one of the options that is not taken follows in the request, within a few words, one that is."""
        text, spots = fold(self.meant.text), []
        for option in options if isinstance(options, list) else ():
            if isinstance(option, str) and option:
                words = re.escape(fold(option.replace("_", " ")))
                spots += [(m.start(), m.end(), option) for m in re.finditer(rf"(?<!\w){words}s?(?!\w)", text)]
        spots.sort()
        return any(
            (before[2] in taken) != (after[2] in taken) and _ROW.fullmatch(text[before[1] : after[0]]) is not None
            for before, after in zip(spots, spots[1:], strict=False)
        )

    @cached_property
    def _days(self) -> list[Named]:
        return named_days(self.meant.text, today_of(self.evidence.facts))

    def _texts(self, name: str, schema: Schema, used: set[str]) -> list[str]:
        """Days, times and addresses for arguments that are one."""
        form, text = schema.get("format"), self.meant.text
        if form == "email":
            return [json.dumps(found.rstrip(".")) for found in _EMAIL.findall(text)]
        if form == "date-time":
            times = clock_times(text)
            return [f'"{item.day.isoformat()}T{h:02}:{m:02}"' for item in self._days for h, m in sorted(times)]
        if form == "time":
            return [f'"{hour:02}:{minute:02}"' for hour, minute in sorted(clock_times(text))]
        if form == "date" or (is_date(name, schema) and wants_iso(schema)):
            days = {day for item in self._days for day in item.options}
            return [f'"{day.isoformat()}"' for day in sorted(days)]
        if "enum" not in schema and {*name_words(name)[-1:]} & _IDS:
            codes = [json.dumps(code) for code in self._codes]
            return [code for code in codes if code not in used] or codes
        return []

    @cached_property
    def _codes(self) -> list[str]:
        """Words of the request that have a digit and are neither a count, nor a day, nor a time of day."""
        text, out = self.meant.text, []
        counted = [
            item
            for item in self.meant.countable
            if len(item.written) < 3 or (len(item.written) < 5 and telling([item.unit]) - {""})
        ]
        spans = [(item.start, item.end) for item in counted] + [(day.start, day.end) for day in self._days]
        covered = mask(len(text), [*spans, *clock_spans(text)])
        for match in re.finditer(r"(?<![\w@.-])(?=[\w./-]*\d)[A-Za-z0-9][\w./-]*\w(?![\w@])", text):
            if not any(covered[match.start() : match.end()]) and not re.fullmatch(
                r"\d+(?:st|nd|rd|th)|\d+[.,]\d+", match.group()
            ):
                out.append(match.group())
        return list(dict.fromkeys(out))


def _values(items: Sequence[str], key: str | None) -> list[object]:
    """Items given as JSON text, or what each has at a key."""
    out: list[object] = []
    for item in items:
        try:
            value = json.loads(item)
        except ValueError:
            continue
        out.append(value if key is None else value.get(key) if isinstance(value, dict) else None)
    return out


def _number_names(tool: ToolSpec) -> list[str]:
    """The names of all arguments of a tool that are numbers, at any depth."""
    out: list[str] = []
    root = tool.schema or {}

    def walk(name: str, schema: Schema, depth: int) -> None:
        if kinds(schema) & {"integer", "number"}:
            out.append(name)
        inside = schema.get("properties")
        if isinstance(inside, Mapping) and depth:
            for key, item in inside.items():
                walk(key, shape(item, root), depth - 1)
        if "items" in schema and depth:
            walk(name, shape(schema["items"], root), depth - 1)

    for key in properties(tool):
        walk(key, property_schema(tool, key), 4)
    return out


def _converted(item: Quantity, unit: str, schema: Schema) -> float | None:
    """A quantity as the argument counts; None if it counts something else."""
    mine, wanted = dimension(item.unit), dimension(unit)
    if mine and wanted:
        return round(item.converted(unit), 9) if mine == wanted else None
    most = schema.get("maximum")
    if item.unit in ("percent", "pct") and isinstance(most, (int, float)) and most <= 1:
        return item.value / 100
    return item.value
