"""The changes of one side to a table since the merge base, projected to the columns of the merged schema."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.changed_ranges import Fills
from omnigraph.engine.table_diff import TableDiff, iter_updated_rows, read_rows_at
from omnigraph.engine.writing.blobs import REFERENCE, list_blob_properties, reference_blobs
from omnigraph.engine.writing.write_buffer import build_pending_schema
from omnigraph.schema.arrow import DST, ID, SRC, to_arrow_type
from omnigraph.schema.catalog import AnyType, EdgeType, Property
from omnigraph.schema.types import Scalar
from omnigraph.storage.columnar_sets import Mask, Positions, are_equal, concat_chunks, find_positions, repeat_scalar
from omnigraph.storage.lance_table import ADDRESS, LanceTable, verify, verify_rows
from omnigraph.storage.table_cache import VerifyLevel

# The `given` field of a reference to a blob in the table that rows are taken from; for the kept table it is null.
TAKEN = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SideChanges:
    """Inserted, updated and deleted rows. All tables have the columns of the merged type; a blob is a reference."""

    inserted: pa.Table
    before: pa.Table
    """The updated rows as the base has them; blob references there have a size but no address."""
    after: pa.Table
    changed: Mapping[str, Mask]
    """For each column, which of the updated rows have a new value."""
    deleted: pa.Array
    """The ids of deleted rows."""
    unknown: Mapping[str, Mask] = field(default_factory=dict)
    """For some columns, in which updated rows the value of the base is unknown; `before` is meaningless there."""
    absent: frozenset[str] = frozenset()
    """Columns that the side does not have: it did not change them, and its rows hold only fill values."""
    lost: tuple[str, ...] = ()
    """Properties that the merged type no longer has although these changes gave them values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateTable:
    """A table at one of the three states, and its type there."""

    type: AnyType
    table: LanceTable


def build_empty_changes(type_: AnyType) -> SideChanges:
    """Return the changes of a side that did not change the table."""
    empty = build_pending_schema(type_).empty_table()
    return SideChanges(inserted=empty, before=empty, after=empty, changed={}, deleted=pa.array([], pa.string()))


def build_all_inserted(type_: AnyType, version: StateTable, *, holder: int | None) -> SideChanges:
    """Return the changes of a side whose table the base does not have: every row is inserted."""
    verify(version.table, VerifyLevel.WHOLE)
    rows = RowProjection(type_, version, holder).project(version.table.scan())
    return replace(build_empty_changes(type_), inserted=rows, absent=_find_absent(type_, version))


def collect_changes(
    type_: AnyType, before: StateTable, after: StateTable, diff: TableDiff, *, holder: int | None
) -> SideChanges:
    """Return the changes between two versions as rows of `type_`; blob references name `holder`.

    A column that a newer schema added counts as changed where its value is not the fill value.
    """
    written = np.concatenate([diff.inserted, diff.later])
    verify_rows(after.table, written)
    projection = RowProjection(type_, after, holder, positions=written)
    inserted = projection.project(read_rows_at(after.table, diff.inserted))
    ids = read_rows_at(before.table, diff.deleted, [ID]).column(ID) if len(diff.deleted) else pa.array([], pa.string())
    befores = []
    afters = []
    masks = []
    dropped = _list_dropped(type_, after.type)
    lost = {name for name in dropped if _has_values(after.table, diff, name)}
    twins = _map_columns(before.type, after.type)
    for part in iter_updated_rows(before.table, after.table, diff, find_fills(type_, before.type, after.type), twins):
        # Old rows are only compared and shown, so their blobs need no address.
        old = RowProjection(type_, before, None, has_addresses=False).project(part.before)
        new = projection.project(part.after)
        changed = _find_changed(type_, before, after, part.changed, old, new)
        lost |= {name for name in dropped if name in part.changed}
        # A row may differ only in columns that the merged type no longer has.
        differs = np.logical_or.reduce([np.zeros(new.num_rows, np.bool_), *changed.values()])
        befores.append(old.filter(pa.array(differs)))
        afters.append(new.filter(pa.array(differs)))
        masks.append({name: mask[differs] for name, mask in changed.items()})
    schema = build_pending_schema(type_)
    empty = schema.empty_table()
    return SideChanges(
        inserted=inserted,
        before=pa.concat_tables([empty, *befores]),
        after=pa.concat_tables([empty, *afters]),
        changed={name: np.concatenate([mask[name] for mask in masks]) for name in schema.names if masks},
        deleted=concat_chunks(ids),
        absent=_find_absent(type_, after),
        lost=tuple(sorted(lost)),
    )


def _find_absent(type_: AnyType, version: StateTable) -> frozenset[str]:
    names = build_pending_schema(type_).names
    return frozenset(name for name in names if find_column(type_, version.type, name) is None)


def _map_columns(before: AnyType, after: AnyType) -> dict[str, str]:
    """Map the columns of the later state of a type to their names in the earlier state, if it has them."""
    key_columns = (ID, SRC, DST) if isinstance(after, EdgeType) else (ID,)
    old_names = {p.identity: p.name for p in before.properties}
    property_columns = {p.name: old_names[p.identity] for p in after.properties if p.identity in old_names}
    return {**{name: name for name in key_columns}, **property_columns}


def find_fills(type_: AnyType, before: AnyType, after: AnyType) -> Fills:
    """Return the columns that only the later state of a type has, with their fill values in the merged state."""
    old_identities = {p.identity for p in before.properties}
    merged = {p.identity: p for p in type_.properties}
    new = [p for p in after.properties if p.identity not in old_identities]
    return {p.name: _build_fill(merged.get(p.identity, p)) for p in new if p.type is not Scalar.BLOB}


def _build_fill(p: Property) -> pa.Scalar | None:
    return None if p.default is None else pa.array([p.default], to_arrow_type(p.type))[0]


def fill_known_values(
    type_: AnyType,
    changes: SideChanges,
    theirs: StateTable,
    kept: StateTable,
    read_rows: Callable[[pa.Array], pa.Table],
) -> SideChanges:
    """Fill the columns that a side lacks in its updated rows with the values of the kept side.

    `read_rows` returns the kept side's rows with the given ids that exist. An embedding whose source text the side
    changed would belong to the old text, so it becomes null until it is computed again.
    """
    names = [
        name
        for name in build_pending_schema(type_).names
        if find_column(type_, theirs.type, name) is None and find_column(type_, kept.type, name) is not None
    ]
    if not names or not changes.after.num_rows:
        return changes
    ids = concat_chunks(changes.after.column(ID))
    kept_rows = RowProjection(type_, kept, None).project(read_rows(ids))
    positions = find_positions(ids, kept_rows.column(ID))
    after = changes.after
    for name in names:
        at = after.schema.get_field_index(name)
        rows = np.arange(len(positions))
        # One `take` over both columns chooses per row: the kept side's value if it has the row, else the fill value.
        both = pa.concat_arrays([concat_chunks(kept_rows.column(name)), concat_chunks(after.column(name))])
        values = both.take(pa.array(np.where(positions >= 0, positions, kept_rows.num_rows + rows)))
        prop = type_.find_property(name)
        if prop is not None and prop.embedding is not None:
            values = pc.if_else(pa.array(changes.changed[prop.embedding.source]), pa.scalar(None, values.type), values)
        after = after.set_column(at, after.schema.field(at), values)
    return replace(changes, after=after)


def _list_dropped(type_: AnyType, other: AnyType) -> list[str]:
    """Return the properties of another state of a type that `type_` does not have."""
    identities = {p.identity for p in type_.properties}
    return [p.name for p in other.properties if p.identity not in identities]


def _has_values(table: LanceTable, diff: TableDiff, name: str) -> bool:
    """Return whether an inserted row has a value in a column."""
    if not len(diff.inserted):
        return False
    column = read_rows_at(table, diff.inserted, [name]).column(name)
    return bool(column.null_count < len(column))


def _find_changed(
    type_: AnyType, before: StateTable, after: StateTable, masks: Mapping[str, Mask], old: pa.Table, new: pa.Table
) -> dict[str, Mask]:
    """Return, by column of the type, which rows changed; `masks` has the names of the later version."""
    changed: dict[str, Mask] = {}
    for name in new.schema.names:
        old_name = find_column(type_, before.type, name)
        new_name = find_column(type_, after.type, name)
        if new_name is None:
            changed[name] = np.zeros(new.num_rows, np.bool_)
        elif old_name is None and new.schema.field(name).type != REFERENCE:
            # A new column: its old value is the fill value that the projection has put there.
            changed[name] = ~are_equal(concat_chunks(old.column(name)), concat_chunks(new.column(name)))
        else:
            changed[name] = masks.get(new_name, np.zeros(new.num_rows, np.bool_))
    return changed


def find_column(type_: AnyType, other: AnyType, name: str) -> str | None:
    """Return the name of a column of a type in another state of that type; None if it has no such column."""
    prop = type_.find_property(name)
    # The id and the ends of an edge are no properties, and have the same name everywhere.
    if prop is None:
        return name
    return next((p.name for p in other.properties if p.identity == prop.identity), None)


@dataclass(frozen=True, slots=True)
class RowProjection:
    """Projects the rows of one version to pending rows of a type."""

    type: AnyType
    version: StateTable
    holder: int | None
    """The holder named in its blob references: None for the kept table, `TAKEN`, or the number of another version."""
    has_addresses: bool = True
    positions: Positions | None = None
    """Positions of its rows among the live rows, in any order; without them rows with blobs are looked up by id."""

    def project(self, rows: pa.Table) -> pa.Table:
        """Return rows of the version in the columns of the type."""
        blobs = self._build_references(rows)
        columns = []
        for column in build_pending_schema(self.type):
            name = find_column(self.type, self.version.type, column.name)
            if name is None:
                columns.append(_build_filled(self.type, column, rows.num_rows))
            else:
                columns.append(blobs[name] if name in blobs else rows.column(name).cast(column.type))
        return pa.table(columns, schema=build_pending_schema(self.type))

    def _build_references(self, rows: pa.Table) -> dict[str, pa.Array]:
        names = list_blob_properties(self.version.type)
        if not names or not rows.num_rows:
            return {name: pa.nulls(rows.num_rows, REFERENCE) for name in names}
        if not self.has_addresses:
            return {name: _build_sized_references(concat_chunks(rows.column(name))) for name in names}
        references = reference_blobs(self.version.type, self._add_addresses(rows, names))
        holders = pa.repeat(pa.scalar(self.holder, pa.int32()), rows.num_rows)
        return {name: _set_holder(concat_chunks(references.column(name)), holders) for name in names}

    def _add_addresses(self, rows: pa.Table, names: Sequence[str]) -> pa.Table:
        """Return the blob descriptions of the rows, each with the row's address."""
        table = self.version.table
        ids = concat_chunks(rows.column(ID))
        if self.positions is None:
            addressed = table.find_rows(ID, ids, [ID, *names], with_address=True)
            return addressed.take(pa.array(find_positions(ids, addressed.column(ID))))
        # Positions give the addresses without a lookup; their ids say which row is at which position.
        ids_at_positions = read_rows_at(table, self.positions, [ID]).column(ID)
        addresses = table.get_address_map().to_addresses(self.positions)[find_positions(ids, ids_at_positions)]
        return rows.select([ID, *names]).append_column(ADDRESS, pa.array(addresses))


def _set_holder(references: pa.Array, holders: pa.Array) -> pa.Array:
    parts = [holders, references.field("address"), references.field("size")]
    return pa.StructArray.from_arrays(parts, fields=list(REFERENCE), mask=references.is_null())


def _build_sized_references(descriptions: pa.Array) -> pa.Array:
    no_addresses = pa.nulls(len(descriptions), pa.uint64())
    parts = [pa.nulls(len(descriptions), pa.int32()), no_addresses, descriptions.field("size").cast(pa.uint64())]
    return pa.StructArray.from_arrays(parts, fields=list(REFERENCE), mask=descriptions.is_null())


def _build_filled(type_: AnyType, field: pa.Field, rows: int) -> pa.Array:
    prop = type_.find_property(field.name)
    if prop is None or prop.default is None:
        return pa.nulls(rows, field.type)
    return repeat_scalar(pa.array([prop.default], field.type)[0], rows)
