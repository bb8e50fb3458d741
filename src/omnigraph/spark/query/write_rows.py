"""Write the rows of a query on Spark from its executors: to Parquet files, a Lance table, or a table of the catalog.

None of the rows pass this process. The target is new: nothing is replaced.
"""

import shutil
from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path

import pyarrow as pa
from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812 - the name that everyone knows it by

from omnigraph.json_struct import JsonStruct
from omnigraph.ops.export import ExportTargetError, wrap_file_errors
from omnigraph.spark.query.run_query import SparkRows
from omnigraph.spark.read.spark_types import from_spark_array
from omnigraph.spark.session.error_translation import carry_errors
from omnigraph.spark.session.handshake import TaskBody, map_tasks
from omnigraph.spark.session.job_monitor import run_job
from omnigraph.storage.plain_table import create_plain_table, list_data_files, write_plain_rows

_RESULT_DDL = "fragment string, rows long"
_RESULT_SCHEMA = pa.schema([pa.field("fragment", pa.string()), pa.field("rows", pa.int64())])


class RowsFormat(Enum):
    """Where the rows of a query on Spark are written to."""

    PARQUET = "parquet"
    """A directory of Parquet files, in the types of Spark."""
    LANCE = "lance"
    """A Lance table, in the types of a result of `Graph.query`."""
    TABLE = "table"
    """A table of Spark's catalog, by its name."""


class WrittenRows(JsonStruct, frozen=True, kw_only=True):
    """What was written: the commit that was read, and the number of rows."""

    commit_id: str
    target: str
    format: RowsFormat
    rows: int


def write_rows(rows: SparkRows, target: str, format_: RowsFormat, commit_id: str) -> WrittenRows:
    """Write the rows of a query to a new target, in their order.

    Raises:
        ExportTargetError: The target exists, or executors don't see it, or a name has a dot that Lance refuses.
        QueryError: A calculation or an aggregate exceeds its type.
        SparkFailedError: Spark failed.
    """
    try:
        written = _write_lance(rows, target) if format_ is RowsFormat.LANCE else _write_frame(rows, target, format_)
    finally:
        rows.release()
    return WrittenRows(commit_id=commit_id, target=target, format=format_, rows=written)


def _write_frame(rows: SparkRows, target: str, format_: RowsFormat) -> int:
    counted = Observation()
    writer = rows.frame.observe(counted, F.count(F.lit(1)).alias("rows")).write.mode("error")

    def write() -> None:
        if format_ is RowsFormat.PARQUET:
            writer.parquet(target)
        else:
            writer.saveAsTable(target)

    spark = rows.frame.sparkSession
    is_there = spark.catalog.tableExists(target) if format_ is RowsFormat.TABLE else _exists(target)
    if is_there:
        raise _refuse(target)
    run_job(spark, write, description=f"omnigraph query {rows.query_name}: write {format_.value}")
    return int(counted.get["rows"])


def _write_lance(rows: SparkRows, target: str) -> int:
    if _exists(target):
        raise _refuse(target)
    schema = rows.schema
    dotted = next((name for name in schema.names if "." in name), None)
    if dotted is not None:
        reason = f"a column of a Lance table has no dot in its name; give `{dotted}` another one with `as`"
        raise ExportTargetError(f"`{target}`", reason)
    # A task knows columns by position: names of a result may differ in case only.
    numbered = rows.frame.toDF(*(f"c{number}" for number in range(len(schema))))
    frame = map_tasks(numbered, _build_task(target, schema), _RESULT_DDL)
    is_done = False
    try:
        # Rows of tasks come in the order of their partitions, which is that of the query.
        written = run_job(
            frame.sparkSession, frame.collect, description=f"omnigraph query {rows.query_name}: write lance"
        )
        fragments = [row["fragment"] for row in written]
        _check_files(target, fragments)
        create_plain_table(target, schema, fragments)
        is_done = True
    finally:
        if not is_done and "://" not in target:
            # What a failed job has left on a disk; nothing else was there. Objects of a bucket stay.
            shutil.rmtree(target, ignore_errors=True)
    return sum(row["rows"] for row in written)


def _build_task(target: str, schema: pa.Schema) -> TaskBody:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carry_errors():
            count = 0

            def convert() -> Iterator[pa.RecordBatch]:
                nonlocal count
                for batch in batches:
                    count += batch.num_rows
                    columns = [from_spark_array(batch.column(at), each.type) for at, each in enumerate(schema)]
                    yield pa.RecordBatch.from_arrays(columns, schema=schema)

            reader = pa.RecordBatchReader.from_batches(schema, convert())
            with wrap_file_errors(target):
                fragments = write_plain_rows(target, reader)
            for number, fragment in enumerate(fragments):
                row = {"fragment": fragment, "rows": 0 if number else count}
                yield pa.RecordBatch.from_pylist([row], schema=_RESULT_SCHEMA)

    return run


def _exists(target: str) -> bool:
    # Spark and Lance refuse a target in a bucket by themselves.
    return "://" not in target and Path(target).exists()


def _check_files(target: str, fragments: Sequence[str]) -> None:
    for fragment in fragments if "://" not in target else ():
        # An executor on another machine may have written to a local disk of its own.
        if not all((Path(target) / path).exists() for path in list_data_files(fragment)):
            reason = "files that executors wrote are missing here; name a directory that this machine shares with them"
            raise ExportTargetError(f"`{target}`", reason)


def _refuse(target: str) -> ExportTargetError:
    return ExportTargetError(f"`{target}`", "it exists, and rows of a query replace nothing; name another target")
