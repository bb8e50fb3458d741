"""Maintenance, killed at every point: no row says anything else, nothing is left, nobody is blocked."""

import os
import signal
from pathlib import Path

import pytest

from crash.test_live_neighbour import wait_until_stopped
from crash.test_writers import POINTS
from mutating import new_graph, run
from upkeep_calls import exported
from zygote import Zygote

STEPS = [
    'insert Person { name: "a", age: 1 } insert Person { name: "b", age: 2 }',
    'insert Person { name: "c" } insert Knows { from: "a", to: "b", since: 1 }',
    'insert Person { name: "d" } insert Knows { from: "b", to: "c", since: 2 }',
    'update Person set { age: 50 } where name = "b"',
    'delete Person where name = "d"',
]


@pytest.mark.parametrize(
    "point, nth", [*((point, 1) for point in ("upkeep.compacted", "upkeep.indexed", *POINTS)), ("publish.swapped", 2)]
)
def test_killed_maintenance_changes_nothing_and_leaves_nothing(
    point: str, nth: int, tmp_path: Path, zygote: Zygote
) -> None:
    graph = new_graph(tmp_path)
    for step in STEPS:
        run(graph, step)
    before = exported(graph).decode().splitlines()
    uri = {"uri": graph.uri}

    killed = zygote.run("crash.upkeep_jobs:optimize", uri, f"{point}@{nth}=kill")
    seen = zygote.run("crash.upkeep_jobs:look", uri)
    next_write = zygote.run("crash.upkeep_jobs:write_at_once", uri)
    settled = zygote.run("crash.upkeep_jobs:settle", uri)

    assert killed.was_killed
    assert seen.result == before
    assert next_write.error is None
    assert len(next_write.result) == len(before) + 2
    assert settled.error is None
    assert settled.result["content"] == next_write.result
    assert {name: settled.result[name] for name in ("sidecars", "orphans", "segments", "errors", "lagging")} == {
        "sidecars": 0,
        "orphans": [],
        "segments": [],
        "errors": [],
        "lagging": [],
    }


# The write itself, which needs no sidecar, comes first at these.
AFTER_WRITE = [(point, 1 if point in ("publish.armed", "publish.disarmed") else 2) for point in POINTS]


@pytest.mark.parametrize(
    "point, nth",
    [
        *((point, 1) for point in ("maintain.begun", "upkeep.compacted", "upkeep.indexed", "maintain.done")),
        *AFTER_WRITE,
    ],
)
def test_killed_automatic_maintenance_changes_nothing_and_leaves_nothing(
    point: str, nth: int, tmp_path: Path, zygote: Zygote
) -> None:
    graph = new_graph(tmp_path)
    for step in STEPS:
        run(graph, step)
    before = exported(graph).decode().splitlines()
    uri = {"uri": graph.uri}

    killed = zygote.run("crash.upkeep_jobs:maintain", uri, f"{point}@{nth}=kill")
    seen = zygote.run("crash.upkeep_jobs:look", uri)
    next_write = zygote.run("crash.upkeep_jobs:write_at_once", uri)
    settled = zygote.run("crash.upkeep_jobs:settle", uri)

    assert killed.was_killed
    assert len(seen.result) == len(before) + 1
    assert next_write.error is None
    assert settled.error is None
    assert settled.result["content"] == next_write.result
    assert {name: settled.result[name] for name in ("sidecars", "orphans", "segments", "errors", "lagging")} == {
        "sidecars": 0,
        "orphans": [],
        "segments": [],
        "errors": [],
        "lagging": [],
    }


@pytest.mark.parametrize("point", ["upkeep.compacted", "upkeep.indexed"])
def test_stopped_automatic_maintenance_blocks_nobody(point: str, tmp_path: Path, zygote: Zygote) -> None:
    graph = new_graph(tmp_path)
    for step in STEPS:
        run(graph, step)
    uri = {"uri": graph.uri}

    stopped = zygote.start("crash.upkeep_jobs:maintain", uri, f"{point}=stop")
    wait_until_stopped(stopped)
    next_write = zygote.run("crash.upkeep_jobs:write_at_once", uri)
    settled = zygote.run("crash.upkeep_jobs:settle", uri)
    os.kill(stopped, signal.SIGCONT)
    ended = zygote.wait(stopped)

    assert [next_write.error, settled.error, ended.error] == [None, None, None]
    assert settled.result["content"] == next_write.result == zygote.run("crash.upkeep_jobs:look", uri).result
    assert not graph.check().has_errors
