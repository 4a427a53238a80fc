"""The arithmetic of the benchmarks and the shape of their results. Nothing is timed here."""

from __future__ import annotations

import itertools
import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import _common  # noqa: E402
import kernels  # noqa: E402
import ladder  # noqa: E402
import memory as memory_bench  # noqa: E402
import scale  # noqa: E402
import speed  # noqa: E402
import startup  # noqa: E402
import suites  # noqa: E402
import threads as threads_bench  # noqa: E402
import tokenizer as tokenizer_bench  # noqa: E402
from _peers import Peer  # noqa: E402
from speed import Measured, Round  # noqa: E402

from areole.archive import parse  # noqa: E402

# ---------------------------------------------------------------------------------------------------------------------
# Figures
# ---------------------------------------------------------------------------------------------------------------------


def test_a_summary_is_of_what_was_measured() -> None:
    found = _common.summary([3.0, None, 1.0, math.inf, 2.0, 100.0])
    assert found == {"median": 2.5, "min": 1.0, "max": 100.0, "n": 4, "values": [3.0, None, 1.0, None, 2.0, 100.0]}
    assert _common.summary([None, math.nan]) is None
    assert _common.summary([]) is None


def test_ratios_are_of_medians_and_of_neighbours_in_time() -> None:
    ours, theirs = _common.summary([300.0, None, 100.0, 200.0]), _common.summary([100.0, 50.0, 0.0, 400.0])
    assert _common.ratio(ours, theirs) == 2.667  # 200 to 75
    assert _common.ratios_by_round(ours, theirs) == [3.0, None, None, 0.5]
    assert _common.ratio(ours, None) is None
    assert _common.ratio(ours, _common.summary([0.0])) is None
    assert _common.ratios_by_round(None, theirs) == []


def test_a_rate_needs_time() -> None:
    assert _common.rate(10, 4) == 2.5
    assert _common.rate(10, 0) is None
    assert _common.rate(10, -0.1) is None


def test_figures_are_shown_short() -> None:
    shown = {value: _common.short(value) for value in (0.0, 0.012345, 9.876, 45.67, 1234.5, -3.21)}
    assert list(shown.values()) == ["0", "0.0123", "9.88", "45.7", "1234", "-3.21"]
    assert _common.short(None) == _common.spread(None) == "-"
    assert _common.spread(_common.summary([1.0, 2.0, 4.0])) == "2.00 (1.00-4.00)"


def test_a_table_is_aligned() -> None:
    assert _common.table([["name", "a", "b"], ["x", "10", ""], ["longer", "1", "22"]]).splitlines() == [
        "name     a   b",
        "x       10",
        "longer   1  22",
    ]


def test_the_processor_is_named_with_what_decides_its_kernels() -> None:
    text = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nflags\t\t: fpu avx2 avx512f sse\n\nmodel name\t: Other\n"
    assert _common.parse_cpuinfo(text) == "Some CPU @ 2 GHz (avx2, avx512f)"
    assert _common.parse_cpuinfo("model name : Plain\nflags : fpu") == "Plain"
    assert _common.parse_cpuinfo("Hardware : none of it") is None


def test_what_build_py_did_not_say_is_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AREOLE_SITE", raising=False)
    with pytest.raises(_common.BenchError, match=r"AREOLE_SITE .* build.py bench"):
        _common.needed("AREOLE_SITE", "the site")


# ---------------------------------------------------------------------------------------------------------------------
# speed
# ---------------------------------------------------------------------------------------------------------------------


def timed_at(tokens: int, prompt: int, decode: float, prefill: float, extra: float = 0.01) -> Measured:
    """A request of an engine with these rates, which spends `extra` seconds on other things in each call."""
    own_decode, own_prefill = tokens / decode, prompt / prefill
    return Measured(
        tokens, own_prefill + own_decode + extra, own_prefill + 1 / decode + extra, prompt, own_decode, own_prefill,
        own_prefill + 1 / decode, own_prefill + 2 / decode,
    )  # fmt: skip


def round_at(decode: float, prefill: float) -> Round:
    requests = tuple(timed_at(tokens, prompt, decode, prefill) for tokens, prompt in ((76, 20), (47, 12), (41, 14)))
    return Round(166, 166 / prefill + 0.02, requests, 166 / prefill)


def test_decode_is_told_from_what_comes_with_it() -> None:
    """The clock's rate is the engine's own, whatever else is in a call; and of no rate where noise ate the time."""
    figures = speed.round_figures(round_at(decode=200.0, prefill=400.0))
    assert figures["decode_tps"] == pytest.approx(200.0)
    assert figures["decode_own_tps"] == pytest.approx(200.0)
    assert figures["prefill_own_tps"] == figures["prefix_own_tps"] == pytest.approx(400.0)
    assert figures["prefill_tps"] == pytest.approx(166 / (166 / 400 + 0.02))
    assert figures["first_event_s"] == pytest.approx((46 / 400) / 3 + 1 / 200)
    assert speed.decode_rate([Measured(40, 0.1, 0.2)]) is None


def test_an_engine_may_report_nothing_of_its_own() -> None:
    figures = speed.round_figures(Round(166, 0.5, (Measured(40, 0.4, 0.1),)))
    assert figures["decode_tps"] == pytest.approx(130.0)
    assert figures["prefill_tps"] == pytest.approx(332.0)
    nothing = ("decode_own_tps", "prefill_own_tps", "prefix_own_tps", "first_event_s", "first_text_s")
    assert [figures[name] for name in nothing] == [None] * 5
    assert set(speed.peer_figures([figures], [0.1])) == set(figures) - set(nothing) | {"load_s"}


def test_an_engine_without_a_kept_prefix_is_timed_over_the_whole_prompt() -> None:
    figures = speed.uncached_figures(Round(0, 0.0, (Measured(21, 4.4, 4.0, 180),)))
    assert figures["prefill_tps"] == pytest.approx(45.0)
    assert figures["decode_tps"] == pytest.approx(50.0)
    assert "first_token_s" not in figures


def test_the_ratios_are_areoles_to_the_official_engines() -> None:
    ours = speed.peer_figures([speed.round_figures(round_at(d, 600.0)) for d in (240.0, 100.0, 250.0)], [2.0])
    theirs = speed.peer_figures([speed.round_figures(round_at(d, 200.0)) for d in (120.0, 50.0, 160.0)], [0.1])
    found = speed.compare(ours, theirs)
    assert found["ratios"]["decode"] == pytest.approx(2.0, rel=1e-3)
    assert found["ratios_by_round"]["decode"] == pytest.approx([2.0, 2.0, 1.562], rel=1e-3)
    assert found["ratios"]["prefill"] == pytest.approx((166 / 200 + 0.02) / (166 / 600 + 0.02), rel=1e-3)
    assert found["ratios_own"] == {"decode": pytest.approx(2.0, rel=1e-3), "turn_prefill": pytest.approx(3.0, rel=1e-3)}
    assert found["ratios_seconds"]["request"] < 1
    alone = speed.compare(ours, None)
    assert alone["ratios"] == {"decode": None, "prefill": None}


def presets() -> dict[str, dict[str, Any]]:
    return {one["id"]: one for one in json.loads((ROOT / "web" / "presets.json").read_text(encoding="utf-8"))}


def test_every_declaration_is_of_tools_not_seen_before() -> None:
    tools = presets()[speed.PRESET]["tools"]
    count = len(speed.VERBS) * len(speed.NOUNS)
    texts = list(itertools.islice(speed.variants(tools), count))
    assert len(set(texts)) == count
    assert json.loads(texts[-1]) == tools
    for before, after in itertools.pairwise(texts):  # they part early, so that a kept beginning is worth little
        assert next(at for at, (a, b) in enumerate(zip(before, after, strict=False)) if a != b) < 60
    with pytest.raises(_common.BenchError, match="has changed"):
        next(speed.variants([{**tools[0], "description": "Other words."}]))


@pytest.mark.model
def test_every_variant_of_the_tools_is_as_long_as_the_preset(real_model_path: Path) -> None:
    from areole.archive import parse
    from areole.prompt import prefix_segments, render_tools
    from areole.tokenizer import Tokenizer

    tokenizer = Tokenizer.from_blob(parse(real_model_path.read_bytes()).tokenizer_blob)
    count = len(speed.VERBS) * len(speed.NOUNS)
    texts = itertools.islice(speed.variants(presets()[speed.PRESET]["tools"]), count)
    assert {1 + len(tokenizer.encode_segments(prefix_segments("", render_tools(text)))) for text in texts} == {166}


def test_engines_that_were_fed_different_prefixes_are_not_compared() -> None:
    speed.peers_agree([round_at(1.0, 1.0)], 166)
    with pytest.raises(_common.BenchError, match="166 tokens where the preset's has 165"):
        speed.peers_agree([round_at(1.0, 1.0)], 165)


def official_round(decode: float, prefill: float) -> Round:
    """As the official engine's are: rates of its own for a request, nothing of the prefix and no events."""
    full = round_at(decode, prefill)
    requests = (
        Measured(one.tokens, one.seconds, one.one_seconds, 1, one.own_decode_s, 1 / prefill) for one in full.requests
    )
    return Round(full.prefix_tokens, full.declare_s, tuple(requests))


def measurements() -> speed.Measurements:
    areole, official = speed.Areole.__new__(speed.Areole), speed.Official.__new__(speed.Official)
    for engine in (areole, official):
        speed.Engine.__init__(engine)
        engine.keep("turn on the kitchen lights", {"tokens": 47, "calls": [], "seconds": 1.0})
    official.peak_ram_mb = 105.0
    parts = {"weights": 1.0, "python": 1.5}
    page = {"seconds": 2.0, "parts": parts, "downloaded_bytes": 49_000_000, "kernels": "pairs"}
    kept = {"seconds": 1.0, "parts": parts, "downloaded_bytes": 0}
    return speed.Measurements(
        length=166,
        played={"areole": [round_at(240.0, 500.0)] * 2, "official": [official_round(120.0, 250.0)] * 2},
        uncached=[Round(0, 0.0, (Measured(21, 4.4, 4.0, 180),))] * 2,
        loads={
            "page": [page, {**kept, "kernels": "pairs"}, {**kept, "kernels": "dots"}],
            "official": [{"seconds": 0.1, "parts": {"read": 0.02, "needle_load": 0.08}}] * 2,
            "needle-rs": [{"seconds": 0.2}] * 2,
        },
        engines={"areole": areole, "official": official},
        stats={"coreBytes": 48_000_000, "pythonBytes": 31_000_000, "proxies": 0},
        info={"core": "relaxed", "kernels": "pairs", "pyodide": "314.0.7", "max_tokens": 8192},
        resident={"official": 120_000_000, "needle-rs": 90_000_000},
        chromium="156.0",
    )


def result_of(found: speed.Measurements) -> dict[str, Any]:
    """As speed.run puts it together."""
    ours = speed.areole_result(found, {"bytes": 44_000_000, "session_tokens": 2048, "host": "wasmtime"})
    theirs, third = speed.official_result(found), speed.needle_rs_result(found)
    machine = {"cpu": "x", "cores": 2, "load_before": [1.0], "load_after": [1.0], "chromium": "156.0"}
    return {
        "commit": "0123456789abcdef", "modified": True, "machine": machine, "rounds": 2,
        "workload": {"prefix_tokens": 166}, "peers": {"areole": ours, "official": theirs, "needle_rs": third},
        "missing": {}, **speed.compare(ours["figures"], theirs["figures"] if theirs else None),
    }  # fmt: skip


def test_the_result_has_every_figure() -> None:
    result = json.loads(json.dumps(result_of(measurements()), allow_nan=False))
    areole, official, needle_rs = (result["peers"][name] for name in ("areole", "official", "needle_rs"))
    assert set(areole["figures"]) == set(speed.FIGURES)
    pages_own = {"prefix_own_tps", "first_event_s", "first_text_s", "load_cold_s"}
    assert set(official["figures"]) == set(speed.FIGURES) - pages_own
    assert set(needle_rs["figures"]) == {"decode_tps", "prefill_tps", "request_s", "load_s"}
    for peer in (areole, official, needle_rs):
        for figure in peer["figures"].values():
            assert set(figure) == {"median", "min", "max", "n", "values"}
    assert areole["figures"]["load_s"]["median"] == 1.0  # the load with an empty cache is not among them
    assert areole["figures"]["load_cold_s"]["median"] == 2.0
    assert areole["load"]["downloaded_bytes"] == [0, 0]
    assert areole["load"]["kernels"] == ["pairs", "pairs", "dots"]
    assert areole["memory"]["session"]["session_tokens"] == 2048
    assert result["ratios"]["decode"] == pytest.approx(2.0, rel=1e-3)
    assert set(result["ratios"]) == {"decode", "prefill"}
    assert result["ratios_own"]["turn_prefill"] == pytest.approx(2.0, rel=1e-3)


def test_the_table_names_every_engine_and_the_ratios() -> None:
    text = speed.as_table(result_of(measurements()))
    assert all(name in text for name in (*speed.FIGURES, "areole", "official", "needle_rs"))
    assert "kernels pairs (loads chose dots, pairs)" in text
    assert "decode 2.0" in text
    assert "commit 0123456789ab and changes" in text


def test_a_peer_that_is_missing_is_named_with_the_reason(tmp_path: Path) -> None:
    missing: dict[str, str] = {}
    assert speed.attempt("official", None, missing) is None
    assert missing == {"official": "there is none for this system"}
    assert speed.attempt("official", tmp_path, missing) is None
    assert "libneedle3.so" in missing["official"]
    found = measurements()
    found.engines = {"areole": found.engines["areole"]}
    found.uncached = []
    result = {**result_of(found), "missing": {"official": "not here", "needle_rs": "not there"}}
    assert result["peers"]["official"] is result["peers"]["needle_rs"] is None
    assert result["ratios"] == {"decode": None, "prefill": None}
    assert "without needle-rs: not there" in speed.as_table(result)


def test_a_peer_goes_on_after_an_error_and_says_what_it_was(tmp_path: Path) -> None:
    with Peer("official", tmp_path) as peer:
        for _ in range(2):
            with pytest.raises(_common.BenchError, match="official: load: OSError"):
                peer.do("load")


# ---------------------------------------------------------------------------------------------------------------------
# kernels
# ---------------------------------------------------------------------------------------------------------------------


def kernel_times(gmacs: float, noise: float = 0.0) -> dict[str, list[float]]:
    """Milliseconds of every case: products at this speed, and a layer under the head that takes a while."""
    times: dict[str, list[float]] = {"kron 32x32": [0.004, 0.008], "exp 768": [0.001, 0.001]}
    for race in kernels.races():
        macs = kernels.WIDTH**2 * kernels.DOZEN
        times[race["name"]] = [macs / gmacs / 1e6, macs / gmacs / 1e6 + noise]
    for feed in kernels.feeds():
        head = kernels.VOCAB * kernels.WIDTH * feed.tokens / gmacs / 1e6 if feed.logits else 0.0
        times[feed.name] = [feed.tokens * 0.1 + head, feed.tokens * 0.1 + head + noise]
    return times


def test_the_head_is_told_from_the_layers_under_it() -> None:
    figures = kernels.kernel_figures(kernel_times(40.0, noise=0.5))
    products = {name: row for name, row in figures.items() if row["how"] == "difference"}
    assert len(products) == len(kernels.BITS) * len(kernels.LOGITS) * len(kernels.WAYS)
    for row in products.values():
        assert row["best_gmacs"] == row["median_gmacs"] == pytest.approx(40.0, rel=1e-3)  # noise hit both alike
    race = figures["2-bit 768x768, 12 tokens, pairs"]
    assert race["how"] == "timed"
    assert race["best_gmacs"] == pytest.approx(40.0, rel=1e-3)
    assert race["median_gmacs"] < race["best_gmacs"]


def test_kernels_are_told_in_microseconds_and_whole_tokens_by_the_token() -> None:
    figures = kernels.kernel_figures(kernel_times(40.0))
    assert figures["kron 32x32"] == {
        "best_us": 4.0, "median_us": 6.0, "how": "timed", "best_gmacs": 16.38, "median_gmacs": 10.92,
    }  # fmt: skip
    assert figures["exp 768"] == {"best_us": 1.0, "median_us": 1.0, "how": "timed"}
    assert figures["shipped: a token of 24 prefilled, dots"]["best_us"] == pytest.approx(100.0)


def test_shares_of_a_token_are_of_its_own_way() -> None:
    times = kernel_times(40.0)
    for feed in kernels.feeds():
        if feed.model == kernels.SHIPPED and feed.way == "pairs":
            times[feed.name] = [value / 2 for value in times[feed.name]]
    figures = kernels.kernel_figures(times)
    kernels.add_shares(figures, {"2-bit": 2.0, "4-bit": 0.0, "kron 32x32": 10.0})
    one = kernels.VOCAB * kernels.WIDTH / 40.0 / 1e3  # us of a product
    for way, part in (("dots", 1.0), ("pairs", 0.5)):
        token = figures[kernels.token_name(1, way)]["best_us"]
        assert token == pytest.approx(part * (100 + one), rel=1e-3)
        assert figures[kernels.product_name(2, 1, way)]["share_decoded"] == pytest.approx(2 * one / token, rel=1e-2)
        assert figures[kernels.product_name(4, 1, way)]["share_decoded"] == pytest.approx(one / token, rel=1e-2)
    assert figures["kron 32x32"]["share_prefilled"] == pytest.approx(10 * 4.0 / 50.0, rel=1e-2)
    assert "share_decoded" not in figures["exp 768"]
    nbytes = kernels.VOCAB * kernels.WIDTH * (2 / 8 + 2 / 128)
    assert figures[kernels.product_name(2, 1, "dots")]["best_gbs"] == pytest.approx(nbytes / one / 1e3, rel=1e-2)


def test_the_work_of_a_token_is_counted_from_the_archive(tiny_path: Path) -> None:
    tiny = parse(tiny_path.read_bytes(), "tiny")
    g, work = tiny.geometry, kernels.work_of(tiny)
    layer = g.heads * g.qk_dim + g.kv_heads * (g.qk_dim + g.v_dim) + 2 * g.heads * g.v_dim
    counted = {bits: work[f"{bits}-bit"] * kernels.VOCAB * kernels.WIDTH for bits in kernels.BITS}
    lanes = (2 * g.lanes + g.lanes**2) * g.lanes * g.d_model
    whole = g.layers * (layer * g.d_model + lanes) + len(g.engram_sites) * 2 * g.d_model**2
    assert sum(counted.values()) == pytest.approx(whole)


def test_noise_gives_no_figure_rather_than_a_negative_one() -> None:
    row = kernels.difference([1.0, 1.0], [1.5, 0.5], macs=1000)
    assert row["best_gmacs"] == pytest.approx(1000 / 1e6 / 0.5)
    assert row["median_gmacs"] is None
    assert row["median_us"] == 0.0


def test_no_two_cases_of_the_page_have_one_name() -> None:
    names = [race["name"] for race in kernels.races()] + [feed.name for feed in kernels.feeds()]
    assert len(set(names)) == len(names)
    assert json.loads(json.dumps([feed.to_json() for feed in kernels.feeds()]))[0] == {
        "name": "made-2: 1 tokens, with the head, dots", "model": "made-2", "pairs": 0, "tokens": 1, "flags": 2,
        "repeats": 8,
    }  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# tokenizer
# ---------------------------------------------------------------------------------------------------------------------


def test_texts_have_their_length_and_kind() -> None:
    texts = tokenizer_bench.texts(ROOT)
    assert {len(text) for text in texts.values()} == {20_000}
    assert "the" in texts["prose"].split() and "def " in texts["code"]
    assert texts["no spaces"].split() == [texts["no spaces"]]
    assert tokenizer_bench.cut(["ab", "c"], 7) == "abcabca"
    with pytest.raises(_common.BenchError, match="no text"):
        tokenizer_bench.cut([""])


# ---------------------------------------------------------------------------------------------------------------------
# scale and memory
# ---------------------------------------------------------------------------------------------------------------------


def scale_result() -> dict[str, Any]:
    rows = [scale.point({"prefilled": 10, "prefillMs": 20.0, "decodeMs": [5.0, 3.0 + at, 9.0]}) for at in (0, 1, 2)]
    return {
        "core": "relaxed", "kernels": "pairs", "too_many_tools": {"128": 9000},
        "lines": {"a": scale.line([0, 1], [1, 3])},
        "machine": {"cpu": "a cpu", "load_before": [0.1], "load_after": [0.2], "chromium": "156"},
        "contexts": [{"context": 64 * 2**i, **row} for i, row in enumerate(rows)],
        "tools": [{"tools": i + 1, "tokens": 80, **row} for i, row in enumerate(rows)],
        "depths": [{"depth": 2 * i + 2, **row} for i, row in enumerate(rows)],
    }  # fmt: skip


def test_a_line_goes_through_points_on_a_line_and_tells_what_it_misses() -> None:
    assert scale.line([0, 1, 3], [2.0, 2.5, 3.5]) == {"start": 2.0, "slope": 0.5, "largest_miss": 0.0}
    bent = scale.line([0, 1, 2], [1.0, 2.0, 9.0])
    assert bent["largest_miss"] > 0.2


def test_scale_keeps_the_best_and_the_median_of_a_point() -> None:
    found = scale.point({"prefilled": 10, "prefillMs": 20.0, "decodeMs": [5.0, 3.0, 9.0]})
    assert (found["prefill_ms_a_token"], found["decode_best_ms"], found["decode_median_ms"]) == (2.0, 3.0, 5.0)
    text = scale.as_table(scale_result())
    assert "128 tools are 9000 tokens" in text and "by pairs" in text


def test_many_tools_have_names_of_their_own() -> None:
    names = [tool["name"] for tool in scale.many_tools(40)]
    assert len(set(names)) == 40 and names[:2] == [tool["name"] for tool in scale.many_tools(2)]


def two_ways() -> dict[str, Any]:
    n, m = threads_bench.DECODED, threads_bench.PREFILLED
    ways = [
        {"name": "1", "decodeMs": [2.0 * n, 2.0 * n, 5.0 * n], "prefillMs": [m, m, m], "parts": None},
        {"name": "2", "decodeMs": [1.0 * n, 1.0 * n, 10.0 * n], "prefillMs": [m / 2, m, m], "parts": None},
    ]
    return threads_bench.by_way({"ways": ways})


def test_threads_are_compared_with_one_by_median_and_by_mean() -> None:
    found = two_ways()
    decode, prefill = found["2"]["decode"], found["2"]["prefill"]
    assert (decode["median_ms"], decode["speedup_median"], decode["speedup_mean"]) == (1.0, 2.0, 0.75)
    assert (prefill["speedup_best"], prefill["speedup_median"], prefill["speedup_mean"]) == (2.0, 1.0, 1.2)
    half = {"threads": found, "load": [[0.0], [0.0]]}
    facts = {"cpu": "a cpu", "cores": 2, "load_before": [0.1], "load_after": [0.2], "chromium": "156"}
    text = threads_bench.as_table({"machine": facts, "kernels": "pairs", "quiet": half, "busy": half})
    assert "a busy process a core:" in text and "0.750" in text


def test_plots_are_svg_with_text_and_the_same_every_time(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib comes with: python build.py bench")
    memory = {
        "weights_bytes": 1 << 20, "core_loaded_bytes": 2 << 20, "sessions": [{"tokens": 2048, "core_bytes": 3 << 20}],
    }  # fmt: skip
    figures = {"kernels": kernels.kernel_figures(kernel_times(40.0))}
    rungs = [
        {"depth": depth, "cases": 4, "right": depth, "official_right": 3,
         **{name: {"median": 10.0 * depth} for name in ("prefill_tps", "decode_tps")}}
        for depth in (2, 4)
    ]  # fmt: skip
    for plot, result, text in (
        (scale.plot, scale_result(), "tokens of context"),
        (memory_bench.plot, memory, "session of 2,048"),
        (kernels.plot, figures, "GMAC/s"),
        (speed.plot, result_of(measurements()), "prefilled tokens a second"),
        (threads_bench.plot, {name: {"threads": two_ways()} for name in ("quiet", "busy")}, "2, busy"),
        (ladder.plot, {"rungs": rungs}, "% of the suites right"),
    ):
        first, second = tmp_path / "first.svg", tmp_path / "second.svg"
        plot(result, first)
        plot(result, second)
        drawn = first.read_text(encoding="utf-8")
        assert text in drawn and drawn == second.read_text(encoding="utf-8")


# ---------------------------------------------------------------------------------------------------------------------
# Ladder
# ---------------------------------------------------------------------------------------------------------------------


def test_a_part_of_the_cases_is_spread_over_the_suites() -> None:
    suites = [{"id": name, "cases": [{"n": n} for n in range(8)]} for name in "abc"]
    assert ladder.spread_over(suites, 0) == ladder.spread_over(suites, 24) == ladder.spread_over(suites, 99) == suites
    kept = {suite["id"]: [case["n"] for case in suite["cases"]] for suite in ladder.spread_over(suites, 6)}
    assert kept == {"a": [0, 4], "b": [0, 4], "c": [0, 4]}
    assert [suite["id"] for suite in ladder.spread_over(suites, 2)] == ["a", "b"]


def test_an_answer_is_right_as_the_suites_say() -> None:
    call = {"name": "dim", "arguments": {"room": "Hall", "level": 2.0}}
    want = [{"name": "dim", "arguments": {"level": 2, "room": "hall"}}]
    assert ladder.right({"want": want}, {"function_calls": [call]})
    assert not ladder.right({"want": want}, {"function_calls": [call, call]})
    assert ladder.right({"want": [], "alts": [want]}, {"function_calls": [call]})
    assert ladder.right({"want": []}, {"function_calls": [call], "validation": {"negation": True}})
    assert ladder.right({"want": []}, {})


def test_the_ladder_s_table_has_a_row_a_depth() -> None:
    row = {"depth": 8, "bytes": 16_000_000, "right": 3, "cases": 4, "official_right": 4}
    rates = {"prefill_tps": _common.summary([400.0, 500.0]), "decode_tps": None}
    lines = ladder.as_table({"rungs": [{**row, **rates}]}).splitlines()
    assert lines[-1].split() == ["8", "16.0", "450", "(400-500)", "-", "3", "of", "4", "4"]


def visited(**changes: Any) -> dict[str, Any]:
    requests = [{"seconds": 0.6, "tokens": 40}, {"seconds": 0.9, "tokens": 50}, {"seconds": 0.4, "tokens": 40}]
    return {"ready": 2.0, "declared": 2.5, "answered": 3.0, "requests": requests, **changes}


def test_startup_tells_what_comes_after_ready_and_how_the_first_request_compares() -> None:
    kept = visited(declared=2.05, answered=2.25, prefix_cached=True, snapshot=True)
    fresh = visited(prefix_cached=False, snapshot=True)
    found = startup.figures_of(visited(), fresh, kept)
    assert found["kept_after_ready"] == pytest.approx(0.25) and found["declare"] == pytest.approx(0.5)
    assert found["first_to_tenth"] == pytest.approx(1.5) == pytest.approx(found["first_to_tenth_by_token"])
    assert set(found) == set(startup.FIGURES) >= set(startup.BARS)
    startup.need_what_was_meant(fresh, kept)
    for wrong in ((fresh, {**kept, "prefix_cached": False}), (kept, kept), ({**fresh, "snapshot": False}, kept)):
        with pytest.raises(_common.BenchError):
            startup.need_what_was_meant(*wrong)


def test_the_suites_ratio_is_of_the_sums() -> None:
    rows = [
        {"areole": {"seconds": a, "tokens": 5, "right": True}, "official": {"seconds": b, "tokens": 6, "right": False}}
        for a, b in ((1.0, 1.0), (1.0, 4.0), (1.0, 5.0))
    ]
    found = suites.summed(rows)
    assert (found["ratio"], found["median_of_ratios"]) == (0.3, 0.25)
    assert (found["areole_right"], found["official_right"], found["areole_tokens"]) == (3, 0, 15)
