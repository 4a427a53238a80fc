"""Whatever the schema, and however senseless the model: every answer parses, validates, ends, and ends in time.

A hundred schemas by default; AREOLE_SCHEMAS=5000 for more, AREOLE_SCHEMAS_FROM to begin at another seed.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, time
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from random_schemas import Maker, RandomSession, strings_in

from areole.errors import SchemaError
from areole.grammar import MAX_CALLS, Grammar, compile_tools
from areole.prompt import ToolSpec
from areole.tokenizer import Tokenizer

COUNT = int(os.environ.get("AREOLE_SCHEMAS", "100"))
FIRST = int(os.environ.get("AREOLE_SCHEMAS_FROM", "0"))
CHUNKS = 10


def _multiple(validator: object, unit: Any, value: Any, schema: object) -> Iterator[jsonschema.ValidationError]:
    """Exactly, where jsonschema's own would divide floats."""
    number = isinstance(value, (int, Decimal)) and not isinstance(value, bool)
    if number and (Fraction(value) / Fraction(unit)).denominator != 1:
        yield jsonschema.ValidationError(f"{value} is no multiple of {unit}")


def _whole(checker: object, value: Any) -> bool:
    """1.0 is an integer, as a Decimal too."""
    return isinstance(value, (int, Decimal)) and not isinstance(value, bool) and value == int(value)


Validator = jsonschema.validators.extend(
    jsonschema.Draft202012Validator,
    {"multipleOf": _multiple},
    type_checker=jsonschema.Draft202012Validator.TYPE_CHECKER.redefine("integer", _whole),
)
CHECKER = jsonschema.FormatChecker(formats=("date", "email", "ipv4", "uuid"))
CLOCK = re.compile(r"\d\d:\d\d(:\d\d(\.\d+)?)?([Zz]|[+-]\d\d:\d\d)?")
for _name, _read in (("time", time.fromisoformat), ("date-time", datetime.fromisoformat)):
    # As docs/schema.md has them: RFC 3339, but seconds and zone may be left out.
    CHECKER.checks(_name, raises=ValueError)(
        lambda text, read=_read: (
            not isinstance(text, str) or bool(read(text) and CLOCK.fullmatch(text.upper().split("T")[-1]))
        )
    )


@pytest.fixture(scope="module")
def tokenizer(data_dir: Path) -> Tokenizer:
    return Tokenizer.from_blob((data_dir / "needle3_tokenizer.bin").read_bytes())


def exact(text: str) -> Any:
    """JSON with its fractions as they are written; a key that comes twice is an error."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [key for key, _ in pairs]
        assert len(set(keys)) == len(keys), f"a key comes twice: {keys}"
        return dict(pairs)

    return json.loads(text, parse_float=Decimal, object_pairs_hook=unique)


def write(grammar: Grammar, session: RandomSession, budget: int) -> tuple[str, int]:
    """An answer, and the tokens it took, the end marker among them."""
    constraint = grammar.start()
    constraint.budget(budget)
    for count in range(1, budget + 1):
        choice = constraint.choose(session)  # type: ignore[arg-type]
        assert choice is not None, f"stuck after {constraint.text!r}"
        constraint.accept(choice[0])
        if constraint.finished:
            return constraint.text.decode("utf-8"), count
        session.step()
    raise AssertionError(f"not closed within {budget} tokens: {constraint.text!r}")


def check(seed: int, tokenizer: Tokenizer) -> str:
    """What became of one random schema: "refused", or the answers are valid."""
    maker = Maker(seed)
    parameters = json.loads(json.dumps(maker.tool("do_it")["parameters"]))
    tool = ToolSpec("do_it", "do_it", schema=parameters)
    try:
        grammar = compile_tools([tool, ToolSpec("free", "free")], tokenizer, tool_choice="do_it")
    except SchemaError as error:
        assert error.details["path"] and error.details["keyword"] and error.details["do"]
        return str(error.details["keyword"])
    needed = len(grammar.pieces.plan(grammar.begin().shortest)) + 1
    validator = Validator(exact(json.dumps(parameters)), format_checker=CHECKER)
    for again in range(2):
        budget = needed + maker.random.choice([0, 1, 5, 20, 60])
        session = RandomSession(seed * 2 + again, tokenizer.vocab_size, tokenizer.marker("</tool_call>"))
        text, count = write(grammar, session, budget)
        assert count <= budget
        assert grammar.accepts(text)
        calls = exact(text)
        assert 1 <= len(calls) <= MAX_CALLS
        for call in calls:
            assert list(call) == ["name", "arguments"] and call["name"] == "do_it"
            for string in strings_in(call):
                string.encode("utf-8")
            problem = jsonschema.exceptions.best_match(validator.iter_errors(call["arguments"]))
            assert problem is None, f"seed {seed}: {text}\n{problem}"
    return "written"


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_answer_is_valid_and_in_time(chunk: int, tokenizer: Tokenizer) -> None:
    seeds = range(FIRST + chunk * COUNT // CHUNKS, FIRST + (chunk + 1) * COUNT // CHUNKS)
    outcomes = Counter(check(seed, tokenizer) for seed in seeds)
    assert outcomes["written"] > len(seeds) / 4, outcomes
