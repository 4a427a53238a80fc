"""Fewer steps: tokens that are likely to come are run in one batch, and kept as far as the loop then takes them.

Owns the guesses and the book-keeping between them and the loop, which sees an ordinary session. Nothing changes but the
time: the logits after a drafted token are the bits that decoding gives, and a guess that the loop does not take is
forgotten by the core. What follows is guessed from what the grammar leaves no choice about, and from what came after
the same few tokens before: in this conversation, in earlier answers, in the tools' names.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from .engine import TokenSession
    from .prompt import ToolSpec
    from .tokenizer import Tokenizer

    class DraftSession(TokenSession, Protocol):
        """What a session must be able to do; model.Session is one."""

        def draft(self, ids: Sequence[int]) -> None: ...

        def look(self, row: int) -> None: ...

        def accept(self, count: int) -> None: ...


LEAST = 3
"""Guesses that make a batch worth its while: it costs as much as about half of its tokens one by one, and a start."""
SPAN = 4
"""Tokens that have to be the same before what followed them is a guess."""
SURE, EXCEPTION = 2, 2
"""How often the same token must have followed; and how much more often after it was another one."""
MOST_KNOWN = 1 << 14
"""Sequences that are remembered; then it begins anew."""


class Memory:
    """What followed any SPAN tokens, and how reliably."""

    def __init__(self) -> None:
        self._after: dict[tuple[int, ...], tuple[int, int]] = {}  # the token, and how often in a row it was that one
        self._last: tuple[int, ...] = ()

    def begin(self, tokens: Iterable[int] = (), weight: int = 1) -> None:
        """A new sequence: nothing that comes now follows what came before."""
        self._last = ()
        if len(self._after) > MOST_KNOWN:
            self._after.clear()
        self.add(tokens, weight)

    def add(self, tokens: Iterable[int], weight: int = 1) -> None:
        """The sequence under way goes on. `weight`: how many times it counts."""
        for token in tokens:
            if len(self._last) == SPAN:
                known, times = self._after.get(self._last, (token, 0))
                # One exception undoes a habit: where the tokens before do not tell what follows, nothing is guessed.
                self._after[self._last] = (token, times + weight if known == token else -EXCEPTION)
            self._last = (*self._last, token)[-SPAN:]

    def guess(self, ahead: Sequence[int], most: int) -> list[int]:
        """What comes after the sequence and `ahead`, while it has always been the same; up to `most`."""
        out: list[int] = []
        recent = (*self._last, *ahead)[-SPAN:]
        while len(out) < most:
            token, times = self._after.get(recent, (0, 0))
            if times < SURE:
                break
            out.append(token)
            recent = (*recent, token)[-SPAN:]
        return out


def seeded(tools: Sequence[ToolSpec], tokenizer: Tokenizer) -> Memory:
    """A memory of how calls to these tools begin, the first of them the most recent."""
    memory = Memory()
    for tool in reversed(tools):
        known = tool.schema.get("properties") if tool.schema is not None else None
        keys = list(known) if isinstance(known, Mapping) else []
        first = json.dumps(keys[0], ensure_ascii=False) + ":" if keys else ""
        name = json.dumps(tool.exposed, ensure_ascii=False)
        call = f'[{{"name":{name},"arguments":{{{first}'
        memory.begin(tokenizer.encode_segments([("\n</think>\n<tool_call>", True), (call, False)]), SURE)
    memory.begin()
    return memory


class Lookahead:
    """A session that guesses. Its `forced` says what must follow a token that is about to be fed; see Constraint."""

    def __init__(self, session: DraftSession, memory: Memory, most: int) -> None:
        """`most`: tokens that a draft may have."""
        self._session, self._memory, self._most = session, memory, most
        self._drafted: list[int] = []
        self._at = 0  # of the drafted tokens, the one that was fed last
        self.forced: Callable[[int], Sequence[int]] | None = None
        self.guessed = self.taken = self.batches = 0
        """Guesses that were run, those that came true, and the batches they took."""

    def decode(self, token: int) -> None:
        following = self._at + 1
        self._memory.add([token])
        if following < len(self._drafted) and self._drafted[following] == token:
            self._at = following
            self.taken += 1
            self._session.look(following)
            return
        self._settle()
        guesses = self._guesses(token)
        if len(guesses) < LEAST:
            self._session.decode(token)
            return
        self._session.draft([token, *guesses])
        self._drafted, self._at = [token, *guesses], 0
        self.guessed += len(guesses)
        self.batches += 1

    def _guesses(self, token: int) -> list[int]:
        most = min(self._most, self._session.max_tokens - self._session.position) - 1
        guesses = list(self.forced(token) if self.forced is not None else ())[: max(most, 0)]
        return guesses + self._memory.guess(guesses, most - len(guesses))

    def _settle(self) -> None:
        """The session moves to where the loop is."""
        if self._drafted:
            self._session.accept(self._at + 1)
            self._drafted, self._at = [], 0

    def prefill(self, ids: Sequence[int], *, pin: bool = False, logits: bool = True) -> None:
        self._settle()
        self._session.prefill(ids, pin=pin, logits=logits)
        self._memory.add(ids)

    @property
    def position(self) -> int:
        return self._session.position + (self._at + 1 if self._drafted else 0)

    @property
    def max_tokens(self) -> int:
        return self._session.max_tokens

    def top(self, k: int = 1) -> list[tuple[int, float]]:
        return self._session.top(k)

    def probability(self, token: int) -> float:
        return self._session.probability(token)

    def logits(self) -> Any:
        return self._session.logits()  # type: ignore[attr-defined]

    def confidence(self) -> float:
        self._settle()
        return self._session.confidence()

    def snapshot(self) -> Any:
        self._settle()
        return self._session.snapshot()

    def restore(self, snapshot: Any) -> None:
        self._forget()
        self._session.restore(snapshot)

    def reset(self) -> None:
        self._forget()
        self._session.reset()

    def _forget(self) -> None:
        self._drafted, self._at = [], 0
        self._memory.begin()

    def close(self) -> None:
        self._session.close()
