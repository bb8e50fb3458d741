"""Everything on a cluster of separate processes: `spark_cluster.py PEOPLE DATA CHANGES THINGS OUT` answers in JSON.

One start of a cluster takes longer than all of this, so one process does it, and several tests look at what came of it.
"""

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame

import omnigraph as og
from omnigraph.engine.bulk.load_batch import LoadBatch
from omnigraph.engine.view import View
from omnigraph.ops.load import GraphSource, LoadCall, LoadInput, LoadMode, Progress, load
from omnigraph.ops.optimize import OptimizeCall, optimize
from omnigraph.ops.optimize_table import UpkeepCall
from omnigraph.spark.algorithms import run_algorithm
from omnigraph.spark.algorithms.rounds import RoundRecord, Rounds
from omnigraph.spark.load.load_engine import SparkLoadOptions, build_reader
from omnigraph.spark.load.load_merge import SparkMerge
from omnigraph.spark.maintenance import SparkMaintenanceWorker
from omnigraph.spark.session.graph_location import GraphLocation
from omnigraph.spark.session.spark_session import session
from omnigraph.storage.layout import RECOVERY
from upkeep_calls import EAGER, opened
from worlds import runtime

MASTER = "local-cluster[2,1,1024]"
CHECKPOINTS = TemporaryDirectory()
ON_EXECUTORS = SparkLoadOptions(
    split_bytes=20_000, max_local_keys=0, max_local_reread_bytes=0, max_local_merge_rows=0, max_local_read_bytes=0
)


def loaded(spark: SparkSession, graph: og.Graph, mode: str, data: Path, how: SparkLoadOptions, **more: Any) -> Any:
    """What a load on Spark tells."""
    given = LoadInput(graph=(GraphSource(data=data),))
    call = LoadCall(input=given, mode=LoadMode(mode), actor="test", **more)
    return load(graph._session, call, build_reader(spark=spark, loading=how)).to_json()


def executors() -> Iterator[int]:
    """The executors' processes, which are of our own session."""
    for place in Path("/proc").iterdir():
        try:
            words = (place / "cmdline").read_bytes().split(b"\0") if place.name.isdigit() else []
            session_id = os.getsid(int(place.name)) if words else 0
        except OSError:
            continue
        if b"org.apache.spark.executor.CoarseGrainedExecutorBackend" in words and session_id == os.getsid(0):
            yield int(place.name)


def load_and_kill(spark: SparkSession, graph: og.Graph, data: Path) -> dict[str, Any]:
    """A load during which an executor is killed."""
    killed: list[int] = []

    def kill_one(progress: Progress) -> None:
        there = sorted(executors())
        if progress.phase == "read" and there and not killed:
            os.kill(there[0], signal.SIGKILL)
            killed.append(there[0])

    how = SparkLoadOptions(split_bytes=20_000, max_local_keys=0)
    return {**loaded(spark, graph, "append", data, how, progress=kill_one), "killed": len(killed)}


def merge_with_a_bad_one(spark: SparkSession, graph: og.Graph, data: Path) -> dict[str, Any]:
    """A merge that no rows of which come to the driver, but those that may be wrong."""
    stayed: list[bool] = []
    asked = SparkMerge._check_on_executors

    def watched(self: SparkMerge, view: View, *, leaves_out: bool) -> LoadBatch | None:
        batch = asked(self, view, leaves_out=leaves_out)
        stayed.append(batch is not None)
        return batch

    with patch.object(SparkMerge, "_check_on_executors", watched):
        told = loaded(spark, graph, "merge", data, ON_EXECUTORS, on_error=data.with_suffix(".bad"))
    return {**told, "stayed": stayed}


def read_and_write(spark: SparkSession, graph: og.Graph, out: Path) -> dict[str, Any]:
    """Reads, an export, and a write through the data source."""
    ids = sorted(row.id for row in graph.spark.table("Thing", columns=["id"]).collect())
    joined = graph.spark.sql("select count(*) n from Link l join Thing t on l.src = t.id").first()
    graph.spark.export(str(out))
    new = spark.createDataFrame([("new 1",), ("new 2",)], "id string").repartition(2)
    new.write.format("omnigraph").mode("append").options(graph=graph.uri, type="Thing").save()
    assert joined is not None
    return {"ids": ids, "joined": joined.n, "rows": graph.snapshot().pin("node:Thing").rows}


def ask_and_kill(graph: og.Graph) -> dict[str, Any]:
    """A search over several edges during which an executor is killed, after some of its checkpoints."""
    text = """query q() {
        match { $p: Person { name: "p1" } $p knows{1,6} $q } return { $q.name, count { $q knows $r } as n }
        order { $q.name }
    }"""
    killed: list[int] = []
    checkpoints: list[int] = []
    keep = ClassicFrame.checkpoint

    def keep_and_kill(frame: ClassicFrame) -> DataFrame:
        kept = keep(frame)
        checkpoints.append(len(checkpoints))
        if len(checkpoints) == 4:
            killed.append(min(executors()))
            os.kill(killed[0], signal.SIGKILL)
        return kept

    with patch.object(ClassicFrame, "checkpoint", keep_and_kill):
        rows = graph.query(text, engine="spark").rows()
    left = [str(path) for path in Path(CHECKPOINTS.name).rglob("*") if path.name.startswith("omnigraph-")]
    return {"rows": rows, "expected": graph.query(text, engine="memory").rows(), "killed": len(killed), "left": left}


def rank_and_kill(graph: og.Graph) -> dict[str, Any]:
    """An algorithm during which an executor is killed, after its first rounds."""
    killed: list[int] = []
    keep = Rounds._keep

    def keep_and_kill(self: Rounds, number: int, *rest: Any) -> RoundRecord:
        if number == 2:
            killed.append(min(executors()))
            os.kill(killed[0], signal.SIGKILL)
        return keep(self, number, *rest)

    with patch.object(Rounds, "_keep", keep_and_kill), patch.object(run_algorithm, "count_parts", lambda *_, **__: 3):
        spark, local = (
            graph.algorithms.pagerank("Knows", max_rounds=3, tolerance=1e-300, engine=engine).to_arrow()
            for engine in ("spark", "local")
        )
    left = [info.key for info in graph._session.store.objects.list_under(RECOVERY)]
    told = {"spark": spark["rank"].to_pylist(), "local": local["rank"].to_pylist()}
    return {**told, "has_ids": spark["id"].equals(local["id"]), "killed": len(killed), "left": left}


def optimized(spark: SparkSession, address: str) -> dict[str, Any]:
    """What maintenance by executors did to each table, and what one process would have done."""
    graph = opened(address)
    due = graph.optimize(all_indexes=True, dry_run=True)
    call = OptimizeCall(upkeep=UpkeepCall(actor="test", all_indexes=True))
    done = optimize(
        graph._session,
        call,
        SparkMaintenanceWorker(spark, GraphLocation.from_session(graph._session), EAGER, min_rows=0),
    )
    return {name: [msgspec.structs.asdict(one) for one in run.tables] for name, run in (("due", due), ("done", done))}


def run(people: str, data: str, changes: str, things: str, out: str) -> dict[str, Any]:
    """All of it, one after the other."""
    spark = session(MASTER)
    spark.range(0, 4, 1, 4).mapInArrow(lambda batches: batches, "id long").collect()
    graph = og.open_graph(people, runtime=runtime())
    spark.sparkContext.setCheckpointDir(CHECKPOINTS.name)
    return {
        "master": spark.sparkContext.master,
        "loaded": load_and_kill(spark, graph, Path(data)),
        "merged": merge_with_a_bad_one(spark, graph, Path(changes)),
        "read": read_and_write(spark, og.open_graph(things), Path(out)),
        "optimized": optimized(spark, things),
        "asked": ask_and_kill(og.open_graph(people)),
        "ranked": rank_and_kill(og.open_graph(people)),
    }


if __name__ == "__main__":
    print(json.dumps(run(*sys.argv[1:]), default=str))  # noqa: T201 - its answer
