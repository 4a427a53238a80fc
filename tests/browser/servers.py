"""A site whose weights are exchanged on the way: what a test wants the page to get instead of the file."""

from __future__ import annotations

import contextlib
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from devserver import SiteHandler, SiteServer


class SwappingServer(SiteServer):
    """`weights`: the bytes sent for the .cact file, or None for the file itself. `promised`: another Content-Length."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.RequestHandlerClass = SwappingHandler
        self.weights: bytes | None = None
        self.promised: int | None = None


class SwappingHandler(SiteHandler):
    server: SwappingServer

    def answer(self, *, body: bool) -> None:
        data = self.server.weights
        if data is None or not urlsplit(self.path).path.endswith(".cact"):
            super().answer(body=body)
            return
        self.send_response(200)
        self.send_common(None, self.server.promised or len(data), "application/octet-stream")
        if body:
            self.wfile.write(data)
        self.close_connection = self.server.promised is not None


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
