"""Connect a graph to the `spark` package, which is imported on first use because PySpark may not be installed."""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from omnigraph.commit.manifest_log import Head
from omnigraph.errors import BadArgumentError, LibraryMissingError
from omnigraph.graph import lazy_ops
from omnigraph.ops.session import Session
from omnigraph.options import Engine

if TYPE_CHECKING:
    from omnigraph.ops.algorithms import DistributedAlgorithms
    from omnigraph.ops.load import LoadCall
    from omnigraph.ops.load_engine import LoadRecords, Reader
    from omnigraph.ops.maintenance_worker import OptimizeWorker


# The packages that `omnigraph[spark]` installs.
_SPARK_PACKAGES = frozenset({"pandas", "py4j", "pyspark"})


def check_master(engine: Engine, master: str | None) -> None:
    """Check that a Spark master is not combined with the local engine.

    Raises:
        BadArgumentError: It is.
    """
    if engine is Engine.LOCAL and master is not None:
        raise BadArgumentError("master", f"`{master}`", "the engine `local` does not use Spark")


def select_reader(engine: Engine, master: str | None) -> "Reader":
    """Return the function that decodes, checks and writes the records of a load."""
    check_master(engine, master)
    if engine is Engine.LOCAL:
        return lazy_ops.load_local.read_locally

    def read(session: Session, call: "LoadCall", head: Head) -> "LoadRecords":
        # The choice depends on the size of the input, so it is made when the load begins.
        choice = import_spark_module("load.engine_choice").choose_engine(
            call.input, session.runtime.options, engine, master
        )
        call.report_engine(str(choice))
        reader: Reader = lazy_ops.load_local.read_locally
        if choice.engine is not Engine.LOCAL:
            reader = import_spark_module("load.load_engine").build_reader(choice.master)
        return reader(session, call, head)

    return read


def select_workers(session: Session, engine: Engine, master: str | None) -> "OptimizeWorker | None":
    """Return the Spark worker for the heavy work of maintenance; None if this process does it."""
    check_master(engine, master)
    if engine is Engine.LOCAL or (engine is Engine.AUTO and master is None):
        return None
    worker: OptimizeWorker = import_spark_module("maintenance").create_worker(session, master)
    return worker


def build_distributed_algorithms(session: Session) -> "DistributedAlgorithms":
    """Return the graph algorithms that run on Spark's executors."""
    algorithms: DistributedAlgorithms = import_spark_module("algorithms").create_algorithms(session)
    return algorithms


def import_spark_module(name: str) -> ModuleType:
    """Import a module of the `spark` package, which is a layer above this one.

    Raises:
        LibraryMissingError: PySpark or a package that it needs is not installed.
    """
    try:
        return import_module(f"omnigraph.spark.{name}")
    except ModuleNotFoundError as error:
        # Any other missing module is a bug of this package, and must not look like a missing installation.
        missing = (error.name or "").partition(".")[0]
        if missing not in _SPARK_PACKAGES:
            raise
        raise LibraryMissingError.spark_missing(missing) from error
