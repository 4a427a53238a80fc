"""Whole tokens of the shipped model with one thread, with two and with four, in headless Chromium.

    python build.py bench threads [--seconds N] [--json] [--svg FILE]

Without other work, and with one busy process a core. No Python takes part in the times. bench/README.md says more.
"""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from _common import (
    BenchError,
    finish,
    heading,
    load_average,
    machine,
    needed,
    parser,
    ran_on,
    say,
    short,
    significant,
    table,
    warn_of_load,
)
from _page import core_page, shipped_spec

from headless import HeadlessError

DECODED, PREFILLED = 12, 24
# The first is what the others are compared with: helpers that are asleep.
WAYS = (
    {"name": "1", "threads": 2, "mode": "off"},
    {"name": "2", "threads": 2, "mode": "on"},
    {"name": "4", "threads": 4, "mode": "on"},
    {"name": "2, chosen", "threads": 2, "mode": "auto"},
    {"name": "4, chosen", "threads": 4, "mode": "auto"},
)


@contextlib.contextmanager
def busy(processes: int) -> Iterator[None]:
    """So many processes that only count."""
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def figures(slices: Sequence[float], alone: Sequence[float], tokens: int) -> dict[str, Any]:
    """Milliseconds a token of one way, and how much faster than one thread: of the medians, and of the means, which
    also count what a rare long wait costs."""
    return {
        "best_ms": significant(min(slices) / tokens, 4),
        "median_ms": significant(statistics.median(slices) / tokens, 4),
        "mean_ms": significant(statistics.fmean(slices) / tokens, 4),
        "speedup_best": significant(min(alone) / min(slices), 3),
        "speedup_median": significant(statistics.median(alone) / statistics.median(slices), 3),
        "speedup_mean": significant(statistics.fmean(alone) / statistics.fmean(slices), 3),
        "slices_ms": [significant(value / tokens, 4) for value in slices],
    }


def by_way(measured: Mapping[str, Any]) -> dict[str, Any]:
    """{way: {"decode", "prefill", "parts"}}."""
    ways = measured["ways"]
    return {
        way["name"]: {
            "decode": figures(way["decodeMs"], ways[0]["decodeMs"], DECODED),
            "prefill": figures(way["prefillMs"], ways[0]["prefillMs"], PREFILLED),
            "parts": way["parts"],
        }
        for way in ways
    }


def run(seconds: float) -> dict[str, Any]:
    model = needed("AREOLE_MODEL", "the model")
    result = heading("threads")
    warn_of_load(result["machine"]["load_before"])
    spec = {
        "model": shipped_spec(model, "shipped.cact", PREFILLED),
        "ways": WAYS, "decoded": DECODED, "prefilled": PREFILLED, "seconds": seconds,
    }  # fmt: skip
    cores = machine()["cores"] or 1
    found: dict[str, Any] = {}
    with core_page("relaxed-threads", "threads.js", {"shipped.cact": model}, isolated=True) as (measure, chromium):
        for name, processes in (("quiet", 0), ("busy", cores)):
            say(f"one thread, two and four, {name}")
            with busy(processes):
                before = load_average()
                measured = measure(spec)
            result["kernels"] = measured["kernels"]
            found[name] = {"processes": processes, "load": [before, load_average()], "threads": by_way(measured)}
    result["machine"].update(load_after=load_average(), chromium=chromium)
    return {**result, **found}


def as_table(result: Mapping[str, Any]) -> str:
    rows = [["threads", "decode, ms a token", "mean", "faster by", "mean", "prefill, ms a token", "faster by", "mean"]]
    for name, what in (("quiet", "nothing else"), ("busy", "a busy process a core")):
        rows.append([f"{what}:", *[""] * 7])
        for way, row in result[name]["threads"].items():
            decode, prefill = row["decode"], row["prefill"]
            cells = [decode["median_ms"], decode["mean_ms"], decode["speedup_median"], decode["speedup_mean"]]
            cells += [prefill["median_ms"], prefill["speedup_median"], prefill["speedup_mean"]]
            rows.append([f"  {way}", *map(short, cells)])
    facts = result["machine"]
    return f"{ran_on(facts)}, products by {result['kernels']}\n\n{table(rows)}"


def plot(result: Mapping[str, Any], path: Path) -> None:
    """How much faster each way decodes and prefills, alone and beside a busy process a core."""
    from _plot import bars, figure, save

    made, axes = figure(11, 3.2, 2)
    for one, part in zip(axes, ("decode", "prefill"), strict=True):
        named = {
            f"{way}, {name}": row[part]["speedup_median"]
            for name in ("quiet", "busy")
            for way, row in result[name]["threads"].items()
        }
        bars(one, list(named), list(named.values()), f"{part}: times as fast as one thread, medians")
        one.axvline(1, color="black", linewidth=0.8, linestyle=":")
    save(made, path)


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parser(__doc__, plots=True)
    arguments.add_argument("--seconds", type=float, default=15.0, metavar="N", help="each of the two; default 15")
    args = arguments.parse_args(argv)
    if not args.seconds > 0:
        arguments.error(f"--seconds is {args.seconds}; more than 0 is needed")
    return finish(lambda: run(args.seconds), as_table, args.json, (BenchError, HeadlessError), plot, args.svg)


if __name__ == "__main__":
    sys.exit(main())
