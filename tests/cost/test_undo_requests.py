"""What a revert and a reset cost: what the commit changed, whatever else the graph holds and has been."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.ops.merge_result import MergeOutcome
from omnigraph.telemetry import RequestCounts
from worlds import CALM, runtime

SCHEMA = "node P { name: String @key  n: I64?  m: I64? }\nedge Knows: P -> P"
SET = "query s($p: String, $n: I64) { update P set { n: $n } where name = $p }"


def new_graph(root: Path, rows: int, commits: int) -> tuple[og.Graph, str]:
    """Return a graph with this many rows and commits, and a commit that is the fifth from its end."""
    graph = og.create_graph(str(root), SCHEMA, runtime=runtime(CALM))
    names = pa.array([f"{number:07}" for number in range(rows)])
    graph.load(nodes={"P": pa.table({"name": names, "n": pa.array(np.zeros(rows, np.int64))})}, mode="append")
    for number in range(commits):
        graph.mutate(SET, params={"p": f"{number % 7:07}", "n": number})
    graph.optimize()
    graph.mutate(SET, params={"p": "0000500", "n": 1})
    wrong = graph.snapshot().commit.id
    for number in range(4):
        graph.mutate(SET, params={"p": f"{600 + number:07}", "n": number})
    # What another process has cached is of no use to this one.
    return og.open_graph(graph.uri, runtime=runtime(CALM)), wrong


def count(graph: og.Graph, what: str, commit: str) -> RequestCounts:
    with graph._session.runtime.telemetry.count_requests() as requests:
        if what == "revert":
            assert graph.revert(commit).outcome is MergeOutcome.MERGED
        else:
            assert graph.reset("main", to=commit).commit_id is not None
    return requests


@pytest.mark.parametrize("what", ["revert", "reset"])
def test_it_costs_what_the_commit_changed(what: str, tmp_path: Path) -> None:
    # Both have an index of ids; a smaller table needs none, and fewer requests.
    small, wrong = new_graph(tmp_path / "small", 20_000, 5)
    large, also_wrong = new_graph(tmp_path / "large", 400_000, 5)
    old, still_wrong = new_graph(tmp_path / "old", 20_000, 260)

    few, many, late = (
        count(graph, what, commit) for graph, commit in ((small, wrong), (large, also_wrong), (old, still_wrong))
    )

    assert late.counts == few.counts, (few.format_table(), late.format_table())
    # A larger index may need another page for each of the two versions that are looked up.
    assert many.count() - few.count() <= 4, (few.format_table(), many.format_table())
    if what == "reset":
        assert few.count(target="table") == 0, few.format_table()


@pytest.mark.soak
@pytest.mark.parametrize("what", ["revert", "reset"])
def test_neither_a_long_history_nor_a_large_table_costs_more(what: str, tmp_path: Path) -> None:
    small, wrong = new_graph(tmp_path / "small", 1_000, 10)
    old, still_wrong = new_graph(tmp_path / "old", 1_000, 2_000)
    large, also_wrong = new_graph(tmp_path / "large", 1_000_000, 10)

    few, late, many = (
        count(graph, what, commit) for graph, commit in ((small, wrong), (old, still_wrong), (large, also_wrong))
    )

    assert late.counts == few.counts, (few.format_table(), late.format_table())
    # A table of a thousand rows is read whole; in a large one rows are found by pages of an index (11 more requests).
    assert many.count() - few.count() <= (0 if what == "reset" else 12), (few.format_table(), many.format_table())
