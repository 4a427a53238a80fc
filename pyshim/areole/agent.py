"""Needle: tools and facts once, then requests in and function calls out.

Owns the prompt's prefix and its session, the turns, and the result's shape, that of the official engine. A result
that the model did not finish or that is no list of calls is a typed failure in that shape. The checks that the
official engine makes on top (grounding, negation, confidence floor) are not made here, so its `validation` is left
out rather than filled in. Refuses malformed tools when they are declared, and requests that do not fit.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType

from .calls import CallParser
from .engine import Conversation, Step, Turn
from .errors import AreoleError, CallParseError, ContextFullError, RequestError
from .model import Model, unit
from .prompt import Segment, prefix_segments, render_tools, tool_result, tool_turn, user_turn

TRUNCATED = "tool call truncated: token budget exhausted"
NO_TOOLS = "no tools declared, returning the empty call"


@dataclass(frozen=True)
class Answer:
    """What a request gave.

    envelope: the official engine's JSON object, keys in its order; `peak_ram_mb` is the core's memory in MiB.
    tokens: how many were generated, markers included, the closing <|im_end|> not.
    prompt_tokens: how many were fed for this turn before that; the prefix, fed once, is not counted.
    timings: prefill_s and decode_s in seconds, tokens and prompt_tokens.
    text: what the model said instead of a call, after a tool's result; else "".
    call_text: the call as the model wrote it. failure: the error that the envelope reports, if it does.
    """

    envelope: dict[str, object]
    tokens: int
    prompt_tokens: int
    timings: dict[str, float]
    text: str = ""
    call_text: str = ""
    failure: AreoleError | None = field(default=None, compare=False)

    @property
    def function_calls(self) -> list[dict[str, object]]:
        calls = self.envelope["function_calls"]
        return calls if isinstance(calls, list) else []

    def to_json(self) -> dict[str, object]:
        """{"result", "tokens", "prompt_tokens", "timings", "text"}, and "failure" where there is one."""
        out: dict[str, object] = {
            "result": self.envelope,
            "tokens": self.tokens,
            "prompt_tokens": self.prompt_tokens,
            "timings": self.timings,
            "text": self.text,
        }
        if self.failure is not None:
            out["failure"] = self.failure.to_json()
        return out


class Stream:
    """A request's steps as they come, then its Answer. Closing it early cancels it."""

    def __init__(self, items: Iterator[Step | Answer], turn: Turn | None) -> None:
        self._items, self._turn = items, turn
        self._finished = False

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> Step | Answer:
        if self._finished:
            raise StopIteration
        try:
            return next(self._items)
        except BaseException:
            self._finished = True
            raise

    def cancel(self) -> None:
        """The next item raises Cancelled instead; the conversation is as it was before. Of no effect after the end."""
        if self._turn is not None:
            self._turn.cancel()

    def close(self) -> None:
        """Ends it at once, as cancel does; closing a finished stream is allowed."""
        self._finished = True
        close = getattr(self._items, "close", None)
        if close is not None:
            close()


class Needle:
    """One set of tools and one conversation over a model. Close it, or use it as a context manager.

    tools: a list of {"name", "description", "parameters"} objects, plain or OpenAI-wrapped, or JSON text of one, which
    the model sees digit for digit. system: facts for the model, see prompt.system_line.
    strict: refuse text that is no list of tools with ToolsError. Without it such text is shown to the model as it is
    and declares no tool; `problem` then says what is wrong.
    max_tokens: the context, prefix and all turns; None is all that the model was made for. kv_window: as Model.session.
    capitals: give titles, subjects, labels and the like a capital first letter, as the official engine does.
    forgeable: let marker strings in tools, system text and requests act as markers, as the official engine does. They
    then can pretend to be earlier turns, so leave it off for text that others wrote.
    """

    def __init__(
        self,
        model: Model,
        tools: Sequence[object] | str = (),
        system: str = "",
        *,
        strict: bool = True,
        max_tokens: int | None = None,
        kv_window: int | None = None,
        capitals: bool = True,
        forgeable: bool = False,
    ) -> None:
        _need_text(system, "system")
        rendered = render_tools(tools if isinstance(tools, str) else list(tools))
        if strict and rendered.problem is not None:
            raise rendered.problem
        self._model = model
        self._forgeable = forgeable
        self._conversation: Conversation | None = None
        self._pending = self._closed = False
        self.tools = rendered.declared
        self.problem = rendered.problem
        self._parser = CallParser(rendered.declared, capitals=capitals)
        tokenizer = model.tokenizer
        prefix = [tokenizer.bos, *tokenizer.encode_segments(prefix_segments(system, rendered, forgeable=forgeable))]
        self.prefix_tokens = len(prefix)
        limit = model.geometry.max_seq if max_tokens is None else max_tokens
        if self.prefix_tokens >= limit:
            raise ContextFullError(
                "context_full",
                f"The tools and the system text take {self.prefix_tokens} tokens; the context holds {limit}, and a"
                " request must fit too. Declare fewer tools or shorten their descriptions.",
                needed=self.prefix_tokens + 1, available=limit,
            )  # fmt: skip
        if not self.tools:
            return  # nothing will be asked of the model
        session = model.session(prefix_capacity=self.prefix_tokens, max_tokens=limit, kv_window=kv_window)
        try:
            self._conversation = Conversation(session, tokenizer, prefix)
        except BaseException:
            session.close()
            raise

    @property
    def prefix_seconds(self) -> float:
        """What it took to feed the prefix."""
        return self._conversation.prefill_s if self._conversation is not None else 0.0

    def complete(self, text: str, max_new_tokens: int = 512) -> dict[str, object]:
        """The answer to a request in the official engine's shape; see `answer` for the rest of what is known.

        After a turn that made calls, a text that is JSON is taken for the calls' result. Raises ContextFullError before
        anything changes, and what the core raises.
        """
        return self.answer(text, max_new_tokens).envelope

    def answer(self, text: str, max_new_tokens: int = 512) -> Answer:
        """As complete, with counts, timings and the model's own text."""
        for item in self.stream(text, max_new_tokens):
            if isinstance(item, Answer):
                return item
        raise AreoleError("internal", "A request ended without an answer.")

    def stream(self, text: str, max_new_tokens: int = 512, *, probabilities: bool = False) -> Stream:
        """As answer, a step at a time. `probabilities` also gives each token's, at the price of a softmax each."""
        self._check_open()
        _need_text(text, "request")
        if isinstance(max_new_tokens, bool) or not isinstance(max_new_tokens, int):
            raise RequestError(
                "request_option", f"max_new_tokens is {max_new_tokens!r}; needed a whole number.",
                got=repr(max_new_tokens), needed="a whole number",
            )  # fmt: skip
        if self._conversation is None:
            return Stream(iter([_no_tools()]), None)
        if max_new_tokens <= 0:
            return Stream(iter([self._nothing()]), None)
        segments, is_result = self._turn_segments(text)
        turn = self._conversation.turn(
            segments, max_new_tokens=max_new_tokens, free_text=is_result, probabilities=probabilities
        )
        return Stream(self._run(turn), turn)

    def embed(self, text: str) -> list[float]:
        """The confidence head's pooled cells over a text, at unit length: a vector to compare texts by.

        (queries * width,) floats, 3072 for the shipped weights. The conversation is not touched. All of the text is
        read; the official engine reads its first 256 tokens. ContextFullError for a text longer than the context.
        """
        self._check_open()
        return embed(self._model, text)

    def reset(self) -> None:
        """Forgets the conversation, not the tools."""
        self._check_open()
        if self._conversation is not None:
            self._conversation.reset()
        self._pending = False

    def close(self) -> None:
        """Gives the session's memory back; the model stays the caller's. Closing twice is allowed."""
        self._closed = True
        if self._conversation is not None:
            self._conversation.session.close()

    def __enter__(self) -> Needle:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise RequestError("request_closed", "This Needle was closed; make another one from the model.")

    def _turn_segments(self, text: str) -> tuple[list[Segment], bool]:
        """The turn, and whether it is the result of the calls before it."""
        result = tool_result(text) if self._pending else None
        if result is not None:
            return tool_turn(result, forgeable=self._forgeable), True
        first = self._conversation is None or self._conversation.turns == 0
        return user_turn(text, first, forgeable=self._forgeable), False

    def _run(self, turn: Turn) -> Iterator[Step | Answer]:
        yield from turn.steps()
        answer = self._answer_of(turn)
        self._pending = bool(answer.function_calls)
        yield answer

    def _answer_of(self, turn: Turn) -> Answer:
        calls: list[dict[str, object]] = []
        failure: AreoleError | None = None
        if turn.reached_call:
            try:
                calls = self._calls_of(turn)
            except CallParseError as error:
                failure = error
        kind = "call" if turn.reached_call and (turn.call or turn.closed) else "respond"
        envelope: dict[str, object] = {
            "type": kind,
            "success": failure is None,
            "error": failure.message if failure is not None else None,
            "error_code": failure.code if failure is not None else None,
            "reason": "runtime_failure" if failure is not None else None,
            "function_calls": calls,
            "suppressed_calls": [],
            "reasoning": turn.reasoning.strip() or None,
            "confidence": round(turn.confidence, 4),
            **self._rates(turn),
        }
        return Answer(
            envelope,
            len(turn.tokens),
            turn.prompt_tokens,
            {
                "prefill_s": turn.prefill_s,
                "decode_s": turn.decode_s,
                "tokens": len(turn.tokens),
                "prompt_tokens": turn.prompt_tokens,
            },
            "" if turn.reached_call else turn.prose.strip(),
            turn.call,
            failure,
        )

    def _calls_of(self, turn: Turn) -> list[dict[str, object]]:
        """A finished turn's calls; of one that the budget cut off, those that are whole."""
        try:
            return self._parser.parse(turn.call)
        except CallParseError:
            if turn.closed or not (turn.exhausted or turn.stuck):
                raise
            calls = self._parser.complete_calls(turn.call)
            if calls:
                return calls
            raise CallParseError("truncated", TRUNCATED, text=turn.call) from None

    def _rates(self, turn: Turn | None) -> dict[str, object]:
        def rate(count: int, seconds: float) -> float:
            return round(count / seconds, 1) if seconds > 0 else 0.0

        return {
            "prefill_tps": rate(turn.prompt_tokens, turn.prefill_s) if turn is not None else 0.0,
            "decode_tps": rate(len(turn.tokens), turn.decode_s) if turn is not None else 0.0,
            "peak_ram_mb": round(self._model.core.memory_bytes / 2**20, 1),
        }

    def _nothing(self) -> Answer:
        """The answer to a request that may not generate anything. The request is not remembered."""
        envelope: dict[str, object] = {
            "type": "respond", "success": True, "error": None, "error_code": None, "reason": None,
            "function_calls": [], "suppressed_calls": [], "reasoning": None, "confidence": 0.0, **self._rates(None),
        }  # fmt: skip
        return Answer(envelope, 0, 0, _no_timings())


def embed(model: Model, text: str) -> list[float]:
    """See Needle.embed; needs no tools."""
    _need_text(text, "text")
    ids = [model.tokenizer.bos, *model.tokenizer.encode(text, markers=False)]
    limit = model.geometry.max_seq
    if len(ids) > limit:
        raise ContextFullError(
            "context_full", f"The text takes {len(ids)} tokens; the context holds {limit}. Embed it in parts.",
            needed=len(ids), available=limit,
        )  # fmt: skip
    with model.session(max_tokens=len(ids)) as session:
        session.prefill(ids, logits=False)
        return unit(session.pooled("confidence"))


def _need_text(text: object, what: str) -> None:
    if not isinstance(text, str):
        raise RequestError(
            "request_text", f"The {what} is of type {type(text).__name__}; needed a string.",
            got=type(text).__name__, needed="str",
        )  # fmt: skip


def _no_timings() -> dict[str, float]:
    return {"prefill_s": 0.0, "decode_s": 0.0, "tokens": 0, "prompt_tokens": 0}


def _no_tools() -> Answer:
    """The answer where no tool is declared; the model is not asked."""
    envelope: dict[str, object] = {
        "type": "call", "success": True, "error": None, "function_calls": [], "suppressed_calls": [],
        "reasoning": NO_TOOLS, "confidence": 1.0,
    }  # fmt: skip
    return Answer(envelope, 0, 0, _no_timings())


def envelope_text(envelope: dict[str, object]) -> str:
    """An envelope as compact JSON text; floats keep their fraction (`2.0`), which JavaScript's numbers would lose."""
    return json.dumps(envelope, ensure_ascii=False, separators=(",", ":"))
