"""A load on Spark: the same story as every load, told by other means."""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from omnigraph.commit.manifest_log import Head
from omnigraph.ops.load import LoadCall, LoadResult, load
from omnigraph.ops.load_records import Records
from omnigraph.ops.session import Session
from omnigraph.spark.load_spec import FrameSource
from omnigraph.spark.records import SparkRecords
from omnigraph.spark.splits import TARGET_BYTES


def load_on_spark(
    spark: SparkSession,
    session: Session,
    call: LoadCall,
    frames: Sequence[tuple[FrameSource, DataFrame]] = (),
    *,
    split_bytes: int = TARGET_BYTES,
    local_keys: int | None = None,
) -> LoadResult:
    """Load files, and rows of DataFrames, in one commit.

    Whatever `ops.load.load` says holds here too. `split_bytes` is about how much of a file one task reads, and
    `local_keys` how many keys are compared on the driver alone.

    Raises:
        InputChangedError: An input gave other rows when it was read again.
        TaskFailedError, ExecutorLostError, ExecutorNotReadyError, JobCancelledError, SparkFailedError: Spark failed.
    """

    def reader(session: Session, call: LoadCall, head: Head) -> Records:
        return SparkRecords(spark, session, call, head, frames, split_bytes=split_bytes, local_keys=local_keys)

    return load(session, call, reader)
