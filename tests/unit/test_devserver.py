"""The development server: types, policy, caching, and what it does not serve."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from pathlib import Path

import pytest

from devserver import CONTENT_SECURITY_POLICY, SiteServer, serving

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SiteServer]:
    parent = tmp_path_factory.mktemp("served")
    (parent / "secret.txt").write_text("not for you")
    site = parent / "site"
    (site / "sub folder").mkdir(parents=True)
    (site / "empty").mkdir()
    (site / ".hidden").write_text("hidden")
    (site / "index.html").write_text("<p>front</p>")
    (site / "sub folder" / "ä.js").write_text("export {};")
    for name in ("core.wasm", "py.mjs", "a.whl", "site.json", "app.webmanifest", "needle3.cact"):
        (site / name).write_bytes(name.encode())
    with serving(site) as server:
        yield server


def ask(
    server: SiteServer, path: str, method: str = "GET", **headers: str
) -> tuple[int, http.client.HTTPMessage, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=10)
    try:
        connection.request(method, path, headers={name.replace("_", "-"): text for name, text in headers.items()})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "text/html; charset=utf-8"),
        ("/index.html?core=simd128", "text/html; charset=utf-8"),
        ("/core.wasm", "application/wasm"),
        ("/py.mjs", "text/javascript; charset=utf-8"),
        ("/sub%20folder/%C3%A4.js", "text/javascript; charset=utf-8"),
        ("/a.whl", "application/zip"),
        ("/site.json", "application/json"),
        ("/app.webmanifest", "application/manifest+json"),
        ("/needle3.cact", "application/octet-stream"),
    ],
)
def test_types_and_policy(server: SiteServer, path: str, kind: str) -> None:
    status, headers, body = ask(server, path)
    assert status == 200 and headers["Content-Type"] == kind
    assert int(headers["Content-Length"]) == len(body) > 0
    assert headers["Content-Security-Policy"] == CONTENT_SECURITY_POLICY
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "Cross-Origin-Opener-Policy" not in headers and "Cross-Origin-Embedder-Policy" not in headers


def test_isolation_is_for_every_file_where_it_is_asked_for(server: SiteServer) -> None:
    with serving(server.folder, isolated=True) as other:
        for path in ("/", "/py.mjs", "/missing.js"):
            _, headers, _ = ask(other, path)
            assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
            assert headers["Cross-Origin-Embedder-Policy"] == "require-corp"


def test_the_page_carries_the_same_policy() -> None:
    page = (ROOT / "web" / "index.html").read_text(encoding="utf-8")
    in_header_only = "; frame-ancestors 'none'"  # a <meta> cannot say it
    assert f'content="{CONTENT_SECURITY_POLICY.removesuffix(in_header_only)}"' in page


@pytest.mark.parametrize(
    "path",
    ["/missing.js", "/../secret.txt", "/%2e%2e/secret.txt", "/sub%20folder/../../secret.txt", "/empty", "/empty/"]
    + ["/.hidden", "/..%5csecret.txt", "/a%00.js", "//etc/passwd"],
)
def test_not_found_is_a_plain_answer_with_the_policy(server: SiteServer, path: str) -> None:
    status, headers, body = ask(server, path)
    assert status == 404 and headers["Content-Type"].startswith("text/plain")
    assert b"not for you" not in body and b"no such file" in body
    assert headers["Content-Security-Policy"] == CONTENT_SECURITY_POLICY


def test_head_has_the_length_and_no_body(server: SiteServer) -> None:
    status, headers, body = ask(server, "/core.wasm", "HEAD")
    assert (status, int(headers["Content-Length"]), body) == (200, len("core.wasm"), b"")


def test_an_unchanged_file_is_not_sent_again_and_a_changed_one_is(server: SiteServer) -> None:
    path = server.folder / "changing.json"
    path.write_text("1")
    _, headers, _ = ask(server, "/changing.json")
    assert headers["Cache-Control"] == "no-cache"
    status, again, body = ask(server, "/changing.json", If_None_Match=headers["ETag"])
    assert (status, body, again["ETag"]) == (304, b"", headers["ETag"])
    path.write_text("22")
    status, changed, body = ask(server, "/changing.json", If_None_Match=headers["ETag"])
    assert (status, body) == (200, b"22") and changed["ETag"] != headers["ETag"]


def test_other_methods_are_refused(server: SiteServer) -> None:
    assert ask(server, "/index.html", "POST")[0] == 501


def test_it_listens_on_this_machine_only(server: SiteServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    assert server.address == f"http://127.0.0.1:{server.server_address[1]}/"


def test_the_rest_of_a_file_from_a_byte_on(server: SiteServer) -> None:
    status, headers, body = ask(server, "/needle3.cact", Range="bytes=7-")
    assert (status, body) == (206, b".cact")
    assert headers["Content-Range"] == "bytes 7-11/12" and headers["Content-Length"] == "5"
    status, headers, body = ask(server, "/needle3.cact", Range="bytes=12-")
    assert (status, headers["Content-Range"], body) == (416, "bytes */12", b"")
    for other in ("bytes=0-", "bytes=2-3", "bytes=-4", "items=1-"):  # all of it is a right answer to each
        assert ask(server, "/needle3.cact", Range=other)[::2] == (200, b"needle3.cact")
