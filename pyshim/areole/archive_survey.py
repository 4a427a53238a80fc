"""What is in an archive, for plots: every tensor with its width, size and the spread of its norms.

Owns the numbers only. Reads a tensor's norms at a time, never its codes, so that a file of any size can be looked at.
"""

from __future__ import annotations

import struct
from typing import Any

from .archive import Archive, parse


class BytesOfPage:
    """An ArrayBuffer of the page as an archive.Reader: only what is asked for is copied into Python."""

    def __init__(self, view: Any, size: int) -> None:
        self._view, self.size = view, size

    def read(self, offset: int, length: int) -> bytes:
        return bytes(self._view.subarray(offset, offset + length).to_bytes())


def survey(archive: Archive) -> dict[str, object]:
    """`Archive.describe` and "tensors": [{"name", "dtype", "bits", "shape", "bytes", "group", "norms"}].

    norms: None, or {"count", "least", "mean", "most"} of a quantised matrix: the lengths of its groups.
    """
    rows = []
    for tensor in archive.tensors:
        norms = None
        if tensor.dtype == "cq":
            start = tensor.offset + archive.packed_bytes(tensor)
            raw = archive.reader.read(start, 2 * tensor.norm_count)
            values = struct.unpack(f"<{tensor.norm_count}e", raw)
            norms = {
                "count": len(values),
                "least": min(values),
                "mean": sum(values) / len(values),
                "most": max(values),
            }
        rows.append(
            {
                "name": tensor.name,
                "dtype": tensor.dtype,
                "bits": tensor.bits,
                "shape": list(tensor.shape),
                "bytes": tensor.nbytes,
                "group": tensor.group,
                "norms": norms,
            }
        )
    return {**archive.describe(), "tensors": rows}


def survey_page(view: Any, size: int, name: str) -> dict[str, object]:
    """The survey of a file that the page holds. ArchiveError as from archive.parse."""
    return survey(parse(BytesOfPage(view, size), name))
