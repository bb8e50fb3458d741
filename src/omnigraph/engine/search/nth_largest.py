"""Select the n-th largest of many numbers without sorting them."""

import numpy as np
from numpy.typing import NDArray

# Blocks of this many neighbouring values are compared by their largest one first.
_BLOCK_VALUES = 64


def find_nth_largest(values: NDArray[np.floating], n: int) -> float:
    """Return the n-th largest of at least n numbers, none of them NaN."""
    blocks = len(values) // _BLOCK_VALUES
    if blocks > 2 * n:
        # The maxima of n blocks are at least the n-th largest maximum, so the n-th largest value is not below it.
        largest = values[: blocks * _BLOCK_VALUES].reshape(blocks, _BLOCK_VALUES).max(axis=1)
        values = values[values >= np.partition(largest, blocks - n)[blocks - n]]
    return float(np.partition(values, len(values) - n)[len(values) - n])
