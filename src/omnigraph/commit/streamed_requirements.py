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

from omnigraph.commit.requirements import Tables, Violation, normalised, shown_ids
from omnigraph.storage.columnar_sets import Positions, is_among, one_array, places_among, tally
from omnigraph.storage.key_lookup import rows_with
from omnigraph.storage.string_hash_index import KeySet
from omnigraph.storage.version_diff import changes_between

ID = "id"
Rows: TypeAlias = Callable[[], Iterator[pa.RecordBatch]]
"""Columns of the write's own rows, from the start each time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsNew:
    """The write creates rows with the ids of `rows`: nobody else may have."""

    table_key: str
    rows: Rows

    def check(self, base: Tables, now: Tables) -> Violation | None:
        """Broken when somebody has created a row of such an id."""
        changes = changes_between(base.table(self.table_key), now.table(self.table_key), [])
        found = _met(changes.come.column(ID), self.rows)
        return Violation(self.table_key, f"{shown_ids(found)} exist now") if len(found) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsApart:
    """The write has looked for rows that have the ids of `rows`: nobody may have touched, made or removed one."""

    table_key: str
    rows: Rows

    def check(self, base: Tables, now: Tables) -> Violation | None:
        """Broken when somebody has created, changed or removed a row of such an id."""
        changes = changes_between(base.table(self.table_key), now.table(self.table_key), [])
        touched = pa.chunked_array([*changes.come.column(ID).chunks, *changes.gone.column(ID).chunks], pa.string())
        found = _met(touched, self.rows)
        return Violation(self.table_key, f"{shown_ids(found)} changed") if len(found) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndsStay:
    """The write refers to rows by the ids in the one column of `rows`: they must stay."""

    table_key: str
    rows: Rows

    def check(self, base: Tables, now: Tables) -> Violation | None:
        """Broken when somebody has removed one of them."""
        changes = changes_between(base.table(self.table_key), now.table(self.table_key), [])
        found = _met(changes.lost_ids(), self.rows)
        return Violation(self.table_key, f"{shown_ids(found)} are gone") if len(found) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ValuesNew:
    """The write stores the values of `rows` in a unique column group. A null clashes with nothing."""

    table_key: str
    columns: tuple[str, ...]
    rows: Rows

    def check(self, base: Tables, now: Tables) -> Violation | None:
        """Broken when somebody has stored one of the values."""
        table = now.table(self.table_key)
        come = normalised(changes_between(base.table(self.table_key), table, self.columns).come)
        for name in self.columns:
            come = come.filter(pc.is_valid(come.column(name)))
        if not come.num_rows:
            return None
        clashing: list[pa.Array] = []
        for batch in self.rows():
            own = normalised(pa.Table.from_batches([batch])).select(list(self.columns))
            met = come.join(own, list(self.columns), join_type="left semi")
            clashing.append(one_array(met.column(ID)))
        found = pa.concat_arrays(clashing).unique() if clashing else pa.array([], pa.string())
        return Violation(self.table_key, f"the values of {shown_ids(found)} clash") if len(found) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CountsStay:
    """The write stores a row for every value of the one column of `rows`, and their number per value has bounds."""

    table_key: str
    column: str
    rows: Rows
    low: int = 0
    high: int | None = None

    def check(self, base: Tables, now: Tables) -> Violation | None:
        """Broken when a value's rows, with those that somebody has added or removed, are too few or too many."""
        table = now.table(self.table_key)
        changes = changes_between(base.table(self.table_key), table, [self.column])
        touched = pa.chunked_array(
            [*changes.come.column(self.column).chunks, *changes.gone.column(self.column).chunks], pa.string()
        ).unique()
        own: Positions = np.zeros(len(touched), np.int64)
        keys = KeySet(touched)
        for batch in self.rows():
            places = keys.places(batch.column(0))
            own += np.bincount(places[places >= 0], minlength=len(touched))
        touched, own = touched.filter(pa.array(own > 0)), own[own > 0]
        if not len(touched):
            return None
        values, counts = tally(rows_with(table, self.column, touched, [self.column]).column(self.column))
        totals = own.copy()
        np.add.at(totals, places_among(values, touched), counts)
        is_wrong = totals < self.low
        if self.high is not None:
            is_wrong |= totals > self.high
        for at in np.flatnonzero(is_wrong)[:1]:
            return Violation(self.table_key, f"`{touched[int(at)].as_py()}` would have {totals[at]} rows")
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedCountsStay:
    """As CountsStay, of a write whose rows (`id` and the column) take the place of those that have their ids."""

    table_key: str
    column: str
    rows: Rows
    low: int = 0
    high: int | None = None

    def check(self, base: Tables, now: Tables) -> Violation | None:
        """Broken when a value that somebody has added rows to, or removed some from, has too few or too many."""
        table = now.table(self.table_key)
        changes = changes_between(base.table(self.table_key), table, [self.column])
        touched = pa.chunked_array(
            [*changes.come.column(self.column).chunks, *changes.gone.column(self.column).chunks], pa.string()
        ).unique()
        if not len(touched):
            return None
        there = rows_with(table, self.column, touched, [ID, self.column])
        values, ids = KeySet(touched), KeySet(one_array(there.column(ID)))
        own = np.zeros(len(touched), np.int64)
        is_replaced = np.zeros(there.num_rows, np.bool_)
        for batch in self.rows():
            places = values.places(batch.column(self.column))
            own += np.bincount(places[places >= 0], minlength=len(touched))
            met = ids.places(batch.column(ID))
            is_replaced[met[met >= 0]] = True
        at = places_among(there.column(self.column), touched)
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
class NobodyReturns:
    """The write takes all rows of another table away, but for the ids of `rows`: nobody may refer to those that go.

    `column` of this table refers to rows of that one.
    """

    table_key: str
    column: str
    rows: Rows

    def check(self, base: Tables, now: Tables) -> Violation | None:
        """Broken when somebody refers to a row that goes."""
        changes = changes_between(base.table(self.table_key), now.table(self.table_key), [self.column])
        wanted = one_array(changes.come.column(self.column)).unique()
        if not len(wanted):
            return None
        kept = np.zeros(len(wanted), np.bool_)
        keys = KeySet(wanted)
        for batch in self.rows():
            places = keys.places(batch.column(0))
            kept[places[places >= 0]] = True
        missing = wanted.filter(pa.array(~kept))
        found = changes.come.filter(pa.array(is_among(changes.come.column(self.column), missing)))
        ids = one_array(found.column(ID))
        return Violation(self.table_key, f"the values of {shown_ids(ids)} clash") if len(ids) else None


def _met(ids: pa.Array | pa.ChunkedArray, rows: Rows) -> pa.Array:
    """Those of the ids, which others have changed, that the write's rows name too."""
    wanted = one_array(ids).unique() if len(ids) else pa.array([], pa.string())
    if not len(wanted):
        return wanted
    is_met = np.zeros(len(wanted), np.bool_)
    keys = KeySet(wanted)
    for batch in rows():
        places = keys.places(batch.column(0))
        is_met[places[places >= 0]] = True
    return wanted.filter(pa.array(is_met))
