"""How long 20,000 characters take to become token ids, under CPython.

    python build.py bench tokenizer [--json]

A tokenizer remembers words, so each text is measured with one that has seen nothing ("first", which the bar is about)
and once more after it ("again").
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from _common import ROOT, BenchError, finish, heading, load_average, needed, parser, short, spread, summary, table

CHARACTERS = 20_000
REPEATS = 9
BAR_MS = 150.0

# Prose and code as people write them: this project's own.
PROSE = ("LICENSE", "README.md", "docs/archive.md", "docs/errors.md")
CODE = ("build.py", "core_c/cq.c")


def cut(pieces: Sequence[str], length: int = CHARACTERS) -> str:
    """The first `length` characters of the pieces together, repeated if they are too few."""
    text = "".join(pieces)
    if not text:
        raise BenchError("there is no text to tokenise")
    return (text * -(-length // len(text)))[:length]


def texts(root: Path) -> dict[str, str]:
    """Name -> CHARACTERS characters. Without spaces the whole text is one word to the merges; of one letter, all of
    them are equally good."""

    def files(names: Sequence[str]) -> list[str]:
        return [(root / name).read_text(encoding="utf-8") for name in names]

    prose = files(PROSE)
    return {
        "prose": cut(prose),
        "code": cut(files(CODE)),
        "no spaces": cut([re.sub(r"\s+", "", piece) for piece in prose]),
        "one letter": cut(["a"]),
    }


def measure(blob: bytes, text: str) -> dict[str, Any]:
    """Milliseconds, over REPEATS tokenizers."""
    from areole.tokenizer import Tokenizer

    first: list[float] = []
    again: list[float] = []
    tokens = 0
    for _ in range(REPEATS):
        tokenizer = Tokenizer.from_blob(blob)
        for into in (first, again):
            start = time.perf_counter()
            tokens = len(tokenizer.encode(text, markers=False))
            into.append((time.perf_counter() - start) * 1e3)
    return {"characters": len(text), "tokens": tokens, "first_ms": summary(first), "again_ms": summary(again)}


def run() -> dict[str, Any]:
    from areole.archive import parse
    from areole.tokenizer import Tokenizer

    result = heading("tokenizer")
    blob = parse(needed("AREOLE_MODEL", "the model").read_bytes()).tokenizer_blob
    loads = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        Tokenizer.from_blob(blob)
        loads.append((time.perf_counter() - start) * 1e3)
    measured = {name: measure(blob, text) for name, text in texts(ROOT).items()}
    result["machine"]["load_after"] = load_average()
    worst = max(row["first_ms"]["median"] for row in measured.values())
    return {
        **result,
        "bar_ms": BAR_MS,
        "worst_ms": worst,
        "within_bar": worst < BAR_MS,
        "load_ms": summary(loads),
        "texts": measured,
    }


def as_table(result: dict[str, Any]) -> str:
    rows = [[f"{CHARACTERS} characters of", "tokens", "first, ms", "again, ms"]]
    rows += [
        [name, str(row["tokens"]), spread(row["first_ms"]), spread(row["again_ms"])]
        for name, row in result["texts"].items()
    ]
    verdict = "within" if result["within_bar"] else "over"
    return (
        f"tokenizer under CPython {result['machine']['python']}: median (min-max) of {REPEATS}\n\n{table(rows)}\n\n"
        f"made from the archive in {spread(result['load_ms'])} ms\n"
        f"the slowest text takes {short(result['worst_ms'])} ms, {verdict} the bar of {short(result['bar_ms'])} ms"
    )


def main(argv: Sequence[str] | None = None) -> int:
    args = parser(__doc__).parse_args(argv)
    return finish(run, as_table, args.json, (BenchError, OSError))


if __name__ == "__main__":
    sys.exit(main())
