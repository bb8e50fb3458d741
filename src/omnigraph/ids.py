"""Identifiers and jitter: the one place where randomness enters."""

import random
import secrets
import threading
from typing import Protocol

from ulid import ULID

from omnigraph.clock import Clock


class Ids(Protocol):
    """What the engine may ask for."""

    def ulid(self) -> str:
        """A new ULID: unique, and in one process later ones sort behind earlier ones."""
        ...

    def jitter(self, limit: float) -> float:
        """A random wait in `[0, limit)` seconds."""
        ...


class SystemIds:
    """ULIDs from the clock and the system's randomness; monotonic even when the clock stands or steps back."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._last = 0
        self._random = random.Random(secrets.randbits(64))  # noqa: S311 - jitter, not a secret

    def ulid(self) -> str:
        """A new ULID, larger than every one this object gave before."""
        milliseconds = int(self._clock.now().timestamp() * 1000)
        with self._lock:
            fresh = milliseconds << 80 | secrets.randbits(80)
            self._last = fresh if fresh >> 80 > self._last >> 80 else self._last + 1
            return str(ULID.from_int(self._last))

    def jitter(self, limit: float) -> float:
        """A random wait in `[0, limit)` seconds."""
        with self._lock:
            return self._random.random() * limit
