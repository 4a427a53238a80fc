"""Designing tools in the page: fields, imports, the demo and JavaScript on a stand-in site."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from pages import Opener, settled
from playwright.sync_api import Page, expect

from headless import Headless

pytestmark = pytest.mark.browser


@pytest.fixture
def page(quick: Headless, open_page: Opener) -> Iterator[Page]:
    page = open_page(quick, query="#toolbox")
    settled(page)
    yield page


def declared(page: Page) -> list[dict[str, Any]]:
    tools: list[dict[str, Any]] = json.loads(page.locator("#tools").input_value())
    return tools


def request(page: Page, calls: list[dict[str, Any]], **more: Any) -> None:
    page.get_by_role("link", name="Assistant").click()
    page.get_by_role("textbox", name="Request").fill("=> " + json.dumps({"calls": calls, **more}))
    page.get_by_role("button", name="Ask", exact=True).click()


def outcomes(page: Page) -> list[str]:
    expect(page.locator("#stop")).to_be_disabled()
    return page.locator(".outcome").all_inner_texts()


def test_six_fields_to_start_from(page: Page, quick: Headless) -> None:
    fields = json.loads((quick.site / "domains.json").read_text(encoding="utf-8"))
    assert len(fields) == 6
    for field in fields:
        page.get_by_role("button", name=field["title"], exact=True).click()
        assert declared(page) == field["tools"]
        expect(page.locator("#request")).to_have_value(field["text"])
        expect(page.locator("#report > details")).to_have_count(len(field["tools"]))


MCP = {
    "jsonrpc": "2.0",
    "result": {
        "tools": [
            {
                "name": "search",
                "title": "Search",
                "inputSchema": {"type": "object", "properties": {"query": {"type": "string"}}},
                "annotations": {"readOnlyHint": True},
            }
        ]
    },
}
OPENAI = {
    "model": "any",
    "tools": [
        {"type": "function", "function": {"name": "a", "parameters": {"type": "object"}, "strict": True}},
        {"type": "function", "name": "b", "description": "flat"},
        {"type": "web_search"},
    ],
}


def test_lists_of_others_are_imported(page: Page) -> None:
    box = page.get_by_role("textbox", name="Import a list of tools")
    use = page.get_by_role("button", name="Use these tools")
    box.fill(json.dumps(MCP))
    use.click()
    expect(page.locator("#import-notes li")).to_have_text(["1 tool in use (MCP).", "search: annotations left out."])
    schema = {"type": "object", "properties": {"query": {"type": "string"}}}
    assert declared(page) == [{"name": "search", "description": "Search", "parameters": schema}]
    box.fill(json.dumps(OPENAI))
    use.click()
    expect(page.locator("#import-notes li").last).to_have_text("“web_search” is no function, so it is left out.")
    assert declared(page) == [{"name": "a", "parameters": {"type": "object"}}, {"name": "b", "description": "flat"}]
    for bad, code, words in (
        ("{", "tools_json", "That is not JSON: line 1, column 2: Expected a name in double quotes; the text ends."),
        ("null", "tools_shape", "No list of tools"),
        ('{"x": 1}', "tools_shape", "No list of tools"),
        ("[]", "tools_shape", "The list of tools is empty."),
        ("[{}]", "tools_shape", "has a name"),
        ("[null, 7]", "tools_shape", "Entry 1 is no function, so it is left out. Entry 2 is no function"),
    ):
        box.fill(bad)
        use.click()
        expect(page.locator("#import-error")).to_contain_text(words)
        expect(page.locator("#import-error .code")).to_have_text(code)
    box.evaluate('(box) => { box.value = \'\\ufeff[{"name": "pasted"}]\'; }')
    use.click()
    expect(page.locator("#import-error")).to_be_empty()
    assert declared(page) == [{"name": "pasted"}]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be", "latin-1"])
def test_a_file_of_tools_is_read_in_any_usual_encoding(page: Page, encoding: str) -> None:
    text = '[{"name": "from_file", "description": "für Grüße"}]'
    data = ("\ufeff" + text if encoding.startswith("utf-16") else text).encode(encoding)
    file = {"name": "tools.json", "mimeType": "application/json", "buffer": data}
    page.locator("#import-file").set_input_files(file)  # type: ignore[arg-type]
    if encoding == "latin-1":
        expect(page.locator("#import-error")).to_contain_text("tools.json is no text in UTF-8 or UTF-16.")
        return
    expect(page.locator("#import-notes")).to_contain_text("1 tool in use")
    expect(page.locator("#import-error")).to_be_empty()
    assert declared(page) == json.loads(text)


def test_a_byte_order_mark_in_the_editor_does_no_harm(page: Page) -> None:
    page.locator("#tools").evaluate(
        """(field) => {
          field.value = '\\ufeff[{"name": "typed"}]';
          field.dispatchEvent(new Event("change"));
        }"""
    )
    expect(page.locator("#tools-error")).to_be_empty()
    expect(page.locator("#report")).to_contain_text("typed")
    assert declared(page) == [{"name": "typed"}]


def test_the_demo_does_what_is_called(page: Page) -> None:
    page.get_by_role("link", name="Assistant").click()
    expect(page.locator("#demo")).to_be_hidden()
    page.get_by_role("button", name="Live demo").click()
    expect(page.locator("#demo")).to_be_visible()
    ground = "() => getComputedStyle(document.body).backgroundColor"
    page.emulate_media(color_scheme="light")
    pixel = "() => [...document.querySelector('#demo-canvas').getContext('2d').getImageData(50, 50, 1, 1).data]"
    calls = [
        {"name": "set_theme", "arguments": {"theme": "dark"}},
        {"name": "start_timer", "arguments": {"seconds": 90, "label": "tea"}},
        {"name": "add_note", "arguments": {"text": "<b>bold</b>"}},
        {"name": "add_task", "arguments": {"task": "buy milk"}},
        {"name": "finish_task", "arguments": {"task": "Milk"}},
        {"name": "calculate", "arguments": {"a": 6, "operation": "times", "b": 7}},
        {"name": "calculate", "arguments": {"a": 1, "operation": "divided by", "b": 0}},
        {"name": "draw", "arguments": {"shape": "circle", "color": "red"}},
        {"name": "finish_task", "arguments": {"task": "nothing"}},
    ]
    request(page, calls)
    expect(page.locator(".turn")).to_have_count(2)
    assert outcomes(page) == [
        '{"theme":"dark"}',
        '{"running":"tea","seconds":90}',
        '{"notes":1}',
        '{"open":1}',
        '{"done":"buy milk"}',
        '{"result":42}',
        "failed: that has no finite result",
        '{"drawn":"medium red circle","shapes":1}',
        'failed: no open task "nothing"',
    ]
    assert page.evaluate(ground) == "rgb(19, 26, 22)"
    expect(page.locator("#demo-timers")).to_contain_text("tea 1:")
    expect(page.locator("#demo-notes")).to_contain_text("<b>bold</b>")
    expect(page.get_by_role("checkbox", name="buy milk")).to_be_checked()
    expect(page.locator("#demo-result")).to_have_text("6 times 7 = 42")
    assert page.evaluate(pixel) == [255, 0, 0, 255]
    request(page, [{"name": "clear_canvas", "arguments": {}}, {"name": "set_theme", "arguments": {"theme": "system"}}])
    expect(page.locator(".turn")).to_have_count(4)
    assert page.evaluate(pixel) == [0, 0, 0, 0] and page.evaluate(ground) == "rgb(247, 244, 236)"
    page.reload()
    settled(page)
    expect(page.locator("#demo-notes")).to_contain_text("<b>bold</b>")


def test_the_theme_is_chosen_by_a_tool_and_by_hand(page: Page) -> None:
    page.get_by_role("link", name="Assistant").click()
    page.get_by_role("button", name="Live demo").click()
    page.emulate_media(color_scheme="light")
    ground = "() => getComputedStyle(document.body).backgroundColor"
    dark, light = "rgb(19, 26, 22)", "rgb(247, 244, 236)"
    theme = page.get_by_role("combobox", name="Theme")
    expect(theme).to_have_value("system")
    request(page, [{"name": "set_theme", "arguments": {"theme": "dark"}}])
    expect(theme).to_have_value("dark")
    assert page.evaluate(ground) == dark
    page.get_by_role("button", name="Small robot").click()  # the way back does not need the demo
    page.reload()
    settled(page)
    assert page.evaluate(ground) == dark
    page.get_by_role("link", name="This device").click()
    theme.select_option("as the system")
    assert page.evaluate(ground) == light
    page.reload()
    settled(page)
    expect(theme).to_have_value("system")
    assert page.evaluate(ground) == light


def test_a_module_of_the_visitor_s_own_runs(quick: Headless, open_page: Opener) -> None:
    page = open_page(quick, query="#toolbox", service_workers="allow")
    settled(page)
    source = """export default [{
      name: "double",
      parameters: { type: "object", properties: { n: { type: "number" } }, required: ["n"] },
      async run({ n }) { if (n > 100) throw new RangeError("too big"); return n * 2; },
    }];"""
    editor = page.get_by_role("textbox", name="Tools in JavaScript")
    editor.fill(source)
    page.get_by_role("button", name="Use it").click()
    expect(page.locator("#javascript-state")).to_have_text("In use: double.")
    assert declared(page)[0]["name"] == "double"
    request(page, [{"name": "double", "arguments": {"n": 21}}, {"name": "double", "arguments": {"n": 101}}])
    expect(page.locator(".turn")).to_have_count(2)
    assert outcomes(page) == ["42", "failed: too big"]
    page.get_by_role("link", name="Tools", exact=True).click()
    for bad, words in (("export default 7", "no list"), ("export default [", "SyntaxError"), ("throw 1", "1")):
        editor.fill(bad)
        page.get_by_role("button", name="Use it").click()
        expect(page.locator("#javascript-error")).to_contain_text(words)
    editor.fill(source.replace("n * 2", "n * 3"))
    page.get_by_role("button", name="Use it").click()
    request(page, [{"name": "double", "arguments": {"n": 5}}])
    expect(page.locator(".outcome").last).to_have_text("15")
    expect(page.locator("#notices")).to_be_empty()  # that the service worker took over is no news


def test_own_tools_run_after_a_reload_and_the_line_says_what_is_in_use(quick: Headless, open_page: Opener) -> None:
    page = open_page(quick, query="#toolbox", service_workers="allow")
    settled(page)
    state = page.locator("#javascript-state")
    source = "export default [{ name: 'two', run: () => 2 }, { name: 'by_hand' }];"
    page.get_by_role("textbox", name="Tools in JavaScript").fill(source)
    page.get_by_role("button", name="Use it").click()
    expect(state).to_have_text("In use: two.")
    page.get_by_role("textbox", name="Tools in JavaScript").fill("export default [] // not used yet")
    page.get_by_role("textbox", name="Tool declarations").press_sequentially(" ")  # the list is still theirs
    for count in (1, 2):
        request(page, [{"name": "two", "arguments": {}}])
        expect(page.locator(".outcome")).to_have_count(count)
        expect(page.locator(".outcome").last).to_have_text("2")
        page.reload()
        settled(page)
        expect(state).to_have_text("In use: two.")
    # Other tools: the functions are no longer bound, also where a name is the same.
    page.get_by_role("button", name="Small robot").click()
    expect(state).to_be_empty()
    page.get_by_role("button", name="Bring the earlier one back").click()  # with the functions
    expect(state).to_have_text("In use: two.")
    request(page, [{"name": "two", "arguments": {}}])
    expect(page.locator(".outcome")).to_have_count(3)
    expect(page.locator(".outcome").last).to_have_text("2")
    page.get_by_role("link", name="Tools", exact=True).click()
    page.get_by_role("textbox", name="Import a list of tools").fill('[{"name": "two"}]')
    page.get_by_role("button", name="Use these tools").click()
    expect(state).to_be_empty()
    request(page, [{"name": "two", "arguments": {}}])
    expect(page.locator(".turn").last.locator(".give")).to_be_visible()


def test_ctrl_enter_uses_what_is_typed_in_a_field_of_tools(quick: Headless, open_page: Opener) -> None:
    page = open_page(quick, query="#toolbox", service_workers="allow")
    settled(page)
    imported = page.get_by_role("textbox", name="Import a list of tools")
    imported.fill('[{"name": "there"}]')
    imported.press("Control+Enter")
    expect(page.locator("#tools")).to_have_value(re.compile('"there"'))
    own = page.get_by_role("textbox", name="Tools in JavaScript")
    own.fill("export default [{ name: 'two', run: () => 2 }];")
    own.press("Control+Enter")
    expect(page.locator("#javascript-state")).to_have_text("In use: two.")
    assert page.locator(".turn").count() == 0  # nothing was asked of the model


def test_a_file_that_misses_its_field_does_not_take_the_page_s_place(quick: Headless) -> None:
    prevented = """(kind) => {
      const data = new DataTransfer();
      if (kind === "file") data.items.add(new File(["{}"], "cases.json"));
      else data.setData("text/plain", "words");
      const event = new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true });
      document.querySelector("main").dispatchEvent(event);
      return event.defaultPrevented;
    }"""
    assert quick.page.evaluate(prevented, "file") is True
    assert quick.page.evaluate(prevented, "text") is False


def test_faults_of_own_modules_are_told_in_words(quick: Headless, open_page: Opener) -> None:
    page = open_page(quick, query="#toolbox", service_workers="allow")
    settled(page)
    for bad, words in (
        ("let x = 1;", "no default export"),
        ("export default []", "is empty"),
        ("export default [null]", "Tool 1 is not an object"),
        ("export default [{ name: 'a' }, [1]]", "Tool 2 is not an object"),
        ("export default [{ description: 'x' }]", "Tool 1 has no name"),
        ("export default [{ name: 'a' }, { name: 'a' }]", "Two tools have the name a"),
        ("export default [{ name: 'a', run: 7 }]", "a: run is no function, but a number"),
        ("export default [{ name: 'a', parameters: { maximum: 1n } }]", "a cannot be written as JSON"),
    ):
        page.get_by_role("textbox", name="Tools in JavaScript").fill(bad)
        page.get_by_role("button", name="Use it").click()
        expect(page.locator("#javascript-error")).to_contain_text(words)
        expect(page.locator("#javascript-error .code")).to_have_text("tools_shape")
    page.get_by_role("textbox", name="Tools in JavaScript").fill(
        "\ufeffexport default [{ type: 'function', function: { name: 'wrapped' }, run: () => 3 }];"
    )
    page.get_by_role("button", name="Use it").click()
    expect(page.locator("#javascript-state")).to_have_text("In use: wrapped.")


def test_without_a_service_worker_own_modules_are_refused_in_words(page: Page) -> None:
    page.evaluate("() => Object.defineProperty(navigator, 'serviceWorker', { value: undefined })")
    page.get_by_role("button", name="Use it").click()
    expect(page.locator("#javascript-error")).to_contain_text("no service worker")
