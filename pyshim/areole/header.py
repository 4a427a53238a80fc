"""The head of an archive: tag, the header's words, the shared codebooks; of Needle 3 and of Needle 2.

Owns what a header may say. Every field is checked on its own and against those it must agree with; whatever is out
of range, or set where the format has nothing, is refused with an ArchiveError at the field's byte.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn, cast

from .errors import ArchiveError

TAG = 0x05E12A84
TAG_NEEDLE2 = 0x05E12A83
CODEBOOK_LENGTH = 4 + 8 + 16
MAX_PRODUCT = 2**31 - 1
"""The core counts bytes and values in 32 bits; no file, matrix or table may need more than 31."""

LIMITS: dict[str, tuple[int, int]] = {
    "vocab": (1, 2**20),
    "out_vocab": (1, 2**20),
    "d_model": (1, 2**14),
    "heads": (1, 256),
    "kv_heads": (1, 256),
    "layers": (1, 64),
    "qk_dim": (2, 1024),
    "v_dim": (1, 1024),
    "max_seq": (1, 2**16),
    "hada_n": (1, 2**16),
    "lanes": (1, 8),
    "sliding_window": (0, 2**20),
    "qkv_taps": (0, 16),
    "engram_slots": (0, 2**24),
    "engram_sub_dim": (0, 2**14),
    "engram_tables": (0, 256),
    "engram_taps": (0, 16),
    "engram_dilation": (0, 64),
    "engram_seed_heads": (0, 2**16),
    "kv_window": (0, 2**20),
    "kv_bits": (2, 8),
}
"""Lowest and highest value of each whole-number field of the geometry; out_vocab is meant after 0 became vocab."""
KV_BITS = (2, 3, 4, 8)
MAX_ORDERS, MAX_ORDER = 4, 8
MAX_ROPE_THETA = 1e12


@dataclass(frozen=True)
class Form:
    """How a generation's header is laid out.

    words: where each field starts, in four-byte words; what a generation lacks is 0. global_layers, orders and sites
    take several. sites: how many engram sites there is room for.
    """

    generation: int
    tag: int
    words: Mapping[str, int]
    sites: int

    @property
    def header(self) -> struct.Struct:
        return struct.Struct(f"<{self.words['rope_theta']}If")


FORMS = {
    3: Form(
        3, TAG,
        {
            "tag": 0, "records": 1, "codebook_len": 2, "kv_window": 3, "kv_bits": 4, "vocab": 5, "out_vocab": 6,
            "d_model": 7, "heads": 8, "kv_heads": 9, "layers": 10, "qk_dim": 11, "v_dim": 12, "max_seq": 13,
            "hada_n": 14, "lanes": 15, "sliding_window": 16, "global_layers": 17, "qkv_taps": 19, "engram_slots": 20,
            "engram_sub_dim": 21, "engram_tables": 22, "engram_taps": 23, "engram_dilation": 24,
            "engram_seed_heads": 25, "order_count": 26, "engram_orders": 27, "site_count": 31, "engram_sites": 32,
            "rope_theta": 48,
        },
        16,
    ),
    # One head_dim stands for both qk_dim and v_dim.
    2: Form(
        2, TAG_NEEDLE2,
        {
            "tag": 0, "records": 1, "codebook_len": 2, "kv_window": 3, "kv_bits": 4, "vocab": 5, "d_model": 6,
            "heads": 7, "kv_heads": 8, "layers": 9, "qk_dim": 10, "v_dim": 10, "max_seq": 11, "hada_n": 12,
            "lanes": 13, "engram_slots": 14, "engram_sub_dim": 15, "engram_tables": 16, "engram_taps": 17,
            "engram_dilation": 18, "order_count": 19, "engram_orders": 20, "site_count": 24, "engram_sites": 25,
            "rope_theta": 29,
        },
        4,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Geometry:
    """The header's fields in the header's order, checked; 0 in the file's out_vocab is resolved to vocab."""

    vocab: int
    out_vocab: int
    d_model: int
    heads: int
    kv_heads: int
    layers: int
    qk_dim: int
    v_dim: int
    max_seq: int
    hada_n: int
    lanes: int
    sliding_window: int
    global_layers: tuple[int, ...]
    qkv_taps: int
    engram_slots: int
    engram_sub_dim: int
    engram_tables: int
    engram_taps: int
    engram_dilation: int
    engram_seed_heads: int
    engram_orders: tuple[int, ...]
    engram_sites: tuple[int, ...]
    rope_theta: float
    kv_window: int
    kv_bits: int
    generation: int = 3

    @property
    def engram_heads(self) -> int:
        """Tables per order; 0 in a model without engrams."""
        return self.engram_tables // len(self.engram_orders) if self.engram_orders else 0

    @property
    def kron_a(self) -> int:
        """Rows of the (kron_a, kron_b) matrix that a Monarch product makes of hada_n values."""
        return 1 << ((self.hada_n.bit_length() - 1) // 2)

    @property
    def kron_b(self) -> int:
        """Columns of that matrix."""
        return self.hada_n // self.kron_a


def check_tag(head: bytes, name: str) -> Form:
    """The form that a file's first bytes name (64 are enough for every hint); refuses what is no archive."""
    tag = int.from_bytes(head[:4], "little")
    for form in FORMS.values():
        if tag == form.tag and len(head) >= 4:
            return form
    code, got, do = "archive_tag", f"0x{tag:08X}", "Is this a .cact file?"
    hint = _looks_like(head)
    if hint is not None:
        got, do = hint, "Check the address that the file came from."
    elif len(head) < 4:
        code = "archive_truncated"
        got, do = f"{len(head)} bytes" if head else "an empty file", "Check the address or path, and fetch it again."
    needed = " or ".join(f"0x{form.tag:08X} (Needle {form.generation})" for form in FORMS.values())
    raise ArchiveError.at(code, name, "the tag", got=got, needed=needed, offset=0, do=do)


def read_geometry(form: Form, words: tuple[int | float, ...], name: str) -> Geometry:
    """The geometry in a header's words."""
    return _Fields(form, words, name).geometry()


def read_codebooks(data: bytes, name: str, offset: int) -> tuple[float, ...]:
    """The 4 + 8 + 16 shared levels that follow the header, at `offset`."""
    levels = struct.unpack(f"<{CODEBOOK_LENGTH}f", data)
    for index, level in enumerate(levels):
        first_of_its_book = index in (0, 4, 12)
        # A level is a coordinate of a unit vector, so it lies within -1 to 1; a NaN fails this as well.
        if not (-1.0 <= level <= 1.0 and (first_of_its_book or level > levels[index - 1])):
            raise ArchiveError.at(
                "archive_codebook", name, f"codebook entry {index}", got=level,
                needed="finite levels from -1 to 1, strictly ascending within each of the three codebooks",
                offset=offset + 4 * index,
            )  # fmt: skip
    return levels


class _Fields:
    """The header's words by name, and their checks."""

    def __init__(self, form: Form, words: tuple[int | float, ...], name: str) -> None:
        self._form = form
        self._words = words
        self._name = name

    def _word(self, key: str, index: int = 0) -> int:
        at = self._form.words.get(key)
        return 0 if at is None else cast(int, self._words[at + index])

    def _refuse(self, key: str, got: object, needed: object, index: int = 0) -> NoReturn:
        offset = 4 * (self._form.words[key] + index)
        raise ArchiveError.at(
            "archive_header", self._name, f"header field {key}", got=got, needed=needed, offset=offset
        )

    def geometry(self) -> Geometry:
        n = {key: self._number(key) for key in LIMITS}
        if n["out_vocab"] > n["vocab"]:
            self._refuse("out_vocab", n["out_vocab"], f"at most vocab, {n['vocab']}")
        if n["heads"] % n["kv_heads"]:
            self._refuse("kv_heads", n["kv_heads"], f"a divisor of heads, {n['heads']}")
        if n["qk_dim"] % 2:
            self._refuse("qk_dim", n["qk_dim"], "an even number, because RoPE turns pairs")
        if n["kv_bits"] not in KV_BITS:
            self._refuse("kv_bits", n["kv_bits"], f"one of {', '.join(map(str, KV_BITS))}")
        if not power_of_two(n["hada_n"]) or n["hada_n"] < n["d_model"]:
            self._refuse("hada_n", n["hada_n"], f"a power of two, at least d_model, {n['d_model']}")
        global_layers = self._global_layers(n["layers"])
        orders = self._list("order_count", "engram_orders", MAX_ORDERS)
        for index, order in enumerate(orders):
            if not 1 <= order <= MAX_ORDER or order in orders[:index]:
                self._refuse("engram_orders", order, f"1 to {MAX_ORDER}, each order once", index)
        sites = self._list("site_count", "engram_sites", self._form.sites)
        for index, site in enumerate(sites):
            if site >= n["layers"] or (index and site <= sites[index - 1]):
                self._refuse("engram_sites", site, f"ascending layers below {n['layers']}", index)
        self._check_engrams(n, orders)
        if sites:
            self._check_sites(n, orders)
        theta = float(self._words[self._form.words["rope_theta"]])
        if not 1.0 < theta <= MAX_ROPE_THETA:
            self._refuse("rope_theta", theta, f"above 1, at most {MAX_ROPE_THETA:g}")
        return Geometry(
            **n, global_layers=global_layers, engram_orders=orders, engram_sites=sites, rope_theta=theta,
            generation=self._form.generation,
        )  # fmt: skip

    def _number(self, key: str) -> int:
        value = self._word(key)
        if key == "out_vocab" and value == 0:
            value = self._word("vocab")
        low, high = LIMITS[key]
        if not low <= value <= high:
            self._refuse(key, value, f"{low} to {high}")
        return value

    def _global_layers(self, layers: int) -> tuple[int, ...]:
        mask = self._word("global_layers") | self._word("global_layers", 1) << 32
        if mask >> layers:
            index = 1 if self._word("global_layers", 1) >> max(0, layers - 32) else 0
            self._refuse("global_layers", f"0x{mask:016X}", f"bits of layers 0 to {layers - 1} only", index)
        return tuple(layer for layer in range(layers) if mask >> layer & 1)

    def _list(self, count_key: str, key: str, room: int) -> tuple[int, ...]:
        count = self._word(count_key)
        if count > room:
            self._refuse(count_key, count, f"0 to {room}")
        for index in range(count, room):
            if self._word(key, index):
                self._refuse(key, self._word(key, index), f"0 in the places after the first {count}", index)
        return tuple(self._word(key, index) for index in range(count))

    def _check_engrams(self, n: dict[str, int], orders: tuple[int, ...]) -> None:
        """What must hold whether or not a layer has an engram."""
        tables = n["engram_tables"]
        if not orders and tables:
            self._refuse("engram_tables", tables, "0, because there are no orders")
        if orders and tables % len(orders):
            self._refuse("engram_tables", tables, f"a multiple of the {len(orders)} orders")
        heads = tables // len(orders) if orders else 0
        if n["engram_seed_heads"] and n["engram_seed_heads"] < heads:
            self._refuse("engram_seed_heads", n["engram_seed_heads"], f"0, or at least the {heads} tables of an order")
        if n["engram_slots"] * tables * n["engram_sub_dim"] > MAX_PRODUCT:
            needed = f"slots * tables ({tables}) * sub_dim ({n['engram_sub_dim']}) at most {MAX_PRODUCT}"
            self._refuse("engram_slots", n["engram_slots"], needed)

    def _check_sites(self, n: dict[str, int], orders: tuple[int, ...]) -> None:
        """What must hold besides when some layer has one: the tables' rows side by side are d_model wide."""
        if not orders:
            self._refuse("order_count", 0, f"1 to {MAX_ORDERS}, because there are engram sites")
        for key in ("engram_slots", "engram_sub_dim", "engram_tables", "engram_taps", "engram_dilation"):
            if not n[key]:
                self._refuse(key, 0, "at least 1, because there are engram sites")
        if n["engram_tables"] * n["engram_sub_dim"] != n["d_model"]:
            needed = f"sub_dim * tables ({n['engram_tables']}) equal to d_model, {n['d_model']}"
            self._refuse("engram_sub_dim", n["engram_sub_dim"], needed)


def power_of_two(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0


def _looks_like(head: bytes) -> str | None:
    """What the first bytes are, when they are one of the things often served in place of a file."""
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text[:1] == b"<":
        return "what looks like an HTML or XML page"
    if text.startswith(b"version https://git-lfs"):
        return "a Git LFS pointer, not the file it points to"
    if text[:1] in (b"{", b"["):
        return "what looks like JSON"
    if head.startswith(b"\x1f\x8b"):
        return "a gzip file"
    if head.startswith(b"PK\x03\x04"):
        return "a zip file"
    return None
