"""Guessing ahead: what is remembered, and that the loop gets what decoding one by one gives, whatever is guessed."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from fakes import TOKENIZER

from areole.errors import CoreError
from areole.lookahead import LEAST, SPAN, Lookahead, Memory, seeded
from areole.prompt import render_tools

MOST = 8


class Chain:
    """A session whose next token depends on the whole context, and which counts what it was asked to run."""

    max_tokens = 400

    def __init__(self) -> None:
        self.context: list[int] = []
        self.rows: list[list[int]] = []
        self.drafted: list[int] = []
        self.row = 0
        self.log: list[str] = []

    @property
    def position(self) -> int:
        return len(self.context)

    def prefill(self, ids: Sequence[int], *, pin: bool = False, logits: bool = True) -> None:
        self.context += ids
        self.rows, self.row, self.drafted = [list(self.context)], 0, []

    def decode(self, token: int) -> None:
        self.log.append("decode")
        self.prefill([token])

    def draft(self, ids: Sequence[int]) -> None:
        assert 1 <= len(ids) <= MOST and len(self.context) + len(ids) <= self.max_tokens
        self.log.append(f"draft {len(ids)}")
        self.drafted = list(ids)
        self.rows = [[*self.context, *ids[: end + 1]] for end in range(len(ids))]
        self.row = 0

    def look(self, row: int) -> None:
        self.row = row

    def accept(self, count: int) -> None:
        if count > len(self.drafted):
            raise CoreError("core_bad_argument", "more than was drafted")
        self.context += self.drafted[:count]
        self.drafted = []

    def top(self, k: int = 1) -> list[tuple[int, float]]:
        """Cycles of seven with an exception now and then."""
        seen = self.rows[self.row]
        best = (seen[-1] + 1) % 7 if sum(seen) % 11 else 3
        return [(best, 1.0)][:k]

    def probability(self, token: int) -> float:
        return 1.0 if token == self.top()[0][0] else 0.0

    def logits(self) -> list[float]:
        return [self.probability(token) for token in range(8)]

    def confidence(self) -> float:
        return float(sum(self.context))

    def snapshot(self) -> list[int]:
        return list(self.context)

    def restore(self, snapshot: list[int]) -> None:
        self.context = list(snapshot)

    def reset(self) -> None:
        self.context = []

    def close(self) -> None:
        self.log.append("close")


def generate(session: Chain | Lookahead, count: int) -> list[int]:
    out = []
    for _ in range(count):
        out.append(session.top()[0][0])
        session.decode(out[-1])
    return out


@pytest.mark.parametrize("seed", range(20))
def test_the_loop_gets_what_decoding_gives(seed: int) -> None:
    chance = random.Random(seed)
    plain, inner = Chain(), Chain()
    ahead = Lookahead(inner, Memory(), MOST)
    for _ in range(4):
        prompt = [chance.randrange(7) for _ in range(chance.randrange(1, 9))]
        plain.prefill(prompt)
        ahead.prefill(prompt)
        ahead.forced = lambda token: [chance.randrange(8) for _ in range(chance.randrange(9))]
        count = chance.randrange(1, 40)
        before = plain.snapshot()
        assert generate(ahead, count) == generate(plain, count)
        assert (ahead.position, ahead.top(), ahead.logits()) == (plain.position, plain.top(), plain.logits())
        assert ahead.confidence() == plain.confidence() and ahead.snapshot() == plain.snapshot()
        if chance.random() < 0.3:
            plain.restore(before)
            ahead.restore(before)
    assert ahead.taken <= ahead.guessed


def test_what_came_before_is_run_in_batches() -> None:
    inner = Chain()
    ahead = Lookahead(inner, Memory(), MOST)
    ahead.prefill([0])
    generate(ahead, 200)
    assert ahead.batches == sum(entry != "decode" for entry in inner.log) > 0
    assert ahead.taken > ahead.guessed / 2
    assert len(inner.log) < 200 - ahead.taken + 1


def test_a_draft_never_exceeds_the_context() -> None:
    inner = Chain()
    ahead = Lookahead(inner, Memory(), MOST)
    ahead.forced = lambda token: [1] * 20
    ahead.prefill([0] * (Chain.max_tokens - 3))
    ahead.decode(1)
    ahead.decode(1)
    ahead.decode(1)
    assert ahead.position == Chain.max_tokens
    ahead.close()
    assert inner.log[-1] == "close"


def test_a_memory_guesses_what_always_followed() -> None:
    memory = Memory()
    line = list(range(10, 20))
    memory.begin(line)
    memory.begin(line[:SPAN])
    assert memory.guess([], MOST) == [], "seen once"
    memory.begin(line)
    memory.begin(line[:SPAN])
    assert memory.guess([], 3) == line[SPAN : SPAN + 3]
    assert memory.guess(line[SPAN : SPAN + 2], MOST) == line[SPAN + 2 :], "past what is bound to come"
    memory.begin([*line[: SPAN + 1], 99])
    memory.begin(line[:SPAN])
    assert memory.guess([], MOST) == line[SPAN : SPAN + 1], "an exception undoes it"


def test_the_beginning_of_calls_is_known_from_the_tools() -> None:
    tools = [{"name": "set_lights", "parameters": {"properties": {"room": {"type": "string"}}}}]
    ids = TOKENIZER.encode('\n</think>\n<tool_call>[{"name":"set_lights","arguments":{"room":')
    memory = seeded(render_tools(tools).declared, TOKENIZER)
    memory.add(ids[:SPAN])
    guessed = memory.guess([], len(ids))
    assert len(guessed) >= LEAST and guessed == ids[SPAN:]
