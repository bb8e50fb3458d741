"""A set of texts that is asked for millions of others: a hash table of positions, probed for whole blocks."""

from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.storage.column_sets import Mask, Positions, mask_of
from omnigraph.storage.hashing import BLOCK_ROWS, HASHED_BYTES, Hashes, Texts, longest_text, seeded

_THREADS = 4
_EMPTY = -1
PACKED_BYTES = 256 * 1024 * 1024
"""How much memory the words of all keys may take; beyond it, keys are compared by Arrow."""


class KeySet:
    """Texts, each with the position where it came first. Built once, then safe to ask from several threads."""

    def __init__(self, keys: pa.Array) -> None:
        self._keys = keys
        self._hashes = np.empty(len(keys), np.uint64)
        words = min(-(-longest_text(keys) // 8), HASHED_BYTES // 8)
        is_lean = len(keys) * (1 + words) * 8 > PACKED_BYTES
        self._packed = None if is_lean else np.zeros((len(keys), 1 + words), np.uint64)
        for start in range(0, len(keys), BLOCK_ROWS):
            texts = Texts(keys.slice(start, BLOCK_ROWS))
            self._hashes[start : start + len(texts.column)] = seeded(texts.hashes())
            if self._packed is not None:
                texts.pack(self._packed[start : start + len(texts.column)])
        self._others = pa.array([], pa.int64())
        first = np.arange(len(keys))
        if _has_equal(self._hashes):
            _, first = np.unique(self._hashes, return_index=True)
            self._others = self._clashing(first)
        bits = max(int(2 * len(first)).bit_length(), 4)
        self._shift, self._last = np.uint64(64 - bits), (1 << bits) - 1
        self._slots = np.full(1 << bits, _EMPTY, np.int32)
        self._fill(first.astype(np.int32))

    def __len__(self) -> int:
        return len(self._keys)

    def places(self, values: pa.Array) -> Positions:
        """For each value the position of the equal key, or -1; a null has none."""
        found = np.full(len(values), _EMPTY, np.int64)
        for start in range(0, len(values) if len(self._keys) else 0, BLOCK_ROWS):
            block = values.slice(start, BLOCK_ROWS)
            found[start : start + len(block)] = self._block_places(block)
        return found

    def _block_places(self, values: pa.Array) -> Positions:
        if values.null_count:
            is_given = np.flatnonzero(values.is_valid())
            places = np.full(len(values), _EMPTY, np.int64)
            places[is_given] = self._block_places(values.drop_null())
            return places
        texts = Texts(values)
        hashes = seeded(texts.hashes())
        slot = (hashes >> self._shift).astype(np.int64)
        found = self._slots[slot].astype(np.int64)
        open_ = np.flatnonzero((found >= 0) & (self._hashes[found] != hashes))
        while len(open_):
            slot[open_] = (slot[open_] + 1) & self._last
            there = self._slots[slot[open_]]
            found[open_] = there
            open_ = open_[(there >= 0) & (self._hashes[there] != hashes[open_])]
        is_hit = found >= 0
        differs = np.flatnonzero(is_hit & ~self._are(values, texts, np.where(is_hit, found, 0)))
        if len(differs):
            found[differs] = self._slowly(values.take(pa.array(differs)))
        return found

    def _are(self, values: pa.Array, texts: Texts, places: Positions) -> Mask:
        """For each value whether it is the key at that place."""
        if self._packed is None:
            return mask_of(pc.equal(self._keys.take(pa.array(places)), values))
        there = self._packed.take(places, axis=0)
        is_same: Mask = np.equal(there[:, 0], texts.lengths.astype(np.uint64))
        for number in range(min(texts.word_count, there.shape[1] - 1)):
            is_same &= there[:, 1 + number] == texts.word(number)
        if texts.longest > HASHED_BYTES:
            long = np.flatnonzero(is_same & (texts.lengths > HASHED_BYTES))
            keys = self._keys.take(pa.array(places[long]))
            is_same[long] = mask_of(pc.equal(keys, values.take(pa.array(long))))
        return is_same

    def _slowly(self, values: pa.Array) -> Positions:
        """Values whose hash is that of another key: they may be one of the keys that share a hash."""
        if not len(self._others):
            return np.full(len(values), _EMPTY, np.int64)
        found = pc.index_in(values, value_set=self._keys.take(self._others), skip_nulls=True)
        return np.asarray(pc.fill_null(self._others.take(found), _EMPTY)).astype(np.int64)

    def _clashing(self, first: Positions) -> pa.Array:
        """The positions of the keys that have the hash of a different one: hardly ever any."""
        order = np.argsort(self._hashes[first])
        earliest = first[order][np.searchsorted(self._hashes[first][order], self._hashes)]
        later = np.flatnonzero(earliest != np.arange(len(earliest)))
        differs = pc.not_equal(self._keys.take(pa.array(later)), self._keys.take(pa.array(earliest[later])))
        return pa.array(later).filter(differs)

    def _fill(self, positions: np.ndarray[tuple[int], np.dtype[np.int32]]) -> None:
        slot = (self._hashes[positions] >> self._shift).astype(np.int64)
        while len(positions):
            is_free = self._slots[slot] == _EMPTY
            self._slots[slot[is_free]] = positions[is_free]
            is_left = self._slots[slot] != positions
            positions, slot = positions[is_left], (slot[is_left] + 1) & self._last


def _has_equal(hashes: Hashes) -> bool:
    ordered = np.sort(hashes)
    return bool((ordered[1:] == ordered[:-1]).any())


def in_threads(work: "Iterable[pa.Array]", keys: KeySet) -> Iterator[Mask]:
    """For each column in turn, which of its values are keys; some columns are worked on at once."""
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="omnigraph-keys") as pool:
        columns = iter(work)
        waiting: list[Future[Positions]] = [pool.submit(keys.places, one) for one in islice(columns, 2 * _THREADS)]
        while waiting:
            done = waiting.pop(0).result()
            waiting += [pool.submit(keys.places, one) for one in islice(columns, 1)]
            yield done >= 0
