"""What can be said about the page's files without a browser: policy, examples, and how much there is of it."""

from __future__ import annotations

import json
import re
import sys
import zlib
from pathlib import Path

WEB = Path(__file__).resolve().parents[2] / "web"
sys.path.insert(0, str(WEB))

from devserver import CONTENT_SECURITY_POLICY  # noqa: E402


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
    for path in WEB.iterdir():
        if path.suffix in (".html", ".js", ".css", ".json"):
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
        assert example["text"] == entry["turns"][0]["text"]
        assert 0 < len(example["title"]) <= 20
    assert len({example["title"] for example in examples}) == 13


def test_the_page_stays_small() -> None:
    """Bytes on the wire of everything that is the page's own, Pyodide and weights aside."""
    suffixes = (".html", ".js", ".css", ".json", ".svg")
    sizes = {path.name: len(zlib.compress(path.read_bytes(), 9)) for path in WEB.iterdir() if path.suffix in suffixes}
    assert sum(sizes.values()) <= 150_000, sizes
