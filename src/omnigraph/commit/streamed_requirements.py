"""Requirements of writes that have too many rows to hold: their rows are read again where somebody has interfered.

What others have changed since the base is small, so that is held, and the write's own rows stream past it. That the
rows were right on the base is taken for granted.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.commit.requirements import TableProvider, Violation, format_ids, normalize_zeros
from omnigraph.storage.columnar_sets import Positions, concat_chunks, find_positions, is_among, tally
from omnigraph.storage.key_lookup import find_rows
from omnigraph.storage.string_hash_index import StringHashIndex
from omnigraph.storage.version_diff import diff_versions

ID = "id"
RowSource: TypeAlias = Callable[[], Iterator[pa.RecordBatch]]
"""Columns of the write's own rows, from the start each time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamedIdsAbsent:
    """The write creates rows with the ids of `rows`: nobody else may have."""

    table_key: str
    rows: RowSource

    def check(self, base: TableProvider, now: TableProvider) -> Violation | None:
        """Broken when somebody has created a row of such an id."""
        changes = diff_versions(base.open_table(self.table_key), now.open_table(self.table_key), [])
        found = _find_matching_ids(changes.added.column(ID), self.rows)
        return Violation(self.table_key, f"{format_ids(found)} exist now") if len(found) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamedRowsUnchanged:
    """The write has looked for rows that have the ids of `rows`: nobody may have touched, made or removed one."""

    table_key: str
    rows: RowSource

    def check(self, base: TableProvider, now: TableProvider) -> Violation | None:
        """Broken when somebody has created, changed or removed a row of such an id."""
        changes = diff_versions(base.open_table(self.table_key), now.open_table(self.table_key), [])
        touched = pa.chunked_array([*changes.added.column(ID).chunks, *changes.removed.column(ID).chunks], pa.string())
        found = _find_matching_ids(touched, self.rows)
        return Violation(self.table_key, f"{format_ids(found)} changed") if len(found) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamedIdsPresent:
    """The write refers to rows by the ids in the one column of `rows`: they must stay."""

    table_key: str
    rows: RowSource

    def check(self, base: TableProvider, now: TableProvider) -> Violation | None:
        """Broken when somebody has removed one of them."""
        changes = diff_versions(base.open_table(self.table_key), now.open_table(self.table_key), [])
        found = _find_matching_ids(changes.find_lost_ids(), self.rows)
        return Violation(self.table_key, f"{format_ids(found)} are gone") if len(found) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamedValuesAbsent:
    """The write stores the values of `rows` in a unique column group. A null clashes with nothing."""

    table_key: str
    columns: tuple[str, ...]
    rows: RowSource

    def check(self, base: TableProvider, now: TableProvider) -> Violation | None:
        """Broken when somebody has stored one of the values."""
        table = now.open_table(self.table_key)
        come = normalize_zeros(diff_versions(base.open_table(self.table_key), table, self.columns).added)
        for name in self.columns:
            come = come.filter(pc.is_valid(come.column(name)))
        if not come.num_rows:
            return None
        clashing: list[pa.Array] = []
        for batch in self.rows():
            own = normalize_zeros(pa.Table.from_batches([batch])).select(list(self.columns))
            met = come.join(own, list(self.columns), join_type="left semi")
            clashing.append(concat_chunks(met.column(ID)))
        found = pa.concat_arrays(clashing).unique() if clashing else pa.array([], pa.string())
        return Violation(self.table_key, f"the values of {format_ids(found)} clash") if len(found) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamedCountsWithin:
    """The write stores a row for every value of the one column of `rows`, and their number per value has bounds."""

    table_key: str
    column: str
    rows: RowSource
    low: int = 0
    high: int | None = None

    def check(self, base: TableProvider, now: TableProvider) -> Violation | None:
        """Broken when a value's rows, with those that somebody has added or removed, are too few or too many."""
        table = now.open_table(self.table_key)
        changes = diff_versions(base.open_table(self.table_key), table, [self.column])
        touched = pa.chunked_array(
            [*changes.added.column(self.column).chunks, *changes.removed.column(self.column).chunks], pa.string()
        ).unique()
        own: Positions = np.zeros(len(touched), np.int64)
        keys = StringHashIndex(touched)
        for batch in self.rows():
            places = keys.find_positions(batch.column(0))
            own += np.bincount(places[places >= 0], minlength=len(touched))
        touched, own = touched.filter(pa.array(own > 0)), own[own > 0]
        if not len(touched):
            return None
        values, counts = tally(find_rows(table, self.column, touched, [self.column]).column(self.column))
        totals = own.copy()
        np.add.at(totals, find_positions(values, touched), counts)
        is_wrong = totals < self.low
        if self.high is not None:
            is_wrong |= totals > self.high
        for at in np.flatnonzero(is_wrong)[:1]:
            return Violation(self.table_key, f"`{touched[int(at)].as_py()}` would have {totals[at]} rows")
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamedMergeCountsWithin:
    """As CountsStay, of a write whose rows (`id` and the column) take the place of those that have their ids."""

    table_key: str
    column: str
    rows: RowSource
    low: int = 0
    high: int | None = None

    def check(self, base: TableProvider, now: TableProvider) -> Violation | None:
        """Broken when a value that somebody has added rows to, or removed some from, has too few or too many."""
        table = now.open_table(self.table_key)
        changes = diff_versions(base.open_table(self.table_key), table, [self.column])
        touched = pa.chunked_array(
            [*changes.added.column(self.column).chunks, *changes.removed.column(self.column).chunks], pa.string()
        ).unique()
        if not len(touched):
            return None
        there = find_rows(table, self.column, touched, [ID, self.column])
        values, ids = StringHashIndex(touched), StringHashIndex(concat_chunks(there.column(ID)))
        own = np.zeros(len(touched), np.int64)
        is_replaced = np.zeros(there.num_rows, np.bool_)
        for batch in self.rows():
            places = values.find_positions(batch.column(self.column))
            own += np.bincount(places[places >= 0], minlength=len(touched))
            met = ids.find_positions(batch.column(ID))
            is_replaced[met[met >= 0]] = True
        at = find_positions(there.column(self.column), touched)
        stay = np.bincount(at[~is_replaced], minlength=len(touched))
        is_ours = (own > 0) | (np.bincount(at[is_replaced], minlength=len(touched)) > 0)
        totals = own + stay
        is_wrong = totals < self.low
        if self.high is not None:
            is_wrong |= totals > self.high
        for one in np.flatnonzero(is_wrong & is_ours)[:1]:
            return Violation(self.table_key, f"`{touched[int(one)].as_py()}` would have {totals[one]} rows")
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamedReferencesAbsent:
    """The write takes all rows of another table away, but for the ids of `rows`: nobody may refer to those that go.

    `column` of this table refers to rows of that one.
    """

    table_key: str
    column: str
    rows: RowSource

    def check(self, base: TableProvider, now: TableProvider) -> Violation | None:
        """Broken when somebody refers to a row that goes."""
        changes = diff_versions(base.open_table(self.table_key), now.open_table(self.table_key), [self.column])
        wanted = concat_chunks(changes.added.column(self.column)).unique()
        if not len(wanted):
            return None
        kept = np.zeros(len(wanted), np.bool_)
        keys = StringHashIndex(wanted)
        for batch in self.rows():
            places = keys.find_positions(batch.column(0))
            kept[places[places >= 0]] = True
        missing = wanted.filter(pa.array(~kept))
        found = changes.added.filter(pa.array(is_among(changes.added.column(self.column), missing)))
        ids = concat_chunks(found.column(ID))
        return Violation(self.table_key, f"the values of {format_ids(ids)} clash") if len(ids) else None


def _find_matching_ids(ids: pa.Array | pa.ChunkedArray, rows: RowSource) -> pa.Array:
    """Those of the ids, which others have changed, that the write's rows name too."""
    wanted = concat_chunks(ids).unique() if len(ids) else pa.array([], pa.string())
    if not len(wanted):
        return wanted
    is_met = np.zeros(len(wanted), np.bool_)
    keys = StringHashIndex(wanted)
    for batch in rows():
        places = keys.find_positions(batch.column(0))
        is_met[places[places >= 0]] = True
    return wanted.filter(pa.array(is_met))
