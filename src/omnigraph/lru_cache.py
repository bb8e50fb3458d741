"""The LRU cache that all bounded caches of this package are built on."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class ByteCache(Protocol):
    """An LRU cache that is limited by bytes."""

    limit_bytes: int

    def get(self, key: tuple[object, ...]) -> object | None:
        """Return the value of a key, or None."""
        ...

    def put(self, key: tuple[object, ...], value: object, nbytes: int) -> None:
        """Store a value; one that is too large is not stored."""
        ...


class LruCache(Generic[K, V]):
    """A map that drops its least recently used entries when their sizes exceed a limit. Thread-safe.

    The size of an entry is 1 by default, so that the limit is a number of entries. Dropping a value only forgets it;
    its users keep it alive.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lock = threading.Lock()
        # The least recently used entry comes first.
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._size = 0

    def get(self, key: K) -> V | None:
        """Return the value of a key, which is then the most recently used one, or None."""
        with self._lock:
            return self._get(key)

    def get_or_build(self, key: K, build: Callable[[], V]) -> V:
        """Return the value of a key, and build it first if necessary.

        Other threads wait for a build, so it should be fast; but a key never has two values at the same time.
        """
        with self._lock:
            value = self._get(key)
            if value is None:
                value = build()
                self._put(key, value, 1)
            return value

    def put(self, key: K, value: V, size: int = 1) -> list[K]:
        """Store a value, replacing the one of that key, and return the keys that were dropped for it.

        A value that is larger than the limit is not stored: it would drop all others.
        """
        with self._lock:
            return self._put(key, value, size)

    def pop(self, key: K) -> V | None:
        """Remove a key, and return its value, or None."""
        with self._lock:
            try:
                return self._pop(key)
            except BaseException:
                self._recount()
                raise

    def list_keys(self) -> list[K]:
        """Return the keys, the least recently used one first."""
        with self._lock:
            return list(self._entries)

    def list_values(self) -> list[V]:
        """Return the values, that of the least recently used key first."""
        with self._lock:
            return [value for value, _ in self._entries.values()]

    @property
    def size(self) -> int:
        """The total size of all entries."""
        return self._size

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def _get(self, key: K) -> V | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def _put(self, key: K, value: V, size: int) -> list[K]:
        dropped: list[K] = []
        try:
            self._pop(key)
            if size > self.limit:
                return dropped
            self._entries[key] = (value, size)
            self._size += size
            while self._size > self.limit:
                dropped.append(next(iter(self._entries)))
                self._pop(dropped[-1])
        except BaseException:  # an interrupt between two lines: add up the sizes again
            self._recount()
            raise
        return dropped

    def _pop(self, key: K) -> V | None:
        entry = self._entries.pop(key, None)
        if entry is None:
            return None
        self._size -= entry[1]
        return entry[0]

    def _recount(self) -> None:
        self._size = sum(size for _, size in self._entries.values())
