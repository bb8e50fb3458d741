"""Reading a type into Spark, beside Spark reading the same rows from Parquet.

`python bench/spark_reads.py [rows]` (1,000,000): all columns and two of them, whole and filtered, by SQL. Wall seconds
of the best of three, and the ratio of all of Spark's CPU; the goal is 1.5 or less.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

import omnigraph as og
from omnigraph.spark.session import session

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
CITIES = pa.array(["Berlin", "Lagos", "Lima", "Oslo", "Paris", "Quito", "Rome", "Tokyo"])
ROUNDS = 3


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


def measured(action: Callable[[], object]) -> tuple[float, float]:
    """Wall and CPU seconds of the best of some rounds."""
    best = (float("inf"), float("inf"))
    for _ in range(ROUNDS):
        wall, cpu = time.perf_counter(), cpu_seconds()
        action()
        best = min(best, (time.perf_counter() - wall, cpu_seconds() - cpu))
    return best


def read(sql: Callable[[str], DataFrame], text: str) -> None:
    """All rows of an answer, for nobody."""
    sql(text).write.format("noop").mode("overwrite").save()


def main(rows: int) -> None:
    """Print one line for each question."""
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as directory:
        graph = og.create_graph(f"{directory}/people.omni", SCHEMA)
        make(graph, rows)
        spark = session(**{"spark.sql.shuffle.partitions": "4"})
        now = graph.spark
        for name in ("Person", "Knows"):
            now.table(name).write.parquet(f"{directory}/{name}.parquet")
            spark.read.parquet(f"{directory}/{name}.parquet").createOrReplaceTempView(f"parquet_{name}")
        questions = {
            "all columns of nodes": "select * from {p}Person",
            "two columns of edges": "select src, dst from {p}Knows",
            "a filter on nodes": "select name, score from {p}Person where city = 'Oslo' and age < 30",
            "a group by": "select city, avg(score) from {p}Person group by city",
            "a join": "select p.city, count(*) from {p}Person p join {p}Knows k on p.id = k.src group by p.city",
        }
        print(f"{rows:,} nodes and as many edges; seconds (CPU seconds), best of {ROUNDS}")
        print(f"{'':24}{'omnigraph':>18}{'Parquet':>18}{'CPU ratio':>12}")
        for title, text in questions.items():
            ours = measured(partial(read, now.sql, text.format(p="")))
            theirs = measured(partial(read, spark.sql, text.format(p="parquet_")))
            ratio = ours[1] / theirs[1] if theirs[1] else float("nan")
            print(f"{title:24}{ours[0]:9.2f} ({ours[1]:5.2f}){theirs[0]:10.2f} ({theirs[1]:5.2f}){ratio:12.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
