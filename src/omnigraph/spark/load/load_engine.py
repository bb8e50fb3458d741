"""Run a load on Spark: the reader that `ops.load.load` uses instead of the local one."""

from dataclasses import dataclass

from pyspark.sql import SparkSession

from omnigraph.commit.manifest_log import Head
from omnigraph.engine.bulk.load_batch import LoadMode, OnDuplicate
from omnigraph.errors import BadArgumentError
from omnigraph.ops.load_call import LoadCall
from omnigraph.ops.load_engine import LoadRecords, Reader
from omnigraph.ops.session import Session
from omnigraph.spark.load.frame_packing import pack_partitions
from omnigraph.spark.load.input_splits import TARGET_BYTES, check_reachable
from omnigraph.spark.load.load_append import SparkRecords
from omnigraph.spark.load.load_input import SparkInput
from omnigraph.spark.load.load_jobs import (
    MAX_DRIVER_SUSPECTS,
    MAX_LOCAL_KEYS,
    MAX_LOCAL_MERGE_ROWS,
    MAX_LOCAL_READ_BYTES,
    MAX_LOCAL_REREAD_BYTES,
    LoadJobs,
)
from omnigraph.spark.load.load_merge import SparkMerge
from omnigraph.spark.session.connect import count_parallel_tasks, get_master
from omnigraph.spark.session.spark_session import session as spark_session


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkLoadOptions:
    """The limits by which a load divides its work between the driver and executors."""

    split_bytes: int = TARGET_BYTES
    """The approximate number of bytes of a file that one task reads."""
    max_local_keys: int = MAX_LOCAL_KEYS
    """Up to this number of keys, the driver compares them itself."""
    max_local_reread_bytes: int = MAX_LOCAL_REREAD_BYTES
    """Up to this number of bytes, the driver itself reads files that have to be read again."""
    max_local_merge_rows: int = MAX_LOCAL_MERGE_ROWS
    """Up to this number of rows, the driver fills and writes a merge itself."""
    max_local_read_bytes: int = MAX_LOCAL_READ_BYTES
    """Up to this number of bytes, the driver of a merge reads the files itself."""
    max_driver_suspects: int = MAX_DRIVER_SUSPECTS
    """Up to this number of suspicious keys, the driver looks at their rows itself."""
    max_local_rebase_rows: int = MAX_LOCAL_KEYS
    """Up to this number of own rows, the driver of a load that lost a swap reads them itself: a job takes longer."""


def build_reader(
    master: str | None = None, spark: SparkSession | None = None, loading: SparkLoadOptions | None = None
) -> Reader:
    """Return the reader by which `ops.load.load` runs on Spark: on `spark`, or the active session, or a new one.

    `master` is where a new session runs. A DataFrame may be the data of a type. In addition to the errors of every
    load, the reader may raise these:

    Raises:
        SparkInputError: An input gave other rows when it was read again, or a function of the caller failed.
        SparkFailedError, SparkUsageError: Spark failed.
    """
    options = loading or SparkLoadOptions()

    def read(session: Session, call: LoadCall, head: Head) -> LoadRecords:
        if call.on_duplicate is not OnDuplicate.ERROR:
            expected = "Spark loads with `error` only; use the engine `local`, or drop the duplicates of a DataFrame"
            raise BadArgumentError("on_duplicate", f"`{call.on_duplicate.value}`", expected)
        # The input is checked before Spark is started, which takes seconds.
        source = SparkInput(session, call, head, split_bytes=options.split_bytes)
        active = spark if spark is not None else spark_session(master)
        check_reachable(source.sources, get_master(active))
        jobs = LoadJobs(
            active,
            source.call,
            [(frame, pack_partitions(rows, count_parallel_tasks(active))) for frame, rows in source.frames],
            options.max_local_keys,
            options.max_local_reread_bytes,
            options.max_local_merge_rows,
            options.max_local_read_bytes,
            options.max_driver_suspects,
            options.max_local_rebase_rows,
        )
        return SparkMerge(session, source, jobs) if call.mode is LoadMode.MERGE else SparkRecords(session, source, jobs)

    return read
