"""Turns that have been, as the model would have read and written them: for conversations that others keep.

Owns the text of a past answer. Names become those that the model sees; nothing of a past turn can become a marker.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .errors import RequestError
from .names import NO_NAMES, snake_case
from .prompt import Segment, ToolSpec, tool_result, tool_turn, user_turn


@dataclass(frozen=True)
class Past:
    """One turn: what was said, and what the model answered.

    said: the request, or, with `is_result`, the JSON text of the results of the turn's calls before it.
    calls: [{"name", "arguments"}] with the caller's names; None where there was no call to make out of words (`text`).
    reasoning: what the model thought; "" if nobody knows any more.
    """

    said: str
    is_result: bool = False
    calls: Sequence[Mapping[str, object]] | None = None
    text: str = ""
    reasoning: str = ""


def past_segments(
    past: Past, tools: Iterable[ToolSpec], first: bool, *, forgeable: bool = False
) -> tuple[list[Segment], list[Segment]]:
    """(what was said, what was answered) for Conversation.replay. RequestError for a result that is no JSON."""
    if past.is_result:
        result = tool_result(past.said)
        if result is None:
            raise RequestError(
                "request_text", "A past tool result is not JSON.", got=past.said, needed="JSON text",
            )  # fmt: skip
        said = tool_turn(result, forgeable=forgeable)
    else:
        said = user_turn(past.said, first, forgeable=forgeable)
    thought = f"\n{past.reasoning.strip()}\n" if past.reasoning.strip() else ""
    answered: list[Segment] = [("<think>", True), (thought, forgeable), ("</think>", True), ("\n", True)]
    if past.text:
        answered.append((past.text, forgeable))
    if past.calls is not None:
        answered += [("<tool_call>", True), (call_text(past.calls, tools), forgeable), ("</tool_call>", True)]
    return said, [segment for segment in answered if segment[0]]


def call_text(calls: Sequence[Mapping[str, object]], tools: Iterable[ToolSpec]) -> str:
    """Calls as the model writes them. A tool that is not declared is named as it would be if it were."""
    known = {tool.name: tool for tool in tools}
    out = []
    for call in calls:
        name = str(call["name"])
        tool = known.get(name)
        names = tool.names if tool is not None else NO_NAMES
        exposed = tool.exposed if tool is not None else snake_case(name)
        out.append({"name": exposed, "arguments": names.expose(call.get("arguments", {}))})
    return json.dumps(out, ensure_ascii=False, separators=(",", ":"))
