"""Connect a graph to the `spark` package above it, which is loaded on first use: PySpark may not be installed."""

from datetime import datetime
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast

from omnigraph.commit.manifest_log import Head
from omnigraph.commit.manifest_types import Snapshot
from omnigraph.engine.result import Result
from omnigraph.errors import BadArgumentError, LibraryMissingError
from omnigraph.extensions import Extension, load_extension
from omnigraph.graph import lazy_ops
from omnigraph.ops.session import Session
from omnigraph.options import Engine, Options

if TYPE_CHECKING:
    from collections.abc import Callable

    from omnigraph.ops.algorithms import DistributedAlgorithms
    from omnigraph.ops.load import LoadCall
    from omnigraph.ops.load_engine import LoadRecords, Reader
    from omnigraph.ops.load_inputs import LoadInput
    from omnigraph.ops.maintenance_worker import OptimizeWorker
    from omnigraph.ops.query import QueryCall
    from omnigraph.spark.load.engine_choice import EngineChoice
    from omnigraph.spark.spark_graph import SparkGraph


# The packages that `omnigraph[spark]` installs.
_SPARK_PACKAGES = frozenset({"pandas", "py4j", "pyspark"})

# Chooses the engine of a load by its input, the options, and what the caller names; it does not import PySpark.
EngineChooser: TypeAlias = "Callable[[LoadInput, Options, Engine, str | None], EngineChoice]"


class SparkEngine(Protocol):
    """What a graph does on Spark. A `master` of None is the active session, or the default master."""

    def open_graph(self, session: Session, snapshot: Snapshot) -> "SparkGraph":
        """Return a snapshot as DataFrames; Spark is started when it is first used."""
        ...

    def open_on_master(self, session: Session, snapshot: Snapshot, master: str | None) -> "SparkGraph":
        """Return a snapshot as DataFrames on a Spark master."""
        ...

    def execute_sql(
        self,
        session: Session,
        statement: str,
        *,
        branch: str,
        snapshot: str | None,
        at: datetime | None,
        master: str | None,
    ) -> Result:
        """Run a SQL statement over one snapshot."""
        ...

    def execute_query(self, session: Session, call: "QueryCall", master: str | None) -> Result:
        """Run a query of the language over one snapshot, and return its whole result."""
        ...

    def build_reader(self, master: str | None) -> "Reader":
        """Return the reader by which a load runs on Spark."""
        ...

    def create_worker(self, session: Session, master: str | None) -> "OptimizeWorker":
        """Return a worker for the heavy part of maintenance."""
        ...

    def create_algorithms(self, session: Session) -> "DistributedAlgorithms":
        """Return the graph algorithms that run on executors."""
        ...


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
        if engine is Engine.AUTO and master is None and not runs_distributed(call):
            return lazy_ops.load_local.read_locally(session, call, head)
        choose_engine = cast("EngineChooser", load_extension(Extension.ENGINE_CHOICE))
        choice = choose_engine(call.input, session.runtime.options, engine, master)
        call.report_engine(str(choice))
        reader: Reader = lazy_ops.load_local.read_locally
        if choice.engine is not Engine.LOCAL:
            reader = load_spark().build_reader(choice.master)
        return reader(session, call, head)

    return read


def runs_distributed(call: "LoadCall") -> bool:
    """Return whether Spark can run a load that leaves the engine open, or must, since its rows are there."""
    has_frames = any(type(source.data).__module__.startswith("pyspark.sql.") for source in call.input.typed)
    return has_frames or call.on_duplicate.value == "error"


def select_workers(session: Session, engine: Engine, master: str | None) -> "OptimizeWorker | None":
    """Return the Spark worker for the heavy work of maintenance; None if this process does it."""
    check_master(engine, master)
    if engine is Engine.LOCAL or (engine is Engine.AUTO and master is None):
        return None
    return load_spark().create_worker(session, master)


def build_distributed_algorithms(session: Session) -> "DistributedAlgorithms":
    """Return the graph algorithms that run on Spark's executors."""
    return load_spark().create_algorithms(session)


def load_spark() -> SparkEngine:
    """Return the engine on Spark.

    Raises:
        LibraryMissingError: PySpark or a package that it needs is not installed.
    """
    try:
        return cast("SparkEngine", load_extension(Extension.SPARK))
    except ModuleNotFoundError as error:
        # Any other missing module is a bug of this package, and must not look like a missing installation.
        missing = (error.name or "").partition(".")[0]
        if missing not in _SPARK_PACKAGES:
            raise
        raise LibraryMissingError.spark_missing(missing) from error
