"""Dates in words: which day a phrase means, counted from the day of the date fact.

Owns the calendar words of English requests. Knows no time zones, and no year unless the text says one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta

DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
_COUNTS = {
    "a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10,
}  # fmt: skip
_MONTH = "|".join(f"{name}|{name[:3]}" for name in MONTHS) + "|sept"
_DAY = "|".join(f"{name}|{name[:3]}" for name in DAYS) + "|tues|thurs"
_COUNT = "|".join(_COUNTS) + r"|\d{1,3}"
_DATED = rf"\d{{1,2}}(?:st|nd|rd|th)?(?: of)? (?P<m3>{_MONTH})(?:,? (?P<y3>\d{{4}}))?\b"
ISO = re.compile(r"(?<!\d)(\d{4})-(\d{2})-(\d{2})(?!\d)")
_FACT = re.compile(r"date:\s*(\d{4})-(\d{2})-(\d{2})")
_PATTERNS = tuple(
    re.compile(rf"\b(?:{pattern})\b", re.I)
    for pattern in (
        r"(?P<iso>\d{4}-\d{2}-\d{2})",
        rf"(?P<m1>{_MONTH})\.? (?:the )?(?P<d1>\d{{1,2}})(?:st|nd|rd|th)?(?:,? (?P<y1>\d{{4}}))?",
        rf"(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? (?P<m2>{_MONTH})(?:,? (?P<y2>\d{{4}}))?",
        rf"(?P<d3>\d{{1,2}})(?:st|nd|rd|th)?(?= ?(?:to|until|till|through|and|-|–) ?(?:the )?{_DATED})",
        r"(?P<after>the )?day after tomorrow",
        r"(?P<before>the )?day before yesterday",
        r"(?P<word>today|tonight|tomorrow|yesterday)",
        r"(?:on|by|until|till|before|after|from|since|due|\w+day,?) the (?P<monthday>\d{1,2})(?:st|nd|rd|th)",
        rf"in (?P<count>{_COUNT}) (?P<unit>day|week)s?",
        rf"(?P<next>next |this |coming |on )?(?P<weekday>{_DAY})",
    )
)


@dataclass(frozen=True)
class Named:
    """A day that a text names, and where: text[start:end]. `past`: the same day a year before, where the text says no
    year and the day could be that one."""

    day: date
    start: int
    end: int
    past: date | None = None

    @property
    def options(self) -> tuple[date, ...]:
        return (self.day,) if self.past is None else (self.day, self.past)


def today_of(facts: str) -> date | None:
    """The day of the date fact in the system line; None if there is none or the calendar has no such day."""
    found = _FACT.search(facts)
    return _real(*map(int, found.groups())) if found else None


def iso_date(text: str) -> date | None:
    """The day of a text that begins with YYYY-MM-DD; None for anything else."""
    found = ISO.match(text.strip())
    return _real(*map(int, found.groups())) if found else None


def named_days(text: str, today: date | None, *, counted: bool = True) -> list[Named]:
    """The days that a text names, in its order. Without a date fact only full dates are days. `counted`: also those
    that count from today, as `in three days` does."""
    found: list[Named] = []
    for pattern in _PATTERNS:
        for match in pattern.finditer(text):
            if not counted and (match.groupdict().get("count") or match.groupdict().get("monthday")):
                continue
            if any(match.start() < other.end and other.start < match.end() for other in found):
                continue
            day = _day_of(match, today)
            if day is not None:
                found.append(Named(day, match.start(), match.end(), _past(match, day)))
    return sorted(found, key=lambda item: item.start)


def _day_of(match: re.Match[str], today: date | None) -> date | None:
    groups = match.groupdict()
    if groups.get("iso"):
        return iso_date(match.group())
    for month, day, year in (("m1", "d1", "y1"), ("m2", "d2", "y2"), ("m3", "d3", "y3")):
        if groups.get(month):
            return _in_year(_month(groups[month]), int(groups[day]), groups[year], today)
    if today is None:
        return None
    if "after" in groups:
        return today + timedelta(2)
    if "before" in groups:
        return today - timedelta(2)
    if groups.get("word"):
        return today + timedelta({"tomorrow": 1, "yesterday": -1}.get(groups["word"].lower(), 0))
    if groups.get("count"):
        number = _COUNTS.get(groups["count"].lower()) or int(groups["count"])
        return today + timedelta(number * (7 if groups["unit"].lower() == "week" else 1))
    if groups.get("monthday"):
        return _next_on(int(groups["monthday"]), today)
    ahead = (_index(DAYS, groups["weekday"]) - today.weekday()) % 7 or 7
    return today + timedelta(ahead)


def _next_on(day: int, today: date) -> date | None:
    """The next day with that number in its month, today included."""
    year, month = today.year, today.month
    for _ in range(12):
        found = _real(year, month, day)
        if found is not None and found >= today:
            return found
        year, month = (year + 1, 1) if month == 12 else (year, month + 1)
    return None


def _past(match: re.Match[str], day: date) -> date | None:
    groups = match.groupdict()
    yearless = any(groups.get(f"m{form}") and not groups[f"y{form}"] for form in "123")
    return _real(day.year - 1, day.month, day.day) if yearless else None


def _in_year(month: int, day: int, year: str | None, today: date | None) -> date | None:
    """The day in the year that the text says, or the next such day."""
    if year is not None:
        return _real(int(year), month, day)
    if today is None:
        return None
    this = _real(today.year, month, day)
    return this if this is not None and this >= today else _real(today.year + 1, month, day)


def _real(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None


def _index(names: tuple[str, ...], word: str) -> int:
    return next(at for at, name in enumerate(names) if name.startswith(word.lower()[:3]))


def _month(word: str) -> int:
    return _index(MONTHS, word) + 1
