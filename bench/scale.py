"""What a token costs as context, tools and depth grow: whole tokens of the shipped model in headless Chromium.

    python build.py bench scale [--core relaxed|simd128] [--json] [--svg FILE]

No Python takes part in the times. bench/README.md says more.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from _common import (
    BenchError,
    finish,
    heading,
    load_average,
    loads,
    needed,
    parser,
    say,
    short,
    significant,
    table,
    warn_of_load,
)
from _page import core_page, home_preset, prefix_tokens, shipped_spec

from headless import HeadlessError

CONTEXTS = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
TOOLS = (1, 2, 4, 8, 16, 32, 64, 128)
DEPTHS = (2, 4, 6, 8, 10, 12, 14, 16, 18, 20)
DECODED = 12
TURN_TOKENS = 24


def many_tools(count: int) -> list[dict[str, Any]]:
    """The home preset's tools over and over under other names."""
    tools = home_preset()["tools"]
    turns = ((tools[i % len(tools)], i // len(tools)) for i in range(count))
    return [{**tool, "name": f"{tool['name']}_{turn}" if turn else tool["name"]} for tool, turn in turns]


def point(measured: Mapping[str, Any]) -> dict[str, Any]:
    """Milliseconds a token: of those that were fed since the last point, and of each that was decoded."""
    each, fed = measured["decodeMs"], measured["prefilled"]
    return {
        "prefilled": fed,
        "prefill_ms": significant(measured["prefillMs"], 4),
        "prefill_ms_a_token": significant(measured["prefillMs"] / fed, 4) if fed else None,
        "decode_best_ms": significant(min(each), 4),
        "decode_median_ms": significant(statistics.median(each), 4),
    }


def line(x: Sequence[float], y: Sequence[float]) -> dict[str, float]:
    """The straight line through the points by least squares of what is relative, and the largest miss, relative."""
    weights = [1 / value**2 for value in y]
    total = sum(weights)
    mean_x = sum(w * a for w, a in zip(weights, x, strict=True)) / total
    mean_y = sum(w * b for w, b in zip(weights, y, strict=True)) / total
    square = sum(w * (a - mean_x) ** 2 for w, a in zip(weights, x, strict=True))
    slope = sum(w * (a - mean_x) * (b - mean_y) for w, a, b in zip(weights, x, y, strict=True)) / square
    start = mean_y - slope * mean_x
    miss = max(abs((start + slope * a) / b - 1) for a, b in zip(x, y, strict=True))
    return {"start": significant(start, 4), "slope": significant(slope, 4), "largest_miss": significant(miss, 3)}


def run(flavor: str) -> dict[str, Any]:
    from areole.archive import BufferReader, parse
    from areole.ladder import selection
    from areole.tokenizer import Tokenizer

    model = needed("AREOLE_MODEL", "the model")
    archive = parse(BufferReader(model.read_bytes()), model.name)
    tokenizer, layers = Tokenizer.from_blob(archive.tokenizer_blob), archive.geometry.layers
    result = heading("scale")
    warn_of_load(result["machine"]["load_before"])
    prefixes = {count: prefix_tokens(tokenizer, many_tools(count), "") for count in TOOLS}
    fitting = {count: ids for count, ids in prefixes.items() if len(ids) + DECODED <= archive.geometry.max_seq}
    spec = {
        "model": shipped_spec(model, "shipped.cact", TURN_TOKENS),
        "contexts": list(CONTEXTS),
        "tools": [{"count": count, "tokens": ids} for count, ids in fitting.items()],
        "depths": [{"depth": depth, "layers": list(selection(layers, depth))} for depth in DEPTHS],
        "decoded": DECODED,
    }
    say(f"timing the {flavor} core in Chromium as context, tools and depth grow")
    with core_page(flavor, "scale.js", {"shipped.cact": model}) as (measure, chromium):
        measured = measure(spec)
    result["machine"].update(load_after=load_average(), chromium=chromium)
    contexts = [{"context": at, **point(one)} for at, one in zip(CONTEXTS, measured["contexts"], strict=True)]
    depths = [{"depth": depth, **point(one)} for depth, one in zip(DEPTHS, measured["depths"], strict=True)]
    tools = [
        {"tools": count, "tokens": len(ids), **point(one)}
        for (count, ids), one in zip(fitting.items(), measured["tools"], strict=True)
    ]
    window = archive.geometry.sliding_window
    return {
        **result,
        "core": flavor,
        "kernels": measured["kernels"],
        "contexts": contexts,
        "tools": tools,
        "too_many_tools": {str(count): len(ids) for count, ids in prefixes.items() if count not in fitting},
        "depths": depths,
        "sliding_window": window,
        "lines": {
            "decode_ms_by_context": line(*columns(contexts, "context", most=window)),
            "decode_ms_by_context_beyond_the_window": line(*columns(contexts, "context", least=window)),
            "decode_ms_by_depth": line(*columns(depths, "depth")),
        },
    }


def columns(
    rows: Sequence[Mapping[str, Any]], key: str, least: float = 0, most: float = float("inf")
) -> tuple[list[float], list[float]]:
    kept = [row for row in rows if least <= row[key] <= most]
    return [row[key] for row in kept], [row["decode_best_ms"] for row in kept]


def as_table(result: Mapping[str, Any]) -> str:
    facts, parts = result["machine"], []
    for name, key, more in (("contexts", "context", ()), ("tools", "tools", ("tokens",)), ("depths", "depth", ())):
        head = [key, *more, "prefill, ms a token", "decode, best ms", "decode, median ms"]
        rows = [
            [str(row[column]) for column in (key, *more)]
            + [short(row[c]) for c in ("prefill_ms_a_token", "decode_best_ms", "decode_median_ms")]
            for row in result[name]
        ]
        parts.append(table([head, *rows]))
    for name, found in result["lines"].items():
        parts.append(
            f"{name}: {found['start']} + {found['slope']} x, off by {100 * found['largest_miss']:.0f} % at most"
        )
    for count, tokens in result["too_many_tools"].items():
        parts.append(f"{count} tools are {tokens} tokens, more than a session holds")
    head = [
        f"scale of the {result['core']} core, by {result['kernels']}",
        f"{facts['cpu']}, {loads(facts)}, Chromium {facts['chromium']}",
    ]
    return "\n\n".join(["\n".join(head), *parts])


def plot(result: Mapping[str, Any], path: Path) -> None:
    from _plot import figure, save

    made, (context, tools, depth) = figure(10, 3.2, 3)
    for axes, rows, key, label in (
        (context, result["contexts"], "context", "tokens of context"),
        (tools, result["tools"], "tools", "tools declared"),
        (depth, result["depths"], "depth", "blocks"),
    ):
        x = [row[key] for row in rows]
        axes.plot(x, [row["decode_best_ms"] for row in rows], marker="o", label="decoded")
        axes.plot(x, [row["prefill_ms_a_token"] for row in rows], marker="s", label="prefilled, mean since last point")
        axes.set_xlabel(label)
        axes.set_ylim(bottom=0)
    context.set_ylabel("ms a token")
    context.legend(frameon=False)
    save(made, path)


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parser(__doc__, plots=True)
    arguments.add_argument("--core", choices=("relaxed", "simd128"), default="relaxed", help="default relaxed")
    args = arguments.parse_args(argv)
    return finish(lambda: run(args.core), as_table, args.json, (BenchError, HeadlessError), plot, args.svg)


if __name__ == "__main__":
    sys.exit(main())
