"""The merge base of a criss-cross history: several best common ancestors, merged into one virtual base row by row.

No single ancestor will do: compared with one, the changes of another look like changes of both sides, and a change that
a side has reverted since looks like no change at all. So the ancestors are merged first, from their own merge base.
Where they conflict, the value of the base is unknown, and so is which side changed it.
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
    """Two or more common ancestors, none of which descends from another, and their own merge base `below`.

    `first` may itself consist of several. `below` is None if their merge base is unknown.
    """

    first: "MergeBase"
    second: View
    below: "MergeBase | None"

    @property
    def states(self) -> tuple[View, ...]:
        """All common ancestors."""
        return (*(self.first.states if isinstance(self.first, CrissCrossBase) else (self.first,)), self.second)

    def map_views(self, transform: Callable[[View], View]) -> "CrissCrossBase":
        """Return a copy with every view replaced by its transformed one."""
        first = _map_base(self.first, transform)
        below = None if self.below is None else _map_base(self.below, transform)
        return CrissCrossBase(first, transform(self.second), below)


MergeBase: TypeAlias = View | CrissCrossBase
"""The common ancestor of two sides, or several of them."""


def _map_base(base: MergeBase, transform: Callable[[View], View]) -> MergeBase:
    return base.map_views(transform) if isinstance(base, CrissCrossBase) else transform(base)


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseTable:
    """A table of the merge base: a stored version with some rows overlaid."""

    version: StateTable
    ids: pa.Array = field(default_factory=lambda: pa.array([], pa.string()))
    """The ids of the overlaid rows; those without a row in `rows` are deleted."""
    rows: pa.Table | None = None
    """The overlaid rows; their blob references point to the versions they were merged from."""
    unknown: Mapping[str, Mask] = field(default_factory=dict)
    """For each column, in which of the `rows` the value is unknown."""


class BaseTables:
    """Build the tables of a merge base.

    `version` returns a type's table in a state, `differences` the diff of two versions. `holders` lists the versions
    that blob references point to, and grows.
    """

    def __init__(
        self,
        version: Callable[[View, AnyType], StateTable | None],
        differences: Callable[[AnyType, StateTable, StateTable], TableDiff],
        holders: list[StateTable],
    ) -> None:
        self._version = version
        self._differences = differences
        self._holders = holders

    def find_table(self, base: MergeBase, type_: AnyType) -> BaseTable | None:
        """Return the table of a type in a merge base, or None if no ancestor has one."""
        if isinstance(base, View):
            version = self._version(base, type_)
            return None if version is None else BaseTable(version=version)
        first = self.find_table(base.first, type_)
        second = self._version(base.second, type_)
        if first is None or second is None:
            return first if second is None else BaseTable(version=second)
        if first.rows is None and is_same_version(first.version, second):
            return first
        if base.below is not None:
            # A purge may have dropped the data of the older base. Then it is as unknown as if there were none.
            with suppress(DataDroppedError):
                return self._merge(type_, base, self.find_table(base.below, type_), first, second)
        # Without a common base either state may be right: every difference between them is unknown.
        changes = self.find_changes(type_, first, BaseTable(version=second), holder=self._number_holder(second))
        put = pa.concat_tables([changes.inserted, changes.after])
        return self._join(type_, first, [(put.slice(0, 0), changes.deleted.slice(0, 0)), (put, changes.deleted)])

    def _merge(
        self, type_: AnyType, base: CrissCrossBase, below: BaseTable | None, first: BaseTable, second: StateTable
    ) -> BaseTable:
        """Merge a table of two ancestors. Values that depend on which of them is preferred become unknown."""
        mine, theirs = self._find_both_changes(type_, below, first, second)
        same_blobs = self._build_blobs(type_).compare
        outcomes = []
        # Merge once with each preference: whatever differs between the two results was a conflict.
        for prefer in _PREFERENCES:
            kept = mine
            taken = theirs
            if below is not None and isinstance(type_, EdgeType):
                deleted = (theirs if prefer == "kept" else mine).deleted
                ids = self._find_restorable(type_, base, below, prefer, deleted)
                if prefer == "kept":
                    taken, _ = undelete(mine, theirs, ids)
                else:
                    kept, restored_ids = undelete(theirs, mine, ids)
                    rows = second.table.find_rows(ID, restored_ids, second.table.schema.names)
                    # The first state lacks these edges, so they are added like inserted rows.
                    restored = self._build_projection(type_, second).project(rows)
                    taken = replace(theirs, inserted=pa.concat_tables([theirs.inserted, restored]))
            merged = merge_three_way(type_, kept, taken, prefer=prefer, same_blobs=same_blobs)
            outcomes.append((merged.put, merged.deleted))
        return self._join(type_, first, outcomes)

    def _find_both_changes(
        self, type_: AnyType, below: BaseTable | None, first: BaseTable, second: StateTable
    ) -> tuple[SideChanges, SideChanges]:
        """Return the changes of two ancestors to a table since their own merge base."""
        mine, theirs = (
            self.find_changes(type_, below, table, holder=self._number_holder(table.version))
            for table in (first, BaseTable(version=second))
        )
        return mine, theirs

    def _find_restorable(
        self, edge: EdgeType, base: CrissCrossBase, below: BaseTable, prefer: Prefer, deleted: pa.Array
    ) -> pa.Array:
        """Return the ids of those deleted edges that stay with their nodes under a preference."""
        twin = self._version(base.second, edge)
        if twin is None or base.below is None or not isinstance(twin.type, EdgeType) or not len(deleted):
            return deleted.slice(0, 0)
        nodes = {}
        for column, name in ((SRC, twin.type.source), (DST, twin.type.target)):
            node = base.second.catalog.nodes[name]
            first = self.find_table(base.first, node)
            second = self._version(base.second, node)
            if first is None or second is None:
                return deleted.slice(0, 0)
            changes = self._find_both_changes(node, self.find_table(base.below, node), first, second)
            keeper, deleter = changes if prefer == "kept" else changes[::-1]
            is_spared = is_among(deleter.deleted, keeper.after.column(ID))
            nodes[column] = EndNodes(spared=deleter.deleted.filter(pa.array(is_spared)), deleted=deleter.deleted)
        return find_restorable(self.read_rows(edge, below, deleted), nodes)

    def find_changes(
        self, type_: AnyType, base: BaseTable | None, after: BaseTable, *, holder: int | None
    ) -> SideChanges:
        """Return the changes of a table since the base; where the base is unknown, every value counts as changed.

        Blob references of the changed rows name `holder`.
        """
        if base is None:
            changes = build_all_inserted(type_, after.version, holder=holder)
            return changes if after.rows is None else replace(changes, inserted=_apply_overlay(changes.inserted, after))
        diff = self._differences(type_, base.version, after.version)
        changes = collect_changes(type_, base.version, after.version, diff, holder=holder)
        if base.rows is None and after.rows is None:
            return changes
        return self._apply_rows(type_, changes, base, after, holder)

    def _number_holder(self, version: StateTable) -> int:
        """Return the number that blob references use for a version; a new version gets the next one."""
        for number, holder in enumerate(self._holders, _FIRST_HOLDER):
            if is_same_version(holder, version) and holder.type == version.type:
                return number
        self._holders.append(version)
        return len(self._holders) - 1 + _FIRST_HOLDER

    def _build_blobs(self, type_: AnyType, side: StateTable | None = None) -> MergedBlobs:
        """Return the holders of blob references; those that name none, or `TAKEN`, are read from `side`."""
        versions: dict[int | None, StateTable] = {
            number: holder
            for number, holder in enumerate(self._holders, _FIRST_HOLDER)
            if holder.type.identity == type_.identity
        }
        return MergedBlobs(type_, versions if side is None else {**versions, None: side, TAKEN: side})

    def _build_projection(self, type_: AnyType, version: StateTable) -> RowProjection:
        """Return the projection of a version's rows to rows of the base, with the version as holder of their blobs."""
        return RowProjection(type_, version, self._number_holder(version))

    def _join(self, type_: AnyType, first: BaseTable, outcomes: Sequence[tuple[pa.Table, pa.Array]]) -> BaseTable:
        """Combine several outcomes, each of rows put and ids deleted, into a table; unknown where they differ."""
        touched = [concat_chunks(put.column(ID)) for put, _ in outcomes] + [deleted for _, deleted in outcomes]
        ids = pa.concat_arrays([first.ids, *touched]).unique()
        if not len(ids):
            return first
        stored = _look_up(self._build_projection(type_, first.version), first, ids)
        states = [_replace_rows(stored, put, deleted) for put, deleted in outcomes]
        rows = states[0]
        for state in states[1:]:
            new = state.filter(pa.array(~is_among(state.column(ID), rows.column(ID))))
            rows = pa.concat_tables([rows, new])
        unknown = _find_unknown(first, rows)
        same_blobs = self._build_blobs(type_).compare
        for state in states:
            at = find_positions(rows.column(ID), state.column(ID))
            in_state = np.flatnonzero(at >= 0)
            joined_rows = rows.take(pa.array(in_state))
            state_rows = state.take(pa.array(at[in_state]))
            for name, mask in unknown.items():
                # A row that one outcome lacks is unknown in all its values.
                mask[at < 0] = True
                mask[in_state] |= _find_differing(joined_rows, state_rows, name, same_blobs)
        # Rows are matched by id, so the id itself is certain.
        unknown[ID][:] = False
        return BaseTable(version=first.version, ids=ids, rows=rows.combine_chunks(), unknown=unknown)

    def _apply_rows(
        self, type_: AnyType, changes: SideChanges, base: BaseTable, table: BaseTable, holder: int | None
    ) -> SideChanges:
        """Replace, in the changes between two versions, those of the rows overlaid in `base` or `table`."""
        # The overlaid rows are dropped from the changes, compared again, and appended.
        ids = pa.concat_arrays([base.ids, table.ids]).unique()
        inserted = changes.inserted.filter(pa.array(~is_among(changes.inserted.column(ID), ids)))
        is_other = ~is_among(changes.after.column(ID), ids)
        deleted = changes.deleted.filter(pa.array(~is_among(changes.deleted, ids)))
        base_rows = _look_up(self._build_projection(type_, base.version), base, ids)
        table_rows = _look_up(RowProjection(type_, table.version, holder), table, ids)
        at = find_positions(table_rows.column(ID), base_rows.column(ID))
        in_base = at >= 0
        before = base_rows.take(pa.array(at[in_base]))
        after = table_rows.filter(pa.array(in_base))
        unknown = _find_unknown(base, before)
        same_blobs = self._build_blobs(type_, table.version).compare
        # A side without the column can't have changed it.
        changed = {
            name: _find_differing(before, after, name, same_blobs) | unknown[name]
            if find_column(type_, table.version.type, name) is not None
            else np.zeros(after.num_rows, np.bool_)
            for name in build_pending_schema(type_).names
        }
        is_changed = np.logical_or.reduce(list(changed.values()))
        no_rows = np.zeros(0, np.bool_)
        all_known = np.zeros(int(is_other.sum()), np.bool_)
        newly_deleted = base_rows.column(ID).filter(pa.array(~is_among(base_rows.column(ID), table_rows.column(ID))))
        return replace(
            changes,
            inserted=pa.concat_tables([inserted, table_rows.filter(pa.array(~in_base))]),
            before=pa.concat_tables([changes.before.filter(pa.array(is_other)), before.filter(pa.array(is_changed))]),
            after=pa.concat_tables([changes.after.filter(pa.array(is_other)), after.filter(pa.array(is_changed))]),
            changed={
                name: np.concatenate(
                    [changes.changed[name][is_other] if changes.changed else no_rows, mask[is_changed]]
                )
                for name, mask in changed.items()
            },
            unknown={name: np.concatenate([all_known, mask[is_changed]]) for name, mask in unknown.items()},
            deleted=pa.concat_arrays([deleted, concat_chunks(newly_deleted)]),
        )

    def read_rows(self, type_: AnyType, table: BaseTable, ids: pa.Array) -> pa.Table:
        """Return the rows of a table that have one of these ids; unknown values are null."""
        rows = _look_up(RowProjection(type_, table.version, None, has_addresses=False), table, ids)
        rows = rows.filter(pa.array(is_among(rows.column(ID), ids)))
        for name, mask in _find_unknown(table, rows).items():
            if mask.any():
                column = pc.if_else(pa.array(mask), pa.scalar(None, rows.schema.field(name).type), rows.column(name))
                rows = rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name), column)
        return rows

    def read_rows_where(self, type_: AnyType, table: BaseTable, column: str, keys: pa.Array) -> pa.Table:
        """Return the rows of a table whose `column`, an end of an edge, is one of the keys."""
        projection = RowProjection(type_, table.version, None, has_addresses=False)
        stored = table.version.table
        rows = _apply_overlay(projection.project(stored.find_rows(column, keys, stored.schema.names)), table)
        # Overlaid rows are added whatever their ends are.
        return rows.filter(pa.array(is_among(rows.column(column), keys)))


_PREFERENCES: tuple[Prefer, Prefer] = ("kept", "taken")
# Numbers below are taken: null means the kept side's table, `TAKEN` the other side's.
_FIRST_HOLDER = TAKEN + 1


def is_same_version(left: StateTable, right: StateTable) -> bool:
    """Return whether two states have the same version of a table."""
    return (left.table.path, left.table.version) == (right.table.path, right.table.version)


def _find_unknown(table: BaseTable, rows: pa.Table) -> dict[str, Mask]:
    """Return, for each column, in which of `rows` the table's value is unknown."""
    unknown = {name: np.zeros(rows.num_rows, np.bool_) for name in rows.schema.names}
    if table.rows is not None:
        at = find_positions(rows.column(ID), table.rows.column(ID))
        for name, mask in unknown.items():
            mask[at >= 0] = table.unknown[name][at[at >= 0]]
    return unknown


def _apply_overlay(rows: pa.Table, table: BaseTable) -> pa.Table:
    """Return rows of the table's version with the overlaid rows replaced; all overlaid rows are added."""
    return rows if table.rows is None else _replace_rows(rows, table.rows, table.ids)


def _replace_rows(rows: pa.Table, put: pa.Table, deleted: pa.Array) -> pa.Table:
    replaced = pa.concat_arrays([concat_chunks(put.column(ID)), deleted])
    return pa.concat_tables([rows.filter(pa.array(~is_among(rows.column(ID), replaced))), put])


def _look_up(projection: RowProjection, table: BaseTable, ids: pa.Array) -> pa.Table:
    """Return the projected rows of a table with these ids, and all overlaid rows."""
    stored = projection.version.table
    return _apply_overlay(projection.project(stored.find_rows(ID, ids, stored.schema.names)), table)


def _find_differing(mine: pa.Table, theirs: pa.Table, name: str, same_blobs: SameBlobs) -> Mask:
    """Return in which rows a column of two tables with the same rows differs."""
    left, right = (concat_chunks(rows.column(name)) for rows in (mine, theirs))
    return ~(same_blobs(name, left, right) if left.type == REFERENCE else are_equal(left, right))
