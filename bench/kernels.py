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
from typing import TYPE_CHECKING, Any

from _common import (
    ROOT,
    BenchError,
    finish,
    heading,
    load_average,
    loads,
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

if TYPE_CHECKING:
    from areole.archive import Archive

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


def product_name(bits: int, tokens: int, way: str) -> str:
    return f"{bits}-bit {VOCAB}x{WIDTH}, {tokens} token{'s' if tokens > 1 else ''}, {way}"


def token_name(tokens: int, way: str) -> str:
    return f"{SHIPPED}: a token {'decoded' if tokens == 1 else f'of {tokens} prefilled'}, {way}"


def work_of(archive: Archive) -> dict[str, float]:
    """How often a token takes each kernel: those of kernels.js by name, products by bits, in units of the head's size.
    Attention is over 256 positions."""
    g, macs = archive.geometry, dict.fromkeys(BITS, 0)
    for tensor in archive.tensors:
        fed = tensor.name.endswith("_proj") or tensor.name.startswith("mhc.phi_")
        if fed and tensor.bits and not tensor.name.startswith("heads."):
            macs[4 if tensor.bits in (3, 4) else 2] += tensor.shape[0] * tensor.shape[1]  # as the core lays it out
    rows = -(-g.d_model // g.kron_b)  # of the first and the last matrix of a Monarch MLP, the rest being zeros
    kron = 2 * g.kron_a * g.hada_n + (g.kron_b * rows + g.kron_a * rows) * g.kron_b * 2
    rotated = g.layers * (g.lanes * g.d_model + g.d_model + g.heads * g.v_dim) + len(g.engram_sites) * g.d_model
    return {
        **{f"{bits}-bit": count / (VOCAB * WIDTH) for bits, count in macs.items()},
        "rotate 768": rotated / 768,
        "kron 32x32": g.layers * kron / (2 * 32**3),
        "sinkhorn 4x4": g.layers,
        "lanes 4x768": g.layers,
        "norm 768": g.layers * 4,
        "attention, 6 heads, 256 positions": g.layers * g.kv_heads,
    }


def add_shares(figures: dict[str, Any], work: Mapping[str, float]) -> None:
    """To each kernel whose count is known, its share of a token decoded and of one prefilled, by the fastest slices. A
    product counts to the token of its own way; the decoded one has the head as well."""
    for way in WAYS:
        decoded, prefilled = figures[token_name(1, way)]["best_us"], figures[token_name(MANY, way)]["best_us"]
        for bits in BITS:
            one, many = figures[product_name(bits, 1, way)], figures[product_name(bits, MANY, way)]
            count = work[f"{bits}-bit"]
            one["share_decoded"] = significant((count + (bits == 4)) * one["best_us"] / decoded, 3)
            many["share_prefilled"] = significant(count * many["best_us"] / MANY / prefilled, 3)
    fastest = {n: min(figures[token_name(n, way)]["best_us"] for way in WAYS) for n in (1, MANY)}
    for name, count in work.items():
        if name in figures:
            row = figures[name]
            row["share_decoded"] = significant(count * row["best_us"] / fastest[1], 3)
            row["share_prefilled"] = significant(count * row["best_us"] / fastest[MANY], 3)


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
                row = difference(more, less, macs=VOCAB * WIDTH * tokens)
                nbytes = VOCAB * WIDTH * (bits / 8 + 2 / GROUP)  # codes and norms, read once
                speed = rate(nbytes / 1e6, min(more) - min(less))
                row["best_gbs"] = None if speed is None else significant(speed, 3)
                found[product_name(bits, tokens, way)] = row
        for way in WAYS:
            name = race_name(bits, way)
            found[name] = timed(cases[name], macs=WIDTH * WIDTH * DOZEN)
    known = {feed.name for feed in feeds()} | set(found)
    for name, values in cases.items():
        if name not in known:
            found[name] = timed(values, macs=2 * 32**3 if name == "kron 32x32" else 0)
    for way in WAYS:
        for tokens in (1, MANY):
            found[token_name(tokens, way)] = timed(cases[token_feed(tokens, way).name], calls=tokens)
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
    figures = kernel_figures(cases)
    add_shares(figures, work_of(parse(model.read_bytes(), model.name)))
    return {
        **result,
        "core": flavor,
        "clock_ms": significant(measured["tickMs"]),
        "slice_ms": significant(measured["sliceMs"]),
        "slices": slices,
        "kernels": figures,
        "calls_us": {case: [significant(value * 1e3, 4) for value in values] for case, values in cases.items()},
    }


def as_table(result: Mapping[str, Any]) -> str:
    heads = ["kernel", "best, us", "median, us", "best, GMAC/s", "median, GMAC/s", "best, GB/s"]
    rows = [[*heads, "of a token decoded", "prefilled", ""]]
    for name, row in result["kernels"].items():
        figures = [short(row[key]) for key in ("best_us", "median_us")]
        figures += [short(row[key]) if key in row else "" for key in ("best_gmacs", "median_gmacs", "best_gbs")]
        figures += [f"{row[key]:.0%}" if row.get(key) else "" for key in ("share_decoded", "share_prefilled")]
        rows.append([name, *figures, "by difference" if row["how"] == "difference" else ""])
    facts = result["machine"]
    return (
        f"kernels of the {result['core']} core: {result['slices']} slices of {short(result['slice_ms'])} ms\n"
        f"{facts['cpu']}, {loads(facts)}, Chromium {facts['chromium']}\n"
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
