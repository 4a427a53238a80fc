"""A model in a core's memory, and sessions over it: prefill, decode, snapshots, probe heads.

The archive's bytes lie in the core's memory and stay there: the core repacks matrices inside them, so they serve
one model and are not an archive any more afterwards. Python reads the header, the directory and the tokenizer, and
hands the core a table of offsets.
"""

from __future__ import annotations

import math
import os
import struct
import time
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from types import TracebackType

from .archive import Archive, Geometry, parse
from .core import Core, check, load_core
from .core.abi import DTYPES, FLAGS, LIMITS, STATUSES, STRUCTS
from .errors import ContextFullError, CoreError, RequestError
from .known import recall, remember
from .ladder import need_ladder, rung, rung_geometry, selection
from .tokenizer import Tokenizer

DRAFT = LIMITS["draft"]
"""Tokens that a draft may have."""

HEAD_CODES = {"embedding": 1, "confidence": 2, "router": 3}
# A browser's clock may tick in tenths of a millisecond only, so a timed slice is many ticks long.
_RACE_SECONDS, _RACE_MOST_ROUNDS, _RACE_TURNS = 0.003, 1024, 6
_RACE_WARM_TURNS, _RACE_WARM_ROUNDS = 12, 8
_DENSE = {"f16": DTYPES["f16"], "f32": DTYPES["f32"], "cq": DTYPES["cq"]}


class CoreReader:
    """An archive.Reader over bytes that lie in a core's memory."""

    def __init__(self, core: Core, address: int, size: int) -> None:
        self._core, self._address, self.size = core, address, size

    def read(self, offset: int, length: int) -> bytes:
        return self._core.read(self._address + offset, length)


def _pack(name: str, values: dict[str, object]) -> bytes:
    """A struct of the ABI from values by field; arrays are padded with zeros."""
    out = bytearray()
    for field, kind, count in STRUCTS[name]:
        value = values[field]
        items = list(value) if isinstance(value, (tuple, list)) else [value]
        out += struct.pack(f"<{count}{kind}", *items, *([0] * (count - len(items))))
    return bytes(out)


def geometry_struct(archive: Archive) -> bytes:
    """The core's areole_geometry of an archive."""
    g = archive.geometry
    mask = sum(1 << layer for layer in g.global_layers)
    fields: dict[str, object] = {
        name: getattr(g, name) for name, _, _ in STRUCTS["areole_geometry"] if hasattr(g, name)
    }
    fields.update(
        global_mask_lo=mask & 0xFFFFFFFF,
        global_mask_hi=mask >> 32,
        engram_order_count=len(g.engram_orders),
        engram_site_count=len(g.engram_sites),
        codebook_group=archive.base_group,
        cb2=archive.cb2,
        cb3=archive.cb3,
        cb4=archive.cb4,
    )
    return _pack("areole_geometry", fields)


def tensor_table(archive: Archive) -> tuple[bytes, int]:
    """The core's table of tensors (all but the tokenizer), and how many there are."""
    words = array("I")
    count = 0
    for tensor in archive.tensors:
        if tensor.dtype == "raw":
            continue
        rows = tensor.shape[0] if len(tensor.shape) > 1 else 1
        columns = math.prod(tensor.shape[1:]) if len(tensor.shape) > 1 else math.prod(tensor.shape)
        words.extend((_DENSE[tensor.dtype], tensor.offset, tensor.nbytes, rows, columns, tensor.group, tensor.bits))
        count += 1
    return words.tobytes(), count


class Model:
    """An archive that a core can run. Close it, or use it as a context manager, to give its memory back."""

    def __init__(
        self, core: Core, address: int, archive: Archive, owned: bool, tokenizer: Tokenizer | None = None
    ) -> None:
        """`archive` was parsed from the bytes that lie at `address`. See load and adopt."""
        name, nbytes = archive.name, archive.nbytes
        self.core = core
        self._weights, self._owned = address, owned
        self.archive = archive
        self.geometry: Geometry = archive.geometry
        self.tokenizer = tokenizer or Tokenizer(archive.vocabulary)
        self._sessions: set[Session] = set()
        self._rungs: dict[int, Model] = {}
        self._arena = 0
        geometry = geometry_struct(self.archive)
        table, count = tensor_table(self.archive)
        scratch = core.alloc(len(geometry) + len(table) + 64)
        try:
            core.write(scratch, geometry)
            tensors = scratch + len(geometry)
            core.write(tensors, table)
            out = tensors + len(table)
            check(core.call("areole_model_size", scratch, tensors, count, address, nbytes, out), f"loading {name}")
            size = int.from_bytes(core.read(out, 4), "little")
            arena = core.alloc(size)
            try:
                check(
                    core.call("areole_model_init", arena, size, scratch, tensors, count, address, nbytes),
                    f"loading {name}",
                )
            except CoreError:
                core.free(arena)
                raise
        finally:
            core.free(scratch)
        self._arena = arena

    @classmethod
    def load(
        cls,
        source: str | os.PathLike[str] | bytes | bytearray | memoryview,
        core: Core | None = None,
        *,
        depth: int | None = None,
    ) -> Model:
        """A model from a file or from bytes, which are copied into the core's memory.

        depth: blocks of the rung to load, see areole.ladder; only what it needs is kept. None is the whole model.
        Raises ArchiveError for a damaged file, RequestError for a depth that it does not have, and CoreError where the
        core cannot run it; nothing stays allocated.
        """
        if isinstance(source, (str, os.PathLike)):
            with open(source, "rb") as file:
                data: bytes | bytearray | memoryview = file.read()
            name = os.path.basename(os.fspath(source))
        else:
            data, name = source, "archive"
        archive = parse(data, name)  # a bad file is refused before the core is asked for memory
        if depth is not None and depth != archive.geometry.layers:
            data = rung(archive, depth).to_bytes()
            archive = parse(data, name)
        core = core or load_core()
        nbytes = memoryview(data).nbytes
        address = core.alloc(nbytes)
        try:
            core.write(address, data)
            # From here on it reads the core's copy, so that the caller's bytes can go.
            return cls(core, address, replace(archive, reader=CoreReader(core, address, nbytes)), owned=True)
        except Exception:
            core.free(address)
            raise

    @classmethod
    def adopt(cls, core: Core, address: int, nbytes: int, name: str = "archive", *, digest: str | None = None) -> Model:
        """A model of weights that already lie in the core's memory, 64-byte aligned. They stay the caller's.

        digest: their SHA-256 in hex, if the caller has checked it; an archive that was read before is not read again.
        """
        reader = CoreReader(core, address, nbytes)
        archive, tokenizer = recall(digest, reader, name) or (parse(reader, name), None)
        model = cls(core, address, archive, owned=False, tokenizer=tokenizer)
        if digest and tokenizer is None:
            remember(digest, archive, model.tokenizer)
        return model

    def at_depth(self, depth: int | None) -> Model:
        """The rung of `depth` of this model's blocks, see areole.ladder; the model itself for None or all of them.

        It shares the weights and costs next to nothing, is made once, and closes with this model. RequestError for a
        depth that there is not.
        """
        if depth is None or depth == self.geometry.layers:
            return self
        need_ladder(self.geometry, depth)
        blocks = selection(self.geometry.layers, depth)
        found = self._rungs.get(depth)
        if found is None or found.closed:
            found = self._rungs[depth] = self._rung(blocks)
        return found

    def _rung(self, blocks: Sequence[int]) -> Model:
        core = self.core
        indices = array("I", blocks)
        scratch = core.alloc(4 * len(blocks) + 64)
        try:
            core.write(scratch, memoryview(indices).cast("B"))
            out = scratch + 4 * len(blocks)
            check(core.call("areole_rung_size", self.arena, scratch, len(blocks), out), "a rung")
            size = int.from_bytes(core.read(out, 4), "little")
            arena = core.alloc(size)
            try:
                check(core.call("areole_rung_init", arena, size, self.arena, scratch, len(blocks)), "a rung")
            except CoreError:
                core.free(arena)
                raise
        finally:
            core.free(scratch)
        model = object.__new__(Model)
        model.core, model._weights, model._owned, model._arena = core, self._weights, False, arena
        model.geometry = rung_geometry(self.geometry, blocks)
        model.archive = replace(self.archive, geometry=model.geometry)
        model.tokenizer = self.tokenizer
        model._sessions, model._rungs = set(), {}
        return model

    @property
    def closed(self) -> bool:
        return not self._arena

    @property
    def arena(self) -> int:
        """The model's address in the core; RequestError when it was closed."""
        if not self._arena:
            raise RequestError("request_closed", "this model was closed; load it again to use it")
        return self._arena

    def choose_kernels(self, clock: Callable[[], float] = time.perf_counter) -> str:
        """Times the core's two ways to the same products on this processor and keeps the faster: "dots" or "pairs".

        Results are the same bits either way. Takes some 70 ms, in which the kernels are also compiled to the end.
        """
        core = self.core
        if core.flavor != "relaxed":
            return "pairs" if core.call("areole_model_use_pairs", self.arena, 1) == 1 else "dots"
        out = core.alloc(64)
        try:
            check(core.call("areole_kernel_race_size", self.arena, out), "timing the kernels")
            size = int.from_bytes(core.read(out, 4), "little")
        finally:
            core.free(out)
        work = core.alloc(size)

        def seconds(pairs: int, rounds: int) -> float:
            start = clock()
            check(core.call("areole_kernel_race", self.arena, pairs, rounds, work, size), "timing the kernels")
            return clock() - start

        try:
            # Both are run until the browser has compiled them to the end: slices sized before that become too short for
            # its clock, and then ties decide.
            for _ in range(_RACE_WARM_TURNS):
                seconds(0, _RACE_WARM_ROUNDS), seconds(1, _RACE_WARM_ROUNDS)
            rounds = _RACE_WARM_ROUNDS
            while rounds < _RACE_MOST_ROUNDS and min(seconds(0, rounds), seconds(1, rounds)) < _RACE_SECONDS:
                rounds *= 2
            turns = [(seconds(0, rounds), seconds(1, rounds)) for _ in range(_RACE_TURNS)]
        finally:
            core.free(work)
        pairs = min(turn[1] for turn in turns) < min(turn[0] for turn in turns)
        return "pairs" if core.call("areole_model_use_pairs", self.arena, int(pairs)) == 1 else "dots"

    def session(
        self, *, prefix_capacity: int = 0, max_tokens: int | None = None, kv_window: int | None = None
    ) -> Session:
        """A new empty session for at most `prefix_capacity` pinned tokens and `max_tokens` in all (default: all that
        the model was made for); `kv_window` None is the archive's, 0 is none."""
        return Session(
            self,
            prefix_capacity,
            max_tokens or self.geometry.max_seq,
            self.geometry.kv_window if kv_window is None else kv_window,
        )

    def close(self) -> None:
        """Closes the sessions and frees the memory. Closing twice is allowed."""
        if self._arena:
            for session in list(self._sessions):
                session.close()
            for shorter in self._rungs.values():
                shorter.close()
            self.core.free(self._arena)
            if self._owned:
                self.core.free(self._weights)
            self._arena = 0

    def __enter__(self) -> Model:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass(frozen=True)
class Snapshot:
    """A session's state, kept outside the core. It fits sessions of the same model and the same sizes."""

    position: int
    data: bytes


class Session:
    """One conversation's cache and probes. Not for use from two threads at once."""

    def __init__(self, model: Model, prefix_capacity: int, max_tokens: int, kv_window: int) -> None:
        self.model, self.max_tokens, self.kv_window = model, max_tokens, kv_window
        self.prefix_capacity = prefix_capacity
        core, g = model.core, model.geometry
        if not 0 < max_tokens <= g.max_seq or not 0 <= prefix_capacity <= max_tokens:
            raise RequestError(
                "request_option",
                f"a session of {max_tokens} tokens with a prefix of {prefix_capacity} was asked for; this model holds"
                f" 1 to {g.max_seq} tokens, the prefix among them",
                {"max_tokens": max_tokens, "prefix_capacity": prefix_capacity, "limit": g.max_seq},
            )
        self._closed = True
        self._out = core.alloc(64 + 8 * 256)
        self._arena = self._logits = 0
        self._row = 0  # which of the logits' rows speaks
        try:
            check(
                core.call("areole_session_size", model.arena, prefix_capacity, max_tokens, kv_window, self._out),
                "a session",
            )
            size = int.from_bytes(core.read(self._out, 4), "little")
            self._logits = core.alloc(DRAFT * g.out_vocab * 4)
            self._arena = core.alloc(size)
            check(
                core.call(
                    "areole_session_init", self._arena, size, model.arena, prefix_capacity, max_tokens, kv_window
                ),
                "a session",
            )
        except CoreError:
            for address in (self._arena, self._logits, self._out):
                if address:
                    core.free(address)
            raise
        self._closed = False
        self._has_logits = False
        model._sessions.add(self)

    @property
    def _core(self) -> Core:
        if self._closed:
            raise RequestError("request_closed", "this session was closed; make another one from the model")
        return self.model.core

    @property
    def position(self) -> int:
        """Tokens fed so far."""
        return self._core.call("areole_session_position", self._arena)

    @property
    def pinned(self) -> int:
        """Tokens of the pinned prefix."""
        return self._core.call("areole_session_pinned", self._arena)

    def prefill(self, ids: Sequence[int], *, pin: bool = False, logits: bool = True) -> None:
        """Feeds tokens in batches; with `logits`, `top` and `probability` then speak of what follows the last one.

        Raises ContextFullError when they do not fit, CoreError for an id outside the vocabulary; the session is then
        as it was.
        """
        count, room = len(ids), self.max_tokens - self.position
        if not count:
            return
        if pin:
            room = min(room, self.prefix_capacity - self.pinned)
        if count > room:
            raise ContextFullError(
                "context_full",
                f"{count} more tokens do not fit: {room} of {self.prefix_capacity if pin else self.max_tokens} left;"
                " reset the conversation, or make the session larger",
                {"needed": count, "available": room},
            )
        self._feed(ids, pin, "logits_last" if logits else None, self._logits if logits else 0)
        self._has_logits, self._row = logits, 0

    def _feed(self, ids: Sequence[int], pin: bool, wanted: str | None, logits: int) -> None:
        """Hands tokens to the core, which writes the `wanted` logits to the address `logits`."""
        core = self._core
        flags = (FLAGS["pin"] if pin else 0) | (FLAGS[wanted] if wanted else 0)
        address = core.alloc(4 * len(ids))
        try:
            core.write(address, memoryview(array("I", ids)).cast("B"))
            check(core.call("areole_prefill", self._arena, address, len(ids), flags, logits), "prefill")
        finally:
            core.free(address)

    def all_logits(self, ids: Sequence[int], *, pin: bool = False) -> array[float]:
        """Feeds tokens and returns every row of logits, (len(ids), out_vocab) flat: for tests and comparisons."""
        core = self._core
        nbytes = 4 * len(ids) * self.model.geometry.out_vocab
        rows = core.alloc(nbytes)
        try:
            self._feed(ids, pin, "logits_all", rows)
            out = array("f")
            out.frombytes(core.read(rows, nbytes))
        finally:
            core.free(rows)
        return out

    def decode(self, token: int) -> None:
        """Feeds one token. ContextFullError when the session is full."""
        core = self._core
        status = core.call("areole_decode", self._arena, token, self._logits)
        if status == STATUSES["context_full"]:
            raise ContextFullError(
                "context_full",
                f"the context of {self.max_tokens} tokens is full: reset the conversation",
                {"needed": 1, "available": 0},
            )
        check(status, f"decoding token {token}")
        self._has_logits, self._row = True, 0

    def draft(self, ids: Sequence[int]) -> None:
        """Runs 1 to DRAFT tokens that may follow, without moving on; see look and accept. Raises as prefill does."""
        count, room = len(ids), self.max_tokens - self.position
        if not 0 < count <= DRAFT:
            raise RequestError(
                "request_option", f"a draft of {count} tokens; needed 1 to {DRAFT}", {"got": count, "needed": DRAFT}
            )
        core = self._core
        core.write(self._out, memoryview(array("I", ids)).cast("B"))
        status = core.call("areole_draft", self._arena, self._out, count, self._logits)
        if status == STATUSES["context_full"]:
            raise ContextFullError(
                "context_full", f"a draft of {count} tokens does not fit: {room} left",
                {"needed": count, "available": room},
            )  # fmt: skip
        check(status, "a draft")
        self.look(0)

    def look(self, row: int) -> None:
        """Lets `top`, `probability` and `logits` speak of what follows the drafted token `row`."""
        self._has_logits, self._row = True, row

    def accept(self, count: int) -> None:
        """Moves on past the first `count` drafted tokens and forgets the others; what is looked at stays."""
        check(self._core.call("areole_accept", self._arena, count), "accepting a draft")

    @property
    def _seen(self) -> int:
        """The address of the logits that speak."""
        return self._logits + 4 * self._row * self.model.geometry.out_vocab

    def _need_logits(self) -> Core:
        core = self._core
        if not self._has_logits:
            raise RequestError("request_option", "there are no logits yet: prefill with logits=True, or decode a token")
        return core

    def top(self, k: int = 1) -> list[tuple[int, float]]:
        """The k likeliest next ids with their logits, best first, ties to the lower id. k is at most 256."""
        core = self._need_logits()
        ids = self._out + 64
        count = check(core.call("areole_top", self._seen, self.model.geometry.out_vocab, k, ids, ids + 4 * k), "top")
        raw = core.read(ids, 8 * k)
        return list(
            zip(struct.unpack_from(f"<{count}I", raw), struct.unpack_from(f"<{count}f", raw, 4 * k), strict=True)
        )

    def logits(self) -> array[float]:
        """The (out_vocab,) logits of what follows the last token."""
        out = array("f")
        out.frombytes(self._need_logits().read(self._seen, 4 * self.model.geometry.out_vocab))
        return out

    def logit(self, token: int) -> float:
        """One of the logits."""
        if not 0 <= token < self.model.geometry.out_vocab:
            raise CoreError(
                "core_bad_token",
                f"token {token} is outside the {self.model.geometry.out_vocab} of the output",
                {"got": token, "needed": self.model.geometry.out_vocab},
            )
        return float(struct.unpack("<f", self._need_logits().read(self._seen + 4 * token, 4))[0])

    def probability(self, token: int) -> float:
        """The plain softmax probability of a next token, no grammar applied."""
        core = self._need_logits()
        check(core.call("areole_log_sum_exp", self._seen, self.model.geometry.out_vocab, self._out), "probability")
        total = struct.unpack("<f", core.read(self._out, 4))[0]
        return math.exp(min(0.0, self.logit(token) - total))

    def snapshot(self) -> Snapshot:
        """The state so far. The logits are not part of it."""
        core = self._core
        check(core.call("areole_snapshot_size", self._arena, self._out), "a snapshot")
        size = int.from_bytes(core.read(self._out, 4), "little")
        address = core.alloc(size)
        try:
            check(core.call("areole_snapshot_save", self._arena, address, size), "a snapshot")
            return Snapshot(self.position, core.read(address, size))
        finally:
            core.free(address)

    def restore(self, snapshot: Snapshot) -> None:
        """Back to a snapshot of this session or one of the same sizes; CoreError("core_bad_snapshot") otherwise."""
        core = self._core
        address = core.alloc(len(snapshot.data))
        try:
            core.write(address, snapshot.data)
            check(core.call("areole_snapshot_load", self._arena, address, len(snapshot.data)), "restoring a snapshot")
        finally:
            core.free(address)
        self._has_logits = False

    def reset(self) -> None:
        """Empty again, the prefix too."""
        check(self._core.call("areole_session_reset", self._arena), "resetting")
        self._has_logits = False

    def _pool(self, head: str) -> tuple[array[float], array[float]]:
        """The pooled vector of a head and its output."""
        core = self._core
        if head not in HEAD_CODES:
            raise RequestError(
                "request_option", f"there is no head called {head!r}: use {', '.join(HEAD_CODES)}", {"got": head}
            )
        code = HEAD_CODES[head]
        count = check(core.call("areole_pool", self._arena, code, 0, 0), f"the {head} head")
        outputs = self.model.archive.by_name[f"heads.{head}.proj"].shape[0]
        address = core.alloc(4 * (count + outputs))
        try:
            check(core.call("areole_pool", self._arena, code, address, address + 4 * count), f"the {head} head")
            pooled, output = array("f"), array("f")
            pooled.frombytes(core.read(address, 4 * count))
            output.frombytes(core.read(address + 4 * count, 4 * outputs))
        finally:
            core.free(address)
        return pooled, output

    def pooled(self, head: str = "confidence") -> array[float]:
        """The (queries * d_model,) probe pool of a head over every token so far."""
        return self._pool(head)[0]

    def head(self, head: str) -> array[float]:
        """A head's output: proj . pooled + bias."""
        return self._pool(head)[1]

    def confidence(self) -> float:
        """The confidence head's probability over every token so far."""
        logit = self._pool("confidence")[1][0]
        return 1.0 / (1.0 + math.exp(-logit)) if logit >= 0 else 1.0 - 1.0 / (1.0 + math.exp(logit))

    def close(self) -> None:
        """Frees the session's memory. Closing twice is allowed."""
        if not self._closed:
            for address in (self._arena, self._logits, self._out):
                self.model.core.free(address)
            self._closed = True
            self.model._sessions.discard(self)

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def unit(vector: Iterable[float]) -> list[float]:
    """The vector scaled to unit length; a zero vector stays zero."""
    values = list(vector)
    size = math.sqrt(math.fsum(v * v for v in values))
    return [v / size for v in values] if size else values
