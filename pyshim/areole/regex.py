"""Regular languages of bytes, one byte at a time: what a pattern, a length or a format allows inside a JSON string.

Owns a safe subset of ECMA 262 patterns and their automata, made lazily by derivatives, so that nothing ever backtracks
and intersections (a pattern, a length and a format at once) are exact. The bytes are those of the JSON text: UTF-8,
with `"`, `\\` and control characters in the one escaped form that areole writes. A step is refused when nothing could
complete the string after it. Refuses by name what is not a regular language of characters: look-around, back
references, word boundaries, anchors inside, Unicode properties.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from functools import lru_cache

MAX_PATTERN = 500
"""Characters of a pattern; longer ones are refused."""
MAX_NESTING = 40
MAX_COUNT = 10_000
MAX_SEARCH = 4_000
"""States that are searched for a way to complete a string in which several rules meet."""

Ranges = tuple[tuple[int, int], ...]
"""Inclusive ranges, of code points or of bytes."""

LAST = 0x10FFFF
SURROGATES = (0xD800, 0xDFFF)
ANY: Ranges = ((0, 0xD7FF), (0xE000, LAST))
DIGIT: Ranges = ((0x30, 0x39),)
WORD: Ranges = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
BLANK: Ranges = (
    *((9, 13), (32, 32), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x2028, 0x2029)),
    *((0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF)),
)
LINE_ENDS: Ranges = ((10, 10), (13, 13), (0x2028, 0x2029))
_SHORT = {8: b"\\b", 9: b"\\t", 10: b"\\n", 12: b"\\f", 13: b"\\r", 34: b'\\"', 92: b"\\\\"}


class RegexError(ValueError):
    """A pattern is outside the subset; the text says what it uses."""


def union(*parts: Ranges) -> Ranges:
    out: list[list[int]] = []
    for low, high in sorted(pair for part in parts for pair in part):
        if out and low <= out[-1][1] + 1:
            out[-1][1] = max(out[-1][1], high)
        else:
            out.append([low, high])
    return tuple((low, high) for low, high in out)


def complement(ranges: Ranges) -> Ranges:
    """Every character that is not in `ranges`."""
    out, start = [], 0
    for low, high in (*union(ranges, (SURROGATES,)), (LAST + 1, LAST + 1)):
        if start < low:
            out.append((start, low - 1))
        start = high + 1
    return tuple(out)


def escape(character: str) -> bytes:
    """A character as areole writes it inside a JSON string."""
    code = ord(character)
    return _SHORT.get(code) or (b"\\u%04x" % code if code < 32 else character.encode("utf-8"))


def _utf8(low: int, high: int) -> Iterable[Ranges]:
    """Sequences of byte ranges that together are the UTF-8 of low..high, without surrogates."""
    for first, last in ((0, 0x7F), (0x80, 0x7FF), (0x800, 0xFFFF), (0x10000, LAST)):
        start, end = max(low, first), min(high, last)
        if start <= end:
            yield from _same_length(start, end)


def _same_length(low: int, high: int) -> Iterable[Ranges]:
    first, last = chr(low).encode("utf-8"), chr(high).encode("utf-8")
    for place in range(1, len(first)):
        # Below a place, all continuation bytes must be free, or the range has to be cut there.
        size = 1 << (6 * (len(first) - place))
        if low // size != high // size:
            if low % size:
                border = (low // size + 1) * size
                yield from _same_length(low, border - 1)
                yield from _same_length(border, high)
                return
            if high % size != size - 1:
                border = high // size * size
                yield from _same_length(low, border - 1)
                yield from _same_length(border, high)
                return
    yield tuple(zip(first, last, strict=True))


@lru_cache(maxsize=512)
def encoded(ranges: Ranges) -> frozenset[Ranges]:
    """The JSON encodings of a set of characters: a prefix code of sequences of byte ranges."""
    out: set[Ranges] = set()
    for low, high in union(ranges):
        for code in (*range(low, min(high, 31) + 1), *(c for c in (34, 92) if low <= c <= high)):
            out.add(tuple((byte, byte) for byte in escape(chr(code))))
        start = max(low, 32)
        for cut in (34, 92, SURROGATES[0], LAST + 1):
            if start < cut and start <= high:
                out.update(_utf8(start, min(high, cut - 1)))
            if start <= cut:
                start = SURROGATES[1] + 1 if cut == SURROGATES[0] else cut + 1
    return frozenset(out)


class Regex:
    """A language of byte strings, and so a state: `step` gives what may follow a byte.

    final: the empty string is in it. Made by a Regexes, which makes equal ones only once.
    """

    __slots__ = ("op", "parts", "low", "high", "final", "mixed", "maker", "_next", "_shortest", "_known")

    def __init__(
        self, maker: Regexes, op: str, parts: tuple[Regex, ...], low: int, high: int | None, codes: frozenset[Ranges]
    ) -> None:
        self.maker, self.op, self.parts, self.low, self.high = maker, op, parts, low, high
        self._next: dict[int, Regex | None] = {}
        self.mixed: bool = op == "and" or any(part.mixed for part in parts)
        self._shortest: bytes | None = None
        self._known = not self.mixed
        if op == "codes":
            self.final = False
            self._shortest = min((bytes(low for low, _ in code) for code in codes), key=lambda text: (len(text), text))
            self.maker.codes[self] = codes
        elif op == "cat":
            self.final = parts[0].final and parts[1].final
        elif op == "or":
            self.final = any(part.final for part in parts)
        elif op == "and":
            self.final = all(part.final for part in parts)
        else:
            self.final = op == "empty" or (op == "repeat" and low == 0)
        if self._known and op != "codes":
            self._shortest = self._simple()

    def _simple(self) -> bytes | None:
        """The shortest string, where no two rules meet."""
        if self.final:
            return b""
        if self.op == "none":
            return None
        texts = [part._shortest or b"" for part in self.parts]
        if self.op == "cat":
            return texts[0] + texts[1]
        if self.op == "or":
            return min(texts, key=lambda text: (len(text), text))
        return texts[0] * self.low

    @property
    def shortest(self) -> bytes:
        """The shortest string of the language, b"" for the empty language."""
        return self._least() or b""

    @property
    def live(self) -> bool:
        """Whether the language has a string."""
        return self._least() is not None

    def _least(self) -> bytes | None:
        if not self._known:
            self.maker.search(self)
        return self._shortest

    def step(self, byte: int) -> Regex | None:
        """What may follow `byte`; None if nothing, not even later, can."""
        try:
            return self._next[byte]
        except KeyError:
            after = self.maker.derive(self, byte)
            found = self._next[byte] = after if after.live else None
            return found

    def __repr__(self) -> str:
        return f"Regex({self.op}, {self.shortest!r})"


class Regexes:
    """Makes and keeps languages; equal ones are one object."""

    def __init__(self) -> None:
        self._kept: dict[tuple[object, ...], Regex] = {}
        self.codes: dict[Regex, frozenset[Ranges]] = {}
        self._patterns: dict[str, Regex] = {}
        self._derived: dict[tuple[Regex, int], Regex] = {}
        self.none = self._make("none")
        self.empty = self._make("empty")
        self.any = self.characters(ANY)
        self.anything = self.repeat(self.any, 0, None)
        self.quote = self.text(b'"')
        self.free_string = self.cat(self.quote, self.anything, self.quote)

    def _make(
        self,
        op: str,
        parts: tuple[Regex, ...] = (),
        low: int = 0,
        high: int | None = 0,
        codes: frozenset[Ranges] = frozenset(),
    ) -> Regex:
        key = (op, parts if op in ("cat", "repeat") else frozenset(parts), low, high, codes)
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = Regex(self, op, parts, low, high, codes)
        return found

    def byte_codes(self, codes: frozenset[Ranges]) -> Regex:
        return self._make("codes", codes=codes) if codes else self.none

    def characters(self, ranges: Ranges) -> Regex:
        """One of some characters, in JSON's encoding."""
        return self.byte_codes(encoded(ranges))

    def bytes_of(self, ranges: Ranges) -> Regex:
        """One of some bytes as they are."""
        return self.byte_codes(frozenset((pair,) for pair in ranges))

    def text(self, text: bytes) -> Regex:
        """Exactly these bytes."""
        return self.byte_codes(frozenset([tuple((byte, byte) for byte in text)])) if text else self.empty

    def cat(self, *parts: Regex) -> Regex:
        out = self.empty
        for part in reversed(parts):
            out = self._cat(part, out)
        return out

    def _cat(self, one: Regex, two: Regex) -> Regex:
        heads = []
        while one.op == "cat":  # to the right, so that a state's head is at hand
            heads.append(one.parts[0])
            one = one.parts[1]
        for head in (one, *reversed(heads)):
            if head is self.none or two is self.none:
                return self.none
            if two is self.empty or head is self.empty:
                two = head if two is self.empty else two
            else:
                two = self._make("cat", (head, two))
        return two

    def alt(self, *parts: Regex) -> Regex:
        flat: dict[Regex, None] = {}
        codes: set[Ranges] = set()
        for part in parts:
            for inner in part.parts if part.op == "or" else (part,):
                if inner.op == "codes":
                    codes |= self.codes[inner]
                elif inner is not self.none:
                    flat[inner] = None
        if codes:
            flat[self.byte_codes(frozenset(codes))] = None
        if self.empty in flat and any(part.final for part in flat if part is not self.empty):
            del flat[self.empty]
        if len(flat) <= 1:
            return next(iter(flat), self.none)
        return self._make("or", tuple(flat))

    def both(self, *parts: Regex) -> Regex:
        """What is in all of them."""
        flat: dict[Regex, None] = {}
        for part in parts:
            for inner in part.parts if part.op == "and" else (part,):
                flat[inner] = None
        if self.none in flat:
            return self.none
        if self.empty in flat:
            return self.empty if all(part.final for part in flat) else self.none
        if len(flat) == 1:
            return next(iter(flat))
        return self._make("and", tuple(flat))

    def repeat(self, part: Regex, low: int, high: int | None) -> Regex:
        if part is self.none or part is self.empty or high == 0:
            return self.none if part is self.none and low else self.empty
        if (low, high) == (1, 1):
            return part
        if part.final:
            low = 0
        return self._make("repeat", (part,), low, high)

    def derive(self, regex: Regex, byte: int) -> Regex:
        """What may follow `byte`, without asking whether it can be completed."""
        if regex.op in ("none", "empty"):
            return self.none
        key = (regex, byte)
        found = self._derived.get(key)
        if found is None:
            found = self._derived[key] = self._derive(regex, byte)
        return found

    def _derive(self, regex: Regex, byte: int) -> Regex:
        if regex.op == "codes":
            rest = {code[1:] for code in self.codes[regex] if code[0][0] <= byte <= code[0][1]}
            if () in rest:
                longer = frozenset(code for code in rest if code)
                return self.alt(self.empty, self.byte_codes(longer)) if longer else self.empty
            return self.byte_codes(frozenset(rest))
        if regex.op == "cat":
            head, tail = regex.parts
            after = self._cat(self.derive(head, byte), tail)
            return self.alt(after, self.derive(tail, byte)) if head.final else after
        if regex.op == "or":
            return self.alt(*(self.derive(part, byte) for part in regex.parts))
        if regex.op == "and":
            return self.both(*(self.derive(part, byte) for part in regex.parts))
        part = regex.parts[0]
        fewer = self.repeat(part, max(0, regex.low - 1), None if regex.high is None else regex.high - 1)
        return self._cat(self.derive(part, byte), fewer)

    def borders(self, regex: Regex, into: set[int]) -> None:
        """Where the first bytes that are treated alike begin."""
        if regex.op == "codes":
            for code in self.codes[regex]:
                into.add(code[0][0])
                into.add(code[0][1] + 1)
            return
        parts = regex.parts
        for part in parts[:1] if regex.op == "cat" and not parts[0].final else parts:
            self.borders(part, into)

    def search(self, start: Regex) -> None:
        """Finds the shortest string of a language in which rules meet, and remembers it for all states on the way;
        all that were seen are dead if there is none. A search that is too long counts as fruitless."""
        origin: dict[Regex, tuple[Regex, int] | None] = {start: None}
        queue = deque([start])
        goal: Regex | None = None
        while queue and len(origin) < MAX_SEARCH:
            state = queue.popleft()
            if state.final or (state._known and state._shortest is not None):
                goal = state
                break
            if state._known:
                continue
            borders: set[int] = set()
            self.borders(state, borders)
            for byte in sorted(borders):
                if byte > 255:
                    continue
                after = self.derive(state, byte)
                if after is not self.none and after not in origin:
                    origin[after] = (state, byte)
                    queue.append(after)
        if goal is None:
            for state in origin if not queue else (start,):
                state._known = True
            return
        if not goal._known:
            goal._shortest, goal._known = b"", True
        text, step = goal._shortest or b"", origin[goal]
        while step is not None:
            state, byte = step
            text = bytes([byte]) + text
            if not state._known:
                state._shortest, state._known = text, True
            step = origin[state]

    def matches(self, regex: Regex, text: bytes) -> bool:
        state: Regex | None = regex
        for byte in text:
            state = state.step(byte) if state is not None else None
        return state is not None and state.final

    def pattern(self, source: str) -> Regex:
        """The strings (between the quotes) in which a pattern matches somewhere; RegexError outside the subset."""
        if len(source) > MAX_PATTERN:
            raise RegexError(f"is {len(source)} characters long; the most is {MAX_PATTERN}")
        if source not in self._patterns:
            self._patterns[source] = _Parser(self, source).parse()
        return self._patterns[source]

    def words(self, texts: Sequence[bytes]) -> Regex:
        return self.alt(*(self.text(text) for text in texts))


_CONTROLS = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13}
_CLASSES = {"d": DIGIT, "w": WORD, "s": BLANK}


class _Parser:
    def __init__(self, maker: Regexes, source: str) -> None:
        self.maker, self.source, self.at, self.depth = maker, source, 0, 0

    def peek(self) -> str:
        return self.source[self.at : self.at + 1]

    def take(self, text: str) -> bool:
        if self.source.startswith(text, self.at):
            self.at += len(text)
            return True
        return False

    def parse(self) -> Regex:
        branches = []
        while True:
            start = self.take("^")
            body, end = self.sequence()
            loose = self.maker.anything
            branches.append(self.maker.cat(*(() if start else (loose,)), body, *(() if end else (loose,))))
            if not self.take("|"):
                break
        if self.at < len(self.source):
            raise RegexError(f"has a {self.peek()!r} that opens nothing, at character {self.at + 1}")
        return self.maker.alt(*branches)

    def sequence(self) -> tuple[Regex, bool]:
        """Items up to `|`, `)` or the end, and whether a `$` closes them."""
        items: list[Regex] = []
        while self.peek() not in ("", "|", ")"):
            if self.take("$"):
                if self.depth or self.peek() not in ("", "|"):
                    raise RegexError("has a `$` that is not at the end; write the alternatives out")
                return self.maker.cat(*items), True
            items.append(self.quantified())
        return self.maker.cat(*items), False

    def quantified(self) -> Regex:
        atom = self.atom()
        low, high = 1, 1
        if self.take("*"):
            low, high = 0, None  # type: ignore[assignment]
        elif self.take("+"):
            low, high = 1, None  # type: ignore[assignment]
        elif self.take("?"):
            low, high = 0, 1
        elif self.peek() == "{":
            low, high = self.counts()  # type: ignore[assignment]
        else:
            return atom
        self.take("?")  # a lazy quantifier matches the same strings
        if self.peek() and self.peek() in "*+?{":
            raise RegexError(f"has a quantifier after a quantifier, at character {self.at + 1}")
        return self.maker.repeat(atom, low, high)

    def counts(self) -> tuple[int, int | None]:
        end = self.source.find("}", self.at)
        low, comma, high = self.source[self.at + 1 : max(end, 0)].partition(",")
        if end < 0 or not _number(low) or not (high == "" or _number(high)):
            raise RegexError(
                f"has a `{{` that is no {{n}}, {{n,}} or {{n,m}}, at character {self.at + 1}; write `\\{{`"
            )
        self.at = end + 1
        least, most = int(low), int(low) if not comma else int(high) if high else None
        if least > (least if most is None else most) or max(least, most or 0) > MAX_COUNT:
            raise RegexError(f"has a count that is upside down or above {MAX_COUNT}")
        return least, most

    def atom(self) -> Regex:
        head = self.peek()
        self.at += 1
        if head == "(":
            return self.group()
        if head == "[":
            return self.maker.characters(self.bracket())
        if head == ".":
            return self.maker.characters(complement(LINE_ENDS))
        if head == "\\":
            return self.maker.characters(self.escape(False))
        if head == "^":
            raise RegexError("has a `^` that is not at the start; write the alternatives out")
        if head in "*+?{":
            raise RegexError(f"has a {head!r} with nothing before it, at character {self.at}")
        return self.maker.characters(((ord(head), ord(head)),))

    def group(self) -> Regex:
        if self.take("?"):
            if self.take("<") and self.peek() not in ("=", "!"):
                end = self.source.find(">", self.at)
                self.at = end + 1 if end > 0 else len(self.source)
            elif not self.take(":"):
                raise RegexError("uses look-around or flags, which no automaton of characters has")
        self.depth += 1
        if self.depth > MAX_NESTING:
            raise RegexError(f"is nested deeper than {MAX_NESTING}")
        branches = [self.sequence()[0]]
        while self.take("|"):
            branches.append(self.sequence()[0])
        self.depth -= 1
        if not self.take(")"):
            raise RegexError("has a `(` that nothing closes")
        return self.maker.alt(*branches)

    def bracket(self) -> Ranges:
        negated = self.take("^")
        parts: list[Ranges] = []
        while not self.take("]"):
            if not self.peek():
                raise RegexError("has a `[` that nothing closes")
            low = self.member()
            if self.peek() == "-" and self.source[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                high = self.member()
                if len(low) != 1 or len(high) != 1 or low[0][0] != low[0][1] or low[0][0] > high[0][0]:
                    raise RegexError("has a range in brackets that is upside down or not between characters")
                low = ((low[0][0], high[0][1]),)
            parts.append(low)
        ranges = union(*parts)
        return complement(ranges) if negated else ranges

    def member(self) -> Ranges:
        head = self.peek()
        self.at += 1
        return self.escape(True) if head == "\\" else ((ord(head), ord(head)),)

    def escape(self, inside: bool) -> Ranges:
        letter = self.peek()
        self.at += 1
        if letter.lower() in _CLASSES and letter:
            ranges = _CLASSES[letter.lower()]
            return ranges if letter.islower() else complement(ranges)
        if letter in _CONTROLS:
            code = _CONTROLS[letter]
        elif letter == "b" and inside:
            code = 8
        elif letter == "0" and not self.peek().isdigit():
            code = 0
        elif letter == "x":
            code = self.hexadecimal(2)
        elif letter == "u" and self.take("{"):
            end = self.source.find("}", self.at)
            code = self.hexadecimal(max(0, end - self.at))
            self.at += 1
        elif letter == "u":
            code = self.hexadecimal(4)
            if 0xD800 <= code < 0xDC00 and self.take("\\u"):
                code = 0x10000 + ((code & 0x3FF) << 10 | self.hexadecimal(4) & 0x3FF)
        elif letter == "" or letter.isalnum():
            names = {
                "b": "a word boundary",
                "B": "a word boundary",
                "p": "a Unicode property",
                "P": "a Unicode property",
            }
            what = names.get(letter, "a back reference" if letter.isdigit() or letter == "k" else "no known escape")
            raise RegexError(f"uses `\\{letter}`, {what}")
        else:
            code = ord(letter)
        return ((code, code),)

    def hexadecimal(self, digits: int) -> int:
        text = self.source[self.at : self.at + digits]
        self.at += digits
        try:
            code = int(text, 16) if text.isalnum() and len(text) == digits else -1
        except ValueError:
            code = -1
        if not 0 <= code <= LAST:
            raise RegexError(f"has an escape that is no character, {text!r}")
        return code


def _number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9


_MONTH_DAY = "((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))"
_YEAR = "(000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})"
_LEAP = "([0-9]{2}(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)"
_DATE = f"({_YEAR}-{_MONTH_DAY}|{_LEAP}-02-29)"
_TIME = "([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\\.[0-9]{1,9})?)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])?"
_ATOM = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL = "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_OCTET = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_P = "([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"
_TAIL = f"(\\?({_P}|[/?])*)?(#({_P}|[/?])*)?"

FORMATS: dict[str, str] = {
    "date": f"^{_DATE}$",
    "time": f"^{_TIME}$",
    "date-time": f"^{_DATE}T{_TIME}$",
    "email": f"^{_ATOM}(\\.{_ATOM})*@{_LABEL}(\\.{_LABEL})+$",
    "uuid": "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$",
    "uri": (
        "^[A-Za-z][A-Za-z0-9+-]*:(//([A-Za-z0-9._~!$&'()*+,;=:-]|%[0-9A-Fa-f]{2})"
        f"([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{{2}})*(/{_P}*)*|{_P}+(/{_P}*)*){_TAIL}$"
    ),
    "hostname": f"^{_LABEL}(\\.{_LABEL})*$",
    "ipv4": f"^{_OCTET}(\\.{_OCTET}){{3}}$",
}
"""String formats that are enforced, as patterns. Days exist in their month, leap years count;
seconds and zone of a time may be left out, since no request says them."""
