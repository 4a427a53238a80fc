"""Every error that areole raises, with its stable code.

`ERROR_CODES` is the closed list that the C core, Python and JavaScript share: a code means the same wherever it
appears, and `docs/errors.md` and the tests are checked against it. A message says what was got, what was needed and
what to do; `details` carries the same facts as values. This module imports nothing of areole and nothing costly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

ERROR_CODES: dict[str, str] = {
    "archive_tag": "The file does not start with the tag of a Needle 3 or Needle 2 archive.",
    "archive_truncated": "The file ends before something that its header or directory promises.",
    "archive_header": "A field of the header is outside what the format or areole allows.",
    "archive_codebook": "The shared codebooks are missing, of the wrong size, not finite or not ascending.",
    "archive_directory": "The tensor directory disagrees with the header: record count, offsets, order or overlap.",
    "archive_tensor": "A tensor's type, shape, group, width, length or value is not what its position needs.",
    "archive_norms": "A quantised matrix holds a norm that is infinite, negative or not a number.",
    "archive_permutation": "A stored permutation does not name each index exactly once.",
    "archive_tokenizer": "The tokenizer at the end of the archive is damaged or incomplete.",
    "tokenizer_id": "A token id is outside the vocabulary.",
    "tokenizer_marker": "The vocabulary has no marker of that name.",
    "tokenizer_text": "The text to encode is not a string, or holds a lone surrogate where that was to be refused.",
    "tools_json": "The tool declarations are not valid JSON.",
    "tools_shape": "The tool declarations are JSON, but not a list of tools that can be declared.",
    "tools_signature": "A function or class cannot be made a tool: a parameter's type, kind or default has no schema.",
    "tools_duplicate": "Two tools have the same name.",
    "tools_schema": "A tool's parameters use a JSON Schema keyword or value that areole cannot enforce.",
    "request_text": "The request's text is missing or not a string.",
    "request_option": "An option of the request has the wrong type or is out of range.",
    "request_closed": "The model, session or agent was already closed.",
    "request_busy": "Another request is still running on the same session.",
    "request_unknown": "The worker or bridge was asked for something that it does not offer.",
    "context_full": "The tokens do not fit in what is left of the context.",
    "core_bad_argument": "The core was called with a null pointer, a zero count or an unknown flag.",
    "core_bad_geometry": "The archive is sound, but has a dimension that the core's kernels cannot run.",
    "core_bad_tensor": "A tensor does not fit the geometry or the bytes that the core was given.",
    "core_bad_token": "The core was given a token id outside the vocabulary.",
    "core_context_full": "The core was given more tokens than its session or the pinned prefix can hold.",
    "core_too_small": "The core was given a buffer smaller than it asked for.",
    "core_no_head": "The archive has no probe head of the kind that was asked for.",
    "core_bad_snapshot": "A snapshot belongs to another model, geometry or session size.",
    "core_memory": "The memory that the core needs is not available.",
    "core_missing": "The compiled core, or something it needs to run, was not found.",
    "core_abi": "The compiled core does not match this version of the Python package.",
    "cancelled": "The request was cancelled between two tokens.",
    "call_unparsable": "The model wrote something that is not a valid list of tool calls.",
    "truncated": "The token budget ran out before one tool call was complete.",
    "call_arguments": "The arguments of a tool call do not fit the function that they are meant for.",
    "extract_nothing": "The model found nothing in the text that fits the schema.",
    "extract_several": "The model found several records where one was asked for.",
    "extract_withheld": "What the model found is not supported by the text, and was withheld.",
    "chat_messages": "The messages are not a conversation that can be continued.",
    "chat_option": "A parameter of the chat request is not offered, or has a value that is not.",
    "wasm_blocked": "The page's Content-Security-Policy forbids WebAssembly.",
    "python_failed": "Pyodide did not start.",
    "load_stalled": "Loading has made no progress for too long.",
    "worker_failed": "The worker stopped or answered something that the page does not understand.",
    "site_manifest": "The site's list of files, site.json, is missing or damaged.",
    "fetch_failed": "A file of the site could not be fetched.",
    "fetch_html": "The server sent an HTML page where a file was asked for.",
    "fetch_size": "A fetched file has another size than the site's list says.",
    "fetch_hash": "A fetched file has another SHA-256 than the site's list says.",
    "browser_unsupported": "The browser lacks something that areole cannot do without.",
    "threads_unavailable": "More threads than one were asked for and cannot be had, so there is one: a notice.",
    "internal": "Something happened that areole has no better name for; this is a bug.",
}
"""Stable code -> what it means, in one sentence."""


def _plain(value: object) -> object:
    """`value` made of JSON's own types only; what JSON cannot say becomes text."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    return repr(value)


class AreoleError(Exception):
    """The base of every error that areole raises on purpose.

    code: a key of `ERROR_CODES`; it does not change between versions.
    message: full sentences for a person.
    details: the facts in the message as values; give them as a mapping, as keywords, or both.
    """

    def __init__(self, code: str, message: str, details: Mapping[str, object] | None = None, **more: object) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details: dict[str, object] = {**(details or {}), **more}

    def __reduce__(self) -> tuple[type[AreoleError], tuple[str, str, dict[str, object]]]:
        return type(self), (self.code, self.message, self.details)

    def to_json(self) -> dict[str, object]:
        """{"code", "message", "details"} as a dict that `json.dumps` takes as it is."""
        return {"code": self.code, "message": self.message, "details": _plain(self.details)}


class ArchiveError(AreoleError):
    """A `.cact` file was refused.

    details: what (which value is wrong), got, needed, and where known offset (bytes from the start of the file),
    record (index in the directory) and tensor (its name); each is None when it does not apply.
    """

    @classmethod
    def at(
        cls,
        code: str,
        name: str,
        what: str,
        *,
        got: object,
        needed: object,
        offset: int | None = None,
        record: int | None = None,
        tensor: str | None = None,
        do: str = "The file is damaged or was written for another reader; fetch it again.",
    ) -> ArchiveError:
        """The error for one wrong value of the archive called `name`, with the message that its facts make."""
        places = (("tensor", tensor), ("record", record), ("byte", offset))
        where = ", ".join(f"{kind} {place}" for kind, place in places if place is not None)
        message = f"{name}: {what}{f' ({where})' if where else ''}: got {got}, needed {needed}. {do}"
        return cls(
            code, message, name=name, what=what, got=got, needed=needed, offset=offset, record=record, tensor=tensor
        )

    @property
    def what(self) -> object:
        return self.details.get("what")

    @property
    def offset(self) -> object:
        return self.details.get("offset")

    @property
    def record(self) -> object:
        return self.details.get("record")

    @property
    def tensor(self) -> object:
        return self.details.get("tensor")

    @property
    def got(self) -> object:
        return self.details.get("got")

    @property
    def needed(self) -> object:
        return self.details.get("needed")


class TokenizerError(AreoleError):
    """A text cannot be encoded, or an id or marker is not in the vocabulary."""


class ToolsError(AreoleError):
    """Tool declarations were refused."""


class SchemaError(ToolsError):
    """A tool's parameters cannot be enforced; details: path, keyword, what (is wrong), do (what helps)."""


class RequestError(AreoleError):
    """A request was refused before the model ran."""


class ContextFullError(AreoleError):
    """More tokens than the context has room for; details: needed, available. Nothing was changed."""


class CoreError(AreoleError):
    """The compiled core refused a call or could not be loaded; codes are `core_` and the status's name."""


class Cancelled(AreoleError):
    """The request was cancelled between two tokens; the session is as it was before the request."""


class ArgumentsError(AreoleError):
    """A value does not fit a tool's parameter; details: function, parameter (a path), got, needed."""


class ExtractError(AreoleError):
    """Nothing, too much or something unsupported was extracted; details: envelope, and what there is of the record."""


class CallParseError(AreoleError):
    """The model's text between the call markers is not a list of calls; details: text, and where it fails."""
