"""Codes that a browser exchanges for a token: good once and for a minute, so that no token is ever in an address."""

import hashlib
import threading
from dataclasses import dataclass

from omnigraph.clock import Clock
from omnigraph.ids import draw_text

LIFETIME_SECONDS = 60.0
# As many as a person may open in a minute; the oldest one is dropped for another.
_MAX_CODES = 16
_RANDOM_BYTES = 32


@dataclass(frozen=True, slots=True)
class Grant:
    """What a code is exchanged for."""

    token: str
    graph: str


@dataclass(frozen=True, slots=True)
class _Issued:
    grant: Grant
    expires: float


class OneTimeCodes:
    """The codes that were issued and not used yet. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        # By digest: how long a look-up takes then reveals nothing about the codes.
        self._issued: dict[bytes, _Issued] = {}

    def issue(self, grant: Grant) -> str:
        """Return a new code for a grant."""
        code = draw_text(_RANDOM_BYTES)
        with self._lock:
            while len(self._issued) >= _MAX_CODES:
                del self._issued[next(iter(self._issued))]
            self._issued[_digest(code)] = _Issued(grant, self._clock.monotonic() + LIFETIME_SECONDS)
        return code

    def redeem(self, code: str) -> Grant | None:
        """Return the grant of a code, which is used up by that; None if it was used, is too old, or never was one."""
        with self._lock:
            issued = self._issued.pop(_digest(code), None)
        if issued is None or self._clock.monotonic() > issued.expires:
            return None
        return issued.grant


def _digest(code: str) -> bytes:
    return hashlib.sha256(code.encode(errors="surrogatepass")).digest()
