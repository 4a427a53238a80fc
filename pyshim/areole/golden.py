"""One fixed token sequence through a model, for comparing builds and hosts with each other and with a reference.

The page offers this as a fixed request, so a test in a browser can ask the very module that users run.
"""

from __future__ import annotations

import base64
import hashlib
from array import array
from collections.abc import Mapping

from .errors import RequestError
from .model import Model

_ROWS = 24  # rows of logits in memory at once; the same bits for any number


def evaluate(model: Model, request: Mapping[str, object]) -> dict[str, object]:
    """request: ids (T tokens), prefix (how many of them are pinned), window (bool, default the archive's KV window),
    positions (rows of logits to return).

    Returns logits (base64 of float32 rows at positions), argmax (T,), pooled (base64 float32) and confidence where the
    archive has the head, heads (outputs by name), sha256 of all logits (T, out_vocab) as little-endian float32, flavor.
    """
    ids, prefix, positions = request.get("ids"), request.get("prefix", 0), request.get("positions", [])
    if not isinstance(ids, list) or not ids or not all(isinstance(i, int) for i in ids):
        raise RequestError("request_option", "golden needs `ids`, a list of token ids", {"got": type(ids).__name__})
    if not isinstance(prefix, int) or not 0 <= prefix <= len(ids) or not isinstance(positions, list):
        raise RequestError(
            "request_option",
            f"golden needs a `prefix` of 0 to {len(ids)} tokens and a list of `positions`",
            {"prefix": prefix},
        )
    vocab = model.geometry.out_vocab
    window = None if request.get("window", True) else 0
    wanted = set(positions)
    digest, argmax, rows = hashlib.sha256(), array("I"), {}
    with model.session(prefix_capacity=prefix, max_tokens=len(ids), kv_window=window) as session:
        at = 0
        while at < len(ids):
            end = min(at + _ROWS, prefix if at < prefix else len(ids))
            block = session.all_logits(ids[at:end], pin=at < prefix)
            digest.update(block.tobytes())
            for position in range(at, end):
                row = block[(position - at) * vocab : (position - at + 1) * vocab]
                argmax.append(row.index(max(row)))
                if position in wanted:
                    rows[position] = row.tobytes()
            at = end
        heads = {name: session.head(name).tolist() for _, name in model.archive.heads}
        result: dict[str, object] = {
            "logits": base64.b64encode(b"".join(rows[p] for p in positions)).decode("ascii"),
            "argmax": argmax.tolist(),
            "heads": heads,
            "sha256": digest.hexdigest(),
            "flavor": model.core.flavor,
        }
        if "confidence" in heads:
            result["pooled"] = base64.b64encode(session.pooled().tobytes()).decode("ascii")
            result["confidence"] = session.confidence()
    return result
