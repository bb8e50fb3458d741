"""A type's rows as a DataFrame: the driver says what each task reads, and tasks hand Arrow batches to Spark.

Not through the data source of this package. Spark makes rows of its own of what such a source hands over, and then
makes them once more; and it asks a Python process of its own for every step of planning. See decision 36.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, StringType

from omnigraph.runtime_memory import reuse_batch_memory
from omnigraph.spark.read.table_scan import ScanTask, TableScan, has_blobs, plan_scan_tasks, read_task
from omnigraph.spark.session.error_translation import carry_errors, surface_errors
from omnigraph.spark.session.handshake import TaskBody, map_tasks
from omnigraph.storage.lance_table import Fragment

_BYTES_PER_NUMBER = 8
"""What Spark takes a number for, in bytes."""
_MIN_NUMBER_BYTES, _MIN_TEXT_BYTES = 16, 64
"""What a value takes in a row of Spark, at least: a number, and a text or a list."""
_EXPANSION_FACTOR = 3
"""Rows of Spark are about so many times as large as the files that they are read from."""
_UNKNOWN_BYTES = 1 << 50


def read_frame(spark: SparkSession, scan: TableScan) -> DataFrame:
    """The rows of a scan, read in as many tasks as its size asks for, or as there are cores where that pays."""
    fragments = scan.open_table().list_fragments()
    todo = plan_scan_tasks(scan, fragments, min_tasks=spark.sparkContext.defaultParallelism)
    each = max(_estimate_bytes(scan, fragments) // _BYTES_PER_NUMBER // max(len(todo), 1), 1)
    with surface_errors():
        return map_tasks(_build_numbers(spark, len(todo), each), _build_task(scan, todo, each), scan.schema)


def _build_task(scan: TableScan, todo: Sequence[ScanTask], each: int) -> TaskBody:
    def omnigraph(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reuse_batch_memory()
        with carry_errors():
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    yield from read_task(scan, todo[number // each])

    return omnigraph


# --- what Spark thinks of its size -----------------------------------------------------------------------


def _build_numbers(spark: SparkSession, count: int, each: int) -> DataFrame:
    """A number for each of so many tasks, from 0 in steps of `each`.

    Spark takes the output of a function for as large as its input, and chooses by that how to join it. So it is told of
    `each` numbers in a task, of which the limit of a partition lets the first one pass; no other is made.
    """
    every = spark.range(0, count * each, 1, max(count, 1))
    jvm = spark.sparkContext._jvm  # noqa: SLF001 - there is no public way to a limit of partitions
    assert jvm is not None  # noqa: S101 - there is a session
    of_partitions = every.limit(1)._jdf.queryExecution().analyzed().child()  # noqa: SLF001 - as above
    found = jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, of_partitions)  # noqa: SLF001 - as above
    return DataFrame(found, spark)


def _estimate_bytes(scan: TableScan, fragments: Sequence[Fragment]) -> int:
    """About how large the rows of a scan are in Spark, rather more than less: what it takes for small, it broadcasts.

    By the files of all columns, read or not. Only texts that are much alike are larger than this says, as they are in
    Parquet: nothing tells how long they are but themselves.
    """
    if has_blobs(scan) or not all(one.nbytes for one in fragments):
        return _UNKNOWN_BYTES  # blobs lie in files of their own, and sizes of files may be unknown
    rows = sum(one.rows - one.deleted for one in fragments)
    least = sum(
        _MIN_TEXT_BYTES if isinstance(field.dataType, StringType | ArrayType) else _MIN_NUMBER_BYTES
        for field in scan.schema
    )
    return max(rows * least, _EXPANSION_FACTOR * sum(one.nbytes for one in fragments))
