"""Wait for the next commit of a branch: one poll for each branch, however many requests wait for it."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from omnigraph.errors import OmnigraphError

# The interval in which the head of a watched branch is read.
POLL_SECONDS = 0.25


class _Watch:
    """A branch that requests wait for: its newest known commit, and an event that is set when it changes."""

    def __init__(self) -> None:
        self.head: str | None = None
        self.changed = asyncio.Event()
        self.waiting = 0
        self.task: asyncio.Task[None] | None = None


class BranchWatchers:
    """The watched branches of a server, by graph and name. Used by one event loop."""

    def __init__(self) -> None:
        self._watches: dict[tuple[str, str], _Watch] = {}

    @property
    def count(self) -> int:
        """The number of branches that are polled."""
        return len(self._watches)

    async def wait(
        self, graph: str, branch: str, since: str, seconds: float, read_head: Callable[[], Awaitable[str]]
    ) -> None:
        """Wait until the newest commit of a branch is another than `since`, or the time is over.

        The first request that waits for a branch passes the function with which its head is polled. A poll that fails
        ends the wait of all, so that each of them reads for itself and reports the error.
        """
        key = (graph, branch)
        watch = self._watches.get(key)
        if watch is None:
            watch = self._watches[key] = _Watch()
            watch.task = asyncio.ensure_future(self._poll(key, watch, read_head))
        watch.waiting += 1
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    while watch.head in {None, since} and self._watches.get(key) is watch:
                        await watch.changed.wait()
        finally:
            watch.waiting -= 1
            if not watch.waiting:
                self._end(key, watch)

    async def _poll(self, key: tuple[str, str], watch: _Watch, read_head: Callable[[], Awaitable[str]]) -> None:
        try:
            while watch.waiting:
                head = await read_head()
                if head != watch.head:
                    watch.head = head
                    # Those that wait hold the old event; whoever comes later waits for the next change.
                    changed, watch.changed = watch.changed, asyncio.Event()
                    changed.set()
                await asyncio.sleep(POLL_SECONDS)
        except OmnigraphError:
            # All that wait are woken below: each reads the branch itself, and reports its error to its client.
            return
        finally:
            self._end(key, watch)

    def _end(self, key: tuple[str, str], watch: _Watch) -> None:
        if self._watches.get(key) is watch:
            del self._watches[key]
        watch.changed.set()
        if watch.task is not None and watch.task is not _find_current_task():
            watch.task.cancel()


def _find_current_task() -> asyncio.Task[object] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # the loop has ended
        return None
