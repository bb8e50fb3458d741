"""What a query may use: time and memory. Running out is a typed error, never an exhausted machine."""

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

    def __init__(self, seconds: float, subject: str = "query", effect: str = "") -> None:
        super().__init__(seconds, subject, effect)
        self.seconds, self.subject, self.effect = seconds, subject, effect

    def __str__(self) -> str:
        effect = f", and {self.effect}" if self.effect else ""
        return (
            f"the {self.subject} ran longer than {self.seconds:g} seconds{effect}: ask for less, or raise the deadline"
        )


class QueryMemoryError(OmnigraphError):
    """A query, or another operation with a memory limit, needs more memory than it may use."""

    kind = Kind.EXHAUSTED
    code = "query_memory"

    def __init__(self, what: str, needed: int, allowed: int, subject: str = "query", effect: str = "") -> None:
        super().__init__(what, needed, allowed, subject, effect)
        self.what, self.needed, self.allowed = what, needed, allowed
        self.subject, self.effect = subject, effect

    def __str__(self) -> str:
        effect = f"; {self.effect}" if self.effect else ""
        article = "an" if self.subject[0] in "aeiou" else "a"
        allowed = f"the {_format_bytes(self.allowed)} that {article} {self.subject} may use"
        way_out = _REMEDIES.get(self.subject, _SMALLER_PARTS)
        return f"{self.what} needs {_format_bytes(self.needed)}, more than {allowed}{effect}: {way_out}, or raise the budget"


_SMALLER_PARTS = "do it in smaller parts"
_REMEDIES = {
    "query": "filter earlier, ask for less",
    "algorithm": "use the engine `spark`",
    "load": f"{_SMALLER_PARTS}, use the engine `spark`",
}
"""What to do instead, by what needs too much."""


class QueryCancelledError(OmnigraphError):
    """The caller does not want the answer any more."""

    kind = Kind.EXHAUSTED
    code = "query_cancelled"

    def __init__(self, subject: str = "query") -> None:
        super().__init__(subject)
        self.subject = subject

    def __str__(self) -> str:
        return f"the {self.subject} was cancelled"


_MAX_SLEEP_SECONDS = 0.1
"""How long a query may be asleep without looking whether it is wanted."""


class Budget:
    """The deadline and memory limit of one operation; it is asked before work continues and before memory is allocated.

    `subject` and `effect` are what its errors say: what ran out of it, and what became of that.
    """

    def __init__(self, clock: Clock, *, seconds: float | None = None, memory_bytes: int | None = None) -> None:
        self.subject, self.effect = "query", ""
        self._clock, self._seconds, self._memory = clock, seconds, memory_bytes
        self._deadline = None if seconds is None else clock.monotonic() + seconds
        self.reading_seconds: float | None = None
        """How long a result may be read, where that is more than what its query leaves; see `remainder`."""
        self._claimed = 0
        self._cancelled = threading.Event()
        self._lock = threading.Lock()
        self._seconds_paused: float | None = None
        """The seconds that a paused budget has left."""
        self._active = 0

    def check(self) -> None:
        """QueryTimeoutError behind the deadline, QueryCancelledError once `cancel` was called."""
        if self._cancelled.is_set():
            raise QueryCancelledError(self.subject)
        if self._deadline is not None and self._seconds is not None and self._clock.monotonic() > self._deadline:
            raise QueryTimeoutError(self._seconds, self.subject, self.effect)

    def create_remainder(self) -> "Budget":
        """Return a budget for reading the result: what is left of the time, all of the memory. `cancel` ends both.

        Its clock stands still outside of `working`: how long a caller takes between two batches is their own matter.
        """
        rest = Budget(self._clock, seconds=self._seconds, memory_bytes=self._memory)
        rest.subject, rest.effect, rest._cancelled = self.subject, self.effect, self._cancelled
        rest.pause(self.seconds_left if self.reading_seconds is None else self.reading_seconds)
        return rest

    def pause(self, seconds_left: float | None = None) -> None:
        """Stop the clock until work is done in `working`; with so many seconds left, or with as many as there are."""
        if self._deadline is not None:
            now = self._clock.monotonic()
            self._seconds_paused = (
                self._deadline - now if seconds_left is None else seconds_left
            )  # below 0 once it is over
            self._deadline = None

    @contextmanager
    def resume(self) -> Iterator[None]:
        """Run the clock of a paused budget inside of the `with`, also of several at once."""
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
        while (left := min(end - self._clock.monotonic(), self.seconds_left, _MAX_SLEEP_SECONDS)) > 0:
            self._clock.sleep(left)
            self.check()
        self.check()

    def claim(self, nbytes: int, what: str) -> None:
        """Count memory that is about to be allocated; QueryMemoryError when it would be too much."""
        self.check()
        self.check_size(nbytes, what)
        self._claimed += nbytes

    def check_size(self, nbytes: int, what: str) -> None:
        """Raise QueryMemoryError when so much, beside what is claimed, would be too much. Nothing is claimed."""
        needed = self._claimed + nbytes
        if self._memory is not None and needed > self._memory:
            raise QueryMemoryError(what, needed, self._memory, self.subject, self.effect)

    def release(self, nbytes: int) -> None:
        """Memory that was claimed is free again."""
        self._claimed = max(0, self._claimed - nbytes)

    def cancel(self) -> None:
        """Make the query stop at its next check; from any thread."""
        self._cancelled.set()


def _format_bytes(nbytes: int) -> str:
    size = float(nbytes)
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
