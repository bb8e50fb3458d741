"""Loads on Spark whose driver is killed: all or nothing, nothing left behind recovery, nobody blocked."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from crash.data_jobs import SEED, contents
from crash.test_writers import AFTER_SWAP
from load_calls import edge, loaded, person
from mutating import new_graph, run
from spark_loading import file_of
from zygote import Zygote

POINTS = ("phase.open", "phase.done", "phase.named", "phase.cleared", "publish.staged", "publish.swapped")
OTHER_POINTS = (
    "publish.armed",
    "publish.applied",
    "publish.flushed",
    "publish.head_written",
    "publish.verified",
    "publish.disarmed",
)
"""Those are the same publisher's for every write, and killed there by the crash tests of other verbs too."""
PEOPLE = [person(f"p{number}", age=number) for number in range(60)]
KNOWS = [edge("Knows", f"p{number}", f"p{number * 7 % 60}") for number in range(60)]
TWICE = person("p3", age=7)
"""It is refused, so that the rows of its split are written anew."""


@pytest.fixture(scope="module")
def gate(spark: SparkSession) -> dict[str, object]:
    """How another process reaches this one's Spark."""
    parameters = spark.sparkContext._gateway.gateway_parameters  # type: ignore[union-attr]
    return {"port": parameters.port, "secret": parameters.auth_token}


@pytest.mark.parametrize("point", [*POINTS, *(pytest.param(point, marks=pytest.mark.soak) for point in OTHER_POINTS)])
def test_a_killed_driver_leaves_all_or_nothing(
    point: str, tmp_path: Path, zygote: Zygote, gate: dict[str, object]
) -> None:
    graph = new_graph(tmp_path)
    run(graph, SEED)
    before = contents(graph)
    data = file_of(tmp_path, *KNOWS, *PEOPLE, TWICE)
    job = {**gate, "uri": graph.uri, "data": str(data), "mode": "append"}

    killed = zygote.run("spark_crash_jobs:load_file", job, f"{point}=kill")
    seen = zygote.run("crash.data_jobs:look", {"uri": graph.uri})
    next_write = zygote.run("crash.data_jobs:write_at_once", {"uri": graph.uri})
    settled = zygote.run("spark_crash_jobs:settle", {"uri": graph.uri})

    assert killed.was_killed, killed.error
    assert (seen.result == before) == (point not in AFTER_SWAP)
    assert len(seen.result) - len(before) in (0, 120)
    assert next_write.error is None
    assert len(next_write.result) == len(seen.result) + 2
    assert settled.error is None
    assert (settled.result["sidecars"], settled.result["notes"], settled.result["orphans"]) == (0, [], [])


def test_a_driver_that_is_killed_while_its_tasks_write_leaves_nothing(
    tmp_path: Path, zygote: Zygote, gate: dict[str, object]
) -> None:
    graph = new_graph(tmp_path)
    run(graph, SEED)
    before = contents(graph)
    data = file_of(tmp_path, *(person(f"p{number}", age=1) for number in range(20_000)))
    job = {**gate, "uri": graph.uri, "data": str(data), "mode": "append", "dies_after": 0.5}

    killed = zygote.run("spark_crash_jobs:load_file", job)
    zygote.run("spark_crash_jobs:settle", {"uri": graph.uri})
    settled = _quiet(zygote, graph.uri)

    assert killed.was_killed, killed.error
    assert contents(graph) == before
    assert (settled["sidecars"], settled["notes"], settled["orphans"]) == (0, [], [])


@pytest.mark.parametrize("point", ["phase.cleared", "phase.done@2", "publish.swapped", "publish.disarmed"])
def test_a_driver_that_is_killed_in_a_merge_on_executors_leaves_all_or_nothing(
    point: str, tmp_path: Path, zygote: Zygote, gate: dict[str, object]
) -> None:
    graph = new_graph(tmp_path)
    loaded(graph, "append", *PEOPLE[:40])
    before = contents(graph)
    data = file_of(tmp_path, *KNOWS, *(person(f"p{number}", age=99) for number in range(60)))
    job = {**gate, "uri": graph.uri, "data": str(data), "mode": "merge", "local_bytes": 0, "merged_here": 0}

    killed = zygote.run("spark_crash_jobs:load_file", job, f"{point}=kill")
    seen = zygote.run("crash.data_jobs:look", {"uri": graph.uri})
    settled = _quiet(zygote, graph.uri)

    assert killed.was_killed, killed.error
    assert (seen.result == before) == (point not in AFTER_SWAP)
    assert len(seen.result) - len(before) in (0, 80)
    assert (settled["sidecars"], settled["notes"], settled["orphans"]) == (0, [], [])


def _quiet(zygote: Zygote, uri: str) -> dict[str, object]:
    """What is left once the tasks of the dead driver, which Spark goes on to run, have found out that it is dead."""
    left: dict[str, object] = {}
    for _ in range(40):
        left = zygote.run("spark_crash_jobs:settle", {"uri": uri}).result
        if not left["notes"] and not left["orphans"]:
            break
    return left
