"""A page of the benchmarks' own: the core and archives, no Python. Kernels and whole tokens are timed in it.

    with core_page("relaxed", "kernels.js", {"shipped.cact": model}) as measure:
        times = measure({...})

Owns the folder that is served and the browser; the scripts are beside this file, what they are asked is their owners'.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from _common import ROOT, BenchError, needed

from headless import Headless

if TYPE_CHECKING:
    from areole.archive import Archive

HERE = Path(__file__).resolve().parent
SECONDS = 600.0
THREADS = ("threads.js", "helper.js", "errors.js")
TURN = "dim the bedroom lights to 20 percent and lock the front door, then warm up the kitchen"


def describe(archive: Archive, address: str, prefix: Sequence[int], turn: Sequence[int]) -> dict[str, Any]:
    """What the page needs to know of an archive, which it cannot read by itself."""
    from areole.model import geometry_struct, tensor_table

    records, count = tensor_table(archive)
    return {
        "address": address,
        "geometry": base64.b64encode(geometry_struct(archive)).decode("ascii"),
        "tensors": base64.b64encode(records).decode("ascii"),
        "tensorCount": count,
        "vocab": archive.geometry.out_vocab,
        "prefix": list(prefix),
        "turn": list(turn),
    }


def prefix_tokens(tokenizer: Any, tools: Sequence[Mapping[str, Any]], system: str) -> list[int]:
    """Token ids of what a session pins for these tools."""
    from areole.prompt import prefix_segments, render_tools

    return [tokenizer.bos, *tokenizer.encode_segments(prefix_segments(system, render_tools(json.dumps(tools))))]


def shipped_spec(model: Path, address: str, turn_tokens: int) -> dict[str, Any]:
    """The shipped model after the home preset's tools, with the first tokens of a request."""
    from areole.archive import BufferReader, parse
    from areole.prompt import user_turn
    from areole.tokenizer import Tokenizer

    archive = parse(BufferReader(model.read_bytes()), model.name)
    tokenizer = Tokenizer.from_blob(archive.tokenizer_blob)
    home = home_preset()
    prefix = prefix_tokens(tokenizer, home["tools"], home["system"])
    turn = tokenizer.encode_segments(user_turn(TURN, True))
    if len(turn) < turn_tokens:
        raise BenchError(f"the request has {len(turn)} tokens; {turn_tokens} are needed")
    return describe(archive, address, prefix, turn[:turn_tokens])


def home_preset() -> dict[str, Any]:
    presets = json.loads((ROOT / "web" / "presets.json").read_text(encoding="utf-8"))
    return next(preset for preset in presets if preset["id"] == "home")


def place(source: Path, target: Path) -> None:
    """The file under another name, by a link where there are links."""
    try:
        os.symlink(source.resolve(), target)
    except OSError:
        shutil.copyfile(source, target)


@contextlib.contextmanager
def core_page(
    flavor: str, script: str | Path, archives: Mapping[str, Path | bytes], *, isolated: bool = False
) -> Iterator[tuple[Callable[[Mapping[str, Any]], Any], str | None]]:
    """A page with the core `areole-FLAVOR.wasm` and the archives under their names. Gives what runs the script's
    measurement with a specification, to which the core's address is added; and the browser's version. `isolated`: with
    the site's scripts for threads."""
    core = needed("AREOLE_CORE", "the core") / f"areole-{flavor}.wasm"
    with tempfile.TemporaryDirectory(prefix="areole-page-") as name:
        site = Path(name)
        for source, target in (
            *((HERE / "page.html", "index.html"), (HERE / script, "main.js"), (HERE / "core.js", "core.js")),
            (core, core.name),
            *((ROOT / "web" / name, name) for name in (THREADS if isolated else ())),
        ):
            place(source, site / target)
        for target, archive in archives.items():
            if isinstance(archive, bytes):
                (site / target).write_bytes(archive)
            else:
                place(archive, site / target)
        with Headless(site, ready=False, isolated=isolated) as tab:

            def measure(spec: Mapping[str, Any]) -> Any:
                return tab.evaluate("(spec) => window.measure(spec)", {"core": core.name, **spec}, seconds=SECONDS)

            yield measure, tab.context.browser.version if tab.context.browser else None
