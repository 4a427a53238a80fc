"""The decode grammar: which token may come next in a call, from the tools that are declared.

Owns the frame of an answer (`[{"name":..,"arguments":{..}},..]`, compact), the choice of a token, and the budget: what
is written can always be closed with the tokens that are left. Under the contract areole nothing that cannot be
enforced is declared (SchemaError), no prefix is a dead end, and where the model wanted another value than the rules
allow, `CallConstraint.steered` says so, because an argument that was bent is no answer until somebody has looked at it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .automaton import BEGIN, CLOSE, Automaton, Choice, Exactly, InChoices, Scalar, State
from .engine import TokenSession
from .errors import RequestError, SchemaError, ToolsError
from .guide import Guide
from .jsontext import write_string
from .numbers import CHARACTERS, Cutting
from .pieces import Pieces, pieces_of
from .places import Place
from .prompt import ToolSpec
from .regex import Regexes
from .schema import Node, Reader, union
from .tokenizer import Tokenizer

MAX_CALLS = 16
"""Calls in one answer. The same call may come again; dropping it is a gate's business."""
LOOKS = (8, 64, 256)
"""How many of the likeliest tokens are looked at before the whole vocabulary is."""

_NUMBER = re.compile(r"-?[0-9.eE+-]*")
_BODY = re.compile(r'(?<!\\)".*', re.DOTALL)
_ROOT = "arguments"
_LONGEST_RUN = 24
"""No token is longer."""
_FURTHEST_RUN = 64
"""Bytes that are looked ahead: more than a draft's tokens have."""


@dataclass
class Steer:
    """A value that the model would have written otherwise. `path`: the argument, such as `stops[1].level`; `call`: of
    which call, from 0; `wanted`: how the value would have begun; `given`: what came of it, once the call is written
    (both as JSON text, strings without their quotes);
    `kind`: "number", "string" (length, pattern or format) or "value" (enum, const, boolean, null)."""

    call: int
    path: str
    wanted: str
    kind: str
    given: str = ""
    steps: tuple[str | int, ...] = ()

    def to_json(self) -> dict[str, object]:
        return {"call": self.call, "path": self.path, "wanted": self.wanted, "given": self.given, "kind": self.kind}


class Grammar:
    """The grammar of some tools' calls. Shared by all requests; `start` makes what one request needs."""

    def __init__(
        self,
        tools: Sequence[tuple[str, Node]],
        tokenizer: Tokenizer,
        regexes: Regexes,
        *,
        least: int,
        most: int | None,
        cutting: bool,
        problems: Sequence[ToolsError] = (),
    ) -> None:
        """`tools`: what the model sees them called, and their arguments. `least`, `most`: how many calls."""
        self.pieces: Pieces = pieces_of(tokenizer)
        self._tokenizer = tokenizer
        self._written: dict[bytes, list[int]] = {}
        self.end = tokenizer.marker("</tool_call>")
        self.problems = tuple(problems)
        self.cutting = cutting
        self.machine = Automaton(regexes, cutting=cutting)
        texts = {b'{"name":' + write_string(name).encode("utf-8") + b',"arguments":': node for name, node in tools}
        order = sorted(texts)
        choice = Choice(order, [texts[text] for text in order], CLOSE)
        self._frame = Exactly(BEGIN, InChoices(choice, least, most if order else 0))

    def begin(self) -> State:
        """The state before a call's first byte."""
        self.machine.forget()
        state = self.machine.state([self.machine.push(self._frame, self.machine.end)])
        assert state is not None  # a set of one stack
        return state

    def start(self, guide: Guide | None = None) -> CallConstraint:
        """The constraint of one answer. `guide`: which of the legal tokens are passed over."""
        return CallConstraint(self, guide)

    def written(self, run: bytes) -> list[int]:
        """Bytes as the tokenizer writes them, up to a character that is not whole."""
        found = self._written.get(run)
        if found is None:
            found = self._written[run] = self._tokenizer.encode(run.decode("utf-8", "ignore"), markers=False)
        return found

    def accepts(self, text: str) -> bool:
        """Whether an answer could be this text."""
        state = self.begin().feed(text.encode("utf-8"))
        return state is not None and state.over


class CallConstraint:
    """Chooses the tokens of one answer: the likeliest legal one, while it can still be closed in time.

    text: the bytes so far. finished: the end marker was taken. steered: see Steer. cut: the budget, not the model,
    decided a token, so that a text may have been cut off.
    """

    def __init__(self, grammar: Grammar, guide: Guide | None = None) -> None:
        self.grammar, self._guide = grammar, guide
        self.text = b""
        self.finished = self.cut = False
        self.steered: list[Steer] = []
        self._state = grammar.begin()
        self._left: int | None = None
        self._plan: list[int] | None = None
        self._wanted: Steer | None = None
        self._place = Place()

    def budget(self, remaining: int) -> None:
        """Says how many tokens are left, the end marker among them. Told once, the constraint counts by itself."""
        self._left = remaining

    def thought(self, reasoning: str) -> None:
        """Told before the first token what the model thought."""
        if self._guide is not None:
            self._guide.thought(reasoning)

    def choose(self, session: TokenSession) -> tuple[int, bool] | None:
        """The next token and whether it was the only one possible; None if none is (contract needle only)."""
        pieces, state = self.grammar.pieces, self._state
        if self.finished:
            return None
        self._wanted = None
        if state.over:
            return self.grammar.end, True
        forced = self._forced(session.top(1)[0][0])
        if forced is not None:
            return forced, True
        seen, tight = 0, False
        own: int | None = None  # the likeliest legal token, if the guide is against it
        for k in LOOKS:
            for token, _ in session.top(k)[seen:]:
                first, seen = not seen, seen + 1
                after = pieces.after(state, token)
                if after is None:
                    token, after = self._healed(token) if seen <= LOOKS[0] else (token, None)
                    if after is None:
                        if first:
                            self._note(token)
                        continue
                if not self._fits(after):
                    tight = True
                    self.cut = self.cut or first
                elif self._admitted(token):
                    return token, pieces.only(state, token)
                elif own is None:
                    own = token
            if tight:  # there is hardly room left: no looking for another way than the planned one
                return self._last_resort()
            if own is not None:
                return self._guided(session, own), False
        for token in self._by_logit(session, pieces.legal(state)):
            after = pieces.after(state, token)
            if after is not None and self._fits(after):
                return token, pieces.only(state, token)
        return self._last_resort()

    def _forced(self, token: int) -> int | None:
        """Where the model wants something that is not legal and there is one way to go on, the longest token on that
        way: the model has learnt to read `":[{"` as one token, and single bytes confuse it."""
        pieces, state = self.grammar.pieces, self._state
        if self.grammar.cutting or (pieces.after(state, token) is not None and self._admitted(token)):
            return None
        for found in reversed(pieces.prefixes(self._run(state, self._place, _LONGEST_RUN, False))):
            if self._may_take(found):
                return found
        return None

    def _run(self, state: State, place: Place, most: int, strings: bool) -> bytes:
        """What must come next: the bytes, up to `most`, that have no alternative; with or without those in strings."""
        place, run = place.copy(), b""
        while len(run) < most and (strings or not place.in_string):
            filled = self._guide is not None and self._guide.filled(place)
            byte = state.sole(filled=filled)
            following = state.step(byte) if byte is not None else None
            if byte is None or following is None:
                break
            run += bytes([byte])
            place.step(byte)
            state = following
        return run

    def ahead(self, token: int) -> list[int]:
        """See engine.Constraint: what has no alternative, as the tokenizer writes it."""
        pieces = self.grammar.pieces
        state = pieces.after(self._state, token) if token != self.grammar.end else None
        if state is None or self.grammar.cutting:
            return []
        if state.over:
            return [self.grammar.end]
        place = self._place.copy()
        for byte in pieces.texts[token]:
            place.step(byte)
        # The last may be part of a longer one, which goes on with what the model chooses.
        return self.grammar.written(self._run(state, place, _FURTHEST_RUN, True))[:-1]

    def _may_take(self, token: int) -> bool:
        """Whether a token is legal, leaves room enough and is admitted."""
        after = self.grammar.pieces.after(self._state, token)
        return after is not None and self._fits(after) and self._admitted(token)

    def _admitted(self, token: int) -> bool:
        return self._guide is None or self._guide.admits(self.grammar.pieces.texts[token])

    def _healed(self, token: int) -> tuple[int, State | None]:
        """For a token that is legal up to where it has ended a value, the token that ends there: who writes `"}` where
        a property is still missing meant the string to end."""
        pieces, state = self.grammar.pieces, self._state
        text = pieces.texts[token] if token < len(pieces.texts) else b""
        if self.grammar.cutting or not self._place.in_string:
            return token, None
        place, here = self._place.copy(), state
        for at, byte in enumerate(text):
            following = here.step(byte)
            if following is None:
                shorter = pieces.known(text[:at]) if at and not place.in_string else None
                return (shorter, pieces.after(state, shorter)) if shorter is not None else (token, None)
            place.step(byte)
            here = following
        return token, None

    def _guided(self, session: TokenSession, own: int) -> int:
        """The likeliest token that the guide admits; `own` if there is none."""
        for token, _ in session.top(LOOKS[1]):
            if self._may_take(token):
                return token
        offered = self._guide.continuations(self.grammar.pieces) if self._guide is not None else []
        return next(filter(self._may_take, self._by_logit(session, offered)), own)

    def accept(self, token: int) -> None:
        """Told of each token that was taken."""
        if self._left is not None:
            self._left -= 1
        if token == self.grammar.end:
            self.finished = True
            self._complete()
            return
        after = self.grammar.pieces.after(self._state, token)
        if after is None:
            raise RequestError(
                "request_option", f"Token {token} is not legal here; a call's tokens are the constraint's to choose."
            )
        if self._wanted is not None:
            self.steered.append(self._wanted)
            self._wanted = None
        self._plan = self._plan[1:] if self._plan and self._plan[0] == token else None
        text = self.grammar.pieces.texts[token]
        self.text += text
        for byte in text:
            self._place.step(byte)
        if self._guide is not None:
            self._guide.accept(text)
        self._state = settled(after) if self.grammar.cutting else after

    def _by_logit(self, session: TokenSession, tokens: list[int]) -> list[int]:
        if len(tokens) < 2:
            return tokens
        given: Any = getattr(session, "logits", None)
        if given is None:
            return sorted(tokens, key=lambda token: (-session.probability(token), token))
        logits = given()
        return sorted((t for t in tokens if t < len(logits)), key=lambda token: (-logits[token], token))

    def _fits(self, after: State) -> bool:
        """Whether the answer can be closed in time after a token that leads here."""
        left = self._left
        if left is None or self.grammar.cutting:
            return True
        ending = after.shortest
        if len(ending) + 2 <= left:
            return True
        return len(self.grammar.pieces.plan(ending)) + 2 <= left

    def _last_resort(self) -> tuple[int, bool] | None:
        """No legal token leaves room enough: the shortest way to the end, which was possible when it was planned. If
        there never was room, it is followed all the same, and the engine's budget cuts it off."""
        if not self._plan:
            if self.grammar.cutting:
                return None
            self._plan = list(self.grammar.pieces.plan(self._state.shortest))
        self.cut = True
        return (self._plan[0], False) if self._plan else None

    def _note(self, token: int) -> None:
        """Remembers what the model wanted most, if a rule about values is what stands against it."""
        state, text = self._state, self.grammar.pieces.texts[token] if token < len(self.grammar.pieces.texts) else b""
        for at, byte in enumerate(text):
            following = state.step(byte)
            if following is None:
                kind = _refused_by(state, byte)
                if kind:
                    steps, begun = place_of(self.text + text[:at])
                    wanted = (begun + text[at:]).decode("utf-8", "replace")
                    number = _NUMBER.match(wanted) if kind == "number" else None
                    if number is not None and number.group():
                        wanted = number.group()
                    elif wanted[:1] == '"':
                        wanted = _BODY.sub("", wanted[1:])
                    self._remember(steps, wanted, kind)
                return
            state = following

    def _remember(self, steps: tuple[str | int, ...], wanted: str, kind: str) -> None:
        if len(steps) < 2 or steps[1] != _ROOT or not isinstance(steps[0], int):
            return
        if self.steered and self.steered[-1].steps == steps:
            return  # only how the value's beginning was refused counts; what follows is about another value already
        self._wanted = Steer(steps[0], _path(steps[2:]), wanted, kind, steps=steps)

    def _complete(self) -> None:
        """Looks up what became of the steered values."""
        try:
            calls = json.loads(self.text)
        except ValueError:
            return
        for steer in self.steered:
            value: Any = calls
            for place, step in enumerate(steer.steps):
                known = (
                    step in value if isinstance(value, dict) else isinstance(value, list) and step in range(len(value))
                )
                if not known:  # the value is listed as a whole, and what was refused lies within it
                    steer.path = _path(steer.steps[2:place])
                    break
                value = value[step]
            steer.given = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def settled(state: State) -> State:
    """The state at the beginning of a token, in the official engine's way: from here on, bounded numbers count."""
    if state.settled is None:
        machine = state.machine
        stacks = []
        for stack in state.stacks:
            frame = stack.frame
            if isinstance(frame, Scalar) and isinstance(frame.lexeme, Cutting) and stack.rest is not None:
                stack = machine.push(Scalar(frame.lexeme.settled(), frame.kind), stack.rest)
            stacks.append(stack)
        found = machine.state(stacks)
        state.settled = found if found is not None else state
    return state.settled


def _refused_by(state: State, byte: int) -> str:
    """The kind of the value that does not go on with a byte; "" if what refuses it is not a rule about a value."""
    kind = ""
    for stack in state.stacks:
        frame = stack.frame
        if not isinstance(frame, Scalar) or not frame.kind or byte in b" \t\r\n":
            return ""
        if frame.final and (frame.kind != "number" or byte not in CHARACTERS):
            return ""
        kind = frame.kind
    return kind


def _path(steps: Sequence[str | int]) -> str:
    out = ""
    for step in steps:
        out += f"[{step}]" if isinstance(step, int) else f".{step}" if out else step
    return out


_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^"\[\]{},:]+', re.DOTALL)


def place_of(text: bytes) -> tuple[tuple[str | int, ...], bytes]:
    """Where compact JSON that is cut off stands, by keys and places, and how the value there begins."""
    steps: list[str | int] = []
    value = 0  # where the value begins
    at = 0
    key: str | None = None
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            break
        token, end = found.group(), found.end()
        if token in (b"{", b"["):
            steps.append("" if token == b"{" else 0)
            key, value = None, end
        elif token in (b"}", b"]"):
            steps.pop()
            value = end
        elif token == b",":
            last = steps[-1]
            steps[-1] = last + 1 if isinstance(last, int) else ""
            key, value = None, end
        elif token == b":":
            steps[-1] = key or ""
            value = end
        elif token[:1] == b'"' and steps and steps[-1] == "" and key is None:
            key = json.loads(token)
        at = end
    return tuple(steps), text[value:]


def compile_tools(
    tools: Sequence[ToolSpec], tokenizer: Tokenizer, contract: Any = "areole", *, tool_choice: str = "auto"
) -> Grammar:
    """The grammar of some declared tools under a contract (its name, or the Contract).

    tool_choice: "auto"; "none" (only `[]`), "required" (at least one call) or a tool's name (at least one call, of that
    tool only). SchemaError for what cannot be enforced, ToolsError for a tool that is none or has another's name, with
    every finding in details["problems"], each with the place of its `tool`; under the contract needle rules that cannot
    be enforced are dropped and listed in `Grammar.problems`. RequestError for a tool_choice that names no tool.
    """
    name = contract if isinstance(contract, str) else str(contract.name)
    cutting = name == "needle" if isinstance(contract, str) else bool(getattr(contract, "exact_ranges", False))
    chosen = [tool for tool in tools if tool_choice in ("auto", "required") or tool_choice in (tool.name, tool.exposed)]
    if not chosen and tool_choice not in ("auto", "none"):
        known = ", ".join(dict.fromkeys(tool.name for tool in tools)) or "no tool at all"
        raise RequestError(
            "request_option",
            f"tool_choice is {tool_choice!r}; declared is {known}. Use auto, none, required or the name of a tool.",
            got=tool_choice, needed=known,
        )  # fmt: skip
    strict, wanted = not cutting, {id(tool) for tool in chosen}
    regexes = Regexes()
    machine = Automaton(regexes)
    problems: list[ToolsError] = []
    nodes: dict[str, list[Node]] = {}
    for place, tool in enumerate(tools):
        before = len(problems)
        problems += tool.faults if strict else ()
        reader = Reader(tool.schema, tool.name, regexes, strict=strict)
        try:
            node = reader.parameters()
            for path, array in reader.uniques:
                start = machine.item(array)
                if array.least > 1 and (start is None or not machine.distinct(start, array.least)):
                    raise SchemaError(
                        "tools_schema",
                        f"{tool.name}{path}: uniqueItems leaves fewer than {array.least} different items, which"
                        " minItems asks for. Lower minItems.",
                        path=f"{tool.name}{path}", keyword="uniqueItems", what="leaves too few items",
                        do="Lower minItems.",
                    )  # fmt: skip
            problems += reader.problems
            if id(tool) in wanted:
                nodes.setdefault(tool.exposed, []).append(node)
        except SchemaError as error:
            problems.append(error)
        for problem in problems[before:]:
            problem.details["tool"] = place
    if problems and strict:
        first = problems[0]
        raise type(first)(
            first.code, first.message, {**first.details, "problems": [problem.to_json() for problem in problems]}
        )
    least = 0 if tool_choice in ("auto", "none") else 1
    return Grammar(
        [(exposed, union(shapes)) for exposed, shapes in nodes.items()], tokenizer, regexes,
        least=least, most=MAX_CALLS if strict else None, cutting=cutting, problems=problems,
    )  # fmt: skip
