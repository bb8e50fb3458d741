"""Sum values over all neighbour lists of a CSR adjacency in one pass over its arrays, without gathering lists."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.engine.operators.multiplicity import Counts, sum_segments

# Neighbours per step: the values taken for them and their running sum stay in the processor's cache.
_CHUNK_NEIGHBOURS = 1 << 18
_FITS_32 = 2**31
_FITS_64 = 2.0**62


def sum_lists(
    starts: NDArray[np.int64], targets: Positions, values: NDArray[np.bool_] | Counts, check: Callable[[], None]
) -> Counts:
    """Return, for each list, the sum of the values of its neighbours; values are by position and not negative.

    `check` is called regularly, and may raise.
    """
    sums = np.zeros(len(starts) - 1, np.int64)
    if not len(targets) or not len(values):
        return sums
    # A running sum over a chunk can't overflow if the sum over all neighbours can't.
    is_safe = values.dtype == np.bool_ or float(values.max()) * len(targets) < _FITS_64
    values = _narrow(values)
    running = _RunningSum(values.dtype)
    begin = 0
    while begin < len(sums):
        check()
        end = int(np.searchsorted(starts, starts[begin] + _CHUNK_NEIGHBOURS, side="right")) - 1
        end = min(max(end, begin + 1), len(sums))
        near = targets[starts[begin] : starts[end]]
        bounds = starts[begin : end + 1] - starts[begin]
        if is_safe:
            sums[begin:end] = running.sum_between(values, near, bounds)
        else:
            sums[begin:end] = sum_segments(values.take(near), np.diff(bounds))
        begin = end
    return sums


def _narrow(values: NDArray[np.bool_] | Counts) -> NDArray[Any]:
    """Convert values to the narrowest type that holds them: they are read in random order, so size decides."""
    if values.dtype == np.bool_:
        return values.view(np.uint8)
    return values.astype(np.int32) if values.max() < _FITS_32 else values


class _RunningSum:
    """A running sum whose buffers are reused for each chunk: allocating new memory costs more than the additions."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self._taken = np.empty(0, dtype)
        self._sums = np.zeros(1, np.int32 if dtype == np.uint8 else np.int64)

    def sum_between(self, values: NDArray[Any], at: Positions, bounds: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the sums of the values at these positions between adjacent bounds; 0 for an empty list."""
        count = len(at)
        if count > len(self._taken):
            self._taken = np.empty(count, self._taken.dtype)
            self._sums = np.zeros(count + 1, self._sums.dtype if count < _FITS_32 else np.int64)
        taken, sums = self._taken[:count], self._sums[: count + 1]
        # In the other modes `take` makes a copy first.
        values.take(at, out=taken, mode="clip")
        np.cumsum(taken, dtype=sums.dtype, out=sums[1:])
        return np.diff(sums.take(bounds)).astype(np.int64, copy=False)
