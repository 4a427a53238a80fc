"""Tools that only sort: a message comes in, and the answer is one of a few classes.

Owns the test for such a tool. A message is not a request: it has no word for the tool, and nothing in it asks for
anything, so the gates that look for that would withhold every class (rule `sorting`).
"""

from __future__ import annotations

from collections.abc import Sequence

from .evidence import name_words, words_of
from .postprocess import properties, property_schema, required
from .prompt import ToolSpec

_SAY_SO = frozenset(
    word.stem
    for word in words_of(
        "classify classifies classification class categorize categorise category triage triages sort sorts route routes"
        " label labels tag tags detect detects sentiment topic intent emotion tone queue department spam"
    )
)


def sorts(tools: Sequence[ToolSpec]) -> bool:
    """Whether the only tool declared says that it sorts, and each of its required arguments is one of some texts."""
    if len(tools) != 1:
        return False
    (tool,) = tools
    needed = required(tool) & properties(tool).keys()
    if not needed or not all(_is_choice(property_schema(tool, name).get("enum")) for name in needed):
        return False
    told = [*name_words(tool.exposed), *(word.stem for word in words_of(tool.description))]
    told += [word for name in needed for word in name_words(name)]
    return bool(_SAY_SO & set(told))


def _is_choice(options: object) -> bool:
    return isinstance(options, list) and len(options) > 1 and all(isinstance(option, str) for option in options)
