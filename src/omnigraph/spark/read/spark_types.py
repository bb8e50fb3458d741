"""The columns of a type in Spark's terms, and rows of a table on their way there.

Spark has no unsigned integers: a U32 is a `bigint`, a U64 a `decimal(20,0)`. A vector is an array of floats, a Blob its
bytes. A DateTime is a `timestamp`, an instant whatever zone the session shows it in.
"""

from collections.abc import Sequence
from typing import assert_never

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from omnigraph.errors import Kind, OmnigraphError
from omnigraph.lang.spelling import find_closest
from omnigraph.schema.arrow import build_arrow_schema
from omnigraph.schema.catalog import AnyType
from omnigraph.schema.types import EnumOf, ListOf, Scalar, ValueType, VectorOf

_SPARK_TYPES: dict[Scalar, DataType] = {
    Scalar.STRING: StringType(),
    Scalar.BLOB: BinaryType(),
    Scalar.BOOL: BooleanType(),
    Scalar.I32: IntegerType(),
    Scalar.I64: LongType(),
    Scalar.U32: LongType(),
    Scalar.U64: DecimalType(20, 0),
    Scalar.F32: FloatType(),
    Scalar.F64: DoubleType(),
    Scalar.DATE: DateType(),
    Scalar.DATETIME: TimestampType(),
}


class ColumnMissingError(OmnigraphError):
    """A column was asked for that a type does not have; `near` is the one that was likely meant."""

    kind = Kind.NOT_FOUND
    code = "column_not_found"

    def __init__(self, type: str, column: str, near: str | None) -> None:
        super().__init__(type, column, near)
        self.type, self.column, self.near = type, column, near

    def __str__(self) -> str:
        way_out = f"; did you mean `{self.near}`?" if self.near else ""
        return f"`{self.type}` has no column `{self.column}`{way_out}"


def to_spark_type(type_: ValueType) -> DataType:
    """The Spark type that holds every value of a type."""
    match type_:
        case Scalar():
            return _SPARK_TYPES[type_]
        case EnumOf():
            return StringType()
        case ListOf(element=element):
            return ArrayType(_SPARK_TYPES[element], containsNull=False)
        case VectorOf():
            return ArrayType(FloatType(), containsNull=False)
        case _:
            assert_never(type_)


def to_spark_schema(type_: AnyType, columns: Sequence[str] | None = None) -> StructType:
    """The columns of a type's table: `id` (of an edge also `src` and `dst`), then its properties; or only some.

    Raises:
        ColumnMissingError: There is no such column.
    """
    properties = type_.by_name
    every = build_arrow_schema(type_).names
    for name in columns or ():
        if name not in every:
            raise ColumnMissingError(type_.name, name, find_closest(name, every))
    fields = []
    for name in every if columns is None else dict.fromkeys(columns):
        p = properties.get(name)
        fields.append(
            StructField(name, StringType(), nullable=False)
            if p is None
            else StructField(name, to_spark_type(p.type), nullable=p.nullable)
        )
    return StructType(fields)


def to_spark_arrow_schema(schema: StructType) -> pa.Schema:
    """What Spark wants to be handed for a schema."""
    return to_arrow_schema(schema, timezone="UTC")


def to_spark_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of a stored batch that `schema` names, in Spark's types. Nothing is lost: see the module."""
    columns = [batch.column(field.name).cast(field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def from_spark_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch that was `to_spark_batch`, in the types of its table again."""
    columns = [_from_spark_column(batch.column(field.name), field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _from_spark_column(column: pa.Array, type_: pa.DataType) -> pa.Array:
    if not pa.types.is_fixed_size_list(type_):
        return column.cast(type_)
    # Not by a cast: of lists that are all null, as the JVM hands them over, it ends the process.
    vectors = pa.FixedSizeListArray.from_arrays(column.flatten(), type_.list_size).cast(type_)
    if not column.null_count:
        return vectors
    is_given = column.is_valid().to_numpy(zero_copy_only=False)
    return vectors.take(pa.array(np.cumsum(is_given) - 1, mask=~is_given))
