"""Watch the memory of the process while DuckDB runs: it does not count what its functions allocate for a value."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# What the process may grow by beyond the limits of all statements that run: buffers of Lance, Arrow and the result.
# Other work of a server grows the process too, and a statement that is stopped for it did nothing wrong: a factor and
# this slack make it rare. It is a bound against dying, not an account; `Budget` and DuckDB keep to the limit itself.
_SLACK_FACTOR = 1.5
_SLACK_BYTES = 256 * 2**20
# The resident size, not the address space: allocators reserve gigabytes that they never touch. With 1.8 GB as limit of
# what is reserved (RLIMIT_DATA), 9 of 29 kinds of questions ended the process, some with 650 MB resident.
_STATM = Path("/proc/self/statm")


class GrowthWatch:
    """The growth that a statement may be the reason of; the latest one is held responsible for what all have taken."""

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def is_exceeded(self) -> bool:
        """Return whether the process has grown by more than all running statements may take, and this is the latest."""
        with _lock:
            # Stopping all of them would end those that ran well before the last one came.
            if not _running or _running[-1] is not self:
                return False
            allowed = _SLACK_BYTES + _SLACK_FACTOR * sum(each.limit for each in _running)
            return _read_resident() - _baseline[0] > allowed


@contextmanager
def watch_growth(limit: int | None) -> Iterator[GrowthWatch | None]:
    """Yield a watch of the process; None without a limit, or where the system does not tell its size."""
    if limit is None or not _STATM.exists():
        yield None
        return
    watch = GrowthWatch(limit)
    with _lock:
        # Only the first sets the baseline: measured later, it would hide what the earlier ones have taken.
        if not _running:
            _baseline[0] = _read_resident()
        _running.append(watch)
    try:
        yield watch
    finally:
        with _lock:
            _running.remove(watch)


_lock = threading.Lock()
_running: list[GrowthWatch] = []
# The size of the process when the first of them began.
_baseline = [0]


def _read_resident() -> int:
    return int(_STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
