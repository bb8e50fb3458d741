"""Hashes of whole columns. Equal rows have equal hashes; rows with equal hashes still have to be compared."""

import secrets
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Hashes = npt.NDArray[np.uint64]

BLOCK_ROWS = 32_768
"""So many rows at a time, so that what is worked on stays in the processor's cache."""

_SEED = np.uint64(secrets.randbits(64))
"""Nobody can prepare texts that all have one hash."""
_FACTOR = np.uint64(0xFF51AFD7ED558CCD)
_END_FACTOR = np.uint64(secrets.randbits(64) | 1)
_SHIFT = np.uint64(32)
_BYTE_MASKS = np.array([(1 << 8 * count) - 1 for count in range(9)], np.uint64)
"""By a number of bytes, the bits that they have in a word."""
HASHED_BYTES = 64
"""How much of the beginning of a text is looked at as words. Of a longer one, as much of its end is hashed too."""
_TEXT_TYPES = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())


def hash_rows(columns: Sequence[pa.Array | pa.ChunkedArray], seed: np.uint64 = _SEED) -> Hashes:
    """A hash for each row of columns without nulls; of a single column of texts, what `PackedTexts.hashes` gives.

    With a seed of the caller's, hashes of several processes can be compared.
    """
    total = np.empty(len(columns[0]), np.uint64)
    for number, column in enumerate(columns):
        start = 0
        for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
            for at in range(0, len(chunk), BLOCK_ROWS):
                block = chunk.slice(at, BLOCK_ROWS)
                own = (
                    PackedTexts(block).compute_hashes(seed)
                    if block.type in _TEXT_TYPES
                    else _mix(_hash_numbers(block) ^ seed)
                )
                rows = slice(start, start + len(block))
                total[rows] = _mix(total[rows] ^ own) if number else own
                start += len(block)
    return total


def _mix(words: Hashes) -> Hashes:
    """Words of their own memory, in which every bit now depends on many."""
    words *= _FACTOR
    words ^= words >> _SHIFT
    return words


def _hash_numbers(column: pa.Array) -> Hashes:
    if pa.types.is_boolean(column.type):
        return np.asarray(column.cast(pa.uint8())).astype(np.uint64)
    if pa.types.is_floating(column.type):
        return np.asarray(column.cast(pa.float64())).view(np.uint64)
    width = pa.int32() if column.type.bit_width == 32 else pa.int64()
    return np.asarray(column.view(width)).astype(np.int64).view(np.uint64)


def measure_longest_text(column: pa.Array) -> int:
    """How many bytes the longest text has."""
    return int(pc.max(pc.binary_length(column)).as_py() or 0)


class PackedTexts:
    """A column of texts without nulls as machine words: eight bytes of every text at a time."""

    def __init__(self, column: pa.Array) -> None:
        self.column = column
        wide = np.dtype(np.int64 if column.type in (pa.large_string(), pa.large_binary()) else np.int32)
        _, offset_buffer, byte_buffer = column.buffers()
        bounds = np.frombuffer(offset_buffer, wide)[column.offset : column.offset + len(column) + 1].astype(np.int64)
        first, last = (int(bounds[0]), int(bounds[-1])) if len(column) else (0, 0)
        bounds -= first
        if byte_buffer is not None and byte_buffer.size >= last + 8:
            # What lies behind a text is never looked at, so the column's own memory will do where there is enough.
            self._words = np.ndarray((last - first + 1,), np.uint64, buffer=byte_buffer, offset=first, strides=(1,))
        else:
            data = np.zeros(last - first + 8, np.uint8)
            if last > first:
                data[: last - first] = np.frombuffer(byte_buffer, np.uint8)[first:last]
            self._words = np.ndarray((last - first + 1,), np.uint64, buffer=data, strides=(1,))
        self._end = last - first
        self._word_cache: dict[int, Hashes] = {}
        self._starts, self._ends = bounds[:-1], bounds[1:]
        self.lengths = self._ends - self._starts
        self.shortest = int(self.lengths.min()) if len(column) else 0

    @cached_property
    def longest(self) -> int:
        """How many bytes the longest text has."""
        return int(self.lengths.max()) if len(self.lengths) else 0

    def compute_hashes(self, seed: np.uint64 = _SEED) -> Hashes:
        """The hash of every text: of a long one, only of its beginning and its end."""
        hashes = _mix(self.lengths.astype(np.uint64) ^ seed)
        for number in range(self.word_count):
            words = _mix(hashes ^ self.get_word(number))
            if 8 * number < self.shortest:
                hashes = words
            else:
                np.copyto(hashes, words, where=self.lengths > 8 * number)
        if self.longest > HASHED_BYTES:
            is_long = self.lengths > HASHED_BYTES
            ends = self._ends[is_long]
            for back in range(8, HASHED_BYTES + 8, 8):
                hashes[is_long] = _mix(hashes[is_long] ^ self._words[ends - back])
        return hashes

    def hash_ends(self) -> Hashes:
        """A hash of every text that only looks at its last eight bytes; good are the highest bits of it.

        A product of a word with a secret odd number: no more work than that, because most texts are asked for nothing
        else.
        """
        if self.shortest < 8:
            words = self._words[np.maximum(self._ends - 8, self._starts)]
            words &= _BYTE_MASKS[np.minimum(self.lengths, 8)]
        elif self.shortest == self.longest:
            words = self._stride_words(self.longest - 8)
        else:
            words = self._words[self._ends - 8]
        return np.asarray(words * _END_FACTOR, np.uint64)

    @property
    def word_count(self) -> int:
        """How many words the longest text has, of those that are looked at."""
        return -(-min(self.longest, HASHED_BYTES) // 8)

    def get_word(self, number: int) -> Hashes:
        """Of every text eight bytes, from `8 * number` on; zeros behind its end."""
        if number not in self._word_cache:
            self._word_cache[number] = self._read_words(8 * number)
        return self._word_cache[number]

    def pack(self, rows: npt.NDArray[np.uint64]) -> None:
        """Put into a row of zeros for each text its length and its words; equal texts, and only they, have equal rows.

        Of texts that are longer than what is looked at, only the beginning is compared.
        """
        rows[:, 0] = self.lengths
        for number in range(self.word_count):
            rows[:, 1 + number] = self.get_word(number)

    def _read_words(self, at: int) -> Hashes:
        """Of every text the bytes from there on, at most eight, in a word."""
        if self.shortest == self.longest:
            words = self._stride_words(at) & _BYTE_MASKS[min(self.longest - at, 8)]
        elif at + 8 <= self.shortest:
            words = self._words[self._starts + at]
        else:
            words = self._words[np.minimum(self._starts + at, self._end)]
            words &= _BYTE_MASKS[np.clip(self.lengths - at, 0, 8)]
        return np.asarray(words, np.uint64)

    def _stride_words(self, at: int) -> Hashes:
        """The word there in every text, where all are as long. Not for writing: it may be the column's own memory."""
        return self._words[at :: self.longest][: len(self.lengths)]
