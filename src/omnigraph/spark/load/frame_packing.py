"""Pack the partitions of a DataFrame, so that its fragments follow its size: each task stages one partition."""

from pyspark.sql import DataFrame

from omnigraph.spark.load.input_splits import TARGET_BYTES
from omnigraph.spark.load.load_spec import SPLITS_PER_FRAME
from omnigraph.spark.session.connect import is_connect
from omnigraph.spark.session.error_translation import surface_errors


def pack_partitions(frame: DataFrame, cores: int) -> DataFrame:
    """Return the same rows in partitions of about the target size, if Spark knows that its partitions are smaller.

    There remains one for each core: fewer would run what computes the rows on fewer cores, too. Partitions are joined
    with their neighbours, without a shuffle; larger ones are not cut. 400 partitions of a small frame took seven times
    as long as four of them.
    """
    if is_connect(frame):  # its plan is in the server
        return frame
    with surface_errors():
        # Of rows from files the size of these, of joins the product of both sides, of unknown sources exabytes.
        estimated = frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()  # noqa: SLF001 - no public way
        count = max(-(-int(str(estimated)) // TARGET_BYTES), cores)
        return frame.coalesce(min(count, SPLITS_PER_FRAME))
