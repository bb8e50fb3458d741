"""Turn values that hold whole nodes and edges as positions into objects, and describe the columns of a result."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.query.expr import ArrayOf, EdgeRef, Entity, EntityType, ExprType, MetaColumn, NodeRef, Prop, RecordOf
from omnigraph.query.union_types import TYPE_COLUMN, is_union, list_object_fields
from omnigraph.schema.arrow import TYPE_KEY, to_arrow_type
from omnigraph.schema.catalog import Catalog, Property
from omnigraph.schema.types import EnumOf, Scalar, ValueType, VectorOf
from omnigraph.storage.arrow_buffers import is_valid

# What an object takes in each of its columns, at least: an offset or a number, and a bit for null.
_BYTES_PER_VALUE = 9
# What every object of a node or edge has after its ids: the name of its type.
TYPE_PROPERTY = Property(name=TYPE_COLUMN, type=Scalar.STRING)


# --- schemas -------------------------------------------------------------------------------------------


def build_output_field(name: str, type_: ExprType, catalog: Catalog, *, nullable: bool) -> pa.Field:
    """Return the Arrow field of a result's column: lists and records keep their shape, nodes and edges are objects."""
    match type_:
        case NodeRef() | EdgeRef():
            fields = build_entity_fields(type_, list_object_properties(type_, catalog), nullable=nullable)
            return pa.field(name, pa.struct(list(fields)), nullable=nullable)
        case RecordOf(fields=fields):
            children = [
                build_output_field(
                    field_name, field_type, catalog, nullable=nullable or field_name not in type_.required
                )
                for field_name, field_type in fields
            ]
            return pa.field(name, pa.struct(children), nullable=nullable)
        case ArrayOf(element=element):
            # Lists hold no nulls.
            item = build_output_field("item", element, catalog, nullable=False)
            return pa.field(name, pa.list_(item), nullable=nullable)
        case _:
            return _build_value_field(name, type_, nullable)


def build_entity_fields(
    type_: EntityType, properties: Sequence[Property | Prop], *, nullable: bool
) -> tuple[pa.Field, ...]:
    """Return the fields of the object of a whole node or edge: its ids, then `@type` and its properties.

    In an object that may be null all fields may be: Parquet has no place for the fields of a null object otherwise.
    """
    ids = tuple(pa.field(meta.value, pa.utf8(), nullable=nullable) for meta in list_ids(type_))
    return (*ids, *(_build_value_field(p.name, p.type, nullable or p.nullable) for p in properties))


def list_ids(type_: EntityType) -> tuple[MetaColumn, ...]:
    """Return the id columns of the object of a node or edge."""
    return (MetaColumn.ID,) if isinstance(type_, NodeRef) else (MetaColumn.ID, MetaColumn.SRC, MetaColumn.DST)


def list_object_properties(type_: EntityType, catalog: Catalog) -> tuple[Property, ...]:
    """Return what the object of a node or edge has after its ids: `@type`, and all properties but Blob and Vector.

    The object of a union has what any of its members has.
    """
    properties = list_object_fields(catalog, type_.name)
    return (TYPE_PROPERTY, *(p for p in properties if not isinstance(p.type, VectorOf) and p.type is not Scalar.BLOB))


def list_entity_properties(entity: Entity) -> tuple[Property | Prop, ...]:
    """Return the same for an entity of a plan, whose fields have `@type` only where rows of several types unite."""
    return entity.fields if is_union(entity.type.name) else (TYPE_PROPERTY, *entity.fields)


def _build_value_field(name: str, type_: ValueType, nullable: bool) -> pa.Field:
    # Arrow has no type of its own for these, so their name goes into the metadata.
    needs_type_name = type_ is Scalar.BLOB or isinstance(type_, EnumOf)
    metadata = {TYPE_KEY: str(type_).encode()} if needs_type_name else None
    return pa.field(name, to_arrow_type(type_), nullable=nullable, metadata=metadata)


# --- values --------------------------------------------------------------------------------------------


def materialise(values: pa.Array, type_: ExprType, context: ExecutionContext, *, nullable: bool) -> pa.Array:
    """Return values with every position of a node or edge replaced by its object, at any depth.

    The result has the type of `build_output_field`.
    """
    match type_:
        case NodeRef() | EdgeRef():
            return _build_objects(values, type_, context, nullable=nullable)
        case RecordOf(fields=fields):
            target = build_output_field("", type_, context.catalog, nullable=nullable).type
            # The kernel, unlike the child array, is null where the record is.
            columns = [
                materialise(
                    pc.struct_field(values, [index]), field_type, context, nullable=target.field(index).nullable
                )
                for index, (_, field_type) in enumerate(fields)
            ]
            # An empty map has no columns to build.
            if not columns:
                return values
            return pa.StructArray.from_arrays(columns, fields=list(target), mask=_find_missing(values))
        case ArrayOf(element=element):
            target = build_output_field("", type_, context.catalog, nullable=nullable).type
            return _rebuild_lists(values, materialise(values.flatten(), element, context, nullable=False), target)
        case _:
            return values


def _build_objects(positions: pa.Array, type_: EntityType, context: ExecutionContext, *, nullable: bool) -> pa.Array:
    properties = list_object_properties(type_, context.catalog)
    fields = build_entity_fields(type_, properties, nullable=nullable)
    nbytes = len(positions) * len(fields) * _BYTES_PER_VALUE
    context.budget.claim(nbytes, f"{len(positions):,} objects of {type_}")
    columns = []
    for field in fields:
        column = context.take_at(type_.name, field.name, positions)
        columns.append(column if column.type == field.type else column.cast(field.type))
        context.budget.check()
    context.budget.release(nbytes)
    return pa.StructArray.from_arrays(columns, fields=list(fields), mask=_find_missing(positions))


def _find_missing(values: pa.Array) -> pa.Array | None:
    return values.is_null() if values.null_count else None


def _rebuild_lists(lists: pa.Array, elements: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return lists of the same lengths with other elements."""
    valid = is_valid(lists)
    counts = np.where(valid, np.diff(lists.offsets.to_numpy()), 0)
    offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    # A null offset makes the list that begins there null; the last one is the end.
    is_missing = np.append(~valid, False)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32(), mask=is_missing), elements, type=type_)
