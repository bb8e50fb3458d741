"""A time limit for awaiting a coroutine that costs nothing unless the coroutine has to wait."""

import asyncio
from collections.abc import Awaitable, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class TimedAwait(Generic[T]):
    """Await an object under a time limit, which begins once it suspends.

    Most messages are received and sent without waiting, and `asyncio.timeout` took 5 µs for each. Unlike `wait_for`, it
    never swallows a cancellation, and runs in the caller's task.

    Raises:
        TimeoutError: It took longer.
    """

    def __init__(self, awaitable: Awaitable[T], seconds: float) -> None:
        self._steps = awaitable.__await__()
        self._seconds = seconds

    def __await__(self) -> Generator[Any, Any, T]:
        """Take the first step; if that is not all, take the others within the time."""
        try:
            pending = next(self._steps)
        except StopIteration as end:
            result: T = end.value
            return result
        return (yield from self._finish(pending).__await__())

    async def _finish(self, pending: object) -> T:
        async with asyncio.timeout(self._seconds):
            return await _Remainder(self._steps, pending)


class _Remainder(Generic[T]):
    """The rest of a coroutine that has been run to its first suspension."""

    def __init__(self, steps: Generator[Any, Any, T], pending: object) -> None:
        self._steps, self._pending = steps, pending

    def __await__(self) -> Generator[Any, Any, T]:
        """Hand what the coroutine waits for to the event loop, and its answers and errors to the coroutine."""
        pending = self._pending
        try:
            while True:
                try:
                    answer = yield pending
                except BaseException as error:  # noqa: BLE001 - also a cancellation belongs to the coroutine
                    pending = self._steps.throw(error)
                else:
                    pending = self._steps.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result
