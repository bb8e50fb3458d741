"""Distinct integers, by sorting: numpy's own `unique` hashes, which is four to twenty times as slow here."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions

Ints = TypeVar("Ints", Positions, NDArray[np.int64])


def deduplicate(values: Ints) -> Ints:
    """Each value once, ascending."""
    if len(values) < 2:
        return values
    ordered = np.sort(values)
    is_first = np.empty(len(ordered), np.bool_)
    is_first[0] = True
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return ordered[is_first]
