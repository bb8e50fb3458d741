"""The full-text index of a column in one snapshot: segments that are built once and shared by versions of the table.

A write adds fragments and deletes rows. So the column is split into runs of fragments, each with an inverted index of
all rows written to it; a new version adds a segment, and rows that it deletes are left out of results. Small
neighbouring segments are merged, so that there are never many.
"""

import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.search.index_codec import decode_words, encode_words
from omnigraph.engine.search.inverted_index import FragmentRun, InvertedIndex, build_index
from omnigraph.engine.tables.graph_cache import GraphCache
from omnigraph.engine.tables.table_reader import TableReader
from omnigraph.storage.fragment_list import Fragment
from omnigraph.storage.lance_table import ADDRESS, LanceTable
from omnigraph.storage.layout import build_derived_key

WORDS = "words"
# From this number of rows on, the index of a column is stored for the next process.
MIN_STORED_ROWS = 20_000
# A stored index is replaced when more than this share of the rows had to be tokenized again.
_MAX_UNSTORED_SHARE = 0.1
_BATCH_ROWS = 65_536


@dataclass(frozen=True)
class TextIndexSegment:
    """The index of some rows: consecutive positions from `at` on, some possibly deleted, or any positions `at`."""

    index: InvertedIndex
    at: int | Positions
    live_mask: NDArray[np.bool_] | None = None
    """Which rows of the segment are live; None means all."""

    @cached_property
    def count(self) -> int:
        """Number of live rows with a text."""
        has_text = self.index.has_text
        return int(np.count_nonzero(has_text if self.live_mask is None else has_text & self.live_mask))

    @cached_property
    def total(self) -> int:
        """Number of words of all live rows."""
        if self.live_mask is None:
            return len(self.index.stream)
        return int(self.index.lengths[self.live_mask].sum())

    def to_positions(self, rows: Positions) -> Positions:
        """Return the positions of the live ones of these ascending rows of the segment."""
        live = rows if self.live_mask is None else rows[self.live_mask[rows]]
        return live + self.at if isinstance(self.at, int) else self.at[live]

    def find_postings(self, stem: str) -> tuple[Positions, NDArray[np.int32], NDArray[np.int32]] | None:
        """Return the live rows that have a word of this stem, its frequency in each, and the number of their words."""
        token = self.index.tokens.get(stem)
        if token is None:
            return None
        rows, times = self.index.get_postings(token)
        if self.live_mask is not None:
            is_live = self.live_mask[rows]
            rows, times = rows[is_live], times[is_live]
        lengths = self.index.lengths[rows]
        return (rows + self.at if isinstance(self.at, int) else self.at[rows]), times, lengths


@dataclass(frozen=True)
class ColumnIndex:
    """The segments of a column in the order of their positions."""

    runs: tuple[FragmentRun, ...]
    segments: tuple[TextIndexSegment, ...]

    @property
    def nbytes(self) -> int:
        """Approximate memory; versions share most of it."""
        return sum(segment.index.nbytes for segment in self.segments)


def get_language(rows: TableReader, column: str) -> str | None:
    """Return the declared language of a property; None is English."""
    declared = rows.type.find_property(column)
    return None if declared is None else declared.language


def _get_words_name(rows: TableReader, column: str) -> str:
    """Return what names the words of a column among what is derived from it: those of another language are others."""
    language = get_language(rows, column)
    return WORDS if language is None else f"{WORDS} {language}"


def iter_segments(context: ExecutionContext, rows: TableReader, column: str) -> Iterator[TextIndexSegment]:
    """Iterate over the segments of a column: cached between queries, or built batch by batch if memory is short."""
    if rows.columns.costs.has_room_for(column):
        column_index = rows.columns.get_or_derive(
            column,
            _get_words_name(rows, column),
            lambda: _build_column_index(context.cache, rows, column, context.budget),
            lambda index: index.nbytes,
            context.budget,
        )
        return iter(column_index.segments)
    return _stream_segments(context, rows, column)


def has_index(rows: TableReader, column: str) -> bool:
    """Return whether the segments of the column are in memory now."""
    return rows.columns.has_derived(column, _get_words_name(rows, column))


def _stream_segments(context: ExecutionContext, rows: TableReader, column: str) -> Iterator[TextIndexSegment]:
    for batch in rows.table.iter_batches([column], batch_rows=_BATCH_ROWS, with_address=True):
        context.budget.check()
        at = rows.columns.layout.find_positions(batch.column(ADDRESS))
        yield TextIndexSegment(build_index(batch.column(column), context.budget, get_language(rows, column)), at)


# --- cached segments -----------------------------------------------------------------------------------


def build_index_key(table: LanceTable, column: str, language: str | None = None) -> str:
    """Return the key of the object in which the index of a column in a language is stored."""
    named = () if language is None else (language,)
    return build_derived_key(WORDS, [table.path, str(table.find_field_number(column)), *named])


def _build_column_index(cache: GraphCache, rows: TableReader, column: str, budget: Budget) -> ColumnIndex:
    """Build the index of a column version, reusing the segments of an older version or of an earlier process."""
    number = rows.table.find_field_number(column)
    language = get_language(rows, column)
    latest_key = (rows.table.path, "latest words", number, language)
    # A weak reference: the index of an older version helps while it is cached, but is not kept alive for this.
    reference = cache.lru.get(latest_key)
    older = reference() if isinstance(reference, weakref.ref) else None
    stored_key = build_index_key(rows.table, column, language)
    indexed_runs: tuple[FragmentRun, ...] = older.runs if isinstance(older, ColumnIndex) else ()
    if not indexed_runs and rows.count >= MIN_STORED_ROWS:
        data = cache.read_derived(stored_key)
        indexed_runs = () if data is None else decode_words(data)
    texts, live_mask = rows.columns.load_written(column, budget), rows.columns.live_rows.get_mask()
    start, new_rows, segments, runs = 0, 0, [], []
    for run in _plan_runs(rows.columns.layout.fragments, indexed_runs):
        index = run.index or build_index(_slice(texts, start, run.rows), budget, language)
        new_rows += 0 if run.index else run.rows
        runs.append(FragmentRun(run.fragments, run.rows, index))
        segments.append(
            TextIndexSegment(index, start, None if live_mask is None else live_mask[start : start + run.rows])
        )
        start += run.rows
    column_index = ColumnIndex(tuple(runs), tuple(segments))
    cache.lru.put(latest_key, weakref.ref(column_index), 256)
    if rows.count >= MIN_STORED_ROWS and new_rows > _MAX_UNSTORED_SHARE * rows.count:
        cache.store_derived(stored_key, [rows.table], lambda: encode_words(column_index.runs))
    return column_index


def _plan_runs(fragments: tuple[Fragment, ...], indexed_runs: tuple[FragmentRun, ...]) -> list[FragmentRun]:
    """Split the fragments into runs: indexed runs stay whole, new fragments form one run, small neighbours merge."""
    by_first = {run.fragments[0]: run for run in indexed_runs}
    files = tuple(fragment.files for fragment in fragments)
    runs: list[FragmentRun] = []
    number = 0
    while number < len(files):
        run = by_first.get(files[number])
        # A run whose fragments are not all there any longer, in the same order, can't be reused.
        if run is None or run.fragments != files[number : number + len(run.fragments)]:
            run = FragmentRun((files[number],), fragments[number].rows)
            if runs and runs[-1].index is None:
                run = runs.pop().merge(run)
        runs.append(run)
        number += len(run.fragments) if run.index is not None else 1
        # Each run is more than twice as long as the next one, so their number grows with the logarithm of the rows.
        while len(runs) > 1 and runs[-2].rows <= 2 * runs[-1].rows:
            last = runs.pop()
            runs.append(runs.pop().merge(last))
    return runs


def _slice(texts: pa.Array, start: int, rows: int) -> pa.Array:
    return texts if rows == len(texts) else texts.slice(start, rows)


Matcher = Callable[[InvertedIndex], Positions]


def find_matching_positions(segments: Iterator[TextIndexSegment], match: Matcher) -> NDArray[np.int64]:
    """Return the positions of the live rows that match, ascending."""
    positions = [segment.to_positions(match(segment.index)) for segment in segments]
    if not positions:
        return np.empty(0, np.int64)
    if len(positions) == 1:
        return positions[0].astype(np.int64, copy=False)
    return np.sort(np.concatenate(positions)).astype(np.int64, copy=False)
