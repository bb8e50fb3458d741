"""What a graph uses of this package, as `graph.spark_bridge` declares it."""

from datetime import datetime

from omnigraph.commit.manifest_types import Snapshot
from omnigraph.engine.result import Result
from omnigraph.graph.spark_bridge import SparkEngine
from omnigraph.ops.load_engine import Reader
from omnigraph.ops.query import QueryCall
from omnigraph.ops.session import Session
from omnigraph.spark.algorithms.run_algorithm import SparkAlgorithms
from omnigraph.spark.load.load_engine import build_reader
from omnigraph.spark.maintenance import SparkMaintenanceWorker, create_worker
from omnigraph.spark.session.spark_session import session as spark_session
from omnigraph.spark.spark_graph import SparkGraph
from omnigraph.spark.sql_result import execute, execute_query


class PySparkEngine(SparkEngine):
    """Loads, reads, exports, maintenance and algorithms on the Spark of this process."""

    def open_graph(self, session: Session, snapshot: Snapshot) -> SparkGraph:
        """Return a snapshot as DataFrames; Spark is started when it is first used."""
        return SparkGraph(session, snapshot)

    def open_on_master(self, session: Session, snapshot: Snapshot, master: str | None) -> SparkGraph:
        """Return a snapshot as DataFrames on a Spark master."""
        return SparkGraph(session, snapshot, spark_session(master))

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
        return execute(session, statement, branch=branch, snapshot=snapshot, at=at, master=master)

    def execute_query(self, session: Session, call: QueryCall, master: str | None) -> Result:
        """Run a query of the language over one snapshot, and return its whole result."""
        return execute_query(session, call, master)

    def build_reader(self, master: str | None) -> Reader:
        """Return the reader by which a load runs on Spark."""
        return build_reader(master)

    def create_worker(self, session: Session, master: str | None) -> SparkMaintenanceWorker:
        """Return a worker for the heavy part of maintenance."""
        return create_worker(session, master)

    def create_algorithms(self, session: Session) -> SparkAlgorithms:
        """Return the graph algorithms that run on executors."""
        return SparkAlgorithms(session, lambda snapshot: SparkGraph(session, snapshot))
