"""Damages small archives in ways that their format suggests, and feeds them to the parser and to the core.

    python build.py fuzz [--seconds N] [--count N] [--core-count N] [--seed N]

Each case has a number, which alone decides what it is: `case(number)` gives its bytes. The parser may refuse a case
with an ArchiveError and nothing else, may read nothing outside the file, and has a few seconds for it. What it lets
through goes on to the core, which is built with AddressSanitizer and UBSan; so do tables of tensors that no parser has
seen. A failure ends the run and names its number; test_fuzz.py keeps those that were found, and some for each kind of
refusal.
"""

from __future__ import annotations

import argparse
import functools
import os
import random
import resource
import signal
import struct
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "pyshim")]

from archive_writer import Plan, assemble, plan, tokenizer_blob

from areole.archive import Archive, BufferReader, parse
from areole.core import Core
from areole.errors import ArchiveError, AreoleError
from areole.model import Model, geometry_struct, tensor_table

SECONDS_A_CASE = 10
"""Of the process's own time, so that a busy machine is not taken for a loop without end."""
MEMORY_GROWTH = 256 * 2**20
"""Bytes that a whole run may add to the process; a case's own archive has tens of kilobytes."""
RECORD = struct.Struct("<BBHIIIIQQII")
WORDS = (0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 63, 64, 65, 255, 256, 257, 0x7FFF, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000)
HALVES = (0x7C00, 0xFC00, 0x7E00, 0xFE00, 0x8000, 0x0000, 0x0001, 0x7BFF, 0xFBFF, 0x3C00)
FLOATS = (float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e38, -1e38, 1e-45, 1.0, 0.5)


class Outside(Exception):
    """A read left the file."""


class WatchedReader:
    """A reader that raises Outside for a read outside the file."""

    def __init__(self, data: bytes) -> None:
        self._inner = BufferReader(data)
        self.size = len(data)

    def read(self, offset: int, length: int) -> bytes:
        if offset < 0 or length < 0 or offset + length > self.size:
            raise Outside(f"{length} bytes at {offset} of {self.size}")
        return self._inner.read(offset, length)


# ---------------------------------------------------------------------------------------------------------------------
# Cases
# ---------------------------------------------------------------------------------------------------------------------


@functools.cache
def sound(generation: int, kind: int) -> tuple[Plan, bytes]:
    """A sound archive to be damaged: all widths, all heads, every kind of tensor."""
    bits = (2, 3, 4, 5, 1)
    heads = ((1, 2, 3), (2,), ())[kind] if generation == 3 else ((1, 2), (2,), ())[kind]
    parts = plan(
        generation=generation, heads=heads, bits=lambda name: bits[sum(name.encode()) % 5], seed=kind,
        kv_bits=(8, 4, 2)[kind], sites=((1,), (), (0, 1))[kind],
    )  # fmt: skip
    return parts, assemble(parts)


Damage = Callable[[random.Random, bytearray, Plan], None]


def header_at(parts: Plan) -> int:
    return 196 if parts.generation == 3 else 120


def directory_at(parts: Plan) -> int:
    return header_at(parts) + 112


def word(rng: random.Random, old: int) -> int:
    """Another number in place of `old`: near it, at a limit, or any."""
    choice = rng.randrange(4)
    if choice == 0:
        return (old + rng.choice((-2, -1, 1, 2))) & 0xFFFFFFFF
    if choice == 1:
        return rng.choice(WORDS)
    if choice == 2:
        return old << rng.randrange(1, 20) & 0xFFFFFFFF
    return rng.getrandbits(32)


def damage_header(rng: random.Random, data: bytearray, parts: Plan) -> None:
    at = 4 * rng.randrange(header_at(parts) // 4)
    (old,) = struct.unpack_from("<I", data, at)
    struct.pack_into("<I", data, at, word(rng, old))


def damage_levels(rng: random.Random, data: bytearray, parts: Plan) -> None:
    struct.pack_into("<f", data, header_at(parts) + 4 * rng.randrange(28), rng.choice(FLOATS))


def damage_record(rng: random.Random, data: bytearray, parts: Plan) -> None:
    """One field of a record; offsets also to that of another tensor, lengths to the end of the file and beyond."""
    at = directory_at(parts) + RECORD.size * rng.randrange(len(parts.records))
    fields = list(RECORD.unpack_from(data, at))
    place = rng.randrange(len(fields))
    limit = (0xFF, 0xFF, 0xFFFF, *[0xFFFFFFFF] * 4, 2**64 - 1, 2**64 - 1, 0xFFFFFFFF, 0xFFFFFFFF)[place]
    if place in (7, 8) and rng.random() < 0.5:
        fields[place] = rng.choice((rng.choice(parts.records).offset, len(data), len(data) - 64, 2**63, 2**64 - 64))
    else:
        fields[place] = word(rng, fields[place]) & limit
    RECORD.pack_into(data, at, *fields)


def swap_records(rng: random.Random, data: bytearray, parts: Plan) -> None:
    start = directory_at(parts)
    a, b = (start + RECORD.size * rng.randrange(len(parts.records)) for _ in range(2))
    data[a : a + 44], data[b : b + 44] = data[b : b + 44], data[a : a + 44]


def damage_values(rng: random.Random, data: bytearray, parts: Plan) -> None:
    """A value of a tensor, or the end of a matrix, where its norms are."""
    record = rng.choice(parts.records[:-1])
    end = record.offset + len(record.blob)
    near_end = rng.random() < 0.5
    at = end - 2 * rng.randrange(1, 9) if near_end else record.offset + 2 * rng.randrange(len(record.blob) // 2)
    if record.offset <= at <= min(end, len(data)) - 2:
        struct.pack_into("<H", data, at, rng.choice(HALVES))


def damage_tokenizer(rng: random.Random, data: bytearray, parts: Plan) -> None:
    """A count, a length, a kind, a score or a letter of the tokenizer."""
    record = parts.records[-1]
    at = record.offset + (rng.randrange(24) if rng.random() < 0.4 else rng.randrange(len(record.blob)))
    if at < len(data):
        data[at] = rng.choice((0, 1, 4, 5, 0x7F, 0x80, 0xC0, 0xED, 0xFF, rng.randrange(256)))


def another_tokenizer(rng: random.Random, data: bytearray, parts: Plan) -> None:
    """Pieces that repeat, are empty, overlong, or no text."""
    letters = ("a", "▁a", "▁", "", "a" * rng.choice((1, 300, 65535)), "\0", "😀", "<0x41>", "<0xZZ>", "<|im_start|>")
    kinds = (0, 0, 0, 1, 2, 3, 4)
    pieces = [(rng.choice(letters), rng.choice(FLOATS), rng.choice(kinds)) for _ in range(rng.randrange(40))]
    if rng.random() < 0.5:
        pieces += [(f"<0x{value:02X}>", 0.0, 4) for value in range(256)]
    blob = tokenizer_blob(pieces, dummy=rng.randrange(3), fallback=rng.randrange(3))
    record = parts.records[-1]
    data[record.offset :] = blob
    struct.pack_into("<Q", data, directory_at(parts) + RECORD.size * (len(parts.records) - 1) + 28, len(blob))


def cut(rng: random.Random, data: bytearray, parts: Plan) -> None:
    del data[rng.randrange(len(data) + 1) :]


def lengthen(rng: random.Random, data: bytearray, parts: Plan) -> None:
    data += bytes(rng.choice((1, 63, 64, 4096)))


def splice(rng: random.Random, data: bytearray, parts: Plan) -> None:
    """A part of another archive, of either generation, in its place."""
    other = sound(rng.choice((2, 3)), rng.randrange(3))[1]
    start = rng.randrange(min(len(data), len(other)) + 1)
    end = min(len(data), len(other), start + rng.choice((4, 44, 64, 1024)))
    data[start:end] = other[start:end]


def flip(rng: random.Random, data: bytearray, parts: Plan) -> None:
    for _ in range(rng.randrange(1, 9)):
        if data:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


DAMAGES: tuple[tuple[Damage, int], ...] = (
    (damage_header, 6), (damage_levels, 1), (damage_record, 6), (swap_records, 1), (damage_values, 5),
    (damage_tokenizer, 4), (another_tokenizer, 2), (cut, 1), (lengthen, 1), (splice, 2), (flip, 2),
)  # fmt: skip
FREE = {
    "kv_window": (0, 1, 9, 2**20), "max_seq": (1, 64, 4096), "lanes": (1, 3, 8), "qkv_taps": (0, 1, 4, 16),
    "layers": (1, 2, 3), "kv_heads": (1, 4, 3), "out_vocab": (0, 1, 279), "sliding_window": (0, 1, 40),
    "engram_taps": (1, 16), "engram_dilation": (1, 64), "engram_slots": (1, 100), "kv_bits": (2, 3, 4, 8),
    "d_model": (16, 32, 64), "hada_n": (32, 64, 128), "qk_dim": (2, 6, 64), "v_dim": (1, 10, 66), "vocab": (280, 1000),
    "orders": ((1,), (2, 3), (8, 1, 5, 2)), "sites": ((), (0,), (0, 1)), "rope_theta": (1.5, 1e12),
}  # fmt: skip


def grown(rng: random.Random) -> tuple[Plan, bytearray]:
    """An archive of another geometry, often one that does not hold together."""
    generation = rng.choice((2, 3))
    changes = {name: rng.choice(FREE[name]) for name in rng.sample(sorted(FREE), rng.randrange(1, 4))}
    if generation == 2:
        changes = {name: value for name, value in changes.items() if name not in ("qkv_taps", "sliding_window")}
        if "qk_dim" in changes or "v_dim" in changes:
            changes["qk_dim"] = changes["v_dim"] = 6
    group = rng.choice((16, 32, 64))
    parts = plan(generation=generation, group=group, bits=rng.choice((1, 2, 3, 4, 5)), heads=(2,), **changes)
    return parts, bytearray(assemble(parts))


def case(number: int) -> bytes:
    """The archive of this number."""
    rng = random.Random(number)
    if rng.random() < 0.05:
        parts, data = grown(rng)
        rounds = rng.choice((0, 0, 1, 2))
    else:
        parts, whole = sound(rng.choice((2, 3, 3)), rng.randrange(3))
        data, rounds = bytearray(whole), rng.choice((1, 1, 1, 2, 2, 3, 5))
    damages, weights = zip(*DAMAGES, strict=True)
    for damage in rng.choices(damages, weights, k=rounds):
        if len(data) < directory_at(parts) + RECORD.size * len(parts.records):
            flip(rng, data, parts)  # what is left has no directory any more
        else:
            damage(rng, data, parts)
    return bytes(data)


# ---------------------------------------------------------------------------------------------------------------------
# Feeding them
# ---------------------------------------------------------------------------------------------------------------------


def outcome(data: bytes) -> Archive | ArchiveError:
    """What the parser gives. Whatever else it raises is a failure."""
    try:
        return parse(WatchedReader(data), "fuzzed.cact")
    except ArchiveError as error:
        return error


def run_core(core: Core, data: bytes, rng: random.Random) -> bool:
    """Loads a case that the parser lets through and uses everything; whether the core took it."""
    try:
        with Model.load(data, core) as model:
            use(model, rng)
            if model.geometry.generation == 3 and model.geometry.layers > 2:
                use(model.at_depth(2), rng)
    except AreoleError:
        return False
    return True


def use(model: Model, rng: random.Random) -> None:
    g = model.geometry
    most = min(g.max_seq, 40)
    ids = [rng.randrange(g.vocab) for _ in range(min(most - 1, rng.choice((1, 3, 26))))]
    prefix = rng.randrange(len(ids) + 1)
    with model.session(prefix_capacity=prefix, max_tokens=most, kv_window=rng.choice((None, 0, 1, 5))) as session:
        if prefix:
            session.prefill(ids[:prefix], pin=True)
        session.prefill(ids[prefix:])
        saved = session.snapshot()
        if ids:
            session.decode(ids[0])
            session.top(5)
        for _, head in model.archive.heads:
            if session.position:
                session.head(head)
        session.restore(saved)
    model.tokenizer.decode(model.tokenizer.encode("turn ▁on <|im_start|> 😀 the\0 light"))


def run_table(core: Core, rng: random.Random) -> bool:
    """A sound archive with a damaged geometry or table of tensors straight into the core; whether it took it."""
    parts, data = sound(rng.choice((2, 3)), rng.randrange(3))
    archive = parse(data)
    table, count = tensor_table(archive)
    structures = bytearray(geometry_struct(archive)), bytearray(table)
    for _ in range(rng.choice((1, 1, 2, 4))):
        structure = rng.choice(structures)
        at = 4 * rng.randrange(len(structure) // 4)
        (old,) = struct.unpack_from("<I", structure, at)
        struct.pack_into("<I", structure, at, word(rng, old))
    count = rng.choice((count, count, count, count - 1, 0))
    addresses: list[int] = []

    def put(blob: bytes | bytearray) -> int:
        addresses.append(core.alloc(max(1, len(blob))))
        core.write(addresses[-1], blob)
        return addresses[-1]

    try:
        weights, geometry, tensors, out = put(data), put(structures[0]), put(structures[1]), put(bytes(8))
        given = (geometry, tensors, count, weights, len(data))
        if core.call("areole_model_size", *given, out) < 0:
            return False
        size = int.from_bytes(core.read(out, 4), "little")
        if size > 2**24:  # sound, and larger than a fuzzer should make
            return False
        arena = put(bytes(size))
        if core.call("areole_model_init", arena, size, *given) < 0:
            return False
        if core.call("areole_session_size", arena, 3, 9, 4, out) < 0:
            return False
        size = int.from_bytes(core.read(out, 4), "little")
        if size > 2**24:
            return False
        session = put(bytes(size))
        if core.call("areole_session_init", session, size, arena, 3, 9, 4) < 0:
            return False
        logits = put(bytes(4 * struct.unpack_from("<I", structures[0], 4)[0]))
        for token in (0, 1, 2, 279):
            core.call("areole_decode", session, token, logits)
    finally:
        for address in addresses:
            core.free(address)
    return True


def guarded_core() -> Core:
    """The library in $AREOLE_NATIVE. Where AddressSanitizer is there, each block ends where it was asked to end, not
    where its alignment lets it."""
    from cffi import FFI

    from areole.core.native import NativeCore

    ffi = FFI()
    ffi.cdef("void __asan_poison_memory_region(void *, size_t); void __asan_unpoison_memory_region(void *, size_t);")
    library = ffi.dlopen(None)
    poison, unpoison = (getattr(library, f"__asan_{verb}_memory_region", None) for verb in ("poison", "unpoison"))

    class GuardedCore(NativeCore):
        def alloc(self, nbytes: int) -> int:
            address = super().alloc(nbytes)
            if poison is not None:
                self._guard(poison, address)
            return address

        def free(self, address: int) -> None:
            if unpoison is not None and address in self._blocks:
                self._guard(unpoison, address)
            super().free(address)

        def _guard(self, change: Callable[[object, int], None], address: int) -> None:
            block, nbytes = self._blocks[address]
            end = int(ffi.cast("uintptr_t", self._ffi.cast("void *", block))) + self._ffi.sizeof(block)
            change(ffi.cast("void *", address + nbytes), end - address - nbytes)

    return GuardedCore(Path(os.environ["AREOLE_NATIVE"]))


class TookTooLong(Exception):
    pass


def _alarm(number: int, frame: FrameType | None) -> None:
    raise TookTooLong(f"more than {SECONDS_A_CASE} s")


def fuzz(numbers: range, seconds: float, core: Core | None, core_count: int, note: Path | None) -> dict[str, int]:
    """Runs cases until the numbers or the seconds are used up; counts by outcome. Lets every failure through."""
    counts: dict[str, int] = {}
    began, peak = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    signal.signal(signal.SIGVTALRM, _alarm)
    cores = 0
    for number in numbers:
        if time.monotonic() - began > seconds:
            break
        if note is not None:
            note.write_text(str(number))
        signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS_A_CASE)
        rng = random.Random(-number - 1)
        data = case(number)
        found = outcome(data)
        kinds = ["parsed" if isinstance(found, Archive) else found.code]
        if core is not None and cores < core_count:
            if isinstance(found, Archive):
                kinds.append("core ran it" if run_core(core, data, rng) else "core refused it")
                cores += 1
            if cores < core_count:
                kinds.append("core ran a table" if run_table(core, rng) else "core refused a table")
                cores += 1
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        for kind in ("cases", *kinds):
            counts[kind] = counts.get(kind, 0) + 1
        if counts["cases"] == 200:  # everything that is kept is there by now
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        grown_by = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) * 1024
        if counts["cases"] > 200 and grown_by > MEMORY_GROWTH:
            raise MemoryError(f"the process grew by {grown_by:,} bytes")
    return counts


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--count", type=int, default=10**9)
    parser.add_argument("--core-count", type=int, default=10**9)
    parser.add_argument("--seed", type=int, default=0, help="number of the first case")
    parser.add_argument("--note", type=Path, help="a file that holds the number of the case that is running")
    args = parser.parse_args(argv)
    core = None
    if os.environ.get("AREOLE_NATIVE"):
        core = guarded_core()
    numbers = range(args.seed, args.seed + args.count)
    began = time.monotonic()
    counts = fuzz(numbers, args.seconds, core, args.core_count, args.note)
    for kind, count in sorted(counts.items(), key=lambda item: -item[1]):
        print(f"{count:9,} {kind}")
    print(f"{counts.get('cases', 0):,} archives in {time.monotonic() - began:.0f} s, no failure", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
