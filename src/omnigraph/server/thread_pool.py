"""A pool of threads for the calls of an event loop, cheaper for short calls than that of the standard library."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class _Call(NamedTuple):
    """A call, and the future of the event loop that waits for it."""

    work: Callable[[], Any]
    future: asyncio.Future[Any]


class ThreadPool:
    """Threads that are started as they are needed, up to a number.

    An executor makes a second future with a lock for each call, and copies its result: 0.03 ms of a point read's 0.6.
    """

    def __init__(self, max_threads: int, name: str) -> None:
        self._max_threads = max_threads
        self._name = name
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        # Calls that are queued or run; written under the lock.
        self._pending = 0
        self._is_closed = False

    async def run(self, work: Callable[[], T]) -> T:
        """Run a call in a thread, and return its result. Once begun, it runs to its end, also if its caller leaves."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        with self._lock:
            if self._is_closed:
                msg = f"the threads for {self._name} have ended"
                raise RuntimeError(msg)
            self._pending += 1
            if self._pending > len(self._threads) < self._max_threads:
                self._start_thread()
        self._calls.put(_Call(work, future))
        return await future

    def close(self) -> None:
        """Wait until all calls have ended, and end the threads."""
        with self._lock:
            self._is_closed = True
        for _ in self._threads:
            self._calls.put(None)
        for thread in self._threads:
            thread.join()

    def _start_thread(self) -> None:
        name = f"{self._name}_{len(self._threads)}"
        # A daemon: a server that is abandoned at its end must not wait for a call that never ends.
        thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            _run_call(call)
            # An idle thread must not keep the last call's arguments in memory.
            del call
            with self._lock:
                self._pending -= 1


def _run_call(call: _Call) -> None:
    future = call.future
    # A caller that left before the call began; one that leaves later finds its result ignored.
    if future.cancelled():
        return
    result: Any = None
    failure: BaseException | None = None
    try:
        result = call.work()
    except BaseException as error:  # noqa: BLE001 - any error belongs to the caller
        failure = error
    # The loop may have been closed in the meantime, and its callers with it.
    with suppress(RuntimeError):
        future.get_loop().call_soon_threadsafe(_settle, future, result, failure)


def _settle(future: asyncio.Future[Any], result: object, failure: BaseException | None) -> None:
    if future.cancelled():
        return
    if failure is None:
        future.set_result(result)
    else:
        future.set_exception(failure)
