"""What one side has done to a table since the base, in the columns of the type that the merged state has."""

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

TAKEN = 1
"""What `given` says in the reference to a blob of the table that rows are taken from; of one's own it is null."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SideChanges:
    """Rows that came, went, or say something else. All have the same columns; a blob is a reference."""

    inserted: pa.Table
    before: pa.Table
    """The updated rows as the base has them; the references there lead nowhere."""
    after: pa.Table
    changed: Mapping[str, Mask]
    """For each column, which of the updated rows have another value now."""
    deleted: pa.Array
    """The ids of rows that went."""
    unknown: Mapping[str, Mask] = field(default_factory=dict)
    """For columns that are named, of which updated rows it is not known what the base had, whatever `before` says."""
    absent: frozenset[str] = frozenset()
    """Columns that the side does not know: it says nothing about them, whatever its rows are filled with."""
    lost: tuple[str, ...] = ()
    """Properties that the type does not have any more, and that these changes gave values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateTable:
    """A table at one of the three states, and its type there."""

    type: AnyType
    table: LanceTable


def build_empty_changes(type_: AnyType) -> SideChanges:
    """Of a side that left the table as it was."""
    empty = build_pending_schema(type_).empty_table()
    return SideChanges(inserted=empty, before=empty, after=empty, changed={}, deleted=pa.array([], pa.string()))


def build_all_inserted(type_: AnyType, version: StateTable, *, holder: int | None) -> SideChanges:
    """Of a side whose table the base does not have: every row came."""
    verify(version.table, VerifyLevel.WHOLE)
    rows = RowProjection(type_, version, holder).project(version.table.scan())
    return replace(build_empty_changes(type_), inserted=rows, absent=_find_absent(type_, version))


def collect_changes(
    type_: AnyType, before: StateTable, after: StateTable, found: TableDiff, *, holder: int | None
) -> SideChanges:
    """The changes from one version to another, as rows of `type_`; references to blobs say that `holder` has them.

    Columns that only a new schema brought count as changed where they say something else than what it fills them with.
    """
    written = np.concatenate([found.inserted, found.later])
    verify_rows(after.table, written)
    shape = RowProjection(type_, after, holder, positions=written)
    inserted = shape.project(read_rows_at(after.table, found.inserted))
    ids = (
        read_rows_at(before.table, found.deleted, [ID]).column(ID) if len(found.deleted) else pa.array([], pa.string())
    )
    befores, afters, masks = [], [], []
    lost = {name for name in _list_unknown(type_, after.type) if _has_values(after.table, found, name)}
    twins = _map_columns(before.type, after.type)
    for part in iter_updated_rows(before.table, after.table, found, find_fills(type_, before.type, after.type), twins):
        old = RowProjection(type_, before, None, has_addresses=False).project(part.before)
        new = shape.project(part.after)
        changed = _find_changed(type_, before, after, part.changed, old, new)
        lost |= {name for name in _list_unknown(type_, after.type) if name in part.changed}
        differs = np.logical_or.reduce([np.zeros(new.num_rows, np.bool_), *changed.values()])
        befores.append(old.filter(pa.array(differs)))
        afters.append(new.filter(pa.array(differs)))
        masks.append({name: mask[differs] for name, mask in changed.items()})
    empty = build_pending_schema(type_).empty_table()
    return SideChanges(
        inserted=inserted,
        before=pa.concat_tables([empty, *befores]),
        after=pa.concat_tables([empty, *afters]),
        changed={
            name: np.concatenate([mask[name] for mask in masks]) for name in build_pending_schema(type_).names if masks
        },
        deleted=concat_chunks(ids),
        absent=_find_absent(type_, after),
        lost=tuple(sorted(lost)),
    )


def _find_absent(type_: AnyType, version: StateTable) -> frozenset[str]:
    names = build_pending_schema(type_).names
    return frozenset(name for name in names if find_column(type_, version.type, name) is None)


def _map_columns(before: AnyType, after: AnyType) -> dict[str, str]:
    """By column of the later state of a type, what it is called in the earlier one, if that has it."""
    own = (ID, SRC, DST) if isinstance(after, EdgeType) else (ID,)
    known = {p.identity: p.name for p in before.properties}
    lasting = {p.name: known[p.identity] for p in after.properties if p.identity in known}
    return {**{name: name for name in own}, **lasting}


def find_fills(type_: AnyType, before: AnyType, after: AnyType) -> Fills:
    """The columns that the later state of a type alone has, with what fills them in the merged one."""
    known = {p.identity for p in before.properties}
    merged = {p.identity: p for p in type_.properties}
    new = [p for p in after.properties if p.identity not in known]
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
    """Updated rows of a side that lacks some columns, with what the rows of the kept side say in them.

    `read_rows` gives the kept side's rows with some ids, as far as there are any. A vector that is computed from a text
    which the side changed belongs to another text: it is null, until it is computed again.
    """
    names = [
        name
        for name in build_pending_schema(type_).names
        if find_column(type_, theirs.type, name) is None and find_column(type_, kept.type, name) is not None
    ]
    if not names or not changes.after.num_rows:
        return changes
    ids = concat_chunks(changes.after.column(ID))
    found = RowProjection(type_, kept, None).project(read_rows(ids))
    places = find_positions(ids, found.column(ID))
    after = changes.after
    for name in names:
        at, rows = after.schema.get_field_index(name), np.arange(len(places))
        both = pa.concat_arrays([concat_chunks(found.column(name)), concat_chunks(after.column(name))])
        values = both.take(pa.array(np.where(places >= 0, places, found.num_rows + rows)))
        prop = type_.find_property(name)
        if prop is not None and prop.embedding is not None:
            values = pc.if_else(pa.array(changes.changed[prop.embedding.source]), pa.scalar(None, values.type), values)
        after = after.set_column(at, after.schema.field(at), values)
    return replace(changes, after=after)


def _list_unknown(type_: AnyType, other: AnyType) -> list[str]:
    """The properties of another state of a type that it has not."""
    known = {p.identity for p in type_.properties}
    return [p.name for p in other.properties if p.identity not in known]


def _has_values(table: LanceTable, found: TableDiff, name: str) -> bool:
    """Whether a row that came has a value in a column."""
    if not len(found.inserted):
        return False
    column = read_rows_at(table, found.inserted, [name]).column(name)
    return bool(column.null_count < len(column))


def _find_changed(
    type_: AnyType, before: StateTable, after: StateTable, masks: Mapping[str, Mask], old: pa.Table, new: pa.Table
) -> dict[str, Mask]:
    """By column of the type, which rows changed; `masks` are by the names of the later version."""
    found: dict[str, Mask] = {}
    for name in new.schema.names:
        known, later = find_column(type_, before.type, name), find_column(type_, after.type, name)
        if later is None:
            found[name] = np.zeros(new.num_rows, np.bool_)
        elif known is None and new.schema.field(name).type != REFERENCE:
            found[name] = ~are_equal(concat_chunks(old.column(name)), concat_chunks(new.column(name)))
        else:
            found[name] = masks.get(later, np.zeros(new.num_rows, np.bool_))
    return found


def find_column(type_: AnyType, other: AnyType, name: str) -> str | None:
    """What a column of a type is called in another state of that type; None where it has no such column."""
    prop = type_.find_property(name)
    if prop is None:
        return name  # the id, or an end of an edge
    return next((p.name for p in other.properties if p.identity == prop.identity), None)


@dataclass(frozen=True, slots=True)
class RowProjection:
    """How the rows of one version become pending rows of the type."""

    type: AnyType
    version: StateTable
    holder: int | None
    """Who has its blobs: None for the table that rows are brought to, `TAKEN`, or a number of another one."""
    has_addresses: bool = True
    positions: Positions | None = None
    """Where its rows lie among those that live, in any order; without them rows with blobs are looked up by id."""

    def project(self, rows: pa.Table) -> pa.Table:
        """Rows that were read, in the columns of the type."""
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
        mark = pa.repeat(pa.scalar(self.holder, pa.int32()), rows.num_rows)
        return {name: _mark(concat_chunks(references.column(name)), mark) for name in names}

    def _add_addresses(self, rows: pa.Table, names: Sequence[str]) -> pa.Table:
        """The rows' blobs as the table describes them, each with the row's address."""
        table, ids = self.version.table, concat_chunks(rows.column(ID))
        if self.positions is None:
            found = table.find_rows(ID, ids, [ID, *names], with_address=True)
            return found.take(pa.array(find_positions(ids, found.column(ID))))
        known = read_rows_at(table, self.positions, [ID]).column(ID)
        addresses = table.get_address_map().to_addresses(self.positions)[find_positions(ids, known)]
        return rows.select([ID, *names]).append_column(ADDRESS, pa.array(addresses))


def _mark(references: pa.Array, mark: pa.Array) -> pa.Array:
    parts = [mark, references.field("address"), references.field("size")]
    return pa.StructArray.from_arrays(parts, fields=list(REFERENCE), mask=references.is_null())


def _build_sized_references(described: pa.Array) -> pa.Array:
    nothing = pa.nulls(len(described), pa.uint64())
    parts = [pa.nulls(len(described), pa.int32()), nothing, described.field("size").cast(pa.uint64())]
    return pa.StructArray.from_arrays(parts, fields=list(REFERENCE), mask=described.is_null())


def _build_filled(type_: AnyType, field: pa.Field, rows: int) -> pa.Array:
    prop = type_.find_property(field.name)
    if prop is None or prop.default is None:
        return pa.nulls(rows, field.type)
    return repeat_scalar(pa.array([prop.default], field.type)[0], rows)
