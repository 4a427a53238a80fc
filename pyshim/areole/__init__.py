"""areole: the Needle tool-calling model in a browser tab, and wherever else Python runs.

Importing the package loads nothing but this file; each public name is fetched from its module when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .agent import Answer as Answer
    from .agent import Needle as Needle
    from .agent import Stream as Stream
    from .archive import Archive as Archive
    from .archive import parse as parse
    from .errors import ERROR_CODES as ERROR_CODES
    from .errors import ArchiveError as ArchiveError
    from .errors import AreoleError as AreoleError
    from .errors import ArgumentsError as ArgumentsError
    from .errors import CallParseError as CallParseError
    from .errors import Cancelled as Cancelled
    from .errors import ContextFullError as ContextFullError
    from .errors import CoreError as CoreError
    from .errors import ExtractError as ExtractError
    from .errors import RequestError as RequestError
    from .errors import TokenizerError as TokenizerError
    from .errors import ToolsError as ToolsError
    from .model import Model as Model
    from .openai import chat_completions as chat_completions
    from .prefixes import PrefixCache as PrefixCache
    from .results import Call as Call
    from .results import Result as Result
    from .results import RunResult as RunResult
    from .sharing import LongConversationWarning as LongConversationWarning
    from .tokenizer import Tokenizer as Tokenizer
    from .tools import Field as Field
    from .tools import Tool as Tool
    from .tools import tool as tool

__version__ = "0.1.0"

_PUBLIC = {
    "Needle": "agent",
    "Answer": "agent",
    "Stream": "agent",
    "Model": "model",
    "tool": "tools",
    "Tool": "tools",
    "Field": "tools",
    "Result": "results",
    "Call": "results",
    "RunResult": "results",
    "PrefixCache": "prefixes",
    "LongConversationWarning": "sharing",
    "chat_completions": "openai",
    "Archive": "archive",
    "parse": "archive",
    "Tokenizer": "tokenizer",
    "ERROR_CODES": "errors",
    "AreoleError": "errors",
    "ArchiveError": "errors",
    "TokenizerError": "errors",
    "ToolsError": "errors",
    "ArgumentsError": "errors",
    "ExtractError": "errors",
    "RequestError": "errors",
    "ContextFullError": "errors",
    "CoreError": "errors",
    "Cancelled": "errors",
    "CallParseError": "errors",
}
"""Public name -> the module of this package that defines it."""

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> object:
    module = _PUBLIC.get(name)
    if module is None:
        raise AttributeError(f"module 'areole' has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
