"""Check requirements of writes with too many rows to hold in memory.

The changes of other commits since the base are few, so they are held, and the write's own rows are streamed past them.
The rows were checked against the base itself before.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
import pyarrow as pa

from omnigraph.commit.requirements import (
    TableProvider,
    Violation,
    check_counts,
    format_ids,
    normalize_zeros,
    select_complete,
)
from omnigraph.storage.columnar_sets import concat_chunks, find_positions, is_among
from omnigraph.storage.key_lookup import find_rows
from omnigraph.storage.string_hash_index import StringHashIndex
from omnigraph.storage.version_diff import diff_versions

ID = "id"
# Streams columns of the write's own rows, from the start at each call.
RowSource: TypeAlias = Callable[[], Iterator[pa.RecordBatch]]


@runtime_checkable
class MatchingRows(Protocol):
    """A `RowSource` that finds the rows with some values quicker than by streaming all of them."""

    def iter_matching(self, wanted: Mapping[int, pa.Array]) -> Iterator[pa.RecordBatch]:
        """Yield at least the rows that have one of the values of any of these columns, which are given by number."""
        ...


def _iter_matching(rows: RowSource, wanted: Mapping[int, pa.Array]) -> Iterator[pa.RecordBatch]:
    source: object = rows
    return source.iter_matching(wanted) if wanted and isinstance(source, MatchingRows) else rows()


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamedIdsAbsent:
    """Require that no other commit creates the ids of `rows`, which the write creates."""

    table_key: str
    rows: RowSource

    def check(self, base: TableProvider, now: TableProvider) -> Violation | None:
        """Return a violation if another commit has created a row with such an id."""
        changes = diff_versions(base.open_table(self.table_key), now.open_table(self.table_key), [])
        clashing = _find_matching_ids(changes.added.column(ID), self.rows)
        return Violation(self.table_key, f"{format_ids(clashing)} exist now") if len(clashing) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamedRowsUnchanged:
    """Require that no other commit creates, changes or removes a row with an id of `rows`.

    The write has looked these ids up.
    """

    table_key: str
    rows: RowSource

    def check(self, base: TableProvider, now: TableProvider) -> Violation | None:
        """Return a violation if another commit has created, changed or removed such a row."""
        changes = diff_versions(base.open_table(self.table_key), now.open_table(self.table_key), [])
        touched = pa.chunked_array([*changes.added.column(ID).chunks, *changes.removed.column(ID).chunks], pa.string())
        changed = _find_matching_ids(touched, self.rows)
        return Violation(self.table_key, f"{format_ids(changed)} changed") if len(changed) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamedIdsPresent:
    """Require that the ids in the single column of `rows`, which the write refers to, stay."""

    table_key: str
    rows: RowSource

    def check(self, base: TableProvider, now: TableProvider) -> Violation | None:
        """Return a violation if another commit has removed one of them."""
        changes = diff_versions(base.open_table(self.table_key), now.open_table(self.table_key), [])
        missing = _find_matching_ids(changes.find_lost_ids(), self.rows)
        return Violation(self.table_key, f"{format_ids(missing)} were deleted") if len(missing) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamedValuesAbsent:
    """Require that no other commit stores the values of `rows`, which are in a unique column group.

    A null clashes with nothing.
    """

    table_key: str
    columns: tuple[str, ...]
    rows: RowSource

    def check(self, base: TableProvider, now: TableProvider) -> Violation | None:
        """Return a violation if another commit has stored one of the values."""
        table = now.open_table(self.table_key)
        added = select_complete(diff_versions(base.open_table(self.table_key), table, self.columns).added, self.columns)
        if not added.num_rows:
            return None
        clashing: list[pa.Array] = []
        # By one text suffices. Zeros are equal with either sign, so numbers are compared below only.
        texts = {
            number: concat_chunks(added.column(name))
            for number, name in enumerate(self.columns)
            if pa.types.is_string(added.column(name).type)
        }
        for batch in _iter_matching(self.rows, dict([*texts.items()][:1])):
            values = normalize_zeros(pa.Table.from_batches([batch])).select(list(self.columns))
            matches = added.join(values, list(self.columns), join_type="left semi")
            clashing.append(concat_chunks(matches.column(ID)))
        ids = pa.concat_arrays(clashing).unique() if clashing else pa.array([], pa.string())
        return Violation(self.table_key, f"the values of {format_ids(ids)} clash") if len(ids) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamedCountsWithin:
    """Require that the number of rows per value stays within bounds.

    The write stores `rows` (`id` and the column), which replace those with the same ids.
    """

    table_key: str
    column: str
    rows: RowSource
    low: int = 0
    high: int | None = None

    def check(self, base: TableProvider, now: TableProvider) -> Violation | None:
        """Return a violation if a value that other commits have touched has too few or too many rows."""
        table = now.open_table(self.table_key)
        changes = diff_versions(base.open_table(self.table_key), table, [self.column])
        touched = pa.chunked_array(
            [*changes.added.column(self.column).chunks, *changes.removed.column(self.column).chunks], pa.string()
        ).unique()
        if not len(touched):
            return None
        existing = find_rows(table, self.column, touched, [ID, self.column])
        values = StringHashIndex(touched)
        ids = StringHashIndex(concat_chunks(existing.column(ID)))
        own_counts = np.zeros(len(touched), np.int64)
        is_replaced = np.zeros(existing.num_rows, np.bool_)
        wanted = {0: concat_chunks(existing.column(ID)), 1: touched}
        for batch in _iter_matching(self.rows, wanted):
            positions = values.find_positions(batch.column(self.column))
            own_counts += np.bincount(positions[positions >= 0], minlength=len(touched))
            replaced = ids.find_positions(batch.column(ID))
            is_replaced[replaced[replaced >= 0]] = True
        value_of_row = find_positions(existing.column(self.column), touched)
        remaining = np.bincount(value_of_row[~is_replaced], minlength=len(touched))
        # Only values to which the write adds a row, or from which it takes one, can be its fault.
        is_ours = (own_counts > 0) | (np.bincount(value_of_row[is_replaced], minlength=len(touched)) > 0)
        totals = own_counts + remaining
        return check_counts(self.table_key, touched.filter(pa.array(is_ours)), totals[is_ours], self.low, self.high)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamedReferencesAbsent:
    """Require that no other commit adds a reference to a row that the write removes.

    The write removes all rows of another table except the ids of `rows`; `column` of this table refers to that table.
    """

    table_key: str
    column: str
    rows: RowSource

    def check(self, base: TableProvider, now: TableProvider) -> Violation | None:
        """Return a violation if another commit has added a reference to a removed row."""
        changes = diff_versions(base.open_table(self.table_key), now.open_table(self.table_key), [self.column])
        referenced = concat_chunks(changes.added.column(self.column)).unique()
        if not len(referenced):
            return None
        is_retained = np.zeros(len(referenced), np.bool_)
        keys = StringHashIndex(referenced)
        for batch in _iter_matching(self.rows, {0: referenced}):
            positions = keys.find_positions(batch.column(0))
            is_retained[positions[positions >= 0]] = True
        # References to rows that the write keeps, or adds, stay valid.
        missing = referenced.filter(pa.array(~is_retained))
        dangling = changes.added.filter(pa.array(is_among(changes.added.column(self.column), missing)))
        ids = concat_chunks(dangling.column(ID))
        return Violation(self.table_key, f"the values of {format_ids(ids)} clash") if len(ids) else None


def _find_matching_ids(ids: pa.Array | pa.ChunkedArray, rows: RowSource) -> pa.Array:
    """Return those of the ids, which other commits have changed, that the write's rows name too."""
    candidates = concat_chunks(ids).unique() if len(ids) else pa.array([], pa.string())
    # Without candidates, the write's rows need not be read again.
    if not len(candidates):
        return candidates
    is_matched = np.zeros(len(candidates), np.bool_)
    keys = StringHashIndex(candidates)
    for batch in _iter_matching(rows, {0: candidates}):
        positions = keys.find_positions(batch.column(0))
        is_matched[positions[positions >= 0]] = True
    return candidates.filter(pa.array(is_matched))
