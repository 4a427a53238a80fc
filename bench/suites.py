"""The suites' requests with everything on, against the official engine natively: seconds in all, and answers.

    python build.py bench suites [--cases N] [--contract areole] [--json] [--svg FILE]

A suite's tools are declared once, then each of its requests begins a conversation of its own, asked of both engines in
turn; who goes first changes from case to case. areole runs in headless Chromium, one thread, with prefixes kept, forced
tokens in batches and drafts, as a page has them. bench/README.md says more. Exit code 0 whatever the figures are.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
from collections.abc import Mapping, Sequence
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
    ran_on,
    say,
    short,
    short_commit,
    significant,
    table,
    warn_of_load,
)
from _peers import Peer
from ladder import right, spread_over

from headless import Headless, HeadlessError

BAR = 0.6
MAX_NEW_TOKENS = 512
# Going back to the prefix is in neither engine's time.
ASK = """async ([text, maxNewTokens]) => {
  await window.areole.reset();
  const start = performance.now();
  const { tokens, json } = await window.areole.complete(text, { maxNewTokens });
  return { seconds: (performance.now() - start) / 1000, tokens, json };
}"""


def summed(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Seconds and right answers of both over some cases, and areole's share of the official engine's time."""
    ours, theirs = (sum(row[name]["seconds"] for row in rows) for name in ("areole", "official"))
    each = [row["areole"]["seconds"] / row["official"]["seconds"] for row in rows]
    return {
        "cases": len(rows),
        "areole_s": significant(ours),
        "official_s": significant(theirs),
        "ratio": significant(ours / theirs, 4),
        "median_of_ratios": significant(statistics.median(each), 4),
        "areole_tokens": sum(row["areole"]["tokens"] for row in rows),
        "official_tokens": sum(row["official"]["tokens"] for row in rows),
        "areole_right": sum(row["areole"]["right"] for row in rows),
        "official_right": sum(row["official"]["right"] for row in rows),
    }


def play(tab: Headless, official: Peer, suite: Mapping[str, Any], contract: str) -> list[dict[str, Any]]:
    """A suite's cases; one engine at work at a time."""
    tools = json.dumps(suite["tools"], ensure_ascii=False)
    tab.call("declare", tools, suite["system"], {"contract": contract})
    official.do("declare", tools=tools, system=suite["system"])

    def ours(text: str) -> dict[str, Any]:
        answer = tab.evaluate(ASK, [text, MAX_NEW_TOKENS])
        return {**answer, "response": json.loads(answer.pop("json"))}

    def theirs(text: str) -> dict[str, Any]:
        return official.do("ask", text=text, max_new_tokens=MAX_NEW_TOKENS)

    rows = []
    for place, case in enumerate(suite["cases"]):
        asked = [("areole", ours), ("official", theirs)]
        told = {name: ask(case["text"]) for name, ask in (asked if place % 2 == 0 else asked[::-1])}
        rows.append({"suite": suite["id"], "text": case["text"]})
        for name, answer in told.items():
            response = answer.get("response") or answer["envelope"]
            known = {"seconds": answer["seconds"], "tokens": answer["tokens"]}
            rows[-1][name] = {**known, "right": right(case, response)}
    return rows


def run(count: int, contract: str) -> dict[str, Any]:
    site, folder = needed("AREOLE_SITE", "the site"), os.environ.get("AREOLE_OFFICIAL")
    if not folder:
        raise BenchError("there is no official engine for this system to compare with")
    result = heading("suites")
    warn_of_load(result["machine"]["load_before"])
    suites = spread_over(json.loads((ROOT / "tests" / "data" / "suites.json").read_text(encoding="utf-8")), count)
    rows: list[dict[str, Any]] = []
    with Peer("official", Path(folder)) as official, Headless(site) as tab:
        say("a request that does not count")
        play(tab, official, {**suites[0], "cases": suites[0]["cases"][:1]}, contract)
        for suite in suites:
            say(f"{suite['id']}: {len(suite['cases'])} requests")
            rows += play(tab, official, suite, contract)
        info = tab.info
        result["machine"]["chromium"] = tab.context.browser.version if tab.context.browser else None
    result["machine"]["load_after"] = load_average()
    return {
        **result,
        "contract": contract,
        "core": info["core"],
        "kernels": info.get("kernels"),
        "bar": BAR,
        "total": summed(rows),
        "suites": {suite["id"]: summed([row for row in rows if row["suite"] == suite["id"]]) for suite in suites},
        "cases": rows,
    }


def as_table(result: Mapping[str, Any]) -> str:
    head = ["suite", "requests", "areole, s", "official, s", "ratio", "median of ratios", "tokens", "right"]
    rows = [head]
    for name, one in [*result["suites"].items(), ("all", result["total"])]:
        pairs = (f"{one['areole_' + key]}/{one['official_' + key]}" for key in ("tokens", "right"))
        numbers = [short(one[key]) for key in ("areole_s", "official_s", "ratio", "median_of_ratios")]
        rows.append([name, str(one["cases"]), *numbers, *pairs])
    facts = result["machine"]
    return (
        f"suites: contract {result['contract']}, core {result['core']}, kernels {result['kernels']}; bar {BAR}\n"
        f"{ran_on(facts)}, commit {short_commit(result)}\n\n{table(rows)}"
    )


def plot(result: Mapping[str, Any], path: Path) -> None:
    """areole's share of the official engine's time, suite by suite."""
    from _plot import bars, figure, save

    named = {**result["suites"], "all": result["total"]}
    made, (axes,) = figure(7, 0.8 + 0.3 * len(named))
    bars(
        axes, list(named), [one["ratio"] for one in named.values()], "seconds of areole to those of the official engine"
    )
    axes.axvline(BAR, color="black", linewidth=0.8, linestyle=":")
    save(made, path)


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parser(__doc__, plots=True)
    arguments.add_argument("--cases", type=int, default=0, metavar="N", help="so many requests in all; 0, all: default")
    arguments.add_argument("--contract", choices=("areole", "needle", "raw"), default="areole", help="default areole")
    args = arguments.parse_args(argv)
    if args.cases < 0:
        arguments.error(f"--cases is {args.cases}; 0 or more is needed")
    errors = (BenchError, HeadlessError)
    return finish(lambda: run(args.cases, args.contract), as_table, args.json, errors, plot, args.svg)


if __name__ == "__main__":
    sys.exit(main())
