"""What the grammar and the gates cost in the tab: their share of a decoded token, and what reading schemas takes.

    python build.py bench grammar [--json]

The page answers its presets under each contract. "first" is the first request after tools were declared, when the
grammar's states are made; "again" the same request once more. The catalogue is 128 tools, declared at once.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from _common import ROOT, BenchError, finish, heading, load_average, needed, parser, short, spread, summary, table

sys.path.insert(0, str(ROOT / "web"))

from headless import Headless, HeadlessError  # noqa: E402

CONTRACTS = ("areole", "needle")
TOOLS = 128
BAR_SHARE = 0.1
BAR_MS = 100.0

DECLARE = "async ([tools, contract, system]) => window.areole.declare(tools, system, { contract })"
COMPLETE = """async (text) => {
  await window.areole.reset();
  const { tokens, timings } = await window.areole.complete(text);
  return { tokens, ...timings };
}"""


def shares(timings: Sequence[Mapping[str, float]]) -> list[float]:
    """The grammar's part of the decode time of each request."""
    return [one["grammar_s"] / one["decode_s"] for one in timings if one["decode_s"] > 0]


def catalogue(presets: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """TOOLS tools, all of them different: those of the presets under new names, without descriptions."""
    known = [tool for preset in presets for tool in preset["tools"]]
    if not known:
        raise BenchError("the presets declare no tools")
    return [
        {"name": f"{known[at % len(known)]['name']}_{at}", "parameters": known[at % len(known)].get("parameters")}
        for at in range(TOOLS)
    ]


def measure(tab: Headless, contract: str, presets: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    first: list[dict[str, float]] = []
    again: list[dict[str, float]] = []
    for preset in presets:
        tab.evaluate(DECLARE, [json.dumps(preset["tools"]), contract, preset["system"]])
        for into in (first, again):
            into.append(tab.evaluate(COMPLETE, preset["text"]))
    declared = tab.evaluate(DECLARE, [json.dumps(catalogue(presets)), contract, ""])
    return {
        "first_share": summary(shares(first)),
        "again_share": summary(shares(again)),
        "gates_ms": summary([one["gates_s"] * 1e3 for one in again]),
        "catalogue_ms": declared["grammar_seconds"] * 1e3,
    }


def run() -> dict[str, Any]:
    result = heading("grammar")
    presets = json.loads((ROOT / "web" / "presets.json").read_text(encoding="utf-8"))
    with Headless(needed("AREOLE_SITE", "the site")) as tab:
        measured = {contract: measure(tab, contract, presets) for contract in CONTRACTS}
    result["machine"]["load_after"] = load_average()
    worst = max(statistics.median(row["first_share"]["values"]) for row in measured.values())
    slowest = max(row["catalogue_ms"] for row in measured.values())
    return {
        **result,
        "bars": {"share": BAR_SHARE, "catalogue_ms": BAR_MS},
        "within_bars": worst <= BAR_SHARE and slowest <= BAR_MS,
        "contracts": measured,
    }


def as_table(result: dict[str, Any]) -> str:
    rows = [["contract", "grammar, share of a token: first", "again", "gates, ms", f"{TOOLS} tools, ms"]]
    rows += [
        [
            name,
            spread(row["first_share"]),
            spread(row["again_share"]),
            spread(row["gates_ms"]),
            short(row["catalogue_ms"]),
        ]
        for name, row in result["contracts"].items()
    ]
    bars = result["bars"]
    verdict = "within" if result["within_bars"] else "over"
    return (
        f"grammar and gates in the tab: median (min-max) over the presets\n\n{table(rows)}\n\n"
        f"{verdict} the bars of {short(bars['share'])} and {short(bars['catalogue_ms'])} ms"
    )


def main(argv: Sequence[str] | None = None) -> int:
    args = parser(__doc__).parse_args(argv)
    return finish(run, as_table, args.json, (BenchError, HeadlessError, OSError))


if __name__ == "__main__":
    sys.exit(main())
