"""Reading a type into Spark, beside Spark reading the same rows from Parquet, and beside the least that Python costs.

Three contestants hand the same rows to the same consumer, who wants none: omnigraph; Parquet, which the JVM reads by
itself; and the floor, a data source in Python that hands Spark the same Arrow batches from a mapped file and does
nothing else. First they read a whole type, from its name or its path on; then a DataFrame of it that is there already.
Then they answer the same SQL. What is above the floor there is omnigraph's own, also that its views are made for each
question: those of the others are there before.

`python bench/spark_reads.py [rows] [--rounds N] [--master M] [--conf NAME=VALUE]`: after six rounds that nobody counts,
because the JVM compiles in them, they take turns. The middle of the times counts, and beside it that of the CPU seconds
of all processes, which a busy machine disturbs least. Whatever is the same for every question, however many rows it
reads, weighs less in a larger table: compare 1M and 5M.
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
UNCOUNTED = 6
TYPES = ("Person", "Knows")
CITIES = pa.array(["Berlin", "Lagos", "Lima", "Oslo", "Paris", "Quito", "Rome", "Tokyo"])
QUESTIONS = {
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
"""The columns that a question needs, which the floor has in files of their own."""


# --- data ----------------------------------------------------------------------------------------------


def cities(random: np.random.Generator, rows: int) -> pa.Array:
    """A city for each row."""
    return CITIES.take(pa.array(random.integers(0, len(CITIES), rows)))


def make(graph: og.Graph, rows: int) -> None:
    """People and as many edges."""
    random = np.random.default_rng(7)
    numbers = np.arange(rows)
    names = pa.array([f"person {number:09}" for number in range(rows)])
    tags = pa.ListArray.from_arrays(pa.array(np.arange(rows + 1, dtype=np.int32)), cities(random, rows))
    people = pa.table(
        {
            "name": names,
            "age": pa.array(random.integers(0, 100, rows), pa.int32()),
            "score": pa.array(random.random(rows)),
            "city": cities(random, rows),
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
    """What a task of the floor hands over."""

    start: int
    end: int


class FloorReader(DataSourceReader):
    """Batches of a mapped file, as they lie there."""

    def __init__(self, path: str, tasks: int) -> None:
        self._path, self._tasks = path, tasks

    def partitions(self) -> list[InputPartition]:
        """As many as there are cores."""
        count = mapped(self._path).num_record_batches
        return [Batches(*one) for one in pairwise(count * task // self._tasks for task in range(self._tasks + 1))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Nothing is decoded, nothing is copied here."""
        if not isinstance(partition, Batches):
            raise TypeError(partition)
        file = mapped(self._path)
        return (file.get_batch(number) for number in range(partition.start, partition.end))


class Floor(DataSource):
    """The least that a data source in Python does."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "floor"

    def schema(self) -> StructType:
        """That of the file."""
        return from_arrow_schema(mapped(self.options["path"]).schema)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - it is the file's own
        """The reader of the file."""
        return FloorReader(self.options["path"], int(self.options["tasks"]))


def mapped(path: str) -> pa.ipc.RecordBatchFileReader:
    """A file of Arrow batches."""
    return pa.ipc.open_file(pa.memory_map(path))


def floor(spark: SparkSession, path: str) -> DataFrame:
    """The rows of a mapped file."""
    return spark.read.format("floor").options(path=path, tasks=spark.sparkContext.defaultParallelism).load()


def mapped_at(now: SparkGraph, name: str, columns: list[str] | None, directory: str) -> str:
    """The path of a file with columns of a type."""
    path = f"{directory}/{name}.arrow"
    rows = now.table(name, columns=columns).toArrow()
    with pa.ipc.new_file(path, rows.schema) as file:
        file.write_table(rows, 65536)
    return path


def floors(spark: SparkSession, now: SparkGraph, title: str, directory: str) -> None:
    """Views of the columns that a question needs."""
    for name, columns in FLOORS[title].items():
        floor(spark, mapped_at(now, name, columns, directory)).createOrReplaceTempView(f"floor_{name}")


# --- measuring -----------------------------------------------------------------------------------------


def cpu_seconds() -> float:
    """The CPU time of this process, the JVM and the Python workers below it, the ended ones too."""
    ticks = os.sysconf("SC_CLK_TCK")
    fields: dict[int, list[str]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text(encoding="utf-8")
        except OSError:
            continue
        fields[int(path.parent.name)] = text.rpartition(") ")[2].split()
    mine, grew = {os.getpid()}, True
    while grew:
        more = {pid for pid, stat in fields.items() if int(stat[1]) in mine} - mine
        mine |= more
        grew = bool(more)
    return sum(sum(map(int, fields[pid][11:15])) for pid in mine if pid in fields) / ticks


@dataclass
class Contestant:
    """Somebody who answers."""

    answer: Callable[[str], DataFrame]
    prefix: str
    walls: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def run(self, text: str) -> None:
        """All rows of an answer, for nobody."""
        wall, cpu = time.perf_counter(), cpu_seconds()
        self.answer(text.format(p=self.prefix)).write.format("noop").mode("overwrite").save()
        self.walls.append(time.perf_counter() - wall)
        self.seconds.append(cpu_seconds() - cpu)

    def told(self) -> tuple[float, float]:
        """The middle of its times, when everything is compiled."""
        return statistics.median(self.walls[UNCOUNTED:]), statistics.median(self.seconds[UNCOUNTED:])


def whole(spark: SparkSession, now: SparkGraph, directory: str, rounds: int) -> None:
    """Read whole types: from their names on, and then as DataFrames that are there."""
    for name in TYPES:
        mapped_at(now, name, None, directory)
        everyone = [
            Contestant(now.table, ""),
            Contestant(lambda name: spark.read.parquet(f"{directory}/{name}.parquet"), ""),
            Contestant(lambda name: floor(spark, f"{directory}/{name}.arrow"), ""),
        ]
        in_turns(f"the type {name}", name, everyone, rounds)
        ready = [Contestant(cache(one.answer), "") for one in everyone]
        in_turns("  a DataFrame of it", name, ready, rounds)


def in_turns(title: str, text: str, everyone: list[Contestant], rounds: int) -> None:
    """Let them answer in turns, and print a line."""
    for _ in range(rounds + UNCOUNTED):
        for one in everyone:
            one.run(text)
    told = [one.told() for one in everyone]
    ours, theirs, least = told
    ratios = [tuple(map(truediv, *pair)) for pair in ((ours, theirs), (ours, least), (least, theirs))]
    cells = "".join(f"{wall:9.2f} ({cpu:5.2f})".rjust(18) for wall, cpu in (*told, *ratios))
    print(f"{title:24}{cells}", flush=True)


def main() -> None:
    """Print one line for each question."""
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", type=int, nargs="?", default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE", help="a setting of Spark")
    arguments = parser.parse_args()
    rows, rounds = arguments.rows, arguments.rounds
    own = dict(one.split("=", 1) for one in arguments.conf)
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as directory:
        graph = og.create_graph(f"{directory}/people.omni", SCHEMA)
        make(graph, rows)
        spark = session(arguments.master, **{"spark.sql.shuffle.partitions": "4", **own})
        spark.dataSource.register(Floor)
        now = graph.spark
        for name in TYPES:
            now.table(name).write.parquet(f"{directory}/{name}.parquet")
            spark.read.parquet(f"{directory}/{name}.parquet").createOrReplaceTempView(f"parquet_{name}")
        print(f"{rows:,} nodes and as many edges; seconds (CPU seconds), the middle of {rounds}, and their ratios")
        columns = ("omnigraph", "Parquet", "floor", "/ Parquet", "/ floor", "floor / Parquet")
        print(" " * 24 + "".join(f"{one:>18}" for one in columns))
        whole(spark, now, directory, rounds)
        for title, text in QUESTIONS.items():
            floors(spark, now, title, directory)
            everyone = [Contestant(now.sql, ""), Contestant(spark.sql, "parquet_"), Contestant(spark.sql, "floor_")]
            in_turns(title, text, everyone, rounds)


if __name__ == "__main__":
    main()
