"""Contract needle's enums: a value that the request says is written, whatever the model would have written.

Found by experiment (docs/contract.md): the official engine writes the value and its closing quote by themselves, which
takes a token more than the model's own spelling, and of several said values the first. Owns that choice; what is legal
is the grammar's business.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from .engine import TokenSession
from .grammar import CallConstraint, place_of
from .postprocess import property_schema
from .prompt import ToolSpec
from .tokenizer import Tokenizer

_NAME = re.compile(rb'\{"name":"([^"\\]*)","arguments":')


def first_said(options: Sequence[object], request: str) -> str | None:
    """The value that stands first in the request as words, case aside; None if none does."""
    found = []
    for option in options:
        if isinstance(option, str) and option:
            words = re.escape(option.replace("_", " "))
            match = re.search(rf"(?<![^\W_]){words}(?![^\W_])", request, re.I)
            if match is not None:
                found.append((match.start(), -len(option), option))
    return min(found)[2] if found else None


class SaidConstraint:
    """A grammar's constraint that writes said values of enums among a call's arguments."""

    def __init__(self, inner: CallConstraint, tools: Sequence[ToolSpec], tokenizer: Tokenizer, request: str) -> None:
        self._inner = inner
        self._tools = {tool.exposed.encode("utf-8"): tool for tool in tools}
        self._tokenizer = tokenizer
        self._request = request
        self._forced: list[int] = []

    @property
    def steered(self) -> list[object]:
        return list(self._inner.steered)

    def budget(self, remaining: int) -> None:
        self._inner.budget(remaining)

    def thought(self, reasoning: str) -> None:
        self._inner.thought(reasoning)

    def choose(self, session: TokenSession) -> tuple[int, bool] | None:
        return (self._forced[0], True) if self._forced else self._inner.choose(session)

    def accept(self, token: int) -> None:
        self._inner.accept(token)
        if self._forced:
            self._forced = self._forced[1:] if self._forced[0] == token else []
        else:
            self._forced = self._said_here()

    def ahead(self, token: int) -> list[int]:
        return []

    def _said_here(self) -> list[int]:
        """The tokens of the value that is to be written now, if the text stands after an enum's opening quote."""
        text = self._inner.text
        if not text.endswith(b'"'):
            return []
        steps, begun = place_of(text)
        names = _NAME.findall(text)
        if begun != b'"' or len(steps) != 3 or steps[1] != "arguments" or not names:
            return []
        tool = self._tools.get(names[-1])
        options = property_schema(tool, str(steps[2])).get("enum") if tool is not None else None
        value = first_said(options, self._request) if isinstance(options, list) else None
        if value is None or not value.isprintable() or '"' in value or "\\" in value:
            return []
        encode = self._tokenizer.encode
        return [*encode(value, markers=False), *encode('"', markers=False)]
