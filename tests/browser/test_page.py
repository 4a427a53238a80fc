"""The page: what is seen, said, typed and reached by keyboard, on the stand-in site."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pages import Opener, settled
from playwright.sync_api import Locator, Page, expect

from headless import Headless

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def axe_source() -> str:
    modules = os.environ.get("AREOLE_NODE_MODULES")
    if not modules:
        pytest.fail("AREOLE_NODE_MODULES does not say where axe-core is: run the tests with python build.py test")
    return Path(modules, "axe-core", "axe.min.js").read_text(encoding="utf-8")


@pytest.fixture
def page(quick: Headless) -> Iterator[Page]:
    """The loaded page as a visitor meets it, the first example chosen."""
    quick.console_errors.clear()
    view = quick.page
    view.emulate_media(color_scheme="light", reduced_motion="no-preference")
    view.set_viewport_size({"width": 1280, "height": 800})
    view.get_by_role("link", name="Assistant").click()
    view.get_by_role("button", name="Smart home").click()
    fresh = view.get_by_role("button", name="New conversation")
    if fresh.is_enabled():
        fresh.click()
    view.locator("#contract").evaluate(
        "(choice) => { choice.value = 'areole'; choice.dispatchEvent(new Event('change')); }"
    )
    for editor in ("#trust-editor", "#facts-editor", "#rules-editor"):
        view.locator(editor).evaluate("(details) => { details.open = false; }")
    yield view
    assert quick.console_errors == []


def request_box(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Request")


def ask(page: Page, text: str) -> None:
    request_box(page).fill(text)
    page.get_by_role("button", name="Ask", exact=True).click()


def last(page: Page) -> Locator:
    """The last turn of the conversation."""
    return page.locator(".turn").last


def calls(page: Page) -> Locator:
    return last(page).get_by_role("list", name="Calls").get_by_role("listitem")


def test_presets_fill_the_fields(page: Page, quick: Headless) -> None:
    presets = json.loads((quick.site / "presets.json").read_text(encoding="utf-8"))
    assert len(presets) == 13
    buttons = page.locator("#presets button")
    expect(buttons).to_have_count(14)  # and the demo
    for index, preset in enumerate(presets):
        assert set(preset) == {"id", "title", "note", "system", "text", "tools"}  # no answers
        buttons.nth(index).click()
        expect(buttons.nth(index)).to_have_attribute("aria-pressed", "true")
        expect(page.locator(".presets [aria-pressed=true]")).to_have_count(1)
        expect(request_box(page)).to_have_value(preset["text"])
        assert json.loads(page.locator("#tools").input_value()) == preset["tools"]
        expect(page.locator("#tool-list > li")).to_have_count(len(preset["tools"]))


def test_an_answer_is_shown_as_calls_figures_and_json(page: Page) -> None:
    ask(page, "dim the lights")
    expect(calls(page)).to_have_count(2)
    expect(calls(page).first).to_contain_text("set_lights")
    expect(calls(page).first).to_contain_text("bedroom")
    expect(page.locator(".call.withheld")).to_have_count(0)
    expect(last(page).locator(".reasoning")).to_have_text("because the words say so")
    expect(last(page).locator(".figures")).to_contain_text("243 tokens/s")
    expect(last(page).locator(".figures")).to_contain_text("90 %")
    last(page).get_by_text("Answer as JSON").first.click()
    envelope = json.loads(last(page).locator(".envelope").inner_text())
    assert list(envelope)[:4] == ["type", "success", "error", "error_code"]
    expect(page.get_by_role("status")).to_have_text("2 calls: set_lights, set_thermostat.")
    last(page).get_by_text("Answer as JSON").first.click()


def test_text_streams_outside_live_regions(page: Page) -> None:
    ask(page, "slow")
    page.wait_for_function("() => document.querySelector('.turn:last-child .reasoning').textContent.includes('word30')")
    inside = "[aria-live] .reasoning, [role=status] .reasoning, [role=alert] .reasoning, [aria-live] .writing"
    assert page.locator(inside).count() == 0
    expect(page.get_by_role("status")).to_have_text("Working on the request.")
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("status")).to_have_text("Stopped.")
    expect(page.get_by_role("button", name="Stop")).to_be_disabled()
    ask(page, "hello")
    expect(calls(page)).to_have_count(2)


def test_what_the_model_or_a_user_writes_is_never_markup(page: Page) -> None:
    ask(page, "markup")
    expect(last(page).locator(".calls")).to_contain_text("<img src=x")
    expect(last(page).locator(".reasoning")).to_contain_text("<b>bold</b>")
    assert page.locator(".turn img, .turn b").count() == 0
    name = "<img src=x onerror=\"document.title='owned'\">"
    page.get_by_role("link", name="Tools", exact=True).click()
    tool = {"name": name, "description": name, "parameters": {"properties": {name: {}}}}
    page.locator("#tools").fill(json.dumps([tool]))
    page.get_by_role("link", name="Assistant").click()
    expect(page.locator("#tool-list")).to_contain_text(name)
    assert page.locator("#tool-list img").count() == 0
    assert "owned" not in page.title()


def test_no_call_and_an_unusable_answer_are_told_apart(page: Page) -> None:
    ask(page, "none")
    expect(last(page).locator(".answer-text")).to_have_text("No call: none of the tools fits this request.")
    ask(page, "unparsable")
    alert = last(page).locator(".fault").first
    expect(alert).to_contain_text("The model wrote no valid call.")
    expect(alert).to_contain_text("call_unparsable")
    expect(last(page).locator(".writing")).to_be_visible()


def test_what_was_withheld_is_shown_with_its_reason(page: Page) -> None:
    ask(page, "withhold")
    held = last(page).locator(".call.withheld")
    expect(held).to_contain_text("lock")
    expect(held).to_contain_text("<b>front</b>")
    reasons = last(page).get_by_role("list", name="What the rules withheld or changed").get_by_role("listitem")
    expect(reasons).to_have_count(1)
    expect(reasons).to_contain_text("lock.door: the request <i>forbids</i> it")
    expect(reasons).to_contain_text("negation")
    assert page.locator(".turn i, .turn b").count() == 0
    expect(page.get_by_role("status")).to_contain_text("Withheld: lock.")
    ask(page, "hello")
    expect(held).to_have_count(0)
    expect(last(page).locator(".reasons")).to_have_count(0)


def test_the_contract_is_chosen_in_the_page(page: Page, quick: Headless, open_page: Opener) -> None:
    choice = page.locator("#contract")
    expect(choice).to_have_value("areole")
    page.locator("#rules-editor").evaluate("(details) => { details.open = true; }")
    choice.select_option("raw")
    expect(page.locator("#contract-note")).to_have_text("What the model writes, unchecked.")
    ask(page, "hello")
    expect(last(page).locator(".envelope")).to_contain_text('"contract": "raw"')
    choice.select_option("areole")
    ask(page, "hello")
    expect(last(page).locator(".envelope")).to_contain_text('"contract": "areole"')
    other = open_page(quick, query="?contract=needle")
    expect(other.locator("#contract")).to_have_value("needle")


def test_errors_are_alerts_and_the_next_request_works(page: Page) -> None:
    alert = last(page).locator(".fault").first
    ask(page, "full")
    expect(alert).to_have_attribute("role", "alert")
    expect(alert).to_contain_text("9 tokens needed, 3 free")
    ask(page, "crash")
    expect(alert).to_contain_text("planted fault")
    ask(page, "hello")
    expect(calls(page)).to_have_count(2)
    expect(alert).to_be_empty()


def test_an_empty_request_is_refused_where_it_is_written(page: Page) -> None:
    ask(page, "  ")
    expect(page.locator("#request-error")).to_have_text("Write a request first.")
    expect(request_box(page)).to_be_focused()
    ask(page, "hello")
    expect(page.locator("#request-error")).to_be_empty()


BAD_TOOLS: list[tuple[str, str]] = [
    ('[\n  {"name": "a",}\n]', "Line 2, column 16: Expected a name in double quotes; found “}”."),
    ('[{"name": "a"}', "Line 1, column 15: Expected a comma or ]; the text ends."),
    ("[{\"name\": 'a'}]", "Line 1, column 11: Expected a value; found “'”."),
    ('[{"name" "a"}]', 'Line 1, column 10: Expected a colon after the name; found “"”.'),
    ('[{"name": "a}]', "Line 1, column 11: A string has no closing quote."),
    ('[{"name": "a\\q"}]', "Line 1, column 13: A string holds a backslash"),
    ('[{"name": "a"}] x', "Line 1, column 17: Expected nothing more after the list"),
    ('[{"name": "a", "n": 01}]', "Line 1, column 21: Expected a value"),
    ("", "Line 1, column 1: Expected a value; the text ends."),
    ('{"name": "a"}', "Line 1, column 1: The tools are a list"),
    ('[{"name": "a"},\n 7]', "Line 2, column 2: Tool 2 is not an object"),
    ('[{"name": "a"},\n\n  {"description": "b"}]', "Line 3, column 3: Tool 2 has no name"),
    ('[{"type": "function", "function": {"name": ""}}]', "Line 1, column 2: Tool 1 has no name"),
    ("[" * 300, "Line 1, column 258: Nested more than 256 deep."),
]


@pytest.mark.parametrize(("text", "message"), BAD_TOOLS)
def test_faulty_tools_are_told_by_place_and_not_sent(text: str, message: str, page: Page) -> None:
    page.get_by_role("link", name="Tools", exact=True).click()
    page.locator("#tools").fill(text)
    page.get_by_role("link", name="Assistant").click()
    ask(page, "hello")
    expect(page.locator("#request-error")).to_have_text("The tools cannot be read; mend them first.")
    expect(page.locator("#tools-error")).to_contain_text(message)
    field = page.locator("#tools")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(field).to_be_focused()
    described = field.get_attribute("aria-describedby") or ""
    assert "tools-error" in described.split()
    expect(page.locator("#stop")).to_be_disabled()  # nothing was sent
    field.fill('[{"name": "mended"}]')
    expect(page.locator("#tools-error")).to_be_empty()  # told while typing, without a new request
    page.get_by_role("link", name="Assistant").click()
    ask(page, "hello")
    expect(last(page).get_by_role("list", name="Calls")).to_contain_text("mended")


def test_every_json_text_is_judged_as_json_parse_does(page: Page) -> None:
    """The editor's own scanner, that knows places, against the browser's parser, that knows JSON."""
    texts = [
        "[]",
        " [ ] ",
        "[1e5]",
        "[-0.5E-7]",
        "[+1]",
        "[.5]",
        "[1.]",
        "[0x1]",
        "[true,false,null]",
        "[nul]",
        "[nulll]",
        "[1,]",
        "[,1]",
        '["\\u00e9\\ud83d"]',
        '["\\u00g9"]',
        '["\t"]',
        '["\\/"]',
        "[\u00a01]",
        "[\ufeff1]",
        "\ufeff[]",
        "[[[]]]",
        "[[]",
        '[{"a":{"b":[1,{"c":null}]}}]',
        '[{"a"}]',
        "[{1:2}]",
        "[NaN]",
        "[1 2]",
        '["a" "b"]',
        '["\u2028"]',
        "[-]",
        "[1e]",
        "[1-2]",
    ]
    verdicts = page.evaluate(
        """async (texts) => {
          const { readTools } = await import("./tools.js");
          const shape = /is not an object|has no name|are a list/;
          return texts.map((text) => {
            let parses = true;
            try { JSON.parse(text); } catch { parses = false; }
            const { fault } = readTools(text);
            return [text, parses, fault === null || shape.test(fault.message)];
          });
        }""",
        texts,
    )
    assert [row for row in verdicts if row[1] != row[2]] == []
    assert {row[1] for row in verdicts} == {True, False}


def test_facts_reach_the_model(page: Page, quick: Headless) -> None:
    page.locator("#facts-editor > summary").click()
    page.get_by_label("System facts").fill("location: Paris")
    request_box(page).focus()
    ask(page, "hello")
    expect(last(page)).to_have_attribute("data-state", "done")
    assert quick.call("complete", "hello")["seen"]["system"] == "location: Paris"


def test_landmarks_headings_and_labels(page: Page) -> None:
    for role in ("banner", "main", "contentinfo"):
        expect(page.get_by_role(role)).to_have_count(1)  # type: ignore[arg-type]
    levels = page.evaluate("() => [...document.querySelectorAll('h1,h2,h3')].map((h) => Number(h.tagName[1]))")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in zip(levels, levels[1:], strict=False))
    for editor in ("#trust-editor", "#facts-editor", "#rules-editor"):
        page.locator(f"{editor} > summary").click()
    for label in ("Request", "System facts"):
        expect(page.get_by_role("textbox", name=label, exact=True)).to_have_count(1)


def axe_faults(page: Page, axe_source: str) -> list[Any]:
    """What axe finds, each as (rule, elements)."""
    if page.evaluate("() => typeof axe") == "undefined":
        page.evaluate(axe_source)  # the debugger's own evaluation, which the page's policy does not bind
    found = page.evaluate("() => axe.run(document, { resultTypes: ['violations'] })")
    return [(fault["id"], [node["target"] for node in fault["nodes"]]) for fault in found["violations"]]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_axe_finds_nothing(scheme: Any, width: int, page: Page, axe_source: str) -> None:
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    page.set_viewport_size({"width": width, "height": 800})
    assert axe_faults(page, axe_source) == []
    ask(page, "slow")
    page.wait_for_function("() => document.querySelector('.turn:last-child .reasoning').textContent.includes('word30')")
    assert axe_faults(page, axe_source) == []
    # By their events: a pointer would first have to find them clear of the composer, which is not what is tested here.
    page.get_by_role("button", name="Stop").dispatch_event("click")
    ask(page, "hello")
    expect(last(page)).to_have_attribute("data-state", "done")
    for summary in page.locator(".turn summary:visible, .tools summary:visible").all():
        summary.dispatch_event("click")
    assert axe_faults(page, axe_source) == []
    page.get_by_role("link", name="Tools", exact=True).click()
    page.locator("#tools").fill("[")
    expect(page.locator("#tools-error")).not_to_be_empty()
    assert axe_faults(page, axe_source) == []
    page.get_by_role("link", name="Assistant").click()
    ask(page, "  ")
    assert axe_faults(page, axe_source) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_any_view(scheme: Any, page: Page, axe_source: str) -> None:
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    names = page.locator("#views a").all_inner_texts()
    assert len(names) >= 3
    for width in (1280, 320):
        page.set_viewport_size({"width": width, "height": 800})
        for name in names:
            page.get_by_role("navigation", name="Views").get_by_role("link", name=name).click()
            expect(page.locator(".view:not([hidden])")).to_have_count(1)
            assert axe_faults(page, axe_source) == [], name
            assert page.evaluate("() => document.documentElement.scrollWidth") <= width, name


def test_axe_finds_the_faults_that_are_there(page: Page, axe_source: str) -> None:
    """That the check above can fail: a button without a name, text without contrast."""
    page.evaluate(
        """() => {
          document.querySelector("#ask").textContent = "";
          document.querySelector("#log-empty").style.color = "#eee";
        }"""
    )
    try:
        assert {rule for rule, _ in axe_faults(page, axe_source)} == {"button-name", "color-contrast"}
    finally:
        page.evaluate(
            """() => {
              document.querySelector("#ask").textContent = "Ask";
              document.querySelector("#log-empty").style.color = "";
            }"""
        )


def test_axe_finds_nothing_while_loading_and_after_it_failed(
    quick: Headless, open_page: Opener, axe_source: str
) -> None:
    def empty_weights(page: Page) -> None:
        page.route("**/model/*", lambda route: route.fulfill(body=b""))
        page.route("**/pyodide.asm.wasm", lambda route: None)

    page = open_page(quick, before=empty_weights)
    assert "error" in settled(page)
    expect(page.get_by_role("button", name="Try again")).to_be_visible()
    assert axe_faults(page, axe_source) == []
    page.close()
    page = open_page(quick, before=lambda page: page.route("**/model/*", lambda route: None))
    expect(page.locator("#load-text")).to_contain_text("MB")
    assert axe_faults(page, axe_source) == []


def test_a_screen_320_px_wide_needs_no_sideways_scrolling(page: Page) -> None:
    page.set_viewport_size({"width": 320, "height": 640})
    page.locator("#facts-editor > summary").click()
    page.get_by_role("link", name="Tools", exact=True).click()
    parameters = {"properties": {"p" * 90: {"type": "string"}}}
    page.locator("#tools").fill(json.dumps([{"name": "a_very_long_tool_name_" * 6, "parameters": parameters}]))
    page.get_by_role("link", name="Assistant").click()
    expect(page.locator("#tool-list > li")).to_have_count(1)
    ask(page, "markup")
    expect(last(page)).to_have_attribute("data-state", "done")
    last(page).locator("details").evaluate_all("(all) => all.forEach((details) => { details.open = true; })")
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 320
    wide = page.evaluate(
        """() => [...document.querySelectorAll("body *")]
          .filter((node) => node.getBoundingClientRect().right > 320.5)
          .filter((node) => getComputedStyle(node).position !== "absolute" && !node.closest("#presets"))
          .map((node) => node.id || node.className || node.tagName)"""
    )
    assert wide == []


def test_reduced_motion_is_respected(page: Page) -> None:
    ask(page, "slow")
    expect(last(page)).to_have_attribute("data-state", "working")
    names = []
    for motion in ("reduce", "no-preference"):
        page.emulate_media(reduced_motion=motion)  # type: ignore[arg-type]
        names.append(
            page.evaluate(
                "() => getComputedStyle(document.querySelector('.turn:last-child .answer-text')).animationName"
            )
        )
    page.get_by_role("button", name="Stop").click()
    assert names == ["none", "breathe"]


def test_no_request_leaves_the_origin_whatever_is_looked_at(page: Page, quick: Headless) -> None:
    quick.requests.clear()
    for name in page.locator("#views a").all_inner_texts():
        page.get_by_role("navigation", name="Views").get_by_role("link", name=name).click()
    page.get_by_role("link", name="Assistant").click()
    ask(page, "hello")
    expect(last(page)).to_have_attribute("data-state", "done")
    page.reload()
    assert "info" in settled(page)
    assert len(quick.requests) > 20
    assert [url for url in quick.requests if not url.startswith(quick.server.address)] == []


def test_light_and_dark(page: Page) -> None:
    grounds = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        grounds.append(page.evaluate("() => getComputedStyle(document.body).backgroundColor"))
    assert grounds == ["rgb(247, 244, 236)", "rgb(19, 26, 22)"]


def test_without_examples_the_page_still_answers(quick: Headless, open_page: Opener) -> None:
    page = open_page(quick, before=lambda page: page.route("**/presets.json", lambda route: route.fulfill(status=404)))
    expect(page.locator("#presets")).to_contain_text("could not be loaded")
    page.locator("#tools").fill('[{"name": "own"}]')
    page.get_by_role("link", name="Assistant").click()
    ask(page, "hello")
    expect(last(page).get_by_role("list", name="Calls")).to_contain_text("own")


def test_a_visitor_who_saves_data_decides_about_the_download(quick: Headless, open_page: Opener) -> None:
    saving = "Object.defineProperty(navigator, 'connection', { value: { saveData: true } });"
    page = open_page(quick, before=lambda page: page.add_init_script(saving))
    expect(page.locator("#presets button")).to_have_count(14)
    button = page.get_by_role("button", name="Load the model")
    expect(button).to_be_visible()
    assert page.evaluate("() => [areole.state, window.seen.progress.length]") == ["idle", 0]
    button.click()
    assert "info" in settled(page)
