"""What the page's worker calls: JSON text in, JSON text out, one step of a request at a time.

Text of the page never becomes Python source, but for what a visitor writes as such (`define`); it arrives as
arguments. Every error comes back as a value, {"type": "error", "code", "message", "details"}, because an exception that
crosses to JavaScript keeps only its text. One Bridge owns one model and, once tools are declared, one conversation.
"""

from __future__ import annotations

import json
import warnings
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from .agent import Answer, Needle, Stream, embed, envelope_text, retrieves
from .errors import AreoleError, RequestError
from .golden import evaluate
from .ladder import LOWEST
from .model import Model, Snapshot
from .past import Past
from .prefixes import PrefixCache, Record
from .prompt import render_tools
from .sharing import LongConversationWarning

if TYPE_CHECKING:
    from .page_tools import PageTools

P = ParamSpec("P")
T = TypeVar("T")

OPTIONS = {"max_new_tokens", "probabilities"}
"""What `Bridge.begin` takes besides the text."""
DECLARE_OPTIONS = {"contract", "gates", "explain", "depth"}
"""What `Bridge.declare` takes besides tools and facts: arguments of Needle."""

PAST = {field.name for field in fields(Past)}
"""What a turn of `Bridge.replay` may have."""


def _text(value: Mapping[str, object]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _error(error: Exception) -> str:
    """An error as a message. One that is not areole's own is a bug, and says where it came from."""
    if not isinstance(error, AreoleError):
        kind = type(error).__name__
        error = AreoleError("internal", f"{kind}: {error}", error=kind)
    return _text({"type": "error", **error.to_json()})


def _options(text: str, known: set[str]) -> dict[str, Any]:
    """Options as an object that has known keys only."""
    try:
        options = json.loads(text)
    except ValueError as error:
        raise RequestError("request_option", f"The options are not JSON: {error}.", got=text) from error
    if not isinstance(options, dict) or not set(options) <= known:
        raise RequestError(
            "request_option", f"The options are {text}; needed an object with some of {', '.join(sorted(known))}.",
            got=text, needed=sorted(known),
        )  # fmt: skip
    return options


def _answering(call: Callable[P, T]) -> Callable[P, T | str]:
    """The call, with errors as text. It is the boundary to JavaScript, so nothing may pass."""

    @wraps(call)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T | str:
        try:
            return call(*args, **kwargs)
        except Exception as error:
            return _error(error)

    return wrapped


@_answering
def start(core_exports: Any, memory: Any, address: int, nbytes: int, name: str, digest: str | None = None) -> Bridge:
    """A Bridge over a core instance whose memory already holds the weights, `nbytes` at `address` (64-byte aligned).

    `memory` is the instance's own and named only because JavaScript has it at hand. `digest`: see Model.adopt. Gives an
    error's text for a damaged archive or a core of another version.
    """
    from .core.pyodide import PyodideCore  # needs `js`, which only Pyodide has

    warnings.simplefilter("ignore", LongConversationWarning)  # the page says it in the page, not on the console
    core = PyodideCore(core_exports, (address, nbytes))
    model = Model.adopt(core, address, nbytes, name, digest=digest)
    return Bridge(model, model.choose_kernels())


class Run:
    """One request under way. Dropping it before its end cancels it."""

    def __init__(self, stream: Stream, name: Callable[[int], str] = str) -> None:
        """`name`: a token's text for a person."""
        self._stream, self._name = stream, name
        self._finished = False

    def step(self) -> str:
        """The next event: {"type": "token", "id", "delta", "phase", "forced"}, and if asked for "probability" and
        "runner_up" {"id", "text", "probability"}; at the end {"type": "result", "result", "json", "tokens",
        "prompt_tokens", "timings", "text"} or an error; "" after it.

        "json" is the result as text, in which 2.0 is not 2. "failure" says what is wrong with an unusable result.
        """
        if self._finished:
            return ""
        try:
            item = next(self._stream)
        except StopIteration:
            self._finished = True
            return ""
        except Exception as error:  # the boundary to JavaScript
            self._finished = True
            return _error(error)
        if isinstance(item, Answer):
            self._finished = True
            return _text({"type": "result", "json": envelope_text(item.envelope), **item.to_json()})
        event = {"type": "token", "id": item.token, "delta": item.delta, "phase": item.phase, "forced": item.forced}
        if item.probability is not None:
            event["probability"] = item.probability
        if item.runner_up is not None:
            token, probability = item.runner_up
            event["runner_up"] = {"id": token, "text": self._name(token), "probability": probability}
        return _text(event)

    def cancel(self) -> None:
        """The next step gives the error `cancelled`, and the conversation is as it was before the request."""
        self._stream.cancel()


class Bridge:
    def __init__(self, model: Model, kernels: str = "dots") -> None:
        self._model, self._kernels = model, kernels
        self._needle: Needle | None = None
        self._page_tools: PageTools | None = None
        self._closed = False

    @_answering
    def info(self) -> str:
        """{"type": "info", "flavor", "kernels", "memory_bytes", "max_tokens", "kv_window", "archive"}.

        The archive's geometry has `layers`, the greatest `depth` that `declare` takes.
        """
        self._open()
        geometry, core = self._model.geometry, self._model.core
        return _text(
            {
                "type": "info",
                "flavor": core.flavor,
                "kernels": self._kernels,
                "memory_bytes": core.memory_bytes,
                "max_tokens": geometry.max_seq,
                "kv_window": geometry.kv_window,
                "archive": self._model.archive.describe(),
            }
        )

    @_answering
    def declare(self, tools_json: str, system: str = "", options_json: str = "{}") -> str:
        """New tools, new conversation: {"type": "declared", "prefix_tokens", "prefix_seconds", "prefix_cached",
        "grammar_seconds", "tools", "contract", "problem"}. Options: see DECLARE_OPTIONS.

        The text is shown to the model as it is; if it is no list of tools, none is declared and `problem` says why.
        With an error, the tools that were declared before stay.
        """
        self._open()
        options = _options(options_json, DECLARE_OPTIONS)
        needle = Needle(self._model, tools_json, system, strict=False, **options)
        if self._needle is not None:
            self._needle.close()
        self._needle = needle
        return _text(
            {
                "type": "declared",
                "prefix_tokens": needle.prefix_tokens,
                "prefix_seconds": needle.prefix_seconds,
                "prefix_cached": needle.prefix_cached,
                "grammar_seconds": needle.grammar_seconds,
                "tools": list(dict.fromkeys(tool.name for tool in needle.tools)),
                "contract": needle.contract.name,
                "problem": needle.problem.to_json() if needle.problem is not None else None,
            }
        )

    @_answering
    def offer(self, view: Any) -> str:
        """{"type": "offered", "taken"}: a record of `prefix` from an earlier visit, for `declare` to find. The same
        weights and core made it, as the page knows; what is no record, or of no use, is not taken."""
        self._open()
        record = Record.read(view.to_bytes())
        depths = range(min(LOWEST, self._model.geometry.layers), self._model.geometry.layers + 1)
        if record is None or record.layers not in depths:
            return _text({"type": "offered", "taken": False})
        kept = Snapshot(record.position, record.data)
        PrefixCache.of(self._model.at_depth(record.layers)).keep(record.tokens, record.sizes, kept)
        return _text({"type": "offered", "taken": True})

    def prefix(self) -> bytes | None:
        """What `offer` takes at a later visit: the state after the declared tools; None if nothing was fed for them."""
        record = self._needle.prefix_record() if self._needle is not None else None
        return record.to_bytes() if record is not None else None

    @_answering
    def begin(self, text: str, options_json: str = "{}") -> Run:
        """A request, to be driven with Run.step. Options: see OPTIONS."""
        needle = self._declared()
        options = _options(options_json, OPTIONS)
        return Run(
            needle.stream(text, options.get("max_new_tokens", 512), probabilities=bool(options.get("probabilities"))),
            lambda token: self._model.tokenizer.decode([token]),
        )

    @_answering
    def replay(self, turns_json: str) -> str:
        """Goes on after turns that have been: a list of the fields of past.Past. {"type": "replayed", "tokens"}."""
        needle = self._declared()
        turns = json.loads(turns_json)
        if not isinstance(turns, list) or not all(isinstance(turn, dict) and set(turn) <= PAST for turn in turns):
            raise RequestError(
                "request_option", f"replay needs a list of objects with some of {', '.join(sorted(PAST))}.",
                got=turns_json[:200], needed=sorted(PAST),
            )  # fmt: skip
        return _text({"type": "replayed", "tokens": needle.replay([Past(**turn) for turn in turns])})

    @_answering
    def embed(self, text: str) -> str:
        """{"type": "embedding", "embedding"}. Needs no tools, and leaves the conversation alone."""
        self._open()
        return _text({"type": "embedding", "embedding": embed(self._model, text)})

    @_answering
    def golden(self, request_json: str) -> str:
        """{"type": "golden", ...}: see golden.evaluate."""
        self._open()
        request = json.loads(request_json)
        if not isinstance(request, dict):
            raise RequestError("request_option", "golden needs a JSON object.", got=type(request).__name__)
        return _text({"type": "golden", **evaluate(self._model, request)})

    @_answering
    def check(self, tools_text: str) -> str:
        """{"type": "checked", ...}: what becomes of these tools, see schema_report.report. Declares nothing."""
        from .schema_report import report  # for those who design tools

        self._open()
        limit = None if retrieves(self._model, render_tools(tools_text).declared) else self._model.geometry.max_seq
        return _text({"type": "checked", **report(tools_text, self._model.tokenizer, limit)})

    @_answering
    def define(self, source: str) -> str:
        """{"type": "defined", ...}: runs a visitor's own source for its @tool functions, see PageTools.define."""
        return _text({"type": "defined", **self._functions().define(source)})

    async def invoke(self, name: str, arguments_json: str) -> str:
        """{"type": "invoked", ...}: runs one of the defined functions, see PageTools.invoke."""
        try:
            arguments = json.loads(arguments_json)
            return _text({"type": "invoked", **await self._functions().invoke(name, arguments)})
        except Exception as error:  # the boundary to JavaScript
            return _error(error)

    @_answering
    def survey(self, view: Any, size: int, name: str) -> str:
        """{"type": "surveyed", ...}: what is in an archive that the page holds, see archive_survey.survey."""
        from .archive_survey import survey_page

        return _text({"type": "surveyed", **survey_page(view, size, name)})

    @_answering
    def slice(self, depth: int) -> str:
        """{"type": "sliced", "name", "bytes", "pieces"}: the archive of the rung of `depth` blocks, see areole.ladder.

        A piece is base64 text, or [offset, length] of the file that was loaded: the page has that, and the core's copy
        is not as it was.
        """
        from .ladder import rung

        self._open()
        archive = self._model.archive
        cut = rung(archive, depth)
        pieces = [b64encode(one).decode() if isinstance(one, bytes) else list(one) for one in cut.pieces()]
        name = f"{archive.name.removesuffix('.cact')}-{depth}.cact"
        return _text({"type": "sliced", "name": name, "bytes": cut.nbytes, "pieces": pieces})

    @_answering
    def reset(self) -> str:
        """{"type": "reset"}; the tools stay."""
        self._open()
        if self._needle is not None:
            self._needle.reset()
        return _text({"type": "reset"})

    @_answering
    def close(self) -> str:
        """{"type": "closed"}. Everything after it is refused; closing twice is allowed."""
        if not self._closed:
            self._closed = True
            if self._needle is not None:
                self._needle.close()
            self._model.close()
        return _text({"type": "closed"})

    def _functions(self) -> PageTools:
        if self._page_tools is None:
            from .page_tools import PageTools

            self._page_tools = PageTools()
        return self._page_tools

    def _open(self) -> None:
        if self._closed:
            raise RequestError("request_closed", "This bridge was closed; load the model again.")

    def _declared(self) -> Needle:
        self._open()
        if self._needle is None:
            raise RequestError("request_unknown", "No tools have been declared yet; an empty list will do.")
        return self._needle
