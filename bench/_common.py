"""What the benchmarks share: figures over repetitions, ratios, tables, facts about the machine, where things are.

Nothing here measures anything. Pure functions, except those that ask the system (`machine`, `revision`, `needed`).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


class BenchError(Exception):
    """The benchmark cannot be run: what is missing or went wrong, and what to do."""


# ---------------------------------------------------------------------------------------------------------------------
# Figures
# ---------------------------------------------------------------------------------------------------------------------


def summary(values: Iterable[float | None]) -> dict[str, Any] | None:
    """{"median", "min", "max", "n", "values"} of what was measured; None where nothing was. `values` keeps the order of
    the rounds, with None for one that gave no figure."""
    kept = [None if value is None or not math.isfinite(value) else significant(value) for value in values]
    known = [value for value in kept if value is not None]
    if not known:
        return None
    return {
        "median": significant(statistics.median(known)),
        "min": min(known),
        "max": max(known),
        "n": len(known),
        "values": kept,
    }


def significant(value: float, digits: int = 5) -> float:
    """Rounded to what a measurement can mean, whatever its size."""
    return float(f"{value:.{digits}g}")


def rate(count: float, seconds: float) -> float | None:
    """Things a second; None where no time was measured, as when one noisy time was taken from another."""
    return count / seconds if seconds > 0 else None


def ratio(ours: Mapping[str, Any] | None, theirs: Mapping[str, Any] | None) -> float | None:
    """Median to median, of two summaries; None where one of them is missing or theirs is 0."""
    if not ours or not theirs or not theirs["median"]:
        return None
    return significant(ours["median"] / theirs["median"], 4)


def ratios_by_round(ours: Mapping[str, Any] | None, theirs: Mapping[str, Any] | None) -> list[float | None]:
    """Round by round: what ran next to each other in time, compared with each other."""
    pairs = zip(ours["values"], theirs["values"], strict=True) if ours and theirs else ()
    return [significant(a / b, 4) if a is not None and b else None for a, b in pairs]


# ---------------------------------------------------------------------------------------------------------------------
# Showing
# ---------------------------------------------------------------------------------------------------------------------


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows under one another, the first being the head: the first column to the left, numbers to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for first, *others in rows:
        cells = [first.ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def short(value: float | None) -> str:
    """A figure for a table: three digits or four, never an exponent."""
    if value is None:
        return "-"
    if value == 0:
        return "0"
    places = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{places}f}"


def spread(figure: Mapping[str, Any] | None) -> str:
    """A summary in one cell: median (min-max)."""
    if not figure:
        return "-"
    return f"{short(figure['median'])} ({short(figure['min'])}-{short(figure['max'])})"


def say(text: str) -> None:
    """Progress; answers alone go to stdout."""
    print(f"bench: {text}", file=sys.stderr, flush=True)


def parser(description: str | None, plots: bool = False) -> argparse.ArgumentParser:
    """The arguments every benchmark takes; `plots` for one that can draw its result."""
    made = argparse.ArgumentParser(description=(description or "").split("\n\n")[0])
    made.add_argument("--json", action="store_true", help="one JSON object on stdout instead of a table")
    if plots:
        made.add_argument("--svg", type=Path, metavar="FILE", help="draw the result to this file, too")
    return made


def show(result: Mapping[str, Any], text: str, as_json: bool) -> None:
    print(json.dumps(result, ensure_ascii=False, indent=1) if as_json else text)


# ---------------------------------------------------------------------------------------------------------------------
# The machine and the tree
# ---------------------------------------------------------------------------------------------------------------------


def finish(
    run: Callable[[], Mapping[str, Any]],
    as_table: Callable[[Mapping[str, Any]], str],
    as_json: bool,
    errors: tuple[type[Exception], ...],
    plot: Callable[[Mapping[str, Any], Path], None] | None = None,
    svg: Path | None = None,
) -> int:
    """Runs a measurement, prints it and, where `svg` says so, draws it; 1, with what went wrong on stderr, for one of
    the `errors` it may end in."""
    try:
        result = run()
    except errors as error:
        say(f"error: {error}")
        return 1
    show(result, as_table(result), as_json)
    if plot and svg:
        plot(result, svg)
    return 0


def needed(name: str, what: str) -> Path:
    """The path in an AREOLE_* variable that build.py sets."""
    value = os.environ.get(name)
    if not value:
        raise BenchError(f"{name} is not set, so {what} is not known. Run it as: python build.py bench NAME")
    return Path(value)


def load_average() -> list[float] | None:
    """Over 1, 5 and 15 minutes: how many processes wanted to run. None on systems that do not count them."""
    return [round(value, 2) for value in os.getloadavg()] if hasattr(os, "getloadavg") else None


def machine() -> dict[str, Any]:
    """What the figures depend on and a reader cannot see from them."""
    return {
        "cpu": cpu_model() or platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def cpu_model() -> str | None:
    """As Linux names it, with the instructions that decide which kernels are fast."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return parse_cpuinfo(text)


def parse_cpuinfo(text: str) -> str | None:
    """The model of the first processor in a /proc/cpuinfo and what it has of avx2, avx512f and the dot products."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            fields.setdefault(key.strip(), value.strip())
    name = fields.get("model name")
    if name is None:
        return None
    flags = set(fields.get("flags", "").split())
    told = [flag for flag in ("avx2", "avx512f", "avx_vnni", "avx512_vnni") if flag in flags]
    return f"{name} ({', '.join(told)})" if told else name


def warn_of_load(at_start: Sequence[float] | None) -> None:
    """Figures of a busy machine are figures of the other processes."""
    cores = machine()["cores"] or 1
    if at_start and at_start[0] > cores:
        say(f"the machine is busy (load average {at_start[0]} on {cores} cores): ratios will be off, and rounds slow")


def revision() -> dict[str, Any]:
    """The commit, and whether the tree differs from it; None where this is no checkout."""

    def git(*words: str) -> str | None:
        try:
            done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, timeout=30)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    changes = git("status", "--porcelain")
    return {"commit": git("rev-parse", "HEAD"), "modified": None if changes is None else bool(changes)}


def loads(facts: Mapping[str, Any]) -> str:
    """The machine's load before and after, for a table's heading."""
    return f"load average {facts['load_before']} to {facts['load_after']}"


def ran_on(facts: Mapping[str, Any]) -> str:
    """The machine, how busy it was, and the browser, for a table's heading."""
    return f"{facts['cpu']}, {facts['cores']} cores, {loads(facts)}, Chromium {facts['chromium']}"


def short_commit(result: Mapping[str, Any]) -> str:
    return str(result["commit"] or "unknown")[:12]


def heading(name: str) -> dict[str, Any]:
    """How every result begins."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {"bench": name, "date": now, **revision(), "machine": {**machine(), "load_before": load_average()}}
