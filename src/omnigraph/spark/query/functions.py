"""Register our own functions with a Spark session: delegated expressions and folds, over batches of Arrow columns."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import DataType

from omnigraph.engine.relational.delegates import DelegatedFunction
from omnigraph.engine.relational.fold_functions import FoldFunction, TotalFunction
from omnigraph.schema.types import Scalar
from omnigraph.spark.read.spark_types import from_spark_column, to_spark_arrow_type, to_spark_type
from omnigraph.spark.session.error_translation import carry_errors


@contextmanager
def create_functions(spark: SparkSession, functions: Iterable[DelegatedFunction | FoldFunction]) -> Iterator[None]:
    """Create temporary functions for the analysis of a statement; they are gone after the block."""
    names = []
    try:
        for function in functions:
            names.append(function.name)
            spark.udf.register(function.name, _build_function(function))
        yield
    finally:
        for name in names:
            spark.sql(f"drop temporary function if exists {name}")


def _build_function(function: DelegatedFunction | FoldFunction) -> Callable[..., pa.Array]:
    result = to_spark_type(function.type)
    if not isinstance(function, DelegatedFunction):
        call = _build_fold(function, result)
    else:
        call = _build_delegate(function, result)
    # The overloads know no type that is found at run time.
    udf = arrow_udf(call, returnType=result)  # type: ignore[call-overload]
    # One that reports an overflow may not be moved below a limit, to rows that are not in the result.
    can_move = not (
        (isinstance(function, DelegatedFunction) and function.reports_overflow)
        or (isinstance(function, TotalFunction) and function.is_row_value)
    )
    built: Callable[..., pa.Array] = udf if can_move else udf.asNondeterministic()
    return built


def _build_delegate(function: DelegatedFunction, result: DataType) -> Callable[..., pa.Array]:
    # One that reads no column gets a Bool, so that it knows how many rows there are.
    types = function.argument_types or (Scalar.BOOL,)
    result_type = to_spark_arrow_type(result)

    def call(*columns: pa.Array) -> pa.Array:
        with carry_errors():
            stored = [from_spark_column(column, type_) for column, type_ in zip(columns, types, strict=True)]
            return function.evaluate(stored, len(columns[0])).cast(result_type)

    return call


def _build_fold(function: FoldFunction, result: DataType) -> Callable[..., pa.Array]:
    result_type = to_spark_arrow_type(result)

    def call(*columns: pa.Array) -> pa.Array:
        with carry_errors():
            lists = [part for column in columns for part in _split_records(column)]
            return function.evaluate(lists).cast(result_type)

    return call


def _split_records(column: pa.Array) -> list[pa.Array]:
    """Return a column of lists of records as a column of lists for each field; any other column stays."""
    if not (pa.types.is_list(column.type) and pa.types.is_struct(column.type.value_type)):
        return [column]
    # A group that has no row at all has no list.
    lengths = pc.list_value_length(column).fill_null(0)
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths).cast(pa.int32())])
    records = column.flatten()
    return [pa.ListArray.from_arrays(offsets, field) for field in records.flatten()]
