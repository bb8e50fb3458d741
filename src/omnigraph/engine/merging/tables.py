"""From three states to one: table by table whose version is the merged one, and what has to be done to it."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from omnigraph.commit.records import Pin, Snapshot
from omnigraph.engine.differences import Differences, differences
from omnigraph.engine.merging.blobs import TwoTables
from omnigraph.engine.merging.conflicts import Conflict, ConflictKind, Conflicts, value_text
from omnigraph.engine.merging.schemas import Side, dropped_but_changed, lost_property, rules_differ, types_of
from omnigraph.engine.merging.sides import SideChanges, Version, all_new, changes_of, no_changes
from omnigraph.engine.merging.three_way import Clash, Prefer, RowMerge, three_way
from omnigraph.engine.view import View
from omnigraph.engine.writing.violations import quoted
from omnigraph.schema.arrow import ID
from omnigraph.schema.catalog import AnyType, Catalog
from omnigraph.storage.column_sets import is_among
from omnigraph.storage.dataset import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedTable:
    """A table of the merged state: a version of one side, and the rows of the other that are brought to it."""

    type: AnyType
    side: Side
    pin: Pin
    """The version it starts from, under the key that it has there."""
    rows: RowMerge | None = None
    bytes: TwoTables | None = None
    inserted: int = 0
    updated: int = 0
    deleted: int = 0

    @property
    def key(self) -> str:
        """The key that it gets."""
        return self.type.table_key

    @property
    def has_rows(self) -> bool:
        """Whether anything is to be written."""
        return self.rows is not None and bool(self.rows.put.num_rows or len(self.rows.deleted))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """The three states, what the branches are called, and which tables each changed, by their locations.

    Where that is not known (None), every table that has another version counts as changed.
    """

    base: View
    ours: View
    theirs: View
    names: Mapping[Side, str]
    touched: Mapping[Side, Collection[str] | None]
    schema: Side
    strategy: Side | None = None
    _found: dict[tuple[str, int, int], Differences] = field(default_factory=dict, repr=False)
    _types: dict[int, dict[int, AnyType]] = field(default_factory=dict, repr=False)

    @property
    def catalog(self) -> Catalog:
        """The schema of the merged state."""
        return self.view(self.schema).catalog

    def view(self, side: Side) -> View:
        """One of the two that are merged."""
        return self.ours if side == "ours" else self.theirs

    def version(self, view: View, type_: AnyType) -> Version | None:
        """A type's table in a state, whatever it is called there."""
        known = self._types.get(id(view))
        if known is None:
            known = self._types[id(view)] = {one.identity: one for one in types_of(view.catalog)}
        twin = known.get(type_.identity)
        return None if twin is None else Version(type=twin, table=view.table(twin))

    def has_changed(self, side: Side, type_: AnyType) -> bool:
        """Whether a side changed what a table says, or at least may have."""
        old, new = self.version(self.base, type_), self.version(self.view(side), type_)
        if old is None or new is None:
            return old is not new
        is_same = (old.table.path, old.table.version) == (new.table.path, new.table.version)
        touched = self.touched[side]
        return not is_same and (touched is None or new.table.path in touched)

    def differences(self, before: Table, after: Table) -> Differences:
        """As `differences`, found once."""
        key = (after.path, before.version, after.version)
        if key not in self._found:
            self._found[key] = differences(before, after)
        return self._found[key]

    def other(self, side: Side) -> Side:
        """The one that it is merged with."""
        return "theirs" if side == "ours" else "ours"


def merged_tables(sides: Sides, conflicts: Conflicts) -> list[MergedTable]:
    """Every table of the merged state. Rows about which the sides don't agree are added to the conflicts."""
    other = sides.other(sides.schema)
    identities = {type_.identity for type_ in types_of(sides.catalog)}
    for gone in types_of(sides.view(other).catalog):
        if gone.identity not in identities and sides.has_changed(other, gone):
            told = dropped_but_changed(gone, sides.names[sides.schema], sides.names[other])
            conflicts.add(told.kind, [told], 1)
    return [_merged(sides, type_, conflicts) for type_ in types_of(sides.catalog)]


def _merged(sides: Sides, type_: AnyType, conflicts: Conflicts) -> MergedTable:
    versions = {side: sides.version(sides.view(side), type_) for side in ("ours", "theirs")}
    if versions["ours"] is None:
        return _whole(sides, type_, "theirs")
    if versions["theirs"] is None:
        return _whole(sides, type_, "ours")
    other = sides.other(sides.schema)
    if rules_differ(type_, sides.catalog, sides.view(other).catalog):
        is_brought = sides.has_changed(other, type_)
        return _by_rows(sides, type_, sides.schema, conflicts) if is_brought else _whole(sides, type_, sides.schema)
    if not sides.has_changed("theirs", type_):
        return _whole(sides, type_, "ours")
    base = sides.version(sides.base, type_)
    ours, theirs = versions["ours"].table, versions["theirs"].table
    if (ours.path, ours.version) == (theirs.path, theirs.version):
        return _whole(sides, type_, "ours")
    is_as_before = base is not None and (base.table.path, base.table.version) == (ours.path, ours.version)
    # Ours may have been compacted and indexed since, and nothing else: rows are brought to it, so that this stays.
    return _whole(sides, type_, "theirs") if is_as_before else _by_rows(sides, type_, "ours", conflicts)


def _whole(sides: Sides, type_: AnyType, side: Side) -> MergedTable:
    return MergedTable(type=type_, side=side, pin=_pin(sides, type_, side))


def _pin(sides: Sides, type_: AnyType, side: Side) -> Pin:
    version = sides.version(sides.view(side), type_)
    assert version is not None  # noqa: S101 - it is the side that has it
    return sides.view(side).snapshot.pin(version.type.table_key)


def _by_rows(sides: Sides, type_: AnyType, side: Side, conflicts: Conflicts) -> MergedTable:
    """The version of one side, with what the other one changed."""
    other = sides.other(side)
    base = sides.version(sides.base, type_)
    kept, taken = (sides.version(sides.view(one), type_) for one in (side, other))
    assert kept is not None and taken is not None  # noqa: PT018, S101 - else it is taken whole
    mine = _changes(sides, type_, base, kept, side, is_elsewhere=False)
    theirs = _changes(sides, type_, base, taken, other, is_elsewhere=True)
    for name in theirs.lost:
        told = lost_property(type_, name, sides.names[side], sides.names[other])
        conflicts.add(told.kind, [told], 1)
    prefer: Prefer | None = None if sides.strategy is None else "kept" if sides.strategy == side else "taken"
    tables = TwoTables(type_, kept, taken)
    rows = three_way(type_, mine, theirs, prefer=prefer, same_blobs=tables.same)
    for clash in rows.clashes:
        conflicts.add(clash.kind, _told(sides, type_, side, clash), clash.total)
    inserted = rows.put.num_rows - _known(rows.put, mine, theirs)
    return MergedTable(
        type=type_,
        side=side,
        pin=_pin(sides, type_, side),
        rows=rows,
        bytes=tables,
        inserted=inserted,
        updated=rows.put.num_rows - inserted,
        deleted=len(rows.deleted),
    )


def _known(put: pa.Table, mine: SideChanges, theirs: SideChanges) -> int:
    """How many of the rows to put replace one of the kept side."""
    fresh = int(theirs.inserted.num_rows) - int(is_among(theirs.inserted.column(ID), mine.inserted.column(ID)).sum())
    revived = int(is_among(put.column(ID), mine.deleted).sum())
    return int(put.num_rows) - fresh - revived


def _changes(
    sides: Sides, type_: AnyType, base: Version | None, version: Version, side: Side, *, is_elsewhere: bool
) -> SideChanges:
    if base is None:  # both got the type from elsewhere, after a base that is one of several
        return all_new(type_, version, is_elsewhere=is_elsewhere)
    if not sides.has_changed(side, type_):
        return no_changes(type_)
    found = sides.differences(base.table, version.table)
    return changes_of(type_, base, version, found, is_elsewhere=is_elsewhere)


def _told(sides: Sides, type_: AnyType, side: Side, clash: Clash) -> Iterator[Conflict]:
    is_kept_ours = side == "ours"
    for row_id, base, kept, taken in zip(clash.ids, clash.base, clash.kept, clash.taken, strict=True):
        ours, theirs = (kept, taken) if is_kept_ours else (taken, kept)
        yield Conflict(
            kind=clash.kind,
            table=type_.table_key,
            id=row_id,
            property=clash.property,
            base=base,
            ours=ours,
            theirs=theirs,
            message=_message(sides, type_, clash, row_id, base, ours, theirs),
        )


def _message(
    sides: Sides, type_: AnyType, clash: Clash, row_id: str, base: object, ours: object, theirs: object
) -> str:
    ours_name, theirs_name = sides.names["ours"], sides.names["theirs"]
    about = f"{type_.name} {quoted(row_id)}"
    if clash.kind is ConflictKind.DELETE_VS_UPDATE:
        dropper, changer, row = (ours_name, theirs_name, theirs) if ours is None else (theirs_name, ours_name, ours)
        names = ", ".join(f"`{name}`" for name in row) if isinstance(row, dict) else ""
        return f"{about} was deleted on `{dropper}`, and `{changer}` changed its {names}"
    both = f"{value_text(ours)} on `{ours_name}` and {value_text(theirs)} on `{theirs_name}`"
    if clash.kind is ConflictKind.DIVERGENT_INSERT:
        return f"{about} was inserted on both sides, with `{clash.property}` {both}"
    return f"`{clash.property}` of {about} was {value_text(base)}; it is {both}"


def merged_snapshot(sides: Sides, tables: Collection[MergedTable]) -> Snapshot:
    """The merged state before any row is brought: the versions that the tables start from, under their new keys."""
    manifest = sides.ours.snapshot.manifest
    pins = {table.key: replace(table.pin, table_key=table.key) for table in tables}
    schema = sides.view(sides.schema).snapshot.manifest.schema
    return replace(sides.ours.snapshot, manifest=replace(manifest, pins=pins, schema=schema))
