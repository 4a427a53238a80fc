"""What the model reads: tools, system facts, user turns and tool results as text, in the form it was trained on.

Owns the rendering only; token ids are the tokenizer's business. Each function gives segments (text, trusted): the
prompt's own markers are trusted, whatever a caller or a tool wrote is not, so that it can never become a marker.
Refuses nothing: tool declarations that cannot be used are rendered as they are, declare no tool, and say why.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .errors import ToolsError
from .jsontext import Array, JsonFault, Literal, Node, Object, Text, minify, parse, to_python, write
from .names import NO_NAMES, Names, expose_parameters, exposed_tools

Segment = tuple[str, bool]
"""A piece of prompt text, and whether its markers count."""

FACTS = ("date", "locale", "device", "battery", "network", "location", "user", "assistant")
"""Keys of system facts given as a JSON object, in the order in which the model sees them."""

_DATE_LINE = "date:"
_TIMESTAMP = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})[T ]([0-9]{2}):([0-9]{2})")
_WEEKDAYS = ("Sat", "Sun", "Mon", "Tue", "Wed", "Thu", "Fri")
_TURN_END = "<|im_end|>\n"
_SHOWN = 100
_ANSWER = f"{_TURN_END}<|im_start|>assistant\n"


@dataclass(frozen=True)
class ToolSpec:
    """A declared tool. `name` is the caller's, `exposed` what the model sees; `schema` is the parameters' schema with
    exposed property names (None: any arguments), `names` the way back. `faults`: what is wrong with the declaration
    besides its schema; it is shown all the same, and grammar.compile_tools refuses it."""

    name: str
    exposed: str
    description: str = ""
    schema: Mapping[str, object] | None = None
    names: Names = NO_NAMES
    faults: tuple[ToolsError, ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class RenderedTools:
    """`text` stands between the tools markers; it may be empty. `declared` is empty when there is a `problem`."""

    text: str
    declared: tuple[ToolSpec, ...] = ()
    problem: ToolsError | None = field(default=None, compare=False)

    @property
    def malformed(self) -> bool:
        return self.problem is not None


def render_tools(tools: Sequence[object] | str) -> RenderedTools:
    """Tools as the model sees them: the caller's JSON without blanks, names in snake_case, wrappers and triggers off.

    `tools` is a list, or JSON text, which is passed on as it is: key order, repeated keys and the digits of numbers
    stay. Text that is no list of tools declares none; it is rendered unchanged but for blanks, and `problem` says what
    is wrong. Raises ToolsError("tools_json") for a list that JSON cannot say.
    """
    if not isinstance(tools, str):
        try:
            tools = json.dumps(tools, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise ToolsError(
                "tools_json", f"The tools cannot be written as JSON: {error}. Give dicts, lists, strings and numbers.",
                got=str(error), needed="a list that JSON can say",
            ) from error  # fmt: skip
    raw = minify(tools)
    if not raw:
        return RenderedTools("")
    try:
        entries = _unwrapped(parse(tools))
    except JsonFault as fault:
        return RenderedTools(raw, problem=_not_json(fault))
    except ToolsError as error:
        return RenderedTools(raw, problem=error)
    exposed = exposed_tools(name for name, _ in entries)
    rendered = []
    known: set[str] = set()
    for name, entry in entries:
        rendered.append(_render_entry(name, exposed[name], entry, repeated=name in known))
        known.add(name)
    text = write(Array(tuple(node for node, _ in rendered)))
    return RenderedTools(text, tuple(spec for _, spec in rendered))


def _not_json(fault: JsonFault) -> ToolsError:
    return ToolsError(
        "tools_json", f"The tools are not valid JSON: {fault}. Correct the text; it must be a list of tools.",
        got=fault.what, needed="a JSON list of tools", line=fault.line, column=fault.column, offset=fault.offset,
    )  # fmt: skip


def _unwrapped(node: Node) -> list[tuple[str, Object]]:
    """(name, entry) of each tool, {"type": "function", "function": {...}} taken off. ToolsError("tools_shape")."""
    if not isinstance(node, Array):
        kind = {Object: "an object", Text: "a string", Literal: "a single value"}[type(node)]
        message = f"The tools are {kind}; needed a list. Put square brackets round a single tool."
        raise ToolsError("tools_shape", message, got=kind, needed="a list")
    out = []
    for place, entry in enumerate(node.items):
        found = _unwrap(entry)
        name = found.first("name") if found is not None else None
        if found is None or not isinstance(name, Text) or not name.value:
            got = "an object without a name" if found is not None else "not an object"
            raise ToolsError(
                "tools_shape", f'Tool {place + 1} is {got}; needed an object with a "name" that is a filled string.',
                got=got, needed='an object with a "name"', tool=place,
            )  # fmt: skip
        out.append((name.value, found))
    return out


def _unwrap(entry: Node) -> Object | None:
    """The tool itself. An entry that has a name of its own is a wrapper only if its type says function."""
    if not isinstance(entry, Object):
        return None
    inner = entry.first("function")
    wrapper = entry.first("type") == Text("function") or not isinstance(entry.first("name"), Text)
    return inner if isinstance(inner, Object) and wrapper else entry


def _render_entry(name: str, exposed: str, entry: Object, *, repeated: bool) -> tuple[Object, ToolSpec]:
    members: list[tuple[str, Node]] = []
    names, schema = NO_NAMES, None
    seen: set[str] = set()
    for key, value in entry.members:
        if key == "triggers":
            continue
        if key == "name" and key not in seen:
            value = Text(exposed)
        elif key == "parameters" and key not in seen:
            value, names = expose_parameters(value)
            plain = to_python(value)
            schema = plain if isinstance(plain, dict) else None
        seen.add(key)
        members.append((key, value))
    described = entry.first("description")
    description = described.value if isinstance(described, Text) else ""
    return Object(tuple(members)), ToolSpec(name, exposed, description, schema, names, _faults(name, entry, repeated))


def _faults(name: str, entry: Object, repeated: bool) -> tuple[ToolsError, ...]:
    """What is wrong with a tool's members; null counts as absent."""
    found = []
    for key, kind, needed in (
        ("parameters", Object, 'a JSON Schema such as {"type": "object", "properties": {}}'),
        ("description", Text, "a text"),
    ):
        value = entry.first(key)
        if value is None or isinstance(value, kind) or value == Literal("null"):
            continue
        got = write(value)
        got = got if len(got) <= _SHOWN else f"{got[:_SHOWN]}..."
        found.append(ToolsError(
            "tools_shape", f"{name}: `{key}` is {got}; needed {needed}. Correct it or leave it out.",
            path=name, got=got, needed=needed,
        ))  # fmt: skip
    if repeated:
        found.append(ToolsError(
            "tools_duplicate", f"Two tools are called {name}; give one of them another name.",
            path=name, got=name, needed="a name that no other tool has",
        ))  # fmt: skip
    return tuple(found)


def system_line(system: str) -> str:
    """The system text as the model sees it; the first rule that applies:

    nothing for nothing; a JSON object with known facts (see FACTS) becomes `key: value; key: value`; text that has a
    `date:` stays; text with a timestamp becomes `date: YYYY-MM-DD Ddd HH:MM` and nothing else; other text stays.
    """
    facts = _facts(system)
    if facts is not None:
        return facts
    if _DATE_LINE in system:
        return system
    stamp = _stamp(system)
    return system if stamp is None else f"{_DATE_LINE} {stamp}"


def _facts(system: str) -> str | None:
    """A JSON object's facts as one line; None if it is no JSON object or knows no fact."""
    if not system.lstrip().startswith("{"):
        return None
    try:
        node = parse(system)
    except JsonFault:
        return None
    parts = []
    for key in FACTS:
        value = node.first(key) if isinstance(node, Object) else None
        if isinstance(value, Text):
            shown = (_stamp(value.value) if key == "date" else None) or value.value
        elif isinstance(value, Literal) and value.text != "null":
            shown = value.text
        else:
            continue
        if shown:
            parts.append(f"{key}: {shown}")
    return "; ".join(parts) or None


def _stamp(text: str) -> str | None:
    """`YYYY-MM-DD Ddd HH:MM` of the first timestamp in a text. Nothing checks that the day or the hour exists."""
    found = _TIMESTAMP.search(text)
    if found is None:
        return None
    year, month, day, hour, minute = found.groups()
    return f"{year}-{month}-{day} {_weekday(int(year), int(month), int(day))} {hour}:{minute}"


def _weekday(year: int, month: int, day: int) -> str:
    """Zeller's congruence. It is defined for days and months that no calendar has (February 30 is two days after the
    28th), and its quotients are cut towards zero, which matters for January and February of the year 0 only."""
    if month < 3:
        month, year = month + 12, year - 1
    leaps = (max(year, 0) // 4) - (max(year, 0) // 100) + (max(year, 0) // 400)
    return _WEEKDAYS[(day + 13 * (month + 1) // 5 + year + leaps) % 7]


def prefix_segments(system: str, rendered: RenderedTools, *, forgeable: bool = False) -> list[Segment]:
    """Everything before the first turn, without BOS: system facts and tools. It leaves the user's message open.

    `forgeable` lets markers in the caller's texts count, here and below, as the official engine does.
    """
    segments: list[Segment] = []
    line = system_line(system)
    if line:
        segments += [("<|im_start|>system\n", True), (line, forgeable), (_TURN_END, True)]
    segments.append(("<|im_start|>user", True))
    if rendered.text:
        segments += [("\n<tools>", True), (rendered.text, forgeable), ("</tools>", True)]
    return segments


def user_turn(text: str, first: bool, *, forgeable: bool = False) -> list[Segment]:
    """A request. The first continues the message that the prefix left open; later ones follow a closed message."""
    return [("\n" if first else "\n<|im_start|>user\n", True), (text, forgeable), (_ANSWER, True)]


def tool_result(text: str) -> str | None:
    """A tool's result as the model sees it: JSON without blanks, a lone object put into a list. None if the text is not
    exactly one JSON value: then it is what a user says."""
    try:
        node = parse(text)
    except JsonFault:
        return None
    return f"[{minify(text)}]" if isinstance(node, Object) else minify(text)


def tool_turn(result: str, *, forgeable: bool = False) -> list[Segment]:
    """The turn that gives a tool's result (see tool_result) to the model."""
    return [
        ("\n<|im_start|>tool\n<tool_result>", True),
        (result, forgeable),
        (f"</tool_result>{_ANSWER}", True),
    ]
