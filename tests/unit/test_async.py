"""The twins under await: the same answers, a turn of the event loop between tokens, cancelling that leaves no trace."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
from fakes import TOKENIZER, FakeModel, ids
from test_run import INVOICE, Invoice, needle, prose, said

from areole.agent import PIECE, Answer, Needle, embed
from areole.engine import Step
from areole.errors import Cancelled, ContextFullError, ExtractError, RequestError
from areole.waiting import Pieces

pytestmark = pytest.mark.usefixtures("raw_contract")

T = TypeVar("T")
CALL = said(("lock", {"door": "front"}))
TOOLS = [{"name": "lock"}]


def wait(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def times(envelope: dict[str, object]) -> dict[str, object]:
    """The envelope without what a clock says."""
    return {key: value for key, value in envelope.items() if not key.endswith("_tps")}


def test_the_twins_answer_the_same() -> None:
    agent, _ = needle(CALL, tools=TOOLS)
    expected = agent.complete("x")
    other, _ = needle(CALL, tools=TOOLS)
    assert times(wait(other.acomplete("x"))) == times(expected)
    other.reset()
    answer = wait(other.aanswer("x"))
    assert isinstance(answer, Answer) and times(answer.envelope) == times(expected)


def test_the_event_loop_has_its_turn_between_tokens() -> None:
    agent, _ = needle(CALL, tools=TOOLS)
    seen: list[str] = []

    async def other() -> None:
        while True:
            seen.append("other")
            await asyncio.sleep(0)

    async def main() -> None:
        task = asyncio.create_task(other())
        async for item in agent.astream("x", probabilities=True):
            assert isinstance(item, Answer) or item.probability is not None
            seen.append("token" if isinstance(item, Step) else "answer")
        task.cancel()

    wait(main())
    assert seen.count("token") == len(ids(CALL)) and seen.count("answer") == 1
    assert all(seen[at - 1] == "other" for at, what in enumerate(seen) if what == "token"), seen[:9]


@pytest.mark.parametrize("after", [0, 1, 5])
def test_cancelling_the_task_cancels_the_request(after: int) -> None:
    agent, model = needle(CALL, tools=TOOLS)
    before = list(model.sessions[0].context)

    async def main() -> None:
        task = asyncio.create_task(agent.acomplete("x"))
        for _ in range(after):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert model.sessions[0].context == before
        assert (await agent.acomplete("x"))["function_calls"]

    wait(main())


def test_a_timeout_is_a_cancelling() -> None:
    agent, model = needle(CALL, tools=TOOLS)
    before = list(model.sessions[0].context)

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await agent.acomplete("x")

    wait(main())
    assert model.sessions[0].context == before and agent.complete("x")["function_calls"]


def test_leaving_a_stream_early_forgets_the_request() -> None:
    agent, model = needle(CALL, tools=TOOLS)
    before = list(model.sessions[0].context)

    async def main() -> None:
        async with agent.astream("x") as stream:
            async for _ in stream:
                with pytest.raises(RequestError) as busy:
                    await agent.acomplete("y")
                assert busy.value.code == "request_busy"
                break
        assert model.sessions[0].context == before
        stream = agent.astream("x")
        await stream.__anext__()
        await stream.aclose()
        await stream.aclose()
        assert [item async for item in stream] == []
        assert model.sessions[0].context == before
        stream = agent.astream("x")
        await stream.__anext__()
        stream.cancel()
        with pytest.raises(Cancelled):
            await stream.__anext__()
        dropped = agent.astream("x")
        await dropped.__anext__()
        del dropped
        assert model.sessions[0].context == before
        assert (await agent.acomplete("x"))["function_calls"]

    wait(main())


def test_requests_are_refused_as_without_await() -> None:
    agent, _ = needle(CALL, tools=TOOLS, max_tokens=100)
    with pytest.raises(ContextFullError):
        wait(agent.acomplete("x"))
    with pytest.raises(RequestError):
        wait(agent.acomplete(None))  # type: ignore[arg-type]
    agent.close()
    for work in (agent.acomplete("x"), agent.aembed("x"), agent.arun("x")):
        with pytest.raises(RequestError) as error:
            wait(work)  # type: ignore[arg-type]
        assert error.value.code == "request_closed"


def test_an_embedding_is_read_in_pieces_and_the_same() -> None:
    model = FakeModel(CALL)
    agent = Needle(model, TOOLS, contract="raw")  # type: ignore[arg-type]
    text = "word " * (PIECE + 5)
    vector = wait(agent.aembed(text))
    pieces = model.sessions[-1]
    assert vector == embed(model, text)  # type: ignore[arg-type]
    assert pieces.context == model.sessions[-1].context == [TOKENIZER.bos, *TOKENIZER.encode(text, markers=False)]
    assert pieces.log[0] == f"prefill {PIECE}" and len(pieces.log) > 1 and len(model.sessions[-1].log) == 1
    assert pieces.closed


def test_cancelling_an_embedding_closes_its_session() -> None:
    model = FakeModel(CALL)
    agent = Needle(model, TOOLS, contract="raw")  # type: ignore[arg-type]

    async def main() -> None:
        task = asyncio.create_task(agent.aembed("word " * 500))
        for _ in range(3):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    wait(main())
    assert len(model.sessions) == 2 and model.sessions[1].closed and model.sessions[1].position < 400


def test_work_without_a_value_is_an_error() -> None:
    with pytest.raises(RuntimeError):
        Pieces(iter([None])).finish()
    with pytest.raises(RuntimeError):
        wait(Pieces(iter([None])).afinish())


def test_arun_awaits_functions() -> None:
    log: list[str] = []

    async def lock(door: str) -> str:
        await asyncio.sleep(0)
        log.append(door)
        return "locked"

    def bolt(door: str) -> str:
        log.append(f"bolt {door}")
        raise OSError("jammed")

    first = said(("lock", {"door": "front"}), ("bolt", {"door": "back"}))
    agent, model = needle(first, prose("Locked."), tools=[lock, bolt])
    result = wait(agent.arun("lock up"))
    assert log == ["front", "bolt back"] and result.results == ["locked", {"error": "jammed"}]
    assert result.text == "Locked." and '["locked",{"error":"jammed"}]' in TOKENIZER.decode(model.sessions[0].context)
    agent.reset()
    assert wait(agent.arun("lock up", max_turns=0)).stopped == "limit"


def test_cancelling_a_run_in_a_function_leaves_the_conversation_usable() -> None:
    async def lock(door: str) -> None:
        await asyncio.sleep(60)

    agent, _ = needle(CALL, prose("ok"), tools=[lock])

    async def main() -> None:
        task = asyncio.create_task(agent.arun("x"))
        for _ in range(len(ids(CALL)) + 10):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        # The answer stands, and its call waits for a result.
        assert (await agent.aanswer('["late"]')).text == "ok"

    wait(main())


def test_aextract() -> None:
    agent, model = needle(said(("invoice", INVOICE)), tools=[])
    found = wait(agent.aextract("x", Invoice))
    assert isinstance(found, Invoice) and found.number == "A-1"
    assert wait(agent.aextract("x", Invoice, many=True)) == [found]
    assert all(session.closed for session in model.sessions)
    nothing, _ = needle("<think></think>\n<tool_call>[]</tool_call>", tools=[])
    with pytest.raises(ExtractError):
        wait(nothing.aextract("x", Invoice))
