"""Everything through Spark Connect: `spark_connect.py GRAPH DATA BAD OUT` answers in JSON what each door said.

The client and its server are one process here, but the client asks nothing of the server's JVM but by its protocol.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import omnigraph as og
from omnigraph.ops.load import GraphSource, LoadCall, LoadInput, LoadMode, Progress, load
from omnigraph.ops.optimize import OptimizeCall, optimize
from omnigraph.ops.optimize_table import UpkeepCall
from omnigraph.spark.load.load_engine import SparkLoadOptions, build_reader
from omnigraph.spark.maintenance import SparkMaintenanceWorker
from omnigraph.spark.session.graph_location import GraphLocation
from omnigraph.spark.session.java_runtime import JAVA_HOME, detect_java
from omnigraph.spark.session.spark_session import _create_environment
from upkeep_calls import EAGER, opened

ON_EXECUTORS = SparkLoadOptions(
    split_bytes=300, max_local_keys=0, max_local_reread_bytes=0, max_local_merge_rows=0, max_local_read_bytes=0
)
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
}


def begin(place: Path) -> SparkSession:
    """A session of `SparkSession.builder.remote("local[2]")`, on a port of its own."""
    os.environ["SPARK_TESTING"] = "1"  # Spark's own way to a free port
    os.environ["PYSPARK_PYTHON"] = sys.executable
    environment = _create_environment()
    os.environ[JAVA_HOME] = str(environment.create_java_home(detect_java()))
    logging = f"-Dlog4j2.configurationFile={environment.logging.as_uri()}"
    places = {"spark.local.dir": str(place / "local"), "spark.sql.warehouse.dir": str(place / "warehouse")}
    builder = SparkSession.builder.remote("local[2]")
    for name, value in {**SETTINGS, **places, "spark.driver.extraJavaOptions": logging}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


class Doors:
    """What a client may ask, one after the other."""

    def __init__(self, spark: SparkSession, uri: str, data: str, bad: str, out: Path) -> None:
        self.spark = spark
        self.graph = opened(uri)
        self.data, self.bad, self.out = data, bad, out

    def bad_load(self) -> Any:
        return self._load(self.bad, LoadMode.APPEND)

    def cancelled_load(self) -> Any:
        def stop(_: Progress) -> None:
            raise KeyboardInterrupt

        try:
            return self._load(self.data, LoadMode.APPEND, progress=stop)
        except KeyboardInterrupt:
            return "cancelled"

    def load(self) -> Any:
        return self._load(self.data, LoadMode.APPEND)

    def merge(self) -> Any:
        return self._load(self.data, LoadMode.MERGE)

    def load_of_a_frame(self) -> Any:
        rows = self.spark.createDataFrame([("new", 1), ("newer", 2)], "name string, age int")
        return self.graph.spark.load(nodes={"Person": rows}, mode="append").to_json()

    def read(self) -> Any:
        rows = self.graph.spark.table("Person", where="age < 3").select("name", "age").orderBy("name")
        return [tuple(row) for row in rows.collect()]

    def estimate(self) -> Any:
        """A table that is much smaller than its estimate is read once, row by row."""
        edges = self.graph.spark.edges("Knows")
        return edges.join(self.graph.spark.table("Person"), edges.dst == f.col("name")).count()

    def sql(self) -> Any:
        first = self.graph.spark.sql("select count(*) n, max(p.age) m from knows k join Person p on k.dst = p.id")
        star = self.graph.spark.sql("with a as (select * from Person) select * from a where name = 'p1'")
        again = first.where("n > 0").union(first)  # the types are no views any more
        return [[tuple(row) for row in frame.collect()] for frame in (first, again)], star.columns

    def sql_result(self) -> Any:
        return self.graph.sql("select name from Person where age = 1", engine="spark").rows()

    def wrong_sql(self) -> Any:
        return self.graph.spark.sql("select nope from Person").collect()

    def write_by_sql(self) -> Any:
        return self.graph.spark.sql("insert into Person select * from Person")

    def taken_view(self) -> Any:
        self.spark.range(1).createOrReplaceTempView("person")
        try:
            return self.graph.spark.sql("select * from Person").count()
        finally:
            self.spark.catalog.dropTempView("person")

    def register(self) -> Any:
        names = self.graph.spark.register("og")
        return names, self.spark.sql("select count(*) from og_person").first()[0]  # type: ignore[index]

    def changes(self) -> Any:
        return self.graph.spark.changes().groupBy("change").count().orderBy("change").collect()

    def source(self) -> Any:
        read = self.spark.read.format("omnigraph").options(graph=self.graph.uri, type="Person", filter="age = 1")
        return read.load().count()

    def sink(self) -> Any:
        rows = self.spark.createDataFrame([("sunk", 5)], "name string, age int")
        rows.write.format("omnigraph").mode("append").options(graph=self.graph.uri, type="Person").save()
        return self.graph.commits()[0].operation

    def bad_sink(self) -> Any:
        rows = self.spark.createDataFrame([("old", 500)], "name string, age int")
        rows.write.format("omnigraph").mode("append").options(graph=self.graph.uri, type="Person").save()

    def stream_of_changes(self) -> Any:
        read = self.spark.readStream.format("omnigraph").options(graph=self.graph.uri, changes="true").load()
        places = {"checkpointLocation": str(self.out / "checkpoint"), "path": str(self.out / "feed")}
        write = read.writeStream.format("parquet").options(**places).trigger(availableNow=True)
        write.start().awaitTermination()
        return self.spark.read.parquet(places["path"]).count() == self.graph.spark.changes().count()

    def export(self) -> Any:
        self.graph.spark.export(self.out / "export")
        return sum(1 for path in (self.out / "export").iterdir() for _ in path.open(encoding="utf-8"))

    def optimize(self) -> Any:
        hands = SparkMaintenanceWorker(self.spark, GraphLocation.from_session(self.graph._session), EAGER, min_rows=0)
        done = optimize(self.graph._session, OptimizeCall(upkeep=UpkeepCall(actor="test", all_indexes=True)), hands)
        return done.has_failed

    def algorithm(self) -> Any:
        rows = self.graph.spark.algorithm("pagerank", "Knows").orderBy(f.desc("rank"), "id").limit(3).collect()
        return [row.id for row in rows] == [
            row["id"]
            for row in sorted(
                self.graph.algorithms.pagerank("Knows", engine="local").to_arrow().to_pylist(),
                key=lambda row: (-row["rank"], row["id"]),
            )[:3]
        ]

    def query(self) -> Any:
        return self.graph.spark.query("query q() { match { $p: Person } return { $p.name } }").collect()

    def stream(self) -> Any:
        rows = self.spark.readStream.schema("name string").json(str(self.out))
        return self.graph.spark.stream(rows, "Person", checkpoint=str(self.out / "c"))

    def other_master(self) -> Any:
        return self.graph.load(self.data, mode="merge", master="local[7]").to_json()

    def other_process(self) -> Any:
        """The command line, which makes no session of Spark Connect."""
        port = self.spark.client._builder._port  # type: ignore[attr-defined]
        words = ["load", self.graph.uri, "--mode", "merge", "--data", self.data, "--master", f"sc://127.0.0.1:{port}"]
        done = subprocess.run(
            [sys.executable, "-m", "omnigraph", *words, "--json"], capture_output=True, text=True, check=False
        )
        return json.loads(done.stdout or done.stderr)

    def _load(self, data: str, mode: LoadMode, **more: Any) -> Any:
        call = LoadCall(input=LoadInput(graph=(GraphSource(data=Path(data)),)), mode=mode, actor="test", **more)
        done = load(self.graph._session, call, build_reader(spark=self.spark, loading=ON_EXECUTORS)).to_json()
        self.graph = opened(self.graph.uri)
        return done


def list_doors() -> list[str]:
    """All doors, in the order in which they are written here."""
    return [name for name in vars(Doors) if not name.startswith("_")]


def answer(door: Callable[[], Any]) -> Any:
    try:
        return door()
    except og.OmnigraphError as error:
        return {"code": error.code, "message": str(error)}
    except Exception as error:  # noqa: BLE001 - Spark's own, which has ours in its text
        return {"code": type(error).__name__, "message": str(error)}


if __name__ == "__main__":
    place = Path(sys.argv[4])
    doors = Doors(begin(place), sys.argv[1], sys.argv[2], sys.argv[3], place)
    answers = {name: answer(getattr(doors, name)) for name in sys.argv[5:] or list_doors()}
    print(json.dumps(answers, default=str))  # noqa: T201 - its answer
