"""Wait before another attempt: exponential back-off with full jitter.

A wait is random between zero and a limit that doubles with each attempt, so that callers that failed together do not
meet again at once.
"""

from collections.abc import Callable

from omnigraph.clock import Clock
from omnigraph.errors import OmnigraphError
from omnigraph.ids import Ids
from omnigraph.runtime import Runtime
from omnigraph.telemetry import log

# The limit of a writer's wait grows up to 32 times `Options.backoff_seconds`: 1.6 s by default.
_MAX_WRITER_FACTOR = 32
# A follower gives up when the store or the server has not answered for this long.
MAX_OUTAGE_SECONDS = 600.0
_FIRST_OUTAGE_WAIT_SECONDS = 0.1
_MAX_OUTAGE_WAIT_SECONDS = 10.0
# No limit needs more doublings, and a float has no room for a thousand.
_MAX_DOUBLINGS = 30


def compute_wait(jitter: Callable[[float], float], attempt: int, *, first: float, limit: float) -> float:
    """Return the seconds to wait after an attempt; they are below `first` for attempt 0, and never above `limit`."""
    return jitter(min(first * 2 ** min(attempt, _MAX_DOUBLINGS), limit))


def wait_for_retry(runtime: Runtime, attempt: int) -> None:
    """Sleep before a write is attempted again, after `attempt` attempts lost to other writers."""
    first = runtime.options.backoff_seconds
    runtime.clock.sleep(compute_wait(runtime.ids.jitter, attempt, first=first, limit=first * _MAX_WRITER_FACTOR))


class OutageBackoff:
    """The waits of a follower during an outage, for up to `MAX_OUTAGE_SECONDS`."""

    def __init__(self, clock: Clock, ids: Ids) -> None:
        self._clock = clock
        self._ids = ids
        self._since: float | None = None
        self._attempts = 0

    def wait(self, error: OmnigraphError) -> None:
        """Sleep before the next attempt; raise the error of the last one if the outage lasts too long."""
        now = self._clock.monotonic()
        if self._since is None:
            self._since = now
            log.warning("unavailable, retrying: %s", error)
        elif now - self._since > MAX_OUTAGE_SECONDS:
            raise error
        first, limit = _FIRST_OUTAGE_WAIT_SECONDS, _MAX_OUTAGE_WAIT_SECONDS
        self._clock.sleep(compute_wait(self._ids.jitter, self._attempts, first=first, limit=limit))
        self._attempts += 1

    def reset(self) -> None:
        """Forget the outage, once an attempt has succeeded."""
        self._since = None
        self._attempts = 0
