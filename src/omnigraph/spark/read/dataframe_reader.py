"""Read a type's rows as a DataFrame: the driver plans what each task reads, and tasks pass Arrow batches to Spark.

This does not use the data source of this package. Spark converts the batches of a Python source to rows twice, and
calls a separate Python process for every step of planning. See decision 36.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, StringType

from omnigraph.spark.read.change_rows import SCHEMA as CHANGE_SCHEMA
from omnigraph.spark.read.change_rows import ChangeScan, CommitRange, read_changes
from omnigraph.spark.read.table_scan import ScanTask, TableScan, has_blobs, plan_scan_tasks, read_task
from omnigraph.spark.session.connect import count_parallel_tasks, is_connect
from omnigraph.spark.session.error_translation import carry_errors, surface_errors
from omnigraph.spark.session.handshake import TaskBody, map_tasks
from omnigraph.storage.fragment_list import Fragment

# The size of a number in Spark's statistics of a range.
_BYTES_PER_NUMBER = 8
# The minimum size of a value in a row of Spark: of a number, and of a text or a list.
_MIN_NUMBER_BYTES = 16
_MIN_TEXT_BYTES = 64
# Rows of Spark are about three times as large as the files that they are read from.
_EXPANSION_FACTOR = 3
# Through Spark Connect the numbers of a range are generated: this many take about 0.2 seconds of a core in all.
_MAX_GENERATED_BYTES = 1 << 30
# Far above every broadcast threshold: a table of unknown size must not be broadcast.
_UNKNOWN_BYTES = 1 << 50


def read_frame(spark: SparkSession, scan: TableScan) -> DataFrame:
    """Return the rows of a scan as a DataFrame, with a task for each core if there are enough rows."""
    fragments = scan.open_table().list_fragments()
    tasks = plan_scan_tasks(scan, fragments, min_tasks=count_parallel_tasks(spark))
    estimated = _estimate_bytes(scan, fragments)
    if is_connect(spark):
        estimated = min(estimated, _MAX_GENERATED_BYTES)
    step = max(estimated // _BYTES_PER_NUMBER // max(len(tasks), 1), 1)
    with surface_errors():
        return map_tasks(_build_numbers(spark, len(tasks), step), _build_task(scan, tasks, step), scan.schema)


def read_change_frame(spark: SparkSession, scan: ChangeScan, commits: Sequence[CommitRange]) -> DataFrame:
    """Return the changes of a scan as a DataFrame, with a task for each range of commits."""

    def changes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carry_errors():
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    yield from read_changes(scan, commits[number])

    count = len(commits)
    with surface_errors():
        return map_tasks(spark.range(0, count, 1, max(count, 1)), changes, CHANGE_SCHEMA)


def _build_task(scan: TableScan, tasks: Sequence[ScanTask], step: int) -> TaskBody:
    # Spark shows the name of the function in its plans.
    def omnigraph(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carry_errors():
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    yield from read_task(scan, tasks[number // step])

    return omnigraph


# --- Spark's estimate of the size ------------------------------------------------------------------------


def _build_numbers(spark: SparkSession, count: int, step: int) -> DataFrame:
    """Return one number for each of `count` tasks, from 0 in steps of `step`.

    Spark assumes that the output of a function is as large as its input, and chooses the join strategy by that. So the
    input is a range with `step` numbers per task, and a limit per partition (`LocalLimit`) passes only the first one;
    the others are never generated.
    """
    numbers = spark.range(0, count * step, 1, max(count, 1))
    if is_connect(spark):
        # A filter has the estimate of its input, too, and needs no JVM here.
        return numbers.where(f"id % {step} = 0")
    jvm = spark.sparkContext._jvm  # noqa: SLF001 - there is no public way to a limit of partitions
    assert jvm is not None  # noqa: S101 - there is a session
    # `limit` is a global limit over one per partition; the latter is its child.
    local_limit = numbers.limit(1)._jdf.queryExecution().analyzed().child()  # noqa: SLF001 - as above
    dataset = jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, local_limit)  # noqa: SLF001 - as above
    return DataFrame(dataset, spark)


def _estimate_bytes(scan: TableScan, fragments: Sequence[Fragment]) -> int:
    """Estimate the size of a scan's rows in Spark, rather too high: Spark broadcasts tables that it thinks are small.

    The files of all columns count, read or not. Only repetitive texts, which compress well, can exceed the estimate, as
    they can with Parquet.
    """
    if has_blobs(scan) or not all(fragment.nbytes for fragment in fragments):
        return _UNKNOWN_BYTES  # blobs are in separate files, and the sizes of files may be unknown
    rows = sum(fragment.rows - fragment.deleted for fragment in fragments)
    min_row_bytes = sum(
        _MIN_TEXT_BYTES if isinstance(field.dataType, StringType | ArrayType) else _MIN_NUMBER_BYTES
        for field in scan.schema
    )
    return max(rows * min_row_bytes, _EXPANSION_FACTOR * sum(fragment.nbytes for fragment in fragments))
