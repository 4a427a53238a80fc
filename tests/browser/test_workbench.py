"""The workbench on a stand-in site: the inside of an answer, and case files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pages import Opener, settled
from playwright.sync_api import Page, expect

from headless import Headless

pytestmark = pytest.mark.browser


@pytest.fixture
def page(quick: Headless, open_page: Opener) -> Iterator[Page]:
    page = open_page(quick)
    settled(page)
    yield page


def test_the_inside_of_an_answer(page: Page) -> None:
    page.get_by_role("link", name="Workbench").click()
    expect(page.locator("#inside-empty")).to_be_visible()
    page.get_by_role("link", name="Assistant").click()
    page.get_by_role("button", name="Ask", exact=True).click()
    turn = page.locator(".turn").last
    expect(turn).to_have_attribute("data-state", "done")
    turn.get_by_role("button", name="Look inside").click()
    expect(page.locator("#workbench")).to_be_visible()
    tokens = page.locator("#tokens .token")
    count = tokens.count()
    assert count == page.locator("#token-rows tr").count() > 10
    forced = page.locator("#tokens .token[data-forced]").count()
    expect(page.locator("#inside-counts")).to_contain_text(f"{count} tokens: {forced} forced")
    assert 0 < forced < count
    row = page.locator("#token-rows tr").first
    expect(row).to_contain_text("75.0 %")
    expect(row).to_contain_text("␣other")
    expect(row).to_contain_text("20.0 %")
    # prefill 200 ms, decode 100 ms of which the grammar took 30, gates 10
    expect(page.locator("#time-rows")).to_contain_text("200 ms, 64.5 %")
    expect(page.locator("#time-rows")).to_contain_text("70 ms")
    widths = page.locator("#time-chart rect").evaluate_all("(all) => all.map((one) => one.width.baseVal.value)")
    assert sum(widths) == pytest.approx(100, abs=0.01) and widths[0] == pytest.approx(64.52, abs=0.1)
    page.locator("#prefix > summary").click()
    expect(page.locator("#prefix-text")).to_contain_text("set_lights")


TOOLS = [{"name": "a"}, {"name": "b"}]


def asks(calls: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {"text": "=> " + json.dumps({"calls": calls}), **more}


def test_a_case_file_is_run_judged_and_plotted(page: Page) -> None:
    call = {"name": "a", "arguments": {"x": 1, "y": [True]}}
    entries = [
        {
            "id": "suite",
            "system": "",
            "tools": TOOLS,
            "cases": [
                asks([call], want=[{"name": "a", "arguments": {"y": [True], "x": 1}}]),  # whatever the order of keys
                asks([call], want=[]),
                {"text": "full", "want": []},
                asks([], want=[]),
            ],
        },
        {"id": "talk", "system": "", "tools": TOOLS, "turns": [asks([call]), {"text": "hello"}]},
    ]
    page.get_by_role("link", name="Workbench").click()
    file = {"name": "cases.json", "mimeType": "application/json", "buffer": json.dumps(entries).encode()}
    page.locator("#cases-file").set_input_files(file)  # type: ignore[arg-type]
    expect(page.locator("#cases-state")).to_contain_text("Done: 6 answers")
    expect(page.locator("#cases-summary")).to_contain_text("2 of 4")
    verdicts = page.locator("#case-rows td:first-child")
    expect(verdicts).to_have_text(["pass", "FAIL", "FAIL", "pass", "–", "–"])
    expect(page.locator("#case-rows tr").nth(2)).to_contain_text("context_full")
    expect(page.locator("#cases-chart rect")).to_have_count(6)
    expect(page.locator("#cases-chart rect.part-bad")).to_have_count(2)
    with page.expect_download() as download:
        page.get_by_role("button", name="Save the answers").click()
    saved = json.loads(download.value.path().read_text(encoding="utf-8"))
    assert saved[0]["cases"][0]["response"]["function_calls"] == [call]


@pytest.mark.parametrize(("text", "words"), [("{", "is not JSON"), ("{}", "a list of entries"), ("[7]", "a list of")])
def test_what_is_no_case_file_is_refused(text: str, words: str, page: Page) -> None:
    page.get_by_role("link", name="Workbench").click()
    file = {"name": "cases.json", "mimeType": "application/json", "buffer": text.encode()}
    page.locator("#cases-file").set_input_files(file)  # type: ignore[arg-type]
    expect(page.locator("#cases-error")).to_contain_text(words)


def test_a_run_is_stopped_and_the_conversation_is_not_disturbed(page: Page) -> None:
    page.get_by_role("textbox", name="Request").fill("one")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.locator(".turn").last).to_have_attribute("data-state", "done")
    page.get_by_role("link", name="Workbench").click()
    page.get_by_role("button", name="Run the examples").click()
    page.get_by_role("button", name="Stop the run").click()
    expect(page.locator("#cases-state")).to_contain_text("Stopped after")
    page.get_by_role("link", name="Assistant").click()
    page.get_by_role("textbox", name="Request").fill("two")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.locator(".turn").last).to_have_attribute("data-state", "done")
    seen = page.evaluate("() => areole.complete('three').then(({ seen }) => seen)")
    assert [turn["said"] for turn in seen["replayed"]] == ["one"]
