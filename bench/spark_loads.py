"""What a load on Spark costs: with all checks, beside Spark writing the same rows to Parquet without any.

Nodes and edges come from graph JSONL and from Parquet; the yardstick reads the same data with Spark's own readers (of
JSONL, one file per type, by a schema) and writes Parquet. Absolute times belong to the machine, and so do ratios of
wall times on a busy one: processor seconds of all processes (driver, JVM, Python workers) stand beside them. Memory is
the peak of each process, of rows and ten times as many. Merges change one row in a hundred, which the driver does, and
every other row, which executors do. `--nodes N --edges M --rounds R --tenfold` as you like.
"""

import argparse
import gc
import os
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pa_parquet
from pyspark.sql import SparkSession

from loads import SCHEMA, json_text, knows, people
from omnigraph.lang.source import Source
from omnigraph.ops.create import create
from omnigraph.ops.load import GraphSource, LoadCall, LoadInput, LoadMode, TypedSource, load
from omnigraph.ops.open import open_session
from omnigraph.ops.session import Session
from omnigraph.options import Durability, Options
from omnigraph.runtime import Runtime
from omnigraph.spark.job import SparkLoading, reader
from omnigraph.spark.session import session as spark_session

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
SECONDS_BETWEEN = 0.05


# --- what processes use --------------------------------------------------------------------------------


@dataclass
class Usage:
    """Processor seconds of this process and all below it, and the peak of their memory by role, in bytes."""

    seconds: float = 0.0
    peaks: dict[str, int] = field(default_factory=dict)


class Watch:
    """Looks at this process and all below it until it is stopped; processes that end in between count by last look."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._seconds: dict[int, float] = {}
        self._peaks: dict[str, int] = {}
        self._look()
        self._before = dict(self._seconds)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> Usage:
        """What was used since the start."""
        self._stop.set()
        self._thread.join()
        self._look()
        used = sum(now - self._before.get(pid, 0.0) for pid, now in self._seconds.items())
        return Usage(used, self._peaks)

    def _run(self) -> None:
        while not self._stop.wait(SECONDS_BETWEEN):
            self._look()

    def _look(self) -> None:
        parents, facts = {}, {}
        for place in Path("/proc").iterdir():
            if place.name.isdigit():
                try:
                    text = (place / "stat").read_text()
                    pages = int((place / "statm").read_text().split()[1])
                except OSError:
                    continue
                name, _, rest = text.partition("(")[2].rpartition(")")[0], None, text.rpartition(")")[2].split()
                parents[int(place.name)] = int(rest[1])
                facts[int(place.name)] = (name, (int(rest[11]) + int(rest[12])) / _TICKS, pages * _PAGE)
        for pid, (name, seconds, memory) in facts.items():
            role = self._role(pid, name, parents)
            if role is not None:
                self._seconds[pid] = seconds
                self._peaks[role] = max(self._peaks.get(role, 0), memory)

    @staticmethod
    def _role(pid: int, name: str, parents: dict[int, int]) -> str | None:
        own = os.getpid()
        if pid == own:
            return "driver"
        above = pid
        while above in parents and above != own:
            above = parents[above]
        if above != own:
            return None
        return "JVM" if name.startswith("java") else "worker"


@dataclass
class Contestant:
    """Something that is measured."""

    name: str
    work: Callable[[Path], object]
    times: list[float] = field(default_factory=list)
    usages: list[Usage] = field(default_factory=list)

    @property
    def wall(self) -> float:
        """The middle time."""
        return statistics.median(self.times)

    @property
    def processor(self) -> float:
        """The middle of the processor seconds."""
        return statistics.median(usage.seconds for usage in self.usages)

    def peak(self, role: str) -> int:
        """The largest process of a role, in MB."""
        return max((usage.peaks.get(role, 0) for usage in self.usages), default=0) // 2**20


def measured(contestants: list[Contestant], rounds: int, place: Path) -> None:
    """Run them in turns."""
    for number in range(rounds):
        for one in contestants:
            target = place / f"{number}"
            target.mkdir()
            gc.collect()
            watch, start = Watch(), time.perf_counter()
            one.work(target)
            one.times.append(time.perf_counter() - start)
            one.usages.append(watch.stop())
            shutil.rmtree(target)


# --- data ----------------------------------------------------------------------------------------------


@dataclass
class Data:
    """The same rows as Parquet and as graph JSONL, a file for each type."""

    place: Path
    rows: int

    def of(self, name: str, ending: str) -> Path:
        """The rows of one type."""
        return self.place / f"{name}.{ending}"

    def lines(self) -> LoadInput:
        """All rows as graph JSONL."""
        return LoadInput(graph=tuple(GraphSource(data=self.of(name, "jsonl")) for name in ("Person", "Knows")))

    def tables(self) -> LoadInput:
        """All rows as Parquet."""
        person = TypedSource(type="Person", is_edge=False, data=self.of("Person", "parquet"))
        return LoadInput(typed=(person, TypedSource(type="Knows", is_edge=True, data=self.of("Knows", "parquet"))))


def made(place: Path, nodes: int, edges: int) -> Data:
    """Write the data."""
    place.mkdir(parents=True)
    data = Data(place, nodes + edges)
    for name, tables in (("Person", people(nodes)), ("Knows", knows(nodes, edges))):
        with data.of(name, "jsonl").open("wb") as lines:
            writer: pa_parquet.ParquetWriter | None = None
            for table in tables:
                writer = writer or pa_parquet.ParquetWriter(data.of(name, "parquet"), table.schema)
                writer.write_table(table)
                lines.write(json_text(name, table))
            if writer is not None:
                writer.close()
    return data


# --- contestants ---------------------------------------------------------------------------------------


def graph_at(place: Path) -> Session:
    """An empty graph."""
    runtime = Runtime(options=Options(durability=Durability.OS))
    return create(str(place / "graph"), Source(SCHEMA, "bench.pg"), actor="bench", runtime=runtime)


def loading(spark: SparkSession, given: LoadInput, mode: LoadMode = LoadMode.APPEND) -> Callable[[Path], object]:
    """A load into a new graph."""

    def work(place: Path) -> object:
        return load(graph_at(place), LoadCall(input=given, mode=mode, actor="bench"), reader(spark=spark))

    return work


_SHAPES = {
    "Person": "type string, data struct<name string, age int, score double, born date, bio string>",
    "Knows": "edge string, `from` string, `to` string, data struct<since date, weight double>",
}
"""What Spark is told of graph JSONL, so that it need not find out."""


def parquet_by_spark(spark: SparkSession, data: Data, ending: str) -> Callable[[Path], object]:
    """Spark's own readers and its own writer, without any check."""

    def work(place: Path) -> None:
        for name, shape in _SHAPES.items():
            path = str(data.of(name, ending))
            rows = spark.read.parquet(path) if ending == "parquet" else spark.read.schema(shape).json(path)
            if ending == "jsonl":
                rows = rows.select("data.*", *(column for column in ("from", "to") if column in rows.columns))
            rows.write.parquet(str(place / name))

    return work


def compared(spark: SparkSession, data: Data, rounds: int, place: Path) -> list[Contestant]:
    """Loads beside the yardsticks."""
    contestants = [
        Contestant("load of graph JSONL", loading(spark, data.lines())),
        Contestant("Spark: JSONL to Parquet", parquet_by_spark(spark, data, "jsonl")),
        Contestant("load of Parquet", loading(spark, data.tables())),
        Contestant("Spark: Parquet to Parquet", parquet_by_spark(spark, data, "parquet")),
    ]
    measured(contestants, rounds, place)
    return contestants


def merging(spark: SparkSession, data: Data, place: Path) -> list[Contestant]:
    """A merge that changes one row in a hundred, beside an append of as many to an empty graph."""
    rounds = 3
    few = pa_parquet.read_table(data.of("Person", "parquet"))
    few = few.take(pa.array(range(0, few.num_rows, 100)))
    given: list[LoadInput] = []
    for number in range(rounds):
        path = place / f"few-{number}.parquet"
        changed = few.set_column(few.schema.get_field_index("score"), "score", pc.add(few["score"], number + 1.0))
        pa_parquet.write_table(changed, path)
        given.append(LoadInput(typed=(TypedSource(type="Person", is_edge=False, data=path),)))
    full = graph_at(place)
    whole = LoadInput(typed=(TypedSource(type="Person", is_edge=False, data=data.of("Person", "parquet")),))
    load(full, LoadCall(input=whole, mode=LoadMode.APPEND, actor="bench"), reader(spark=spark))
    calls = iter([LoadCall(input=one, mode=LoadMode.MERGE, actor="bench") for one in given])
    contestants = [
        Contestant("merge that changes 1 %", lambda _: load(full, next(calls), reader(spark=spark))),
        Contestant("append of that 1 %", loading(spark, given[0])),
        Contestant("one scan of the ids", lambda _: full.tables(full.snapshot()).table("node:Person").scan(["id"])),
    ]
    measured(contestants, rounds, place)
    return contestants


def merging_many(spark: SparkSession, data: Data, place: Path) -> Contestant:
    """A merge that changes every other row of the graph that `merging` has left, filled and written by executors."""
    path = place / "many.parquet"
    many = pa_parquet.read_table(data.of("Person", "parquet"))
    many = many.take(pa.array(range(0, many.num_rows, 2)))
    changed = many.set_column(many.schema.get_field_index("score"), "score", pc.add(many["score"], 100.0))
    pa_parquet.write_table(changed, path)
    del many, changed
    gc.collect()
    pa.default_memory_pool().release_unused()  # what was made here is not the merge's
    given = LoadInput(typed=(TypedSource(type="Person", is_edge=False, data=path),))
    runtime = Runtime(options=Options(durability=Durability.OS))
    full = open_session(str(place / "graph"), is_read_only=False, runtime=runtime)
    call = LoadCall(input=given, mode=LoadMode.MERGE, actor="bench")
    how = reader(spark=spark, loading=SparkLoading(merged_here=0))
    found = Contestant("merge that changes 50 %", lambda _: load(full, call, how))
    measured([found], 1, place)
    return found


# --- telling -------------------------------------------------------------------------------------------


def told(contestants: list[Contestant], rows: int) -> None:
    """A line for each."""
    for one in contestants:
        rate = rows / one.wall / 1e6
        print(
            f"  {one.name:28} {one.wall:7.1f} s {one.processor:7.1f} cpu-s {rate:6.2f} M rows/s"
            f"   driver {one.peak('driver')} MB, worker {one.peak('worker')} MB, JVM {one.peak('JVM')} MB"
        )


def ratio(one: Contestant, other: Contestant) -> None:
    """How much more."""
    print(
        f"  {one.name} / {other.name}: {one.wall / other.wall:.2f} of the time,"
        f" {one.processor / other.processor:.2f} of the processor"
    )


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=5_000_000)
    parser.add_argument("--edges", type=int, default=20_000_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--tenfold", action="store_true", help="also a tenth of the rows, to compare memory")
    arguments = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="omnigraph-bench-"))
    try:
        spark = spark_session(arguments.master)
        spark.range(4).mapInArrow(lambda batches: batches, "id long").collect()  # Python workers are there
        sizes = [(arguments.nodes, arguments.edges)]
        if arguments.tenfold:
            sizes.insert(0, (arguments.nodes // 10, arguments.edges // 10))
        for nodes, edges in sizes:
            print(f"{nodes:,} nodes and {edges:,} edges on {arguments.master}")
            data = made(place / f"{nodes}", nodes, edges)
            found = compared(spark, data, arguments.rounds, place)
            told(found, data.rows)
            ratio(found[0], found[1])
            ratio(found[2], found[3])
            merged = merging(spark, data, place)
            told(merged, nodes // 100)
            ratio(merged[0], merged[1])
            least = merged[1].wall + merged[2].wall, merged[1].processor + merged[2].processor
            print(
                f"  merge / (append + scan): {merged[0].wall / least[0]:.2f} of the time,"
                f" {merged[0].processor / least[1]:.2f} of the processor"
            )
            told([merging_many(spark, data, place)], nodes // 2)
            shutil.rmtree(data.place)
            shutil.rmtree(place / "graph")
    finally:
        shutil.rmtree(place)


if __name__ == "__main__":
    main()
