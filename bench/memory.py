"""The memory of the core: of its modules, the weights, the model beside them, and sessions of some lengths.

    python build.py bench memory [--json] [--svg FILE]

Memory is counted, not timed: the page's own modules run under wasmtime. bench/README.md says more.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from _common import BenchError, finish, heading, needed, parser, table
from _page import TURN, home_preset

if TYPE_CHECKING:
    from areole.core import Core
    from areole.model import Model

SESSIONS = (1024, 2048, 4096, 8192)
FLAVORS = ("relaxed", "simd128")
MEBI = 2**20


def asked(core: Core, name: str, *arguments: int) -> int:
    """What a *_size call of the core answers."""
    from areole.core import check

    out = core.alloc(4)
    try:
        check(core.call(name, *arguments, out), name)
        return int.from_bytes(core.read(out, 4), "little")
    finally:
        core.free(out)


def session_bytes(model: Model, prefix: int, tokens: int) -> int:
    return asked(model.core, "areole_session_size", model.arena, prefix, tokens, model.geometry.kv_window)


def after_a_request(path: Path, tokens: int) -> int:
    """Bytes of a core's memory after a request in a session of so many tokens. A core of its own for each: its memory
    never shrinks."""
    from areole.agent import Needle
    from areole.core import load_core
    from areole.model import Model

    core, home = load_core("wasmtime"), home_preset()
    tools = json.dumps(home["tools"])
    with Model.load(path, core) as model, Needle(model, tools, home["system"], max_tokens=tokens) as needle:
        needle.complete(TURN)
        return core.memory_bytes


def run() -> dict[str, Any]:
    from areole.core import load_core
    from areole.model import Model

    path, cores = needed("AREOLE_MODEL", "the model"), needed("AREOLE_CORE", "the core")
    result = heading("memory")
    modules = {flavor: (cores / f"areole-{flavor}.wasm").stat().st_size for flavor in FLAVORS}
    core = load_core("wasmtime")
    before = core.memory_bytes
    with Model.load(path, core) as model:
        loaded = core.memory_bytes
        sessions = [{"tokens": tokens, "session_bytes": session_bytes(model, tokens, tokens)} for tokens in SESSIONS]
    for row in sessions:
        row["core_bytes"] = after_a_request(path, row["tokens"])
    return {
        **result,
        "modules": modules,
        "weights_bytes": path.stat().st_size,
        "core_before_bytes": before,
        "core_loaded_bytes": loaded,
        "sessions": sessions,
    }


def as_table(result: Mapping[str, Any]) -> str:
    rows = [["", "bytes", "MiB"]]

    def add(name: str, count: int) -> None:
        rows.append([name, f"{count:,}", f"{count / MEBI:.2f}"])

    for flavor, count in result["modules"].items():
        add(f"module, {flavor}", count)
    add("weights", result["weights_bytes"])
    add("core with the weights", result["core_loaded_bytes"])
    for row in result["sessions"]:
        add(f"session of {row['tokens']:,} tokens, all pinned", row["session_bytes"])
    for row in result["sessions"]:
        add(f"core after a request in a session of {row['tokens']:,}", row["core_bytes"])
    return f"memory of the core\n\n{table(rows)}"


def plot(result: Mapping[str, Any], path: Path) -> None:
    from _plot import bars, figure, save

    made, (axes,) = figure(7, 2.8)
    names = ["weights", "core with the weights"] + [f"session of {row['tokens']:,}" for row in result["sessions"]]
    counts = [result["weights_bytes"], result["core_loaded_bytes"], *(row["core_bytes"] for row in result["sessions"])]
    bars(axes, names, [count / MEBI for count in counts], "MiB of the core's memory")
    save(made, path)


def main(argv: Sequence[str] | None = None) -> int:
    args = parser(__doc__, plots=True).parse_args(argv)
    return finish(run, as_table, args.json, (BenchError,), plot, args.svg)


if __name__ == "__main__":
    sys.exit(main())
