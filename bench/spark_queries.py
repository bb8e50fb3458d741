"""Measure queries of the language on Spark, beside the same questions in Spark SQL, written by hand.

The SQL reads the same snapshot through the same DataFrames, and the same rows as Parquet files, which Spark reads by
itself. All take turns in one session, after a warm-up.
With `--hub N`, one node has so many of the edges in both directions: its key alone is more than a fair partition, and
its pairs are N². Where these are too many to be listed, plain SQL is left out of questions that list them.

`python bench/spark_queries.py [edges] [--hub N] [--rounds N] [--master M] [--conf NAME=VALUE]` prints medians of the
wall times and of the CPU seconds of all processes, and whether the goal is reached. Wall times on a busy machine mean
little; the ratios within one run do.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import omnigraph as og
from omnigraph.spark.session.spark_session import session
from omnigraph.spark.spark_graph import SparkGraph

SCHEMA = """
node Person {
    name: String @key
    age: I32
}
edge Knows: Person -> Person
"""
EDGES_PER_NODE = 20
WARM_UP_ROUNDS = 1
MAX_RATIO = 2.0
"""How many times as long as hand-written SQL over Parquet a query may take."""
MAX_HUB_PAIRS = 10**9
OURS, SAME, PARQUET = "query", "SQL", "SQL on Parquet"


@dataclass(frozen=True)
class Question:
    """A question in both languages."""

    name: str
    query: str
    sql: str
    lists_pairs: bool = True
    """Whether the SQL lists all pairs of a node's edges, rather than counting them."""


# A hop without an edge variable is a set of pairs, so the SQL makes edges distinct too.
QUESTIONS = (
    Question(
        "two-hop count, each edge",
        "query q() { match { $a: Person $a $e:knows $b $b $f:knows $c } return { count(*) as n } }",
        "select count(*) as n from Knows e join Knows f on e.dst = f.src",
    ),
    Question(
        "two-hop count by age, each edge",
        """query q() {
            match { $a: Person $a.age < 30 $a $e:knows $b $b $f:knows $c }
            return { $c.age, count(*) as n }
        }""",
        """select c.age, count(*) as n from Person a join Knows e on a.id = e.src join Knows f on e.dst = f.src
        join Person c on c.id = f.dst where a.age < 30 group by c.age""",
    ),
    Question(
        "two hops of the young, distinct ends",
        """query q() {
            match { $a: Person $a.age < 2 $a knows $b $b knows $c }
            return { count(distinct $c) as n }
        }""",
        """select count(distinct f.dst) as n from Person a join Knows e on a.id = e.src
        join Knows f on e.dst = f.src where a.age < 2""",
    ),
)


def build_tables(edges: int, hub: int) -> tuple[pa.Table, pa.Table]:
    """Return people and random edges; the first node has `hub` edges in each direction."""
    random = np.random.default_rng(11)
    count = max(edges // EDGES_PER_NODE, 2)
    names = np.char.add("p", np.arange(count).astype(str))
    people = pa.table({"name": names, "age": pa.array(random.integers(0, 90, count), pa.int32())})
    src, dst = random.integers(0, count, edges), random.integers(0, count, edges)
    src[:hub] = 0
    dst[hub : 2 * hub] = 0
    return people, pa.table({"from": names[src], "to": names[dst]})


def register_parquet(spark: SparkSession, root: Path, people: pa.Table, knows: pa.Table) -> None:
    """Write the rows as Parquet files, as many as the session has cores, and name them for SQL."""
    tables = {
        "ParquetPerson": people.rename_columns(["id", "age"]),
        "ParquetKnows": knows.rename_columns(["src", "dst"]),
    }
    for name, table in tables.items():
        (root / name).mkdir()
        parts = spark.sparkContext.defaultParallelism
        size = -(-len(table) // parts)
        for number in range(parts):
            pq.write_table(table.slice(number * size, size), root / name / f"{number}.parquet")
        spark.read.parquet(str(root / name)).createOrReplaceTempView(name)


# --- measuring -----------------------------------------------------------------------------------------


@dataclass
class Samples:
    """The wall and CPU seconds of one way to ask."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    answer: object = None

    def measure(self, run: Callable[[], DataFrame], *, is_counted: bool) -> None:
        """Ask once."""
        wall, cpu = time.perf_counter(), _read_cpu()
        self.answer = sorted(map(tuple, run().collect()))
        if is_counted:
            self.wall.append(time.perf_counter() - wall)
            self.cpu.append(_read_cpu() - cpu)


def _read_cpu() -> float:
    """Return the CPU seconds of this process and all below it, the JVM and its Python workers included."""
    ticks = os.sysconf("SC_CLK_TCK")
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                fields = (path / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has ended
            parents[int(path.name)] = int(fields[1])
            used[int(path.name)] = sum(map(int, fields[11:15])) / ticks
    own = {os.getpid()}
    while more := {child for child, parent in parents.items() if parent in own} - own:
        own |= more
    return sum(used[pid] for pid in own if pid in used)


def compare(spark: SparkSession, graph: SparkGraph, question: Question, options: argparse.Namespace) -> None:
    """Ask in all ways, and print what it took."""
    plain = question.sql.replace("Person ", "ParquetPerson ").replace("Knows ", "ParquetKnows ")
    ways: dict[str, Callable[[], DataFrame]] = {OURS: lambda: graph.query(question.query)}
    if not question.lists_pairs or options.hub**2 <= MAX_HUB_PAIRS:
        ways |= {SAME: lambda: graph.sql(question.sql), PARQUET: lambda: spark.sql(plain)}
    samples = {way: Samples() for way in ways}
    for number in range(WARM_UP_ROUNDS + options.rounds):
        for way, run in ways.items():
            samples[way].measure(run, is_counted=number >= WARM_UP_ROUNDS)
    answers = [each.answer for each in samples.values()]
    if answers != answers[:1] * len(answers):
        msg = f"{question.name}: the answers differ: {answers}"
        raise SystemExit(msg)
    wall, cpu = ({way: statistics.median(getattr(each, of)) for way, each in samples.items()} for of in ("wall", "cpu"))
    print(question.name, "".join(f"   {way} {wall[way]:.2f} s, {cpu[way]:.1f} CPU-s" for way in ways), flush=True)
    for way in [*ways][1:]:
        ratio = wall[OURS] / wall[way]
        print(
            f"    {OURS}/{way:16} {ratio:.2f}× (CPU {cpu[OURS] / cpu[way]:.2f}×)"
            f"   goal ≤ {MAX_RATIO:g}   {'reached' if ratio <= MAX_RATIO else 'MISSED'}",
            flush=True,
        )


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("edges", type=int, nargs="?", default=2_000_000)
    parser.add_argument("--hub", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--conf", action="append", default=[])
    options = parser.parse_args()
    conf = dict(each.split("=", 1) for each in options.conf)
    spark: SparkSession = session(options.master, **conf)
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as directory:
        graph = og.create_graph(f"{directory}/graph", SCHEMA)
        people, knows = build_tables(options.edges, options.hub)
        graph.load(nodes={"Person": people}, edges={"Knows": knows}, mode="append")
        register_parquet(spark, Path(directory), people, knows)
        del people, knows
        print(f"{options.edges:,} edges, a hub of {options.hub:,}, {options.master}", flush=True)
        for question in QUESTIONS:
            compare(spark, graph.spark, question, options)
        spark.stop()


if __name__ == "__main__":
    main()
