"""End to end against the peers, in one run: areole in headless Chromium, the official engine and needle-rs natively.

    python build.py bench speed [--rounds N] [--json] [--core simd128] [--without PEER]

All get the same tools and the same requests, a step each in turn, one engine at work at a time, so that what else the
machine does hits all alike; only the ratios of one run mean anything. bench/README.md says what each figure is.
Exit code 0 whatever the figures are.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
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
    ran_on,
    rate,
    ratio,
    ratios_by_round,
    say,
    short_commit,
    spread,
    summary,
    table,
    warn_of_load,
)
from _peers import Peer

from headless import Headless, HeadlessError

PRESET = "home"
REQUESTS = (
    "dim the bedroom lights to 20 percent and lock the front door",
    "turn on the kitchen lights",
    "set the bedroom to 21 degrees",
)
MAX_NEW_TOKENS = 512
SESSION_TOKENS = 2048

# The official engine keeps the prefix of the tools it saw last, so each declaration must be of tools it has not seen.
# These stand in for two words of the first description, near the beginning of the prompt, and each pair of them makes
# a prefix of the same length; `peers_agree` checks that.
VERBS = ("Turn", "Set", "Get", "Make")
NOUNS = ("lights", "things", "power", "items", "units", "rooms", "sources", "lines", "devices", "signs", "groups")

# name -> unit, what it is. All are medians over the rounds; seconds are by a clock around the whole call, except where
# the name says `own` (what the engine itself reports).
FIGURES: dict[str, tuple[str, str]] = {
    "decode_tps": (
        "tokens/s",
        "tokens after the first, by the time a whole request takes more than the same request held to one token; "
        "summed over the requests; needle-rs: by the time from the first token to the last",
    ),
    "decode_own_tps": ("tokens/s", "tokens generated, by the engine's own time for them"),
    "prefill_tps": (
        "tokens/s",
        "tokens of tools not seen before, by the whole time of declaring them; needle-rs, which has no declaring: "
        "tokens of the whole prompt by the time to the first token",
    ),
    "prefill_own_tps": ("tokens/s", "tokens of a request's turn, by the engine's own time for them"),
    "prefix_own_tps": ("tokens/s", "tokens of the tools, by the engine's own time for feeding them"),
    "first_token_s": ("s", "a request held to one token, the tools being declared"),
    "first_event_s": ("s", "a whole request until its first token reaches the page"),
    "first_text_s": ("s", "a whole request until its first text reaches the page"),
    "request_s": (
        "s",
        "a whole request, the tools being declared (needle-rs: the first request, tools and all); mean of the requests",
    ),
    "load_s": ("s", "from nothing to an engine that takes requests; the page's files are in the browser's cache"),
    "load_cold_s": ("s", "as load_s, with nothing in the browser's cache; once"),
}


@dataclass(frozen=True)
class Measured:
    """One request. seconds: the whole; one_seconds: the same held to one token; own_*: by the engine itself."""

    tokens: int
    seconds: float
    one_seconds: float
    prompt_tokens: int | None = None
    own_decode_s: float | None = None
    own_prefill_s: float | None = None
    first_event_s: float | None = None
    first_text_s: float | None = None


@dataclass(frozen=True)
class Round:
    """One round of one engine: the declaration and the requests after it."""

    prefix_tokens: int
    declare_s: float
    requests: tuple[Measured, ...]
    own_prefix_s: float | None = None


# ---------------------------------------------------------------------------------------------------------------------
# From measurements to figures
# ---------------------------------------------------------------------------------------------------------------------


def decode_rate(requests: Sequence[Measured]) -> float | None:
    """Tokens a second after the first one, over all requests together.

    By the clock around the calls and from two of them, so that it is the same quantity for every engine, whatever it
    counts into its own figure: prefill of the turn, going through Python, messages and the answer's making are in both
    calls or in none. Sums before the division: of single requests the differences would be noisier.
    """
    tokens = sum(one.tokens - 1 for one in requests)
    return rate(tokens, sum(one.seconds - one.one_seconds for one in requests))


def own_rate(counts: Sequence[int | None], seconds: Sequence[float | None]) -> float | None:
    """Counts by an engine's own seconds; None where it reports none."""
    pairs = [(count, second) for count, second in zip(counts, seconds, strict=True) if count and second]
    return rate(sum(count for count, _ in pairs), sum(second for _, second in pairs)) if pairs else None


def mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def round_figures(one: Round) -> dict[str, float | None]:
    """The figures of one round, named as in FIGURES."""
    requests = one.requests
    counts = [request.tokens for request in requests]
    prompts = [request.prompt_tokens for request in requests]
    return {
        "decode_tps": decode_rate(requests),
        "decode_own_tps": own_rate(counts, [request.own_decode_s for request in requests]),
        "prefill_tps": rate(one.prefix_tokens, one.declare_s),
        "prefill_own_tps": own_rate(prompts, [request.own_prefill_s for request in requests]),
        "prefix_own_tps": own_rate([one.prefix_tokens], [one.own_prefix_s]),
        "first_token_s": mean([request.one_seconds for request in requests]),
        "first_event_s": mean([request.first_event_s for request in requests]),
        "first_text_s": mean([request.first_text_s for request in requests]),
        "request_s": mean([request.seconds for request in requests]),
    }


def uncached_figures(one: Round) -> dict[str, float | None]:
    """The figures of a round of an engine that keeps no prefix: its times hold the tools' prefill as well."""
    figures = round_figures(one)
    prompts = sum(request.prompt_tokens or 0 for request in one.requests)
    return {
        "decode_tps": figures["decode_tps"],
        "prefill_tps": rate(prompts, sum(request.one_seconds for request in one.requests)),
        "request_s": figures["request_s"],
    }


def peer_figures(rows: Sequence[Mapping[str, float | None]], loads: Sequence[float]) -> dict[str, Any]:
    """{figure: summary} of an engine from the figures of its rounds; figures that it has none of are left out."""
    found = {name: summary([row.get(name) for row in rows]) for name in FIGURES}
    found["load_s"] = summary(loads)
    return {name: figure for name, figure in found.items() if figure is not None}


def compare(ours: Mapping[str, Any] | None, theirs: Mapping[str, Any] | None) -> dict[str, Any]:
    """areole to the official engine: `ratios` by the clock, and what else supports or limits them."""
    ours, theirs = ours or {}, theirs or {}
    names = {"decode": "decode_tps", "prefill": "prefill_tps"}
    return {
        "ratios": {key: ratio(ours.get(name), theirs.get(name)) for key, name in names.items()},
        "ratios_by_round": {key: ratios_by_round(ours.get(name), theirs.get(name)) for key, name in names.items()},
        "ratios_own": {
            key: ratio(ours.get(name), theirs.get(name))
            for key, name in {"decode": "decode_own_tps", "turn_prefill": "prefill_own_tps"}.items()
        },
        # Above 1 areole takes longer.
        "ratios_seconds": {
            key: ratio(ours.get(name), theirs.get(name))
            for key, name in {"first_token": "first_token_s", "request": "request_s"}.items()
        },
    }


def variants(tools: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The tools as JSON text, each time with other words in the first description; as they are comes last."""
    (first, *rest), (verb, noun) = tools, (VERBS[0], NOUNS[0])
    description = first["description"]
    if verb not in description or noun not in description:
        raise BenchError(f"the preset {PRESET} has changed: its first tool is described as {description!r}")
    steps = len(VERBS) * len(NOUNS)  # their lengths have no common divisor, so that all pairs come up
    for step in itertools.cycle(range(1, steps + 1)):
        words = VERBS[step % len(VERBS)], NOUNS[step % len(NOUNS)]
        text = description.replace(verb, words[0], 1).replace(noun, words[1], 1)
        yield json.dumps([{**first, "description": text}, *rest], ensure_ascii=False)


# ---------------------------------------------------------------------------------------------------------------------
# The engines
# ---------------------------------------------------------------------------------------------------------------------

DECLARE = """async ([tools, system]) => {
  const start = performance.now();
  const answer = await window.areole.declare(tools, system);
  return { ...answer, seconds: (performance.now() - start) / 1000 };
}"""

COMPLETE = """async ([text, maxNewTokens]) => {
  await window.areole.reset();
  let firstEvent = null, firstText = null;
  const start = performance.now();
  const seconds = () => (performance.now() - start) / 1000;
  const onEvent = (event) => {
    firstEvent ??= seconds();
    if (event.delta) firstText ??= seconds();
  };
  const { tokens, prompt_tokens, timings, result } = await window.areole.complete(text, { maxNewTokens, onEvent });
  return { seconds: seconds(), firstEvent, firstText, tokens, prompt_tokens, timings, calls: result.function_calls };
}"""


class Engine:
    """What was answered last to each request, so that a reader can see that the same work was done."""

    def __init__(self) -> None:
        self._answers: dict[str, dict[str, Any]] = {}

    def keep(self, text: str, answer: Mapping[str, Any]) -> None:
        self._answers[text] = {key: answer[key] for key in ("tokens", "calls")}

    def answers(self) -> list[dict[str, Any]]:
        return [{"text": text, **answer} for text, answer in self._answers.items()]


class Areole(Engine):
    """The page. Its clock runs in the page, around what a script there would call."""

    name = "areole"

    def __init__(self, tab: Headless) -> None:
        super().__init__()
        self.tab = tab

    def declare(self, tools: str, system: str) -> tuple[int, float, float | None]:
        answer = self.tab.evaluate(DECLARE, [tools, system])
        return answer["prefix_tokens"], answer["seconds"], answer["prefix_seconds"]

    def ask(self, text: str) -> Measured:
        one = self.tab.evaluate(COMPLETE, [text, 1])
        whole = self.tab.evaluate(COMPLETE, [text, MAX_NEW_TOKENS])
        self.keep(text, whole)
        return Measured(
            whole["tokens"], whole["seconds"], one["seconds"], whole["prompt_tokens"], whole["timings"]["decode_s"],
            whole["timings"]["prefill_s"], whole["firstEvent"], whole["firstText"],
        )  # fmt: skip


class Official(Engine):
    """The official engine in its process."""

    name = "official"

    def __init__(self, peer: Peer) -> None:
        super().__init__()
        self.peer = peer
        self.peak_ram_mb = 0.0

    def declare(self, tools: str, system: str) -> tuple[int, float, float | None]:
        answer = self.peer.do("declare", tools=tools, system=system)
        return answer["tokens"], answer["seconds"], None

    def ask(self, text: str) -> Measured:
        one = self.peer.do("ask", text=text, max_new_tokens=1)
        whole = self.peer.do("ask", text=text, max_new_tokens=MAX_NEW_TOKENS)
        self.keep(text, whole)
        self.peak_ram_mb = max(self.peak_ram_mb, whole["peak_ram_mb"] or 0.0)
        decode, prefill = whole["decode_tps"], whole["prefill_tps"]
        # It tells a rate and not the turn's length. Both engines are held to have fed the same turn, so that any one
        # number of tokens gives the rate back; 1 does.
        return Measured(
            whole["tokens"], whole["seconds"], one["seconds"], 1 if prefill else None,
            whole["tokens"] / decode if decode else None, 1 / prefill if prefill else None,
        )  # fmt: skip


def ask_needle_rs(peer: Peer, tools: str, prompt_tokens: int) -> Round:
    """One request is enough of its time: each feeds the tools again."""
    whole = peer.do("ask", text=REQUESTS[0], tools=tools)
    return Round(0, 0.0, (Measured(whole["tokens"], whole["seconds"], whole["first_seconds"], prompt_tokens),))


def play_round(engines: Sequence[Areole | Official], tools: str, system: str) -> list[Round]:
    """A declaration and the requests, each step by each engine in turn before the next step."""
    declared = [engine.declare(tools, system) for engine in engines]
    asked: list[list[Measured]] = [[] for _ in engines]
    for text in REQUESTS:
        for engine, list_of in zip(engines, asked, strict=True):
            list_of.append(engine.ask(text))
    return [
        Round(tokens, seconds, tuple(requests), own)
        for (tokens, seconds, own), requests in zip(declared, asked, strict=True)
    ]


def peers_agree(rounds: Sequence[Round], length: int) -> None:
    """Every engine was given the same number of tokens, or its prefill rate is another quantity."""
    for one in rounds:
        if one.prefix_tokens != length:
            raise BenchError(f"a prefix of {one.prefix_tokens} tokens where the preset's has {length}: see NOUNS")


# ---------------------------------------------------------------------------------------------------------------------
# Memory
# ---------------------------------------------------------------------------------------------------------------------


def memory_of_session(tools: str, system: str, flavor: str) -> dict[str, Any]:
    """The core's memory after a request in a session of SESSION_TOKENS, by the page's own module under wasmtime.

    The page's sessions are of all that the model was made for; memory is counted, not timed, so another host will do.
    """
    from areole.agent import Needle
    from areole.core import load_core
    from areole.model import Model

    core = load_core("wasmtime" if flavor == "relaxed" else "wasmtime-simd128")
    with (
        Model.load(needed("AREOLE_MODEL", "the model"), core) as model,
        Needle(model, tools, system, max_tokens=SESSION_TOKENS) as needle,
    ):
        needle.complete(REQUESTS[1])
        return {"bytes": core.memory_bytes, "session_tokens": SESSION_TOKENS, "host": "wasmtime"}


# ---------------------------------------------------------------------------------------------------------------------
# The run
# ---------------------------------------------------------------------------------------------------------------------


def attempt(kind: str, path: Path | None, missing: dict[str, str]) -> Peer | None:
    """The engine, or None with the reason noted."""
    if path is None:
        missing[kind] = "there is none for this system"
        return None
    peer = Peer(kind, path)
    try:
        peer.do("load")
    except BenchError as error:
        missing[kind] = str(error)
        peer.__exit__(None, None, None)
        return None
    return peer


def measure_loads(rounds: int, site: Path, natives: Mapping[str, Path]) -> dict[str, list[dict[str, Any]]]:
    """The loads of each engine, in rounds; a native one gets a new process each time. "page" has one more in front,
    which finds nothing in the browser's cache."""
    found: dict[str, list[dict[str, Any]]] = {"page": [], **{kind: [] for kind in natives}}
    with Peer("page", site) as page:
        found["page"].append(page.do("load"))
        for number in range(rounds):
            say(f"loading, round {number + 1} of {rounds}")
            found["page"].append(page.do("load"))
            for kind, path in natives.items():
                with Peer(kind, path) as peer:
                    found[kind].append(peer.do("load"))
    return found


@dataclass
class Measurements:
    """What a run has brought in, before it is summed up."""

    length: int  # of the prefix, in tokens
    played: dict[str, list[Round]]
    uncached: list[Round]
    loads: dict[str, list[dict[str, Any]]]
    engines: dict[str, Areole | Official]
    stats: dict[str, Any]
    info: dict[str, Any]
    resident: dict[str, int | None]
    chromium: str | None


def measure(
    rounds: int, site: Path, core: str | None, texts: Iterator[str], system: str, peers: Mapping[str, tuple[Peer, Path]]
) -> Measurements:
    """Loads first, then a round that does not count, then the rounds."""
    loads = measure_loads(rounds, site, {kind: path for kind, (_, path) in peers.items()})
    say("loading the page, and one round that does not count")
    with Headless(site, core=core) as tab:
        engines: list[Areole | Official] = [Areole(tab)]
        if "official" in peers:
            engines.append(Official(peers["official"][0]))
        warm = play_round(engines, next(texts), system)
        length = warm[0].prefix_tokens
        peers_agree(warm, length)
        needle_rs = peers["needle-rs"][0] if "needle-rs" in peers else None
        prompt = needle_rs.do("length", text=REQUESTS[0], tools=next(texts))["prompt_tokens"] if needle_rs else 0
        played: dict[str, list[Round]] = {engine.name: [] for engine in engines}
        uncached: list[Round] = []
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            text = next(texts)
            order = engines if number % 2 == 0 else engines[::-1]
            these = play_round(order, text, system)
            peers_agree(these, length)
            for engine, one in zip(order, these, strict=True):
                played[engine.name].append(one)
            if needle_rs:
                uncached.append(ask_needle_rs(needle_rs, text, prompt))
        return Measurements(
            length,
            played,
            uncached,
            loads,
            {engine.name: engine for engine in engines},
            tab.call("stats"),
            tab.info,
            {kind: peer.do("memory")["resident_bytes"] for kind, (peer, _) in peers.items()},
            tab.context.browser.version if tab.context.browser else None,
        )


def parts_of(loads: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {part: summary([one["parts"].get(part) for one in loads]) for part in loads[0]["parts"]}


def seconds_of(loads: Sequence[Mapping[str, Any]]) -> list[float]:
    return [one["seconds"] for one in loads]


def areole_result(found: Measurements, session_memory: Mapping[str, Any]) -> dict[str, Any]:
    cold, *warm = found.loads["page"]
    info, stats = found.info, found.stats
    figures = peer_figures([round_figures(one) for one in found.played["areole"]], seconds_of(warm))
    figures["load_cold_s"] = summary([cold["seconds"]])
    page = {"bytes": stats["coreBytes"], "session_tokens": info["max_tokens"], "python_bytes": stats["pythonBytes"]}
    return {
        "where": "headless Chromium, one thread",
        "core": info["core"],
        "kernels": info.get("kernels"),
        "pyodide": info.get("pyodide"),
        "figures": figures,
        "load": {
            "cold": cold,
            "parts": parts_of(warm),
            "downloaded_bytes": [one["downloaded_bytes"] for one in warm],
            "kernels": [one["kernels"] for one in found.loads["page"]],
        },
        "memory": {"page": page, "session": session_memory},
        "answers": found.engines["areole"].answers(),
    }


def official_result(found: Measurements) -> dict[str, Any] | None:
    engine = found.engines.get("official")
    if not isinstance(engine, Official):
        return None
    loads = found.loads["official"]
    return {
        "where": "natively, two threads of its own",
        "figures": peer_figures([round_figures(one) for one in found.played["official"]], seconds_of(loads)),
        "load": {"parts": parts_of(loads)},
        "memory": {"own_peak_mb": engine.peak_ram_mb, "resident_bytes": found.resident["official"]},
        "answers": engine.answers(),
    }


def needle_rs_result(found: Measurements) -> dict[str, Any] | None:
    if not found.uncached:
        return None
    return {
        "where": "natively, through its Python package",
        "figures": peer_figures(
            [uncached_figures(one) for one in found.uncached], seconds_of(found.loads["needle-rs"])
        ),
        "memory": {"resident_bytes": found.resident["needle-rs"]},
    }


def run(rounds: int, core: str | None, without: Sequence[str]) -> dict[str, Any]:
    site, model = needed("AREOLE_SITE", "the site"), needed("AREOLE_MODEL", "the model")
    official = os.environ.get("AREOLE_OFFICIAL")
    result = heading("speed")
    warn_of_load(result["machine"]["load_before"])
    presets = {preset["id"]: preset for preset in json.loads((ROOT / "web" / "presets.json").read_text("utf-8"))}
    texts, system = variants(presets[PRESET]["tools"]), presets[PRESET]["system"]
    missing = {kind: "left out by --without" for kind in without}
    with contextlib.ExitStack() as stack:
        peers: dict[str, tuple[Peer, Path]] = {}
        for kind, path in (("official", Path(official) if official else None), ("needle-rs", model)):
            peer = None if kind in missing else attempt(kind, path, missing)
            if peer is not None and path is not None:
                peers[kind] = stack.enter_context(peer), path
        for kind, why in missing.items():
            say(f"without {kind}: {why}")
        found = measure(rounds, site, core, texts, system, peers)
    result["machine"].update(load_after=load_average(), chromium=found.chromium)
    say("counting the memory of a session")
    ours = areole_result(found, memory_of_session(next(texts), system, found.info["core"]))
    theirs = official_result(found)
    return {
        **result,
        "rounds": rounds,
        "workload": {"preset": PRESET, "prefix_tokens": found.length, "requests": list(REQUESTS)},
        "peers": {"areole": ours, "official": theirs, "needle_rs": needle_rs_result(found)},
        "missing": {kind.replace("-", "_"): why for kind, why in missing.items()},
        **compare(ours["figures"], theirs["figures"] if theirs else None),
        "units": {name: unit for name, (unit, _) in FIGURES.items()},
        "meaning": {name: text for name, (_, text) in FIGURES.items()},
    }


PLOTTED = ("decoded tokens a second", "prefilled tokens a second", "seconds a request")


def megabytes(count: float | None) -> str:
    return "-" if not count else f"{count / 2**20:.1f}"


def as_table(result: Mapping[str, Any]) -> str:
    """The result for a person."""
    peers = result["peers"]
    shown = [name for name in ("areole", "official", "needle_rs") if peers[name]]
    rows = [["median (min-max)", "unit", *shown]]
    for name, (unit, _) in FIGURES.items():
        rows.append([name, unit, *(spread(peers[peer]["figures"].get(name)) for peer in shown)])
    memory = peers["areole"]["memory"]
    resident = ["-", *(megabytes(peers[peer]["memory"]["resident_bytes"]) for peer in shown[1:])]
    rows.append(["process memory, peak", "MiB", *resident])
    blank = ["-"] * (len(shown) - 1)
    for key, host in (("page", "page"), ("session", "wasmtime")):
        count, tokens = memory[key]["bytes"], memory[key]["session_tokens"]
        rows.append([f"core memory, session of {tokens} ({host})", "MiB", megabytes(count), *blank])
    ours, facts, ratios = peers["areole"], result["machine"], result["ratios"]
    lines = [
        f"speed: tools of {PRESET} ({result['workload']['prefix_tokens']} tokens), {len(REQUESTS)} requests, "
        f"{result['rounds']} rounds; core {ours['core']}, kernels {ours['kernels'] or 'not told'} "
        f"(loads chose {', '.join(sorted({str(way) for way in ours['load']['kernels']}))})",
        f"{ran_on(facts)}, commit {short_commit(result)}" + (" and changes" if result["modified"] else ""),
        "",
        table(rows),
        "",
        f"areole to the official engine: decode {ratios['decode']}, prefill {ratios['prefill']}; by their own figures "
        f"decode {result['ratios_own']['decode']}, a turn's prefill {result['ratios_own']['turn_prefill']}",
        *(f"without {kind.replace('_', '-')}: {why}" for kind, why in result["missing"].items()),
    ]
    return "\n".join(lines)


def plot(result: Mapping[str, Any], path: Path) -> None:
    """Rates of each engine, and what a request takes."""
    from _plot import bars, figure, save

    made, axes = figure(11, 1.6, 3)
    for one, name, label in zip(axes, ("decode_tps", "prefill_tps", "request_s"), PLOTTED, strict=True):
        figures = {peer: (made_by or {}).get("figures", {}).get(name) for peer, made_by in result["peers"].items()}
        known = {peer.replace("_", "-"): figure["median"] for peer, figure in figures.items() if figure}
        bars(one, list(known), list(known.values()), label)
    save(made, path)


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parser(__doc__, plots=True)
    arguments.add_argument("--rounds", type=int, default=5, metavar="N", help="default 5")
    arguments.add_argument("--core", choices=("relaxed", "simd128"), help="default: what the browser can do")
    arguments.add_argument(
        "--without", action="append", default=[], choices=("official", "needle-rs"), help="leave a peer out"
    )
    args = arguments.parse_args(argv)
    if args.rounds < 1:
        arguments.error(f"--rounds is {args.rounds}; at least 1 is needed")
    errors = (BenchError, HeadlessError)
    return finish(lambda: run(args.rounds, args.core, args.without), as_table, args.json, errors, plot, args.svg)


if __name__ == "__main__":
    sys.exit(main())
