"""Tools that a visitor writes in Python in the page: the source is run once, its `@tool` functions are declared, and a
call runs one of them, with what it prints.

Owns the namespace and the captured output, not the model. The source is the visitor's own, typed into the page's
editor; nothing that the model writes gets here but the arguments of a call, as values. An endless loop cannot be ended
from in here: the page ends the worker.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import linecache
import traceback
from collections.abc import Mapping
from typing import Any

from . import shapes, tools
from .errors import AreoleError, ToolsError
from .results import plain

FILE = "tools.py"
"""What the source is called in messages."""
MOST_OUTPUT = 20_000
"""Characters that are kept of what is printed, the last ones."""


class PageTools:
    """The functions of one source. `define` replaces them; it leaves the old ones if the source fails."""

    def __init__(self) -> None:
        self._tools: Mapping[str, tools.Tool] = {}

    def define(self, source: str) -> dict[str, object]:
        """{"tools": declarations, "output", "error"}: of the functions and classes marked with @tool.

        `error` is None, or {"message", "line"}: what the source raised, and where.
        """
        marked: list[object] = []

        def mark(*args: Any, **kwargs: Any) -> Any:
            made = tools.tool(*args, **kwargs)
            if args and callable(args[0]):
                marked.append(made)
                return made

            def later(target: Any) -> Any:
                done = made(target)
                marked.append(done)
                return done

            return later

        space: dict[str, object] = {"__name__": "tools", "tool": mark, "Field": shapes.Field}
        with _printed() as output:
            try:
                linecache.cache[FILE] = (len(source), None, source.splitlines(keepends=True), FILE)
                exec(compile(source, FILE, "exec"), space)
                collected = tools.collect(marked)
                if not marked:
                    raise ToolsError("tools_shape", "No function is marked: write @tool above one.", got=0, needed=1)
            except BaseException as error:  # the source may raise anything, SystemExit too
                return {"tools": None, "output": output.text(), "error": _told(error)}
        self._tools = collected.runnable
        return {"tools": collected.declared, "output": output.text(), "error": None}

    async def invoke(self, name: str, arguments: Mapping[str, object]) -> dict[str, object]:
        """{"value", "output", "error"} of a call; async functions are awaited."""
        tool = self._tools.get(name)
        with _printed() as output:
            try:
                if tool is None:
                    raise ToolsError("tools_shape", f"{name} has no function here.", got=name, needed="a @tool")
                value = tool.run(arguments)
                if inspect.isawaitable(value):
                    value = await value
                value = json.loads(json.dumps(plain(value), allow_nan=False))
            except BaseException as error:
                return {"value": None, "output": output.text(), "error": _told(error)}
        return {"value": value, "output": output.text(), "error": None}


class _Output(io.StringIO):
    def text(self) -> str:
        """The last of what was printed."""
        whole = self.getvalue()
        return whole if len(whole) <= MOST_OUTPUT else f"…{whole[-MOST_OUTPUT:]}"


@contextlib.contextmanager
def _printed() -> Any:
    """What is printed inside, both streams in their order."""
    output = _Output()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        yield output


def _told(error: BaseException) -> dict[str, object]:
    """An error for the page: its own words, the line of the source, and the traceback's part within the source."""
    if isinstance(error, SyntaxError):
        line = error.lineno
        message = f"{type(error).__name__}: {error.msg}"
        return {"message": message, "line": line, "trace": "".join(traceback.format_exception_only(error)).strip()}
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == FILE]
    line = frames[-1].lineno if frames else None
    message = error.message if isinstance(error, AreoleError) else f"{type(error).__name__}: {error}"
    trace = "".join([*traceback.format_list(frames), *traceback.format_exception_only(error)]).strip()
    return {"message": message, "line": line, "trace": trace}
