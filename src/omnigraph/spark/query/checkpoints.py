"""Checkpoints of a query: each has a directory of its own, which outlives an executor and is gone with the query."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import gettempdir

from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

from omnigraph.ids import draw_bytes
from omnigraph.spark.session.master import is_own_machine
from omnigraph.spark.spark_errors import SparkUsageError


@contextmanager
def own_checkpoints(spark: SparkSession) -> Iterator[str]:
    """Write the checkpoints of the block to a directory of their own, and yield its name.

    The session has its own directory again afterwards. If the block fails the directory is deleted at once, else by
    `delete_checkpoints`, or when Spark ends: the rows of a DataFrame may be computed as long as that.

    Raises:
        SparkUsageError: There is no directory that all executors see.
    """
    context = spark.sparkContext
    inner = context._jsc.sc()  # noqa: SLF001 - only the JVM tells the directory as it is
    before = inner.checkpointDir()
    directory = f"{_find_base(spark)}/omnigraph-{draw_bytes(6).hex()}"
    context.setCheckpointDir(directory)
    path, files = _open(spark, directory)
    files.deleteOnExit(path)
    try:
        yield directory
    except BaseException:
        files.delete(path, True)
        raise
    finally:
        # `setCheckpointDir` would make another directory inside of the earlier one.
        getattr(inner, "checkpointDir_$eq")(before)


def delete_checkpoints(spark: SparkSession, directory: str) -> None:
    """Delete the checkpoints of a query whose rows are not needed any more."""
    path, files = _open(spark, directory)
    files.delete(path, True)


def _find_base(spark: SparkSession) -> str:
    context = spark.sparkContext
    base = context.getCheckpointDir()
    if base is not None:
        return base
    if not is_own_machine(str(context.master)):
        raise SparkUsageError.no_checkpoints(str(context.master))
    # The driver and its executors are on one machine.
    return str(Path(context.getConf().get("spark.local.dir") or gettempdir()) / "checkpoints")


def _open(spark: SparkSession, directory: str) -> tuple[JavaObject, JavaObject]:
    """Return a directory as a path of the JVM, and its file system."""
    jvm = spark.sparkContext._jvm  # noqa: SLF001 - there is no public way to a file system of Spark
    assert jvm is not None  # noqa: S101 - a session has a JVM
    path = jvm.org.apache.hadoop.fs.Path(directory)
    return path, path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())  # noqa: SLF001
