"""The read set of a write, as data: what it relied on, and how to find out whether that still holds.

A requirement is checked again only when a table it names was changed by somebody else since the write's base.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.storage.columnar_sets import Mask, concat_chunks, find_positions, is_among
from omnigraph.storage.key_lookup import find_existing, find_existing_ids, find_rows
from omnigraph.storage.lance_table import MAX_PUSHED_KEYS, ROW_NUMBER, LanceTable, is_blob

ID = "id"
MAX_LISTED_KEYS = 5
MAX_COMPARED_ROWS = 100_000
"""Rows that lie elsewhere now are compared by what they say; beyond so many by the numbers that the table gave them."""

Keys: TypeAlias = Sequence[str] | pa.Array | Callable[[], pa.Array]
"""Ids or other texts: as they are, or where to get them when they are needed after all."""


def resolve_keys(keys: Keys) -> pa.Array:
    """The keys themselves."""
    if isinstance(keys, pa.Array):
        return keys
    return keys() if callable(keys) else pa.array(list(keys), pa.string())


class TableProvider(Protocol):
    """Gives the tables of one snapshot."""

    def open_table(self, table_key: str) -> LanceTable:
        """The table at its pin."""
        ...


@dataclass(frozen=True, slots=True)
class Violation:
    """A requirement that does not hold any more."""

    table_key: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableUnchanged:
    """The write depended on the whole table: an overwrite, a predicate over everything."""

    table_key: str

    def check(self, base: TableProvider, now: TableProvider) -> Violation | None:
        """Always broken: it is asked only when the table's content has changed."""
        del base, now
        return Violation(self.table_key, "the table was changed")


@dataclass(frozen=True, slots=True, kw_only=True)
class IdsAbsent:
    """The write creates these ids: nobody else may have."""

    table_key: str
    ids: Keys

    def check(self, base: TableProvider, now: TableProvider) -> Violation | None:
        """Broken when one of the ids exists now."""
        del base
        found = find_existing_ids(now.open_table(self.table_key), resolve_keys(self.ids))
        return Violation(self.table_key, f"{format_ids(found)} exist now") if len(found) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class IdsPresent:
    """The write refers to these rows, for instance as an edge's ends: they must stay."""

    table_key: str
    ids: Keys

    def check(self, base: TableProvider, now: TableProvider) -> Violation | None:
        """Broken when one of the ids is gone."""
        del base
        ids = resolve_keys(self.ids)
        gone = _exclude_ids(ids, is_among(ids, find_existing_ids(now.open_table(self.table_key), ids)))
        return Violation(self.table_key, f"{format_ids(gone)} are gone") if len(gone) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ValuesAbsent:
    """The write stores these values in a unique column group; rows with `own_ids` are its own and don't count.

    A null clashes with nothing.
    """

    table_key: str
    columns: tuple[str, ...]
    values: pa.Table
    own_ids: Keys = ()

    def check(self, base: TableProvider, now: TableProvider) -> Violation | None:
        """Broken when another row holds one of the values."""
        del base
        taken = _exclude_rows(
            find_rows_with_values(now.open_table(self.table_key), self.columns, self.values), self.own_ids
        )
        return (
            Violation(self.table_key, f"the values of {format_ids(concat_chunks(taken.column(ID)))} clash")
            if taken.num_rows
            else None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsUnchanged:
    """The write's meaning depended on what these rows said when it read them."""

    table_key: str
    ids: Keys

    def check(self, base: TableProvider, now: TableProvider) -> Violation | None:
        """Broken when one of the rows was changed or removed."""
        ids = resolve_keys(self.ids)
        before, after = base.open_table(self.table_key), now.open_table(self.table_key)
        moved = ids.filter(pa.array(_has_moved(before, after, ids)))
        changed = (_find_renumbered if len(moved) > MAX_COMPARED_ROWS else _find_rewritten)(before, after, moved)
        return Violation(self.table_key, f"{format_ids(changed)} changed") if len(changed) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionUnchanged:
    """The write chose these rows by a question to the whole table, which must choose the same ones, unchanged."""

    table_key: str
    ids: Keys
    select: Callable[[LanceTable], pa.Array]

    def check(self, base: TableProvider, now: TableProvider) -> Violation | None:
        """Broken when other rows would be chosen now, or one of them was changed."""
        before, after = resolve_keys(self.ids), self.select(now.open_table(self.table_key))
        other = pa.concat_arrays(
            [_exclude_ids(before, is_among(before, after)), _exclude_ids(after, is_among(after, before))]
        )
        if len(other):
            return Violation(self.table_key, f"{format_ids(other)} changed")
        return RowsUnchanged(table_key=self.table_key, ids=before).check(base, now)


@dataclass(frozen=True, slots=True, kw_only=True)
class CountsWithin:
    """The write stores `added` rows per key, and their number per key has bounds: cardinality.

    Rows with `own_ids` are replaced or deleted by the write and don't count, wherever somebody else has moved them.
    """

    table_key: str
    column: str
    keys: Keys
    added: Sequence[int] | npt.NDArray[np.int64]
    low: int = 0
    high: int | None = None
    own_ids: Keys = ()

    def check(self, base: TableProvider, now: TableProvider) -> Violation | None:
        """Broken when a key's rows now, with those of this write, are too few or too many."""
        del base
        keys = resolve_keys(self.keys)
        columns = list(dict.fromkeys([ID, self.column]))
        rows = _exclude_rows(find_rows(now.open_table(self.table_key), self.column, keys, columns), self.own_ids)
        once = keys.unique()
        totals = np.bincount(find_positions(rows.column(self.column), once), minlength=len(once))
        np.add.at(totals, find_positions(keys, once), np.asarray(self.added, np.int64))
        is_wrong = totals < self.low
        if self.high is not None:
            is_wrong |= totals > self.high
        for at in np.flatnonzero(is_wrong)[:1]:
            return Violation(self.table_key, f"`{once[int(at)].as_py()}` would have {totals[at]} rows")
        return None


class StreamedRequirement(Protocol):
    """A requirement of rows that are too many to hold; `streamed` has them."""

    @property
    def table_key(self) -> str:
        """The table that it is about."""
        ...

    def check(self, base: TableProvider, now: TableProvider) -> Violation | None:
        """What is broken since the base."""
        ...


Requirement: TypeAlias = (
    TableUnchanged
    | IdsAbsent
    | IdsPresent
    | ValuesAbsent
    | RowsUnchanged
    | SelectionUnchanged
    | CountsWithin
    | StreamedRequirement
)


def find_rows_with_values(table: LanceTable, columns: Sequence[str], values: pa.Table) -> pa.Table:
    """The rows (`id` and the columns) that hold one of the value groups; -0.0 and 0.0 are one value."""
    names = list(dict.fromkeys([ID, *columns]))
    typed = pa.table({name: values.column(name).cast(table.schema.field(name).type) for name in columns})
    wanted = normalize_zeros(typed).group_by(list(columns)).aggregate([])
    # Of the members of a group, a truth value tells the fewest rows apart.
    asked = min(columns, key=lambda name: pa.types.is_boolean(wanted.schema.field(name).type))
    keys = wanted.column(asked).combine_chunks().unique()
    is_pushed = len(keys) <= MAX_PUSHED_KEYS and not _has_nan(keys)
    rows = table.find_rows(asked, keys, names) if is_pushed else table.scan(names)
    return normalize_zeros(rows).join(wanted, list(columns), join_type="left semi")


def normalize_zeros(rows: pa.Table) -> pa.Table:
    """The rows with every -0.0 as 0.0, which is equal to it but not stored alike."""
    for place, field in enumerate(rows.schema):
        if pa.types.is_floating(field.type):
            rows = rows.set_column(place, field, pc.add(rows.column(place), pa.scalar(0.0, field.type)))
    return rows


def _has_nan(keys: pa.Array) -> bool:
    """Return whether one of the keys is no number: it is a value like others here, and no filter finds it."""
    return pa.types.is_floating(keys.type) and bool(pc.any(pc.is_nan(keys)).as_py())


def _exclude_rows(rows: pa.Table, ids: Keys) -> pa.Table:
    own = resolve_keys(ids)
    return rows.filter(pa.array(~is_among(rows.column(ID), own))) if len(own) else rows


def _exclude_ids(ids: pa.Array, known: Mask) -> pa.Array:
    return ids.filter(pa.array(~known))


def _has_moved(before: LanceTable, after: LanceTable, ids: pa.Array) -> Mask:
    """For each id, whether its row lies elsewhere now, or is on one side only. Where it lies still, it is the same."""
    files: dict[tuple[str, ...], int] = {}
    old, new = _locate_rows(before, ids, files), _locate_rows(after, ids, files)
    return np.asarray((old != new).any(axis=1), np.bool_)


def _locate_rows(table: LanceTable, ids: pa.Array, files: dict[tuple[str, ...], int]) -> npt.NDArray[np.int64]:
    """For each id the number of its data files and its offset there, or -1."""
    places = np.full((len(ids), 2), -1, np.int64)
    found = find_existing(table, lambda: ids, len(ids))
    is_there = found.mask
    if not is_there.any():
        return places
    numbers = {one.number: files.setdefault(one.files, len(files)) for one in table.list_fragments()}
    ordered = np.array(sorted(numbers), np.uint64)  # maintenance leaves gaps between them
    by_place = np.array([numbers[int(number)] for number in ordered], np.int64)
    addresses = found.get_addresses()[found.at[is_there]]
    places[is_there, 0] = by_place[np.searchsorted(ordered, addresses >> np.uint64(32))]
    places[is_there, 1] = (addresses & np.uint64(0xFFFFFFFF)).astype(np.int64)
    return places


def _find_renumbered(before: LanceTable, after: LanceTable, ids: pa.Array) -> pa.Array:
    """Those of the ids whose rows were written anew, or came, or went: a row keeps its number in a compaction."""
    old, new = _read_row_numbers(before, ids), _read_row_numbers(after, ids)
    return ids.filter(pa.array(old != new))


def _read_row_numbers(table: LanceTable, ids: pa.Array) -> npt.NDArray[np.int64]:
    """For each id the number of its row, or -1."""
    found = table.find_rows(ID, ids, [ID, ROW_NUMBER])
    if not found.num_rows:
        return np.full(len(ids), -1, np.int64)
    at = find_positions(ids, found.column(ID))
    return np.where(at >= 0, found.column(ROW_NUMBER).to_numpy().astype(np.int64)[at], -1)


def _find_rewritten(before: LanceTable, after: LanceTable, ids: pa.Array) -> pa.Array:
    """Those of the ids whose rows say something else now, or came, or went."""
    old, new = _read_rows(before, ids), _read_rows(after, ids)
    return pa.array([row_id for row_id in ids.to_pylist() if old.get(row_id) != new.get(row_id)], pa.string())


def _read_rows(table: LanceTable, ids: pa.Array) -> dict[str, str]:
    """What the rows say, as text: there a NaN equals itself.

    A blob is not read. Instead the row's number is compared, which it keeps until it is written anew.
    """
    names = [field.name for field in table.schema if not is_blob(field)]
    columns = names if len(names) == len(table.schema) else [*names, ROW_NUMBER]
    return {row[ID]: repr(row) for row in table.find_rows(ID, ids, columns).to_pylist()}


def format_ids(ids: pa.Array) -> str:
    """The first of some ids, and how many more there are."""
    more = f" and {len(ids) - MAX_LISTED_KEYS} more" if len(ids) > MAX_LISTED_KEYS else ""
    first = ids.take(pc.sort_indices(ids).slice(0, MAX_LISTED_KEYS))
    return ", ".join(f"`{row_id}`" for row_id in first.to_pylist()) + more
