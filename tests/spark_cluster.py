"""Reads, writes and exports on a cluster of separate processes: `python spark_cluster.py GRAPH OUT` answers in JSON."""

import json
import sys
from pathlib import Path

import omnigraph as og
from omnigraph.spark.session import session

MASTER = "local-cluster[2,1,1024]"


def run(address: str, out: str) -> dict[str, object]:
    """What the cluster reads of a graph, and writes of it."""
    spark = session(MASTER)
    graph = og.open_graph(address)
    ids = sorted(row.id for row in graph.spark.table("Thing", columns=["id"]).collect())
    joined = graph.spark.sql("select count(*) n from Link l join Thing t on l.src = t.id").first()
    graph.spark.export(out)
    new = spark.createDataFrame([("new 1",), ("new 2",)], "id string").repartition(2)
    new.write.format("omnigraph").mode("append").options(graph=address, type="Thing").save()
    assert joined is not None
    return {
        "master": spark.sparkContext.master,
        "ids": ids,
        "joined": joined.n,
        "rows": graph.snapshot().pin("node:Thing").rows,
    }


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1], str(Path(sys.argv[2])))))  # noqa: T201 - its answer
