"""Where two versions of a table differ, found at the cost of what differs.

Fragments that both versions list with the same deletions are not looked at. Of the others, rows are told apart by their
ids alone: row numbers are no help, because branches that grew apart give the same numbers to different rows.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

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
from omnigraph.storage.lance_table import LanceTable, is_blob

__all__ = [
    "COMPARED_ROWS",
    "TableDiff",
    "UpdatedRows",
    "diff_tables",
    "iter_diff_chunks",
    "iter_updated_rows",
    "match_columns",
    "read_rows_at",
]

COMPARED_ROWS = 8_192
"""How many rows of each version are held at once while their values are compared."""
MATCHED_ROWS = 1_000_000
"""How many rows of both versions are matched at once by their ids, about."""
_HASH_SEED = np.uint64(0x9E3779B97F4A7C15)
"""The same in every process, so that every reader gets the parts in the same order."""
_NO_POSITIONS: Positions = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class TableDiff:
    """Rows by their positions among those that live in their version, in ascending order of ids."""

    inserted: Positions
    """Rows of the later version whose ids the earlier one does not have."""
    deleted: Positions
    """Rows of the earlier version whose ids the later one does not have."""
    earlier: Positions
    """Rows of the earlier version that were written anew, which may say the same again."""
    later: Positions
    """For each of these, the row of the same id in the later version."""


@dataclass(frozen=True, slots=True)
class UpdatedRows:
    """Rows that say something else, before and after, and for each column in which rows differ which ones do."""

    before: pa.Table
    after: pa.Table
    changed: Mapping[str, Mask]


def diff_tables(before: LanceTable, after: LanceTable, fills: Fills | None = None) -> TableDiff:
    """The rows in which two versions of a table can differ; only ids are read.

    With `fills`, what a new schema brought is no difference: see `find_changed_ranges`.
    """
    if (before.path, before.version) == (after.path, after.version):
        return TableDiff(_NO_POSITIONS, _NO_POSITIONS, _NO_POSITIONS, _NO_POSITIONS)
    old, new = (concat_positions(pieces) for pieces in find_changed_ranges(before, after, fills))
    return _match_by_id(old, _read_ids(before, old), new, _read_ids(after, new))


def iter_diff_chunks(
    before: LanceTable, after: LanceTable, fills: Fills | None = None, same: Aliases | None = None
) -> Iterator[TableDiff]:
    """As `differences`, in parts of a bounded size that have no id in common, always in the same order.

    Most often there is one part. With `fills`, what a new schema brought is no difference, and `same` are identities
    of columns that stand for others: see `find_changed_ranges`.
    """
    old, new = find_changed_ranges(before, after, fills, same)
    rows = sum(piece.count for piece in (*old, *new))
    if not old or not new:
        yield from _iter_one_sided(before, old, is_new=False) if old else _iter_one_sided(after, new, is_new=True)
    elif rows <= MATCHED_ROWS:
        mine, theirs = concat_positions(old), concat_positions(new)
        yield _sort_by_position(_match_by_id(mine, _read_ids(before, mine), theirs, _read_ids(after, theirs)))
    else:
        shares = -(-rows // MATCHED_ROWS)
        for share in range(shares):
            mine, my_ids = _select_hash_partition(before, old, share, shares)
            theirs, their_ids = _select_hash_partition(after, new, share, shares)
            yield _sort_by_position(_match_by_id(mine, my_ids, theirs, their_ids))


def _iter_one_sided(table: LanceTable, pieces: Sequence[ChangedRange], *, is_new: bool) -> Iterator[TableDiff]:
    """Rows that only one version has: no id has to be looked for, but a few rows are put in the order of theirs."""
    parts: Iterable[Positions] = (part for piece in pieces for part in piece.iter_slices(COMPARED_ROWS))
    if sum(piece.count for piece in pieces) <= COMPARED_ROWS:
        places = concat_positions(pieces)
        parts = [places[_sort_by_id(_read_ids(table, places), np.arange(len(places)))]]
    for part in parts:
        came, went = (part, _NO_POSITIONS) if is_new else (_NO_POSITIONS, part)
        yield TableDiff(came, went, _NO_POSITIONS, _NO_POSITIONS)


def _match_by_id(old: Positions, old_ids: pa.Array, new: Positions, new_ids: pa.Array) -> TableDiff:
    """Rows of the two versions, told apart by their ids."""
    places = find_positions(new_ids, old_ids)
    is_known = places >= 0
    is_gone = np.ones(len(old), np.bool_)
    is_gone[places[is_known]] = False
    inserted, deleted, again = np.flatnonzero(~is_known), np.flatnonzero(is_gone), np.flatnonzero(is_known)
    inserted, again = _sort_by_id(new_ids, inserted), _sort_by_id(new_ids, again)
    return TableDiff(new[inserted], old[_sort_by_id(old_ids, deleted)], old[places[again]], new[again])


def _sort_by_position(found: TableDiff) -> TableDiff:
    """Rows that are more than are read at once, in the order in which they lie: so each lot is read in one go."""
    order = slice(None) if len(found.earlier) <= COMPARED_ROWS else np.argsort(found.earlier, kind="stable")
    inserted, deleted = (
        places if len(places) <= COMPARED_ROWS else np.sort(places) for places in (found.inserted, found.deleted)
    )
    return TableDiff(inserted, deleted, found.earlier[order], found.later[order])


def _select_hash_partition(
    table: LanceTable, pieces: Sequence[ChangedRange], share: int, shares: int
) -> tuple[Positions, pa.Array]:
    """Those of the rows whose ids belong to one of several equal shares, with these ids."""
    found: list[Positions] = []
    ids: list[pa.Array] = []
    for piece in pieces:
        for places in piece.iter_slices(MATCHED_ROWS):
            own = _read_ids(table, places)
            is_mine = hash_rows([own], _HASH_SEED) % np.uint64(shares) == share
            found.append(places[is_mine])
            ids.append(own.filter(pa.array(is_mine)))
    return np.concatenate(found), pa.concat_arrays(ids)


def iter_updated_rows(
    before: LanceTable,
    after: LanceTable,
    found: TableDiff,
    fills: Fills | None = None,
    twins: Mapping[str, str] | None = None,
) -> Iterator[UpdatedRows]:
    """Those rows written anew that say something else, some at a time.

    `twins` are the columns of the later version that the earlier one has too, with what they are called there; without
    them a column is known by its identity, not its name.

    A column that only one version has counts where it has a value; with `fills`, one that was dropped does not count,
    and a new one where it says something else than what fills it. Blobs are shown by their descriptions, and read only
    where their sizes are equal.
    """
    twins = match_columns(before, after) if twins is None else twins
    lost = [name for name in before.schema.names if name not in twins.values()] if fills is None else []
    for start in range(0, len(found.later), COMPARED_ROWS):
        some = slice(start, start + COMPARED_ROWS)
        old = read_rows_at(before, found.earlier[some])
        new = read_rows_at(after, found.later[some])
        changed = {name: to_mask(old.column(name).is_valid()) for name in lost}
        for name in after.schema.names:
            twin = twins.get(name)
            if twin is None:
                changed[name] = compare_with_fill(
                    concat_chunks(new.column(name)), None if fills is None else fills.get(name)
                )
            elif is_blob(after.schema.field(name)):
                old_blobs = _BlobColumn(before, twin, found.earlier[some], old)
                changed[name] = _compare_blobs(old_blobs, _BlobColumn(after, name, found.later[some], new))
            else:
                there = concat_chunks(new.column(name))
                changed[name] = ~are_equal(concat_chunks(old.column(twin)).cast(there.type), there)
        differs = np.logical_or.reduce(list(changed.values()))
        if differs.any():
            chosen = pa.array(differs)
            masks = {name: mask[differs] for name, mask in changed.items() if mask.any()}
            yield UpdatedRows(old.filter(chosen), new.filter(chosen), masks)


def _read_ids(table: LanceTable, positions: Positions) -> pa.Array:
    if not len(positions):
        return pa.array([], pa.string())
    if len(positions) == table.count():
        return concat_chunks(table.scan([ID]).column(ID))
    return concat_chunks(read_rows_at(table, positions, [ID]).column(ID))


def _sort_by_id(ids: pa.Array, rows: Positions) -> Positions:
    """The rows in the order of their ids."""
    order = pc.sort_indices(ids.take(pa.array(rows)))
    return rows[np.asarray(order.to_numpy(), np.int64)]


def match_columns(before: LanceTable, after: LanceTable, same: Aliases | None = None) -> dict[str, str]:
    """By column of the later version, what it is called in the earlier one, if that has it.

    A column is known by the identity of its property, or by the one that stands for it in `same`. Not by its number:
    branches that grew apart give one number to different columns. What has no partner is the same when it has the same
    name and type.
    """
    aliases = same or {}
    identities = {field.name: identity_from_arrow(field) for field in before.schema}
    known = {aliases.get(identity, identity): name for name, identity in identities.items()}
    found = {}
    for field in after.schema:
        identity = identity_from_arrow(field)
        identity = aliases.get(identity, identity)
        if identity != UNASSIGNED and identity in known:
            found[field.name] = known[identity]
    left = {field.name: field.type for field in before.schema if field.name not in found.values()}
    others = (field for field in after.schema if field.name not in found)
    return {**found, **{field.name: field.name for field in others if left.get(field.name) == field.type}}


@dataclass(frozen=True, slots=True)
class _BlobColumn:
    """A blob column of some rows of a version."""

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
    """Row by row, whether two blobs differ; only those of equal size are read, a bounded number of bytes at once."""
    was, is_ = to_mask(old.descriptions.is_valid()), to_mask(new.descriptions.is_valid())
    sizes = np.asarray(pc.fill_null(new.descriptions.field("size"), 0), np.int64)
    is_sized_alike = np.asarray(pc.fill_null(old.descriptions.field("size"), 0), np.int64) == sizes
    differs: Mask = (was != is_) | ~is_sized_alike
    asked = np.flatnonzero(was & is_ & is_sized_alike)
    for start, end in split_by_bytes(sizes[asked]):
        some = asked[start:end]
        pairs = zip(old.read(some), new.read(some), strict=True)
        differs[some] = [one != other for one, other in pairs]
    return differs
