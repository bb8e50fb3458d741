"""Rank rows by `nearest` with the vector index that a property declares: approximate, and never short of rows.

Lance knows no set of rows, so an index is searched without the filters and hops of a query, for as many rows as contain
enough candidates. The fewer rows are candidates, the deeper and the wider the search; beyond a limit it is exact. Rows
that the index does not cover are compared one by one, and all distances are computed again in double precision.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.engine.search.nearest_neighbours import iter_vector_batches, to_matrix
from omnigraph.engine.search.nearest_search import VectorSearch
from omnigraph.engine.search.recall import RecallCurve, get_overfetch, load_curve
from omnigraph.engine.search.vector_metric import compute_distances
from omnigraph.engine.tables.index_advisor import VECTOR_KINDS
from omnigraph.schema.catalog import Metric, VectorIndex
from omnigraph.storage.arrow_buffers import is_valid
from omnigraph.storage.table_cache import PinUnreadableError
from omnigraph.storage.vector_search import IVF_FLAT, StoredVectorIndex, list_vector_indexes, search_index
from omnigraph.telemetry import log

Floats = NDArray[np.float64]
# A search asks for this many times the rows that it needs, and some: how many of them are candidates varies.
_SPARE_FACTOR, _SPARE_ROWS = 1.5, 6
# If too few of the rows found are candidates, one search this many times as deep follows.
_DEEPER = 4
# The cost of reading one vector by its position, in vectors that a search of cells compares, and in vectors of a scan:
# of 100,000 vectors of 384, 5,000 took 49 ms of CPU by position, all cells 59 ms, and a scan of the column 166 ms.
_LOOKUP_COST, _SCAN_LOOKUP_COST = 16, 6
# Vectors of more bytes are held only if they are searched often: to load a million of 384 took 8 s of CPU and, for a
# while, 3.6 GB; a scan of them takes 2 s.
MEDIUM_BYTES = 512 * 2**20
# The relative error of distances in single precision, as Lance computes them.
_DISTANCE_ERROR = 1e-4


@dataclass(frozen=True, slots=True)
class ApproximateRank:
    """Ranked rows and their exact distances, and the expected share of the true nearest rows among them."""

    positions: Positions
    distances: Floats
    recall: float | None
    """None: the search was exact."""


@dataclass(frozen=True, slots=True)
class _Candidates:
    """The rows to choose from: those that the index covers as a mask by position, and the others."""

    mask: NDArray[np.bool_] | None
    """None: every live row of the covered fragments is a candidate."""
    share: float
    """The share of the covered rows that are candidates."""
    live: int
    """The number of covered rows."""
    uncovered: Positions
    fragments: tuple[int, ...]
    """The fragments of uncovered rows."""


def rank_by_index(
    search: VectorSearch, declared: VectorIndex, candidates: Positions, top: int
) -> ApproximateRank | None:
    """Return at least the `top` nearest candidates that the index finds; None if an exact search is as cheap or needed.

    That is: the vectors are in memory or few, too few rows are candidates, the index is not built yet, damaged, or its
    recall was not measured, or fewer rows were found than exist.
    """
    rows = search.rows
    if top <= 0 or rows.columns.costs.is_light(search.column) or len(candidates) <= top:
        return None
    index = find_index(search, declared)
    curve = None if index is None else load_curve(search.context.cache, rows, search.column, index)
    if index is None or curve is None:
        return None
    chosen = _split_candidates(search, index, candidates)
    if not chosen.share:
        return None
    if chosen.mask is None:
        # All that is found is a candidate: the rows to spare only tell whether others tie with the last one.
        depth = top + (1 if index.kind == IVF_FLAT else _SPARE_ROWS)
    else:
        depth = int((_SPARE_FACTOR * top + _SPARE_ROWS) / chosen.share) + 1
    if _is_lookup_cheaper(curve.choose_cells(depth, declared.recall), chosen.live, len(candidates)):
        if rows.is_resident(search.column):
            # The exact search of vectors in memory is faster still: single precision leaves out most of them.
            return None
        return ApproximateRank(*compute_exactly(search, candidates, may_hold=True), recall=None)
    for attempt in (depth, _DEEPER * depth):
        try:
            ranked = _search_once(search, index, curve, chosen, top, attempt, declared.recall)
        except PinUnreadableError as error:
            # If the table is damaged too, the exact search that follows reports it.
            log.warning("the index %s of %s is not used: %s", index.name, rows.type.name, error.reason)
            return None
        if ranked is not None:
            return _add_uncovered(search, chosen, ranked, top)
        if attempt > max((measured for measured, _ in curve.depths), default=0):
            break
    return None


def _is_lookup_cheaper(cells: tuple[int, float] | None, rows: int, candidates: int) -> bool:
    """Return whether reading the vectors of all candidates costs less than a search of these cells, or than a scan."""
    if cells is None:
        return candidates * _SCAN_LOOKUP_COST < rows
    # An index has about as many cells as the square root of its rows.
    return bool(candidates * _LOOKUP_COST < rows * min(1.0, cells[0] / rows**0.5))


def find_index(search: VectorSearch, declared: VectorIndex) -> StoredVectorIndex | None:
    """Return the stored index of the declared kind and metric; None if there is none, or Lance might use another."""
    rows, column = search.rows, search.column
    key = (rows.columns.version, "vector indexes", column)
    indexes = rows.columns.cache.get_or_build(
        key, lambda: list_vector_indexes(rows.table, column), lambda found: 512 * len(found) + 64
    )
    if len(indexes) != 1:
        return None
    index = indexes[0]
    is_declared = index.kind == VECTOR_KINDS[declared.kind] and index.metric == search.metric.value
    return index if is_declared and index.fragments else None


def _split_candidates(search: VectorSearch, index: StoredVectorIndex, candidates: Positions) -> _Candidates:
    rows = search.rows
    layout = rows.columns.layout
    is_covered = np.array([f.number in index.fragments for f in layout.fragments], np.bool_)
    live = sum(f.rows - f.deleted for f in layout.fragments if f.number in index.fragments)
    uncovered: Positions = np.empty(0, np.int64)
    if not is_covered.all():
        fragment = np.searchsorted(layout.starts, candidates, side="right") - 1
        uncovered = candidates[~is_covered[fragment]]
    covered = len(candidates) - len(uncovered)
    mask = None
    if covered < live:
        mask = np.zeros(rows.size, np.bool_)
        mask[candidates] = True
    touched = np.unique(np.searchsorted(layout.starts, uncovered, side="right") - 1).tolist()
    fragments = tuple(layout.fragments[number].number for number in touched)
    return _Candidates(mask, covered / live if live else 0.0, live, uncovered, fragments)


def _search_once(
    search: VectorSearch,
    index: StoredVectorIndex,
    curve: RecallCurve,
    chosen: _Candidates,
    top: int,
    depth: int,
    goal: float,
) -> ApproximateRank | None:
    """Search `depth` rows deep; None if that may miss candidates that exist, or is not known to find enough."""
    cells = curve.choose_cells(depth, goal)
    if cells is None:
        return None
    # As many as when the recall was measured: one more than the depth, which was the query itself.
    count = (depth + 1) * get_overfetch(index.kind)
    query = search.query.astype(np.float32)
    search.context.budget.check()
    # In the same search: a look-up after it took half as long as the search.
    with_vectors = chosen.mask is None and not search.rows.is_resident(search.column)
    hits = search_index(search.rows.table, search.column, index, query, count, cells[0], with_vectors=with_vectors)
    has_all = len(hits.addresses) < count
    positions = search.rows.columns.layout.find_addresses(hits.addresses)
    estimates = hits.distances.astype(np.float64)
    if chosen.mask is not None:
        passing = chosen.mask[positions]
        positions, estimates = positions[passing], estimates[passing]
    if len(positions) < top and not has_all:
        return None
    kept = np.ones(len(positions), np.bool_)
    if index.kind == IVF_FLAT and len(positions) > top:
        # Distances in single precision decide all but the last places.
        error = _DISTANCE_ERROR * max(1.0, float(np.abs(estimates).max(initial=0.0)))
        kept = estimates <= estimates[top - 1] + error
        if kept.all() and not has_all:
            # More rows may tie with the last one.
            return None
    distinct, first = np.unique(positions[kept], return_index=True)
    if hits.vectors is None:
        finalists, distances = compute_exactly(search, distinct)
    else:
        # Every row is a candidate, so none of the hits was left out before.
        finalists = distinct.astype(np.int64, copy=False)
        distances = compute_distances(to_matrix(hits.vectors)[np.flatnonzero(kept)[first]], search.query, search.metric)
    if search.metric is Metric.COSINE and (len(distances) < top or np.partition(distances, top - 1)[top - 1] >= 1.0):
        # Lance leaves out vectors of zeros, which are at distance 1.
        return None
    if len(distances) < top and not has_all:
        return None
    return ApproximateRank(finalists, distances, cells[1])


def compute_exactly(search: VectorSearch, at: Positions, *, may_hold: bool = False) -> tuple[Positions, Floats]:
    """Return the rows among these that have a vector, and their exact distances; only these vectors are read.

    With `may_hold`, a column of medium size is held once so many vectors were read that loading it would have paid off.
    """
    columns, column = search.rows.columns, search.column
    # Of 100,000 vectors of 384, 5,000 took 65 ms by position at each search, and take 3 in memory.
    may_load = may_hold and columns.costs.estimate_bytes(column) <= MEDIUM_BYTES
    if may_load or columns.is_resident(column):
        vectors = columns.take_values(column, at, search.context.budget)
    else:
        # Not `take_values` of the columns: it loads the whole column once enough rows were taken.
        vectors = columns.take_stored(column, at)
    is_present = is_valid(vectors)
    return at[is_present], compute_distances(to_matrix(vectors)[is_present], search.query, search.metric)


def _add_uncovered(search: VectorSearch, chosen: _Candidates, found: ApproximateRank, top: int) -> ApproximateRank:
    """Add the candidates that the index does not cover, compared one by one; only near ones are kept."""
    if not len(chosen.uncovered):
        return found
    is_wanted = np.zeros(search.rows.size, np.bool_)
    is_wanted[chosen.uncovered] = True
    positions, distances = [found.positions], [found.distances]
    limit = float(np.partition(found.distances, top - 1)[top - 1]) if len(found.distances) >= top else np.inf
    for at, matrix in iter_vector_batches(search.context, search.rows, search.column, chosen.fragments):
        mask = is_wanted[at]
        values = compute_distances(matrix[mask], search.query, search.metric)
        is_near = values <= limit
        positions.append(at[mask][is_near])
        distances.append(values[is_near])
    return ApproximateRank(np.concatenate(positions), np.concatenate(distances), found.recall)
