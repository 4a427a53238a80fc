"""The ladder without a core: which blocks, and the archive of a rung."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import numpy as np
import pytest
from archive_writer import assemble, plan

from areole.archive import Archive, parse
from areole.errors import RequestError
from areole.ladder import order, rung, selection


def test_the_orders_are_the_reference_packages(data_dir: Path) -> None:
    with np.load(data_dir / "ladder.npz") as file:
        wanted = file["orders"].tolist()
    assert list(itertools.chain(*(order(layers) for layers in range(1, 65)))) == wanted


def test_rungs_are_nested() -> None:
    for layers in (2, 5, 20, 64):
        rungs = [set(selection(layers, depth)) for depth in range(2, layers + 1)]
        assert all(shorter < longer for shorter, longer in itertools.pairwise(rungs))
        assert rungs[0] == {0, layers - 1} and rungs[-1] == set(range(layers))


def test_a_rung_of_a_rung_follows_the_first_ladder_if_it_is_told() -> None:
    first = selection(20, 12)
    for depth in range(2, 13):
        nested = selection(12, depth, parent=20)
        assert tuple(first[block] for block in nested) == selection(20, depth)
    assert selection(7, 4, parent=20) != selection(7, 4)


@pytest.mark.parametrize("depth", [0, 1, 21, -3, True, 2.0, "4", None])
def test_a_depth_that_there_is_not(depth: object) -> None:
    with pytest.raises(RequestError, match="2 to 20") as caught:
        selection(20, depth)  # type: ignore[arg-type]
    assert caught.value.code == "request_option"


def test_a_parent_that_is_too_short() -> None:
    with pytest.raises(RequestError, match="cannot be cut from one of 11"):
        selection(12, 4, parent=11)


def written(**changes: object) -> Archive:
    bits = [2, 3, 4, 5, 1]
    return parse(
        assemble(
            plan(
                heads=(1, 2, 3),
                layers=7,
                sites=(1, 4, 6),
                global_mask=0b1011010,
                bits=lambda name: random.Random(name).choice(bits),
                **changes,
            )
        )
    )


def rows(archive: Archive, name: str) -> list[object]:
    """A tensor row by row along its first axis, as values."""
    tensor = archive.by_name[name]
    if tensor.dtype == "cq":
        return [archive.matrix_row(name, row) for row in range(tensor.shape[0])]
    return np.array(archive.dense(name)).reshape(tensor.shape).tolist()


@pytest.mark.parametrize("depth", range(2, 8))
def test_a_rung_has_the_blocks_values(depth: int) -> None:
    """Each tensor of the shorter archive, against the one or the rows that it was taken from."""
    whole = written()
    blocks = selection(7, depth)
    short = parse(rung(whole, depth).to_bytes())
    g = short.geometry
    assert g.layers == depth
    assert [blocks[layer] for layer in g.global_layers] == [layer for layer in (1, 3, 4, 6) if layer in blocks]
    sites = [site for site, layer in enumerate((1, 4, 6)) if layer in blocks]
    assert [blocks[layer] for layer in g.engram_sites] == [(1, 4, 6)[site] for site in sites]
    for tensor in short.tensors[:-1]:
        kind, _, rest = tensor.name.partition(".")
        index, _, name = rest.partition(".")
        found = rows(short, tensor.name)
        if kind == "layers":
            assert found == rows(whole, f"layers.{blocks[int(index)]}.{name}")
        elif kind == "engrams":
            assert found == rows(whole, f"engrams.{sites[int(index)]}.{name}")
        elif kind == "mhc":
            each = whole.by_name[tensor.name].shape[0] // 7
            wanted = rows(whole, tensor.name)
            assert found == [wanted[block * each + i] for block in blocks for i in range(each)]
        elif name in ("probes", "gain"):
            each = whole.by_name[tensor.name].shape[0] // 8
            wanted = rows(whole, tensor.name)
            assert found == [wanted[row * each + i] for row in (0, *(b + 1 for b in blocks)) for i in range(each)]
        elif name == "row_bias":
            kept = [0, *(block + 1 for block in blocks)]
            assert found == np.array(rows(whole, tensor.name))[:, kept].tolist()
        else:
            assert found == rows(whole, tensor.name)
    assert short.tokenizer_blob == whole.tokenizer_blob
    assert (short.cb2, short.cb3, short.cb4) == (whole.cb2, whole.cb3, whole.cb4)


def test_a_rung_of_all_blocks_is_the_file_itself(tiny_path: Path) -> None:
    data = tiny_path.read_bytes()
    assert rung(parse(data), 5).to_bytes() == data


def test_the_size_is_known_before_it_is_written() -> None:
    whole = written(out_vocab=100)
    for depth in range(2, 8):
        made = rung(whole, depth)
        data = made.to_bytes()
        assert len(data) == made.nbytes and parse(data).geometry.out_vocab == 100


@pytest.mark.model
def test_the_real_weights_are_written_as_they_are(real_model_path: Path) -> None:
    data = real_model_path.read_bytes()
    assert rung(parse(data), 20).to_bytes() == data
