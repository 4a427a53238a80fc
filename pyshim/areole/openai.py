"""OpenAI's chat completions over a Needle: the same requests and responses, run here.

Owns the mapping and nothing of the model. Each request is its own conversation: what came before is fed, not answered
again, and the tools' prefix is taken from the model's cache where it is known. What has no equal here is under the key
`areole` of the message. Parameters that areole does not honour are refused by name, or listed as without effect in
OPTIONS; none is dropped silently.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Literal, NoReturn, overload

from .agent import Answer, Needle, Stream
from .engine import Step
from .errors import RequestError
from .jsontext import JsonFault, minify, parse, write_string
from .model import Model
from .past import Past
from .waiting import pause

Json = dict[str, object]

DEFAULT_TOKENS = 512
NOT_RUN = "tool_choice is none, the model was not asked"


@dataclass(frozen=True)
class Option:
    """A request's parameter: "used", "ignored", "fixed" (only at the values of `only`, or null) or "refused"."""

    rule: Literal["used", "ignored", "fixed", "refused"]
    why: str
    only: tuple[object, ...] = ()


OPTIONS: dict[str, Option] = {
    "messages": Option("used", "system, developer, user, assistant and tool messages; text only"),
    "tools": Option("used", "functions; also Python functions, dataclasses and pydantic models"),
    "tool_choice": Option("used", '"auto", "none", "required" or a named function'),
    "stream": Option("used", "an iterator of chunks instead of one response"),
    "stream_options": Option("used", "include_usage; include_obfuscation has no effect"),
    "max_tokens": Option("used", "the answer's budget, thinking included; 512 if absent"),
    "max_completion_tokens": Option("used", "the same as max_tokens"),
    "model": Option("used", "only repeated in the response; the first argument is the model"),
    "n": Option("fixed", "there is one answer, the likeliest", (1,)),
    "temperature": Option("fixed", "decoding is greedy, which is temperature 0", (0,)),
    "presence_penalty": Option("fixed", "decoding is greedy", (0,)),
    "frequency_penalty": Option("fixed", "decoding is greedy", (0,)),
    "logprobs": Option("fixed", "not offered", (False,)),
    "top_logprobs": Option("fixed", "not offered", (0,)),
    "logit_bias": Option("fixed", "not offered", ({},)),
    "stop": Option("fixed", "a call ends where its grammar ends", ([],)),
    "response_format": Option("fixed", "use Needle.extract for records", ({"type": "text"},)),
    "parallel_tool_calls": Option("fixed", "the model may always make several calls", (True,)),
    "modalities": Option("fixed", "text only", (["text"],)),
    "top_p": Option("ignored", "the likeliest token is in every nucleus"),
    "seed": Option("ignored", "decoding is deterministic"),
    "reasoning_effort": Option("ignored", "the model thinks as long as it needs, within the budget"),
    "verbosity": Option("ignored", "the model has one"),
    "user": Option("ignored", "nothing is kept about users"),
    "safety_identifier": Option("ignored", "nothing is kept about users"),
    "prompt_cache_key": Option("ignored", "a prefix is known by its tokens"),
    "prompt_cache_retention": Option("ignored", "a prefix is kept while there is room"),
    "metadata": Option("ignored", "nothing is stored"),
    "store": Option("ignored", "nothing is stored"),
    "service_tier": Option("ignored", "there is one"),
    "audio": Option("refused", "text only"),
    "prediction": Option("refused", "not offered"),
    "functions": Option("refused", "use tools"),
    "function_call": Option("refused", "use tool_choice"),
    "web_search_options": Option("refused", "the model runs here and sees no web"),
}
"""Every parameter that is known; any other is refused too."""


@overload
def chat_completions(
    source: Model | Needle,
    /,
    messages: Sequence[Mapping[str, object]],
    tools: Iterable[object] | None = None,
    tool_choice: object = "auto",
    stream: Literal[False] = False,
    max_tokens: int | None = None,
    **options: object,
) -> Json: ...


@overload
def chat_completions(
    source: Model | Needle,
    /,
    messages: Sequence[Mapping[str, object]],
    tools: Iterable[object] | None = None,
    tool_choice: object = "auto",
    *,
    stream: Literal[True],
    max_tokens: int | None = None,
    **options: object,
) -> ChatStream: ...


def chat_completions(
    source: Model | Needle,
    /,
    messages: Sequence[Mapping[str, object]],
    tools: Iterable[object] | None = None,
    tool_choice: object = "auto",
    stream: bool = False,
    max_tokens: int | None = None,
    **options: object,
) -> Json | ChatStream:
    """A response as OpenAI's API has it, or with `stream` its chunks. For the other parameters see OPTIONS.

    source: a Model, or a Needle whose tools and facts hold where the request has none; its conversation is not touched.
    Raises RequestError("chat_option", "chat_messages"), ToolsError and ContextFullError before the model runs.
    """
    made = ChatStream(_Completion(_request(source, messages, tools, tool_choice, stream, max_tokens, options)))
    return made if stream else made.response()


async def achat_completions(
    source: Model | Needle,
    /,
    messages: Sequence[Mapping[str, object]],
    tools: Iterable[object] | None = None,
    tool_choice: object = "auto",
    stream: bool = False,
    max_tokens: int | None = None,
    **options: object,
) -> Json | ChatStream:
    """As chat_completions, with pauses between tokens; of a stream, the chunks come by `async for`."""
    made = ChatStream(_Completion(_request(source, messages, tools, tool_choice, stream, max_tokens, options)))
    return made if stream else await made.aresponse()


def sse(chunks: Iterable[Json]) -> Iterator[str]:
    """Chunks as server-sent events, with the closing [DONE]."""
    for chunk in chunks:
        yield f"data: {json.dumps(chunk, ensure_ascii=False, separators=(',', ':'))}\n\n"
    yield "data: [DONE]\n\n"


@dataclass
class _Request:
    """A request that has been understood. `needle` is its own; None where the model is not asked."""

    needle: Needle | None
    past: list[Past]
    text: str
    is_result: bool
    tool_choice: str
    max_tokens: int
    model: str
    include_usage: bool
    seed: str
    created: int


@dataclass
class _Outcome:
    """What has come so far. `content` grows as the model speaks; `answer` is the end."""

    content: str = ""
    held: str = ""
    answer: Answer | None = None
    prompt_tokens: int = 0
    reasoning_tokens: int = 0
    calls: list[Json] = field(default_factory=list)

    def say(self, delta: str) -> str:
        """What of the new text may go out: blanks at the start never do, those at the end only once more text comes."""
        text = self.held + delta
        if not self.content:
            text = text.lstrip()
        said = text.rstrip()
        self.held = text[len(said) :]
        self.content += said
        return said


class ChatStream:
    """The chunks of one response, by `for` or `async for`. Close it, or use it as a context manager, to stop early."""

    def __init__(self, completion: _Completion) -> None:
        self._completion = completion
        self._work = completion.run()

    def __iter__(self) -> ChatStream:
        return self

    def __next__(self) -> Json:
        for chunk in self._work:
            if chunk is not None:
                return chunk
        raise StopIteration

    def __aiter__(self) -> ChatStream:
        return self

    async def __anext__(self) -> Json:
        try:
            await pause()
            for chunk in self._work:
                if chunk is not None:
                    return chunk
                await pause()
        except BaseException:
            self.close()
            raise
        raise StopAsyncIteration

    def close(self) -> None:
        """Stops the model and gives its memory back. Closing a finished stream is allowed."""
        self._work.close()
        self._completion.close()

    def __enter__(self) -> ChatStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def response(self) -> Json:
        """Runs it to its end: the whole response instead of chunks."""
        for _ in self:
            pass
        return self._completion.response()

    async def aresponse(self) -> Json:
        """As response, with pauses between tokens."""
        async for _ in self:
            pass
        return self._completion.response()


class _Completion:
    """One request being answered. It does not know its stream, so that a stream that is dropped ends at once."""

    def __init__(self, request: _Request) -> None:
        self._request = request
        self._outcome = _Outcome()

    def close(self) -> None:
        if self._request.needle is not None:
            self._request.needle.close()

    def run(self) -> _Chunks:
        """A chunk where there is one, None where the model has made a token that shows nowhere yet."""
        request, outcome = self._request, self._outcome
        stream: Stream | None = None
        try:
            stream = self._ask()
            yield self._chunk({"role": "assistant", "content": None})
            for item in stream or ():
                yield self._take(item)
        finally:
            if stream is not None:
                stream.close()
            self.close()
        if outcome.answer is not None:
            outcome.calls = [
                self._call(index, call["name"], call["arguments"])
                for index, call in enumerate(outcome.answer.function_calls)
            ]
        for index, call in enumerate(outcome.calls):
            yield self._chunk({"tool_calls": [{"index": index, **call}]})
        yield self._chunk({"areole": self._extras()}, self._finish_reason())
        if request.include_usage:
            yield {**self._head("chat.completion.chunk"), "choices": [], "usage": self._usage()}

    def _ask(self) -> Stream | None:
        """The model's stream, after what came before has been fed. ContextFullError."""
        request, needle = self._request, self._request.needle
        if needle is None:
            return None
        self._outcome.prompt_tokens = needle.prefix_tokens + needle.replay(request.past)
        return needle._stream(request.text, request.max_tokens, goes_on=True, tool_choice=request.tool_choice)

    def _take(self, item: Step | Answer) -> Json | None:
        """The chunk for a step, if it shows anywhere. Words count after a tool's result only, as for the model."""
        outcome = self._outcome
        if isinstance(item, Answer):
            outcome.answer = item
            outcome.prompt_tokens += item.prompt_tokens
            return None
        outcome.reasoning_tokens += item.phase == "reasoning"
        said = outcome.say(item.delta) if item.phase == "text" and self._request.is_result else ""
        return self._chunk({"content": said}) if said else None

    def _call(self, index: int, name: object, arguments: object) -> Json:
        text = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
        digest = _digest(self._request.seed, index, name, text)
        return {"id": f"call_{digest[:24]}", "type": "function", "function": {"name": name, "arguments": text}}

    def _finish_reason(self) -> str:
        """length only where something is missing for it: a call or words that the budget cut off."""
        answer = self._outcome.answer
        if answer is None:
            return "stop"
        used_up = answer.tokens >= self._request.max_tokens
        cut = answer.failure.code == "truncated" if answer.failure is not None else used_up and not _is_whole(answer)
        return "length" if cut else "tool_calls" if self._outcome.calls else "stop"

    def _extras(self) -> Json:
        """The envelope but for what the message says already."""
        answer = self._outcome.answer
        if answer is None:
            return {"type": "respond", "success": True, "reasoning": NOT_RUN, "suppressed_calls": []}
        told = {key: value for key, value in answer.envelope.items() if key not in ("function_calls", "areole")}
        return {**told, **answer.envelope.get("areole", {})}  # type: ignore[dict-item]

    def _usage(self) -> Json:
        outcome, needle = self._outcome, self._request.needle
        made = outcome.answer.tokens if outcome.answer is not None else 0
        cached = needle.prefix_tokens if needle is not None and needle.prefix_cached else 0
        return {
            "prompt_tokens": outcome.prompt_tokens,
            "completion_tokens": made,
            "total_tokens": outcome.prompt_tokens + made,
            "prompt_tokens_details": {"cached_tokens": cached},
            "completion_tokens_details": {"reasoning_tokens": outcome.reasoning_tokens},
        }

    def _head(self, kind: str) -> Json:
        request = self._request
        return {
            "id": f"chatcmpl-{_digest(request.seed, request.created)[:29]}",
            "object": kind,
            "created": request.created,
            "model": request.model,
        }

    def _chunk(self, delta: Json, finish_reason: str | None = None) -> Json:
        choice: Json = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        chunk: Json = {**self._head("chat.completion.chunk"), "choices": [choice]}
        if self._request.include_usage:
            chunk["usage"] = None
        return chunk

    def response(self) -> Json:
        outcome = self._outcome
        message: Json = {"role": "assistant", "content": outcome.content or (None if outcome.calls else "")}
        message["refusal"] = None
        if outcome.calls:
            message["tool_calls"] = outcome.calls
        message["areole"] = self._extras()
        choice: Json = {"index": 0, "message": message, "logprobs": None, "finish_reason": self._finish_reason()}
        return {**self._head("chat.completion"), "choices": [choice], "usage": self._usage()}


_Chunks = Generator[Json | None, None, None]


def _is_whole(answer: Answer) -> bool:
    """Whether the call that an answer ends with has been closed."""
    return bool(answer.call_text) and answer.call_text.endswith("]") and _json(answer.call_text) is not None


def _digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode("utf-8", "surrogatepass")).hexdigest()


def _wrong(code: str, what: str, where: str, got: object, needed: str) -> RequestError:
    return RequestError(code, f"{where} {what}; needed {needed}.", where=where, got=got, needed=needed)


def _request(
    source: Model | Needle,
    messages: Sequence[Mapping[str, object]],
    tools: Iterable[object] | None,
    tool_choice: object,
    stream: bool,
    max_tokens: int | None,
    options: Mapping[str, object],
) -> _Request:
    _check_options(options)
    budget = _budget(max_tokens, options.get("max_completion_tokens"))
    include_usage = _include_usage(options.get("stream_options"), stream)
    talk = _Talk(messages)
    listed = None if tools is None else tools if isinstance(tools, str) else list(tools)
    owner = source if isinstance(source, Needle) else None
    declared: Iterable[object] | str = listed if listed is not None else owner.declared if owner is not None else ()
    system = "\n".join(talk.system) if talk.system else owner.system if owner is not None else ""
    needle = Needle(source, declared, system) if not isinstance(source, Needle) else source.sibling(declared, system)
    try:
        choice = _choice(tool_choice, needle)
        asked = choice != "none" or talk.is_result
        if not asked:
            needle.close()
    except BaseException:
        needle.close()
        raise
    return _Request(
        needle if asked else None,
        talk.past,
        talk.text,
        talk.is_result,
        choice,
        budget,
        str(options.get("model") or "needle"),
        include_usage,
        _digest(messages, declared if isinstance(declared, str) else [spec.name for spec in needle.tools], system),
        int(time.time()),
    )


def _check_options(options: Mapping[str, object]) -> None:
    for name, value in options.items():
        option = OPTIONS.get(name)
        if option is None:
            raise _wrong("chat_option", "is not a parameter that areole knows", name, name, ", ".join(OPTIONS))
        if option.rule == "refused" and value is not None:
            raise _wrong("chat_option", "is not offered", name, value, option.why)
        if option.rule == "fixed" and value is not None and not any(_equal(value, one) for one in option.only):
            allowed = " or ".join(json.dumps(one) for one in option.only)
            raise _wrong("chat_option", f"is {value!r}", name, value, f"{allowed}: {option.why}")


def _equal(one: object, other: object) -> bool:
    return isinstance(one, bool) == isinstance(other, bool) and one == other


def _budget(max_tokens: object, max_completion_tokens: object) -> int:
    given = {value for value in (max_tokens, max_completion_tokens) if value is not None}
    if not given:
        return DEFAULT_TOKENS
    budget = given.pop()
    if given or isinstance(budget, bool) or not isinstance(budget, int) or budget < 1:
        got = {"max_tokens": max_tokens, "max_completion_tokens": max_completion_tokens}
        raise _wrong("chat_option", f"is {max_tokens!r}", "max_tokens", got, "one whole number, 1 or more")
    return budget


def _include_usage(options: object, stream: bool) -> bool:
    if options is None:
        return False
    known = {"include_usage", "include_obfuscation"}
    if not stream or not isinstance(options, Mapping) or not set(options) <= known:
        needed = 'stream=True and {"include_usage": ...}'
        raise _wrong("chat_option", f"is {options!r}", "stream_options", options, needed)
    return bool(options.get("include_usage"))


def _choice(given: object, needle: Needle) -> str:
    """ "auto", "none", "required", or the name of a tool."""
    names = [spec.name for spec in needle.tools]
    if given is None or given in ("auto", "none", "required"):
        choice = "auto" if given is None else str(given)
        if choice == "required" and not names:
            raise _wrong("chat_option", "is required", "tool_choice", given, "a tool to choose")
        return choice
    function = given.get("function") if isinstance(given, Mapping) and given.get("type") == "function" else None
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(name, str):
        shape = '"auto", "none", "required" or {"type": "function", "function": {"name": ...}}'
        raise _wrong("chat_option", f"is {given!r}", "tool_choice", given, shape)
    if name not in names:
        raise _wrong("chat_option", f"names {name!r}", "tool_choice", given, f"one of {', '.join(names) or 'no tool'}")
    return name


class _Talk:
    """Messages as facts, past turns, and the last one, which is to be answered.

    Every system and developer message is one of the facts, in their order. User messages in a row are one turn. Tool
    messages are one turn, in the order of the calls. A turn that nobody answered counts as answered with nothing.
    """

    def __init__(self, messages: Sequence[Mapping[str, object]]) -> None:
        if isinstance(messages, (str, Mapping)) or not isinstance(messages, Sequence) or not messages:
            raise _wrong("chat_messages", "are no messages", "messages", messages, "a list of at least one message")
        self.system: list[str] = []
        self.past: list[Past] = []
        self._said: list[str] = []
        self._answered = False  # whether the message before was the assistant's
        self._ids: list[str] = []
        self._results: dict[str, str] = {}
        self.is_result = False
        for place, message in enumerate(messages):
            where = f"messages[{place}]"
            if not isinstance(message, Mapping):
                raise _wrong("chat_messages", f"is {message!r}", where, message, "an object")
            self._take(message, where)
        if self._answered:
            raise _wrong("chat_messages", "is the assistant's", f"messages[{place}]", "assistant", "a request last")
        self._need_results("the end of messages")
        if not self._said and not self._results:
            raise _wrong("chat_messages", "say nothing", "messages", [], "a user message")
        self.text = self._turn()

    def _take(self, message: Mapping[str, object], where: str) -> None:
        role = message.get("role")
        if role in ("system", "developer"):
            self.system.append(_text(message, where))
        elif role == "user":
            self._need_results(where)
            if self.is_result:
                self._close(Past(self._turn(), True))
            self._said.append(_text(message, where))
            self._answered = False
        elif role == "assistant":
            self._need_results(where)
            self._assistant(message, where)
        elif role == "tool":
            self._tool(message, where)
        else:
            raise _wrong("chat_messages", f"has the role {role!r}", where, role, "system, user, assistant or tool")

    def _turn(self) -> str:
        """The text of the turn that is open."""
        if self.is_result:
            return f"[{','.join(self._results[one] for one in self._ids)}]"
        return "\n".join(self._said)

    def _close(self, past: Past) -> None:
        self.past.append(past)
        self._said, self._results, self._ids, self.is_result = [], {}, [], False

    def _need_results(self, where: str) -> None:
        missing = [one for one in self._ids if one not in self._results]
        if missing:
            raise _wrong("chat_messages", "comes before a call's result", where, missing, f"results of {missing}")

    def _assistant(self, message: Mapping[str, object], where: str) -> None:
        text = _text(message, where, optional=True)
        calls, ids = _calls(message.get("tool_calls"), where)
        extras = message.get("areole")
        reasoning = extras.get("reasoning") if isinstance(extras, Mapping) else None
        if self._answered:
            before = self.past.pop()
            past = Past(
                before.said,
                before.is_result,
                [*(before.calls or ()), *calls] or None,
                "\n".join(part for part in (before.text, text) if part),
                before.reasoning,
            )
        else:
            thought = reasoning if isinstance(reasoning, str) else ""
            past = Past(self._turn(), self.is_result, calls or None, text, thought)
        if past.calls is None and not past.text and not past.is_result:
            past = Past(
                past.said, past.is_result, (), "", past.reasoning
            )  # it made no call, which is a call of nothing
        self._close(past)
        self._ids = ids
        self._answered = True

    def _tool(self, message: Mapping[str, object], where: str) -> None:
        called = message.get("tool_call_id")
        if not isinstance(called, str) or called not in self._ids or called in self._results:
            open_ids = [one for one in self._ids if one not in self._results]
            raise _wrong("chat_messages", f"is the result of {called!r}", where, called, f"one of {open_ids}")
        text = _text(message, where)
        try:
            parse(text)
            self._results[called] = minify(text)
        except JsonFault:
            self._results[called] = write_string(text)
        self.is_result, self._answered = True, False


def _text(message: Mapping[str, object], where: str, optional: bool = False) -> str:
    """A message's text; parts of it in a row are one text."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    if content is None and optional:
        return ""
    if not isinstance(content, list):
        raise _wrong("chat_messages", f"is {content!r}", f"{where}.content", content, "text")
    out = []
    for place, part in enumerate(content):
        kind = part.get("type") if isinstance(part, Mapping) else None
        text = part.get(kind) if isinstance(part, Mapping) and kind in ("text", "refusal") else None
        if not isinstance(text, str):
            raise _wrong("chat_messages", f"is of type {kind!r}", f"{where}.content[{place}]", kind, "text")
        out.append(text)
    return "".join(out)


def _calls(given: object, where: str) -> tuple[list[Json], list[str]]:
    """An assistant's calls, and their ids."""
    if given is None:
        return [], []
    if not isinstance(given, list):
        raise _wrong("chat_messages", "is no list", f"{where}.tool_calls", given, "a list of calls")
    calls: list[Json] = []
    ids: list[str] = []
    for place, call in enumerate(given):
        here = f"{where}.tool_calls[{place}]"
        function = call.get("function") if isinstance(call, Mapping) else None
        name = function.get("name") if isinstance(function, Mapping) else None
        called = call.get("id") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(name, str) or not isinstance(called, str):
            raise _wrong("chat_messages", "is no call", here, call, "an id and a function with a name")
        if called in ids:
            raise _wrong("chat_messages", "has the id of another", here, called, "an id of its own")
        text = function.get("arguments")
        arguments = _json(text) if isinstance(text, str) else None
        if not isinstance(arguments, dict):
            where = f"{here}.function.arguments"
            raise _wrong("chat_messages", f"is {text!r}", where, text, "the text of a JSON object")
        calls.append({"name": name, "arguments": arguments})
        ids.append(called)
    return calls, ids


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def _json(text: str) -> object:
    try:
        value: object = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return None
    return value
