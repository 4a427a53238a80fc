"""areole.js, its web component and the examples: what other pages get, on a stand-in site."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pages import Opener
from playwright.sync_api import Page, expect
from servers import swapping

from devserver import CONTENT_SECURITY_POLICY, serving
from headless import Headless

pytestmark = pytest.mark.browser

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="module")
def host(quick: Headless) -> Iterator[Page]:
    """A page of another author at the same origin, under the strict policy, with a session loaded."""
    page = quick.context.new_page()
    page.set_default_timeout(60_000)
    open_host(page, quick.server.address)
    page.evaluate(
        """async () => {
          window.module = await import("/areole.js");
          window.progress = [];
          window.a = await window.module.Areole.load({ onProgress: (event) => window.progress.push(event) });
          await a.use([{ name: "lights" }, { name: "doors" }]);
        }"""
    )
    yield page
    page.close()


def open_host(page: Page, address: str, body: str = "") -> None:
    html = (
        f"<!doctype html><html lang='en'><title>host</title><link rel='icon' href='data:,'><body>{body}</body></html>"
    )
    headers = {"Content-Security-Policy": CONTENT_SECURITY_POLICY, "Content-Type": "text/html"}
    page.route("**/host.html", lambda route: route.fulfill(body=html, headers=headers))
    page.goto(address + "host.html")


def test_load_reports_progress_and_what_was_loaded(host: Page) -> None:
    progress = host.evaluate("() => progress.map(({ loaded }) => loaded)")
    assert progress == sorted(progress) and len(progress) >= 2
    assert host.evaluate("() => [a.state, a.info.model.verified]") == ["ready", "SHA-256"]


def test_stream_gives_tokens_and_then_the_answer(host: Page) -> None:
    events = host.evaluate(
        "async () => { const all = []; for await (const event of a.stream('hello')) all.push(event); return all; }"
    )
    assert [event["type"] for event in events] == ["token"] * (len(events) - 1) + ["answer"]
    answer = events[-1]["answer"]
    assert "".join(event["delta"] for event in events[:-1] if event["phase"] == "reasoning") == answer["reasoning"]
    assert [call["name"] for call in answer["calls"]] == ["lights", "doors"]
    assert answer["tokens"] == len(events) - 1


def test_functions_run_and_the_model_is_told(host: Page) -> None:
    result = host.evaluate(
        """async () => {
          const seen = [];
          const lights = module.tool(({ room }) => ({ room, on: true }), { name: "lights" });
          await a.use([lights, { name: "doors", run: async () => { throw new Error("jammed"); } }]);
          const { text, ran, stopped } = await a.run("hello", { onRan: ({ call }) => seen.push(call.name) });
          return { text, stopped, seen, errors: ran.map(({ error }) => error?.message ?? null) };
        }"""
    )
    assert result == {
        "text": 'told [{"room":"bedroom","on":true},{"error":"jammed"}]',
        "stopped": "done",
        "seen": ["lights", "doors"],
        "errors": [None, "jammed"],
    }


def test_calls_can_be_declined_and_do_not_go_on_for_ever(host: Page) -> None:
    declined, endless = host.evaluate(
        """async () => {
          let ran = 0;
          await a.use([{ name: "lights", run: () => { ran += 1; } }]);
          const first = await a.run("hello", { confirm: () => false });
          const asks = `=> ${JSON.stringify({ calls: [{ name: "lights", arguments: {} }] })}`;
          const second = await a.run(asks, { maxTurns: 0 });
          return [[ran, first.text], [second.stopped, second.ran.length]];
        }"""
    )
    assert declined == [0, 'told [{"error":"the user declined"}]']
    assert endless == ["limit", 0]


def test_abort_and_leaving_the_loop_stop_and_the_session_lives_on(host: Page) -> None:
    code, seen, left, after = host.evaluate(
        """async () => {
          await a.use([{ name: "lights" }]);
          const stop = new AbortController();
          let seen = 0;
          const code = await (async () => {
            for await (const event of a.stream("slow", { signal: stop.signal })) if (++seen === 20) stop.abort();
          })().catch((error) => [error.code, error instanceof module.AreoleError]);
          let left = 0;
          for await (const event of a.stream("slow")) if (++left === 5) break;
          const answer = await a.complete("hello");
          return [code, seen, left, answer.calls.length];
        }"""
    )
    assert code == ["cancelled", True]
    assert 20 <= seen < 50_000
    assert (left, after) == (5, 1)


def test_errors_have_codes(host: Page) -> None:
    codes = host.evaluate(
        """async () => {
          const code = (promise) => promise.then(() => null, ({ code }) => code);
          return [
            await code(a.complete("full")),
            await code(a.complete(7)),
            await code(a.use("tools")),
            await code(a.complete('=> {"success": false}')),
            await code(module.Areole.load({ base: "/nowhere/" })),
            await code(module.Areole.load({ signal: AbortSignal.abort() })),
            await code(module.Areole.load({ signal: AbortSignal.timeout(1) })),
          ];
        }"""
    )
    assert codes == [
        *("context_full", "request_text", "tools_shape", "call_unparsable"),
        *("fetch_failed", "cancelled", "cancelled"),
    ]


def test_embed_reset_and_close(host: Page) -> None:
    assert host.evaluate("async () => { await a.reset(); return [...(await a.embed('four'))]; }") == [4, 0.5]
    codes = host.evaluate(
        """async () => {
          const b = await module.Areole.load();
          const running = b.use([{ name: "x" }]).then(() => b.complete("slow")).catch(({ code }) => code);
          await new Promise((resolve) => setTimeout(resolve, 200));
          b.close();
          return [await running, await b.complete("hello").catch(({ code }) => code), b.state];
        }"""
    )
    assert codes == ["request_closed", "request_closed", "closed"]


@pytest.fixture
def component(quick: Headless) -> Iterator[Page]:
    page = quick.context.new_page()
    page.set_default_timeout(60_000)
    open_host(page, quick.server.address, "<areole-assistant label='Ask me'></areole-assistant>")
    page.evaluate(
        """async () => {
          await import("/areole-assistant.js");
          window.assistant = document.querySelector("areole-assistant");
          window.heard = [];
          for (const name of ["areole-call", "areole-ran", "areole-answer", "areole-error"]) {
            document.addEventListener(name, () => heard.push(name));
          }
          assistant.tools = [{ name: "lights", run: ({ room }) => ({ lit: room }) }];
        }"""
    )
    yield page
    page.close()


def test_the_component_asks_runs_and_shows(component: Page) -> None:
    box = component.get_by_role("textbox", name="Ask me")
    box.fill("hello")
    box.press("Enter")
    log = component.get_by_role("list", name="Conversation")
    expect(log.get_by_role("listitem")).to_have_text(
        ["hello", 'lightsroom: "bedroom", level: 2→ {"lit":"bedroom"}', 'told [{"lit":"bedroom"}]']
    )
    assert component.evaluate("() => heard") == ["areole-call", "areole-ran", "areole-answer"]
    styled = component.evaluate("() => getComputedStyle(assistant.shadowRoot.querySelector('.log')).display")
    assert styled == "grid"  # the policy lets its style through
    component.evaluate(
        "() => document.addEventListener('areole-call', (event) => event.preventDefault(), { once: true })"
    )
    box.fill("hello")
    box.press("Enter")
    expect(log).to_contain_text("failed: the user declined")


def test_the_component_stops_and_says_what_went_wrong(component: Page) -> None:
    box = component.get_by_role("textbox", name="Ask me")
    box.fill("slow")
    component.get_by_role("button", name="Ask").click()
    expect(component.get_by_role("status")).to_have_text("Thinking …")
    component.get_by_role("button", name="Stop").click()
    expect(component.get_by_role("status")).to_have_text("Stopped.")
    box.fill("full")
    component.get_by_role("button", name="Ask").click()
    expect(component.get_by_role("alert")).to_have_text("The context is full: 9 tokens needed, 3 free. (context_full)")
    call = {"name": "<img src=x onerror=\"document.title='owned'\">", "arguments": {"<b>": "<b>bold</b>"}}
    box.fill('=> {"calls": [' + json.dumps(call) + "]}")
    component.get_by_role("button", name="Ask").click()
    expect(component.get_by_role("list", name="Conversation")).to_contain_text("<b>bold</b>")
    assert component.evaluate("() => assistant.shadowRoot.querySelectorAll('b, img').length") == 0
    assert component.title() == "host"


def lamp_goes_on(page: Page) -> None:
    expect(page.locator("#lamp")).to_have_text("off")
    page.get_by_role("textbox").fill('=> {"calls": [{"name": "set_lamp", "arguments": {"state": "on"}}]}')
    page.get_by_role("button", name="Ask").click()
    expect(page.locator("#lamp")).to_have_text("on")
    expect(page.get_by_text('told [{"lamp":"on"}]')).to_be_visible()


def test_the_example_without_tools(quick: Headless, open_page: Opener, tmp_path: Path) -> None:
    site = shutil.copytree(EXAMPLES / "plain", tmp_path / "plain")
    (site / "areole").symlink_to(quick.site, target_is_directory=True)
    with serving(site) as server:
        lamp_goes_on(open_page(quick, address=server.address))


def test_the_example_with_vite(quick: Headless, open_page: Opener, tmp_path: Path) -> None:
    modules = os.environ.get("AREOLE_NODE_MODULES")
    if not modules:
        pytest.fail("AREOLE_NODE_MODULES does not say where vite is: run the tests with python build.py test")
    example = shutil.copytree(
        EXAMPLES / "vite", tmp_path / "vite", ignore=shutil.ignore_patterns("public", "dist", "node_modules")
    )
    (example / "node_modules").symlink_to(modules, target_is_directory=True)
    env: dict[str, Any] = {**os.environ, "AREOLE_SITE": str(quick.site)}
    done = subprocess.run(["npx", "vite", "build"], cwd=example, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    with swapping(example / "dist") as server:
        page = open_page(quick, address=server.address)
        lamp_goes_on(page)
        assert any(path.startswith("/assets/worker") for path, _ in server.asked)  # Vite's own, not the site's
