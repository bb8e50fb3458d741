"""Ensure that executors run the driver's build: every task carries it, and compares it with its own first.

Executors check constraints and write rows. One with another omnigraph would check other constraints, and rows that
break the driver's would be published. Two builds may have the same version, so a build includes a digest of the source.
"""

import hashlib
import pickle
import socket
from collections.abc import Callable, Iterator
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import TypeAlias

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from omnigraph import __version__
from omnigraph.format_version import INTERNAL_SCHEMA_VERSION
from omnigraph.spark.session.error_translation import carry_errors
from omnigraph.spark.spark_errors import SparkUsageError
from omnigraph.storage.libraries import read_library_versions

# The function that every task runs over its batches.
TaskBody: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
# Names and values, in order, that must be the same on the driver and on every executor.
Build: TypeAlias = tuple[tuple[str, str], ...]


@cache
def compute_build() -> Build:
    """Return the build of this process; it is computed once, which takes about 30 ms."""
    return (
        ("the version of omnigraph", __version__),
        ("the stored format", str(INTERNAL_SCHEMA_VERSION)),
        *((f"the version of {name}", version) for name, version in read_library_versions().items()),
        ("the source of omnigraph", _digest(resources.files("omnigraph"))),
    )


def check_build(driver: Build) -> None:
    """Check in a task that this process has the driver's build.

    Raises:
        SparkUsageError: It has another one; the error names the first difference.
    """
    executor = compute_build()
    if executor == driver:
        return
    ours = dict(driver)
    theirs = dict(executor)
    what = next(name for name in (*ours, *theirs) if ours.get(name) != theirs.get(name))
    raise SparkUsageError.executor_differs(
        socket.gethostname(), what, ours.get(what, "unknown"), theirs.get(what, "unknown")
    )


def map_tasks(frame: DataFrame, body: TaskBody, schema: str | StructType) -> DataFrame:
    """Run a body over every partition, on executors that have the driver's build.

    All tasks start here, never by `mapInArrow` directly. The body travels as bytes inside of the task, so that an
    executor with other code rejects it before unpickling it.
    """
    driver = compute_build()
    packed = cloudpickle.dumps(body)  # type: ignore[no-untyped-call]  # pyspark does not type it

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carry_errors():
            check_build(driver)
        yield from pickle.loads(packed)(batches)  # noqa: S301 - the driver pickled it, as Spark itself does

    run.__name__ = body.__name__  # Spark shows it in its plans
    return frame.mapInArrow(run, schema)


def _digest(package: Traversable) -> str:
    """Return a digest of the names and contents of a package's source files; it may be in an archive."""
    digest = hashlib.blake2b(digest_size=8)
    for name, content in sorted(_iter_sources(package, "")):
        # The length separates a file's content from the next name.
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def _iter_sources(directory: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for entry in directory.iterdir():
        if entry.is_dir():
            yield from _iter_sources(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".py"):
            yield f"{prefix}{entry.name}", entry.read_bytes()
