"""Sites whose weights are exchanged or cut on the way: what a test wants the page to get instead of the file."""

from __future__ import annotations

import contextlib
import socketserver
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from devserver import SiteHandler, SiteServer


class SwappingServer(SiteServer):
    """A site whose weights do not come as they should, and a log of who asked for what.

    weights: the bytes sent for the .cact file, or None for the file itself. promised: another Content-Length.
    cuts: after how many bytes each connection for the weights breaks, the first ones first. asked: (path, first byte).
    ranges: whether a part of a file may be asked for.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.RequestHandlerClass = SwappingHandler
        self.weights: bytes | None = None
        self.promised: int | None = None
        self.cuts: list[int] = []
        self.asked: list[tuple[str, int]] = []
        self.ranges = True

    def weights_asked(self) -> list[int]:
        """The first byte of each request for the weights so far; the log begins anew."""
        asked, self.asked = self.asked, []
        return [start for path, start in asked if path.endswith(".cact")]


class SwappingHandler(SiteHandler):
    server: SwappingServer

    def first_byte(self) -> int:
        return super().first_byte() if self.server.ranges else 0

    def answer(self, *, body: bool) -> None:
        server, path = self.server, urlsplit(self.path).path
        server.asked.append((path, self.first_byte()))
        if not path.endswith(".cact") or (server.weights is None and not server.cuts):
            super().answer(body=body)
            return
        start = self.first_byte()
        data = (server.weights if server.weights is not None else (server.folder / path[1:]).read_bytes())[start:]
        sent = server.cuts.pop(0) if server.cuts else len(data)
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{start + len(data) - 1}/{start + len(data)}")
        promised = len(data) if server.promised is None else server.promised - start
        self.send_common(None, promised, "application/octet-stream")
        if body:
            self.wfile.write(data[:sent])
        if sent < len(data):
            time.sleep(0.5 if sent else 0)  # what arrives together with the end of the connection is lost to the reader
        self.close_connection = server.promised is not None or sent < len(data)


@contextlib.contextmanager
def in_thread(server: socketserver.BaseServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()


@contextlib.contextmanager
def swapping(folder: Path) -> Iterator[SwappingServer]:
    """A SwappingServer for as long as the block runs."""
    with SwappingServer(folder) as server, in_thread(server):
        yield server
