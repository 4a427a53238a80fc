"""The list of files that the service worker keeps: written by build.py beside the site, read by sw.js."""

from __future__ import annotations

import json
from collections.abc import Mapping

NAME = "precache.js"
# What the page does not need to run: the weights, which it keeps itself, the worker's own scripts, and types.
LEFT_OUT = ("model/", "sw.js", NAME)


def precache_script(hashes: Mapping[str, str]) -> str:
    """precache.js for a site: path -> SHA-256 of its file. A changed file changes it, and that is an update."""
    kept = {name: hashes[name] for name in sorted(hashes) if not name.startswith(LEFT_OUT) and name[-5:] != ".d.ts"}
    return f"self.PRECACHE = {json.dumps(kept, indent=1, ensure_ascii=False)};\n"
