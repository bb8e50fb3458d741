"""The words of a whole column of one snapshot: parts that are each indexed once, and shared by versions of the table.

A write adds fragments and deletes rows. So the column is cut into runs of fragments, each with an index of everything
that was written to it; what a version adds is one part more, and what it deletes is left out of the answers. Small
neighbouring parts become one, so that there are never many.
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
from omnigraph.storage.lance_table import ADDRESS, Fragment, LanceTable
from omnigraph.storage.layout import build_derived_key

WORDS = "words"
MIN_STORED_ROWS = 20_000
"""From so many rows on, the words of a column are kept for the next process."""
_MAX_UNSTORED_SHARE = 0.1
"""What is kept is replaced when more rows than this were analysed anew."""
_BATCH_ROWS = 65_536


@dataclass(frozen=True)
class IndexSegment:
    """The index of some rows: of those that begin at a position, of which some may be dead, or of any others."""

    index: InvertedIndex
    at: int | Positions
    live_mask: NDArray[np.bool_] | None = None
    """Row by row of the part, whether it lives; None: all."""

    @cached_property
    def count(self) -> int:
        """How many living rows have a text."""
        has_text = self.index.has_text
        return int(np.count_nonzero(has_text if self.live_mask is None else has_text & self.live_mask))

    @cached_property
    def total(self) -> int:
        """How many words living rows have."""
        if self.live_mask is None:
            return len(self.index.stream)
        return int(self.index.lengths[self.live_mask].sum())

    def to_positions(self, rows: Positions) -> Positions:
        """The positions of living rows of the part, which must ascend, by their places in it."""
        found = rows if self.live_mask is None else rows[self.live_mask[rows]]
        return found + self.at if isinstance(self.at, int) else self.at[found]

    def find_postings(self, stem: str) -> tuple[Positions, NDArray[np.int32], NDArray[np.int32]] | None:
        """The living rows that have a word of that stem, how often each has one, and how many words it has."""
        token = self.index.tokens.get(stem)
        if token is None:
            return None
        rows, times = self.index.get_postings(token)
        if self.live_mask is not None:
            is_living = self.live_mask[rows]
            rows, times = rows[is_living], times[is_living]
        lengths = self.index.lengths[rows]
        return (rows + self.at if isinstance(self.at, int) else self.at[rows]), times, lengths


@dataclass(frozen=True)
class ColumnIndex:
    """The parts of a column in the order of their positions."""

    runs: tuple[FragmentRun, ...]
    segments: tuple[IndexSegment, ...]

    @property
    def nbytes(self) -> int:
        """About how much memory it takes; versions share most of it."""
        return sum(part.index.nbytes for part in self.segments)


def iter_segments(reading: ExecutionContext, rows: TableReader, column: str) -> Iterator[IndexSegment]:
    """Every living row of a column, in parts: kept between queries, or made one after the other if there is no room."""
    if rows.columns.costs.has_room_for(column):
        made = rows.columns.get_or_derive(
            column,
            WORDS,
            lambda: _build_column_index(reading.cache, rows, column, reading.budget),
            lambda found: found.nbytes,
            reading.budget,
        )
        return iter(made.segments)
    return _stream_segments(reading, rows, column)


def has_index(rows: TableReader, column: str) -> bool:
    """Whether the parts of the column are in memory now."""
    return rows.columns.has_derived(column, WORDS)


def _stream_segments(reading: ExecutionContext, rows: TableReader, column: str) -> Iterator[IndexSegment]:
    for batch in rows.table.iter_batches([column], batch_rows=_BATCH_ROWS, with_address=True):
        reading.budget.check()
        at = rows.columns.layout.find_positions(batch.column(ADDRESS))
        yield IndexSegment(build_index(batch.column(column), reading.budget), at)


# --- parts that are kept -------------------------------------------------------------------------------


def build_index_key(table: LanceTable, column: str) -> str:
    """The object beside the tables that keeps the words of a column."""
    return build_derived_key(WORDS, [table.path, str(table.find_field_number(column))])


def _build_column_index(cache: GraphCache, rows: TableReader, column: str, budget: Budget) -> ColumnIndex:
    """The parts of a version; those of an older one, or of an earlier process, are taken over."""
    number = rows.table.find_field_number(column)
    latest = (rows.table.path, "latest words", number)
    reference = cache.lru.get(latest)
    older = reference() if isinstance(reference, weakref.ref) else None
    stored = build_index_key(rows.table, column)
    known: tuple[FragmentRun, ...] = older.runs if isinstance(older, ColumnIndex) else ()
    if not known and rows.count >= MIN_STORED_ROWS:
        data = cache.read_derived(stored)
        known = () if data is None else decode_words(data)
    texts, living = rows.columns.load_written(column, budget), rows.columns.live_rows.get_mask()
    start, new, parts, runs = 0, 0, [], []
    for run in _plan_runs(rows.columns.layout.fragments, known):
        made = run.index or build_index(_slice(texts, start, run.rows), budget)
        new += 0 if run.index else run.rows
        runs.append(FragmentRun(run.fragments, run.rows, made))
        parts.append(IndexSegment(made, start, None if living is None else living[start : start + run.rows]))
        start += run.rows
    found = ColumnIndex(tuple(runs), tuple(parts))
    cache.lru.put(latest, weakref.ref(found), 256)
    if rows.count >= MIN_STORED_ROWS and new > _MAX_UNSTORED_SHARE * rows.count:
        cache.store_derived(stored, [rows.table], lambda: encode_words(found.runs))
    return found


def _plan_runs(fragments: tuple[Fragment, ...], known: tuple[FragmentRun, ...]) -> list[FragmentRun]:
    """How to cut the fragments: what is known stays whole, what is new is one run, and neighbours of like size join."""
    by_first = {run.fragments[0]: run for run in known}
    files = tuple(fragment.files for fragment in fragments)
    found: list[FragmentRun] = []
    place = 0
    while place < len(files):
        run = by_first.get(files[place])
        if run is None or run.fragments != files[place : place + len(run.fragments)]:
            run = FragmentRun((files[place],), fragments[place].rows)
            if found and found[-1].index is None:
                run = found.pop().merge(run)
        found.append(run)
        place += len(run.fragments) if run.index is not None else 1
        while len(found) > 1 and found[-2].rows <= 2 * found[-1].rows:
            last = found.pop()
            found.append(found.pop().merge(last))
    return found


def _slice(texts: pa.Array, start: int, rows: int) -> pa.Array:
    return texts if rows == len(texts) else texts.slice(start, rows)


Matcher = Callable[[InvertedIndex], Positions]


def find_matching_positions(parts: Iterator[IndexSegment], match: Matcher) -> NDArray[np.int64]:
    """The positions of the living rows that match, ascending."""
    found = [part.to_positions(match(part.index)) for part in parts]
    if not found:
        return np.empty(0, np.int64)
    joined = found[0] if len(found) == 1 else np.concatenate(found)
    return np.sort(joined).astype(np.int64, copy=False) if len(found) > 1 else joined.astype(np.int64, copy=False)
