"""The commands of `areole` about archives, as files: what is in one, whether it is sound, and making others of it.

Owns arguments and what is printed. Nothing here needs a core.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .archive import Archive, parse
from .errors import RequestError


def add_commands(commands: Any, epilog: str) -> None:
    """Adds the parsers; each sets `run`."""
    cut = commands.add_parser("slice", help="the archive of a shorter model", epilog=epilog)
    cut.add_argument("file", metavar="FILE")
    cut.add_argument("--depth", type=int, required=True, metavar="N", help="blocks to keep")
    cut.add_argument("--out", required=True, metavar="FILE")
    cut.add_argument("--parent", type=int, metavar="N", help="FILE was cut from N blocks: follow their ladder")
    cut.set_defaults(run=_slice)


def read_archive(name: str) -> Archive:
    """The archive in a file. ArchiveError, or RequestError where the file cannot be read."""
    try:
        return parse(Path(name).read_bytes(), Path(name).name)
    except OSError as error:
        raise RequestError("request_option", f"{name} cannot be read: {error.strerror}.", got=name) from error


def write_file(name: str, chunks: Iterable[bytes]) -> int:
    """Writes a file that is there whole or not at all; its size. RequestError where it cannot be written."""
    path = Path(name)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    size = 0
    try:
        try:
            with partial.open("wb") as file:
                for chunk in chunks:
                    size += file.write(chunk)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise RequestError("request_option", f"{name} cannot be written: {error.strerror}.", got=name) from error
    return size


def _slice(args: argparse.Namespace) -> int:
    from .ladder import rung

    archive = read_archive(args.file)
    made = rung(archive, args.depth, args.parent)
    size = write_file(args.out, made.chunks())
    print(f"{args.out}: {args.depth} of {archive.geometry.layers} blocks, {size:,} of {archive.nbytes:,} bytes")
    return 0
