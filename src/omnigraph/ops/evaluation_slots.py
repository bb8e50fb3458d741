"""Limit the mutations that are evaluated at the same time, so that threads do not defeat each other.

Python runs one thread at a time. With 64 threads that evaluate, the one that publishes for all of them gets its turn
rarely, and each call of Lance waits for worker threads that compete too.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from omnigraph.concurrency import Event, ProcessState, create_event, create_lock
from omnigraph.engine.parallel import count_cores

# With 64 threads on two cores, two evaluations at a time took 4.4 ms of CPU for each commit and reached 134 commits per
# second, without a limit 5.6 ms and 95. More than four are not worth it: only the part outside of Python would gain.
MIN_SLOTS = 2
MAX_SLOTS = 4
# An evaluation that takes longer gives its slot up and goes on: it may read a large table, or wait for a slow disk.
MAX_SLOT_SECONDS = 0.05
# A waiting thread looks again after this time, in case an interrupted one did not wake it.
_PATIENCE_SECONDS = 1.0


class EvaluationSlots:
    """Slots that are given in the order of arrival, each for a limited time. Thread-safe."""

    def __init__(self, count: int, seconds: float = MAX_SLOT_SECONDS) -> None:
        self._count = count
        self._seconds = seconds
        self._lock = create_lock()
        # When each slot in use ends, the earliest first, by the object that holds it.
        self._ends: dict[object, float] = {}
        self._waiting: deque[Event] = deque()

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Wait for a slot, and hold it inside the block; no block that is entered inside may wait for ever."""
        ticket = create_event()
        with self._lock:
            self._waiting.append(ticket)
        try:
            while True:
                rest = self._try_start(ticket)
                if rest is None:
                    break
                ticket.wait(rest)
                ticket.clear()
            yield
        finally:
            with self._lock:
                self._ends.pop(ticket, None)
                # An interrupt while it waited.
                if ticket in self._waiting:
                    self._waiting.remove(ticket)
                self._wake_first()

    def _try_start(self, ticket: Event) -> float | None:
        """Take a slot, and return None; or return the seconds after which to try again, unless it is woken before."""
        with self._lock:
            if self._waiting[0] is not ticket:
                return _PATIENCE_SECONDS
            now = monotonic()
            for other, end in list(self._ends.items()):
                if end <= now:
                    del self._ends[other]
            if len(self._ends) >= self._count:
                return next(iter(self._ends.values())) - now
            self._waiting.popleft()
            self._ends[ticket] = now + self._seconds
            self._wake_first()
            return None

    def _wake_first(self) -> None:
        if self._waiting:
            self._waiting[0].set()


EVALUATION_SLOTS = ProcessState(lambda: EvaluationSlots(min(max(count_cores(), MIN_SLOTS), MAX_SLOTS)))
