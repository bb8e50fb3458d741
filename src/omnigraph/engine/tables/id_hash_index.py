"""From an id to its position: a hash table in arrays, for look-ups in columns of millions of ids."""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.engine.tables.csr import Ints, choose_position_type
from omnigraph.storage.arrow_buffers import build_array, read_booleans

_WORD_BYTES: Final = 8
_MIX_FACTOR: Final = 0x9E3779B97F4A7C15
_UINT64_MASK: Final = 2**64 - 1
_MASKS: Final = np.array([(1 << (_WORD_BYTES * length)) - 1 for length in range(_WORD_BYTES + 1)], np.uint64)
"""By the number of bytes that count, the part of a word that does."""
_CHUNK_IDS: Final = 262_144
"""So many ids are hashed at once: their words then stay in the processor's cache."""


class IdHashIndex:
    """The positions of distinct ids. A hash only proposes a position: the ids themselves are compared."""

    def __init__(self, ids: pa.Array, at: NDArray[np.int64] | None = None) -> None:
        """Index `ids`, or only those at some places."""
        self._ids = ids
        self._offsets, self._bytes = _get_buffers(ids)
        self._hashes = hash_ids(ids)
        places = np.arange(len(ids), dtype=np.int64) if at is None else at
        bits = max(4, (2 * len(places)).bit_length())
        self._shift, self._last = 64 - bits, (1 << bits) - 1
        self._slots = self._fill(places)

    @property
    def nbytes(self) -> int:
        """The memory it takes beside the ids."""
        return self._hashes.nbytes + self._slots.nbytes

    def _fill(self, places: NDArray[np.int64]) -> Ints:
        slots = np.full(self._last + 1, -1, choose_position_type(len(self._ids)))
        wanted = (self._hashes[places] >> np.uint64(self._shift)).astype(np.int64)
        while len(places):
            free = slots[wanted] < 0
            slots[wanted[free]] = places[free]
            lost = slots[wanted] != places  # taken before, or by another one of this round
            places, wanted = places[lost], (wanted[lost] + 1) & self._last
        return slots

    def find_id(self, wanted: str) -> int:
        """The position of an id, or -1."""
        data = wanted.encode()
        found_hash = _hash_text(data)
        slot = found_hash >> self._shift
        while True:
            place = int(self._slots[slot])
            if place < 0:
                return -1
            if int(self._hashes[place]) == found_hash:
                start, end = int(self._offsets[place]), int(self._offsets[place + 1])
                if self._bytes[start:end] == data:
                    return place
            slot = (slot + 1) & self._last

    def find(self, wanted: pa.Array) -> NDArray[np.int64]:
        """The position of each id, -1 where there is none; none of them is null."""
        found = np.full(len(wanted), -1, np.int64)
        if not len(self._ids):
            return found
        asked = hash_ids(wanted)
        slots = (asked >> np.uint64(self._shift)).astype(np.int64)
        open_ = np.arange(len(wanted))
        while len(open_):
            places = self._slots[slots[open_]]
            hit = (places >= 0) & (self._hashes[places] == asked[open_])
            at = open_[hit]
            # Two ids may share a hash: a hit that is another id goes on with the next slot.
            same = pc.equal(self._ids.take(build_array(places[hit])), wanted.take(build_array(at)))
            equal = read_booleans(same)
            found[at[equal]] = places[hit][equal]
            open_ = open_[(places >= 0) & (found[open_] < 0)]
            slots[open_] = (slots[open_] + 1) & self._last
        return found


def hash_ids(ids: pa.Array) -> NDArray[np.uint64]:
    """A 64-bit hash of each text; nulls count as empty."""
    offsets, data = _get_buffers(ids)
    raw = np.frombuffer(data, np.uint8)
    padded = np.zeros(len(raw) + _WORD_BYTES, np.uint8)  # the last text may end in the middle of a word
    padded[: len(raw)] = raw
    words: NDArray[np.uint64] = np.ndarray((len(padded) - _WORD_BYTES + 1,), np.uint64, padded.data, 0, (1,))
    found = np.empty(len(ids), np.uint64)
    for start in range(0, len(ids), _CHUNK_IDS):
        part = offsets[start : start + _CHUNK_IDS + 1]
        found[start : start + _CHUNK_IDS] = _hash_words(words, part[:-1], np.diff(part))
    return found


def _hash_words(words: NDArray[np.uint64], starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.uint64]:
    found = lengths.astype(np.uint64) * np.uint64(_MIX_FACTOR)
    shortest, longest = int(lengths.min()), int(lengths.max())
    for done in range(0, longest, _WORD_BYTES):
        some = slice(None) if done < shortest else np.flatnonzero(lengths > done)
        word = words[starts[some] + done]
        if done + _WORD_BYTES > shortest:
            word &= _MASKS[np.minimum(lengths[some] - done, _WORD_BYTES)]
        mixed = (found[some] ^ word) * np.uint64(_MIX_FACTOR)
        found[some] = mixed ^ (mixed >> np.uint64(32))
    found *= np.uint64(_MIX_FACTOR)
    return found ^ (found >> np.uint64(29))


def _hash_text(data: bytes) -> int:
    """The same hash of one text."""
    found = (len(data) * _MIX_FACTOR) & _UINT64_MASK
    for done in range(0, len(data), _WORD_BYTES):
        mixed = ((found ^ int.from_bytes(data[done : done + _WORD_BYTES], "little")) * _MIX_FACTOR) & _UINT64_MASK
        found = mixed ^ (mixed >> 32)
    found = (found * _MIX_FACTOR) & _UINT64_MASK
    return found ^ (found >> 29)


def _get_buffers(ids: pa.Array) -> tuple[NDArray[np.int64], memoryview]:
    """Where each text starts and ends, and the bytes of all."""
    kind = np.int64 if pa.types.is_large_string(ids.type) else np.int32
    if not len(ids):
        return np.zeros(1, np.int64), memoryview(b"")
    _, offsets, data = ids.buffers()
    places = np.frombuffer(offsets, kind)[ids.offset : ids.offset + len(ids) + 1].astype(np.int64)
    return places, memoryview(b"" if data is None else data).cast("B")
