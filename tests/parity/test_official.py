"""Against the official engine itself, where its library is at hand (build.py puts it in the cache on x86-64 Linux).

Embeddings: the engine rounds where areole rounds, but not in the same order, so the vectors agree to a cosine. Over
thirty texts of many kinds the median was 0.9999; single words and emoji reach down to 0.998, where the engine is the
one that lies farther from the float reference.
"""

from __future__ import annotations

import ctypes
import os
import platform
from pathlib import Path

import numpy as np
import pytest
from goldens import cosine

from areole.agent import Needle
from areole.core import load_core
from areole.model import Model

pytestmark = pytest.mark.model

TEXTS = [
    "turn on the kitchen lights",
    "What's the weather in Reykjavík tomorrow?",
    "set an alarm for 6:45 am",
    "日本語のテキスト、こんにちは",
    "SELECT * FROM users WHERE id = 42;",
    "play some jazz quietly in the living room, then dim the lights to 20 percent and remind me to call mum",
    "Move my 3pm dentist appointment to Thursday at half past nine and tell the receptionist.",
    "a list of ingredients: flour, butter, two eggs, a pinch of salt",
    "Der Zug nach Köln hat zwanzig Minuten Verspätung.",
    "def add(a, b):\n    return a + b\n",
]


@pytest.fixture(scope="module")
def official(real_model_path: Path) -> ctypes.CDLL:
    folder = os.environ.get("AREOLE_OFFICIAL")
    library = Path(folder) / "libneedle3.so" if folder else None
    if library is None or not library.is_file() or platform.machine() != "x86_64":
        pytest.skip("the official engine's library is not here: build.py test sets AREOLE_OFFICIAL on x86-64 Linux")
    os.environ.update(NEEDLE_TELEMETRY="0", DO_NOT_TRACK="1")
    engine = ctypes.CDLL(str(library))
    engine.needle_load.argtypes = [ctypes.c_char_p, ctypes.c_uint64]
    engine.needle_embed.argtypes = [ctypes.c_char_p, ctypes.POINTER(ctypes.c_float), ctypes.c_int]
    engine.weights = real_model_path.read_bytes()  # the engine keeps pointing into them
    assert engine.needle_load(engine.weights, len(engine.weights)) >= 0
    return engine


def test_embeddings(official: ctypes.CDLL, real_model_path: Path) -> None:
    with Model.load(real_model_path, load_core("native")) as model, Needle(model, tools=[]) as needle:
        for text in TEXTS:
            mine = np.array(needle.embed(text))
            theirs = (ctypes.c_float * 3072)()
            assert official.needle_embed(text.encode(), theirs, 3072) == 3072
            assert abs(np.linalg.norm(mine) - 1) < 1e-5
            assert cosine(mine, np.array(theirs)) > 0.9995, text
