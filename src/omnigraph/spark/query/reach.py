"""Search over several edges on Spark: one join per distance, each kept in a checkpoint that outlives an executor."""

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

# The columns of the pairs that are found. The branch is the neighbour of the source that a target was reached through.
_SOURCE, _TARGET, _DISTANCE, _BRANCH = "source", "target", "distance", "branch"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachCall:
    """The input of a search: DataFrames of one column of sources, of two of edges, and of nodes that may be between."""

    sources: DataFrame
    edges: DataFrame
    low: int
    high: int | None
    through: DataFrame | None = None
    is_undirected: bool = False
    """Whether a step back is no cycle."""


def search_reach(call: ReachCall) -> DataFrame:
    """Return the pairs of ids whose breadth-first distance is within the bounds.

    The distance of an id to itself is the length of the shortest cycle through it, and 0 if `low` is 0.
    """
    edges = call.edges.toDF("near", "far").distinct().checkpoint()
    through = None if call.through is None else call.through.toDF("near").distinct()
    if through is not None:
        through = through.checkpoint()
    start = call.sources.toDF(_SOURCE).where(f.col(_SOURCE).isNotNull()).distinct()
    frontier = start.select(_SOURCE, f.col(_SOURCE).alias(_TARGET), f.lit("").alias(_BRANCH)).checkpoint()
    pairs = frontier.withColumn(_DISTANCE, f.lit(0))
    if call.low > 0:
        # A node is at distance 0 of itself only where that counts; else it is reached by a cycle.
        pairs = pairs.limit(0)
    finds_cycles = call.is_undirected and call.low > 0
    distance = 0
    while (call.high is None or distance < call.high) and not frontier.isEmpty():
        distance += 1
        if distance > 1:
            frontier = _keep_passing(frontier, through)
        # One branch of each target is enough to find a shortest cycle, whichever it is.
        branch = f.col("far") if finds_cycles and distance == 1 else f.col(_BRANCH)
        reached = frontier.join(edges, _is_next(frontier)).select(
            _SOURCE, f.col("far").alias(_TARGET), branch.alias(_BRANCH)
        )
        if finds_cycles:
            reached = reached.where(f.col(_SOURCE) != f.col(_TARGET))
        reached = reached.groupBy(_SOURCE, _TARGET).agg(f.min(_BRANCH).alias(_BRANCH))
        # Without the checkpoint the plan would grow with each distance, and a lost executor would start it all again.
        frontier = reached.join(pairs, [_SOURCE, _TARGET], "left_anti").checkpoint()
        pairs = pairs.unionByName(frontier.withColumn(_DISTANCE, f.lit(distance)))
    found = pairs.where(f.col(_DISTANCE) >= call.low).select(_SOURCE, _TARGET)
    if not finds_cycles:
        return found
    return found.unionByName(_find_cycles(call, start, edges, _keep_passing(pairs, through)))


def _keep_passing(pairs: DataFrame, through: DataFrame | None) -> DataFrame:
    return pairs if through is None else pairs.join(through, _is_next(pairs), "left_semi")


def _is_next(pairs: DataFrame) -> Column:
    return pairs[_TARGET] == f.col("near")


def _find_cycles(call: ReachCall, start: DataFrame, edges: DataFrame, pairs: DataFrame) -> DataFrame:
    """Return the ids that a cycle leads back to, whose shortest one is within the bounds.

    It closes where two branches meet, or is an edge from an id to itself.
    """
    other = pairs.toDF(*(f"other_{name}" for name in pairs.columns))
    met = pairs.join(edges, _is_next(pairs)).join(
        other, (f.col(f"other_{_SOURCE}") == f.col(_SOURCE)) & (f.col(f"other_{_TARGET}") == f.col("far"))
    )
    length = f.col(_DISTANCE) + f.col(f"other_{_DISTANCE}") + 1
    closed = met.where(f.col(_BRANCH) != f.col(f"other_{_BRANCH}")).select(_SOURCE, length.alias(_DISTANCE))
    loops = start.join(edges, (f.col(_SOURCE) == f.col("near")) & (f.col(_SOURCE) == f.col("far")))
    lengths = closed.unionByName(loops.select(_SOURCE, f.lit(1).alias(_DISTANCE)))
    shortest = lengths.groupBy(_SOURCE).agg(f.min(_DISTANCE).alias(_DISTANCE))
    is_within = f.col(_DISTANCE) >= call.low
    if call.high is not None:
        is_within &= f.col(_DISTANCE) <= call.high
    return shortest.where(is_within).select(_SOURCE, f.col(_SOURCE).alias(_TARGET))
