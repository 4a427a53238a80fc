"""Reads a `.cact` archive of Needle 3 or Needle 2: directory, tensor names, values that can be checked, tokenizer blob.

`parse` checks every number in the file before anything bigger than one tensor's norms is read; it never reads packed
weights, except ternary ones, which hold a code that must not occur, and it keeps no weights at all. It refuses, with
an ArchiveError that says where, what was got and what was needed, whatever it does not know: another tag, another
record count, another type or shape, padding that is not zero. docs/archive.md is the format as read here.
"""

from __future__ import annotations

import math
import struct
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import NamedTuple, NoReturn, Protocol, cast

from .errors import ArchiveError
from .header import (
    CODEBOOK_LENGTH,
    LIMITS,
    MAX_PRODUCT,
    TAG,
    TAG_NEEDLE2,
    Form,
    Geometry,
    check_tag,
    power_of_two,
    read_codebooks,
    read_geometry,
)
from .layout import (
    ALIGN,
    BINARY,
    CQ_BITS,
    DTYPES,
    HEAD_CODES,
    HEAD_LIMITS,
    HEAD_NAMES,
    HEAD_OUTPUTS,
    MAX_COND_RANK,
    MAX_GROUP,
    MIN_GROUP,
    RECORD,
    TERNARY,
    Need,
    Tensor,
    base_count,
    cond_rank_record,
    head_counts,
    head_needs,
    head_records,
    model_needs,
)
from .tokenizer import Vocabulary, read_vocabulary

__all__ = ["LIMITS", "TAG", "TAG_NEEDLE2", "Archive", "BufferReader", "Geometry", "Reader", "Tensor", "parse"]

TERNARY_LEVEL = 1.2240064
"""Outer level of the three-level Lloyd-Max quantiser of a unit Gaussian; stored nowhere in the file."""
BINARY_LEVEL = math.sqrt(2.0 / math.pi)


class Reader(Protocol):
    """Where an archive's bytes come from: anything that knows its size and can hand out a range as `bytes`."""

    @property
    def size(self) -> int: ...

    def read(self, offset: int, length: int) -> bytes: ...


class BufferReader:
    """A `Reader` over any object with the buffer protocol; `read` copies only the range that was asked for."""

    def __init__(self, buffer: bytes | bytearray | memoryview | array[int]) -> None:
        self._view = memoryview(buffer).cast("B")
        self.size = self._view.nbytes

    def read(self, offset: int, length: int) -> bytes:
        return bytes(self._view[offset : offset + length])


@dataclass(frozen=True, eq=False)
class Archive:
    """A checked archive. It holds no weights; they stay where `reader` finds them.

    tensors: in file order. cb2, cb3, cb4: the shared levels. heads: (code, name) of the probe heads the file carries.
    header_bytes: bytes of header, codebooks and directory together. base_group: the group size that the shared levels
    are scaled for. cond_rank: rank of the Monarch MLP's conditioning, which only the tensors' shapes say, or 0.
    """

    name: str
    form: Form = field(repr=False)
    geometry: Geometry
    tensors: tuple[Tensor, ...]
    by_name: Mapping[str, Tensor] = field(repr=False)
    cb2: tuple[float, ...]
    cb3: tuple[float, ...]
    cb4: tuple[float, ...]
    heads: tuple[tuple[int, str], ...]
    tokenizer_blob: bytes = field(repr=False)
    vocabulary: Vocabulary = field(repr=False)
    reader: Reader = field(repr=False)
    header_bytes: int
    base_group: int
    cond_rank: int

    @property
    def nbytes(self) -> int:
        """Size of the whole file."""
        return self.reader.size

    def levels(self, bits: int, group: int) -> tuple[float, ...]:
        """Value of each code of a "cq" tensor with these record bits and group, before the norm and the rotation.

        Widths 2 to 4 come from the header, which is scaled for `base_group`; another group rescales them. Ternary
        levels are in the order of the two-bit codes 0, 1, 2, 3; code 2 is never stored and counts as 0.
        """
        if bits == BINARY:
            level = BINARY_LEVEL / math.sqrt(group)
            return (-level, level)
        if bits == TERNARY:
            level = TERNARY_LEVEL / math.sqrt(group)
            return (0.0, level, 0.0, -level)
        table = {2: self.cb2, 3: self.cb3, 4: self.cb4}.get(bits)
        if table is None:
            raise ValueError(f"{bits} is no width of a quantised tensor; needed one of {CQ_BITS}")
        if group == self.base_group:
            return table
        scale = math.sqrt(self.base_group / group)
        return tuple(level * scale for level in table)

    def packed_bytes(self, tensor: Tensor) -> int:
        """Length of a "cq" tensor's packed codes; its float16 norms start at `tensor.offset` plus this."""
        return tensor.shape[0] * tensor.row_bytes

    def dense(self, name: str) -> array[float]:
        """The values of an "f16" or "f32" tensor, row-major, as an array of 32-bit floats. KeyError without it."""
        tensor = self.by_name[name]
        if tensor.dtype not in ("f16", "f32"):
            raise ValueError(f"{name} is stored as {tensor.dtype}; dense() reads f16 and f32, matrix_row() reads cq")
        data = _read(self.reader, self.name, tensor.offset, tensor.nbytes)
        return array("f", _floats(data, tensor.dtype))

    def matrix_row(self, name: str, row: int) -> list[float]:
        """Row `row` of a "cq" tensor as floats, rotation undone, (cols,). For tools and tests: it is not fast."""
        tensor = self.by_name[name]
        if tensor.dtype != "cq":
            raise ValueError(f"{name} is stored as {tensor.dtype}; matrix_row() reads cq, dense() reads f16 and f32")
        if not 0 <= row < tensor.shape[0]:
            raise IndexError(f"{name} has rows 0 to {tensor.shape[0] - 1}; got {row}")
        packed = _read(self.reader, self.name, tensor.offset + row * tensor.row_bytes, tensor.row_bytes)
        groups = tensor.padded_cols // tensor.group
        norms_at = tensor.offset + self.packed_bytes(tensor) + 2 * row * groups
        norms = _floats(_read(self.reader, self.name, norms_at, 2 * groups), "f16")
        levels = self.levels(tensor.bits, tensor.group)
        width = tensor.code_bits
        stream = int.from_bytes(packed, "little")
        mask = (1 << width) - 1
        values = [levels[stream >> (column * width) & mask] for column in range(tensor.padded_cols)]
        out: list[float] = []
        for index, norm in enumerate(norms):
            part = values[index * tensor.group : (index + 1) * tensor.group]
            scale = norm / math.sqrt(tensor.group)
            out += [value * scale for value in _walsh_hadamard(part)]
        return out[: tensor.shape[1]]

    def describe(self) -> dict[str, object]:
        """A summary that `json.dumps` takes: name, sizes, heads, bytes by kind of storage, geometry."""
        storage: dict[str, int] = {}
        for tensor in self.tensors:
            kind = f"cq{tensor.bits}" if tensor.dtype == "cq" else tensor.dtype
            kind = {"cq1": "binary", "cq5": "ternary"}.get(kind, kind)
            storage[kind] = storage.get(kind, 0) + tensor.nbytes
        geometry: dict[str, object] = {}
        for item in fields(Geometry):
            value = getattr(self.geometry, item.name)
            geometry[item.name] = list(value) if isinstance(value, tuple) else value
        return {
            "name": self.name,
            "generation": self.geometry.generation,
            "bytes": self.nbytes,
            "records": len(self.tensors),
            "heads": [name for _, name in self.heads],
            "pieces": len(self.vocabulary.pieces),
            "group": self.base_group,
            "storage": storage,
            "geometry": geometry,
        }


def parse(source: Reader | bytes | bytearray | memoryview | array[int], name: str = "archive") -> Archive:
    """Check the archive in `source` and return its description.

    `name` is used in messages. Raises ArchiveError, and nothing else, for whatever the bytes may be.
    """
    if isinstance(source, (bytes, bytearray, memoryview, array)):
        source = BufferReader(source)
    return _Parser(source, name).run()


class _Record(NamedTuple):
    """One directory record as stored."""

    dtype: int
    rank: int
    padding: int
    d0: int
    d1: int
    d2: int
    d3: int
    offset: int
    nbytes: int
    group: int
    bits: int


# Where each of a record's fields starts, from the record's start; `dims` is four words.
_FIELD_AT = {"dtype": 0, "rank": 1, "padding": 2, "dims": 4, "offset": 20, "nbytes": 28, "group": 36, "bits": 40}


class _Parser:
    """One pass over one file, from the tag to the tokenizer; each step relies on those before it."""

    def __init__(self, reader: Reader, name: str) -> None:
        self.reader = reader
        self.name = name
        self.size = reader.size

    def run(self) -> Archive:
        form = self.form = check_tag(self._read(0, min(self.size, 64)), self.name)
        header = form.header
        self._need_size("the header", header.size)
        if self.size > MAX_PRODUCT:
            self._refuse(
                "archive_header", "the file's size", got=f"{self.size} bytes", needed=f"at most {MAX_PRODUCT} bytes",
                offset=0,
            )  # fmt: skip
        words = header.unpack(self._read(0, header.size))
        self.geometry = read_geometry(form, words, self.name)
        codebooks = self._codebooks(words[form.words["codebook_len"]], header.size)
        self.directory_at = header.size + 4 * CODEBOOK_LENGTH
        count = words[form.words["records"]]
        self._check_count(count)
        data_at = self.directory_at + count * RECORD.size
        self._need_size("the directory", data_at)
        directory = self._read(self.directory_at, data_at - self.directory_at)
        self.records = [_Record._make(record) for record in RECORD.iter_unpack(directory)]
        self.tensors: list[Tensor] = []
        self.end = data_at
        cond_rank = self._cond_rank()
        self._add(model_needs(self.geometry, cond_rank))
        heads = self._heads() if count > len(self.tensors) + 1 else ()
        self._add([Need("tokenizer", "raw", ())])
        if self.end != self.size:
            self._refuse(
                "archive_directory", "the file's size", got=f"{self.size} bytes", offset=self.end,
                needed=f"{self.end} bytes, where the tokenizer ends", record=count - 1, tensor="tokenizer",
            )  # fmt: skip
        for tensor in self.tensors:
            self._check_values(tensor)
        blob, vocabulary = self._tokenizer(self.tensors[-1])
        return Archive(
            name=self.name,
            form=form,
            geometry=self.geometry,
            tensors=tuple(self.tensors),
            by_name={tensor.name: tensor for tensor in self.tensors},
            cb2=codebooks[:4],
            cb3=codebooks[4:12],
            cb4=codebooks[12:],
            heads=heads,
            tokenizer_blob=blob,
            vocabulary=vocabulary,
            reader=self.reader,
            header_bytes=data_at,
            base_group=self.tensors[0].group,
            cond_rank=cond_rank,
        )

    def _refuse(
        self,
        code: str,
        what: str,
        *,
        got: object,
        needed: object,
        offset: int,
        record: int | None = None,
        tensor: str | None = None,
    ) -> NoReturn:
        raise ArchiveError.at(
            code, self.name, what, got=got, needed=needed, offset=offset, record=record, tensor=tensor
        )

    def _need_size(self, what: str, needed: int, record: int | None = None, tensor: str | None = None) -> None:
        if self.size < needed:
            raise ArchiveError.at(
                "archive_truncated", self.name, f"the end of {what}", got=f"a file of {self.size} bytes",
                needed=f"{needed} bytes", offset=self.size, record=record, tensor=tensor,
                do="The file was cut short; fetch it again.",
            )  # fmt: skip

    def _read(self, offset: int, length: int) -> bytes:
        return _read(self.reader, self.name, offset, length)

    def _codebooks(self, length: int, at: int) -> tuple[float, ...]:
        if length != CODEBOOK_LENGTH:
            self._refuse(
                "archive_codebook", "header field codebook_len", got=length, offset=4 * self.form.words["codebook_len"],
                needed=f"{CODEBOOK_LENGTH}, for codebooks of 4, 8 and 16 levels",
            )  # fmt: skip
        self._need_size("the codebooks", at + 4 * CODEBOOK_LENGTH)
        return read_codebooks(self._read(at, 4 * CODEBOOK_LENGTH), self.name, at)

    # Directory

    def _check_count(self, count: int) -> None:
        base = base_count(self.geometry) + 1
        counts = [base + extra for extra in head_counts(self.geometry)]
        if count not in counts:
            raise ArchiveError.at(
                "archive_directory", self.name, "header field records", got=count,
                offset=4 * self.form.words["records"],
                needed=f"one of {', '.join(map(str, counts))}, for this geometry and any choice of probe heads",
                do="It is damaged, or carries tensors that areole does not know, such as speech; use a plain Needle.",
            )  # fmt: skip

    def _refuse_field(
        self, record: int, tensor: str, key: str, what: str, got: object, needed: object, *,
        axis: int = 0, code: str = "archive_tensor",
    ) -> NoReturn:  # fmt: skip
        offset = self.directory_at + record * RECORD.size + _FIELD_AT[key] + 4 * axis
        self._refuse(code, what, got=got, needed=needed, offset=offset, record=record, tensor=tensor)

    def _cond_rank(self) -> int:
        record = cond_rank_record(self.geometry)
        if record is None:
            return 0
        rank = self.records[record].d1
        if not 1 <= rank <= MAX_COND_RANK:
            needed = f"a rank of 1 to {MAX_COND_RANK}"
            self._refuse_field(record, "layers.0.cond_v", "dims", "dimension 1", rank, needed, axis=1)
        return rank

    def _heads(self) -> tuple[tuple[int, str], ...]:
        """The manifest, then the tensors of the heads it names."""
        g = self.geometry
        following = len(self.records) - len(self.tensors) - 2
        self._add([Need("heads.manifest", "f16", (following // head_records(g, 1),))])
        manifest = self.tensors[-1]
        codes = _floats(self._read(manifest.offset, manifest.nbytes), "f16")
        known = all(code in HEAD_CODES[g.generation] for code in codes) and list(codes) == sorted(set(codes))
        if not known or sum(head_records(g, int(code)) for code in codes) != following:
            named = " and ".join(f"{code} ({HEAD_NAMES[code]})" for code in HEAD_CODES[g.generation])
            self._refuse(
                "archive_tensor", "the head codes", got=list(codes), offset=manifest.offset, record=manifest.record,
                needed=f"ascending codes of {named}, whose tensors are the {following} records that follow",
                tensor=manifest.name,
            )  # fmt: skip
        for code in map(int, codes):
            self._add(self._head_needs(code))
        return tuple((int(code), HEAD_NAMES[int(code)]) for code in codes)

    def _head_needs(self, code: int) -> Iterable[Need]:
        """One head's needs; its own probes, queries and outputs are read from the shapes in the directory."""
        first = len(self.tensors)
        head = f"heads.{HEAD_NAMES[code]}"
        if self.geometry.generation == 2:
            probes = self._head_size(code, head, "probes", first, "probes", 0)
            return head_needs(
                self.geometry, code, probes, 0, self._head_size(code, head, "outputs", first + 1, "proj", 0)
            )
        if DTYPES.get(self.records[first].dtype) == "f16":
            raise ArchiveError.at(
                "archive_tensor", self.name, "the type", got="f16", needed="cq", record=first, tensor=f"{head}.probes",
                offset=self.directory_at + first * RECORD.size,
                do="This is the earlier all-float16 layout of probe heads, which areole does not read; export it anew.",
            )  # fmt: skip
        sizes = (
            ("probes per row", first + 1, "gain", 1),
            ("queries", first + 2, "query", 0),
            ("outputs", first + 4, "proj", 0),
        )
        return head_needs(self.geometry, code, *(self._head_size(code, head, *size) for size in sizes))

    def _head_size(self, code: int, head: str, what: str, record: int, name: str, axis: int) -> int:
        """A dimension that a record may choose, checked."""
        value = (self.records[record].d0, self.records[record].d1)[axis]
        low, high = 1, HEAD_LIMITS[what]
        if what == "outputs" and code in HEAD_OUTPUTS:
            low = high = HEAD_OUTPUTS[code]
        if not low <= value <= high:
            needed = f"{low} {what}" if low == high else f"{low} to {high} {what}"
            self._refuse_field(record, f"{head}.{name}", "dims", f"dimension {axis}", value, needed, axis=axis)
        return value

    def _add(self, needs: Iterable[Need]) -> None:
        for need in needs:
            tensor = self._tensor(len(self.tensors), need)
            self.tensors.append(tensor)
            self.end = tensor.offset + tensor.nbytes

    def _tensor(self, index: int, need: Need) -> Tensor:
        """Record number `index` as a Tensor, if it is what `need` says and lies after the tensor before it."""
        record = self.records[index]

        def refuse(key: str, what: str, got: object, needed: object, axis: int = 0) -> NoReturn:
            code = "archive_directory" if key == "offset" else "archive_tensor"
            self._refuse_field(index, need.name, key, what, got, needed, axis=axis, code=code)

        dtype = DTYPES.get(record.dtype, f"unknown type {record.dtype}")
        if dtype != need.dtype:
            refuse("dtype", "the type", dtype, need.dtype)
        if record.rank != len(need.shape):
            refuse("rank", "the number of dimensions", record.rank, len(need.shape))
        if record.padding:
            refuse("padding", "the padding", record.padding, 0)
        for axis, got in enumerate((record.d0, record.d1, record.d2, record.d3)):
            wanted = need.shape[axis] if axis < len(need.shape) else 0
            if got != wanted:
                refuse("dims", f"dimension {axis}", got, wanted, axis)
        if dtype == "cq":
            if not (power_of_two(record.group) and MIN_GROUP <= record.group <= MAX_GROUP):
                refuse("group", "the group size", record.group, f"a power of two from {MIN_GROUP} to {MAX_GROUP}")
            if record.bits not in CQ_BITS:
                refuse("bits", "the width", record.bits, "1 (binary), 2, 3, 4 or 5 (ternary)")
        elif record.group or record.bits:
            key = "group" if record.group else "bits"
            refuse(key, f"the {key} field", getattr(record, key), f"0 for a tensor of type {dtype}")
        tensor = Tensor(
            need.name, dtype, need.shape, record.offset, record.nbytes, record.group, record.bits, index
        )  # fmt: skip
        if max(tensor.blob_bytes, tensor.values) > MAX_PRODUCT and dtype != "raw":
            refuse("dims", "the shape", tensor.storage, f"at most {MAX_PRODUCT} values and bytes")
        if tensor.nbytes != tensor.blob_bytes:
            refuse("nbytes", "the length", f"{tensor.nbytes} bytes", f"{tensor.blob_bytes} bytes for {tensor.storage}")
        if tensor.offset % ALIGN:
            refuse("offset", "the offset", tensor.offset, f"a multiple of {ALIGN}")
        if tensor.offset < self.end:
            refuse("offset", "the offset", tensor.offset, f"at least {self.end}, where what comes before it ends")
        self._need_size("the tensor", tensor.offset + tensor.nbytes, index, need.name)
        return tensor

    # Values

    def _check_values(self, tensor: Tensor) -> None:
        if tensor.dtype == "cq":
            self._check_matrix(tensor)
        elif tensor.name in ("hada_p1", "hada_p2"):
            self._check_permutation(tensor)
        elif tensor.dtype == "f16":
            index = _first_not_finite(self._read(tensor.offset, tensor.nbytes))
            if index is not None:
                self._refuse(
                    "archive_tensor", f"value {index}", got="infinity or NaN", needed="a finite float16",
                    offset=tensor.offset + 2 * index, record=tensor.record, tensor=tensor.name,
                )  # fmt: skip

    def _check_matrix(self, tensor: Tensor) -> None:
        norms_at = tensor.offset + tensor.shape[0] * tensor.row_bytes
        if tensor.bits == TERNARY:
            codes = self._read(tensor.offset, norms_at - tensor.offset)
            place = codes.translate(_HAS_CODE_2).find(1)
            if place >= 0:
                self._refuse(
                    "archive_tensor", "a ternary code", got=f"code 2 in byte 0x{codes[place]:02X}",
                    needed="codes 3, 0 and 1", offset=tensor.offset + place, record=tensor.record, tensor=tensor.name,
                )  # fmt: skip
        index = self._read(norms_at, 2 * tensor.norm_count)[1::2].translate(_NO_NORM).find(1)
        if index >= 0:
            row, group = divmod(index, tensor.padded_cols // tensor.group)
            self._refuse(
                "archive_norms", f"the norm of row {row}, group {group}", got="infinity, NaN or a minus sign",
                needed="a finite float16 from 0 up, being a length", offset=norms_at + 2 * index,
                record=tensor.record, tensor=tensor.name,
            )  # fmt: skip

    def _check_permutation(self, tensor: Tensor) -> None:
        size = tensor.shape[0]
        seen = bytearray(size)
        for place, value in enumerate(_floats(self._read(tensor.offset, tensor.nbytes), "f32")):
            # NaN and infinities fail the range; a fraction fails the comparison with its whole part.
            if not 0 <= value < size or value != int(value) or seen[int(value)]:
                self._refuse(
                    "archive_permutation", f"entry {place}", got=value,
                    needed=f"whole numbers 0 to {size - 1}, each once", offset=tensor.offset + 4 * place,
                    record=tensor.record, tensor=tensor.name,
                )  # fmt: skip
            seen[int(value)] = 1

    def _tokenizer(self, tensor: Tensor) -> tuple[bytes, Vocabulary]:
        blob = self._read(tensor.offset, tensor.nbytes)
        try:
            vocabulary = read_vocabulary(blob)
        except ArchiveError as error:
            self._refuse(
                error.code, str(error.what), got=error.got, needed=error.needed, record=tensor.record,
                offset=tensor.offset + cast(int, error.offset), tensor=tensor.name,
            )  # fmt: skip
        if len(vocabulary.pieces) > self.geometry.vocab:
            self._refuse(
                "archive_tokenizer", "the number of pieces", got=len(vocabulary.pieces), offset=tensor.offset,
                needed=f"at most vocab, {self.geometry.vocab}", record=tensor.record, tensor=tensor.name,
            )  # fmt: skip
        return blob, vocabulary


def _read(reader: Reader, name: str, offset: int, length: int) -> bytes:
    data = reader.read(offset, length)
    if len(data) != length:
        raise ArchiveError.at(
            "archive_truncated", name, "a read", got=f"{len(data)} bytes", needed=f"{length} bytes", offset=offset,
            do="The file changed while it was read, or its reader is wrong about its size.",
        )  # fmt: skip
    return data


def _floats(data: bytes, dtype: str) -> tuple[float, ...]:
    """Little-endian "f16" or "f32" data as floats."""
    size, letter = (2, "e") if dtype == "f16" else (4, "f")
    return struct.unpack(f"<{len(data) // size}{letter}", data)


# For each byte: 1 where it, as the high byte of a float16, has all five exponent bits set (infinity or NaN); and 1
# where it, as four ternary codes, has a code 2. Whole blobs are translated with these: there are a million norms.
_EXPONENT_FULL = bytes(int(byte & 0x7C == 0x7C) for byte in range(256))
# The high byte of a float16 that cannot be a norm: its exponent is full, or its sign is set (kernels read none).
_NO_NORM = bytes(int(byte & 0x7C == 0x7C or byte >= 0x80) for byte in range(256))
_HAS_CODE_2 = bytes(int(any(byte >> shift & 3 == 2 for shift in (0, 2, 4, 6))) for byte in range(256))


def _first_not_finite(data: bytes) -> int | None:
    """Index of the first float16 in `data` that is not finite."""
    index = data[1::2].translate(_EXPONENT_FULL).find(1)
    return None if index < 0 else index


def _walsh_hadamard(values: list[float]) -> list[float]:
    """The Walsh-Hadamard transform of a power-of-two-long list, without the factor 1/sqrt(n)."""
    out = list(values)
    step = 1
    while step < len(out):
        for start in range(0, len(out), 2 * step):
            for i in range(start, start + step):
                out[i], out[i + step] = out[i] + out[i + step], out[i] - out[i + step]
        step *= 2
    return out
