"""Vectors of a column: their cosine distance to another, exactly.

The distance is 1 less the cosine of the angle, in double precision, between 0 and 2. A vector of zeros has no angle:
its distance is 1. To find the nearest of many, groups of like direction (`directions`), where they are made, and a pass
in single precision leave out those that can't be among them; what is left is computed exactly, so order and ties don't
depend on how the work was cut.
"""

import weakref
from collections.abc import Iterator
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
from omnigraph.engine.tables.row_layout import Layout
from omnigraph.engine.tables.table_reader import TableReader
from omnigraph.storage.arrow_buffers import is_valid
from omnigraph.storage.lance_table import ADDRESS

Matrix = NDArray[np.float32]
_CHUNK_ROWS = 16_384
_BATCH_BYTES = 32 * 1024 * 1024
_GATHER_FACTOR = 4
"""When fewer than one row in so many is a candidate, copying their vectors together is cheaper than to compute all."""
_MAX_EXACT_VECTORS = 512
"""So many vectors are compared exactly at once."""
_CANDIDATES_PER_RESULT = 8
"""Of the most promising rows, so many times those that are asked for tell how near a row has to be."""
_MIN_PRUNING_FACTOR = 2
"""Rows are left out by their directions when no more than this share of them is left."""
_MIN_CLUSTERED_ROWS, _MIN_CLUSTERED_SIZE = 16_384, 16
"""For fewer vectors, or shorter ones, comparing all is as quick as anything."""
_SAFE_NORMS = (1e-15, 1e15)
"""Between these, a product of two vectors stays far from the ends of single precision."""


@dataclass(frozen=True)
class VectorNorms:
    """The lengths of the vectors of a column as it was written, by position."""

    layout: Layout
    scale: NDArray[np.float32]
    """One over the length of each vector; 0 for a vector of zeros, and where there is none or a wild one."""
    is_out_of_range: NDArray[np.bool_]
    """Vectors so long or short that single precision does not do."""
    is_present: NDArray[np.bool_]
    """Living rows that have a vector."""

    @property
    def nbytes(self) -> int:
        """The memory it takes."""
        return self.is_present.nbytes + self.scale.nbytes + self.is_out_of_range.nbytes + 8 * len(self.scale)

    @cached_property
    def with_direction(self) -> Positions:
        """Living rows whose vector is neither zero nor wild."""
        return np.flatnonzero(self.is_present & (self.scale > 0))

    @cached_property
    def has_out_of_range(self) -> bool:
        """Whether any row has such a vector."""
        return bool((self.is_out_of_range & self.is_present).any())


@dataclass(frozen=True, slots=True)
class VectorColumn:
    """A Vector column by position, with what comparing it needs."""

    matrix: Matrix
    norms: VectorNorms
    clusters: VectorClusters | None = None
    """Made once they pay; None before."""


def load_vectors(reading: ExecutionContext, type_name: str, column: str) -> VectorColumn:
    """A column of this snapshot; the column and its norms are kept between queries."""
    rows = reading.get_reader(type_name)
    norms = rows.columns.get_or_derive(
        column, "norms", lambda: _build_norms(rows, column, reading.budget), lambda found: found.nbytes, reading.budget
    )
    matrix = to_matrix(rows.columns.load_written(column, reading.budget))
    return VectorColumn(matrix, norms, _find_clusters(reading, rows, column, matrix, norms))


def _find_clusters(
    reading: ExecutionContext, rows: TableReader, column: str, matrix: Matrix, norms: VectorNorms
) -> VectorClusters | None:
    """What is known of the directions of a column; made while queries go on, once enough of them have asked."""
    if (
        len(matrix) < _MIN_CLUSTERED_ROWS
        or matrix.shape[1] < _MIN_CLUSTERED_SIZE
        or len(norms.with_direction) < max(_MIN_CLUSTERED_ROWS, 1)
    ):
        return None
    number = rows.table.find_field_number(column)
    kept, key = rows.columns.cache, (rows.columns.state, number, "directions")
    found = kept.get(key)
    if isinstance(found, VectorClusters):
        return found
    latest = (rows.table.path, "latest directions", number)
    reference = kept.get(latest)
    older = reference() if isinstance(reference, weakref.ref) else None
    if isinstance(older, VectorClusters) or rows.columns.costs.is_frequent(f"directions of {column}"):

        def make(check: Check) -> VectorClusters:
            return build_clusters(matrix, norms.layout, norms.with_direction, older, check)

        def keep(made: VectorClusters) -> None:
            kept.put(key, made, made.nbytes)
            kept.put(latest, weakref.ref(made), 256)

        reading.cache.build_in_background(key, make, keep)
    return None


def _build_norms(rows: TableReader, column: str, budget: Budget) -> VectorNorms:
    """The norms of a column; those of rows that an older version had are taken over."""
    latest = (rows.table.path, "latest norms", rows.table.find_field_number(column))
    kept, layout = rows.columns.cache, rows.columns.layout
    reference = kept.get(latest)
    older = reference() if isinstance(reference, weakref.ref) else None
    written = rows.columns.load_written(column, budget)
    matrix, start = to_matrix(written), 0
    scale, is_wild = np.zeros(len(matrix), np.float32), np.zeros(len(matrix), np.bool_)
    for piece in layout.match_runs(older.layout if isinstance(older, VectorNorms) else Layout(())):
        stop = start + piece.rows
        if piece.start is not None and isinstance(older, VectorNorms):
            there = slice(piece.start, piece.start + piece.rows)
            scale[start:stop], is_wild[start:stop] = older.scale[there], older.is_out_of_range[there]
        else:
            _measure_norms(matrix[start:stop], scale[start:stop], is_wild[start:stop], budget.check)
        start = stop
    is_present, living = is_valid(written), rows.columns.live_rows.get_mask()
    found = VectorNorms(layout, scale, is_wild, is_present if living is None else is_present & living)
    kept.put(latest, weakref.ref(found), 256)
    return found


def _measure_norms(matrix: Matrix, scale: NDArray[np.float32], is_wild: NDArray[np.bool_], check: Check) -> None:
    """Fill in what there is to know of the length of each row."""
    low, high = _SAFE_NORMS
    for start in range(0, len(matrix), _CHUNK_ROWS):
        check()
        some = slice(start, start + _CHUNK_ROWS)
        part = matrix[some].astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore"):  # what stands for a null may be anything
            norms = np.sqrt(np.einsum("ij,ij->i", part, part))
            is_safe = (norms > low) & (norms < high)
        np.divide(1.0, norms, out=scale[some], where=is_safe, casting="unsafe")
        is_wild[some] = ~is_safe & (norms != 0)


def to_matrix(column: pa.Array) -> Matrix:
    """The numbers of a column of vectors, a row each, without a copy; what stands for a null means nothing."""
    size = column.type.list_size
    numbers = column.values.slice(column.offset * size, len(column) * size)
    return np.frombuffer(numbers.buffers()[1], np.float32)[numbers.offset :][: len(numbers)].reshape(len(column), size)


def compute_distances(matrix: Matrix, query: NDArray[np.float64]) -> NDArray[np.float64]:
    """The exact distance of each row; it depends on nothing but the row and the query."""
    found = np.empty(len(matrix), np.float64)
    asked = _rescale(query)
    length = np.sqrt(np.square(asked).sum())
    for start in range(0, len(matrix), _CHUNK_ROWS):
        part = matrix[start : start + _CHUNK_ROWS].astype(np.float64)
        products = np.sqrt(np.square(part).sum(axis=1)) * length
        cosines = np.divide((part * asked).sum(axis=1), products, out=np.zeros(len(part)), where=products > 0)
        found[start : start + _CHUNK_ROWS] = 1.0 - cosines
    clipped: NDArray[np.float64] = np.clip(found, 0.0, 2.0)
    return clipped


def compute_distances_at(
    matrix: Matrix, at: Positions, query: NDArray[np.float64], check: Check
) -> NDArray[np.float64]:
    """The exact distances of some rows, of which only a part is copied together at a time."""
    found = np.empty(len(at), np.float64)
    for start in range(0, len(at), _CHUNK_ROWS):
        check()
        some = slice(start, start + _CHUNK_ROWS)
        found[some] = compute_distances(matrix[at[some]], query)
    return found


def _rescale(query: NDArray[np.float64]) -> NDArray[np.float64]:
    """A query in the same direction whose squares can be added up; those of single precision, as stored, always can."""
    largest = float(np.abs(query).max(initial=0.0))
    return query if largest == 0 or 1e-60 < largest < 1e60 else query / largest


def select_finalists(found: VectorColumn, query: NDArray[np.float64], candidates: Positions, top: int) -> Positions:
    """Candidates with a vector, among them surely the `top` nearest and whoever is as near as the last of these."""
    present = candidates[found.norms.is_present[candidates]]
    if len(present) <= max(top, _MAX_EXACT_VECTORS):
        return present
    present = _prune_by_clusters(found, query, present, top)
    alike = _estimate_cosines(found, query, present)
    is_wild = found.norms.is_out_of_range[present] if found.norms.has_out_of_range else None
    if is_wild is not None:
        alike[is_wild] = -np.inf
    least = find_nth_largest(alike, top) - 2 * _bound_error(len(query))
    is_near = alike >= least
    near: Positions = present[is_near if is_wild is None else is_near | is_wild]
    return near


def _prune_by_clusters(found: VectorColumn, query: NDArray[np.float64], rows: Positions, top: int) -> Positions:
    """The rows whose directions let them be among the `top` nearest; all of them where that spares little."""
    known = found.clusters
    first = max(_CANDIDATES_PER_RESULT * top, _MAX_EXACT_VECTORS)
    if known is None or first * _GATHER_FACTOR > len(rows):
        return rows
    bounds = known.compute_bounds(_normalize(query), None if len(rows) == len(found.matrix) else rows)
    ahead = np.flatnonzero(bounds >= find_nth_largest(bounds, first))[: 2 * first]  # many may be equal
    is_wild = found.norms.is_out_of_range[rows] if found.norms.has_out_of_range else None
    alike = _estimate_cosines(found, query, rows[ahead])
    if is_wild is not None:
        alike[is_wild[ahead]] = -np.inf
    is_left = bounds >= find_nth_largest(alike, top) - 2 * _bound_error(len(query)) - BOUND_ERROR
    if is_wild is not None:
        is_left |= is_wild
    return rows[is_left] if np.count_nonzero(is_left) * _MIN_PRUNING_FACTOR < len(rows) else rows


def _normalize(query: NDArray[np.float64]) -> NDArray[np.float64]:
    """The query at length one, or zeros."""
    tamed = _rescale(query)
    length = float(np.sqrt(np.square(tamed).sum()))
    return tamed / length if length else tamed


def _estimate_cosines(found: VectorColumn, query: NDArray[np.float64], rows: Positions) -> NDArray[np.float32]:
    """About the cosines of these rows."""
    asked = _normalize(query).astype(np.float32)
    with np.errstate(invalid="ignore", over="ignore"):  # of vectors that don't count, and of wild ones
        if len(rows) * _GATHER_FACTOR < len(found.matrix):
            near: NDArray[np.float32] = np.vecdot(found.matrix[rows], asked) * found.norms.scale[rows]
            return near
        # Row by row and not as one product of a matrix: that would take all cores, and wait for them when others work.
        every: NDArray[np.float32] = np.vecdot(found.matrix, asked) * found.norms.scale
    return every if len(rows) == len(every) else every[rows]


def _bound_error(size: int) -> float:
    """By how much a cosine in single precision can be off: rounding of each product and sum, and of the scales."""
    return float((size + 16) * np.finfo(np.float32).eps)


def iter_vector_batches(
    reading: ExecutionContext, rows: TableReader, column: str
) -> Iterator[tuple[Positions, Matrix]]:
    """A column that is too large to keep, some rows after the other: positions and vectors of those that have one."""
    size = rows.table.schema.field(column).type.list_size
    batch_rows = max(1, min(_CHUNK_ROWS, _BATCH_BYTES // (4 * size)))
    for batch in rows.table.iter_batches([column], batch_rows=batch_rows, with_address=True):
        reading.budget.check()
        at = rows.columns.layout.find_positions(batch.column(ADDRESS))
        is_present = is_valid(batch.column(column))
        yield at[is_present], to_matrix(batch.column(column))[is_present]
