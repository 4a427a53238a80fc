"""The commands of `areole` about archives, as files: what is in one, whether it is sound, and making others of it.

Owns arguments and what is printed. Nothing here needs a core, except `verify --run`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .archive import Archive, parse
from .errors import RequestError

if TYPE_CHECKING:
    from .checkpoint import Rules

DIFFERENT = 1


def add_commands(commands: Any, epilog: str) -> None:
    """Adds the parsers; each sets `run`."""

    def add(name: str, run: Any, text: str, *files: str) -> argparse.ArgumentParser:
        command: argparse.ArgumentParser = commands.add_parser(name, help=text, epilog=epilog)
        for file in files:
            command.add_argument(file.lower(), metavar=file)
        command.set_defaults(run=run)
        return command

    inspect = add("inspect", _inspect, "what is in an archive", "FILE")
    inspect.add_argument("--json", action="store_true", help="print one JSON object, tensors and all")
    inspect.add_argument("--tensors", action="store_true", help="also a line for each tensor")
    inspect.add_argument("--plot", metavar="OUT.svg", help="draw sizes and norms (needs matplotlib)")

    verify = add("verify", _verify, "whether an archive is sound: every check there is", "FILE")
    verify.add_argument("--sha256", metavar="HEX", help="what the file's hash must be")
    verify.add_argument("--run", action="store_true", dest="run_core", help="also run some tokens through the core")

    cut = add("slice", _slice, "the archive of a shorter model", "FILE")
    cut.add_argument("--depth", type=int, required=True, metavar="N", help="blocks to keep")
    cut.add_argument("--parent", type=int, metavar="N", help="FILE was cut from N blocks: follow their ladder")

    diff = add("diff", _diff, "how two archives differ; exit code 1 if they do", "A", "B")
    diff.add_argument("--json", action="store_true", help="print one JSON object")

    dense = add("dequantize", _dequantize, "an archive's weights as float32 (needs numpy and safetensors)", "FILE")
    dense.add_argument("--to", default="safetensors", choices=("safetensors",), help="the format")

    pack = add("pack", _pack, "an archive of float weights (needs numpy and safetensors)", "FILE")
    pack.add_argument("--bits", type=_bits, default=4, metavar="N", help="1, 2, 3, 4 or ternary (default: 4)")
    pack.add_argument("--group", type=int, default=128, metavar="N", help="values that share a norm (default: 128)")
    pack.add_argument(
        "--bits-for", type=_rule, action="append", default=[], metavar="NAME=N",
        help="bits of the tensors whose names match, such as 'engrams.*.tables=2'; the first match counts",
    )  # fmt: skip
    pack.add_argument("--as-stored", action="store_true", help="widths and groups that the metadata names")
    for command in (cut, dense, pack):
        command.add_argument("--out", required=True, metavar="OUT")


def _bits(text: str) -> int:
    found = {"1": 1, "binary": 1, "2": 2, "3": 3, "4": 4, "5": 5, "ternary": 5}.get(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"got {text!r}; needed 1, 2, 3, 4 or ternary")
    return found


def _rule(text: str) -> tuple[str, int]:
    pattern, mark, bits = text.rpartition("=")
    if not mark or not pattern:
        raise argparse.ArgumentTypeError(f"got {text!r}; needed NAME=BITS")
    return pattern, _bits(bits)


def watch(items: Iterable[Any], text: str) -> Iterable[Any]:
    """The items, with a progress bar on a terminal where tqdm is there."""
    if sys.stderr.isatty():
        try:
            from tqdm import tqdm
        except ImportError:
            return items
        bar: Iterable[Any] = tqdm(items, desc=text, unit="tensor", leave=False, file=sys.stderr)
        return bar
    return items


def read_archive(name: str) -> Archive:
    """The archive in a file. ArchiveError, or RequestError where the file cannot be read."""
    try:
        return parse(Path(name).read_bytes(), Path(name).name)
    except OSError as error:
        raise RequestError("request_option", f"{name} cannot be read: {error.strerror}.", got=name) from error


def write_file(name: str, chunks: Iterable[bytes], source: str) -> int:
    """Writes a file that is there whole or not at all; its size. RequestError where it cannot be written, or would be
    put in the place of the `source` it is made from."""
    path = Path(name)
    if path.exists() and path.samefile(source):
        raise RequestError(
            "request_option", f"{name} is the file that is read; needed another name for what is written.", got=name
        )
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


def _inspect(args: argparse.Namespace) -> int:
    from .report import inspection

    archive = read_archive(args.file)
    full = args.json or args.tensors or args.plot
    found = inspection(archive, watch) if full else archive.describe()
    if args.plot:
        from .plot import plot_svg

        write_file(args.plot, [plot_svg(archive)], args.file)
    if args.json:
        print(json.dumps(found, ensure_ascii=False))
        return 0
    rows: Any = found.get("tensors", [])
    for key, value in archive.describe().items():
        if isinstance(value, dict):
            print(f"{key}:")
            for name, item in value.items():
                print(f"  {name:18} {_plain(item)}")
        else:
            print(f"{key:20} {_plain(value)}")
    if args.tensors:
        print("tensors:")
        for row in rows:
            figures = row.get("norms") or row.get("values") or {}
            spread = f"{figures['min']:.4g} to {figures['max']:.4g}, mean {figures['mean']:.4g}" if figures else ""
            what = "norms" if "norms" in row else "values" if figures else ""
            shape = " x ".join(map(str, row["shape"]))
            print(f"  {row['name']:28} {row['type']:8} {shape:16} {row['bytes']:>12,}  {what} {spread}".rstrip())
    return 0


def _plain(value: object) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value)) or "none"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _verify(args: argparse.Namespace) -> int:
    from .report import digest

    archive = read_archive(args.file)
    found = digest(archive)
    if args.sha256 and args.sha256.lower() != found:
        raise RequestError(
            "request_option", f"{args.file} has the SHA-256 {found}; needed {args.sha256.lower()}.",
            got=found, needed=args.sha256.lower(),
        )  # fmt: skip
    ran = ""
    if args.run_core:
        import math

        from .model import Model

        with Model.load(args.file) as model, model.session() as session:
            ids = [model.tokenizer.bos, *model.tokenizer.encode("turn on the light", markers=False)]
            logits = session.all_logits(ids[: model.geometry.max_seq])
            if not all(map(math.isfinite, logits)):
                raise RequestError(
                    "request_option", f"{args.file} gives logits that are not finite.", got="NaN or infinity"
                )
            ran = f", ran {len(ids)} tokens"
    print(f"{args.file}: sound, {len(archive.tensors)} tensors, {archive.nbytes:,} bytes{ran}, sha256 {found}")
    return 0


def _slice(args: argparse.Namespace) -> int:
    from .ladder import rung

    archive = read_archive(args.file)
    made = rung(archive, args.depth, args.parent)
    size = write_file(args.out, made.chunks(), args.file)
    print(f"{args.out}: {args.depth} of {archive.geometry.layers} blocks, {size:,} of {archive.nbytes:,} bytes")
    return 0


def _diff(args: argparse.Namespace) -> int:
    from .report import differences

    found: dict[str, Any] = differences(read_archive(args.a), read_archive(args.b), watch)
    if args.json:
        print(json.dumps(found, ensure_ascii=False))
        return 0 if found["same"] else DIFFERENT
    for name, (ours, theirs) in found["geometry"].items():
        print(f"geometry.{name}: {ours} / {theirs}")
    if found["levels"]:
        print("levels: other codebooks")
    for side in ("a", "b"):
        for name in found[f"only_in_{side}"]:
            print(f"{name}: only in {args.a if side == 'a' else args.b}")
    for name, (ours, theirs) in found["stored"].items():
        print(f"{name}: {ours} / {theirs}")
    for name, change in found["changed"].items():
        print(f"{name}: " + ", ".join(f"{key} {value:,}" for key, value in change.items()))
    print(f"{found['equal']} tensors are the same" if not found["same"] else "the same in all")
    return 0 if found["same"] else DIFFERENT


def _dequantize(args: argparse.Namespace) -> int:
    from .checkpoint import dense_arrays, metadata, safetensors_bytes

    archive = read_archive(args.file)
    size = write_file(args.out, [safetensors_bytes(dense_arrays(archive, watch), metadata(archive))], args.file)
    print(f"{args.out}: {len(archive.tensors)} tensors, {size:,} bytes")
    return 0


def _pack(args: argparse.Namespace) -> int:
    from .checkpoint import geometry_of, pack, read_safetensors, storage_of

    arrays, about = read_safetensors(args.file)
    bits_for: Rules = args.bits_for
    group_for: Rules = []
    if args.as_stored:
        stored = storage_of(about)
        bits_for = [*args.bits_for, *((name, bits) for name, (bits, _) in stored.items())]
        group_for = [(name, group) for name, (_, group) in stored.items()]
    geometry = geometry_of(about)
    data = pack(arrays, geometry, bits=args.bits, group=args.group, bits_for=bits_for, group_for=group_for, watch=watch)
    size = write_file(args.out, [data], args.file)
    print(f"{args.out}: {len(arrays)} tensors, {size:,} bytes")
    return 0
