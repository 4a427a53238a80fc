"""The contracts: for each, which rules are on. A table and nothing else.

`needle` does what the official engine does, faults included, so that a port can be compared with it. `areole` does what
is right for any tools. `raw` gives what the model wrote. docs/contract.md says each rule in a sentence.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any

from .errors import RequestError


@dataclass(frozen=True)
class Contract:
    """A rule is on where its field is true."""

    name: str
    grammar: bool = False
    """The call can only be what the declared schemas allow."""
    said_values: bool = False
    """An enum's value that the request says is written, whatever the model would write."""
    offers: bool = False
    """Where the request says values that a required argument can have, one of these is written."""
    sorting: bool = False
    """A tool that only sorts always answers: a message to it need not ask for anything."""
    exact_ranges: bool = False
    """Bounds hold digit by digit, which can cut a number off or leave nothing to write."""
    forgeable: bool = False
    """Marker strings in tools, facts and requests act as markers."""

    capitals: bool = False
    """Titles, labels, messages and the like begin with a capital."""
    number_format: bool = False
    """A `number` has a fraction (2.0), an `integer` has none."""
    clock_dates: bool = False
    """A date that the request names in words is counted from the date fact, whatever the model wrote."""
    switch_words: bool = False
    """A switch follows the request's on or off, where it says one of the two only."""
    drop_unsupported: bool = False
    """An optional argument that the request does not support is left out."""
    duplicates: bool = False
    """A call that was made already is not made again."""

    by_turn: bool = False
    """One withheld call withholds all of its turn."""
    literal: bool = False
    """Values are looked for as written; without it numbers in words, word forms and dates count too."""
    floor: bool = False
    """A turn of which the model is not sure is withheld."""
    doubt: bool = False
    """Doubt about the first token of a number or switch counts as doubt about the turn."""
    objects_doubted: bool = False
    """A call with an object for an argument has no confidence."""
    schema: bool = False
    """A value outside its schema withholds the call."""
    grounding: bool = False
    """A required argument that nothing supports withholds the call."""
    relevance: bool = False
    """A call to a tool that the request does not speak of is withheld."""
    steering: bool = False
    """A value other than the one that the model wanted or was told withholds the call."""
    negation: bool = False
    """What the request forbids is withheld."""

    def without(self, rules: Iterable[str]) -> Contract:
        """The contract with rules switched off by name. RequestError for a name that is no rule."""
        names = set(rules)
        unknown = sorted(names - RULES)
        if unknown:
            raise RequestError(
                "request_option", f"{unknown[0]!r} is no rule of a contract; the rules are {', '.join(sorted(RULES))}.",
                got=unknown[0], needed=sorted(RULES),
            )  # fmt: skip
        off: dict[str, Any] = dict.fromkeys(names, False)
        return replace(self, **off)

    @property
    def rules(self) -> frozenset[str]:
        """The names of the rules that are on."""
        return frozenset(name for name in RULES if getattr(self, name))


RULES = frozenset(item.name for item in fields(Contract)) - {"name"}

GATE_RULES = frozenset(
    {
        "floor",
        "doubt",
        "objects_doubted",
        "schema",
        "grounding",
        "relevance",
        "steering",
        "negation",
        "drop_unsupported",
    }
)
"""The rules that withhold calls or leave out arguments."""

CONTRACTS = {
    "raw": Contract("raw", capitals=True),
    "needle": Contract(
        "needle", grammar=True, said_values=True, exact_ranges=True, forgeable=True, capitals=True, number_format=True,
        clock_dates=True, switch_words=True, drop_unsupported=True, duplicates=True, by_turn=True, literal=True,
        floor=True, doubt=True, objects_doubted=True, grounding=True, negation=True,
    ),
    "areole": Contract(
        "areole", grammar=True, offers=True, sorting=True, capitals=True, number_format=True, clock_dates=True,
        switch_words=True, drop_unsupported=True, duplicates=True, floor=True, doubt=True, schema=True,
        grounding=True, relevance=True, steering=True, negation=True,
    ),
}  # fmt: skip


DEFAULT = "areole"


def contract_of(choice: str | Contract) -> Contract:
    """A contract by name, or itself. RequestError for a name that there is not."""
    if isinstance(choice, Contract):
        return choice
    found = CONTRACTS.get(choice) if isinstance(choice, str) else None
    if found is None:
        raise RequestError(
            "request_option", f"The contract is {choice!r}; needed one of {', '.join(sorted(CONTRACTS))}.",
            got=repr(choice), needed=sorted(CONTRACTS),
        )  # fmt: skip
    return found
