"""What each depth of the ladder costs and is worth: bytes of its archive, speed, and answers on the suites.

    python build.py bench ladder [--depths 4,8,20] [--cases N] [--json] [--svg FILE]

Runs natively under CPython, one thread. Accuracy is by the suites' own rule: the calls that were wanted, in any order
and regardless of case, and none where a gate spoke; `official` is that of the recorded engine at full depth. Tokens a
second are of prefill and of decode, medians of the cases. What is known so far goes to stderr after each suite.
"""

from __future__ import annotations

import json
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
    rate,
    say,
    short,
    spread,
    summary,
    table,
)

from areole.agent import Needle
from areole.archive import parse
from areole.core import load_core
from areole.errors import AreoleError
from areole.ladder import rung
from areole.model import Model

DEPTHS = "2,4,8,12,16,20"


def plain(value: object) -> object:
    """A value as the suites compare it: texts folded, 2.0 as 2."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str):
        return value.casefold()
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def acted(response: Mapping[str, Any]) -> list[str]:
    """The calls that a response makes, comparable; none where a gate spoke."""
    validation = response.get("validation") or {}
    if validation.get("ungrounded") or validation.get("negation"):
        return []
    return comparable(response.get("function_calls") or [])


def comparable(calls: Sequence[object]) -> list[str]:
    return sorted(json.dumps(plain(call), sort_keys=True, ensure_ascii=False) for call in calls)


def right(case: Mapping[str, Any], response: Mapping[str, Any]) -> bool:
    return acted(response) in [comparable(calls) for calls in [case["want"], *(case.get("alts") or [])]]


def spread_over(suites: Sequence[Mapping[str, Any]], most: int) -> list[dict[str, Any]]:
    """The suites with at most so many cases in all, taken at equal steps; 0 for all."""
    count = sum(len(suite["cases"]) for suite in suites)
    if not most or most >= count:
        return [dict(suite) for suite in suites]
    kept = {step * count // most for step in range(most)}
    out, at = [], 0
    for suite in suites:
        cases = [case for place, case in enumerate(suite["cases"], at) if place in kept]
        at += len(suite["cases"])
        if cases:
            out.append({**suite, "cases": cases})
    return out


def measure(model: Model, suites: Sequence[Mapping[str, Any]], depth: int) -> dict[str, Any]:
    """One depth's figures. A case that ends in an error is a wrong one, and counted as failed besides."""
    found, failed, official, count = 0, 0, 0, 0
    prefill: list[float | None] = []
    decode: list[float | None] = []
    for suite in suites:
        with Needle(model, suite["tools"], suite["system"], stateless=True, depth=depth) as needle:
            for case in suite["cases"]:
                count += 1
                official += right(case, case["response"])
                try:
                    answer = needle.answer(case["text"])
                except AreoleError as error:
                    failed += 1
                    say(f"depth {depth}, {suite['id']}, {case['text']!r}: {error}")
                    continue
                found += right(case, answer.envelope)
                prefill.append(rate(answer.prompt_tokens, answer.timings["prefill_s"]))
                decode.append(rate(answer.tokens, answer.timings["decode_s"] - answer.timings["grammar_s"]))
        say(f"depth {depth}: {found} of {count} right after {suite['id']}")
    return {
        "cases": count,
        "right": found,
        "failed": failed,
        "official_right": official,
        "prefill_tps": summary(prefill),
        "decode_tps": summary(decode),
    }


def run(depths: Sequence[int], most: int = 0) -> dict[str, Any]:
    result = heading("ladder")
    path = Path(needed("AREOLE_MODEL", "the weights"))
    suites = json.loads((ROOT / "tests" / "data" / "suites.json").read_text(encoding="utf-8"))
    suites = spread_over(suites, most)
    archive = parse(path.read_bytes(), path.name)
    rows: list[dict[str, Any]] = []
    with Model.load(path, load_core("native")) as model:
        for depth in depths:
            rows.append({"depth": depth, "bytes": rung(archive, depth).nbytes, **measure(model, suites, depth)})
            say("so far:\n" + as_table({"rungs": rows}))
    result["machine"]["load_after"] = load_average()
    return {**result, "rungs": rows}


def as_table(result: dict[str, Any]) -> str:
    rows = [["depth", "MB", "prefill, tokens/s", "decode, tokens/s", "right", "official"]]
    rows += [
        [
            str(row["depth"]),
            short(row["bytes"] / 1e6),
            spread(row["prefill_tps"]),
            spread(row["decode_tps"]),
            f"{row['right']} of {row['cases']}",
            str(row["official_right"]),
        ]
        for row in result["rungs"]
    ]
    return f"the ladder, native: median (min-max) over the cases of the suites\n\n{table(rows)}"


def plot(result: Mapping[str, Any], path: Path) -> None:
    """The share of right answers and tokens a second, by depth."""
    from _plot import figure, save

    rungs = result["rungs"]
    depths = [row["depth"] for row in rungs]
    made, (left, right) = figure(9, 3, 2)
    left.plot(depths, [100 * row["right"] / row["cases"] for row in rungs], marker="o", label="areole")
    left.axhline(100 * rungs[-1]["official_right"] / rungs[-1]["cases"], color="black", linewidth=0.8, linestyle=":")
    left.set(xlabel="depth (dotted: the official engine at full depth)", ylabel="% of the suites right", ylim=(0, 102))
    left.set_xticks(depths)
    for name, label in (("prefill_tps", "prefill"), ("decode_tps", "decode")):
        right.plot(depths, [row[name]["median"] for row in rungs], marker="o", label=label)
    right.set(xlabel="depth", ylabel="tokens a second, natively", yscale="log")
    right.set_xticks(depths)
    right.legend(frameon=False)
    save(made, path)


def main(argv: Sequence[str] | None = None) -> int:
    parsed = parser(__doc__, plots=True)
    parsed.add_argument("--depths", default=DEPTHS, metavar="N,...", help=f"default: {DEPTHS}")
    parsed.add_argument("--cases", type=int, default=0, metavar="N", help="so many of the cases (default: all)")
    args = parsed.parse_args(argv)
    depths = [int(word) for word in args.depths.split(",")]
    errors = (BenchError, AreoleError, OSError)
    return finish(lambda: run(depths, args.cases), as_table, args.json, errors, plot, args.svg)


if __name__ == "__main__":
    sys.exit(main())
