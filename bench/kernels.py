"""The core's kernels one by one in headless Chromium, and whole tokens without Python: time and GMAC/s.

    python build.py bench kernels [--core relaxed|simd128] [--slices N] [--json]

A page of the benchmark's own, in a copy of the site that holds nothing else, times slices of a few milliseconds. The
fastest slice is what the code can do; the median also says what else the machine did. bench/README.md says more.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _common import (
    ROOT,
    BenchError,
    finish,
    heading,
    load_average,
    needed,
    parser,
    rate,
    say,
    short,
    significant,
    table,
    warn_of_load,
)
from _page import core_page, describe, shipped_spec

from headless import HeadlessError

sys.path.append(str(ROOT / "tests"))  # for archive_writer

WIDTH, GROUP, VOCAB = 768, 128, 8192
TILE, DOZEN, MANY = 6, 12, 24
BITS = (2, 4)
WAYS = ("dots", "pairs")
LOGITS = {1: 2, TILE: 4, MANY: 4}  # flag of areole_prefill that sends all of so many tokens through the head
REPEATS = {1: 8, TILE: 3, MANY: 1}  # calls that make a slice of a few milliseconds
SHIPPED = "shipped"


@dataclass(frozen=True)
class Feed:
    """Tokens through a whole model. `logits`: through its head too."""

    model: str
    way: str
    tokens: int
    logits: bool
    repeats: int

    @property
    def name(self) -> str:
        head = "with" if self.logits else "without"
        return f"{self.model}: {self.tokens} tokens, {head} the head, {self.way}"

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name, "model": self.model, "pairs": WAYS.index(self.way), "tokens": self.tokens,
            "flags": LOGITS[self.tokens] if self.logits else 0, "repeats": self.repeats,
        }  # fmt: skip


def made_name(bits: int) -> str:
    return f"made-{bits}"


def head_feeds(bits: int, tokens: int, way: str) -> tuple[Feed, Feed]:
    """With and without the head, and nothing else between them."""
    made = made_name(bits)
    return Feed(made, way, tokens, True, REPEATS[tokens]), Feed(made, way, tokens, False, REPEATS[tokens])


def token_feed(tokens: int, way: str) -> Feed:
    """The shipped model: one token decoded, or many prefilled."""
    return Feed(SHIPPED, way, tokens, tokens == 1, 2 if tokens == 1 else 1)


def feeds() -> list[Feed]:
    heads = [feed for bits in BITS for tokens in LOGITS for way in WAYS for feed in head_feeds(bits, tokens, way)]
    return heads + [token_feed(tokens, way) for tokens in (1, MANY) for way in WAYS]


def race_name(bits: int, way: str) -> str:
    return f"{bits}-bit {WIDTH}x{WIDTH}, {DOZEN} tokens, {way}"


def races() -> list[dict[str, Any]]:
    """A dozen tokens through one matrix, over and over."""
    return [
        {"name": race_name(bits, way), "model": made_name(bits), "pairs": pairs}
        for bits in BITS
        for pairs, way in enumerate(WAYS)
    ]


# ---------------------------------------------------------------------------------------------------------------------
# From times to figures
# ---------------------------------------------------------------------------------------------------------------------


def entry(best: float, median: float, *, macs: int = 0, how: str = "timed") -> dict[str, Any]:
    """A kernel's figures from milliseconds; GMAC/s where it multiplies, None where noise left no time."""
    best_us, median_us = significant(best * 1e3, 4), significant(median * 1e3, 4)
    made: dict[str, Any] = {"best_us": best_us, "median_us": median_us, "how": how}
    if macs:
        for key, milliseconds in (("best_gmacs", best), ("median_gmacs", median)):
            found = rate(macs / 1e6, milliseconds)
            made[key] = None if found is None else significant(found, 4)
    return made


def timed(values: Sequence[float], *, macs: int = 0, calls: int = 1) -> dict[str, Any]:
    """From slices; `calls` things are done in one call."""
    return entry(min(values) / calls, statistics.median(values) / calls, macs=macs)


def difference(more: Sequence[float], less: Sequence[float], *, macs: int) -> dict[str, Any]:
    """What one does beyond the other: fastest slice less fastest slice, and the median of the differences within a
    round, whose slices were measured next to each other."""
    each = [a - b for a, b in zip(more, less, strict=True)]
    return entry(min(more) - min(less), statistics.median(each), macs=macs, how="difference")


def kernel_figures(cases: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """{kernel: figures} from milliseconds of a call, slice by slice."""
    found: dict[str, Any] = {}
    for bits in BITS:
        for tokens in LOGITS:
            for way in WAYS:
                more, less = (cases[feed.name] for feed in head_feeds(bits, tokens, way))
                name = f"{bits}-bit {VOCAB}x{WIDTH}, {tokens} token{'s' if tokens > 1 else ''}, {way}"
                found[name] = difference(more, less, macs=VOCAB * WIDTH * tokens)
        for way in WAYS:
            name = race_name(bits, way)
            found[name] = timed(cases[name], macs=WIDTH * WIDTH * DOZEN)
    known = {feed.name for feed in feeds()} | set(found)
    for name, values in cases.items():
        if name not in known:
            found[name] = timed(values, macs=2 * 32**3 if name == "kron 32x32" else 0)
    for way in WAYS:
        found[f"{SHIPPED}: a token decoded, {way}"] = timed(cases[token_feed(1, way).name])
        found[f"{SHIPPED}: a token of {MANY} prefilled, {way}"] = timed(cases[token_feed(MANY, way).name], calls=MANY)
    return found


# ---------------------------------------------------------------------------------------------------------------------
# The run
# ---------------------------------------------------------------------------------------------------------------------


def made_archive(bits: int) -> bytes:
    """One small layer under a head of the shipped one's size, in the given width, so that the head is most of a token.
    Its first projection is WIDTHxWIDTH of the same width, for the race."""
    from archive_writer import write

    return write(
        vocab=VOCAB, d_model=WIDTH, qk_dim=WIDTH // 4, v_dim=64, layers=1, hada_n=1024, global_mask=1, sites=(),
        engram_sub_dim=WIDTH // 6, engram_tables=6, max_seq=512, kv_window=256, sliding_window=256, group=GROUP,
        bits=lambda name: bits if name in ("embedding", "layers.0.q_proj") else 2,
    )  # fmt: skip


def run(flavor: str, slices: int) -> dict[str, Any]:
    from areole.archive import parse

    model = needed("AREOLE_MODEL", "the model")
    result = heading("kernels")
    warn_of_load(result["machine"]["load_before"])
    archives: dict[str, Path | bytes] = {"shipped.cact": model}
    models = {SHIPPED: shipped_spec(model, "shipped.cact", MANY)}
    for bits in BITS:
        data, file = made_archive(bits), f"{made_name(bits)}.cact"
        archives[file] = data
        models[made_name(bits)] = describe(parse(data, file), file, (), range(1, MANY + 1))
    say(f"timing the kernels of the {flavor} core in Chromium")
    feeding = [feed.to_json() for feed in feeds()]
    with core_page(flavor, "kernels.js", archives) as (measure, chromium):
        measured = measure({"models": models, "races": races(), "feeds": feeding, "slices": slices})
    result["machine"].update(load_after=load_average(), chromium=chromium)
    cases = {case["name"]: case["ms"] for case in measured["cases"]}
    return {
        **result,
        "core": flavor,
        "clock_ms": significant(measured["tickMs"]),
        "slice_ms": significant(measured["sliceMs"]),
        "slices": slices,
        "kernels": kernel_figures(cases),
        "calls_us": {case: [significant(value * 1e3, 4) for value in values] for case, values in cases.items()},
    }


def as_table(result: Mapping[str, Any]) -> str:
    rows = [["kernel", "best, us", "median, us", "best, GMAC/s", "median, GMAC/s", ""]]
    for name, row in result["kernels"].items():
        figures = [short(row[key]) for key in ("best_us", "median_us")]
        figures += [short(row[key]) if key in row else "" for key in ("best_gmacs", "median_gmacs")]
        rows.append([name, *figures, "by difference" if row["how"] == "difference" else ""])
    facts = result["machine"]
    return (
        f"kernels of the {result['core']} core: {result['slices']} slices of {short(result['slice_ms'])} ms\n"
        f"{facts['cpu']}, load average {facts['load_before']} to {facts['load_after']}, Chromium {facts['chromium']}\n"
        f"\n{table(rows)}"
    )


def plot(result: Mapping[str, Any], path: Path) -> None:
    """GMAC/s of the products: all but whole tokens and what does not multiply."""
    from _plot import bars, figure, save

    shown = {name: row["best_gmacs"] for name, row in result["kernels"].items() if row.get("best_gmacs")}
    made, (axes,) = figure(7.5, 0.6 + 0.23 * len(shown))
    bars(axes, list(shown), list(shown.values()), "GMAC/s, fastest slice")
    save(made, path)


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parser(__doc__, plots=True)
    arguments.add_argument("--core", choices=("relaxed", "simd128"), default="relaxed", help="default relaxed")
    arguments.add_argument("--slices", type=int, default=40, metavar="N", help="of each kernel; default 40")
    args = arguments.parse_args(argv)
    if args.slices < 1:
        arguments.error(f"--slices is {args.slices}; at least 1 is needed")
    return finish(lambda: run(args.core, args.slices), as_table, args.json, (BenchError, HeadlessError), plot, args.svg)


if __name__ == "__main__":
    sys.exit(main())
