"""The loop, with a scripted session for a model: order of the parts, budgets, cancelling, what stays between turns.

Scripts are what the model wants at each place of its turn; budgets and token counts are those of the official engine.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from fakes import END, TOKENIZER, ScriptedSession, confidence_of, ids

from areole.engine import CALL_RESERVE, Conversation, Step, TokenSession, Turn
from areole.errors import Cancelled, ContextFullError, CoreError, RequestError
from areole.prompt import tool_turn, user_turn

PREFIX = [TOKENIZER.bos, *ids("<|im_start|>user\n<tools>[]</tools>")]
CALL = '[{"name":"set_lights","arguments":{"room":"kitchen"}}]'
ANSWER = f"<think>\nroom 'kitchen' from query\n</think>\n<tool_call>{CALL}</tool_call>"
PROSE = "<think>\nconfirm\n</think>\nKitchen lights are on."


def start(*script: str | Sequence[int], max_tokens: int = 8192) -> tuple[Conversation, ScriptedSession]:
    session = ScriptedSession(script, prefix_capacity=len(PREFIX), max_tokens=max_tokens)
    return Conversation(session, TOKENIZER, PREFIX), session


def ask(conversation: Conversation, text: str = "kitchen lights", **options: object) -> tuple[Turn, list[Step]]:
    turn = conversation.turn(user_turn(text, conversation.turns == 0), **options)  # type: ignore[arg-type]
    return turn, list(turn.steps())


def fed(text: str) -> list[int]:
    """Ids of the first user turn."""
    return TOKENIZER.encode_segments(user_turn(text, True))


def test_a_whole_turn() -> None:
    conversation, session = start(ANSWER)
    turn, steps = ask(conversation)
    assert turn.tokens == ids(ANSWER) == [step.token for step in steps]
    assert (turn.reasoning, turn.prose, turn.call) == ("\nroom 'kitchen' from query\n", "\n", CALL)
    assert turn.reached_call and turn.closed and turn.done and not turn.exhausted and not turn.stuck
    assert session.context == PREFIX + fed("kitchen lights") + ids(ANSWER)
    assert turn.prompt_tokens == len(fed("kitchen lights"))
    assert turn.confidence == confidence_of(session.context)


def test_the_closing_token_is_not_counted_but_precedes_the_next_turn() -> None:
    conversation, session = start(ANSWER, ANSWER)
    first, _ = ask(conversation)
    assert END not in first.tokens
    ask(conversation, "and the bedroom")
    second = [END, *TOKENIZER.encode_segments(user_turn("and the bedroom", False))]
    assert session.context == PREFIX + fed("kitchen lights") + ids(ANSWER) + second + ids(ANSWER)


def test_steps_say_phase_text_and_what_was_forced() -> None:
    conversation, _ = start(ANSWER)
    _, steps = ask(conversation, probabilities=True)
    for phase, text in (("reasoning", "\nroom 'kitchen' from query\n"), ("text", "\n"), ("call", CALL)):
        mine = [step for step in steps if step.phase == phase]
        assert "".join(step.delta for step in mine) == mine[-1].text == text
    phases = [step.phase for step in steps]
    assert phases == sorted(phases, key=("reasoning", "text", "call").index)
    forced = [TOKENIZER.decode([step.token]) for step in steps if step.forced]
    assert forced == ["<think>"]
    assert {step.probability for step in steps} == {0.75}


def test_without_being_asked_no_probability_is_computed() -> None:
    conversation, _ = start(ANSWER)
    assert {step.probability for step in ask(conversation)[1]} == {None}


def test_think_and_the_call_are_forced_on_a_model_that_wants_neither() -> None:
    want = [*ids("No"), *ids("because"), TOKENIZER.marker("</think>"), *ids("\n"), END, *ids("[]"), END]
    conversation, _ = start(want)
    turn, steps = ask(conversation)
    assert TOKENIZER.decode(turn.tokens) == "<think>because</think>\n<tool_call>[]"
    assert [TOKENIZER.decode([step.token]) for step in steps if step.forced] == ["<think>", "<tool_call>"]
    assert turn.reached_call and not turn.closed and not turn.exhausted


def test_only_one_token_stands_before_a_forced_call() -> None:
    conversation, _ = start("<think></think>Hello there my friend")
    turn, _ = ask(conversation, max_new_tokens=60)
    assert TOKENIZER.decode(turn.tokens).startswith("<think></think>H")
    assert turn.tokens[3] == TOKENIZER.marker("<tool_call>")


@pytest.mark.parametrize("marker", ["<|im_end|>", "<tool_call>", "<think>", "<|im_start|>"])
def test_a_stray_marker_ends_thinking(marker: str) -> None:
    conversation, _ = start(f"<think>well{marker}")
    turn, steps = ask(conversation, max_new_tokens=60)
    assert TOKENIZER.decode(turn.tokens).startswith("<think>well</think><tool_call>")
    assert steps[len(ids("<think>well"))].forced


@pytest.mark.parametrize("marker", ["<|im_end|>", "</think>", "<tool_call>", "</s>"])
def test_a_stray_marker_ends_a_call(marker: str) -> None:
    token = TOKENIZER.eos if marker == "</s>" else TOKENIZER.marker(marker)
    conversation, _ = start([*ids('<think></think>\n<tool_call>[{"na'), token])
    turn, _ = ask(conversation)
    assert turn.call == '[{"na' and not turn.closed and not turn.exhausted


# The official engine's counts for one request: (budget, tokens generated, reasoning).
KITCHEN = (
    "<think>\nroom 'kitchen' from query; 'on' -> true\n</think>\n"
    '<tool_call>[{"name":"set_lights","arguments":{"room":"kitchen","on":true}}]</tool_call>'
)


@pytest.mark.parametrize(
    ("budget", "thought"),
    [(33, ""), (34, "\n"), (35, "\nroom"), (40, "\nroom 'kitchen' from query"), (512, None), (4, ""), (20, "")],
)
def test_thinking_leaves_room_for_the_call(budget: int, thought: str | None) -> None:
    class Unbiased(ScriptedSession):
        """Says the script's call wherever thinking stopped."""

        def _wish(self) -> int:
            said = self.context[self.context.index(TOKENIZER.marker("<think>")) :] if self.thinking else []
            end = TOKENIZER.marker("</think>")
            if end in said:
                rest = ids(KITCHEN.partition("</think>")[2])
                return rest[len(said) - said.index(end) - 1] if len(said) - said.index(end) - 1 < len(rest) else END
            return super()._wish()

        @property
        def thinking(self) -> bool:
            return TOKENIZER.marker("<think>") in self.context

    session = Unbiased([KITCHEN], prefix_capacity=len(PREFIX))
    conversation = Conversation(session, TOKENIZER, PREFIX)
    turn, _ = ask(conversation, max_new_tokens=budget)
    assert turn.reasoning == ("\nroom 'kitchen' from query; 'on' -> true\n" if thought is None else thought)
    thinking = turn.tokens.index(TOKENIZER.marker("</think>")) - 1
    assert thinking <= max(0, budget - CALL_RESERVE)
    assert len(turn.tokens) <= budget
    assert turn.exhausted == (budget <= 20) and turn.closed == (budget > 20)


@pytest.mark.parametrize(
    ("budget", "text", "reached", "confident"),
    [
        (1, "<think>", False, False),
        (2, "<think></think>", False, False),
        (3, "<think></think>\n", False, False),
        (4, "<think></think>\n<tool_call>", True, False),
        (5, "<think></think>\n<tool_call>[", True, True),
    ],
)
def test_the_smallest_budgets(budget: int, text: str, reached: bool, confident: bool) -> None:
    conversation, session = start("<think></think>\n<tool_call>[1,2,3]</tool_call>")
    turn, _ = ask(conversation, max_new_tokens=budget)
    assert TOKENIZER.decode(turn.tokens) == text
    assert (turn.reached_call, turn.exhausted, turn.closed) == (reached, True, False)
    assert turn.confidence == (confidence_of(session.context) if confident else 0.0)


def test_prose_is_allowed_where_a_result_was_given() -> None:
    conversation, session = start(ANSWER, PROSE)
    ask(conversation)
    turn = conversation.turn(tool_turn('[{"ok":true}]'), free_text=True)
    list(turn.steps())
    assert turn.tokens == ids(PROSE)
    assert (turn.prose, turn.call, turn.reached_call, turn.exhausted) == ("\nKitchen lights are on.", "", False, False)
    assert turn.confidence == confidence_of(session.context) > 0


def test_a_call_is_allowed_there_too() -> None:
    conversation, _ = start(ANSWER, ANSWER)
    ask(conversation)
    turn = conversation.turn(tool_turn("42"), free_text=True)
    steps = list(turn.steps())
    assert turn.tokens == ids(ANSWER) and turn.call == CALL and turn.closed
    assert [TOKENIZER.decode([step.token]) for step in steps if step.forced] == ["<think>"]


def test_endless_prose_ends_with_the_budget() -> None:
    conversation, _ = start("<think></think>" + "so " * 100)
    turn, _ = ask(conversation, max_new_tokens=50, free_text=True)
    assert len(turn.tokens) == 50 and turn.exhausted and not turn.reached_call


def test_text_is_told_in_whole_characters() -> None:
    conversation, _ = start('<think>é 😀</think>\n<tool_call>["😀"]</tool_call>')
    turn, steps = ask(conversation)
    assert (turn.reasoning, turn.call) == ("é 😀", '["😀"]')
    assert not any("\ufffd" in step.delta for step in steps)


def test_a_character_cut_in_two_shows() -> None:
    half = ids("😀")[:2]
    conversation, _ = start(
        [TOKENIZER.marker("<think>"), *half, TOKENIZER.marker("</think>"), *ids("\n<tool_call>"), *half]
    )
    turn, _ = ask(conversation, max_new_tokens=60)
    assert (turn.reasoning, turn.call) == ("\ufffd", "\ufffd")


def test_a_character_cut_in_two_stays_in_its_part() -> None:
    script = [*ids("<think></think>so "), *ids("😀")[:2], *ids("<tool_call>[]</tool_call>")]
    turn, _ = ask(start(script)[0], free_text=True)
    assert (turn.prose, turn.call) == ("so \ufffd", "[]")


@pytest.mark.parametrize("marker", ["<think>", "</tool_call>", "<|im_start|>"])
def test_a_stray_marker_ends_prose(marker: str) -> None:
    turn, _ = ask(start(f"<think></think>\nDone.{marker}more")[0], free_text=True)
    assert turn.prose == "\nDone." and not turn.reached_call and not turn.exhausted


class Only:
    """A constraint that allows one text; records what it is told."""

    def __init__(self, text: str, open_end: bool = False) -> None:
        self.rest = [*ids(text), *([] if open_end else [TOKENIZER.marker("</tool_call>")])]
        self.accepted: list[int] = []

    def choose(self, session: TokenSession) -> tuple[int, bool] | None:
        assert session.top(1)
        return (self.rest[0], session.top(1)[0][0] != self.rest[0]) if self.rest else None

    def budget(self, remaining: int) -> None:
        self.room = remaining

    def thought(self, reasoning: str) -> None:
        self.reasoning = reasoning

    def ahead(self, token: int) -> Sequence[int]:
        return ()

    def accept(self, token: int) -> None:
        assert token == self.rest.pop(0)
        self.accepted.append(token)


def test_a_constraint_decides_the_call_and_nothing_else() -> None:
    conversation, _ = start("<think>\nwell\n</think>\n<tool_call>garbage for ever")
    only = Only("[]")
    turn, steps = ask(conversation, constraint=only)
    assert TOKENIZER.decode(turn.tokens) == "<think>\nwell\n</think>\n<tool_call>[]</tool_call>"
    assert turn.closed and not turn.stuck
    assert only.accepted == turn.tokens[-2:]
    assert only.reasoning == "\nwell\n"
    assert [step.forced for step in steps[-2:]] == [True, True]


def test_a_constraint_without_a_way_on_leaves_the_turn_stuck() -> None:
    conversation, _ = start(ANSWER)
    turn, _ = ask(conversation, constraint=Only("[1", open_end=True))
    assert turn.stuck and turn.call == "[1" and not turn.closed and not turn.exhausted


def test_cancelling_between_tokens_brings_the_session_back() -> None:
    conversation, session = start(ANSWER, ANSWER)
    ask(conversation)
    before = list(session.context)
    turn = conversation.turn(user_turn("more", False))
    seen = 0
    with pytest.raises(Cancelled) as error:
        for seen, _ in enumerate(turn.steps(), 1):  # noqa: B007
            if seen == 5:
                turn.cancel()
    assert error.value.code == "cancelled"
    assert seen == 5 and not turn.done
    assert session.context == before
    assert ask(conversation, "more")[0].tokens == ids(ANSWER)


def test_cancelled_before_it_began_nothing_is_fed() -> None:
    conversation, session = start(ANSWER)
    turn = conversation.turn(user_turn("x", True))
    turn.cancel()
    with pytest.raises(Cancelled):
        list(turn.steps())
    assert session.context == PREFIX and [line for line in session.log if line.startswith("prefill")] == [
        f"prefill {len(PREFIX)} pinned"
    ]


def test_walking_away_counts_as_cancelling() -> None:
    conversation, session = start(ANSWER)
    steps = conversation.turn(user_turn("x", True)).steps()
    next(steps)
    steps.close()  # type: ignore[attr-defined]
    assert session.context == PREFIX
    assert ask(conversation)[0].closed


def test_a_failure_brings_the_session_back() -> None:
    conversation, session = start(ANSWER, ANSWER)
    ask(conversation)
    before = list(session.context)
    session.fail_in = 4
    with pytest.raises(CoreError, match="planted"):
        ask(conversation, "more")
    assert session.context == before
    session.fail_in = None
    assert ask(conversation, "more")[0].tokens == ids(ANSWER)


def test_a_conversation_that_cannot_be_brought_back_needs_a_reset() -> None:
    conversation, session = start(ANSWER, ANSWER)
    session.fail_in, session.fail_restore = 4, True
    with pytest.raises(CoreError):
        ask(conversation)
    session.fail_in, session.fail_restore = None, False
    with pytest.raises(RequestError, match="reset it"):
        ask(conversation)
    conversation.reset()
    assert session.context == PREFIX
    assert ask(conversation)[0].tokens == ids(ANSWER)


def test_a_turn_that_does_not_fit_changes_nothing() -> None:
    conversation, session = start(ANSWER, max_tokens=len(PREFIX) + len(fed("kitchen lights")) + 100)
    before = list(session.log)
    with pytest.raises(ContextFullError) as error:
        conversation.turn(user_turn("kitchen lights", True), max_new_tokens=101)
    assert error.value.details["needed"] == error.value.details["available"] + 1  # type: ignore[operator]
    assert session.log == before and session.context == PREFIX
    assert ask(conversation, max_new_tokens=100)[0].closed


def test_a_text_that_could_never_fit_is_not_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    conversation, _ = start(ANSWER)
    monkeypatch.setattr(TOKENIZER, "encode_segments", None)
    with pytest.raises(ContextFullError, match="at least") as error:
        conversation.turn(user_turn("a" * 1_000_000, True))
    assert error.value.details["needed"] > 8192  # type: ignore[operator]


def test_one_turn_at_a_time() -> None:
    conversation, _ = start(ANSWER, ANSWER)
    made_before = conversation.turn(user_turn("x", True))
    steps = conversation.turn(user_turn("kitchen lights", True)).steps()
    next(steps)
    for blocked in (
        lambda: conversation.turn(user_turn("y", True)),
        conversation.reset,
        lambda: next(made_before.steps()),
    ):
        with pytest.raises(RequestError) as error:
            blocked()
        assert error.value.code in ("request_busy", "request_option")
    list(steps)
    with pytest.raises(RequestError, match="moved on"):
        next(made_before.steps())


def test_a_turn_runs_once() -> None:
    conversation, _ = start(ANSWER)
    turn, _ = ask(conversation)
    with pytest.raises(RequestError, match="moved on"):
        list(turn.steps())


def test_the_prefix_is_fed_once() -> None:
    conversation, session = start(ANSWER, ANSWER)
    ask(conversation)
    ask(conversation, "more")
    conversation.reset()
    assert session.context == PREFIX and conversation.turns == 0
    assert ask(conversation)[0].tokens == ids(ANSWER)
    assert session.context == PREFIX + fed("kitchen lights") + ids(ANSWER)
    assert sum("pinned" in line for line in session.log) == 1
    assert session.pinned == len(PREFIX)
    # A first turn goes back to the prefix's own snapshot: one more is taken for the second turn only.
    assert session.log.count("snapshot") == 2


def test_resetting_a_fresh_conversation_costs_nothing() -> None:
    conversation, session = start(ANSWER)
    log = list(session.log)
    conversation.reset()
    assert session.log == log


def test_fluency_is_the_mean_probability_of_thinking_and_words() -> None:
    conversation, session = start(PROSE, PROSE, ANSWER)
    chances = {TOKENIZER.encode(" lights")[0]: 0.25}
    session.probability = lambda token: chances.get(token, 1.0)  # type: ignore[method-assign]
    turn, _ = ask(conversation, doubts=True, free_text=True)
    counted = len(turn.tokens) - 3  # without both markers and the line break after them
    assert turn.fluency == pytest.approx(0.25 ** (1 / counted))
    assert ask(conversation, free_text=True)[0].fluency == 1.0, "not asked for"
    assert ask(conversation, doubts=True)[0].fluency == 1.0, "a turn that must end in a call"
