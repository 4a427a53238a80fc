"""What becomes of declared tools, for a person who designs them: what the grammar enforces, what is refused or no rule,
what the official engine would drop, and what the model is shown.

Owns the walk over a schema and the wording of a rule; which keywords there are is schema.py's, whether they can be
enforced together the compiler's.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from .agent import prefix_ids
from .errors import ContextFullError, ToolsError
from .grammar import compile_tools
from .prompt import RenderedTools, ToolSpec, render_tools
from .schema import FREE_FORMATS, KEYWORDS

if TYPE_CHECKING:
    from .tokenizer import Tokenizer

_MAPS = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
_ONE = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames", "additionalItems")
_MANY = ("anyOf", "oneOf", "allOf", "prefixItems", "items")
_STRUCTURE = {*_MAPS, "anyOf", "oneOf", "allOf", "prefixItems"}
"""Keywords whose values are schemas: what they hold is told at its own place."""
LONGEST = 200
"""Characters of a value that are shown."""


def report(text: str, tokenizer: Tokenizer, limit: int | None = None) -> dict[str, object]:
    """{"tools", "problem", "prompt", "prompt_tokens", "compile_seconds"} for tools given as JSON text. "problem" is why
    none of them can be declared; `limit`: the tokens that a context has for all of them.

    Each tool has "name", "exposed" (what the model sees), "rules" [{"path", "keyword", "value", "support", "remark"}],
    "refused" (why the contract areole does not take it) and "dropped" (what the official engine goes on without).
    """
    rendered = render_tools(text)
    problem = rendered.problem or _too_long(rendered, tokenizer, limit)
    began = time.perf_counter()
    refused = _findings(rendered.declared, tokenizer, strict=True)
    seconds = time.perf_counter() - began
    dropped = _findings(rendered.declared, tokenizer, strict=False)
    return {
        "tools": [
            {
                "name": tool.name,
                "exposed": tool.exposed,
                "rules": list(_rules(tool.schema, "")),
                "refused": _of(place, refused),
                "dropped": _of(place, dropped),
            }
            for place, tool in enumerate(rendered.declared)
        ],
        "problem": problem.to_json() if problem is not None else None,
        "prompt": rendered.text,
        "prompt_tokens": len(tokenizer.encode(rendered.text, markers=False)),
        "compile_seconds": seconds,
    }


def _too_long(rendered: RenderedTools, tokenizer: Tokenizer, limit: int | None) -> ContextFullError | None:
    try:
        if limit is not None:
            prefix_ids(tokenizer, "", rendered, limit)
    except ContextFullError as error:
        return error
    return None


def _findings(tools: tuple[ToolSpec, ...], tokenizer: Tokenizer, *, strict: bool) -> list[dict[str, object]]:
    try:
        problems = compile_tools(tools, tokenizer, "areole" if strict else "needle").problems
    except ToolsError as error:
        listed = error.details.get("problems")
        return [dict(one) for one in listed] if isinstance(listed, list) else [error.to_json()]
    return [problem.to_json() for problem in problems]


def _of(place: int, findings: list[dict[str, object]]) -> list[dict[str, object]]:
    """The findings of the tool at a place."""
    return [one for one in findings if isinstance(one["details"], Mapping) and one["details"].get("tool") == place]


def _rules(schema: object, path: str) -> Iterator[dict[str, object]]:
    """Every keyword of a schema and of those within it, with what becomes of it."""
    if not isinstance(schema, Mapping):
        return
    for keyword, value in schema.items():
        name = str(keyword)
        unknown = ("no rule", "") if name.startswith("x-") else ("refused", "No keyword of JSON Schema.")
        support, remark = KEYWORDS.get(name, unknown)
        if name == "format" and value in FREE_FORMATS:
            support, remark = "no rule", "It says how a value is stored, not what it may be."
        shown = "" if name in _STRUCTURE or (name in _ONE and isinstance(value, Mapping)) else str(value)[:LONGEST]
        yield {"path": path, "keyword": name, "value": shown, "support": support, "remark": remark}
        if name in _MAPS and isinstance(value, Mapping):
            for key, inner in value.items():
                yield from _rules(inner, f"{path}.{key}" if path else str(key))
        elif name in _MANY and isinstance(value, list):
            for place, inner in enumerate(value):
                yield from _rules(inner, f"{path}[{place}]")
        elif name in _ONE:
            yield from _rules(value, f"{path}[]" if name == "items" else f"{path}.*")
