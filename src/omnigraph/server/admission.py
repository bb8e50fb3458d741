"""How much runs at once: threads for the engine's work, and no more than their share for any one actor."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from omnigraph.config.server import ServerLimits
from omnigraph.server.http_errors import ServerBusyError, TooManyRequestsError

T = TypeVar("T")

_MAX_ACTOR_SHARE = 0.75
"""How much of the threads one actor may have while others could want some."""


class Admission:
    """Who may work now. All of it is used from one event loop."""

    def __init__(self, limits: ServerLimits) -> None:
        self._limits = limits
        self._pool = ThreadPoolExecutor(limits.threads, thread_name_prefix="request")
        self._share = max(1, int(limits.threads * _MAX_ACTOR_SHARE))
        self._requests: Counter[str] = Counter()
        self._writes: Counter[str] = Counter()
        self._shares: dict[str, asyncio.Semaphore] = {}
        self._write_slots = asyncio.Semaphore(max(1, limits.threads // 2))
        self._pending = 0

    @property
    def in_flight(self) -> int:
        """How many requests are under way."""
        return self._requests.total()

    @property
    def working(self) -> int:
        """How many of them work, or wait for a thread."""
        return self._pending

    @contextmanager
    def admit_request(self, actor: str) -> Iterator[None]:
        """A request of an actor is under way; TooManyRequestsError when there are too many already."""
        with _limit_in_flight(self._requests, actor, self._limits.requests_per_actor, "requests"):
            try:
                yield
            finally:
                if self._requests[actor] == 1:
                    self._shares.pop(actor, None)

    @contextmanager
    def admit_write(self, actor: str) -> Iterator[None]:
        """Likewise for one that writes."""
        with _limit_in_flight(self._writes, actor, self._limits.writes_per_actor, "writes"):
            yield

    async def run_write(self, actor: str, work: Callable[[], T]) -> T:
        """As `run`, in no more than half of the threads: those who read don't wait for those who write."""
        async with self._write_slots:
            return await self.run(actor, work)

    async def run(self, actor: str, work: Callable[[], T]) -> T:
        """Do it in a thread, when it is its turn; ServerBusyError when too many wait.

        What is begun is finished, whether somebody waits for it or not.
        """
        if self._pending >= self._limits.threads + self._limits.waiting:
            raise ServerBusyError
        self._pending += 1
        try:
            async with self._shares.setdefault(actor, asyncio.Semaphore(self._share)):
                return await asyncio.get_running_loop().run_in_executor(self._pool, work)
        finally:
            self._pending -= 1

    def close(self) -> None:
        """Wait for what runs."""
        self._pool.shutdown(wait=True)


@contextmanager
def _limit_in_flight(counts: Counter[str], actor: str, limit: int, what: str) -> Iterator[None]:
    if counts[actor] >= limit:
        raise TooManyRequestsError(what, limit)
    counts[actor] += 1
    try:
        yield
    finally:
        counts[actor] -= 1
        if not counts[actor]:
            del counts[actor]
