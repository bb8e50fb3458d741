"""What the Spark room does for a graph: imported when it is asked for, since it may not be installed."""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from omnigraph.commit.manifest_log import Head
from omnigraph.errors import SparkMissingError
from omnigraph.graph import lazy_ops
from omnigraph.ops.argument_checks import BadArgumentError
from omnigraph.ops.session import Session
from omnigraph.options import Engine

if TYPE_CHECKING:
    from omnigraph.ops.algorithms import DistributedAlgorithms
    from omnigraph.ops.load import LoadCall
    from omnigraph.ops.load_engine import LoadRecords, Reader
    from omnigraph.ops.maintenance_worker import OptimizeWorker


_SPARK_PACKAGES = frozenset({"pandas", "py4j", "pyspark"})
"""What `omnigraph[spark]` brings along."""


def select_reader(engine: Engine, master: str | None) -> "Reader":
    """Who reads, checks and writes the records of a load: it is known when the load is about to begin."""
    if engine is Engine.LOCAL:
        if master is not None:
            raise BadArgumentError("master", f"`{master}`", "the engine `local` does without Spark")
        return lazy_ops.load_local.read_locally

    def read(session: Session, call: "LoadCall", head: Head) -> "LoadRecords":
        choice = import_spark_module("load.engine_choice").choose_engine(
            call.input, session.runtime.options, engine, master
        )
        call.report_engine(str(choice))
        here = lazy_ops.load_local.read_locally
        reader: Reader = (
            here
            if choice.engine is Engine.LOCAL
            else import_spark_module("load.load_engine").build_reader(choice.master)
        )
        return reader(session, call, head)

    return read


def select_workers(session: Session, engine: Engine, master: str | None) -> "OptimizeWorker | None":
    """Who does the heavy work of maintenance; None: this process."""
    if engine is Engine.LOCAL and master is not None:
        raise BadArgumentError("master", f"`{master}`", "the engine `local` does without Spark")
    if engine is Engine.LOCAL or (engine is Engine.AUTO and master is None):
        return None
    hands: OptimizeWorker = import_spark_module("maintenance").create_worker(session, master)
    return hands


def build_distributed_algorithms(session: Session) -> "DistributedAlgorithms":
    """Graph algorithms on Spark's executors."""
    found: DistributedAlgorithms = import_spark_module("algorithms").create_algorithms(session)
    return found


def import_spark_module(name: str) -> ModuleType:
    """A module of the Spark room, which stands above this one: imported when it is needed, for it may not be there."""
    try:
        return import_module(f"omnigraph.spark.{name}")
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _SPARK_PACKAGES:
            raise
        raise SparkMissingError(missing) from error
