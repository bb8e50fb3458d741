"""The base of branches that were merged crosswise: several states, and what they are together, row by row.

None of the states is the base alone: against each, what the other one brought looks like a change of both sides, and
what a side has taken back since looks like no change at all. So they are merged themselves, from what they have grown
from. Where they don't agree, the base is not known, and neither is which side changed something.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from omnigraph.commit.dropped import DataDroppedError
from omnigraph.engine.differences import Differences
from omnigraph.engine.merging.sides import Shape, SideChanges, Version, all_new, changes_of, column_in, no_changes
from omnigraph.engine.merging.three_way import Prefer, three_way
from omnigraph.engine.view import View
from omnigraph.engine.writing.blobs import REFERENCE
from omnigraph.engine.writing.pending import pending_schema
from omnigraph.schema.arrow import ID
from omnigraph.schema.catalog import AnyType
from omnigraph.storage.column_sets import Mask, are_equal, is_among, one_array, places_among


@dataclass(frozen=True, slots=True)
class Crossed:
    """One state more, which has not grown from the first nor that from it; and what both have grown from.

    The first may be several in its turn. None if it can't be told what they have grown from.
    """

    first: "Ground"
    second: View
    below: "Ground | None"

    @property
    def states(self) -> tuple[View, ...]:
        """All of them."""
        return (*(self.first.states if isinstance(self.first, Crossed) else (self.first,)), self.second)

    def with_views(self, changed: Callable[[View], View]) -> "Crossed":
        """The same, each state as another view of it."""
        first, below = (
            one.with_views(changed) if isinstance(one, Crossed) else None if one is None else changed(one)
            for one in (self.first, self.below)
        )
        assert first is not None  # noqa: S101 - only what is below may not be known
        return Crossed(first, changed(self.second), below)


Ground: TypeAlias = View | Crossed
"""What two sides have grown from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseTable:
    """A table as both sides had it: a version, except for some rows."""

    version: Version
    ids: pa.Array = field(default_factory=lambda: pa.array([], pa.string()))
    """The rows in which it is not that version."""
    rows: pa.Table | None = None
    """What it has of these; their blobs lead nowhere."""
    unknown: Mapping[str, Mask] = field(default_factory=dict)
    """For each column, in which of the rows the value is not known."""


class Bases:
    """Tables of what two sides have grown from.

    `version` gives a type's table in a state, and `differences` where two versions of it differ.
    """

    def __init__(
        self,
        version: Callable[[View, AnyType], Version | None],
        differences: Callable[[AnyType, Version, Version], Differences],
    ) -> None:
        self._version, self._differences = version, differences

    def table(self, ground: Ground, type_: AnyType) -> BaseTable | None:
        """A type's table, or None where there is none."""
        if isinstance(ground, View):
            found = self._version(ground, type_)
            return None if found is None else BaseTable(version=found)
        first, second = self.table(ground.first, type_), self._version(ground.second, type_)
        if first is None or second is None:
            return first if second is None else BaseTable(version=second)
        if first.rows is None and _is_same(first.version, second):
            return first
        if ground.below is not None:
            with suppress(DataDroppedError):  # then what they have grown from can't be told any more
                return self._merged(type_, self.table(ground.below, type_), first, second)
        changes = self.changes(type_, first, BaseTable(version=second), is_elsewhere=False)
        put = pa.concat_tables([changes.inserted, changes.after])
        return _joined(type_, first, [(put.slice(0, 0), changes.deleted.slice(0, 0)), (put, changes.deleted)])

    def _merged(self, type_: AnyType, below: BaseTable | None, first: BaseTable, second: Version) -> BaseTable:
        """Two as one. What depends on which of them is preferred is not known."""
        sides = (first, BaseTable(version=second))
        mine, theirs = (self.changes(type_, below, one, is_elsewhere=False) for one in sides)
        both = [three_way(type_, mine, theirs, prefer=prefer, same_blobs=_all_differ) for prefer in _EITHER]
        return _joined(type_, first, [(one.put, one.deleted) for one in both])

    def changes(self, type_: AnyType, base: BaseTable | None, after: BaseTable, *, is_elsewhere: bool) -> SideChanges:
        """What a table has changed. Where the base is not known, that is everything."""
        if base is None:
            if after.rows is None:
                return all_new(type_, after.version, is_elsewhere=is_elsewhere)
            whole = Shape(type_, after.version, is_elsewhere=False, has_addresses=False)
            return replace(no_changes(type_), inserted=_applied(whole.rows(after.version.table.scan()), after))
        found = self._differences(type_, base.version, after.version)
        changes = changes_of(type_, base.version, after.version, found, is_elsewhere=is_elsewhere)
        if base.rows is None and after.rows is None:
            return changes
        return _with_rows(type_, changes, base, after, is_elsewhere=is_elsewhere)


_EITHER: tuple[Prefer, Prefer] = ("kept", "taken")


def _is_same(one: Version, other: Version) -> bool:
    return (one.table.path, one.table.version) == (other.table.path, other.table.version)


def _all_differ(name: str, kept: pa.Array, taken: pa.Array) -> Mask:  # noqa: ARG001 - what is asked of all
    return np.ones(len(kept), np.bool_)


def _joined(type_: AnyType, first: BaseTable, ways: Sequence[tuple[pa.Table, pa.Array]]) -> BaseTable:
    """A table after each of several changes of it, rows put and ids deleted; where these differ, it is not known."""
    touched = [one_array(put.column(ID)) for put, _ in ways] + [deleted for _, deleted in ways]
    ids = pa.concat_arrays([first.ids, *touched]).unique()
    if not len(ids):
        return first
    known = _looked_up(Shape(type_, first.version, is_elsewhere=False, has_addresses=False), first, ids)
    states = [_replaced(known, put, deleted) for put, deleted in ways]
    rows = states[0]
    for state in states[1:]:
        fresh = state.filter(pa.array(~is_among(state.column(ID), rows.column(ID))))
        rows = pa.concat_tables([rows, fresh])
    unknown = _unknown_in(first, rows)
    for state in states:
        at = places_among(rows.column(ID), state.column(ID))
        is_there = np.flatnonzero(at >= 0)
        mine, others = rows.take(pa.array(is_there)), state.take(pa.array(at[is_there]))
        for name, mask in unknown.items():
            mask[at < 0] = True
            mask[is_there] |= _differ(mine, others, name)
    unknown[ID][:] = False
    return BaseTable(version=first.version, ids=ids, rows=rows.combine_chunks(), unknown=unknown)


def _unknown_in(table: BaseTable, rows: pa.Table) -> dict[str, Mask]:
    """For each column, in which rows the table's value is not known."""
    found = {name: np.zeros(rows.num_rows, np.bool_) for name in rows.schema.names}
    if table.rows is not None:
        at = places_among(rows.column(ID), table.rows.column(ID))
        for name, mask in found.items():
            mask[at >= 0] = table.unknown[name][at[at >= 0]]
    return found


def _applied(known: pa.Table, table: BaseTable) -> pa.Table:
    """Rows of a table's version, made those of the table."""
    return known if table.rows is None else _replaced(known, table.rows, table.ids)


def _replaced(known: pa.Table, put: pa.Table, deleted: pa.Array) -> pa.Table:
    gone = pa.concat_arrays([one_array(put.column(ID)), deleted])
    return pa.concat_tables([known.filter(pa.array(~is_among(known.column(ID), gone))), put])


def _with_rows(
    type_: AnyType, changes: SideChanges, base: BaseTable, table: BaseTable, *, is_elsewhere: bool
) -> SideChanges:
    """The changes from a version to another, made those between tables that are others in some rows."""
    ids = pa.concat_arrays([base.ids, table.ids]).unique()
    inserted = changes.inserted.filter(pa.array(~is_among(changes.inserted.column(ID), ids)))
    is_other = ~is_among(changes.after.column(ID), ids)
    deleted = changes.deleted.filter(pa.array(~is_among(changes.deleted, ids)))
    rows = _looked_up(Shape(type_, base.version, is_elsewhere=False, has_addresses=False), base, ids)
    here = _looked_up(Shape(type_, table.version, is_elsewhere), table, ids)
    at = places_among(here.column(ID), rows.column(ID))
    is_known = at >= 0
    before, after = rows.take(pa.array(at[is_known])), here.filter(pa.array(is_known))
    unknown = _unknown_in(base, before)
    changed = {
        name: _differ(before, after, name) | unknown[name]
        if column_in(type_, table.version.type, name) is not None
        else np.zeros(after.num_rows, np.bool_)
        for name in pending_schema(type_).names
    }
    is_changed = np.logical_or.reduce(list(changed.values()))
    nothing = np.zeros(0, np.bool_)
    gone = rows.column(ID).filter(pa.array(~is_among(rows.column(ID), here.column(ID))))
    return replace(
        changes,
        inserted=pa.concat_tables([inserted, here.filter(pa.array(~is_known))]),
        before=pa.concat_tables([changes.before.filter(pa.array(is_other)), before.filter(pa.array(is_changed))]),
        after=pa.concat_tables([changes.after.filter(pa.array(is_other)), after.filter(pa.array(is_changed))]),
        changed={
            name: np.concatenate([changes.changed[name][is_other] if changes.changed else nothing, mask[is_changed]])
            for name, mask in changed.items()
        },
        deleted=pa.concat_arrays([deleted, one_array(gone)]),
    )


def _looked_up(shape: Shape, table: BaseTable, ids: pa.Array) -> pa.Table:
    """Those of some rows that a table has."""
    stored = shape.version.table
    return _applied(shape.rows(stored.matching(ID, ids, stored.schema.names)), table)


def _differ(mine: pa.Table, others: pa.Table, name: str) -> Mask:
    """Where two tables of the same rows differ; of blobs, the bytes of which are elsewhere, that can't be told."""
    one, other = (one_array(part.column(name)) for part in (mine, others))
    if one.type == REFERENCE:
        return np.asarray(
            ~(one.is_null().to_numpy(zero_copy_only=False) & other.is_null().to_numpy(zero_copy_only=False))
        )
    return ~are_equal(one, other)
