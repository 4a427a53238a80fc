"""The core's threads without Python: the same bits with helpers, with slow ones, and with none that ever runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "bench"))  # for the page with the core alone

pytestmark = [pytest.mark.browser, pytest.mark.model]

PREFIX, TURN = 40, 24
Compare = Callable[..., Any]


@pytest.fixture(scope="module")
def compare(real_model_path: Path) -> Iterator[Compare]:
    """compare(threads, hinder): threads_case.js in a page of its own, with the real weights."""
    from _page import core_page, shipped_spec

    spec = shipped_spec(real_model_path, "shipped.cact", TURN)
    spec["prefix"] = spec["prefix"][:PREFIX]
    script = Path(__file__).with_name("threads_case.js")
    with core_page("relaxed-threads", script, {"shipped.cact": real_model_path}, isolated=True) as (measure, _):

        def run(threads: int, hinder: tuple[int, int] | None = None) -> Any:
            return measure({"model": spec, "threads": threads, "hinder": hinder})

        yield run


def one_hash(result: dict[str, Any]) -> None:
    assert result["notice"] is None
    assert len({*result["alone"], *result["together"], *result["idle"]}) == 1


@pytest.mark.parametrize("threads", [2, 4])
def test_the_same_bits(compare: Compare, threads: int) -> None:
    result = compare(threads)
    one_hash(result)
    assert result["parts"]["finished"] > 0


@pytest.mark.parametrize(("turns", "every"), [(3_000_000, 50), (200_000_000, 1)])
def test_helpers_that_dawdle(compare: Compare, turns: int, every: int) -> None:
    """What they were late with is computed again, and what they still write while others go on is not seen."""
    result = compare(3, (turns, every))
    one_hash(result)
    assert result["parts"]["redone"] > 0


def test_helpers_that_never_run(compare: Compare) -> None:
    result = compare(2)
    one_hash(result)
    assert result["idleParts"] == 0
