"""Let the writers of one process take turns on a branch: one leads, and publishes for all that wait.

The first writer leads at once, so a lone writer never waits. Those that arrive while it publishes form the next group,
and the first of them leads it.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, TypeVar
from weakref import WeakValueDictionary

from omnigraph.commit.manifest_log import ManifestLog

# The limit of writes that are published together. On a busy machine a swap took 47 ms, and each write 8 ms beside it:
# with 64, the swap is a tenth of a group.
MAX_GROUP = 64
# A waiting writer looks again after this time, in case an interrupted leader did not wake it.
_PATIENCE_SECONDS = 1.0


class QueuedWrite(Protocol):
    """A write that waits for its turn, or for another writer to publish it."""

    wake: threading.Event

    @property
    def is_settled(self) -> bool:
        """Whether its outcome is known."""
        ...

    def settle_interrupted(self) -> bool:
        """Settle it as unknown if its swap may have been sent when a leader was interrupted; return whether it was."""
        ...


W = TypeVar("W", bound=QueuedWrite)


class CommitQueue:
    """The writes of this process that wait to be published on one branch."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._turn = threading.Lock()
        self._waiting: deque[QueuedWrite] = deque()
        # The thread whose turn it is. A write that it starts meanwhile, as hooks of tests do, must not wait for itself.
        self._holder: int | None = None

    def settle(self, write: W, lead: Callable[[Sequence[W]], None]) -> None:
        """Return once a write is settled, by `lead` in this thread, or in another one.

        `lead` gets the writes of a group in their order of arrival. Those that it leaves unsettled wait for the next.
        """
        with self._guard:
            self._waiting.append(write)
        try:
            while not write.is_settled:
                if self._turn.locked() and self._holder != threading.get_ident():
                    write.wake.wait(_PATIENCE_SECONDS)
                    write.wake.clear()
                    continue
                with self.hold():
                    if not write.is_settled:
                        self._lead_group(lead)
        finally:
            # An interrupt: a write that no leader has taken is withdrawn.
            if not write.is_settled:
                self._remove(write)

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Let no other writer of this process publish on the branch inside the block."""
        thread = threading.get_ident()
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

    def _lead_group(self, lead: Callable[[Sequence[W]], None]) -> None:
        with self._guard:
            count = min(len(self._waiting), MAX_GROUP)
            group: list[W] = [self._waiting.popleft() for _ in range(count)]  # type: ignore[misc]
        try:
            lead(group)
        finally:
            # A write whose swap was not sent is as if it had not been taken; after an interrupt, another thread leads.
            left = [write for write in group if not write.is_settled and not write.settle_interrupted()]
            with self._guard:
                self._waiting.extendleft(reversed(left))
            for write in group:
                if write.is_settled:
                    write.wake.set()

    def _remove(self, write: QueuedWrite) -> None:
        with self._guard:
            if write in self._waiting:
                self._waiting.remove(write)

    def _wake_next(self) -> None:
        with self._guard:
            if self._waiting:
                self._waiting[0].wake.set()


_guard = threading.Lock()
# A queue lives as long as a write of its branch; so branches that come and go leave nothing.
_queues: WeakValueDictionary[tuple[object, ...], CommitQueue] = WeakValueDictionary()


def get_queue(log: ManifestLog) -> CommitQueue:
    """Return the queue of a branch, the same for all handles of this process that store in the same way."""
    options = log.store.runtime.options
    storage = tuple(sorted(options.storage.items()))
    key = (log.store.location.uri, log.path, options.durability, storage, options.head_commits)
    with _guard:
        queue = _queues.get(key)
        if queue is None:
            queue = _queues[key] = CommitQueue()
        return queue
