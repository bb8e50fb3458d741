"""Vectorized hashes of columns. Equal rows have equal hashes; rows with equal hashes still have to be compared."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.ids import draw_bits

Hashes = npt.NDArray[np.uint64]

# Rows per block, so that intermediate arrays stay in the processor's cache.
BLOCK_ROWS = 32_768

# Random, so that no input can be prepared in which all texts have the same hash.
_SEED = np.uint64(draw_bits(64))
_FACTOR = np.uint64(0xFF51AFD7ED558CCD)
_END_FACTOR = np.uint64(draw_bits(64) | 1)
_SHIFT = np.uint64(32)
# Masks that keep the first n bytes of a word, by n.
_BYTE_MASKS = np.array([(1 << 8 * count) - 1 for count in range(9)], np.uint64)
# Bytes at the start of a text that are hashed as words; of a longer text the last 64 bytes are hashed too.
HASHED_BYTES = 64
_TEXT_TYPES = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())


def hash_rows(columns: Sequence[pa.Array | pa.ChunkedArray], seed: np.uint64 = _SEED) -> Hashes:
    """Return a hash per row of columns without nulls; a single text column gives `PackedTexts.compute_hashes`.

    With an explicit seed, hashes of several processes can be compared.
    """
    total = np.empty(len(columns[0]), np.uint64)
    for number, column in enumerate(columns):
        start = 0
        for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
            for at in range(0, len(chunk), BLOCK_ROWS):
                block = chunk.slice(at, BLOCK_ROWS)
                if block.type in _TEXT_TYPES:
                    hashes = PackedTexts(block).compute_hashes(seed)
                else:
                    hashes = _mix(_hash_numbers(block) ^ seed)
                rows = slice(start, start + len(block))
                total[rows] = _mix(total[rows] ^ hashes) if number else hashes
                start += len(block)
    return total


def _mix(words: Hashes) -> Hashes:
    """Combine the bits of each word in place, so that every bit depends on many, and return the words."""
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
    """Return the number of bytes of the longest text."""
    return int(pc.max(pc.binary_length(column)).as_py() or 0)


class PackedTexts:
    """A column of texts without nulls as machine words: eight bytes of every text at a time."""

    def __init__(self, column: pa.Array) -> None:
        self.column = column
        width = np.dtype(np.int64 if column.type in (pa.large_string(), pa.large_binary()) else np.int32)
        _, offset_buffer, byte_buffer = column.buffers()
        offsets = np.frombuffer(offset_buffer, width)[column.offset : column.offset + len(column) + 1]
        bounds = offsets.astype(np.int64)
        first, last = (int(bounds[0]), int(bounds[-1])) if len(column) else (0, 0)
        bounds -= first
        if byte_buffer is not None and byte_buffer.size >= last + 8:
            # Bytes after a text are masked out, so if the buffer has 8 more bytes it is used without a copy. The stride
            # of one byte makes every byte offset the start of a word.
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
        """The number of bytes of the longest text."""
        return int(self.lengths.max()) if len(self.lengths) else 0

    def compute_hashes(self, seed: np.uint64 = _SEED) -> Hashes:
        """Return the hash of every text; of a long one, only the start and the end are hashed."""
        hashes = _mix(self.lengths.astype(np.uint64) ^ seed)
        for number in range(self.word_count):
            words = _mix(hashes ^ self.get_word(number))
            # Every text reaches into this word: no selection is needed.
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
        """Return a cheap hash of the last eight bytes of every text; use its highest bits.

        It is the product of a word with a secret odd number, and no more, because most texts need no other hash.
        """
        if self.shortest < 8:
            words = self._words[np.maximum(self._ends - 8, self._starts)]
            words &= _BYTE_MASKS[np.minimum(self.lengths, 8)]
        elif self.shortest == self.longest:
            # Texts of one length are a fixed stride apart: a view instead of a gather.
            words = self._stride_words(self.longest - 8)
        else:
            words = self._words[self._ends - 8]
        return np.asarray(words * _END_FACTOR, np.uint64)

    @property
    def word_count(self) -> int:
        """The number of words of the longest text, up to `HASHED_BYTES`."""
        return -(-min(self.longest, HASHED_BYTES) // 8)

    def get_word(self, number: int) -> Hashes:
        """Return eight bytes of every text, from byte `8 * number` on, padded with zeros. Cached."""
        if number not in self._word_cache:
            self._word_cache[number] = self._read_words(8 * number)
        return self._word_cache[number]

    def pack(self, rows: npt.NDArray[np.uint64]) -> None:
        """Write the length and the words of each text into its row of zeros.

        Equal texts, and only they, have equal rows; of texts longer than `HASHED_BYTES` only the start is compared.
        """
        rows[:, 0] = self.lengths
        for number in range(self.word_count):
            rows[:, 1 + number] = self.get_word(number)

    def _read_words(self, at: int) -> Hashes:
        """Return up to eight bytes of every text from an offset on, as one word each."""
        if self.shortest == self.longest:
            words = self._stride_words(at) & _BYTE_MASKS[min(self.longest - at, 8)]
        elif at + 8 <= self.shortest:
            words = self._words[self._starts + at]
        else:
            # Texts that end earlier must not be read beyond the buffer; their bytes are masked out below.
            words = self._words[np.minimum(self._starts + at, self._end)]
            words &= _BYTE_MASKS[np.clip(self.lengths - at, 0, 8)]
        return np.asarray(words, np.uint64)

    def _stride_words(self, at: int) -> Hashes:
        """Return the word at an offset of texts of one length, as a view that may be the column's memory: read only."""
        return self._words[at :: self.longest][: len(self.lengths)]
