"""Measure reads of a type into Spark, beside Spark reading the same rows from Parquet, and beside the cost of Python.

Three contestants hand the same rows to a consumer that discards them: omnigraph; Parquet, which the JVM reads without
Python; and the floor, a data source in Python that only hands Spark the same Arrow batches from a memory-mapped file.
First they read a whole type, starting from its name or path; then a DataFrame of it that already exists. Then they run
the same SQL. The time above the floor is omnigraph's own cost there, which includes creating its views for each query:
the views of the other contestants exist before.

`python bench/spark_reads.py [rows] [--rounds N] [--master M] [--conf NAME=VALUE]`: they take turns, after six rounds
that are not counted, because the JVM compiles in them. Prints the median of the wall times, and beside it the median of
the CPU seconds of all processes, which a busy machine disturbs less. Fixed costs of a query weigh less in a larger
table: compare 1M and 5M rows.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from operator import truediv
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

import omnigraph as og
from omnigraph.spark.session.spark_session import session
from omnigraph.spark.spark_graph import SparkGraph

SCHEMA = """
node Person {
    name: String @key
    age: I32?
    score: F64
    city: String
    joined: DateTime
    tags: [String]
}
edge Knows: Person -> Person { since: I32  @key(src, dst) }
"""
WARM_UP_ROUNDS = 6
TYPES = ("Person", "Knows")
CITIES = pa.array(["Berlin", "Lagos", "Lima", "Oslo", "Paris", "Quito", "Rome", "Tokyo"])
QUERIES = {
    "all columns of nodes": "select * from {p}Person",
    "two columns of edges": "select src, dst from {p}Knows",
    "a filter on nodes": "select name, score from {p}Person where city = 'Oslo' and age < 30",
    "a group by": "select city, avg(score) from {p}Person group by city",
    "a join": "select p.city, count(*) from {p}Person p join {p}Knows k on p.id = k.src group by p.city",
}
FLOORS: dict[str, dict[str, list[str] | None]] = {
    "all columns of nodes": {"Person": None},
    "two columns of edges": {"Knows": ["src", "dst"]},
    "a filter on nodes": {"Person": ["name", "score", "city", "age"]},
    "a group by": {"Person": ["city", "score"]},
    "a join": {"Person": ["id", "city"], "Knows": ["src"]},
}
"""The columns that a query needs, by type; the floor has them in separate files."""


# --- data ----------------------------------------------------------------------------------------------


def draw_cities(random: np.random.Generator, rows: int) -> pa.Array:
    """Draw a city for each row."""
    return CITIES.take(pa.array(random.integers(0, len(CITIES), rows)))


def load_people(graph: og.Graph, rows: int) -> None:
    """Load `rows` nodes and as many edges."""
    random = np.random.default_rng(7)
    numbers = np.arange(rows)
    names = pa.array([f"person {number:09}" for number in range(rows)])
    tags = pa.ListArray.from_arrays(pa.array(np.arange(rows + 1, dtype=np.int32)), draw_cities(random, rows))
    people = pa.table(
        {
            "name": names,
            "age": pa.array(random.integers(0, 100, rows), pa.int32()),
            "score": pa.array(random.random(rows)),
            "city": draw_cities(random, rows),
            "joined": pa.array(1_767_000_000_000_000 + numbers * 1_000_000, pa.timestamp("us", tz="UTC")),
            "tags": tags,
        }
    )
    edges = pa.table(
        {
            "from": names,
            "to": names.take(pa.array((numbers * 7919 + 1) % rows)),
            "since": pa.array(random.integers(1990, 2026, rows), pa.int32()),
        }
    )
    graph.load(nodes={"Person": people}, edges={"Knows": edges}, mode="append", engine="local")


# --- the floor -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Batches(InputPartition):
    """The range of record batches that a task of the floor reads."""

    start: int
    end: int


class FloorReader(DataSourceReader):
    """Read the batches of a memory-mapped file unchanged."""

    def __init__(self, path: str, tasks: int) -> None:
        self._path = path
        self._tasks = tasks

    def partitions(self) -> list[InputPartition]:
        """Split the batches into one range per task."""
        count = open_mapped(self._path).num_record_batches
        starts = [count * task // self._tasks for task in range(self._tasks + 1)]
        return [Batches(*bounds) for bounds in pairwise(starts)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the batches of a range; nothing is decoded or copied here."""
        if not isinstance(partition, Batches):
            raise TypeError(partition)
        file = open_mapped(self._path)
        return (file.get_batch(number) for number in range(partition.start, partition.end))


class Floor(DataSource):
    """The minimal data source in Python."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "floor"

    def schema(self) -> StructType:
        """Return the schema of the file."""
        return from_arrow_schema(open_mapped(self.options["path"]).schema)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - it is that of the file
        """Return a reader of the file."""
        return FloorReader(self.options["path"], int(self.options["tasks"]))


def open_mapped(path: str) -> pa.ipc.RecordBatchFileReader:
    """Open a file of Arrow batches by a memory map."""
    return pa.ipc.open_file(pa.memory_map(path))


def read_floor(spark: SparkSession, path: str) -> DataFrame:
    """Return a DataFrame of a memory-mapped file."""
    return spark.read.format("floor").options(path=path, tasks=spark.sparkContext.defaultParallelism).load()


def write_mapped(now: SparkGraph, name: str, columns: list[str] | None, directory: str) -> str:
    """Write columns of a type to a file of Arrow batches, and return its path."""
    path = f"{directory}/{name}.arrow"
    rows = now.table(name, columns=columns).toArrow()
    with pa.ipc.new_file(path, rows.schema) as file:
        file.write_table(rows, 65536)
    return path


def create_floor_views(spark: SparkSession, now: SparkGraph, title: str, directory: str) -> None:
    """Create views of the columns that a query needs, read by the floor."""
    for name, columns in FLOORS[title].items():
        read_floor(spark, write_mapped(now, name, columns, directory)).createOrReplaceTempView(f"floor_{name}")


# --- measuring -----------------------------------------------------------------------------------------


def read_cpu_seconds() -> float:
    """Return the CPU seconds of this process and its descendants: the JVM and Python workers, also ended ones."""
    ticks = os.sysconf("SC_CLK_TCK")
    fields: dict[int, list[str]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text(encoding="utf-8")
        except OSError:  # the process has ended
            continue
        fields[int(path.parent.name)] = text.rpartition(") ")[2].split()
    mine = {os.getpid()}
    while children := {pid for pid, stat in fields.items() if int(stat[1]) in mine} - mine:
        mine |= children
    # Fields 11 to 14: user and system time of a process, and of its children that have ended.
    return sum(sum(map(int, fields[pid][11:15])) for pid in mine if pid in fields) / ticks


@dataclass
class Contestant:
    """A way to read, and the times of its runs."""

    read: Callable[[str], DataFrame]
    prefix: str
    walls: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)

    def run(self, text: str) -> None:
        """Read all rows into a sink that discards them, and add the times."""
        wall, cpu = time.perf_counter(), read_cpu_seconds()
        self.read(text.format(p=self.prefix)).write.format("noop").mode("overwrite").save()
        self.walls.append(time.perf_counter() - wall)
        self.cpu_seconds.append(read_cpu_seconds() - cpu)

    def find_medians(self) -> tuple[float, float]:
        """Return the medians of the wall and CPU seconds after the warm-up rounds."""
        return statistics.median(self.walls[WARM_UP_ROUNDS:]), statistics.median(self.cpu_seconds[WARM_UP_ROUNDS:])


def measure_types(spark: SparkSession, now: SparkGraph, directory: str, rounds: int) -> None:
    """Measure reads of whole types: first from their names, then of DataFrames that already exist."""
    for name in TYPES:
        write_mapped(now, name, None, directory)
        contestants = [
            Contestant(now.table, ""),
            Contestant(lambda name: spark.read.parquet(f"{directory}/{name}.parquet"), ""),
            Contestant(lambda name: read_floor(spark, f"{directory}/{name}.arrow"), ""),
        ]
        measure_in_turns(f"the type {name}", name, contestants, rounds)
        existing = [Contestant(cache(contestant.read), "") for contestant in contestants]
        measure_in_turns("  a DataFrame of it", name, existing, rounds)


def measure_in_turns(title: str, text: str, contestants: list[Contestant], rounds: int) -> None:
    """Run all contestants in turns, and print one line."""
    for _ in range(rounds + WARM_UP_ROUNDS):
        for contestant in contestants:
            contestant.run(text)
    medians = [contestant.find_medians() for contestant in contestants]
    ours, parquet, floor = medians
    ratios = [tuple(map(truediv, *pair)) for pair in ((ours, parquet), (ours, floor), (floor, parquet))]
    cells = "".join(f"{wall:9.2f} ({cpu:5.2f})".rjust(18) for wall, cpu in (*medians, *ratios))
    print(f"{title:24}{cells}", flush=True)


def main() -> None:
    """Print one line per type and query."""
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", type=int, nargs="?", default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE", help="a setting of Spark")
    arguments = parser.parse_args()
    rows, rounds = arguments.rows, arguments.rounds
    settings = dict(setting.split("=", 1) for setting in arguments.conf)
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as directory:
        graph = og.create_graph(f"{directory}/people.omni", SCHEMA)
        load_people(graph, rows)
        spark = session(arguments.master, **{"spark.sql.shuffle.partitions": "4", **settings})
        spark.dataSource.register(Floor)
        now = graph.spark
        for name in TYPES:
            now.table(name).write.parquet(f"{directory}/{name}.parquet")
            spark.read.parquet(f"{directory}/{name}.parquet").createOrReplaceTempView(f"parquet_{name}")
        print(f"{rows:,} nodes and as many edges; seconds (CPU seconds), medians of {rounds} rounds, and their ratios")
        columns = ("omnigraph", "Parquet", "floor", "/ Parquet", "/ floor", "floor / Parquet")
        print(" " * 24 + "".join(f"{column:>18}" for column in columns))
        measure_types(spark, now, directory, rounds)
        for title, text in QUERIES.items():
            create_floor_views(spark, now, title, directory)
            contestants = [Contestant(now.sql, ""), Contestant(spark.sql, "parquet_"), Contestant(spark.sql, "floor_")]
            measure_in_turns(title, text, contestants, rounds)


if __name__ == "__main__":
    main()
