"""Every view from the keyboard alone: Tab, Enter, Space, arrows and what is typed, on the stand-in site."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from keys import Choosers, focused, tab_to, type_over, view
from pages import Opener, settled
from playwright.sync_api import Page, expect

from headless import Headless

pytestmark = pytest.mark.browser


@pytest.fixture
def page(quick: Headless, open_page: Opener) -> Iterator[Page]:
    page = open_page(quick, service_workers="allow")
    settled(page)
    yield page


@pytest.fixture
def choosers(page: Page) -> Choosers:
    return Choosers(page)


def ask(page: Page, text: str | dict[str, Any]) -> None:
    """Types a request and sends it; the focus is somewhere before the request."""
    tab_to(page, "#request")
    type_over(page, text if isinstance(text, str) else "=> " + json.dumps(text))
    page.keyboard.press("Tab")
    assert focused(page) == "ask"
    page.keyboard.press("Enter")


def last(page: Page, state: str) -> None:
    expect(page.locator(".turn").last).to_have_attribute("data-state", state)


def test_a_conversation(page: Page) -> None:
    page.keyboard.press("Tab")
    assert focused(page) == "Skip to the request"
    page.keyboard.press("Enter")
    assert focused(page) == "request"
    page.reload()
    settled(page)
    tab_to(page, "[data-preset=robot]")
    page.keyboard.press("Space")
    expect(page.get_by_role("button", name="Small robot")).to_have_attribute("aria-pressed", "true")
    tab_to(page, "#request")
    type_over(page, "slow")
    page.keyboard.press("Control+Enter")
    last(page, "working")
    tab_to(page, "#stop")
    page.keyboard.press("Enter")
    last(page, "stopped")
    assert focused(page) == "ask"  # not lost with the button that cannot be pressed any more
    tab_to(page, "#retry", "Shift+Tab")
    page.keyboard.press("Enter")
    last(page, "working")
    assert focused(page) == "stop"
    page.keyboard.press("Enter")
    last(page, "stopped")
    page.keyboard.press("Shift+Tab")
    type_over(page, "hello")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    last(page, "done")
    assert focused(page) == "ask"
    # A result by hand, then another declined by an error of its own.
    tab_to(page, ".turn:last-child .give summary", "Shift+Tab")
    page.keyboard.press("Enter")
    tab_to(page, "textarea.result")
    type_over(page, "{")
    tab_to(page, ".give button")
    page.keyboard.press("Enter")
    expect(page.locator(".give .fault").last).to_contain_text("Not JSON")
    tab_to(page, "textarea.result", "Shift+Tab")
    type_over(page, "{}")
    tab_to(page, ".give button")
    page.keyboard.press("Enter")
    assert page.evaluate("() => document.activeElement.className") == "turn"
    tab_to(page, ".give summary", "Shift+Tab")
    page.keyboard.press("Space")
    tab_to(page, ".give button")
    page.keyboard.press("Enter")
    expect(page.locator(".turn").last.locator(".answer-text")).to_contain_text("told")
    tab_to(page, "#new-conversation", "Shift+Tab")
    page.keyboard.press("Enter")
    expect(page.locator(".turn")).to_have_count(0)
    assert focused(page) == "request"


def test_calls_are_confirmed_and_thresholds_are_moved(page: Page) -> None:
    tab_to(page, '[data-preset="demo"]')
    page.keyboard.press("Enter")
    note = {"name": "add_note", "arguments": {"text": "from the keyboard"}}
    task = {"name": "add_task", "arguments": {"task": "water the plants"}}
    ask(page, {"calls": [note, task], "confidence": 0.4})
    last(page, "done")
    tab_to(page, ".turn:last-child .call:last-child .actions button:last-child", "Shift+Tab")
    assert focused(page) == "Don't"
    page.keyboard.press("Enter")
    expect(page.locator(".outcome")).to_have_text("not run")
    tab_to(page, ".call .primary")
    page.keyboard.press("Enter")
    expect(page.locator("#demo-notes")).to_contain_text("from the keyboard")
    expect(page.locator(".turn")).to_have_count(2)
    last(page, "done")
    tab_to(page, "#trust-editor summary")
    page.keyboard.press("Enter")
    tab_to(page, "#act-from")
    for _ in range(11):
        page.keyboard.press("ArrowLeft")
    expect(page.locator("#act-shown")).to_have_text("39 %")
    tab_to(page, "#rules-editor summary")
    page.keyboard.press("Enter")
    tab_to(page, "#contract")
    page.keyboard.press("ArrowDown")
    expect(page.locator("#contract-note")).to_contain_text("official engine")
    ask(page, {"calls": [task], "confidence": 0.4})  # sure enough now
    expect(page.get_by_role("checkbox", name="water the plants")).to_be_visible()
    last(page, "done")
    tab_to(page, "#demo-tasks input")
    page.keyboard.press("Space")
    expect(page.get_by_role("checkbox", name="water the plants")).to_be_checked()
    assert page.evaluate("() => document.activeElement.type") == "checkbox"  # made anew, and still where one was
    tab_to(page, ".turn:first-child .thoughts summary", "Shift+Tab")
    page.keyboard.press("Enter")
    expect(page.locator(".turn").first.locator(".reasoning")).to_be_hidden()
    page.evaluate("() => Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    tab_to(page, ".turn:first-child .actions.small button")
    page.keyboard.press("Enter")
    expect(page.locator("#copy-text")).to_contain_text("function_calls")
    page.keyboard.press("Escape")
    expect(page.locator("#copy-by-hand")).to_be_hidden()
    assert focused(page) == "Copy JSON"
    with page.expect_download():
        tab_to(page, "#export", "Shift+Tab")
        page.keyboard.press("Enter")


def test_tools_are_designed(page: Page, choosers: Choosers) -> None:
    view(page, "toolbox")
    tab_to(page, "#domains button")
    page.keyboard.press("Enter")
    field = page.locator("#domains button").first
    expect(field).to_have_attribute("aria-pressed", "true")
    tab_to(page, "#tools")
    type_over(page, '[{"name": "water", "parameters": {"type": "obj')
    expect(page.locator("#tools-error")).to_contain_text("Line 1")
    expect(page.locator("#report-state")).to_contain_text("The list cannot be read")
    page.keyboard.press("ControlOrMeta+End")
    page.keyboard.type('ect", "properties": {"litres": {"type": "integer"}}}}]')
    expect(page.locator("#tools-error")).to_be_empty()
    page.keyboard.press("Tab")  # the field does not keep the Tab key
    assert focused(page) != "tools"
    expect(page.locator("#report")).to_contain_text("water")
    expect(page.locator("#report-state")).to_contain_text("All rules can be kept")
    tab_to(page, "#import")
    type_over(page, json.dumps({"tools": [{"name": "from_mcp", "inputSchema": {"type": "object"}}]}))
    tab_to(page, "#import-use")
    page.keyboard.press("Enter")
    expect(page.locator("#import-notes")).to_contain_text("1 tool in use")
    tab_to(page, "#import-file")
    file = {"name": "tools.json", "mimeType": "application/json", "buffer": b'[{"name": "from_file"}]'}
    choosers.choose("Enter", file)
    expect(page.locator("#tools")).to_have_value('[{"name": "from_file"}]')
    tab_to(page, "#javascript")
    type_over(page, "export default [{ name: 'two', run: () => 2 }];")
    tab_to(page, "#javascript-run")
    page.keyboard.press("Enter")
    expect(page.locator("#javascript-state")).to_have_text("In use: two.")
    view(page, "assistant")
    ask(page, {"calls": [{"name": "two", "arguments": {}}], "confidence": 0.9})
    expect(page.locator(".outcome").first).to_have_text("2")


def test_an_answer_is_looked_into_and_cases_are_run(page: Page, choosers: Choosers) -> None:
    ask(page, "hello")
    last(page, "done")
    tab_to(page, ".turn:last-child .actions.small button:last-child", "Shift+Tab")
    assert focused(page) == "Look inside"
    page.keyboard.press("Enter")
    expect(page.locator("#inside")).to_be_visible()
    assert focused(page) == "workbench"  # what had the focus is hidden
    tab_to(page, "#inside summary")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_role("region", name="Tokens of the answer")).to_be_focused()
    tab_to(page, "#prefix summary")
    page.keyboard.press("Enter")
    expect(page.locator("#prefix-text")).to_contain_text("set_lights")
    tab_to(page, "#cases-file")
    entries = [{"id": "two", "tools": [], "cases": [{"text": "none", "want": []}, {"text": "slow"}]}]
    file = {"name": "cases.json", "mimeType": "application/json", "buffer": json.dumps(entries).encode()}
    choosers.choose("Enter", file)
    expect(page.locator("#cases-state")).to_contain_text("2 of 2")
    assert focused(page) == "cases-stop"
    page.keyboard.press("Enter")
    expect(page.locator("#cases-state")).to_contain_text("Stopped after 1 answers")
    assert focused(page) == "cases-examples"
    page.keyboard.press("Enter")
    expect(page.locator("#cases-state")).to_contain_text("Done: 13 answers")
    assert focused(page) == "cases-examples"
    tab_to(page, "#cases-save")
    with page.expect_download():
        page.keyboard.press("Enter")
    tab_to(page, "[aria-label=Cases]")
    before = page.evaluate("() => document.activeElement.scrollTop")
    for _ in range(5):
        page.keyboard.press("ArrowDown")
    page.wait_for_function("(before) => document.activeElement.scrollTop > before", arg=before)


def test_everything_is_removed(page: Page) -> None:
    view(page, "device")
    expect(page.locator("#device-facts")).to_contain_text("works without a network")
    tab_to(page, "#remove")
    page.keyboard.press("Enter")
    assert focused(page) == "Keep"
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_hidden()
    assert focused(page) == "remove"
    assert page.evaluate("() => caches.keys().then((names) => names.length)") > 0
    page.keyboard.press("Enter")
    tab_to(page, "dialog button.danger", "Shift+Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#device-result")).to_contain_text("Everything was removed")
    assert page.evaluate("() => caches.keys()") == []
