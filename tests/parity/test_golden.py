"""The real weights on the native build against the reference: see goldens.py for what is compared and how closely."""

from __future__ import annotations

from pathlib import Path

import goldens
import pytest

from areole.core import load_core
from areole.golden import evaluate
from areole.model import Model

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def model(real_model_path: Path) -> Model:
    return Model.load(real_model_path, load_core("native"))


@pytest.mark.parametrize("name", goldens.NAMES)
def test_conversation(model: Model, data_dir: Path, name: str) -> None:
    goldens.check(lambda request: evaluate(model, request), goldens.load(data_dir)[name])
