"""Let the writers of one process take turns on a branch: one leads, and publishes for all that wait.

The first writer leads at once, so a lone writer never waits. Those that arrive while it publishes form the next group,
and the first of them leads it.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from time import monotonic
from typing import Protocol, TypeVar
from weakref import WeakValueDictionary

from omnigraph.commit.manifest_log import ManifestLog
from omnigraph.concurrency import Event, ProcessState, create_event, create_lock, get_thread_id

# The limit of writes that are published together. On a busy machine a swap took 47 ms, and each write 8 ms beside it:
# with 64, the swap is a tenth of a group.
MAX_GROUP = 64
# The writers of a group of so many are waited for, for up to this share of the time that the group took.
MIN_AWAITED_GROUP = 8
AWAITED_SHARE = 0.2
_PAUSE_SECONDS = 0.001
# A waiting writer looks again after this time, in case an interrupted leader did not wake it.
_PATIENCE_SECONDS = 1.0


class QueuedWrite(Protocol):
    """A write that waits for its turn, or for another writer to publish it."""

    wake: Event

    @property
    def is_settled(self) -> bool:
        """Whether its outcome is known."""
        ...

    def settle_interrupted(self) -> bool:
        """Settle it as unknown if its swap may have been sent when a leader was interrupted; return whether it was."""
        ...


W = TypeVar("W", bound=QueuedWrite)


_thread = threading.local()


@contextmanager
def call_when_queued(function: Callable[[], None]) -> Iterator[None]:
    """Call a function when this thread puts a write into a queue inside the block: its own work is done then.

    A server frees the place of a write that only waits for its commit, so that more of them are published together.
    """
    _thread.on_queued = function
    try:
        yield
    finally:
        _thread.on_queued = None


class CommitQueue:
    """The writes of this process that wait to be published on one branch."""

    def __init__(self) -> None:
        self._guard = create_lock()
        self._turn = create_lock()
        self._waiting: deque[QueuedWrite] = deque()
        # The number of members of the last group, when it was settled, and how long it took.
        self._last_group = (0, 0.0, 0.0)
        # The thread whose turn it is. A write that it starts meanwhile, as hooks of tests do, must not wait for itself.
        self._holder: int | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a writer publishes or waits."""
        return self._turn.locked() or bool(self._waiting)

    def settle(self, write: W, lead: Callable[[Sequence[W]], None]) -> None:
        """Return once a write is settled, by `lead` in this thread, or in another one.

        `lead` gets the writes of a group in their order of arrival. Those that it leaves unsettled wait for the next.
        """
        with self._guard:
            self._waiting.append(write)
        try:
            on_queued: Callable[[], None] | None = getattr(_thread, "on_queued", None)
            if on_queued is not None:
                on_queued()
            while not write.is_settled:
                is_nested = self._holder == get_thread_id()
                if self._turn.locked() and not is_nested:
                    write.wake.wait(_PATIENCE_SECONDS)
                    write.wake.clear()
                    continue
                with self.hold():
                    if not write.is_settled:
                        if not is_nested:
                            self._wait_for_returning()
                        # The other writes may be those that this thread is publishing.
                        self._lead_group([write] if is_nested else self._list_group(), lead)
        finally:
            # An interrupt: the write is withdrawn, unless a leader is publishing it.
            if not write.is_settled:
                self._remove(write)

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Let no other writer of this process publish on the branch inside the block."""
        thread = get_thread_id()
        if self._holder == thread:
            yield
            return
        try:
            with self._turn:
                self._holder = thread
                try:
                    yield
                finally:
                    self._holder = None
        finally:
            self._wake_next()

    def _wait_for_returning(self) -> None:
        """Wait for the writers of a large group that has just been settled, which are likely to write again.

        Without it the first of them would publish alone, and the others after that: two swaps instead of one. A lone
        writer, and those of small groups, never wait.
        """
        members, settled_at, seconds = self._last_group
        if members < MIN_AWAITED_GROUP:
            return
        deadline = settled_at + seconds * AWAITED_SHARE
        pause = create_event()
        while len(self._waiting) < members and (rest := deadline - monotonic()) > 0:
            pause.wait(min(rest, _PAUSE_SECONDS))

    def _list_group(self) -> list[W]:
        with self._guard:
            return list(islice(self._waiting, MAX_GROUP))  # type: ignore[arg-type]

    def _lead_group(self, group: Sequence[W], lead: Callable[[Sequence[W]], None]) -> None:
        # They stay in the queue until they are settled: after an interrupt, at any line, another thread leads.
        begun = monotonic()
        try:
            lead(group)
        finally:
            settled_at = monotonic()
            self._last_group = (len(group), settled_at, settled_at - begun)
            for write in group:
                if write.is_settled or write.settle_interrupted():
                    self._remove(write)
                    write.wake.set()

    def _remove(self, write: QueuedWrite) -> None:
        with self._guard:
            if write in self._waiting:
                self._waiting.remove(write)

    def _wake_next(self) -> None:
        with self._guard:
            if self._waiting:
                self._waiting[0].wake.set()


class _Queues:
    """The queues of all branches. One lives as long as a write of its branch; so branches that go leave nothing."""

    def __init__(self) -> None:
        self._guard = create_lock()
        self._queues: WeakValueDictionary[tuple[object, ...], CommitQueue] = WeakValueDictionary()

    def get(self, key: tuple[object, ...]) -> CommitQueue:
        """Return the queue of a branch."""
        with self._guard:
            queue = self._queues.get(key)
            if queue is None:
                queue = self._queues[key] = CommitQueue()
            return queue


_queues = ProcessState(_Queues)


def get_queue(log: ManifestLog) -> CommitQueue:
    """Return the queue of a branch, the same for all handles of this process that store in the same way."""
    options = log.store.runtime.options
    storage = tuple(sorted(options.storage.items()))
    return _queues.get().get((log.store.location.uri, log.path, options.durability, storage, options.head_commits))
