"""Register delegated functions with a Spark session."""

from collections.abc import Callable, Sequence

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import DataType

from omnigraph.engine.relational.delegates import DelegatedFunction
from omnigraph.schema.types import Scalar
from omnigraph.spark.read.spark_types import from_spark_column, to_spark_arrow_type, to_spark_type


def register_functions(spark: SparkSession, functions: Sequence[DelegatedFunction]) -> None:
    """Create the temporary functions that a statement calls."""
    for function in functions:
        spark.udf.register(function.name, build_function(function))


def build_function(function: DelegatedFunction) -> Callable[..., pa.Array]:
    """Return a function that Spark calls with batches of Arrow columns."""
    result = to_spark_type(function.type)
    # Its overloads know no type that is found at run time.
    udf: Callable[..., pa.Array] = arrow_udf(_build_call(function, result), returnType=result)  # type: ignore[call-overload]
    return udf


def _build_call(function: DelegatedFunction, result: DataType) -> Callable[..., pa.Array]:
    # One that reads no column gets a Bool, so that it knows how many rows there are.
    types = function.argument_types or (Scalar.BOOL,)
    result_type = to_spark_arrow_type(result)

    def call(*columns: pa.Array) -> pa.Array:
        stored = [from_spark_column(column, type_) for column, type_ in zip(columns, types, strict=True)]
        return function.evaluate(stored, len(columns[0])).cast(result_type)

    return call
