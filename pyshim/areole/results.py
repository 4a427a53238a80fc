"""Results as typed objects beside the JSON envelope: the same facts with names, and back to the same JSON.

Owns Call, Result and what `run` gives. Each is a read-only mapping over its JSON too, so that code written for the
envelope takes it as it is.
"""

from __future__ import annotations

import copy
import dataclasses
import datetime
import enum
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from .errors import AreoleError

Json = dict[str, object]

MAX_TURNS = 8
"""How often the calls of an answer are run before `run` stops."""


@dataclass(frozen=True)
class Call:
    """One call: the tool's name and its arguments, with the caller's own names."""

    name: str
    arguments: Json

    def to_json(self) -> Json:
        return {"name": self.name, "arguments": copy.deepcopy(self.arguments)}


@dataclass(frozen=True)
class Result(Mapping[str, object]):
    """An envelope. A key that it does not have (the short one without tools has few) is None here.

    `validation`: {"ungrounded": [...], "negation": bool} where a call was checked. `to_json` gives the same object
    back, with its keys in their order, those that have no name here among them.
    """

    type: str
    success: bool
    error: str | None
    error_code: str | None
    reason: str | None
    function_calls: tuple[Call, ...]
    suppressed_calls: tuple[Call, ...]
    reasoning: str | None
    confidence: float | None
    prefill_tps: float | None
    decode_tps: float | None
    peak_ram_mb: float | None
    validation: Json | None
    _envelope: Json = field(repr=False, compare=False)

    @classmethod
    def of(cls, envelope: Mapping[str, object]) -> Result:
        """From an envelope, which is copied."""
        own = copy.deepcopy(dict(envelope))
        plain = {name: own.get(name) for name in cls.__dataclass_fields__ if name != "_envelope"}
        for key in ("function_calls", "suppressed_calls"):
            calls = own.get(key)
            listed = calls if isinstance(calls, list) else []
            plain[key] = tuple(Call(call["name"], call["arguments"]) for call in listed)
        return cls(**plain, _envelope=own)  # type: ignore[arg-type]

    @property
    def ungrounded(self) -> tuple[str, ...]:
        """`tool.argument` of each value that the request does not support, as `validation` lists them."""
        listed = (self.validation or {}).get("ungrounded")
        return tuple(str(entry) for entry in listed) if isinstance(listed, list) else ()

    def to_json(self) -> Json:
        return copy.deepcopy(self._envelope)

    def __getitem__(self, key: str) -> object:
        return self._envelope[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._envelope)

    def __len__(self) -> int:
        return len(self._envelope)


@dataclass(frozen=True)
class Ran:
    """A call that `run` came to: `value` is what the function gave, or `error` why it did not run or failed, or why
    what it gave cannot be told."""

    call: Call
    value: object = None
    error: Exception | None = field(default=None, compare=False)

    @property
    def ok(self) -> bool:
        return self.error is None

    def reported(self) -> object:
        """What the model is told: the value as JSON, or {"error": ...}."""
        if self.error is None:
            return plain(self.value)
        message = self.error.message if isinstance(self.error, AreoleError) else str(self.error)
        return {"error": message or type(self.error).__name__}


@dataclass(frozen=True)
class RunResult(Mapping[str, object]):
    """What `run` gave. As a mapping it is the last envelope with "results", the list of what the functions gave.

    result: the last answer. ran: every call in the order it was made. text: what the model said at the end.
    stopped: "done" (the model made no further call), "limit" (it did, after max_turns), or "failed", and then
    `failure` says why the conversation could not go on after functions had run.
    """

    result: Result
    ran: tuple[Ran, ...] = ()
    text: str = ""
    stopped: str = "done"
    failure: AreoleError | None = field(default=None, compare=False)

    @property
    def results(self) -> list[object]:
        """What each call gave, as Python values; {"error": ...} for those that failed."""
        return [one.value if one.ok else one.reported() for one in self.ran]

    def to_json(self) -> Json:
        return {**self.result.to_json(), "results": [one.reported() for one in self.ran]}

    def __getitem__(self, key: str) -> object:
        return self.results if key == "results" else self.result[key]

    def __iter__(self) -> Iterator[str]:
        yield from self.result
        yield "results"

    def __len__(self) -> int:
        return len(self.result) + 1


def plain(value: object, depth: int = 100) -> object:
    """A Python value as JSON's types: records and models as objects, dates as ISO text, all else as text."""
    if value is None or isinstance(value, (bool, str, int)):
        own = value.value if isinstance(value, enum.Enum) else value
        # Python does not write longer numbers in decimals.
        return hex(own) if isinstance(own, int) and own.bit_length() > 10_000 else own
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if depth == 0:
        return "..."
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name), depth - 1) for f in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return plain(value.value, depth - 1)
    if isinstance(value, Mapping):
        return {str(key): plain(item, depth - 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, depth - 1) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted((plain(item, depth - 1) for item in value), key=repr)
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    return str(value)
