"""A process that stays open clears up after others that died, and tells which those are."""

import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import omnigraph as og
from branching import branch, put
from crash.jobs import OVER, leftovers
from omnigraph.clock import SystemClock
from omnigraph.faults import ArmedFaults
from omnigraph.ops.operations import list_operations
from omnigraph.ops.session import Session
from omnigraph.options import Options
from omnigraph.runtime import Runtime
from omnigraph.server.background_maintenance import Healer
from omnigraph.server.graph_registry import ServedGraph
from serving import serving
from worlds import FAST, reopened, seeded_world
from zygote import Zygote

OFTEN = replace(OVER, recovery_seconds=0)
"""For one that looks after each of its commits, when every lease has run out."""


@dataclass
class MovedClock(SystemClock):
    """A clock that a test moves."""

    by: float = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.by


def die(zygote: Zygote, uri: str, point: str = "publish.applied") -> None:
    """Kill a writer of two tables at a point of its commit."""
    job = {"uri": uri, "kind": "upsert", "tables": ["node:A", "node:B"]}
    assert zygote.run("crash.jobs:write", job, f"{point}=kill").was_killed


def opened(session: Session, options: Options, clock: SystemClock | None = None) -> Session:
    """A handle with these settings that was opened before anybody died."""
    handle = reopened(session, options)
    if clock is not None:
        handle.store.runtime = replace(handle.store.runtime, clock=clock)
        handle.store.recovery = type(handle.store.recovery)(clock)
    return handle


@pytest.mark.parametrize("point, kind", [("publish.applied", "RolledBack"), ("publish.swapped", "RolledForward")])
def test_a_writer_that_stays_open_settles_what_died_since(
    point: str, kind: str, tmp_path: Path, zygote: Zygote
) -> None:
    session = seeded_world(tmp_path / "g")
    handle = opened(session, OFTEN)
    die(zygote, session.uri, point)

    put(handle, {"n": 1}, "node:C")

    left = leftovers(handle)
    assert left["sidecars"] == 0
    assert left["orphans"] == []
    assert [row[1] for row in left["audits"]] == [kind]  # type: ignore[attr-defined]  # a list of rows


def test_who_looks_again_and_again_leaves_those_alone_that_have_landed_a_moment_ago(
    tmp_path: Path, zygote: Zygote
) -> None:
    session = seeded_world(tmp_path / "g")
    handle = opened(session, replace(FAST, recovery_seconds=0, lease_seconds=3600))
    die(zygote, session.uri, "publish.swapped")

    put(handle, {"n": 1}, "node:C")
    spared = leftovers(handle)
    reopened(session)

    assert (spared["sidecars"], spared["audits"]) == (1, [])
    assert leftovers(handle)["sidecars"] == 0


def test_a_writer_on_a_branch_settles_what_died_on_main(tmp_path: Path, zygote: Zygote) -> None:
    session = seeded_world(tmp_path / "g")
    handle = branch(opened(session, OFTEN), "side")
    die(zygote, session.uri)

    put(handle, {"n": 1}, "node:C")

    assert leftovers(handle)["sidecars"] == 0


def test_a_writer_looks_once_in_a_while_and_costs_a_listing_then(tmp_path: Path) -> None:
    clock = MovedClock()
    session = opened(seeded_world(tmp_path / "g"), replace(FAST, recovery_seconds=60, lease_seconds=3600), clock)
    costs = []
    for by in (0.0, 59.0 - 3600, 61.0, 62.0):  # the second is behind: a clock that is set back is no reason to look
        clock.by = by
        with session.runtime.telemetry.count_requests() as requests:
            put(session, {"a": 1}, "node:A")
        costs.append(requests.count(target="control", operation="list"))

    assert costs == [0, 0, 1, 0]


def test_a_recovery_that_fails_is_nothing_to_the_writer(
    tmp_path: Path, zygote: Zygote, caplog: pytest.LogCaptureFixture
) -> None:
    session = seeded_world(tmp_path / "g")
    handle = opened(session, OFTEN)
    die(zygote, session.uri)
    handle.store.runtime = replace(handle.store.runtime, faults=ArmedFaults("recovery.listed", "error"))

    commit_id = put(handle, {"n": 1}, "node:C")

    assert handle.head().snapshot.commit.id == commit_id
    assert "did not run" in caplog.text
    assert len(list_operations(handle).pending) == 1


def test_what_is_past_its_lease_is_dead(tmp_path: Path, zygote: Zygote) -> None:
    session = seeded_world(tmp_path / "g")
    die(zygote, session.uri)

    states = []
    for lease in (-1.0, 3600.0):
        runtime = Runtime(options=replace(FAST, lease_seconds=lease))
        found = og.open_graph(session.uri, read_only=True, runtime=runtime).operations()
        states += [found.state(one) for one in found.pending]

    assert states == ["dead", "running"]


# --- a server ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("with_sidecars")
def test_a_server_tells_of_the_dead_and_settles_them_in_the_background(tmp_path: Path) -> None:
    served = serving(
        tmp_path, options=replace(FAST, lease_seconds=-1), is_open_to_all=True, config={"recovery_seconds": 3600.0}
    )
    with pytest.raises(KeyboardInterrupt):
        _die_here(served.graph.uri)

    before = served.client.get("/graphs/people/operations").json()
    seen = og.open_graph(served.graph.uri, read_only=True, runtime=Runtime(options=FAST)).operations()
    healer = Healer(served.service.registry.graphs.values(), 0.01)
    healer.start()
    end = time.monotonic() + 60
    while served.client.get("/graphs/people/operations").json()["pending"]:
        assert time.monotonic() < end, "nothing was settled"
        time.sleep(0.01)
    healer.stop()
    served.service.close()

    assert [one["state"] for one in before["pending"]] == ["dead"]
    assert len(seen.pending) == 1


def test_a_server_heals_by_default(tmp_path: Path) -> None:
    served = serving(tmp_path, is_open_to_all=True)

    healer = served.service.healer

    assert healer is not None
    assert healer._every == 60
    assert healer._thread.is_alive()
    served.service.close()
    assert not healer._thread.is_alive()


def test_a_round_of_a_server_costs_one_listing_a_graph(tmp_path: Path) -> None:
    served = serving(tmp_path, is_open_to_all=True)
    (hosted,) = served.service.registry.graphs.values()
    assert hosted.session is not None
    healer = Healer([hosted], 3600)

    with hosted.session.runtime.telemetry.count_requests() as requests:
        healer.heal_all()
    served.service.close()

    assert requests.count() == requests.count(operation="list") == 1


def test_a_graph_that_is_only_read_is_left_alone(tmp_path: Path) -> None:
    served = serving(tmp_path, is_open_to_all=True)
    (hosted,) = served.service.registry.graphs.values()
    read_only = ServedGraph(config=replace(hosted.config, is_read_only=True), runtime=hosted.runtime)
    read_only.open()
    assert read_only.session is not None

    with read_only.session.runtime.telemetry.count_requests() as requests:
        Healer([read_only], 3600).heal_all()
    served.service.close()

    assert requests.count() == 0


def _die_here(uri: str) -> None:
    """Leave a sidecar as a process that is interrupted between apply and swap does."""
    graph = og.open_graph(uri, runtime=Runtime(options=FAST))

    class Interrupting:
        def reach(self, point: str) -> None:
            if point == "publish.flushed":
                raise KeyboardInterrupt

    graph._session.store.runtime = replace(graph._session.store.runtime, faults=Interrupting())
    graph.mutate('query q() { insert Person { name: "z" } insert Knows { from: "z", to: "z" } }')
