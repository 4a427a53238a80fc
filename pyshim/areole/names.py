"""The names a model sees: tool and property names in snake_case, and the way back to the caller's own.

Owns the conversion, what happens when two names become one, and which parts of a JSON Schema hold property names.
Text outside names is never touched: enum values, descriptions, definitions and unknown keywords stay as written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from .errors import CallParseError
from .jsontext import Array, Node, Object, Text

_WORD_END = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_OTHER = re.compile(r"[^a-z0-9]+")

ONE_SCHEMA = frozenset(
    {"items", "contains", "additionalProperties", "unevaluatedProperties", "propertyNames", "not", "if", "then", "else"}
)
"""Keywords whose value is a schema."""
MANY_SCHEMAS = frozenset({"prefixItems", "anyOf", "oneOf", "allOf"})
"""Keywords whose value is a list of schemas."""
KEYWORDS = frozenset(
    {
        *("$schema", "$id", "$ref", "$defs", "definitions", "type", "title", "description", "default", "examples"),
        *("enum", "const", "format", "pattern", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum"),
        *("exclusiveMaximum", "multipleOf", "minItems", "maxItems", "uniqueItems", "properties", "required"),
        *("patternProperties", "dependentRequired", "dependentSchemas", *ONE_SCHEMA, *MANY_SCHEMAS),
    }
)
"""What is not a property where `parameters` is a bare map of properties instead of a schema with `properties`."""


def snake_case(name: str) -> str:
    """The name as the model sees it. A name outside ASCII, or of which nothing would be left, stays as it is.

    Words part before a capital that follows a small letter or digit, and before the last capital of a run that a small
    letter follows; all else that is no letter or digit becomes one underscore, none at the ends.
    """
    if not name.isascii():
        return name
    return _OTHER.sub("_", _WORD_END.sub("_", name).lower()).strip("_") or name


def exposed_tools(names: Iterable[str]) -> dict[str, str]:
    """Tool name -> what the model sees. Different names that become one all get a number, in alphabetical order:
    `setLights` and `set_lights` are `set_lights__1` and `set_lights__2`."""
    groups: dict[str, set[str]] = {}
    for name in names:
        groups.setdefault(snake_case(name), set()).add(name)
    table = {}
    for snake, group in groups.items():
        for number, name in enumerate(sorted(group), 1):
            table[name] = f"{snake}__{number}" if len(group) > 1 else snake
    return table


def exposed_properties(names: Iterable[str]) -> dict[str, str]:
    """Property name -> what the model sees, for the properties of one object. Where different names become one, the
    first keeps it and the others are numbered from 2 in their order."""
    table: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        if name in table:
            continue
        snake = snake_case(name)
        exposed, number = snake, 1
        while exposed in taken:
            number += 1
            exposed = f"{snake}__{number}"
        taken.add(exposed)
        table[name] = exposed
    return table


@dataclass(frozen=True)
class Names:
    """The way back for the arguments of one schema: exposed property -> (original, the names inside its value)."""

    properties: Mapping[str, tuple[str, Names]] = field(default_factory=dict)
    items: Names | None = None
    prefix: tuple[Names, ...] = ()
    others: Names | None = None

    def restore(self, value: object, path: str = "") -> object:
        """`value` with the caller's property names. CallParseError where two arguments would get the same name."""
        if isinstance(value, list):
            inside = [*self.prefix, *[self.items or NO_NAMES] * max(0, len(value) - len(self.prefix))]
            pairs = zip(inside, value, strict=False)
            return [names.restore(item, f"{path}[{at}]") for at, (names, item) in enumerate(pairs)]
        if not isinstance(value, dict):
            return value
        out: dict[str, object] = {}
        for key, item in value.items():
            original, names = self.properties.get(key, (key, self.others or NO_NAMES))
            where = f"{path}.{original}" if path else original
            if original in out:
                raise CallParseError("call_unparsable", f"the argument {where} is given twice", where=where)
            out[original] = names.restore(item, where)
        return out

    def expose(self, value: object) -> object:
        """The other way: `value` with the names that the model sees. Names that the schema does not have stay."""
        if isinstance(value, list):
            inside = [*self.prefix, *[self.items or NO_NAMES] * max(0, len(value) - len(self.prefix))]
            return [names.expose(item) for names, item in zip(inside, value, strict=False)]
        if not isinstance(value, dict):
            return value
        table = {original: (exposed, names) for exposed, (original, names) in self.properties.items()}
        out: dict[str, object] = {}
        for key, item in value.items():
            exposed, names = table.get(key, (key, self.others or NO_NAMES))
            out[exposed] = names.expose(item)
        return out

    def merged(self, other: Names) -> Names:
        """Both in one; where they differ about a name, this one counts."""
        if other in (NO_NAMES, self):
            return self
        properties = {**other.properties, **self.properties}
        for key in self.properties.keys() & other.properties.keys():
            (original, mine), (_, theirs) = self.properties[key], other.properties[key]
            properties[key] = original, mine.merged(theirs)
        longer, shorter = sorted((self.prefix, other.prefix), key=len, reverse=True)
        prefix = tuple(a.merged(b) for a, b in zip(longer, shorter, strict=False)) + longer[len(shorter) :]
        return Names(properties, _either(self.items, other.items), prefix, _either(self.others, other.others))


NO_NAMES = Names()


def _either(one: Names | None, other: Names | None) -> Names | None:
    return one.merged(other) if one is not None and other is not None else one if one is not None else other


def expose_parameters(node: Node) -> tuple[Node, Names]:
    """A tool's `parameters` as the model sees them, and the way back."""
    return expose_schema(node, bare=isinstance(node, Object) and not isinstance(node.first("properties"), Object))


def expose_schema(node: Node, bare: bool = False) -> tuple[Node, Names]:
    """A JSON Schema with exposed property names, and the way back. `bare`: its own keys are the properties, but for
    JSON Schema's keywords. Definitions (`$defs`) stay as written, so what a `$ref` names keeps its names."""
    if not isinstance(node, Object):
        return node, NO_NAMES
    own = node.first("properties")
    if bare:
        table = exposed_properties(key for key, _ in node.members if key not in KEYWORDS)
    else:
        table = exposed_properties(key for key, _ in own.members) if isinstance(own, Object) else {}
    properties: dict[str, tuple[str, Names]] = {}
    names = NO_NAMES

    def property_of(key: str, value: Node) -> tuple[str, Node]:
        inner, inside = expose_schema(value)
        properties.setdefault(table[key], (key, inside))
        return table[key], inner

    def renamed(value: Node) -> Node:
        if not isinstance(value, Array):
            return value
        return Array(tuple(Text(table.get(i.value, i.value)) if isinstance(i, Text) else i for i in value.items))

    seen: set[str] = set()
    members: list[tuple[str, Node]] = []
    for key, value in node.members:
        again = key in seen
        seen.add(key)
        if bare and key not in KEYWORDS:
            key, value = property_of(key, value)
        elif key == "properties" and isinstance(value, Object) and not again and not bare:
            value = Object(tuple(property_of(*member) for member in value.members))
        elif key == "required" and not again:
            value = renamed(value)
        elif key == "dependentRequired" and isinstance(value, Object):
            value = Object(tuple((table.get(k, k), renamed(v)) for k, v in value.members))
        elif key == "dependentSchemas" and isinstance(value, Object):
            parts = [(table.get(k, k), *expose_schema(v)) for k, v in value.members]
            value = Object(tuple((k, v) for k, v, _ in parts))
            for _, _, inside in parts:
                names = names.merged(inside)
        elif key in ONE_SCHEMA:
            value, inside = expose_schema(value)
            names = names.merged(_placed(key, inside))
        elif key in MANY_SCHEMAS and isinstance(value, Array):
            pairs = [expose_schema(item) for item in value.items]
            value = Array(tuple(v for v, _ in pairs))
            if key == "prefixItems":
                names = names.merged(Names(prefix=tuple(n for _, n in pairs)))
            else:
                for _, inside in pairs:
                    names = names.merged(inside)
        members.append((key, value))
    return Object(tuple(members)), Names(properties).merged(names)


def _placed(key: str, inside: Names) -> Names:
    """The names of a keyword's schema, where they apply: to an array's items, to further properties, or right here."""
    if inside == NO_NAMES or key == "propertyNames":
        return NO_NAMES
    if key in ("items", "contains"):
        return Names(items=inside)
    if key in ("additionalProperties", "unevaluatedProperties"):
        return Names(others=inside)
    return inside
