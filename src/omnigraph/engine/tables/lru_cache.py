"""What reads keep in memory between queries: immutable values by key, the least recently used ones go first."""

import threading
import weakref
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar, cast

from omnigraph.engine.query_budget import Budget

T = TypeVar("T")
Key = tuple[Hashable, ...]

_WAIT_SECONDS = 0.05


class ContentKey(NamedTuple):
    """A part of a key: what some version of a table holds. A value under such a key goes when no holder is left."""

    path: str
    what: Hashable


@dataclass(frozen=True, slots=True)
class CacheStats:
    """What is kept now, and how often it was of use."""

    nbytes: int
    entries: int
    hits: int
    misses: int


class LruCache:
    """Values under a limit of bytes. Safe from several threads; each value is made by one of them, others wait.

    What a query holds stays alive when it is dropped here: dropping forgets a value, it frees nothing in use. Versions
    of a table come and go with every commit, so values of versions that nobody has any more go before the limit is met.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._lock = threading.Lock()
        self._values: OrderedDict[Key, tuple[object, int]] = OrderedDict()
        self._building: dict[Key, threading.Event] = {}
        self._nbytes = self._hits = self._misses = 0
        self._holders: Counter[ContentKey] = Counter()
        self._keys: dict[ContentKey, set[Key]] = {}
        self._released: deque[tuple[ContentKey, ...]] = deque()

    def add_holder(self, holder: object, parts: Collection[ContentKey]) -> None:
        """Values under keys with these parts may be kept for as long as the holder lives, or another one of theirs."""
        # The end of a holder may come at any time, also while this thread has the lock: it only leaves a word.
        weakref.finalize(holder, self._released.append, tuple(parts)).atexit = False
        with self._lock:
            self._holders.update(parts)

    def get(self, key: Key) -> object | None:
        """What is kept under a key, or None."""
        with self._lock:
            found = self._values.get(key)
            if found is None:
                return None
            self._values.move_to_end(key)
            return found[0]

    def __contains__(self, key: Key) -> bool:
        return key in self._values

    def get_or_build(
        self, key: Key, make: Callable[[], T], nbytes: Callable[[T], int], budget: Budget | None = None
    ) -> T:
        """What is kept under a key, made first if need be. A key always means the same value.

        Whoever waits for another thread's making looks at its own `budget` meanwhile; when that making fails, the
        next one tries.
        """
        found = self._look_up(key)
        if found is not None:
            return cast("T", found[0])
        made = threading.Event()
        try:
            while True:
                found, making = self._look_up_or_claim(key, made)
                if found is not None:
                    return cast("T", found[0])
                if making is made:
                    break
                while not making.wait(_WAIT_SECONDS):
                    if budget is not None:
                        budget.check()
            value = make()
            self._put(key, value, nbytes(value))
            if budget is not None:
                budget.check()  # what was made is there for the next query
            return value
        finally:
            made.set()  # before all else: whatever interrupts this, nobody waits for a making that is not going on
            with self._lock:
                if self._building.get(key) is made:
                    self._misses += 1
                    del self._building[key]

    def _look_up(self, key: Key) -> tuple[object, int] | None:
        with self._lock:
            return self._touch(key)

    def _look_up_or_claim(self, key: Key, made: threading.Event) -> tuple[tuple[object, int] | None, threading.Event]:
        """What is kept, or whose making is to be waited for: `made`, if it is the caller's turn."""
        with self._lock:
            found, making = self._touch(key), self._building.get(key)
            if found is None and (making is None or making.is_set()):
                self._building[key] = making = made
            return found, making or made

    def _touch(self, key: Key) -> tuple[object, int] | None:
        found = self._values.get(key)
        if found is not None:
            self._values.move_to_end(key)
            self._hits += 1
        return found

    def put(self, key: Key, value: object, nbytes: int) -> None:
        """Keep a value that is there already, in the place of the one under that key."""
        self._put(key, value, nbytes)

    def update_size(self, key: Key, value: object, nbytes: int) -> None:
        """Count a value anew that takes more memory than before, if it is still kept."""
        with self._lock:
            found = self._values.get(key)
        if found is not None and found[0] is value:
            self._put(key, value, nbytes)

    def get_stats(self) -> CacheStats:
        """The counts now."""
        with self._lock:
            try:
                self._drop_released()
            except BaseException:  # as in `_put`
                self._recount()
                raise
            return CacheStats(self._nbytes, len(self._values), self._hits, self._misses)

    def _put(self, key: Key, value: object, nbytes: int) -> None:
        with self._lock:
            try:
                self._drop_released()
                self._drop(key)
                held = _find_content_keys(key)
                if nbytes > self.limit_bytes or not all(self._holders[part] for part in held):
                    return
                for part in held:
                    self._keys.setdefault(part, set()).add(key)
                self._values[key] = (value, nbytes)
                self._nbytes += nbytes
                while self._nbytes > self.limit_bytes:
                    self._drop(next(iter(self._values)))
            except BaseException:  # an interrupt between two lines: count anew what is there
                self._recount()
                raise

    def _drop(self, key: Key) -> None:
        found = self._values.pop(key, None)
        if found is None:
            return
        self._nbytes -= found[1]
        for part in _find_content_keys(key):
            keys = self._keys.get(part, set())
            keys.discard(key)
            if not keys:
                self._keys.pop(part, None)

    def _drop_released(self) -> None:
        """Drop what holders that are gone have left."""
        while self._released:
            for part in self._released[0]:
                self._holders[part] -= 1
                if self._holders[part] <= 0:  # less than none only where an interrupt came in between
                    del self._holders[part]
                    for key in list(self._keys.get(part, ())):
                        self._drop(key)
            self._released.popleft()

    def _recount(self) -> None:
        self._nbytes = sum(size for _, size in self._values.values())
        self._keys = {}
        for key in self._values:
            for part in _find_content_keys(key):
                self._keys.setdefault(part, set()).add(key)


def _find_content_keys(key: Key) -> frozenset[ContentKey]:
    return frozenset(part for part in key if isinstance(part, ContentKey))
