"""Number the nodes of a snapshot in the order of their ids, and store them and their edges in parts."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from omnigraph.engine.algorithms.network import Direction
from omnigraph.schema.arrow import DST, ID, SRC
from omnigraph.spark.algorithms.blocks import BlockStore
from omnigraph.spark.session.error_translation import carry_errors
from omnigraph.spark.session.handshake import TaskBody, map_tasks

# The nodes and the edges of one part, which a task holds: some tens of megabytes.
_PART_NODES, _PART_EDGES = 2_000_000, 4_000_000
# Fewer nodes than this are not worth a task of their own.
_MIN_PART_NODES = 50_000
_BATCH_ROWS = 65_536
_PARTS_DDL = "part int, rows long, block string"
_PARTS = pa.schema([pa.field("part", pa.int32()), pa.field("rows", pa.int64()), pa.field("block", pa.string())])
_NODES_DDL = "id string, node long, part int"


class StoredNetwork(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The blocks of a network. A part has consecutive nodes, and the edges that start at them."""

    starts: tuple[int, ...]
    """The number of the first node of each part, and last the number of all nodes."""
    ids: tuple[str, ...]
    """The block with the ids of each part, ascending."""
    edges: tuple[str | None, ...]
    """The block with the edges of each part, by `target` and `source`; None without edges."""

    @property
    def count(self) -> int:
        """The number of nodes."""
        return self.starts[-1]

    @property
    def parts(self) -> int:
        """The number of parts."""
        return len(self.ids)

    @property
    def has_edges(self) -> bool:
        """Whether there is an edge."""
        return any(block is not None for block in self.edges)


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a network, as a task reads it."""

    first: int
    """The number of its first node."""
    size: int
    source: NDArray[np.int64]
    """The place of an edge's source within the part. Edges ascend by `target`, then by `source`."""
    target: NDArray[np.int64]
    weight: NDArray[np.float64] | None = None


def count_parts(nodes: int, edges: int, cores: int) -> int:
    """Return how many parts a network is divided into."""
    for_size = max(-(-nodes // _PART_NODES), -(-edges // _PART_EDGES))
    for_cores = min(cores, -(-nodes // _MIN_PART_NODES))
    return max(for_size, for_cores, 1)


@dataclass(frozen=True, slots=True)
class NetworkInput:
    """The rows of a network's tables, and which way its edges count."""

    ids: DataFrame
    ends: DataFrame
    direction: Direction
    weight: str | None = None


def store_network(store: BlockStore, given: NetworkInput, parts: int) -> StoredNetwork:
    """Store a network in blocks. Spark sorts the ids, and joins them to the ends of edges."""
    ordered = given.ids.select(ID).repartitionByRange(parts, ID).sortWithinPartitions(ID)
    written = sorted(row for row in map_tasks(ordered, _build_id_writer(store), _PARTS_DDL).collect() if row.rows)
    # A range may be empty if there are few ids, or all of a sample fell into others.
    starts = np.cumsum([0, *(row.rows for row in written)]).tolist()
    network = StoredNetwork(starts=tuple(starts), ids=tuple(row.block for row in written), edges=(None,) * len(written))
    if not written:
        return network
    nodes = read_nodes(given.ids.sparkSession, store, network)
    edges = _number_ends(given, nodes).repartitionById(network.parts, "part")
    task = _build_edge_writer(store, network)
    # A part without edges has no row.
    blocks = {row.part: row.block for row in map_tasks(edges, task, _PARTS_DDL).collect()}
    return msgspec.structs.replace(network, edges=tuple(blocks.get(part) for part in range(network.parts)))


def read_nodes(spark: SparkSession, store: BlockStore, network: StoredNetwork) -> DataFrame:
    """Return the columns `id`, `node` and `part` of all nodes, in their order."""
    starts, blocks = network.starts, network.ids

    def read(number: int) -> Iterator[pa.RecordBatch]:
        ids = store.read_block(blocks[number]).column(ID).combine_chunks()
        nodes = pa.array(np.arange(starts[number], starts[number + 1]))
        columns = [ids, nodes, pa.array(np.full(len(ids), number, np.int32))]
        return iter(pa.table(columns, names=[ID, "node", "part"]).to_batches(_BATCH_ROWS))

    return map_parts(spark, network.parts, read, _NODES_DDL)


def map_parts(
    spark: SparkSession, parts: int, read: Callable[[int], Iterator[pa.RecordBatch]], schema: str
) -> DataFrame:
    """Return the rows that a task makes of each part's number."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carry_errors():
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    yield from read(number)

    return map_tasks(spark.range(0, parts, 1, max(parts, 1)), run, schema)


def _number_ends(given: NetworkInput, nodes: DataFrame) -> DataFrame:
    """Return the edges by the numbers of their nodes, each at the part of the node that it is followed from."""
    near = nodes.select(f.col(ID).alias(SRC), f.col("node").alias("source"), f.col("part").alias("source_part"))
    far = nodes.select(f.col(ID).alias(DST), f.col("node").alias("target"), f.col("part").alias("target_part"))
    weight = [] if given.weight is None else [f.col(given.weight).cast("double").alias("weight")]
    joined = given.ends.join(near, SRC).join(far, DST)
    forward = joined.select(f.col("source_part").alias("part"), "source", "target", *weight)
    backward = joined.select(
        f.col("target_part").alias("part"), f.col("target").alias("source"), f.col("source").alias("target"), *weight
    )
    match given.direction:
        case Direction.OUT:
            return forward
        case Direction.IN:
            return backward
        case Direction.BOTH:
            return forward.unionByName(backward)


def _build_id_writer(store: BlockStore) -> TaskBody:
    def write_ids(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carry_errors():
            ids = [batch.column(0).cast(pa.string()) for batch in batches if batch.num_rows]
            context = TaskContext.get()
            assert context is not None  # noqa: S101 - this is a task
            # Ranges of ids ascend with the numbers of their partitions.
            part = context.partitionId()
            block = pa.table({ID: pa.chunked_array(ids, pa.string())})
            key = store.put_block(f"ids-{part}", block) if ids else None
            yield _build_row(part, block.num_rows, key)

    return write_ids


def _build_edge_writer(store: BlockStore, network: StoredNetwork) -> TaskBody:
    starts = network.starts

    def write_edges(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carry_errors():
            kept = [batch for batch in batches if batch.num_rows]
            if not kept:
                return
            rows = pa.Table.from_batches(kept)
            # Usually one; adaptive execution may put several small ones into a task.
            for part in sorted(rows.column("part").unique().to_pylist()):
                edges = rows.filter(pc.equal(rows.column("part"), part)).drop_columns(["part"])
                source, target = (edges.column(name).to_numpy() for name in ("source", "target"))
                # By receiver, so that messages to the same node follow each other; then by sender, so that the order
                # of a sum does not depend on that of the shuffle.
                order = np.lexsort((source, target))
                columns = {"source": source[order] - starts[part], "target": target[order]}
                if "weight" in edges.column_names:
                    weight = edges.column("weight").to_numpy()
                    # Parallel edges in the order of their weights, so that nothing depends on that of the shuffle.
                    order = np.lexsort((weight, source, target))
                    columns["weight"] = weight[order]
                block = pa.table(columns)
                yield _build_row(part, block.num_rows, store.put_block(f"edges-{part}", block))

    return write_edges


def _build_row(part: int, rows: int, block: str | None) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"part": part, "rows": rows, "block": block}], schema=_PARTS)


def read_part(store: BlockStore, network: StoredNetwork, number: int) -> Part:
    """Return a part with its edges."""
    first, size = network.starts[number], network.starts[number + 1] - network.starts[number]
    key = network.edges[number]
    if key is None:
        return Part(first, size, np.zeros(0, np.int64), np.zeros(0, np.int64))
    block = store.read_block(key)
    columns = {name: block.column(name).to_numpy() for name in block.column_names}
    return Part(first, size, columns["source"], columns["target"], columns.get("weight"))
