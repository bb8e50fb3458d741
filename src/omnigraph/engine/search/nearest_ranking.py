"""Rank rows by `nearest`: exactly, or by a declared vector index."""

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.search.index_ranking import MEDIUM_BYTES, compute_exactly, rank_by_index
from omnigraph.engine.search.nearest_neighbours import (
    iter_vector_batches,
    load_vectors,
    select_finalists,
)
from omnigraph.engine.search.nearest_search import VectorSearch
from omnigraph.engine.search.nth_largest import find_nth_largest
from omnigraph.engine.search.search_arguments import reserve, resolve_vector
from omnigraph.engine.search.vector_metric import can_be_within, compute_distances, compute_distances_at
from omnigraph.engine.tables.union_reader import UnionReader
from omnigraph.query.expr import Nearest

Floats = NDArray[np.float64]
# With fewer candidates than one row in this many, their vectors are read individually and not the whole column.
_LOOKUP_DIVISOR = 64


def rank_nearest(
    context: ExecutionContext, rank: Nearest, type_name: str, candidates: Positions, top: int | None
) -> tuple[Positions, Floats]:
    """Return candidates with a vector, at least the `top` nearest and all ties, and their distances."""
    rows = context.get_reader(type_name)
    if isinstance(rows, UnionReader):
        return _rank_union(context, rank, rows, candidates, top)
    prop = context.view.get_type(type_name).by_name[rank.prop.name]
    search = VectorSearch(context, rows, prop.name, resolve_vector(context, rank, type_name), prop.metric)
    if prop.vector_index is not None and top is not None and not rank.exact:
        found = rank_by_index(search, prop.vector_index, candidates, top)
        context.note_search(f"{type_name}.{prop.name}", None if found is None else found.recall)
        if found is not None:
            return found.positions, found.distances
    return rank_exactly(search, candidates, top)


def _rank_union(
    context: ExecutionContext, rank: Nearest, rows: UnionReader, candidates: Positions, top: int | None
) -> tuple[Positions, Floats]:
    """Rank the candidates of each member on their own: a distance depends on no other row."""
    positions: list[Positions] = [np.empty(0, np.int64)]
    distances: list[Floats] = [np.empty(0, np.float64)]
    for member, at, own in rows.split(candidates):
        # A text is embedded for each member, by the model of its property.
        near, values = rank_nearest(context, rank, member.type.name, own, top)
        base = int(candidates[at[0]]) - int(own[0])
        positions.append(near.astype(np.int64, copy=False) + base)
        distances.append(values)
    return np.concatenate(positions), np.concatenate(distances)


# --- exactly -----------------------------------------------------------------------------------------


def rank_exactly(search: VectorSearch, candidates: Positions, top: int | None) -> tuple[Positions, Floats]:
    """Rank candidates by comparing all of them, in memory or by a scan that keeps the nearest so far."""
    rows, column, context = search.rows, search.column, search.context
    costs = rows.columns.costs
    if not rows.is_resident(column):
        if len(candidates) * _LOOKUP_DIVISOR < rows.size:
            # Few candidates: only their vectors are read.
            return compute_exactly(search, candidates, may_hold=True)
        if not costs.has_room_for(column) or not _is_worth_holding(search):
            return _rank_by_scan(search, candidates, top)
    vectors = load_vectors(context, rows, column)
    with reserve(context.budget, 16 * rows.size, "ranking by nearest"):
        limit = len(candidates) if top is None else top
        near = select_finalists(vectors, search.query, candidates, limit, search.metric)
        check = context.budget.check
        return near, compute_distances_at(vectors.matrix, near, search.query, check, search.metric)


def _is_worth_holding(search: VectorSearch) -> bool:
    """Return whether the vectors are small, or were searched often enough, to be held in memory from now on."""
    costs, column = search.rows.columns.costs, search.column
    what = f"vectors of {column}"
    # Of a column of medium size, a scan takes as long as loading it.
    if costs.estimate_bytes(column) <= MEDIUM_BYTES:
        return costs.is_light(column) or costs.is_repeated(what)
    return costs.is_frequent(what)


def _rank_by_scan(search: VectorSearch, candidates: Positions, top: int | None) -> tuple[Positions, Floats]:
    """Rank candidates of a column that is not in memory by a scan that keeps the nearest so far."""
    is_candidate = np.zeros(search.rows.size, np.bool_)
    is_candidate[candidates] = True
    positions, distances = np.empty(0, np.int64), np.empty(0, np.float64)
    limit = np.inf
    for at, matrix in iter_vector_batches(search.context, search.rows, search.column):
        mask = is_candidate[at]
        if np.isfinite(limit):
            # Most rows are further away than the nearest so far: single precision is enough to exclude them.
            mask &= can_be_within(matrix, search.query, float(limit), search.metric)
        positions = np.concatenate((positions, at[mask]))
        distances = np.concatenate((distances, compute_distances(matrix[mask], search.query, search.metric)))
        if top is not None and 0 < top < len(distances):
            # Ties with the last one stay: the order by id decides between them.
            limit = -find_nth_largest(-distances, top)
            is_near = distances <= limit
            positions, distances = positions[is_near], distances[is_near]
    return positions, distances
