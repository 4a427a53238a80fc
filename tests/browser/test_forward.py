"""The forward pass in the tab: the real weights against the reference, and the same bits as every other build.

`areole.golden` runs a fixed token sequence in the very worker, Pyodide and core that answer requests.
"""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import goldens
import numpy as np
import pytest
from pages import Opener, settled
from playwright.sync_api import expect

from areole.archive import parse
from areole.core import load_core
from areole.golden import evaluate
from areole.ladder import rung
from areole.model import Model
from headless import Headless

pytestmark = [pytest.mark.browser, pytest.mark.model]


@pytest.mark.parametrize("name", goldens.NAMES)
def test_conversation(real: Headless, data_dir: Path, name: str) -> None:
    result = goldens.check(lambda request: real.call("golden", request), goldens.load(data_dir)[name])
    assert result["flavor"] == "relaxed"


def test_the_real_model_gives_the_same_bits_everywhere(
    real: Headless, open_page: Opener, data_dir: Path, real_model_path: Path
) -> None:
    """Chromium's relaxed SIMD and SIMD128, native code and wasmtime: one hash of all logits."""
    entry = goldens.load(data_dir)["preset/flight"]
    request = {"ids": entry["ids"], "prefix": entry["prefix_tokens"], "positions": []}
    page = open_page(real, query="?core=simd128")
    assert settled(page)["info"]["flavor"] == "simd128"
    results = [real.call("golden", request), page.evaluate("(request) => areole.golden(request)", request)]
    for kind in ("native", "wasmtime", "wasmtime-simd128"):
        with Model.load(real_model_path, load_core(kind)) as model:
            results.append(evaluate(model, request))
    assert [result["flavor"] for result in results] == ["relaxed", "simd128", "native", "relaxed", "simd128"]
    assert len({result["sha256"] for result in results}) == 1
    assert len({result["pooled"] for result in results}) == 1


@pytest.mark.parametrize("generation", [3, 2])
@pytest.mark.parametrize("core", ["relaxed", "simd128"])
def test_tiny_archive(real: Headless, open_page: Opener, core: str, generation: int, data_dir: Path) -> None:
    """The random archives with every CQ width, loaded by the page in place of the real one."""
    tiny_path = data_dir / f"needle{generation}_tiny.cact"
    page = open_page(
        real,
        query=f"?core={core}&model=model/tiny.cact",
        before=lambda page: page.route("**/model/tiny.cact", lambda route: route.fulfill(path=tiny_path)),
    )
    info = settled(page)["info"]
    assert info["flavor"] == core and info["archive"]["generation"] == generation
    with np.load(data_dir / f"needle{generation}_tiny.npz") as file:
        ids, logits, windowed = file["ids"].tolist(), file["logits"], file["logits_window"]
    request = {"ids": ids, "prefix": 5, "positions": list(range(len(ids)))}
    result = page.evaluate("(request) => areole.golden(request)", request)
    assert goldens.cosine(goldens.decoded(result["logits"]).reshape(logits.shape), windowed).min() > 0.9998
    with Model.load(tiny_path, load_core("native")) as model:
        assert evaluate(model, request)["sha256"] == result["sha256"]
    plain = page.evaluate("(request) => areole.golden(request)", {**request, "prefix": 0, "window": False})
    assert goldens.cosine(goldens.decoded(plain["logits"]).reshape(logits.shape), logits).min() > 0.9998
    with Model.load(tiny_path, load_core("native")) as model:
        assert evaluate(model, {**request, "prefix": 0, "window": False})["sha256"] == plain["sha256"]
    depth = page.get_by_role("slider", name="Blocks of the model that run", include_hidden=True)
    if generation == 2:
        expect(depth).to_be_disabled()
        return
    expect(depth).to_be_enabled()
    cut = page.evaluate(SLICE, 3)
    assert cut == {"name": "tiny-3.cact", "text": b64encode(rung(parse(tiny_path.read_bytes()), 3).to_bytes()).decode()}


SLICE = """async (depth) => {
  const { name, blob } = await areole.slice(depth);
  const bytes = new Uint8Array(await blob.arrayBuffer());
  return { name, text: btoa(Array.from(bytes, (code) => String.fromCharCode(code)).join("")) };
}"""


def test_the_archive_of_some_blocks(real: Headless, open_page: Opener, real_model_path: Path) -> None:
    """The workbench's button gives what `areole slice` writes, and the model that is loaded stays what it was."""
    page = open_page(real)
    settled(page)
    page.get_by_role("link", name="Workbench").click()
    cut = page.get_by_role("button", name="Download the archive of these blocks")
    expect(cut).to_be_disabled()  # of all blocks there is one already
    page.get_by_role("slider", name="Blocks of the model that run").fill("8")
    with page.expect_download() as download:
        cut.click()
    assert download.value.suggested_filename == "needle3-8.cact"
    assert download.value.path().read_bytes() == rung(parse(real_model_path.read_bytes()), 8).to_bytes()
    request = {"ids": [2, 9, 9, 8], "prefix": 0, "positions": [3]}
    assert (
        page.evaluate("(request) => areole.golden(request)", request)["sha256"]
        == real.call("golden", request)["sha256"]
    )
    refused = page.evaluate("() => areole.slice(21).catch(({ code, message }) => ({ code, message }))")
    assert refused["code"] == "request_option" and "2 to 20" in refused["message"]
