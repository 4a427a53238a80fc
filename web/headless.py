"""The site in headless Chromium: what `build.py ask`, the benchmarks and the browser tests drive.

    with Headless(site) as tab:
        entry = tab.ask_entry({"system": "", "tools": [...], "turns": [{"text": "dim the lights"}]})

Owns the server, the browser and the limits of time; refuses nothing the page accepts. Values reach the page as
arguments, never inside source text. Needs Playwright and a Chromium (AREOLE_CHROMIUM, else chromium on PATH): run it
with the Python of the environment that build.py makes. As a program:

    python headless.py SITE --entries CASES.json --out ANSWERS.json [--core simd128]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlencode

sys.path.insert(0, str(Path(__file__).resolve().parent))  # for devserver, when loaded from elsewhere

from playwright.sync_api import Browser, BrowserContext, Page, Playwright, sync_playwright  # noqa: E402
from playwright.sync_api import Error as PlaywrightError  # noqa: E402

from ask import fault_of, pieces_of, turns_of  # noqa: E402
from devserver import SiteServer, serving  # noqa: E402

LOAD_SECONDS = 180.0  # weights, Pyodide and the core, on a busy machine
CASE_SECONDS = 180.0  # one case of several turns, on a busy machine

# No traffic of the browser's own, no first-run pages: the tab talks to the server in this process and to nobody.
QUIET_FLAGS = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    "--no-first-run",
)

# A rejection comes back as a value, so that code and details of the page's own errors are not lost in a stack trace.
SETTLE = """async ([name, values]) => {
  const seen = (error) => ({
    code: String(error?.code ?? error?.name ?? "error"),
    message: String(error?.message ?? error),
    details: error?.details ?? {},
  });
  try {
    if (!window.areole) throw new Error("the page has no window.areole: did app.js load?");
    const member = window.areole[name];
    if (member === undefined) throw new Error(`window.areole has no ${name}`);
    const value = await (typeof member === "function" ? member.apply(window.areole, values) : member);
    return { value: value === undefined ? null : value };
  } catch (error) {
    return { error: seen(error) };
  }
}"""


class HeadlessError(Exception):
    """The page could not be driven, or answered with an error of its own (then `code` and `details` are the page's)."""

    def __init__(self, message: str, code: str = "headless", details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.details = details or {}

    def to_json(self) -> dict[str, Any]:
        return {"code": self.code, "message": self.message, "details": self.details}


class HeadlessTimeout(HeadlessError):
    """The page did not answer in time; its browser was ended, so the next call needs `reopen()`."""


class Headless:
    """One page of the site, loaded and ready, in a browser of its own.

    Members for tests: `page` (Playwright's, synchronous), `context`, `address`, `info` (what the page said it loaded),
    `console_errors` (errors the console showed, uncaught ones included), `requests` (every URL asked for).
    With `ready=False` the page is opened but not waited for. `query` goes into the address, `core` too. `isolated`
    makes the page cross-origin isolated, which threads need.
    """

    def __init__(
        self,
        site: Path | str,
        *,
        core: str | None = None,
        query: dict[str, str] | None = None,
        ready: bool = True,
        chromium: str | None = None,
        load_seconds: float = LOAD_SECONDS,
        isolated: bool = False,
    ) -> None:
        self.site = Path(site)
        self.isolated = isolated
        self.query = {**({"core": core} if core else {}), **(query or {})}
        self.wait_ready = ready
        self.chromium = chromium or os.environ.get("AREOLE_CHROMIUM") or shutil.which("chromium")
        self.load_seconds = load_seconds
        self.console_errors: list[str] = []
        self.requests: list[str] = []
        self.info: Any = None
        self.page: Page
        self.context: BrowserContext
        self.server: SiteServer
        self._playwright: Playwright
        self._browser: Browser
        self._browser_pid: int | None = None
        self._stack = contextlib.ExitStack()

    # ------------------------------------------------------------------ life

    def __enter__(self) -> Headless:
        if self.chromium is None:
            raise HeadlessError("no Chromium: set AREOLE_CHROMIUM or install chromium")
        with contextlib.ExitStack() as stack:
            self.server = stack.enter_context(serving(self.site, isolated=self.isolated))
            self._playwright = stack.enter_context(sync_playwright())
            stack.callback(self._close_browser)
            self._stack = stack.pop_all()
        try:
            self._open()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def address(self) -> str:
        return self.server.address + (f"?{urlencode(self.query)}" if self.query else "")

    def reopen(self) -> None:
        """A new browser and a new page: after a HeadlessTimeout, or to measure a fresh load."""
        self._close_browser()
        self._open()

    def _open(self) -> None:
        # The sandbox needs rights that root in a container does not have; the only site it opens is our own.
        flags = [*QUIET_FLAGS, *(["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else [])]
        try:
            self._browser = self._playwright.chromium.launch(executable_path=self.chromium, args=flags)
        except PlaywrightError as error:
            raise HeadlessError(f"cannot start {self.chromium}: {error.message}") from error
        session = self._browser.new_browser_cdp_session()
        processes = session.send("SystemInfo.getProcessInfo")["processInfo"]
        self._browser_pid = next(process["id"] for process in processes if process["type"] == "browser")
        session.detach()
        # Nothing is to outlive the page, so it need not store itself, and requests stay visible.
        self.context = self._browser.new_context(service_workers="block")
        self.page = self.context.new_page()
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.console_errors.append(f"uncaught: {error}"))
        self.page.on("request", lambda request: self.requests.append(request.url))
        with self._limit(self.load_seconds, f"loading {self.address}"):
            self.page.goto(self.address, wait_until="load", timeout=0)
        if self.wait_ready:
            self.info = self.call("ready", seconds=self.load_seconds, doing="loading the model and Pyodide")

    def _close_browser(self) -> None:
        if self._browser_pid is not None:
            self._browser_pid = None
            with contextlib.suppress(PlaywrightError):  # after a time-out it is gone already
                self._browser.close()

    def _on_console(self, message: Any) -> None:
        if message.type == "error":
            where = message.location or {}
            self.console_errors.append(f"{message.text} ({where.get('url', '')}:{where.get('lineNumber', 0)})")

    # ------------------------------------------------------------------ calls

    @contextlib.contextmanager
    def _limit(self, seconds: float, doing: str) -> Iterator[None]:
        """End the browser when the block takes longer: a page that hangs cannot be asked to stop."""
        late = threading.Event()
        pid = self._browser_pid

        def end() -> None:
            late.set()
            if pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, getattr(signal, "SIGKILL", signal.SIGTERM))

        timer = threading.Timer(seconds, end)
        timer.daemon = True
        timer.start()
        try:
            yield
        except PlaywrightError as error:
            if late.is_set():
                raise HeadlessTimeout(
                    f"{doing}: no answer within {seconds:.0f} s; the browser was ended.{self._console_tail()}",
                    "headless_timeout",
                    {"seconds": seconds},
                ) from error
            raise HeadlessError(f"{doing}: {error.message.splitlines()[0]}{self._console_tail()}") from error
        finally:
            timer.cancel()

    def _console_tail(self) -> str:
        return "".join(f"\n  console: {line}" for line in self.console_errors[-5:])

    def evaluate(self, function: str, argument: Any = None, *, seconds: float = CASE_SECONDS) -> Any:
        """Playwright's evaluate (a JavaScript function and its one argument) with a limit of time."""
        with self._limit(seconds, "evaluating in the page"):
            return self.page.evaluate(function, argument)

    def call(self, name: str, *values: Any, seconds: float = CASE_SECONDS, doing: str = "") -> Any:
        """`window.areole.NAME(...values)`, awaited; its rejection is a HeadlessError with the page's own code."""
        with self._limit(seconds, doing or f"areole.{name}()"):
            settled = self.page.evaluate(SETTLE, [name, list(values)])
        if "error" in settled:
            error = settled["error"]
            raise HeadlessError(error["message"] + self._console_tail(), error["code"], error["details"])
        return settled["value"]

    def ask_entry(
        self, entry: dict[str, Any], options: dict[str, Any] | None = None, *, seconds: float | None = None
    ) -> dict[str, Any]:
        """One entry of a case file through `areole.askEntry`: the entry again, answers in place.

        options: `contract`, `gates`, `explain` of the declaration.
        Tools go in and responses come out as JSON text: JavaScript has one kind of number, and would make 2.0 into 2.
        """
        limit = seconds if seconds is not None else CASE_SECONDS * (1 + len(list(turns_of(entry))))
        tools = entry.get("tools")
        sent = entry if isinstance(tools, str) else {**entry, "tools": json.dumps(tools, ensure_ascii=False)}
        answer = self.call("askEntry", sent, options or {}, seconds=limit, doing=f"entry {entry.get('id', '')}".strip())
        if not isinstance(answer, dict):
            raise HeadlessError(f"askEntry gave {type(answer).__name__}, not an entry")
        for turn in turns_of(answer):
            text = turn.pop("response_json", None)
            if text is not None:
                turn["response"] = json.loads(text)
        return {**answer, "tools": tools} if "tools" in entry else answer


# ---------------------------------------------------------------------------------------------------------------------
# Case files
# ---------------------------------------------------------------------------------------------------------------------


def record(
    piece: dict[str, Any], entry: dict[str, Any], error: dict[str, Any], put: Callable[[dict[str, Any]], None]
) -> None:
    """Puts a piece's error where its answer would have been."""
    cases = piece.get("cases")
    if not isinstance(cases, list) or not cases:
        entry["error"] = error
    elif isinstance(cases[0], dict):
        cases[0]["error"] = error
    else:
        put({"cases": [{"case": cases[0], "error": error}]})


def ask_all(
    tab: Headless,
    entries: list[dict[str, Any]],
    progress: Callable[[str], None] = lambda _: None,
    complain: Callable[[str], None] = lambda _: None,
    options: dict[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Ask every entry in the one page; a case that fails gets an `error`, and the run goes on. Answers in place."""
    total, done, failed = sum(len(list(pieces_of(entry))) for entry in entries), 0, 0
    start = time.monotonic()
    for entry in entries:
        name = entry.get("id", "entry")
        for piece, put in pieces_of(entry):
            fault = fault_of(piece)
            try:
                if fault:
                    raise HeadlessError(f"{fault}.", "request_option")
                answer = tab.ask_entry(piece, options)
                put(answer)
                faults = [turn["error"]["message"] for turn in turns_of(answer) if "error" in turn]
            except HeadlessError as error:
                record(piece, entry, error.to_json(), put)
                faults = [error.message]
                if isinstance(error, HeadlessTimeout):
                    tab.reopen()
            done += 1
            failed += bool(faults)
            for fault in faults[:1]:  # what follows in one conversation follows from the first
                complain(f"{name}, case {done} of {total}: {fault}")
            if total > 1:
                progress(f"{done} of {total} cases, {failed} failed, {time.monotonic() - start:.0f} s ({name})")
    return entries


class Progress:
    """Progress on stderr: one line that is rewritten in a terminal, a line now and then elsewhere."""

    def __init__(self, every: float = 10.0) -> None:
        self.every = every
        self.last = time.monotonic()
        self.open = False  # a line that the next one may overwrite

    def __call__(self, text: str) -> None:
        if sys.stderr.isatty():
            print(f"\r\x1b[Kareole: {text}", end="", file=sys.stderr, flush=True)
            self.open = True
        elif time.monotonic() - self.last >= self.every:
            self.last = time.monotonic()
            print(f"areole: {text}", file=sys.stderr, flush=True)

    def line(self, text: str) -> None:
        """A line that stays."""
        if self.open:
            print(file=sys.stderr)
        self.open = False
        print(f"areole: {text}", file=sys.stderr, flush=True)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Ask the built site a file of entries in headless Chromium.")
    parser.add_argument("site", type=Path, help="the folder build.py made")
    parser.add_argument("--entries", type=Path, required=True, help="a JSON list of entries")
    parser.add_argument("--out", type=Path, required=True, help="where the same list goes, answers in place")
    parser.add_argument("--core", choices=("relaxed", "simd128"), help="which build of the core")
    parser.add_argument("--contract", help="the rules: areole, needle or raw")
    parser.add_argument("--explain", action="store_true", help="say in each response why something was withheld")
    parser.add_argument("--quiet", action="store_true", help="only errors")
    args = parser.parse_args(argv)
    entries = json.loads(args.entries.read_text(encoding="utf-8"))
    options = {**({"contract": args.contract} if args.contract else {}), **({"explain": True} if args.explain else {})}
    progress = Progress()
    show = (lambda _: None) if args.quiet else progress
    loaded = False
    try:
        if not args.quiet:
            progress.line("loading the page in headless Chromium ...")
        with Headless(args.site, core=args.core) as tab:
            loaded = True
            ask_all(tab, entries, show, progress.line, options)
    except HeadlessError as error:
        progress.line(f"error: {error}")
        return 1
    finally:
        if loaded:  # also what an interrupted run had so far
            partial = args.out.with_name(args.out.name + ".partial")
            partial.write_text(json.dumps(entries, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
            partial.replace(args.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
