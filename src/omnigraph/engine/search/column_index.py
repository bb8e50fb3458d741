"""The full-text index of a column in one snapshot: segments that are built once and shared by versions of the table.

A write adds fragments and deletes rows. So the column is split into runs of fragments, each with an inverted index of
all rows written to it; a new version adds a segment, and rows that it deletes are left out of results. Large segments
are stored beside the table (`segment_store`), and read as far as a query needs them. Small neighbouring segments are
merged, so that there are never many.
"""

import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.search.index_codec import FragmentRows, split_rows
from omnigraph.engine.search.inverted_index import InvertedIndex, TextIndex, build_index
from omnigraph.engine.search.segment_store import SegmentStore
from omnigraph.engine.search.stored_index import StoredTextIndex
from omnigraph.engine.tables.graph_cache import GraphCache
from omnigraph.engine.tables.table_reader import TableReader
from omnigraph.storage.fragment_list import Fragment
from omnigraph.storage.lance_table import ADDRESS

WORDS = "words"
# Segments of this number of rows or more are stored for the next process.
MIN_STORED_ROWS = 20_000
# No segment has more rows. It limits the memory of building one: 262,144 texts of 50 words take 0.6 GB.
MAX_SEGMENT_ROWS = 262_144
_BATCH_ROWS = 65_536


@dataclass(frozen=True)
class TextIndexSegment:
    """The index of some rows: consecutive positions from `at` on, some possibly deleted, or any positions `at`."""

    index: TextIndex
    at: int | Positions
    live_mask: NDArray[np.bool_] | None = None
    """Which rows of the segment are live; None means all."""

    @cached_property
    def count(self) -> int:
        """Number of live rows with a text."""
        if self.live_mask is None:
            return self.index.text_count
        return int(np.count_nonzero(self.index.has_text & self.live_mask))

    @cached_property
    def total(self) -> int:
        """Number of words of all live rows."""
        if self.live_mask is None:
            return self.index.word_count
        return int(self.index.lengths[self.live_mask].sum())

    def to_positions(self, rows: Positions) -> Positions:
        """Return the positions of the live ones of these ascending rows of the segment."""
        live = rows if self.live_mask is None else rows[self.live_mask[rows]]
        return live + self.at if isinstance(self.at, int) else self.at[live]

    def find_postings(self, stem: str) -> tuple[Positions, NDArray[np.int32], NDArray[np.int32]] | None:
        """Return the live rows that have a word of this stem, its frequency in each, and the number of their words."""
        token = self.index.find_token(stem)
        if token is None:
            return None
        rows, times = self.index.get_postings(token)
        if self.live_mask is not None:
            is_live = self.live_mask[rows]
            rows, times = rows[is_live], times[is_live]
        lengths = self.index.lengths[rows]
        return (rows + self.at if isinstance(self.at, int) else self.at[rows]), times, lengths


@dataclass(frozen=True, slots=True)
class IndexedRun:
    """Consecutive rows, from fragment number `first` of the layout on, and their index once there is one."""

    first: int
    covered: FragmentRows
    index: TextIndex | None = None


@dataclass(frozen=True)
class ColumnIndex:
    """The segments of a column in the order of their positions, and the runs that they are the index of."""

    runs: tuple[IndexedRun, ...]
    segments: tuple[TextIndexSegment, ...]
    unindexed: tuple[int, ...] = ()
    """The numbers of fragments whose texts don't fit into memory: they are analysed for every query."""

    @property
    def nbytes(self) -> int:
        """Approximate memory; versions share most of it."""
        return 256 + sum(segment.index.nbytes for segment in self.segments)


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
    column_index = rows.columns.get_or_derive(
        column,
        _get_words_name(rows, column),
        lambda: _build_column_index(context.cache, rows, column, context.budget),
        lambda index: index.nbytes,
        context.budget,
    )
    yield from column_index.segments
    if column_index.unindexed:
        yield from _stream_segments(context, rows, column, column_index.unindexed)


def has_index(rows: TableReader, column: str) -> bool:
    """Return whether the segments of the column are in memory now."""
    return rows.columns.has_derived(column, _get_words_name(rows, column))


def _stream_segments(
    context: ExecutionContext, rows: TableReader, column: str, fragments: Sequence[int]
) -> Iterator[TextIndexSegment]:
    batches = rows.table.iter_batches([column], batch_rows=_BATCH_ROWS, with_address=True, fragments=fragments)
    for batch in batches:
        context.budget.check()
        at = rows.columns.layout.find_positions(batch.column(ADDRESS))
        yield TextIndexSegment(build_index(batch.column(column), context.budget, get_language(rows, column)), at)


# --- cached segments -----------------------------------------------------------------------------------


def _build_column_index(cache: GraphCache, rows: TableReader, column: str, budget: Budget) -> ColumnIndex:
    """Build the index of a column version, reusing the segments of an older version and those that are stored."""
    language = get_language(rows, column)
    latest_key = (rows.table.path, "latest words", rows.table.find_field_number(column), language)
    # A weak reference: the index of an older version helps while it is cached, but is not kept alive for this.
    reference = cache.lru.get(latest_key)
    older = reference() if isinstance(reference, weakref.ref) else None
    known = older.runs if isinstance(older, ColumnIndex) else ()
    store = SegmentStore(cache, rows, column, language)
    fragments = rows.columns.layout.fragments
    # Stored segments are listed only if enough rows are new: 20,000 texts are analysed in 0.2 s.
    runs = plan_runs(fragments, known, None)
    if _count_new_rows(runs) >= max(MIN_STORED_ROWS, 1):
        runs = plan_runs(fragments, known, store)
    unindexed: tuple[int, ...] = ()
    # Only new rows need room: of a stored segment no more is in memory than what was read, which the cache can drop.
    if rows.columns.costs.has_room_for(column, _count_new_rows(runs)):
        runs, built = build_runs(runs, store, budget, language)
        large = [(covered, index) for covered, index in built if covered.rows >= MIN_STORED_ROWS]
        if large:
            store.store(large)
    else:
        missing = (run for run in runs if run.index is None)
        numbers = (range(run.first, run.first + len(run.covered.fragments)) for run in missing)
        # Each fragment once: a large one may be several runs.
        unindexed = tuple({fragments[number].number: None for of_run in numbers for number in of_run})
    column_index = ColumnIndex(tuple(runs), tuple(_iter_indexed(rows, runs)), unindexed)
    cache.lru.put(latest_key, weakref.ref(column_index), 256)
    return column_index


def _iter_indexed(rows: TableReader, runs: Sequence[IndexedRun]) -> Iterator[TextIndexSegment]:
    starts, live_mask = rows.columns.layout.starts, rows.columns.live_rows.get_mask()
    for run in runs:
        if run.index is not None:
            start = int(starts[run.first]) + run.covered.offset
            live = None if live_mask is None else live_mask[start : start + run.covered.rows]
            # Without deleted rows, the numbers of texts and words are known without reading them.
            yield TextIndexSegment(run.index, start, None if live is None or live.all() else live)


def build_runs(
    runs: Sequence[IndexedRun], store: SegmentStore, budget: Budget | None, language: str | None
) -> tuple[list[IndexedRun], list[tuple[FragmentRows, InvertedIndex]]]:
    """Return the same runs with their indexes, and those that were built now."""
    complete: list[IndexedRun] = []
    built: list[tuple[FragmentRows, InvertedIndex]] = []
    whole, texts = FragmentRows((), 0), pa.array([], pa.string())
    for run in runs:
        if run.index is not None:
            complete.append(run)
            continue
        # Parts of one fragment follow each other: it is read once.
        if run.covered.fragments != whole.fragments:
            whole = FragmentRows(run.covered.fragments, run.covered.rows)
            texts = store.read_texts(run.covered.fragments)
        part = texts if len(texts) == run.covered.rows else texts.slice(run.covered.offset, run.covered.rows)
        index = build_index(part, budget, language)
        built.append((run.covered, index))
        complete.append(replace(run, index=index))
    return complete, built


def _count_new_rows(runs: Sequence[IndexedRun]) -> int:
    return sum(run.covered.rows for run in runs if run.index is None)


def plan_runs(
    fragments: Sequence[Fragment],
    known: Sequence[IndexedRun],
    store: SegmentStore | None,
    *,
    merges_stored: bool = False,
) -> list[IndexedRun]:
    """Split the fragments into runs: indexed runs stay whole, new fragments form one run, small neighbours merge.

    A run that is stored is merged with others only if `merges_stored`: a reader should not analyse its texts again.
    """
    by_start = {(run.covered.fragments[0], run.covered.offset): run for run in known if run.index is not None}
    files = tuple(fragment.files for fragment in fragments)
    runs: list[IndexedRun] = []
    number = 0
    while number < len(files):
        found = _find_indexed(number, fragments, files, by_start, store)
        new = found or _split_fragment(number, fragments[number])
        is_open = not found and len(new) == 1 and bool(runs) and runs[-1].index is None
        runs.extend(new)
        number += len(new[-1].covered.fragments)
        if is_open and _is_mergeable(runs[-2], runs[-1], merges_stored=merges_stored):
            _merge_last(runs)
        # Each run is more than twice as long as the next one, so their number grows with the logarithm of the rows.
        while (
            len(runs) > 1
            and runs[-2].covered.rows <= 2 * runs[-1].covered.rows
            and _is_mergeable(runs[-2], runs[-1], merges_stored=merges_stored)
        ):
            _merge_last(runs)
    return runs


def _find_indexed(
    number: int,
    fragments: Sequence[Fragment],
    files: Sequence[tuple[str, ...]],
    by_start: dict[tuple[tuple[str, ...], int], IndexedRun],
    store: SegmentStore | None,
) -> list[IndexedRun]:
    """Return indexed runs that begin with this fragment and end with one; empty if there are none, or not all."""
    runs: list[IndexedRun] = []
    offset = 0
    while True:
        run = by_start.get((files[number], offset))
        # A run whose fragments are not all there any longer, in the same order, can't be reused.
        if run is not None and run.covered.fragments != files[number : number + len(run.covered.fragments)]:
            run = None
        if run is None and store is not None:
            stored = store.find(fragments[number:], offset)
            run = None if stored is None else IndexedRun(number, *stored)
        # All parts of a fragment or none: it is read, and analysed, as a whole.
        if run is None:
            return []
        runs.append(replace(run, first=number))
        offset += run.covered.rows
        if offset >= sum(f.rows for f in fragments[number : number + len(run.covered.fragments)]):
            return runs


def _split_fragment(number: int, fragment: Fragment) -> list[IndexedRun]:
    parts = split_rows(fragment.rows, MAX_SEGMENT_ROWS) or [(0, 0)]
    return [IndexedRun(number, FragmentRows((fragment.files,), rows, start)) for start, rows in parts]


def _is_mergeable(first: IndexedRun, second: IndexedRun, *, merges_stored: bool) -> bool:
    """Return whether two runs may become one: no parts of fragments, not too many rows, not stored."""
    if first.covered.rows + second.covered.rows > MAX_SEGMENT_ROWS or first.first == second.first:
        return False
    if first.covered.offset or second.covered.offset:
        return False
    return merges_stored or not (isinstance(first.index, StoredTextIndex) or isinstance(second.index, StoredTextIndex))


def _merge_last(runs: list[IndexedRun]) -> None:
    last = runs.pop()
    first = runs.pop()
    runs.append(IndexedRun(first.first, first.covered.merge(last.covered)))


Matcher = Callable[[TextIndex], Positions]


def find_matching_positions(segments: Iterator[TextIndexSegment], match: Matcher) -> NDArray[np.int64]:
    """Return the positions of the live rows that match, ascending."""
    positions = [segment.to_positions(match(segment.index)) for segment in segments]
    if not positions:
        return np.empty(0, np.int64)
    if len(positions) == 1:
        return positions[0].astype(np.int64, copy=False)
    return np.sort(np.concatenate(positions)).astype(np.int64, copy=False)
