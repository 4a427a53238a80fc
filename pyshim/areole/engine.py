"""The loop that turns a session's logits into a turn: forced thinking, a call or an answer in words, token by token.

Owns the order of the parts, the budget, cancelling, and what a conversation's context holds between turns. Knows
tokens and markers, not JSON: what a call says is the agent's business, which tokens it may have a constraint's.
Decoding is greedy. Refuses a turn that does not fit before anything has changed; a turn that is cancelled, fails or is
abandoned leaves the session as it was before.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from .errors import Cancelled, ContextFullError, RequestError
from .lookahead import Lookahead
from .prompt import Segment
from .tokenizer import Tokenizer

Phase = Literal["reasoning", "text", "call"]

CALL_RESERVE = 33
"""Tokens of a turn's budget that thinking cannot take: its closing marker and 32 for the call."""


class TokenSession(Protocol):
    """What the loop needs of a model.Session."""

    @property
    def position(self) -> int: ...

    @property
    def max_tokens(self) -> int: ...

    def prefill(self, ids: Sequence[int], *, pin: bool = False, logits: bool = True) -> None: ...

    def decode(self, token: int) -> None: ...

    def top(self, k: int = 1) -> list[tuple[int, float]]: ...

    def probability(self, token: int) -> float: ...

    def confidence(self) -> float: ...

    def snapshot(self) -> Any: ...

    def restore(self, snapshot: Any) -> None: ...

    def reset(self) -> None: ...

    def close(self) -> None: ...


class Constraint(Protocol):
    """Decides the tokens of one call, from after its opening marker to its closing marker."""

    def choose(self, session: TokenSession) -> tuple[int, bool] | None:
        """The next token and whether it was the only one possible; None if none is. The end marker ends the call."""
        ...

    def accept(self, token: int) -> None:
        """Told of each token that was taken."""
        ...

    def ahead(self, token: int) -> Sequence[int]:
        """Tokens that are bound to come after one that is about to be taken, as a guess: see lookahead.py."""
        ...

    def budget(self, remaining: int) -> None:
        """Told before the first token how many there is room for, the end marker among them."""
        ...

    def thought(self, reasoning: str) -> None:
        """Told before the first token what the model thought."""
        ...


class Greedy:
    """No constraint: the likeliest token, whatever it is."""

    def choose(self, session: TokenSession) -> tuple[int, bool] | None:
        return session.top(1)[0][0], False

    def accept(self, token: int) -> None:
        pass

    def ahead(self, token: int) -> Sequence[int]:
        return ()

    def budget(self, remaining: int) -> None:
        pass

    def thought(self, reasoning: str) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Step:
    """One generated token. `delta` is the text that it completes, `text` all of its phase so far; markers have no
    text. `forced`: the model had no choice. `probability` is the model's own for it, before any constraint, and
    `runner_up` the likeliest other token with its own."""

    token: int
    phase: Phase
    forced: bool
    delta: str
    text: str
    probability: float | None = None
    runner_up: tuple[int, float] | None = None


class Turn:
    """One turn under way, and afterwards what it gave. Iterate `steps()` to run it.

    tokens: every generated id, from the thinking marker to the last of the call; the closing <|im_end|> is not one.
    reasoning, prose, call: the text between the markers, as written.
    reached_call: the call's opening marker was generated. closed: so was its closing marker.
    exhausted: the budget ended the turn, not the model. stuck: the constraint allowed no token.
    call_marks: with `doubts`, for each token of the call how many of its bytes come before it, and the model's own
    probability for it. fluency: with `doubts`, where the turn may end in words, the geometric mean of its probabilities
    for the tokens of reasoning and prose; 1.0 before there are any.
    confidence: of the confidence head over the whole context; 0.0 for a turn that was cut off before any content.
    prefill_s, decode_s: seconds. grammar_s: of decode_s, what choosing the call's tokens took.
    prompt_tokens: ids fed before the first generated one.
    """

    def __init__(
        self,
        conversation: Conversation,
        ids: list[int],
        max_new_tokens: int,
        free_text: bool,
        constraint: Constraint,
        probabilities: bool,
        doubts: bool = False,
    ) -> None:
        self._conversation = conversation
        self._ids = ids
        self._budget = max_new_tokens
        self._free_text = free_text
        self._constraint = constraint
        self._probabilities = probabilities
        self._doubts = doubts
        self._call_bytes = 0
        self.call_marks: list[tuple[int, float]] = []
        self._surprise, self._surprised = 0.0, 0
        self._made_in = conversation._state
        self._cancelled = self._started = False
        self._phase: Phase | None = None
        self._decoder = conversation.tokenizer.incremental()
        self._texts: dict[Phase, str] = {"reasoning": "", "text": "", "call": ""}
        self.tokens: list[int] = []
        self.prompt_tokens = len(ids)
        self.reached_call = self.closed = self.exhausted = self.stuck = self.done = False
        self.confidence = 0.0
        self.prefill_s = self.decode_s = self.grammar_s = 0.0

    @property
    def reasoning(self) -> str:
        return self._texts["reasoning"]

    @property
    def prose(self) -> str:
        return self._texts["text"]

    @property
    def call(self) -> str:
        return self._texts["call"]

    @property
    def fluency(self) -> float:
        return math.exp(-self._surprise / self._surprised) if self._surprised else 1.0

    def cancel(self) -> None:
        """The next step raises Cancelled. Safe to call from within a step's consumer, and more than once."""
        self._cancelled = True

    def steps(self) -> Iterator[Step]:
        """Runs the turn. Closing the iterator early counts as cancelling it.

        Raises Cancelled, RequestError("request_busy") if another turn of the conversation is under way, and whatever
        the session raises; the session is then as it was before the turn.
        """
        conversation = self._conversation
        if self._started or self._made_in != conversation._state:
            raise RequestError(
                "request_option", "The conversation has moved on since this turn was made; make a new one."
            )
        self._started = True
        before = conversation._begin()
        try:
            self._check_cancel()
            started = time.perf_counter()
            conversation.session.prefill(self._ids)
            ended = time.perf_counter()
            self.prefill_s = ended - started
            yield from self._generate()
            self._flush()
            self.decode_s = time.perf_counter() - ended
            if self._said_something():
                self.confidence = conversation.session.confidence()
        except BaseException:
            conversation._rollback(before)
            raise
        self.done = True
        conversation._commit()

    def _said_something(self) -> bool:
        """Whether there is something to be confident about: some of a call, or of prose where prose is an answer."""
        return bool(self._texts["call"]) or self.closed or (self._free_text and not self.reached_call)

    def _check_cancel(self) -> None:
        if self._cancelled:
            raise Cancelled("cancelled", "The request was cancelled; the conversation is as it was before it.")

    def _best(self) -> int:
        return self._conversation.session.top(1)[0][0]

    def _room(self) -> bool:
        """Whether the budget has a token left; remembers when it had not."""
        self.exhausted = len(self.tokens) >= self._budget
        return not self.exhausted

    def _take(self, token: int, phase: Phase, forced: bool) -> Step:
        """Feeds a token and says what it adds to the text."""
        self._check_cancel()
        conversation = self._conversation
        if phase != self._phase:
            self._flush()
            self._phase = phase
        doubted = self._doubts and token not in conversation.special and (phase == "call" or self._free_text)
        probability = conversation.session.probability(token) if doubted or self._probabilities else None
        if doubted and probability is not None:
            self._doubt(token, phase, probability)
        runner_up = None
        if self._probabilities:
            other = next(other for other, _ in conversation.session.top(2) if other != token)
            runner_up = other, conversation.session.probability(other)
        conversation.session.decode(token)
        self.tokens.append(token)
        if token in conversation.special:
            delta = self._flush()
        else:
            delta = self._decoder.feed(token)
            self._texts[phase] += delta
        shown = probability if self._probabilities else None
        return Step(token, phase, forced, delta, self._texts[phase], shown, runner_up)

    def _doubt(self, token: int, phase: Phase, probability: float) -> None:
        """Remembers how sure the model was of a token. The first of the words after thinking is its line break."""
        if phase == "call":
            self.call_marks.append((self._call_bytes, probability))
            self._call_bytes += len(self._conversation.tokenizer.piece_bytes(token))
        elif phase == "reasoning" or self._texts["text"]:
            self._surprise -= math.log(max(probability, sys.float_info.min))
            self._surprised += 1

    def _flush(self) -> str:
        """Ends the phase's text: bytes of a character that never came whole become U+FFFD, so that they show."""
        rest = self._decoder.finish()
        if self._phase is not None:
            self._texts[self._phase] += rest
        return rest

    def _generate(self) -> Iterator[Step]:
        conversation = self._conversation
        if self._room():
            yield self._take(conversation.think, "reasoning", True)
        yield from self._reason()
        if self._free_text:
            yield from self._say()
        else:
            yield from self._before_call()
        if self.reached_call:
            yield from self._call()

    def _reason(self) -> Iterator[Step]:
        """Thinking until the model ends it; any other marker or the end of its share of the budget ends it too."""
        conversation = self._conversation
        ended = False
        for _ in range(max(0, self._budget - CALL_RESERVE)):
            token = self._best()
            if token in conversation.special:
                ended = token == conversation.end_think
                break
            yield self._take(token, "reasoning", False)
        if self._room():
            yield self._take(conversation.end_think, "reasoning", not ended)

    def _before_call(self) -> Iterator[Step]:
        """One token of the model's, a line break as a rule, then the call's marker, wanted or not."""
        conversation = self._conversation
        if self._room():
            token = self._best()
            if token not in conversation.special:
                yield self._take(token, "text", False)
        if self._room():
            forced = self._best() != conversation.begin_call
            self.reached_call = True
            yield self._take(conversation.begin_call, "call", forced)

    def _say(self) -> Iterator[Step]:
        """Prose until the model begins a call or ends its turn."""
        conversation = self._conversation
        while self._room():
            token = self._best()
            if token == conversation.begin_call:
                self.reached_call = True
                yield self._take(token, "call", False)
                return
            if token in conversation.special:
                return
            yield self._take(token, "text", False)

    def _call(self) -> Iterator[Step]:
        """The call's body to its closing marker. Another marker ends the turn there, and is not taken."""
        conversation = self._conversation
        self._constraint.budget(self._budget - len(self.tokens))
        self._constraint.thought(self.reasoning)
        with conversation.told(self._constraint):
            yield from self._call_tokens()

    def _call_tokens(self) -> Iterator[Step]:
        conversation = self._conversation
        while self._room():
            began = time.perf_counter()
            choice = self._constraint.choose(conversation.session)
            self.grammar_s += time.perf_counter() - began
            if choice is None:
                self.stuck = True
                return
            token, forced = choice
            self.closed = token == conversation.end_call
            if token in conversation.special and not self.closed:
                return
            step = self._take(token, "call", forced)
            began = time.perf_counter()
            self._constraint.accept(token)
            self.grammar_s += time.perf_counter() - began
            yield step
            if self.closed:
                return


@dataclass(frozen=True)
class Mark:
    """A place in a conversation to come back to."""

    snapshot: Any
    turns: int
    at_start: bool


class Conversation:
    """A prefix and the turns after it, in one session. The prefix is fed once; `reset` goes back to its end.

    The session is the caller's to close. Between turns the context ends with the last token generated; the <|im_end|>
    that closes it is fed with the next turn, which saves a step.
    """

    def __init__(
        self, session: TokenSession, tokenizer: Tokenizer, prefix: Sequence[int], *, fed: Any | None = None
    ) -> None:
        """`session` is empty, and can pin len(prefix) tokens. `fed`: the `start` of a conversation with the same prefix
        in a session of the same sizes, which saves feeding it again."""
        self.session, self.tokenizer = session, tokenizer
        self.think, self.end_think = tokenizer.marker("<think>"), tokenizer.marker("</think>")
        # Where the tokenizer puts a space before a text, what the model says begins with it.
        self._before_thinking = tokenizer.encode("<think>")[:-1]
        self.begin_call, self.end_call = tokenizer.marker("<tool_call>"), tokenizer.marker("</tool_call>")
        self._end_turn = tokenizer.marker("<|im_end|>")
        self.special = frozenset({*tokenizer.markers.values(), tokenizer.pad, tokenizer.bos, tokenizer.eos})
        self._prefix = list(prefix)
        self._running = self._lost = False
        self._state = 0  # changes whenever the context does, so that a turn made for another one is told apart
        self.turns = 0
        self.prefill_s = 0.0
        if fed is None:
            self._feed_prefix()
        else:
            session.restore(fed)
            self._start = fed
            self._at_start = True

    @contextmanager
    def told(self, constraint: Constraint) -> Iterator[None]:
        """Lets a session that guesses know of what a constraint leaves no choice about."""
        if isinstance(self.session, Lookahead):
            self.session.forced = constraint.ahead
        try:
            yield
        finally:
            if isinstance(self.session, Lookahead):
                self.session.forced = None

    @property
    def start(self) -> Any:
        """A snapshot of the session with the prefix and nothing else."""
        return self._start

    def _feed_prefix(self) -> None:
        started = time.perf_counter()
        self.session.prefill(self._prefix, pin=True, logits=False)
        self.prefill_s = time.perf_counter() - started
        self._start = self.session.snapshot()
        self._at_start = True

    @property
    def available(self) -> int:
        """Tokens that still fit."""
        return self.session.max_tokens - self.session.position

    def turn(
        self,
        segments: Sequence[Segment],
        *,
        max_new_tokens: int = 512,
        free_text: bool = False,
        constraint: Constraint | None = None,
        probabilities: bool = False,
        doubts: bool = False,
    ) -> Turn:
        """A turn that says `segments` and lets the model answer with at most `max_new_tokens` tokens.

        `free_text` lets it answer in words instead of a call. `doubts`: see Turn.call_marks.
        Nothing happens until its `steps()` are iterated. Raises
        ContextFullError if turn and answer might not fit together, RequestError("request_busy") during another turn.
        """
        self._need_idle()
        if self._lost:
            raise RequestError("request_option", "The conversation could not be brought back after an error; reset it.")
        self._check_room(self.tokenizer.at_least(segments), max_new_tokens, "at least ")
        ids = self.tokenizer.encode_segments(segments, goes_on=True)
        if self.turns:
            ids.insert(0, self._end_turn)
        ids += self._before_thinking
        self._check_room(len(ids), max_new_tokens)
        return Turn(self, ids, max_new_tokens, free_text, constraint or Greedy(), probabilities, doubts)

    def _check_room(self, count: int, max_new_tokens: int, how: str = "") -> None:
        needed = count + max_new_tokens
        if needed > self.available:
            raise ContextFullError(
                "context_full",
                f"The request takes {how}{count} tokens and its answer may take {max_new_tokens}; {self.available} of"
                f" {self.session.max_tokens} are left. Shorten the request, lower max_new_tokens, or reset.",
                needed=needed, available=self.available, prompt_tokens=count, max_new_tokens=max_new_tokens,
            )  # fmt: skip

    def replay(self, turns: Sequence[tuple[Sequence[Segment], Sequence[Segment]]]) -> int:
        """Turns that have been, each what was said and what the model answered, fed without generating anything.

        How many tokens that took. ContextFullError if they do not fit; nothing has changed then.
        """
        self._need_idle()
        ids: list[int] = []
        for place, (said, answered) in enumerate(turns):
            if self.turns or place:
                ids.append(self._end_turn)
            # Two calls, not one: what the model says begins with a token of its own.
            ids += self.tokenizer.encode_segments(said, goes_on=True)
            ids += self.tokenizer.encode_segments(answered)
        if len(ids) > self.available:
            raise ContextFullError(
                "context_full",
                f"The conversation so far takes {len(ids)} tokens; {self.available} of {self.session.max_tokens} are"
                " left. Leave out its oldest turns.",
                needed=len(ids), available=self.available,
            )  # fmt: skip
        if ids:
            before = self._begin()
            try:
                self.session.prefill(ids, logits=False)
            except BaseException:
                self._rollback(before)
                raise
            self._commit()
            self.turns += len(turns) - 1
        return len(ids)

    def mark(self) -> Mark:
        """The conversation as it is now, for `back`."""
        self._need_idle()
        return Mark(self._start if self._at_start else self.session.snapshot(), self.turns, self._at_start)

    def back(self, mark: Mark) -> None:
        """As it was at the mark. RequestError("request_busy") while a turn is under way."""
        self._need_idle()
        self.session.restore(mark.snapshot)
        self.turns, self._at_start, self._lost = mark.turns, mark.at_start, False
        self._state += 1

    def reset(self) -> None:
        """Forgets every turn, not the prefix. RequestError("request_busy") while a turn is under way."""
        self._need_idle()
        if self._lost:
            self.session.reset()
            self._feed_prefix()
        elif not self._at_start:
            self.session.restore(self._start)
        self._at_start, self._lost, self.turns = True, False, 0
        self._state += 1

    def _need_idle(self) -> None:
        if self._running:
            raise RequestError(
                "request_busy", "A request is still running in this conversation; end or cancel it first."
            )

    def _begin(self) -> Any:
        """Marks a turn as running; what brings the session back to before it."""
        self._need_idle()
        before = self._start if self._at_start else self.session.snapshot()
        self._running = True
        return before

    def _rollback(self, before: Any) -> None:
        self._running = False
        self._lost = True
        self.session.restore(before)
        self._lost = False

    def _commit(self) -> None:
        self._running = self._at_start = False
        self.turns += 1
        self._state += 1
