"""Ranks: which rows come first by `nearest`, `bm25` and `rrf`, and with which score."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.search.column_index import IndexSegment, iter_segments
from omnigraph.engine.search.nearest_neighbours import (
    compute_distances,
    compute_distances_at,
    iter_vector_batches,
    load_vectors,
    select_finalists,
    to_matrix,
)
from omnigraph.engine.search.nth_largest import find_nth_largest
from omnigraph.engine.search.search_arguments import reserve, resolve_k, resolve_text, resolve_vector
from omnigraph.engine.search.text_match import BYTES_PER_LETTER, stem_query
from omnigraph.engine.search.tokenizer import Check, iter_with_check
from omnigraph.engine.tables.table_reader import TableReader
from omnigraph.query.expr import Bm25, Nearest, Rank, Rrf
from omnigraph.query.logical_plan import RRF_LIMIT_FACTOR, RRF_MIN_ROWS
from omnigraph.schema.arrow import ID
from omnigraph.storage.arrow_buffers import is_valid, read_numbers

K1, B = 1.2, 0.75
"""How soon more of the same word stops to count, and how much a long text counts against it."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Scores:
    """Rows, the best first, equals by id; each with its score."""

    positions: NDArray[np.int64]
    values: Floats


def rank_rows(
    reading: ExecutionContext,
    rank: Rank,
    type_name: str,
    candidates: Positions,
    top: int | None,
    *,
    with_ties: bool = False,
) -> Scores:
    """The `top` best of the candidates, or all of them, by a rank.

    Candidates are distinct positions, in any order: those that passed every filter and hop. Rows without a vector are
    not in `nearest`, rows without a match not in `bm25`; every candidate is in `rrf`, whose lists are as long as
    `top` (limit and offset together) says.

    Args:
        reading: The read.
        rank: What to rank by.
        type_name: The type whose table the positions are of.
        candidates: The rows to choose from.
        top: How many; None for all.
        with_ties: Return whoever scores like the last one too, for callers that break ties by something else.

    Raises:
        ParameterError: What to look for is null.
        NoProviderError and others of `engine.embed`: A text could not become a vector.
    """
    match rank:
        case Nearest():
            positions, values = _rank_nearest(reading, rank, type_name, candidates, top)
            return _take_best(reading, type_name, positions, values, top, with_ties=with_ties)
        case Bm25():
            positions, values = _rank_bm25(reading, rank, type_name, candidates)
            return _take_best(reading, type_name, positions, -values, top, with_ties=with_ties, sign=-1.0)
        case Rrf():
            positions, values = _rank_rrf(reading, rank, type_name, candidates, top)
            return _take_best(reading, type_name, positions, -values, top, with_ties=with_ties, sign=-1.0)
        case _:
            assert_never(rank)


def score_rows(
    reading: ExecutionContext,
    rank: Rank,
    type_name: str,
    at: Positions,
    *,
    candidates: Positions | None = None,
    top: int | None = None,
) -> pa.Array:
    """The score of each of these rows, repeats too; null for a row without one.

    An `rrf` is of all `candidates`, or of the rows themselves, and of the query's limit and offset together.
    """
    distinct, places = np.unique(np.asarray(at, np.int64), return_inverse=True)
    match rank:
        case Nearest():
            positions, values = _rank_nearest(reading, rank, type_name, distinct, None)
        case Bm25():
            positions, values = _rank_bm25(reading, rank, type_name, distinct)
        case Rrf():
            positions, values = _rank_rrf(reading, rank, type_name, distinct if candidates is None else candidates, top)
        case _:
            assert_never(rank)
    order = np.argsort(positions, kind="stable")
    positions, values = positions[order], values[order]
    found = np.searchsorted(positions, distinct)
    has_score = found < len(positions)
    has_score[has_score] = positions[found[has_score]] == distinct[has_score]
    scores = np.zeros(len(distinct), np.float64)
    scores[has_score] = values[found[has_score]]
    return pa.array(scores[places], pa.float64(), mask=~has_score[places])


# --- order -------------------------------------------------------------------------------------------


def _take_best(
    reading: ExecutionContext,
    type_name: str,
    positions: Positions,
    keys: Floats,
    top: int | None,
    *,
    with_ties: bool = False,
    sign: float = 1.0,
) -> Scores:
    """The rows with the smallest keys, equals by id; a key times `sign` is the score."""
    if top is not None and top < len(keys):
        if top <= 0:
            return Scores(np.empty(0, np.int64), np.empty(0, np.float64))
        is_kept = -keys >= find_nth_largest(-keys, top)
        positions, keys = positions[is_kept], keys[is_kept]
    order = np.argsort(keys, kind="stable")
    positions, keys = positions[order], keys[order]
    is_same = keys[1:] == keys[:-1]
    if is_same.any():
        positions = _sort_ties_by_id(reading.get_reader(type_name), positions, is_same, reading)
    stop = len(keys) if with_ties else top
    return Scores(positions[:stop].astype(np.int64, copy=False), keys[:stop] * sign)


def _sort_ties_by_id(
    rows: TableReader, positions: Positions, is_same: NDArray[np.bool_], reading: ExecutionContext
) -> Positions:
    """The same order with each run of equals sorted by id; only their ids are read."""
    is_tied = np.zeros(len(positions), np.bool_)
    is_tied[1:] |= is_same
    is_tied[:-1] |= is_same
    run = np.cumsum(np.concatenate(([True], ~is_same)))[is_tied]
    ids = rows.take_values(ID, positions[is_tied], reading.budget)
    order = pc.sort_indices(pa.table({"run": run, "id": ids}), [("run", "ascending"), ("id", "ascending")])
    found = positions.copy()
    found[is_tied] = positions[is_tied][read_numbers(order)]
    return found


# --- nearest -----------------------------------------------------------------------------------------


def _rank_nearest(
    reading: ExecutionContext, rank: Nearest, type_name: str, candidates: Positions, top: int | None
) -> tuple[Positions, Floats]:
    """Candidates with a vector, at least the `top` nearest and their equals, and their distances."""
    query = resolve_vector(reading, rank, type_name)
    rows, column = reading.get_reader(type_name), rank.prop.name
    if not rows.columns.costs.has_room_for(column):
        return _rank_nearest_by_scan(reading, rows, column, query, candidates, top)
    if not rows.is_resident(column) and len(candidates) * 64 < rows.size:
        return _rank_nearest_by_lookup(reading, rows, column, query, candidates)
    found = load_vectors(reading, type_name, column)
    with reserve(reading.budget, 16 * rows.size, "ranking by nearest"):
        near = select_finalists(found, query, candidates, len(candidates) if top is None else top)
        return near, compute_distances_at(found.matrix, near, query, reading.budget.check)


def _rank_nearest_by_lookup(
    reading: ExecutionContext, rows: TableReader, column: str, query: Floats, candidates: Positions
) -> tuple[Positions, Floats]:
    """Few rows of a column that is not in memory, read by themselves."""
    taken = rows.take_values(column, candidates, reading.budget)
    is_present = is_valid(taken)
    return candidates[is_present], compute_distances(to_matrix(taken)[is_present], query)


def _rank_nearest_by_scan(
    reading: ExecutionContext, rows: TableReader, column: str, query: Floats, candidates: Positions, top: int | None
) -> tuple[Positions, Floats]:
    """All rows of a column that does not fit into memory; only the nearest so far are kept."""
    if len(candidates) * 64 < rows.size:
        return _rank_nearest_by_lookup(reading, rows, column, query, candidates)
    is_candidate = np.zeros(rows.size, np.bool_)
    is_candidate[candidates] = True
    kept_at, kept = np.empty(0, np.int64), np.empty(0, np.float64)
    for at, matrix in iter_vector_batches(reading, rows, column):
        wanted = is_candidate[at]
        kept_at = np.concatenate((kept_at, at[wanted]))
        kept = np.concatenate((kept, compute_distances(matrix[wanted], query)))
        if top is not None and 0 < top < len(kept):
            is_near = -kept >= find_nth_largest(-kept, top)
            kept_at, kept = kept_at[is_near], kept[is_near]
    return kept_at, kept


# --- bm25 --------------------------------------------------------------------------------------------


def _rank_bm25(
    reading: ExecutionContext, rank: Bm25, type_name: str, candidates: Positions
) -> tuple[Positions, Floats]:
    """Candidates with a match, and their relevance; how rare a word is, is counted over the whole table."""
    rows, query, check = (
        reading.get_reader(type_name),
        resolve_text(reading.inputs, rank.query, "bm25"),
        reading.budget.check,
    )
    with reserve(reading.budget, len(query) * BYTES_PER_LETTER, "the words that `bm25` looks for"):
        stems = stem_query(query, check)
    with reserve(reading.budget, 8 * rows.size, "ranking by bm25"):
        scores = np.zeros(rows.size, np.float64)
        for at, values in _iter_relevance(iter_segments(reading, rows, rank.prop.name), stems, check):
            scores[at] += values
        if len(candidates) == rows.count:  # that is everybody: nobody else has a match
            candidates = np.flatnonzero(scores)
        values = scores[candidates]
    has_match = values > 0
    return candidates[has_match], values[has_match]


def _iter_relevance(
    parts: Iterable[IndexSegment], stems: Iterable[str], check: Check
) -> Iterator[tuple[Positions, Floats]]:
    """Word by word, rows that have it and what it adds to their score; each word counts once."""
    hits: dict[str, list[tuple[Positions, NDArray[np.int32], NDArray[np.int32]]]] = {stem: [] for stem in stems}
    count = total = 0
    for part in parts:
        count, total = count + part.count, total + part.total
        for stem, found in iter_with_check(hits.items(), check):
            having = part.find_postings(stem)
            if having is not None:
                found.append(having)
    for found in iter_with_check(hits.values(), check):
        weight = _compute_idf(sum(len(at) for at, _, _ in found), count)
        for at, times, lengths in found:
            yield at, _compute_tf(times, lengths, total / count) * weight


def _compute_idf(matching: int, count: int) -> float:
    """How much a word tells that `matching` of `count` texts have."""
    return math.log(1 + (count - matching + 0.5) / (matching + 0.5))


def _compute_tf(times: NDArray[np.int32], lengths: NDArray[np.int32], mean_length: float) -> Floats:
    found: Floats = times * (K1 + 1) / (times + K1 * (1 - B + B * lengths / mean_length))
    return found


# --- rrf ---------------------------------------------------------------------------------------------


def _rank_rrf(
    reading: ExecutionContext, rank: Rrf, type_name: str, candidates: Positions, top: int | None
) -> tuple[Positions, Floats]:
    """Every candidate and its sum of 1/(k + rank) over both lists."""
    k = resolve_k(reading.inputs, rank)
    length = max(RRF_LIMIT_FACTOR * (top or 0), RRF_MIN_ROWS)
    order = np.argsort(candidates, kind="stable")
    ascending = candidates[order]
    sums = np.zeros(len(candidates), np.float64)
    for one in (rank.first, rank.second):
        listed = rank_rows(reading, one, type_name, candidates, length).positions
        sums[order[np.searchsorted(ascending, listed)]] += 1.0 / (k + np.arange(1, len(listed) + 1))
    return candidates, sums
