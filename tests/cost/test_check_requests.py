"""What a check costs, counted in requests: files are compared with lists, not asked for one by one."""

from dataclasses import replace
from pathlib import Path

import omnigraph as og
from omnigraph.runtime import Runtime
from omnigraph.telemetry import RequestCounts
from worlds import CALM

SCHEMA = "node A { k: String @key }\nnode B { k: String @key }\nedge E: A -> B\n"


def grown(root: Path, commits: int) -> og.Graph:
    """A graph with so many fragments."""
    graph = og.create_graph(str(root), SCHEMA, runtime=Runtime(options=CALM))
    for number in range(commits):
        graph.load([{"type": "A", "data": {"k": f"a{number}"}}], mode="append")
    return graph


def counted(graph: og.Graph, *, quick: bool) -> RequestCounts:
    one_by_one = replace(CALM, upkeep=replace(CALM.upkeep, concurrency=1))  # counts are those of the whole process
    runtime = Runtime(options=one_by_one)
    with runtime.telemetry.count_requests() as requests:
        assert og.check_graph(graph.uri, quick=quick, runtime=runtime).findings == ()
    return requests


def test_a_quick_check_asks_the_same_however_many_files_there_are(tmp_path: Path) -> None:
    # Not fewer: Lance reads a file as small as the head of eight commits by one read instead of two.
    few, many = (counted(grown(tmp_path / str(number), number), quick=True) for number in (14, 24))

    assert many.count(operation="list") == few.count(operation="list") <= 10
    assert many.count(operation="head") == few.count(operation="head")
    assert many.count() == few.count()
    assert many.count(target="table", operation="get") <= 12
