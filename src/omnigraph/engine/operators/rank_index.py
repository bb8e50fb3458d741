"""Count and list the values of a range of rows that lie below a bound: a wavelet matrix.

A level for each bit of the values, the highest first, stores how many values before a row have a 0 there; then the
values are stably partitioned by that bit. A query follows its range down the levels, so many queries are one vectorised
operation per level, whatever the number of rows in their ranges.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.kernels import Check, iter_chunks, skip_check

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Level:
    """One bit of all values, in the order that the levels above left."""

    bit: int
    zeros_before: NDArray[np.signedinteger[Any]]
    """For each row, how many rows before it have a 0; one entry more for the end."""

    @property
    def zeros(self) -> int:
        return int(self.zeros_before[-1])


class RankIndex:
    """An index over whole numbers from 0 on. `order` maps the rows of the last level to rows of the values."""

    def __init__(self, values: Ints, check: Check = skip_check) -> None:
        self.size = len(values)
        self.levels: list[_Level] = []
        order = np.arange(len(values))
        counter: type[np.signedinteger[Any]] = np.int32 if len(values) < 2**31 else np.int64
        for bit in reversed(range(_count_bits(values))):
            is_zero = (values >> bit) & 1 == 0
            before = np.zeros(len(values) + 1, counter)
            np.cumsum(is_zero, out=before[1:])
            self.levels.append(_Level(bit, before))
            values = np.concatenate([values[is_zero], values[~is_zero]])
            order = np.concatenate([order[is_zero], order[~is_zero]])
            check()
        self.order = order

    def count_below(self, begins: Ints, ends: Ints, bounds: Ints, check: Check = skip_check) -> Ints:
        """Return, for each range of rows, how many of its values are below its bound."""
        return self.sum_below(begins, ends, bounds, None, check)

    def sum_below(
        self, begins: Ints, ends: Ints, bounds: Ints, weights: Ints | None, check: Check = skip_check
    ) -> Ints:
        """Return, for each range, the sum of the weights of the rows whose value is below its bound."""
        sums = np.zeros(len(begins), np.int64)
        # A bound beyond the highest bit is above all values; one below 0 is above none.
        limit = 1 << len(self.levels)
        totals = None if weights is None else _accumulate(weights)
        is_all = bounds >= limit
        sums[is_all] = _sum_runs(totals, begins[is_all], ends[is_all])
        rows = np.flatnonzero((bounds > 0) & ~is_all)
        begins, ends, bounds = begins[rows], ends[rows], bounds[rows]
        for level, level_weights in self._iter_weights(weights):
            low, high = level.zeros_before[begins], level.zeros_before[ends]
            has_bit = (bounds >> level.bit) & 1 == 1
            sums[rows[has_bit]] += _sum_runs(level_weights, low[has_bit], high[has_bit])
            begins = np.where(has_bit, level.zeros + begins - low, low)
            ends = np.where(has_bit, level.zeros + ends - high, high)
            check()
        return sums

    def _iter_weights(self, weights: Ints | None) -> Iterator[tuple[_Level, Ints | None]]:
        """Yield each level, and the cumulative weights of the rows in the order that it leaves."""
        for level in self.levels:
            if weights is None:
                yield level, None
                continue
            is_zero = np.diff(level.zeros_before) == 1
            weights = np.concatenate([weights[is_zero], weights[~is_zero]])
            yield level, _accumulate(weights)

    def select(self, begins: Ints, ends: Ints, places: Ints, check: Check = skip_check) -> Ints:
        """Return, for each range, the row with the value at this place in the ascending order of its values."""
        rows = np.empty(len(begins), np.int64)
        # In parts, so that the work arrays of one level stay in the processor's cache.
        for part in iter_chunks(len(begins)):
            low, high, place = begins[part], ends[part], places[part].copy()
            for level in self.levels:
                low_zeros, high_zeros = level.zeros_before[low], level.zeros_before[high]
                zeros = high_zeros - low_zeros
                is_one = place >= zeros
                place -= np.where(is_one, zeros, 0)
                low = np.where(is_one, level.zeros + low - low_zeros, low_zeros)
                high = np.where(is_one, level.zeros + high - high_zeros, high_zeros)
            rows[part] = self.order[low + place]
            check()
        return rows


def estimate_index_bytes(size: int) -> int:
    """Return about how many bytes an index over the ranks of this number of rows takes, with its work arrays."""
    return size * (4 * max(size, 1).bit_length() + 32)


def _count_bits(values: Ints) -> int:
    return int(values.max(initial=0)).bit_length()


def _accumulate(weights: Ints) -> Ints:
    return np.concatenate(([0], np.cumsum(weights)))


def _sum_runs(totals: Ints | None, begins: Ints, ends: Ints) -> Ints:
    """Return the sums of runs, by cumulative sums; without them, the lengths of the runs."""
    return ends - begins if totals is None else totals[ends] - totals[begins]
