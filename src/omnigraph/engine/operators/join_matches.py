"""The pairs of rows that a join finds: as runs of ordered rows, which are counted without listing the pairs."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.kernels import Check, expand_runs, skip_check
from omnigraph.engine.operators.multiplicity import OVERFLOWED, sum_counts, sum_segments
from omnigraph.engine.operators.rank_index import RankIndex

Ints = NDArray[np.int64]
Pairs = tuple[Ints, Ints]


class JoinMatches(Protocol):
    """The rows of the other side that each row matches."""

    def select(self, rows: Ints | slice) -> "JoinMatches":
        """Return the matches of some rows only."""

    def count_candidates(self) -> Ints:
        """Return for each row how many pairs it has, or more: alternatives may find a pair twice."""

    def list_pairs(self, check: Check = skip_check) -> Pairs:
        """Return the pairs, each once: rows in ascending order, and rows of the other side."""

    def sum_pairs(self, weights: Ints | None, check: Check = skip_check) -> Ints | None:
        """Return for each row the sum of the weights of its partners, or their number.

        Returns None if a sum may exceed 64 bits, or can't be computed without listing the pairs.
        """


@dataclass(frozen=True, slots=True)
class RankRange:
    """Of the partners in each run, those whose rank by a second value is from `lows` on and below `highs`."""

    index: RankIndex
    lows: Ints
    highs: Ints


@dataclass(frozen=True, slots=True)
class RunMatches:
    """Runs of `order`, which has rows of the other side: `counts[i]` entries from `begins[i]` on.

    `rows` is the row that each run belongs to, ascending; None if row i has exactly run i.
    """

    order: Ints
    begins: Ints
    counts: Ints
    size: int
    rows: Ints | None = None
    ranks: RankRange | None = None

    def select(self, rows: Ints | slice) -> "RunMatches":
        """Return the matches of some rows only."""
        numbers = np.arange(self.size)[rows] if isinstance(rows, slice) else rows
        if self.rows is None:
            return self._take_runs(numbers, len(numbers), None)
        first, end = np.searchsorted(self.rows, numbers), np.searchsorted(self.rows, numbers, side="right")
        runs = expand_runs(first, end - first)
        return self._take_runs(runs, len(numbers), np.repeat(np.arange(len(numbers)), end - first))

    def _take_runs(self, runs: Ints, size: int, rows: Ints | None) -> "RunMatches":
        ranks = self.ranks
        if ranks is not None:
            ranks = RankRange(ranks.index, ranks.lows[runs], ranks.highs[runs])
        return RunMatches(self.order, self.begins[runs], self.counts[runs], size, rows, ranks)

    def count_candidates(self) -> Ints:
        """Return for each row how many pairs it has."""
        return self._sum_by_row(self._count_runs(skip_check))

    def list_pairs(self, check: Check = skip_check) -> Pairs:
        """Return the pairs, each once."""
        counts = self._count_runs(check)
        runs = np.repeat(np.arange(len(counts)), counts)
        rows = runs if self.rows is None else self.rows[runs]
        check()
        if self.ranks is None:
            return rows, self.order[expand_runs(self.begins, counts)]
        first = self._sum_below(self.ranks.lows, None, check)
        places = expand_runs(first, counts)
        begins, ends = self.begins[runs], (self.begins + self.counts)[runs]
        return rows, self.order[self.ranks.index.select(begins, ends, places, check)]

    def sum_pairs(self, weights: Ints | None, check: Check = skip_check) -> Ints | None:
        """Return for each row the sum of the weights of its partners, or their number."""
        if weights is None:
            return self._sum_by_row(self._count_runs(check))
        ordered = weights[self.order]
        if sum_counts(ordered, len(ordered)) == OVERFLOWED:
            return None
        if self.ranks is None:
            # A difference of two prefix sums is the sum over a run of matches.
            prefix = np.concatenate(([0], np.cumsum(ordered)))
            sums = prefix[self.begins + self.counts] - prefix[self.begins]
        else:
            sums = self._sum_below(self.ranks.highs, ordered, check) - self._sum_below(self.ranks.lows, ordered, check)
        return self._sum_by_row(sums)

    def _count_runs(self, check: Check) -> Ints:
        if self.ranks is None:
            return self.counts
        return self._sum_below(self.ranks.highs, None, check) - self._sum_below(self.ranks.lows, None, check)

    def _sum_below(self, bounds: Ints, weights: Ints | None, check: Check) -> Ints:
        assert self.ranks is not None  # noqa: S101 - callers check it
        return self.ranks.index.sum_below(self.begins, self.begins + self.counts, bounds, weights, check)

    def _sum_by_row(self, sums: Ints) -> Ints:
        if self.rows is None:
            return sums
        return sum_segments(sums, np.bincount(self.rows, minlength=self.size))


@dataclass(frozen=True, slots=True)
class EqualCodes:
    """Codes of both sides that are equal where a comparison holds; -1 matches nothing."""

    left: Ints
    right: Ints


# The overlap of alternatives is counted for each combination of them: 7 joins for three alternatives, 15 for four.
MAX_COUNTED_ALTERNATIVES = 3


@dataclass(frozen=True, slots=True)
class UnionMatches:
    """The pairs that one of several equalities finds; a pair of several of them counts once."""

    parts: tuple[RunMatches, ...]
    codes: tuple[EqualCodes, ...]
    overlaps: tuple[tuple[RunMatches, ...], ...]
    """The pairs that each combination of two finds, then those of three, and so on."""

    @property
    def size(self) -> int:
        """The number of rows."""
        return self.parts[0].size

    def select(self, rows: Ints | slice) -> "UnionMatches":
        """Return the matches of some rows only."""
        return UnionMatches(
            tuple(part.select(rows) for part in self.parts),
            tuple(EqualCodes(codes.left[rows], codes.right) for codes in self.codes),
            tuple(tuple(overlap.select(rows) for overlap in overlaps) for overlaps in self.overlaps),
        )

    def count_candidates(self) -> Ints:
        """Return for each row how many pairs all equalities find together."""
        counts: Ints = np.sum([part.count_candidates() for part in self.parts], axis=0)
        return counts

    def list_pairs(self, check: Check = skip_check) -> Pairs:
        """Return the pairs, each once."""
        found = [self._list_new(number, check) for number in range(len(self.parts))]
        rows, others = (np.concatenate(column) for column in zip(*found, strict=True))
        order = np.argsort(rows, kind="stable")
        return rows[order], others[order]

    def _list_new(self, number: int, check: Check) -> Pairs:
        """Return the pairs of an equality that none before it finds."""
        rows, others = self.parts[number].list_pairs(check)
        is_new = np.ones(len(rows), np.bool_)
        for codes in self.codes[:number]:
            left = codes.left[rows]
            is_new &= (left < 0) | (left != codes.right[others])
        check()
        return rows[is_new], others[is_new]

    def sum_pairs(self, weights: Ints | None, check: Check = skip_check) -> Ints | None:
        """Return for each row the sum of the weights of its partners, or their number."""
        if len(self.parts) > MAX_COUNTED_ALTERNATIVES:
            return None
        total = np.zeros(self.size, np.int64)
        # Inclusion and exclusion: what two find is counted twice, what three find three times less three times.
        for number, matches in enumerate((self.parts, *self.overlaps)):
            for part in matches:
                sums = part.sum_pairs(weights, check)
                if sums is None or float(total.max(initial=0)) + float(sums.max(initial=0)) >= OVERFLOWED // 2:
                    return None
                total = total - sums if number % 2 else total + sums
        return total


def iter_overlaps(count: int) -> Iterator[list[tuple[int, ...]]]:
    """Yield the combinations of two of `count` alternatives, then of three, as far as they are counted."""
    if count <= MAX_COUNTED_ALTERNATIVES:
        for size in range(2, count + 1):
            yield list(combinations(range(count), size))
