"""An inverted index in memory: the rows that have a word, how often, and the words of each row in order."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

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


@dataclass(frozen=True)
class InvertedIndex:
    """An inverted index over rows, counted from 0, and their texts as numbers of words.

    A *word* is folded, a *token* is the stem of one or several words. `stream` has the words of row `i` at
    `starts[i]:starts[i + 1]`. The rows with token `t` are `rows[bounds[t]:bounds[t + 1]]`, ascending, with their term
    frequencies in `times`.
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

    def find_tokens(self, stems: Sequence[str]) -> list[int]:
        """Return the distinct tokens of these stems, in order; stems that no row has are left out."""
        return [self.tokens[stem] for stem in dict.fromkeys(stems) if stem in self.tokens]


@dataclass(frozen=True)
class FragmentRun:
    """A run of fragments, each identified by its files, and the index of all rows written to them, once it is built."""

    fragments: tuple[tuple[str, ...], ...]
    rows: int
    index: InvertedIndex | None = None

    def merge(self, other: "FragmentRun") -> "FragmentRun":
        """Return both as one run, whose index is still to be built."""
        return FragmentRun(self.fragments + other.fragments, self.rows + other.rows)


def build_index(texts: pa.Array, budget: Budget | None = None, language: str | None = None) -> InvertedIndex:
    """Build the index of these texts in one language; a null is a row without a text."""
    vocabulary = Vocabulary(language)
    check = skip_check if budget is None else budget.check
    parts, counts = [], []
    for part in analyse(texts, vocabulary):
        parts.append(part.words)
        counts.append(np.diff(part.starts))
        check()
    stream = np.concatenate(parts) if parts else np.empty(0, np.int32)
    starts = np.zeros(len(texts) + 1, np.int64)
    if counts:
        np.cumsum(np.concatenate(counts), out=starts[1:])
    # Stemming the distinct words, not the stream: each word is stemmed once per index.
    tokens: dict[str, int] = {}
    numbers = [tokens.setdefault(stem, len(tokens)) for stem in stem_words(vocabulary.words, language)]
    token_of = np.array(numbers, np.int32)
    check()
    bounds, rows, times = _build_postings(token_of[stream], np.diff(starts), len(tokens), check)
    return InvertedIndex(
        words=tuple(vocabulary.words),
        tokens=tokens,
        token_of=token_of,
        stream=stream,
        starts=starts,
        bounds=bounds,
        rows=rows,
        times=times,
        has_text=np.asarray(texts.is_valid()),
    )


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
