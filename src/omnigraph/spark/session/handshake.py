"""What an executor runs must be what the driver runs: every task carries the driver's build, and checks its own first.

Rules are checked and rows are written by executors. One with another omnigraph would check other rules, and what they
let pass would be published. The version alone does not tell two builds apart, so a digest of the package's source goes
along.
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
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.format_version import INTERNAL_SCHEMA_VERSION
from omnigraph.spark.session.error_translation import carry_errors
from omnigraph.storage.libraries import read_library_versions

TaskBody: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""What every task runs over its batches."""
Build: TypeAlias = tuple[tuple[str, str], ...]
"""By name, in order, what must be the same on the driver and on every executor."""


class ExecutorDiffersError(OmnigraphError):
    """An executor runs another omnigraph than the driver, or other versions of what it stands on."""

    kind = Kind.USAGE
    code = "executor_differs"

    def __init__(self, host: str, what: str, driver: str, executor: str) -> None:
        super().__init__(host, what, driver, executor)
        self.host, self.what, self.driver, self.executor = host, what, driver, executor

    def __str__(self) -> str:
        return (
            f"the executor on {self.host} differs from the driver in {self.what}: {self.executor} there, {self.driver}"
            " here; install the same omnigraph, with the same requirements, everywhere. Nothing was done"
        )


@cache
def compute_build() -> Build:
    """Return the build of this process; it is worked out once, which takes some 30 ms."""
    return (
        ("the version of omnigraph", __version__),
        ("the stored format", str(INTERNAL_SCHEMA_VERSION)),
        *((f"the version of {name}", version) for name, version in read_library_versions().items()),
        ("the source of omnigraph", _digest(resources.files("omnigraph"))),
    )


def check_build(driver: Build) -> None:
    """Check in a task that this process has the driver's build; ExecutorDiffersError names the first difference."""
    own = compute_build()
    if own == driver:
        return
    here, there = dict(driver), dict(own)
    what = next(name for name in (*here, *there) if here.get(name) != there.get(name))
    raise ExecutorDiffersError(socket.gethostname(), what, here.get(what, "unknown"), there.get(what, "unknown"))


def map_tasks(frame: DataFrame, body: TaskBody, schema: str | StructType) -> DataFrame:
    """Run a body over every partition, on executors that have the driver's build: the only way to `mapInArrow`.

    The body travels as bytes inside of the task, so that an executor with other code has refused it before it tries to
    make sense of it.
    """
    driver = compute_build()
    packed = cloudpickle.dumps(body)  # type: ignore[no-untyped-call]  # pyspark does not type it

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carry_errors():
            check_build(driver)
        yield from pickle.loads(packed)(batches)  # noqa: S301 - what the driver has packed, as Spark itself does

    run.__name__ = body.__name__  # Spark shows it
    return frame.mapInArrow(run, schema)


def _digest(package: Traversable) -> str:
    """Return a digest of all source files of a package, by their names; also of one that lies in an archive."""
    found = hashlib.blake2b(digest_size=8)
    for name, content in sorted(_iter_sources(package, "")):
        found.update(f"{name}\0{len(content)}\0".encode())
        found.update(content)
    return found.hexdigest()


def _iter_sources(place: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    for one in place.iterdir():
        if one.is_dir():
            yield from _iter_sources(one, f"{name}{one.name}/")
        elif one.name.endswith(".py"):
            yield f"{name}{one.name}", one.read_bytes()
