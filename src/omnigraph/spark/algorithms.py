"""Algorithms as Spark DataFrames, for networks that don't fit into one process; they find what those in memory find.

Nodes are numbered in the order of their ids, as in memory. Every round ends in a checkpoint on the executors, so that
a plan never grows with the number of rounds.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from omnigraph.engine.algorithms.shortest_paths import Direction
from omnigraph.ops.algorithm_call import (
    Algorithm,
    AlgorithmArgumentError,
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
from omnigraph.spark.session.error_translation import surface_errors
from omnigraph.spark.spark_graph import SparkGraph

_LOCAL_BITS = 33
"""Spark's increasing ids have the number of the row within its partition in so many low bits."""

Frames = Callable[[AnyType, list[str]], DataFrame]
"""Some columns of a type's table, in the state that an algorithm is over."""


def create_algorithms(session: Session) -> "SparkAlgorithms":
    """The algorithms over a graph."""

    def frames(subject: AlgorithmInput) -> Frames:
        graph = SparkGraph(session, subject.snapshot)
        return lambda type_, columns: graph.table(type_.name, columns=columns)

    return SparkAlgorithms(frames)


@dataclass(frozen=True)
class SparkAlgorithms:
    """The algorithms over whatever tables `frames` gives."""

    frames: Callable[[AlgorithmInput], Frames]

    def run(self, subject: AlgorithmInput, algorithm: Algorithm) -> NodeValues:
        """What the algorithm finds, in the order of ids."""
        with surface_errors():
            return self._run(subject, algorithm)

    def _run(self, subject: AlgorithmInput, algorithm: Algorithm) -> NodeValues:
        frames = self.frames(subject)
        nodes = _number_nodes(frames(subject.node, [ID]))
        weight = algorithm.weight if isinstance(algorithm, ShortestPaths) else None
        edges = _build_edges(frames(subject.edge, [SRC, DST, *([weight] if weight else [])]), nodes, weight)
        try:
            return self._compute_values(subject, algorithm, nodes, edges)
        finally:
            edges.unpersist()
            nodes.unpersist()

    def _compute_values(
        self, subject: AlgorithmInput, algorithm: Algorithm, nodes: DataFrame, edges: DataFrame
    ) -> NodeValues:
        match algorithm:
            case Pagerank():
                ranks, rounds, is_converged = _compute_pagerank(nodes, edges, algorithm)
                return _collect(nodes, ranks, pa.float64(), rounds, is_converged=is_converged)
            case Components():
                return _collect(nodes, _map_to_ids(nodes, _find_components(edges)), pa.string())
            case LabelPropagation():
                labels, rounds, is_converged = _propagate_labels(nodes, edges, algorithm.max_rounds)
                return _collect(nodes, _map_to_ids(nodes, labels), pa.string(), rounds, is_converged=is_converged)
            case ShortestPaths():
                start = nodes.where(f.col(ID) == algorithm.start).select("node").first()
                if start is None:
                    reason = f"{subject.node.name} has no node of this id"
                    raise AlgorithmArgumentError("start", repr(algorithm.start), reason)
                if algorithm.weight is not None:
                    _check_weights(edges, subject.edge.name, algorithm.weight)
                return _collect(nodes, _compute_distances(edges, start.node, algorithm), algorithm.type)
            case TriangleCount():
                return _collect(nodes, _count_triangles(edges), pa.int64(), otherwise=0)


# --- the network --------------------------------------------------------------------------------------


def _number_nodes(ids: DataFrame) -> DataFrame:
    """`id` and `node`: numbers from 0 in the order of ids."""
    placed = (
        ids.select(ID)
        .orderBy(ID)
        .withColumn("place", f.monotonically_increasing_id())
        .withColumn("part", f.shiftright("place", _LOCAL_BITS))
        .localCheckpoint()
    )
    counts = {row.part: row["count"] for row in placed.groupBy("part").count().collect()}
    starts, total = [], 0
    for part in sorted(counts):
        starts.append((part, total))
        total += counts[part]
    session = ids.sparkSession
    offsets = f.broadcast(session.createDataFrame(starts, "part long, start long"))
    local = f.col("place").bitwiseAND(f.lit((1 << _LOCAL_BITS) - 1))
    return placed.join(offsets, "part").select(ID, (f.col("start") + local).alias("node")).persist()


def _build_edges(ends: DataFrame, nodes: DataFrame, weight: str | None) -> DataFrame:
    """`source`, `target` as numbers, and `weight` where one is asked for."""
    sources = nodes.select(f.col(ID).alias(SRC), f.col("node").alias("source"))
    targets = nodes.select(f.col(ID).alias(DST), f.col("node").alias("target"))
    weights = [] if weight is None else [f.col(weight).cast("double").alias("weight")]
    return ends.join(sources, SRC).join(targets, DST).select("source", "target", *weights).persist()


def _add_reversed(edges: DataFrame) -> DataFrame:
    return edges.unionByName(_reverse(edges))


def _reverse(edges: DataFrame) -> DataFrame:
    others = [name for name in edges.columns if name not in ("source", "target")]
    return edges.select(f.col("target").alias("source"), f.col("source").alias("target"), *others)


def _collect(
    nodes: DataFrame,
    values: DataFrame,
    type_: pa.DataType,
    rounds: int | None = None,
    *,
    is_converged: bool = True,
    otherwise: int | None = None,
) -> NodeValues:
    """The value of every node, in the order of ids; `otherwise` for a node that has none."""
    value = f.col("value") if otherwise is None else f.coalesce("value", f.lit(otherwise))
    table = nodes.join(values, "node", "left").orderBy("node").select(ID, value.alias("value")).toArrow()
    ids = table.column(ID).cast(pa.string()).combine_chunks()
    return NodeValues(ids, table.column("value").cast(type_).combine_chunks(), rounds, is_converged)


def _map_to_ids(nodes: DataFrame, values: DataFrame) -> DataFrame:
    """Values that are numbers of nodes, as ids; a node without one has its own."""
    named = nodes.select(f.col("node").alias("value"), f.col(ID).alias("name"))
    own = nodes.select("node").join(values, "node", "left").select("node", f.coalesce("value", "node").alias("value"))
    return own.join(named, "value").select("node", f.col("name").alias("value"))


# --- the algorithms -----------------------------------------------------------------------------------


def _compute_pagerank(nodes: DataFrame, edges: DataFrame, asked: Pagerank) -> tuple[DataFrame, int, bool]:
    count = nodes.count()
    degrees = edges.groupBy(f.col("source").alias("node")).agg(f.count("*").alias("degree"))
    # A share is passed along each edge; what nodes without edges have goes to all.
    state = (
        nodes.select("node")
        .join(degrees, "node", "left")
        .select("node", "degree", f.lit(1.0 / max(count, 1)).alias("value"))
        .localCheckpoint()
    )
    for number in range(1, asked.max_rounds + 1):
        lost = state.where(f.col("degree").isNull()).agg(f.coalesce(f.sum("value"), f.lit(0.0))).head()
        spread = (1.0 - asked.damping) / max(count, 1) + asked.damping * (0.0 if lost is None else lost[0]) / max(
            count, 1
        )
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
                (f.lit(spread) + asked.damping * f.coalesce("passed", f.lit(0.0))).alias("value"),
            )
            .localCheckpoint()
        )
        moved = renewed.agg(f.sum(f.abs(f.col("value") - f.col("before")))).head()
        state = renewed.drop("before")
        if moved is None or moved[0] is None or moved[0] < asked.tolerance:
            return state.select("node", "value"), number if count else 0, True
    return state.select("node", "value"), asked.max_rounds, False


def _find_components(edges: DataFrame) -> DataFrame:
    """Alternating stars: every node ends up next to the smallest of its component, after few rounds."""
    pairs = _find_pairs(edges).localCheckpoint()
    mark = _compute_fingerprint(pairs)
    while True:
        pairs = _move_small_stars(_move_large_stars(pairs)).localCheckpoint()
        before, mark = mark, _compute_fingerprint(pairs)
        if mark == before:
            return pairs.select(f.col("high").alias("node"), f.col("low").alias("value"))


def _find_pairs(edges: DataFrame) -> DataFrame:
    """The pairs of different nodes with an edge between them, once each: `low` and `high`."""
    low, high = f.least("source", "target"), f.greatest("source", "target")
    return edges.where(f.col("source") != f.col("target")).select(low.alias("low"), high.alias("high")).distinct()


def _move_large_stars(pairs: DataFrame) -> DataFrame:
    """Every larger neighbour of a node moves to the smallest of its neighbours and itself."""
    both = pairs.select(f.col("low").alias("near"), f.col("high").alias("far")).union(
        pairs.select(f.col("high").alias("near"), f.col("low").alias("far"))
    )
    least = both.groupBy("near").agg(f.least(f.min("far"), f.first("near")).alias("least"))
    moved = both.join(least, "near").where(f.col("far") > f.col("near"))
    return moved.select(f.col("least").alias("low"), f.col("far").alias("high")).distinct()


def _move_small_stars(pairs: DataFrame) -> DataFrame:
    """A node and its smaller neighbours all move to the smallest of them."""
    least = pairs.groupBy("high").agg(f.min("low").alias("least"))
    joined = pairs.join(least, "high")
    moved = joined.select("least", f.col("low").alias("high")).union(joined.select("least", "high"))
    return moved.where(f.col("least") != f.col("high")).select(f.col("least").alias("low"), "high").distinct()


def _compute_fingerprint(pairs: DataFrame) -> tuple[object, ...]:
    """Tells pairs from others."""
    hashes = f.sum(f.xxhash64("low", "high").cast("decimal(38,0)"))
    found = pairs.agg(f.count("*"), hashes).head()
    return () if found is None else tuple(found)


def _propagate_labels(nodes: DataFrame, edges: DataFrame, rounds: int) -> tuple[DataFrame, int, bool]:
    both = _add_reversed(edges.select("source", "target")).persist()
    labels = nodes.select("node", f.col("node").alias("value")).localCheckpoint()
    try:
        for number in range(1, rounds + 1):
            offered = both.join(labels, both["target"] == labels["node"]).groupBy("source", "value").count()
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
                .localCheckpoint()
            )
            is_same = not renewed.where(f.col("before") != f.col("value")).head(1)
            labels = renewed.drop("before")
            if is_same:
                return labels, number, True
        return labels, rounds, not both.head(1)
    finally:
        both.unpersist()


def _compute_distances(edges: DataFrame, start: int, asked: ShortestPaths) -> DataFrame:
    followed = _orient_edges(edges, asked.direction)
    weight = f.lit(1) if asked.weight is None else f.col("weight")
    kind = "long" if asked.weight is None else "double"
    first = edges.sparkSession.createDataFrame(
        [(start, 0 if asked.weight is None else 0.0)], f"node long, value {kind}"
    )
    found = closer = first.localCheckpoint()
    while closer.head(1):
        offered = (
            followed.join(closer, followed["source"] == closer["node"])
            .groupBy(f.col("target").alias("node"))
            .agg(f.min((f.col("value") + weight).cast(kind)).alias("offer"))
        )
        joined = found.join(offered, "node", "full").select(
            "node",
            f.least("value", "offer").alias("value"),
            (f.col("value").isNull() | (f.col("offer") < f.col("value"))).alias("is_closer"),
        )
        renewed = joined.localCheckpoint()
        found = renewed.select("node", "value")
        closer = renewed.where("is_closer").select("node", "value")
    return found


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
        raise AlgorithmArgumentError("weight", name, f"{wrong:,} edges of {edge} have no weight, or a negative one")


def _count_triangles(edges: DataFrame) -> DataFrame:
    """Each found once, from its corner with the fewest neighbours."""
    pairs = _find_pairs(edges).persist()
    ends = pairs.select(f.col("low").alias("node")).union(pairs.select(f.col("high").alias("node")))
    degrees = ends.groupBy("node").count()
    low = degrees.select(f.col("node").alias("low"), f.col("count").alias("low_degree"))
    high = degrees.select(f.col("node").alias("high"), f.col("count").alias("high_degree"))
    is_up = f.col("low_degree") <= f.col("high_degree")
    turned = pairs.join(low, "low").join(high, "high")
    turned = turned.select(
        f.when(is_up, f.col("low")).otherwise(f.col("high")).alias("corner"),
        f.when(is_up, f.col("high")).otherwise(f.col("low")).alias("side"),
    ).persist()
    second = turned.select("corner", f.col("side").alias("second"))
    third = turned.select("corner", f.col("side").alias("third"))
    wedges = second.join(third, "corner").where(f.col("second") < f.col("third"))
    closed = wedges.join(pairs, (wedges["second"] == pairs["low"]) & (wedges["third"] == pairs["high"]))
    corners = closed.select(f.explode(f.array("corner", "second", "third")).alias("node"))
    return corners.groupBy("node").agg(f.count("*").alias("value"))
