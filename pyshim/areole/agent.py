"""Needle: tools and facts once, then requests in and function calls out.

Owns the prompt's prefix and its session, the turns, and the result's shape, that of the official engine. A result
that the model did not finish or that is no list of calls is a typed failure in that shape. What a call may be and
whether it is withheld is the contract's business: the grammar's, postprocess.py's and gates.py's; where a contract has
no gates, `validation` is left out rather than filled in. Refuses malformed tools when they are declared, and requests
that do not fit.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Literal, overload

from .calls import CallParser, ReadCall, value_starts
from .contract import DEFAULT, GATE_RULES, Contract, contract_of
from .engine import Constraint, Conversation, Step, TokenSession, Turn
from .errors import AreoleError, CallParseError, ContextFullError, CoreError, RequestError
from .evidence import Evidence
from .gates import Context, Outcome, Steered, apply
from .lookahead import Lookahead, seeded
from .model import DRAFT, Model, Session, unit
from .past import Past, past_segments
from .postprocess import Draft, Reason, choices_of
from .prefixes import PrefixCache, Record
from .prompt import (
    RenderedTools,
    Segment,
    ToolSpec,
    prefix_segments,
    render_tools,
    system_line,
    tool_result,
    tool_turn,
    user_turn,
)
from .results import MAX_TURNS, Result, RunResult
from .retrieval import MOST, can_retrieve, chosen, subset, text_ids
from .sharing import LONG_CONVERSATION, dated_facts, shared_model, warn_long_conversation
from .sorting import sorts
from .waiting import AsyncStream, Pieces

if TYPE_CHECKING:
    from .grammar import Grammar
    from .guide import Guide
    from .running import Ask
    from .tokenizer import Tokenizer
    from .tools import Tool

TRUNCATED = "tool call truncated: token budget exhausted"
NO_TOOLS = "no tools declared, returning the empty call"


@dataclass(frozen=True)
class Answer:
    """What a request gave.

    envelope: the official engine's JSON object, keys in its order; `peak_ram_mb` is the core's memory in MiB.
    tokens: how many were generated, markers included, the closing <|im_end|> not.
    prompt_tokens: how many were fed for this turn before that; the prefix, fed once, is not counted.
    timings: prefill_s, decode_s, of that grammar_s, and gates_s in seconds; tokens and prompt_tokens.
    text: what the model said instead of a call, after a tool's result; else "".
    call_text: the call as the model wrote it. failure: the error that the envelope reports, if it does.
    reasons: why calls or arguments were withheld or changed.
    """

    envelope: dict[str, object]
    tokens: int
    prompt_tokens: int
    timings: dict[str, float]
    text: str = ""
    call_text: str = ""
    failure: AreoleError | None = field(default=None, compare=False)
    reasons: tuple[Reason, ...] = ()

    @property
    def function_calls(self) -> list[dict[str, object]]:
        calls = self.envelope["function_calls"]
        return calls if isinstance(calls, list) else []

    @property
    def result(self) -> Result:
        """The envelope as a typed object."""
        return Result.of(self.envelope)

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


def prefix_ids(
    tokenizer: Tokenizer, system: str, rendered: RenderedTools, limit: int, *, forgeable: bool = False
) -> list[int]:
    """BOS and what the model reads before the first turn. ContextFullError if `limit` tokens leave no room after it."""
    ids = [tokenizer.bos, *tokenizer.encode_segments(prefix_segments(system, rendered, forgeable=forgeable))]
    if len(ids) >= limit:
        raise ContextFullError(
            "context_full",
            f"The tools and the system text take {len(ids)} tokens; the context holds {limit}, and a request must fit"
            " too. Declare fewer tools or shorten their descriptions.",
            needed=len(ids) + 1, available=limit,
        )  # fmt: skip
    return ids


def retrieves(model: Model, tools: Sequence[ToolSpec]) -> bool:
    """Whether a model shows only some of so many tools, those that a request is about."""
    return len(tools) > MOST and can_retrieve(model)


class Needle:
    """One set of tools and one conversation over a model. Close it, or use it as a context manager.

    model: a loaded one, the path of weights, or None for those that `areole ask` would take; weights that are loaded
    here are shared by all that name them.
    tools: a list of functions, Tools, dataclasses, TypedDicts and pydantic models (see areole.tools), and of {"name",
    "description", "parameters"} objects, plain or OpenAI-wrapped; or JSON text, which the model sees digit for digit.
    system: facts for the model, see prompt.system_line.
    strict: refuse text that is no list of tools with ToolsError. Without it such text is shown to the model as it is
    and declares no tool; `problem` then says what is wrong.
    max_tokens: the context, prefix and all turns; None is all that the model was made for. kv_window: as Model.session.
    depth: how many of the model's blocks to run, see Model.at_depth: fewer are faster and less exact. None is all.
    contract: "areole" (that of None), "needle" (what the official engine does, faults included), "raw" (what the model
    writes), or one of your own; see contract.py. Under areole, tools whose schemas cannot be enforced are refused with
    SchemaError, and those that are none (parameters that are no object) or have another's name with ToolsError.
    gates: rules of the contract switched off by name, {"negation": False}; False: the gates and what they leave out.
    explain: put the reasons for what was withheld or changed into the result, under the key "areole".
    capitals: give titles, subjects, labels and the like a capital first letter, as the official engine does.
    forgeable: let marker strings in tools, system text and requests act as markers, as the official engine does. They
    then can pretend to be earlier turns, so leave it off for text that others wrote. None: as the contract has it.
    lookahead: run tokens that are likely to come in batches; answers are the same, see lookahead.py.
    retrieve: with more than five tools and a model that has an embedding head, show the model only the five that are
    nearest to a conversation's first request, see retrieval.py; `shown` tells which. Other models see all tools.
    stateless: answer each request in a conversation of its own. auto_date: put the local date and time before the
    system's facts, unless they have one.
    """

    def __init__(
        self,
        model: Model | str | os.PathLike[str] | None = None,
        tools: Iterable[object] | str = (),
        system: str = "",
        *,
        strict: bool = True,
        max_tokens: int | None = None,
        kv_window: int | None = None,
        depth: int | None = None,
        contract: str | Contract | None = None,
        gates: bool | Mapping[str, bool] = True,
        explain: bool = False,
        capitals: bool = True,
        forgeable: bool | None = None,
        lookahead: bool = True,
        retrieve: bool = True,
        stateless: bool = False,
        auto_date: bool = False,
    ) -> None:
        _need_text(system, "system")
        model = shared_model(model)
        model = model.at_depth(depth) if depth is not None else model
        system = dated_facts(system) if auto_date else system
        self.declared: list[object] | str
        self.runnable: Mapping[str, Tool] = {}
        if isinstance(tools, str):
            self.declared = tools
        else:
            from .tools import collect  # where tools are text, nobody waits for it

            collected = collect(tools)
            self.declared, self.runnable = collected.declared, collected.runnable
        self.system = system
        self._stateless = stateless
        self._requests = 0  # answered in this conversation
        self._warned = False
        self._grammars: dict[str, Grammar] = {}
        self._options: dict[str, object] = {
            "strict": strict, "max_tokens": max_tokens, "kv_window": kv_window, "depth": depth, "contract": contract,
            "gates": gates, "explain": explain, "capitals": capitals, "forgeable": forgeable,
            "lookahead": lookahead, "retrieve": retrieve,
        }  # fmt: skip
        self.contract = _chosen(DEFAULT if contract is None else contract, gates, capitals)
        forgeable = self.contract.forgeable if forgeable is None else forgeable
        self._explain = explain
        self._earlier: tuple[str, ...] = ()  # what was said in this conversation
        self._last_request = ""  # the last of it that is a request and no result of a call
        self._facts = system_line(system)
        rendered = render_tools(self.declared)
        if strict and rendered.problem is not None:
            raise rendered.problem
        self._model = model
        self._forgeable = forgeable
        self._conversation: Conversation | None = None
        self._pending = self._closed = self.prefix_cached = False
        self.grammar_seconds = 0.0  # what reading the schemas took
        self.tools = rendered.declared
        self.problem = rendered.problem
        self._parser = CallParser(rendered.declared)
        self._choices = choices_of(rendered.declared)
        self._sorts = self.contract.sorting and sorts(rendered.declared)
        self._retrieves = retrieve and retrieves(model, rendered.declared)
        self._near: Needle | None = None  # the conversation with the tools that were retrieved
        self._shown: tuple[int, ...] = ()
        limit = model.geometry.max_seq if max_tokens is None else max_tokens
        if self._retrieves:
            self.prefix_tokens = 0  # as long as nothing was asked
            if self.contract.grammar:
                self._grammar("auto")  # refuses what cannot be enforced
            return
        tokenizer = model.tokenizer
        prefix = prefix_ids(tokenizer, system, rendered, limit, forgeable=forgeable)
        self.prefix_tokens = len(prefix)
        if not self.tools:
            return  # nothing will be asked of the model
        if self.contract.grammar:
            began = time.perf_counter()
            self._grammar("auto")  # refuses what cannot be enforced before anything is fed
            self.grammar_seconds = time.perf_counter() - began
        session: TokenSession = model.session(prefix_capacity=self.prefix_tokens, max_tokens=limit, kv_window=kv_window)
        if lookahead and isinstance(session, Session):
            session = Lookahead(session, seeded(self.tools, tokenizer), DRAFT)
        cache, sizes = PrefixCache.of(model), (self.prefix_tokens, limit, kv_window)
        fed = cache.find(prefix, sizes)
        try:
            try:
                self._conversation = Conversation(session, tokenizer, prefix, fed=fed)
            except CoreError as error:
                if fed is None or error.code != "core_bad_snapshot":
                    raise
                cache.drop(prefix, sizes)
                fed = None
                self._conversation = Conversation(session, tokenizer, prefix)
        except BaseException:
            session.close()
            raise
        self.prefix_cached = fed is not None
        self._prefix = tuple(prefix), sizes
        if fed is None:
            cache.keep(prefix, sizes, self._conversation.start)

    @property
    def prefix_seconds(self) -> float:
        """What it took to feed the prefix; nothing if it was still known from before (`prefix_cached`)."""
        if self._near is not None:
            return self._near.prefix_seconds
        return self._conversation.prefill_s if self._conversation is not None else 0.0

    def prefix_record(self) -> Record | None:
        """The state after the prefix, to be kept between visits; None where nothing is fed before the first request."""
        if self._conversation is None:
            return None
        start = self._conversation.start
        return Record(self._model.geometry.layers, *self._prefix, start.position, start.data)

    @property
    def shown(self) -> tuple[str, ...]:
        """Names of the tools that the model sees: all, or those that were retrieved for this conversation."""
        places = self._shown if self._retrieves else range(len(self.tools))
        return tuple(self.tools[place].name for place in places)

    def complete(self, text: str, max_new_tokens: int = 512) -> dict[str, object]:
        """The answer to a request in the official engine's shape; see `answer` for the rest of what is known.

        After a turn that made calls, a text that is JSON is taken for the calls' result. Raises ContextFullError before
        anything changes, and what the core raises.
        """
        return self.answer(text, max_new_tokens).envelope

    def answer(self, text: str, max_new_tokens: int = 512) -> Answer:
        """As complete, with counts, timings and the model's own text."""
        return _last(self.stream(text, max_new_tokens))

    def stream(self, text: str, max_new_tokens: int = 512, *, probabilities: bool = False) -> Stream:
        """As answer, a step at a time. `probabilities` also gives each token's, at the price of a softmax each."""
        return self._stream(text, max_new_tokens, probabilities=probabilities)

    def run(
        self,
        text: str,
        max_turns: int = MAX_TURNS,
        max_new_tokens: int = 512,
        *,
        strict: bool = True,
        max_steps: int | None = None,
    ) -> RunResult:
        """Answers a request, runs the functions that it calls and gives their results back, until there is no call.

        At most `max_turns` times (`max_steps` is the same under another name). What a function raises is told to the
        model as {"error": ...} and is in the result. `strict`: a call with a value that the request does not support is
        not run. RequestError if a function is async; otherwise as complete, before any function has run.
        """
        from .running import drive, need_sync, run_loop

        need_sync(self.runnable)
        loop = run_loop(text, self.runnable, max_turns if max_steps is None else max_steps, strict)
        return drive(loop, lambda ask: _last(self._asked(ask, max_new_tokens)))

    async def arun(
        self,
        text: str,
        max_turns: int = MAX_TURNS,
        max_new_tokens: int = 512,
        *,
        strict: bool = True,
        max_steps: int | None = None,
    ) -> RunResult:
        """As run, with pauses between tokens; functions may be async. Cancelled between answers, the last one stays."""

        from .running import adrive, run_loop

        async def ask(step: Ask) -> Answer:
            return await _alast(AsyncStream(self._asked(step, max_new_tokens)))

        return await adrive(run_loop(text, self.runnable, max_turns if max_steps is None else max_steps, strict), ask)

    def _asked(self, ask: Ask, max_new_tokens: int) -> Stream:
        return self._stream(ask.text, max_new_tokens, goes_on=ask.results)

    @overload
    def extract(
        self, text: str, schema: object, max_new_tokens: int = 512, *, strict: bool = True, many: Literal[False] = False
    ) -> object: ...

    @overload
    def extract(
        self, text: str, schema: object, max_new_tokens: int = 512, *, strict: bool = True, many: Literal[True]
    ) -> list[object]: ...

    def extract(
        self, text: str, schema: object, max_new_tokens: int = 512, *, strict: bool = True, many: bool = False
    ) -> object:
        """A record out of a text: an instance of the dataclass or pydantic model, or a dict for other schemas.

        schema: such a class, a TypedDict, a Tool, a declaration, or the JSON Schema of an object. The system's facts
        count, the conversation and its tools do not. `many`: all of them, in a list. Raises ExtractError where there is
        none, several, or, with `strict`, one that the text does not support; ArgumentsError for one that does not fit;
        CallParseError if the model did not finish.
        """
        from .running import only_record, record_tool, records

        tool = record_tool(schema)
        with self.sibling([tool]) as one:
            found = records(one.answer(text, max_new_tokens), tool, strict)
        return found if many else only_record(found, tool, strict)

    async def aextract(
        self, text: str, schema: object, max_new_tokens: int = 512, *, strict: bool = True, many: bool = False
    ) -> object:
        """As extract, with pauses between tokens."""
        from .running import only_record, record_tool, records

        tool = record_tool(schema)
        with self.sibling([tool]) as one:
            found = records(await one.aanswer(text, max_new_tokens), tool, strict)
        return found if many else only_record(found, tool, strict)

    async def acomplete(self, text: str, max_new_tokens: int = 512) -> dict[str, object]:
        """As complete; the event loop has its turn between tokens. Cancelling the task cancels the request."""
        return (await self.aanswer(text, max_new_tokens)).envelope

    async def aanswer(self, text: str, max_new_tokens: int = 512) -> Answer:
        """As answer; see acomplete."""
        return await _alast(self.astream(text, max_new_tokens))

    def astream(self, text: str, max_new_tokens: int = 512, *, probabilities: bool = False) -> AsyncStream:
        """As stream, for `async for`; see acomplete."""
        return AsyncStream(self.stream(text, max_new_tokens, probabilities=probabilities))

    async def aembed(self, text: str) -> list[float]:
        """As embed, with pauses between pieces of the text."""
        self._check_open()
        return await Pieces(_embedding(self._model, text, PIECE)).afinish()

    @contextmanager
    def stateless(self) -> Iterator[Needle]:
        """For its duration each request has a conversation of its own; after it, the one from before goes on."""
        self._check_open()
        conversation = self._conversation
        mark = conversation.mark() if conversation is not None else None
        before = self._stateless, self._pending, self._requests, self._earlier, self._last_request
        near, shown = self._near, self._shown
        self._stateless, self._near = True, None
        try:
            yield self
        finally:
            self._stateless, self._pending, self._requests, self._earlier, self._last_request = before
            if self._near is not None:
                self._near.close()
            self._near, self._shown = near, shown
            if conversation is not None and mark is not None and not self._closed:
                conversation.back(mark)

    def sibling(
        self, tools: Iterable[object] | str | None = None, system: str | None = None, **options: object
    ) -> Needle:
        """Another Needle over the same model with the same facts and options, unless others are given. Close it too."""
        self._check_open()
        return Needle(
            self._model,
            () if tools is None else tools,
            self.system if system is None else system,
            **{**self._options, **options},  # type: ignore[arg-type]
        )

    def replay(self, turns: Sequence[Past]) -> int:
        """Goes on after turns that have been, which are fed, not answered again; how many tokens that took.

        ContextFullError if they do not fit; nothing has changed then.
        """
        self._check_open()
        if self._retrieves and turns:
            first_said = next((one.said for one in turns if not one.is_result), "")
            return self._nearest(first_said).replay(turns)
        if self._conversation is None or not turns:
            return 0
        first = self._conversation.turns == 0
        segments = [
            past_segments(one, self.tools, first and not at, forgeable=self._forgeable) for at, one in enumerate(turns)
        ]
        count = self._conversation.replay(segments)
        self._pending = bool(turns[-1].calls)
        self._requests += sum(not one.is_result for one in turns)
        self._earlier = (*self._earlier, *(one.said for one in turns))
        self._last_request = next((one.said for one in reversed(turns) if not one.is_result), self._last_request)
        return count

    def _guide(self, request: str, earlier: tuple[str, ...]) -> Guide | None:
        """What the request has to say about the calls while they are written, if the contract lets it."""
        if not self.contract.offers:
            return None
        from .guide import Guide
        from .offers import Offers

        return Guide(Offers(self.tools, Evidence(request, self._facts, earlier)), single=self._sorts)

    def _constraint(self, text: str, tool_choice: str, is_result: bool) -> Constraint | None:
        """What decides the tokens of a request's calls; a grammar is compiled once for each `tool_choice`.

        `tool_choice`: "auto", "none" (no call), "required" (at least one), or the name of the tool to call.
        """
        if tool_choice == "auto" and not self.contract.grammar:
            return None
        request, earlier = self._request(text, is_result)
        if tool_choice == "auto" and not is_result and self._sorts:
            tool_choice = "required"
        constraint = self._grammar(tool_choice).start(self._guide(request, earlier))
        if self.contract.said_values:
            from .said import SaidConstraint

            return SaidConstraint(constraint, self.tools, self._model.tokenizer, text)
        return constraint

    def _grammar(self, tool_choice: str) -> Grammar:
        found = self._grammars.get(tool_choice)
        if found is None:
            from .grammar import compile_tools

            rules = self.contract if self.contract.grammar else "areole"
            found = compile_tools(self.tools, self._model.tokenizer, rules, tool_choice=tool_choice)
            self._grammars[tool_choice] = found
        return found

    def _stream(
        self,
        text: str,
        max_new_tokens: int,
        *,
        probabilities: bool = False,
        goes_on: bool = False,
        tool_choice: str = "auto",
    ) -> Stream:
        """`goes_on`: it belongs to the conversation even where requests do not. `tool_choice`: see _constraint."""
        self._check_open()
        _need_text(text, "request")
        if self._stateless and not goes_on:
            self.reset()
        if self._retrieves:
            near = self._nearest(text, tool_choice)
            return near._stream(
                text, max_new_tokens, probabilities=probabilities, goes_on=True, tool_choice=tool_choice
            )
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
        constraint = self._constraint(text, tool_choice, is_result)
        turn = self._conversation.turn(
            segments,
            max_new_tokens=max_new_tokens,
            free_text=is_result and tool_choice in ("auto", "none"),
            constraint=constraint,
            probabilities=probabilities,
            doubts=self.contract.doubt,
        )
        if not is_result and self._requests == LONG_CONVERSATION and not self._warned:
            self._warned = True
            warn_long_conversation()
        return Stream(self._run(turn, text, is_result, constraint), turn)

    def _nearest(self, text: str, tool_choice: str = "auto") -> Needle:
        """The conversation over the tools nearest to its first request; one that has begun goes on."""
        if self._near is None:
            self._shown = chosen(self._model, self.tools, text, tool_choice)
            self._near = self.sibling(subset(self.declared, self._shown))
            self.prefix_tokens, self.prefix_cached = self._near.prefix_tokens, self._near.prefix_cached
        return self._near

    def embed(self, text: str) -> list[float]:
        """The confidence head's pooled cells over a text, at unit length: a vector to compare texts by.

        (queries * width,) floats, 3072 for the shipped weights. The conversation is not touched. All of the text is
        read; the official engine reads its first 256 tokens. ContextFullError for a text longer than the context.
        """
        self._check_open()
        return embed(self._model, text)

    @property
    def guesses(self) -> int:
        """Tokens that were run before they were chosen; see lookahead.py."""
        session = self._conversation.session if self._conversation is not None else None
        return session.guessed if isinstance(session, Lookahead) else 0

    def reset(self) -> None:
        """Forgets the conversation, not the tools."""
        self._check_open()
        if self._near is not None:
            self._near.close()
            self._near, self._shown = None, ()
        if self._conversation is not None:
            self._conversation.reset()
        self._pending = self._warned = False
        self._requests = 0
        self._earlier, self._last_request = (), ""

    def close(self) -> None:
        """Gives the session's memory back; the model stays the caller's. Closing twice is allowed."""
        self._closed = True
        if self._near is not None:
            self._near.close()
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

    def _run(self, turn: Turn, text: str, is_result: bool, constraint: Constraint | None) -> Iterator[Step | Answer]:
        yield from turn.steps()
        self._requests += not is_result
        answer = self._answer_of(turn, text, is_result, constraint)
        self._earlier = (*self._earlier, text)
        self._last_request = self._last_request if is_result else text
        self._pending = bool(answer.function_calls)
        yield answer

    def _answer_of(self, turn: Turn, text: str, is_result: bool, constraint: Constraint | None) -> Answer:
        outcome = Outcome(confidence=min(turn.confidence, turn.fluency))
        failure: AreoleError | None = None
        began = time.perf_counter()
        if turn.reached_call:
            try:
                outcome = self._judged(turn, text, is_result, constraint)
            except CallParseError as error:
                failure = error
        gates_s = time.perf_counter() - began
        kind = "call" if turn.reached_call and (turn.call or turn.closed) else "respond"
        envelope: dict[str, object] = {
            "type": kind,
            "success": failure is None,
            "error": failure.message if failure is not None else None,
            "error_code": failure.code if failure is not None else None,
            "reason": "runtime_failure" if failure is not None else None,
            "function_calls": outcome.function_calls,
            "suppressed_calls": outcome.suppressed_calls,
            "reasoning": turn.reasoning.strip() or None,
            "confidence": round(outcome.confidence, 4),
            **self._rates(turn),
        }
        if outcome.validation is not None:
            envelope["validation"] = outcome.validation
        if self._explain:
            reasons = [reason.to_json() for reason in outcome.reasons]
            envelope["areole"] = {"contract": self.contract.name, "reasons": reasons}
        return Answer(
            envelope,
            len(turn.tokens),
            turn.prompt_tokens,
            {
                "prefill_s": turn.prefill_s,
                "decode_s": turn.decode_s,
                "grammar_s": turn.grammar_s,
                "gates_s": gates_s,
                "tokens": len(turn.tokens),
                "prompt_tokens": turn.prompt_tokens,
            },
            "" if turn.reached_call else turn.prose.strip(),
            turn.call,
            failure,
            tuple(outcome.reasons),
        )

    def _judged(self, turn: Turn, text: str, is_result: bool, constraint: Constraint | None) -> Outcome:
        """The turn's calls, after the contract's rules. After a tool's result the request is the one before it."""
        calls = self._calls_of(turn)
        starts = value_starts(turn.call) if turn.call_marks else []
        drafts = []
        for place, call in enumerate(calls):
            known = starts[place] if place < len(starts) else {}
            first = {name: _chance(turn, offset) for name, offset in known.items()}
            drafts.append(Draft(call.tool, dict(call.arguments), first))
        request, earlier = self._request(text, is_result)
        steered = getattr(constraint, "steered", ())
        context = Context(
            self.contract,
            Evidence(request, self._facts, earlier),
            turn.confidence,
            turn.reasoning,
            tuple(Steered(item.call, item.path, item.wanted, item.given) for item in steered),
            len(self.tools) == 1,
            self._sorts,
            self._choices,
            turn.call_marks[0][1] if turn.call_marks and not calls else 1.0,
        )
        return apply(drafts, context)

    def _request(self, text: str, is_result: bool) -> tuple[str, tuple[str, ...]]:
        """What a turn is an answer to, and what was said before it; a result of calls belongs to their request."""
        return (self._last_request, (*self._earlier, text)) if is_result else (text, self._earlier)

    def _calls_of(self, turn: Turn) -> list[ReadCall]:
        """A finished turn's calls; of one that the budget cut off, those that are whole."""
        try:
            return self._parser.read(turn.call)
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


PIECE = 60
"""Tokens that an awaited embedding reads without a pause."""


def _chosen(contract: str | Contract, gates: bool | Mapping[str, bool], capitals: bool) -> Contract:
    """The contract without the rules that are switched off."""
    chosen = contract_of(contract)
    if isinstance(gates, Mapping):
        chosen.without(gates)  # refuses unknown names, also of rules that stay on
        off = [name for name, on in gates.items() if not on]
    elif isinstance(gates, bool):
        off = [] if gates else list(GATE_RULES)
    else:
        raise RequestError(
            "request_option", f"gates is {gates!r}; needed true, false, or an object such as {{\"negation\": false}}.",
            got=repr(gates), needed="bool or mapping",
        )  # fmt: skip
    return chosen.without([*off, *([] if capitals else ["capitals"])])


def _chance(turn: Turn, offset: int) -> float:
    """The model's own probability for the token that has a character of the call's text."""
    at = len(turn.call[:offset].encode("utf-8"))
    return next((chance for start, chance in reversed(turn.call_marks) if start <= at), 1.0)


def embed(model: Model, text: str) -> list[float]:
    """See Needle.embed; needs no tools."""
    return Pieces(_embedding(model, text)).finish()


def _embedding(model: Model, text: str, piece: int | None = None) -> Iterator[list[float] | None]:
    """Reads `piece` tokens between any two yields, all at once without one; the vector comes last."""
    _need_text(text, "text")
    ids = text_ids(model, text, "Embed it in parts.")
    with model.session(max_tokens=len(ids)) as session:
        for at in range(0, len(ids), piece or len(ids)):
            yield None
            session.prefill(ids[at : at + (piece or len(ids))], logits=False)
        yield unit(session.pooled("confidence"))


def _last(stream: Stream) -> Answer:
    for item in stream:
        if isinstance(item, Answer):
            return item
    raise AreoleError("internal", "A request ended without an answer.")


async def _alast(stream: AsyncStream) -> Answer:
    async for item in stream:
        if isinstance(item, Answer):
            return item
    raise AreoleError("internal", "A request ended without an answer.")


def _need_text(text: object, what: str) -> None:
    if not isinstance(text, str):
        raise RequestError(
            "request_text", f"The {what} is of type {type(text).__name__}; needed a string.",
            got=type(text).__name__, needed="str",
        )  # fmt: skip


def _no_timings() -> dict[str, float]:
    return {"prefill_s": 0.0, "decode_s": 0.0, "grammar_s": 0.0, "gates_s": 0.0, "tokens": 0, "prompt_tokens": 0}


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
