"""The best of many numbers, without sorting them."""

import numpy as np
from numpy.typing import NDArray

_BLOCK_VALUES = 64
"""Of so many neighbours only the largest is looked at first."""


def find_nth_largest(values: NDArray[np.floating], n: int) -> float:
    """The n-th largest of at least n numbers, none of them NaN."""
    blocks = len(values) // _BLOCK_VALUES
    if blocks > 2 * n:
        # So many blocks have a number this large that n numbers have: the n-th largest is not below it.
        largest = values[: blocks * _BLOCK_VALUES].reshape(blocks, _BLOCK_VALUES).max(axis=1)
        values = values[values >= np.partition(largest, blocks - n)[blocks - n]]
    return float(np.partition(values, len(values) - n)[len(values) - n])
