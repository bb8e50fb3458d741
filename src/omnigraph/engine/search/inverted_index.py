"""An inverted index: the rows that have a word, how often, and the words of each row in order.

Words and stems are numbered in their order as text, so that equal texts have equal numbers, in memory and in storage.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.engine.kernels import Check, skip_check, sort_values
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.search.fuzzy_terms import Spellings
from omnigraph.engine.search.tokenizer import Vocabulary, analyse, stem_words

Rows = NDArray[np.int32]
# Memory of a distinct word as a Python string, with its entry in a dict.
_BYTES_PER_WORD = 120


class TextIndex(Protocol):
    """An inverted index over rows, counted from 0, in memory or in storage.

    A *word* is folded, a *token* is the stem of one or several words.
    """

    @property
    def size(self) -> int:
        """Number of rows."""
        ...

    @property
    def nbytes(self) -> int:
        """Approximate memory that the index itself holds."""
        ...

    @property
    def text_count(self) -> int:
        """Number of rows with a text, even an empty one."""
        ...

    @property
    def word_count(self) -> int:
        """Number of words of all rows."""
        ...

    @property
    def has_text(self) -> NDArray[np.bool_]:
        """Which rows have a text, even an empty one."""
        ...

    @property
    def lengths(self) -> NDArray[np.int32]:
        """Number of words of each row."""
        ...

    @property
    def starts(self) -> NDArray[np.int64]:
        """Where the words of each row start among those of all rows, and after the last row their number."""
        ...

    @property
    def token_of(self) -> NDArray[np.int32]:
        """The token of each word."""
        ...

    @property
    def spellings(self) -> Spellings:
        """The words, laid out for fuzzy matching."""
        ...

    @property
    def token_spellings(self) -> Spellings:
        """The tokens, laid out for fuzzy matching."""
        ...

    def find_token(self, stem: str) -> int | None:
        """Return the token of a stem; None if no row has it."""
        ...

    def get_postings(self, token: int) -> tuple[Rows, NDArray[np.int32]]:
        """Return the rows that have a token, ascending, and its frequency in each."""
        ...

    def take_words(self, at: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the words at these ascending places among those of all rows; see `starts`."""
        ...


@dataclass(frozen=True)
class InvertedIndex:
    """A `TextIndex` in memory.

    `stream` has the words of row `i` at `starts[i]:starts[i + 1]`. The rows with token `t` are
    `rows[bounds[t]:bounds[t + 1]]`, ascending, with their term frequencies in `times`.
    """

    words: tuple[str, ...]
    tokens: dict[str, int]
    token_of: NDArray[np.int32]
    stream: NDArray[np.int32]
    starts: NDArray[np.int64]
    bounds: NDArray[np.int64]
    rows: Rows
    times: NDArray[np.int32]
    has_text: NDArray[np.bool_]
    """Which rows have a text, even an empty one."""

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.starts) - 1

    @property
    def nbytes(self) -> int:
        """Approximate memory."""
        arrays = (self.token_of, self.stream, self.starts, self.bounds, self.rows, self.times, self.has_text)
        # `lengths` is built on demand, but counted from the start.
        lengths = 4 * self.size
        return sum(array.nbytes for array in arrays) + lengths + len(self.words) * _BYTES_PER_WORD

    @property
    def text_count(self) -> int:
        """See `TextIndex`."""
        return int(np.count_nonzero(self.has_text))

    @property
    def word_count(self) -> int:
        """See `TextIndex`."""
        return len(self.stream)

    @cached_property
    def lengths(self) -> NDArray[np.int32]:
        """Number of words of each row."""
        return np.diff(self.starts).astype(np.int32)

    @cached_property
    def spellings(self) -> Spellings:
        """The words, laid out for fuzzy matching."""
        return Spellings(self.words)

    @cached_property
    def token_spellings(self) -> Spellings:
        """The tokens, laid out for fuzzy matching."""
        return Spellings(tuple(self.tokens))

    def get_postings(self, token: int) -> tuple[Rows, NDArray[np.int32]]:
        """Return the rows that have a token, ascending, and its frequency in each."""
        low, high = self.bounds[token], self.bounds[token + 1]
        return self.rows[low:high], self.times[low:high]

    def find_token(self, stem: str) -> int | None:
        """See `TextIndex`."""
        return self.tokens.get(stem)

    def take_words(self, at: NDArray[np.int64]) -> NDArray[np.int32]:
        """See `TextIndex`."""
        return self.stream[at]


def find_tokens(index: TextIndex, stems: Sequence[str]) -> list[int]:
    """Return the distinct tokens of these stems, in order; stems that no row has are left out."""
    tokens = (index.find_token(stem) for stem in dict.fromkeys(stems))
    return [token for token in tokens if token is not None]


def build_index(texts: pa.Array, budget: Budget | None = None, language: str | None = None) -> InvertedIndex:
    """Build the index of these texts in one language; a null is a row without a text."""
    vocabulary = Vocabulary(language)
    check = skip_check if budget is None else budget.check
    parts, counts = [], []
    for part in analyse(texts, vocabulary):
        parts.append(part.words)
        counts.append(np.diff(part.starts))
        check()
    words, order = _sort_words(vocabulary.words)
    stream = order[np.concatenate(parts)] if parts else np.empty(0, np.int32)
    starts = np.zeros(len(texts) + 1, np.int64)
    if counts:
        np.cumsum(np.concatenate(counts), out=starts[1:])
    # Stemming the distinct words, not the stream: each word is stemmed once per index.
    stems = stem_words(words, language)
    # Numbered in their order, not by first appearance: an index that is rebuilt during a search must give each stem the
    # number that the search already holds.
    tokens = {stem: number for number, stem in enumerate(sorted(set(stems)))}
    token_of = np.fromiter(map(tokens.__getitem__, stems), np.int32, len(stems))
    check()
    bounds, rows, times = _build_postings(token_of[stream], np.diff(starts), len(tokens), check)
    return InvertedIndex(
        words=tuple(words),
        tokens=tokens,
        token_of=token_of,
        stream=stream,
        starts=starts,
        bounds=bounds,
        rows=rows,
        times=times,
        has_text=np.asarray(texts.is_valid()),
    )


def _sort_words(words: Sequence[str]) -> tuple[list[str], NDArray[np.int32]]:
    """Return the words in order, and the new number of each."""
    by_word = sorted(range(len(words)), key=words.__getitem__)
    order = np.empty(len(words), np.int32)
    order[by_word] = np.arange(len(words), dtype=np.int32)
    return [words[number] for number in by_word], order


def _build_postings(
    tokens: NDArray[np.int32], lengths: NDArray[np.int64], distinct: int, check: Check
) -> tuple[NDArray[np.int64], Rows, NDArray[np.int32]]:
    """Return, by token, the bounds of its postings, the rows that have it, and its frequency in each."""
    size = max(len(lengths), 1)
    # Token and row packed into one integer: a single sort orders by both.
    keys = tokens.astype(np.int64) * size
    keys += np.repeat(np.arange(len(lengths)), lengths)
    keys = sort_values(keys, check)
    is_new = np.ones(len(keys), np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=is_new[1:])
    first = np.flatnonzero(is_new)
    times = np.diff(first, append=len(keys)).astype(np.int32)
    pairs = keys[first]
    check()
    bounds = np.searchsorted(pairs, np.arange(distinct + 1, dtype=np.int64) * size)
    return bounds, (pairs % size).astype(np.int32), times
