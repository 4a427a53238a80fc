"""Tools in Python in the page, and what the editor says of schemas: the real package, the real model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from keys import Choosers, focused, tab_to, type_over, view
from pages import Opener, settled
from playwright.sync_api import Page, expect

from areole.archive import parse
from headless import Headless

pytestmark = [pytest.mark.browser, pytest.mark.model]

SOURCE = '''
@tool
def stock(item: str) -> dict:
    """How many of an item are in stock.

    Args:
        item: what is counted
    """
    print("counting", item)
    return {"item": item, "left": 41}
'''


@pytest.fixture(scope="module")
def loaded(real: Headless) -> Page:
    return real.page


@pytest.fixture
def page(loaded: Page) -> Iterator[Page]:
    loaded.get_by_role("link", name="Assistant").click()
    fresh = loaded.get_by_role("button", name="New conversation")
    if fresh.is_enabled():
        fresh.click()
    loaded.get_by_role("link", name="Tools", exact=True).click()
    yield loaded


def define(page: Page, source: str) -> None:
    page.get_by_role("textbox", name="Tools in Python").fill(source)
    page.get_by_role("button", name="Run and use").click()


def ask(page: Page, text: str) -> None:
    page.get_by_role("link", name="Assistant").click()
    page.get_by_role("textbox", name="Request").fill(text)
    page.get_by_role("button", name="Ask", exact=True).click()


def test_a_python_tool_runs_and_its_result_is_used_in_the_next_turn(page: Page) -> None:
    define(page, SOURCE)
    expect(page.locator("#python-state")).to_have_text("In use: stock.")
    (tool,) = json.loads(page.locator("#tools").input_value())
    assert tool["name"] == "stock" and tool["parameters"]["properties"]["item"]["description"] == "what is counted"
    page.get_by_role("link", name="Assistant").click()
    page.locator("#trust-editor").evaluate("(details) => { details.open = true; }")
    page.get_by_label("is refused below").fill("0")
    page.get_by_label("A call runs by itself").fill("0")
    ask(page, "how many apples are in stock")
    expect(page.locator(".turn")).to_have_count(2)
    expect(page.locator(".outcome").first).to_contain_text('"left":41')
    expect(page.locator("#stop")).to_be_disabled()
    expect(page.locator(".turn").last).to_have_attribute("data-state", "done")
    expect(page.locator(".turn").last.locator(".told")).to_contain_text('"left": 41')
    expect(page.locator(".turn").last.locator(".answer-text")).to_contain_text("pple")  # its own words
    expect(page.locator("#python-output")).to_contain_text("counting apples")


def test_faults_of_the_source_are_shown_where_they_are(page: Page) -> None:
    define(page, "x = 1\n\n@tool\ndef f(x: bytes): ...\n")
    expect(page.locator("#python-error")).to_contain_text("bytes")
    define(page, "x = 1\nif")
    expect(page.locator("#python-error")).to_contain_text("Line 2: SyntaxError")
    chosen = page.locator("#python").evaluate("(box) => box.value.slice(box.selectionStart, box.selectionEnd)")
    assert chosen == "if"


def test_an_endless_source_is_stopped(page: Page) -> None:
    define(page, SOURCE)
    expect(page.locator("#python-state")).to_have_text("In use: stock.")
    define(page, "while True:\n    pass")
    page.get_by_role("button", name="Stop Python").click()
    expect(page.locator("#python-error")).to_contain_text("It was stopped")
    expect(page.locator("#load")).to_have_attribute("data-state", "ready")
    assert page.evaluate("() => areole.invoke('stock', { item: 'pears' }).then(({ value }) => value.left)") == 41


def test_an_endless_tool_is_stopped_and_the_conversation_goes_on(page: Page) -> None:
    define(page, SOURCE.replace('print("counting", item)', 'while item == "pears": pass'))
    expect(page.locator("#python-state")).to_have_text("In use: stock.")
    ask(page, "how many apples are in stock")
    expect(page.locator(".turn")).to_have_count(2)
    expect(page.locator("#stop")).to_be_disabled()
    ask(page, "how many pears are in stock")
    expect(page.locator(".turn")).to_have_count(3)
    expect(page.locator(".turn").last.locator(".call")).to_contain_text("pears")
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.locator(".outcome").last).to_contain_text("failed: It was stopped")
    expect(page.locator("#load")).to_have_attribute("data-state", "ready")
    ask(page, "how many plums are in stock")
    expect(page.locator(".outcome").last).to_contain_text('"item":"plums"')
    expect(page.locator("#stop")).to_be_disabled()


def test_the_editor_says_what_becomes_of_rules(page: Page) -> None:
    properties = {"level": {"type": "integer", "minimum": 1, "maximum": 5}, "tag": {"type": "string", "not": {}}}
    tools = [{"name": "setLevel", "parameters": {"type": "object", "properties": properties}}, {"name": "fine"}]
    page.locator("#tools").fill(json.dumps(tools))
    expect(page.locator("#report-state")).to_contain_text("1 of 2 tools would be refused.")
    report = page.locator("#report > details").first
    expect(report.locator("summary")).to_have_text("setLevel, which the model sees as set_level")
    expect(report).to_contain_text("Refused under the contract areole")
    expect(report).to_contain_text("The official engine goes on without")
    row = report.locator("tr", has_text="minimum: 1")
    expect(row).to_contain_text("kept while the call is written")
    expect(report.locator("tr[data-support=refused]")).to_contain_text("Say what is allowed instead.")
    del properties["tag"]
    page.locator("#tools").fill(json.dumps(tools))
    expect(page.locator("#report-state")).to_contain_text("All rules can be kept.")
    expect(page.locator("#prompt-text")).to_contain_text('"set_level"')
    page.locator("#tools").fill(json.dumps([{"name": "a", "parameters": 5}, {"name": "b"}, {"name": "b"}]))
    expect(page.locator("#report-state")).to_contain_text("2 of 3 tools would be refused.")
    expect(page.locator("#report")).to_contain_text("a: `parameters` is 5; needed a JSON Schema")
    expect(page.locator("#report")).to_contain_text("Two tools are called b")
    page.locator("#tools").fill(json.dumps([{"name": "a", "description": "word " * 9_000}]))
    expect(page.locator("#report-state")).to_contain_text("None of them can be declared.")
    expect(page.locator("#report-error")).to_contain_text("context_full")


def test_an_archive_is_looked_into(page: Page, data_dir: Path) -> None:
    page.get_by_role("link", name="Workbench").click()
    page.locator("#archive-file").set_input_files(data_dir / "needle3_tiny.cact")
    expect(page.locator("#archive-facts")).to_contain_text("needle3_tiny.cact")
    with_norms = [row.name for row in parse((data_dir / "needle3_tiny.cact").read_bytes()).tensors]
    expect(page.locator("#archive-rows tr")).to_have_count(len(with_norms))
    expect(page.locator("#archive-rows tr").first).to_contain_text(with_norms[0])
    expect(page.locator("#archive-sizes rect")).to_have_count(len(with_norms))
    bad = {"name": "bad.cact", "mimeType": "application/octet-stream", "buffer": b"GGUF" + bytes(400)}
    page.locator("#archive-file").set_input_files(bad)  # type: ignore[arg-type]
    expect(page.locator("#archive-error")).to_contain_text("archive_tag")
    expect(page.locator("#archive-result")).to_be_hidden()


def test_a_shallower_model_answers_too(page: Page) -> None:
    page.get_by_role("link", name="Assistant").click()
    page.get_by_role("button", name="Smart home").click()
    page.get_by_role("link", name="Workbench").click()
    depth = page.get_by_role("slider", name="Blocks of the model that run")
    expect(depth).to_be_enabled()
    layers = int(depth.get_attribute("max") or 0)
    assert layers == 20
    depth.fill("12")
    expect(page.locator("#depth-shown")).to_have_text("12 of 20")
    ask(page, "lock the front door")
    expect(page.locator(".turn").last).to_have_attribute("data-state", "done")
    page.get_by_role("link", name="Workbench").click()
    depth.fill("20")
    expect(page.locator("#depth-shown")).to_have_text("all 20")


def test_python_depth_and_archives_from_the_keyboard_alone(page: Page, data_dir: Path) -> None:
    choosers = Choosers(page)
    tab_to(page, "#python")
    type_over(page, SOURCE)
    tab_to(page, "#python-run")
    page.keyboard.press("Enter")
    expect(page.locator("#python-state")).to_have_text("In use: stock.")
    tab_to(page, "#python", "Shift+Tab")
    type_over(page, "while True:\n    pass")
    tab_to(page, "#python-run")
    page.keyboard.press("Enter")
    expect(page.locator("#python-stop")).to_be_enabled()
    tab_to(page, "#python-stop")
    page.keyboard.press("Enter")
    expect(page.locator("#python-error")).to_contain_text("It was stopped")
    assert focused(page) == "python-run"
    expect(page.locator("#load")).to_have_attribute("data-state", "ready")
    view(page, "workbench")
    tab_to(page, "#depth")
    page.keyboard.press("Home")
    expect(page.locator("#depth-shown")).to_have_text("2 of 20")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    expect(page.locator("#depth-shown")).to_have_text("5 of 20")
    page.keyboard.press("End")
    expect(page.locator("#depth-shown")).to_have_text("all 20")
    tab_to(page, "#archive-file")
    choosers.choose("Space", data_dir / "needle3_tiny.cact")
    expect(page.locator("#archive-facts")).to_contain_text("needle3_tiny.cact")
    tab_to(page, "[aria-label=Tensors]")


def test_python_tools_run_after_a_reload(real: Headless, open_page: Opener) -> None:
    page = open_page(real, query="#toolbox")
    settled(page)
    define(page, SOURCE)
    expect(page.locator("#python-state")).to_have_text("In use: stock.")
    page.get_by_role("textbox", name="Tools in Python").fill("raise ValueError  # typed, and not run")
    page.reload()
    settled(page)
    expect(page.locator("#python-state")).to_have_text("In use: stock.")
    expect(page.locator("#python")).to_have_value("raise ValueError  # typed, and not run")
    ask(page, "how many apples are in stock")
    expect(page.locator(".turn").first).to_have_attribute("data-state", "done")
    run = page.get_by_role("button", name="Run", exact=True)
    expect(run.or_(page.locator(".outcome"))).to_be_visible()  # by itself, if it was sure enough
    if run.is_visible():
        run.click()
    expect(page.locator(".outcome").first).to_contain_text('"left":41')
    page.get_by_role("button", name="Small robot").click()
    expect(page.locator("#python-state")).to_be_empty()


def test_the_page_opens_and_answers_without_a_network(real: Headless, open_page: Opener) -> None:
    page = open_page(real, service_workers="allow")
    settled(page)
    page.get_by_role("link", name="This device").click()
    expect(page.locator("#device-facts")).to_contain_text("works without a network")
    page.context.set_offline(True)
    page.reload()
    info = settled(page)["info"]
    assert info["kept"]["restored"] == info["model"]["bytes"] > 30_000_000
    page.get_by_role("link", name="Assistant").click()
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.locator(".turn").last.locator(".calls")).to_contain_text("lock_door")
