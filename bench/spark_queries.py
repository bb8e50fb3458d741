"""Measure queries of the language on Spark, beside the same questions in Spark SQL, written by hand.

Both read the same snapshot of the same graph through the same DataFrames, in one session, and take turns after a
warm-up.
The edges have a hub: one node with `--hub` of them in both directions, whose key alone is more than a fair partition.

`python bench/spark_queries.py [edges] [--hub N] [--rounds N] [--master M] [--conf NAME=VALUE]` prints the median of the
wall times and of the CPU seconds of all processes, and their ratio. Wall times on a busy machine mean little; the ratio
within one run does.
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


@dataclass(frozen=True)
class Question:
    """A question in both languages."""

    name: str
    query: str
    sql: str


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


def load_people(graph: og.Graph, edges: int, hub: int) -> None:
    """Load people and random edges; the first node has `hub` edges in each direction."""
    random = np.random.default_rng(11)
    count = max(edges // EDGES_PER_NODE, 2)
    names = np.char.add("p", np.arange(count).astype(str))
    people = pa.table({"name": names, "age": pa.array(random.integers(0, 90, count), pa.int32())})
    src, dst = random.integers(0, count, edges), random.integers(0, count, edges)
    src[:hub] = 0
    dst[hub : 2 * hub] = 0
    knows = pa.table({"from": names[src], "to": names[dst]})
    graph.load(nodes={"Person": people}, edges={"Knows": knows}, mode="append")


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


def compare(graph: SparkGraph, question: Question, rounds: int) -> None:
    """Ask in both ways, and print what it took."""
    ours, plain = Samples(), Samples()
    for number in range(WARM_UP_ROUNDS + rounds):
        is_counted = number >= WARM_UP_ROUNDS
        ours.measure(lambda: graph.query(question.query), is_counted=is_counted)
        plain.measure(lambda: graph.sql(question.sql), is_counted=is_counted)
    if ours.answer != plain.answer:
        msg = f"{question.name}: the answers differ: {ours.answer} and {plain.answer}"
        raise SystemExit(msg)
    wall, cpu = (tuple(map(statistics.median, pair)) for pair in ((ours.wall, plain.wall), (ours.cpu, plain.cpu)))
    print(
        f"{question.name:40} query {wall[0]:6.2f} s, {cpu[0]:6.1f} CPU-s   SQL {wall[1]:6.2f} s, {cpu[1]:6.1f} CPU-s"
        f"   ratio {wall[0] / wall[1]:.2f} (CPU {cpu[0] / cpu[1]:.2f})"
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
        load_people(graph, options.edges, options.hub)
        print(f"{options.edges:,} edges, a hub of {options.hub:,}, {options.master}")
        for question in QUESTIONS:
            compare(graph.spark, question, options.rounds)
        spark.stop()


if __name__ == "__main__":
    main()
