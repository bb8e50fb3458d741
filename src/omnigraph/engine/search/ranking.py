"""Rank and score rows by `nearest`, `bm25`, `rrf` (reciprocal rank fusion), `mmr` and `rerank`."""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.engine.embed import EmbeddingError
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.search.column_index import TextIndexSegment, get_language, iter_segments
from omnigraph.engine.search.list_ranking import choose_different, rerank_pool
from omnigraph.engine.search.nearest_ranking import rank_nearest
from omnigraph.engine.search.nth_largest import find_nth_largest
from omnigraph.engine.search.scores import Floats, Scores
from omnigraph.engine.search.search_arguments import reserve, resolve_k, resolve_text
from omnigraph.engine.search.text_match import BYTES_PER_LETTER, stem_query
from omnigraph.engine.search.tokenizer import Check, iter_with_check
from omnigraph.engine.tables.table_reader import TableReader
from omnigraph.engine.tables.union_reader import UnionReader
from omnigraph.query.expr import Bm25, ListRank, Mmr, Nearest, Rank, Rerank, Rrf
from omnigraph.query.logical_plan import RRF_LIMIT_FACTOR, RRF_MIN_ROWS
from omnigraph.query.union_types import TYPE_COLUMN
from omnigraph.schema.arrow import ID
from omnigraph.storage.arrow_buffers import read_numbers

# The usual parameters of BM25: how soon repetitions of a word saturate, and how strongly long texts are penalised.
K1 = 1.2
B = 0.75


def rank_rows(
    context: ExecutionContext,
    rank: Rank,
    type_name: str,
    candidates: Positions,
    top: int | None,
    *,
    with_ties: bool = False,
) -> Scores:
    """Return the `top` best candidates by a rank, or all of them.

    Candidates are distinct positions, in any order, that passed every filter and hop. `nearest` leaves out rows without
    a vector, `bm25` those without a match; `rrf` ranks every candidate, by lists whose length depends on `top`.

    Args:
        context: The execution context of the query.
        rank: The rank expression.
        type_name: The type whose table the positions refer to.
        candidates: The rows to choose from.
        top: LIMIT and OFFSET together; None for all.
        with_ties: Also return rows that tie with the last one, for callers that break ties by other keys.

    Raises:
        ParameterError: The text or vector to search for is null.
        SettingsError and others of `engine.embed`: A text could not be embedded, or judged by `rerank`.
    """
    match rank:
        case Nearest():
            positions, values = rank_nearest(context, rank, type_name, candidates, top)
            return _take_best(context, type_name, positions, values, top, with_ties=with_ties)
        case Bm25():
            positions, values = _rank_bm25(context, rank, type_name, candidates)
            return _take_best(context, type_name, positions, -values, top, with_ties=with_ties, sign=-1.0)
        case Rrf():
            positions, values = _rank_rrf(context, rank, type_name, candidates, top, only_best=True)
            return _take_best(context, type_name, positions, -values, top, with_ties=with_ties, sign=-1.0)
        case Mmr() | Rerank():
            positions, values = _rank_list(context, rank, type_name, candidates, top)
            return _take_best(context, type_name, positions, -values, top, with_ties=with_ties, sign=-1.0)
        case _:
            assert_never(rank)


def score_rows(
    context: ExecutionContext,
    rank: Rank,
    type_name: str,
    at: Positions,
    *,
    candidates: Positions | None = None,
    top: int | None = None,
) -> pa.Array:
    """Return the score of each of these rows, which may repeat; null for a row without one.

    The score of an `rrf` depends on all `candidates`, by default these rows, and on `top`, LIMIT and OFFSET together.
    """
    # Matches may repeat a row; each is scored once.
    distinct, inverse = np.unique(np.asarray(at, np.int64), return_inverse=True)
    match rank:
        case Nearest():
            positions, values = rank_nearest(context, rank, type_name, distinct, None)
        case Bm25():
            positions, values = _rank_bm25(context, rank, type_name, distinct)
        case Rrf() | Mmr() | Rerank():
            listed = distinct if candidates is None else candidates
            positions, values = _rank_list(context, rank, type_name, listed, top)
        case _:
            assert_never(rank)
    order = np.argsort(positions, kind="stable")
    positions, values = positions[order], values[order]
    indices = np.searchsorted(positions, distinct)
    has_score = indices < len(positions)
    has_score[has_score] = positions[indices[has_score]] == distinct[has_score]
    scores = np.zeros(len(distinct), np.float64)
    scores[has_score] = values[indices[has_score]]
    return pa.array(scores[inverse], pa.float64(), mask=~has_score[inverse])


# --- order -------------------------------------------------------------------------------------------


def _take_best(
    context: ExecutionContext,
    type_name: str,
    positions: Positions,
    keys: Floats,
    top: int | None,
    *,
    with_ties: bool = False,
    sign: float = 1.0,
) -> Scores:
    """Return the rows with the smallest keys, ties by id; a key times `sign` is the score."""
    if top is not None and top < len(keys):
        if top <= 0:
            return Scores(np.empty(0, np.int64), np.empty(0, np.float64))
        # All that tie with the last one stay, as the order by id decides between them.
        is_best = -keys >= find_nth_largest(-keys, top)
        positions, keys = positions[is_best], keys[is_best]
    order = np.argsort(keys, kind="stable")
    positions, keys = positions[order], keys[order]
    is_same = keys[1:] == keys[:-1]
    if is_same.any():
        positions = _sort_ties_by_id(context.get_reader(type_name), positions, is_same, context)
    stop = len(keys) if with_ties else top
    return Scores(positions[:stop].astype(np.int64, copy=False), keys[:stop] * sign)


def _sort_ties_by_id(
    rows: TableReader, positions: Positions, is_same: NDArray[np.bool_], context: ExecutionContext
) -> Positions:
    """Return the same order with each run of ties sorted by id; only the ids of tied rows are read."""
    is_tied = np.zeros(len(positions), np.bool_)
    is_tied[1:] |= is_same
    is_tied[:-1] |= is_same
    run = np.cumsum(np.concatenate(([True], ~is_same)))[is_tied]
    keys = {"run": run}
    if isinstance(rows, UnionReader):
        # Rows of a union are told apart by type and id.
        keys["type"] = rows.take_values(TYPE_COLUMN, positions[is_tied], context.budget)
    keys["id"] = rows.take_values(ID, positions[is_tied], context.budget)
    order = pc.sort_indices(pa.table(keys), [(name, "ascending") for name in keys])
    result = positions.copy()
    result[is_tied] = positions[is_tied][read_numbers(order)]
    return result


# --- bm25 --------------------------------------------------------------------------------------------


def _rank_bm25(
    context: ExecutionContext, rank: Bm25, type_name: str, candidates: Positions
) -> tuple[Positions, Floats]:
    """Return candidates with a match, and their scores; the rarity of a word is counted over the whole table.

    The texts of a union are those of all its members.
    """
    rows = context.get_reader(type_name)
    query = resolve_text(context.inputs, rank.query, "bm25")
    check = context.budget.check
    members = rows.members if isinstance(rows, UnionReader) else (rows,)
    languages = {get_language(member, rank.prop.name) for member in members}
    with reserve(context.budget, len(query) * BYTES_PER_LETTER * len(languages), "the words that `bm25` looks for"):
        stems = {language: stem_query(query, check, language) for language in languages}
    with reserve(context.budget, 8 * rows.size, "ranking by bm25"):
        scores = np.zeros(rows.size, np.float64)
        for at, values in _iter_relevance(_iter_placed_segments(context, rows, rank.prop.name), stems, check):
            scores[at] += values
        if len(candidates) == rows.count:
            # Every live row is a candidate, so those with a score are the result.
            candidates = np.flatnonzero(scores)
        values = scores[candidates]
    has_match = values > 0
    return candidates[has_match], values[has_match]


def _iter_placed_segments(
    context: ExecutionContext, rows: TableReader, column: str
) -> Iterator[tuple[int, TextIndexSegment, str | None]]:
    """Yield the segments of a column, each with where the positions of its table begin, and with its language."""
    placed = zip(rows.members, rows.bases, strict=False) if isinstance(rows, UnionReader) else ((rows, 0),)
    for member, base in placed:
        language = get_language(member, column)
        yield from ((int(base), segment, language) for segment in iter_segments(context, member, column))


def _iter_relevance(
    segments: Iterable[tuple[int, TextIndexSegment, str | None]],
    stems: Mapping[str | None, Iterable[str]],
    check: Check,
) -> Iterator[tuple[Positions, Floats]]:
    """Yield, word by word, the rows that have it and what it adds to their score; each word counts once."""
    # Scores need the statistics of the whole column, so the postings of all segments are collected first.
    hits: dict[str, list[tuple[Positions, NDArray[np.int32], NDArray[np.int32]]]] = {
        stem: [] for of_language in stems.values() for stem in of_language
    }
    count = total = 0
    for base, segment, language in segments:
        count += segment.count
        total += segment.total
        for stem in iter_with_check(stems[language], check):
            segment_postings = segment.find_postings(stem)
            if segment_postings is not None:
                at, times, lengths = segment_postings
                hits[stem].append((at if base == 0 else at.astype(np.int64) + base, times, lengths))
    if not count:  # every text is hidden from the actor
        return
    for postings in iter_with_check(hits.values(), check):
        idf = _compute_idf(sum(len(at) for at, _, _ in postings), count)
        for at, times, lengths in postings:
            yield at, _compute_tf(times, lengths, total / count) * idf


def _compute_idf(matching: int, count: int) -> float:
    """Return the inverse document frequency of a word that `matching` of `count` texts have."""
    return math.log(1 + (count - matching + 0.5) / (matching + 0.5))


def _compute_tf(times: NDArray[np.int32], lengths: NDArray[np.int32], mean_length: float) -> Floats:
    saturated: Floats = times * (K1 + 1) / (times + K1 * (1 - B + B * lengths / mean_length))
    return saturated


# --- ranks that depend on all candidates ---------------------------------------------------------------


def _rank_list(
    context: ExecutionContext, rank: ListRank, type_name: str, candidates: Positions, top: int | None
) -> tuple[Positions, Floats]:
    """Return the rows that such a rank orders, and their scores."""
    if isinstance(rank, Rrf):
        return _rank_rrf(context, rank, type_name, candidates, top)
    size = max(RRF_LIMIT_FACTOR * (top or 0), RRF_MIN_ROWS)
    if isinstance(rank, Rerank):
        most = context.rerank.max_texts
        if (top or 0) > most:
            raise EmbeddingError.rerank_too_many(top or 0, most)
        size = min(size, most)
    pool = rank_rows(context, rank.rank, type_name, candidates, size)
    # In the order of ids, so that the first of equal rows is the one that the order of ties puts first.
    is_same = np.ones(max(len(pool.positions) - 1, 0), np.bool_)
    positions = _sort_ties_by_id(context.get_reader(type_name), pool.positions, is_same, context)
    if isinstance(rank, Rerank):
        return rerank_pool(context, rank, type_name, positions)
    by_position = np.argsort(pool.positions, kind="stable")
    values = pool.values[by_position][np.searchsorted(pool.positions[by_position], positions)]
    # A distance is smallest for the best row.
    relevance = -values if isinstance(rank.rank, Nearest) else values
    return choose_different(context, rank, type_name, Scores(positions.astype(np.int64, copy=False), relevance), top)


# --- rrf ---------------------------------------------------------------------------------------------


def _rank_rrf(
    context: ExecutionContext,
    rank: Rrf,
    type_name: str,
    candidates: Positions,
    top: int | None,
    *,
    only_best: bool = False,
) -> tuple[Positions, Floats]:
    """Return every candidate and its sum of weight/(k + rank) over all lists.

    With `only_best`, those in no list, whose sum is 0, are left out if they can't be among the `top` best.
    """
    k = resolve_k(context.inputs, rank)
    # Each list is longer than the result; a candidate that is in neither of them scores 0.
    length = max(RRF_LIMIT_FACTOR * (top or 0), RRF_MIN_ROWS)
    lists = [rank_rows(context, part, type_name, candidates, length).positions for part, _ in rank.weighted]
    listed = np.unique(np.concatenate(lists))
    sums = np.zeros(len(listed), np.float64)
    for positions, (_, weight) in zip(lists, rank.weighted, strict=True):
        sums[np.searchsorted(listed, positions)] += weight / (k + np.arange(1, len(positions) + 1))
    # Passing over a million candidates took 6 ms of CPU, more than finding the best by words.
    if only_best and top is not None and len(listed) >= top:
        return listed, sums
    order = np.argsort(candidates, kind="stable")
    all_sums = np.zeros(len(candidates), np.float64)
    all_sums[order[np.searchsorted(candidates[order], listed)]] = sums
    return candidates, all_sums
