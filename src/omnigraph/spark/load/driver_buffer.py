"""What the driver hands over to itself: nobody else reads it, so it stays in memory while it is little."""

from collections.abc import Callable
from typing import Protocol

from omnigraph.commit.task_journal import TaskJournal

MAX_BUFFERED_BYTES = 64 * 1024 * 1024
"""How many bytes stay in memory; what comes then is kept as a task of Spark keeps it."""


class ScratchWriter(Protocol):
    """Keeps something for the driver."""

    def keep(self, name: str, data: bytes) -> str:
        """Its key."""
        ...


class DriverBuffer:
    """Keeps what one split gives in `held`, and what is too much by a note, which is begun then."""

    def __init__(self, held: dict[str, bytes], split: int, begun: Callable[[], TaskJournal]) -> None:
        self._buffer, self._split, self._begin_note = held, split, begun
        self._note: TaskJournal | None = None

    def keep(self, name: str, data: bytes) -> str:
        """See Keeper."""
        if sum(map(len, self._buffer.values())) + len(data) > MAX_BUFFERED_BYTES:
            self._note = self._note or self._begin_note()
            return self._note.keep(name, data)
        key = f"held:{self._split}.{name}"
        self._buffer[key] = data
        return key
