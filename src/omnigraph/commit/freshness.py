"""How long ago a state was known to be the newest, told by two clocks."""

from omnigraph.storage.graph_storage import GraphStorage

RECENT_SECONDS = 10.0
"""How long a held state is trusted not to have been left behind by a trim or a cleanup."""


class Freshness:
    """When the newest state was last looked for. One clock stands still while a machine sleeps, the other is set."""

    def __init__(self, store: GraphStorage) -> None:
        self._store = store
        self._seen_at = (0.0, 0.0)

    def renew(self) -> None:
        """It was looked for just now."""
        self._seen_at = self._read_clocks()

    @property
    def is_recent(self) -> bool:
        """Whether that was a moment ago, by both clocks."""
        return all(
            0 <= now - then < RECENT_SECONDS for now, then in zip(self._read_clocks(), self._seen_at, strict=True)
        )

    def _read_clocks(self) -> tuple[float, float]:
        clock = self._store.runtime.clock
        return clock.monotonic(), clock.now().timestamp()
