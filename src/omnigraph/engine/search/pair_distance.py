"""Compute the distances of the two vectors of each row: every distinct vector is read once, and pairs by blocks."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.search.nearest_neighbours import to_matrix
from omnigraph.engine.search.vector_metric import Floats
from omnigraph.schema.catalog import Metric
from omnigraph.storage.arrow_buffers import is_valid

# The distinct vectors of both sides take at most this much memory at a time, and half of what the budget has left.
_MAX_VECTOR_BYTES = 64 * 1024 * 1024
# However little is left, this number of rows is compared at a time: it is an error if their vectors don't fit.
_MIN_ROWS = 256
# Bytes of the vectors of one side that are multiplied at a time: they stay in the processor's cache. For vectors of 64
# numbers, blocks of 128 KiB to 2 MiB took the same time, 70 ns a pair.
_BLOCK_BYTES = 512 * 1024
# Positions up to this many times the rows are numbered by an array of all positions; sparser ones are sorted.
_DENSE_FACTOR = 8


@dataclass(frozen=True, slots=True)
class VectorSide:
    """The vectors of one side of the pairs."""

    read: Callable[[Positions], pa.Array]
    """Return the vectors of some rows."""
    keys: Positions | None
    """What the vector of each row depends on: rows with equal keys have equal vectors. None: nothing is known."""


@dataclass(frozen=True, slots=True)
class _DistinctVectors:
    """The distinct vectors of some rows in double precision, and the number of each row's."""

    matrix: Floats
    is_present: NDArray[np.bool_]
    numbers: Positions


def compute_pair_distances(
    left: VectorSide, right: VectorSide, size: int, width: int, budget: Budget, metric: Metric = Metric.COSINE
) -> pa.Array:
    """Return the distance of the two vectors, of `width` numbers, of each row, null where one of them is.

    It is calculated as `nearest` does it, in double precision, and depends on the two vectors only.
    """
    distances = np.zeros(size, np.float64)
    is_present = np.zeros(size, np.bool_)
    for rows in _split_rows(left, right, size, width, budget):
        with budget.scope():
            first, second = (_read_distinct(side, rows, width, budget) for side in (left, right))
            is_present[rows] = first.is_present[first.numbers] & second.is_present[second.numbers]
            _compare(first, second, metric, distances[rows], budget)
    return pa.array(distances, pa.float64(), mask=~is_present)


def _split_rows(left: VectorSide, right: VectorSide, size: int, width: int, budget: Budget) -> Iterator[slice]:
    """Yield all rows in one block if their distinct vectors fit into memory, else in blocks that fit at any rate."""
    free = budget.bytes_left
    limit = _MAX_VECTOR_BYTES if free is None else min(_MAX_VECTOR_BYTES, free // 2)
    # In double precision, and as they were read.
    vectors = limit // (12 * width)
    rows = max(vectors // 2, _MIN_ROWS)
    if rows < size and sum(_count_distinct(side.keys, size) for side in (left, right)) <= vectors:
        rows = size
    for start in range(0, size, rows):
        yield slice(start, min(start + rows, size))


def _count_distinct(keys: Positions | None, size: int) -> int:
    return size if keys is None else len(_number_distinct(keys)[0])


def _number_distinct(keys: Positions) -> tuple[Positions, Positions]:
    """Return a row with each distinct key, and the number of each row's key among these."""
    size = int(keys.max(initial=-1)) + 2
    if size > _DENSE_FACTOR * len(keys):
        _, rows, numbers = np.unique(keys, return_index=True, return_inverse=True)
        return rows, numbers
    # A missing row is at position -1, which counts as one more.
    at = keys + 1
    row_of = np.full(size, -1, np.int64)
    row_of[at] = np.arange(len(keys))
    used = np.flatnonzero(row_of >= 0)
    number_of = np.zeros(size, np.int64)
    number_of[used] = np.arange(len(used))
    return row_of[used], number_of[at]


def _read_distinct(side: VectorSide, rows: slice, width: int, budget: Budget) -> _DistinctVectors:
    count = rows.stop - rows.start
    distinct, numbers = (np.arange(count),) * 2 if side.keys is None else _number_distinct(side.keys[rows])
    budget.claim(12 * width * len(distinct), "vectors that are compared with each other")
    vectors = side.read(distinct + rows.start)
    return _DistinctVectors(to_matrix(vectors).astype(np.float64), is_valid(vectors), numbers)


def _compare(
    first: _DistinctVectors, second: _DistinctVectors, metric: Metric, distances: Floats, budget: Budget
) -> None:
    """Fill in the distance of each row, block by block."""
    rows = max(_BLOCK_BYTES // (8 * max(first.matrix.shape[1], 1)), 1)
    # The numbers of a null vector are arbitrary, and so is the distance, which the caller leaves out.
    with np.errstate(invalid="ignore", over="ignore"):
        norms = [np.sqrt(np.square(side.matrix).sum(axis=1)) for side in (first, second)]
        for start in range(0, len(distances), rows):
            budget.check()
            block = slice(start, start + rows)
            left, right = first.numbers[block], second.numbers[block]
            factors, others = first.matrix.take(left, axis=0), second.matrix.take(right, axis=0)
            # `sum` and not a matrix product: each sum depends on its pair alone, whatever the other pairs are.
            if metric is Metric.L2:
                factors -= others
                distances[block] = np.sqrt(np.square(factors, out=factors).sum(axis=1))
                continue
            factors *= others
            sums = factors.sum(axis=1)
            if metric is Metric.DOT:
                distances[block] = -sums
                continue
            products = norms[0][left] * norms[1][right]
            cosines = np.divide(sums, products, out=np.zeros(len(sums)), where=products > 0)
            distances[block] = np.clip(1.0 - cosines, 0.0, 2.0)
