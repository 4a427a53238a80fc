"""The goldens of the real weights, and what a result of areole.golden.evaluate must have in common with them.

Six conversations through the float32 reference with quantisation simulated. Rows are held to a cosine of 0.9995
(measured: 0.99998 and better), and the argmax to the reference's wherever its two best differ by more than 0.5:
below that, two quantised forwards may swap them. The pooled vector and confidence were made without the KV window.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

NAMES = ["preset/home", "preset/device", "preset/document", "preset/flight", "smart_home", "wearable"]
ROW_COSINE, MARGIN, CONFIDENCE = 0.9995, 0.5, 0.04

Evaluate = Callable[[dict[str, Any]], Mapping[str, Any]]


def cosine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Row by row over the last axis. Relative errors would say nothing: most logits are near zero."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    return np.asarray((a * b).sum(-1) / np.sqrt((a * a).sum(-1) * (b * b).sum(-1)))


def decoded(text: object) -> np.ndarray:
    return np.frombuffer(base64.b64decode(str(text)), np.float32)


def load(data_dir: Path) -> dict[str, dict[str, Any]]:
    """By conversation: ids, prefix_tokens, positions, argmax, confidence, and the arrays of the reference."""
    entries = json.loads((data_dir / "needle3_golden.json").read_text(encoding="utf-8"))
    with np.load(data_dir / "needle3_golden.npz") as file:
        for entry in entries:
            key = entry["id"].replace("/", "_")
            for name in ("logits", "logits_no_window", "pooled"):
                entry[name] = file[f"{key}_{name}"].astype(np.float32)
    return {entry["id"]: entry for entry in entries}


def check(evaluate: Evaluate, entry: dict[str, Any]) -> Mapping[str, Any]:
    """Compares one conversation, with and without the KV window; returns the result with it."""
    request = {"ids": entry["ids"], "prefix": entry["prefix_tokens"], "positions": entry["positions"]}
    result = evaluate(request)
    rows, gold = decoded(result["logits"]).reshape(len(entry["positions"]), -1), entry["logits"]
    assert cosine(rows, gold).min() > ROW_COSINE
    best = np.sort(gold, -1)
    sure = best[:, -1] - best[:, -2] > MARGIN
    assert (rows.argmax(-1) == gold.argmax(-1))[sure].all()
    check_argmax(evaluate, entry, request, result)
    plain = evaluate({**request, "window": False, "prefix": 0})
    rows = decoded(plain["logits"]).reshape(len(entry["positions"]), -1)
    assert cosine(rows, entry["logits_no_window"]).min() > ROW_COSINE
    assert cosine(decoded(plain["pooled"]), entry["pooled"]) > ROW_COSINE
    assert abs(plain["confidence"] - entry["confidence"]) < CONFIDENCE
    return result


def check_argmax(evaluate: Evaluate, entry: dict[str, Any], request: dict[str, Any], result: Mapping[str, Any]) -> None:
    """Every position, of which the reference's logits are not stored: where the argmax is another one, our own logits
    must have the reference's choice within the margin."""
    differ = np.nonzero(np.array(result["argmax"]) != np.array(entry["argmax"]))[0].tolist()
    assert len(differ) <= 0.03 * len(entry["ids"])
    if not differ:
        return
    rows = decoded(evaluate({**request, "positions": differ})["logits"]).reshape(len(differ), -1)
    for row, position in zip(rows, differ, strict=True):
        assert row.max() - row[entry["argmax"][position]] < MARGIN, position
