"""Where two versions of a table differ, found at the cost of what differs.

Fragments that both versions list with the same deletions are not looked at. Of the others, rows are told apart by their
ids alone: row numbers are no help, because branches that grew apart give the same numbers to different rows.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.writing.blobs import slices
from omnigraph.schema.arrow import ID
from omnigraph.storage.column_sets import Mask, Positions, are_equal, mask_of, one_array, places_among
from omnigraph.storage.dataset import Fragment, Table, is_blob

COMPARED_ROWS = 8_192
"""How many rows of each version are held at once while their values are compared."""
FEW_ROWS = 64
"""Up to so many rows are looked up one by one."""
_OFFSETS = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True, slots=True)
class Differences:
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
class Updated:
    """Rows that say something else, before and after, and for each column in which rows differ which ones do."""

    before: pa.Table
    after: pa.Table
    changed: Mapping[str, Mask]


def differences(before: Table, after: Table) -> Differences:
    """The rows in which two versions of a table can differ; only ids are read."""
    if (before.path, before.version) == (after.path, after.version):
        nothing = np.empty(0, np.int64)
        return Differences(nothing, nothing, nothing, nothing)
    old, new = _candidates(before, after), _candidates(after, before)
    old_ids, new_ids = _ids(before, old), _ids(after, new)
    places = places_among(new_ids, old_ids)
    is_known = places >= 0
    is_gone = np.ones(len(old), np.bool_)
    is_gone[places[is_known]] = False
    inserted, deleted, again = np.flatnonzero(~is_known), np.flatnonzero(is_gone), np.flatnonzero(is_known)
    inserted, again = _by_id(new_ids, inserted), _by_id(new_ids, again)
    return Differences(new[inserted], old[_by_id(old_ids, deleted)], old[places[again]], new[again])


def updated_rows(before: Table, after: Table, found: Differences) -> Iterator[Updated]:
    """Those rows written anew that say something else, some at a time. A column is known by its number, not its name.

    Blobs are shown by their descriptions, and read only where their sizes are equal.
    """
    twins = _twins(before, after)
    lost = [name for name in before.schema.names if name not in twins.values()]
    for start in range(0, len(found.later), COMPARED_ROWS):
        some = slice(start, start + COMPARED_ROWS)
        old = rows_at(before, found.earlier[some])
        new = rows_at(after, found.later[some])
        changed = {name: mask_of(old.column(name).is_valid()) for name in lost}
        for name in after.schema.names:
            twin = twins.get(name)
            if twin is None:
                changed[name] = mask_of(new.column(name).is_valid())
            elif is_blob(after.schema.field(name)):
                old_blobs = _Blobs(before, twin, found.earlier[some], old)
                changed[name] = _blobs_differ(old_blobs, _Blobs(after, name, found.later[some], new))
            else:
                there = one_array(new.column(name))
                changed[name] = ~are_equal(one_array(old.column(twin)).cast(there.type), there)
        differs = np.logical_or.reduce(list(changed.values()))
        if differs.any():
            chosen = pa.array(differs)
            masks = {name: mask[differs] for name, mask in changed.items() if mask.any()}
            yield Updated(old.filter(chosen), new.filter(chosen), masks)


def rows_at(table: Table, positions: Positions, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows at these positions among those that live, in that order.

    Where rows were deleted, Lance walks a fragment for each row that it is asked for: then one scan of the fragments
    is quicker, unless the rows are very few.
    """
    fragments = table.fragments()
    if len(positions) <= FEW_ROWS or not any(fragment.deleted for fragment in fragments):
        return table.take(pa.array(positions), columns)
    sizes = np.array([fragment.rows - fragment.deleted for fragment in fragments], np.int64)
    starts = np.concatenate(([0], np.cumsum(sizes)))
    at = np.searchsorted(starts, positions, side="right") - 1
    asked = np.unique(at)
    batches = table.batches(columns, fragments=[fragments[number].number for number in asked])
    scanned = pa.Table.from_batches(list(batches))
    moved = np.zeros(len(fragments), np.int64)
    moved[asked] = np.concatenate(([0], np.cumsum(sizes[asked])))[:-1]
    return scanned.take(pa.array(positions - starts[at] + moved[at]))


def _candidates(table: Table, other: Table) -> Positions:
    """The living rows of a version that the other one may not have in the same place."""
    if table.path != other.path:
        return np.arange(table.count(), dtype=np.int64)
    twins = {fragment.files: fragment for fragment in other.fragments()}
    parts: list[Positions] = []
    start = 0
    for fragment in table.fragments():
        living = fragment.rows - fragment.deleted
        twin = twins.get(fragment.files)
        if twin is None:
            parts.append(np.arange(start, start + living, dtype=np.int64))
        elif twin.deletions != fragment.deletions:
            lives_there = np.zeros(fragment.rows, np.bool_)
            lives_there[_offsets(other, twin)] = True
            parts.append(start + np.flatnonzero(~lives_there[_offsets(table, fragment)]))
        start += living
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _offsets(table: Table, fragment: Fragment) -> Positions:
    """Where the living rows of a fragment lie in it, in order; no column is read."""
    if not fragment.deleted:
        return np.arange(fragment.rows, dtype=np.int64)
    addresses = np.asarray(table.living_addresses([fragment.number]).to_numpy(), np.uint64)
    return (addresses & _OFFSETS).astype(np.int64)


def _ids(table: Table, positions: Positions) -> pa.Array:
    if not len(positions):
        return pa.array([], pa.string())
    if len(positions) == table.count():
        return one_array(table.scan([ID]).column(ID))
    return one_array(rows_at(table, positions, [ID]).column(ID))


def _by_id(ids: pa.Array, rows: Positions) -> Positions:
    """The rows in the order of their ids."""
    order = pc.sort_indices(ids.take(pa.array(rows)))
    return rows[np.asarray(order.to_numpy(), np.int64)]


def _twins(before: Table, after: Table) -> dict[str, str]:
    """By column of the later version, what it is called in the earlier one, if that has it."""
    if before.path != after.path:
        return {name: name for name in after.schema.names if name in before.schema.names}
    numbers = {before.field_number(name): name for name in before.schema.names}
    found = {name: numbers.get(after.field_number(name)) for name in after.schema.names}
    return {name: twin for name, twin in found.items() if twin is not None}


@dataclass(frozen=True, slots=True)
class _Blobs:
    """A blob column of some rows of a version."""

    table: Table
    name: str
    positions: Positions
    rows: pa.Table

    @property
    def described(self) -> pa.Array:
        return one_array(self.rows.column(self.name))

    def read(self, rows: Positions) -> list[bytes | None]:
        positions = self.positions[rows].tolist()
        values: list[bytes | None] = self.table.take_with_blobs(positions, [self.name]).column(self.name).to_pylist()
        return values


def _blobs_differ(old: _Blobs, new: _Blobs) -> Mask:
    """Row by row, whether two blobs differ; only those of equal size are read, a bounded number of bytes at once."""
    was, is_ = mask_of(old.described.is_valid()), mask_of(new.described.is_valid())
    sizes = np.asarray(pc.fill_null(new.described.field("size"), 0), np.int64)
    is_sized_alike = np.asarray(pc.fill_null(old.described.field("size"), 0), np.int64) == sizes
    differs: Mask = (was != is_) | ~is_sized_alike
    asked = np.flatnonzero(was & is_ & is_sized_alike)
    for start, end in slices(sizes[asked]):
        some = asked[start:end]
        pairs = zip(old.read(some), new.read(some), strict=True)
        differs[some] = [one != other for one, other in pairs]
    return differs
