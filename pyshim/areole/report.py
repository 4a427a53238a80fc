"""What is in an archive, tensor by tensor, and how two archives differ. Reads files; needs no core and no numpy."""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Any

from .archive import Archive
from .header import Geometry
from .layout import TERNARY, Tensor

PIECE_KINDS = ("normal", "unknown", "control", "marker", "byte")
Watch = Callable[[Iterable[Any], str], Iterable[Any]]


def inspection(archive: Archive, watch: Watch) -> dict[str, object]:
    """Archive.describe() with "sha256", "levels", "tokenizer", "tensors" and "head_outputs", for json.dumps."""
    vocabulary = archive.vocabulary
    return {
        **archive.describe(),
        "sha256": digest(archive),
        "levels": {"2": archive.cb2, "3": archive.cb3, "4": archive.cb4},
        "tokenizer": {
            "pieces": len(vocabulary.pieces),
            "kinds": {name: vocabulary.kinds.count(kind) for kind, name in enumerate(PIECE_KINDS)},
            "space_before_text": vocabulary.add_dummy_prefix,
            "byte_fallback": vocabulary.byte_fallback,
            "special": {
                "pad": vocabulary.pad, "eos": vocabulary.eos, "bos": vocabulary.bos, "unk": vocabulary.unk,
            },
        },
        "head_outputs": {name: archive.by_name[f"heads.{name}.proj"].shape[0] for _, name in archive.heads},
        "tensors": [tensor_row(archive, tensor) for tensor in watch(archive.tensors, "reading tensors")],
    }  # fmt: skip


def tensor_row(archive: Archive, tensor: Tensor) -> dict[str, object]:
    """Name, type, shape, bytes, offset; of a matrix also width, group and the statistics of its norms, of a dense one
    those of its values: {"min", "mean", "max", "deviation"}, of norms "zero", how many there are."""
    row: dict[str, object] = {
        "name": tensor.name, "type": kind_of(tensor), "shape": list(tensor.shape), "bytes": tensor.nbytes,
        "offset": tensor.offset,
    }  # fmt: skip
    if tensor.dtype == "cq":
        norms = norms_of(archive, tensor)
        row |= {"width": tensor.bits, "group": tensor.group}
        row["norms"] = {**statistics(norms), "zero": norms.count(0.0)}
    elif tensor.dtype != "raw":
        row["values"] = statistics(archive.dense(tensor.name))
    return row


def kind_of(tensor: Tensor) -> str:
    """f16, f32, raw, binary, cq2, cq3, cq4 or ternary."""
    return {"cq1": "binary", f"cq{TERNARY}": "ternary"}.get(name := f"{tensor.dtype}{tensor.bits or ''}", name)


def norms_of(archive: Archive, tensor: Tensor) -> tuple[float, ...]:
    """A matrix's norms, (rows * groups,)."""
    data = archive.reader.read(tensor.offset + archive.packed_bytes(tensor), 2 * tensor.norm_count)
    return struct.unpack(f"<{tensor.norm_count}e", data)


def statistics(values: Iterable[float]) -> dict[str, float]:
    found = list(values)
    mean = math.fsum(found) / len(found)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in found) / len(found))
    return {name: float(f"{value:.6g}") for name, value in
            (("min", min(found)), ("mean", mean), ("max", max(found)), ("deviation", deviation))}  # fmt: skip


def digest(archive: Archive) -> str:
    """SHA-256 of the whole file."""
    total = hashlib.sha256()
    for at in range(0, archive.nbytes, 1 << 20):
        total.update(archive.reader.read(at, min(1 << 20, archive.nbytes - at)))
    return total.hexdigest()


def differences(a: Archive, b: Archive, watch: Watch) -> dict[str, object]:
    """How two archives differ: {"same": whether in nothing, "geometry": {field: [a, b]}, "levels": bool, "only_in_a",
    "only_in_b": names, "stored": {name: [how a stores it, how b does]}, "changed": {name: {...}}, "equal": a count}.

    Of a changed matrix: "codes" and "norms" that differ, and the greatest difference of two norms; of a dense tensor
    "values" that differ and the greatest difference; of the tokenizer "pieces" that differ.
    """
    geometry = {
        item.name: [getattr(a.geometry, item.name), getattr(b.geometry, item.name)]
        for item in fields(Geometry)
        if getattr(a.geometry, item.name) != getattr(b.geometry, item.name)
    }
    stored: dict[str, list[str]] = {}
    changed: dict[str, dict[str, float]] = {}
    common = [name for name in a.by_name if name in b.by_name]
    equal = 0
    for name in watch(common, "comparing"):
        one, other = a.by_name[name], b.by_name[name]
        if (one.dtype, one.shape, one.bits, one.group) != (other.dtype, other.shape, other.bits, other.group):
            stored[name] = [f"{kind_of(one)}: {one.storage}", f"{kind_of(other)}: {other.storage}"]
            continue
        blobs = [x.reader.read(t.offset, t.nbytes) for x, t in ((a, one), (b, other))]
        if blobs[0] == blobs[1]:
            equal += 1
        else:
            changed[name] = _changes(a, b, one, blobs)
    levels = (a.cb2, a.cb3, a.cb4) != (b.cb2, b.cb3, b.cb4)
    only = [[name for name in x.by_name if name not in y.by_name] for x, y in ((a, b), (b, a))]
    return {
        "same": not (geometry or levels or stored or changed or only[0] or only[1]),
        "geometry": geometry,
        "levels": levels,
        "only_in_a": only[0],
        "only_in_b": only[1],
        "stored": stored,
        "changed": changed,
        "equal": equal,
    }


def _changes(a: Archive, b: Archive, tensor: Tensor, blobs: list[bytes]) -> dict[str, float]:
    name = tensor.name
    if tensor.dtype == "raw":
        ours, theirs = a.vocabulary.pieces, b.vocabulary.pieces
        pieces = sum(x != y for x, y in zip(ours, theirs, strict=False)) + abs(len(ours) - len(theirs))
        return {"pieces": pieces}
    if tensor.dtype != "cq":
        return _spread("values", a.dense(name), b.dense(name))
    split, width = a.packed_bytes(tensor), tensor.code_bits
    rows = [[int.from_bytes(blob[at : at + tensor.row_bytes], "little")
             for at in range(0, split, tensor.row_bytes)] for blob in blobs]  # fmt: skip
    codes = sum(_codes_set(x ^ y, width, tensor.padded_cols) for x, y in zip(*rows, strict=True))
    return {"codes": codes, **_spread("norms", norms_of(a, tensor), norms_of(b, b.by_name[name]))}


def _codes_set(bits: int, width: int, columns: int) -> int:
    """How many of the codes of a row have any bit set."""
    lowest = sum(1 << column * width for column in range(columns)) if bits else 0
    folded = bits
    for shift in range(1, width):
        folded |= bits >> shift
    return (folded & lowest).bit_count()


def _spread(what: str, ours: Iterable[float], theirs: Iterable[float]) -> dict[str, float]:
    apart = [abs(x - y) for x, y in zip(ours, theirs, strict=True) if x != y]
    return {what: len(apart), "greatest": float(f"{max(apart, default=0.0):.6g}")}
