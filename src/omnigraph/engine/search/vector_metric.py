"""Compute the distances of vectors by the metric that their property declares, in double precision.

`cosine` is 1 minus the cosine of the angle, between 0 and 2; a vector of zeros has no angle, and its distance is 1.
`l2` is the Euclidean distance, `dot` the negative dot product. The smallest is the nearest by each of them.
"""

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.engine.search.tokenizer import Check
from omnigraph.schema.catalog import Metric

Matrix = NDArray[np.float32]
Floats = NDArray[np.float64]
# Rows that are converted to double precision in one step.
CHUNK_ROWS = 16_384


def compute_distances(matrix: Matrix, query: Floats, metric: Metric = Metric.COSINE) -> Floats:
    """Compute the exact distance of each row, which depends only on the row, the query and the metric."""
    distances = np.empty(len(matrix), np.float64)
    for start in range(0, len(matrix), CHUNK_ROWS):
        part = matrix[start : start + CHUNK_ROWS].astype(np.float64)
        distances[start : start + CHUNK_ROWS] = _compute_chunk(part, query, metric)
    return distances


def compute_distances_at(
    matrix: Matrix, at: Positions, query: Floats, check: Check, metric: Metric = Metric.COSINE
) -> Floats:
    """Compute the exact distances of some rows, gathering a limited number of vectors at a time."""
    distances = np.empty(len(at), np.float64)
    for start in range(0, len(at), CHUNK_ROWS):
        check()
        rows = slice(start, start + CHUNK_ROWS)
        distances[rows] = compute_distances(matrix[at[rows]], query, metric)
    return distances


def _compute_chunk(rows: Floats, query: Floats, metric: Metric) -> Floats:
    # `sum` and not a matrix product: each sum depends on its row alone, whatever the number of rows.
    distances: Floats
    if metric is Metric.DOT:
        distances = -(rows * query).sum(axis=1)
    elif metric is Metric.L2:
        distances = np.sqrt(np.square(rows - query).sum(axis=1))
    else:
        scaled = rescale(query)
        products = np.sqrt(np.square(rows).sum(axis=1)) * np.sqrt(np.square(scaled).sum())
        cosines = np.divide((rows * scaled).sum(axis=1), products, out=np.zeros(len(rows)), where=products > 0)
        distances = np.clip(1.0 - cosines, 0.0, 2.0)
    return distances


def rescale(query: Floats) -> Floats:
    """Scale a query whose squares would overflow or vanish; those of stored, single-precision vectors never do."""
    largest = float(np.abs(query).max(initial=0.0))
    return query if largest == 0 or 1e-60 < largest < 1e60 else query / largest


def normalize(query: Floats) -> Floats:
    """Return the query as a unit vector; zeros stay zeros."""
    scaled = rescale(query)
    norm = float(np.sqrt(np.square(scaled).sum()))
    return scaled / norm if norm else scaled


def bound_error(size: int) -> float:
    """Return the largest relative error of a product in single precision: rounding of products, sums and scales."""
    return float((size + 16) * np.finfo(np.float32).eps)


def bound_distances(products: Floats, norms: Floats, query: Floats, metric: Metric) -> tuple[Floats, Floats]:
    """Return lower and upper bounds of a value that grows with the distance by `l2` or `dot`.

    `products` are those of the rows and the unit query in single precision, `norms` those of the rows.
    """
    length = float(np.sqrt(np.square(query).sum()))
    # Half of the squared Euclidean distance, less the part that is the same for all rows.
    squares = np.square(norms) / 2 if metric is Metric.L2 else np.zeros(len(norms))
    estimates = squares - products * length
    errors = bound_error(len(query)) * (norms * length + 2 * squares)
    return estimates - errors, estimates + errors


# Between these squares of norms, single precision represents the product of two vectors.
_SAFE_SQUARES = (1e-30, 1e30)


def can_be_within(matrix: Matrix, query: Floats, limit: float, metric: Metric) -> NDArray[np.bool_]:
    """Return which rows can be at most `limit` away, by one pass in single precision; the others are not."""
    unit = normalize(query).astype(np.float32)
    with np.errstate(invalid="ignore", over="ignore"):
        products = np.vecdot(matrix, unit).astype(np.float64)
        squares = np.vecdot(matrix, matrix).astype(np.float64)
    low, high = _SAFE_SQUARES
    is_safe = (squares > low) & (squares < high)
    norms = np.sqrt(squares, where=is_safe, out=np.ones(len(squares)))
    error = bound_error(len(query))
    if metric is Metric.COSINE:
        is_within: NDArray[np.bool_] = ~is_safe | (products / norms >= 1.0 - limit - 2 * error)
        return is_within
    bounds, _ = bound_distances(products, norms, query, metric)
    if metric is Metric.L2:
        # The same value of a row at the limit, with the rounding of its own calculation.
        square = float(np.square(query).sum())
        limit = (limit * limit - square) / 2 + error * (limit * limit + square)
    can_be: NDArray[np.bool_] = ~is_safe | (bounds <= limit)
    return can_be
