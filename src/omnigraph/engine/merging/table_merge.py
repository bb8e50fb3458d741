"""Merge three states table by table: choose the version to start from and the rows to write to it."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from omnigraph.commit.manifest_types import Pin, Snapshot
from omnigraph.engine.constraints.violations import quote_value
from omnigraph.engine.merging.chosen_values import ChosenValues
from omnigraph.engine.merging.conflicts import Conflict, ConflictKind, Conflicts
from omnigraph.engine.merging.criss_cross_base import (
    BaseTable,
    BaseTables,
    CrissCrossBase,
    is_same_version,
)
from omnigraph.engine.merging.edge_restoration import EndNodes, find_restorable, undelete
from omnigraph.engine.merging.merged_blobs import MergedBlobs
from omnigraph.engine.merging.replaced_rows import find_addresses, find_replaced_ids, read_rows
from omnigraph.engine.merging.resolutions import TypeChoices
from omnigraph.engine.merging.schema_agreement import (
    Side,
    build_dropped_property_conflict,
    build_dropped_type_conflict,
    has_different_rules,
)
from omnigraph.engine.merging.side_changes import (
    TAKEN,
    RowProjection,
    SideChanges,
    StateTable,
    build_empty_changes,
    fill_known_values,
    find_fills,
)
from omnigraph.engine.merging.three_way import Clash, Prefer, RowMerge, merge_three_way
from omnigraph.engine.migrating.type_changes import TypeChange
from omnigraph.engine.table_diff import TableDiff, diff_rows, diff_tables, read_rows_at
from omnigraph.engine.view import View
from omnigraph.schema.arrow import DST, ID, SRC
from omnigraph.schema.catalog import AnyType, Catalog, EdgeType, NodeType
from omnigraph.schema.values import format_value
from omnigraph.storage.columnar_sets import concat_chunks, is_among
from omnigraph.storage.key_lookup import find_rows
from omnigraph.storage.row_addresses import Addresses
from omnigraph.storage.schema_staging import NewColumns
from omnigraph.storage.watch import Watch


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedTable:
    """A table of the merged state: the version of one side, and the changes of the other to apply to it."""

    type: AnyType
    side: Side
    pin: Pin
    """The version it starts from, under the key that it has there."""
    columns: NewColumns | None = None
    """The columns it must get first; None if they need no change."""
    rows: RowMerge | None = None
    blobs: MergedBlobs | None = None
    rows_to_check: pa.Table | None = None
    """Rows that the version already has and that may violate constraints of the merged state.

    They were written under other constraints; or the other side deleted them, with their edges, and they stay.
    """
    bereft_sources: pa.Array | None = None
    """For edges: source nodes with edges on the other side, which requires some, that the version may lack."""
    replaced: pa.Array | None = None
    """The ids of rows of the version that are replaced or deleted."""
    addresses: Addresses | None = None
    """The addresses of the `replaced` rows, if all are known. New columns don't move a row."""
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    restored: int = 0
    """For edges: the number that stay, although one side deleted them, because one of their nodes stays."""

    @property
    def key(self) -> str:
        """The table key in the merged state."""
        return self.type.table_key

    @property
    def nbytes(self) -> int:
        """The memory its rows take, in bytes."""
        put = 0 if self.rows is None else self.rows.put.nbytes
        return int(put + (0 if self.rows_to_check is None else self.rows_to_check.nbytes))

    @property
    def has_rows(self) -> bool:
        """Whether rows are written or deleted."""
        return self.rows is not None and bool(self.rows.put.num_rows or len(self.rows.deleted))


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeInputs:
    """The three states of a merge, the branch names, and the paths of the tables that each side changed (`touched`).

    Where `touched` is None, every table with another version counts as changed.
    """

    base: View
    ours: View
    theirs: View
    names: Mapping[Side, str]
    touched: Mapping[Side, Collection[str] | None]
    catalog: Catalog
    """The schema of the merged state."""
    strategy: Side | None = None
    choices: Mapping[str, TypeChoices] = field(default_factory=dict)
    """What was decided about conflicts, by type; empty if nothing was."""
    criss_cross: CrissCrossBase | None = None
    """All bases, if there are several; `base` is one of them."""
    is_partial: bool = False
    """Whether only rows that theirs changed are compared: theirs is one commit, ours may have changed many rows."""
    watch: Watch | None = None
    """The limits of the merge."""
    _differences: dict[tuple[str, int, str, int], TableDiff] = field(default_factory=dict, repr=False)
    _types: dict[int, dict[int, AnyType]] = field(default_factory=dict, repr=False)
    _holders: list[StateTable] = field(default_factory=list, repr=False)

    def with_choices(self, choices: Mapping[str, TypeChoices]) -> "MergeInputs":
        """Return these inputs with decisions about conflicts; what was compared is compared again only if partial."""
        differences = {} if self.is_partial else self._differences
        return replace(self, choices=choices, _differences=differences)

    def get_view(self, side: Side) -> View:
        """Return the state of a side."""
        return self.ours if side == "ours" else self.theirs

    @property
    def catalogs(self) -> tuple[Catalog, Catalog, Catalog]:
        """The schemas of the base and of both sides."""
        return self.base.catalog, self.ours.catalog, self.theirs.catalog

    def find_table(self, view: View, type_: AnyType) -> StateTable | None:
        """Return the table of a type in a state, under any name; None if it has none."""
        types = self._types.get(id(view))
        if types is None:
            types = self._types[id(view)] = {twin.identity: twin for twin in view.catalog.types}
        twin = types.get(type_.identity)
        return None if twin is None else StateTable(type=twin, table=view.get_table(twin))

    @property
    def bases(self) -> tuple[View, ...]:
        """The base; all of them after a criss-cross merge."""
        return (self.base,) if self.criss_cross is None else self.criss_cross.states

    def find_base_table(self, type_: AnyType) -> BaseTable | None:
        """Return the table of a type in the merge base, or None if it has none."""
        return self._tables.find_table(self.criss_cross or self.base, type_)

    def find_changes(self, type_: AnyType, base: BaseTable | None, side: Side, *, holder: int | None) -> SideChanges:
        """Return the changes of a side to a table."""
        if base is not None and base.rows is None and not self.has_changed(side, type_):
            return build_empty_changes(type_)
        version = self.find_table(self.get_view(side), type_)
        assert version is not None  # noqa: S101 - only tables that both sides have are compared
        changes = self._tables.find_changes(type_, base, BaseTable(version=version), holder=holder)
        if base is None or base.rows is None:
            return changes
        return replace(changes, lost=tuple(self._iter_lost(side, type_, version)))

    def _iter_lost(self, side: Side, type_: AnyType, version: StateTable) -> Iterator[str]:
        """Yield the properties that the type no longer has but that a side gave values since the merged bases."""
        identities = {p.identity for p in type_.properties}
        names = [p.name for p in version.type.properties if p.identity not in identities]
        if not names:
            return
        changes = self._find_own_changes(side, version.type)
        for name in names:
            column = changes.inserted.column(name)
            if column.null_count < len(column) or (name in changes.changed and changes.changed[name].any()):
                yield name

    def _find_own_changes(self, side: Side, type_: AnyType) -> SideChanges:
        """Return the changes of a side to a table in the columns of that side's own type."""
        version = self.find_table(self.get_view(side), type_)
        assert version is not None  # noqa: S101 - it is a type of that side
        return self._tables.find_changes(type_, self.find_base_table(type_), BaseTable(version=version), holder=None)

    def has_net_changes(self, side: Side, type_: AnyType) -> bool:
        """Return whether rows of a type of this side differ from the merge base; reverted changes do not count."""
        if not self.has_changed(side, type_):
            return False
        changes = self._find_own_changes(side, type_)
        return bool(changes.inserted.num_rows or changes.after.num_rows or len(changes.deleted))

    def read_deleted_rows(self, side: Side, type_: AnyType, columns: Sequence[str]) -> pa.Table:
        """Return the id, or the id and ends, of the base's rows that a side deleted."""
        base = self.find_base_table(type_)
        after = self.find_table(self.get_view(side), type_)
        if base is None or after is None or not self.has_changed(side, type_):
            return pa.table({name: pa.array([], pa.string()) for name in columns})
        if base.rows is None:
            diff = self.find_differences(type_, base.version, after)
            return read_rows_at(base.version.table, diff.deleted, columns)
        deleted = self.find_changes(type_, base, side, holder=None).deleted
        return self.read_rows(type_, base, deleted).select(columns)

    def read_rows(self, type_: AnyType, table: BaseTable, ids: pa.Array) -> pa.Table:
        """Return the rows of a table that have one of these ids; unknown values are null."""
        return self._tables.read_rows(type_, table, ids)

    def read_rows_where(self, type_: AnyType, table: BaseTable, column: str, keys: pa.Array) -> pa.Table:
        """Return the rows of a table whose `column`, an end of an edge, is one of the keys."""
        return self._tables.read_rows_where(type_, table, column, keys)

    @property
    def _tables(self) -> BaseTables:
        return BaseTables(self.find_table, self.find_differences, self._holders)

    def has_changed(self, side: Side, type_: AnyType) -> bool:
        """Return whether a side changed, or may have changed, rows of a table since one of the bases."""
        return any(self._has_changed_since(base, side, type_) for base in self.bases)

    def _has_changed_since(self, base: View, side: Side, type_: AnyType) -> bool:
        old = self.find_table(base, type_)
        new = self.find_table(self.get_view(side), type_)
        if old is None or new is None:
            return old is not new
        touched = self.touched[side]
        # Compaction and indexing make new versions too; only commits that wrote rows put a path into `touched`.
        return not is_same_version(old, new) and (touched is None or new.table.path in touched)

    def find_differences(self, type_: AnyType, before: StateTable, after: StateTable) -> TableDiff:
        """Return the diff of two states of a table, computed once.

        A new column makes a row different only where its value is not the fill value.
        """
        key = (before.table.path, before.table.version, after.table.path, after.table.version)
        if key not in self._differences:
            if self._is_limited(type_, before, after):
                self._differences[key] = diff_rows(before.table, after.table, self._find_their_ids(type_))
            else:
                fills = find_fills(type_, before.type, after.type)
                self._differences[key] = diff_tables(before.table, after.table, fills)
        return self._differences[key]

    def _is_limited(self, type_: AnyType, before: StateTable, after: StateTable) -> bool:
        """Return whether a diff is that of ours and can be limited to rows that theirs changed.

        Not under a new schema, which has to be compared with all rows that ours changed.
        """
        views = (self.base, self.ours, self.theirs)
        base, ours, theirs = (self.find_table(view, type_) for view in views)
        if not self.is_partial or base is None or ours is None or theirs is None:
            return False
        is_ours = is_same_version(before, base) and is_same_version(after, ours) and not is_same_version(after, theirs)
        return is_ours and not any(has_different_rules(type_, self.catalog, view.catalog) for view in views)

    def _find_their_ids(self, type_: AnyType) -> pa.Array:
        """Return the ids of the rows of a table that theirs changed, and of edges that may have to stay with them."""
        base, theirs = (self.find_table(view, type_) for view in (self.base, self.theirs))
        assert base is not None and theirs is not None  # noqa: PT018, S101 - `_is_limited` was checked
        diff = self.find_differences(type_, base, theirs)
        ids = [
            read_rows_at(base.table, np.concatenate([diff.deleted, diff.earlier]), [ID]).column(ID),
            read_rows_at(theirs.table, diff.inserted, [ID]).column(ID),
        ]
        if type_.name in self.choices:
            ids.append(pa.array(sorted(self.choices[type_.name].kept), pa.string()))
        if (self.strategy == "theirs" or self.choices) and isinstance(type_, EdgeType):
            # A node that theirs changed and ours deleted may stay, with the edges that ours deleted with it.
            for column, name in ((SRC, type_.source), (DST, type_.target)):
                nodes = self._find_their_ids(self.catalog.nodes[name])
                ids.append(base.table.find_rows(column, nodes, [ID]).column(ID))
        return pa.concat_arrays([concat_chunks(part).cast(pa.string()) for part in ids]).unique()

    def get_other(self, side: Side) -> Side:
        """Return the side that this one is merged with."""
        return "theirs" if side == "ours" else "ours"


def merge_tables(sides: MergeInputs, conflicts: Conflicts) -> list[MergedTable]:
    """Merge all tables, and add the rows on which the sides disagree to `conflicts`."""
    identities = {type_.identity for type_ in sides.catalog.types}
    for side in _SIDES:
        for dropped in sides.get_view(side).catalog.types:
            if dropped.identity not in identities and sides.has_net_changes(side, dropped):
                conflict = build_dropped_type_conflict(
                    dropped, sides.names[sides.get_other(side)], sides.names[side], sides.catalogs
                )
                conflicts.add(conflict.kind, [conflict], 1)
    tables: list[MergedTable] = []
    spared: dict[str, pa.Array] = {}
    nbytes = 0
    # Nodes come first: the nodes that stay decide which edges stay with them.
    for type_ in sides.catalog.types:
        restorable = _find_restorable(sides, type_, spared)
        table = _merge_table(sides, type_, conflicts, restorable)
        if isinstance(type_, NodeType):
            kept = [*restorable.values(), *([] if table.rows is None else [table.rows.spared])]
            if any(map(len, kept)):
                spared[type_.name] = pa.concat_arrays(kept)
        tables.append(table)
        nbytes += table.nbytes
        if sides.watch is not None:
            sides.watch.check_size(nbytes, "what differs between the branches")
    return tables


_SIDES: tuple[Side, Side] = ("ours", "theirs")


def _find_restorable(sides: MergeInputs, type_: AnyType, spared: Mapping[str, pa.Array]) -> dict[Side, pa.Array]:
    """Return by the side that deleted them the ids of rows that stay: nodes that were chosen, and edges with nodes."""
    if isinstance(type_, EdgeType):
        if not any(name in spared for name in (type_.source, type_.target)):
            return {}
        deleters = _SIDES if sides.strategy is None else (sides.get_other(sides.strategy),)
        # A strategy keeps the nodes of its side; beside it, nodes may be kept that this side deleted.
        deleters = _SIDES if sides.choices else deleters
        return {deleter: _find_restorable_edges(sides, type_, spared, deleter) for deleter in deleters}
    kept = sides.choices[type_.name].kept if type_.name in sides.choices else None
    if not kept:
        return {}
    ids = pa.array(sorted(kept), pa.string())
    deleted = {side: concat_chunks(sides.read_deleted_rows(side, type_, [ID]).column(ID)) for side in _SIDES}
    return {side: ids.filter(pa.array(is_among(ids, gone))) for side, gone in deleted.items()}


def _find_restorable_edges(
    sides: MergeInputs, edge: EdgeType, spared: Mapping[str, pa.Array], deleter: Side
) -> pa.Array:
    """Return the ids of edges that one side deleted with a node that stays."""
    ends = {SRC: edge.source, DST: edge.target}
    no_ids = pa.array([], pa.string())
    nodes = {
        column: EndNodes(
            spared=spared.get(name, no_ids),
            deleted=concat_chunks(sides.read_deleted_rows(deleter, sides.catalog.nodes[name], [ID]).column(ID)),
        )
        for column, name in ends.items()
    }
    return find_restorable(sides.read_deleted_rows(deleter, edge, [ID, SRC, DST]), nodes)


def _merge_table(
    sides: MergeInputs, type_: AnyType, conflicts: Conflicts, restorable: Mapping[Side, pa.Array]
) -> MergedTable:
    """Return one table of the merged state; `restorable` are ids of rows that stay, by the side that deleted them."""
    ours, theirs = (sides.find_table(sides.get_view(side), type_) for side in _SIDES)
    if ours is None or theirs is None:
        return _take_whole(sides, type_, "theirs" if ours is None else "ours")
    # A version that lacks edges of kept nodes can't be adopted unchanged.
    restores = any(map(len, restorable.values()))
    is_settled = not (restores or sides.has_changed("theirs", type_) or _is_to_check(sides, type_, "ours"))
    if is_same_version(ours, theirs) or is_settled:
        return _take_whole(sides, type_, "ours")
    base = sides.find_base_table(type_)
    # Adopt their version only if ours is the very version of the base. If ours was compacted or indexed since, their
    # rows are written to it instead, so that this work is kept.
    is_base = base is not None and base.rows is None and is_same_version(base.version, ours)
    if is_base and not restores and not _is_to_check(sides, type_, "theirs"):
        return _take_whole(sides, type_, "theirs")
    # Prefer the side whose columns need no change, and ours if both or neither do.
    side: Side = "ours"
    if _find_new_columns(ours.type, type_) is not None and _find_new_columns(theirs.type, type_) is None:
        side = "theirs"
    return _merge_by_rows(sides, type_, base, side, conflicts, restorable)


def _is_to_check(sides: MergeInputs, type_: AnyType, side: Side) -> bool:
    """Return whether a side has rows that were written under other constraints than those of the merged state."""
    return sides.has_changed(side, type_) and has_different_rules(type_, sides.catalog, sides.get_view(side).catalog)


def _find_new_columns(old: AnyType, new: AnyType) -> NewColumns | None:
    """Return the columns that a table must get for the new type; None if they stay."""
    change = TypeChange(old, new)
    return change.build_new_columns() if change.has_column_changes else None


def _take_whole(sides: MergeInputs, type_: AnyType, side: Side) -> MergedTable:
    version = _get_table(sides, type_, side)
    return MergedTable(
        type=type_, side=side, pin=_get_pin(sides, version, side), columns=_find_new_columns(version.type, type_)
    )


def _get_table(sides: MergeInputs, type_: AnyType, side: Side) -> StateTable:
    version = sides.find_table(sides.get_view(side), type_)
    assert version is not None  # noqa: S101 - it is the side that has it
    return version


def _get_pin(sides: MergeInputs, version: StateTable, side: Side) -> Pin:
    return sides.get_view(side).snapshot.pin(version.type.table_key)


def _merge_by_rows(
    sides: MergeInputs,
    type_: AnyType,
    base_table: BaseTable | None,
    side: Side,
    conflicts: Conflicts,
    restorable: Mapping[Side, pa.Array],
) -> MergedTable:
    """Merge a table row by row: start from the version of `side`, and apply the changes of the other."""
    other = sides.get_other(side)
    # Two versions with the same rows have the same addresses only if the base is a stored version. A base merged from
    # several has none, so that rows are looked up by id.
    base = None if base_table is None or base_table.rows is not None else base_table.version
    kept = _get_table(sides, type_, side)
    taken = _get_table(sides, type_, other)
    mine = sides.find_changes(type_, base_table, side, holder=None)
    theirs = sides.find_changes(type_, base_table, other, holder=TAKEN)
    for changes, changer in ((mine, side), (theirs, other)):
        for name in changes.lost:
            names = sides.names[sides.get_other(changer)], sides.names[changer]
            conflict = build_dropped_property_conflict(type_, name, *names, sides.catalogs)
            conflicts.add(conflict.kind, [conflict], 1)
    prefer: Prefer | None = None
    if sides.strategy is not None:
        prefer = "kept" if sides.strategy == side else "taken"
    blobs = MergedBlobs(type_, {None: kept, TAKEN: taken})
    diffs = [None if base is None else _find_differences(sides, type_, base, changer) for changer in (side, other)]
    unwritten = added = build_empty_changes(type_).inserted
    if len(restorable.get(other, ())):
        theirs, ids = undelete(mine, theirs, restorable[other])
        stored = read_rows(kept, ids, find_addresses(ids, base, kept, *diffs))
        unwritten = RowProjection(type_, kept, None).project(stored)
    if len(restorable.get(side, ())):
        # The kept version lacks these rows, so they are added like inserted ones.
        mine, ids = undelete(theirs, mine, restorable[side])
        stored = read_rows(taken, ids, find_addresses(ids, base, taken, *reversed(diffs)))
        added = RowProjection(type_, taken, TAKEN).project(stored)
        theirs = replace(theirs, inserted=pa.concat_tables([theirs.inserted, added]))

    def read_existing_rows(ids: pa.Array) -> pa.Table:
        existing = ids.filter(pa.array(~is_among(ids, mine.deleted)))
        return read_rows(kept, existing, find_addresses(existing, base, kept, *diffs))

    # Their rows lack columns that only our schema has; without our values they would overwrite them with defaults.
    filled = fill_known_values(type_, theirs, taken, kept, read_existing_rows)
    chosen = ChosenValues(type_, sides.choices.get(type_.name, TypeChoices()), side) if sides.choices else None
    rows = merge_three_way(
        type_, mine, filled, prefer=prefer, same_blobs=blobs.compare, chosen=chosen, limit=conflicts.limit
    )
    for clash in rows.clashes:
        conflicts.add(clash.kind, _iter_conflicts(sides, type_, side, clash), clash.total)
    is_to_check = _is_to_check(sides, type_, side)
    inserted = rows.put.num_rows - _count_replaced(rows.put, mine, theirs)
    replaced = find_replaced_ids(rows, mine, theirs)
    return MergedTable(
        type=type_,
        side=side,
        pin=_get_pin(sides, kept, side),
        columns=_find_new_columns(kept.type, type_),
        rows=rows,
        blobs=blobs,
        replaced=replaced,
        addresses=find_addresses(replaced, base, kept, *diffs),
        rows_to_check=pa.concat_tables([_select_unchecked(mine, rows, is_all=is_to_check), unwritten]),
        bereft_sources=_find_bereft_sources(type_, mine, theirs, taken) if is_to_check else None,
        inserted=inserted,
        updated=rows.put.num_rows - inserted,
        deleted=len(rows.deleted),
        restored=unwritten.num_rows + added.num_rows,
    )


def _find_differences(sides: MergeInputs, type_: AnyType, base: StateTable, side: Side) -> TableDiff | None:
    if not sides.has_changed(side, type_):
        return None
    return sides.find_differences(type_, base, _get_table(sides, type_, side))


def _select_unchecked(mine: SideChanges, rows: RowMerge, *, is_all: bool) -> pa.Table:
    """Return the kept side's changed rows that the merge leaves as they are.

    Without `is_all`, only those that the other side deleted and that stay.
    """
    if not is_all:
        return mine.after.filter(pa.array(is_among(mine.after.column(ID), rows.spared)))
    put = pa.concat_tables([mine.inserted, mine.after])
    replaced = pa.concat_arrays([concat_chunks(rows.put.column(ID)), rows.deleted])
    return put.filter(pa.array(~is_among(put.column(ID), replaced)))


def _find_bereft_sources(type_: AnyType, mine: SideChanges, theirs: SideChanges, taken: StateTable) -> pa.Array | None:
    """Return the sources of the other side's edges that the kept side deleted, moved or inserted differently.

    The kept side may remove edges without knowing that a minimum is required. What counts is the source of such an edge
    on the side that requires it, not in the base: the edge may have been moved there since.
    """
    if not isinstance(type_, EdgeType) or type_.cardinality.low == 0:
        return None
    is_moved = mine.changed.get(SRC, np.zeros(mine.after.num_rows, np.bool_))
    moved = concat_chunks(mine.after.column(ID).filter(pa.array(is_moved)))
    edges = find_rows(taken.table, ID, pa.concat_arrays([mine.deleted, moved]), [SRC])
    # Both sides inserted the same id, perhaps with different sources.
    is_twice = is_among(theirs.inserted.column(ID), mine.inserted.column(ID))
    twice = theirs.inserted.column(SRC).filter(pa.array(is_twice))
    return pa.concat_arrays([concat_chunks(edges.column(SRC)), concat_chunks(twice)]).unique()


def _count_replaced(put: pa.Table, mine: SideChanges, theirs: SideChanges) -> int:
    """Return the number of rows to put that replace one of the kept side."""
    # New are rows that only the other side inserted, and those it changed after the kept side deleted them.
    fresh = int(theirs.inserted.num_rows) - int(is_among(theirs.inserted.column(ID), mine.inserted.column(ID)).sum())
    revived = int(is_among(put.column(ID), mine.deleted).sum())
    return int(put.num_rows) - fresh - revived


def _iter_conflicts(sides: MergeInputs, type_: AnyType, side: Side, clash: Clash) -> Iterator[Conflict]:
    is_kept_ours = side == "ours"
    values = zip(clash.ids, clash.base, clash.is_base_known, clash.kept, clash.taken, strict=True)
    for row_id, base, is_known, kept, taken in values:
        ours, theirs = (kept, taken) if is_kept_ours else (taken, kept)
        yield Conflict(
            kind=clash.kind,
            table=type_.table_key,
            id=row_id,
            property=clash.property,
            base=base,
            ours=ours,
            theirs=theirs,
            message=_format_message(
                sides, type_, clash, row_id, format_value(base) if is_known else None, ours, theirs
            ),
        )


def _format_message(
    sides: MergeInputs, type_: AnyType, clash: Clash, row_id: str, base: str | None, ours: object, theirs: object
) -> str:
    ours_name, theirs_name = sides.names["ours"], sides.names["theirs"]
    about = f"{type_.name} {quote_value(row_id)}"
    if clash.kind is ConflictKind.DELETE_VS_UPDATE:
        dropper, changer, row = (ours_name, theirs_name, theirs) if ours is None else (theirs_name, ours_name, ours)
        if base is None:
            return f"{about} was deleted on `{dropper}`, and `{changer}` has it; it is not known whether it was changed"
        names = ", ".join(f"`{name}`" for name in row) if isinstance(row, dict) else ""
        return f"{about} was deleted on `{dropper}`, and `{changer}` changed its {names}"
    both = f"{format_value(ours)} on `{ours_name}` and {format_value(theirs)} on `{theirs_name}`"
    if clash.kind is ConflictKind.DIVERGENT_INSERT:
        return f"{about} was inserted on both sides, with `{clash.property}` {both}"
    subject = f"`{clash.property}` of {about}"
    if base is None:
        return f"{subject} is {both}; the earlier value is not known"
    return f"{subject} was {base}; it is {both}"


def build_merged_snapshot(sides: MergeInputs, tables: Collection[MergedTable]) -> Snapshot:
    """Return the merged state before any row is written: the versions that tables start from, under their new keys."""
    manifest = sides.ours.snapshot.manifest
    pins = {table.key: replace(table.pin, table_key=table.key) for table in tables}
    return replace(sides.ours.snapshot, manifest=replace(manifest, pins=pins))
