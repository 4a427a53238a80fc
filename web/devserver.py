"""The development server: a folder over HTTP on this machine only, with the types and the policy the page needs.

It sends nothing special that a static host would not: the right MIME types, the rest of a file from a byte on, and
the Content-Security-Policy that index.html carries too, as a header so that it also binds the worker. Cross-origin
isolation only where it is asked for: the page must work without it, and only threads need it. It refuses other methods
than GET and HEAD, folder listings, and paths that leave the folder. Used by `build.py serve` and by headless.py;
standard library only.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator
from email.utils import formatdate
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Everything from this origin, WebAssembly but no eval, workers from real URLs.
CONTENT_SECURITY_POLICY = (
    "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; worker-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)

# What makes a page cross-origin isolated; its workers' scripts need them too.
ISOLATION = {"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Embedder-Policy": "require-corp"}

# Not the mimetypes module: its answers depend on the machine's own tables.
MIME_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".mjs": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".wasm": "application/wasm",
    ".webmanifest": "application/manifest+json",
    ".whl": "application/zip",
    ".zip": "application/zip",
}
CHUNK = 1 << 18


class SiteServer(ThreadingHTTPServer):
    """Serves `folder` on 127.0.0.1; port 0 takes a free one. `address` is what a browser opens. `isolated` sends the
    headers without which a page has no threads."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, folder: Path, port: int = 0, *, log: bool = False, isolated: bool = False) -> None:
        self.folder = folder.resolve()
        self.log = log
        self.isolated = isolated
        super().__init__(("127.0.0.1", port), SiteHandler)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/"

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that closes a connection half-way (a cancelled load) is not worth a traceback."""


class SiteHandler(BaseHTTPRequestHandler):
    server: SiteServer
    protocol_version = "HTTP/1.1"
    server_version = "areole"
    sys_version = ""
    timeout = 60

    def do_GET(self) -> None:
        self.answer(body=True)

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def answer(self, *, body: bool) -> None:
        path = self.find(unquote(urlsplit(self.path).path))
        if path is None:
            self.send_plain(HTTPStatus.NOT_FOUND, f"no such file: {self.path}\n", body=body)
            return
        stat = path.stat()
        tag = f'"{stat.st_size:x}-{stat.st_mtime_ns:x}-{stat.st_ino:x}"'
        if self.headers.get("If-None-Match") == tag:
            self.send_response(HTTPStatus.NOT_MODIFIED)
            self.send_common(tag, 0, None)
            return
        start = self.first_byte()
        if start >= max(stat.st_size, 1):
            self.send_response(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE)
            self.send_header("Content-Range", f"bytes */{stat.st_size}")
            self.send_common(tag, 0, MIME_TYPES[".txt"])
            return
        with path.open("rb") as stream:
            self.send_response(HTTPStatus.PARTIAL_CONTENT if start else HTTPStatus.OK)
            self.send_header("Last-Modified", formatdate(stat.st_mtime, usegmt=True))
            self.send_header("Accept-Ranges", "bytes")
            if start:
                self.send_header("Content-Range", f"bytes {start}-{stat.st_size - 1}/{stat.st_size}")
                stream.seek(start)
            self.send_common(tag, stat.st_size - start, MIME_TYPES.get(path.suffix, "application/octet-stream"))
            left = stat.st_size - start if body else 0
            while left > 0 and (data := stream.read(min(CHUNK, left))):
                self.wfile.write(data)
                left -= len(data)

    def first_byte(self) -> int:
        """From where on a file is asked for; other ranges than "from here to the end" get all of it, as they may."""
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
        return int(asked[1]) if asked else 0

    def find(self, path: str) -> Path | None:
        """The file for a URL path, or None: also for a folder without index.html and for a way out of the folder."""
        parts = [part for part in path.split("/") if part]
        if "\0" in path or "\\" in path or any(part.startswith(".") for part in parts):
            return None
        found = self.server.folder.joinpath(*parts)
        if found.is_dir():
            found /= "index.html"
        return found if found.is_file() else None

    def send_plain(self, status: HTTPStatus, text: str, *, body: bool) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_common(None, len(data), MIME_TYPES[".txt"])
        if body:
            self.wfile.write(data)

    def send_common(self, tag: str | None, length: int, kind: str | None) -> None:
        if kind:
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(length))
        if tag:
            self.send_header("ETag", tag)
        # Kept, but asked about each time: an edited file is never stale, an unchanged model is not sent twice.
        self.send_header("Cache-Control", "no-cache" if tag else "no-store")
        self.send_header("Content-Security-Policy", CONTENT_SECURITY_POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        for name, value in ISOLATION.items() if self.server.isolated else ():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        if self.server.log:
            super().log_message(format, *args)


@contextlib.contextmanager
def serving(folder: Path, port: int = 0, *, isolated: bool = False) -> Iterator[SiteServer]:
    """A server in a thread of its own for as long as the block runs."""
    with SiteServer(folder, port, isolated=isolated) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
