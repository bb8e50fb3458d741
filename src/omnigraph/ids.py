"""Generate identifiers, jitter and random bytes: the only place where randomness enters."""

import base64
import random
import secrets
import threading
from typing import Protocol

from omnigraph.clock import Clock

# The number of ASCII characters of a ULID.
ULID_LENGTH = 26

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
# The last two characters of successive ULIDs: ten bits.
_TEXT_PAIRS = [a + b for a in _ALPHABET for b in _ALPHABET]
_CHARACTER_PAIRS = [pair.encode() for pair in _TEXT_PAIRS]


class Ids(Protocol):
    """The source of identifiers and jitter that the engine uses."""

    def ulid(self) -> str:
        """Return a new ULID, which is unique; within a process, later ones sort after earlier ones."""
        ...

    def ulids(self, count: int) -> bytes:
        """Return `count` new ULIDs of one instant in ascending order, joined: 26 ASCII characters each."""
        ...

    def jitter(self, limit: float) -> float:
        """Return a random wait in `[0, limit)` seconds."""
        ...


class SystemIds:
    """ULIDs from the clock and the system's randomness; monotonic even if the clock stands still or steps back."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._last = 0
        self._random = random.Random(secrets.randbits(64))  # noqa: S311 - jitter, not a secret

    def ulid(self) -> str:
        """Return a new ULID, larger than all earlier ones of this object."""
        return format_ulid(self._reserve_numbers(1))

    def ulids(self, count: int) -> bytes:
        """Return many new ULIDs: a random one and its successors."""
        return format_ulids(self._reserve_numbers(count), count) if count else b""

    def jitter(self, limit: float) -> float:
        """Return a random wait in `[0, limit)` seconds."""
        with self._lock:
            return self._random.random() * limit

    def _reserve_numbers(self, count: int) -> int:
        """Reserve `count` successive numbers, and return the first."""
        milliseconds = int(self._clock.now().timestamp() * 1000)
        with self._lock:
            # The upper 48 bits are milliseconds. In the same millisecond, or if the clock steps back, count on from the
            # last: the system is asked for random bits once in a millisecond at most.
            is_later = milliseconds > self._last >> 80
            first = milliseconds << 80 | secrets.randbits(80) if is_later else self._last + 1
            self._last = first + count - 1
            return first


def format_ulid(number: int) -> str:
    """Format a ULID: 128 bits in Crockford's base 32."""
    # By pairs of characters, which takes half of the time: every request has an id.
    return "".join([_TEXT_PAIRS[number >> shift & 1023] for shift in range(5 * (ULID_LENGTH - 2), -1, -10)])


def format_ulids(first: int, count: int) -> bytes:
    """Format `count` successive ULIDs, joined."""
    # The last two characters count through all pairs; the characters before them are the same for each such run.
    skipped = first % len(_CHARACTER_PAIRS)
    runs = -(-(skipped + count) // len(_CHARACTER_PAIRS))
    start = first - skipped
    texts = b"".join(_format_run(start + run * len(_CHARACTER_PAIRS)) for run in range(runs))
    return texts[skipped * ULID_LENGTH : (skipped + count) * ULID_LENGTH]


def _format_run(first: int) -> bytes:
    """Format the ULIDs from one that ends in ten zero bits up to the last with the same prefix."""
    # One `join` in C for 1,024 of them: a million took 55 ms.
    prefix = format_ulid(first)[:-2].encode()
    return prefix + prefix.join(_CHARACTER_PAIRS)


# --- random bytes that are neither identifiers nor repeatable in a test ----------------------------------


def draw_bytes(count: int) -> bytes:
    """Return random bytes that can't be predicted."""
    return secrets.token_bytes(count)


def draw_bits(count: int) -> int:
    """Return a random number of at most `count` bits that can't be predicted."""
    return secrets.randbits(count)


def draw_text(count: int) -> str:
    """Return `count` random bytes as text that is safe in URLs and file names: base 64 without padding."""
    return base64.urlsafe_b64encode(secrets.token_bytes(count)).rstrip(b"=").decode()
