"""Count triangles by joins: no rounds, so nothing has to be kept between them."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f


def count_triangles(edges: DataFrame) -> DataFrame:
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


def _find_pairs(edges: DataFrame) -> DataFrame:
    """Return the distinct pairs of different nodes with an edge between them, as `low` and `high`."""
    low = f.least("source", "target")
    high = f.greatest("source", "target")
    return edges.where(f.col("source") != f.col("target")).select(low.alias("low"), high.alias("high")).distinct()
