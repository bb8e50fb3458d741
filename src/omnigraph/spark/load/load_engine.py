"""A load on Spark: the same story as every load, told by other means."""

from dataclasses import dataclass

from pyspark.sql import SparkSession

from omnigraph.commit.manifest_log import Head
from omnigraph.engine.bulk.load_batch import LoadMode
from omnigraph.ops.load_call import LoadCall
from omnigraph.ops.load_engine import LoadRecords, Reader
from omnigraph.ops.session import Session
from omnigraph.spark.load.input_splits import TARGET_BYTES, check_reachable
from omnigraph.spark.load.load_append import SparkRecords
from omnigraph.spark.load.load_input import SparkInput
from omnigraph.spark.load.load_jobs import (
    MAX_LOCAL_KEYS,
    MAX_LOCAL_MERGE_ROWS,
    MAX_LOCAL_READ_BYTES,
    MAX_LOCAL_REREAD_BYTES,
    LoadJobs,
)
from omnigraph.spark.load.load_merge import SparkMerge
from omnigraph.spark.session.spark_session import session as spark_session


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkLoadOptions:
    """How a load is done on Spark."""

    split_bytes: int = TARGET_BYTES
    """About how much of a file one task reads."""
    max_local_keys: int = MAX_LOCAL_KEYS
    """Up to how many keys are compared on the driver alone."""
    max_local_reread_bytes: int = MAX_LOCAL_REREAD_BYTES
    """Up to how many bytes of files are read again, where that is needed, on the driver alone."""
    max_local_merge_rows: int = MAX_LOCAL_MERGE_ROWS
    """Up to how many rows of a merge are filled and written by the driver."""
    max_local_read_bytes: int = MAX_LOCAL_READ_BYTES
    """Up to how many bytes of files the driver of a merge reads by itself."""


def build_reader(
    master: str | None = None, spark: SparkSession | None = None, loading: SparkLoadOptions | None = None
) -> Reader:
    """What `ops.load.load` is handed to run on Spark: on a session, or else the active one, or a new one on `master`.

    A DataFrame may be the data of a type. Beside what every load raises, it may raise these:

    Raises:
        InputChangedError: An input gave other rows when it was read again.
        TaskFailedError, ExecutorLostError, ExecutorNotReadyError, JobCancelledError, SparkFailedError: Spark failed.
    """
    how = loading or SparkLoadOptions()

    def made(session: Session, call: LoadCall, head: Head) -> LoadRecords:
        source = SparkInput(session, call, head, split_bytes=how.split_bytes)
        active = spark if spark is not None else spark_session(master)
        check_reachable(source.sources, str(active.sparkContext.master))
        jobs = LoadJobs(
            active,
            source.call,
            source.frames,
            how.max_local_keys,
            how.max_local_reread_bytes,
            how.max_local_merge_rows,
            how.max_local_read_bytes,
        )
        return SparkMerge(session, source, jobs) if call.mode is LoadMode.MERGE else SparkRecords(session, source, jobs)

    return made
