"""The automaton of an answer's bytes: what is open (objects, arrays, strings, numbers) as a stack, one byte at a time.

Owns the steps from one state to the next, made when they are first taken and kept. A state is a set of stacks, several
only while alternatives (anyOf) have not parted. Every state that a step leads to can be completed: keys run out only
where an object may close, unique items only where an array may, and what is inside a string or number sees to itself.
Text is compact JSON in one form: no blanks, UTF-8, only the escapes that must be.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import Protocol

from .numbers import Bounds, Cutting, Digit, number
from .regex import Regex, Regexes, escape
from .schema import (
    ANY_DEPTH,
    BOOLEAN,
    NULL,
    Anything,
    Array,
    Never,
    Node,
    Number,
    Reader,
    Record,
    String,
    Union,
    Values,
    body,
    item_of,
    key_of,
)

QUOTE, COMMA, COLON, OPEN, CLOSE, BEGIN, END = b'",:{}[]'

MAX_STACKS = 100_000
"""Kept stacks; beyond, a new answer starts with an empty store."""


MAX_COMPARED = 16
"""Tools that are compared for the shortest call; of more, the one with the shortest name is taken."""


class Lexeme(Protocol):
    """A state of a value without parts. `shortest` completes it; it is b"" where `final`."""

    @property
    def final(self) -> bool: ...

    @property
    def shortest(self) -> bytes: ...

    def step(self, byte: int) -> Lexeme | None: ...


class Words:
    """Some texts, none the beginning of another; a state is how far into which of them."""

    __slots__ = ("texts", "low", "high", "at", "_next")

    def __init__(self, texts: Sequence[bytes], low: int, high: int, at: int) -> None:
        self.texts, self.low, self.high, self.at = texts, low, high, at
        self._next: dict[int, Words | None] = {}

    @property
    def final(self) -> bool:
        return len(self.texts[self.low]) == self.at

    @property
    def shortest(self) -> bytes:
        return min((self.texts[i][self.at :] for i in range(self.low, self.high)), key=lambda text: (len(text), text))

    @property
    def sole(self) -> int | None:
        return shared(self.texts, self.low, self.high, self.at)

    def step(self, byte: int) -> Words | None:
        if byte not in self._next:
            low, high = narrowed(self.texts, self.low, self.high, self.at, byte)
            self._next[byte] = Words(self.texts, low, high, self.at + 1) if low < high else None
        return self._next[byte]


def narrowed(texts: Sequence[bytes], low: int, high: int, at: int, byte: int) -> tuple[int, int]:
    """Which of the sorted texts low..high, equal up to `at`, go on with a byte."""

    def following(place: int) -> int:
        return texts[place][at] if at < len(texts[place]) else -1

    places = range(low, high)
    return low + bisect_left(places, byte, key=following), low + bisect_left(places, byte + 1, key=following)


def shared(texts: Sequence[bytes], low: int, high: int, at: int) -> int | None:
    """The byte at `at` of the sorted texts low..high, if all have the same."""
    first, last = texts[low], texts[high - 1]
    return first[at] if at < len(first) and at < len(last) and first[at] == last[at] else None


class Stack:
    """What is open: a frame, and what comes after it. The empty stack, without a frame, is an answer's end."""

    __slots__ = ("frame", "rest", "_shortest")

    def __init__(self, frame: Frame | None, rest: Stack | None) -> None:
        self.frame, self.rest = frame, rest
        self._shortest: bytes | None = None

    @property
    def over(self) -> bool:
        """Whether the answer may end here."""
        return self.frame is None or (self.frame.final and self.rest is not None and self.rest.over)

    def shortest(self, machine: Automaton) -> bytes:
        if self.frame is None or self.rest is None:
            return b""
        if self._shortest is None:
            self._shortest = self.frame.shortest(machine) + self.rest.shortest(machine)
        return self._shortest

    def step(self, machine: Automaton, byte: int) -> list[Stack]:
        if self.frame is None or self.rest is None:
            return []
        out = self.frame.step(machine, self.rest, byte)
        return [*out, *self.rest.step(machine, byte)] if self.frame.final else out


class Frame:
    """One thing that is open. `final`: it may be over without another byte."""

    __slots__ = ()
    final: bool = False

    def step(self, machine: Automaton, rest: Stack, byte: int) -> list[Stack]:
        raise NotImplementedError

    def shortest(self, machine: Automaton) -> bytes:
        raise NotImplementedError

    def sole(self, machine: Automaton) -> int | None:
        """The only byte that can come next; None if there are several, or it is not easily told."""
        return None


class Scalar(Frame):
    """A string, a number, or one of some values. `kind` is "" where nothing but JSON's own rules hold."""

    __slots__ = ("lexeme", "kind", "final")

    def __init__(self, lexeme: Lexeme, kind: str) -> None:
        self.lexeme, self.kind = lexeme, kind
        self.final = lexeme.final

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scalar) and self.lexeme == other.lexeme and self.kind == other.kind

    def __hash__(self) -> int:
        return hash(self.lexeme)

    def step(self, machine: Automaton, rest: Stack, byte: int) -> list[Stack]:
        after = self.lexeme.step(byte)
        return [machine.push(Scalar(after, self.kind), rest)] if after is not None else []

    def shortest(self, machine: Automaton) -> bytes:
        return self.lexeme.shortest

    def sole(self, machine: Automaton) -> int | None:
        return self.lexeme.sole if isinstance(self.lexeme, Words) and not self.final else None


@dataclass(frozen=True, slots=True)
class Exactly(Frame):
    """One byte, and then another frame, if any."""

    byte: int
    after: Frame | None

    def step(self, machine: Automaton, rest: Stack, byte: int) -> list[Stack]:
        if byte != self.byte:
            return []
        return [machine.push(self.after, rest) if self.after is not None else rest]

    def shortest(self, machine: Automaton) -> bytes:
        return bytes([self.byte]) + (self.after.shortest(machine) if self.after is not None else b"")

    def sole(self, machine: Automaton) -> int | None:
        return self.byte


class RecordShape:
    """An object's rules, ready for use. Properties are numbered; a set of them is a whole number's bits."""

    def __init__(self, node: Record, canonical: bool) -> None:
        names = sorted(node.properties) if canonical else list(node.properties)
        self.keys = [b'"' + b"".join(escape(c) for c in name) + b'":' for name in names]
        self.nodes = [node.properties[name] for name in names]
        self.reserved = frozenset(key[:-1] for key in self.keys)
        self.required = sum(1 << place for place, name in enumerate(names) if name in node.required)
        self.possible = sum(1 << place for place, inner in enumerate(self.nodes) if not isinstance(inner, Never))
        others = None if canonical or isinstance(node.others, Never) else node.others
        self.others, self.least, self.most, self.ordered = others, node.least, node.most, canonical
        self._tables: dict[int, tuple[list[bytes], list[int]]] = {}

    def may_close(self, used: int, count: int) -> bool:
        return not self.required & ~used and count >= self.least

    def allowed(self, used: int, count: int) -> int:
        """Properties that may come next."""
        left = self.possible & ~used
        missing = self.required & ~used
        if self.most is not None and count + 1 + missing.bit_count() > self.most:
            left &= missing if count < self.most else 0
        if self.ordered:
            left &= -1 << used.bit_length()
            if missing:
                left &= (1 << (missing & -missing).bit_length()) - 1
            while left and count + (self.possible >> (left.bit_length() - 1)).bit_count() < self.least:
                left &= ~(1 << (left.bit_length() - 1))
        return left

    def more(self, used: int, count: int) -> bool:
        """Whether a property of another name may come next."""
        missing = (self.required & ~used).bit_count()
        return self.others is not None and (self.most is None or count + 1 + missing <= self.most)

    def table(self, allowed: int) -> tuple[list[bytes], list[int]]:
        """The sorted keys of a set of properties, and their numbers."""
        if allowed not in self._tables:
            places = [place for place in range(len(self.keys)) if allowed >> place & 1]
            places.sort(key=lambda place: self.keys[place])
            self._tables[allowed] = [self.keys[place] for place in places], places
        return self._tables[allowed]


@dataclass(frozen=True, slots=True)
class InRecord(Frame):
    """In an object, before a key's comma or the end. `extra`: keys so far that are no declared property."""

    shape: RecordShape
    used: int = 0
    count: int = 0
    extra: tuple[bytes, ...] = ()

    def step(self, machine: Automaton, rest: Stack, byte: int) -> list[Stack]:
        shape = self.shape
        if byte == CLOSE:
            return [rest] if shape.may_close(self.used, self.count) else []
        if not (shape.allowed(self.used, self.count) or shape.more(self.used, self.count)):
            return []
        if self.count:
            return [machine.push(BeforeKey(self), rest)] if byte == COMMA else []
        return BeforeKey(self).step(machine, rest, byte)

    def shortest(self, machine: Automaton) -> bytes:
        shape, used, count = self.shape, self.used, self.count
        parts: list[bytes] = []

        def add(place: int) -> None:
            parts.append(shape.keys[place] + machine.least(shape.nodes[place], shape.ordered))

        optional: list[tuple[int, int]] = []
        for place in range(len(shape.keys)):
            if used >> place & 1 or not shape.possible >> place & 1:
                continue
            if shape.required >> place & 1:
                add(place)
            elif count < shape.least:
                optional.append((len(shape.keys[place]) + len(machine.least(shape.nodes[place], shape.ordered)), place))
        for _, place in sorted(optional)[: max(0, shape.least - count - len(parts))]:
            add(place)
        if shape.ordered:
            parts.sort(key=lambda part: shape.keys.index(next(key for key in shape.keys if part.startswith(key))))
        taken = {*shape.reserved, *self.extra}
        fill = 0
        while shape.others is not None and count + len(parts) < shape.least:
            key = b'"' + b"a" * fill + b'"'
            fill += 1
            if key not in taken:
                parts.append(key + b":" + machine.least(shape.others, False))
        return (b"," if parts and count else b"") + b",".join(parts) + b"}"

    def sole(self, machine: Automaton) -> int | None:
        shape = self.shape
        more = shape.allowed(self.used, self.count) or shape.more(self.used, self.count)
        if shape.may_close(self.used, self.count):
            return None if more else CLOSE
        return COMMA if self.count else QUOTE


@dataclass(frozen=True, slots=True)
class BeforeKey(Frame):
    """After the comma: a key must come."""

    record: InRecord

    def step(self, machine: Automaton, rest: Stack, byte: int) -> list[Stack]:
        if byte != QUOTE:
            return []
        record, shape, out = self.record, self.record.shape, []
        allowed = shape.allowed(record.used, record.count)
        if allowed:
            keys, _ = shape.table(allowed)
            out.append(machine.push(InKey(record, allowed, 0, len(keys), 1), rest))
        if shape.more(record.used, record.count):
            regexes = machine.regexes
            out.append(machine.push(OtherKey(record, regexes.cat(regexes.anything, regexes.quote), b'"'), rest))
        return out

    def sole(self, machine: Automaton) -> int | None:
        return QUOTE

    def shortest(self, machine: Automaton) -> bytes:
        stacks = self.step(machine, machine.end, QUOTE)
        return b'"' + min((stack.shortest(machine) for stack in stacks), key=len)


@dataclass(frozen=True, slots=True)
class InKey(Frame):
    """Within the key of one of the properties `allowed`: those at low..high of their table, `at` bytes in."""

    record: InRecord
    allowed: int
    low: int
    high: int
    at: int

    def _after(self, place: int) -> InRecord:
        record = self.record
        return replace(record, used=record.used | 1 << place, count=record.count + 1)

    def step(self, machine: Automaton, rest: Stack, byte: int) -> list[Stack]:
        shape = self.record.shape
        keys, places = shape.table(self.allowed)
        low, high = narrowed(keys, self.low, self.high, self.at, byte)
        if low >= high:
            return []
        if self.at + 1 < len(keys[low]):
            return [machine.push(InKey(self.record, self.allowed, low, high, self.at + 1), rest)]
        place = places[low]
        return machine.enter(shape.nodes[place], machine.push(self._after(place), rest), shape.ordered)

    def sole(self, machine: Automaton) -> int | None:
        return shared(self.record.shape.table(self.allowed)[0], self.low, self.high, self.at)

    def shortest(self, machine: Automaton) -> bytes:
        shape = self.record.shape
        keys, places = shape.table(self.allowed)
        return min(
            (
                keys[i][self.at :]
                + machine.least(shape.nodes[places[i]], shape.ordered)
                + self._after(places[i]).shortest(machine)
                for i in range(self.low, self.high)
            ),
            key=len,
        )


@dataclass(frozen=True, slots=True)
class OtherKey(Frame):
    """Within a key that is no declared property. `text`: the key so far, with its quote."""

    record: InRecord
    body: Regex
    text: bytes

    def _taken(self, text: bytes) -> bool:
        return text in self.record.shape.reserved or text in self.record.extra

    def _after(self, text: bytes) -> InRecord:
        return replace(self.record, count=self.record.count + 1, extra=(*self.record.extra, text))

    def step(self, machine: Automaton, rest: Stack, byte: int) -> list[Stack]:
        body, text = self.body.step(byte), self.text + bytes([byte])
        if body is None:
            return []
        if not body.final:
            return [machine.push(OtherKey(self.record, body, text), rest)]
        others = self.record.shape.others
        if self._taken(text) or others is None:
            return []
        return [machine.push(Colon(others), machine.push(self._after(text), rest))]

    def shortest(self, machine: Automaton) -> bytes:
        others = self.record.shape.others
        if others is None:
            return b""
        ending = self.body.shortest[:-1]
        while self._taken(self.text + ending + b'"'):
            ending += b"a"
        key = self.text + ending + b'"'
        rest = machine.least(others, False) + self._after(key).shortest(machine)
        return ending + b'":' + rest


@dataclass(frozen=True, slots=True)
class Colon(Frame):
    """The colon after a key, and its value."""

    node: Node

    def step(self, machine: Automaton, rest: Stack, byte: int) -> list[Stack]:
        return machine.enter(self.node, rest, False) if byte == COLON else []

    def shortest(self, machine: Automaton) -> bytes:
        return b":" + machine.least(self.node, False)


@dataclass(frozen=True, slots=True)
class InArray(Frame):
    """In an array, before an item's comma or the end. Counts only as far as it matters."""

    node: Array
    canonical: bool
    count: int = 0

    def _more(self) -> InArray:
        node = self.node
        cap = max(node.least, len(node.prefix), 1) if node.most is None else node.most
        return replace(self, count=min(self.count + 1, cap))

    def step(self, machine: Automaton, rest: Stack, byte: int) -> list[Stack]:
        node = self.node
        if byte == END:
            return [rest] if self.count >= node.least else []
        if node.most is not None and self.count >= node.most:
            return []
        inside = machine.enter(item_of(node, self.count), machine.push(self._more(), rest), self.canonical)
        if self.count:
            return inside if byte == COMMA else []
        return [after for stack in inside for after in stack.step(machine, byte)]

    def shortest(self, machine: Automaton) -> bytes:
        node = self.node
        items = [machine.least(item_of(node, i), self.canonical) for i in range(self.count, node.least)]
        return (b"," if items and self.count else b"") + b",".join(items) + b"]"

    def sole(self, machine: Automaton) -> int | None:
        if self.count >= self.node.least:
            return None
        return COMMA if self.count else self.first(machine)

    def first(self, machine: Automaton) -> int | None:
        """The byte with which an item must begin, if there is but one."""
        stacks = machine.enter(item_of(self.node, self.count), machine.end, self.canonical)
        frame = stacks[0].frame if len(stacks) == 1 else None
        if (
            isinstance(frame, Scalar)
            and frame.kind in ("", "string")
            and machine.least(self.node.items, False)[:1] == b'"'
        ):
            return QUOTE
        return frame.sole(machine) if frame is not None else None


@dataclass(frozen=True, slots=True)
class InUnique(Frame):
    """In an array whose items are `seen` so far, and may not come again."""

    node: Array
    seen: frozenset[bytes] = frozenset()

    def step(self, machine: Automaton, rest: Stack, byte: int) -> list[Stack]:
        node, count = self.node, len(self.seen)
        if byte == END:
            return [rest] if count >= node.least else []
        if node.most is not None and count >= node.most:
            return []
        start = machine.item(node)
        if start is None or not machine.other(start, b"", self.seen):
            return []
        item = UniqueItem(self, start, b"")
        if count:
            return [machine.push(item, rest)] if byte == COMMA else []
        return item.step(machine, rest, byte)

    def shortest(self, machine: Automaton) -> bytes:
        seen, out, start = set(self.seen), b"", machine.item(self.node)
        while len(seen) < self.node.least and start is not None:
            text = machine.another(start, b"", seen)
            out += (b"," if seen else b"") + text
            seen.add(text)
        return out + b"]"


@dataclass(frozen=True, slots=True)
class UniqueItem(Frame):
    """Within an item of such an array: an automaton of its own, and the text so far."""

    array: InUnique
    state: State
    text: bytes

    def step(self, machine: Automaton, rest: Stack, byte: int) -> list[Stack]:
        out: list[Stack] = []
        after, text, seen = self.state.step(byte), self.text + bytes([byte]), self.array.seen
        if after is not None and machine.other(after, text, seen):
            out.append(machine.push(UniqueItem(self.array, after, text), rest))
        if self.state.over and self.text not in seen:
            done = replace(self.array, seen=seen | {self.text})
            out += done.step(machine, rest, byte)
        return out

    def shortest(self, machine: Automaton) -> bytes:
        ending = machine.another(self.state, self.text, self.array.seen)
        done = replace(self.array, seen=self.array.seen | {self.text + ending})
        return ending + done.shortest(machine)


@dataclass(frozen=True, eq=False)
class Choice:
    """Something that begins with one of some texts, sorted and none the beginning of another, each with a shape after
    it and then `ending`: the calls of some tools."""

    texts: Sequence[bytes]
    nodes: Sequence[Node]
    ending: int


@dataclass(frozen=True, slots=True)
class InChoice(Frame):
    choice: Choice
    low: int
    high: int
    at: int = 0

    def step(self, machine: Automaton, rest: Stack, byte: int) -> list[Stack]:
        choice = self.choice
        low, high = narrowed(choice.texts, self.low, self.high, self.at, byte)
        if low >= high:
            return []
        if self.at + 1 < len(choice.texts[low]):
            return [machine.push(InChoice(choice, low, high, self.at + 1), rest)]
        return machine.enter(choice.nodes[low], machine.push(Exactly(choice.ending, None), rest), False)

    def sole(self, machine: Automaton) -> int | None:
        return shared(self.choice.texts, self.low, self.high, self.at)

    def shortest(self, machine: Automaton) -> bytes:
        choice, places = self.choice, range(self.low, self.high)
        if len(places) > MAX_COMPARED:  # not worth reading all those shapes for
            place = min(places, key=lambda i: len(choice.texts[i]))
            places = range(place, place + 1)
        endings = (choice.texts[i][self.at :] + machine.least(choice.nodes[i], False) for i in places)
        return min(endings, key=len) + bytes([choice.ending])


@dataclass(frozen=True, slots=True)
class InChoices(Frame):
    """In an array of choices, before an item's comma or the end."""

    choice: Choice
    least: int
    most: int | None
    count: int = 0

    def step(self, machine: Automaton, rest: Stack, byte: int) -> list[Stack]:
        if byte == END:
            return [rest] if self.count >= self.least else []
        if (self.most is not None and self.count >= self.most) or not self.choice.texts:
            return []
        count = self.count + 1 if self.most is not None else min(self.count + 1, max(self.least, 1))
        item, after = InChoice(self.choice, 0, len(self.choice.texts)), replace(self, count=count)
        if not self.count:
            return item.step(machine, machine.push(after, rest), byte)
        return [machine.push(item, machine.push(after, rest))] if byte == COMMA else []

    def shortest(self, machine: Automaton) -> bytes:
        item = InChoice(self.choice, 0, len(self.choice.texts))
        items = [item.shortest(machine) for _ in range(self.count, self.least)]
        return (b"," if items and self.count else b"") + b",".join(items) + b"]"


class State:
    """A set of stacks. Equal sets are one object, so that what was found out about a state is kept."""

    __slots__ = ("machine", "stacks", "over", "_next", "_shortest", "tokens", "legal", "only", "settled")

    def __init__(self, machine: Automaton, stacks: frozenset[Stack]) -> None:
        self.machine, self.stacks = machine, stacks
        self.over = any(stack.over for stack in stacks)
        self._next: dict[int, State | None] = {}
        self._shortest: bytes | None = None
        self.tokens: dict[int, State | None] = {}
        self.legal: list[int] | None = None
        self.only: bool | None = None
        self.settled: State | None = None

    @property
    def shortest(self) -> bytes:
        """The shortest way to end the answer from here."""
        if self._shortest is None:
            self._shortest = min((stack.shortest(self.machine) for stack in self.stacks), key=lambda t: (len(t), t))
        return self._shortest

    def step(self, byte: int) -> State | None:
        try:
            return self._next[byte]
        except KeyError:
            after = [new for stack in self.stacks for new in stack.step(self.machine, byte)]
            found = self._next[byte] = self.machine.state(after)
            return found

    def sole(self, *, filled: bool = False) -> int | None:
        """The only byte that can come next; None if there are several. `filled`: a list that is open here must have an
        item, whatever its schema says."""
        if len(self.stacks) != 1:
            return None
        (stack,) = self.stacks
        frame = stack.frame
        if filled and isinstance(frame, InArray) and not frame.count:
            return frame.first(self.machine)
        return frame.sole(self.machine) if frame is not None else None

    def feed(self, text: bytes) -> State | None:
        state: State | None = self
        for byte in text:
            if state is None:
                return None
            state = state.step(byte)
        return state


class Automaton:
    """Makes and keeps stacks and states. `cutting`: bounded numbers as the official engine has them."""

    def __init__(self, regexes: Regexes, *, cutting: bool = False) -> None:
        self.regexes, self.cutting = regexes, cutting
        self.end = Stack(None, None)
        self._stacks: dict[tuple[Frame, Stack], Stack] = {}
        self._states: dict[frozenset[Stack], State] = {}
        self._lexemes: dict[tuple[Node, bool], tuple[Frame, ...]] = {}
        self._least: dict[tuple[Node, bool], bytes] = {}
        self._items: dict[Array, State | None] = {}
        self._reader = Reader(None, "", regexes)

    def forget(self) -> None:
        """Drops what long use has piled up; states in use stay valid."""
        if len(self._stacks) > MAX_STACKS:
            self._stacks.clear()
            self._states.clear()
            self._items.clear()

    def push(self, frame: Frame, rest: Stack) -> Stack:
        key = (frame, rest)
        found = self._stacks.get(key)
        if found is None:
            found = self._stacks[key] = Stack(frame, rest)
        return found

    def state(self, stacks: Iterable[Stack]) -> State | None:
        key = frozenset(stacks)
        if not key:
            return None
        found = self._states.get(key)
        if found is None:
            found = self._states[key] = State(self, key)
        return found

    def start(self, node: Node, canonical: bool = False) -> State | None:
        """The state before a value on its own."""
        return self.state(self.enter(node, self.end, canonical))

    def enter(self, node: Node, rest: Stack, canonical: bool) -> list[Stack]:
        """Stacks before a value. `canonical`: each value in one form only."""
        key = node, canonical
        frames = self._lexemes.get(key)
        if frames is None:
            frames = self._lexemes[key] = tuple(self._frames(node, canonical))
        return [self.push(frame, rest) for frame in frames]

    def least(self, node: Node, canonical: bool) -> bytes:
        """The shortest text of a value."""
        key = node, canonical
        if key not in self._least:
            frames = (stack.shortest(self) for stack in self.enter(node, self.end, canonical))
            self._least[key] = min(frames, key=lambda text: (len(text), text), default=b"")
        return self._least[key]

    def _frames(self, node: Node, canonical: bool) -> Iterable[Frame]:
        regexes = self.regexes
        if isinstance(node, Union):
            for option in node.options:
                if canonical and isinstance(option, Values):
                    option = self._not_elsewhere(option, node.options)
                yield from self._frames(option, canonical)
        elif isinstance(node, Values):
            texts = canonical_texts(node.texts) if canonical else node.texts
            if texts:
                words = sorted({text.encode("utf-8") for text in texts})
                yield Scalar(Words(words, 0, len(words), 0), "value")
        elif isinstance(node, String):
            lexeme = regexes.cat(regexes.quote, body(regexes, node), regexes.quote)
            yield Scalar(lexeme, "" if node.free else "string")
        elif isinstance(node, Number):
            bounds = replace(node.bounds, canonical=canonical)
            start: Regex | Digit | Cutting | None = number(regexes, bounds)
            if self.cutting and not isinstance(start, Regex):
                start = Cutting(bounds)
            if start is not None:
                yield Scalar(start, "number")
        elif isinstance(node, Record):
            yield Exactly(OPEN, InRecord(RecordShape(node, canonical)))
        elif isinstance(node, Array):
            inner: Frame = InUnique(node) if node.unique else InArray(node, canonical)
            yield Exactly(BEGIN, inner)
        elif isinstance(node, Anything):
            for option in nested(ANY_DEPTH, canonical):
                yield from self._frames(option, canonical)

    def _not_elsewhere(self, values: Values, options: Sequence[Node]) -> Values:
        """Those of the values that no other option has too."""
        others = [option for option in options if option is not values]
        texts = (t for t in values.texts if not any(self._reader.admits(o, json.loads(t)) for o in others))
        return Values(tuple(texts))

    def item(self, node: Array) -> State | None:
        """The state before an item of an array with unique items."""
        if node not in self._items:
            self._items[node] = self.start(node.items, canonical=True)
        return self._items[node]

    def other(self, state: State, text: bytes, seen: frozenset[bytes]) -> bool:
        """Whether a value that begins with `text` can still become one that is not in `seen`."""
        near = [one for one in seen if one.startswith(text)]
        if not near or (state.over and text not in seen):
            return True
        for byte in range(256):
            after = state.step(byte)
            if after is not None:
                longer = text + bytes([byte])
                if not any(one.startswith(longer) for one in near) or self.other(after, longer, seen):
                    return True
        return False

    def another(self, state: State, text: bytes, seen: Iterable[bytes]) -> bytes:
        """A short ending that makes `text` a value which is not in `seen`."""
        taken = set(seen)
        number = 0
        kept: dict[bytes, State] = {b"": state}
        order: list[tuple[int, int, bytes]] = [(len(state.shortest), 0, b"")]
        while order:
            _, _, path = heappop(order)
            here = kept.pop(path)
            if text + path + here.shortest not in taken:
                return path + here.shortest
            for byte in range(256):
                after = here.step(byte)
                if after is not None:
                    longer = path + bytes([byte])
                    kept[longer] = after
                    number += 1
                    heappush(order, (len(longer) + len(after.shortest), number, longer))
        return state.shortest

    def distinct(self, start: State, enough: int) -> bool:
        """Whether there are at least so many different values."""
        complete, open_states = 0, [start]
        while open_states and complete + len(open_states) < enough:
            following: list[State] = []
            for state in open_states:
                complete += state.over
                following += (s for s in map(state.step, range(256)) if s is not None)
            open_states = following
        return complete + len(open_states) >= enough


_NESTED: dict[tuple[int, bool], tuple[Node, ...]] = {}


def nested(depth: int, canonical: bool) -> tuple[Node, ...]:
    """What any JSON value may be, with objects and arrays `depth` deep. Where each value must have one form, there are
    no objects."""
    key = depth, canonical
    if key not in _NESTED:
        options: list[Node] = [String(), Number(Bounds(False)), NULL, BOOLEAN]
        if depth:
            inner = Union(nested(depth - 1, canonical))
            options.append(Array(inner))
            if not canonical:
                options.append(Record({}, others=inner))
        _NESTED[key] = tuple(options)
    return _NESTED[key]


def canonical_texts(texts: Iterable[str]) -> tuple[str, ...]:
    """Of equal values one, whole numbers without a fraction."""
    kept: dict[object, str] = {}
    for text in texts:
        value = json.loads(text)
        if isinstance(value, float) and value.is_integer():
            text = str(int(value))
        kept.setdefault(key_of(value), text)
    return tuple(kept.values())
