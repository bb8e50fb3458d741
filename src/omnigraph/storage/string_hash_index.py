"""A set of texts that is asked for millions of others: a hash table of positions, probed for whole blocks."""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice, starmap
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.storage.column_hashing import BLOCK_ROWS, HASHED_BYTES, Hashes, PackedTexts, measure_longest_text
from omnigraph.storage.columnar_sets import Mask, Positions, to_mask

_THREADS = 2
"""More of them wait for each other: a block is some thirty short steps, each of which asks for the interpreter."""
_NOWHERE = -1
_NONE = np.empty(0, np.int64)
_FREE_SLOT = np.uint64(0)
_HALF_BITS, _POSITION_MASK = np.uint64(32), np.uint64(0xFFFF_FFFF)
"""A slot is half of a hash, and behind it a position counted from 1, so that no slot in use is 0."""
_FILTER_SLOTS_PER_KEY = 32
"""How many places, at least, a sieve has for each key."""
MAX_PACKED_BYTES = 256 * 1024 * 1024
"""How much memory the words of all keys may take; beyond it, keys are compared by Arrow."""


class StringHashIndex:
    """Texts, each with the position where it came first. Built once, then safe to ask from several threads.

    A slot holds half of a key's hash beside the key's position, so that a wrong slot is known without another look
    into memory. What the slots find is compared with the key itself.
    """

    def __init__(self, keys: pa.Array, hashes: Hashes | None = None, *, is_rarely_hit: bool = False) -> None:
        """`hashes`, where they are known, are those that `hashes_of` gives.

        With `is_rarely_hit` it is fast for values most of which are no keys, and a little slower for others.
        """
        self._keys = keys
        self._bloom_filter = _BloomFilter(len(keys)) if is_rarely_hit else None
        words = min(-(-measure_longest_text(keys) // 8), HASHED_BYTES // 8)
        is_lean = len(keys) * (1 + words) * 8 > MAX_PACKED_BYTES
        self._packed = None if is_lean else np.zeros((len(keys), 1 + words), np.uint64)
        known = np.empty(len(keys), np.uint64) if hashes is None else hashes
        for start in range(0, len(keys), BLOCK_ROWS):
            texts = PackedTexts(keys.slice(start, BLOCK_ROWS))
            if hashes is None:
                known[start : start + len(texts.column)] = texts.compute_hashes()
            if self._packed is not None:
                texts.pack(self._packed[start : start + len(texts.column)])
            if self._bloom_filter is not None:
                self._bloom_filter.add(texts)
        first = np.arange(len(keys))
        if _has_duplicates(known):  # a repeated key, or hardly ever one that only has the hash of another
            _, first = np.unique(known, return_index=True)
        bits = max(int(4 * len(first)).bit_length(), 4)
        self._shift, self._last = np.uint64(64 - bits), (1 << bits) - 1
        self._slots = np.zeros(1 << bits, np.uint64)
        self._fill(known[first], first)

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def has_bloom_filter(self) -> bool:
        """Whether most values that are no keys are told quickly."""
        return self._bloom_filter is not None

    def find_positions(self, values: pa.Array) -> Positions:
        """For each value the position of the equal key, or -1; a null has none."""
        if self._bloom_filter is None and not values.null_count and len(self._keys):
            return self._find_in_blocks(values)
        found = np.full(len(values), _NOWHERE, np.int64)
        rows, places = self.find_hits(values)
        found[rows] = places
        return found

    def find_hits(self, values: pa.Array) -> tuple[Positions, Positions]:
        """The positions of the values that are keys, ascending, and for each that of the equal key."""
        if not len(self._keys) or not len(values):
            return _NONE, _NONE
        if values.null_count:
            rows, places = self.find_hits(values.drop_null())
            return np.flatnonzero(values.is_valid())[rows], places
        left = None if self._bloom_filter is None else self._bloom_filter.select_candidates(values)
        if left is not None and 2 * len(left) < len(values):
            places = self._find_in_blocks(values.take(pa.array(left)))
            is_hit = places >= 0
            return left[is_hit], places[is_hit]
        places = self._find_in_blocks(values)
        rows = np.flatnonzero(places >= 0)
        return rows, places[rows]

    def _find_in_blocks(self, values: pa.Array) -> Positions:
        found = np.empty(len(values), np.int64)
        for start in range(0, len(values), BLOCK_ROWS):
            block = values.slice(start, BLOCK_ROWS)
            found[start : start + len(block)] = self._find_block(block)
        return found

    def _find_block(self, values: pa.Array) -> Positions:
        texts = PackedTexts(values)
        found = self._find_candidates(texts.compute_hashes())
        hits = np.flatnonzero(found >= 0)
        if not len(hits):
            return found
        differs = hits[~self._compare_keys(values, texts, hits, found[hits])]
        if len(differs):
            found[differs] = self._find_by_scan(values.take(pa.array(differs)))
        return found

    def _find_candidates(self, hashes: Hashes) -> Positions:
        """For each hash the position of the key that most likely has it, or -1 where no key has."""
        slot = (hashes >> self._shift).view(np.int64)
        there = self._slots.take(slot)
        met = np.flatnonzero(there)  # what meets a free slot is no key
        if 2 * len(met) > len(there):
            return self._probe_slots(hashes, slot, there)
        found = np.full(len(hashes), _NOWHERE, np.int64)
        found[met] = self._probe_slots(hashes[met], slot[met], there[met])
        return found

    def _probe_slots(self, hashes: Hashes, slot: Positions, there: Hashes) -> Positions:
        """The same, from the first slot of each and what is there on."""
        mark = hashes << _HALF_BITS
        rest = there ^ mark  # of the right key only its place is left
        open_ = np.flatnonzero((rest > _POSITION_MASK) & (there != _FREE_SLOT))
        while len(open_):
            slot[open_] = (slot[open_] + 1) & self._last
            there = self._slots.take(slot[open_])
            rest[open_] = there ^ mark[open_]
            open_ = open_[(rest[open_] > _POSITION_MASK) & (there != _FREE_SLOT)]
        # What met a free slot is its own mark still, which may be 0: then it says -1 as well.
        return np.where(rest > _POSITION_MASK, _NOWHERE, rest.view(np.int64) - 1)

    def _compare_keys(self, values: pa.Array, texts: PackedTexts, rows: Positions, places: Positions) -> Mask:
        """For each of these rows of the values whether it is the key at that place."""
        chosen = slice(None) if len(rows) == len(values) else rows
        if self._packed is None:
            asked = values if len(rows) == len(values) else values.take(pa.array(rows))
            return to_mask(pc.equal(self._keys.take(pa.array(places)), asked))
        there = self._packed.take(places, axis=0)
        lengths = texts.lengths[chosen]
        is_same: Mask = np.equal(there[:, 0], lengths.view(np.uint64))
        for number in range(min(texts.word_count, there.shape[1] - 1)):
            is_same &= there[:, 1 + number] == texts.get_word(number)[chosen]
        if texts.longest > HASHED_BYTES:
            long = np.flatnonzero(is_same & (lengths > HASHED_BYTES))
            keys = self._keys.take(pa.array(places[long]))
            is_same[long] = to_mask(pc.equal(keys, values.take(pa.array(rows[long]))))
        return is_same

    def _find_by_scan(self, values: pa.Array) -> Positions:
        """Values that a slot led to another key: they may still be one."""
        found = pc.index_in(values, value_set=self._keys, skip_nulls=True)
        return np.asarray(pc.fill_null(found, _NOWHERE)).astype(np.int64)

    def _fill(self, hashes: Hashes, positions: Positions) -> None:
        slot = (hashes >> self._shift).view(np.int64)
        entry = hashes << _HALF_BITS | (positions + 1).view(np.uint64)
        while len(entry):
            is_free = self._slots[slot] == _FREE_SLOT
            self._slots[slot[is_free]] = entry[is_free]
            is_left = self._slots[slot] != entry
            entry, slot = entry[is_left], (slot[is_left] + 1) & self._last


class _BloomFilter:
    """Tells of most values that are no keys, by no more than a look at their ends."""

    def __init__(self, keys: int) -> None:
        bits = max(int(_FILTER_SLOTS_PER_KEY * keys).bit_length(), 4)
        self._shift = np.uint64(64 - bits)
        self._is_used: Mask = np.zeros(1 << bits, np.bool_)

    def add(self, texts: PackedTexts) -> None:
        """These are keys."""
        self._is_used[self._find_slots(texts)] = True

    def select_candidates(self, values: pa.Array) -> Positions:
        """The positions of those that may be keys."""
        is_left = np.empty(len(values), np.bool_)
        for start in range(0, len(values), BLOCK_ROWS):
            block = values.slice(start, BLOCK_ROWS)
            self._is_used.take(
                self._find_slots(PackedTexts(block)), out=is_left[start : start + len(block)], mode="clip"
            )
        return np.flatnonzero(is_left)

    def _find_slots(self, texts: PackedTexts) -> Positions:
        return (texts.hash_ends() >> self._shift).view(np.int64)


def _has_duplicates(hashes: Hashes) -> bool:
    ordered = np.sort(hashes)
    return bool((ordered[1:] == ordered[:-1]).any())


Mark = TypeVar("Mark")


@dataclass(frozen=True, slots=True)
class KeyHits(Generic[Mark]):
    """Which values of a column are keys."""

    mark: Mark
    """What the column was given with."""
    column: pa.Array
    rows: Positions
    """The positions of these values in the column, ascending."""
    key_positions: Positions
    """For each of them the position of the equal key."""


def iter_hits(columns: Iterable[tuple[Mark, pa.Array]], keys: StringHashIndex) -> Iterator[KeyHits[Mark]]:
    """For each column, given with something to know it by, those of its values that are keys; in order.

    Threads work on some columns at once, but not where most values are told by a look at their ends: that is quicker
    than handing it over.
    """

    def of(mark: Mark, column: pa.Array) -> KeyHits[Mark]:
        return KeyHits(mark, column, *keys.find_hits(column))

    given = iter(columns)
    if keys.has_bloom_filter:
        yield from starmap(of, given)
        return
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="omnigraph-keys") as pool:
        waiting = deque(pool.submit(of, *one) for one in islice(given, 2 * _THREADS))
        while waiting:
            done = waiting.popleft().result()
            waiting.extend(pool.submit(of, *one) for one in islice(given, 1))
            yield done


def iter_with_offsets(columns: Iterable[pa.Array]) -> Iterator[tuple[int, pa.Array]]:
    """Each column with the position of its first value."""
    start = 0
    for column in columns:
        yield start, column
        start += len(column)
