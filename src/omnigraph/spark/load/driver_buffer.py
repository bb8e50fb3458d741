"""Buffer the objects of splits that the driver reads itself: only it needs them, so small ones stay in memory."""

from collections.abc import Callable
from typing import Protocol

from omnigraph.commit.task_journal import TaskJournal

# Beyond this, results are stored as scratch objects, as those of Spark tasks are.
MAX_BUFFERED_BYTES = 64 * 1024 * 1024


class ScratchWriter(Protocol):
    """A store for objects that a task leaves for the driver."""

    def keep(self, name: str, data: bytes) -> str:
        """Store an object and return its key."""
        ...


class DriverBuffer:
    """A `ScratchWriter` that keeps the objects of one split in `buffer` while all objects there are small together."""

    def __init__(self, buffer: dict[str, bytes], split: int, begin_journal: Callable[[], TaskJournal]) -> None:
        self._buffer = buffer
        self._split = split
        self._begin_journal = begin_journal
        self._journal: TaskJournal | None = None

    def keep(self, name: str, data: bytes) -> str:
        """Keep an object in memory, or in the task's journal when the buffer is full; return its key."""
        if sum(map(len, self._buffer.values())) + len(data) > MAX_BUFFERED_BYTES:
            # Begun on first use, because it writes a note to the store.
            self._journal = self._journal or self._begin_journal()
            return self._journal.keep(name, data)
        key = f"held:{self._split}.{name}"
        self._buffer[key] = data
        return key
