"""Define the read set of a write as data: what it relied on, and how to check that it still holds.

A requirement is checked again only if another commit has changed its table since the write's base.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.storage.columnar_sets import Mask, concat_chunks, find_positions, is_among, to_mask
from omnigraph.storage.key_lookup import find_added_ids, find_existing, find_existing_ids, find_rows
from omnigraph.storage.lance_table import MAX_PUSHED_KEYS, ROW_NUMBER, LanceTable, is_blob

ID = "id"
# A message names this many ids, and the number of the others.
MAX_LISTED_KEYS = 5
# Rows that have moved are compared by their values up to this number, beyond it by their row numbers (decision 20).
MAX_COMPARED_ROWS = 100_000

# Ids or other texts, or a function that returns them if a check needs them after all.
Keys: TypeAlias = Sequence[str] | pa.Array | Callable[[], pa.Array]


def resolve_keys(keys: Keys) -> pa.Array:
    """Return keys as an Arrow array."""
    if isinstance(keys, pa.Array):
        return keys
    return keys() if callable(keys) else pa.array(list(keys), pa.string())


class TableProvider(Protocol):
    """Opens the tables of one snapshot."""

    def open_table(self, table_key: str) -> LanceTable:
        """Open a table at its pinned version."""
        ...


@dataclass(frozen=True, slots=True)
class Violation:
    """A requirement that no longer holds, and why."""

    table_key: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableUnchanged:
    """Require that a whole table is unchanged, as an overwrite or a predicate over all rows does."""

    table_key: str

    def check(self, base: TableProvider, now: TableProvider) -> Violation | None:
        """Return a violation: a requirement is checked only if its table has changed."""
        del base, now
        return Violation(self.table_key, "the table was changed")


@dataclass(frozen=True, slots=True, kw_only=True)
class IdsAbsent:
    """Require that no other commit creates the ids that the write creates."""

    table_key: str
    ids: Keys

    def check(self, base: TableProvider, now: TableProvider) -> Violation | None:
        """Return a violation if one of the ids exists now."""
        before, after = base.open_table(self.table_key), now.open_table(self.table_key)
        existing = find_added_ids(before, after, resolve_keys(self.ids))
        return Violation(self.table_key, f"{format_ids(existing)} exist now") if len(existing) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class IdsPresent:
    """Require that rows which the write refers to stay, for example the ends of an edge."""

    table_key: str
    ids: Keys

    def check(self, base: TableProvider, now: TableProvider) -> Violation | None:
        """Return a violation if one of the ids is missing."""
        del base
        ids = resolve_keys(self.ids)
        missing = _exclude_ids(ids, is_among(ids, find_existing_ids(now.open_table(self.table_key), ids)))
        return Violation(self.table_key, f"{format_ids(missing)} were deleted") if len(missing) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ValuesAbsent:
    """Require that no other row holds the values that the write stores in a unique column group.

    Rows with `own_ids` belong to the write and do not count. A null clashes with nothing.
    """

    table_key: str
    columns: tuple[str, ...]
    values: pa.Table
    own_ids: Keys = ()

    def check(self, base: TableProvider, now: TableProvider) -> Violation | None:
        """Return a violation if another row holds one of the values."""
        del base
        rows = find_rows_with_values(now.open_table(self.table_key), self.columns, self.values)
        clashing = _exclude_rows(rows, self.own_ids)
        if not clashing.num_rows:
            return None
        return Violation(self.table_key, f"the values of {format_ids(concat_chunks(clashing.column(ID)))} clash")


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsUnchanged:
    """Require that rows whose values the write depends on are unchanged."""

    table_key: str
    ids: Keys

    def check(self, base: TableProvider, now: TableProvider) -> Violation | None:
        """Return a violation if one of the rows was changed or removed."""
        ids = resolve_keys(self.ids)
        before, after = base.open_table(self.table_key), now.open_table(self.table_key)
        # Compaction moves rows without changing them, so only rows that moved are compared.
        moved = ids.filter(pa.array(_has_moved(before, after, ids)))
        find_changed = _find_renumbered if len(moved) > MAX_COMPARED_ROWS else _find_rewritten
        changed = find_changed(before, after, moved)
        return Violation(self.table_key, f"{format_ids(changed)} changed") if len(changed) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionUnchanged:
    """Require that a predicate over the whole table selects the same rows as before, unchanged."""

    table_key: str
    ids: Keys
    select: Callable[[LanceTable], pa.Array]
    select_rows: Callable[[pa.Table], pa.Array] | None = None
    """Returns the ids that the predicate selects among some rows, if that needs no table."""

    def check(self, base: TableProvider, now: TableProvider) -> Violation | None:
        """Return a violation if other rows are selected now, or if one of the rows was changed."""
        before = resolve_keys(self.ids)
        after = self.select(now.open_table(self.table_key))
        lost = _exclude_ids(before, is_among(before, after))
        gained = _exclude_ids(after, is_among(after, before))
        changed = pa.concat_arrays([lost, gained])
        if len(changed):
            return Violation(self.table_key, f"{format_ids(changed)} changed")
        return RowsUnchanged(table_key=self.table_key, ids=before).check(base, now)


@dataclass(frozen=True, slots=True, kw_only=True)
class CountsWithin:
    """Require that the number of rows per key stays within the cardinality bounds; the write adds `added` rows.

    Rows with `own_ids` are replaced or deleted by the write and do not count, even if another commit has changed their
    key.
    """

    table_key: str
    column: str
    keys: Keys
    added: Sequence[int] | npt.NDArray[np.int64]
    low: int = 0
    high: int | None = None
    own_ids: Keys = ()

    def check(self, base: TableProvider, now: TableProvider) -> Violation | None:
        """Return a violation if a key now has too few or too many rows, counting those of this write."""
        del base
        keys = resolve_keys(self.keys)
        columns = list(dict.fromkeys([ID, self.column]))
        rows = _exclude_rows(find_rows(now.open_table(self.table_key), self.column, keys, columns), self.own_ids)
        distinct = keys.unique()
        totals = np.bincount(find_positions(rows.column(self.column), distinct), minlength=len(distinct))
        np.add.at(totals, find_positions(keys, distinct), np.asarray(self.added, np.int64))
        return check_counts(self.table_key, distinct, totals, self.low, self.high)


class StreamedRequirement(Protocol):
    """A requirement of a write with too many rows to hold in memory, see `streamed_requirements`."""

    @property
    def table_key(self) -> str:
        """The table that it applies to."""
        ...

    def check(self, base: TableProvider, now: TableProvider) -> Violation | None:
        """Return a violation if it no longer holds since the base."""
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
    """Return the rows (`id` and the columns) that hold one of the value groups; -0.0 equals 0.0."""
    names = list(dict.fromkeys([ID, *columns]))
    cast = pa.table({name: values.column(name).cast(table.schema.field(name).type) for name in columns})
    groups = normalize_zeros(cast).group_by(list(columns)).aggregate([])
    # The lookup uses one column of the group. A boolean is the least selective, so any other column is preferred.
    probed = min(columns, key=lambda name: pa.types.is_boolean(groups.schema.field(name).type))
    keys = groups.column(probed).combine_chunks().unique()
    # A filter never matches NaN, which the join below treats as a value like any other.
    is_pushed = len(keys) <= MAX_PUSHED_KEYS and not _has_nan(keys)
    rows = table.find_rows(probed, keys, names) if is_pushed else table.scan(names)
    return normalize_zeros(rows).join(groups, list(columns), join_type="left semi")


def check_counts(
    table_key: str, keys: pa.Array, totals: npt.NDArray[np.int64], low: int, high: int | None
) -> Violation | None:
    """Return a violation if a key has too few or too many rows; it names one of them."""
    for position in np.flatnonzero(is_out_of_bounds(totals, low, high))[:1]:
        return Violation(table_key, f"`{keys[int(position)].as_py()}` would have {totals[position]} rows")
    return None


def is_out_of_bounds(totals: npt.NDArray[np.int64], low: int, high: int | None) -> Mask:
    """Return for each number of rows whether a cardinality does not allow it."""
    return (totals < low) | (totals > high) if high is not None else totals < low


def select_complete(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Return the rows without a null in a unique group of columns, with -0.0 as 0.0: a null clashes with nothing."""
    complete = find_complete(rows.select(list(columns)))
    return normalize_zeros(rows if complete is None else rows.take(pa.array(complete)))


def find_complete(group: pa.Table) -> npt.NDArray[np.int64] | None:
    """Return the positions of the rows without a null, or None if no row has one."""
    masks = [to_mask(pc.is_valid(column)) for column in group.columns if column.null_count]
    return np.flatnonzero(np.logical_and.reduce(masks)) if masks else None


def is_one_of_rows(rows: pa.Table, columns: Sequence[str], values: pa.Table) -> bool:
    """Return whether some of these rows may hold one of the value groups, by the first column alone."""
    name = columns[0]
    stored = rows.select([name])
    keys = concat_chunks(normalize_zeros(values.select([name]).cast(stored.schema)).column(name))
    return _has_nan(keys) or bool(pc.any(pc.is_in(normalize_zeros(stored).column(name), value_set=keys)).as_py())


def normalize_zeros(rows: pa.Table) -> pa.Table:
    """Replace every -0.0 by 0.0: the two are equal but stored differently, so a join would miss one."""
    for index, field in enumerate(rows.schema):
        if pa.types.is_floating(field.type):
            # -0.0 + 0.0 is 0.0; all other values stay unchanged.
            rows = rows.set_column(index, field, pc.add(rows.column(index), pa.scalar(0.0, field.type)))
    return rows


def _has_nan(keys: pa.Array) -> bool:
    """Return whether one of the keys is NaN."""
    return pa.types.is_floating(keys.type) and bool(pc.any(pc.is_nan(keys)).as_py())


def _exclude_rows(rows: pa.Table, ids: Keys) -> pa.Table:
    excluded = resolve_keys(ids)
    return rows.filter(pa.array(~is_among(rows.column(ID), excluded))) if len(excluded) else rows


def _exclude_ids(ids: pa.Array, is_excluded: Mask) -> pa.Array:
    return ids.filter(pa.array(~is_excluded))


def _has_moved(before: LanceTable, after: LanceTable, ids: pa.Array) -> Mask:
    """Return for each id whether its row has moved, or exists on one side only.

    Data files are immutable, so a row at the same position of the same file is unchanged.
    """
    files: dict[tuple[str, ...], int] = {}
    old, new = _locate_rows(before, ids, files), _locate_rows(after, ids, files)
    return np.asarray((old != new).any(axis=1), np.bool_)


def _locate_rows(table: LanceTable, ids: pa.Array, files: dict[tuple[str, ...], int]) -> npt.NDArray[np.int64]:
    """Return for each id the number of its data files and its offset there, -1 for a missing row."""
    positions = np.full((len(ids), 2), -1, np.int64)
    lookup = find_existing(table, lambda: ids, len(ids))
    exists = lookup.mask
    if not exists.any():
        return positions
    numbers = {fragment.number: files.setdefault(fragment.files, len(files)) for fragment in table.list_fragments()}
    # Fragment numbers have gaps after maintenance, so they are searched and not used as indexes.
    fragments = np.array(sorted(numbers), np.uint64)
    file_numbers = np.array([numbers[int(number)] for number in fragments], np.int64)
    addresses = lookup.get_addresses()[lookup.at[exists]]
    # A row address is the fragment number in the upper 32 bits and the offset in the lower ones.
    positions[exists, 0] = file_numbers[np.searchsorted(fragments, addresses >> np.uint64(32))]
    positions[exists, 1] = (addresses & np.uint64(0xFFFFFFFF)).astype(np.int64)
    return positions


def _find_renumbered(before: LanceTable, after: LanceTable, ids: pa.Array) -> pa.Array:
    """Return the ids whose rows were rewritten, created or deleted; compaction keeps row numbers."""
    old, new = _read_row_numbers(before, ids), _read_row_numbers(after, ids)
    return ids.filter(pa.array(old != new))


def _read_row_numbers(table: LanceTable, ids: pa.Array) -> npt.NDArray[np.int64]:
    """Return for each id the number of its row, -1 for a missing row."""
    rows = table.find_rows(ID, ids, [ID, ROW_NUMBER])
    if not rows.num_rows:
        return np.full(len(ids), -1, np.int64)
    positions = find_positions(ids, rows.column(ID))
    return np.where(positions >= 0, rows.column(ROW_NUMBER).to_numpy().astype(np.int64)[positions], -1)


def _find_rewritten(before: LanceTable, after: LanceTable, ids: pa.Array) -> pa.Array:
    """Return the ids whose rows have other values now, or were created or deleted."""
    old, new = _read_rows(before, ids), _read_rows(after, ids)
    return pa.array([row_id for row_id in ids.to_pylist() if old.get(row_id) != new.get(row_id)], pa.string())


def _read_rows(table: LanceTable, ids: pa.Array) -> dict[str, str]:
    """Return the values of rows by id, as text, in which NaN equals itself.

    Blobs are not read. Their rows are compared by row number, which changes only if a row is rewritten.
    """
    names = [field.name for field in table.schema if not is_blob(field)]
    columns = names if len(names) == len(table.schema) else [*names, ROW_NUMBER]
    return {row[ID]: repr(row) for row in table.find_rows(ID, ids, columns).to_pylist()}


def format_ids(ids: pa.Array) -> str:
    """Format the first few ids, and the number of the others."""
    rest = f" and {len(ids) - MAX_LISTED_KEYS} more" if len(ids) > MAX_LISTED_KEYS else ""
    first = ids.take(pc.sort_indices(ids).slice(0, MAX_LISTED_KEYS))
    return ", ".join(f"`{row_id}`" for row_id in first.to_pylist()) + rest
