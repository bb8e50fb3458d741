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
import pyarrow.compute as pc

from omnigraph.commit.purges import DataDroppedError
from omnigraph.engine.merging.edge_restoration import EndNodes, find_restorable, undelete
from omnigraph.engine.merging.merged_blobs import MergedBlobs
from omnigraph.engine.merging.side_changes import (
    TAKEN,
    RowProjection,
    SideChanges,
    StateTable,
    build_all_inserted,
    collect_changes,
    find_column,
)
from omnigraph.engine.merging.three_way import Prefer, SameBlobs, merge_three_way
from omnigraph.engine.table_diff import TableDiff
from omnigraph.engine.view import View
from omnigraph.engine.writing.blobs import REFERENCE
from omnigraph.engine.writing.write_buffer import build_pending_schema
from omnigraph.schema.arrow import DST, ID, SRC
from omnigraph.schema.catalog import AnyType, EdgeType
from omnigraph.storage.columnar_sets import Mask, are_equal, concat_chunks, find_positions, is_among


@dataclass(frozen=True, slots=True)
class CrissCrossBase:
    """One state more, which has not grown from the first nor that from it; and what both have grown from.

    The first may be several in its turn. None if it can't be told what they have grown from.
    """

    first: "MergeBase"
    second: View
    below: "MergeBase | None"

    @property
    def states(self) -> tuple[View, ...]:
        """All of them."""
        return (*(self.first.states if isinstance(self.first, CrissCrossBase) else (self.first,)), self.second)

    def map_views(self, changed: Callable[[View], View]) -> "CrissCrossBase":
        """The same, each state as another view of it."""
        first, below = (
            one.map_views(changed) if isinstance(one, CrissCrossBase) else None if one is None else changed(one)
            for one in (self.first, self.below)
        )
        assert first is not None  # noqa: S101 - only what is below may not be known
        return CrissCrossBase(first, changed(self.second), below)


MergeBase: TypeAlias = View | CrissCrossBase
"""What two sides have grown from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseTable:
    """A table as both sides had it: a version, except for some rows."""

    version: StateTable
    ids: pa.Array = field(default_factory=lambda: pa.array([], pa.string()))
    """The rows in which it is not that version."""
    rows: pa.Table | None = None
    """What it has of these; their blobs lead to the versions that were put together."""
    unknown: Mapping[str, Mask] = field(default_factory=dict)
    """For each column, in which of the rows the value is not known."""


class BaseTables:
    """Tables of what two sides have grown from.

    `version` gives a type's table in a state, and `differences` where two versions of it differ. `holders` are the
    versions that references to blobs lead to, and grows.
    """

    def __init__(
        self,
        version: Callable[[View, AnyType], StateTable | None],
        differences: Callable[[AnyType, StateTable, StateTable], TableDiff],
        holders: list[StateTable],
    ) -> None:
        self._version, self._differences, self._holders = version, differences, holders

    def find_table(self, ground: MergeBase, type_: AnyType) -> BaseTable | None:
        """A type's table, or None where there is none."""
        if isinstance(ground, View):
            found = self._version(ground, type_)
            return None if found is None else BaseTable(version=found)
        first, second = self.find_table(ground.first, type_), self._version(ground.second, type_)
        if first is None or second is None:
            return first if second is None else BaseTable(version=second)
        if first.rows is None and _is_same(first.version, second):
            return first
        if ground.below is not None:
            with suppress(DataDroppedError):  # then what they have grown from can't be told any more
                return self._merge(type_, ground, self.find_table(ground.below, type_), first, second)
        changes = self.find_changes(type_, first, BaseTable(version=second), holder=self._number_holder(second))
        put = pa.concat_tables([changes.inserted, changes.after])
        return self._join(type_, first, [(put.slice(0, 0), changes.deleted.slice(0, 0)), (put, changes.deleted)])

    def _merge(
        self, type_: AnyType, ground: CrissCrossBase, below: BaseTable | None, first: BaseTable, second: StateTable
    ) -> BaseTable:
        """Two as one. What depends on which of them is preferred is not known."""
        mine, theirs = self._find_both_changes(type_, below, first, second)
        same = self._build_blobs(type_).compare
        ways = []
        for prefer in _EITHER:
            kept, taken = mine, theirs
            if below is not None and isinstance(type_, EdgeType):
                deleted = (theirs if prefer == "kept" else mine).deleted
                ids = self._find_restorable(type_, ground, below, prefer, deleted)
                if prefer == "kept":
                    taken, _ = undelete(mine, theirs, ids)
                else:
                    kept, left = undelete(theirs, mine, ids)
                    rows = second.table.find_rows(ID, left, second.table.schema.names)
                    back = RowProjection(type_, second, self._number_holder(second)).project(rows)
                    taken = replace(theirs, inserted=pa.concat_tables([theirs.inserted, back]))
            way = merge_three_way(type_, kept, taken, prefer=prefer, same_blobs=same)
            ways.append((way.put, way.deleted))
        return self._join(type_, first, ways)

    def _find_both_changes(
        self, type_: AnyType, below: BaseTable | None, first: BaseTable, second: StateTable
    ) -> tuple[SideChanges, SideChanges]:
        """Return what two states have done to a table that both have grown from."""
        mine, theirs = (
            self.find_changes(type_, below, one, holder=self._number_holder(one.version))
            for one in (first, BaseTable(version=second))
        )
        return mine, theirs

    def _find_restorable(
        self, edge: EdgeType, ground: CrissCrossBase, below: BaseTable, prefer: Prefer, deleted: pa.Array
    ) -> pa.Array:
        """Return those of some deleted edges that stay with their nodes when one of two states is preferred."""
        twin = self._version(ground.second, edge)
        if twin is None or ground.below is None or not isinstance(twin.type, EdgeType) or not len(deleted):
            return deleted.slice(0, 0)
        nodes = {}
        for column, name in ((SRC, twin.type.source), (DST, twin.type.target)):
            node = ground.second.catalog.nodes[name]
            first, second = self.find_table(ground.first, node), self._version(ground.second, node)
            if first is None or second is None:
                return deleted.slice(0, 0)
            changes = self._find_both_changes(node, self.find_table(ground.below, node), first, second)
            keeper, deleter = changes if prefer == "kept" else changes[::-1]
            is_spared = is_among(deleter.deleted, keeper.after.column(ID))
            nodes[column] = EndNodes(spared=deleter.deleted.filter(pa.array(is_spared)), deleted=deleter.deleted)
        return find_restorable(self.read_rows(edge, below, deleted), nodes)

    def find_changes(
        self, type_: AnyType, base: BaseTable | None, after: BaseTable, *, holder: int | None
    ) -> SideChanges:
        """What a table has changed, its blobs as those of `holder`. Where the base is not known, that is everything."""
        if base is None:
            changes = build_all_inserted(type_, after.version, holder=holder)
            return changes if after.rows is None else replace(changes, inserted=_apply_table(changes.inserted, after))
        found = self._differences(type_, base.version, after.version)
        changes = collect_changes(type_, base.version, after.version, found, holder=holder)
        if base.rows is None and after.rows is None:
            return changes
        return self._apply_rows(type_, changes, base, after, holder)

    def _number_holder(self, version: StateTable) -> int:
        """The number of a version that references to blobs lead to."""
        for number, one in enumerate(self._holders):
            if _is_same(one, version) and one.type == version.type:
                return number + _FIRST_HOLDER
        self._holders.append(version)
        return len(self._holders) - 1 + _FIRST_HOLDER

    def _build_blobs(self, type_: AnyType, side: StateTable | None = None) -> MergedBlobs:
        """What references lead to; those that say nobody, or that they are taken, to a side's version."""
        known: dict[int | None, StateTable] = {
            number: one
            for number, one in enumerate(self._holders, _FIRST_HOLDER)
            if one.type.identity == type_.identity
        }
        return MergedBlobs(type_, known if side is None else {**known, None: side, TAKEN: side})

    def _build_projection(self, type_: AnyType, version: StateTable) -> RowProjection:
        """A version of which base rows are made."""
        return RowProjection(type_, version, self._number_holder(version))

    def _join(self, type_: AnyType, first: BaseTable, ways: Sequence[tuple[pa.Table, pa.Array]]) -> BaseTable:
        """A table after each of several changes, rows put and ids deleted; where these differ, it is not known."""
        touched = [concat_chunks(put.column(ID)) for put, _ in ways] + [deleted for _, deleted in ways]
        ids = pa.concat_arrays([first.ids, *touched]).unique()
        if not len(ids):
            return first
        known = _look_up(self._build_projection(type_, first.version), first, ids)
        states = [_replace_rows(known, put, deleted) for put, deleted in ways]
        rows = states[0]
        for state in states[1:]:
            fresh = state.filter(pa.array(~is_among(state.column(ID), rows.column(ID))))
            rows = pa.concat_tables([rows, fresh])
        unknown = _find_unknown(first, rows)
        same = self._build_blobs(type_).compare
        for state in states:
            at = find_positions(rows.column(ID), state.column(ID))
            is_there = np.flatnonzero(at >= 0)
            mine, others = rows.take(pa.array(is_there)), state.take(pa.array(at[is_there]))
            for name, mask in unknown.items():
                mask[at < 0] = True
                mask[is_there] |= _find_differing(mine, others, name, same)
        unknown[ID][:] = False
        return BaseTable(version=first.version, ids=ids, rows=rows.combine_chunks(), unknown=unknown)

    def _apply_rows(
        self, type_: AnyType, changes: SideChanges, base: BaseTable, table: BaseTable, holder: int | None
    ) -> SideChanges:
        """The changes from a version to another, made those between tables that are others in some rows."""
        ids = pa.concat_arrays([base.ids, table.ids]).unique()
        inserted = changes.inserted.filter(pa.array(~is_among(changes.inserted.column(ID), ids)))
        is_other = ~is_among(changes.after.column(ID), ids)
        deleted = changes.deleted.filter(pa.array(~is_among(changes.deleted, ids)))
        rows = _look_up(self._build_projection(type_, base.version), base, ids)
        here = _look_up(RowProjection(type_, table.version, holder), table, ids)
        at = find_positions(here.column(ID), rows.column(ID))
        is_known = at >= 0
        before, after = rows.take(pa.array(at[is_known])), here.filter(pa.array(is_known))
        unknown = _find_unknown(base, before)
        same = self._build_blobs(type_, table.version).compare
        changed = {
            name: _find_differing(before, after, name, same) | unknown[name]
            if find_column(type_, table.version.type, name) is not None
            else np.zeros(after.num_rows, np.bool_)
            for name in build_pending_schema(type_).names
        }
        is_changed = np.logical_or.reduce(list(changed.values()))
        nothing, known = np.zeros(0, np.bool_), np.zeros(int(is_other.sum()), np.bool_)
        gone = rows.column(ID).filter(pa.array(~is_among(rows.column(ID), here.column(ID))))
        return replace(
            changes,
            inserted=pa.concat_tables([inserted, here.filter(pa.array(~is_known))]),
            before=pa.concat_tables([changes.before.filter(pa.array(is_other)), before.filter(pa.array(is_changed))]),
            after=pa.concat_tables([changes.after.filter(pa.array(is_other)), after.filter(pa.array(is_changed))]),
            changed={
                name: np.concatenate(
                    [changes.changed[name][is_other] if changes.changed else nothing, mask[is_changed]]
                )
                for name, mask in changed.items()
            },
            unknown={name: np.concatenate([known, mask[is_changed]]) for name, mask in unknown.items()},
            deleted=pa.concat_arrays([deleted, concat_chunks(gone)]),
        )

    def read_rows(self, type_: AnyType, table: BaseTable, ids: pa.Array) -> pa.Table:
        """Some rows of a table, by their ids, as far as it has them; what is not known of them is null."""
        rows = _look_up(RowProjection(type_, table.version, None, has_addresses=False), table, ids)
        rows = rows.filter(pa.array(is_among(rows.column(ID), ids)))
        for name, mask in _find_unknown(table, rows).items():
            if mask.any():
                column = pc.if_else(pa.array(mask), pa.scalar(None, rows.schema.field(name).type), rows.column(name))
                rows = rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name), column)
        return rows

    def read_rows_where(self, type_: AnyType, table: BaseTable, column: str, keys: pa.Array) -> pa.Table:
        """The rows of a table whose `column`, an end of an edge, is one of the keys."""
        shape = RowProjection(type_, table.version, None, has_addresses=False)
        stored = table.version.table
        rows = _apply_table(shape.project(stored.find_rows(column, keys, stored.schema.names)), table)
        return rows.filter(pa.array(is_among(rows.column(column), keys)))


_EITHER: tuple[Prefer, Prefer] = ("kept", "taken")
_FIRST_HOLDER = TAKEN + 1


def _is_same(one: StateTable, other: StateTable) -> bool:
    return (one.table.path, one.table.version) == (other.table.path, other.table.version)


def _find_unknown(table: BaseTable, rows: pa.Table) -> dict[str, Mask]:
    """For each column, in which rows the table's value is not known."""
    found = {name: np.zeros(rows.num_rows, np.bool_) for name in rows.schema.names}
    if table.rows is not None:
        at = find_positions(rows.column(ID), table.rows.column(ID))
        for name, mask in found.items():
            mask[at >= 0] = table.unknown[name][at[at >= 0]]
    return found


def _apply_table(known: pa.Table, table: BaseTable) -> pa.Table:
    """Rows of a table's version, made those of the table."""
    return known if table.rows is None else _replace_rows(known, table.rows, table.ids)


def _replace_rows(known: pa.Table, put: pa.Table, deleted: pa.Array) -> pa.Table:
    gone = pa.concat_arrays([concat_chunks(put.column(ID)), deleted])
    return pa.concat_tables([known.filter(pa.array(~is_among(known.column(ID), gone))), put])


def _look_up(shape: RowProjection, table: BaseTable, ids: pa.Array) -> pa.Table:
    """Those of some rows that a table has."""
    stored = shape.version.table
    return _apply_table(shape.project(stored.find_rows(ID, ids, stored.schema.names)), table)


def _find_differing(mine: pa.Table, others: pa.Table, name: str, same_blobs: SameBlobs) -> Mask:
    """Where two tables of the same rows differ."""
    one, other = (concat_chunks(part.column(name)) for part in (mine, others))
    return ~(same_blobs(name, one, other) if one.type == REFERENCE else are_equal(one, other))
