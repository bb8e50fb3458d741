"""Run SQL statements, and convert their results to column types that every interface can show."""

import base64
import json
from collections.abc import Callable
from datetime import datetime
from functools import partial

import pyarrow as pa

from omnigraph.engine.result import Result, Target
from omnigraph.ops.session import Session
from omnigraph.schema.arrow import ArrowTypeError, type_from_arrow
from omnigraph.schema.values import BASE64_PREFIX
from omnigraph.spark.session.error_translation import surface_errors
from omnigraph.spark.session.job_monitor import run_job
from omnigraph.spark.session.spark_session import session as spark_session
from omnigraph.spark.spark_errors import SparkInputError
from omnigraph.spark.spark_graph import SparkGraph

NAME = "sql"
_UTC = pa.timestamp("us", tz="UTC")
# Arrow types that no property has, and the closest wider type that one may have.
_WIDER_TYPES = {
    pa.int8(): pa.int32(),
    pa.int16(): pa.int32(),
    pa.float16(): pa.float32(),
    pa.large_utf8(): pa.utf8(),
    pa.null(): pa.utf8(),
}


def execute(
    session: Session,
    statement: str,
    *,
    branch: str,
    snapshot: str | None,
    at: datetime | None,
    master: str | None,
) -> Result:
    """Run a SQL statement over one snapshot, and return its whole result.

    Raises:
        SparkInputError: Spark rejects the statement, or its result can't be shown.
        BranchMissingError, CommitMissingError: There is no such snapshot.
        JavaMissingError, SparkFailedError, SparkUsageError: Spark can't be used.
    """
    state = session.checkout(branch).resolve_snapshot(commit_id=snapshot, at=at)
    spark = spark_session(master)
    with surface_errors():
        frame = SparkGraph(session, state, spark).sql(statement)
        _check_names(frame.columns)
    table: pa.Table = run_job(spark, frame.toArrow, description="omnigraph spark sql")
    target = Target(branch=branch) if snapshot is None and at is None else Target(branch, state.commit.id)
    return Result.of_table(convert_table(table), commit_id=state.commit.id, target=target, query_name=NAME)


def convert_table(table: pa.Table) -> pa.Table:
    """Return the same rows with column types that a property may have; other values become text."""
    columns = [_convert_column(column.combine_chunks()) for column in table.columns]
    return pa.Table.from_arrays(columns, names=table.column_names)


def _check_names(names: list[str]) -> None:
    # Rows become dictionaries by column name, where a second column of a name would replace the first one.
    duplicate = next((name for name in names if names.count(name) > 1), None)
    if duplicate is not None:
        raise SparkInputError.sql(
            f"two columns of the result are called `{duplicate}`; give each its own name with `as`"
        )


def _convert_column(column: pa.Array) -> pa.Array:
    type_ = column.type
    if type_ in _WIDER_TYPES:
        return column.cast(_WIDER_TYPES[type_])
    if pa.types.is_timestamp(type_) and type_.tz is not None:
        return column.cast(_UTC)
    if pa.types.is_decimal(type_):
        return _convert_decimal(column)
    if pa.types.is_binary(type_) or pa.types.is_large_binary(type_):
        return _format_texts(column, lambda value: BASE64_PREFIX + base64.b64encode(value).decode())
    try:
        type_from_arrow(pa.field("", type_))
    except ArrowTypeError:
        # Structs and maps are shown as JSON, other types without a counterpart, such as intervals, by `str`.
        is_nested = pa.types.is_nested(type_)
        return _format_texts(column, partial(json.dumps, default=str, ensure_ascii=False) if is_nested else str)
    return column


def _convert_decimal(column: pa.Array) -> pa.Array:
    """Convert a decimal to an integer if all values fit, as those of a U64 do; else to text, which is exact."""
    # U64 properties are `decimal(20,0)` in Spark. Unsigned is tried last, so it is used only for values beyond I64.
    for type_ in (pa.int64(), pa.uint64()) if column.type.scale <= 0 else ():
        try:
            return column.cast(type_)
        except pa.ArrowInvalid:
            continue
    return column.cast(pa.utf8())


def _format_texts(column: pa.Array, format_value: Callable[..., str]) -> pa.Array:
    return pa.array([None if value is None else format_value(value) for value in column.to_pylist()], pa.utf8())
