"""What can be said about the page's files without a browser: policy, examples, and how much there is of it."""

from __future__ import annotations

import json
import re
import struct
import sys
import zlib
from pathlib import Path

WEB = Path(__file__).resolve().parents[2] / "web"
sys.path.insert(0, str(WEB))

from areole.errors import ERROR_CODES  # noqa: E402
from devserver import CONTENT_SECURITY_POLICY  # noqa: E402
from precache import precache_script  # noqa: E402

SUFFIXES = (".html", ".js", ".css", ".json", ".svg", ".png", ".webmanifest")


def page_files() -> list[Path]:
    return sorted(path for path in WEB.rglob("*") if path.suffix in SUFFIXES)


def test_one_policy_in_the_page_the_scripts_and_the_server() -> None:
    page = (WEB / "index.html").read_text(encoding="utf-8")
    meta = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    assert meta is not None
    assert f"{meta[1]}; frame-ancestors 'none'" == CONTENT_SECURITY_POLICY  # that one counts only in a header
    pieces = re.search(r"export const CSP =\s*(.*?);\n", (WEB / "errors.js").read_text(encoding="utf-8"), re.DOTALL)
    assert pieces is not None
    assert "".join(re.findall(r'"([^"]*)"', pieces[1])) == meta[1]


def test_nothing_inline_and_nothing_from_elsewhere() -> None:
    page = (WEB / "index.html").read_text(encoding="utf-8")
    assert re.findall(r"<style|\sstyle=|\son\w+=|javascript:|<script(?![^>]*\ssrc=)", page) == []
    for path in page_files():
        if path.suffix != ".png":
            text = path.read_text(encoding="utf-8").replace("http://www.w3.org/", "")
            assert re.findall(r"https?://|//cdn|@import", text) == [], path.name


def test_examples_are_the_official_ones_without_the_answers(data_dir: Path) -> None:
    examples = json.loads((WEB / "presets.json").read_text(encoding="utf-8"))
    official = json.loads((data_dir / "presets.json").read_text(encoding="utf-8"))
    assert [f"preset/{example['id']}" for example in examples] == [entry["id"] for entry in official]
    for example, entry in zip(examples, official, strict=True):
        assert set(example) == {"id", "title", "note", "system", "text", "tools"}
        assert example["tools"] == entry["tools"]
        assert example["system"] == entry["system"]
        # The official slip is one that the official engine withholds too: it takes "Reception" for the guest.
        assert (example["text"] == entry["turns"][0]["text"]) == (example["id"] != "document")
        assert 0 < len(example["title"]) <= 20
    assert len({example["title"] for example in examples}) == 13


def test_the_page_stays_small() -> None:
    """Bytes on the wire of everything that is the page's own, Pyodide and weights aside."""
    sizes = {path.name: len(zlib.compress(path.read_bytes(), 9)) for path in page_files()}
    assert sum(sizes.values()) <= 150_000, sizes


def test_caches_are_opened_in_one_place() -> None:
    """Where it is refused once everything was removed; the service worker cannot import, and has its own."""
    scripts = [path for path in page_files() if path.suffix == ".js"]
    opening = [path.name for path in scripts if "caches.open(" in path.read_text(encoding="utf-8")]
    assert opening == ["kept.js", "sw.js"]


def test_the_service_worker_keeps_all_but_the_weights() -> None:
    names = ["index.html", "sw.js", "precache.js", "areole.d.ts", "model/needle3.cact", "py/areole.whl", "page/ui.js"]
    script = precache_script({name: f"{place:064x}" for place, name in enumerate(names)})
    head = "self.PRECACHE = "
    assert script.startswith(head) and script.endswith(";\n")
    kept = json.loads(script[len(head) : -2])
    assert kept == {"index.html": f"{0:064x}", "page/ui.js": f"{6:064x}", "py/areole.whl": f"{5:064x}"}


def test_the_manifest_names_what_is_there() -> None:
    manifest = json.loads((WEB / "manifest.webmanifest").read_text(encoding="utf-8"))
    assert {"name", "short_name", "start_url", "display", "icons"} <= set(manifest)
    sizes = set()
    for icon in manifest["icons"]:
        data = (WEB / icon["src"]).read_bytes()
        if icon["type"] == "image/png":
            width, height = struct.unpack(">II", data[16:24])
            assert icon["sizes"] == f"{width}x{height}"
            sizes.add((width, icon.get("purpose", "any")))
    assert {(192, "any"), (512, "any"), (512, "maskable")} <= sizes


def test_the_types_name_every_error_code() -> None:
    types = (WEB / "areole.d.ts").read_text(encoding="utf-8")
    union = re.search(r"export type ErrorCode =(.*?);", types, re.DOTALL)
    assert union is not None
    assert re.findall(r'"(\w+)"', union[1]) == list(ERROR_CODES)
