"""What was derived from tables at some expense, kept beside them for the next process.

Nothing here is part of a graph: it may be lost, damaged or deleted at any time, and is then derived again. So nothing
is flushed, a write that fails is only logged, and whoever reads must be able to tell that a content is damaged.
"""

from collections.abc import Sequence

from omnigraph.errors import OmnigraphError
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.object_store import ObjectMissingError
from omnigraph.telemetry import log

_MAX_PUT_BYTES = 2**30


class DerivedCache:
    """Objects below `_derived`. Failures of the store are logged, never raised."""

    def __init__(self, store: GraphStorage, *, is_read_only: bool) -> None:
        self._store, self.is_read_only = store, is_read_only

    def exists(self, key: str) -> bool:
        """Whether there is an object of that name."""
        try:
            return self._store.objects.stat(key) is not None
        except OmnigraphError as error:
            log.debug("could not look for %s: %s", key, error)
            return False

    def read(self, key: str) -> memoryview | None:
        """The content, which later changes of the object do not reach; None when there is none."""
        try:
            if self._store.local is not None:
                self._store.runtime.telemetry.record("control", "get")
                # Not mapped: who cuts or overwrites the file later must not reach into lists that were checked.
                return self._store.local.get_derived(key)
            return memoryview(self._store.objects.get(key).data)
        except ObjectMissingError:
            return None
        except (OSError, ValueError, OmnigraphError) as error:
            log.debug("could not read %s, which is derived again: %s", key, error)
            return None

    def write(self, key: str, parts: Sequence[memoryview | bytes]) -> bool:
        """Put a content in the place of the one that is there, whole or not at all; whether that worked."""
        if self.is_read_only:
            return False
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
        return True

    def remove(self, key: str) -> None:
        """Remove an object; one that is not there is fine."""
        try:
            self._store.objects.delete(key)
        except OmnigraphError as error:
            log.warning("could not remove %s: %s", key, error)
