"""The page as an app, on a stand-in site: what is kept and checked, and what happens where nothing can be kept."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pages import Opener, settled
from playwright.sync_api import Page, Route, expect
from servers import SwappingServer, swapping
from standin import WEIGHTS_BYTES, list_files

from headless import Headless

pytestmark = pytest.mark.browser

PIECE = 4 << 20
WORKING: dict[str, Any] = {"service_workers": "allow"}


@pytest.fixture
def server(quick: Headless) -> Iterator[SwappingServer]:
    with swapping(quick.site) as server:
        yield server


def reloaded(page: Page) -> dict[str, Any]:
    """What the page says of its load after a reload."""
    page.reload()
    return settled(page)


def is_stored(page: Page) -> None:
    """Waits until the page says that it can be opened without a network."""
    page.evaluate("() => { location.hash = 'device'; }")
    expect(page.locator("#device-facts")).to_contain_text("works without a network")


def answers(page: Page) -> None:
    result = page.evaluate(
        "() => areole.declare([{ name: 'lights' }]).then(() => areole.complete('hello')).then(({ result }) => result)"
    )
    assert [call["name"] for call in result["function_calls"]] == ["lights"]


def test_opens_and_answers_without_a_network(quick: Headless, open_page: Opener) -> None:
    with swapping(quick.site) as server:
        page = open_page(quick, address=server.address, query="?contract=needle", **WORKING)
        settled(page)
        is_stored(page)
    # The server is gone, and the browser knows of no network either.
    page.context.set_offline(True)
    info = reloaded(page)["info"]
    assert info["kept"] == {"state": "kept", "restored": WEIGHTS_BYTES, "repaired": False}
    assert info["model"]["verified"] == "SHA-256"
    expect(page.locator("#presets button")).to_have_count(14)
    expect(page.locator("#contract")).to_have_value("needle")
    assert page.evaluate("() => document.querySelector('.brand img').naturalWidth") > 0
    answers(page)


def test_weights_come_over_the_network_once(quick: Headless, open_page: Opener, server: SwappingServer) -> None:
    page = open_page(quick, address=server.address)
    assert settled(page)["info"]["kept"] == {"state": "kept", "restored": 0, "repaired": False}
    assert server.weights_asked() == [0]
    assert reloaded(page)["info"]["kept"]["restored"] == WEIGHTS_BYTES
    last = page.evaluate("() => window.seen.progress.at(-1)")
    assert last["loaded"] == last["total"]
    assert server.weights_asked() == []


DAMAGE = """async (how) => {
  const [name] = (await caches.keys()).filter((key) => key.startsWith("areole-weights"));
  const cache = await caches.open(name);
  const [first] = await cache.keys();
  const bytes = new Uint8Array(await (await cache.match(first)).arrayBuffer());
  if (how === "flipped") bytes[1000] ^= 1;
  if (how === "zeroed") bytes.fill(0, 1000);
  if (how === "gone") await cache.delete(first);
  else await cache.put(first, new Response(how === "short" ? bytes.slice(0, -1) : bytes));
}"""


@pytest.mark.parametrize(("how", "repaired"), [("flipped", True), ("zeroed", True), ("short", False), ("gone", False)])
def test_kept_weights_that_are_damaged_are_replaced(
    how: str, repaired: bool, quick: Headless, open_page: Opener, server: SwappingServer
) -> None:
    page = open_page(quick, address=server.address)
    settled(page)
    page.evaluate(DAMAGE, how)
    server.weights_asked()
    info = reloaded(page)["info"]
    assert info["kept"] == {
        "state": "kept",
        "restored": 0,
        "repaired": repaired,
    }
    assert info["model"]["verified"] == "SHA-256"
    assert server.weights_asked() == [0]
    assert reloaded(page)["info"]["kept"] == {"state": "kept", "restored": WEIGHTS_BYTES, "repaired": False}


def test_a_download_that_breaks_goes_on_where_it_broke(
    quick: Headless, open_page: Opener, server: SwappingServer
) -> None:
    server.cuts = [1_000_000, 500_000]
    page = open_page(quick, address=server.address)
    assert settled(page)["info"]["model"]["verified"] == "SHA-256"
    asked = server.weights_asked()
    # What was sent last before a cut may not arrive.
    assert len(asked) == 3 and asked[0] == 0 < asked[1] <= 1_000_000 and asked[1] < asked[2] <= 1_500_000
    assert reloaded(page)["info"]["kept"]["restored"] == WEIGHTS_BYTES


def test_a_download_that_failed_goes_on_at_the_next_visit(
    quick: Headless, open_page: Opener, server: SwappingServer
) -> None:
    server.cuts = [PIECE + 300_000, *[0] * 20]
    page = open_page(quick, address=server.address)
    error = settled(page)["error"]
    assert error["code"] == "fetch_failed" and "goes on where it stopped" in error["message"]
    server.cuts = []
    server.weights_asked()
    info = reloaded(page)["info"]
    assert info["kept"] == {"state": "kept", "restored": PIECE, "repaired": False}
    assert server.weights_asked() == [PIECE]


def test_a_server_without_ranges_starts_over(quick: Headless, open_page: Opener, server: SwappingServer) -> None:
    server.ranges = False
    server.cuts = [PIECE + 100_000]
    page = open_page(quick, address=server.address)
    info = settled(page)["info"]
    assert info["model"]["verified"] == "SHA-256" and info["kept"]["state"] == "kept"


def test_a_file_that_changed_between_two_parts_is_fetched_whole(
    quick: Headless, open_page: Opener, server: SwappingServer
) -> None:
    good = (quick.site / "model" / "needle3.cact").read_bytes()
    server.weights = good[:1000] + bytes(len(good) - 1000)
    server.cuts = [PIECE + 100_000, *[0] * 20]
    page = open_page(quick, address=server.address)
    assert settled(page)["error"]["code"] == "fetch_failed"
    server.weights, server.cuts = None, []
    info = reloaded(page)["info"]
    assert info["kept"] == {"state": "kept", "restored": 0, "repaired": True}
    assert info["model"]["verified"] == "SHA-256"


def deny(page: Page, site: Path) -> None:
    """As where the user has blocked storage: asking for it throws, in the page and in its worker."""
    trap = "Object.defineProperty(self, 'caches', { get() { throw new DOMException('no', 'SecurityError'); } });\n"
    source = (site / "boot.js").read_text(encoding="utf-8")
    page.add_init_script(trap + "Object.defineProperty(window, 'localStorage', { get() { throw new Error('no'); } });")
    page.route("**/boot.js", lambda route: route.fulfill(body=trap + source, content_type="text/javascript"))


def test_where_storage_is_denied_the_page_says_so_and_works(quick: Headless, open_page: Opener) -> None:
    page = open_page(quick, before=lambda page: deny(page, quick.site))
    assert settled(page)["info"]["kept"]["state"] == "denied"
    expect(page.locator("#notices")).to_contain_text("This browser keeps no data for the page")
    page.get_by_role("link", name="This device").click()
    expect(page.locator("#device-facts")).to_contain_text("not kept: the browser keeps no data")
    answers(page)


def test_where_storage_is_full_the_page_says_so_and_works(
    quick: Headless, open_page: Opener, server: SwappingServer
) -> None:
    def small(page: Page) -> None:
        session = page.context.new_cdp_session(page)
        origin = server.address.rstrip("/")
        session.send("Storage.overrideQuotaForOrigin", {"origin": origin, "quotaSize": 2_000_000})

    page = open_page(quick, address=server.address, before=small)
    assert settled(page)["info"]["kept"]["state"] == "full"
    expect(page.locator("#notices")).to_contain_text("There is no room in this browser's storage")
    answers(page)
    left = "async () => (await (await caches.open((await caches.keys())[0])).keys()).length"
    assert page.evaluate(left) == 0


PREFIXES = """async (wanted) => {
  const name = (await caches.keys()).find((key) => key.startsWith("areole-prefixes"));
  const keys = async () => (await (await caches.open(name)).keys()).map(({ url }) => url);
  while ((await keys()).length !== wanted) await new Promise((resolve) => setTimeout(resolve, 20));
  return keys();
}"""
TAMPER = """async (how) => {
  const name = (await caches.keys()).find((key) => key.startsWith("areole-prefixes"));
  const cache = await caches.open(name);
  const [{ url }] = await cache.keys();
  const bytes = new Uint8Array(await (await cache.match(url)).arrayBuffer());
  const changed = new URL(url);
  if (how === "damaged") bytes[bytes.length - 1] ^= 1;
  if (how === "no record") {
    bytes[0] = 0;
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
    const hash = Array.from(digest, (b) => b.toString(16).padStart(2, "0")).join("");
    changed.searchParams.set("sha256", hash);
  }
  if (how === "another core") changed.pathname = changed.pathname.replace(/-[0-9a-f]{64}/, `-${"0".repeat(64)}`);
  await cache.delete(url);
  await cache.put(changed, new Response(bytes));
}"""
TOLD = "([system]) => areole.declare([{ name: 'lights' }], system).then((told) => told.prefix_cached)"


def test_tools_that_were_read_are_not_read_again(quick: Headless, open_page: Opener, server: SwappingServer) -> None:
    page = open_page(quick, address=server.address)
    settled(page)
    assert page.evaluate(TOLD, ["location: Paris"]) is False
    (key,) = page.evaluate(PREFIXES, 1)
    reloaded(page)
    assert page.evaluate(TOLD, ["location: Rome"]) is False
    assert page.evaluate(TOLD, ["location: Paris"]) is True
    page.wait_for_timeout(100)
    assert page.evaluate(PREFIXES, 2)[1] == key  # the one used last is the last to go
    page.evaluate("() => { location.hash = 'device'; }")
    expect(page.locator("#device-facts")).to_contain_text("2 sets")


@pytest.mark.parametrize("how", ["damaged", "no record", "another core"])
def test_kept_tools_that_are_not_what_they_should_be_are_read_again(
    how: str, quick: Headless, open_page: Opener, server: SwappingServer
) -> None:
    page = open_page(quick, address=server.address)
    settled(page)
    assert page.evaluate(TOLD, [""]) is False
    (key,) = page.evaluate(PREFIXES, 1)
    page.evaluate(TAMPER, how)
    reloaded(page)
    assert page.evaluate(TOLD, [""]) is False
    page.wait_for_timeout(100)
    assert page.evaluate(PREFIXES, 1) == [key]
    reloaded(page)
    assert page.evaluate(TOLD, [""]) is True


def test_kept_tools_are_bounded_and_the_oldest_go_first(
    quick: Headless, open_page: Opener, server: SwappingServer
) -> None:
    page = open_page(quick, address=server.address)
    settled(page)
    keys = []
    for size in (12_000_000, 12_000_001, 12_000_002, 40_000_000):
        assert page.evaluate(TOLD, [f"room {size}"]) is False
        page.wait_for_timeout(300)
        kept = page.evaluate(PREFIXES, min(len(keys) + 1, 2))
        keys.append(kept[-1])
    assert "bytes=12000001&" in kept[0] and "bytes=12000002&" in kept[1]


@pytest.fixture
def own_site(quick: Headless, tmp_path: Path) -> Path:
    """A copy of the site that a test may change."""
    return Path(shutil.copytree(quick.site, tmp_path / "site"))


def test_a_new_build_is_offered_and_comes_whole(quick: Headless, open_page: Opener, own_site: Path) -> None:
    style = own_site / "app.css"
    with swapping(own_site) as server:
        page = open_page(quick, address=server.address, **WORKING)
        settled(page)
        is_stored(page)
        assert "info" in reloaded(page)
        other = page.context.new_page()
        other.goto(server.address)
        other.wait_for_function("() => window.areole?.state === 'ready'")
        style.write_text(style.read_text(encoding="utf-8") + "\nhtml { --build: second }\n", encoding="utf-8")
        list_files(own_site)
        server.asked.clear()
        page.evaluate("() => navigator.serviceWorker.getRegistration().then((one) => one.update())")
        notice = page.locator("#notices")
        expect(notice).to_contain_text("A new version of this page is ready.")
        assert {path for path, _ in server.asked} == {"/sw.js", "/precache.js", "/app.css", "/site.json"}
        assert page.evaluate(build) == ""
        assert other.evaluate(build) == ""
        with page.expect_navigation():
            notice.get_by_role("button", name="Reload now").click()
        assert page.evaluate(build) == "second"
        assert "info" in settled(page)
        expect(other.locator("#notices")).to_contain_text("updated in another tab")
        left = page.evaluate(
            """async () => {
              const [name] = (await caches.keys()).filter((key) => key.startsWith("areole-site"));
              return (await (await caches.open(name)).keys()).length;
            }"""
        )
        listed = page.evaluate("() => fetch('precache.js').then((answer) => answer.text())")
        assert left == len(set(line.split('"')[3] for line in listed.splitlines() if '": "' in line))


build = "() => getComputedStyle(document.documentElement).getPropertyValue('--build')"


SPOIL = """async ({ how, only }) => {
  const [name] = (await caches.keys()).filter((key) => key.startsWith("areole-site"));
  const cache = await caches.open(name);
  const spoilt = [];
  for (const key of await cache.keys()) {
    const kept = await cache.match(key);
    const bytes = new Uint8Array(await kept.arrayBuffer());
    const type = kept.headers.get("content-type") ?? "";
    if (only && !type.includes(only)) continue;
    if (how === "flipped") bytes[bytes.length >> 1] ^= 1;
    const added = new TextEncoder().encode("\\ndocument.title = 'altered';");
    const bodies = { flipped: bytes, cut: bytes.slice(0, -1), empty: "", altered: new Blob([bytes, added]) };
    await cache.put(key, new Response(bodies[how], { headers: kept.headers }));
    spoilt.push(key.url);
  }
  return spoilt.length;
}"""


@pytest.mark.parametrize("how", ["flipped", "cut", "empty", "altered"])
def test_kept_files_of_the_site_that_are_damaged_are_replaced(
    how: str, quick: Headless, open_page: Opener, server: SwappingServer
) -> None:
    """All of them at once: the page, its scripts, Python's files, the core, the package."""
    page = open_page(quick, address=server.address, **WORKING)
    settled(page)
    is_stored(page)
    assert "info" in reloaded(page)  # from here on the service worker answers
    page.goto("about:blank")
    page.goto(server.address)
    settled(page)
    server.asked.clear()
    assert "info" in reloaded(page)
    used = {"/app.js", "/app.css", "/worker.js", "/py/areole-0.0.0-py3-none-any.whl", "/core/areole-relaxed.wasm"}
    assert not used & {path for path, _ in server.asked}
    assert page.evaluate(SPOIL, {"how": how, "only": "javascript" if how == "altered" else ""}) > 20
    server.asked.clear()
    assert "info" in reloaded(page)
    assert page.title() == "areole: tool calls in a browser tab"
    asked = {path for path, _ in server.asked}
    assert {path for path in used if how != "altered" or path.endswith(".js")} <= asked
    answers(page)
    server.asked.clear()
    assert "info" in reloaded(page)
    assert not (used | {"/", "/site.json"}) & {path for path, _ in server.asked}


def test_a_damaged_file_is_not_used_where_no_other_can_be_had(quick: Headless, open_page: Opener) -> None:
    with swapping(quick.site) as server:
        page = open_page(quick, address=server.address, **WORKING)
        settled(page)
        is_stored(page)
        assert "info" in reloaded(page)
        assert page.evaluate(SPOIL, {"how": "altered", "only": "javascript"}) > 20
    page.context.set_offline(True)
    page.reload()
    page.wait_for_load_state("networkidle")
    assert page.title() == "areole: tool calls in a browser tab"
    assert page.evaluate("() => window.areole") is None


def test_everything_can_be_removed(quick: Headless, open_page: Opener, server: SwappingServer) -> None:
    page = open_page(quick, address=server.address, **WORKING)
    settled(page)
    is_stored(page)
    page.evaluate("() => localStorage.setItem('another page of this origin', 'stays')")
    page.get_by_role("button", name="Remove everything").click()
    page.get_by_role("dialog").get_by_role("button", name="Keep").click()
    assert len(page.evaluate("() => caches.keys()")) == 3
    page.get_by_role("button", name="Remove everything").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove", exact=True).click()
    expect(page.locator("#device-result")).to_contain_text("Everything was removed")
    left = page.evaluate(
        """async () => [
          await caches.keys(),
          (await navigator.serviceWorker.getRegistrations()).length,
          Object.keys(localStorage),
        ]"""
    )
    assert left == [[], 0, ["another page of this origin"]]
    page.locator("#javascript-run").dispatch_event("click")  # its module would be kept
    expect(page.locator("#javascript-error")).to_contain_text("Load the page anew")
    assert page.evaluate("() => caches.keys()") == []
    answers(page)  # what is open goes on
    server.weights_asked()
    assert reloaded(page)["info"]["kept"]["restored"] == 0
    assert server.weights_asked() == [0]


def remove_everything(page: Page) -> None:
    page.get_by_role("link", name="This device").click()
    page.get_by_role("button", name="Remove everything").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove", exact=True).click()
    expect(page.locator("#device-result")).to_contain_text("Everything was removed")


STORED = """async () => [
  await caches.keys(),
  (await navigator.serviceWorker.getRegistrations()).length,
  localStorage.length + sessionStorage.length,
]"""


def test_nothing_of_an_open_page_comes_back_after_removal(
    quick: Headless, open_page: Opener, server: SwappingServer
) -> None:
    page = open_page(quick, address=server.address, **WORKING)
    settled(page)
    is_stored(page)
    assert "info" in reloaded(page)  # from here on the service worker answers
    remove_everything(page)
    # A new worker, whose files come by way of the service worker, and which reads its tools.
    page.evaluate("() => areole.restart()")
    assert settled(page)["info"]["kept"]["state"] == "off"
    answers(page)
    page.evaluate("() => fetch('app.css', { cache: 'reload' }).then((answer) => answer.text())")
    page.wait_for_timeout(300)
    assert page.evaluate(STORED) == [[], 0, 0]
    expect(page.locator("#device-facts")).to_contain_text("removed")


def test_a_visit_after_removal_is_kept_though_a_tab_from_before_is_open(
    quick: Headless, open_page: Opener, server: SwappingServer
) -> None:
    page = open_page(quick, address=server.address, **WORKING)
    settled(page)
    is_stored(page)
    other = page.context.new_page()
    other.goto(server.address)  # from here on the service worker has a page to answer for
    other.wait_for_function("() => window.areole?.state === 'ready' && navigator.serviceWorker.controller")
    remove_everything(page)
    page.reload()
    settled(page)
    is_stored(page)
    count = """async () => {
      const name = (await caches.keys()).find((name) => name.startsWith("areole-site"));
      return (await (await caches.open(name)).keys()).length;
    }"""
    assert page.evaluate(count) > 50
    assert "info" in reloaded(page)
    page.context.set_offline(True)
    assert "info" in reloaded(page)


def test_a_load_that_is_under_way_keeps_nothing_after_removal(
    quick: Headless, open_page: Opener, server: SwappingServer
) -> None:
    held: list[Route] = []
    page = open_page(
        quick,
        address=server.address,
        before=lambda page: page.route("**/model/*", lambda route: held.append(route)),
    )
    page.wait_for_function("() => caches.keys().then((names) => names.some((name) => name.includes('weights')))")
    remove_everything(page)
    held.pop().continue_()
    assert "info" in settled(page)
    answers(page)
    assert page.evaluate(STORED) == [[], 0, 0]


def test_a_load_that_failed_keeps_nothing_when_it_is_tried_again_after_removal(
    quick: Headless, open_page: Opener, server: SwappingServer
) -> None:
    server.cuts = [0] * 20
    page = open_page(quick, address=server.address)
    assert settled(page)["error"]["code"] == "fetch_failed"
    remove_everything(page)
    server.cuts = []
    page.get_by_role("button", name="Try again").click()
    assert "info" in settled(page)
    answers(page)
    assert page.evaluate(STORED) == [[], 0, 0]


def test_a_module_that_waits_for_the_service_worker_is_not_kept_after_removal(
    quick: Headless, open_page: Opener, server: SwappingServer
) -> None:
    page = open_page(quick, address=server.address, **WORKING)
    settled(page)
    is_stored(page)
    page.evaluate(
        """() => {
          const standin = { controller: null, ready: Promise.resolve({}), getRegistration: async () => undefined };
          standin.addEventListener = (_, then) => { window.come = then; };
          Object.defineProperty(navigator, "serviceWorker", { value: standin, configurable: true });
        }"""
    )
    page.locator("#javascript-run").dispatch_event("click")
    page.wait_for_function("() => window.come")
    remove_everything(page)
    page.evaluate("() => come()")
    expect(page.locator("#javascript-error")).to_contain_text("Load the page anew")
    assert page.evaluate("() => caches.keys()") == []


def test_what_was_removed_in_one_tab_is_not_put_back_by_another(
    quick: Headless, open_page: Opener, server: SwappingServer
) -> None:
    page = open_page(quick, address=server.address)
    settled(page)
    other = page.context.new_page()
    other.goto(server.address)
    settled(other)
    for text in ("secret", "more"):
        other.get_by_role("textbox", name="Request").fill(text)
        other.get_by_role("button", name="Ask", exact=True).click()
        expect(other.locator(".turn").last).to_have_attribute("data-state", "done")
        if text == "secret":
            page.get_by_role("link", name="This device").click()
            page.get_by_role("button", name="Remove everything").click()
            page.get_by_role("dialog").get_by_role("button", name="Remove", exact=True).click()
            expect(page.locator("#device-result")).to_contain_text("Everything was removed")
            expect(other.locator(".turn")).to_have_count(0)
            expect(other.locator("#notices")).to_contain_text("removed in another tab")
    assert page.evaluate("() => [localStorage.length, sessionStorage.length]") == [0, 0]


def test_it_can_be_installed(quick: Headless, tmp_path: Path) -> None:
    flags = ["--no-sandbox"]
    launch = quick._playwright.chromium.launch_persistent_context
    with launch(tmp_path / "profile", executable_path=quick.chromium, args=flags) as context:
        page = context.pages[0]
        page.goto(quick.server.address)
        session = context.new_cdp_session(page)
        manifest = session.send("Page.getAppManifest")
        assert manifest["errors"] == [] and manifest["url"].endswith("manifest.webmanifest")
        assert session.send("Page.getInstallabilityErrors")["installabilityErrors"] == []


def test_the_browser_s_offer_to_install_becomes_a_button(quick: Headless, open_page: Opener) -> None:
    page = open_page(quick, query="#device")
    offer = page.get_by_role("button", name="Install as an app")
    expect(offer).to_be_hidden()
    page.evaluate(
        """() => {
          const event = new Event("beforeinstallprompt", { cancelable: true });
          event.prompt = async () => { window.prompted = true; };
          dispatchEvent(event);
          window.held = event.defaultPrevented;
        }"""
    )
    offer.click()
    assert page.evaluate("() => [window.held, window.prompted]") == [True, True]
    expect(offer).to_be_hidden()
    page.evaluate("() => dispatchEvent(new Event('appinstalled'))")
    expect(page.locator("#device-result")).to_contain_text("Installed")
