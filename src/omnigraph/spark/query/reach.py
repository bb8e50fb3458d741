"""Search over several edges on Spark: one join per distance, each kept in a checkpoint that outlives an executor."""

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

# The columns of the pairs that are found.
_SOURCE, _TARGET, _DISTANCE = "source", "target", "distance"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachCall:
    """The input of a search: DataFrames of one column of sources, of two of edges, and of nodes that may be between."""

    sources: DataFrame
    edges: DataFrame
    low: int
    high: int | None
    through: DataFrame | None = None


def search_reach(call: ReachCall) -> DataFrame:
    """Return the pairs of ids whose breadth-first distance is within the bounds.

    The distance of an id to itself is the length of the shortest cycle through it, and 0 if `low` is 0.
    """
    edges = call.edges.toDF("near", "far").distinct().checkpoint()
    through = None if call.through is None else call.through.toDF("near").distinct()
    if through is not None:
        through = through.checkpoint()
    start = call.sources.toDF(_SOURCE).where(f.col(_SOURCE).isNotNull()).distinct()
    frontier = start.select(_SOURCE, f.col(_SOURCE).alias(_TARGET)).checkpoint()
    pairs = frontier.select(_SOURCE, _TARGET, f.lit(0).alias(_DISTANCE))
    if call.low > 0:
        # A node is at distance 0 of itself only where that counts; else it is reached by a cycle.
        pairs = pairs.limit(0)
    distance = 0
    while (call.high is None or distance < call.high) and not frontier.isEmpty():
        distance += 1
        if through is not None and distance > 1:
            frontier = frontier.join(through, frontier[_TARGET] == through["near"], "left_semi")
        reached = frontier.join(edges, frontier[_TARGET] == edges["near"]).select(_SOURCE, f.col("far").alias(_TARGET))
        # Without the checkpoint the plan would grow with each distance, and a lost executor would start it all again.
        frontier = reached.distinct().join(pairs, [_SOURCE, _TARGET], "left_anti").checkpoint()
        pairs = pairs.unionByName(frontier.withColumn(_DISTANCE, f.lit(distance)))
    return pairs.where(f.col(_DISTANCE) >= call.low).select(_SOURCE, _TARGET)
