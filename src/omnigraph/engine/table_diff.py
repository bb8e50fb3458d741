"""Where two versions of a table differ, found at the cost of what differs.

Fragments that both versions list with the same deletions are not looked at. Of the others, rows are told apart by their
ids alone: row numbers are no help, because branches that grew apart give the same numbers to different rows.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.changed_ranges import Fills, Piece, all_places, differing_places, differs_from, rows_at
from omnigraph.engine.writing.blobs import slices
from omnigraph.schema.aliases import Aliases
from omnigraph.schema.arrow import ID, identity_from_arrow
from omnigraph.schema.catalog import UNASSIGNED
from omnigraph.storage.column_hashing import hashes_of
from omnigraph.storage.columnar_sets import Mask, Positions, are_equal, mask_of, one_array, places_among
from omnigraph.storage.lance_table import Table, is_blob

__all__ = [
    "COMPARED_ROWS",
    "Differences",
    "Updated",
    "column_twins",
    "difference_parts",
    "differences",
    "rows_at",
    "updated_rows",
]

COMPARED_ROWS = 8_192
"""How many rows of each version are held at once while their values are compared."""
MATCHED_ROWS = 1_000_000
"""How many rows of both versions are matched at once by their ids, about."""
_SEED = np.uint64(0x9E3779B97F4A7C15)
"""The same in every process, so that every reader gets the parts in the same order."""
_NOTHING: Positions = np.empty(0, np.int64)


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


def differences(before: Table, after: Table, fills: Fills | None = None) -> Differences:
    """The rows in which two versions of a table can differ; only ids are read.

    With `fills`, what a new schema brought is no difference: see `differing_places`.
    """
    if (before.path, before.version) == (after.path, after.version):
        return Differences(_NOTHING, _NOTHING, _NOTHING, _NOTHING)
    old, new = (all_places(pieces) for pieces in differing_places(before, after, fills))
    return _matched(old, _ids(before, old), new, _ids(after, new))


def difference_parts(
    before: Table, after: Table, fills: Fills | None = None, same: Aliases | None = None
) -> Iterator[Differences]:
    """As `differences`, in parts of a bounded size that have no id in common, always in the same order.

    Most often there is one part. With `fills`, what a new schema brought is no difference, and `same` are identities
    of columns that stand for others: see `differing_places`.
    """
    old, new = differing_places(before, after, fills, same)
    rows = sum(piece.count for piece in (*old, *new))
    if not old or not new:
        yield from _one_sided(before, old, is_new=False) if old else _one_sided(after, new, is_new=True)
    elif rows <= MATCHED_ROWS:
        mine, theirs = all_places(old), all_places(new)
        yield _near_each_other(_matched(mine, _ids(before, mine), theirs, _ids(after, theirs)))
    else:
        shares = -(-rows // MATCHED_ROWS)
        for share in range(shares):
            mine, my_ids = _share(before, old, share, shares)
            theirs, their_ids = _share(after, new, share, shares)
            yield _near_each_other(_matched(mine, my_ids, theirs, their_ids))


def _one_sided(table: Table, pieces: Sequence[Piece], *, is_new: bool) -> Iterator[Differences]:
    """Rows that only one version has: no id has to be looked for, but a few rows are put in the order of theirs."""
    parts: Iterable[Positions] = (part for piece in pieces for part in piece.slices(COMPARED_ROWS))
    if sum(piece.count for piece in pieces) <= COMPARED_ROWS:
        places = all_places(pieces)
        parts = [places[_by_id(_ids(table, places), np.arange(len(places)))]]
    for part in parts:
        came, went = (part, _NOTHING) if is_new else (_NOTHING, part)
        yield Differences(came, went, _NOTHING, _NOTHING)


def _matched(old: Positions, old_ids: pa.Array, new: Positions, new_ids: pa.Array) -> Differences:
    """Rows of the two versions, told apart by their ids."""
    places = places_among(new_ids, old_ids)
    is_known = places >= 0
    is_gone = np.ones(len(old), np.bool_)
    is_gone[places[is_known]] = False
    inserted, deleted, again = np.flatnonzero(~is_known), np.flatnonzero(is_gone), np.flatnonzero(is_known)
    inserted, again = _by_id(new_ids, inserted), _by_id(new_ids, again)
    return Differences(new[inserted], old[_by_id(old_ids, deleted)], old[places[again]], new[again])


def _near_each_other(found: Differences) -> Differences:
    """Rows that are more than are read at once, in the order in which they lie: so each lot is read in one go."""
    order = slice(None) if len(found.earlier) <= COMPARED_ROWS else np.argsort(found.earlier, kind="stable")
    inserted, deleted = (
        places if len(places) <= COMPARED_ROWS else np.sort(places) for places in (found.inserted, found.deleted)
    )
    return Differences(inserted, deleted, found.earlier[order], found.later[order])


def _share(table: Table, pieces: Sequence[Piece], share: int, shares: int) -> tuple[Positions, pa.Array]:
    """Those of the rows whose ids belong to one of several equal shares, with these ids."""
    found: list[Positions] = []
    ids: list[pa.Array] = []
    for piece in pieces:
        for places in piece.slices(MATCHED_ROWS):
            own = _ids(table, places)
            is_mine = hashes_of([own], _SEED) % np.uint64(shares) == share
            found.append(places[is_mine])
            ids.append(own.filter(pa.array(is_mine)))
    return np.concatenate(found), pa.concat_arrays(ids)


def updated_rows(
    before: Table,
    after: Table,
    found: Differences,
    fills: Fills | None = None,
    twins: Mapping[str, str] | None = None,
) -> Iterator[Updated]:
    """Those rows written anew that say something else, some at a time.

    `twins` are the columns of the later version that the earlier one has too, with what they are called there; without
    them a column is known by its identity, not its name.

    A column that only one version has counts where it has a value; with `fills`, one that was dropped does not count,
    and a new one where it says something else than what fills it. Blobs are shown by their descriptions, and read only
    where their sizes are equal.
    """
    twins = column_twins(before, after) if twins is None else twins
    lost = [name for name in before.schema.names if name not in twins.values()] if fills is None else []
    for start in range(0, len(found.later), COMPARED_ROWS):
        some = slice(start, start + COMPARED_ROWS)
        old = rows_at(before, found.earlier[some])
        new = rows_at(after, found.later[some])
        changed = {name: mask_of(old.column(name).is_valid()) for name in lost}
        for name in after.schema.names:
            twin = twins.get(name)
            if twin is None:
                changed[name] = differs_from(one_array(new.column(name)), None if fills is None else fills.get(name))
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


def column_twins(before: Table, after: Table, same: Aliases | None = None) -> dict[str, str]:
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
