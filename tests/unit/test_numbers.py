"""Numbers within bounds: exactly the legal numbers, exactly their prefixes, against plain enumeration."""

from __future__ import annotations

import itertools
import random
import re
from fractions import Fraction

import pytest

from areole.numbers import CHARACTERS, Bounds, Cutting, Digit, exact, number, places, texts
from areole.regex import Regex, Regexes

NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?")
REGEXES = Regexes()


def random_bounds(chance: random.Random) -> Bounds:
    def some() -> Fraction | None:
        if chance.random() < 0.4:
            return None
        return (
            Fraction(chance.randint(-250, 250)) if chance.random() < 0.6 else Fraction(chance.randint(-2500, 2500), 10)
        )

    units = [None, None, Fraction(1), Fraction(2), Fraction(10), Fraction(7), Fraction(1, 2), Fraction(3, 2)]
    return Bounds(
        chance.random() < 0.6, some(), some(), chance.random() < 0.3, chance.random() < 0.3, chance.choice(units),
        chance.random() < 0.3,
    )  # fmt: skip


def wanted(bounds: Bounds, longest: int) -> set[bytes]:
    letters = "-0123456789" if bounds.whole else "-0123456789."
    out = set()
    for size in range(1, longest + 1):
        for characters in itertools.product(letters, repeat=size):
            text = "".join(characters)
            if not NUMBER.fullmatch(text) or not bounds.holds(Fraction(text)):
                continue
            plain = bounds.free and not bounds.whole and not bounds.canonical
            if text.startswith("-") and Fraction(text) == 0 and not plain:
                continue
            if not (bounds.canonical and "." in text and text.endswith("0")):
                out.add(text.encode())
    return out


@pytest.mark.parametrize("seed", range(20))
def test_exactly_the_legal_numbers(seed: int) -> None:
    bounds = random_bounds(random.Random(seed))
    start = number(REGEXES, bounds)
    if start is None:
        assert not wanted(bounds, 4 if bounds.whole else 3)
        return
    longest = 4 if bounds.whole else 3
    assert {text for text in texts(start, longest) if not set(text) & set(b"eE")} == wanted(bounds, longest)


@pytest.mark.parametrize("seed", range(20))
def test_no_dead_ends(seed: int) -> None:
    chance = random.Random(seed)
    bounds = random_bounds(chance)
    state: Regex | Digit | None = number(REGEXES, bounds)
    text = b""
    while state is not None and len(text) < 12:
        ending: Regex | Digit | None = state
        for byte in state.shortest:
            assert ending is not None
            ending = ending.step(byte)
        assert ending is not None and ending.final
        assert bounds.holds(Fraction((text + state.shortest).decode()))
        following = [byte for byte in sorted(CHARACTERS) if state.step(byte) is not None]
        if not following:
            break
        byte = chance.choice(following)
        state, text = state.step(byte), text + bytes([byte])


def first_digits(bounds: Bounds) -> str:
    state = number(REGEXES, bounds)
    assert state is not None
    return "".join(chr(byte) for byte in sorted(CHARACTERS) if state.step(byte) is not None)


def test_prefixes_are_those_of_legal_numbers() -> None:
    assert first_digits(Bounds(True, Fraction(20), Fraction(30))) == "23"
    assert first_digits(Bounds(True, Fraction(-30), Fraction(-20))) == "-"
    assert first_digits(Bounds(True, Fraction(8), Fraction(12))) == "189"
    assert first_digits(Bounds(False, Fraction(1, 1000), Fraction(2, 1000), True, True)) == "0"
    assert number(REGEXES, Bounds(True, Fraction(1), Fraction(2), True, True)) is None
    assert number(REGEXES, Bounds(True, Fraction(1), Fraction(6), multiple=Fraction(7))) is None
    far = number(REGEXES, Bounds(True, Fraction(10**50)))
    assert far is not None and far.shortest == b"1" + b"0" * 50


def test_decimals_are_what_was_written() -> None:
    assert exact(0.1) == Fraction(1, 10) and places(exact(0.125)) == 3
    tenth = number(REGEXES, Bounds(False, multiple=exact(0.1)))
    assert tenth is not None
    found = set(texts(tenth, 4))
    assert b"0.3" in found and b"0.30" in found and b"0.35" not in found


def follow(start: Cutting, text: bytes) -> Cutting | None:
    state: Cutting | None = start
    for byte in text:
        state = state.step(byte) if state is not None else None
    return state


def test_the_official_way_overshoots_and_ends_dead() -> None:
    bounds = Bounds(True, Fraction(20), Fraction(30))
    strict = Cutting(bounds).settled()
    fifteen = follow(strict, b"15")
    assert fifteen is not None and not fifteen.final
    assert [d for d in b"0123456789" if fifteen.step(d) is not None] == []
    assert follow(strict, b"40") is None and follow(strict, b"3") is not None
    loose = follow(Cutting(bounds), b"40")
    assert loose is not None and not loose.final
