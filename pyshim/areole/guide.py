"""What a request has to say about a call while it is written.

Owns which of the grammar's tokens are passed over for another: those that leave what the request offers for an argument
(offers.py), end a list that must not be empty, or escape a quotation mark where the request has none. Never a dead end:
where no token would do, the grammar's choice stands.
"""

from __future__ import annotations

import json
import re

from .offers import Offers
from .pieces import Pieces
from .places import Place, Steps

_COMMA, _CLOSE, _END = b",}]"
_ESCAPED = re.compile(r"[\"\\\x00-\x1f]")


class Guide:
    """For one answer. Told of each token that was taken, in order."""

    def __init__(self, offers: Offers, *, single: bool = False) -> None:
        """`single`: one call is enough."""
        self._offers, self._single = offers, single
        text = offers.evidence.text
        self._foreign = frozenset(ord(c) for c in "{}[]" if c not in text) | (
            frozenset() if _ESCAPED.search(text) else frozenset(b"\\")
        )
        self._tools = [json.dumps(name, ensure_ascii=False).encode("utf-8") for name in offers.tools()]
        self._place = Place()
        self._text = b""
        self._kept: dict[Steps, list[bytes]] = {}
        self._lists: dict[Steps, list[str]] = {}  # the items of each list so far
        self._begun: dict[Steps, int] = {}  # where the item that is being written begins
        self._number: tuple[Steps, str] | None = None  # the number that is being written
        self._texts: dict[Steps, list[str]] = {}  # the texts of each argument in the calls so far
        self._earlier: dict[Steps, list[str]] = {}  # the numbers of each property in a list's items
        self._said: dict[Steps, list[str]] = {}  # the texts in each object so far

    def thought(self, reasoning: str) -> None:
        """What the model thought counts where a message is sorted that says none of the classes."""
        if self._single:
            self._offers.thought = reasoning

    def admits(self, text: bytes) -> bool:
        """Whether a token of this text may be taken."""
        place = self._place.copy()
        return all(self._step(place, byte, text[:at]) for at, byte in enumerate(text))

    def accept(self, text: bytes) -> None:
        for byte in text:
            place = self._place
            steps, begins = place.steps, place.value == b""
            listed = bool(steps) and isinstance(steps[-1], int)
            if begins and listed:
                self._begun[steps[:-1]] = len(self._text)
            if byte in b",]" and listed and not begins:
                item = self._text[self._begun.get(steps[:-1], 0) :].decode("utf-8", "replace")
                self._lists.setdefault(steps[:-1], []).append(item)
            place.step(byte)
            self._text += bytes([byte])
            if place.closed and len(steps) > 2 and not isinstance(steps[-1], int):
                value = json.loads(place.value or b'""')
                if isinstance(value, str):
                    self._said.setdefault(steps[:-1], []).append(value)
                    if place.tools:
                        self._texts.setdefault((place.tools[-1], *steps[2:]), []).append(json.dumps(value))
            if byte in b",}" and self._number is not None:
                owner = " ".join([*str(self._number[0][-1]).split("_")[-1:], self._number[1]])  # "room 203"
                self._said.setdefault(self._number[0][:-1], []).append(owner)
                self._earlier.setdefault(_unplaced(self._number[0]), []).append(self._number[1])
            number = place.value is not None and place.value[:1].isdigit() and len(steps) > 2
            self._number = (place.steps, place.value.decode()) if number and place.value else None

    def continuations(self, pieces: Pieces) -> list[int]:
        """Tokens that go on with what is offered here, if anything is."""
        wanted = self._wanted(self._place, self._text)
        begun = self._place.value or b""
        out: list[int] = []
        for whole in wanted:
            if whole.startswith(begun):
                out += pieces.prefixes(whole[len(begun) :])
        return out

    def _step(self, place: Place, byte: int, before_it: bytes) -> bool:
        """One byte further; False if that leaves what is wanted."""
        steps = place.steps
        if place.in_string and byte in self._foreign:
            return False
        if byte == _CLOSE and steps[-1:] == ("",) and len(steps) > 3 and self._filled(place, steps[:-1]):
            return False
        if byte == _END and len(steps) == 1 and place.value is None and self._owes(self._text + before_it):
            return False
        if byte == _END and len(steps) > 3 and isinstance(steps[-1], int) and self._lacks(place, steps, before_it):
            return False
        if byte == _COMMA and (place.value is None or place.closed) and self._complete(steps, self._text + before_it):
            return False
        wanted = self._wanted(place, self._text + before_it)
        before = place.value or b""
        empty = byte == ord("]") and place.value == b""  # the list ends without this item
        place.step(byte)
        if empty:
            return steps[-1] != 0 or not self._filled(place, steps[:-1])
        if not wanted:
            return True
        value = place.value if place.value else before
        if place.steps == steps and place.value and not place.closed:
            return any(one.startswith(value) for one in wanted)
        return (value if place.closed else before) in wanted

    def filled(self, place: Place) -> bool:
        """Whether the place is in a list that is empty so far and must not stay so."""
        return place.value == b"" and place.steps[-1:] == (0,) and self._filled(place, place.steps[:-1])

    def _filled(self, place: Place, steps: Steps) -> bool:
        """Whether the list or object at `steps` must not be empty."""
        if not place.tools or len(steps) < 3:
            return False
        return self._offers.filled(place.tools[-1], steps[1:])

    def _complete(self, steps: Steps, text: bytes) -> bool:
        """Whether a list has all that it can have by what the request offers, or has begun to repeat itself."""
        if not isinstance(steps[-1], int) or 1 < len(steps) <= 3:
            return False
        if self._single and len(steps) == 1:
            return True
        begun = self._begun.get(steps[:-1])
        if begun is None or steps[-1] != len(self._lists.get(steps[:-1], [])):
            return False  # the item began within the token at hand
        item = text[begun:].decode("utf-8", "replace")
        items = self._lists.get(steps[:-1], [])
        if item.startswith("{"):
            return any(_equal(item, one) for one in items)
        tool = self._place.tools[-1]
        offered = self._offers.at(tool, steps[1:], ())
        return item in offered and not self._offers.at(tool, steps[1:], [*items, item])

    def _lacks(self, place: Place, steps: Steps, before_it: bytes) -> bool:
        """Whether a list ends too early: the request goes on with a series that the items begin."""
        begun = self._begun.get(steps[:-1])
        if place.value == b"" or begun is None or not place.tools:
            return False
        items = self._lists.get(steps[:-1], [])
        if steps[-1] == len(items):
            items = [*items, (self._text + before_it)[begun:].decode("utf-8", "replace")]
        return self._offers.owed(place.tools[-1], steps[1:-1], items)

    def _owes(self, text: bytes) -> bool:
        """Whether the request goes on with a series of which the calls so far have the beginning."""
        if self._single:
            return False
        written = text.decode("utf-8", "replace")
        return any(_begun(series, written) for series in self._offers.series)

    def _wanted(self, place: Place, text: bytes) -> list[bytes]:
        """The values that are wanted here, as JSON text; none where anything goes. `text`: what is written so far."""
        if place.value is None or place.closed:
            return []
        steps = place.steps
        if steps[-1:] == ("",):
            return []  # a key
        if steps == (0, "name"):
            return self._tools
        if len(steps) < 3 or steps[1] != "arguments" or not place.tools:
            return []
        if steps not in self._kept:
            taken = self._taken(steps, text) if isinstance(steps[-1], int) else []
            several = any(isinstance(step, int) for step in steps[3:]) or place.tools.count(place.tools[-1]) > 1
            beside = self._said.get(steps[:-1], []) if several else []
            used = [*self._earlier.get(_unplaced(steps), []), *self._texts.get((place.tools[-1], *steps[2:]), [])]
            found = self._offers.at(place.tools[-1], steps[1:], taken, beside, used)
            self._kept[steps] = [one.encode("utf-8") for one in found]
        return self._kept[steps]

    def _taken(self, steps: Steps, text: bytes) -> list[str]:
        """The items of the list before the one at `steps`; the last may have ended within the token at hand."""
        items = self._lists.get(steps[:-1], [])
        if isinstance(steps[-1], int) and len(items) < steps[-1] and steps[:-1] in self._begun:
            return [*items, text[self._begun[steps[:-1]] :].rstrip(b",").decode("utf-8", "replace")]
        return items


def _equal(one: str, other: str) -> bool:
    try:
        return bool(json.loads(one) == json.loads(other))
    except ValueError:
        return False


def _unplaced(steps: Steps) -> Steps:
    """A place in a list's item as one of all the items."""
    return (*steps[:3], *("" if isinstance(step, int) else step for step in steps[3:]))


def _begun(series: list[str], written: str) -> bool:
    """Whether a text has the first of a series and each that it has only once, but not all."""
    times = [len(re.findall(rf"(?<![\w.]){re.escape(item)}(?![\w.])", written)) for item in series]
    return times[0] == 1 and 0 in times and max(times) == 1
