"""Types and tables in Arrow's terms, and back."""

import pyarrow as pa
import pytest
from hypothesis import given, settings

from omnigraph.errors import Kind
from omnigraph.schema.arrow import (
    ArrowTypeError,
    build_arrow_field,
    build_arrow_schema,
    identity_from_arrow,
    to_arrow_type,
    type_from_arrow,
)
from omnigraph.schema.catalog import UNASSIGNED, AnyType, Catalog, Property
from omnigraph.schema.identity import assign_identities
from omnigraph.schema.types import EnumOf, ListOf, Scalar, ValueType, VectorOf
from schema_making import accepted, catalogs

EVERY_TYPE: tuple[ValueType, ...] = (
    *Scalar,
    *(ListOf(scalar) for scalar in Scalar if scalar is not Scalar.BLOB),
    EnumOf(("a",)),
    EnumOf(("on", "off-line", "3")),
    VectorOf(1),
    VectorOf(65_536),
)


@pytest.mark.parametrize("type_", EVERY_TYPE, ids=str)
def test_a_field_gives_its_type_back(type_: ValueType) -> None:
    field = build_arrow_field(Property(name="x", type=type_, identity=7))

    assert type_from_arrow(field) == type_
    assert identity_from_arrow(field) == 7


@pytest.mark.parametrize(
    "type_, arrow",
    [
        (Scalar.STRING, pa.utf8()),
        (Scalar.U64, pa.uint64()),
        (Scalar.DATE, pa.date32()),
        (Scalar.DATETIME, pa.timestamp("us", tz="UTC")),
        (Scalar.BLOB, pa.large_binary()),
        (EnumOf(("a", "b")), pa.utf8()),
        (ListOf(Scalar.I32), pa.list_(pa.int32())),
        (VectorOf(3), pa.list_(pa.float32(), 3)),
    ],
    ids=str,
)
def test_a_type_has_its_arrow_type(type_: ValueType, arrow: pa.DataType) -> None:
    assert to_arrow_type(type_) == arrow


def test_a_table_starts_with_its_ids() -> None:
    catalog = accepted("node A { x: I32  y: String? } edge E: A -> A { z: F64 }")

    node, edge = build_arrow_schema(catalog.nodes["A"]), build_arrow_schema(catalog.edges["E"])

    assert [(f.name, f.nullable) for f in node] == [("id", False), ("x", False), ("y", True)]
    assert [(f.name, f.nullable) for f in edge] == [("id", False), ("src", False), ("dst", False), ("z", False)]


def test_a_blob_is_marked() -> None:
    field = build_arrow_field(Property(name="x", type=Scalar.BLOB))

    assert field.metadata == {b"omnigraph:type": b"Blob"}


def test_a_property_without_an_identity_has_none_in_arrow() -> None:
    assert identity_from_arrow(build_arrow_field(Property(name="x", type=Scalar.I32))) == UNASSIGNED


@settings(max_examples=30)
@given(catalogs())
def test_every_column_of_every_table_leads_back_to_its_property(schema: Catalog) -> None:
    catalog = assign_identities(schema, None)

    types: list[AnyType] = [*catalog.nodes.values(), *catalog.edges.values()]
    for type_ in types:
        table = build_arrow_schema(type_)
        for p in type_.properties:
            field = table.field(p.name)
            assert (type_from_arrow(field), identity_from_arrow(field), field.nullable) == (
                p.type,
                p.identity,
                p.nullable,
            )


@pytest.mark.parametrize(
    "field",
    [
        pa.field("x", pa.int8()),
        pa.field("x", pa.large_binary()),
        pa.field("x", pa.timestamp("ns", tz="UTC")),
        pa.field("x", pa.timestamp("us")),
        pa.field("x", pa.list_(pa.list_(pa.int32()))),
        pa.field("x", pa.list_(pa.float64(), 3)),
        pa.field("x", pa.int32(), metadata={"omnigraph:type": "Blob"}),
        pa.field("x", pa.utf8(), metadata={"omnigraph:type": "Map"}),
    ],
    ids=str,
)
def test_a_column_that_no_property_has_is_refused(field: pa.Field) -> None:
    with pytest.raises(ArrowTypeError, match="`x`") as raised:
        type_from_arrow(field)

    assert raised.value.kind is Kind.INVALID
