"""Measure what an evaluation costs by itself, however many others run at the same time."""

import threading
from time import monotonic, process_time
from typing import Self

# An evaluation that cost more is not repeated while other writers wait, but by its own thread.
MAX_QUEUED_SECONDS = 0.1
# The same for the time on the clock, which other threads and processes lengthen: 64 threads on a busy machine with two
# cores needed up to a second for evaluations of 5 ms. A store that responds this slowly would keep all others waiting.
MAX_QUEUED_WAIT_SECONDS = 5.0


class _Meter:
    """The CPU time of this process, divided at every moment by the number of evaluations that run. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0
        self._cpu_seconds = 0.0
        self._share_seconds = 0.0

    def count(self, step: int) -> float:
        """Change the number of running evaluations; return the share of one that would have run all the time."""
        with self._lock:
            now = process_time()
            if self._running:
                self._share_seconds += (now - self._cpu_seconds) / self._running
            self._cpu_seconds = now
            self._running += step
            return self._share_seconds


_meter = _Meter()


class EvaluationCost:
    """An evaluation's share of the CPU time of the process while it runs.

    Not the time of the thread: Lance and Arrow work in threads of their own.
    """

    seconds = 0.0
    is_quick = False
    """Whether it may be repeated while other writers wait. Both are known after the block."""

    def __enter__(self) -> Self:
        self._started = monotonic()
        self._share_before = _meter.count(1)
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = _meter.count(-1) - self._share_before
        self.is_quick = self.seconds < MAX_QUEUED_SECONDS and monotonic() - self._started < MAX_QUEUED_WAIT_SECONDS
