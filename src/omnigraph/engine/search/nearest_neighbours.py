"""Exact nearest-neighbour search.

To find the nearest of many, clusters (`vector_clusters`), once they are built, and a pass in single
precision exclude vectors that can't be among them; the rest is computed exactly, so order and ties don't depend on how
the work was split.
"""

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.search.nth_largest import find_nth_largest
from omnigraph.engine.search.tokenizer import Check
from omnigraph.engine.search.vector_clusters import BOUND_ERROR, VectorClusters, build_clusters
from omnigraph.engine.search.vector_metric import CHUNK_ROWS, Matrix, bound_distances, bound_error, normalize
from omnigraph.engine.tables.row_layout import Layout
from omnigraph.engine.tables.table_reader import TableReader
from omnigraph.schema.catalog import Metric
from omnigraph.storage.arrow_buffers import is_valid
from omnigraph.storage.lance_table import ADDRESS

# Limit of a batch of vectors that is streamed from storage.
_BATCH_BYTES = 32 * 1024 * 1024
# If fewer than one row in this many is a candidate, gathering their vectors is cheaper than computing all.
_GATHER_FACTOR = 4
# Up to this number of vectors, all are compared exactly without a first pass.
_MAX_EXACT_VECTORS = 512
# The best of this many promising rows per requested row decide how near a row has to be.
_CANDIDATES_PER_RESULT = 8
# Rows are pruned by clusters only if fewer than one in this many is left.
_MIN_PRUNING_FACTOR = 2
# For fewer vectors, or shorter ones, comparing all of them is as fast.
_MIN_CLUSTERED_ROWS = 16_384
_MIN_CLUSTERED_SIZE = 16
# Between these norms, the product of two vectors stays far from the limits of single precision.
_SAFE_NORMS = (1e-15, 1e15)


@dataclass(frozen=True)
class VectorNorms:
    """The norms of the vectors of a column, by position; deleted rows have one as well."""

    layout: Layout
    scale: NDArray[np.float32]
    """Reciprocal of each norm; 0 for a vector of zeros, a missing one, and one out of range."""
    is_out_of_range: NDArray[np.bool_]
    """Vectors whose norm is too large or too small for single precision."""
    is_present: NDArray[np.bool_]
    """Live rows that have a vector."""

    @property
    def nbytes(self) -> int:
        """Memory of the arrays."""
        return self.is_present.nbytes + self.scale.nbytes + self.is_out_of_range.nbytes + 8 * len(self.scale)

    @cached_property
    def with_direction(self) -> Positions:
        """Live rows whose vector is neither zero nor out of range."""
        return np.flatnonzero(self.is_present & (self.scale > 0))

    @cached_property
    def has_out_of_range(self) -> bool:
        """Whether a live row has a vector out of range."""
        return bool((self.is_out_of_range & self.is_present).any())


@dataclass(frozen=True, slots=True)
class VectorColumn:
    """A vector column by position, with the norms and clusters that comparing it needs."""

    matrix: Matrix
    norms: VectorNorms
    clusters: VectorClusters | None = None
    """Built once they pay off; None before."""


def load_vectors(context: ExecutionContext, rows: TableReader, column: str) -> VectorColumn:
    """Load a vector column of this snapshot; the column and its norms are cached between queries."""
    norms = rows.columns.get_or_derive(
        column, "norms", lambda: _build_norms(rows, column, context.budget), lambda norms: norms.nbytes, context.budget
    )
    matrix = to_matrix(rows.columns.load_written(column, context.budget))
    return VectorColumn(matrix, norms, _find_clusters(context, rows, column, matrix, norms))


def _find_clusters(
    context: ExecutionContext, rows: TableReader, column: str, matrix: Matrix, norms: VectorNorms
) -> VectorClusters | None:
    """Return the clusters of a column if they are built; else start to build them once enough queries asked."""
    if (
        len(matrix) < _MIN_CLUSTERED_ROWS
        or matrix.shape[1] < _MIN_CLUSTERED_SIZE
        or len(norms.with_direction) < max(_MIN_CLUSTERED_ROWS, 1)
    ):
        return None
    number = rows.table.find_field_number(column)
    cache, key = rows.columns.cache, (rows.columns.state, number, "directions")
    cached = cache.get(key)
    if isinstance(cached, VectorClusters):
        return cached
    latest_key = (rows.table.path, "latest directions", number)
    reference = cache.get(latest_key)
    older = reference() if isinstance(reference, weakref.ref) else None
    # Building takes as long as some ninety queries (0.7 s for 100,000 vectors of 384), so it runs in the background.
    # With the clusters of an older version only new rows are assigned.
    if isinstance(older, VectorClusters) or rows.columns.costs.is_frequent(f"directions of {column}"):

        def build(check: Check) -> VectorClusters:
            return build_clusters(matrix, norms.layout, norms.with_direction, older, check)

        def store(clusters: VectorClusters) -> None:
            cache.put(key, clusters, clusters.nbytes)
            cache.put(latest_key, weakref.ref(clusters), 256)

        context.cache.build_in_background(key, build, store)
    return None


def _build_norms(rows: TableReader, column: str, budget: Budget) -> VectorNorms:
    """Build the norms of a column, reusing those of rows that an older version had."""
    latest_key = (rows.table.path, "latest norms", rows.table.find_field_number(column))
    cache, layout = rows.columns.cache, rows.columns.layout
    reference = cache.get(latest_key)
    older = reference() if isinstance(reference, weakref.ref) else None
    written = rows.columns.load_written(column, budget)
    matrix, start = to_matrix(written), 0
    scale = np.zeros(len(matrix), np.float32)
    is_out_of_range = np.zeros(len(matrix), np.bool_)
    for run in layout.match_runs(older.layout if isinstance(older, VectorNorms) else Layout(())):
        stop = start + run.rows
        if run.start is not None and isinstance(older, VectorNorms):
            # The same fragments may have other positions now: earlier ones may be gone.
            older_rows = slice(run.start, run.start + run.rows)
            scale[start:stop] = older.scale[older_rows]
            is_out_of_range[start:stop] = older.is_out_of_range[older_rows]
        else:
            _measure_norms(matrix[start:stop], scale[start:stop], is_out_of_range[start:stop], budget.check)
        start = stop
    is_present, live_mask = is_valid(written), rows.columns.live_rows.get_mask()
    norms = VectorNorms(layout, scale, is_out_of_range, is_present if live_mask is None else is_present & live_mask)
    cache.put(latest_key, weakref.ref(norms), 256)
    return norms


def _measure_norms(
    matrix: Matrix, scale: NDArray[np.float32], is_out_of_range: NDArray[np.bool_], check: Check
) -> None:
    """Fill in the reciprocal norm of each row, and whether it is out of range."""
    low, high = _SAFE_NORMS
    for start in range(0, len(matrix), CHUNK_ROWS):
        check()
        rows = slice(start, start + CHUNK_ROWS)
        part = matrix[rows].astype(np.float64)
        # The numbers of a null vector are arbitrary.
        with np.errstate(invalid="ignore", over="ignore"):
            norms = np.sqrt(np.einsum("ij,ij->i", part, part))
            is_safe = (norms > low) & (norms < high)
        np.divide(1.0, norms, out=scale[rows], where=is_safe, casting="unsafe")
        is_out_of_range[rows] = ~is_safe & (norms != 0)


def to_matrix(column: pa.Array) -> Matrix:
    """Return a column of vectors as a matrix, without a copy; the numbers of a null are arbitrary."""
    size = column.type.list_size
    numbers = column.values.slice(column.offset * size, len(column) * size)
    return np.frombuffer(numbers.buffers()[1], np.float32)[numbers.offset :][: len(numbers)].reshape(len(column), size)


def select_finalists(
    column: VectorColumn,
    query: NDArray[np.float64],
    candidates: Positions,
    top: int,
    metric: Metric = Metric.COSINE,
) -> Positions:
    """Return candidates with a vector that include the `top` nearest and all that tie with the last of these."""
    present = candidates[column.norms.is_present[candidates]]
    if len(present) <= max(top, _MAX_EXACT_VECTORS):
        return present
    if metric is not Metric.COSINE:
        return _select_by_bounds(column, query, present, top, metric)
    present = _prune_by_clusters(column, query, present, top)
    cosines = _estimate_cosines(column, query, present)
    is_out_of_range = column.norms.is_out_of_range[present] if column.norms.has_out_of_range else None
    if is_out_of_range is not None:
        # Their estimates mean nothing: they must not set the bound, and always stay.
        cosines[is_out_of_range] = -np.inf
    # Both this row and the one at the bound may be off by the error.
    bound = find_nth_largest(cosines, top) - 2 * bound_error(len(query))
    is_near = cosines >= bound
    near: Positions = present[is_near if is_out_of_range is None else is_near | is_out_of_range]
    return near


def _select_by_bounds(
    column: VectorColumn, query: NDArray[np.float64], rows: Positions, top: int, metric: Metric
) -> Positions:
    """Return the rows whose distance by `l2` or `dot` can be among the `top` smallest."""
    scale = column.norms.scale[rows].astype(np.float64)
    norms = np.divide(1.0, scale, out=np.zeros(len(scale)), where=scale > 0)
    # The estimated cosines, times the norms: the products with the unit query.
    products = _estimate_cosines(column, query, rows).astype(np.float64) * norms
    low, high = bound_distances(products, norms, query, metric)
    is_out_of_range = column.norms.is_out_of_range[rows]
    # Their bounds mean nothing: they must not set the limit, and always stay.
    low[is_out_of_range], high[is_out_of_range] = -np.inf, np.inf
    near: Positions = rows[low <= -find_nth_largest(-high, top)]
    return near


def _prune_by_clusters(column: VectorColumn, query: NDArray[np.float64], rows: Positions, top: int) -> Positions:
    """Return the rows that can be among the `top` nearest by their clusters, or all if that excludes few."""
    clusters = column.clusters
    sample_size = max(_CANDIDATES_PER_RESULT * top, _MAX_EXACT_VECTORS)
    if clusters is None or sample_size * _GATHER_FACTOR > len(rows):
        return rows
    bounds = clusters.compute_bounds(normalize(query), None if len(rows) == len(column.matrix) else rows)
    # Limited, because many bounds may be equal.
    promising = np.flatnonzero(bounds >= find_nth_largest(bounds, sample_size))[: 2 * sample_size]
    is_out_of_range = column.norms.is_out_of_range[rows] if column.norms.has_out_of_range else None
    cosines = _estimate_cosines(column, query, rows[promising])
    if is_out_of_range is not None:
        cosines[is_out_of_range[promising]] = -np.inf
    is_left = bounds >= find_nth_largest(cosines, top) - 2 * bound_error(len(query)) - BOUND_ERROR
    if is_out_of_range is not None:
        is_left |= is_out_of_range
    return rows[is_left] if np.count_nonzero(is_left) * _MIN_PRUNING_FACTOR < len(rows) else rows


def _estimate_cosines(column: VectorColumn, query: NDArray[np.float64], rows: Positions) -> NDArray[np.float32]:
    """Estimate the cosines of these rows in single precision."""
    unit = normalize(query).astype(np.float32)
    # Vectors of nulls and those out of range may overflow; callers ignore their estimates.
    with np.errstate(invalid="ignore", over="ignore"):
        if len(rows) * _GATHER_FACTOR < len(column.matrix):
            gathered: NDArray[np.float32] = np.vecdot(column.matrix[rows], unit) * column.norms.scale[rows]
            return gathered
        # Row by row, not as a matrix product: that would take all cores, and wait for them while others work.
        cosines: NDArray[np.float32] = np.vecdot(column.matrix, unit) * column.norms.scale
    return cosines if len(rows) == len(cosines) else cosines[rows]


def iter_vector_batches(
    context: ExecutionContext, rows: TableReader, column: str, fragments: Sequence[int] | None = None
) -> Iterator[tuple[Positions, Matrix]]:
    """Yield the positions and vectors of a column that is not in memory, in batches; nulls are left out."""
    size = rows.table.schema.field(column).type.list_size
    batch_rows = max(1, min(CHUNK_ROWS, _BATCH_BYTES // (4 * size)))
    for batch in rows.table.iter_batches([column], batch_rows=batch_rows, with_address=True, fragments=fragments):
        context.budget.check()
        at = rows.columns.layout.find_positions(batch.column(ADDRESS))
        matrix = to_matrix(batch.column(column))
        if batch.column(column).null_count:
            is_present = is_valid(batch.column(column))
            at, matrix = at[is_present], matrix[is_present]
        yield at, matrix
