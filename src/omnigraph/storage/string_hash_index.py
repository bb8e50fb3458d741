"""Look up millions of texts in a hash index of keys: an open-addressing hash table that is probed block by block."""

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

# More threads wait for each other: a block takes about thirty short steps, and each of them needs the interpreter lock.
_THREADS = 2
_NOT_FOUND = -1
_NO_POSITIONS = np.empty(0, np.int64)
_FREE_SLOT = np.uint64(0)
# A slot has the lower half of a hash in its upper bits and a position in its lower ones. Positions count from 1, so no
# slot in use is 0.
_HALF_BITS, _POSITION_MASK = np.uint64(32), np.uint64(0xFFFF_FFFF)
# At least this number of slots per key keeps false positives rare.
_FILTER_SLOTS_PER_KEY = 32
# The memory limit for the packed words of all keys. With more, keys are compared by Arrow.
MAX_PACKED_BYTES = 256 * 1024 * 1024


class StringHashIndex:
    """A hash index of texts by the position of their first occurrence. Lookups are thread-safe.

    A slot has half of a key's hash beside the key's position, so that most collisions are detected without another
    memory access. Candidates are then compared with the key itself.
    """

    def __init__(self, keys: pa.Array, hashes: Hashes | None = None, *, is_rarely_hit: bool = False) -> None:
        """Build the index. `hashes`, if the caller has them, are those of `hash_rows` over the keys.

        With `is_rarely_hit`, a Bloom filter makes lookups fast if most values are no keys, and a little slower if not.
        """
        self._keys = keys
        self._bloom_filter = _BloomFilter(len(keys)) if is_rarely_hit else None
        words = min(-(-measure_longest_text(keys) // 8), HASHED_BYTES // 8)
        is_too_large = len(keys) * (1 + words) * 8 > MAX_PACKED_BYTES
        self._packed = None if is_too_large else np.zeros((len(keys), 1 + words), np.uint64)
        key_hashes = np.empty(len(keys), np.uint64) if hashes is None else hashes
        for start in range(0, len(keys), BLOCK_ROWS):
            texts = PackedTexts(keys.slice(start, BLOCK_ROWS))
            if hashes is None:
                key_hashes[start : start + len(texts.column)] = texts.compute_hashes()
            if self._packed is not None:
                texts.pack(self._packed[start : start + len(texts.column)])
            if self._bloom_filter is not None:
                self._bloom_filter.add(texts)
        first = np.arange(len(keys))
        # A repeated key, or very rarely two keys with the same hash: `_find_by_scan` finds the one that is left out.
        if _has_duplicates(key_hashes):
            _, first = np.unique(key_hashes, return_index=True)
        # At least four slots per key, and a power of two, so that the highest bits of a hash are its slot.
        bits = max(int(4 * len(first)).bit_length(), 4)
        self._shift = np.uint64(64 - bits)
        self._last_slot = (1 << bits) - 1
        self._slots = np.zeros(1 << bits, np.uint64)
        self._fill_slots(key_hashes[first], first)

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def has_bloom_filter(self) -> bool:
        """Whether a Bloom filter rejects most values that are no keys."""
        return self._bloom_filter is not None

    def find_positions(self, values: pa.Array) -> Positions:
        """Return the position of the equal key for each value, or -1 if there is none; nulls are never found."""
        if self._bloom_filter is None and not values.null_count and len(self._keys):
            return self._find_in_blocks(values)
        positions = np.full(len(values), _NOT_FOUND, np.int64)
        rows, key_positions = self.find_hits(values)
        positions[rows] = key_positions
        return positions

    def find_hits(self, values: pa.Array) -> tuple[Positions, Positions]:
        """Return the ascending positions of the values that are keys, and the position of the equal key for each."""
        if not len(self._keys) or not len(values):
            return _NO_POSITIONS, _NO_POSITIONS
        if values.null_count:
            rows, key_positions = self.find_hits(values.drop_null())
            return np.flatnonzero(values.is_valid())[rows], key_positions
        candidates = None if self._bloom_filter is None else self._bloom_filter.select_candidates(values)
        # Copying the candidates pays off only if they are few.
        if candidates is not None and 2 * len(candidates) < len(values):
            key_positions = self._find_in_blocks(values.take(pa.array(candidates)))
            is_hit = key_positions >= 0
            return candidates[is_hit], key_positions[is_hit]
        key_positions = self._find_in_blocks(values)
        rows = np.flatnonzero(key_positions >= 0)
        return rows, key_positions[rows]

    def _find_in_blocks(self, values: pa.Array) -> Positions:
        positions = np.empty(len(values), np.int64)
        for start in range(0, len(values), BLOCK_ROWS):
            block = values.slice(start, BLOCK_ROWS)
            positions[start : start + len(block)] = self._find_block(block)
        return positions

    def _find_block(self, values: pa.Array) -> Positions:
        texts = PackedTexts(values)
        positions = self._find_candidates(texts.compute_hashes())
        hits = np.flatnonzero(positions >= 0)
        if not len(hits):
            return positions
        differing = hits[~self._compare_keys(values, texts, hits, positions[hits])]
        # The candidate has the same half of a hash and is another text, but the value may still be a key.
        if len(differing):
            positions[differing] = self._find_by_scan(values.take(pa.array(differing)))
        return positions

    def _find_candidates(self, hashes: Hashes) -> Positions:
        """Return the position of a key with the same half of each hash, or -1 if there is none."""
        slots = (hashes >> self._shift).view(np.int64)
        entries = self._slots.take(slots)
        # A hash whose first slot is free is not that of a key.
        occupied = np.flatnonzero(entries)
        if 2 * len(occupied) > len(entries):
            return self._probe_slots(hashes, slots, entries)
        positions = np.full(len(hashes), _NOT_FOUND, np.int64)
        positions[occupied] = self._probe_slots(hashes[occupied], slots[occupied], entries[occupied])
        return positions

    def _probe_slots(self, hashes: Hashes, slots: Positions, entries: Hashes) -> Positions:
        """Return the candidates of `_find_candidates` by linear probing from the first slots and their entries."""
        tags = hashes << _HALF_BITS
        # If the halves are equal, XOR clears the upper bits, and the position is left.
        rest = entries ^ tags
        pending = np.flatnonzero((rest > _POSITION_MASK) & (entries != _FREE_SLOT))
        while len(pending):
            slots[pending] = (slots[pending] + 1) & self._last_slot
            entries = self._slots.take(slots[pending])
            rest[pending] = entries ^ tags[pending]
            pending = pending[(rest[pending] > _POSITION_MASK) & (entries != _FREE_SLOT)]
        # At a free slot the rest is the tag itself, which exceeds the mask unless it is 0: then 0 - 1 is -1 as well.
        return np.where(rest > _POSITION_MASK, _NOT_FOUND, rest.view(np.int64) - 1)

    def _compare_keys(self, values: pa.Array, texts: PackedTexts, rows: Positions, key_positions: Positions) -> Mask:
        """Return for each of these rows of `values` whether it equals the key at its key position."""
        selection = slice(None) if len(rows) == len(values) else rows
        if self._packed is None:
            selected = values if len(rows) == len(values) else values.take(pa.array(rows))
            return to_mask(pc.equal(self._keys.take(pa.array(key_positions)), selected))
        packed = self._packed.take(key_positions, axis=0)
        lengths = texts.lengths[selection]
        is_same: Mask = np.equal(packed[:, 0], lengths.view(np.uint64))
        for number in range(min(texts.word_count, packed.shape[1] - 1)):
            is_same &= packed[:, 1 + number] == texts.get_word(number)[selection]
        # Only the beginning of a long text is packed, so long texts are compared by Arrow.
        if texts.longest > HASHED_BYTES:
            long = np.flatnonzero(is_same & (lengths > HASHED_BYTES))
            keys = self._keys.take(pa.array(key_positions[long]))
            is_same[long] = to_mask(pc.equal(keys, values.take(pa.array(rows[long]))))
        return is_same

    def _find_by_scan(self, values: pa.Array) -> Positions:
        """Return the position of the equal key for each value, or -1, without using hashes."""
        positions = pc.index_in(values, value_set=self._keys, skip_nulls=True)
        return np.asarray(pc.fill_null(positions, _NOT_FOUND)).astype(np.int64)

    def _fill_slots(self, hashes: Hashes, positions: Positions) -> None:
        slots = (hashes >> self._shift).view(np.int64)
        entries = hashes << _HALF_BITS | (positions + 1).view(np.uint64)
        # Each round writes all entries whose slot is free. Of several with the same slot one wins; the others, and
        # those whose slot was taken, try the next slot.
        while len(entries):
            is_free = self._slots[slots] == _FREE_SLOT
            self._slots[slots[is_free]] = entries[is_free]
            is_pending = self._slots[slots] != entries
            entries = entries[is_pending]
            slots = (slots[is_pending] + 1) & self._last_slot


class _BloomFilter:
    """A Bloom filter with one hash function, which reads only the last eight bytes of a text."""

    def __init__(self, keys: int) -> None:
        bits = max(int(_FILTER_SLOTS_PER_KEY * keys).bit_length(), 4)
        self._shift = np.uint64(64 - bits)
        self._is_used: Mask = np.zeros(1 << bits, np.bool_)

    def add(self, texts: PackedTexts) -> None:
        """Add keys."""
        self._is_used[self._find_slots(texts)] = True

    def select_candidates(self, values: pa.Array) -> Positions:
        """Return the positions of the values that may be keys."""
        is_candidate = np.empty(len(values), np.bool_)
        for start in range(0, len(values), BLOCK_ROWS):
            block = values.slice(start, BLOCK_ROWS)
            slots = self._find_slots(PackedTexts(block))
            # All slots are in range, so that "clip" changes none; with the default mode NumPy would buffer `out`.
            self._is_used.take(slots, out=is_candidate[start : start + len(block)], mode="clip")
        return np.flatnonzero(is_candidate)

    def _find_slots(self, texts: PackedTexts) -> Positions:
        return (texts.hash_ends() >> self._shift).view(np.int64)


def _has_duplicates(hashes: Hashes) -> bool:
    ordered = np.sort(hashes)
    return bool((ordered[1:] == ordered[:-1]).any())


Mark = TypeVar("Mark")


@dataclass(frozen=True, slots=True)
class KeyHits(Generic[Mark]):
    """The values of a column that are keys."""

    mark: Mark
    """The caller's mark of the column."""
    column: pa.Array
    rows: Positions
    """The positions of these values in the column, ascending."""
    key_positions: Positions
    """The position of the equal key for each of them."""


def iter_hits(columns: Iterable[tuple[Mark, pa.Array]], keys: StringHashIndex) -> Iterator[KeyHits[Mark]]:
    """Yield the values of each column that are keys, in the order of the columns, each with its caller's mark."""

    def find_hits(mark: Mark, column: pa.Array) -> KeyHits[Mark]:
        return KeyHits(mark, column, *keys.find_hits(column))

    marked = iter(columns)
    # A Bloom filter rejects most values faster than a column can be handed to a thread.
    if keys.has_bloom_filter:
        yield from starmap(find_hits, marked)
        return
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="omnigraph-keys") as pool:
        # At most two columns per thread are in memory, however many there are.
        pending = deque(pool.submit(find_hits, *item) for item in islice(marked, 2 * _THREADS))
        while pending:
            hits = pending.popleft().result()
            pending.extend(pool.submit(find_hits, *item) for item in islice(marked, 1))
            yield hits


def iter_with_offsets(columns: Iterable[pa.Array]) -> Iterator[tuple[int, pa.Array]]:
    """Yield each column with the position of its first value."""
    start = 0
    for column in columns:
        yield start, column
        start += len(column)
