"""Measure what an evaluation costs by itself, however many others run at the same time."""

import threading
from time import monotonic, process_time
from typing import Self

# An evaluation that cost more is not repeated while other writers wait, but by its own thread.
MAX_QUEUED_SECONDS = 0.1
# The same for the time on the clock, which other threads and processes lengthen: 64 threads on a busy machine with two
# cores needed up to a second for evaluations of 5 ms. A store that responds this slowly would keep all others waiting.
MAX_QUEUED_WAIT_SECONDS = 5.0

_lock = threading.Lock()
_running = [0]


class EvaluationCost:
    """The CPU time of the process during a block, divided by the number of such blocks that ran at the same time.

    Not the time of the thread: Lance and Arrow work in threads of their own.
    """

    def __enter__(self) -> Self:
        self._concurrent = _count(1)
        self._started = monotonic()
        self._cpu_started = process_time()
        return self

    def __exit__(self, *_: object) -> None:
        cpu_seconds = process_time() - self._cpu_started
        concurrent = max(self._concurrent, _count(-1) + 1)
        self.is_quick = (
            cpu_seconds / concurrent < MAX_QUEUED_SECONDS and monotonic() - self._started < MAX_QUEUED_WAIT_SECONDS
        )


def _count(step: int) -> int:
    """Change the number of running blocks, and return it."""
    with _lock:
        _running[0] += step
        return _running[0]
