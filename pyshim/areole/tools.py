"""Tools from Python: functions, dataclasses, TypedDicts and pydantic models beside plain declarations.

Owns what makes a tool of each, and running one with the arguments of a call. A tool's name is the function's or the
class's, its description the docstring's text, its parameters the signature's. What no schema can say is refused when
the tool is made, and arguments that do not fit before the function runs.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, overload

from .docstrings import read_docstring
from .errors import ToolsError
from .shapes import MISSING, Field, Member, Schema, Shapes, is_model, own_doc, resolve

__all__ = ["Collected", "Field", "Tool", "collect", "tool"]

F = TypeVar("F", bound=Callable[..., object])

_MARK = "__areole_tool__"
_SKIPPED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)

Reader = Callable[[Mapping[str, object]], object]
"""From a call's arguments to what the function takes: the values by name, converted."""


@dataclass(frozen=True)
class Tool:
    """A tool: what the model is told, and what runs. `Tool.of` makes one from a function or a class.

    name, description, parameters: as declared; parameters is a JSON Schema, None leaves it out.
    function: gets a call's arguments by name; None if the tool runs elsewhere. triggers: kept in the declaration.
    made_of: the function or class that it was made of.
    Made by hand, the arguments reach the function as they come; made by `of`, they are checked and converted.
    """

    name: str
    description: str = ""
    parameters: Mapping[str, object] | None = None
    function: Callable[..., object] | None = None
    triggers: Sequence[str] = ()
    made_of: object = None
    _read: Reader | None = field(default=None, repr=False, compare=False)
    _positional: tuple[str, ...] = field(default=(), repr=False, compare=False)
    _is_record: bool = field(default=False, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        target: object,
        *,
        name: str | None = None,
        description: str | None = None,
        triggers: Sequence[str] = (),
    ) -> Tool:
        """A tool from a function, method, dataclass, TypedDict or pydantic model. ToolsError("tools_signature")."""
        if _is_record(target):
            return cls._of_record(target, name, description, triggers)
        if isinstance(target, type) or not callable(target):
            raise ToolsError(
                "tools_signature",
                f"{_named(target)} cannot be a tool; needed a function, a dataclass, a TypedDict, a pydantic model or a"
                " declaration.",
                function=_named(target), parameter="", got=type(target).__name__, needed="a function or a record class",
            )  # fmt: skip
        return cls._of_function(target, name, description, triggers)

    @classmethod
    def _of_record(cls, target: object, name: str | None, description: str | None, triggers: Sequence[str]) -> Tool:
        called = name or _named(target)
        shapes = Shapes(called)
        shape = shapes.of(target)
        parameters = dict(shapes.outermost(shape))
        about = own_doc(target) if isinstance(target, type) else None
        if description is None:
            description = read_docstring(about)[0] if about else ""
        parameters.pop("description", None)  # said once, above the parameters
        parameters.pop("title", None)
        return cls(
            called, description, parameters, typing.cast("Callable[..., object]", target), tuple(triggers), target,
            lambda arguments: shape.read(arguments, ""), _is_record=True,
        )  # fmt: skip

    @classmethod
    def _of_function(
        cls, target: Callable[..., object], name: str | None, description: str | None, triggers: Sequence[str]
    ) -> Tool:
        called = name or getattr(target, "__name__", None)
        if not isinstance(called, str) or called == "<lambda>":
            raise ToolsError(
                "tools_signature", f"{target!r} has no name to be called by; give it one: Tool.of(..., name=...).",
                function=repr(target), parameter="", got="no name", needed="a name",
            )  # fmt: skip
        about, meanings = read_docstring(inspect.getdoc(target))
        try:
            parameters = _parameters(target)
        except (TypeError, ValueError) as error:
            raise ToolsError(
                "tools_signature", f"{called}: its signature cannot be read: {error}. Give its Tool by hand.",
                function=called, parameter="", got=str(error), needed="a signature",
            ) from error  # fmt: skip
        hints = resolve({p.name: _hint(p) for p in parameters}, _scope(target), called)
        shapes = Shapes(called)
        members = [
            Member(p.name, hints[p.name], MISSING if p.default is p.empty else p.default, meanings.get(p.name, ""))
            for p in parameters
        ]
        shape = shapes.record(members, "", lambda values: values)
        return cls(
            called,
            about if description is None else description,
            shapes.outermost(shape),
            target,
            tuple(triggers),
            target,
            lambda arguments: shape.read(arguments, ""),
            tuple(p.name for p in parameters if p.kind is p.POSITIONAL_ONLY),
        )

    @property
    def is_async(self) -> bool:
        """Whether running it gives something to await."""
        if self._is_record or self.function is None:
            return False
        by_call = getattr(type(self.function), "__call__", None)  # noqa: B004
        return inspect.iscoroutinefunction(self.function) or inspect.iscoroutinefunction(by_call)

    def declaration(self) -> Schema:
        """{"name", "description", "parameters", "triggers"}, without those that are empty."""
        out: Schema = {"name": self.name}
        if self.description:
            out["description"] = self.description
        if self.parameters is not None:
            out["parameters"] = dict(self.parameters)
        if self.triggers:
            out["triggers"] = list(self.triggers)
        return out

    def read(self, arguments: Mapping[str, object]) -> object:
        """A call's arguments, checked and converted: a record's instance, or a function's values by name.

        ArgumentsError names the parameter that does not fit.
        """
        return dict(arguments) if self._read is None else self._read(arguments)

    def run(self, arguments: Mapping[str, object]) -> object:
        """What the function gives for a call's arguments; of an async function, what is to be awaited.

        ArgumentsError before it runs; ToolsError if there is nothing to run; otherwise what the function raises.
        """
        if self.function is None:
            raise ToolsError(
                "tools_shape", f"The tool {self.name} was declared without a function; give one to have it run.",
                got="a declaration", needed="a function",
            )  # fmt: skip
        values = self.read(arguments)
        if self._is_record or not isinstance(values, dict):
            return values  # reading a record has made its instance
        first: list[object] = []
        if self._positional:
            defaults = inspect.signature(self.function).parameters
            given = max((at for at, name in enumerate(self._positional, 1) if name in values), default=0)
            first = [values.pop(name, defaults[name].default) for name in self._positional[:given]]
        return self.function(*first, **values)


@overload
def tool(function: F) -> F: ...


@overload
def tool(
    function: None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    triggers: Sequence[str] | None = None,
) -> Callable[[F], F]: ...


def tool(
    function: F | None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    triggers: Sequence[str] | None = None,
) -> F | Callable[[F], F]:
    """Marks a function or a record class as a tool, checks at once that it can be one, and gives it back unchanged.

    Not needed to use one; it is where a name, a description or triggers other than the function's own are said.
    """

    def mark(target: F) -> F:
        options = {"name": name, "description": description, "triggers": tuple(triggers or ())}
        Tool.of(target, **options)  # type: ignore[arg-type]
        setattr(target, _MARK, options)
        return target

    return mark if function is None else mark(function)


@dataclass(frozen=True)
class Collected:
    """`declared`: what render_tools takes. `runnable`: tool name -> the Tool to run for it."""

    declared: list[object] | str
    runnable: Mapping[str, Tool] = field(default_factory=dict)


def collect(tools: Iterable[object] | str) -> Collected:
    """A mixed list as declarations, and what runs for each name. JSON text and plain declarations pass unchanged.

    ToolsError("tools_duplicate") if a name that has something to run is declared again.
    """
    if isinstance(tools, str):
        return Collected(tools)
    if isinstance(tools, Mapping) or not isinstance(tools, Iterable) or _is_record(tools):
        raise ToolsError(
            "tools_shape", f"The tools are {_named(tools)}; needed a list. Put square brackets round a single tool.",
            got=type(tools).__name__, needed="a list",
        )  # fmt: skip
    declared: list[object] = []
    runnable: dict[str, Tool] = {}
    names: set[object] = set()
    for entry in tools:
        made = as_tool(entry)
        name = made.name if made is not None else _declared_name(entry)
        if name in names and (made is not None or name in runnable):
            raise ToolsError(
                "tools_duplicate", f"Two tools are called {name}; give one of them another name.",
                got=name, needed="a name that no other tool has",
            )  # fmt: skip
        if isinstance(name, str):
            names.add(name)
        if made is not None:
            if made.function is not None:
                runnable[made.name] = made
            declared.append(made.declaration())
        else:
            declared.append(entry)
    return Collected(declared, runnable)


def as_tool(entry: object) -> Tool | None:
    """The Tool that an entry is or can be made into; None for anything else, such as a plain declaration."""
    if isinstance(entry, Tool):
        return entry
    if callable(entry) or _is_record(entry):
        options = getattr(entry, _MARK, None)
        inherited = isinstance(entry, type) and _MARK not in vars(entry)
        return Tool.of(entry, **(options if isinstance(options, dict) and not inherited else {}))
    return None


def _is_record(target: object) -> bool:
    return isinstance(target, type) and (
        is_model(target) or dataclasses.is_dataclass(target) or typing.is_typeddict(target)
    )


def _named(target: object) -> str:
    return getattr(target, "__name__", None) or f"an object of type {type(target).__name__}"


def _declared_name(entry: object) -> object:
    """The name in a plain declaration, wrapped in {"function": ...} or not."""
    if not isinstance(entry, Mapping):
        return None
    inner = entry.get("function")
    name = inner.get("name") if isinstance(inner, Mapping) else entry.get("name")
    return name if isinstance(name, str) else None


def _parameters(target: Callable[..., object]) -> list[inspect.Parameter]:
    """The parameters that a model can give: `*args` and `**kwargs` have no names, `self` of a plain method no value."""
    found = [p for p in inspect.signature(target).parameters.values() if p.kind not in _SKIPPED]
    unbound = inspect.isfunction(target) and "." in target.__qualname__.rpartition("<locals>.")[2]
    if unbound and found and found[0].name in ("self", "cls"):
        found = found[1:]
    return found


def _hint(parameter: inspect.Parameter) -> object:
    """A parameter's hint; without one, the type of its default if that is a scalar, else text."""
    if parameter.annotation is not parameter.empty:
        return parameter.annotation
    kind = type(parameter.default.default if isinstance(parameter.default, Field) else parameter.default)
    return kind if kind in (bool, int, float) else str


def _scope(target: Callable[..., object]) -> Mapping[str, object]:
    """The names that a function's hints are looked up in."""
    while isinstance(target, functools.partial):
        target = target.func
    plain = inspect.unwrap(target)
    plain = getattr(plain, "__func__", plain)
    found = getattr(plain, "__globals__", None) or getattr(type(plain).__call__, "__globals__", None)
    return found if isinstance(found, Mapping) else {}
