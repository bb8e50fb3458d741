"""Diff two versions of a table, at a cost that follows what differs.

Fragments that both versions list with the same deletions are skipped. Rows of the others are matched by id alone: row
numbers don't identify them, because branches that diverged give the same numbers to different rows.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.changed_ranges import (
    ChangedRange,
    Fills,
    compare_with_fill,
    concat_positions,
    find_changed_ranges,
    read_rows_at,
)
from omnigraph.engine.writing.blobs import split_by_bytes
from omnigraph.schema.arrow import ID, identity_from_arrow
from omnigraph.schema.catalog import UNASSIGNED
from omnigraph.schema.identity import Aliases
from omnigraph.storage.column_hashing import hash_rows
from omnigraph.storage.columnar_sets import Mask, Positions, are_equal, concat_chunks, find_positions, to_mask
from omnigraph.storage.lance_table import ADDRESS, LanceTable, is_blob

__all__ = [
    "COMPARED_ROWS",
    "TableDiff",
    "UpdatedRows",
    "diff_rows",
    "diff_tables",
    "iter_diff_chunks",
    "iter_updated_rows",
    "match_columns",
    "plan_diff_chunks",
    "read_rows_at",
]

# Values are compared in batches of this many rows of each version.
COMPARED_ROWS = 8_192
# Ids are matched for about this many rows of both versions together; more are split into partitions by hash.
MATCHED_ROWS = 1_000_000
# The same in every process, so that every reader gets the partitions in the same order.
_HASH_SEED = np.uint64(0x9E3779B97F4A7C15)
_NO_POSITIONS: Positions = np.empty(0, np.int64)
# A version of a table, and its rows that the other version may not have.
_Side: TypeAlias = tuple[LanceTable, Sequence[ChangedRange]]


class TableDiff(NamedTuple):
    """The rows that differ, by position among the live rows of their version, in ascending order of ids."""

    inserted: Positions
    """Rows of the later version whose ids the earlier one does not have."""
    deleted: Positions
    """Rows of the earlier version whose ids the later one does not have."""
    earlier: Positions
    """Rows of the earlier version that were rewritten, possibly with equal values."""
    later: Positions
    """For each of these, the row with the same id in the later version."""


@dataclass(frozen=True, slots=True)
class UpdatedRows:
    """Rows with different values, before and after, and for each changed column the mask of rows that differ in it."""

    before: pa.Table
    after: pa.Table
    changed: Mapping[str, Mask]


def diff_tables(before: LanceTable, after: LanceTable, fills: Fills | None = None) -> TableDiff:
    """Return the rows in which two versions of a table can differ; only ids are read.

    With `fills`, columns that a new schema added are no difference: see `find_changed_ranges`.
    """
    if (before.path, before.cache_version) == (after.path, after.cache_version):
        return TableDiff(_NO_POSITIONS, _NO_POSITIONS, _NO_POSITIONS, _NO_POSITIONS)
    old, new = (concat_positions(ranges) for ranges in find_changed_ranges(before, after, fills))
    return _match_by_id(old, _read_ids(before, old), new, _read_ids(after, new))


def diff_rows(before: LanceTable, after: LanceTable, ids: pa.Array) -> TableDiff:
    """Return the diff of two versions limited to rows with these ids, which are looked up in both.

    Rows that did not change are among the rewritten ones.
    """
    return _match_by_id(*_locate_rows(before, ids), *_locate_rows(after, ids))


def _locate_rows(table: LanceTable, ids: pa.Array) -> tuple[Positions, pa.Array]:
    rows = table.find_rows(ID, ids, [ID], with_address=True)
    addresses = np.asarray(concat_chunks(rows.column(ADDRESS)), np.uint64)
    return table.get_address_map().to_positions(addresses), concat_chunks(rows.column(ID))


def iter_diff_chunks(
    before: LanceTable, after: LanceTable, fills: Fills | None = None, aliases: Aliases | None = None
) -> Iterator[TableDiff]:
    """Yield the same rows as `diff_tables` in chunks of bounded size that share no id, always in the same order.

    Usually there is one chunk. `fills` and `aliases` are those of `find_changed_ranges`.
    """
    for compute in plan_diff_chunks(before, after, fills, aliases):
        yield compute()


def plan_diff_chunks(
    before: LanceTable, after: LanceTable, fills: Fills | None = None, aliases: Aliases | None = None
) -> list[Callable[[], TableDiff]]:
    """Return the chunks of `iter_diff_chunks` as functions that compute them; no id is read for this list."""
    old, new = find_changed_ranges(before, after, fills, aliases)
    rows = sum(range_.count for range_ in (*old, *new))
    if old and not new:
        return _plan_single_version(before, old, is_new=False)
    if not old:
        return _plan_single_version(after, new, is_new=True)
    # The changed ids are read once per partition: more reads, but memory stays bounded.
    partition_count = -(-rows // MATCHED_ROWS)
    return [partial(_diff_partition, (before, old), (after, new), n, partition_count) for n in range(partition_count)]


def _diff_partition(earlier: _Side, later: _Side, partition: int, partition_count: int) -> TableDiff:
    sides = []
    for table, ranges in (earlier, later):
        if partition_count == 1:
            positions = concat_positions(ranges)
            sides.append((positions, _read_ids(table, positions)))
        else:
            sides.append(_select_hash_partition(table, ranges, partition, partition_count))
    return _sort_by_position(_match_by_id(*sides[0], *sides[1]))


def _plan_single_version(
    table: LanceTable, ranges: Sequence[ChangedRange], *, is_new: bool
) -> list[Callable[[], TableDiff]]:
    """Return chunks of rows that only one version has: all inserted, or all deleted. No ids need to be matched."""

    def build(positions: Positions) -> TableDiff:
        inserted, deleted = (positions, _NO_POSITIONS) if is_new else (_NO_POSITIONS, positions)
        return TableDiff(inserted, deleted, _NO_POSITIONS, _NO_POSITIONS)

    def build_sorted() -> TableDiff:
        positions = concat_positions(ranges)
        return build(positions[_sort_by_id(_read_ids(table, positions), np.arange(len(positions)))])

    # Ids are read only to sort a single chunk.
    if sum(range_.count for range_ in ranges) <= COMPARED_ROWS:
        return [build_sorted]
    return [
        partial(lambda range_, first: build(range_.get_slice(first, COMPARED_ROWS)), range_, first)
        for range_ in ranges
        for first in range(0, range_.count, COMPARED_ROWS)
    ]


def _match_by_id(old: Positions, old_ids: pa.Array, new: Positions, new_ids: pa.Array) -> TableDiff:
    """Classify the rows of two versions as inserted, deleted or rewritten, by their ids."""
    old_rows = find_positions(new_ids, old_ids)
    is_rewritten = old_rows >= 0
    is_deleted = np.ones(len(old), np.bool_)
    is_deleted[old_rows[is_rewritten]] = False
    inserted = _sort_by_id(new_ids, np.flatnonzero(~is_rewritten))
    rewritten = _sort_by_id(new_ids, np.flatnonzero(is_rewritten))
    deleted = _sort_by_id(old_ids, np.flatnonzero(is_deleted))
    return TableDiff(new[inserted], old[deleted], old[old_rows[rewritten]], new[rewritten])


def _sort_by_position(diff: TableDiff) -> TableDiff:
    """Return the same diff with lists of more than one batch sorted by position."""
    # They are read in several batches: sorted by position, each batch is a short range of the table.
    order = slice(None) if len(diff.earlier) <= COMPARED_ROWS else np.argsort(diff.earlier, kind="stable")
    inserted, deleted = (
        rows if len(rows) <= COMPARED_ROWS else np.sort(rows) for rows in (diff.inserted, diff.deleted)
    )
    return TableDiff(inserted, deleted, diff.earlier[order], diff.later[order])


def _select_hash_partition(
    table: LanceTable, ranges: Sequence[ChangedRange], partition: int, partition_count: int
) -> tuple[Positions, pa.Array]:
    """Return the positions and ids of the rows whose ids belong to one partition."""
    selected: list[Positions] = []
    selected_ids: list[pa.Array] = []
    for range_ in ranges:
        for positions in range_.iter_slices(MATCHED_ROWS):
            ids = _read_ids(table, positions)
            is_selected = hash_rows([ids], _HASH_SEED) % np.uint64(partition_count) == partition
            selected.append(positions[is_selected])
            selected_ids.append(ids.filter(pa.array(is_selected)))
    return np.concatenate(selected), pa.concat_arrays(selected_ids)


def iter_updated_rows(
    before: LanceTable,
    after: LanceTable,
    diff: TableDiff,
    fills: Fills | None = None,
    old_names: Mapping[str, str] | None = None,
) -> Iterator[UpdatedRows]:
    """Yield the rewritten rows whose values differ, in batches.

    `old_names` maps the columns that both versions have to their names in the earlier one; by default `match_columns`
    computes it.

    A column that only one version has counts where it has a value. With `fills`, a dropped column does not count, and
    a new one counts where its value differs from its fill. Blobs are returned as descriptions, and read only where
    their sizes are equal.
    """
    old_names = match_columns(before, after) if old_names is None else old_names
    dropped = [name for name in before.schema.names if name not in old_names.values()] if fills is None else []
    for start in range(0, len(diff.later), COMPARED_ROWS):
        batch = slice(start, start + COMPARED_ROWS)
        old = read_rows_at(before, diff.earlier[batch])
        new = read_rows_at(after, diff.later[batch])
        changed = {name: to_mask(old.column(name).is_valid()) for name in dropped}
        for name in after.schema.names:
            old_name = old_names.get(name)
            if old_name is None:
                fill = None if fills is None else fills.get(name)
                changed[name] = compare_with_fill(concat_chunks(new.column(name)), fill)
            elif is_blob(after.schema.field(name)):
                old_blobs = _BlobColumn(before, old_name, diff.earlier[batch], old)
                changed[name] = _compare_blobs(old_blobs, _BlobColumn(after, name, diff.later[batch], new))
            else:
                values = concat_chunks(new.column(name))
                changed[name] = ~are_equal(concat_chunks(old.column(old_name)).cast(values.type), values)
        differs = np.logical_or.reduce(list(changed.values()))
        if differs.any():
            selection = pa.array(differs)
            masks = {name: mask[differs] for name, mask in changed.items() if mask.any()}
            yield UpdatedRows(old.filter(selection), new.filter(selection), masks)


def _read_ids(table: LanceTable, positions: Positions) -> pa.Array:
    if not len(positions):
        return pa.array([], pa.string())
    # Callers pass ascending positions, so as many as there are live rows are all rows, in table order.
    if len(positions) == table.count():
        return concat_chunks(table.scan([ID]).column(ID))
    return concat_chunks(read_rows_at(table, positions, [ID]).column(ID))


def _sort_by_id(ids: pa.Array, rows: Positions) -> Positions:
    """Return the rows in the order of their ids."""
    order = pc.sort_indices(ids.take(pa.array(rows)))
    return rows[np.asarray(order.to_numpy(), np.int64)]


def match_columns(before: LanceTable, after: LanceTable, aliases: Aliases | None = None) -> dict[str, str]:
    """Return for each column of the later version that the earlier one also has, its name in the earlier one.

    Columns match by the identity of their property, or by its alias; columns without a match by identity match if name
    and type are equal. Field numbers don't identify columns: branches that diverged give one number to different ones.
    """
    aliases = aliases or {}
    identities = {field.name: identity_from_arrow(field) for field in before.schema}
    name_by_identity = {aliases.get(identity, identity): name for name, identity in identities.items()}
    old_names = {}
    for field in after.schema:
        identity = identity_from_arrow(field)
        identity = aliases.get(identity, identity)
        if identity != UNASSIGNED and identity in name_by_identity:
            old_names[field.name] = name_by_identity[identity]
    unmatched = {field.name: field.type for field in before.schema if field.name not in old_names.values()}
    new_fields = (field for field in after.schema if field.name not in old_names)
    by_name = {field.name: field.name for field in new_fields if unmatched.get(field.name) == field.type}
    return {**old_names, **by_name}


@dataclass(frozen=True, slots=True)
class _BlobColumn:
    """A blob column of some rows of a version: descriptions in `rows`, data read on demand."""

    table: LanceTable
    name: str
    positions: Positions
    rows: pa.Table

    @property
    def descriptions(self) -> pa.Array:
        return concat_chunks(self.rows.column(self.name))

    def read(self, rows: Positions) -> list[bytes | None]:
        positions = self.positions[rows].tolist()
        values: list[bytes | None] = self.table.take_with_blobs(positions, [self.name]).column(self.name).to_pylist()
        return values


def _compare_blobs(old: _BlobColumn, new: _BlobColumn) -> Mask:
    """Return for each row whether its two blobs differ; only blobs of equal size are read, in bounded memory."""
    had_value = to_mask(old.descriptions.is_valid())
    has_value = to_mask(new.descriptions.is_valid())
    sizes = np.asarray(pc.fill_null(new.descriptions.field("size"), 0), np.int64)
    is_equal_size = np.asarray(pc.fill_null(old.descriptions.field("size"), 0), np.int64) == sizes
    differs: Mask = (had_value != has_value) | ~is_equal_size
    compared = np.flatnonzero(had_value & has_value & is_equal_size)
    for start, end in split_by_bytes(sizes[compared]):
        rows = compared[start:end]
        pairs = zip(old.read(rows), new.read(rows), strict=True)
        differs[rows] = [old_blob != new_blob for old_blob, new_blob in pairs]
    return differs
