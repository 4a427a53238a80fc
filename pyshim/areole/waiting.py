"""A request under await: the event loop has its turn between any two tokens; cancelling the task cancels the request.

The model itself runs in the loop's thread, a token at a time; only feeding a request's own text is one piece of work.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from types import TracebackType, coroutine
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from .agent import Answer, Stream
    from .engine import Step

T = TypeVar("T")


@coroutine
def pause() -> Generator[None, None, None]:
    """A turn for the event loop, as asyncio.sleep(0) gives one, without importing asyncio for those who never wait."""
    yield


class AsyncStream:
    """As agent.Stream, for `async for`. Left before its end, it leaves the conversation as it was."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def __aiter__(self) -> AsyncStream:
        return self

    async def __anext__(self) -> Step | Answer:
        try:
            await pause()
        except BaseException:  # the task was cancelled: the request with it
            self._stream.close()
            raise
        try:
            return next(self._stream)
        except StopIteration:
            raise StopAsyncIteration from None

    def cancel(self) -> None:
        """The next item raises Cancelled instead."""
        self._stream.cancel()

    async def aclose(self) -> None:
        """Ends it at once; closing a finished one is allowed."""
        self._stream.close()

    async def __aenter__(self) -> AsyncStream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.close()


class Pieces(Generic[T]):
    """Work that yields between its pieces and ends with a value: `finish` does it at once, `afinish` with pauses."""

    def __init__(self, work: Iterator[T | None]) -> None:
        self._work = work

    def finish(self) -> T:
        for value in self._work:
            if value is not None:
                return value
        raise RuntimeError("the work ended without a value")

    async def afinish(self) -> T:
        try:
            for value in self._work:
                if value is not None:
                    return value
                await pause()
        finally:
            close = getattr(self._work, "close", None)
            if close is not None:
                close()
        raise RuntimeError("the work ended without a value")
