"""The ladder: which blocks a shorter model has, and the archive of one.

A Needle 3 model is trained so that some of its blocks work as a model of their own. Both ends are in every rung; the
rest join one by one, each in the middle of the widest gap, the leftmost among equals, so the rungs are nested. A rung
runs its blocks in ascending order as if they were all there are: lanes by the place among them, the engrams and global
layers of those that are there, the heads' rows of those and of the embedding.

`Rung` is a plan over an archive; it copies bytes and computes nothing, so a rung's file is what the reference package
writes for it. An archive has no room for the order of the ladder that it was cut from: a rung of a rung follows the
first ladder only if `parent` says how many blocks that had.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from .archive import Archive
from .errors import RequestError
from .header import Geometry
from .layout import Tensor
from .writer import Entry, archive_chunks, archive_parts, archive_size

LOWEST = 2
"""Blocks of the shortest rung: both ends."""
_CHUNK = 2**20


def order(layers: int) -> tuple[int, ...]:
    """The blocks of a model of `layers`, in the order in which they join."""
    found = [0, layers - 1] if layers > 1 else [0]
    while len(found) < layers:
        ends = sorted(found)
        gaps = [(right - left, -left, (left + right) // 2) for left, right in zip(ends, ends[1:], strict=False)]
        found.append(max(gaps)[2])
    return tuple(found)


def selection(layers: int, depth: int, parent: int | None = None) -> tuple[int, ...]:
    """The blocks of the rung of `depth` blocks, ascending. RequestError("request_option") for a depth there is not.

    parent: the model is itself a rung, cut from one of this many blocks; its order goes on.
    """
    if isinstance(depth, bool) or not isinstance(depth, int) or not min(LOWEST, layers) <= depth <= layers:
        raise RequestError(
            "request_option", f"A depth of {depth!r} was asked for; this model has {LOWEST} to {layers} blocks to run.",
            got=repr(depth), needed=f"{LOWEST} to {layers}",
        )  # fmt: skip
    if parent is None:
        return tuple(sorted(order(layers)[:depth]))
    if parent < layers:
        raise RequestError(
            "request_option", f"A model of {layers} blocks cannot be cut from one of {parent}.",
            got=str(parent), needed=f"at least {layers}",
        )  # fmt: skip
    kept = order(parent)[:layers]
    place = {block: index for index, block in enumerate(sorted(kept))}
    return tuple(sorted(place[block] for block in kept[:depth]))


def need_ladder(g: Geometry, depth: int) -> None:
    """RequestError where a model has no shorter ones."""
    if g.generation != 3 and depth != g.layers:
        raise RequestError(
            "request_option",
            f"A depth of {depth!r} was asked for; Needle {g.generation} was not trained for any but its {g.layers}.",
            got=repr(depth), needed=str(g.layers),
        )  # fmt: skip


def rung_geometry(g: Geometry, blocks: Sequence[int]) -> Geometry:
    """The geometry of a model of these blocks, at ascending indices."""
    place = {block: index for index, block in enumerate(blocks)}
    return replace(
        g,
        layers=len(blocks),
        global_layers=tuple(place[layer] for layer in g.global_layers if layer in place),
        engram_sites=tuple(place[layer] for layer in g.engram_sites if layer in place),
    )


@dataclass(frozen=True)
class Rung:
    """The archive of some of an archive's blocks, not written yet. head: header and codebooks."""

    geometry: Geometry
    head: bytes
    entries: list[Entry]

    @property
    def nbytes(self) -> int:
        return archive_size(self.head, self.entries)

    def chunks(self) -> Iterator[bytes]:
        """The file, in pieces of at most a few megabytes."""
        return archive_chunks(self.head, self.entries)

    def pieces(self) -> Iterator[bytes | tuple[int, int]]:
        """The file in pieces that need not be read: bytes, or (offset, length) of what the first archive's file has."""
        for part in archive_parts(self.head, self.entries):
            if not isinstance(part, Entry):
                yield part
            elif isinstance(part.chunks, _Ranges):
                yield from part.chunks.ranges
            else:
                yield from part.chunks

    def to_bytes(self) -> bytes:
        return b"".join(self.chunks())


def rung(archive: Archive, depth: int, parent: int | None = None) -> Rung:
    """The rung of `depth` blocks of an archive as it lies in its file. See `selection` for the errors."""
    need_ladder(archive.geometry, depth)
    blocks = selection(archive.geometry.layers, depth, parent)
    geometry = rung_geometry(archive.geometry, blocks)
    entries = [Entry(*_taken(archive, tensor, blocks)) for tensor in archive.tensors if _stays(archive, tensor, blocks)]
    return Rung(geometry, _head(archive, geometry, len(entries)), entries)


def _stays(archive: Archive, tensor: Tensor, blocks: Sequence[int]) -> bool:
    kind, _, rest = tensor.name.partition(".")
    index = rest.partition(".")[0]
    if kind == "layers":
        return int(index) in blocks
    if kind == "engrams":
        return archive.geometry.engram_sites[int(index)] in blocks
    return True


def _taken(
    archive: Archive, tensor: Tensor, blocks: Sequence[int]
) -> tuple[str, tuple[int, ...], int, Iterable[bytes], int, int]:
    """What an Entry is made of: the tensor, or those of its rows that belong to the blocks."""
    layers = archive.geometry.layers
    kind, _, rest = tensor.name.partition(".")
    name = rest.rpartition(".")[2]
    axis, indices = 0, None
    if kind == "mhc":
        indices = _spread(blocks, tensor.shape[0] // layers)
    elif kind == "heads" and name in ("probes", "gain", "row_bias") and archive.geometry.generation == 3:
        rows = [0, *(block + 1 for block in blocks)]
        axis = int(name == "row_bias")
        indices = _spread(rows, tensor.shape[axis] // (layers + 1))
    if indices is None:
        shape, ranges = tensor.shape, [(tensor.offset, tensor.nbytes)]
    else:
        shape = (*tensor.shape[:axis], len(indices), *tensor.shape[axis + 1 :])
        ranges = _joined(_row_ranges(tensor, axis, indices))
    nbytes = sum(length for _, length in ranges)
    return tensor.dtype, shape, nbytes, _Ranges(archive, ranges), tensor.group, tensor.bits


def _spread(rows: Sequence[int], each: int) -> list[int]:
    """Row numbers where each of `rows` is `each` rows of a matrix."""
    return [row * each + i for row in rows for i in range(each)]


def _row_ranges(tensor: Tensor, axis: int, indices: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Where the bytes of some rows of an axis lie, in the order of a tensor that has only these."""
    if tensor.dtype == "cq":
        norms = 2 * (tensor.padded_cols // tensor.group)
        for start, size in ((0, tensor.row_bytes), (tensor.shape[0] * tensor.row_bytes, norms)):
            yield from ((tensor.offset + start + row * size, size) for row in indices)
        return
    size = tensor.nbytes // math.prod(tensor.shape[: axis + 1])
    for outer in range(math.prod(tensor.shape[:axis])):
        base = tensor.offset + outer * tensor.shape[axis] * size
        yield from ((base + row * size, size) for row in indices)


def _joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    out: list[tuple[int, int]] = []
    for offset, length in ranges:
        if out and out[-1][0] + out[-1][1] == offset:
            out[-1] = (out[-1][0], out[-1][1] + length)
        else:
            out.append((offset, length))
    return out


@dataclass(frozen=True)
class _Ranges:
    """Ranges of an archive's file, read when they are iterated over."""

    archive: Archive
    ranges: list[tuple[int, int]]

    def __iter__(self) -> Iterator[bytes]:
        for offset, length in self.ranges:
            for at in range(offset, offset + length, _CHUNK):
                yield self.archive.reader.read(at, min(_CHUNK, offset + length - at))


def _head(archive: Archive, geometry: Geometry, records: int) -> bytes:
    """The archive's header and codebooks, with what a rung changes changed."""
    stored = archive.reader.read(0, archive.header_bytes)
    header, at = archive.form.header, archive.form.words
    words = list(header.unpack_from(stored))
    mask = sum(1 << layer for layer in geometry.global_layers)
    changes: dict[str, Sequence[int]] = {
        "records": (records,),
        "layers": (geometry.layers,),
        "global_layers": (mask & 0xFFFFFFFF, mask >> 32),
        "site_count": (len(geometry.engram_sites),),
        "engram_sites": (*geometry.engram_sites, *([0] * (archive.form.sites - len(geometry.engram_sites)))),
    }
    for key, values in changes.items():
        if key not in at:
            continue
        words[at[key] : at[key] + len(values)] = values
    return header.pack(*words) + stored[header.size : header.size + 4 * words[at["codebook_len"]]]
