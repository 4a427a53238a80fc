"""Patterns as automata: the same strings as Python's re where the two mean the same, and no dead ends."""

from __future__ import annotations

import itertools
import json
import random
import re

import pytest

from areole.regex import FORMATS, Regex, RegexError, Regexes


@pytest.fixture(scope="module")
def regexes() -> Regexes:
    return Regexes()


def inside(text: str) -> bytes:
    """A string as it stands between JSON's quotes."""
    return json.dumps(text, ensure_ascii=False).encode("utf-8")[1:-1]


def random_pattern(chance: random.Random, depth: int) -> str:
    pick = chance.random()
    if depth == 0 or pick < 0.3:
        return chance.choice(["a", "b", "[ab]", "[^a]", ".", "\\d", "é", '"', "\\\\", "\\n", "\\x61", "\\u00e9"])
    if pick < 0.6:
        return random_pattern(chance, depth - 1) + random_pattern(chance, depth - 1)
    if pick < 0.75:
        return f"({random_pattern(chance, depth - 1)}|{random_pattern(chance, depth - 1)})"
    return f"(?:{random_pattern(chance, depth - 1)}){chance.choice(['*', '+', '?', '{2}', '{1,3}', '*?'])}"


STRINGS = ["".join(letters) for n in range(4) for letters in itertools.product('abé1"\\\n', repeat=n)]


@pytest.mark.parametrize("seed", range(25))
def test_same_strings_as_re(seed: int, regexes: Regexes) -> None:
    chance = random.Random(seed)
    pattern = chance.choice(["", "^"]) + random_pattern(chance, 3) + chance.choice(["", "$"])
    mine, theirs = regexes.pattern(pattern), re.compile(pattern.replace("$", "\\Z"))
    short = regexes.both(mine, regexes.repeat(regexes.any, 1, 2))
    for text in STRINGS:
        wanted = theirs.search(text) is not None
        assert regexes.matches(mine, inside(text)) == wanted, (pattern, text)
        assert regexes.matches(short, inside(text)) == (wanted and 1 <= len(text) <= 2), (pattern, text)


@pytest.mark.parametrize("seed", range(10))
def test_every_state_can_be_completed(seed: int, regexes: Regexes) -> None:
    chance = random.Random(1000 + seed)
    start = regexes.both(regexes.pattern("^" + random_pattern(chance, 3) + "$"), regexes.repeat(regexes.any, 0, 4))
    if not start.live:
        assert start.shortest == b""
        return
    for _ in range(20):
        state: Regex = start
        for _ in range(12):
            ending: Regex | None = state
            for byte in state.shortest:
                ending = ending.step(byte) if ending is not None else None
            assert ending is not None and ending.final
            following = [after for after in map(state.step, range(256)) if after is not None]
            if not following:
                break
            state = chance.choice(following)


def test_only_utf8_and_needed_escapes(regexes: Regexes) -> None:
    for code in (0, 8, 10, 31, 32, 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF, 34, 92):
        assert regexes.matches(regexes.any, inside(chr(code))), hex(code)
    bad = [b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\xff", b'"', b"\\/", b"\n", b"\xe0\x80\x80", b"\\u0041"]
    assert not [text for text in bad if regexes.matches(regexes.any, text)]


@pytest.mark.parametrize(
    ("pattern", "what"),
    [
        ("(?=a)b", "look-around"),
        ("(?<!a)b", "look-around"),
        ("\\bx", "word boundary"),
        ("a^", "`^`"),
        ("(a$|b)", "`$`"),
        ("\\p{L}", "Unicode property"),
        ("(a)\\1", "back reference"),
        ("a{3", "no {n}"),
        ("x**", "quantifier"),
        ("[z-a]", "upside down"),
        ("(", "nothing closes"),
        ("[a", "nothing closes"),
        ("a)", "opens nothing"),
        ("+", "nothing before"),
        ("a{5,2}", "upside down"),
        ("\\q", "no known escape"),
        ("a" * 501, "501 characters"),
        ("(" * 41 + ")" * 41, "nested"),
        ("\\xg0", "no character"),
    ],
)
def test_refused_by_name(pattern: str, what: str, regexes: Regexes) -> None:
    with pytest.raises(RegexError, match=re.escape(what)):
        regexes.pattern(pattern)


GOOD_AND_BAD = {
    "date": (
        ["2024-02-29", "2000-02-29", "1999-12-31"],
        ["2023-02-29", "1900-02-29", "2024-04-31", "2024-1-1", "0000-01-01"],
    ),
    "time": (
        ["18:30:00Z", "00:00:59.5+02:00", "18:30", "18:30:00", "18:30Z"],
        ["24:00:00Z", "24:00", "18:60", "18:30:61", "18", "8:30", "18:30.5", "18:30+2"],
    ),
    "date-time": (
        ["2024-05-01T18:30:00Z", "2024-05-01T18:30", "2024-05-01T18:30:00", "2024-05-01T18:30+02:00"],
        ["2024-05-01 18:30:00Z", "2024-05-01", "2024-05-01T", "2024-05-01T18", "2023-02-29T18:30"],
    ),
    "email": (["a@b.co", "first.last+tag@mail.example.org"], ["a@b", "@b.co", "a b@c.de", "a..b@c.de"]),
    "uuid": (["123e4567-e89b-12d3-a456-426614174000"], ["123e4567", "g23e4567-e89b-12d3-a456-426614174000"]),
    "uri": (
        ["https://a.example/b?c=d#e", "mailto:a@b.c", "urn:isbn:1"],
        ["github.com", "//a/b", "http://a b", "a:b#c#d"],
    ),
    "hostname": (["a-b.example"], ["-a.b", "a_b"]),
    "ipv4": (["192.168.0.1"], ["256.1.1.1", "1.2.3"]),
}


def test_every_format_is_tried() -> None:
    assert GOOD_AND_BAD.keys() == FORMATS.keys()


@pytest.mark.parametrize("name", sorted(GOOD_AND_BAD))
def test_formats(name: str, regexes: Regexes) -> None:
    regex = regexes.pattern(FORMATS[name])
    good, bad = GOOD_AND_BAD[name]
    assert [text for text in good if not regexes.matches(regex, inside(text))] == []
    assert [text for text in bad if regexes.matches(regex, inside(text))] == []


def test_contradictions_have_no_string(regexes: Regexes) -> None:
    assert not regexes.both(regexes.pattern("^(ab)*$"), regexes.repeat(regexes.any, 5, 5)).live
    assert not regexes.both(regexes.pattern("^[a-f]+$"), regexes.pattern("^[g-z]+$")).live
    assert len(regexes.both(regexes.pattern("^[a-z ]+$"), regexes.repeat(regexes.any, 200, 1000)).shortest) == 200
