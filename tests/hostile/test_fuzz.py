"""Cases of the fuzzer that are kept: one for each kind of refusal, those that once failed, and the first hundreds."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from fuzz import case, outcome, run_core, run_table, sound

from areole.archive import Archive
from areole.core import load_core
from areole.errors import ERROR_CODES, AreoleError

CORPUS: dict[str, list[int]] = json.loads((Path(__file__).with_name("corpus.json")).read_text(encoding="utf-8"))
"""Numbers of cases by what the parser says: "parsed", or a code; "core" are those that the core once failed on."""


def test_the_corpus_has_every_refusal_of_an_archive() -> None:
    codes = {code for code in ERROR_CODES if code.startswith("archive_")}
    assert set(CORPUS) == {*codes, "parsed", "core"}


@pytest.mark.parametrize("kind", CORPUS)
def test_kept_cases(kind: str) -> None:
    for number in CORPUS[kind]:
        found = outcome(case(number))
        assert kind == "core" or kind == ("parsed" if isinstance(found, Archive) else found.code), number


@pytest.mark.parametrize("first", range(0, 600, 100))
def test_any_damage_is_refused_or_harmless(first: int) -> None:
    seen = [isinstance(outcome(case(number)), Archive) for number in range(first, first + 100)]
    assert 0 < sum(seen) < 100


def test_a_case_is_the_same_every_time() -> None:
    assert [case(number) for number in range(20)] == [case(number) for number in range(20)]


@pytest.mark.parametrize("generation", [2, 3])
@pytest.mark.parametrize("kind", range(3))
def test_what_is_damaged_was_sound(generation: int, kind: int) -> None:
    core = load_core("wasmtime")
    assert run_core(core, sound(generation, kind)[1], random.Random(0))


def test_the_core_takes_what_the_parser_lets_through() -> None:
    """In the wasm build, where a read outside memory traps; `build.py fuzz` does it under sanitizers."""
    core = load_core("wasmtime")
    ran = 0
    for number in [*CORPUS["core"], *CORPUS["parsed"], *range(60)]:
        rng = random.Random(-number - 1)
        data = case(number)
        if isinstance(outcome(data), Archive):
            ran += run_core(core, data, rng)
        try:
            run_table(core, rng)
        except AreoleError as error:
            assert error.code == "core_memory"
    assert ran > 10
