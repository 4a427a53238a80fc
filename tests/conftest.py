"""Fixtures that say where test data and the real weights are. Fast tests need no weights; tests that do are marked
`model` and skip, saying why, where the weights are not found."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

MODEL_NAME = "needle3.cact"


def model_candidates() -> list[Path]:
    """Where the real weights may be, best first: $AREOLE_MODEL, then the cache that `build.py` fills."""
    named = os.environ.get("AREOLE_MODEL")
    if named:
        return [Path(named)]
    if os.environ.get("AREOLE_CACHE"):
        cache = Path(os.environ["AREOLE_CACHE"])
    elif os.environ.get("XDG_CACHE_HOME"):
        cache = Path(os.environ["XDG_CACHE_HOME"]) / "areole"
    else:
        cache = Path.home() / ".cache" / "areole"
    return [cache / "model" / MODEL_NAME]


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """tests/data."""
    return Path(__file__).parent / "data"


@pytest.fixture(scope="session")
def tiny_path(data_dir: Path) -> Path:
    """The random Needle 3 archive with CQ widths 2, 3, 4 and ternary."""
    return data_dir / "needle3_tiny.cact"


@pytest.fixture(scope="session")
def real_model_path() -> Path:
    """The real needle3.cact; skips where it is not found."""
    candidates = model_candidates()
    for path in candidates:
        if path.is_file():
            return path
    looked = ", ".join(str(path) for path in candidates)
    pytest.skip(f"the real weights are not at {looked}; set AREOLE_MODEL or run: python build.py test")
