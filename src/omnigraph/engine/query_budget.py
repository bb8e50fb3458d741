"""Limit the time, memory and threads of an operation; it raises a typed error before the machine runs out."""

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from omnigraph.clock import Clock
from omnigraph.errors import Kind, OmnigraphError


class QueryTimeoutError(OmnigraphError):
    """A query, or another operation with a deadline, ran longer than it may."""

    kind = Kind.EXHAUSTED
    code = "query_timeout"
    seconds: float
    subject: str = "query"
    effect: str = ""

    def __str__(self) -> str:
        effect = f", and {self.effect}" if self.effect else ""
        return (
            f"the {self.subject} ran longer than {self.seconds:g} seconds{effect}: ask for less, or raise the deadline"
        )


class QueryMemoryError(OmnigraphError):
    """A query, or another operation with a memory limit, needs more memory than it may use."""

    kind = Kind.EXHAUSTED
    code = "query_memory"
    what: str
    needed: int
    allowed: int
    subject: str = "query"
    effect: str = ""

    def __str__(self) -> str:
        effect = f"; {self.effect}" if self.effect else ""
        article = "an" if self.subject[0] in "aeiou" else "a"
        allowed = f"the {_format_bytes(self.allowed)} that {article} {self.subject} may use"
        remedy = _REMEDIES.get(self.subject, _SMALLER_PARTS)
        needed = _format_bytes(self.needed)
        return f"{self.what} needs {needed}, more than {allowed}{effect}: {remedy}, or raise the budget"


_SMALLER_PARTS = "do it in smaller parts"
# Advice in the message of QueryMemoryError, by subject.
_REMEDIES = {
    "query": "filter earlier, ask for less",
    "algorithm": "use the engine `spark`",
    "load": f"{_SMALLER_PARTS}, use the engine `spark`",
}


class QueryCancelledError(OmnigraphError):
    """The caller cancelled the operation."""

    kind = Kind.EXHAUSTED
    code = "query_cancelled"
    subject: str = "query"
    message = "the {subject} was cancelled"


# The longest sleep without a check for cancellation.
_MAX_SLEEP_SECONDS = 0.1


class Budget:
    """The deadline and memory limit of one operation, checked between steps of work and before allocations.

    `subject` and `effect` appear in its errors: the operation that exceeded the budget, and the consequence.
    """

    def __init__(
        self, clock: Clock, *, seconds: float | None = None, memory_bytes: int | None = None, threads: int = 1
    ) -> None:
        self.subject = "query"
        self.effect = ""
        # The number of threads that work over large arrays may use.
        self.threads = threads
        self._clock = clock
        self._seconds = seconds
        self._memory = memory_bytes
        self._deadline = None if seconds is None else clock.monotonic() + seconds
        # The time for reading the result, if it is not what the query leaves; see `create_remainder`.
        self.reading_seconds: float | None = None
        self._claimed = 0
        self._cancelled = threading.Event()
        self._lock = threading.Lock()
        # The time left while the clock is paused.
        self._seconds_paused: float | None = None
        # The number of `resume` blocks in progress.
        self._active = 0

    def check(self) -> None:
        """Check that the operation may continue.

        Raises:
            QueryTimeoutError: The deadline has passed.
            QueryCancelledError: `cancel` was called.
        """
        if self._cancelled.is_set():
            raise QueryCancelledError(self.subject)
        if self._deadline is not None and self._seconds is not None and self._clock.monotonic() > self._deadline:
            raise QueryTimeoutError(self._seconds, self.subject, self.effect)

    def create_remainder(self) -> "Budget":
        """Return a budget for reading the result: the time that is left, all of the memory. `cancel` ends both.

        Its clock runs only inside `resume`: the time that a caller takes between two batches does not count.
        """
        rest = Budget(self._clock, seconds=self._seconds, memory_bytes=self._memory, threads=self.threads)
        rest.subject = self.subject
        rest.effect = self.effect
        rest._cancelled = self._cancelled
        rest.pause(self.seconds_left if self.reading_seconds is None else self.reading_seconds)
        return rest

    def pause(self, seconds_left: float | None = None) -> None:
        """Stop the clock until `resume`, with `seconds_left`, or with the time that is left until the deadline."""
        if self._deadline is not None:
            # Negative once the deadline has passed, so that the next `check` inside `resume` fails.
            unused_seconds = self._deadline - self._clock.monotonic()
            self._seconds_paused = unused_seconds if seconds_left is None else seconds_left
            self._deadline = None

    @contextmanager
    def resume(self) -> Iterator[None]:
        """Run the clock of a paused budget inside the `with` block; blocks of several threads may overlap."""
        # The first block starts the clock and the last one stops it: overlapping blocks don't count twice.
        with self._lock:
            self._active += 1
            if self._active == 1 and self._seconds_paused is not None:
                self._deadline = self._clock.monotonic() + self._seconds_paused
        try:
            yield
        finally:
            with self._lock:
                self._active -= 1
                if not self._active and self._seconds_paused is not None:
                    self.pause()

    @property
    def seconds_left(self) -> float:
        """The time until the deadline; infinite without one."""
        return math.inf if self._deadline is None else max(0.0, self._deadline - self._clock.monotonic())

    @property
    def memory_bytes(self) -> float:
        """The memory limit; infinite without one."""
        return math.inf if self._memory is None else self._memory

    @property
    def bytes_left(self) -> int | None:
        """The memory that is not reserved; None without a limit."""
        return None if self._memory is None else max(0, int(self._memory) - self._claimed)

    def sleep(self, seconds: float) -> None:
        """Sleep, but not beyond the deadline, nor long after `cancel`.

        Raises:
            QueryTimeoutError, QueryCancelledError: See `check`.
        """
        end = self._clock.monotonic() + seconds
        self.check()
        while (left := min(end - self._clock.monotonic(), self.seconds_left, _MAX_SLEEP_SECONDS)) > 0:
            self._clock.sleep(left)
            self.check()
        self.check()

    def claim(self, nbytes: int, what: str) -> None:
        """Reserve memory that is about to be allocated.

        Raises:
            QueryMemoryError: It would exceed the limit.
            QueryTimeoutError, QueryCancelledError: See `check`.
        """
        self.check()
        self.check_size(nbytes, what)
        self._claimed += nbytes

    def check_size(self, nbytes: int, what: str) -> None:
        """Check that this much memory is still available, without reserving it.

        Raises:
            QueryMemoryError: It would exceed the limit.
        """
        needed = self._claimed + nbytes
        if self._memory is not None and needed > self._memory:
            raise QueryMemoryError(what, needed, self._memory, self.subject, self.effect)

    def release(self, nbytes: int) -> None:
        """Return reserved memory to the budget."""
        # Never below zero, which would allow more than the limit later.
        self._claimed = max(0, self._claimed - nbytes)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Release at the end of the `with` block whatever was claimed inside and is still reserved."""
        before = self._claimed
        try:
            yield
        finally:
            self._claimed = min(self._claimed, before)

    def cancel(self) -> None:
        """Make the operation stop at its next check. Thread-safe."""
        self._cancelled.set()


def _format_bytes(nbytes: int) -> str:
    size = float(nbytes)
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
