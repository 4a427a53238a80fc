"""Cores for the parity tests. Every test that takes `core` runs on each build that CPython can load."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from areole.archive import Archive, parse
from areole.core import Core, load_core
from areole.model import Model

KINDS = ("native", "wasmtime", "wasmtime-simd128")


@pytest.fixture(scope="session", params=KINDS)
def core(request: pytest.FixtureRequest) -> Core:
    """One core of each build; `python build.py core` makes them, and a missing one is a failure."""
    return load_core(request.param)


@pytest.fixture(scope="session")
def tiny_archive(tiny_path: Path) -> Archive:
    return parse(tiny_path.read_bytes(), tiny_path.name)


@pytest.fixture(scope="session")
def tiny_golden(data_dir: Path) -> dict[str, np.ndarray]:
    """The reference's outputs for needle3_tiny.cact: ids, logits, logits_float, logits_window, cells, heads."""
    with np.load(data_dir / "needle3_tiny.npz") as file:
        return dict(file)


@pytest.fixture(scope="session")
def tiny_model(core: Core, tiny_path: Path) -> Iterator[Model]:
    with Model.load(tiny_path, core) as model:
        yield model
