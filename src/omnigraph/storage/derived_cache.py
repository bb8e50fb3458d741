"""A persistent cache beside the tables, for data that is expensive to derive from them.

Nothing in it is part of a graph: it may be lost, damaged or deleted at any time, and is then derived again. So nothing
is flushed, a failed write is only logged, and a reader must be able to detect damaged content.
"""

from collections.abc import Sequence

from omnigraph.errors import OmnigraphError
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.layout import DERIVED
from omnigraph.storage.object_store import ObjectMissingError
from omnigraph.telemetry import log

# Limit of an upload, which joins all parts in memory.
_MAX_PUT_BYTES = 2**30


class DerivedCache:
    """Objects below `_derived`. Failures of the store are logged, never raised."""

    def __init__(self, store: GraphStorage, *, is_read_only: bool) -> None:
        self._store = store
        self.is_read_only = is_read_only

    def exists(self, key: str) -> bool:
        """Return whether there is an object with this key."""
        try:
            return self._store.objects.stat(key) is not None
        except OmnigraphError as error:
            log.debug("could not check for %s: %s", key, error)
            return False

    def read(self, key: str) -> memoryview | None:
        """Return the content, which later changes of the object do not affect, or None if there is none."""
        try:
            if self._store.local is not None:
                self._store.runtime.telemetry.record("control", "get")
                # Not memory-mapped: a later truncation or overwrite must not change content that was verified.
                return self._store.local.get_derived(key)
            return memoryview(self._store.objects.get(key).data)
        except ObjectMissingError:
            return None
        except (OSError, ValueError, OmnigraphError) as error:
            log.debug("could not read %s, deriving it again: %s", key, error)
            return None

    def read_range(self, key: str, start: int, size: int) -> bytes | None:
        """Return at most `size` bytes of an object from `start` on, or None if there is none."""
        try:
            return self._store.objects.get_range(key, start, size)
        except (OSError, ValueError, OmnigraphError) as error:
            log.debug("could not read %s, deriving it again: %s", key, error)
            return None

    def list_keys(self, prefix: str) -> list[str]:
        """Return the keys with this prefix, by one listing of all derived objects, which are few."""
        try:
            return [info.key for info in self._store.objects.list_under(DERIVED) if info.key.startswith(prefix)]
        except OmnigraphError as error:
            log.debug("could not list %s*: %s", prefix, error)
            return []

    def write(self, key: str, parts: Sequence[memoryview | bytes]) -> bool:
        """Replace the content of an object atomically, and return whether that succeeded."""
        if self.is_read_only:
            return False
        self._store.runtime.faults.reach("derived.begun")
        try:
            if self._store.local is not None:
                self._store.runtime.telemetry.record("control", "put")
                self._store.local.put_derived(key, parts)
            elif sum(map(len, parts)) > _MAX_PUT_BYTES:
                return False
            else:
                self._store.objects.put(key, b"".join(parts))
        except (OSError, OmnigraphError) as error:
            log.debug("could not keep %s for the next process: %s", key, error)
            return False
        self._store.runtime.faults.reach("derived.stored")
        return True

    def remove(self, key: str) -> None:
        """Remove an object if it exists."""
        try:
            self._store.objects.delete(key)
        except OmnigraphError as error:
            log.warning("could not remove %s: %s", key, error)
