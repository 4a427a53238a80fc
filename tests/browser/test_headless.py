"""The Chromium driver against small stand-in pages: answers, errors with codes, limits of time, a run that goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headless import Headless, HeadlessError, HeadlessTimeout, ask_all

pytestmark = pytest.mark.browser

PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>stand-in</title>
<link rel="icon" href="data:,"><script type="module" src="app.js"></script></head><body></body></html>
"""
SCRIPT = """
const query = new URLSearchParams(location.search);
const fault = Object.assign(new Error("no tools"), { code: "tools_json", details: { line: 3 } });
window.areole = {
  get ready() {
    if (query.get("load") === "never") return new Promise(() => {});
    if (query.get("load") === "fails") return Promise.reject(fault);
    return Promise.resolve({ core: query.get("core") });
  },
  async askEntry(entry) {
    for (const one of entry.cases ?? [entry]) {
      for (const turn of one.turns ?? [one]) {
        if (turn.text === "hang") for (;;) ;
        if (turn.text === "never") await new Promise(() => {});
        if (turn.text === "throw") throw fault;
        if (turn.text === "complain") console.error("a complaint");
        if (turn.text === "fail") turn.error = { code: "call_unparsable", message: "not JSON" };
        else Object.assign(turn, { response: { text: turn.text }, tokens: turn.text.length, timings: {} });
      }
    }
    return { ...entry, prefix_tokens: 11 };
  },
};
"""


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    site = tmp_path_factory.mktemp("site")
    (site / "index.html").write_text(PAGE, encoding="utf-8")
    (site / "app.js").write_text(SCRIPT, encoding="utf-8")
    return site


def test_values_go_in_and_come_out_whole(stand_in: Path) -> None:
    text = "</script>${1}`'\"\\\u2028\u0000 \U0001f335"
    with Headless(stand_in, core="simd128") as tab:
        assert tab.info == {"core": "simd128"}
        entry = tab.ask_entry({"id": "e", "tools": "[not json", "turns": [{"text": text}]})
        assert entry["turns"][0]["response"] == {"text": text} and entry["prefix_tokens"] == 11
        assert tab.evaluate("([a, b]) => a + b", [2, 3]) == 5
        assert tab.console_errors == []
        assert all(url.startswith((tab.server.address, "data:")) for url in tab.requests)
        tab.ask_entry({"turns": [{"text": "complain"}]})
        assert len(tab.console_errors) == 1 and "a complaint" in tab.console_errors[0]
        with pytest.raises(HeadlessError, match="no tools") as caught:
            tab.ask_entry({"turns": [{"text": "throw"}]})
        assert caught.value.to_json() == {"code": "tools_json", "message": caught.value.message, "details": {"line": 3}}
        with pytest.raises(HeadlessError, match="has no nothing"):
            tab.call("nothing")


def test_a_run_goes_on_after_errors_and_hung_pages(stand_in: Path) -> None:
    entries: list[dict[str, Any]] = [
        {"id": "first", "tools": [], "turns": [{"text": "ok"}]},
        {"id": "many", "tools": [], "cases": [{"text": t} for t in ("a", "throw", "fail", "never", "bb")]},
        {"id": "busy", "tools": [], "turns": [{"text": "hang"}]},
        {"id": "last", "tools": [], "cases": [{"turns": [{"text": "x"}, {"text": "yy"}]}]},
    ]
    complaints: list[str] = []
    with Headless(stand_in) as tab:
        ask = tab.ask_entry
        tab.ask_entry = lambda entry, _=None: ask(entry, seconds=3.0)  # type: ignore[method-assign]
        assert ask_all(tab, entries, complain=complaints.append) is entries
    assert entries[0]["turns"][0]["tokens"] == 2 and entries[0]["prefix_tokens"] == 11
    many = entries[1]["cases"]
    assert [case.get("tokens") for case in many] == [1, None, None, None, 2]
    codes = [case["error"]["code"] for case in many if "error" in case]
    assert codes == ["tools_json", "call_unparsable", "headless_timeout"]
    assert entries[2]["error"]["code"] == "headless_timeout"
    assert [turn["tokens"] for turn in entries[3]["cases"][0]["turns"]] == [1, 2]
    assert len(complaints) == 4 and "no answer within 3 s" in complaints[-1]


@pytest.mark.parametrize(
    ("load", "kind", "message"),
    [("never", HeadlessTimeout, "no answer within 2 s"), ("fails", HeadlessError, "no tools")],
)
def test_a_page_that_does_not_get_ready(stand_in: Path, load: str, kind: type[HeadlessError], message: str) -> None:
    with pytest.raises(kind, match=message), Headless(stand_in, query={"load": load}, load_seconds=2.0):
        pass


def test_a_site_that_is_not_there_and_a_browser_that_is_not(tmp_path: Path, stand_in: Path) -> None:
    with pytest.raises(HeadlessError, match="no window.areole"), Headless(tmp_path):
        pass
    with pytest.raises(HeadlessError, match="cannot start"), Headless(stand_in, chromium=str(tmp_path / "none")):
        pass


def test_as_a_program(stand_in: Path, tmp_path: Path) -> None:
    cases, out = tmp_path / "cases.json", tmp_path / "out.json"
    cases.write_text(json.dumps([{"id": "e", "tools": [], "turns": [{"text": "ä"}, {"text": "fail"}]}]))
    script = Path(__file__).resolve().parents[2] / "web" / "headless.py"
    done = subprocess.run(
        [sys.executable, str(script), str(stand_in), "--entries", str(cases), "--out", str(out)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and done.stdout == "", done.stderr
    assert "e, case 1 of 1: not JSON" in done.stderr
    (entry,) = json.loads(out.read_text(encoding="utf-8"))
    assert entry["turns"][0]["response"] == {"text": "ä"} and entry["turns"][1]["error"]["code"] == "call_unparsable"
