"""A load on Spark while other processes write to the same graph: both land, and nothing is done twice for it."""

import time
from pathlib import Path

from pyspark.sql import SparkSession

import omnigraph as og
from load_calls import edge, person
from mutating import new_graph
from omnigraph.ops.load import Progress
from omnigraph.runtime import Runtime
from spark_loading import APART, file_of, left_over, spark_loaded
from worlds import CALM
from zygote import Zygote

PEOPLE = 200
WRITERS = ("x", "y")


class Counting:
    """Faults that break nothing, and count what was reached."""

    def __init__(self) -> None:
        self.reached: list[str] = []

    def reach(self, point: str) -> None:
        """Called on the driver."""
        self.reached.append(point)


def people(graph: og.Graph) -> int:
    return graph.snapshot().pin("node:Person").rows


def test_a_load_lands_beside_processes_that_write_all_the_time(
    spark: SparkSession, tmp_path: Path, zygote: Zygote
) -> None:
    graph = new_graph(tmp_path)
    seen = Counting()
    beside = og.open_graph(graph.uri, runtime=Runtime(options=CALM, faults=seen))
    data = file_of(
        tmp_path,
        *(edge("Knows", f"p{number}", f"p{number * 7 % PEOPLE}") for number in range(PEOPLE)),
        *(person(f"p{number}", age=1) for number in range(PEOPLE)),
    )
    over = tmp_path / "over"
    writers = [
        zygote.start("spark_crash_jobs:write_until", {"uri": graph.uri, "name": name, "over": str(over)})
        for name in WRITERS
    ]
    landed: list[int] = []

    def wait_for_others(_: Progress) -> None:
        """Once the load has begun, until somebody else has written."""
        while len(landed) < 2:
            rows = people(graph)
            if rows > (landed[0] if landed else -1):
                landed.append(rows)
            time.sleep(0.02)

    try:
        told = spark_loaded(spark, beside, "append", data, APART, progress=wait_for_others)
    finally:
        over.touch()
    written = [zygote.wait(pid) for pid in writers]

    assert [one.error for one in written] == [None, None]
    assert (told.nodes["Person"].inserted, told.edges["Knows"].inserted) == (PEOPLE, PEOPLE)
    assert people(graph) == PEOPLE + sum(one.result for one in written)
    # One phase stages the rows, one shuffles their keys: though others wrote in between, nothing was staged again.
    assert seen.reached.count("phase.open") == 2
    assert left_over(graph) == []
