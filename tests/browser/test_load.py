"""Loading: progress, policy, and every way a download can go wrong, on the stand-in site (same page, same loader)."""

from __future__ import annotations

import functools
import json
import socketserver
from collections.abc import Callable
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from pages import Opener, settled
from playwright.sync_api import Page, Route, expect
from servers import in_thread, swapping
from standin import WEIGHTS_BYTES

import devserver
from devserver import CONTENT_SECURITY_POLICY, serving
from headless import Headless

pytestmark = pytest.mark.browser

MODEL = "**/model/needle3.cact"


def manifest(tab: Headless) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((tab.site / "site.json").read_text(encoding="utf-8"))
    return found


def good_weights(tab: Headless) -> bytes:
    return (tab.site / "model" / "needle3.cact").read_bytes()


def replace(pattern: str, *, with_python: bool = False, **answer: Any) -> Callable[[Page], None]:
    """Another answer for a file. Python is held back, unless asked for: the error must not wait for it."""

    def install(page: Page) -> None:
        page.route(pattern, lambda route: route.fulfill(**answer))
        if not with_python:
            hold_python(page)

    return install


def hold_python(page: Page) -> None:
    page.route("**/pyodide.asm.wasm", lambda route: None)


def release(page: Page) -> None:
    """Everything as it is again. (What is held back stays so until its request is given up.)"""
    page.unroute_all(behavior="ignoreErrors")


def test_loads_without_a_word_on_the_console_or_a_foreign_request(lab: Headless) -> None:
    assert lab.console_errors == []
    assert len(lab.requests) > 10
    assert [url for url in lab.requests if not url.startswith(lab.server.address)] == []


def test_runs_without_cross_origin_isolation(lab: Headless) -> None:
    assert lab.info["crossOriginIsolated"] is False  # in the worker
    assert lab.evaluate("() => crossOriginIsolated") is False


def test_info_says_what_was_loaded(lab: Headless) -> None:
    model = manifest(lab)["model"]
    assert lab.info["core"] == "relaxed"
    assert lab.info["model"] == {
        "name": "needle3.cact",
        "bytes": WEIGHTS_BYTES,
        "sha256": model["sha256"],
        "verified": "SHA-256",
    }
    assert lab.info["nbytes"] == WEIGHTS_BYTES  # what Python was given


def test_policy_is_sent_and_is_the_page_s_own(lab: Headless) -> None:
    for path in ("", "worker.js"):
        response = lab.context.request.get(lab.server.address + path)
        assert response.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
    meta = lab.page.locator("meta[http-equiv='Content-Security-Policy']").get_attribute("content")
    # frame-ancestors counts only in a header.
    assert meta == CONTENT_SECURITY_POLICY.replace("; frame-ancestors 'none'", "")
    assert "unsafe-inline" not in CONTENT_SECURITY_POLICY
    assert "'unsafe-eval'" not in CONTENT_SECURITY_POLICY


def test_progress_only_rises_and_ends_at_everything(lab: Headless, open_page: Opener) -> None:
    page = open_page(lab)
    assert "info" in settled(page)
    progress = page.evaluate("() => window.seen.progress")
    loaded = [event["loaded"] for event in progress]
    site = manifest(lab)
    needed = [site["model"]["url"], site["wheel"], site["core"]["relaxed"]]
    needed += [path for path in site["files"] if path.startswith("pyodide/")]
    total = sum(site["files"][path]["bytes"] for path in needed)
    assert len(progress) >= 3
    assert loaded == sorted(loaded)
    assert {event["total"] for event in progress} == {total}
    assert loaded[-1] == total
    assert [event["phase"] for event in progress[-2:]] == ["start", "ready"]
    assert {event["file"] for event in progress} <= set(needed)


def test_page_shows_progress_and_announces_states_only(lab: Headless, open_page: Opener) -> None:
    hold: list[Route] = []
    page = open_page(lab, before=lambda page: page.route(MODEL, lambda route: hold.append(route)))
    bar = page.get_by_role("progressbar", name="Model")
    expect(bar).to_be_visible()
    expect(page.locator("#load-text")).to_contain_text("MB")
    expect(page.get_by_role("status")).to_have_text("Downloading the model.")
    page.wait_for_function("() => document.querySelector('#load-progress').value > 1e7")
    assert page.locator("[aria-live], [role=status], [role=alert]").locator("progress, #load-text").count() == 0
    while not hold:  # other files may come first
        page.wait_for_timeout(20)
    hold[0].continue_()
    expect(page.get_by_role("status")).to_have_text("The model is ready.")
    expect(bar).to_be_hidden()


def flip(weights: bytes) -> bytes:
    middle = len(weights) // 2
    return weights[:middle] + bytes([weights[middle] ^ 1]) + weights[middle + 1 :]


BAD_WEIGHTS: dict[str, tuple[Callable[[bytes], dict[str, Any]], str, str]] = {
    "a start page instead": (
        lambda _: {"body": "<!doctype html><title>Home</title>", "content_type": "text/html"},
        "fetch_html",
        "HTML page",
    ),
    "HTML under another type": (
        lambda _: {"body": "\n<!DOCTYPE HTML><p>Sign in", "content_type": "application/octet-stream"},
        "fetch_html",
        "HTML page",
    ),
    "status 404": (lambda _: {"status": 404, "body": "no"}, "fetch_failed", "404"),
    "status 500": (lambda _: {"status": 500, "body": "no"}, "fetch_failed", "500"),
    "an empty file": (lambda _: {"body": b""}, "fetch_size", "is empty"),
    "three bytes": (lambda weights: {"body": weights[:3]}, "fetch_size", "3 bytes"),
    "a truncated file": (lambda weights: {"body": weights[:-5]}, "fetch_size", f"{WEIGHTS_BYTES - 5:,} bytes"),
    "a longer file": (lambda weights: {"body": weights + b"12345"}, "fetch_size", f"{WEIGHTS_BYTES + 5:,} bytes"),
    "a flipped byte": (lambda weights: {"body": flip(weights)}, "fetch_hash", "SHA-256"),
    "another format": (lambda weights: {"body": b"GGUF" + weights[4:]}, "archive_tag", "0x46554747"),
}


@pytest.mark.parametrize("case", BAD_WEIGHTS)
def test_bad_weights_are_named_in_the_page(case: str, lab: Headless, open_page: Opener) -> None:
    make, code, words = BAD_WEIGHTS[case]
    page = open_page(lab, before=replace(MODEL, **make(good_weights(lab))))
    error = settled(page)["error"]
    assert error["code"] == code
    assert words in error["message"]
    assert "model/needle3.cact" in error["message"]
    alert = page.locator("#load-error")
    expect(alert).to_have_attribute("role", "alert")
    expect(alert).to_contain_text(words)
    expect(alert).to_contain_text(code)
    expect(page.get_by_role("button", name="Try again")).to_be_visible()


def test_a_network_failure_is_named_and_try_again_loads(lab: Headless, open_page: Opener) -> None:
    def cut(page: Page) -> None:
        page.route(MODEL, lambda route: route.abort("connectionreset"))
        hold_python(page)

    page = open_page(lab, before=cut)
    assert settled(page)["error"]["code"] == "fetch_failed"
    release(page)
    page.get_by_role("button", name="Try again").click()
    expect(page.locator("#load-text")).to_contain_text("ready")
    expect(page.locator("#load-error")).to_be_empty()
    assert page.evaluate("() => window.seen.states") == ["loading", "failed", "loading", "ready"]


def test_good_weights_after_a_reload(lab: Headless, open_page: Opener) -> None:
    page = open_page(lab, before=replace(MODEL, body=flip(good_weights(lab))))
    assert settled(page)["error"]["code"] == "fetch_hash"
    release(page)
    page.reload()
    assert settled(page)["info"]["model"]["verified"] == "SHA-256"


def test_a_request_after_a_failed_load_loads_again(lab: Headless, open_page: Opener) -> None:
    page = open_page(lab, before=replace(MODEL, body=b""))
    assert settled(page)["error"]["code"] == "fetch_size"
    release(page)
    prefix = page.evaluate("() => window.areole.declare([{ name: 'tool' }]).then((answer) => answer.prefix_tokens)")
    assert prefix == len('[{"name":"tool"}]')


def test_a_request_made_while_a_load_fails_gets_its_error(lab: Headless, open_page: Opener) -> None:
    page = open_page(lab, before=replace(MODEL, body=b""))
    code = page.evaluate("() => window.areole.complete('hello').catch((error) => error.code)")
    assert code == "fetch_size"


def test_a_connection_cut_in_the_middle_says_how_far_it_came(lab: Headless, open_page: Opener) -> None:
    with swapping(lab.site) as server:
        server.weights = good_weights(lab)[: WEIGHTS_BYTES // 2]
        server.promised = WEIGHTS_BYTES
        error = settled(open_page(lab, address=server.address, before=hold_python))["error"]
    assert error["code"] == "fetch_failed"
    assert "the connection broke after" in error["message"]
    assert error["details"]["needed"] == WEIGHTS_BYTES
    assert 0 <= error["details"]["got"] <= WEIGHTS_BYTES // 2


class PlainHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


def test_any_static_server_will_do(lab: Headless, open_page: Opener) -> None:
    """Python's own server: HTTP/1.0, no policy, no caching headers, its own idea of MIME types."""
    handler = functools.partial(PlainHandler, directory=str(lab.site))
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler) as server, in_thread(server):
        page = open_page(lab, address=f"http://127.0.0.1:{server.server_address[1]}/")
        assert settled(page)["info"]["model"]["verified"] == "SHA-256"


def test_served_from_a_folder_below_the_root(lab: Headless, open_page: Opener, tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "site").symlink_to(lab.site, target_is_directory=True)
    with serving(tmp_path) as server:
        page = open_page(lab, address=f"{server.address}deep/site/")
        assert "info" in settled(page)


def test_a_policy_without_wasm_is_named_at_once(
    lab: Headless, open_page: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    strict = CONTENT_SECURITY_POLICY.replace(" 'wasm-unsafe-eval'", "")
    assert strict != CONTENT_SECURITY_POLICY
    monkeypatch.setattr(devserver, "CONTENT_SECURITY_POLICY", strict)
    page = open_page(lab)
    error = settled(page)["error"]
    assert error["code"] == "wasm_blocked"
    assert "script-src 'self' 'wasm-unsafe-eval'" in error["message"]
    expect(page.locator("#load-error")).to_contain_text("'wasm-unsafe-eval'")


def test_a_missing_file_of_pyodide_does_not_hang(lab: Headless, open_page: Opener) -> None:
    page = open_page(lab, before=replace("**/pyodide.asm.wasm", with_python=True, status=404, body="no"))
    error = settled(page)["error"]
    assert error["code"] == "fetch_failed"
    assert "pyodide/pyodide.asm.wasm" in error["message"]


def test_a_load_that_stands_still_is_given_up(lab: Headless, open_page: Opener) -> None:
    page = open_page(lab, query="?stall=2", before=hold_python)
    error = settled(page)["error"]
    assert error["code"] == "load_stalled"
    assert error["details"]["waiting"] == ["Pyodide"]


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ({"status": 404, "body": "no"}, "fetch_failed"),
        ({"body": "{"}, "site_manifest"),
        ({"body": "{}"}, "site_manifest"),
    ],
)
def test_a_bad_manifest_is_named(answer: dict[str, Any], code: str, lab: Headless, open_page: Opener) -> None:
    error = settled(open_page(lab, before=replace("**/site.json", **answer)))["error"]
    assert error["code"] == code
    assert "site.json" in error["message"]


def test_another_build_s_core_is_refused(lab: Headless, open_page: Opener) -> None:
    core = (lab.site / "core" / "areole-relaxed.wasm").read_bytes()
    error = settled(open_page(lab, before=replace("**/areole-relaxed.wasm", body=core[:-1] + b"\x0c")))["error"]
    assert error["code"] == "fetch_hash"


def test_a_missing_script_of_the_worker_is_named(lab: Headless, open_page: Opener) -> None:
    error = settled(open_page(lab, before=replace("**/boot.js", status=404, body="no")))["error"]
    assert error["code"] == "worker_failed"


def without_subtle(page: Page, site: Path) -> None:
    """As over plain http from another machine, where browsers hide crypto.subtle."""
    source = (site / "boot.js").read_text(encoding="utf-8")
    hide = "Object.defineProperty(Crypto.prototype, 'subtle', { value: undefined });\n"
    page.route("**/boot.js", lambda route: route.fulfill(body=hide + source, content_type="text/javascript"))


def test_the_hash_is_checked_without_subtle_too(lab: Headless, open_page: Opener) -> None:
    page = open_page(lab, before=lambda page: without_subtle(page, lab.site))
    assert settled(page)["info"]["model"]["verified"] == "SHA-256"

    def bad(page: Page) -> None:
        without_subtle(page, lab.site)
        page.route(MODEL, lambda route: route.fulfill(body=flip(good_weights(lab))))

    assert settled(open_page(lab, before=bad))["error"]["code"] == "fetch_hash"


def test_core_and_model_can_be_named_in_the_address(lab: Headless, open_page: Opener) -> None:
    page = open_page(lab, query="?core=simd128&model=model/needle3.cact%3Fother")
    info = settled(page)["info"]
    assert info["core"] == "simd128"
    assert info["model"] == {"name": "needle3.cact", "bytes": WEIGHTS_BYTES, "sha256": None, "verified": "not checked"}
    last = page.evaluate("() => window.seen.progress.at(-1)")
    assert last["loaded"] == last["total"] > WEIGHTS_BYTES
    error = settled(open_page(lab, query="?core=mmx"))["error"]
    assert error["code"] == "request_option"
    assert "mmx" in error["message"]


def test_nothing_heavy_is_fetched_before_the_first_paint(lab: Headless, open_page: Opener) -> None:
    page = open_page(lab)
    settled(page)
    painted, fetched = page.evaluate(
        """() => [
          performance.getEntriesByName("first-contentful-paint")[0].startTime,
          performance.getEntriesByType("resource").find((entry) => entry.name.endsWith("/worker.js")).startTime,
        ]"""
    )
    assert painted <= fetched
