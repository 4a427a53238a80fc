"""A model that says what a script tells it, behind the interface of model.Model and model.Session.

What it "wants" next depends on its context only: on which assistant turn this is and how many tokens of it there are.
So a token that is fed twice, a turn that was not undone or a missing end of turn shows in what it says. It is strict
about order: no logits, no `top`; no pinning after an unpinned token; too many tokens change nothing.
"""

from __future__ import annotations

import math
import zlib
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from areole.errors import ContextFullError, CoreError, RequestError
from areole.tokenizer import Tokenizer

DATA = Path(__file__).parents[1] / "data"
TOKENIZER = Tokenizer.from_blob((DATA / "needle3_tokenizer.bin").read_bytes())
ASK = TOKENIZER.encode("<|im_start|>assistant\n")
"""What stands before everything that the model says."""
END = TOKENIZER.marker("<|im_end|>")


def ids(text: str) -> list[int]:
    """Text with markers as ids."""
    return TOKENIZER.encode(text)


def confidence_of(context: Sequence[int]) -> float:
    """A number between 0 and 1 that another context would not have."""
    return zlib.crc32(repr(list(context)).encode()) / 2**32


@dataclass(frozen=True)
class FakeSnapshot:
    context: tuple[int, ...]
    pinned: int
    owner: object

    @property
    def data(self) -> bytes:
        """As large as it says that it is: a hundred bytes a token."""
        return bytes(100 * len(self.context))


class ScriptedSession:
    """`script[n]` is what the model says in its n-th assistant turn; after its end, and without one, <|im_end|>."""

    def __init__(
        self, script: Sequence[str | Sequence[int]] = (), *, prefix_capacity: int = 4096, max_tokens: int = 8192
    ) -> None:
        self.script = [ids(turn) if isinstance(turn, str) else list(turn) for turn in script]
        self.prefix_capacity, self.max_tokens = prefix_capacity, max_tokens
        self.context: list[int] = []
        self.pinned = 0
        self.log: list[str] = []
        self.fail_in: int | None = None
        """Tokens to decode until one fails, in a way that leaves the context damaged."""
        self.fail_restore = False
        self.closed = False
        self.family: object = self
        """Whose snapshots it takes: its own, or those of all sessions of a model that have the same sizes."""
        self._ready = False

    @property
    def position(self) -> int:
        return len(self.context)

    def _open(self) -> None:
        if self.closed:
            raise RequestError("request_closed", "closed")

    def _room(self, count: int, available: int) -> None:
        if count > available:
            raise ContextFullError("context_full", "full", needed=count, available=available)

    def prefill(self, tokens: Sequence[int], *, pin: bool = False, logits: bool = True) -> None:
        self._open()
        if not tokens:
            raise CoreError("core_bad_argument", "nothing to prefill")
        self._room(len(tokens), self.max_tokens - self.position)
        if pin:
            if self.pinned != self.position:
                raise CoreError("core_bad_argument", "pinning after an unpinned token")
            self._room(len(tokens), self.prefix_capacity - self.pinned)
        if not all(0 <= token < TOKENIZER.vocab_size for token in tokens):
            raise CoreError("core_bad_token", "no such token")
        self.log.append(f"prefill {len(tokens)}{' pinned' if pin else ''}")
        self.context += tokens
        self.pinned += len(tokens) if pin else 0
        self._ready = logits

    def decode(self, token: int) -> None:
        self._open()
        self._room(1, self.max_tokens - self.position)
        if self.fail_in is not None:
            self.fail_in -= 1
            if self.fail_in < 0:
                self.context[-3:] = []
                self._ready = False
                raise CoreError("core_bad_argument", "planted failure")
        self.context.append(token)
        self._ready = True

    def _wish(self) -> int:
        if not self._ready:
            raise RequestError("request_option", "there are no logits")
        starts = [at for at in range(len(self.context)) if self.context[at : at + len(ASK)] == ASK]
        if not starts or len(starts) > len(self.script):
            return END
        said = len(self.context) - starts[-1] - len(ASK)
        turn = self.script[len(starts) - 1]
        return turn[said] if said < len(turn) else END

    def top(self, k: int = 1) -> list[tuple[int, float]]:
        self._open()
        best = self._wish()
        return [(best, 9.0), *((token, 0.0) for token in range(k) if token != best)][:k]

    def probability(self, token: int) -> float:
        return 0.75 if token == self._wish() else 0.125

    def confidence(self) -> float:
        self._open()
        return confidence_of(self.context)

    def pooled(self, head: str = "confidence") -> array[float]:
        self._open()
        return array("f", [3.0, 4.0, 0.0, len(self.context) * 0.0])

    def snapshot(self) -> FakeSnapshot:
        self._open()
        self.log.append("snapshot")
        return FakeSnapshot(tuple(self.context), self.pinned, self.family)

    def restore(self, snapshot: FakeSnapshot) -> None:
        self._open()
        if snapshot.owner != self.family:
            raise CoreError("core_bad_snapshot", "another session's")
        if self.fail_restore:
            raise CoreError("core_bad_snapshot", "planted failure")
        self.log.append("restore")
        self.context, self.pinned, self._ready = list(snapshot.context), snapshot.pinned, False

    def reset(self) -> None:
        self._open()
        self.log.append("reset")
        self.context, self.pinned, self._ready = [], 0, False

    def close(self) -> None:
        self.closed = True

    def __enter__(self) -> ScriptedSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass
class FakeGeometry:
    max_seq: int = 8192
    kv_window: int = 256


class FakeCore:
    flavor = "native"
    memory_bytes = 3 * 2**20


class FakeArchive:
    heads = ((2, "confidence"),)

    def describe(self) -> dict[str, object]:
        return {"name": "scripted"}


class FakeModel:
    """Sessions that all say the same script. `sessions` are those made so far, closed ones too."""

    def __init__(self, *script: str, max_seq: int = 8192) -> None:
        self.script = script
        self.tokenizer = TOKENIZER
        self.geometry = FakeGeometry(max_seq)
        self.core = FakeCore()
        self.archive = FakeArchive()
        self.sessions: list[ScriptedSession] = []
        self.closed = False
        self.on_session: Callable[[ScriptedSession], Any] = lambda session: None

    def session(
        self, *, prefix_capacity: int = 0, max_tokens: int | None = None, kv_window: int | None = None
    ) -> ScriptedSession:
        session = ScriptedSession(
            self.script, prefix_capacity=prefix_capacity, max_tokens=max_tokens or self.geometry.max_seq
        )
        session.family = (id(self), prefix_capacity, session.max_tokens, kv_window)
        self.sessions.append(session)
        self.on_session(session)
        return session

    def close(self) -> None:
        self.closed = True
        for session in self.sessions:
            session.close()


def norm(vector: Sequence[float]) -> float:
    return math.sqrt(sum(value * value for value in vector))
