"""Makes goldens in tests/data from the reference package; see reference.py for the environments it runs in.

PYTHONPATH=tests:pyshim python tests/make_goldens.py ladder needle3.cact
PYTHONPATH=tests:pyshim python tests/make_goldens.py pack
PYTHONPATH=tests:pyshim python tests/make_goldens.py geometry
PYTHONPATH=tests:pyshim python tests/make_goldens.py retrieval
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from pathlib import Path

import geometries
import int_weights
import numpy as np
import reference
from needle.model import architecture as arch

from areole.archive import parse
from areole.header import Geometry
from areole.tokenizer import Tokenizer

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


def pack() -> None:
    """pack.json: hashes of what the reference exports of int_weights.py, and of its rungs, for its own generation."""
    generation = reference.GENERATION
    g, arrays = int_weights.GEOMETRY[generation], int_weights.weights(generation)
    tokenizer = arrays["tokenizer"].tobytes()
    model = reference.Reference.of(reference_geometry(g), [*list(arrays.values())[:-1], tokenizer])
    found: dict[str, object] = {}
    for bits, name in (4, "4"), *(((2, "2"), (3, "3"), (1.58, "5")) if generation == 2 else ()):
        found[name] = hashlib.sha256(model.exported(tokenizer, 64, bits)).hexdigest()
    if generation == 3:
        for depth in range(2, g.layers):
            found[f"depth {depth}"] = hashlib.sha256(model.at_depth(depth).exported(tokenizer, 64)).hexdigest()
    path = DATA / "pack.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    path.write_text(json.dumps({**known, str(generation): found}, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def geometry() -> None:
    """geometries2.npz or geometries3.npz: what the reference makes of geometries.py, in float and as deployed. Goes on
    where it was cut off: a case is made anew only if its archive is another one."""
    path = DATA / f"geometries{reference.GENERATION}.npz"
    out: dict[str, np.ndarray] = {}
    if path.exists():
        with np.load(path) as file:
            out = dict(file)
    for index in range(geometries.COUNT):
        data, ids = geometries.archive(reference.GENERATION, index), geometries.tokens(index)
        sha256 = np.frombuffer(hashlib.sha256(data).digest(), np.uint8)
        if np.array_equal(out.get(f"{index}_sha256", ()), sha256):
            continue
        model = reference.Reference(data)
        for name, quant in ("float", False), ("logits", True):
            out[f"{index}_{name}"] = geometries.some(model.logits(ids, quant=quant, **geometries.seen(index)))
        for name in model.heads:
            out[f"{index}_{geometries.HEADS[name]}"] = np.atleast_1d(model.head(name, ids))
        out[f"{index}_sha256"] = sha256
        np.savez_compressed(path, **out)
        print(f"{index} after {time.process_time():.0f} s", flush=True)


def retrieval() -> None:
    """retrieval.json: for the tiny archive of the generation, the reference's cosines of tools and requests."""
    path = DATA / "retrieval.json"
    known = json.loads(path.read_text(encoding="utf-8"))
    data = (DATA / f"needle{reference.GENERATION}_tiny.cact").read_bytes()
    model, tokenizer = reference.Reference(data), Tokenizer(parse(data).vocabulary)

    texts = [*(tool["description"] for tool in known["tools"]), *known["requests"]]
    ids = [[tokenizer.bos, *tokenizer.encode(text, markers=False)] for text in texts]
    vectors = model.heads_of(model.heads[0], ids)
    tools, requests = vectors[: len(known["tools"])], vectors[len(known["tools"]) :]
    cosines = (requests @ tools.T).astype(float).round(7).tolist()
    known["cosines"] = {**known.get("cosines", {}), str(reference.GENERATION): cosines}
    path.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


def reference_geometry(g: Geometry) -> dict[str, object]:
    """A geometry as the reference's reader names it."""
    names = {
        "vocab_size": "vocab", "out_vocab": "out_vocab", "d_model": "d_model", "num_heads": "heads",
        "num_kv_heads": "kv_heads", "num_layers": "layers", "qk_head_dim": "qk_dim", "v_head_dim": "v_dim",
        "head_dim": "qk_dim", "max_seq_len": "max_seq", "mhc_lanes": "lanes", "sliding_window": "sliding_window",
        "qkv_conv_taps": "qkv_taps", "engram_slots": "engram_slots", "num_engram_tables": "engram_tables",
        "engram_seed_heads": "engram_seed_heads", "global_layers": "global_layers", "engram_orders": "engram_orders",
        "engram_layers": "engram_sites", "rope_theta": "rope_theta", "kv_window": "kv_window", "kv_bits": "kv_bits",
    }  # fmt: skip
    return {theirs: getattr(g, ours) for theirs, ours in names.items()}


if __name__ == "__main__":
    {"ladder": ladder, "pack": pack, "geometry": geometry, "retrieval": retrieval}[sys.argv[1]](*sys.argv[2:])
