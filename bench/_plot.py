"""Plots of the benchmarks' results as SVG, drawn by matplotlib. What is drawn is each benchmark's to say."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

INK, GRID = "#3b3b3b", "#d9d9d9"
COLOURS = ("#2f6f4f", "#c2571a", "#3a5fa0", "#8a4f9e")


def figure(width: float, height: float, panels: int = 1) -> tuple[Any, list[Any]]:
    """A figure and its axes, side by side. Text stays text, and the same figures make the same file."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update(
        {
            "svg.fonttype": "none", "svg.hashsalt": "areole", "font.size": 9, "axes.edgecolor": INK,
            "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.color": GRID,
            "axes.axisbelow": True, "axes.prop_cycle": matplotlib.cycler(color=COLOURS),
        }
    )  # fmt: skip
    from matplotlib import pyplot

    made, axes = pyplot.subplots(1, panels, figsize=(width, height), squeeze=False)
    return made, list(axes[0])


def bars(axes: Any, names: Sequence[str], values: Sequence[float], label: str) -> None:
    """Lying bars, the first on top, each with its value."""
    drawn = axes.barh(range(len(names)), values, color=COLOURS[0])
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.bar_label(drawn, fmt="%.3g", padding=2)
    axes.set_xlabel(label)
    axes.grid(axis="y", visible=False)


def save(made: Any, path: Path) -> None:
    made.tight_layout()
    drawn = io.StringIO()
    made.savefig(drawn, format="svg", metadata={"Date": None, "Creator": None})
    # matplotlib leaves blanks at the ends of lines, which the tree's own tests refuse.
    path.write_text("".join(f"{line.rstrip()}\n" for line in drawn.getvalue().splitlines()), encoding="utf-8")
