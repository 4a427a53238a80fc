"""What a request supports: its words, word stems, quantities and days, and whether they carry an argument's value.

Owns reading: English number words, signs, units, ordinals, percent, the words for a bound ("full", "minimum"), and
what in a schema's own description stands for an enum's value. Decides nothing about a call; see gates.
"""

from __future__ import annotations

import math
import os.path
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from . import codes
from .clauses import Clause, split
from .dates import DAYS, ISO, MONTHS, Named, named_days, today_of
from .names import snake_case

Schema = Mapping[str, object]

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_DIGITS = re.compile(
    r"(?P<sign>(?<![\w.)])[-−+](?=[$€£]?\.?\d))?[$€£]?(?P<body>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|(?<!\d)\.\d+)"
    r"(?P<scale>[kKM](?![\w]))?",
)


_PIECE = re.compile(r"[,;]\s|[.!?](?=\s|$)|\b(?:and|plus|then)\b", re.I)


_UNIT = re.compile(r"\s?-?\s?([^\W\d_]+)")


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_BELOW_TWENTY = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen"""
_ROUND = "twenty thirty forty fifty sixty seventy eighty ninety"
_PLACES = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"
_SMALL = {word: at for at, word in enumerate(_words(_BELOW_TWENTY))} | {"none": 0}
_TENS = {word: 10 * at for at, word in enumerate(_words(_ROUND), 2)}
_SCALES = {"hundred": 100, "thousand": 1000, "million": 1_000_000, "dozen": 12, "grand": 1000}
_ORDINALS = {word: at for at, word in enumerate(_words(_PLACES), 1)}
_PARTS = {"half": 0.5, "quarter": 0.25}
_TIMES = {"once": 1, "twice": 2, "thrice": 3, "single": 1, "double": 2, "triple": 3, "both": 2, "couple": 2, "pair": 2}
_OFTEN = frozenset({"once", "twice", "thrice"})
SOMETIMES = frozenset({*_ORDINALS, *_PARTS, *_TIMES})
"""Words that only sometimes are numbers: "both", "half", "the first"."""
_NEGATIVE = frozenset({"minus", "negative"})
_MOST = frozenset(_words("max maximum maximal full fully fullest highest loudest brightest hottest"))
_LEAST = frozenset(_words("min minimum minimal lowest quietest dimmest coldest"))
_SAYING_NOTHING = """a an the this that these those it its i me my mine we us our you your he she him her his they them
their to of in on at by for from with and or as is are am be was were do does did please some any something anything
whatever someone anyone somewhere one ones thing things so up down out off now here there what which who when where how
can could would will shall should want need like just think guess suppose i'd i'll i'm i've you'd you'll"""
STOP = frozenset(_words(_SAYING_NOTHING))
"""Words that say nothing about a value."""


def fold(text: str) -> str:
    """The text without case and accents."""
    decomposed = unicodedata.normalize("NFKD", text)
    return "".join(c for c in decomposed if not unicodedata.combining(c)).casefold().replace("’", "'")


_PLURALS = {
    "children": "child", "people": "person", "men": "man", "women": "woman", "feet": "foot", "teeth": "tooth",
    "mice": "mouse", "geese": "goose", "knives": "knife", "lives": "life", "shelves": "shelf", "halves": "half",
}  # fmt: skip


def stem(word: str) -> str:
    """A folded word without the endings of plurals and verb forms: `lights` and `lighting` are both `light`."""
    if word.endswith("'s"):
        word = word[:-2]
    word = _PLURALS.get(word, word)
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    for ending in ("ing", "ers", "er", "ed", "es", "ly", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not (ending == "s" and word.endswith("ss")):
            word = word[: -len(ending)]
            if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "ls":
                word = word[:-1]
            break
    return word[:-1] if len(word) > 3 and word.endswith("e") else word


OFTEN = stem("times")
"""The unit of "twice a day" and "3 times a day"."""

_UNITS: dict[str, tuple[str, float]] = {}
for _dimension, _table in {
    "time": {
        "ms millisecond": 0.001, "s sec second": 1, "min minute": 60, "h hr hour": 3600, "d day": 86400,
        "w wk week": 604800,
    },
    "mass": {"mg milligram": 0.001, "g gram gramme": 1, "kg kilo kilogram": 1000, "tonne ton": 1_000_000},
    "length": {
        "mm millimeter millimetre": 0.001, "cm centimeter centimetre": 0.01, "meter metre": 1,
        "km kilometer kilometre": 1000,
    },
    "volume": {"ml milliliter millilitre": 0.001, "cl": 0.01, "l liter litre": 1},
}.items():  # fmt: skip
    for _names, _factor in _table.items():
        for _word in _names.split():
            _UNITS[stem(_word)] = (_dimension, float(_factor))


def dimension(unit: str) -> str:
    """What a unit, by its stem, is one of: "time", "mass", "length", "volume"; "" for none that is known."""
    return _UNITS[unit][0] if unit in _UNITS else ""


@dataclass(frozen=True)
class Word:
    """text[start:end], folded, and its stem."""

    fold: str
    stem: str
    start: int
    end: int


@lru_cache(maxsize=2048)
def words_of(text: str) -> tuple[Word, ...]:
    out = []
    for match in _WORD.finditer(text):
        folded = fold(match.group())
        out.append(Word(folded, stem(folded), match.start(), match.end()))
    return tuple(out)


def name_words(name: str) -> tuple[str, ...]:
    """The stems of a name's words: `weightKg` -> weight, kg."""
    return tuple(word.stem for word in words_of(snake_case(name).replace("_", " ")))


@dataclass(frozen=True)
class Quantity:
    """A number that a text says, at text[start:end], with the unit after it ("" for none)."""

    value: float
    start: int
    end: int
    unit: str = ""
    written: str = ""

    def means(self, value: float, unit: str = "") -> bool:
        """Whether it is `value`, counted in `unit` where that is known: 2 hours are 120 minutes and not 2."""
        mine = self.converted(unit) if dimension(unit) == dimension(self.unit) != "" else self.value
        return math.isclose(mine, value, rel_tol=1e-9, abs_tol=1e-12)

    def converted(self, unit: str) -> float:
        """The value counted in a unit of the same dimension."""
        return self.value * _UNITS[self.unit][1] / _UNITS[unit][1]


def quantities(text: str) -> list[Quantity]:
    """The numbers of a text, in digits or in words, in its order."""
    return list(_quantities(text))


@lru_cache(maxsize=1024)
def _quantities(text: str) -> tuple[Quantity, ...]:
    out: list[Quantity] = []
    words = words_of(text)
    starts, ends = [word.start for word in words], [word.end for word in words]
    for match in _DIGITS.finditer(text):
        value = float(match["body"].replace(",", ""))
        if not math.isfinite(value):
            continue  # hundreds of digits count nothing
        value *= {"k": 1000, "K": 1000, "M": 1_000_000}.get(match["scale"] or "", 1)
        at = bisect_right(ends, match.start())  # words[:at] end before the number
        before = words[at - 1 : at] if at else ()
        spoken = bool(before) and _is_sign(words, at - 1) and not text[before[0].end : match.start()].strip()
        if match["sign"] in ("-", "−") or spoken:
            value = -value
        follow = _UNIT.match(text, match.end())
        unit = stem(fold(follow[1])) if follow else ""
        after = bisect_left(starts, match.end())
        if words[after : after + 1] and words[after].fold in _SCALES and not match["scale"]:
            value *= _SCALES[words[after].fold]
        if value < 0 and match["sign"] is None:
            out.append(Quantity(value, before[0].start, match.end(), unit, match["body"]))
        else:
            out.append(Quantity(value, match.start(), match.end(), unit, match["body"]))
        if unit == "pm" and 1 <= value < 12:
            out.append(Quantity(value + 12, match.start(), match.end(), "", match["body"]))
    out += _in_words(words)
    return tuple(_compound(sorted(out, key=lambda item: item.start), text))


def _compound(items: list[Quantity], text: str) -> list[Quantity]:
    """With "an hour and ten minutes" or "1 h 30 min" as one quantity, in the smaller unit."""
    out: list[Quantity] = []
    for item in items:
        last = out[-1] if out else None
        mine, theirs = _UNITS.get(item.unit), _UNITS.get(last.unit) if last is not None else None
        if (
            last is not None
            and mine is not None
            and theirs is not None
            and mine[0] == theirs[0]
            and mine[1] < theirs[1]
        ):
            between = [word for word in words_of(text[last.end : item.start]) if word.fold != "and"]
            if all(word.stem == last.unit for word in between):
                whole = last.value * theirs[1] / mine[1] + item.value
                out[-1] = Quantity(whole, last.start, item.end, item.unit, "")
                continue
        out.append(item)
    return out


_POINTING = frozenset({"the", "this", "that", "which", "another", "each", "every", "any", "no", "other"})


def _in_words(words: Sequence[Word]) -> list[Quantity]:
    out: list[Quantity] = []
    at = 0
    while at < len(words):
        end, value = _read_number(words, at)
        if value is None:
            at += 1
            continue
        start = at
        if at and _is_sign(words, at - 1):
            value, start = -value, at - 1
        if end - start == 1 and words[start].fold == "one" and start and words[start - 1].fold in _POINTING:
            at = end  # "the one in bay B"
            continue
        follow = [word.stem for word in words[end : end + 3] if word.fold not in ("a", "an", "of")]
        unit = OFTEN if words[start].fold in _OFTEN else follow[0] if follow else ""
        rest = [word.fold for word in words[end + 1 : end + 4]]
        if unit in _UNITS and rest[:3] in (["and", "a", "half"], ["and", "a", "quarter"]):
            value += _PARTS[rest[2]]
        out.append(Quantity(value, words[start].start, words[end - 1].end, unit))
        at = end
    return out


def _is_sign(words: Sequence[Word], at: int) -> bool:
    """Whether a word makes the number after it negative; after another number it takes away: "81 minus 17"."""
    if words[at].fold not in _NEGATIVE:
        return False
    return not at or not (words[at - 1].fold[:1].isdigit() or _read_number(words, at - 1)[1] is not None)


def _read_number(words: Sequence[Word], at: int) -> tuple[int, float | None]:
    """The number in words that begins at words[at], and where it ends; None if none does."""
    word = words[at].fold
    if word in ("a", "an"):
        following = words[at + 1] if at + 1 < len(words) else Word("", "", 0, 0)
        if following.fold in _SCALES:
            return at + 2, float(_SCALES[following.fold])
        before = words[at - 1] if at else following
        rate = before.fold in {*_PARTS, *_OFTEN} or before.stem == OFTEN  # "half an hour", "twice a day"
        whole = following.stem in _UNITS and len(following.stem) > 1 and not rate
        return (at + 1, 1.0) if whole else (at, None)
    if word in _PARTS:
        return at + 1, _PARTS[word]
    if word in _TIMES:
        return at + 1, float(_TIMES[word])
    if word in _ORDINALS:
        return at + 1, float(_ORDINALS[word])
    total, part, end, seen = 0.0, 0.0, at, False
    while end < len(words):
        word = words[end].fold
        if word in _TENS and (not seen or words[end - 1].fold in {*_SCALES, "and"}):
            part += _TENS[word]
        elif word in _SMALL and (not seen or words[end - 1].fold in {*_TENS, *_SCALES, "and"}):
            part += _SMALL[word]
        elif word in _ORDINALS and seen and words[end - 1].fold in _TENS:
            return end + 1, total + part + _ORDINALS[word]
        elif word in _SCALES and seen:
            if word in ("hundred", "dozen"):
                part = (part or 1) * _SCALES[word]
            else:
                total, part = total + (part or 1) * _SCALES[word], 0
        elif (
            word == "and"
            and seen
            and end + 1 < len(words)
            and words[end - 1].fold in _SCALES
            and words[end + 1].fold in {*_SMALL, *_TENS}
        ):
            pass
        elif word == "point" and seen:
            digits = ""
            while end + 1 < len(words) and _SMALL.get(words[end + 1].fold, 10) < 10:
                end += 1
                digits += str(_SMALL[words[end].fold])
            return end + 1, (total + part + float(f"0.{digits}")) if digits else total + part
        else:
            break
        seen = True
        end += 1
    if seen:
        rest = [word.fold for word in words[end : end + 3]]
        if rest[:2] in (["and", "a"], ["and", "one"]) and rest[2:] and rest[2] in _PARTS:
            return end + 3, total + part + _PARTS[rest[2]]
        if rest[:1] == ["quarters"] and total + part in (1, 3):
            return end + 1, (total + part) / 4
    return (end, total + part) if seen else (at, None)


def unit_of(name: str, schema: Schema) -> str:
    """The unit that a property is counted in, by its name or else its description; "" if neither says one."""
    described = schema.get("description")
    for source in (name_words(name), [w.stem for w in words_of(described)] if isinstance(described, str) else ()):
        for word in source:
            if word == "per":
                break  # times per day are times
            if word in _UNITS and len(word) > 1:
                return word
    return ""


def number_text(value: float) -> str:
    """A number as JSON has it without a needless fraction."""
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


@dataclass(frozen=True)
class Evidence:
    """A request and what stands beside it: the facts of the system line, and what was said earlier."""

    text: str
    facts: str = ""
    earlier: tuple[str, ...] = field(default=())

    @cached_property
    def background(self) -> str:
        """Everything but the request."""
        return "\n".join([self.facts, *self.earlier])

    @cached_property
    def words(self) -> tuple[Word, ...]:
        return words_of(self.text)

    @cached_property
    def stems(self) -> frozenset[str]:
        return frozenset(word.stem for word in self.words)

    @cached_property
    def clauses(self) -> list[Clause]:
        return split(self.text)

    @cached_property
    def meant(self) -> Evidence:
        """The request without the clauses that forbid."""
        text = self.text
        for clause in self.clauses:
            if clause.negated:
                text = text[: clause.start] + " " * (clause.end - clause.start) + text[clause.end :]
        return Evidence(text, self.facts)

    @cached_property
    def quantities(self) -> list[Quantity]:
        return [item for text in (self.text, *self.earlier) for item in quantities(text)]

    @cached_property
    def own_quantities(self) -> list[Quantity]:
        return quantities(self.text)

    @cached_property
    def countable(self) -> list[Quantity]:
        """Numbers that count something: not parts of codes, days or times of day."""
        text = self.text
        spans = [match.span() for match in ISO.finditer(text)] + clock_spans(text)
        spans += [(day.start, day.end) for day in named_days(text, today_of(self.facts))]
        covered, out = mask(len(text), spans), []
        for item in quantities(text):
            before, after = text[max(0, item.start - 2) : item.start], text[item.end : item.end + 8]
            code = before[-1:].isalnum() or (before[-1:] in tuple("-_/#.:@") and before[:1].isalnum())
            code = code or re.match(r"[-_/:@.]\d|[A-Za-z]+\d|[A-Z](?![\w])", after) is not None
            zeros = len(item.written) > 1 and item.written[0] == "0" and item.written[1] != "."
            if not (code or zeros or any(covered[item.start : item.end])):
                out.append(item)
        return out

    @cached_property
    def today(self) -> object:
        return today_of(self.facts)

    @cached_property
    def days(self) -> list[Named]:
        return [item for text in (self.text, *self.earlier) for item in named_days(text, today_of(self.facts))]

    @cached_property
    def _sources(self) -> list[tuple[Word, ...]]:
        return [words_of(text) for text in (self.text, *self.earlier, self.facts)]

    def says(self, phrase: str) -> bool:
        """Whether request, earlier turns or facts have the phrase, case, accents and punctuation aside."""
        wanted = [word.fold for word in words_of(phrase)]
        if not wanted:
            return bool(phrase.strip()) and any(phrase.strip() in text for text in (self.text, *self.earlier))
        if any(_contains([word.fold for word in words], wanted) for words in self._sources):
            return True
        close = squeezed(phrase)
        return len(close) >= 4 and any(_runs_together(close, words) for words in self._sources)

    def writes(self, phrase: str) -> bool:
        """Whether the request itself has the phrase as it is, plurals aside."""
        wanted = [_singular(word.fold) for word in words_of(phrase)]
        return bool(wanted) and _contains([_singular(word.fold) for word in self.words], wanted)

    def writes_closely(self, phrase: str) -> bool:
        """Whether the request has the phrase, blanks and punctuation aside: `e-bike` for `ebike`."""
        close = squeezed(phrase)
        return len(close) >= 4 and _runs_together(close, self.words)

    def names_code(self, value: str) -> bool:
        """Whether the request says what a standard code of money, a language or a country stands for, or has a number
        with the unit that the value is: "2.5 litres" for `L`."""
        unit = _UNITS.get(stem(fold(value)))
        if unit is not None and any(_UNITS.get(item.unit) == unit for item in self.quantities):
            return True
        return codes.said(value, fold(self.text), frozenset(word.fold for word in self.words))

    def hints_at(self, phrase: str) -> bool:
        """Whether the request has each word of the phrase in another form, or as the beginning of a longer word."""
        wanted = [word for word in words_of(phrase) if word.fold not in STOP]
        return bool(wanted) and all(
            any(word.stem == said.stem or _alike(word.fold, said.fold) for said in self.words) for word in wanted
        )

    def one_of(self, name: str) -> bool:
        """Whether the request has "a" or "an" before the name of a count: "a dog" for `dogs`."""
        last = name_words(name)[-1:]
        return any(
            a.fold in ("a", "an") and (b.stem,) == last for a, b in zip(self.words, self.words[1:], strict=False)
        )

    def speaks_of(self, name: str, schema: Schema) -> bool:
        """Whether the request has a word of a property's name or description."""
        described = schema.get("description")
        told = [word.stem for word in words_of(described)] if isinstance(described, str) else []
        return bool(telling([*name_words(name), *told]) & self.stems)

    def pieces(self, texts: Sequence[str]) -> list[tuple[int, int]]:
        """The pieces of the request, from one comma or "and" to the next, in which these texts stand."""
        text, out = self.text, []
        for value in texts:
            found = re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text, re.I) if value.strip() else None
            if found is not None:
                starts = [match.end() for match in _PIECE.finditer(text, 0, found.start())]
                after = _PIECE.search(text, found.end())
                out.append((starts[-1] if starts else 0, after.start() if after else len(text)))
        return out

    def beside(self, texts: Sequence[str]) -> Evidence | None:
        """What the request says in the pieces of these texts; None if it has none of them."""
        found = self.pieces(texts)
        return Evidence("; ".join(self.text[start:end] for start, end in found)) if found else None

    def has_words(self, phrase: str) -> bool:
        """Whether each word of the phrase that says something is there in some form, numbers in words included."""
        telling = [word for word in words_of(phrase) if word.fold not in STOP]
        stems = {word.stem for words in self._sources[:-1] for word in words}
        numbers = {number_text(item.value) for item in self.quantities}
        return bool(telling) and all(word.stem in stems or word.fold in numbers for word in telling)

    def supports_text(self, value: str) -> bool:
        """Whether a free text is the request's: its phrase, its words, its day or its time of day."""
        telling = [word for word in words_of(value) if word.fold not in STOP]
        if not telling and not any(c.isdigit() for c in value):
            return False
        if self._sign_lost(value):
            return False
        if self.says(value):
            return True
        days = named_days(value, today_of(self.facts))
        if days:
            rest = value
            for item in reversed(days):
                rest = rest[: item.start] + " " + rest[item.end :]
            rest = rest.strip(" T,")
            known = {item.day for item in self.days}
            if ISO.search(value) and not all(item.day in known for item in days):
                return False
            if all(item.day in known for item in days) and (not rest or self._says_time(rest) or self.has_words(rest)):
                return True
        return self._says_time(value) or self.has_words(value)

    def _sign_lost(self, value: str) -> bool:
        """Whether the value has a number that the request says with a minus only."""
        given = {item.value for item in self.own_quantities}
        return any(item.value > 0 and -item.value in given and item.value not in given for item in quantities(value))

    def _says_time(self, value: str) -> bool:
        wanted = clock_times(value)
        return bool(wanted) and wanted <= set().union(*(clock_times(t) for t in (self.text, *self.earlier)))

    def supports_number(self, value: float, name: str, schema: Schema) -> bool:
        """Whether the request says the number, in figures or words, in the property's unit, or a word for a bound."""
        unit = unit_of(name, schema)
        for item in self.quantities:
            if item.means(value, unit):
                return True
            small = schema.get("maximum")
            fraction = item.unit in ("percent", "pct") and isinstance(small, (int, float)) and small <= 1
            if fraction and math.isclose(item.value / 100, value):
                return True
        if value == 1 and self.one_of(name):
            return True
        folds = {word.fold for word in self.words}
        low, high = schema.get("minimum"), schema.get("maximum")
        if folds & _MOST and high == value or folds & _LEAST and low == value:
            return True
        middle = (low + high) / 2 if isinstance(low, (int, float)) and isinstance(high, (int, float)) else None
        if folds & {"half", "halfway"} and value == middle:
            return True
        return self._fact_number(value, name)

    def _fact_number(self, value: float, name: str) -> bool:
        """A number counts from the facts where the fact has the property's name."""
        for part in self.facts.split(";"):
            key, colon, said = part.partition(":")
            if (
                colon
                and name_words(key)[-1:] == name_words(name)[-1:]
                and any(q.value == value for q in quantities(said))
            ):
                return True
        return False

    def supports_choice(self, value: str, schema: Schema) -> bool:
        """Whether an enum's value is said, or what the schema's own description puts beside it is."""
        phrase = value.replace("_", " ")
        if self.says(phrase) or self.has_words(phrase) or self.hints_at(phrase) or self.names_code(value):
            return True
        others = schema.get("enum")
        rivals = [str(item) for item in others if item != value] if isinstance(others, list) else []
        described = schema.get("description")
        return isinstance(described, str) and self._stands_for(value, rivals, described)

    def _stands_for(self, value: str, rivals: list[str], described: str) -> bool:
        """Looks for `value: these, words` or `value (these words)` or `these words = value` in a description."""
        spaced = re.escape(value).replace("_", "[_ ]")
        found = re.search(
            rf"(?<!\w)['\"`]?{spaced}['\"`]?\s*(?::|=|\(|-|–|for\b|means\b|if\b|when\b)\s*(.+)", described, re.I
        )
        if found is None:
            return False
        rest = found[1]
        stops = [m.start() for rival in rivals if (m := re.search(rf"(?<!\w){re.escape(rival)}(?!\w)", rest, re.I))]
        stops += [m.start() for m in [re.search(r"[.;)]", rest)] if m]
        segment = rest[: min(stops)] if stops else rest
        return any(word.stem in self.stems for word in words_of(segment) if word.fold not in STOP)


_CALENDAR = frozenset((*DAYS, *MONTHS))


def _alike(one: str, other: str) -> bool:
    """Whether two words begin the same, with most of the shorter one: `urinalysis` and `urine`."""
    shorter, longer = sorted((one, other), key=len)
    if len(shorter) == 3:
        return longer.startswith(shorter) and longer in _CALENDAR
    same = len(os.path.commonprefix((shorter, longer)))
    return same >= 4 and same >= (0.8 if same == 4 else 0.75) * len(shorter)


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def squeezed(text: str) -> str:
    """Letters and digits only, folded."""
    return "".join(c for c in fold(text) if c.isalnum())


def _runs_together(close: str, words: Sequence[Word]) -> bool:
    """Whether some words of a text in a row, written together, are `close`: `lawn mower` is `lawnmower`."""
    parts = [word.fold.replace("'", "") for word in words]
    for at, part in enumerate(parts):
        if not part or not close.startswith(part):
            continue
        whole, end = part, at + 1
        while len(whole) < len(close) and end < len(parts) and close.startswith(whole + parts[end]):
            whole, end = whole + parts[end], end + 1
        if whole == close:
            return True
    return False


def _contains(inside: list[str], wanted: list[str]) -> bool:
    size = len(wanted)
    return any(inside[at : at + size] == wanted for at in range(len(inside) - size + 1))


_CLOCK = re.compile(
    r"(?<![\d:-])(?P<hour>\d{1,2})(?::(?P<minute>\d{2}))?(?::\d{2})?\s*(?P<half>[ap]\.?m\b\.?)?(?![\d-])", re.I
)


def clock_times(text: str) -> set[tuple[int, int]]:
    """The times of day of a text as (hour, minute). A bare number is a time only with am, pm or minutes."""
    out = set()
    for match in _CLOCK.finditer(text):
        hour, minute, half = int(match["hour"]), int(match["minute"] or 0), (match["half"] or "").lower()
        if not half and match["minute"] is None or hour > 24 or minute > 59:
            continue
        if half.startswith("p") and hour < 12:
            hour += 12
        elif half.startswith("a") and hour == 12:
            hour = 0
        out.add((hour, minute))
    out |= _spoken_times(text)
    folds = {word.fold for word in words_of(text)}
    return out | ({(12, 0)} if "noon" in folds else set()) | ({(0, 0)} if "midnight" in folds else set())


_HOURS = {word: at for word, at in _SMALL.items() if 1 <= at <= 12} | {str(at): at for at in range(1, 13)}
_HOUR = "|".join(_HOURS)
_SPOKEN = re.compile(
    rf"\b(?:(?P<part>half|quarter|ten|twenty|five|twenty[- ]five) (?P<side>past|to|after|before) )?(?P<hour>{_HOUR})\b"
    r"(?P<clock> ?o['’]?clock)?(?: (?:in the|this|tomorrow|every|on \w+) ?(?P<time>morning|afternoon|evening|night)"
    r"| (?P<half>[ap]\.?m)\b| at (?P<night>night))?",
    re.I,
)
_MINUTES = {"half": 30, "quarter": 15, "ten": 10, "twenty": 20, "five": 5, "twenty five": 25, "twenty-five": 25}


def mask(length: int, spans: Iterable[tuple[int, int]]) -> bytearray:
    """For each character of a text whether one of the spans has it."""
    out = bytearray(length)
    for start, end in spans:
        out[start:end] = b"\1" * (end - start)
    return out


def clock_spans(text: str) -> list[tuple[int, int]]:
    """Where times of day stand in a text."""
    found = [m.span() for m in _CLOCK.finditer(text) if m["half"] or m["minute"]]
    return found + [m.span() for m in _SPOKEN.finditer(text) if m["part"] or m["clock"] or m["time"] or m["night"]]


def _spoken_times(text: str) -> set[tuple[int, int]]:
    """Times in words: `half past ten in the morning`, `six o'clock`, `8 in the evening`."""
    out = set()
    for match in _SPOKEN.finditer(text):
        time = (match["time"] or match["night"] or "").lower()
        half = (match["half"] or "").lower()
        if not (match["part"] or match["clock"] or time or half):
            continue
        hour, minute = _HOURS[match["hour"].lower()], _MINUTES.get((match["part"] or "").lower(), 0)
        if (match["side"] or "").lower() in ("to", "before"):
            hour, minute = (hour - 1) or 12, 60 - minute
        late = time in ("afternoon", "evening", "night") or half.startswith("p")
        if late and hour < 12:
            hour += 12
        elif hour == 12 and (time == "morning" or half.startswith("a") or time == "night"):
            hour = 0
        out.add((hour, minute))
        if hour < 12 and not (time or half) and (match["part"] or match["clock"]):
            out.add((hour + 12, minute))  # "half past one" may be either
    return out


def telling(stems: Iterable[str]) -> frozenset[str]:
    """Stems without those of words that say nothing."""
    return frozenset(stems) - _STOP_STEMS


_STOP_STEMS = frozenset(stem(word) for word in STOP)
