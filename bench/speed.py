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
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _common import (
    ROOT,
    BenchError,
    heading,
    load_average,
    needed,
    parser,
    rate,
    ratio,
    ratios_by_round,
    say,
    show,
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
        "summed over the requests",
    ),
    "decode_own_tps": ("tokens/s", "tokens generated, by the engine's own time for them"),
    "prefill_tps": (
        "tokens/s",
        "tokens of tools not seen before, by the whole time of declaring them; needle-rs, which has no declaring: "
        "tokens of the whole prompt by the time of a request held to one token",
    ),
    "prefill_own_tps": ("tokens/s", "tokens of a request's turn, by the engine's own time for them"),
    "prefix_own_tps": ("tokens/s", "tokens of the tools, by the engine's own time for feeding them"),
    "first_token_s": ("s", "a request held to one token, the tools being declared"),
    "first_event_s": ("s", "a whole request until its first token reaches the page"),
    "first_text_s": ("s", "a whole request until its first text reaches the page"),
    "request_s": ("s", "a whole request, the tools being declared; mean of the requests"),
    "load_s": ("s", "from nothing to an engine that takes requests; the page's files are in the browser's cache"),
    "load_cold_s": ("s", "as load_s, with nothing in the browser's cache; once"),
}


@dataclass(frozen=True)
class Measured:
    """One request. seconds: the whole; one_seconds: the same request held to one token; own_*: by the engine itself."""

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


def peer_figures(
    rounds: Sequence[Round], loads: Sequence[float], figures_of: Callable[[Round], dict[str, float | None]] = round_figures
) -> dict[str, Any]:
    """{figure: summary} of an engine over its rounds; figures that it has none of are left out."""
    rows = [figures_of(one) for one in rounds]
    found = {name: summary([row.get(name) for row in rows]) for name in FIGURES}
    found["load_s"] = summary(loads)
    return {name: figure for name, figure in found.items() if figure is not None}


def compare(ours: Mapping[str, Any] | None, theirs: Mapping[str, Any] | None) -> dict[str, Any]:
    """The ratios of issue and README: decode and prefill by the clock, and what else supports or limits them."""
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


class Areole:
    """The page. Its clock runs in the page, around what a script there would call."""

    name = "areole"

    def __init__(self, tab: Headless) -> None:
        self.tab = tab
        self.calls: dict[str, Any] = {}
        self.tokens: dict[str, int] = {}

    def declare(self, tools: str, system: str) -> tuple[int, float, float | None]:
        answer = self.tab.evaluate(DECLARE, [tools, system])
        return answer["prefix_tokens"], answer["seconds"], answer["prefix_seconds"]

    def ask(self, text: str) -> Measured:
        one = self.tab.evaluate(COMPLETE, [text, 1])
        whole = self.tab.evaluate(COMPLETE, [text, MAX_NEW_TOKENS])
        self.calls[text], self.tokens[text] = whole["calls"], whole["tokens"]
        return Measured(
            whole["tokens"], whole["seconds"], one["seconds"], whole["prompt_tokens"], whole["timings"]["decode_s"],
            whole["timings"]["prefill_s"], whole["firstEvent"], whole["firstText"],
        )  # fmt: skip


class Official:
    """The official engine in its process."""

    name = "official"

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.calls: dict[str, Any] = {}
        self.tokens: dict[str, int] = {}
        self.peak_ram_mb = 0.0

    def declare(self, tools: str, system: str) -> tuple[int, float, float | None]:
        answer = self.peer.do("declare", tools=tools, system=system)
        return answer["tokens"], answer["seconds"], None

    def ask(self, text: str) -> Measured:
        one = self.peer.do("ask", text=text, max_new_tokens=1)
        whole = self.peer.do("ask", text=text, max_new_tokens=MAX_NEW_TOKENS)
        self.calls[text], self.tokens[text] = whole["calls"], whole["tokens"]
        self.peak_ram_mb = max(self.peak_ram_mb, whole["peak_ram_mb"] or 0.0)
        decode, prefill = whole["decode_tps"], whole["prefill_tps"]
        # It tells a rate and not the turn's length. Both engines are held to have fed the same turn, so that any one
        # number of tokens gives the rate back; 1 does.
        return Measured(
            whole["tokens"], whole["seconds"], one["seconds"], 1 if prefill else None,
            whole["tokens"] / decode if decode else None, 1 / prefill if prefill else None,
        )  # fmt: skip


def ask_needle_rs(peer: Peer, tools: str, system: str) -> Round:
    """One request is enough of its time: each feeds the tools again, twice."""
    text = REQUESTS[0]
    one = peer.do("ask", text=text, tools=tools, system=system, max_new_tokens=1)
    whole = peer.do("ask", text=text, tools=tools, system=system, max_new_tokens=MAX_NEW_TOKENS)
    measured = Measured(whole["tokens"], whole["seconds"], one["seconds"], one["prompt_tokens"])
    return Round(0, 0.0, (measured,))


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


def memory_of_session(tools: str, system: str, flavor: str) -> dict[str, Any] | None:
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


def run(rounds: int, core: str | None, without: Sequence[str]) -> dict[str, Any]:
    site, model = needed("AREOLE_SITE", "the site"), needed("AREOLE_MODEL", "the model")
    result = heading("speed")
    warn_of_load(result["machine"]["load_before"])
    presets = {preset["id"]: preset for preset in json.loads((ROOT / "web" / "presets.json").read_text("utf-8"))}
    preset = presets[PRESET]
    texts, system = variants(preset["tools"]), preset["system"]
    missing: dict[str, str] = {kind: "left out by --without" for kind in without}
    with contextlib.ExitStack() as stack:

        def native(kind: str, path: Path | None) -> Peer | None:
            peer = None if kind in missing else attempt(kind, path, missing)
            return stack.enter_context(peer) if peer is not None else None

        try:
            official_path: Path | None = needed("AREOLE_OFFICIAL", "the official engine")
        except BenchError:
            official_path = None
        official, needle_rs = native("official", official_path), native("needle-rs", model)
        paths = {peer.kind: path for peer, path in ((official, official_path), (needle_rs, model)) if peer and path}
        for kind, why in missing.items():
            say(f"without {kind}: {why}")
        loads = measure_loads(rounds, site, paths)

        say("loading the page, and one round that does not count")
        tab = stack.enter_context(Headless(site, core=core))
        areole = Areole(tab)
        engines: list[Areole | Official] = [areole, *([Official(official)] if official else [])]
        warm = play_round(engines, next(texts), system)
        length = warm[0].prefix_tokens
        peers_agree(warm, length)

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
                uncached.append(ask_needle_rs(needle_rs, text, system))
        stats = tab.call("stats")
        resident = {peer.kind: peer.do("memory")["resident_bytes"] for peer in (official, needle_rs) if peer}
        chromium = tab.context.browser.version if tab.context.browser else None
        info = tab.info
    result["machine"].update(load_after=load_average(), chromium=chromium)
    say("counting the memory of a session")
    peers: dict[str, Any] = {"areole": None, "official": None, "needle_rs": None}
    warm_loads = loads["page"][1:]
    peers["areole"] = {
        "where": "headless Chromium, one thread",
        "core": info["core"],
        "kernels": info.get("kernels"),
        "pyodide": info.get("pyodide"),
        "figures": peer_figures(played["areole"], [one["seconds"] for one in warm_loads]),
        "load": {
            "cold": loads["page"][0],
            "parts": {part: summary([one["parts"].get(part) for one in warm_loads]) for part in warm_loads[0]["parts"]},
            "downloaded_bytes": [one["downloaded_bytes"] for one in warm_loads],
        },
        "memory": {
            "page": {
                "bytes": stats["coreBytes"],
                "session_tokens": info["max_tokens"],
                "python_bytes": stats["pythonBytes"],
            },
            "session": memory_of_session(next(texts), system, info["core"]),
        },
        "answers": [areole.tokens[text] for text in REQUESTS],
    }
    peers["areole"]["figures"]["load_cold_s"] = summary([loads["page"][0]["seconds"]])
    if official:
        theirs = engines[1]
        peers["official"] = {
            "where": "natively, two threads of its own",
            "figures": peer_figures(played["official"], [one["seconds"] for one in loads["official"]]),
            "load": {
                part: summary([one["parts"][part] for one in loads["official"]]) for part in loads["official"][0]["parts"]
            },
            "memory": {"own_peak_mb": getattr(theirs, "peak_ram_mb", None), "resident_bytes": resident["official"]},
            "answers": [theirs.tokens[text] for text in REQUESTS],
        }
    if needle_rs:
        peers["needle_rs"] = {
            "where": "natively, through its Python package",
            "figures": peer_figures(uncached, [one["seconds"] for one in loads["needle-rs"]], uncached_figures),
            "memory": {"resident_bytes": resident["needle-rs"]},
        }
    return {
        **result,
        "rounds": rounds,
        "workload": {"preset": PRESET, "prefix_tokens": length, "requests": list(REQUESTS)},
        "peers": peers,
        "missing": {kind.replace("-", "_"): why for kind, why in missing.items()},
        **compare(peers["areole"]["figures"], (peers["official"] or {}).get("figures")),
        "units": {name: unit for name, (unit, _) in FIGURES.items()},
        "meaning": {name: text for name, (_, text) in FIGURES.items()},
    }


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
        f"{result['rounds']} rounds; core {ours['core']}, kernels {ours['kernels'] or 'not told'}",
        f"{facts['cpu']}, {facts['cores']} cores, load average {facts['load_before']} to {facts['load_after']}, "
        f"Chromium {facts['chromium']}, commit {(result['commit'] or 'unknown')[:12]}"
        + (" and changes" if result["modified"] else ""),
        "",
        table(rows),
        "",
        f"areole to the official engine: decode {ratios['decode']}, prefill {ratios['prefill']}; by their own figures "
        f"decode {result['ratios_own']['decode']}, a turn's prefill {result['ratios_own']['turn_prefill']}",
        *(f"without {kind}: {why}" for kind, why in result["missing"].items()),
    ]
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parser(__doc__)
    arguments.add_argument("--rounds", type=int, default=5, metavar="N", help="default 5")
    arguments.add_argument("--core", choices=("relaxed", "simd128"), help="default: what the browser can do")
    arguments.add_argument(
        "--without", action="append", default=[], choices=("official", "needle-rs"), help="leave a peer out"
    )
    args = arguments.parse_args(argv)
    if args.rounds < 1:
        arguments.error(f"--rounds is {args.rounds}; at least 1 is needed")
    try:
        result = run(args.rounds, args.core, args.without)
    except (BenchError, HeadlessError) as error:
        say(f"error: {error}")
        return 1
    show(result, as_table(result), args.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
