"""A pool of threads returns the results of its calls, runs each at most once, and ends."""

import asyncio
import gc
import threading
import weakref
from functools import partial

import pytest

from omnigraph.server.thread_pool import ThreadPool


def _fail() -> None:
    message = "its own error"
    raise ValueError(message)


def test_results_and_errors_are_those_of_the_calls() -> None:
    async def run() -> None:
        pool = ThreadPool(3, "test")
        calls = [pool.run(lambda number=number: number * 2) for number in range(50)]  # type: ignore[misc]
        assert await asyncio.gather(*calls) == [number * 2 for number in range(50)]
        with pytest.raises(ValueError, match="its own error"):
            await pool.run(_fail)
        pool.close()

    asyncio.run(run())


def test_calls_run_beside_each_other_in_no_more_threads_than_allowed() -> None:
    # Each call waits for another: with one thread, none would end.
    barrier = threading.Barrier(3, timeout=60)

    async def run() -> None:
        pool = ThreadPool(3, "beside")
        await asyncio.gather(*(pool.run(barrier.wait) for _ in range(9)))
        assert len([thread for thread in threading.enumerate() if thread.name.startswith("beside_")]) == 3
        pool.close()
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("beside_")]

    asyncio.run(run())


def test_a_call_whose_caller_left_in_the_queue_is_not_run_and_one_that_began_ends() -> None:
    began, may_end, ran = threading.Event(), threading.Event(), []

    def work() -> None:
        began.set()
        may_end.wait(60)
        ran.append("first")

    async def run() -> None:
        pool = ThreadPool(1, "leaving")
        first = asyncio.ensure_future(pool.run(work))
        second = asyncio.ensure_future(pool.run(lambda: ran.append("second")))
        await asyncio.to_thread(began.wait, 60)
        first.cancel()
        second.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        may_end.set()
        await pool.run(lambda: ran.append("third"))
        pool.close()

    asyncio.run(run())
    assert ran == ["first", "third"]


def test_an_idle_thread_keeps_nothing_of_its_last_call() -> None:
    class Large:
        """Something that a call holds."""

    async def run() -> weakref.ref[Large]:
        pool = ThreadPool(1, "idle")
        large = Large()
        kept = weakref.ref(large)
        await pool.run(partial(id, large))
        del large
        await asyncio.sleep(0.05)
        gc.collect()
        assert kept() is None
        pool.close()
        return kept

    asyncio.run(run())


def test_a_closed_pool_takes_no_calls() -> None:
    async def run() -> None:
        pool = ThreadPool(1, "closed")
        pool.close()
        with pytest.raises(RuntimeError, match="have ended"):
            await pool.run(lambda: None)

    asyncio.run(run())
