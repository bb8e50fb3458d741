"""Words that are misspelt: which of many words are within an edit distance of one.

An edit puts a letter in, takes one out, changes one, or exchanges two neighbours, and no letter is edited twice
(optimal string alignment), so `jonh` is one edit from `john`.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.search.tokenizer import Check

_LETTERS_BETWEEN_CHECKS = 4_096
Letters = NDArray[np.uint32]
_MASK_BITS = 64
_MAX_CHUNK_LETTERS = 1 << 20
"""How many letters of words are compared at a time: it bounds the memory for the tables of distances."""


class Spellings:
    """Many words, none of them empty, laid out to be compared at once."""

    def __init__(self, words: Sequence[str]) -> None:
        self._lengths = np.fromiter(map(len, words), np.int64, len(words))
        self._starts = np.cumsum(self._lengths) - self._lengths
        self._letters: Letters = _encode_letters("".join(words))
        self._masks = (
            np.bitwise_or.reduceat(_build_masks(self._letters), self._starts) if words else np.empty(0, np.uint64)
        )

    def find_within(self, word: str, edits: int, check: Check = lambda: None) -> NDArray[np.int64]:
        """The numbers of the words within so many edits, ascending."""
        check()
        letters = _encode_letters(word)
        is_sure = np.maximum(self._lengths, len(letters)) <= edits  # every letter may be another
        mask = np.bitwise_or.reduce(_build_masks(letters)) if len(letters) else np.uint64(0)
        # One edit takes at most one kind of letter away, and brings at most one in.
        is_near = np.abs(self._lengths - len(letters)) <= edits
        is_near &= np.bitwise_count(self._masks & ~mask) <= edits
        is_near &= np.bitwise_count(mask & ~self._masks) <= edits
        near = np.flatnonzero(is_near & ~is_sure)
        found = [np.flatnonzero(is_sure)]
        found += [
            some[_compute_distances(letters, self._gather_letters(some, int(length)), check) <= edits]
            for length in np.unique(self._lengths[near])
            for some in _iter_chunks(near[self._lengths[near] == length], max(1, _MAX_CHUNK_LETTERS // int(length)))
        ]
        return np.sort(np.concatenate(found))

    def _gather_letters(self, words: NDArray[np.int64], length: int) -> Letters:
        """The letters of words of one length, a column for each word."""
        found: Letters = self._letters[self._starts[words] + np.arange(length)[:, None]]
        return found


def _iter_chunks(words: NDArray[np.int64], count: int) -> Iterator[NDArray[np.int64]]:
    return (words[start : start + count] for start in range(0, len(words), count))


def choose_max_edits(word: str) -> int:
    """How many edits a word of that many letters is allowed."""
    return 0 if len(word) <= 2 else 1 if len(word) <= 5 else 2


def _encode_letters(text: str) -> Letters:
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)


def _build_masks(letters: Letters) -> NDArray[np.uint64]:
    return np.uint64(1) << (letters % _MASK_BITS).astype(np.uint64)


def _compute_distances(word: Letters, others: Letters, check: Check) -> NDArray[np.int64]:
    """The distance of a word from each column of `others`: the usual table, every entry for all of them at once."""
    length, width = others.shape
    before = np.zeros((length + 1, width), np.int64)
    above = np.repeat(np.arange(length + 1)[:, None], width, axis=1)
    for i, letter in enumerate(word):
        check()
        row = np.empty_like(above)
        row[0] = i + 1
        differs = others != letter
        for j in range(length):
            if not (j + 1) % _LETTERS_BETWEEN_CHECKS:
                check()
            row[j + 1] = np.minimum(np.minimum(above[j + 1], row[j]) + 1, above[j] + differs[j])
            if i and j:
                is_swap = (others[j - 1] == letter) & (others[j] == word[i - 1])
                row[j + 1] = np.where(is_swap, np.minimum(row[j + 1], before[j - 1] + 1), row[j + 1])
        before, above = above, row
    return above[length]
