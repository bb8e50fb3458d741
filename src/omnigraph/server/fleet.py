"""What a worker knows of the others: who publishes the writes of a branch, who runs long requests, and their sums."""

import asyncio
import os
import time
from collections.abc import Hashable
from hashlib import blake2b
from pathlib import Path

from omnigraph.lru_cache import LruCache
from omnigraph.server.shared_state import SharedState, WorkerSlot

# A read that takes longer is cancelled, and run again by a worker for long requests.
LONG_SECONDS = 0.25
# For so long a request that was long is taken for long at once: at first, and at most. The time grows with each attempt
# that is long again, because a short one is also long on a machine that stands still for a moment.
_FIRST_KNOWN_SECONDS, _KNOWN_SECONDS = 2.0, 300.0
_KNOWN_GROWTH = 4
_MAX_KNOWN = 1_024
_REAP_SECONDS = 10.0
_MAX_DIRECTORY = 70


class Fleet:
    """The workers of a server, as one of them sees them. Used by one event loop."""

    def __init__(self, shared: SharedState, slot: WorkerSlot, home: Path, serving: int) -> None:
        """`home` is the directory of the workers' sockets; the first `serving` slots have clients."""
        self.shared = shared
        self.slot = slot
        self._home = home
        # The path of a socket is at most 107 bytes long; a link to the directory is short.
        if len(os.fsencode(home)) > _MAX_DIRECTORY:
            self._home = Path(f"/proc/self/fd/{os.open(home, os.O_PATH | os.O_DIRECTORY)}")
        self._serving = serving
        # By kind of request: until when it is taken for long, and for how many seconds it was.
        self._known: LruCache[Hashable, tuple[float, float]] = LruCache(_MAX_KNOWN)

    @property
    def is_home(self) -> bool:
        """Whether this worker maintains, recovers and verifies the graphs."""
        return self.slot.index == 0

    @property
    def home(self) -> WorkerSlot:
        """The worker that does."""
        return self.shared.slots[0]

    @property
    def runs_long_requests(self) -> bool:
        """Whether this worker has no clients of its own, and runs long requests of the others."""
        return self.slot.index >= self._serving

    @property
    def others(self) -> list[WorkerSlot]:
        """The other workers that answer."""
        return [slot for slot in self.shared.iter_ready() if slot is not self.slot]

    @property
    def in_flight(self) -> int:
        """The number of requests in progress, of all workers."""
        return sum(slot.in_flight for slot in self.shared.slots)

    @property
    def is_saturated(self) -> bool:
        """Whether every worker that has clients is saturated."""
        ready = [slot for slot in self.shared.slots[: self._serving] if slot.is_ready]
        return all(slot.is_saturated for slot in ready)

    def find_socket(self, slot: WorkerSlot) -> Path:
        """Return the path of a worker's socket for the other workers; each process has its own."""
        return self._home / f"{slot.index}-{slot.generation}.sock"

    def find_owner(self, graph: str, branch: str) -> WorkerSlot | None:
        """Return the worker that publishes the writes of a branch; None: this one.

        Writes that meet in one process are published together. Where workers disagree for a moment, or the parent has
        named none, writes are slower, and nothing else.
        """
        named = [slot for slot in self.shared.slots[: self._serving] if slot.is_named]
        # Each branch has an order of workers of its own, so that one that comes or goes moves its own branches only.
        key = f"{graph}\0{branch}\0".encode(errors="surrogatepass")
        owner = max(named, key=lambda slot: blake2b(key + bytes([slot.index]), digest_size=8).digest(), default=None)
        return None if owner is self.slot else owner

    def find_long_worker(self) -> WorkerSlot | None:
        """Return the worker for long requests that has the fewest; None if there is none, or this is one."""
        if self.runs_long_requests:
            return None
        ready = [slot for slot in self.shared.slots[self._serving :] if slot.is_ready]
        return min(ready, key=lambda slot: slot.in_flight, default=None)

    def is_known_long(self, key: Hashable) -> bool:
        """Return whether a request of this kind was long recently."""
        known = self._known.get(key)
        return known is not None and time.monotonic() < known[0]

    def note_long(self, key: Hashable) -> None:
        """Record that a request of this kind was long."""
        known = self._known.get(key)
        seconds = _FIRST_KNOWN_SECONDS if known is None else min(_KNOWN_GROWTH * known[1], _KNOWN_SECONDS)
        self._known.put(key, (time.monotonic() + seconds, seconds))

    def note_short(self, key: Hashable) -> None:
        """Record that a request of this kind was not long."""
        if self._known.get(key) is not None:
            self._known.put(key, (0.0, _FIRST_KNOWN_SECONDS / _KNOWN_GROWTH))

    async def await_end(self, slot: WorkerSlot, generation: int) -> bool:
        """Wait until the parent has reaped a process that left its requests unanswered; return whether it has."""
        end = time.monotonic() + _REAP_SECONDS
        while slot.generation == generation:
            if time.monotonic() > end:
                return False
            await asyncio.sleep(0.02)
        return True
