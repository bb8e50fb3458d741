"""What a query may use: time and memory. Running out is a typed error, never an exhausted machine."""

import math
import threading

from omnigraph.clock import Clock
from omnigraph.errors import Kind, OmnigraphError


class QueryTimeoutError(OmnigraphError):
    """A query ran longer than it may."""

    kind = Kind.EXHAUSTED
    code = "query_timeout"

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds

    def __str__(self) -> str:
        return f"the query ran longer than {self.seconds:g} seconds: ask for less, or raise the deadline"


class QueryMemoryError(OmnigraphError):
    """A query needs more memory than it may use."""

    kind = Kind.EXHAUSTED
    code = "query_memory"

    def __init__(self, what: str, needed: int, allowed: int) -> None:
        super().__init__(what, needed, allowed)
        self.what, self.needed, self.allowed = what, needed, allowed

    def __str__(self) -> str:
        return (
            f"{self.what} needs {_size(self.needed)}, more than the {_size(self.allowed)} that a query may use:"
            " filter earlier, ask for less, or raise the budget"
        )


class QueryCancelledError(OmnigraphError):
    """The caller does not want the answer any more."""

    kind = Kind.EXHAUSTED
    code = "query_cancelled"

    def __str__(self) -> str:
        return "the query was cancelled"


_LONGEST_SLEEP = 0.1
"""How long a query may be asleep without looking whether it is wanted."""


class Budget:
    """The time and memory of one query; operators ask before they go on and before they allocate."""

    def __init__(self, clock: Clock, *, seconds: float | None = None, memory_bytes: int | None = None) -> None:
        self._clock, self._seconds, self._memory = clock, seconds, memory_bytes
        self._deadline = None if seconds is None else clock.monotonic() + seconds
        self._claimed = 0
        self._cancelled = threading.Event()

    def check(self) -> None:
        """QueryTimeoutError behind the deadline, QueryCancelledError once `cancel` was called."""
        if self._cancelled.is_set():
            raise QueryCancelledError
        if self._deadline is not None and self._seconds is not None and self._clock.monotonic() > self._deadline:
            raise QueryTimeoutError(self._seconds)

    @property
    def seconds_left(self) -> float:
        """How long it may still run; infinite without a deadline."""
        return math.inf if self._deadline is None else max(0.0, self._deadline - self._clock.monotonic())

    @property
    def memory_bytes(self) -> float:
        """How much memory it may use in all; infinite without a limit."""
        return math.inf if self._memory is None else self._memory

    def sleep(self, seconds: float) -> None:
        """Wait, but not beyond the deadline, nor long after `cancel`: then as `check`."""
        end = self._clock.monotonic() + seconds
        self.check()
        while (left := min(end - self._clock.monotonic(), self.seconds_left, _LONGEST_SLEEP)) > 0:
            self._clock.sleep(left)
            self.check()
        self.check()

    def claim(self, nbytes: int, what: str) -> None:
        """Count memory that is about to be allocated; QueryMemoryError when it would be too much."""
        self.check()
        needed = self._claimed + nbytes
        if self._memory is not None and needed > self._memory:
            raise QueryMemoryError(what, needed, self._memory)
        self._claimed = needed

    def release(self, nbytes: int) -> None:
        """Memory that was claimed is free again."""
        self._claimed = max(0, self._claimed - nbytes)

    def cancel(self) -> None:
        """Make the query stop at its next check; from any thread."""
        self._cancelled.set()


def _size(nbytes: int) -> str:
    size = float(nbytes)
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
