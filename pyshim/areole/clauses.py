"""The clauses of a request, and which of them forbid.

A clause that forbids runs from its cue to the next stop or turn ("but", "instead"); "and" does not end it, since who
says "don't lock and close it" means both. What the cue is part of may be quoted: see `forbidden`.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass

_CUE = re.compile(
    r"\b(?:do\s?n[o']?t|do not|don['’]?t|does not|doesn['’]?t|should not|shouldn['’]?t|must not|mustn['’]?t|never"
    r"|avoid|refrain from|no need to|not|without|rather than|instead of|no longer)\b"
    r"|\bleave\b(?=[^,.;!?]*\b(?:alone|untouched|as (?:it is|they are|is))\b)|(?<=and )no(?= \w)|(?<=but )no(?= \w)"
    r"|(?<=so )no(?= \w)",
    re.I,
)
_BACK = re.compile(
    r"\b(?:never ?mind|cancel that|scratch that|forget (?:it|that|about it)|no,? (?:don['’]?t|do not))\b", re.I
)
_POLITE = re.compile(
    r"(?:\b(?:why|can|could|would|will|ca|wo)\s*(?:do)?$)|(?:\b(?:if you|whether or)\s*$)|(?:\b(?:if|whether) \w+\s*$)",
    re.I,
)
_AFTER_POLITE = re.compile(
    r"\s*(?:you\b|forget to\b|forget\b(?! (?:it|that)\b)|hesitate to\b|mind\b|only\b|just\b)", re.I
)
_TOLD = re.compile(
    r"\b(?:is|are|was|were|am|has|have|had|does|did|will|would|could|can|it|that|which|who|ever|there|i|we|you|they|he|she)\s*$",
    re.I,
)
_WISH = re.compile(r"\s*(?:want|need|wish|like|think|care)\b", re.I)
_STOP = re.compile(
    r"(?<!\bdr)(?<!\bmr)(?<!\bms)(?<!\bmrs)(?<!\bst)[.!?](?=\s|$)|[;\n]|,|\s[-–—]\s|:\s"
    r"|\b(?:but|instead(?! of)|however|though|although|because|since|just|only|rather(?! than)|then)\b",
    re.I,
)
_PLACED = re.compile(_STOP.pattern + r"|\b(?:as|on|for|at|in|to|with|from|by)\b", re.I)
"""What ends "instead of .." as well: it is about one thing."""
_JOIN = re.compile(r"\b(?:and|plus|also|then)\b|[,;]|[.!?](?=\s|$)", re.I)


_NEAR = 60
"""How far from a cue the words stand that make it a polite form or a statement."""


@dataclass(frozen=True)
class Clause:
    """text[start:end], and whether it forbids."""

    start: int
    end: int
    negated: bool = False


def cue_spans(text: str) -> list[tuple[int, int]]:
    """Where a text forbids: the cues, but for polite forms (`why don't you`, `don't forget to`) and statements."""
    out = []
    for match in _CUE.finditer(text):
        before, after = text[max(0, match.start() - _NEAR) : match.start()], text[match.end() : match.end() + _NEAR]
        cue = match.group().lower()
        forbids = cue[0] == "d" and not cue.startswith("does")
        if _POLITE.search(before) or (forbids and _AFTER_POLITE.match(after)):
            continue
        if _TOLD.search(before) and not (forbids and _WISH.match(after)):
            continue  # a statement: "I never got it", "it does not work"
        if cue.startswith("does"):
            continue
        out.append(match.span())
    return out


def split(text: str, quoted: tuple[tuple[int, int], ...] = ()) -> list[Clause]:
    """The text in clauses, in order. A cue inside a `quoted` span, text that is passed on and not meant, is no cue."""

    def meant(span: tuple[int, int]) -> bool:
        return not any(start <= span[0] and span[1] <= end for start, end in quoted)

    backs = [match.span() for match in _BACK.finditer(text) if meant(match.span())]
    if backs and not text[backs[0][1] :].strip(" .!?,"):
        return [Clause(0, len(text), True)]
    stops = {ends: [m.start() for m in ends.finditer(text) if meant(m.span())] for ends in (_STOP, _PLACED)}
    forbidden: list[tuple[int, int]] = []
    for start, end in filter(meant, cue_spans(text)):
        if forbidden and start < forbidden[-1][1]:
            continue
        found = stops[_PLACED if text[start:end].lower() in ("instead of", "rather than") else _STOP]
        after = bisect_left(found, end)
        forbidden.append((start, found[after] if after < len(found) else len(text)))
    out: list[Clause] = []
    at = backs[-1][1] if backs else 0
    if at:
        out.append(Clause(0, at, True))
    for start, stop in forbidden:
        if start < at:
            continue
        out += _plain(text, at, start)
        out.append(Clause(start, stop, True))
        at = stop
    return [*out, *_plain(text, at, len(text))]


def _plain(text: str, start: int, end: int) -> list[Clause]:
    out, at = [], start
    for match in [*_JOIN.finditer(text, start, end), None]:
        stop = match.start() if match is not None else end
        if text[at:stop].strip(" ,.;!?"):
            out.append(Clause(at, stop))
        at = match.end() if match is not None else end
    return out
