"""A coroutine under a time limit ends as it would without one, or with the time."""

import asyncio

import pytest

from omnigraph.server.http.timed_await import TimedAwait


async def _answer_after(seconds: float | None) -> str:
    if seconds is not None:
        await asyncio.sleep(seconds)
    return "answer"


async def _fail_after(seconds: float | None) -> str:
    if seconds is not None:
        await asyncio.sleep(seconds)
    message = "its own error"
    raise ValueError(message)


@pytest.mark.parametrize("seconds", [None, 0, 0.001])
def test_the_answer_and_the_error_are_those_of_the_coroutine(seconds: float | None) -> None:
    async def run() -> None:
        assert await TimedAwait(_answer_after(seconds), 60) == "answer"
        with pytest.raises(ValueError, match="its own error"):
            await TimedAwait(_fail_after(seconds), 60)

    asyncio.run(run())


def test_what_takes_longer_ends_with_the_time() -> None:
    async def run() -> None:
        with pytest.raises(TimeoutError):
            await TimedAwait(_answer_after(60), 0.01)

    asyncio.run(run())


def test_a_cancellation_reaches_the_coroutine_and_is_not_swallowed() -> None:
    was_cancelled = False

    async def wait() -> None:
        nonlocal was_cancelled
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            was_cancelled = True
            raise

    async def run() -> None:
        task = asyncio.ensure_future(TimedAwait(wait(), 60))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert was_cancelled


def test_a_coroutine_may_go_on_after_an_error_that_it_handles() -> None:
    async def wait_twice() -> str:
        try:
            await asyncio.wait_for(asyncio.sleep(60), 0.001)
        except TimeoutError:
            await asyncio.sleep(0)
        return "went on"

    async def run() -> None:
        assert await TimedAwait(wait_twice(), 60) == "went on"

    asyncio.run(run())
