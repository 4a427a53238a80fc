"""What a Needle does for its caller's comfort: finds and shares weights, adds the date, warns of long conversations."""

from __future__ import annotations

import datetime
import os
import re
import sys
import warnings
from pathlib import Path

from .errors import RequestError
from .model import Model

LONG_CONVERSATION = 4
"""Requests in one conversation after which a further one gets a warning."""

_PACKAGE = __name__.rpartition(".")[0]
_DATED = re.compile(r"\d{4}-\d\d-\d\d|(?:^|[^a-z])date:", re.IGNORECASE | re.ASCII)
"""Facts that have a date: a day as ISO writes it, or the key, but not the end of another key such as `update:`."""
_SHARED: dict[tuple[str, int, int], Model] = {}


class LongConversationWarning(UserWarning):
    """A conversation has become long; requests that do not belong together are answered worse in one conversation."""


def shared_model(model: Model | str | os.PathLike[str] | None) -> Model:
    """The model itself, or the one of a path, loaded once for all who name it and kept until the process ends.

    None is the path that `areole ask` takes without --model. RequestError("request_option") for anything else.
    """
    if model is None or isinstance(model, (str, os.PathLike)):
        from .cli import find_model

        path = find_model(os.fspath(model) if model is not None else None).resolve()
        return _loaded(path)
    if isinstance(model, (list, tuple, dict)):
        raise RequestError(
            "request_option", f"The model is of type {type(model).__name__}; name the tools: Needle(tools=...).",
            got=type(model).__name__, needed="a model, a path or None",
        )  # fmt: skip
    return model


def _loaded(path: Path) -> Model:
    status = path.stat()
    key = str(path), status.st_mtime_ns, status.st_size
    found = _SHARED.get(key)
    if found is None or found.closed:
        found = _SHARED[key] = Model.load(path)
    return found


def dated_facts(system: str, now: datetime.datetime | None = None) -> str:
    """The facts with `date: YYYY-MM-DD Ddd HH:MM` before them; unchanged if they have a date or are a JSON object."""
    if _DATED.search(system) or system.lstrip().startswith("{"):
        return system
    moment = now or datetime.datetime.now()
    # Not %a, which speaks the locale's language.
    weekday = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")[moment.weekday()]
    fact = f"date: {moment:%Y-%m-%d} {weekday} {moment:%H:%M}"
    return f"{fact}; {system}" if system.strip() else fact


def warn_long_conversation() -> None:
    """LongConversationWarning, as if raised by the first caller outside this package."""
    depth, frame = 1, sys._getframe()
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == _PACKAGE:
        frame, depth = frame.f_back, depth + 1
    warnings.warn(
        f"more than {LONG_CONVERSATION} requests without a reset: each is answered with all earlier ones in view. Call"
        " reset() between requests that do not belong together, or make the Needle stateless",
        LongConversationWarning,
        stacklevel=depth,
    )
