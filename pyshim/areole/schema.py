"""A JSON Schema as a small tree of shapes that a grammar can be made of.

Owns which keywords are understood (KEYWORDS, the table behind docs/schema.md), references, and what several schemas at
one place mean together. Fails closed: a keyword that cannot be enforced is refused by name, with its place and what to
do, because an answer that silently broke a rule would be worse than none. Only `strict=False`, for comparison with the
official engine, drops what it does not know and keeps a list of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import gcd, lcm
from typing import Literal, NoReturn

from .errors import SchemaError
from .names import KEYWORDS as NO_PROPERTIES
from .numbers import Bounds, Digits, exact
from .regex import FORMATS, Regex, RegexError, Regexes, escape

MAX_RECURSION = 6
"""How often a definition may occur inside itself in one answer; deeper, its optional parts are left out."""
ANY_DEPTH = 6
"""Objects and arrays within each other in a value about which the schema says nothing."""
MAX_LEAST = 2_000
"""The most that a minimal length or count may ask for; no answer has room for more."""
MAX_OPTIONS = 256
"""Alternatives at one place, after schemas were combined."""

Support = Literal["enforced", "refused", "no rule"]

KEYWORDS: dict[str, tuple[Support, str]] = {
    "type": ("enforced", "One type or a list; `float` is read as `number` and `int` as `integer`."),
    "enum": ("enforced", "Values that break another rule of the same schema are left out."),
    "const": ("enforced", "As an enum of one value."),
    "nullable": ("enforced", "`true` allows null as well."),
    "minimum": ("enforced", "Only digits of numbers in range can be written."),
    "maximum": ("enforced", "Only digits of numbers in range can be written."),
    "exclusiveMinimum": ("enforced", "A number; `true` beside `minimum`, as in older drafts, is read as such."),
    "exclusiveMaximum": ("enforced", "A number; `true` beside `maximum`, as in older drafts, is read as such."),
    "multipleOf": ("enforced", "Exactly, in decimal: 0.3 is a multiple of 0.1."),
    "minLength": ("enforced", "In characters."),
    "maxLength": ("enforced", "In characters."),
    "pattern": ("enforced", "ECMA 262 without look-around, back references, word boundaries, inner anchors, `\\p`."),
    "format": ("enforced", "See the list of formats; a format that is not on it is refused."),
    "properties": ("enforced", "In any order, each at most once."),
    "required": ("enforced", "A name that is not among the properties is one with any value."),
    "additionalProperties": ("enforced", "Left out beside `properties`, it counts as `false`."),
    "minProperties": ("enforced", ""),
    "maxProperties": ("enforced", ""),
    "items": ("enforced", ""),
    "prefixItems": ("enforced", "Not together with `uniqueItems`."),
    "minItems": ("enforced", ""),
    "maxItems": ("enforced", ""),
    "uniqueItems": ("enforced", "The items' numbers and objects are then written in one form only."),
    "anyOf": ("enforced", ""),
    "oneOf": ("enforced", "Where it is certain that no two branches hold at once; refused otherwise."),
    "allOf": ("enforced", "The rules of all branches together."),
    "$ref": ("enforced", f"Within the tool's parameters; a definition at most {MAX_RECURSION} times within itself."),
    "$defs": ("enforced", "Where references point to."),
    "definitions": ("enforced", "Where references point to."),
    "not": ("refused", "Say what is allowed instead."),
    "if": ("refused", "Use anyOf with one branch for each case."),
    "then": ("refused", "Use anyOf with one branch for each case."),
    "else": ("refused", "Use anyOf with one branch for each case."),
    "contains": ("refused", "Give the rule for all items."),
    "minContains": ("refused", "Give the rule for all items."),
    "maxContains": ("refused", "Give the rule for all items."),
    "additionalItems": ("refused", "Use prefixItems and items."),
    "unevaluatedItems": ("refused", "Use items."),
    "unevaluatedProperties": ("refused", "Use additionalProperties."),
    "patternProperties": ("refused", "Name the properties, or use additionalProperties."),
    "propertyNames": ("refused", "Name the properties."),
    "dependencies": ("refused", "Use anyOf with one branch for each case."),
    "dependentRequired": ("refused", "Use anyOf with one branch for each case."),
    "dependentSchemas": ("refused", "Use anyOf with one branch for each case."),
    "contentSchema": ("refused", "Declare the value itself instead of its text."),
    "$dynamicRef": ("refused", "Use $ref."),
    "$recursiveRef": ("refused", "Use $ref."),
    "$dynamicAnchor": ("refused", "Use $defs and $ref."),
    "$recursiveAnchor": ("refused", "Use $defs and $ref."),
    "$anchor": ("refused", "Use $defs and $ref."),
    "$vocabulary": ("refused", "Leave it out."),
    **{
        name: ("no rule", "")
        for name in (
            *("title", "description", "default", "examples", "example", "deprecated", "readOnly", "writeOnly"),
            *("$schema", "$id", "$comment", "contentEncoding", "contentMediaType", "discriminator", "xml"),
            *("externalDocs", "strict"),
        )
    },
}
"""Keyword -> whether it is enforced while the answer is written, refused when tools are declared, or no rule at all;
and a remark, for a refused one what to do. Nothing is checked only afterwards. Names with `x-` are no rule either."""

FREE_FORMATS = frozenset({"float", "double", "password", "byte", "binary", "decimal"})
"""Formats that say how a value is stored and not what it may be."""
INTEGER_FORMATS = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}

TYPES = ("string", "number", "integer", "boolean", "null", "object", "array")
ALIASES = {"float": "number", "int": "integer"}
_STRINGS = {"minLength", "maxLength", "pattern", "format"}
_NUMBERS = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
_OBJECTS = {"properties", "required", "additionalProperties", "minProperties", "maxProperties"}
_ARRAYS = {"items", "prefixItems", "minItems", "maxItems", "uniqueItems"}
_PLAIN_KEYS = frozenset({"type", "title", "description", "default", "examples"})
_COMBINED = {"$ref", "allOf", "anyOf", "oneOf", "enum", "const", "nullable"}
_MISSING = object()


@dataclass(frozen=True, eq=False)
class Never:
    """No value."""

    why: str = "no value is left that all rules allow"


@dataclass(frozen=True, eq=False)
class Anything:
    """Any JSON value."""


@dataclass(frozen=True, eq=False)
class Values:
    """One of some values, as compact JSON texts."""

    texts: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class String:
    least: int = 0
    most: int | None = None
    patterns: tuple[str, ...] = ()

    @property
    def free(self) -> bool:
        return not self.least and self.most is None and not self.patterns


@dataclass(frozen=True, eq=False)
class Number:
    bounds: Bounds


@dataclass(frozen=True, eq=False)
class Array:
    items: Node
    prefix: tuple[Node, ...] = ()
    least: int = 0
    most: int | None = None
    unique: bool = False


@dataclass(frozen=True, eq=False)
class Record:
    """An object. `others`: what further properties hold; None if the schema does not say, which allows none."""

    properties: Mapping[str, Node]
    required: tuple[str, ...] = ()
    others: Node | None = None
    least: int = 0
    most: int | None = None


@dataclass(frozen=True, eq=False)
class Union:
    options: tuple[Node, ...]


Node = Never | Anything | Values | String | Number | Array | Record | Union

NEVER, ANYTHING = Never(), Anything()
LOOSE = Anything()
"""What further properties of an object hold about which nothing at all is said."""
NULL, BOOLEAN = Values(("null",)), Values(("true", "false"))


_PLAIN: dict[str, Node] = {
    "string": String(),
    "number": Number(Bounds(False)),
    "float": Number(Bounds(False)),
    "integer": Number(Bounds(True)),
    "int": Number(Bounds(True)),
    "boolean": BOOLEAN,
    "null": NULL,
}
"""Schemas without a rule but their type, which most are."""


def text_of(value: object) -> str:
    """Compact JSON text of a value, in the one form in which the grammar writes it; ValueError for lone surrogates."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    text.encode("utf-8")
    return text


def union(options: Iterable[Node], why: str = "") -> Node:
    """One of them; what cannot be is left out, values are put together."""
    flat: list[Node] = []
    for option in options:
        flat += option.options if isinstance(option, Union) else (option,)
    reasons = [option.why for option in flat if isinstance(option, Never)]
    if any(isinstance(option, Anything) for option in flat):
        return ANYTHING
    texts = dict.fromkeys(text for option in flat if isinstance(option, Values) for text in option.texts)
    rest: list[Node] = [option for option in flat if not isinstance(option, (Never, Values))]
    if texts:
        rest.append(Values(tuple(texts)))
    if not rest:
        return Never(reasons[0]) if reasons else Never(why or NEVER.why)
    return rest[0] if len(rest) == 1 else Union(tuple(rest))


class Reader:
    """Reads the schemas of one tool. `where` begins each path; `problems` is what strict=False passed over."""

    def __init__(self, root: object, where: str, regexes: Regexes, *, strict: bool = True) -> None:
        self.root, self.where, self.regexes, self.strict = root, where, regexes, strict
        self.problems: list[SchemaError] = []
        self._references: dict[tuple[str, int], Node] = {}
        self._cyclic: dict[str, bool] = {}
        self._bounds: dict[Bounds, bool] = {}
        self.uniques: list[tuple[str, Array]] = []

    def parameters(self) -> Node:
        """The shape of a call's arguments. Without a schema, any object; a map without `properties` is one of them."""
        schema = self.root
        if schema is None:
            return Record({}, others=ANYTHING)
        if not isinstance(schema, Mapping):
            self._reject("", "parameters", "is no object", "Give a JSON Schema of type object.")
        bare = {key: value for key, value in schema.items() if key not in NO_PROPERTIES}
        if bare and not isinstance(schema.get("properties"), Mapping):
            schema = {**{key: value for key, value in schema.items() if key not in bare}, "properties": bare}
        if not {"type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const"} & schema.keys():
            schema = {"type": "object", **schema}
        node = self.read(schema, "", MAX_RECURSION)
        if isinstance(node, Anything):
            return Record({}, others=ANYTHING)
        options = node.options if isinstance(node, Union) else (node,)
        node = union(_objects(option) for option in options)
        if isinstance(node, Never):
            self._reject("", "parameters", f"cannot be satisfied: {node.why}", "Correct the rules that contradict.")
        return node

    def _reject(self, path: str, keyword: str, what: str, do: str) -> NoReturn:
        place = f"{self.where}{path}"
        raise SchemaError(
            "tools_schema", f"{place}: {keyword} {what}. {do}", path=place, keyword=keyword, what=what, do=do
        )

    def _note(self, path: str, keyword: str, what: str, do: str) -> None:
        """Refuses, or where the reader is not strict, remembers and goes on."""
        try:
            self._reject(path, keyword, what, do)
        except SchemaError as error:
            if self.strict:
                raise
            self.problems.append(error)

    def read(self, schema: object, path: str, depth: int) -> Node:
        """The shape of a schema at `path`; `depth` is how many more times definitions may occur within themselves."""
        if schema is True:
            return ANYTHING
        if schema is False:
            return NEVER
        if not isinstance(schema, Mapping):
            self._note(path, "schema", f"is {text_of(schema)[:60]}", "A schema is an object, true or false.")
            return ANYTHING
        if _PLAIN_KEYS.issuperset(schema) and isinstance(schema.get("type"), str):
            plain = _PLAIN.get(schema["type"])
            if plain is not None:
                return plain
        for key in schema:
            support, remark = KEYWORDS.get(key, ("refused", "It is no keyword of JSON Schema; leave it out."))
            if support == "refused" and not key.startswith("x-"):
                self._note(path, key, "is not supported", remark)
        if not _COMBINED & schema.keys():
            return self._own(schema, path, depth) or ANYTHING
        parts: list[Node] = []
        reference = schema.get("$ref")
        if reference is not None:
            parts.append(self._reference(reference, path, depth))
        own = self._own(schema, path, depth)
        if own is not None:
            parts.append(own)
        for place, inner in enumerate(self._list(schema, "allOf", path)):
            parts.append(self.read(inner, f"{path}.allOf[{place}]", depth))
        for key in ("anyOf", "oneOf"):
            branches = [self.read(s, f"{path}.{key}[{i}]", depth) for i, s in enumerate(self._list(schema, key, path))]
            if key == "oneOf" and len(branches) > 1:
                self._disjoint(branches, path)
            if branches:
                parts.append(union(branches))
        node: Node = ANYTHING
        for part in parts:
            node = self._meet(node, part, path)
        listed = self._listed(schema, path)
        if listed is not None:
            node = self._meet(node, listed, path)
        return union((node, NULL)) if schema.get("nullable") is True and not isinstance(node, Anything) else node

    def _list(self, schema: Mapping[str, object], key: str, path: str) -> list[object]:
        value = schema.get(key)
        if value is None and key not in schema:
            return []
        if not isinstance(value, list) or not value:
            self._note(path, key, "is no filled list", "Give a list of schemas.")
            return []
        return value

    def _reference(self, pointer: object, path: str, depth: int) -> Node:
        target = self._target(pointer)
        if target is _MISSING or not isinstance(pointer, str):
            self._note(path, "$ref", f"points to {text_of(pointer)}, which is not there", 'Use "#/$defs/NAME".')
            return ANYTHING
        if self._recursive(pointer):
            depth -= 1
        if depth < 0:
            return Never(f"the definition {pointer} has to occur within itself without end")
        key = pointer, depth
        if key not in self._references:
            self._references[key] = self.read(target, f"->{pointer}", depth)
        return self._references[key]

    def _target(self, pointer: object) -> object:
        if not isinstance(pointer, str) or not (pointer == "#" or pointer.startswith("#/")):
            return _MISSING
        value = self.root
        for step in pointer.split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            if isinstance(value, Mapping) and step in value:
                value = value[step]
            elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
                value = value[int(step)]
            else:
                return _MISSING
        return value

    def _recursive(self, pointer: str) -> bool:
        """Whether a definition can occur within itself."""
        if pointer not in self._cyclic:
            seen: set[str] = set()
            waiting = [pointer]
            while waiting and pointer not in seen:
                for found in _pointers(self._target(waiting.pop())):
                    if found not in seen:
                        seen.add(found)
                        waiting.append(found)
            self._cyclic[pointer] = pointer in seen
        return self._cyclic[pointer]

    def _own(self, schema: Mapping[str, object], path: str, depth: int) -> Node | None:
        """What the schema's own keywords say; None if nothing."""
        named = schema.get("type")
        if named is None:
            kinds = [
                kind
                for kind, keys in (("string", _STRINGS), ("number", _NUMBERS), ("object", _OBJECTS), ("array", _ARRAYS))
                if keys & schema.keys()
            ]
            if not kinds:
                return None
            if {"enum", "const"} & schema.keys():
                kinds = ["string", "number", "object", "array", "boolean", "null"]  # each rule is for its own type only
        else:
            kinds = []
            for kind in named if isinstance(named, list) else [named]:
                kind = ALIASES.get(kind, kind) if isinstance(kind, str) else kind
                if kind in TYPES:
                    kinds.append(kind)
                else:
                    self._note(path, "type", f"is {text_of(kind)}", f"Use one of {', '.join(TYPES)}.")
            if not kinds:
                return None
        options: list[Node] = []
        for kind in dict.fromkeys(kinds):
            if kind == "string":
                options.append(self._string(schema, path))
            elif kind in ("number", "integer"):
                if kind == "number" or "number" not in kinds:
                    options.append(self._number(schema, path, kind == "integer"))
            elif kind == "object":
                options.append(self._record(schema, path, depth))
            elif kind == "array":
                options.append(self._array(schema, path, depth))
            else:
                options.append(NULL if kind == "null" else BOOLEAN)
        return union(options)

    def _count(self, schema: Mapping[str, object], key: str, path: str) -> int | None:
        value = schema.get(key)
        if value is None:
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if (
            not isinstance(value, int)
            or isinstance(value, bool)
            or not 0 <= value <= (MAX_LEAST if key.startswith("min") else value)
        ):
            do = f"Give a whole number, a least one up to {MAX_LEAST}."
            self._note(path, key, f"is {text_of(value)[:60]}", do)
            return None
        return value

    def _string(self, schema: Mapping[str, object], path: str) -> Node:
        patterns: list[str] = []
        pattern = schema.get("pattern")
        if pattern is not None:
            try:
                self.regexes.pattern(pattern if isinstance(pattern, str) else "\\")
                patterns.append(str(pattern))
            except RegexError as error:
                self._note(path, "pattern", f"{text_of(pattern)[:80]} {error}", "Use a plain pattern.")
        form = schema.get("format")
        if isinstance(form, str) and form in FORMATS:
            patterns.append(FORMATS[form])
        elif form is not None and form not in FREE_FORMATS:
            known = ", ".join(FORMATS)
            self._note(path, "format", f"is {text_of(form)[:60]}", f"Known are {known}; or use pattern.")
        low, high = self._count(schema, "minLength", path), self._count(schema, "maxLength", path)
        return self._string_of(String(low or 0, high, tuple(patterns)))

    def _string_of(self, node: String) -> Node:
        if node.most is not None and node.most < node.least:
            return Never(f"a string of {node.least} to {node.most} characters")
        if node.patterns and not body(self.regexes, node).live:
            return Never("no string meets the pattern, format and length together")
        return node

    def _number(self, schema: Mapping[str, object], path: str, whole: bool) -> Node:
        values: dict[str, Fraction] = {}
        for key in _NUMBERS & schema.keys():
            value = schema[key]
            if isinstance(value, bool) and key.startswith("exclusive"):
                continue
            if not isinstance(value, (int, float)) or isinstance(value, bool) or abs(value) > 1e100:
                self._note(path, key, f"is {text_of(value)[:60]}", "Give a number up to 1e100.")
            elif key == "multipleOf" and not value > 0:
                self._note(path, key, "is not above 0", "Give a number above 0.")
            elif value and abs(value) < 1e-30:
                self._note(path, key, "has more than 30 places", "Give a number that is 0 or at least 1e-30.")
            else:
                values[key] = exact(value)
        bounds = Bounds(whole, multiple=values.get("multipleOf"))
        for key, is_open in (("minimum", schema.get("exclusiveMinimum") is True), ("exclusiveMinimum", True)):
            if key in values:
                bounds = _at_least(bounds, values[key], is_open)
        for key, is_open in (("maximum", schema.get("exclusiveMaximum") is True), ("exclusiveMaximum", True)):
            if key in values:
                bounds = _at_most(bounds, values[key], is_open)
        form = schema.get("format")
        if isinstance(form, str) and form in INTEGER_FORMATS:
            low, high = INTEGER_FORMATS[form]
            bounds = _at_most(_at_least(bounds, Fraction(low), False), Fraction(high), False)
        elif form is not None and form not in FREE_FORMATS and schema.get("type") in ("number", "integer"):
            self._note(path, "format", f"is {text_of(form)[:60]}", "Leave it out, or use minimum and maximum.")
        return self._number_of(bounds)

    def _number_of(self, bounds: Bounds) -> Node:
        if not bounds.free and bounds not in self._bounds:
            self._bounds[bounds] = Digits(bounds).start() is not None
        if not self._bounds.get(bounds, True):
            return Never("no number meets the bounds and multipleOf together")
        return Number(bounds)

    def _array(self, schema: Mapping[str, object], path: str, depth: int) -> Node:
        items = self.read(schema.get("items", True), f"{path}.items", depth)
        listed = self._list(schema, "prefixItems", path)
        prefix = [self.read(inner, f"{path}.prefixItems[{i}]", depth) for i, inner in enumerate(listed)]
        unique = schema.get("uniqueItems", False)
        if prefix and unique is True:
            self._note(path, "uniqueItems", "is not supported together with prefixItems", "Leave one of them out.")
        low, high = self._count(schema, "minItems", path), self._count(schema, "maxItems", path)
        node = _array_of(Array(items, tuple(prefix), low or 0, high, unique is True and not prefix))
        if isinstance(node, Array) and node.unique:
            self.uniques.append((path, node))
        return node

    def _record(self, schema: Mapping[str, object], path: str, depth: int) -> Node:
        given = schema.get("properties", {})
        if not isinstance(given, Mapping):
            self._note(path, "properties", "is no object", "Give an object of schemas.")
            given = {}
        properties = {str(name): self.read(inner, f"{path}.{name}", depth) for name, inner in given.items()}
        required = schema.get("required", [])
        if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
            self._note(path, "required", f"is {text_of(required)[:60]}", "Give a list of the names beside properties.")
            required = []
        if not self.strict:
            required = [name for name in required if name in properties]
        others: Node | None = None
        if "additionalProperties" in schema:
            others = self.read(schema["additionalProperties"], f"{path}.additionalProperties", depth)
        elif not _OBJECTS & schema.keys() and not {"anyOf", "oneOf", "allOf", "$ref"} & schema.keys():
            others = LOOSE
        low, high = self._count(schema, "minProperties", path), self._count(schema, "maxProperties", path)
        return _record_of(Record(properties, tuple(dict.fromkeys(required)), others, low or 0, high))

    def _listed(self, schema: Mapping[str, object], path: str) -> Node | None:
        """enum and const; numbers that are equal count once."""
        node: Node | None = None
        for key in ("enum", "const"):
            if key not in schema:
                continue
            values = schema[key] if key == "enum" else [schema[key]]
            if not isinstance(values, list) or not values:
                self._note(path, key, "is no filled list", "List the values.")
                continue
            texts: dict[object, str] = {}
            for value in values:
                try:
                    texts.setdefault(key_of(value), text_of(value))
                except ValueError:
                    self._note(path, key, "holds what JSON in UTF-8 cannot say", "Leave that value out.")
            found: Node = Values(tuple(texts.values())) if texts else NEVER
            node = found if node is None else self._meet(node, found, path)
        return node

    def _meet(self, one: Node, two: Node, path: str) -> Node:
        """What both allow."""
        if isinstance(one, (Anything, Never)):
            return two if isinstance(one, Anything) else one
        if isinstance(two, (Anything, Never)):
            return two if isinstance(two, Anything) is False else one
        if isinstance(one, Union) or isinstance(two, Union):
            lefts = one.options if isinstance(one, Union) else (one,)
            rights = two.options if isinstance(two, Union) else (two,)
            if len(lefts) * len(rights) > MAX_OPTIONS:
                self._reject(path, "allOf", "has too many combinations", f"At most {MAX_OPTIONS} may be left.")
            met = [self._meet(left, right, path) for left in lefts for right in rights]
            return union(met)
        if isinstance(one, Values) or isinstance(two, Values):
            if isinstance(one, Values):
                texts, other = one.texts, two
            else:
                texts, other = two.texts if isinstance(two, Values) else (), one
            kept = tuple(form for form in (self._form(text, other) for text in texts) if form is not None)
            return Values(kept) if kept else Never("no value of the enum or const meets the other rules")
        if isinstance(one, String) and isinstance(two, String):
            most = _least_of(one.most, two.most)
            patterns = tuple(dict.fromkeys(one.patterns + two.patterns))
            return self._string_of(String(max(one.least, two.least), most, patterns))
        if isinstance(one, Number) and isinstance(two, Number):
            return self._number_of(_both(one.bounds, two.bounds))
        if isinstance(one, Array) and isinstance(two, Array):
            size = max(len(one.prefix), len(two.prefix))
            prefix = tuple(self._meet(item_of(one, i), item_of(two, i), path) for i in range(size))
            if prefix and (one.unique or two.unique):
                self._note(path, "uniqueItems", "is not supported together with prefixItems", "Leave one out.")
            items = self._meet(one.items, two.items, path)
            least, most = max(one.least, two.least), _least_of(one.most, two.most)
            return _array_of(Array(items, prefix, least, most, (one.unique or two.unique) and not prefix))
        if isinstance(one, Record) and isinstance(two, Record):
            names = dict.fromkeys((*one.properties, *two.properties))
            properties = {name: self._meet(_property(one, name), _property(two, name), path) for name in names}
            others = two.others if one.others in (None, LOOSE) else one.others
            if one.others not in (None, LOOSE) and two.others not in (None, LOOSE):
                others = self._meet(one.others or ANYTHING, two.others or ANYTHING, path)
            required = tuple(dict.fromkeys(one.required + two.required))
            least, most = max(one.least, two.least), _least_of(one.most, two.most)
            return _record_of(Record(properties, required, others, least, most))
        return Never("two types at once")

    def _form(self, text: str, node: Node) -> str | None:
        """A listed value in the form that `node` allows; None if it does not."""
        if isinstance(node, String) and node.free:
            return text if text.startswith('"') else None
        value = json.loads(text)
        if not self.admits(node, value):
            return None
        if isinstance(node, Values):  # 1 where one says 1 and the other 1.0
            return min((text, *(t for t in node.texts if key_of(json.loads(t)) == key_of(value))), key=len)
        whole = isinstance(node, Number) and node.bounds.whole
        return text_of(int(value)) if whole and isinstance(value, float) else text

    def admits(self, node: Node, value: object) -> bool:
        """Whether a value is of that shape, with its properties in any order."""
        if isinstance(node, Anything):
            return True
        if isinstance(node, Values):
            return key_of(value) in {key_of(json.loads(text)) for text in node.texts}
        if isinstance(node, Union):
            return any(self.admits(option, value) for option in node.options)
        if isinstance(node, String):
            if not isinstance(value, str):
                return False
            return self.regexes.matches(body(self.regexes, node), b"".join(escape(c) for c in value))
        if isinstance(node, Number):
            return isinstance(value, (int, float)) and not isinstance(value, bool) and node.bounds.holds(exact(value))
        if isinstance(node, Array):
            if (
                not isinstance(value, list)
                or len(value) < node.least
                or (node.most is not None and len(value) > node.most)
            ):
                return False
            if node.unique and len({key_of(item) for item in value}) < len(value):
                return False
            return all(self.admits(item_of(node, place), item) for place, item in enumerate(value))
        if isinstance(node, Record):
            if not isinstance(value, dict) or not set(node.required) <= value.keys():
                return False
            if not _counts(node, len(value)):
                return False
            return all(self.admits(_property(node, name), item) for name, item in value.items())
        return False

    def _disjoint(self, branches: Sequence[Node], path: str) -> None:
        for place, one in enumerate(branches):
            for other, two in enumerate(branches[:place]):
                if not (self.excludes(one, two) and self.excludes(two, one)):
                    self._note(
                        path, "oneOf", f"has branches {other} and {place} that may hold at once",
                        "Use anyOf, or give each branch a required property with a const of its own.",
                    )  # fmt: skip

    def excludes(self, one: Node, two: Node) -> bool:
        """Whether it is certain that no value written for `one` is also right for `two`."""
        if isinstance(one, Never) or isinstance(two, Never):
            return True
        if isinstance(one, Anything) or isinstance(two, Anything):
            return False
        if isinstance(one, Union):
            return all(self.excludes(option, two) for option in one.options)
        if isinstance(two, Union):
            return all(self.excludes(one, option) for option in two.options)
        if isinstance(one, Values):
            return not any(self.admits(two, json.loads(text)) for text in one.texts)
        if isinstance(two, Values):
            return not any(self.admits(one, json.loads(text)) for text in two.texts)
        if isinstance(one, Array) and isinstance(two, Array):
            return self._arrays_exclude(one, two)
        if not isinstance(one, Record) or not isinstance(two, Record):
            return isinstance(self._meet(one, two, ""), Never)
        if _closed(one) and any(name not in one.properties for name in two.required):
            return True
        if isinstance(two.others, Never) and any(name not in two.properties for name in one.required):
            return True
        return any(
            name in one.properties
            and name in two.properties
            and self.excludes(one.properties[name], two.properties[name])
            for name in one.required
        )

    def _arrays_exclude(self, one: Array, two: Array) -> bool:
        if (one.most is not None and one.most < two.least) or (two.most is not None and two.most < one.least):
            return True
        return one.least > 0 and self.excludes(item_of(one, 0), item_of(two, 0))


def body(regexes: Regexes, node: String) -> Regex:
    """What may stand between a string's quotes."""
    parts = [regexes.pattern(pattern) for pattern in node.patterns]
    if node.least or node.most is not None or not parts:
        parts.append(regexes.repeat(regexes.any, node.least, node.most))
    return regexes.both(*parts)


def _objects(node: Node) -> Node:
    """What of a shape is an object."""
    if isinstance(node, Values):
        texts = tuple(text for text in node.texts if text.startswith("{"))
        return Values(texts) if texts else Never("arguments are an object")
    return node if isinstance(node, (Record, Never)) else Never("arguments are an object")


def item_of(node: Array, place: int) -> Node:
    """The shape of an array's item."""
    return node.prefix[place] if place < len(node.prefix) else node.items


def _property(node: Record, name: str) -> Node:
    """The shape of a property, declared or not."""
    return node.properties.get(name) or node.others or ANYTHING


def _counts(node: Array | Record, count: int) -> bool:
    return count >= node.least and (node.most is None or count <= node.most)


def _closed(node: Record) -> bool:
    """Whether nothing but its properties is written for it."""
    return node.others is None or isinstance(node.others, Never)


def _array_of(node: Array) -> Node:
    most = node.most
    for place, item in enumerate(node.prefix):
        if isinstance(item, Never):
            most = _least_of(most, place)
    if isinstance(node.items, Never):
        most = _least_of(most, len(node.prefix))
    if most is not None and most < node.least:
        return Never(f"an array of {node.least} items where at most {most} are possible")
    return replace(node, most=most)


def _record_of(node: Record) -> Node:
    properties = {**node.properties, **{n: _property(node, n) for n in node.required if n not in node.properties}}
    for name in node.required:
        found = properties[name]
        if isinstance(found, Never):
            return Never(f"the required property {name} can have no value: {found.why}")
    possible = sum(not isinstance(inner, Never) for inner in properties.values())
    if node.most is not None and max(node.least, len(node.required)) > node.most:
        return Never(f"an object of at most {node.most} properties that needs more")
    if _closed(node) and node.least > possible:
        return Never(f"an object of {node.least} properties where {possible} are possible")
    return replace(node, properties=properties)


def key_of(value: object) -> object:
    """Equal for values that JSON Schema calls equal, and hashable: 1 and 1.0 are, 1 and true are not."""
    if isinstance(value, dict):
        return "object", frozenset((name, key_of(item)) for name, item in value.items())
    if isinstance(value, list):
        return "array", tuple(key_of(item) for item in value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return "number", exact(value)
    return type(value).__name__, value


def _pointers(value: object) -> list[str]:
    """Every reference within a schema."""
    out: list[str] = []
    waiting = [value]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, Mapping):
            pointer = inner.get("$ref")
            out += [pointer] if isinstance(pointer, str) else []
            waiting += inner.values()
        elif isinstance(inner, list):
            waiting += inner
    return out


def _least_of(one: int | None, two: int | None) -> int | None:
    return two if one is None else one if two is None else min(one, two)


def _at_least(bounds: Bounds, value: Fraction, is_open: bool) -> Bounds:
    if bounds.least is None or (value, is_open) > (bounds.least, bounds.least_open):
        return replace(bounds, least=value, least_open=is_open)
    return bounds


def _at_most(bounds: Bounds, value: Fraction, is_open: bool) -> Bounds:
    if bounds.most is None or (-value, is_open) > (-bounds.most, bounds.most_open):
        return replace(bounds, most=value, most_open=is_open)
    return bounds


def _both(one: Bounds, two: Bounds) -> Bounds:
    met = replace(one, whole=one.whole or two.whole)
    if two.least is not None:
        met = _at_least(met, two.least, two.least_open)
    if two.most is not None:
        met = _at_most(met, two.most, two.most_open)
    if two.multiple is not None:
        mine = met.multiple
        met = replace(met, multiple=two.multiple if mine is None else _common_multiple(mine, two.multiple))
    return met


def _common_multiple(one: Fraction, two: Fraction) -> Fraction:
    return Fraction(lcm(one.numerator, two.numerator), gcd(one.denominator, two.denominator))
