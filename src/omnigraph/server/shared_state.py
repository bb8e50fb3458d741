"""Memory that the processes of a server share: one slot for each worker, and the parent's orders.

It is an anonymous file of fixed size (sealed, so that no process can shrink it under another), never a mapping of a
graph's files. Every value is one 64-bit word with a single writer, which other processes read whole.
"""

import fcntl
import mmap
import os
from collections.abc import Iterator
from enum import IntEnum
from hashlib import blake2b

_WORD_BYTES = 8
_HEADER_WORDS = 16
_ACTOR_WORDS = 1_024
# An actor is looked for in this number of places only; in a table that full, it is counted by each worker alone.
_PROBES = 8
_MAX_COUNT = 0xFFFF


class ServerStage(IntEnum):
    """What the parent orders all workers to do."""

    SERVE = 0
    DRAIN = 1
    """Complete running requests, and accept no others."""
    STOP = 2
    """Cancel what runs."""


class WorkerState(IntEnum):
    """How far a worker is."""

    NONE = 0
    """There is no process."""
    STARTING = 1
    READY = 2
    """It serves requests."""
    ENDED = 3
    """It has completed its requests and closed its graphs; what is left is the end of its process."""


class _Header(IntEnum):
    STAGE = 0
    RELOADS = 1


_ACTORS = 16
_SLOT_WORDS = _ACTORS + _ACTOR_WORDS


class _Word:
    """A word of a slot as an attribute."""

    def __init__(self, place: int) -> None:
        self._place = place

    def __get__(self, slot: "WorkerSlot", _: type["WorkerSlot"]) -> int:
        value: int = slot.words[self._place]
        return value

    def __set__(self, slot: "WorkerSlot", value: int) -> None:
        slot.words[self._place] = value


class WorkerSlot:
    """The words of one worker, each read and written as a whole."""

    state = _Word(0)
    """How far the worker is, a `WorkerState`."""
    generation = _Word(1)
    """The number of processes that the slot has had; it rises when the parent has reaped one."""
    beat = _Word(2)
    """The time of the system's monotonic clock, in nanoseconds, at which its event loop last turned."""
    is_named = _Word(3)
    """Whether the parent names the worker as one that publishes the writes of branches."""
    in_flight = _Word(4)
    """The number of requests in progress."""
    is_saturated = _Word(5)
    """Whether a further call would be refused or wait for long."""
    is_verified = _Word(6)
    """Whether the worker verifies files; then the next two are what it found."""
    damaged_graphs = _Word(7)
    damaged_files = _Word(8)

    def __init__(self, words: memoryview, index: int) -> None:
        self.index = index
        self.words = words

    @property
    def is_ready(self) -> bool:
        """Whether the worker serves requests."""
        return self.state == WorkerState.READY

    def begin(self) -> None:
        """Record that the parent starts a process in this slot."""
        self.state = WorkerState.STARTING

    def reap(self) -> None:
        """Forget a process that the parent has waited for, and with it everything that it counted."""
        self.is_named = 0
        kept = self.generation
        for word in range(len(self.words)):
            self.words[word] = 0
        # Last: who waits for the end of the process may now look what it has left behind.
        self.generation = kept + 1

    def count_actor(self, actor: str, requests: int, writes: int) -> None:
        """Publish the requests and writes of an actor that are in progress in this worker."""
        place, tag = _hash_actor(actor)
        words = self.words[place : place + _PROBES]
        tags = [word >> 32 for word in words]
        # Its own place, or else a free one; where all are taken, it is not published.
        for wanted in (tag, 0):
            if wanted in tags:
                counts = min(requests, _MAX_COUNT) << 16 | min(writes, _MAX_COUNT)
                words[tags.index(wanted)] = tag << 32 | counts if counts else 0
                return

    def find_actor(self, place: int, tag: int) -> tuple[int, int]:
        """Return the requests and writes of an actor in this worker."""
        for word in self.words[place : place + _PROBES]:
            if word >> 32 == tag:
                return word >> 16 & _MAX_COUNT, word & _MAX_COUNT
        return 0, 0


class SharedState:
    """The shared memory of a server's processes."""

    def __init__(self, fd: int) -> None:
        """Map the memory of a descriptor, which is the caller's."""
        self.fd = fd
        size = os.fstat(fd).st_size
        self._words = memoryview(mmap.mmap(fd, size)).cast("q")
        count = (size // _WORD_BYTES - _HEADER_WORDS) // _SLOT_WORDS
        starts = (_HEADER_WORDS + index * _SLOT_WORDS for index in range(count))
        self.slots = tuple(WorkerSlot(self._words[start : start + _SLOT_WORDS], i) for i, start in enumerate(starts))

    @classmethod
    def create(cls, slots: int) -> "SharedState":
        """Create the memory for a number of workers."""
        fd = create_sealed_file("omnigraph-workers", bytes((_HEADER_WORDS + slots * _SLOT_WORDS) * _WORD_BYTES))
        return cls(fd)

    @property
    def stage(self) -> ServerStage:
        """What all workers are ordered to do."""
        return ServerStage(self._words[_Header.STAGE])

    @stage.setter
    def stage(self, stage: ServerStage) -> None:
        self._words[_Header.STAGE] = stage

    @property
    def reloads(self) -> int:
        """How often the workers were ordered to read tokens, policies and certificates again."""
        count: int = self._words[_Header.RELOADS]
        return count

    @reloads.setter
    def reloads(self, count: int) -> None:
        self._words[_Header.RELOADS] = count

    def iter_ready(self) -> Iterator[WorkerSlot]:
        """Yield the workers that serve requests."""
        return (slot for slot in self.slots if slot.is_ready)

    def count_actor(self, actor: str, besides: WorkerSlot) -> tuple[int, int]:
        """Return the requests and writes of an actor that are in progress in all workers but one."""
        place, tag = _hash_actor(actor)
        counts = [slot.find_actor(place, tag) for slot in self.slots if slot is not besides]
        return sum(requests for requests, _ in counts), sum(writes for _, writes in counts)


def create_sealed_file(name: str, content: bytes) -> int:
    """Return the descriptor of an anonymous file in memory with this content, whose size no process can change."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with os.fdopen(os.dup(fd), "wb") as file:
        file.write(content)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return fd


def _hash_actor(actor: str) -> tuple[int, int]:
    """Return the place of an actor in a slot, and the number that stands for its name: 31 bits, and not 0."""
    number = int.from_bytes(blake2b(actor.encode(errors="surrogatepass"), digest_size=8).digest(), "little")
    place = _ACTORS + number % (_ACTOR_WORDS - _PROBES)
    return place, (number >> 32 & 0x7FFFFFFF) or 1
