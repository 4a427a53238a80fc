"""What follows a header: which tensors, in which order, of which type and shape.

The directory of an archive has no names; a tensor is what its position says. Owns that order, the names, and the sizes
of stored tensors. Refuses nothing itself: `areole.archive` compares a file with what this module says it must hold.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from .header import Geometry

RECORD = struct.Struct("<BBHIIIIQQII")
"""A record of the directory: type, dimensions, 0, 4 sizes, offset, length, group, width."""
ALIGN = 64
"""Each tensor starts at a multiple of it."""
DTYPES = {1: "f16", 2: "f32", 3: "cq", 4: "raw"}
BINARY, TERNARY = 1, 5
CQ_BITS = (1, 2, 3, 4, 5)
MIN_GROUP, MAX_GROUP = 16, 256
MAX_COND_RANK = 256
HEAD_NAMES = {1: "embedding", 2: "confidence", 3: "router"}
HEAD_CODES = {2: (1, 2), 3: (1, 2, 3)}
"""The heads that a generation can have. The embedding head of Needle 2 is the one called contrastive there."""
HEAD_OUTPUTS = {2: 1, 3: 3}
"""Outputs that a head must have, by code; an embedding head may have any number."""
HEAD_LIMITS = {"probes per row": 64, "queries": 64, "outputs": 8192, "probes": 64}
HEAD_MATRICES = {"probes", "query", "proj"}

LAYER_NAMES = (
    "norm_in", "q_proj", "k_proj", "v_proj", "q_taps", "k_taps", "v_taps", "q_norm", "k_norm", "gate_proj", "out_proj",
    "post_norm", "attn_gate", "pre_hada", "d1", "d2", "b2", "d3", "d4", "w1a", "w1b", "w2a", "w2b", "w3a", "w3b",
    "cond_v", "cond_u",
)  # fmt: skip
TAP_NAMES = ("q_taps", "k_taps", "v_taps")
MONARCH_NAMES = LAYER_NAMES[LAYER_NAMES.index("d1") :]
WALSH_NAMES = ("d1", "d2", "d3")
MHC_NAMES = ("a_pre", "a_post", "a_res", "b_pre", "b_post", "b_res", "phi_pre", "phi_post", "phi_res")
ENGRAM_NAMES = ("tables", "key_proj", "value_proj", "taps")


@dataclass(frozen=True)
class Need:
    """What a position of the directory must hold; dtype is one of DTYPES' names."""

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Tensor:
    """One record of the directory: where a tensor lies and how it is stored, not its values.

    shape: (rows, cols) for "cq", cols being the logical width; the stored rows are padded to a multiple of `group`.
    offset, nbytes: of the whole blob, from the start of the file.
    group, bits: only "cq"; bits 5 means ternary (two bits a value). Both are 0 otherwise.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    nbytes: int
    group: int
    bits: int
    record: int

    @property
    def code_bits(self) -> int:
        """Stored bits of one code of a "cq" tensor."""
        return 2 if self.bits == TERNARY else self.bits

    @property
    def padded_cols(self) -> int:
        """Stored width of a "cq" row in values."""
        return -(-self.shape[1] // self.group) * self.group

    @property
    def row_bytes(self) -> int:
        """Bytes of one "cq" row's packed codes."""
        return self.padded_cols * self.code_bits // 8

    @property
    def norm_count(self) -> int:
        """Float16 norms of a "cq" tensor: one a row and group, stored after the codes."""
        return self.shape[0] * (self.padded_cols // self.group)

    @property
    def values(self) -> int:
        """Stored values, padding included."""
        return self.shape[0] * self.padded_cols if self.dtype == "cq" else math.prod(self.shape)

    @property
    def blob_bytes(self) -> int:
        """Bytes that the blob must have by type, shape, group and width; "raw" blobs say it themselves."""
        if self.dtype == "cq":
            return self.shape[0] * self.row_bytes + 2 * self.norm_count
        return self.nbytes if self.dtype == "raw" else self.values * (2 if self.dtype == "f16" else 4)

    @property
    def storage(self) -> str:
        """How the values are stored, in words."""
        shape = " x ".join(str(dim) for dim in self.shape)
        if self.dtype == "cq":
            return f"{shape} codes of {self.code_bits} bits in groups of {self.group}"
        return f"{shape} {self.dtype}"


def layer_names(g: Geometry) -> tuple[str, ...]:
    """The tensors of a block, in order."""
    names = LAYER_NAMES if g.generation == 3 else (*LAYER_NAMES[: LAYER_NAMES.index("d1")], *WALSH_NAMES)
    return names if g.qkv_taps else tuple(name for name in names if name not in TAP_NAMES)


def base_count(g: Geometry) -> int:
    """Records from the embedding through final_norm."""
    permutations = 2 if g.generation == 3 else 0
    engrams = len(g.engram_sites) * len(ENGRAM_NAMES)
    return 1 + g.layers * len(layer_names(g)) + len(MHC_NAMES) + permutations + engrams + 1


def cond_rank_record(g: Geometry) -> int | None:
    """Index of layers.0.cond_v, whose second dimension is the one size that neither header nor manifest says."""
    return 1 + layer_names(g).index("cond_v") if g.generation == 3 else None


def head_records(g: Geometry, code: int) -> int:
    """Records of one head."""
    return 3 if g.generation == 2 else 7 if code == 3 else 6


def head_counts(g: Geometry) -> list[int]:
    """Records that heads can take in all: none, or a manifest and those of the heads."""
    codes = HEAD_CODES[g.generation]
    choices = [chosen for count in range(1, len(codes) + 1) for chosen in itertools.combinations(codes, count)]
    return [0, *sorted({1 + sum(head_records(g, code) for code in chosen) for chosen in choices})]


def model_needs(g: Geometry, cond_rank: int) -> Iterator[Need]:
    """The records from the embedding through final_norm. A matrix is stored as (outputs, inputs)."""
    yield Need("embedding", "cq", (g.vocab, g.d_model))
    layer = _layer_shapes(g, cond_rank)
    for index in range(g.layers):
        for name in layer_names(g):
            yield Need(f"layers.{index}.{name}", *layer[name])
    mhc = _mhc_shapes(g)
    for name in MHC_NAMES:
        yield Need(f"mhc.{name}", *mhc[name])
    if g.generation == 3:
        yield Need("hada_p1", "f32", (g.hada_n,))
        yield Need("hada_p2", "f32", (g.hada_n,))
    engram = _engram_shapes(g)
    for index in range(len(g.engram_sites)):
        for name in ENGRAM_NAMES:
            yield Need(f"engrams.{index}.{name}", *engram[name])
    yield Need("final_norm", "f16", (g.d_model,))


def head_needs(g: Geometry, code: int, probes: int, queries: int, outputs: int) -> Iterator[Need]:
    """The records of one head; its rows are the embedding's and each layer's, with `probes` probes a row. A head of
    Needle 2 has no rows and no queries."""
    if g.generation == 2:
        yield Need(f"heads.{HEAD_NAMES[code]}.probes", "f16", (probes, g.d_model))
        yield Need(f"heads.{HEAD_NAMES[code]}.proj", "f16", (outputs, probes * g.d_model))
        yield Need(f"heads.{HEAD_NAMES[code]}.bias", "f16", (outputs,))
        return
    rows = g.layers + 1
    shapes: dict[str, tuple[int, ...]] = {
        "probes": (rows * probes, g.d_model),
        "gain": (rows, probes),
        "query": (queries, g.d_model),
        "row_bias": (queries, rows, probes),
        "proj": (outputs, queries * g.d_model),
        "bias": (outputs,),
    }
    if code == 3:
        shapes["calibration"] = (3,)
    for name, shape in shapes.items():
        yield Need(f"heads.{HEAD_NAMES[code]}.{name}", "cq" if name in HEAD_MATRICES else "f16", shape)


_Shapes = dict[str, tuple[str, tuple[int, ...]]]


def _layer_shapes(g: Geometry, cond_rank: int) -> _Shapes:
    d, n, a, b = g.d_model, g.hada_n, g.kron_a, g.kron_b
    q, k, v, attended = g.heads * g.qk_dim, g.kv_heads * g.qk_dim, g.kv_heads * g.v_dim, g.heads * g.v_dim
    shapes: _Shapes = {
        "norm_in": ("f16", (d,)),
        "q_proj": ("cq", (q, d)),
        "k_proj": ("cq", (k, d)),
        "v_proj": ("cq", (v, d)),
        "q_norm": ("f16", (g.qk_dim,)),
        "k_norm": ("f16", (g.qk_dim,)),
        "gate_proj": ("cq", (attended, d)),
        "out_proj": ("cq", (d, attended)),
        "post_norm": ("f16", (d,)),
        "attn_gate": ("f16", (1,)),
        "pre_hada": ("f16", (d,)),
        **{name: ("f16", (n,)) for name in ("d1", "d2", "b2", "d3", "d4")},
        **{name: ("f16", (a, a)) for name in ("w1a", "w2a", "w3a")},
        **{name: ("f16", (b, b)) for name in ("w1b", "w2b", "w3b")},
        "cond_v": ("f16", (d, cond_rank)),
        "cond_u": ("f16", (cond_rank, n)),
    }
    if g.qkv_taps:
        shapes |= {name: ("f16", (g.qkv_taps, width)) for name, width in zip(TAP_NAMES, (q, k, v), strict=True)}
    return shapes


def _mhc_shapes(g: Geometry) -> _Shapes:
    layers, lanes, width = g.layers, g.lanes, g.lanes * g.d_model
    return {
        **{name: ("f16", (layers,)) for name in ("a_pre", "a_post", "a_res")},
        **{name: ("f16", (layers, lanes)) for name in ("b_pre", "b_post")},
        "b_res": ("f16", (layers, lanes, lanes)),
        **{name: ("cq", (layers * lanes, width)) for name in ("phi_pre", "phi_post")},
        "phi_res": ("cq", (layers * lanes * lanes, width)),
    }


def _engram_shapes(g: Geometry) -> _Shapes:
    return {
        "tables": ("cq", (g.engram_tables * g.engram_slots, g.engram_sub_dim)),
        "key_proj": ("cq", (g.d_model, g.d_model)),
        "value_proj": ("cq", (g.d_model, g.d_model)),
        "taps": ("f16", (g.engram_taps, g.d_model)),
    }
