"""From opening the page to a first answer, in headless Chromium: cold, with everything cached, with tools read before.

    python build.py bench startup [--rounds N] [--json] [--svg FILE]

A round opens a browser that has nothing, and asks ten requests there; then a browser that has been at the page before,
once without and once with the state after the tools that it keeps. Times are the page's own, from the start of its
navigation. bench/README.md says what each figure is. Exit code 0 whatever the figures are.
"""

from __future__ import annotations

import json
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
    ratio,
    say,
    short_commit,
    significant,
    spread,
    summary,
    table,
    warn_of_load,
)
from _page import home_preset
from _peers import Peer

REQUEST = "turn on the kitchen lights"
ROOMS = ("bedroom", "kitchen", "hallway", "office", "bathroom")
TEN = tuple(f"dim the {ROOMS[place % len(ROOMS)]} lights to {20 + 5 * place} percent" for place in range(10))
VISITS = 2  # of the browser that has been at the page before: they fill its caches

# name -> what it is, in seconds but for the ratios; `bar` where there is one.
FIGURES: dict[str, str] = {
    "cold_ready": "nothing cached, a server on the same machine: until the page takes requests",
    "cold_answer": "the same until the first answer on the home preset",
    "cached_ready": "everything cached: until the page takes requests",
    "cached_answer": "everything cached, tools not read before: until the first answer on the home preset",
    "kept_answer": "everything cached, tools read at an earlier visit: until the first answer",
    "kept_after_ready": "the same, from when the page takes requests",
    "declare": "declaring the tools, reading them",
    "kept_declare": "declaring the tools, read at an earlier visit",
    "first_request": "the first of ten requests after a cold load, its tools declared",
    "tenth_request": "the tenth of them",
    "first_to_tenth": "how many times as long the first takes",
    "first_to_tenth_by_token": "the same by the tokens of the two, which differ in number",
}
BARS = {"cached_answer": 2.5, "kept_after_ready": 0.3, "first_to_tenth": 1.5}
PARTS: dict[str, str] = {
    "core": "the core's module is there",
    "weights_read": "the weights are in its memory",
    "weights": "their SHA-256 is checked",
    "snapshot": "Python's memory is unpacked",
    "pyodide": "Pyodide has started from it",
    "python": "the package is imported",
    "parts": "weights and Python are both there",
    "total": "the model is built and its kernels chosen",
}


def figures_of(cold: Mapping[str, Any], fresh: Mapping[str, Any], kept: Mapping[str, Any]) -> dict[str, float]:
    """The figures of one round: three visits as the page told them."""
    first, tenth = cold["requests"][0], cold["requests"][-1]
    return {
        "cold_ready": cold["ready"],
        "cold_answer": cold["answered"],
        "cached_ready": fresh["ready"],
        "cached_answer": fresh["answered"],
        "kept_answer": kept["answered"],
        "kept_after_ready": kept["answered"] - kept["ready"],
        "declare": fresh["declared"] - fresh["ready"],
        "kept_declare": kept["declared"] - kept["ready"],
        "first_request": first["seconds"],
        "tenth_request": tenth["seconds"],
        "first_to_tenth": first["seconds"] / tenth["seconds"],
        "first_to_tenth_by_token": first["seconds"] * tenth["tokens"] / (tenth["seconds"] * first["tokens"]),
    }


def need_what_was_meant(fresh: Mapping[str, Any], kept: Mapping[str, Any]) -> None:
    """A visit that found other things kept than it should is another measurement."""
    if fresh["prefix_cached"] or not kept["prefix_cached"]:
        raise BenchError("the tools were kept where they should not be, or not where they should")
    if not (fresh["snapshot"] and kept["snapshot"]):
        raise BenchError("Python did not start from its memory")


def run(rounds: int) -> dict[str, Any]:
    site = needed("AREOLE_SITE", "the site")
    result = heading("startup")
    warn_of_load(result["machine"]["load_before"])
    home = home_preset()
    told = {"tools": json.dumps(home["tools"], ensure_ascii=False), "system": home["system"], "text": REQUEST}
    rows: list[dict[str, float]] = []
    visits: dict[str, list[dict[str, Any]]] = {"cold": [], "cached": [], "kept": []}
    with Peer("page", site) as page:
        for _ in range(VISITS):
            page.do("visit", **told, rest=20.0)
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            with Peer("page", site) as other:
                cold = other.do("visit", **{**told, "text": TEN[0]}, more=TEN[1:])
            page.do("forget_tools")
            fresh = page.do("visit", **told, rest=2.0)
            kept = page.do("visit", **told)
            need_what_was_meant(fresh, kept)
            rows.append(figures_of(cold, fresh, kept))
            for name, visit in (("cold", cold), ("cached", fresh), ("kept", kept)):
                visits[name].append(visit)
    result["machine"].update(load_after=load_average())
    figures = {name: summary([row[name] for row in rows]) for name in FIGURES}
    parts = {
        name: {part: summary([one["parts"].get(part) for one in of]) for part in PARTS} for name, of in visits.items()
    }
    return {
        **result,
        "rounds": rounds,
        "workload": {"preset": home["id"], "request": REQUEST, "requests": TEN},
        "figures": figures,
        "ratios": {"first_to_tenth": ratio(figures["first_request"], figures["tenth_request"])},
        "bars": BARS,
        "parts": parts,
        "warm_s": summary([one["warm"] for one in visits["cold"]]),
        "meaning": {**FIGURES, **PARTS},
    }


def as_table(result: Mapping[str, Any]) -> str:
    rows = [["median (min-max), s", "", "bar"]]
    for name in FIGURES:
        rows.append([name, spread(result["figures"][name]), str(BARS.get(name, ""))])
    shown = list(result["parts"])
    parts = [["seconds after which", *shown]]
    parts += [[text, *(spread(result["parts"][name][part]) for name in shown)] for part, text in PARTS.items()]
    facts = result["machine"]
    return "\n".join(
        [
            f"startup: {result['rounds']} rounds; {facts['cpu']}, {loads(facts)}, commit {short_commit(result)}",
            "",
            table(rows),
            "",
            table(parts),
        ]
    )


def plot(result: Mapping[str, Any], path: Path) -> None:
    """What is there when, with everything cached; and the figures that have bars."""
    from _plot import bars, figure, save

    made, (left, right) = figure(11, 3.2, 2)
    parts = {text: result["parts"]["cached"][part] for part, text in PARTS.items()}
    known = {text: one["median"] for text, one in parts.items() if one}
    bars(left, list(known), list(known.values()), "seconds after the worker began, everything cached")
    shown = [name for name in FIGURES if not name.startswith("first_to")]
    values = [significant(result["figures"][name]["median"], 3) for name in shown]
    bars(right, [name.replace("_", " ") for name in shown], values, "seconds")
    save(made, path)


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parser(__doc__, plots=True)
    arguments.add_argument("--rounds", type=int, default=5, metavar="N", help="default 5")
    args = arguments.parse_args(argv)
    if args.rounds < 1:
        arguments.error(f"--rounds is {args.rounds}; at least 1 is needed")
    return finish(lambda: run(args.rounds), as_table, args.json, (BenchError,), plot, args.svg)


if __name__ == "__main__":
    sys.exit(main())
