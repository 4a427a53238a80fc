"""A small model to warm the core's kernels with while the weights come in: a few of the site's blocks, all zeros.

Only its description is made here, a few kilobytes of site.json; warm.js makes the zeros. Widths, groups and bits are
those of the site's archive, since those decide which kernels run; tables and vocabulary only take room and are small.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from areole.archive import Archive
from areole.ladder import rung_geometry
from areole.layout import ALIGN, Need, Tensor, head_needs, model_needs
from areole.model import geometry_struct, tensor_table

VOCAB, SLOTS, TOKENS = 512, 64, 128


def _needs(archive: Archive, small: Archive) -> Iterator[Need]:
    yield from model_needs(small.geometry, archive.cond_rank)
    if archive.heads:
        yield Need("heads.manifest", "f16", (len(archive.heads),))
    for code, name in archive.heads:
        probes, proj = archive.by_name[f"heads.{name}.probes"], archive.by_name[f"heads.{name}.proj"]
        if archive.geometry.generation == 2:
            yield from head_needs(small.geometry, code, probes.shape[0], 0, proj.shape[0])
        else:
            gain, query = archive.by_name[f"heads.{name}.gain"], archive.by_name[f"heads.{name}.query"]
            yield from head_needs(small.geometry, code, gain.shape[1], query.shape[0], proj.shape[0])


def rehearsal(archive: Archive) -> dict[str, Any]:
    """What warm.js needs: {"geometry", "tensors"} as base64, how many "count", the archive's "bytes", "vocab", and the
    place and content of "manifest", the one thing in it that is not zero."""
    g = archive.geometry
    # Both ends, and one block of each kind.
    blocks = sorted({0, g.layers - 1, *g.global_layers[:1], *g.engram_sites[:1]})
    geometry = replace(
        rung_geometry(g, blocks), vocab=VOCAB, out_vocab=VOCAB, max_seq=TOKENS,
        engram_slots=min(SLOTS, g.engram_slots), kv_window=min(TOKENS, g.kv_window),
        sliding_window=min(TOKENS, g.sliding_window),
    )  # fmt: skip
    small = replace(archive, geometry=geometry)
    tensors: list[Tensor] = []
    at = 0
    for need in _needs(archive, small):
        like = archive.by_name[_alike(need.name, blocks)]
        tensor = Tensor(need.name, need.dtype, need.shape, at, 0, like.group, like.bits, len(tensors))
        tensors.append(replace(tensor, nbytes=tensor.blob_bytes))
        at += -(-tensor.blob_bytes // ALIGN) * ALIGN
    small = replace(small, tensors=tuple(tensors))
    records, count = tensor_table(small)
    manifest = archive.by_name.get("heads.manifest")
    codes = archive.reader.read(manifest.offset, manifest.nbytes) if manifest is not None else b""
    place = next((tensor.offset for tensor in tensors if tensor.name == "heads.manifest"), 0)
    return {
        "geometry": _text(geometry_struct(small)),
        "tensors": _text(records),
        "count": count,
        "bytes": at,
        "vocab": VOCAB,
        "tokens": TOKENS,
        "manifest": {"at": place, "codes": _text(codes)},
    }


def _alike(name: str, blocks: list[int]) -> str:
    """The tensor of the whole model that one of the small one is made like."""
    kind, _, rest = name.partition(".")
    if kind != "layers":
        return name
    index, _, rest = rest.partition(".")
    return f"layers.{blocks[int(index)]}.{rest}"


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
