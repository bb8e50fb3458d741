"""Repairs beside writers, maintenance, cleanups and each other: nothing is lost twice, and nobody is in the way."""

import json
import time
from pathlib import Path

import pytest

import damaging as harm
import omnigraph as og
from omnigraph.ops.check_findings import FindingSeverity
from upkeep_calls import exported, opened, optimized
from worlds import runtime
from zygote import Zygote

SCHEMA = "node P { name: String @key }\nnode Q { name: String @key }"


@pytest.fixture
def compacted(tmp_path: Path) -> og.Graph:
    """A graph whose people were compacted last, so that they can go back without a loss."""
    graph = og.create_graph(str(tmp_path / "g"), SCHEMA, runtime=runtime())
    for one in ("a", "b", "c"):
        graph.load([{"type": "P", "data": {"name": one}}], mode="append")
    optimized(graph)
    return graph


def names(graph: og.Graph, type_name: str) -> list[str]:
    """The rows of a type, by name."""
    records = map(json.loads, exported(opened(graph.uri)).decode().splitlines())
    return sorted(one["data"]["name"] for one in records if one.get("type") == type_name)


def wait_for_repair(graph: og.Graph) -> None:
    """Until somebody has published one."""
    while not any(one.operation == "repair" for one in graph.commits(limit=50)):
        time.sleep(0.05)


def test_a_table_goes_back_beside_everybody_else(compacted: og.Graph, tmp_path: Path, zygote: Zygote) -> None:
    harm.removed(harm.version_of)(Path(compacted.uri))
    until = tmp_path / "enough"
    watch = {"uri": compacted.uri, "until": str(until)}

    writers = [zygote.start("race.repair_jobs:write", {**watch, "name": name}) for name in ("x", "y")]
    keeper = zygote.start("race.repair_jobs:keep", watch)
    repairs = [zygote.start("race.repair_jobs:mend", watch) for _ in range(2)]
    wait_for_repair(compacted)
    until.touch()
    ended = [zygote.wait(pid) for pid in (*writers, keeper, *repairs)]

    assert [one.error for one in ended] == [None] * 5
    assert names(compacted, "Q") == sorted([*ended[0].result, *ended[1].result])
    assert names(compacted, "P") == ["a", "b", "c"]
    assert ended[2].result == []
    assert [*ended[3].result, *ended[4].result] == ["node:P published earlier_version"]
    assert harm.codes(compacted.uri, FindingSeverity.ERROR) == []


def test_a_manifest_that_many_repair_goes_back_once(compacted: og.Graph, tmp_path: Path, zygote: Zygote) -> None:
    compacted.branches.create("late")
    harm.truncated(harm.newest_manifest)(Path(compacted.uri))
    until = tmp_path / "enough"
    until.touch()

    repairs = [zygote.start("race.repair_jobs:mend", {"uri": compacted.uri, "until": str(until)}) for _ in range(3)]
    ended = [zygote.wait(pid) for pid in repairs]
    opened(compacted.uri).load([{"type": "Q", "data": {"name": "after"}}], mode="append")

    told = [text for one in ended for text in one.result]
    assert [one.error for one in ended] == [None] * 3
    assert 1 <= len(told) <= 3
    assert set(told) == {"main published"}
    assert (names(compacted, "P"), names(compacted, "Q")) == (["a", "b", "c"], ["after"])
    assert harm.codes(compacted.uri, FindingSeverity.ERROR) == []
