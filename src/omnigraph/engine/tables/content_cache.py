"""The LRU cache of what reads derive from table versions, limited by bytes."""

import weakref
from collections import Counter, deque
from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar, cast

from omnigraph.concurrency import Event, create_event, create_lock
from omnigraph.engine.query_budget import Budget
from omnigraph.lru_cache import LruCache

T = TypeVar("T")
Key = tuple[Hashable, ...]

# A thread that waits for another one's build checks its own budget this often.
_WAIT_SECONDS = 0.05


class ContentKey(NamedTuple):
    """A key part that names the content of a table version. Entries with it are dropped with their last holder."""

    path: str
    what: Hashable


@dataclass(frozen=True, slots=True)
class CacheStats:
    """The size of the cache, and its hits and misses."""

    nbytes: int
    entries: int
    hits: int
    misses: int


class ContentCache:
    """An LRU cache of immutable values, limited by bytes. Thread-safe: one thread builds a value, others wait for it.

    Every commit creates new table versions, so values of versions that no reader holds any longer are dropped even
    below the limit.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._lock = create_lock()
        # In tuples, because a value may be None.
        self._values: LruCache[Key, tuple[object]] = LruCache(limit_bytes)
        self._building: dict[Key, Event] = {}
        self._hits = 0
        self._misses = 0
        self._holders: Counter[ContentKey] = Counter()
        self._keys: dict[ContentKey, set[Key]] = {}
        self._released: deque[tuple[ContentKey, ...]] = deque()

    def add_holder(self, holder: object, parts: Collection[ContentKey]) -> None:
        """Allow values under keys with these parts to stay cached while this holder, or another of theirs, lives."""
        # A finalizer may run at any time, even while this thread has the lock, so it only appends to a queue.
        weakref.finalize(holder, self._released.append, tuple(parts)).atexit = False
        with self._lock:
            self._holders.update(parts)

    def get(self, key: Key) -> object | None:
        """Return the value of a key, or None."""
        entry = self._values.get(key)
        return None if entry is None else entry[0]

    def __contains__(self, key: Key) -> bool:
        return key in self._values

    def get_or_build(
        self, key: Key, make: Callable[[], T], nbytes: Callable[[T], int], budget: Budget | None = None
    ) -> T:
        """Return the value of a key, which always means the same value, and build it first if necessary.

        A thread that waits for another one's build checks its own `budget` in the meantime. If that build fails, the
        next thread tries.
        """
        entry = self._look_up(key)
        if entry is not None:
            return cast("T", entry[0])
        done = create_event()
        try:
            while True:
                entry, builder = self._look_up_or_claim(key, done)
                if entry is not None:
                    return cast("T", entry[0])
                if builder is done:
                    break
                while not builder.wait(_WAIT_SECONDS):
                    if budget is not None:
                        budget.check()
            value = make()
            self._put(key, value, nbytes(value))
            if budget is not None:
                # After caching: even if this query has run out of time, the next one finds the value.
                budget.check()
            return value
        finally:
            # Must come first: if an interrupt follows, no thread may wait for a build that is not running.
            done.set()
            with self._lock:
                if self._building.get(key) is done:
                    self._misses += 1
                    del self._building[key]

    def _look_up(self, key: Key) -> tuple[object] | None:
        with self._lock:
            return self._touch(key)

    def _look_up_or_claim(self, key: Key, done: Event) -> tuple[tuple[object] | None, Event]:
        """Return the entry of a key, and the event of its build: `done` if the caller is to build it."""
        with self._lock:
            entry = self._touch(key)
            builder = self._building.get(key)
            # A set event belongs to a build that has ended and not been removed yet, or was interrupted before that.
            if entry is None and (builder is None or builder.is_set()):
                self._building[key] = builder = done
            return entry, builder or done

    def _touch(self, key: Key) -> tuple[object] | None:
        entry = self._values.get(key)
        if entry is not None:
            self._hits += 1
        return entry

    def put(self, key: Key, value: object, nbytes: int) -> None:
        """Store a value that exists already, replacing the one of that key."""
        self._put(key, value, nbytes)

    def update_size(self, key: Key, value: object, nbytes: int) -> None:
        """Update the size of a value that has grown, if it is still cached."""
        entry = self._values.get(key)
        if entry is not None and entry[0] is value:
            self._put(key, value, nbytes)

    def get_stats(self) -> CacheStats:
        """Return the current size, hits and misses."""
        with self._lock:
            try:
                self._drop_released()
            except BaseException:  # as in `_put`
                self._recount()
                raise
            return CacheStats(self._values.size, len(self._values), self._hits, self._misses)

    def _put(self, key: Key, value: object, nbytes: int) -> None:
        with self._lock:
            try:
                self._drop_released()
                self._drop(key)
                parts = _find_content_keys(key)
                # A value without a holder would never be dropped.
                if not all(self._holders[part] for part in parts):
                    return
                dropped = self._values.put(key, (value,), nbytes)
                if key in self._values:
                    for part in parts:
                        self._keys.setdefault(part, set()).add(key)
                for old in dropped:
                    self._forget_parts(old)
            except BaseException:  # an interrupt between two lines: list the keys again
                self._recount()
                raise

    def _drop(self, key: Key) -> None:
        if self._values.pop(key) is not None:
            self._forget_parts(key)

    def _forget_parts(self, key: Key) -> None:
        for part in _find_content_keys(key):
            keys = self._keys.get(part, set())
            keys.discard(key)
            if not keys:
                self._keys.pop(part, None)

    def _drop_released(self) -> None:
        """Drop the values of holders that were garbage-collected."""
        while self._released:
            for part in self._released[0]:
                self._holders[part] -= 1
                # Below zero only after an interrupt: the loop then counts the same holder again.
                if self._holders[part] <= 0:
                    del self._holders[part]
                    for key in list(self._keys.get(part, ())):
                        self._drop(key)
            self._released.popleft()

    def _recount(self) -> None:
        self._keys = {}
        for key in self._values.list_keys():
            for part in _find_content_keys(key):
                self._keys.setdefault(part, set()).add(key)


def _find_content_keys(key: Key) -> frozenset[ContentKey]:
    return frozenset(part for part in key if isinstance(part, ContentKey))
