"""Archives that were read and checked before, by the SHA-256 of their bytes: reading one again costs nothing.

The page's Python starts from a memory in which the site's archive is known already, see web/snapshot.mjs. Owns nothing
of the bytes: who asks says that they have this hash.
"""

from __future__ import annotations

from dataclasses import replace

from .archive import Archive, BufferReader, Reader
from .tokenizer import Tokenizer

MOST = 2
"""How many are kept; the oldest goes."""

_READ: dict[str, tuple[int, Archive, Tokenizer]] = {}


def remember(digest: str, archive: Archive, tokenizer: Tokenizer) -> None:
    """Keeps what was found in an archive whose bytes have this SHA-256, in hex."""
    _READ.pop(digest, None)
    _READ[digest] = archive.nbytes, replace(archive, reader=BufferReader(b"")), tokenizer
    while len(_READ) > MOST:
        del _READ[next(iter(_READ))]


def known(digest: str) -> tuple[Archive, Tokenizer] | None:
    """The archive with this hash, without its bytes, if it was read before."""
    found = _READ.get(digest)
    return found[1:] if found else None


def recall(digest: str | None, reader: Reader, name: str) -> tuple[Archive, Tokenizer] | None:
    """The archive with this hash, over a reader of its bytes, if it was read before and has as many."""
    found = _READ.get(digest) if digest else None
    if found is None or found[0] != reader.size:
        return None
    return replace(found[1], reader=reader, name=name), found[2]
