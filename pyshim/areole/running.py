"""What goes beyond one answer: running the functions that the model calls, and reading records out of a text.

Owns the loop and its ends, not the model: it asks through a Needle. The loop is written once, as a generator that asks
and invokes, and driven with and without await. A function that fails is told to the model and to the caller, and the
loop goes on; what fails after functions have run is part of the result, for what they did cannot be taken back.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .errors import ArgumentsError, ContextFullError, ExtractError, RequestError, ToolsError
from .results import Call, Ran, RunResult
from .tools import Tool, as_tool

if TYPE_CHECKING:
    from .agent import Answer

RECORD = "record"
"""What a schema without a title is called."""


@dataclass(frozen=True)
class Ask:
    """To be answered with an Answer. `results`: it gives the calls' results instead of starting anew."""

    text: str
    results: bool


@dataclass(frozen=True)
class Invoke:
    """To be answered with what the tool's function gives; what that raises is thrown in."""

    tool: Tool
    arguments: Mapping[str, object]


Loop = Generator[Ask | Invoke, object, RunResult]


def run_loop(text: str, tools: Mapping[str, Tool], max_turns: int, strict: bool) -> Loop:
    """Asks, runs the calls, gives their results back, until there are no more or `max_turns` times.

    `strict`: a call with a value that the request does not support is not run; the model is told which.
    """
    if isinstance(max_turns, bool) or not isinstance(max_turns, int) or max_turns < 0:
        raise RequestError(
            "request_option", f"max_turns is {max_turns!r}; needed a whole number, 0 or more.",
            got=repr(max_turns), needed="a whole number",
        )  # fmt: skip
    answer = _answered((yield Ask(text, False)))
    ran: list[Ran] = []
    for _ in range(max_turns):
        result = answer.result
        if not result.function_calls:
            break
        done: list[Ran] = []
        for call in result.function_calls:
            done.append((yield from _run_one(call, tools, result.ungrounded if strict else ())))
        ran += done
        told = json.dumps([one.reported() for one in done], ensure_ascii=False, separators=(",", ":"))
        try:
            answer = _answered((yield Ask(told, True)))
        except ContextFullError as error:
            return RunResult(result, tuple(ran), "", "failed", error)
    result = answer.result
    stopped = "failed" if answer.failure is not None else "limit" if result.function_calls else "done"
    return RunResult(result, tuple(ran), answer.text, stopped, answer.failure)


def _answered(value: object) -> Answer:
    return value  # type: ignore[return-value]


def _run_one(call: Call, tools: Mapping[str, Tool], ungrounded: tuple[str, ...]) -> Generator[Invoke, object, Ran]:
    made_up = [name for name in ungrounded if name.startswith(f"{call.name}.")]
    if made_up:
        listed = ", ".join(name[len(call.name) + 1 :] for name in made_up)
        return Ran(call, error=ArgumentsError(
            "call_arguments", f"the request does not say {listed}",
            function=call.name, parameter=listed, got=None, needed="a value from the request",
        ))  # fmt: skip
    tool = tools.get(call.name)
    if tool is None:
        return Ran(call, error=ToolsError(
            "tools_shape", f"{call.name} has no function to run", got=call.name, needed="a tool with a function",
        ))  # fmt: skip
    value: object = None
    try:
        value = yield Invoke(tool, call.arguments)
        ran = Ran(call, value)
        json.dumps(ran.reported())  # what cannot be told is known now, not after the loop has gone on
        return ran
    except Exception as error:  # a caller's function, or what it gave, may raise anything
        return Ran(call, value, error)


def drive(loop: Loop, ask: Callable[[Ask], Answer]) -> RunResult:
    """Runs a loop to its end."""
    step = next(loop)
    try:
        while True:
            value: object = None
            try:
                value = ask(step) if isinstance(step, Ask) else step.tool.run(step.arguments)
            except Exception as error:
                step = loop.throw(error)
            else:
                step = loop.send(value)
    except StopIteration as stop:
        return _finished(stop)


async def adrive(loop: Loop, ask: Callable[[Ask], Awaitable[Answer]]) -> RunResult:
    """As drive; functions may be async. Cancelling the task leaves the loop where it is."""
    step = next(loop)
    try:
        while True:
            value: object = None
            try:
                if isinstance(step, Ask):
                    value = await ask(step)
                else:
                    value = step.tool.run(step.arguments)
                    if inspect.isawaitable(value):
                        value = await value
            except Exception as error:
                step = loop.throw(error)
            else:
                step = loop.send(value)
    except StopIteration as stop:
        return _finished(stop)


def _finished(stop: StopIteration) -> RunResult:
    value = stop.value
    if not isinstance(value, RunResult):
        raise stop
    return value


def need_sync(tools: Mapping[str, Tool]) -> None:
    """RequestError if one of the functions would have to be awaited."""
    names = [name for name, tool in tools.items() if tool.is_async]
    if names:
        raise RequestError(
            "request_option", f"{', '.join(names)} must be awaited, which run cannot; use arun.",
            got=names, needed="functions that are not async",
        )  # fmt: skip


def record_tool(schema: object) -> Tool:
    """The one tool that a record is extracted with: from a record class, a Tool, a declaration or a JSON Schema."""
    made = as_tool(schema)
    if made is not None:
        return made
    if not isinstance(schema, Mapping):
        raise ToolsError(
            "tools_shape",
            f"The schema is of type {type(schema).__name__}; needed a JSON Schema, a declaration, a dataclass, a"
            " TypedDict or a pydantic model.",
            got=type(schema).__name__, needed="a schema",
        )  # fmt: skip
    inner = schema.get("function")
    declared = inner if isinstance(inner, Mapping) else schema
    if isinstance(declared.get("name"), str) and ("parameters" in declared or declared is inner):
        parameters = declared.get("parameters")
        return Tool(
            str(declared["name"]),
            str(declared.get("description") or ""),
            parameters if isinstance(parameters, Mapping) else None,
        )
    if not {"properties", "$ref", "type"} & schema.keys() or schema.get("type", "object") != "object":
        raise ToolsError(
            "tools_shape", 'The schema describes no object; needed {"type": "object", "properties": {...}}.',
            got=str(schema.get("type")), needed="a schema of an object",
        )  # fmt: skip
    title, about = schema.get("title"), schema.get("description")
    rest = {key: value for key, value in schema.items() if key not in ("title", "description", "$schema", "$id")}
    return Tool(title if isinstance(title, str) and title else RECORD, about if isinstance(about, str) else "", rest)


def records(answer: Answer, tool: Tool, strict: bool) -> list[object]:
    """The records of an answer, read as the tool promises; at least one.

    Raises what the answer failed of, ExtractError("extract_nothing"), and ArgumentsError for a record that does not
    fit. With `strict` also ExtractError("extract_withheld") for values that the text does not support; without, they
    are given.
    """
    if answer.failure is not None:
        raise answer.failure
    result = answer.result
    calls = result.function_calls or result.suppressed_calls
    details: dict[str, object] = {"envelope": result.to_json(), "records": [call.arguments for call in calls]}
    if not calls:
        raise ExtractError("extract_nothing", f"The model found no {tool.name} in the text.", details)
    if strict and (result.suppressed_calls or result.ungrounded):
        why = ", ".join(result.ungrounded) or "the whole record"
        raise ExtractError(
            "extract_withheld",
            f"The text does not support {why}. Look at it in the details, or extract with strict=False.",
            {**details, "ungrounded": list(result.ungrounded)},
        )
    return [tool.read(call.arguments) for call in calls]


def only_record(found: list[object], tool: Tool, strict: bool) -> object:
    """The one record; equal ones count once. ExtractError("extract_several") if there are others and it is strict."""
    others = [record for record in found[1:] if record != found[0]]
    if others and strict:
        raise ExtractError(
            "extract_several", f"The text has {len(others) + 1} records of {tool.name}; extract them with many=True.",
            records=found,
        )  # fmt: skip
    return found[0]
