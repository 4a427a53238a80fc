"""The engines that areole is compared with, each in a process of its own that answers over a pipe.

    python _peers.py official FOLDER     the official engine: its library and the weights are in FOLDER
    python _peers.py needle-rs FILE      the package needle-rs, with the weights in FILE
    python _peers.py page SITE           the site in a browser that keeps its HTTP cache: for loading only

A request is one line of JSON, {"do": NAME, ...}; so is its answer, or {"error": TEXT}. Times are taken here, around the
engine's own call, so the pipe is in none of them. One process asks and waits, so only one engine works at a time.
`Peer` is the asking side.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import TracebackType
from typing import Any

from _common import BenchError

ANSWER_SECONDS = 600.0  # for one request, on a machine busy with other things
ANSWER_BYTES = 1 << 20
QUIET = {"NEEDLE_TELEMETRY": "0", "DO_NOT_TRACK": "1"}  # the official engine calls home otherwise


class Peer:
    """An engine in another process. `do` sends one request and waits; BenchError if the engine refuses it or dies."""

    def __init__(self, kind: str, path: Path) -> None:
        self.kind = kind
        command = [sys.executable, str(Path(__file__).resolve()), kind, str(path)]
        pipe, env = subprocess.PIPE, {**os.environ, **QUIET}
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, encoding="utf-8", env=env)

    def __enter__(self) -> Peer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process = self._process
        with contextlib.suppress(OSError):
            process.communicate(timeout=20)  # closes its input, which ends it
        if process.poll() is None:
            process.kill()
            process.wait()

    def do(self, name: str, **values: Any) -> dict[str, Any]:
        process = self._process
        if process.stdin is None or process.stdout is None:
            raise BenchError(f"{self.kind}: its pipes are gone")
        killer = threading.Timer(ANSWER_SECONDS, process.kill)
        killer.daemon = True
        killer.start()
        try:
            process.stdin.write(json.dumps({"do": name, **values}) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except OSError as error:
            raise BenchError(f"{self.kind}: {name} could not be asked ({error})") from error
        finally:
            killer.cancel()
        if not line:
            raise BenchError(f"{self.kind}: ended in the middle of {name} (exit code {process.wait()})")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise BenchError(f"{self.kind}: {name}: {answer['error']}")
        return answer


# ---------------------------------------------------------------------------------------------------------------------
# The answering side
# ---------------------------------------------------------------------------------------------------------------------


def resident_peak() -> int | None:
    """Bytes of this process at its largest; None where Linux's own account is not there."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return None


class Official:
    """The official engine through its C interface: one global session in the process, two threads of its own."""

    def __init__(self, folder: Path) -> None:
        start = time.perf_counter()
        library = self.library = ctypes.CDLL(str(folder / "libneedle3.so"))
        text = ctypes.c_char_p
        library.needle_load.argtypes = [text, ctypes.c_uint64]
        library.needle_init.argtypes = [text, text, text]
        library.needle_complete.argtypes = [text, ctypes.c_int, text, ctypes.c_int]
        library.needle_last_error.restype = text
        self.weights = (folder / "needle3.cact").read_bytes()  # kept: the engine reads from it
        read = time.perf_counter()
        if library.needle_load(self.weights, len(self.weights)) < 0:
            raise BenchError(str(library.needle_last_error()))
        end = time.perf_counter()
        self.loading = {"seconds": end - start, "parts": {"read": read - start, "needle_load": end - read}}
        self.out = ctypes.create_string_buffer(ANSWER_BYTES)

    def load(self) -> dict[str, Any]:
        return self.loading

    def declare(self, tools: str, system: str) -> dict[str, Any]:
        encoded = tools.encode(), system.encode()
        start = time.perf_counter()
        tokens = self.library.needle_init(encoded[1], encoded[0], None)
        seconds = time.perf_counter() - start
        if tokens < 0:
            raise BenchError(str(self.library.needle_last_error()))
        return {"tokens": tokens, "seconds": seconds}

    def ask(self, text: str, max_new_tokens: int) -> dict[str, Any]:
        """One request from a fresh conversation; going back to the prefix is not in its time."""
        self.library.needle_reset()
        encoded = text.encode()
        start = time.perf_counter()
        tokens = self.library.needle_complete(encoded, max_new_tokens, self.out, len(self.out))
        seconds = time.perf_counter() - start
        if tokens < 0:
            raise BenchError(self.out.value.decode("utf-8", "replace"))
        answer = json.loads(self.out.value.decode("utf-8", "replace"))
        own = {key: answer.get(key) for key in ("prefill_tps", "decode_tps", "peak_ram_mb")}
        return {"tokens": tokens, "seconds": seconds, "calls": answer.get("function_calls"), "envelope": answer, **own}

    def memory(self) -> dict[str, Any]:
        return {"resident_bytes": resident_peak()}


class NeedleRs:
    """The package needle-rs. It keeps no prefix: each request feeds the tools again."""

    def __init__(self, model: Path) -> None:
        needle_rs = importlib.import_module("needle_rs")  # an optional package without types
        start = time.perf_counter()
        self.engine = needle_rs.V3Engine.load(str(model))
        self.loading = {"seconds": time.perf_counter() - start}

    def load(self) -> dict[str, Any]:
        return self.loading

    def length(self, text: str, tools: str) -> dict[str, Any]:
        """Tokens of the whole prompt."""
        answer = self.engine.generate(text, tools, 1)
        return {"prompt_tokens": answer["positions"] - len(answer["token_ids"])}

    def ask(self, text: str, tools: str) -> dict[str, Any]:
        """One request. It tells each token as it comes, so the time of the first is known from the same request."""
        times: list[float] = []
        start = time.perf_counter()
        self.engine.run_stream(text, tools, lambda _: times.append(time.perf_counter() - start))
        if not times:
            raise BenchError("no token came")
        return {"tokens": len(times), "first_seconds": times[0], "seconds": times[-1]}

    def memory(self) -> dict[str, Any]:
        return {"resident_bytes": resident_peak()}


# Seconds since the navigation began. The page is not waited for: its requests stand in line until it is ready.
VISIT = """async ([tools, system, text, more]) => {
  const now = () => performance.now() / 1000;
  while (!window.areole) await new Promise((resolve) => setTimeout(resolve, 5));
  const declaring = window.areole.declare(tools, system).then((told) => [now(), told.prefix_cached]);
  const answering = window.areole.complete(text);
  const info = await window.areole.ready;
  const ready = now();
  const [declared, prefix_cached] = await declaring;
  const first = await answering;
  const answered = now();
  const requests = [{ seconds: answered - declared, tokens: first.tokens }];
  for (const other of more) {
    await window.areole.reset();
    const start = now();
    const { tokens } = await window.areole.complete(other);
    requests.push({ seconds: now() - start, tokens });
  }
  const { loadSeconds: parts, warmSeconds: warm, snapshot, kept } = info;
  return { ready, declared, prefix_cached, answered, requests, parts, warm, snapshot, kept };
}"""
FORGET_TOOLS = """async () => {
  for (const name of await caches.keys()) if (name.startsWith("areole-prefixes")) await caches.delete(name);
}"""


class CachingPage:
    """The site in a browser with a profile on disk. The cache of a browser without one takes no file as large as the
    weights, so only here does a second visit find them. Each load is a navigation; the browser stays the same."""

    def __init__(self, site: Path) -> None:
        from playwright.sync_api import sync_playwright

        from devserver import SiteHandler, serving
        from headless import QUIET_FLAGS

        class Counting(SiteHandler):
            """Counts the bytes of files that were sent rather than found in the browser's cache."""

            sent = 0

            def send_common(self, tag: str | None, length: int, kind: str | None) -> None:
                Counting.sent += length
                super().send_common(tag, length, kind)

        self.counter = Counting
        self.stack = contextlib.ExitStack()
        self.server = self.stack.enter_context(serving(site))
        handler: type[BaseHTTPRequestHandler] = Counting
        self.server.RequestHandlerClass = handler
        folder = tempfile.TemporaryDirectory(prefix="areole-profile-", ignore_cleanup_errors=True)
        profile = self.stack.enter_context(folder)
        playwright = self.stack.enter_context(sync_playwright())
        context = playwright.chromium.launch_persistent_context(
            profile,
            executable_path=os.environ.get("AREOLE_CHROMIUM"),
            args=[*QUIET_FLAGS, *(["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else [])],
        )
        self.stack.callback(context.close)
        self.page = context.pages[0] if context.pages else context.new_page()

    def load(self) -> dict[str, Any]:
        """From the start of the navigation to an engine that takes requests, by the page's own clock."""
        before = self.counter.sent
        self.page.goto("about:blank")
        self.page.goto(self.server.address, wait_until="load", timeout=0)
        seconds, info = self.page.evaluate(
            "async () => { const info = await window.areole.ready; return [performance.now() / 1000, info]; }"
        )
        return {
            "seconds": seconds,
            "parts": info["loadSeconds"],
            "downloaded_bytes": self.counter.sent - before,
            "kernels": info.get("kernels"),
        }

    def visit(self, tools: str, system: str, text: str, more: Sequence[str] = (), rest: float = 0.0) -> dict[str, Any]:
        """As a script of the page would: tools and a request at once, then `more` of them, and seconds of rest."""
        self.page.goto("about:blank")
        self.page.goto(self.server.address, wait_until="commit", timeout=0)
        told: dict[str, Any] = self.page.evaluate(VISIT, [tools, system, text, list(more)])
        self.page.wait_for_timeout(1000 * rest)
        return told

    def forget_tools(self) -> dict[str, Any]:
        """Removes the states after tools that the page keeps."""
        self.page.evaluate(FORGET_TOOLS)
        return {}

    def close(self) -> None:
        self.stack.close()


KINDS = {"official": Official, "needle-rs": NeedleRs, "page": CachingPage}


@contextlib.contextmanager
def answers_only() -> Iterator[Any]:
    """The pipe for answers. What else is written to stdout, by a library perhaps, goes to stderr."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as channel:
        os.dup2(2, 1)
        yield channel


def main(kind: str, path: str) -> int:
    with answers_only() as channel:

        def answer(value: dict[str, Any]) -> None:
            print(json.dumps(value), file=channel, flush=True)

        engine = None
        for line in sys.stdin:
            request = json.loads(line)
            try:
                if engine is None:  # with the first request, so that its failure is that request's answer
                    engine = KINDS[kind](Path(path))
                answer(getattr(engine, request.pop("do"))(**request))
            except Exception as error:  # whatever it was, the asking side has to be told
                answer({"error": f"{type(error).__name__}: {error}"})
        if isinstance(engine, CachingPage):
            engine.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
