"""Fuzzy matching of terms: find the words within an edit distance of a word.

An edit inserts, deletes or replaces a letter, or swaps two neighbours, and no letter is edited twice (optimal string
alignment), so `jonh` is one edit from `john`.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.search.tokenizer import Check

Letters = NDArray[np.uint32]
# Letters of a word that are compared between two checks of the deadline.
_LETTERS_BETWEEN_CHECKS = 4_096
_MASK_BITS = 64
# Letters of candidate words per step: it limits the memory of the distance tables.
_MAX_CHUNK_LETTERS = 1 << 20


class Spellings:
    """Many non-empty words, laid out to be compared with one word by vectorised operations."""

    def __init__(self, words: Sequence[str]) -> None:
        self._lengths = np.fromiter(map(len, words), np.int64, len(words))
        self._starts = np.cumsum(self._lengths) - self._lengths
        self._letters: Letters = _encode_letters("".join(words))
        # The set of letters of each word as a bit mask, a cheap lower bound of the edit distance.
        self._masks = (
            np.bitwise_or.reduceat(_build_masks(self._letters), self._starts) if words else np.empty(0, np.uint64)
        )

    @property
    def nbytes(self) -> int:
        """The size in memory."""
        arrays = (self._lengths, self._starts, self._letters, self._masks)
        return int(sum(array.nbytes for array in arrays))

    def find_within(self, word: str, edits: int, check: Check = lambda: None) -> NDArray[np.int64]:
        """Return the numbers of the words within `edits` of a word, ascending."""
        check()
        letters = _encode_letters(word)
        # If both words are that short, every letter may be replaced.
        is_sure = np.maximum(self._lengths, len(letters)) <= edits
        mask = np.bitwise_or.reduce(_build_masks(letters)) if len(letters) else np.uint64(0)
        # One edit removes at most one kind of letter, and adds at most one.
        is_near = np.abs(self._lengths - len(letters)) <= edits
        is_near &= np.bitwise_count(self._masks & ~mask) <= edits
        is_near &= np.bitwise_count(mask & ~self._masks) <= edits
        near = np.flatnonzero(is_near & ~is_sure)
        parts = [np.flatnonzero(is_sure)]
        parts += (chunk[distances <= edits] for chunk, distances in self._iter_distances(letters, near, check))
        return np.sort(np.concatenate(parts))

    def measure_within(
        self, word: str, edits: int, check: Check = lambda: None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the numbers of the words within `edits` of a word, and their distances."""
        near = self.find_within(word, edits, check)
        found = list(self._iter_distances(_encode_letters(word), near, check))
        if not found:
            return near, near
        return np.concatenate([chunk for chunk, _ in found]), np.concatenate([distances for _, distances in found])

    def _iter_distances(
        self, letters: Letters, near: NDArray[np.int64], check: Check
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Yield some words in chunks, and their distances from a word."""
        # Words of the same length form a matrix, so that one table computes all their distances.
        for length in np.unique(self._lengths[near]).tolist():
            words_per_chunk = max(1, _MAX_CHUNK_LETTERS // length)
            for chunk in _iter_chunks(near[self._lengths[near] == length], words_per_chunk):
                yield chunk, _compute_distances(letters, self._gather_letters(chunk, length), check)

    def _gather_letters(self, words: NDArray[np.int64], length: int) -> Letters:
        """Return the letters of words of the same length, one column per word."""
        letters: Letters = self._letters[self._starts[words] + np.arange(length)[:, None]]
        return letters


def _iter_chunks(words: NDArray[np.int64], count: int) -> Iterator[NDArray[np.int64]]:
    return (words[start : start + count] for start in range(0, len(words), count))


def choose_max_edits(word: str) -> int:
    """Return the default number of edits for a word, by its length."""
    if len(word) <= 2:
        return 0
    return 1 if len(word) <= 5 else 2


def _encode_letters(text: str) -> Letters:
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)


def _build_masks(letters: Letters) -> NDArray[np.uint64]:
    return np.uint64(1) << (letters % _MASK_BITS).astype(np.uint64)


def _compute_distances(word: Letters, candidates: Letters, check: Check) -> NDArray[np.int64]:
    """Compute the distance of a word from each column of `candidates`: the usual table, for all of them together."""
    length, width = candidates.shape
    # The last two rows of the table: a swap looks two rows back.
    before = np.zeros((length + 1, width), np.int64)
    above = np.repeat(np.arange(length + 1)[:, None], width, axis=1)
    for i, letter in enumerate(word):
        check()
        row = np.empty_like(above)
        row[0] = i + 1
        differs = candidates != letter
        for j in range(length):
            if not (j + 1) % _LETTERS_BETWEEN_CHECKS:
                check()
            row[j + 1] = np.minimum(np.minimum(above[j + 1], row[j]) + 1, above[j] + differs[j])
            if i and j:
                is_swap = (candidates[j - 1] == letter) & (candidates[j] == word[i - 1])
                row[j + 1] = np.where(is_swap, np.minimum(row[j + 1], before[j - 1] + 1), row[j + 1])
        before, above = above, row
    return above[length]
