"""The digits of numbers within bounds: an automaton in which every prefix of a legal number is legal and no other is.

Owns what a JSON number with `minimum`, `maximum`, their exclusive forms and `multipleOf` may look like, exactly, in
whole numbers scaled by a power of ten; nothing is ever rounded, and no digit can lead to where no number is. Numbers
without bounds may have an exponent and are a plain Regex; those with bounds are written out. `Cutting` is the official
engine's way instead, dead ends included, for comparison.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from .regex import DIGIT, Regex, Regexes

MAX_DIGITS = 200
"""Digits before the point. With an exponent of two digits such a number is still finite."""
PLACES = 20
"""Digits after the point that a number within bounds may have, more if its bounds have more."""
FREE_PLACES = 40

MINUS, POINT, ZERO, NINE = ord("-"), ord("."), ord("0"), ord("9")
CHARACTERS = frozenset(b"0123456789-+.eE")


@dataclass(frozen=True)
class Bounds:
    """Which numbers are meant. `least`, `most`: inclusive unless open. `canonical`: each number in one form only."""

    whole: bool
    least: Fraction | None = None
    most: Fraction | None = None
    least_open: bool = False
    most_open: bool = False
    multiple: Fraction | None = None
    canonical: bool = False

    @property
    def free(self) -> bool:
        return self.least is None and self.most is None and self.multiple is None

    def holds(self, value: Fraction) -> bool:
        """Whether a number is one of those meant."""
        if self.whole and value.denominator != 1:
            return False
        if self.least is not None and (value < self.least or (self.least_open and value == self.least)):
            return False
        if self.most is not None and (value > self.most or (self.most_open and value == self.most)):
            return False
        return self.multiple is None or (value / self.multiple).denominator == 1


def exact(value: int | float) -> Fraction:
    """The number that a schema's author wrote: 0.1 is a tenth, not the nearest float."""
    return Fraction(value) if isinstance(value, int) else Fraction(repr(value))


def places(value: Fraction) -> int:
    """Digits after the point; the number has finitely many, as it was written in decimal."""
    count, denominator = 0, value.denominator
    while denominator != 1:
        denominator //= _common(denominator, 10)
        count += 1
    return count


def _common(one: int, two: int) -> int:
    while two:
        one, two = two, one % two
    return one


class Digits:
    """The numbers of some Bounds, scaled to whole ones. `positive` and `negative`: least and most size on that side of
    zero (most None: no end), or None where there is none."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self._known: dict[tuple[bool, int, int, int], bytes | None] = {}
        known = [value for value in (bounds.least, bounds.most, bounds.multiple) if value is not None]
        self.places = 0 if bounds.whole else max([PLACES, *(places(value) + 1 for value in known)])
        scale = 10**self.places
        self.unit = 1
        if bounds.multiple is not None:
            # Whole multiples of p/q (reduced) are the multiples of p.
            self.unit = bounds.multiple.numerator if bounds.whole else int(bounds.multiple * scale)
        low = high = None
        if bounds.least is not None:
            scaled = bounds.least * scale
            low = -(-scaled.numerator // scaled.denominator)
            low += 1 if bounds.least_open and low == scaled else 0
        if bounds.most is not None:
            scaled = bounds.most * scale
            high = scaled.numerator // scaled.denominator
            high -= 1 if bounds.most_open and high == scaled else 0
        self.positive = _sizes(max(0, low or 0), high)
        self.negative = _sizes(max(1, -high) if high is not None else 1, None if low is None else -low)

    def start(self) -> Digit | None:
        """The state before the first digit; None if there is no such number."""
        start = Digit(self, False, -1, 0, -1)
        return start if any(start.step(byte) is not None for byte in (*range(NINE, ZERO - 1, -1), MINUS)) else None

    def shortest_from(self, negative: bool, value: int, count: int, after: int) -> bytes | None:
        """See _shortest_from."""
        key = negative, value, count, after
        if key not in self._known:
            if len(self._known) > 4096:
                self._known.clear()
            self._known[key] = self._shortest_from(*key)
        return self._known[key]

    def _shortest_from(self, negative: bool, value: int, count: int, after: int) -> bytes | None:
        """The shortest way to end a number whose digits so far are `value`; None if there is none.

        count: digits before the point so far, at least one; after: digits after it, -1 before the point.
        """
        sizes = self.negative if negative else self.positive
        if sizes is None:
            return None
        if after >= 0:
            # "2." and "2.0" are the number 2 again: where each number has one form, they must go on to another.
            again = self.bounds.canonical and (after == 0 or value % 10 == 0)
            for more in range(1 if after == 0 else 0, self.places - after + 1):
                found = self._within(sizes, value, more, self.places - after - more, skip=again)
                if found is not None:
                    return b"%0*d" % (more, found - value * 10**more) if more else b""
            return None
        room = MAX_DIGITS - count if value else 0
        if sizes[1] is not None:
            room = min(room, max(0, len(str(sizes[1])) - self.places - len(str(value))))
        for cost in range(room + self.places + 2):
            for decimals in range(min(max(cost, 1) - 1, self.places) + 1):
                whole = cost - decimals - 1 if decimals else cost
                if whole > room:
                    continue
                more = whole + decimals
                found = self._within(sizes, value, more, self.places - decimals, skip=False)
                if found is None or (decimals and self.bounds.canonical and found % 10 == 0):
                    continue
                digits = b"%0*d" % (more, found - value * 10**more) if more else b""
                return digits[:whole] + b"." + digits[whole:] if decimals else digits
        return None

    def _within(self, sizes: tuple[int, int | None], value: int, more: int, shift: int, skip: bool) -> int | None:
        """The least number that is `value` with `more` digits appended, `shift` places above the scale, and legal."""
        low = value * 10**more
        high = low + 10**more - 1
        scale = 10**shift
        low += 1 if skip else 0
        unit = self.unit // _common(self.unit, scale)  # steps of this, in digits at that place
        least, most = sizes
        low = max(low, -(-least // scale))
        if most is not None:
            high = min(high, most // scale)
        found = -(-low // unit) * unit
        return found if found <= high else None


def _sizes(low: int, high: int | None) -> tuple[int, int | None] | None:
    return None if high is not None and high < low else (low, high)


class Digit:
    """A state within a number. `value`: the digits so far as one whole number, -1 before the first."""

    __slots__ = ("digits", "negative", "value", "count", "after", "_next", "_shortest")

    def __init__(self, digits: Digits, negative: bool, value: int, count: int, after: int) -> None:
        self.digits, self.negative, self.value, self.count, self.after = digits, negative, value, count, after
        self._next: dict[int, Digit | None] = {}
        self._shortest: bytes | None = None

    @property
    def final(self) -> bool:
        return self.count > 0 and not self.shortest

    @property
    def shortest(self) -> bytes:
        if self._shortest is None:
            if self.count:
                found = self.digits.shortest_from(self.negative, self.value, self.count, self.after)
            else:
                found = self._best()
            self._shortest = found or b""
        return self._shortest

    def _best(self) -> bytes | None:
        """Before the first digit: the best of what begins here."""
        states = ((byte, self.step(byte)) for byte in self.firsts())
        return min(
            (bytes([byte]) + state.shortest for byte, state in states if state is not None), key=len, default=None
        )

    def firsts(self) -> list[int]:
        return [byte for byte in (*range(ZERO, NINE + 1), MINUS) if self.step(byte) is not None]

    def step(self, byte: int) -> Digit | None:
        try:
            return self._next[byte]
        except KeyError:
            found = self._next[byte] = self._step(byte)
            return found

    def _step(self, byte: int) -> Digit | None:
        digits, value, count, after = self.digits, self.value, self.count, self.after
        if byte == MINUS:
            if self.negative or count:
                return None
            state = Digit(digits, True, -1, 0, -1)
            return state if digits.negative is not None and state.firsts() else None
        if byte == POINT:
            if not count or after >= 0 or not digits.places:
                return None
            after = 0
        elif not ZERO <= byte <= NINE:
            return None
        elif after >= 0:
            value, after = value * 10 + byte - ZERO, after + 1
            if after > digits.places:
                return None
        elif value == 0 or count >= MAX_DIGITS:
            return None
        else:
            value, count = max(value, 0) * 10 + byte - ZERO, count + 1
        if digits.shortest_from(self.negative, value, count, after) is None:
            return None
        return Digit(digits, self.negative, value, count, after)


def number(regexes: Regexes, bounds: Bounds) -> Regex | Digit | None:
    """The automaton of some numbers; None if there are none."""
    if bounds.canonical and not bounds.whole:
        return Digits(bounds).start()
    sign = regexes.repeat(regexes.text(b"-"), 0, 1)
    first = regexes.bytes_of(((0x31, 0x39),))
    digit = regexes.bytes_of(DIGIT)
    whole = regexes.alt(regexes.text(b"0"), regexes.cat(first, regexes.repeat(digit, 0, MAX_DIGITS - 1)))
    unsigned = bounds.most is None and bounds.multiple is None and bounds.least == 0 and not bounds.least_open
    if not bounds.free and not unsigned:
        return Digits(bounds).start()
    if bounds.whole:
        if unsigned:
            return whole
        return regexes.alt(whole, regexes.cat(regexes.text(b"-"), first, regexes.repeat(digit, 0, MAX_DIGITS - 1)))
    fraction = regexes.repeat(regexes.cat(regexes.text(b"."), regexes.repeat(digit, 1, FREE_PLACES)), 0, 1)
    exponent = regexes.cat(
        regexes.words((b"e", b"E")),
        regexes.repeat(regexes.words((b"+", b"-")), 0, 1),
        regexes.repeat(digit, 1, 2),
    )
    return regexes.cat(regexes.empty if unsigned else sign, whole, fraction, regexes.repeat(exponent, 0, 1))


class Cutting:
    """The official engine's bounded number: a digit is refused only if the number so far overshoots, and the end only
    if it is out of range, so that some prefixes lead nowhere. A token that begins before the number is not looked at:
    its digits are `loose` until the next token begins (see `settled`)."""

    __slots__ = ("bounds", "text", "loose", "_next")

    def __init__(self, bounds: Bounds, text: bytes = b"", loose: bool = True) -> None:
        self.bounds, self.text, self.loose = bounds, text, loose
        self._next: dict[int, Cutting | None] = {}

    def settled(self) -> Cutting:
        return Cutting(self.bounds, self.text, False) if self.loose else self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cutting) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[object, ...]:
        return self.bounds, self.text, self.loose

    @property
    def final(self) -> bool:
        body = self.text.lstrip(b"-")
        if not body or body.endswith(b"."):
            return False
        return self.bounds.holds(Fraction(self.text.decode()))

    @property
    def shortest(self) -> bytes:
        """A guess at what ends the number; a dead end has none."""
        return b"" if self.final else b"0"

    def step(self, byte: int) -> Cutting | None:
        try:
            return self._next[byte]
        except KeyError:
            text = self.text + bytes([byte])
            legal = self._shaped(text) and (self.loose or not self._overshoots(text))
            found = self._next[byte] = Cutting(self.bounds, text, self.loose) if legal else None
            return found

    def _shaped(self, text: bytes) -> bool:
        body = text.removeprefix(b"-")
        whole, point, fraction = body.partition(b".")
        if not body:
            return not (self.bounds.least is not None and self.bounds.least >= 0)
        if point and (self.bounds.whole or not whole):
            return False
        if len(whole) > MAX_DIGITS or len(fraction) > FREE_PLACES or (len(whole) > 1 and whole[:1] == b"0"):
            return False
        return whole.isdigit() and (not fraction or fraction.isdigit())

    def _overshoots(self, text: bytes) -> bool:
        body = text.rstrip(b".")
        if body in (b"", b"-"):
            return False
        value, bounds = Fraction(body.decode()), self.bounds
        if text[:1] == b"-":
            return bounds.least is not None and value < bounds.least
        return bounds.most is not None and value > bounds.most


def texts(start: Regex | Digit, longest: int) -> Iterable[bytes]:
    """Every number of an automaton of at most `longest` bytes: for tests."""
    layer: list[tuple[bytes, Regex | Digit]] = [(b"", start)]
    for _ in range(longest + 1):
        following = []
        for text, state in layer:
            if state.final:
                yield text
            for byte in sorted(CHARACTERS):
                after = state.step(byte)
                if after is not None:
                    following.append((text + bytes([byte]), after))
        layer = following
