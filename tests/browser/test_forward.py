"""The forward pass in the tab: the real weights against the reference, and the same bits as every other build.

`areole.golden` runs a fixed token sequence in the very worker, Pyodide and core that answer requests.
"""

from __future__ import annotations

from pathlib import Path

import goldens
import numpy as np
import pytest
from pages import Opener, settled

from areole.core import load_core
from areole.golden import evaluate
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


@pytest.mark.parametrize("core", ["relaxed", "simd128"])
def test_tiny_archive(real: Headless, open_page: Opener, core: str, tiny_path: Path, data_dir: Path) -> None:
    """The random archive with every CQ width, loaded by the page in place of the real one."""
    page = open_page(
        real,
        query=f"?core={core}&model=model/tiny.cact",
        before=lambda page: page.route("**/model/tiny.cact", lambda route: route.fulfill(path=tiny_path)),
    )
    assert settled(page)["info"]["flavor"] == core
    with np.load(data_dir / "needle3_tiny.npz") as file:
        ids, logits, windowed = file["ids"].tolist(), file["logits"], file["logits_window"]
    request = {"ids": ids, "prefix": 5, "positions": list(range(len(ids)))}
    result = page.evaluate("(request) => areole.golden(request)", request)
    assert goldens.cosine(goldens.decoded(result["logits"]).reshape(logits.shape), windowed).min() > 0.9998
    with Model.load(tiny_path, load_core("native")) as model:
        assert evaluate(model, request)["sha256"] == result["sha256"]
    plain = page.evaluate("(request) => areole.golden(request)", {**request, "prefix": 0, "window": False})
    assert goldens.cosine(goldens.decoded(plain["logits"]).reshape(logits.shape), logits).min() > 0.9998
