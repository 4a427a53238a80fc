"""Makes goldens in tests/data from the reference package; see reference.py for the environments it runs in.

PYTHONPATH=tests:pyshim python tests/make_goldens.py ladder needle3.cact
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import reference
from needle.model import architecture as arch

DATA = Path(__file__).parent / "data"


def ladder(weights: str) -> None:
    """ladder.npz: the order of blocks of 1 to 64, and rungs of the tiny archive and of the real weights."""
    out = {"orders": np.concatenate([arch._ladder_layer_order(n) for n in range(1, 65)]).astype(np.uint8)}
    tiny = reference.Reference((DATA / "needle3_tiny.cact").read_bytes())
    with np.load(DATA / "needle3_tiny.npz") as file:
        ids = file["ids"].tolist()
    for depth in (2, 3, 4):
        rung = tiny.at_depth(depth)
        out[f"tiny_{depth}"] = rung.logits(ids).astype(np.float16)
        for name in rung.heads:
            out[f"tiny_{depth}_{name}"] = rung.head(name, ids)
    entry = json.loads((DATA / "needle3_golden.json").read_text(encoding="utf-8"))[0]
    real = reference.Reference(Path(weights).read_bytes())
    for depth in (2, 4, 8, 12, 16):
        logits = real.at_depth(depth).logits(entry["ids"], window=256, prefix=entry["prefix_tokens"])
        out[f"real_{depth}"] = logits[entry["positions"][1:3]].astype(np.float16)
    np.savez_compressed(DATA / "ladder.npz", **out)


if __name__ == "__main__":
    {"ladder": ladder}[sys.argv[1]](*sys.argv[2:])
