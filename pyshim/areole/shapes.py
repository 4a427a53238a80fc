"""From Python's type hints to JSON Schema, and from JSON values back to what the hints promise.

Both come from one place, so that what is declared to the model is what is read back. Owns which hints have a schema and
the checks of `Field`. A hint without a schema is refused with the function's and the parameter's name, never taken for
text; a value that does not fit is refused with its path. Nothing is guessed: "2" is no number, 2.0 is a whole one.
"""

from __future__ import annotations

import collections.abc as abc
import copy
import dataclasses
import datetime
import decimal
import enum
import json
import math
import pathlib
import re
import sys
import types
import typing
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from .docstrings import read_docstring
from .errors import ArgumentsError, ToolsError

Schema = dict[str, object]
Read = Callable[[object, str], object]


class Missing(enum.Enum):
    """The absence of a default."""

    MISSING = enum.auto()

    def __repr__(self) -> str:
        return "MISSING"


MISSING = Missing.MISSING

_NUMERIC, _TEXTUAL, _LISTED = {"integer", "number"}, {"string"}, {"array"}


@dataclass(frozen=True, eq=False)
class Field:
    """More about a parameter than its type says: as its default, or in `Annotated[type, Field(...)]`.

    default: what the function gets when the model leaves it out; with one, it is not required.
    The others are JSON Schema's keywords under Python's usual names; each is checked again before the function runs,
    but `format`, which is for the model.
    """

    default: object = MISSING
    _: dataclasses.KW_ONLY
    description: str | None = None
    enum: Sequence[object] | None = None
    const: object = MISSING
    ge: float | None = None
    le: float | None = None
    gt: float | None = None
    lt: float | None = None
    multiple_of: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None
    format: str | None = None
    min_items: int | None = None
    max_items: int | None = None
    unique_items: bool | None = None

    def keywords(self) -> Schema:
        """The keywords that were given, in JSON Schema's names."""
        pairs: list[tuple[str, object]] = [
            ("description", self.description), ("enum", None if self.enum is None else list(self.enum)),
            ("minimum", self.ge), ("maximum", self.le), ("exclusiveMinimum", self.gt), ("exclusiveMaximum", self.lt),
            ("multipleOf", self.multiple_of), ("minLength", self.min_length), ("maxLength", self.max_length),
            ("pattern", self.pattern), ("format", self.format), ("minItems", self.min_items),
            ("maxItems", self.max_items), ("uniqueItems", self.unique_items),
        ]  # fmt: skip
        out = {key: value for key, value in pairs if value is not None}
        if self.const is not MISSING:
            out["const"] = self.const
        return out

    def misplaced(self, kind: object) -> str | None:
        """The first keyword that says nothing about values of a JSON type; None for a type that is not one name."""
        if not isinstance(kind, str):
            return None
        needs = [
            *((key, _NUMERIC) for key in ("ge", "le", "gt", "lt", "multiple_of")),
            *((key, _TEXTUAL) for key in ("min_length", "max_length", "pattern", "format")),
            *((key, _LISTED) for key in ("min_items", "max_items", "unique_items")),
        ]
        return next((key for key, kinds in needs if getattr(self, key) is not None and kind not in kinds), None)

    def complaint(self, value: object) -> str | None:
        """What a JSON value would have to be, if it is not; None if it is fine."""
        if self.enum is not None and not any(same(value, item) for item in self.enum):
            return f"one of {_shown(list(self.enum))}"
        if self.const is not MISSING and not same(value, self.const):
            return _shown(self.const)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return self._number_complaint(value)
        if isinstance(value, str):
            return self._text_complaint(value)
        if isinstance(value, list):
            return self._list_complaint(value)
        return None

    def _number_complaint(self, value: float) -> str | None:
        if self.ge is not None and not value >= self.ge:
            return f"at least {self.ge}"
        if self.le is not None and not value <= self.le:
            return f"at most {self.le}"
        if self.gt is not None and not value > self.gt:
            return f"more than {self.gt}"
        if self.lt is not None and not value < self.lt:
            return f"less than {self.lt}"
        if self.multiple_of is not None and decimal.Decimal(str(value)) % decimal.Decimal(str(self.multiple_of)):
            return f"a multiple of {self.multiple_of}"
        return None

    def _text_complaint(self, value: str) -> str | None:
        if self.min_length is not None and len(value) < self.min_length:
            return f"at least {self.min_length} characters"
        if self.max_length is not None and len(value) > self.max_length:
            return f"at most {self.max_length} characters"
        if self.pattern is not None and not re.search(self.pattern, value):
            return f"text that matches {self.pattern}"
        return None

    def _list_complaint(self, value: list[object]) -> str | None:
        if self.min_items is not None and len(value) < self.min_items:
            return f"at least {self.min_items} items"
        if self.max_items is not None and len(value) > self.max_items:
            return f"at most {self.max_items} items"
        if self.unique_items and any(same(a, b) for at, a in enumerate(value) for b in value[:at]):
            return "no item twice"
        return None


@dataclass(frozen=True)
class Shape:
    """A hint's JSON Schema, and `read(value, path)`: the Python value that a JSON value stands for."""

    schema: Schema
    read: Read


@dataclass(frozen=True)
class Member:
    """A parameter or a field before its hint is looked at. `default` is MISSING, a Field, or a value of any kind."""

    name: str
    hint: object
    default: object = MISSING
    description: str = ""
    required: bool | None = None
    """Known from elsewhere (TypedDict); None: without a default, and not None."""


@dataclass(frozen=True)
class _Slot:
    """A member once its hint has been read."""

    required: bool
    fill: object
    read: Read


_PLAIN_TYPES = {str: "string", bool: "boolean", type(None): "null"}
_PLAIN_NEEDS = {str: "text", bool: "true or false", type(None): "null"}
_LISTS = (list, abc.Sequence, abc.MutableSequence, abc.Collection, abc.Iterable)
_SETS = (set, frozenset, abc.Set, abc.MutableSet)
_MAPPINGS = (dict, abc.Mapping, abc.MutableMapping)
_UNIONS = (typing.Union, types.UnionType)
_TEXT_FORMS: dict[object, tuple[str | None, Callable[[str], object], str]] = {
    datetime.datetime: ("date-time", datetime.datetime.fromisoformat, "a date and time, as 2026-09-18T09:41:00"),
    datetime.date: ("date", datetime.date.fromisoformat, "a date, as 2026-09-18"),
    datetime.time: ("time", datetime.time.fromisoformat, "a time, as 09:41:00"),
    uuid.UUID: ("uuid", uuid.UUID, "a UUID"),
    pathlib.Path: (None, pathlib.Path, "a path"),
    pathlib.PurePath: (None, pathlib.PurePath, "a path"),
}
_KNOWN = (
    "str, int, float, bool, list, tuple, set, dict, Optional, Union, Literal, Enum, Annotated, date, time, datetime"
)


class Shapes:
    """The shapes of one tool. `defs` are the definitions that its schemas refer to, to be put beside the outermost."""

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.defs: dict[str, Schema] = {}
        self._open: dict[type, str] = {}
        self._referred: set[type] = set()
        self._done: dict[type, Shape] = {}

    def of(self, hint: object, path: str = "") -> Shape:
        """ToolsError("tools_signature") for a hint that no schema can say."""
        hint = _without_alias(hint)
        if hint in (Any, object) or hint is MISSING:
            return Shape({}, lambda value, path: value)
        if hint is None:
            hint = type(None)
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin is typing.Annotated:
            return self._annotated(hint, arguments, path)
        if origin is typing.Literal:
            return self._one_of(list(arguments), {}, path)
        if origin in _UNIONS:
            return self._union(arguments, path)
        kind = origin or hint
        if kind in _LISTS:
            return self._list(arguments, path, list)
        if kind in _SETS:
            return self._list(arguments, path, frozenset if kind is frozenset else set)
        if kind is tuple:
            return self._tuple(arguments, path)
        if kind in _MAPPINGS:
            return self._mapping(arguments, path)
        if origin is None and isinstance(hint, type):
            return self._class(hint, path)
        return self._refuse(path, hint)

    def record(self, members: Iterable[Member], path: str, make: Callable[[dict[str, object]], object]) -> Shape:
        """An object with these members. `make` gets the values of those that were given, and of those with a fill."""
        properties: dict[str, object] = {}
        slots: dict[str, _Slot] = {}
        for member in members:
            inside = f"{path}.{member.name}" if path else member.name
            shape, slot = self._member(member, inside)
            properties[member.name], slots[member.name] = shape.schema, slot
        schema: Schema = {"type": "object", "properties": properties}
        required = [name for name, slot in slots.items() if slot.required]
        if required:
            schema["required"] = required

        def read(value: object, path: str) -> object:
            if not isinstance(value, Mapping):
                self.fail(path, value, "an object")
            unknown = [str(key) for key in value if key not in slots]
            if unknown:
                self.fail(_inside(path, unknown[0]), value[unknown[0]], f"only {', '.join(slots) or 'no argument'}")
            out: dict[str, object] = {}
            for name, slot in slots.items():
                if name in value:
                    out[name] = slot.read(value[name], _inside(path, name))
                elif slot.required:
                    self.fail(_inside(path, name), MISSING, "a value, for it is required")
                elif slot.fill is not MISSING:
                    out[name] = copy.deepcopy(slot.fill)
            return make(out)

        return Shape(schema, read)

    def outermost(self, shape: Shape) -> Schema:
        """A shape's schema with everything it refers to; a reference at the top is followed."""
        schema = shape.schema
        reference = schema.get("$ref")
        if isinstance(reference, str):
            schema = {**self.defs[reference.rpartition("/")[2]], **{k: v for k, v in schema.items() if k != "$ref"}}
        return {**schema, "$defs": self.defs} if self.defs else schema

    def fail(self, path: str, value: object, needed: str) -> NoReturn:
        got = "missing" if value is MISSING else f"{_shown(value)}"
        raise ArgumentsError(
            "call_arguments", f"{self.owner}: {path or 'the arguments'} is {got}; needed {needed}.",
            function=self.owner, parameter=path, got=None if value is MISSING else value, needed=needed,
        )  # fmt: skip

    def _refuse(self, path: str, hint: object, why: str = "") -> NoReturn:
        got = hint if isinstance(hint, str) else getattr(hint, "__qualname__", None) or str(hint)
        raise ToolsError(
            "tools_signature",
            f"{self.owner}: the type of {path or 'the value'} is {got}{why}; needed {_KNOWN}, a dataclass, a TypedDict"
            " or a pydantic model.",
            function=self.owner, parameter=path, got=str(got), needed=_KNOWN,
        )  # fmt: skip

    def _member(self, member: Member, path: str) -> tuple[Shape, _Slot]:
        hint, fields, nullable = _peeled(member.hint)
        default = member.default
        if isinstance(default, Field):
            fields, default = [*fields, default], default.default
        if default is MISSING:
            default = next((field.default for field in fields if field.default is not MISSING), MISSING)
            fill = default
        else:
            fill = MISSING if default is member.default else default  # a plain default is the function's to fill in
        shape = self.of(hint, path)
        for field in fields:
            shape = self._checked(shape, field, path)
        if member.description and "description" not in shape.schema:
            shape = Shape({**shape.schema, "description": member.description}, shape.read)
        required = default is MISSING if member.required is None else member.required
        if required and nullable:
            required, fill = False, None  # left out, it is None; null itself is not offered to the model
        inner = shape.read
        accepts_null = nullable or default is None
        read: Read = (lambda value, path: None if value is None else inner(value, path)) if accepts_null else inner
        return shape, _Slot(required, fill, read)

    def _annotated(self, hint: object, arguments: Sequence[object], path: str) -> Shape:
        if _is_foreign(arguments[1:]):
            return self._adapted(hint)
        shape = self.of(arguments[0], path)
        for note in arguments[1:]:
            if isinstance(note, str):
                note = Field(description=note)
            if isinstance(note, Field):
                shape = self._checked(shape, note, path)
        return shape

    def _checked(self, shape: Shape, field: Field, path: str) -> Shape:
        misplaced = field.misplaced(shape.schema.get("type"))
        if misplaced is not None:
            self._refuse(path, str(shape.schema["type"]), f", of which {misplaced} says nothing")
        inner = shape.read

        def read(value: object, path: str) -> object:
            complaint = field.complaint(value)
            if complaint is not None:
                self.fail(path, value, complaint)
            return inner(value, path)

        return Shape({**shape.schema, **field.keywords()}, read)

    def _one_of(self, values: list[object], made: Mapping[int, object], path: str) -> Shape:
        """One of some JSON scalars; `made` maps their places to what is meant."""
        odd = [value for value in values if value is not None and not isinstance(value, (str, int, float))]
        if odd or not values:
            self._refuse(path, repr(odd[0]) if odd else "an empty choice", ", which JSON cannot say")
        kinds = {_json_type(value) for value in values}
        kind: object = kinds.pop() if len(kinds) == 1 else None
        schema: Schema = {"type": kind, "enum": values} if kind is not None else {"enum": values}

        def read(value: object, path: str) -> object:
            for at, item in enumerate(values):
                if same(value, item):
                    return made.get(at, item)
            self.fail(path, value, f"one of {_shown(values)}")

        return Shape(schema, read)

    def _union(self, arguments: Sequence[object], path: str) -> Shape:
        """The first of the types that takes the value; a value is never bent to fit an earlier one."""
        shapes = [self.of(argument, path) for argument in arguments]
        if len(shapes) == 1:
            return shapes[0]

        def read(value: object, path: str) -> object:
            complaints = []
            for shape in shapes:
                try:
                    return shape.read(value, path)
                except ArgumentsError as error:
                    complaints.append(str(error.details["needed"]))
            self.fail(path, value, " or ".join(dict.fromkeys(complaints)))

        return Shape({"anyOf": [shape.schema for shape in shapes]}, read)

    def _list(self, arguments: Sequence[object], path: str, make: Callable[[list[object]], object]) -> Shape:
        schema: Schema = {"type": "array"}
        item = self.of(arguments[0], f"{path}[]") if arguments else Shape({}, lambda value, path: value)
        if arguments:
            schema["items"] = item.schema
        if make in (set, frozenset):
            schema["uniqueItems"] = True

        def read(value: object, path: str) -> object:
            if not isinstance(value, list):
                self.fail(path, value, "a list")
            try:
                return make([item.read(each, f"{path}[{at}]") for at, each in enumerate(value)])
            except TypeError:
                self.fail(path, value, "items that a set can hold")

        return Shape(schema, read)

    def _tuple(self, arguments: Sequence[object], path: str) -> Shape:
        if not arguments or arguments[-1] is Ellipsis:
            return self._list(arguments[:1], path, tuple)
        shapes = [self.of(argument, f"{path}[{at}]") for at, argument in enumerate(arguments)]
        count = len(shapes)
        schema: Schema = {
            "type": "array", "prefixItems": [shape.schema for shape in shapes], "minItems": count, "maxItems": count,
        }  # fmt: skip

        def read(value: object, path: str) -> object:
            if not isinstance(value, list) or len(value) != count:
                self.fail(path, value, f"a list of {count}")
            pairs = zip(shapes, value, strict=True)
            return tuple(shape.read(each, f"{path}[{at}]") for at, (shape, each) in enumerate(pairs))

        return Shape(schema, read)

    def _mapping(self, arguments: Sequence[object], path: str) -> Shape:
        if arguments and arguments[0] not in (str, Any):
            self._refuse(path, arguments[0], " for the keys, which in JSON are text")
        schema: Schema = {"type": "object"}
        item = self.of(arguments[1], f"{path}.*") if arguments else Shape({}, lambda value, path: value)
        if item.schema:
            schema["additionalProperties"] = item.schema

        def read(value: object, path: str) -> object:
            if not isinstance(value, Mapping):
                self.fail(path, value, "an object")
            return {str(key): item.read(each, _inside(path, str(key))) for key, each in value.items()}

        return Shape(schema, read)

    def _class(self, hint: type, path: str) -> Shape:
        if hint in _PLAIN_TYPES:
            return self._plain(hint)
        if hint in (int, float, decimal.Decimal):
            return self._number(hint)
        if hint in _TEXT_FORMS:
            return self._text_form(hint)
        if issubclass(hint, enum.Enum):
            return self._enum(hint, path)
        if hint in self._done:
            return self._done[hint]
        if is_model(hint):
            return self._model(hint)
        if dataclasses.is_dataclass(hint) or typing.is_typeddict(hint):
            return self._record_class(hint, path)
        self._refuse(path, hint)

    def _plain(self, hint: type) -> Shape:
        def read(value: object, path: str) -> object:
            if not isinstance(value, hint):
                self.fail(path, value, _PLAIN_NEEDS[hint])
            return value

        return Shape({"type": _PLAIN_TYPES[hint]}, read)

    def _number(self, hint: type) -> Shape:
        whole = hint is int

        def read(value: object, path: str) -> object:
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
                self.fail(path, value, "a whole number" if whole else "a number")
            if whole and value != int(value):
                self.fail(path, value, "a whole number")
            return decimal.Decimal(str(value)) if hint is decimal.Decimal else hint(value)

        return Shape({"type": "integer" if whole else "number"}, read)

    def _text_form(self, hint: type) -> Shape:
        form, make, needed = _TEXT_FORMS[hint]

        def read(value: object, path: str) -> object:
            if not isinstance(value, str):
                self.fail(path, value, needed)
            try:
                return make(value)
            except ValueError:
                self.fail(path, value, needed)

        return Shape({"type": "string", "format": form} if form is not None else {"type": "string"}, read)

    def _enum(self, hint: type[enum.Enum], path: str) -> Shape:
        """An Enum's values, or, where JSON cannot say one of them, its names."""
        members = list(hint)
        values: list[object] = [member.value for member in members]
        if not all(isinstance(value, (str, int, float)) for value in values):
            values = [member.name for member in members]
        return self._one_of(values, dict(enumerate(members)), path)

    def _record_class(self, hint: type, path: str) -> Shape:
        if hint in self._open:
            self._referred.add(hint)
            reference: Schema = {"$ref": f"#/$defs/{self._open[hint]}"}
            # Its shape is still being made; by the time that a value is read it is done.
            return Shape(reference, lambda value, path: self._done[hint].read(value, path))
        self._open[hint] = self._free_name(hint.__name__)
        try:
            shape = self.record(_members_of(hint, self, path), path, _maker(hint))
        finally:
            name = self._open.pop(hint)
        about = own_doc(hint)
        described = read_docstring(about)[0] if about else ""
        if described:
            shape = Shape({**shape.schema, "description": described}, shape.read)
        if hint in self._referred:
            self.defs[name] = shape.schema
            shape = Shape({"$ref": f"#/$defs/{name}"}, shape.read)
        self._done[hint] = shape
        return shape

    def _free_name(self, name: str) -> str:
        taken, number, free = {*self.defs, *self._open.values()}, 1, name
        while free in taken:
            number += 1
            free = f"{name}{number}"
        return free

    def _model(self, hint: Any) -> Shape:
        """A pydantic model: its own schema and its own reading."""
        shape = self._foreign(hint.model_json_schema(), hint.__name__, hint.model_validate_json)
        self._done[hint] = shape
        return shape

    def _adapted(self, hint: object) -> Shape:
        """A hint that carries pydantic's notes: pydantic makes the schema and reads the value."""
        adapter = sys.modules["pydantic"].TypeAdapter(hint)
        return self._foreign(adapter.json_schema(), "", adapter.validate_json)

    def _foreign(self, schema: Schema, name: str, validate: Callable[[str], object]) -> Shape:
        schema = self._adopted(_without_echo(schema, name))

        def read(value: object, path: str) -> object:
            try:
                return validate(json.dumps(value))
            except ValueError as error:  # pydantic's ValidationError is one
                faults = getattr(error, "errors", None)
                first = faults()[0] if callable(faults) else {"loc": (), "msg": str(error)}
                inside = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
                self.fail(f"{path}{inside}".lstrip("."), value, f"what the model needs: {first['msg']}")

        return Shape(schema, read)

    def _adopted(self, schema: Schema) -> Schema:
        """A schema whose definitions have become this tool's; one whose name is taken by another gets a new name."""
        inside = schema.get("$defs")
        if not isinstance(inside, dict):
            return schema
        table: dict[str, str] = {}
        for name, definition in inside.items():
            table[name] = name if self.defs.get(name, definition) == definition else self._free_name(name)
            self.defs[table[name]] = definition
        renamed = {f"#/$defs/{old}": f"#/$defs/{new}" for old, new in table.items() if old != new}
        if renamed:
            for new in table.values():
                self.defs[new] = _with_references(self.defs[new], renamed)
        rest = {key: value for key, value in schema.items() if key != "$defs"}
        return _with_references(rest, renamed) if renamed else rest


def is_model(hint: object) -> bool:
    """Whether it is a pydantic model (version 2). pydantic is not imported for the question."""
    return isinstance(hint, type) and hasattr(hint, "model_json_schema") and hasattr(hint, "model_validate_json")


def own_doc(hint: type) -> str | None:
    """A class's docstring, unless dataclasses wrote it or it belongs to a base."""
    doc = hint.__dict__.get("__doc__")
    made = dataclasses.is_dataclass(hint) and isinstance(doc, str) and doc.startswith(f"{hint.__name__}(")
    return doc if isinstance(doc, str) and not made else None


def resolve(hints: Mapping[str, object], scope: Mapping[str, object], owner: str) -> dict[str, object]:
    """Hints given as text (from __future__ import annotations), looked up; ToolsError for a name that is not there."""
    out: dict[str, object] = {}
    for name, hint in hints.items():
        holder = types.SimpleNamespace(__annotations__={name: hint})
        try:
            out.update(typing.get_type_hints(holder, dict(scope), include_extras=True))
        except Exception as error:  # the hint is anybody's expression
            raise ToolsError(
                "tools_signature",
                f"{owner}: the type of {name}, {hint}, cannot be looked up: {error}. Types of a tool's parameters must"
                " be names of the function's module.",
                function=owner, parameter=name, got=str(hint), needed="a type that the module knows",
            ) from error  # fmt: skip
    return out


def same(one: object, other: object) -> bool:
    """Equal as JSON values: true is not 1, 2.0 is 2."""
    return isinstance(one, bool) == isinstance(other, bool) and one == other


def _members_of(hint: type, shapes: Shapes, path: str) -> list[Member]:
    about = own_doc(hint)
    described = read_docstring(about)[1] if about else {}
    scope: dict[str, object] = {**vars(sys.modules.get(hint.__module__, types)), hint.__name__: hint}
    if typing.is_typeddict(hint):
        hints = resolve(hint.__annotations__, scope, shapes.owner)
        needed: frozenset[str] = getattr(hint, "__required_keys__", frozenset())
        return [
            Member(name, _without_qualifier(of), MISSING, described.get(name, ""), _is_required(of, name in needed))
            for name, of in hints.items()
        ]
    fields = [field for field in dataclasses.fields(hint) if field.init]
    out = []
    for field in fields:
        (of,) = resolve({field.name: field.type}, scope, shapes.owner).values()
        has_default = field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
        default: object = field.default if field.default is not dataclasses.MISSING else MISSING
        note = field.metadata.get("description", described.get(field.name, ""))
        required = False if has_default and not isinstance(default, Field) else None
        out.append(Member(field.name, of, default, str(note), required))
    return out


def _maker(hint: type) -> Callable[[dict[str, object]], object]:
    return (lambda values: values) if typing.is_typeddict(hint) else (lambda values: hint(**values))


def _is_required(hint: object, otherwise: bool) -> bool:
    """What a key of a TypedDict says of itself; Python overlooks that where hints are text."""
    origin = typing.get_origin(hint)
    return origin is typing.Required or (origin is not typing.NotRequired and otherwise)


def _without_qualifier(hint: object) -> object:
    while typing.get_origin(hint) in (typing.Required, typing.NotRequired):
        hint = typing.get_args(hint)[0]
    return hint


def _without_alias(hint: object) -> object:
    """What a NewType or a `type` statement stands for."""
    while True:
        if isinstance(hint, typing.NewType):
            hint = hint.__supertype__
        elif type(hint).__name__ == "TypeAliasType":
            hint = hint.__value__  # type: ignore[attr-defined]
        else:
            return hint


def _peeled(hint: object) -> tuple[object, list[Field], bool]:
    """A hint without Annotated and Optional, the Fields on it, and whether it may be None."""
    fields: list[Field] = []
    nullable = False
    while True:
        hint = _without_alias(hint)
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin is typing.Annotated and not _is_foreign(arguments[1:]):
            notes = [Field(description=note) if isinstance(note, str) else note for note in arguments[1:]]
            fields = [*(note for note in notes if isinstance(note, Field)), *fields]
            hint = arguments[0]
        elif origin in _UNIONS and type(None) in arguments:
            nullable = True
            hint = typing.Union[tuple(argument for argument in arguments if argument is not type(None))]  # noqa: UP007
        elif origin is typing.Literal and None in arguments and len(arguments) > 1:
            nullable = True
            hint = typing.Literal[tuple(argument for argument in arguments if argument is not None)]
        else:
            return hint, fields, nullable


def _is_foreign(notes: Sequence[object]) -> bool:
    """Whether one of Annotated's notes is pydantic's to understand."""
    homes = {type(note).__module__.partition(".")[0] for note in notes}
    return "pydantic" in sys.modules and bool(homes & {"pydantic", "annotated_types"})


def _json_type(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    return {str: "string", int: "integer", float: "number"}.get(
        next((kind for kind in (str, int, float) if isinstance(value, kind)), type(None)), "null"
    )


def _inside(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _shown(value: object) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}..."


def _with_references(node: Any, table: Mapping[str, str]) -> Any:
    if isinstance(node, dict):
        return {
            key: table.get(value, value) if key == "$ref" and isinstance(value, str) else _with_references(value, table)
            for key, value in node.items()
        }
    return [_with_references(item, table) for item in node] if isinstance(node, list) else node


def _without_echo(node: Any, name: str = "") -> Any:
    """A schema without the titles that only repeat a name, which pydantic puts everywhere and the model would read."""
    if isinstance(node, list):
        return [_without_echo(item) for item in node]
    if not isinstance(node, dict):
        return node
    out = {}
    for key, value in node.items():
        if key == "title" and isinstance(value, str) and _squashed(value) == _squashed(name):
            continue
        if key in ("properties", "$defs") and isinstance(value, dict):
            out[key] = {inner: _without_echo(schema, inner) for inner, schema in value.items()}
        elif key in ("default", "examples", "enum", "const"):
            out[key] = value
        else:
            out[key] = _without_echo(value)
    return out


def _squashed(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).casefold()
