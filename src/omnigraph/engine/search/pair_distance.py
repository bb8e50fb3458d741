"""Compute the distances of pairs of vectors, row by row."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.engine.search.nearest_neighbours import to_matrix
from omnigraph.engine.search.tokenizer import Check
from omnigraph.schema.catalog import Metric
from omnigraph.storage.arrow_buffers import is_valid

# Rows whose vectors are gathered at a time: 4,096 pairs of 1,024 numbers take 64 MiB in double precision.
PAIRS_PER_BLOCK = 4_096

# Returns the vectors of both sides in some rows.
ReadPairs = Callable[[slice], tuple[pa.Array, pa.Array]]


def compute_pair_distances(read: ReadPairs, size: int, check: Check, metric: Metric = Metric.COSINE) -> pa.Array:
    """Return the distance of the two vectors of each row, null where one of them is.

    It is calculated as `nearest` does it, in double precision, and depends on the two vectors only.
    """
    distances = np.zeros(size, np.float64)
    present = np.zeros(size, np.bool_)
    for start in range(0, size, PAIRS_PER_BLOCK):
        check()
        rows = slice(start, min(start + PAIRS_PER_BLOCK, size))
        left, right = read(rows)
        present[rows] = is_valid(left) & is_valid(right)
        distances[rows] = _compute_block(to_matrix(left), to_matrix(right), metric)
    return pa.array(distances, pa.float64(), mask=~present)


def _compute_block(left: NDArray[np.float32], right: NDArray[np.float32], metric: Metric) -> NDArray[np.float64]:
    # The numbers of a null vector are arbitrary, and so is the distance, which callers leave out.
    with np.errstate(invalid="ignore", over="ignore"):
        first, second = left.astype(np.float64), right.astype(np.float64)
        distances: NDArray[np.float64]
        if metric is Metric.DOT:
            distances = -(first * second).sum(axis=1)
            return distances
        if metric is Metric.L2:
            distances = np.sqrt(np.square(first - second).sum(axis=1))
            return distances
        products = np.sqrt(np.square(first).sum(axis=1)) * np.sqrt(np.square(second).sum(axis=1))
        cosines = np.divide((first * second).sum(axis=1), products, out=np.zeros(len(first)), where=products > 0)
        distances = np.clip(1.0 - cosines, 0.0, 2.0)
    return distances
