"""Admission control: a thread pool for the engine's work, with limits per actor and for all actors together."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TypeVar

from omnigraph.commit.commit_queue import MAX_GROUP, call_when_queued
from omnigraph.config.server import ServerLimits
from omnigraph.server.fleet import Fleet
from omnigraph.server.http_errors import RequestLimitError, ServerUnavailableError
from omnigraph.server.thread_pool import ThreadPool

T = TypeVar("T")

# The number of mutations that may be evaluated or wait for their commit: as many as one swap publishes together.
MAX_MUTATIONS = MAX_GROUP
# The share of the threads that one actor may use: the remaining quarter stays free for other actors.
_MAX_ACTOR_SHARE = 0.75
# Threads that all work longer than this without one call ending are taken for stuck; most calls take milliseconds.
_STUCK_SECONDS = 5.0


class Admission:
    """The admission control of a server. Not thread-safe: all calls come from one event loop."""

    def __init__(self, limits: ServerLimits, fleet: Fleet | None = None) -> None:
        self._limits = limits
        self._fleet = fleet
        self._in_flight = 0
        self._pool = ThreadPool(limits.threads, "request")
        self._share = max(1, int(limits.threads * _MAX_ACTOR_SHARE))
        self._requests: Counter[str] = Counter()
        self._writes: Counter[str] = Counter()
        # The requests of each actor that may use its share of the threads.
        self._users: Counter[str] = Counter()
        self._shares: dict[str, asyncio.Semaphore] = {}
        # At least one slot: a server with a single thread must be able to write.
        self._write_slots = asyncio.Semaphore(max(1, limits.threads // 2))
        # Mutations have threads of their own, in which they wait to be published together. No more are evaluated at a
        # time than there are slots for writes.
        self._mutation_pool = ThreadPool(MAX_MUTATIONS, "mutation")
        self._evaluation_slots = threading.Semaphore(max(1, limits.threads // 2))
        self._pending = 0
        # Calls that have a thread, and the time by the loop's clock at which one last ended or found a free thread.
        self._running = 0
        self._progressed_at = 0.0

    @property
    def in_flight(self) -> int:
        """The number of requests in progress."""
        return self._in_flight

    @property
    def working(self) -> int:
        """The number of calls that run in a thread or wait for one."""
        return self._pending

    @property
    def is_saturated(self) -> bool:
        """Whether a further call would be refused, or wait for threads of which none has ended a call for a while."""
        is_stuck = self._running >= self._limits.threads
        if is_stuck:
            is_stuck = asyncio.get_running_loop().time() - self._progressed_at > _STUCK_SECONDS
        return self._is_full or is_stuck

    @property
    def _is_full(self) -> bool:
        # One bound for all actors: `threads` calls run, `waiting` more may queue.
        return self._pending >= self._limits.threads + self._limits.waiting

    @contextmanager
    def admit_request(self, actor: str) -> Iterator[None]:
        """Count a request of an actor as in progress for the duration of the block.

        Raises:
            RequestLimitError: The actor has reached the limit of concurrent requests.
        """
        limit = self._limits.requests_per_actor
        with self._limit_in_flight(self._requests, actor, limit, "requests"), self.admit_relayed(actor):
            yield

    @contextmanager
    def admit_relayed(self, actor: str) -> Iterator[None]:
        """Count a request as in progress whose limit another worker has checked."""
        self._count_request(actor, 1)
        try:
            yield
        finally:
            self._count_request(actor, -1)
            # The last request drops the actor's semaphore, so that the table does not grow with every actor ever
            # seen. Dropped earlier, the next request would get a new one, and the actor more than its share.
            if not self._users[actor]:
                del self._users[actor]
                self._shares.pop(actor, None)

    @contextmanager
    def admit_write(self, actor: str) -> Iterator[None]:
        """Count a write of an actor as in progress for the duration of the block.

        Raises:
            RequestLimitError: The actor has reached the limit of concurrent writes.
        """
        with self._limit_in_flight(self._writes, actor, self._limits.writes_per_actor, "writes"):
            yield

    async def run_write(self, actor: str, work: Callable[[], T]) -> T:
        """Run a write like `run`, on at most half of the threads, so that reads don't queue after slow writes."""
        async with self._write_slots:
            return await self.run(actor, work)

    async def run_mutation(self, work: Callable[[], T]) -> T:
        """Run a mutation, to its end. While it waits for its commit, others may be evaluated.

        Raises:
            ServerUnavailableError: The queue is full.
        """
        with self._count_pending():
            return await self._mutation_pool.run(partial(self._run_in_slot, work))

    def _run_in_slot(self, work: Callable[[], T]) -> T:
        self._evaluation_slots.acquire()
        with ExitStack() as slot:
            # Once, by whichever comes first: the queue of commits, or the end of the work.
            slot.callback(self._evaluation_slots.release)
            with call_when_queued(slot.close):
                return work()

    async def run(self, actor: str, work: Callable[[], T]) -> T:
        """Run `work` in a thread of the pool as soon as one is free within the actor's share.

        Work that has started runs to its end, even if its caller is cancelled in the meantime.

        Raises:
            ServerUnavailableError: The queue is full.
        """
        with self._count_pending():
            share = self._shares.get(actor)
            if share is None:
                share = self._shares[actor] = asyncio.Semaphore(self._share)
            async with share:
                loop = asyncio.get_running_loop()
                if self._running < self._limits.threads:
                    self._progressed_at = loop.time()
                self._running += 1
                try:
                    return await self._pool.run(work)
                finally:
                    self._running -= 1
                    self._progressed_at = loop.time()

    @contextmanager
    def _count_pending(self) -> Iterator[None]:
        if self._is_full:
            raise ServerUnavailableError.server_busy()
        self._pending += 1
        try:
            yield
        finally:
            self._pending -= 1

    def close(self) -> None:
        """Wait until all running work has ended, and close the pools."""
        self._pool.close()
        self._mutation_pool.close()

    def _count_request(self, actor: str, change: int) -> None:
        self._users[actor] += change
        self._in_flight += change
        if self._fleet is not None:
            self._fleet.slot.in_flight = self._in_flight

    @contextmanager
    def _limit_in_flight(self, counts: Counter[str], actor: str, limit: int, what: str) -> Iterator[None]:
        # Counted before the others' counts are read: of two workers that do so at once, at least one sees both.
        counts[actor] += 1
        self._publish(actor)
        try:
            if counts[actor] + self._count_elsewhere(actor, counts) > limit:
                raise RequestLimitError.too_many_requests(what, limit)
            yield
        finally:
            counts[actor] -= 1
            if not counts[actor]:
                del counts[actor]
            self._publish(actor)

    def _publish(self, actor: str) -> None:
        if self._fleet is not None:
            self._fleet.slot.count_actor(actor, self._requests.get(actor, 0), self._writes.get(actor, 0))

    def _count_elsewhere(self, actor: str, counts: Counter[str]) -> int:
        if self._fleet is None:
            return 0
        requests, writes = self._fleet.shared.count_actor(actor, self._fleet.slot)
        return requests if counts is self._requests else writes
