"""Which tools a request is about, where there are more than a prompt should hold.

A model with an embedding head can tell: each tool's description is embedded once, the request too, and the tools whose
vectors are nearest by cosine are the ones that the prompt and the grammar get. A model without that head retrieves
nothing, and every tool is rendered.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Sequence

from .errors import ContextFullError
from .jsontext import Array, parse, write
from .model import Model, unit
from .prompt import ToolSpec

HEAD = "embedding"
MOST = 5
"""Tools that are rendered where tools are retrieved."""
_KEPT = 4096

_VECTORS: weakref.WeakKeyDictionary[Model, dict[str, list[float]]] = weakref.WeakKeyDictionary()


def can_retrieve(model: Model) -> bool:
    """Whether the model has the head for it."""
    return any(name == HEAD for _, name in model.archive.heads)


def text_of(tool: ToolSpec) -> str:
    """What stands for a tool: its description, or its name where it has none."""
    return tool.description.strip() or tool.exposed


def text_ids(model: Model, text: str, advice: str) -> list[int]:
    """BOS and the tokens of a text. ContextFullError, which ends with `advice`, for one that is too long."""
    ids = [model.tokenizer.bos, *model.tokenizer.encode(text, markers=False)]
    limit = model.geometry.max_seq
    if len(ids) > limit:
        raise ContextFullError(
            "context_full", f"The text takes {len(ids)} tokens; the context holds {limit}. {advice}",
            needed=len(ids), available=limit,
        )  # fmt: skip
    return ids


def vector(model: Model, text: str) -> list[float]:
    """The embedding head's output over BOS and a text, at unit length. ContextFullError for a text that is too long."""
    ids = text_ids(model, text, "Shorten it.")
    with model.session(max_tokens=len(ids)) as session:
        session.prefill(ids, logits=False)
        return unit(session.head(HEAD))


def ranked(model: Model, tools: Sequence[ToolSpec], text: str) -> list[int]:
    """Places of the tools, the nearest to the text first, the earlier of two that are as near. Tools are embedded once
    for a model."""
    known = _VECTORS.setdefault(model, {})
    wanted = vector(model, text)
    scores = []
    for place, tool in enumerate(tools):
        about = text_of(tool)
        found = known.get(about)
        if found is None:
            if len(known) >= _KEPT:
                known.clear()
            found = known[about] = vector(model, about)
        scores.append((-sum(x * y for x, y in zip(wanted, found, strict=True)), place))
    return [place for _, place in sorted(scores)]


def chosen(model: Model, tools: Sequence[ToolSpec], text: str, always: str | None = None) -> tuple[int, ...]:
    """Places of the MOST nearest tools in the order in which they were declared, so that the same five are the same
    prompt. always: the name of one that is among them in any case."""
    order = ranked(model, tools, text)
    order.sort(key=lambda place: tools[place].name != always)
    return tuple(sorted(order[:MOST]))


def subset(declared: list[object] | str, places: Sequence[int]) -> list[object] | str:
    """The tools at these places, as they were declared; text stays text, digit for digit."""
    if isinstance(declared, str):
        node = parse(declared)
        items = node.items if isinstance(node, Array) else ()
        return write(Array(tuple(items[place] for place in places)))
    return [json.loads(json.dumps(declared[place])) for place in places]
