"""The time since a state was known to be the newest, measured by two clocks."""

from typing import TypeAlias

from omnigraph.storage.graph_storage import GraphStorage

# How long a cached state is trusted not to have been overtaken by a trim or a cleanup.
RECENT_SECONDS = 10.0


# The time by the monotonic clock and by the other one.
Instant: TypeAlias = tuple[float, float]


class Freshness:
    """The time at which the newest state was last looked up.

    Two clocks are read: the monotonic one stops while a machine sleeps, the other one can be set.
    """

    def __init__(self, store: GraphStorage) -> None:
        self._store = store
        self._seen_at = (0.0, 0.0)

    def renew(self, asked_at: Instant | None = None) -> None:
        """Record that the newest state was looked up just now, or that looking it up began at `asked_at`."""
        self._seen_at = asked_at or self.read_clocks()

    def is_within(self, seconds: float) -> bool:
        """Return whether the last lookup was at most so long ago by both clocks."""
        return all(0 <= now - then <= seconds for now, then in zip(self.read_clocks(), self._seen_at, strict=True))

    @property
    def is_recent(self) -> bool:
        """Whether the last lookup was less than `RECENT_SECONDS` ago by both clocks."""
        return all(
            0 <= now - then < RECENT_SECONDS for now, then in zip(self.read_clocks(), self._seen_at, strict=True)
        )

    def read_clocks(self) -> Instant:
        """Return the time by both clocks."""
        clock = self._store.runtime.clock
        return clock.monotonic(), clock.now().timestamp()
