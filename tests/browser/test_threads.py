"""Threads in the page: chosen where they pay, the same bits and answers, said where they cannot be, ended with it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import goldens
import pytest
from pages import Opener, settled
from servers import in_thread

from areole.core import load_core
from areole.golden import evaluate
from areole.model import Model
from devserver import SiteHandler, SiteServer, serving
from headless import Headless

pytestmark = [pytest.mark.browser, pytest.mark.model]


@pytest.fixture(scope="module")
def isolated(site: Path) -> Iterator[Headless]:
    """The real site with two threads."""
    with Headless(site, isolated=True, query={"threads": "2", "trace": "1"}) as tab:
        yield tab


# ---------------------------------------------------------------------------------------------------------------------
# The choice
# ---------------------------------------------------------------------------------------------------------------------

SIMULATE = """async ({ rhythm, calls, alone, together, change }) => {
  const { Choice, ...rhythms } = await import("./threads.js");
  const choice = new Choice(rhythms[rhythm]);
  const seen = [];
  let spent = 0;
  for (let call = 0; call < calls; call++) {
    const helped = choice.next();
    const ms = call < change.at ? (helped ? together : alone) : helped ? change.together : change.alone;
    choice.took(ms);
    spent += ms;
    seen.push(helped);
  }
  return { seen, spent };
}"""


def simulate(
    tab: Headless,
    calls: int,
    alone: float,
    together: float,
    change: tuple[int, float, float] | None = None,
    rhythm: str = "ONE",
) -> dict[str, Any]:
    at, then_alone, then_together = change or (calls, alone, together)
    given = {"at": at, "alone": then_alone, "together": then_together}
    values = {"rhythm": rhythm, "calls": calls, "alone": alone, "together": together, "change": given}
    answer: dict[str, Any] = tab.evaluate(SIMULATE, values)
    return answer


@pytest.mark.parametrize(("rhythm", "share"), [("ONE", 0.9), ("MANY", 0.75)])
def test_helpers_that_pay_are_kept(isolated: Headless, rhythm: str, share: float) -> None:
    seen = simulate(isolated, 500, alone=2.0, together=1.25, rhythm=rhythm)["seen"]
    assert seen[:4] == [False] * 4
    assert sum(seen) > share * len(seen)


@pytest.mark.parametrize("rhythm", ["ONE", "MANY"])
def test_a_small_loss_is_noticed_too(isolated: Headless, rhythm: str) -> None:
    result = simulate(isolated, 300, alone=2.0, together=1.4, change=(100, 2.0, 2.3), rhythm=rhythm)
    assert sum(result["seen"][100:]) <= 30
    assert sum(result["seen"][:100]) > 70


@pytest.mark.parametrize("together", [2.2, 3.0, 40.0])
def test_helpers_that_cost_are_left_and_tried_rarely(isolated: Headless, together: float) -> None:
    result = simulate(isolated, 1000, alone=2.0, together=together)
    seen = result["seen"]
    assert 0 < sum(seen[:100]) <= 6 and sum(seen[500:]) <= 6
    assert together > 10 or result["spent"] < 1.05 * 1000 * 2.0


def test_helpers_are_dropped_when_they_begin_to_cost(isolated: Headless) -> None:
    seen = simulate(isolated, 400, alone=2.0, together=1.3, change=(200, 2.0, 6.0))["seen"]
    assert sum(seen[150:200]) > 40
    assert sum(seen[200:210]) <= 3 and sum(seen[203:]) <= 9


def test_helpers_come_back_when_they_pay_again(isolated: Headless) -> None:
    seen = simulate(isolated, 800, alone=2.0, together=5.0, change=(300, 2.0, 1.2))["seen"]
    assert sum(seen[:300]) <= 9
    assert sum(seen[600:]) > 150


# ---------------------------------------------------------------------------------------------------------------------
# The page
# ---------------------------------------------------------------------------------------------------------------------


def test_the_page_has_threads_and_the_same_bits(isolated: Headless, data_dir: Path, real_model_path: Path) -> None:
    assert isolated.info["crossOriginIsolated"] is True
    assert isolated.info["flavor"] == "relaxed"
    assert (isolated.info["threads"], isolated.info["notices"]) == (2, [])
    entry = goldens.load(data_dir)["preset/flight"]
    request = {"ids": entry["ids"], "prefix": entry["prefix_tokens"], "positions": []}
    result = isolated.call("golden", request)
    with Model.load(real_model_path, load_core("native")) as model:
        assert evaluate(model, request)["sha256"] == result["sha256"]
    assert isolated.call("stats")["threads"]["threads"] == 2


def test_a_conversation_with_threads_is_the_same(isolated: Headless, open_page: Opener, data_dir: Path) -> None:
    presets = json.loads((data_dir / "presets.json").read_text(encoding="utf-8"))
    home = next(entry for entry in presets if entry["id"] == "preset/home")
    entry = {**{key: home[key] for key in ("id", "system", "tools")}, "turns": [{"text": home["turns"][0]["text"]}]}
    asked = isolated.ask_entry(entry)["turns"][0]
    page = open_page(isolated)
    assert settled(page)["info"]["threads"] == 1
    alone = page.evaluate("(entry) => areole.askEntry(entry)", entry)["turns"][0]
    assert asked["response"]["function_calls"] == alone["response"]["function_calls"]
    assert asked["tokens"] == alone["tokens"]


def test_without_isolation_the_page_says_so_and_works(isolated: Headless, site: Path, open_page: Opener) -> None:
    with serving(site) as server:
        page = open_page(isolated, query="?threads=2", address=server.address)
        info = settled(page)["info"]
        assert info["crossOriginIsolated"] is False and info["threads"] == 1
        (notice,) = info["notices"]
        assert notice["code"] == "threads_unavailable"
        assert "Cross-Origin-Embedder-Policy" in notice["message"]
        assert len(page.evaluate("() => areole.embed('the hall')")) > 100


def test_a_number_of_threads_that_is_none(isolated: Headless, open_page: Opener) -> None:
    for value in ("0", "2.5", "many", "99"):
        error = settled(open_page(isolated, query=f"?threads={value}"))["error"]
        assert error["code"] == "request_option" and "1 to 8" in error["message"]


def test_closing_ends_the_helpers(isolated: Headless, open_page: Opener) -> None:
    page = open_page(isolated, query="?threads=4")
    assert settled(page)["info"]["threads"] == 4
    assert sorted(worker.url.rsplit("/", 1)[1] for worker in page.workers) == [*["helper.js"] * 3, "worker.js"]
    page.evaluate("() => areole.close()")
    deadline = time.monotonic() + float(os.environ.get("AREOLE_PATIENCE", "60"))
    while page.workers and time.monotonic() < deadline:
        page.wait_for_timeout(50)
    assert page.workers == []


class WithoutHelper(SiteHandler):
    def find(self, path: str) -> Path | None:
        return None if path.endswith("/helper.js") else super().find(path)


def test_a_helper_that_cannot_start_leaves_one_thread(isolated: Headless, site: Path, open_page: Opener) -> None:
    with SiteServer(site, isolated=True) as server:
        server.RequestHandlerClass = WithoutHelper
        with in_thread(server):
            page = open_page(isolated, query="?threads=2", address=server.address)
            settled(page)
            assert len(page.evaluate("() => areole.embed('the hall')")) > 100
            state = page.evaluate("async () => (await areole.stats()).threads")
    assert state["threads"] == 1 and state["notice"]["code"] == "threads_unavailable"
