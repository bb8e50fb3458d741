"""Run graph algorithms on Spark, for graphs that don't fit into one process.

The results equal those of the in-memory algorithms: nodes are numbered in the order of their ids here, too. The network
and the state after each round are blocks in the graph's storage, which executors and the driver may lose nothing of: a
call that finds the blocks of one that died goes on with them.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructField, StructType

from omnigraph.commit.manifest_types import Snapshot
from omnigraph.engine.algorithms.network import Direction
from omnigraph.errors import QueryError
from omnigraph.ops.algorithm_call import (
    Algorithm,
    Components,
    LabelPropagation,
    Pagerank,
    ShortestPaths,
    TriangleCount,
)
from omnigraph.ops.algorithms import AlgorithmInput, LoadValues, NodeValues, convert_values
from omnigraph.ops.load import LoadResult
from omnigraph.ops.session import Session
from omnigraph.schema.arrow import DST, ID, SRC
from omnigraph.spark.algorithms.blocks import BlockStore, RunLease, build_run_id
from omnigraph.spark.algorithms.programs import (
    ComponentProgram,
    DistanceProgram,
    LabelProgram,
    PagerankProgram,
    Program,
)
from omnigraph.spark.algorithms.rounds import Rounds
from omnigraph.spark.algorithms.stored_network import (
    NetworkInput,
    StoredNetwork,
    count_parts,
    map_parts,
    read_nodes,
    read_part,
    store_network,
)
from omnigraph.spark.algorithms.triangles import count_triangles
from omnigraph.spark.load.load_engine import build_reader
from omnigraph.spark.read.fetched_rows import fetch_table
from omnigraph.spark.session.connect import count_parallel_tasks
from omnigraph.spark.session.error_translation import carry_errors, surface_errors
from omnigraph.spark.session.graph_location import GraphLocation
from omnigraph.spark.session.handshake import map_tasks
from omnigraph.spark.session.job_monitor import run_job

_NETWORK = "network"
_BATCH_ROWS = 65_536


class TypeTables(Protocol):
    """The types of one snapshot as DataFrames."""

    @property
    def spark(self) -> SparkSession:
        """The Spark session."""
        ...

    def table(self, type_name: str, *, columns: Sequence[str] | None = None) -> DataFrame:
        """Return columns of the rows of a type."""
        ...


@dataclass(frozen=True)
class SparkAlgorithms:
    """The graph algorithms, over the tables of a graph."""

    session: Session
    open_tables: Callable[[Snapshot], TypeTables]

    def run(
        self, subject: AlgorithmInput, algorithm: Algorithm, load_values: LoadValues | None = None
    ) -> tuple[NodeValues, LoadResult | None]:
        """Return the value that an algorithm computes for every node, in the order of ids.

        With `load_values`, executors write the values to a property before that.
        """
        description = f"omnigraph algorithm {algorithm.name}"
        with surface_errors():
            tables = self.open_tables(subject.snapshot)
            spark = tables.spark
        with _own_run(self.session, subject, algorithm) as (store, lease):
            job = _AlgorithmJob(spark, tables, store, lease, subject, algorithm)
            computed = run_job(spark, job.compute, description=description)
            written = None
            if load_values is not None:
                with surface_errors():
                    values = job.build_update(computed.frame)
                written = load_values(values, build_reader(spark=spark))
            table = fetch_table(spark, computed.frame, description=description)
        ids = table.column(ID).cast(pa.string()).combine_chunks()
        values = table.column("value").cast(algorithm.type).combine_chunks()
        return NodeValues(ids, values, computed.rounds, computed.is_converged), written


def compute_frame(session: Session, tables: TypeTables, subject: AlgorithmInput, algorithm: Algorithm) -> DataFrame:
    """Return the value of every node as a DataFrame, whose rows are read from the blocks of the run."""
    with surface_errors():
        spark = tables.spark
    with _own_run(session, subject, algorithm, keeps_blocks=True) as (store, lease):
        job = _AlgorithmJob(spark, tables, store, lease, subject, algorithm)
        computed = run_job(spark, job.compute, description=f"omnigraph algorithm {algorithm.name}")
    return computed.frame.withColumnRenamed("value", algorithm.column)


@contextmanager
def _own_run(
    session: Session, subject: AlgorithmInput, algorithm: Algorithm, *, keeps_blocks: bool = False
) -> Iterator[tuple[BlockStore, RunLease]]:
    """Yield the blocks of a run and their lease. They are deleted afterwards, unless it fails and may go on later."""
    # Blocks are written to the graph's storage.
    session.check_writable()
    location = GraphLocation.from_session(session)
    run_id = build_run_id(subject.snapshot.commit.id, subject.edge.table_key, repr(algorithm))
    lease = RunLease(session.store, run_id)
    if not lease.take():
        # Another process computes the same: this one begins anew beside it.
        run_id = session.runtime.ids.ulid()
        lease = RunLease(session.store, run_id)
        lease.take()
    store = BlockStore(location, run_id)
    try:
        yield store, lease
    # A wrong argument stays wrong: nothing to go on with.
    except QueryError:
        if lease.release():
            store.clear()
        raise
    # Also an interrupt: the same call goes on from the last round.
    except BaseException:
        lease.release()
        raise
    if lease.release() and not keeps_blocks:
        store.clear()


@dataclass(frozen=True, slots=True)
class _Computed:
    """The value of every node in the order of ids, not fetched yet."""

    frame: DataFrame
    rounds: int | None = None
    is_converged: bool = True


@dataclass(frozen=True, slots=True)
class _AlgorithmJob:
    spark: SparkSession
    tables: TypeTables
    store: BlockStore
    lease: RunLease
    subject: AlgorithmInput
    algorithm: Algorithm

    def compute(self) -> _Computed:
        """Compute the value of each node."""
        network = self._store_network()
        match self.algorithm:
            case Pagerank() as pagerank:
                ranks = PagerankProgram(network.count, pagerank.damping, pagerank.tolerance, pagerank.max_rounds)
                return self._run_rounds(network, ranks, "double")
            case LabelPropagation() as labels:
                computed = self._run_rounds(network, LabelProgram(labels.max_rounds), "long")
                # Without edges no label can change.
                is_converged = computed.is_converged or not network.has_edges
                return _Computed(self._name_values(network, computed.frame), computed.rounds, is_converged)
            case Components():
                computed = self._run_rounds(network, ComponentProgram(), "long")
                return _Computed(self._name_values(network, computed.frame))
            case ShortestPaths() as paths:
                distances = DistanceProgram(paths.start, is_weighted=paths.weight is not None)
                type_ = "long" if paths.weight is None else "double"
                return _Computed(self._run_rounds(network, distances, type_).frame)
            case TriangleCount():
                return _Computed(self._count_triangles(network))
            case _:
                raise AssertionError(self.algorithm.name)  # refused before

    def build_update(self, values: DataFrame) -> DataFrame:
        """Return the values as rows of a load: the key of each node, and the property.

        Raises:
            QueryError: The property can't store the values.
        """
        assert self.subject.target is not None  # noqa: S101 - there is one where values are written
        target = node, prop = self.subject.target
        schema = StructType([values.schema[ID], StructField(prop.name, values.schema["value"].dataType)])

        def check(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            with carry_errors():
                for batch in batches:
                    convert_values(target, batch.column("value"))
                    yield batch.rename_columns([ID, prop.name])

        # Checked where the values are; the load converts them to the type of the property.
        named = map_tasks(values, check, schema)
        if not node.key:
            return named
        return self.tables.table(node.name, columns=[ID, *node.key]).join(named, ID).drop(ID)

    def _store_network(self) -> StoredNetwork:
        """Return the network, which an earlier run may have stored."""
        # What costs most, two joins of all edges, is done once even if the driver dies.
        network = self.store.read_record(_NETWORK, StoredNetwork)
        if network is not None and self.store.has_blocks([*network.ids, *filter(None, network.edges)]):
            return network
        node, edge, snapshot = self.subject.node, self.subject.edge, self.subject.snapshot
        weight = getattr(self.algorithm, "weight", None)
        ends = self.tables.table(edge.name, columns=[SRC, DST, *([weight] if weight else [])])
        if weight is not None:
            _check_weights(ends, edge.name, weight)
        given = NetworkInput(self.tables.table(node.name, columns=[ID]), ends, self._find_direction(), weight)
        rows = (snapshot.pin(node.table_key).rows, snapshot.pin(edge.table_key).rows)
        parts = count_parts(*rows, cores=count_parallel_tasks(self.spark))
        network = store_network(self.store, given, parts)
        self.lease.check()
        self.store.put_record(_NETWORK, network)
        return network

    def _find_direction(self) -> Direction:
        match self.algorithm:
            case LabelPropagation():
                return Direction.BOTH
            case ShortestPaths(direction=direction):
                return direction
            case _:
                return Direction.OUT

    def _run_rounds(self, network: StoredNetwork, program: Program, type_: str) -> _Computed:
        rounds = Rounds(spark=self.spark, store=self.store, lease=self.lease, network=network, program=program)
        record = rounds.run()
        if isinstance(program, DistanceProgram) and not record.number and not any(record.sums):
            reason = f"{self.subject.node.name} has no node of this id"
            raise QueryError.algorithm_argument("start", repr(program.start_id), reason)
        return _Computed(rounds.read_values(record, type_), record.number, record.is_over)

    def _name_values(self, network: StoredNetwork, values: DataFrame) -> DataFrame:
        """Return the ids of nodes that are values."""
        nodes = read_nodes(self.spark, self.store, network)
        # The joins lose the order of the parts.
        names = nodes.select(f.col("node").alias("value"), f.col(ID).alias("name"))
        return values.join(names, "value").select(ID, f.col("name").alias("value")).orderBy(ID)

    def _count_triangles(self, network: StoredNetwork) -> DataFrame:
        store = self.store

        def read(number: int) -> Iterator[pa.RecordBatch]:
            part = read_part(store, network, number)
            edges = pa.table({"source": part.source + part.first, "target": part.target})
            return iter(edges.to_batches(_BATCH_ROWS))

        counted = count_triangles(map_parts(self.spark, network.parts, read, "source long, target long"))
        nodes = read_nodes(self.spark, store, network)
        value = f.coalesce("value", f.lit(0)).alias("value")
        return nodes.join(counted, "node", "left").orderBy("node").select(ID, value)


def _check_weights(ends: DataFrame, edge: str, name: str) -> None:
    weight = f.col(name).cast("double")
    wrong = ends.where(weight.isNull() | (weight < 0)).count()
    if wrong:
        raise QueryError.algorithm_argument(
            "weight", name, f"{wrong:,} edges of {edge} have no weight, or a negative one"
        )
