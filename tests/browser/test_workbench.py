"""The workbench on a stand-in site: the inside of an answer, and case files."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pages import Opener, settled
from playwright.sync_api import Page, expect

from headless import Headless

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
import ladder  # noqa: E402

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


def choose_cases(page: Page, text: str) -> None:
    file = {"name": "cases.json", "mimeType": "application/json", "buffer": text.encode()}
    page.locator("#cases-file").set_input_files(file)  # type: ignore[arg-type]


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
    choose_cases(page, json.dumps(entries))
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


BAD_FILES = [("{", "is not JSON"), ("{}", "a list of entries"), ("[]", "a list of entries")]


def test_what_is_no_case_file_is_refused(page: Page) -> None:
    page.get_by_role("link", name="Workbench").click()
    for text, words in BAD_FILES:
        choose_cases(page, text)
        expect(page.locator("#cases-error")).to_contain_text(words)
        expect(page.locator("#cases-result")).to_be_hidden()


BAD_ENTRIES: list[tuple[Any, str, str]] = [
    (7, "entry 1", "an entry is an object"),
    ({"id": "x"}, "x", "an entry is an object with either `turns`"),
    ({"id": "x", "turns": [], "cases": []}, "x", "an entry is an object with either `turns`"),
    ({"id": "x", "turns": "no"}, "x", "`turns` is a list"),
    ({"id": "x", "turns": [{}]}, "x", "turn 1 is not an object with a `text`"),
    ({"id": "x", "cases": "no"}, "x", "`cases` is a list"),
    ({"id": "x", "cases": [5]}, "x 1", "a case is an object"),
    ({"id": "x", "cases": [{"want": []}]}, "x 1", "a case is an object with a `text`"),
    ({"id": "x", "cases": [{"text": "a", "want": [5]}]}, "x 1", "`want` is a list of calls"),
    ({"id": "x", "cases": [{"text": "a", "want": [], "alts": [[{}]]}]}, "x 1", "`alts` is a list of lists"),
    ({"id": "x", "cases": [{"id": "y", "text": "a", "alts": [[]]}]}, "y", "`alts` are alternatives to a `want`"),
]


def test_what_cannot_be_asked_has_failed_and_the_others_are_asked(page: Page) -> None:
    page.get_by_role("link", name="Workbench").click()
    good = {"id": "good", "tools": TOOLS, "cases": [asks([], want=[]), 5, asks([], want=[])]}
    choose_cases(page, json.dumps([*(entry for entry, _, _ in BAD_ENTRIES), good]))
    count = len(BAD_ENTRIES)
    expect(page.locator("#cases-state")).to_contain_text(f"Done: {count + 3} answers")
    expect(page.locator("#cases-summary")).to_contain_text(f"2 of {count + 3}")
    rows = page.locator("#case-rows tr")
    for place, (_, name, words) in enumerate(BAD_ENTRIES):
        row = rows.nth(place)
        expect(row.locator("td").nth(0)).to_have_text("FAIL")
        expect(row.locator("td").nth(1)).to_have_text(f"entry {place + 1}" if name.startswith("entry") else name)
        expect(row.locator("td").nth(3)).to_contain_text(f"request_option: {words}")
    expect(page.locator("#case-rows td:first-child")).to_have_text([*["FAIL"] * count, "pass", "FAIL", "pass"])
    with page.expect_download() as download:
        page.get_by_role("button", name="Save the answers").click()
    saved = json.loads(download.value.path().read_text(encoding="utf-8"))
    assert saved[0]["error"]["code"] == saved[6]["cases"][0]["error"]["code"] == "request_option"
    assert saved[0]["entry"] == 7 and saved[6]["cases"][0]["case"] == 5
    assert saved[-1]["cases"][0]["response"]["function_calls"] == []


def test_alternatives_and_flagged_calls(page: Page) -> None:
    a, b = {"name": "a", "arguments": {"x": "Red", "n": 2.0}}, {"name": "b", "arguments": {}}
    flagged = {"validation": {"ungrounded": ["x"], "negation": False}}
    cases = [
        asks([a, b], want=[], alts=[[b, {"name": "A", "arguments": {"n": 2, "x": "red"}}]], category="loose"),
        asks([a], want=[a, b], alts=[[b], []], category="strict"),
        {"text": "=> " + json.dumps({"calls": [a], **flagged}), "want": [], "category": "strict"},
        {"text": "=> " + json.dumps({"calls": [a], **flagged}), "want": [a], "category": "strict"},
        # What a case wants of a conversation, it wants of its last turn.
        {"turns": [asks([a]), asks([b])], "want": [b]},
        {"turns": [asks([a], want=[]), asks([b], want=[b])]},
    ]
    page.get_by_role("link", name="Workbench").click()
    choose_cases(page, json.dumps([{"id": "suite", "tools": TOOLS, "cases": cases}]))
    expect(page.locator("#cases-state")).to_contain_text("Done: 8 answers")
    verdicts = page.locator("#case-rows td:first-child")
    expect(verdicts).to_have_text(["pass", "FAIL", "pass", "FAIL", "–", "pass", "FAIL", "pass"])
    row = page.locator("#case-rows tr").nth(1)
    expect(row.locator("td").nth(4)).to_have_text('a("Red", 2); b() – or – b() – or – no call')
    expect(page.locator("#case-rows tr").nth(3)).to_contain_text("flagged: a(")
    groups = page.locator("#cases-groups > div")
    expect(groups.locator("dt")).to_have_text(["all", "loose", "strict", "suite"])
    expect(groups.first).to_contain_text("4 passed, 3 failed, 1 not judged")
    expect(groups.nth(2)).to_contain_text("1 passed, 2 failed")
    widths = groups.first.locator("rect").evaluate_all("(all) => all.map((one) => one.width.baseVal.value)")
    assert widths == [pytest.approx(share, abs=0.01) for share in (50, 37.5, 12.5)]


def test_tables_keep_words_whole_and_scroll_where_they_are_too_wide(page: Page) -> None:
    page.get_by_role("link", name="Workbench").click()
    page.get_by_role("button", name="Run the examples").click()
    expect(page.locator("#cases-state")).to_contain_text("Done: 13 answers")
    expect(page.locator("#cases-verdicts")).to_be_hidden()  # nothing was wanted
    for width in (1280, 320):
        page.set_viewport_size({"width": width, "height": 800})
        lines = page.locator(".scroll th:visible").evaluate_all("(all) => all.map((one) => one.clientHeight)")
        assert max(lines) == min(lines) < 40
        names = page.locator("#case-rows td:nth-child(2)").evaluate_all("(all) => all.map((one) => one.clientWidth)")
        assert min(names) > 50
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width


def test_what_is_right_is_right_by_the_rule_of_the_suites(page: Page) -> None:
    """The comparison against that of bench/ladder.py, which is written in Python, on calls that differ in little."""
    draw = random.Random(11)
    values = [1, 2.0, 2, True, None, "Straße", "STRASSE", "Σας", "σασ", "a", "A"]
    values += [[1, "B"], [1.0, "b"], {"k": 1}, {"K": 1}]

    def some_calls() -> list[Any]:
        names = draw.choices(["a", "A", "b"], k=draw.randint(0, 2))
        return [{"name": n, "arguments": {key: draw.choice(values) for key in draw.sample("xy", 2)}} for n in names]

    def slightly(value: Any) -> Any:
        if isinstance(value, str):
            return draw.choice([value, value.upper(), value.casefold()])
        if isinstance(value, list):
            return draw.sample([slightly(item) for item in value], len(value)) if draw.random() < 0.8 else value[1:]
        return {key: slightly(item) for key, item in value.items()} if isinstance(value, dict) else value

    pairs = []
    for _ in range(400):
        calls = some_calls()
        case = {"want": some_calls(), "alts": [some_calls(), slightly(calls)]}
        none = {"ungrounded": [], "negation": False}
        flags = draw.choice([{}, {}, none, {"ungrounded": ["x"]}, {"negation": True}])
        pairs.append((case, {"function_calls": calls, "validation": flags}))
    got = page.evaluate(
        """async (pairs) => {
          const { judge } = await import(new URL("page/workbench/judging.js", document.baseURI).href);
          return pairs.map(([case_, response]) => judge({ response }, case_).pass);
        }""",
        pairs,
    )
    want = [ladder.right(case, response) for case, response in pairs]
    assert got == want
    assert 100 < sum(want) < 350


def test_a_run_is_stopped_and_the_conversation_is_not_disturbed(page: Page) -> None:
    page.get_by_role("textbox", name="Request").fill("one")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.locator(".turn").last).to_have_attribute("data-state", "done")
    page.get_by_role("link", name="Workbench").click()
    choose_cases(page, json.dumps([{"id": "long", "tools": TOOLS, "cases": [asks([]), {"text": "slow"}, asks([])]}]))
    expect(page.locator("#cases-state")).to_contain_text("2 of 3")
    page.get_by_role("button", name="Stop the run").click()
    expect(page.locator("#cases-state")).to_contain_text("Stopped after 1 answers")  # in the middle of the second
    page.get_by_role("button", name="Run the examples").click()
    expect(page.locator("#cases-state")).to_contain_text("Done: 13 answers")
    page.get_by_role("link", name="Assistant").click()
    page.get_by_role("textbox", name="Request").fill("two")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.locator(".turn").last).to_have_attribute("data-state", "done")
    seen = page.evaluate("() => areole.complete('three').then(({ seen }) => seen)")
    assert [turn["said"] for turn in seen["replayed"]] == ["one"]
