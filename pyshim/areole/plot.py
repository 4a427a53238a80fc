"""A picture of an archive: where its bytes are, and how the norms of its matrices spread. Needs matplotlib."""

from __future__ import annotations

import io
from collections.abc import Mapping

from .archive import Archive
from .errors import RequestError
from .report import norms_of


def plot_svg(archive: Archive) -> bytes:
    """An SVG of two panels. RequestError where matplotlib is not there."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise RequestError(
            "request_option", 'A plot needs matplotlib: pip install "areole[tools]".', needed="matplotlib"
        ) from error
    figure = Figure(figsize=(11, 5), layout="constrained")
    left, right = figure.subplots(1, 2)
    sizes = _sizes(archive)
    left.barh(list(sizes), [size / 1e6 for size in sizes.values()], color="#3b6ea5")
    left.invert_yaxis()
    left.set_xlabel("MB")
    left.set_title(f"{archive.name}: {archive.nbytes / 1e6:.1f} MB")
    families = _norms(archive)
    right.boxplot(list(families.values()), orientation="horizontal", tick_labels=list(families), showfliers=False)
    right.invert_yaxis()
    right.set_xlabel("norm")
    right.set_title("norms of the matrices (5 numbers each)")
    out = io.BytesIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()


def _family(name: str) -> str:
    """layers.3.q_proj -> layers q_proj."""
    return " ".join(part for part in name.split(".") if not part.isdigit())


def _sizes(archive: Archive) -> Mapping[str, int]:
    """Bytes by family, the largest first, the small ones together."""
    sizes: dict[str, int] = {}
    for tensor in archive.tensors:
        sizes[_family(tensor.name)] = sizes.get(_family(tensor.name), 0) + tensor.nbytes
    ordered = dict(sorted(sizes.items(), key=lambda item: -item[1]))
    small = {name: size for name, size in ordered.items() if size < archive.nbytes / 200}
    kept = {name: size for name, size in ordered.items() if name not in small}
    return {**kept, f"{len(small)} others": sum(small.values())} if small else kept


def _norms(archive: Archive) -> Mapping[str, list[float]]:
    """Minimum, quartiles and maximum of the norms by family, of all its matrices together."""
    norms: dict[str, list[float]] = {}
    for tensor in archive.tensors:
        if tensor.dtype == "cq":
            norms.setdefault(_family(tensor.name), []).extend(norms_of(archive, tensor))
    out = {}
    for name, values in norms.items():
        values.sort()
        out[name] = [values[(len(values) - 1) * quarter // 4] for quarter in range(5)]
    return out
