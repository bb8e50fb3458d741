"""A stream of events into a graph, in a process that may be killed: `python spark_streaming.py GRAPH IN CHECKPOINT`."""

import json
import os
import sys
from collections import Counter
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import omnigraph as og
from omnigraph.spark.session.spark_session import session
from omnigraph.spark.stream.structured_streaming import Rows

SCHEMA = """
node Person { name: String @key  seen: I32 }
edge Saw: Person -> Person { at: DateTime? }
"""
MAPPING: Rows = {
    "Person": [{"name": "one", "seen": "batch"}, {"name": "other", "seen": "batch"}],
    "Saw": {"from": "one", "to": "other", "at": "at"},
}
EVENTS_PER_FILE = 6
Pair = tuple[str, str]


def write_events(directory: Path, number: int) -> None:
    """One file of events, which appears when it is complete, and is younger than those before. Pairs are seen twice."""
    directory.mkdir(exist_ok=True)
    lines = [
        {"batch": number, "one": f"{number}a{event // 2}", "other": f"{number}b", "at": "2026-01-02T03:04:05Z"}
        for event in range(EVENTS_PER_FILE)
    ]
    unfinished = directory / f".{number}"
    unfinished.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    os.utime(unfinished, (1_767_600_000 + number,) * 2)
    unfinished.rename(directory / f"{number:03}.json")


def events(spark: SparkSession, directory: Path) -> DataFrame:
    """The files of a directory as a stream, one in each batch."""
    schema = "batch int, one string, other string, at timestamp"
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", "1").json(str(directory))


def expected(files: int) -> Counter[Pair]:
    """How often each pair was seen, when every event is there once."""
    return Counter(
        (f"{number}a{event // 2}", f"{number}b") for number in range(files) for event in range(EVENTS_PER_FILE)
    )


def found(graph: og.Graph) -> Counter[Pair]:
    """How often each pair was seen, as the graph has it."""
    rows = graph.table("Saw").to_table(columns=["src", "dst"])
    return Counter(zip(rows["src"].to_pylist(), rows["dst"].to_pylist(), strict=True))


def run(graph: og.Graph, spark: SparkSession, directory: Path, checkpoint: Path) -> None:
    """Load whatever is there, and end."""
    frame = events(spark, directory)
    graph.spark.stream(frame, MAPPING, checkpoint=checkpoint, until_empty=True, actor="stream").wait()


if __name__ == "__main__":
    address, incoming, kept = sys.argv[1:]
    run(og.open_graph(address), session("local[2]"), Path(incoming), Path(kept))
