"""The grammar byte by byte and token by token: what each keyword lets through, and how tokens are chosen."""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence
from heapq import nsmallest
from pathlib import Path
from typing import Any

import pytest

from areole.errors import RequestError, SchemaError
from areole.evidence import Evidence
from areole.grammar import MAX_CALLS, CallConstraint, Grammar, compile_tools, place_of
from areole.guide import Guide
from areole.offers import Offers
from areole.pieces import pieces_of
from areole.prompt import render_tools
from areole.tokenizer import Tokenizer

TOKENIZER = Tokenizer.from_blob((Path(__file__).parents[1] / "data" / "needle3_tokenizer.bin").read_bytes())
END = TOKENIZER.marker("</tool_call>")
DULL = array("f", [-float(token % 97) for token in range(TOKENIZER.vocab_size)])


def grammar(parameters: object, **options: Any) -> Grammar:
    tools = [{"name": "do_it", "parameters": parameters}]
    return compile_tools(render_tools(tools).declared, TOKENIZER, **options)


def argument(schema: object, **options: Any) -> Grammar:
    """The grammar of a tool with one argument."""
    return grammar({"type": "object", "properties": {"a": schema}, "required": ["a"]}, **options)


def call(arguments: object) -> str:
    """An answer of one call. Text stands for itself."""
    text = arguments if isinstance(arguments, str) else dump(arguments)
    return f'[{{"name":"do_it","arguments":{text}}}]'


def dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


ITEM = {"type": "object", "properties": {"n": {"type": "integer"}, "s": {"type": "string"}}, "required": ["n"]}

ARGUMENTS: list[tuple[str, object, list[object], list[object]]] = [
    ("string", {"type": "string"}, ["", "x", "日本 😀", 'q"\\\n\u0001'], [1, None, ["x"]]),
    ("integer", {"type": "integer"}, [0, -7, 10**30], ["1", 1.5, True]),
    ("number", {"type": "number"}, [0, -0.5, 1.25, 3], ["1"]),
    ("boolean", {"type": "boolean"}, [True, False], [0, "true", None]),
    ("null", {"type": "null"}, [None], [False, ""]),
    ("several types", {"type": ["string", "null"]}, ["x", None], [1]),
    ("any", {}, [1, "x", None, [1, {"b": [True]}], {"c": {}}], []),
    ("enum", {"enum": ["red", "redder", 1, None, {"x": [1]}]}, ["red", "redder", 1, None, {"x": [1]}], ["re", 2, {}]),
    ("const", {"const": 3}, [3], [33, "3"]),
    ("nullable", {"type": "integer", "nullable": True}, [1, None], ["x"]),
    ("range", {"type": "integer", "minimum": 20, "maximum": 30}, [20, 25, 30], [3, 2, 19, 31, 300, -25]),
    ("open range", {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}, [0.5, 0.001], [0, 1, 0.0, 1.5]),
    ("old open range", {"type": "integer", "minimum": 0, "exclusiveMinimum": True}, [1, 10], [0]),
    ("multipleOf", {"type": "integer", "multipleOf": 10, "maximum": 50}, [0, 10, 50, -20], [5, 37, 60]),
    ("decimal multipleOf", {"type": "number", "multipleOf": 0.1}, [0.3, 0.7, 2, 1.5], [0.35]),
    ("length", {"type": "string", "minLength": 2, "maxLength": 3}, ["ab", "日本語", "😀😀", '"\\'], ["a", "abcd", ""]),
    ("pattern", {"type": "string", "pattern": "^[a-z]+[0-9]?$"}, ["ab", "a1"], ["", "A", "a12"]),
    ("loose pattern", {"type": "string", "pattern": "[0-9]"}, ["a1b", "7"], ["", "ab"]),
    ("pattern and length", {"type": "string", "pattern": "^(ab)*$", "minLength": 3}, ["abab"], ["ab", "aba"]),
    ("format", {"type": "string", "format": "date"}, ["2024-02-29"], ["2023-02-29", "tomorrow"]),
    ("int32", {"type": "integer", "format": "int32"}, [2**31 - 1, -(2**31)], [2**31]),
    ("items", {"type": "array", "items": {"type": "integer"}}, [[], [1], [1, 1, 2]], [["x"], [None], 1]),
    (
        "counts",
        {"type": "array", "items": {"enum": [1]}, "minItems": 2, "maxItems": 3},
        [[1, 1], [1] * 3],
        [[1], [1] * 4],
    ),
    ("enum items", {"type": "array", "items": {"enum": ["a", "b"]}}, [["a", "b", "a"]], [["c"]]),
    (
        "unique items",
        {"type": "array", "items": {"type": "integer"}, "uniqueItems": True},
        [[1, 12, 2], []],
        [[1, 2, 1]],
    ),
    ("unique enum", {"type": "array", "items": {"enum": ["a", "b"]}, "uniqueItems": True}, [["b", "a"]], [["a", "a"]]),
    ("objects in arrays", {"type": "array", "items": ITEM}, [[{"n": 1}, {"s": "x", "n": 2}]], [[{"s": "x"}], [1]]),
    (
        "prefix",
        {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False},
        [[], [1], [1, "x"]],
        [["x"], [1, "x", 2]],
    ),
    ("nested", {"type": "object", "properties": {"b": ITEM}, "required": ["b"]}, [{"b": {"n": 1}}], [{}, {"b": {}}]),
    (
        "any order",
        {"type": "object", "properties": {"x": {}, "y": {}, "z": {}}, "required": ["y"]},
        [{"z": 1, "y": 2, "x": 3}, {"y": 1}],
        [{"x": 1}, {"y": 1, "w": 2}],
    ),
    ("closed", {"type": "object", "properties": {}}, [{}], [{"x": 1}]),
    ("free object", {"type": "object"}, [{}, {"x": {"y": [1]}}], [1]),
    (
        "additional",
        {"type": "object", "properties": {"x": {"type": "string"}}, "additionalProperties": {"type": "integer"}},
        [{"x": "s", "y": 1, "xx": 2}, {"": 1}],
        [{"y": "s"}, {"x": 1}],
    ),
    (
        "counted properties",
        {"type": "object", "additionalProperties": True, "minProperties": 1, "maxProperties": 2},
        [{"x": 1}, {"x": 1, "y": 2}],
        [{}, {"x": 1, "y": 2, "z": 3}],
    ),
    (
        "at most with required",
        {"type": "object", "properties": {"x": {}, "y": {}}, "required": ["y"], "maxProperties": 1},
        [{"y": 1}],
        [{"x": 1}, {"x": 1, "y": 2}],
    ),
    (
        "anyOf",
        {"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 2}, ITEM]},
        [5, "ab", {"n": 1}],
        ["abc", {}],
    ),
    (
        "anyOf alike",
        {
            "anyOf": [
                {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
                {"type": "object", "properties": {"x": {"type": "string"}, "y": {}}, "required": ["x"]},
            ]
        },
        [{"x": 1}, {"x": "s", "y": 1}],
        [{"x": 1, "y": 1}, {"x": None}],
    ),
    ("oneOf", {"oneOf": [{"type": "integer", "maximum": 3}, {"type": "integer", "minimum": 7}]}, [3, 7, -1], [4, 6]),
    ("allOf", {"allOf": [{"type": "integer", "minimum": 3}, {"type": "integer", "maximum": 5}]}, [3, 5], [2, 6]),
]


@pytest.mark.parametrize(("schema", "good", "bad"), [row[1:] for row in ARGUMENTS], ids=[row[0] for row in ARGUMENTS])
def test_arguments(schema: object, good: Sequence[object], bad: Sequence[object]) -> None:
    made = argument(schema)
    assert [value for value in good if not made.accepts(call({"a": value}))] == []
    assert [value for value in bad if made.accepts(call({"a": value}))] == []


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "integer"}, "007"),
        ({"type": "integer"}, "-0"),
        ({"type": "integer"}, "1.0"),
        ({"type": "integer"}, "+1"),
        ({"type": "number"}, ".5"),
        ({"type": "number"}, "1."),
        ({"type": "number"}, "1e"),
        ({"type": "number"}, "NaN"),
        ({"type": "string"}, '"\n"'),
        ({"type": "string"}, '"\\u0041"'),
        ({"type": "string"}, '"\\/"'),
        ({"type": "string"}, '"a'),
        ({}, '{"x":1,"x":2}'),
        ({"type": "array"}, "[1,]"),
        ({"type": "array"}, "[1, 2]"),
        ({"type": "array", "uniqueItems": True}, "[1,1.0]"),
        ({"type": "array", "uniqueItems": True}, "[1.50]"),
        ({"type": "object", "additionalProperties": True, "properties": {"x": {"const": 1}}}, '{"x":2}'),
    ],
)
def test_texts_that_are_refused(schema: object, text: str) -> None:
    assert not argument(schema).accepts(call(f'{{"a":{text}}}'))


def test_no_key_twice_and_none_missing() -> None:
    made = argument({"type": "integer"})
    assert made.accepts(call('{"a":1}'))
    assert (
        not made.accepts(call('{"a":1,"a":2}')) and not made.accepts(call("{}")) and not made.accepts(call('{"b":1}'))
    )


def test_bytes_that_are_not_utf8() -> None:
    start = argument({"type": "string"}).begin().feed(b'[{"name":"do_it","arguments":{"a":"')
    assert start is not None
    for bad in (b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90", b"\xe6a", b"\x00"):
        assert start.feed(bad) is None, bad
    assert start.feed("é日😀".encode()) is not None


def test_recursion_to_the_stated_depth() -> None:
    tree = {
        "type": "object",
        "properties": {"v": {"type": "integer"}, "kids": {"type": "array", "items": {"$ref": "#"}}},
        "required": ["v"],
    }
    made = grammar(tree)

    def deep(levels: int) -> dict[str, object]:
        return {"v": levels, "kids": [deep(levels - 1)]} if levels else {"v": 0}

    assert made.accepts(call(deep(6))) and not made.accepts(call(deep(7)))


def test_whole_answers() -> None:
    made = argument({"type": "integer"})
    one = call({"a": 1})[1:-1]
    assert made.accepts("[]") and made.accepts(f"[{one},{one}]")
    assert made.accepts("[" + ",".join([one] * MAX_CALLS) + "]")
    assert not made.accepts("[" + ",".join([one] * (MAX_CALLS + 1)) + "]")
    for bad in ("", "[", one, f"[{one},]", f"[{one}] ", f" [{one}]", call({"a": 1}).replace("do_it", "do"), "[[]]"):
        assert not made.accepts(bad), bad


def test_tool_choice() -> None:
    tools = render_tools(
        [{"name": "getTime"}, {"name": "setLight", "parameters": {"on": {"type": "boolean"}}}]
    ).declared
    time, light = '[{"name":"get_time","arguments":{}}]', '[{"name":"set_light","arguments":{"on":true}}]'

    def accepted(choice: str) -> list[bool]:
        made = compile_tools(tools, TOKENIZER, tool_choice=choice)
        return [made.accepts(text) for text in ("[]", time, light)]

    assert accepted("auto") == [True, True, True]
    assert accepted("none") == [True, False, False]
    assert accepted("required") == [False, True, True]
    assert accepted("setLight") == accepted("set_light") == [False, False, True]
    with pytest.raises(RequestError, match="getTime, setLight"):
        compile_tools(tools, TOKENIZER, tool_choice="dim")
    with pytest.raises(RequestError, match="no tool at all"):
        compile_tools([], TOKENIZER, tool_choice="required")
    assert compile_tools([], TOKENIZER).accepts("[]")


def test_all_findings_are_in_the_error() -> None:
    with pytest.raises(SchemaError, match=r"do_it\.a: not is not supported") as caught:
        grammar({"type": "object", "properties": {"a": {"not": {}}}})
    assert [problem["details"]["keyword"] for problem in caught.value.details["problems"]] == ["not"]  # type: ignore[attr-defined]
    with pytest.raises(SchemaError, match="fewer than 3 different items"):
        argument({"type": "array", "items": {"type": "boolean"}, "uniqueItems": True, "minItems": 3})
    loose = argument({"type": "string", "not": {}}, contract="needle")
    assert [problem.details["keyword"] for problem in loose.problems] == ["not"]


class Wishing:
    """A model that would write a text, token for token, whatever has been decoded so far."""

    def __init__(self, tokens: Sequence[int]) -> None:
        self.tokens, self.at = tokens, 0

    def logits(self) -> array[float]:
        values = array("f", DULL)
        values[self.tokens[self.at] if self.at < len(self.tokens) else END] = 9.0
        return values

    def top(self, k: int = 1) -> list[tuple[int, float]]:
        return nsmallest(k, enumerate(self.logits()), key=lambda pair: (-pair[1], pair[0]))


def written(made: Grammar, wish: str | Sequence[int], budget: int | None = None) -> CallConstraint:
    """What becomes of a wish. The model's next wish is its next token, whether it got the last one or not."""
    session = Wishing(TOKENIZER.encode(wish) if isinstance(wish, str) else wish)
    constraint = made.start()
    if budget is not None:
        constraint.budget(budget)
    for _ in range(400):
        choice = constraint.choose(session)  # type: ignore[arg-type]
        if choice is None or constraint.finished:
            break
        constraint.accept(choice[0])
        session.at += 1
    return constraint


def test_a_legal_wish_is_granted() -> None:
    text = call({"a": "hello 日本 world"})
    done = written(argument({"type": "string"}), text)
    assert (done.text.decode(), done.finished, done.steered, done.cut) == (text, True, [], False)
    assert done.choose(Wishing([END])) is None  # type: ignore[arg-type]


def test_a_number_out_of_range_is_told() -> None:
    done = written(argument({"type": "integer", "maximum": 100}), call({"a": 150}), 100)
    assert done.finished
    first = done.steered[0]
    assert (first.call, first.path, first.wanted, first.kind) == (0, "a", "150", "number")
    assert first.given == str(json.loads(done.text)[0]["arguments"]["a"]) and int(first.given) <= 100
    low = written(argument({"type": "integer", "minimum": 10}), call({"a": 5}), 100)
    assert low.steered[0].wanted == "5" and int(low.steered[0].given) >= 10
    whole = written(argument({"type": "array", "items": {"type": "integer"}}), call({"a": [3, 42.7]}), 100)
    assert [(steer.path, steer.wanted.rstrip("7")) for steer in whole.steered] == [("a[1]", "42.")]


def test_other_values_are_told_too() -> None:
    done = written(argument({"enum": ["red", "blue"]}), call({"a": "green"}), 100)
    assert done.steered[0].kind == "value" and "green".startswith(done.steered[0].wanted)
    assert done.steered[0].given in ("red", "blue")
    assert done.steered[0].to_json()["path"] == "a"
    date = written(argument({"type": "string", "format": "date"}), call({"a": "tomorrow"}), 100)
    assert date.steered[0].kind == "string" and "tomorrow".startswith(date.steered[0].wanted)


def test_what_is_no_rule_about_a_value_is_not_told() -> None:
    done = written(grammar({"type": "object", "properties": {"a": {"type": "integer"}}}), call('{"a": 5,"b":1}'), 60)
    assert done.steered == [] and done.finished


def test_the_budget_closes_in_time() -> None:
    made = argument({"type": "string"})
    endless = TOKENIZER.encode('[{"name":"do_it","arguments":{"a":"' + "la " * 300)
    for budget in range(2, 40):
        done = written(made, endless, budget)
        taken = json.loads(done.text)
        assert done.finished and done.cut and done._left is not None and done._left >= 0
        assert taken == [] or taken[0]["arguments"]["a"] is not None


def test_markers_and_other_tokens_of_no_text_are_never_legal() -> None:
    made = argument({"type": "string"})
    special = {*TOKENIZER.markers.values(), TOKENIZER.bos, TOKENIZER.eos, TOKENIZER.pad, TOKENIZER.unk}
    inside = made.begin().feed(b'[{"name":"do_it","arguments":{"a":"')
    assert inside is not None
    legal = set(made.pieces.legal(inside))
    assert not legal & special and len(legal) > 5000
    assert made.pieces.after(inside, TOKENIZER.vocab_size) is None
    with pytest.raises(RequestError, match="not legal"):
        made.start().accept(END + 1)


def test_byte_pieces_count_as_their_byte() -> None:
    made = argument({"type": "string"})
    pieces = TOKENIZER.vocabulary.pieces
    done = written(
        made,
        [
            *TOKENIZER.encode('[{"name":"do_it","arguments":{"a":"'),
            *(pieces.index(f"<0x{b:02X}>") for b in "𓀀".encode()),
            *TOKENIZER.encode('"}}]'),
        ],
    )
    assert done.text.decode() == call({"a": "𓀀"})


def test_forced_where_only_one_token_may_come() -> None:
    made = argument({"const": "x"})
    done = made.begin().feed(call({"a": "x"}).encode())
    assert done is not None and done.over and made.pieces.legal(done) == []
    constraint = made.start()
    choice = constraint.choose(Wishing(TOKENIZER.encode("[]")))  # type: ignore[arg-type]
    assert choice is not None and choice[1] is False
    constraint.accept(TOKENIZER.encode("[]")[0])
    assert constraint.choose(Wishing([5])) == (END, True)  # type: ignore[arg-type]


def test_the_end_marker_and_nothing_else_after_the_list() -> None:
    done = written(argument({"type": "string"}), "[]" + call({"a": "x"}))
    assert done.text == b"[]" and done.finished


@pytest.mark.parametrize(
    ("bounds", "wish", "text"),
    [({"maximum": 100}, "99", "99"), ({"minimum": 20, "maximum": 30}, "25", "25"), ({"maximum": 3}, "5", None)],
)
def test_the_official_way(bounds: dict[str, object], wish: str, text: str | None) -> None:
    made = argument({"type": "integer", **bounds}, contract="needle")
    done = written(made, call(f'{{"a":{wish}}}'))
    if text is None:  # `":5` is one token, admitted whole, and nothing can follow it
        assert not done.finished and done.text.endswith(b'"a":5')
    else:
        assert done.text.decode() == call(f'{{"a":{text}}}')


def first_choice(
    made: Grammar, written: str, wish: Sequence[int | str], guide: Guide | None = None
) -> tuple[str, bool]:
    """The text of the token that is chosen after what is written, and whether it was forced; `wish`: what the model
    would take, best first."""
    constraint = made.start(guide)
    for token in TOKENIZER.encode(written, markers=False):
        constraint.accept(token)
    ranked = [token if isinstance(token, int) else piece(token) for token in wish]
    choice = constraint.choose(Ranking(ranked))  # type: ignore[arg-type]
    assert choice is not None
    return made.pieces.texts[choice[0]].decode(), choice[1]


def piece(text: str) -> int:
    """The token that is just this text."""
    found = pieces_of(TOKENIZER).known(text.encode())
    assert found is not None, text
    return found


class Ranking:
    """A model that has these tokens before all others, best first."""

    def __init__(self, tokens: Sequence[int]) -> None:
        self.tokens = tokens

    def logits(self) -> array[float]:
        values = array("f", DULL)
        for place, token in enumerate(self.tokens):
            values[token] = 99.0 - place
        return values

    def top(self, k: int = 1) -> list[tuple[int, float]]:
        return nsmallest(k, enumerate(self.logits()), key=lambda pair: (-pair[1], pair[0]))


TWO = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a", "b"]}
IN_A = '[{"name":"do_it","arguments":{"a":"x'
ITEMS = {"type": "object", "properties": {"stops": {"type": "array", "items": ITEM}}, "required": ["stops"]}
KEY = '[{"name":"do_it","arguments":{"stops'


@pytest.mark.parametrize("wish", ['"}}', '"}}]', '"]'])
def test_a_token_that_ends_a_string_too_far_becomes_the_quote(wish: str) -> None:
    assert first_choice(grammar(TWO), IN_A, [wish, "y"]) == ('"', False)


def test_a_token_is_healed_up_to_the_end_of_the_value_only() -> None:
    assert first_choice(grammar(TWO), IN_A, ['","', "y"]) == ('","', False)
    long = grammar({**TWO, "properties": {**TWO["properties"], "a": {"type": "string", "minLength": 3}}})  # type: ignore[dict-item]
    assert first_choice(long, IN_A, ['"}}', "y"]) == ("y", False)
    last = grammar({**TWO, "required": ["a"]})
    assert first_choice(last, IN_A, ['"}}]', "y"]) == ('"}}]', False)


def test_a_token_that_is_refused_within_a_string_is_not_cut_short() -> None:
    made = argument({"type": "string", "maxLength": 2})
    assert first_choice(made, IN_A, ["ing", "y"]) == ("y", False)


def test_healing_tells_no_value_that_was_bent() -> None:
    made = grammar(TWO)
    done = written(made, [*TOKENIZER.encode(IN_A, markers=False), piece('"}}'), *TOKENIZER.encode(',"b":5}}]')], 200)
    assert done.steered == [] and json.loads(done.text)[0]["arguments"] == {"a": "x", "b": 5}


def test_under_needle_no_token_is_healed_or_made_longer() -> None:
    made = grammar(TWO, contract="needle")
    assert first_choice(made, IN_A, ['"}}', "y"]) == ("y", False)
    assert first_choice(grammar(ITEMS, contract="needle"), KEY, [END, '"', '":['])[0] == '"'


def guide_for(parameters: object, text: str = "x") -> Guide:
    tools = render_tools([{"name": "do_it", "parameters": parameters}]).declared
    return Guide(Offers(tools, Evidence(text)))


def test_on_a_forced_way_the_longest_token_is_taken() -> None:
    for wish in (END, piece("x"), piece("}}]")):
        assert first_choice(grammar(ITEMS), KEY, [wish]) == ('":[', True)
        assert first_choice(grammar(ITEMS), KEY, [wish], guide_for(ITEMS)) == ('":[{"', True)


def test_a_required_list_of_objects_is_begun_only_where_it_must_be_filled() -> None:
    free = {"type": "object", "properties": {"stops": {"type": "array", "minItems": 0, "items": ITEM}}}
    for parameters in (free, {**free, "required": ["stops"]}):
        assert first_choice(grammar(parameters), KEY, [END], guide_for(parameters)) == ('":[', True)
    least = {"type": "object", "properties": {"stops": {"type": "array", "minItems": 1, "items": ITEM}}}
    assert first_choice(grammar(least), KEY, [END]) == ('":[{"', True)


def test_what_the_model_wants_is_taken_where_it_is_legal_however_short() -> None:
    assert first_choice(grammar(ITEMS), KEY, ['"', '":[{"'])[0] == '"'
    assert first_choice(grammar(ITEMS), KEY, ['":', '":[{"'], guide_for(ITEMS))[0] == '":'


def test_a_wish_that_the_guide_refuses_is_forced_too() -> None:
    begun = KEY + '":'
    assert first_choice(grammar(ITEMS), begun, ["[]"])[0] == "[]"
    assert first_choice(grammar(ITEMS), begun, ["[]"], guide_for(ITEMS)) == ('[{"', True)


def test_no_way_is_forced_within_a_text() -> None:
    assert first_choice(argument({"type": "string"}), IN_A, [END, "y"])[0] == "y"


def test_the_likeliest_token_that_the_guide_admits_is_taken() -> None:
    rooms = {"type": "object", "properties": {"a": {"enum": ["hall", "kitchen", "bath"]}}, "required": ["a"]}
    begun = '[{"name":"do_it","arguments":{"a":"'
    assert first_choice(grammar(rooms), begun, ["ha", "k", "b"])[0] == "ha"
    for wish in (["ha", "k", "b"], ["ha", "b"], ["ha"]):
        chosen, _ = first_choice(grammar(rooms), begun, wish, guide_for(rooms, "the kitchen"))
        assert chosen and "kitchen".startswith(chosen), wish
    assert first_choice(grammar(rooms), begun, ["ha", "k"], guide_for(rooms, "the lights"))[0] == "ha"


def test_where_no_token_follows_the_guide_the_models_own_stands() -> None:
    long = {"type": "object", "properties": {"a": {"type": "integer", "enum": [5, 6]}}, "required": ["a"]}
    begun = '[{"name":"do_it","arguments":{"a":'
    assert first_choice(grammar(long), begun, ["6"], Refusing())[0] == "6"


class Refusing(Guide):
    """A guide that nothing pleases."""

    def __init__(self) -> None:
        super().__init__(Offers([], Evidence("")))

    def admits(self, text: bytes) -> bool:
        return False


def test_the_budget_has_not_decided_where_there_is_room() -> None:
    done = written(argument({"type": "string"}), call({"a": "hello"}), 200)
    assert done.finished and not done.cut
    short = written(argument({"type": "string"}), call({"a": "hello"}), 8)
    assert short.finished and short.cut


def test_places() -> None:
    assert place_of(b'[{"name":"f","arguments":{"a":[1,{"b":"x]","c":15') == ((0, "arguments", "a", 1, "c"), b"15")
    assert place_of(b'[{"name":"f","arguments":{}},{"name":"g","arguments":{"":"ab') == ((1, "arguments", ""), b'"ab')


def test_a_catalogue_is_compiled_lazily() -> None:
    tools = [
        {
            "name": f"tool_{n}",
            "parameters": {"type": "object", "properties": {f"p{n}": {"type": "string", "maxLength": 9}}},
        }
        for n in range(128)
    ]
    made = compile_tools(render_tools(tools).declared, TOKENIZER)
    assert len(made.machine._states) == 0
    assert made.accepts('[{"name":"tool_99","arguments":{"p99":"x"}}]')
    assert len(made.machine._states) < 60


def test_what_is_bound_to_come_is_known_before_a_token_is_taken() -> None:
    some = grammar(
        {"type": "object", "properties": {"room": {"type": "string"}}, "required": ["room"]}, tool_choice="do_it"
    )
    constraint = some.start()
    begin = TOKENIZER.encode('[{"')[-1]
    bound = constraint.ahead(begin)
    assert TOKENIZER.decode([begin, *bound]) == '[{"name":"do_it","arguments":{"room'
    for token in (begin, *bound):
        constraint.accept(token)  # each is legal
    for token in TOKENIZER.encode('":"x'):
        constraint.accept(token)
    (last,) = [token for token in range(TOKENIZER.vocab_size) if some.pieces.texts[token] == b'"}}]']
    assert constraint.ahead(last) == [END]
    assert constraint.ahead(END) == []


def test_under_exact_ranges_nothing_is_looked_ahead() -> None:
    some = argument({"type": "integer"}, contract="needle", tool_choice="do_it")
    assert some.start().ahead(TOKENIZER.encode("[")[-1]) == []
