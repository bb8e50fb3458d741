"""Convert schemas and batches between our types and Spark's.

Spark has no unsigned integers: a U32 is a `bigint`, a U64 a `decimal(20,0)`. A vector is an array of floats, a Blob is
binary. A DateTime is a `timestamp`: an instant, in whatever time zone the session displays it.
"""

from collections.abc import Sequence
from typing import assert_never

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.pandas.types import to_arrow_type as to_arrow_type_of_spark
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

from omnigraph.errors import MissingError
from omnigraph.lang.spelling import find_closest
from omnigraph.schema.arrow import build_arrow_schema, to_arrow_type
from omnigraph.schema.catalog import AnyType
from omnigraph.schema.types import EnumOf, ListOf, Scalar, ValueType, VectorOf

_SPARK_TYPES: dict[Scalar, DataType] = {
    Scalar.STRING: StringType(),
    Scalar.BLOB: BinaryType(),
    Scalar.BOOL: BooleanType(),
    Scalar.I32: IntegerType(),
    Scalar.I64: LongType(),
    # Wider types for unsigned integers: every value fits, and none becomes negative.
    Scalar.U32: LongType(),
    Scalar.U64: DecimalType(20, 0),
    Scalar.F32: FloatType(),
    Scalar.F64: DoubleType(),
    Scalar.DATE: DateType(),
    Scalar.DATETIME: TimestampType(),
}


def to_spark_type(type_: ValueType) -> DataType:
    """Return the Spark type that can represent every value of a type."""
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
    """Return the schema of a type's table, or of some of its columns.

    The columns are `id` (for an edge also `src` and `dst`), then the properties.

    Raises:
        MissingError: There is no such column.
    """
    properties = type_.by_name
    all_names = build_arrow_schema(type_).names
    for name in columns or ():
        if name not in all_names:
            raise MissingError.column_not_found(type_.name, name, find_closest(name, all_names))
    fields = []
    for name in all_names if columns is None else dict.fromkeys(columns):
        p = properties.get(name)
        if p is None:
            fields.append(StructField(name, StringType(), nullable=False))
        else:
            fields.append(StructField(name, to_spark_type(p.type), nullable=p.nullable))
    return StructType(fields)


def to_spark_arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema in which Spark expects batches of a schema."""
    # Stored instants are in UTC, whatever time zone the session has.
    return to_arrow_schema(schema, timezone="UTC")


def to_spark_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Convert the columns of a stored batch that are in `schema` to Spark's types, without loss."""
    columns = [batch.column(field.name).cast(field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def from_spark_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Convert a batch of `to_spark_batch` back to the types of its table."""
    columns = [from_spark_array(batch.column(field.name), field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def to_spark_arrow_type(type_: DataType) -> pa.DataType:
    """Return the Arrow type in which Spark expects a column of a type."""
    return to_arrow_type_of_spark(type_, timezone="UTC")


def from_spark_column(column: pa.Array, type_: ValueType) -> pa.Array:
    """Convert a column of Spark's back to the type in which values of a type are stored."""
    return from_spark_array(column, to_arrow_type(type_))


def from_spark_array(column: pa.Array, type_: pa.DataType) -> pa.Array:
    """Convert a column of Spark's to another type, whose values it has in a wider one."""
    if pa.types.is_struct(type_):
        # Field by field, because some of them need a conversion of their own.
        fields = [from_spark_array(column.field(at), field.type) for at, field in enumerate(type_)]
        return pa.StructArray.from_arrays(fields, fields=list(type_), mask=column.is_null())
    if not pa.types.is_fixed_size_list(type_):
        return column.cast(type_)
    # Not a cast of the column: it crashes the process if all lists are null, in the form that the JVM sends them.
    vectors = pa.FixedSizeListArray.from_arrays(column.flatten(), type_.list_size).cast(type_)
    if not column.null_count:
        return vectors
    # `flatten` drops null lists, so the n-th valid row takes the n-th vector, and null rows take null.
    is_valid = column.is_valid().to_numpy(zero_copy_only=False)
    return vectors.take(pa.array(np.cumsum(is_valid) - 1, mask=~is_valid))
