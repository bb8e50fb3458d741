"""Identifiers and jitter: the one place where randomness enters."""

import random
import secrets
import threading
from typing import Protocol

import numpy as np

from omnigraph.clock import Clock

ULID_LENGTH = 26
"""How many ASCII characters a ULID has."""

_SIGNS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = np.array([ord(a) | ord(b) << 8 for a in _SIGNS for b in _SIGNS], dtype="<u2")
"""By ten bits, their two characters, in the order in which they lie in memory."""
_BEGIN = np.dtype(f"V{ULID_LENGTH - 2}")
_TEXT = np.dtype([("begin", _BEGIN), ("end", _PAIRS.dtype)])


class Ids(Protocol):
    """What the engine may ask for."""

    def ulid(self) -> str:
        """A new ULID: unique, and in one process later ones sort behind earlier ones."""
        ...

    def ulids(self, count: int) -> bytes:
        """That many new ULIDs of one instant, each behind the one before: 26 ASCII characters each, joined."""
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
        return ulid_text(self._taken(1))

    def ulids(self, count: int) -> bytes:
        """Many new ULIDs, in one call: a random one, and those that follow it."""
        return ulid_texts(self._taken(count), count) if count else b""

    def jitter(self, limit: float) -> float:
        """A random wait in `[0, limit)` seconds."""
        with self._lock:
            return self._random.random() * limit

    def _taken(self, count: int) -> int:
        """The first of `count` successive numbers that nobody else gets."""
        milliseconds = int(self._clock.now().timestamp() * 1000)
        with self._lock:
            fresh = milliseconds << 80 | secrets.randbits(80)
            first = fresh if fresh >> 80 > self._last >> 80 else self._last + 1
            self._last = first + count - 1
            return first


def ulid_text(number: int) -> str:
    """A ULID as it is written: 128 bits in Crockford's base 32."""
    return "".join(_SIGNS[number >> shift & 31] for shift in range(5 * (ULID_LENGTH - 1), -1, -5))


def ulid_texts(first: int, count: int) -> bytes:
    """The texts of `count` successive ULIDs, joined."""
    # The last two characters count through all pairs; what stands before them is the same for each such run.
    skipped = first % len(_PAIRS)
    runs = -(-(skipped + count) // len(_PAIRS))
    texts = np.empty((runs, len(_PAIRS)), _TEXT)
    texts["begin"] = np.array([_begin(first // len(_PAIRS) + run) for run in range(runs)], _BEGIN)[:, np.newaxis]
    texts["end"] = _PAIRS
    return texts.reshape(-1)[skipped : skipped + count].tobytes()


def _begin(number: int) -> bytes:
    """All characters but the last two, of the bits but the last ten."""
    return b"".join(int(_PAIRS[number >> 10 * pair & 1023]).to_bytes(2, "little") for pair in reversed(range(12)))
