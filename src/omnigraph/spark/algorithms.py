"""Run graph algorithms on Spark DataFrames, for graphs that don't fit into one process.

The results equal those of the in-memory algorithms: nodes are numbered in the order of their ids here, too. Every
iteration ends in a checkpoint, so that the plan never grows with the number of iterations. Checkpoints outlive the
executor that wrote them, so its loss costs some tasks, not the algorithm.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

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
from omnigraph.ops.algorithms import AlgorithmInput, NodeValues
from omnigraph.ops.session import Session
from omnigraph.schema.arrow import DST, ID, SRC
from omnigraph.schema.catalog import AnyType
from omnigraph.spark.query.checkpoints import delete_checkpoints, own_checkpoints
from omnigraph.spark.read.fetched_rows import fetch_table
from omnigraph.spark.session.error_translation import surface_errors
from omnigraph.spark.session.job_monitor import run_job
from omnigraph.spark.spark_graph import SparkGraph

# `monotonically_increasing_id` puts the row number within a partition into the low 33 bits, the partition above them.
_LOCAL_BITS = 33

# Reads the given columns of a type's table, in the snapshot that the algorithm runs over.
Frames = Callable[[AnyType, list[str]], DataFrame]


def create_algorithms(session: Session) -> "SparkAlgorithms":
    """Return the algorithms over the tables of a graph."""

    def frames(subject: AlgorithmInput) -> Frames:
        graph = SparkGraph(session, subject.snapshot)
        return lambda type_, columns: graph.table(type_.name, columns=columns)

    return SparkAlgorithms(frames)


@dataclass(frozen=True)
class SparkAlgorithms:
    """The graph algorithms, over the tables that `frames` reads."""

    frames: Callable[[AlgorithmInput], Frames]

    def run(self, subject: AlgorithmInput, algorithm: Algorithm) -> NodeValues:
        """Return the value that an algorithm computes for every node, in the order of ids."""
        with surface_errors():
            frames = self.frames(subject)
            # Planned only: it tells the session.
            spark = frames(subject.node, [ID]).sparkSession
        description = f"omnigraph algorithm {algorithm.name}"
        with own_checkpoints(spark) as checkpoints:
            computed = run_job(spark, lambda: self._run(frames, subject, algorithm), description=description)
            try:
                table = fetch_table(spark, computed.frame, description=description)
            finally:
                computed.release()
                delete_checkpoints(spark, checkpoints)
        ids = table.column(ID).cast(pa.string()).combine_chunks()
        values = table.column("value").cast(computed.type).combine_chunks()
        return NodeValues(ids, values, computed.rounds, computed.is_converged)

    def _run(self, frames: "Frames", subject: AlgorithmInput, algorithm: Algorithm) -> "_Computed":
        nodes = _number_nodes(frames(subject.node, [ID]))
        weight = algorithm.weight if isinstance(algorithm, ShortestPaths) else None
        edges = _build_edges(frames(subject.edge, [SRC, DST, *([weight] if weight else [])]), nodes, weight)
        try:
            computed = self._compute_values(subject, algorithm, nodes, edges)
        except BaseException:
            edges.unpersist()
            nodes.unpersist()
            raise
        return replace(computed, persisted=(edges, nodes))

    def _compute_values(
        self, subject: AlgorithmInput, algorithm: Algorithm, nodes: DataFrame, edges: DataFrame
    ) -> "_Computed":
        match algorithm:
            case Pagerank():
                ranks, rounds, is_converged = _compute_pagerank(nodes, edges, algorithm)
                return _order_values(nodes, ranks, pa.float64(), rounds, is_converged=is_converged)
            case Components():
                return _order_values(nodes, _map_to_ids(nodes, _find_components(edges)), pa.string())
            case LabelPropagation():
                labels, rounds, is_converged = _propagate_labels(nodes, edges, algorithm.max_rounds)
                return _order_values(nodes, _map_to_ids(nodes, labels), pa.string(), rounds, is_converged=is_converged)
            case ShortestPaths():
                start = nodes.where(f.col(ID) == algorithm.start).select("node").first()
                if start is None:
                    reason = f"{subject.node.name} has no node of this id"
                    raise QueryError.algorithm_argument("start", repr(algorithm.start), reason)
                if algorithm.weight is not None:
                    _check_weights(edges, subject.edge.name, algorithm.weight)
                return _order_values(nodes, _compute_distances(edges, start.node, algorithm), algorithm.type)
            case TriangleCount():
                return _order_values(nodes, _count_triangles(edges), pa.int64(), otherwise=0)
            case _:
                raise AssertionError(algorithm.name)  # refused before


# --- nodes and edges --------------------------------------------------------------------------------------


def _number_nodes(ids: DataFrame) -> DataFrame:
    """Return the columns `id` and `node`: consecutive numbers from 0, in the order of ids."""
    # Spark's increasing ids leave gaps between partitions, so the partition sizes are collected, and each row number
    # is shifted by the number of rows in the partitions before. The checkpoint keeps both passes on the same ids.
    sorted_ids = (
        ids.select(ID)
        .orderBy(ID)
        .withColumn("position", f.monotonically_increasing_id())
        .withColumn("part", f.shiftright("position", _LOCAL_BITS))
        .checkpoint()
    )
    counts = {row.part: row["count"] for row in sorted_ids.groupBy("part").count().collect()}
    starts = []
    total = 0
    for part in sorted(counts):
        starts.append((part, total))
        total += counts[part]
    session = ids.sparkSession
    offsets = f.broadcast(session.createDataFrame(starts, "part long, start long"))
    local = f.col("position").bitwiseAND(f.lit((1 << _LOCAL_BITS) - 1))
    return sorted_ids.join(offsets, "part").select(ID, (f.col("start") + local).alias("node")).persist()


def _build_edges(ends: DataFrame, nodes: DataFrame, weight: str | None) -> DataFrame:
    """Return the edges as node numbers `source` and `target`, with `weight` if one is requested."""
    sources = nodes.select(f.col(ID).alias(SRC), f.col("node").alias("source"))
    targets = nodes.select(f.col(ID).alias(DST), f.col("node").alias("target"))
    weights = [] if weight is None else [f.col(weight).cast("double").alias("weight")]
    return ends.join(sources, SRC).join(targets, DST).select("source", "target", *weights).persist()


def _add_reversed(edges: DataFrame) -> DataFrame:
    return edges.unionByName(_reverse(edges))


def _reverse(edges: DataFrame) -> DataFrame:
    properties = [name for name in edges.columns if name not in ("source", "target")]
    return edges.select(f.col("target").alias("source"), f.col("source").alias("target"), *properties)


@dataclass(frozen=True, slots=True)
class _Computed:
    """The value of every node in the order of ids, not fetched yet."""

    frame: DataFrame
    type: pa.DataType
    rounds: int | None
    is_converged: bool
    persisted: tuple[DataFrame, ...] = ()

    def release(self) -> None:
        """Free what the executors hold."""
        with surface_errors():
            for frame in self.persisted:
                frame.unpersist()


def _order_values(
    nodes: DataFrame,
    values: DataFrame,
    type_: pa.DataType,
    rounds: int | None = None,
    *,
    is_converged: bool = True,
    otherwise: int | None = None,
) -> _Computed:
    """Order the value of every node by ids; `otherwise` for a node without one."""
    value = f.col("value") if otherwise is None else f.coalesce("value", f.lit(otherwise))
    ordered = nodes.join(values, "node", "left").orderBy("node").select(ID, value.alias("value"))
    return _Computed(ordered, type_, rounds, is_converged)


def _map_to_ids(nodes: DataFrame, values: DataFrame) -> DataFrame:
    """Translate values that are node numbers to ids; a node without a value gets its own id."""
    ids = nodes.select(f.col("node").alias("value"), f.col(ID).alias("name"))
    filled = (
        nodes.select("node").join(values, "node", "left").select("node", f.coalesce("value", "node").alias("value"))
    )
    return filled.join(ids, "value").select("node", f.col("name").alias("value"))


# --- the algorithms -----------------------------------------------------------------------------------


def _compute_pagerank(nodes: DataFrame, edges: DataFrame, pagerank: Pagerank) -> tuple[DataFrame, int, bool]:
    """Return the rank of every node, the number of iterations, and whether the ranks converged."""
    count = nodes.count()
    degrees = edges.groupBy(f.col("source").alias("node")).agg(f.count("*").alias("degree"))
    # Each edge passes on an equal share of its source's rank. The rank of nodes without out-edges goes to all nodes.
    state = (
        nodes.select("node")
        .join(degrees, "node", "left")
        .select("node", "degree", f.lit(1.0 / max(count, 1)).alias("value"))
        .checkpoint()
    )
    for number in range(1, pagerank.max_rounds + 1):
        dangling = state.where(f.col("degree").isNull()).agg(f.coalesce(f.sum("value"), f.lit(0.0))).head()
        dangling_rank = 0.0 if dangling is None else dangling[0]
        base = (1.0 - pagerank.damping) / max(count, 1) + pagerank.damping * dangling_rank / max(count, 1)
        shares = state.where(f.col("degree").isNotNull()).select(
            f.col("node").alias("source"), (f.col("value") / f.col("degree")).alias("share")
        )
        passed = edges.join(shares, "source").groupBy(f.col("target").alias("node")).agg(f.sum("share").alias("passed"))
        renewed = (
            state.join(passed, "node", "left")
            .select(
                "node",
                "degree",
                f.col("value").alias("before"),
                (f.lit(base) + pagerank.damping * f.coalesce("passed", f.lit(0.0))).alias("value"),
            )
            .checkpoint()
        )
        delta = renewed.agg(f.sum(f.abs(f.col("value") - f.col("before")))).head()
        state = renewed.drop("before")
        # The sum over no rows is null: an empty graph has converged.
        if delta is None or delta[0] is None or delta[0] < pagerank.tolerance:
            return state.select("node", "value"), number if count else 0, True
    return state.select("node", "value"), pagerank.max_rounds, False


def _find_components(edges: DataFrame) -> DataFrame:
    """Return every node's component, named by its smallest node; nodes without neighbours are left out.

    This is the alternating large-star and small-star algorithm, which converges after few iterations: every node ends
    up adjacent to the smallest node of its component.
    """
    pairs = _find_pairs(edges).checkpoint()
    fingerprint = _compute_fingerprint(pairs)
    while True:
        pairs = _move_small_stars(_move_large_stars(pairs)).checkpoint()
        before = fingerprint
        fingerprint = _compute_fingerprint(pairs)
        if fingerprint == before:
            return pairs.select(f.col("high").alias("node"), f.col("low").alias("value"))


def _find_pairs(edges: DataFrame) -> DataFrame:
    """Return the distinct pairs of different nodes with an edge between them, as `low` and `high`."""
    low = f.least("source", "target")
    high = f.greatest("source", "target")
    return edges.where(f.col("source") != f.col("target")).select(low.alias("low"), high.alias("high")).distinct()


def _move_large_stars(pairs: DataFrame) -> DataFrame:
    """Connect every larger neighbour of a node to the smallest of the node and its neighbours."""
    both = pairs.select(f.col("low").alias("near"), f.col("high").alias("far")).union(
        pairs.select(f.col("high").alias("near"), f.col("low").alias("far"))
    )
    least = both.groupBy("near").agg(f.least(f.min("far"), f.first("near")).alias("least"))
    moved = both.join(least, "near").where(f.col("far") > f.col("near"))
    return moved.select(f.col("least").alias("low"), f.col("far").alias("high")).distinct()


def _move_small_stars(pairs: DataFrame) -> DataFrame:
    """Connect a node and its smaller neighbours to the smallest of these neighbours."""
    least = pairs.groupBy("high").agg(f.min("low").alias("least"))
    joined = pairs.join(least, "high")
    moved = joined.select("least", f.col("low").alias("high")).union(joined.select("least", "high"))
    return moved.where(f.col("least") != f.col("high")).select(f.col("least").alias("low"), "high").distinct()


def _compute_fingerprint(pairs: DataFrame) -> tuple[object, ...]:
    """Return the number of pairs and a sum of their hashes, which change when a pair changes."""
    # A sum does not depend on the order of rows. As a decimal of 38 digits, it can't overflow as a long could.
    hashes = f.sum(f.xxhash64("low", "high").cast("decimal(38,0)"))
    row = pairs.agg(f.count("*"), hashes).head()
    return () if row is None else tuple(row)


def _propagate_labels(nodes: DataFrame, edges: DataFrame, rounds: int) -> tuple[DataFrame, int, bool]:
    """Return the label of every node, the number of iterations, and whether the labels are stable."""
    both = _add_reversed(edges.select("source", "target")).persist()
    labels = nodes.select("node", f.col("node").alias("value")).checkpoint()
    try:
        for number in range(1, rounds + 1):
            offered = both.join(labels, both["target"] == labels["node"]).groupBy("source", "value").count()
            # The most frequent label wins, and among equally frequent ones the smallest: `max` sees it negated.
            best = offered.groupBy(f.col("source").alias("node")).agg(
                f.max(f.struct(f.col("count"), (-f.col("value")).alias("negative"))).alias("best")
            )
            renewed = (
                labels.join(best, "node", "left")
                .select(
                    "node",
                    f.col("value").alias("before"),
                    f.coalesce(-f.col("best.negative"), f.col("value")).alias("value"),
                )
                .checkpoint()
            )
            is_same = not renewed.where(f.col("before") != f.col("value")).head(1)
            labels = renewed.drop("before")
            if is_same:
                return labels, number, True
        # Without edges no label can change, even if no iteration was allowed.
        return labels, rounds, not both.head(1)
    finally:
        both.unpersist()


def _compute_distances(edges: DataFrame, start: int, paths: ShortestPaths) -> DataFrame:
    """Return the distance of every node that can be reached from `start`: Bellman-Ford with a frontier."""
    oriented = _orient_edges(edges, paths.direction)
    weight = f.lit(1) if paths.weight is None else f.col("weight")
    kind = "long" if paths.weight is None else "double"
    first = edges.sparkSession.createDataFrame(
        [(start, 0 if paths.weight is None else 0.0)], f"node long, value {kind}"
    )
    distances = closer = first.checkpoint()
    # Only nodes whose distance fell in the last iteration can shorten that of a neighbour.
    while closer.head(1):
        offered = (
            oriented.join(closer, oriented["source"] == closer["node"])
            .groupBy(f.col("target").alias("node"))
            .agg(f.min((f.col("value") + weight).cast(kind)).alias("offer"))
        )
        joined = distances.join(offered, "node", "full").select(
            "node",
            f.least("value", "offer").alias("value"),
            (f.col("value").isNull() | (f.col("offer") < f.col("value"))).alias("is_closer"),
        )
        renewed = joined.checkpoint()
        distances = renewed.select("node", "value")
        closer = renewed.where("is_closer").select("node", "value")
    return distances


def _orient_edges(edges: DataFrame, direction: Direction) -> DataFrame:
    match direction:
        case Direction.OUT:
            return edges
        case Direction.IN:
            return _reverse(edges)
        case Direction.BOTH:
            return _add_reversed(edges)


def _check_weights(edges: DataFrame, edge: str, name: str) -> None:
    wrong = edges.where(f.col("weight").isNull() | (f.col("weight") < 0)).count()
    if wrong:
        raise QueryError.algorithm_argument(
            "weight", name, f"{wrong:,} edges of {edge} have no weight, or a negative one"
        )


def _count_triangles(edges: DataFrame) -> DataFrame:
    """Return the number of triangles of every node that is in one.

    A triangle is found once, from its corner of the lowest degree, so hubs don't multiply the candidates.
    """
    pairs = _find_pairs(edges).persist()
    ends = pairs.select(f.col("low").alias("node")).union(pairs.select(f.col("high").alias("node")))
    degrees = ends.groupBy("node").count()
    low = degrees.select(f.col("node").alias("low"), f.col("count").alias("low_degree"))
    high = degrees.select(f.col("node").alias("high"), f.col("count").alias("high_degree"))
    is_low_first = f.col("low_degree") <= f.col("high_degree")
    with_degrees = pairs.join(low, "low").join(high, "high")
    oriented = with_degrees.select(
        f.when(is_low_first, f.col("low")).otherwise(f.col("high")).alias("corner"),
        f.when(is_low_first, f.col("high")).otherwise(f.col("low")).alias("side"),
    ).persist()
    second = oriented.select("corner", f.col("side").alias("second"))
    third = oriented.select("corner", f.col("side").alias("third"))
    wedges = second.join(third, "corner").where(f.col("second") < f.col("third"))
    closed = wedges.join(pairs, (wedges["second"] == pairs["low"]) & (wedges["third"] == pairs["high"]))
    corners = closed.select(f.explode(f.array("corner", "second", "third")).alias("node"))
    return corners.groupBy("node").agg(f.count("*").alias("value"))
