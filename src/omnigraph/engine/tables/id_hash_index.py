"""An open-addressing hash index from ids to positions, in numpy arrays, for columns of millions of ids."""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.engine.tables.csr import Ints, choose_position_type
from omnigraph.storage.arrow_buffers import build_array, read_booleans

_WORD_BYTES: Final = 8
# 2^64 divided by the golden ratio: the usual odd multiplier of Fibonacci hashing.
_MIX_FACTOR: Final = 0x9E3779B97F4A7C15
_UINT64_MASK: Final = 2**64 - 1
# The bits of a word that belong to the text, by the number of its bytes that do.
_MASKS: Final = np.array([(1 << (_WORD_BYTES * length)) - 1 for length in range(_WORD_BYTES + 1)], np.uint64)
# This number of ids is hashed per pass: their words then stay in the processor's cache.
_CHUNK_IDS: Final = 262_144


class IdHashIndex:
    """A hash index of distinct ids with linear probing; ids with equal hashes are compared."""

    def __init__(self, ids: pa.Array, at: NDArray[np.int64] | None = None) -> None:
        """Index all ids, or only those at the positions `at`."""
        self._ids = ids
        self._offsets, self._bytes = _get_buffers(ids)
        self._hashes = hash_ids(ids)
        positions = np.arange(len(ids), dtype=np.int64) if at is None else at
        # More than twice as many slots as ids keeps probe sequences short. The high bits of a hash select the slot.
        bits = max(4, (2 * len(positions)).bit_length())
        self._shift = 64 - bits
        self._slot_mask = (1 << bits) - 1
        self._slots = self._fill_slots(positions)

    @property
    def nbytes(self) -> int:
        """The size in memory, without the ids."""
        return self._hashes.nbytes + self._slots.nbytes

    def _fill_slots(self, positions: NDArray[np.int64]) -> Ints:
        slots = np.full(self._slot_mask + 1, -1, choose_position_type(len(self._ids)))
        candidates = (self._hashes[positions] >> np.uint64(self._shift)).astype(np.int64)
        while len(positions):
            free = slots[candidates] < 0
            slots[candidates[free]] = positions[free]
            # A slot may have been occupied before, or by another id of this round: those ids probe the next slot.
            is_left = slots[candidates] != positions
            positions = positions[is_left]
            candidates = (candidates[is_left] + 1) & self._slot_mask
        return slots

    def find_id(self, text: str) -> int:
        """Return the position of an id, or -1."""
        data = text.encode()
        text_hash = _hash_text(data)
        slot = text_hash >> self._shift
        while True:
            position = int(self._slots[slot])
            if position < 0:
                return -1
            if int(self._hashes[position]) == text_hash:
                start = int(self._offsets[position])
                end = int(self._offsets[position + 1])
                if self._bytes[start:end] == data:
                    return position
            slot = (slot + 1) & self._slot_mask

    def find(self, ids: pa.Array) -> NDArray[np.int64]:
        """Return the position of each id, -1 for those that do not exist. No id may be null."""
        positions = np.full(len(ids), -1, np.int64)
        if not len(self._ids):
            return positions
        hashes = hash_ids(ids)
        slots = (hashes >> np.uint64(self._shift)).astype(np.int64)
        open_ = np.arange(len(ids))
        while len(open_):
            candidates = self._slots[slots[open_]]
            hit = (candidates >= 0) & (self._hashes[candidates] == hashes[open_])
            at = open_[hit]
            # Two ids may share a hash: a hit that is another id continues with the next slot.
            is_equal = pc.equal(self._ids.take(build_array(candidates[hit])), ids.take(build_array(at)))
            matches = read_booleans(is_equal)
            positions[at[matches]] = candidates[hit][matches]
            open_ = open_[(candidates >= 0) & (positions[open_] < 0)]
            slots[open_] = (slots[open_] + 1) & self._slot_mask
        return positions


def hash_ids(ids: pa.Array) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each text; null counts as empty."""
    offsets, data = _get_buffers(ids)
    raw = np.frombuffer(data, np.uint8)
    # The last text may end in the middle of a word.
    padded = np.zeros(len(raw) + _WORD_BYTES, np.uint8)
    padded[: len(raw)] = raw
    # A view with a stride of one byte: `words[n]` is the word that starts at byte n.
    words: NDArray[np.uint64] = np.ndarray((len(padded) - _WORD_BYTES + 1,), np.uint64, padded.data, 0, (1,))
    hashes = np.empty(len(ids), np.uint64)
    for start in range(0, len(ids), _CHUNK_IDS):
        part = offsets[start : start + _CHUNK_IDS + 1]
        hashes[start : start + _CHUNK_IDS] = _hash_words(words, part[:-1], np.diff(part))
    return hashes


def _hash_words(words: NDArray[np.uint64], starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.uint64]:
    hashes = lengths.astype(np.uint64) * np.uint64(_MIX_FACTOR)
    shortest = int(lengths.min())
    longest = int(lengths.max())
    for done in range(0, longest, _WORD_BYTES):
        selection = slice(None) if done < shortest else np.flatnonzero(lengths > done)
        word = words[starts[selection] + done]
        if done + _WORD_BYTES > shortest:
            word &= _MASKS[np.minimum(lengths[selection] - done, _WORD_BYTES)]
        mixed = (hashes[selection] ^ word) * np.uint64(_MIX_FACTOR)
        hashes[selection] = mixed ^ (mixed >> np.uint64(32))
    hashes *= np.uint64(_MIX_FACTOR)
    return hashes ^ (hashes >> np.uint64(29))


def _hash_text(data: bytes) -> int:
    """Return the same hash as `hash_ids` for one text."""
    result = (len(data) * _MIX_FACTOR) & _UINT64_MASK
    for done in range(0, len(data), _WORD_BYTES):
        mixed = ((result ^ int.from_bytes(data[done : done + _WORD_BYTES], "little")) * _MIX_FACTOR) & _UINT64_MASK
        result = mixed ^ (mixed >> 32)
    result = (result * _MIX_FACTOR) & _UINT64_MASK
    return result ^ (result >> 29)


def _get_buffers(ids: pa.Array) -> tuple[NDArray[np.int64], memoryview]:
    """Return the offsets of texts, where each starts and ends, and the bytes of all."""
    dtype = np.int64 if pa.types.is_large_string(ids.type) else np.int32
    if not len(ids):
        return np.zeros(1, np.int64), memoryview(b"")
    _, offsets, data = ids.buffers()
    bounds = np.frombuffer(offsets, dtype)[ids.offset : ids.offset + len(ids) + 1].astype(np.int64)
    return bounds, memoryview(b"" if data is None else data).cast("B")
