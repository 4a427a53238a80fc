"""Archives as dense arrays, and dense arrays as archives. Needs numpy; files in between need safetensors.

The arrays go by the archive's tensor names (docs/archive.md), matrices as (outputs, inputs), all float32 but for the
tokenizer, which is bytes. Beside them stand, as JSON texts, the geometry and how each matrix was stored.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, fields
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .archive import Archive, parse
from .errors import RequestError
from .header import CODEBOOK_LENGTH, FORMS, KV_BITS, LIMITS, MAX_ORDERS, Geometry, power_of_two
from .layout import (
    CQ_BITS,
    HEAD_CODES,
    HEAD_NAMES,
    MAX_GROUP,
    MIN_GROUP,
    Need,
    head_needs,
    model_needs,
)
from .quantise import dequantise, lloyd_max, quantise
from .writer import Entry, archive_chunks

Arrays = Mapping[str, NDArray[Any]]
Watch = Callable[[Iterable[Any], str], Iterable[Any]]
"""Wraps an iterable to show progress; the text says of what."""
HEAD_BITS = 4
"""Width of the heads' matrices unless told otherwise, as the reference has it."""
Rules = Iterable[tuple[str, int]]
"""(pattern, number): the first pattern that a tensor's name matches decides, `*` and `?` as in file names."""


def unwatched(items: Iterable[Any], text: str) -> Iterable[Any]:
    return items


def dense_arrays(archive: Archive, watch: Watch = unwatched) -> dict[str, NDArray[Any]]:
    """Every tensor of an archive, dense; the tokenizer as uint8."""
    out: dict[str, NDArray[Any]] = {}
    for tensor in watch(archive.tensors, "dequantizing"):
        blob = archive.reader.read(tensor.offset, tensor.nbytes)
        if tensor.dtype == "raw":
            out[tensor.name] = np.frombuffer(blob, np.uint8).copy()
        elif tensor.dtype == "cq":
            levels = archive.levels(tensor.bits, tensor.group)
            rows, columns = tensor.shape
            out[tensor.name] = dequantise(blob, rows, columns, tensor.bits, tensor.group, levels)
        else:
            kind = np.float16 if tensor.dtype == "f16" else np.float32
            out[tensor.name] = np.frombuffer(blob, kind).astype(np.float32).reshape(tensor.shape)
    return out


def metadata(archive: Archive) -> dict[str, str]:
    """What stands beside the arrays: "geometry", and "storage", {name: [width, group]} of each matrix."""
    stored = {tensor.name: [tensor.bits, tensor.group] for tensor in archive.tensors if tensor.dtype == "cq"}
    return {"geometry": json.dumps(asdict(archive.geometry)), "storage": json.dumps(stored)}


def read_safetensors(path: str | Path) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Arrays and metadata of a file. RequestError where it is none, or the library is not there."""
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise _needs("safetensors") from error
    try:
        with safe_open(str(path), framework="numpy") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, dict(file.metadata() or {})  # noqa: SIM118
    except (OSError, SafetensorError, TypeError, ValueError) as error:
        raise RequestError(
            "request_option", f"{path} cannot be read as safetensors: {error}.", got=str(path), needed="safetensors"
        ) from error


def safetensors_bytes(arrays: Arrays, about: Mapping[str, str]) -> bytes:
    try:
        from safetensors.numpy import save
    except ImportError as error:
        raise _needs("safetensors") from error
    return bytes(save(dict(arrays), dict(about)))


def _needs(library: str) -> RequestError:
    return RequestError(
        "request_option", f'This needs {library}: pip install "areole[tools]".', got=None, needed=library
    )


def geometry_of(about: Mapping[str, str]) -> Geometry:
    """The geometry in metadata. RequestError where there is none or it is not one; archives are checked further."""
    try:
        given: dict[str, Any] = json.loads(about["geometry"])
        known = {item.name for item in fields(Geometry)}
        kept: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in given.items() if k in known}
        geometry = Geometry(**kept)
        numbers = [getattr(geometry, name) for name in (*LIMITS, "generation")]
        lists = (geometry.global_layers, geometry.engram_orders, geometry.engram_sites)
        if not all(type(n) is int for n in [*numbers, *(n for items in lists for n in items)]):
            raise ValueError("a number is no whole number")
        if any(not low <= getattr(geometry, name) <= high for name, (low, high) in LIMITS.items()):
            raise ValueError("a number is out of range")
        if geometry.generation not in FORMS or geometry.kv_bits not in KV_BITS or not power_of_two(geometry.hada_n):
            raise ValueError("generation, kv_bits or hada_n is not possible")
        if len(geometry.engram_orders) > MAX_ORDERS or len(geometry.engram_sites) > FORMS[geometry.generation].sites:
            raise ValueError("too many engram orders or sites")
        float(geometry.rope_theta)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RequestError(
            "request_option", f"The metadata has no geometry that can be used: {type(error).__name__}: {error}.",
            got=about.get("geometry", "nothing")[:100], needed="the fields of areole.header.Geometry as JSON",
        ) from error  # fmt: skip
    return geometry


def storage_of(about: Mapping[str, str]) -> dict[str, tuple[int, int]]:
    """Width and group of each matrix, by name, in metadata. RequestError where they are not there."""
    try:
        return {str(name): (int(bits), int(group)) for name, (bits, group) in json.loads(about["storage"]).items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RequestError(
            "request_option", f"The metadata does not say how matrices were stored: {type(error).__name__}: {error}.",
            got=about.get("storage", "nothing")[:100], needed='"storage": {name: [width, group]} as JSON',
        ) from error  # fmt: skip


def pack(
    arrays: Arrays,
    geometry: Geometry,
    *,
    bits: int = 4,
    group: int = 128,
    bits_for: Rules = (),
    group_for: Rules = (),
    watch: Watch = unwatched,
) -> bytes:
    """The archive of a model's dense arrays; what it is made of is checked by reading it back.

    bits, group: of every matrix that no rule names; heads have 4 bits. 5 bits stand for ternary codes. RequestError for
    an array that is missing, unknown or of another shape, and for widths that there are not; ArchiveError for a
    geometry that no archive can have.
    """
    bits_for = [*bits_for, *((f"heads.*.{name}", HEAD_BITS) for name in ("probes", "query", "proj"))]
    needs = list(_needs_of(arrays, geometry))
    unknown = sorted(set(arrays) - {need.name for need in needs})
    if unknown:
        raise RequestError(
            "request_option", f"The model has no tensor called {unknown[0]} ({len(unknown)} names are unknown).",
            got=unknown[:10], needed="the tensors that the geometry has",
        )  # fmt: skip
    entries = [
        _entry(need, _array(arrays, need), _rule(bits_for, need.name, bits), _rule(group_for, need.name, group))
        for need in watch(needs, "packing")
    ]
    data = b"".join(archive_chunks(_head(geometry, entries), entries))
    parse(data, "the packed archive")
    return data


def _needs_of(arrays: Arrays, g: Geometry) -> Iterable[Need]:
    """Every tensor; the heads are those that have arrays, and sizes that are free are the arrays'."""

    def size(name: str, axis: int) -> int:
        shape = arrays[name].shape if name in arrays else ()
        return shape[axis] if axis < len(shape) else 1

    yield from model_needs(g, size("layers.0.cond_v", 1))
    codes = [code for code in HEAD_CODES[g.generation] if f"heads.{HEAD_NAMES[code]}.probes" in arrays]
    if codes:
        yield Need("heads.manifest", "f16", (len(codes),))
    for code in codes:
        at = f"heads.{HEAD_NAMES[code]}."
        probes = size(at + "gain", 1) if g.generation == 3 else size(at + "probes", 0)
        yield from head_needs(g, code, probes, size(at + "query", 0), size(at + "proj", 0))
    yield Need("tokenizer", "raw", ())


def _array(arrays: Arrays, need: Need) -> NDArray[Any]:
    found = arrays.get(need.name)
    if found is None and need.name == "heads.manifest":
        codes = [code for code, name in HEAD_NAMES.items() if f"heads.{name}.probes" in arrays]
        return np.array(codes, np.float32)
    if found is None or (need.dtype != "raw" and found.shape != need.shape):
        got = "nothing" if found is None else f"shape {found.shape}"
        raise RequestError(
            "request_option", f"{need.name}: got {got}; needed an array of shape {need.shape}.",
            got=got, needed=str(need.shape), tensor=need.name,
        )  # fmt: skip
    return found


def _rule(rules: Rules, name: str, otherwise: int) -> int:
    return next((number for pattern, number in rules if fnmatchcase(name, pattern)), otherwise)


def _entry(need: Need, array: NDArray[Any], bits: int, group: int) -> Entry:
    if need.dtype == "raw":
        blob = np.asarray(array, np.uint8).tobytes()
    elif need.dtype == "cq":
        if bits not in CQ_BITS or not (power_of_two(group) and MIN_GROUP <= group <= MAX_GROUP):
            raise RequestError(
                "request_option",
                f"{need.name}: got {bits} bits in groups of {group}; needed 1 to 5 bits (5 for ternary) in groups of a"
                f" power of two from {MIN_GROUP} to {MAX_GROUP}.",
                got=[bits, group], needed=[list(CQ_BITS), MIN_GROUP, MAX_GROUP], tensor=need.name,
            )  # fmt: skip
        blob = quantise(np.asarray(array, np.float32), bits, group)
        return Entry("cq", need.shape, len(blob), [blob], group, bits)
    else:
        with np.errstate(over="ignore"):  # infinities are refused when the archive is read back
            blob = np.asarray(array, np.float16 if need.dtype == "f16" else np.float32).tobytes()
    return Entry(need.dtype, need.shape, len(blob), [blob])


def _head(g: Geometry, entries: list[Entry]) -> bytes:
    """Header and codebooks. out_vocab is 0 where it is vocab, as the reference writes it."""
    form = FORMS[g.generation]
    words: list[int | float] = [0] * (form.words["rope_theta"] + 1)
    mask = sum(1 << layer for layer in g.global_layers)
    values: dict[str, tuple[int | float, ...]] = {
        **{name: (getattr(g, name),) for name in (*LIMITS, "rope_theta")},
        "tag": (form.tag,),
        "records": (len(entries),),
        "codebook_len": (CODEBOOK_LENGTH,),
        "out_vocab": (g.out_vocab if g.out_vocab != g.vocab else 0,),
        "global_layers": (mask & 0xFFFFFFFF, mask >> 32),
        "order_count": (len(g.engram_orders),),
        "engram_orders": g.engram_orders,
        "site_count": (len(g.engram_sites),),
        "engram_sites": g.engram_sites,
    }
    for name, items in values.items():
        if name in form.words:
            words[form.words[name] : form.words[name] + len(items)] = items
    base = entries[0].group
    levels = np.concatenate([lloyd_max(bits) for bits in (2, 3, 4)]) / math.sqrt(base)
    try:
        return form.header.pack(*words) + levels.astype("<f4").tobytes()
    except struct.error as error:
        raise RequestError(
            "request_option", f"The geometry cannot be written: {error}.", got=str(g), needed="numbers of 32 bits"
        ) from error
