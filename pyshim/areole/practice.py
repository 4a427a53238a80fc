"""A request answered again without a model, so that what runs it is warm before it is needed.

A browser compiles Python's interpreter for good once it has run for some time, and keeps that code for later visits
once there is enough of it. This runs all that surrounds the core, from the tools to the envelope, while the weights
still come in. Owns a core that recites tokens; requests and their tokens are recorded where the model is (see
web/snapshot.mjs), and its archive must be known (see areole.known).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle

from .archive import Archive
from .bridge import Bridge, Run
from .core.abi import FLAGS
from .core.arena import PAGE, Heap
from .errors import RequestError
from .known import known
from .model import Model
from .tokenizer import Tokenizer

ROOM = 64
"""Bytes of everything whose size the core says; a snapshot keeps two numbers there, the rest nothing."""
SURE = 20.0
"""The logit of the token that is recited, where the others have 0; and a head's output: the answer is confident."""

SPARE = 64
"""Tokens more than a lesson has that its answer may take, so that it does not end for want of room."""


@dataclass(frozen=True)
class Lesson:
    """A request as the worker tells it, and the ids of the tokens that the model answered."""

    digest: str
    tools: str
    system: str
    text: str
    tokens: tuple[int, ...]


LESSONS: list[Lesson] = []
"""What was recorded; a page's Python starts with them."""


class Reciting:
    """A Core without a model: after whatever is fed, the tokens of a lesson follow one after the other."""

    flavor = "native"

    def __init__(self, tokens: tuple[int, ...]) -> None:
        self._tokens = tokens
        self._memory = bytearray(PAGE)
        self._heap = Heap(ROOM, lambda: len(self._memory), lambda pages: self._memory.extend(bytes(pages * PAGE)))
        self._position = self._pinned = self._first = 0  # `_first`: where the answer begins
        self._logits = self._drafted = 0

    @property
    def memory_bytes(self) -> int:
        return len(self._memory)

    def alloc(self, nbytes: int) -> int:
        return self._heap.alloc(nbytes)

    def free(self, address: int) -> None:
        self._heap.free(address)

    def read(self, address: int, nbytes: int) -> bytes:
        return bytes(self._memory[address : address + nbytes])

    def write(self, address: int, data: bytes | bytearray | memoryview) -> None:
        self._memory[address : address + memoryview(data).nbytes] = data

    def call(self, name: str, *args: int | float) -> int:
        """What changes nothing here answers 0, as the core does when all is well."""
        function = getattr(self, f"_do_{name.removeprefix('areole_')}", None)
        return int(function(*args)) if function else 0

    def _say(self, address: int, kind: str, *values: float) -> int:
        self.write(address, struct.pack(f"<{len(values)}{kind}", *values))
        return 0

    def _do_model_size(self, *args: int) -> int:
        return self._say(args[-1], "I", ROOM)

    _do_session_size = _do_snapshot_size = _do_model_size

    def _do_session_position(self, _: int) -> int:
        return self._position

    def _do_session_pinned(self, _: int) -> int:
        return self._pinned

    def _do_session_reset(self, _: int) -> int:
        self._position = self._pinned = self._drafted = 0
        return 0

    def _do_prefill(self, _: int, ids: int, count: int, flags: int, logits: int) -> int:
        self._position += count
        self._pinned += count if flags & FLAGS["pin"] else 0
        self._first, self._logits, self._drafted = self._position, logits, 0
        return 0

    def _do_decode(self, _: int, token: int, logits: int) -> int:
        self._position, self._logits, self._drafted = self._position + 1, logits, 0
        return 0

    def _do_draft(self, _: int, ids: int, count: int, logits: int) -> int:
        self._logits, self._drafted = logits, self._position + 1
        return 0

    def _do_accept(self, _: int, count: int) -> int:
        self._position += count
        return 0

    def _do_snapshot_save(self, _: int, address: int, size: int) -> int:
        return self._say(address, "I", self._position, self._pinned)

    def _do_snapshot_load(self, _: int, address: int, size: int) -> int:
        self._position, self._pinned = struct.unpack("<2I", self.read(address, 8))
        return 0

    def _do_top(self, logits: int, vocab: int, k: int, ids: int, values: int) -> int:
        seen = (logits - self._logits) // (4 * vocab) + self._drafted if self._drafted else self._position
        at = seen - self._first
        token = self._tokens[at] if at < len(self._tokens) else 0
        others = [other for other in range(k) if other != token]
        self._say(ids, "I", token, *others[: k - 1])
        self._say(values, "f", SURE, *[0.0] * (k - 1))
        return k

    def _do_log_sum_exp(self, logits: int, vocab: int, out: int) -> int:
        return self._say(out, "f", 0.0)

    def _do_pool(self, _: int, head: int, pooled: int, output: int) -> int:
        return self._say(output, "f", SURE) or 1 if output else 1


class Practice:
    """Answers lessons over and over, a token a step. Nothing is left of it but what Python keeps of such a request."""

    def __init__(self, lessons: Sequence[Lesson], archive: Archive, tokenizer: Tokenizer) -> None:
        self._lessons = cycle(lessons)
        self._archive, self._tokenizer = archive, tokenizer
        self._bridge: Bridge | None = None
        self._run: Run | None = None

    def step(self) -> str:
        """The next event, as Run.step gives it; RequestError where a lesson is refused."""
        if self._run is None:
            self._run = self._begin(next(self._lessons))
        event = self._run.step()
        if json.loads(event)["type"] != "token":
            self.close()
        return event

    def _begin(self, lesson: Lesson) -> Run:
        core = Reciting(lesson.tokens)
        model = Model(core, 0, self._archive, owned=False, tokenizer=self._tokenizer)
        self._bridge = Bridge(model)
        told = self._bridge.declare(lesson.tools, lesson.system)
        run = self._bridge.begin(lesson.text, json.dumps({"max_new_tokens": len(lesson.tokens) + SPARE}))
        if isinstance(run, str):
            raise RequestError("request_option", f"a lesson was refused: {told} {run}")
        return run

    def close(self) -> None:
        """Drops what is under way; a further step begins anew."""
        self._run = None  # before its bridge: a request that is dropped tidies up after itself
        if self._bridge is not None:
            self._bridge.close()
        self._bridge = None


def practise(digest: str) -> Practice | None:
    """Practice of the lessons of the archive with this SHA-256; None where it or they are unknown."""
    found = known(digest)
    lessons = [lesson for lesson in LESSONS if lesson.digest == digest]
    return Practice(lessons, *found) if found and lessons else None
