"""Sixty-four clients at once: no update is lost, nobody starves, and a kill takes nothing that was acknowledged."""

import time
from dataclasses import dataclass
from pathlib import Path

import pytest

import omnigraph as og
from server_load import ADD, COUNTERS, Crowd, Event, Told, dawdlers, resident_bytes, untrue_reads
from server_process import Process, laid_out, running
from serving import TOKENS

CLIENTS = 64
MIB = 1024 * 1024


MAINTAINED = """
[maintenance]
optimize = true
every_seconds = 5
budget_percent = 25
"""
"""Tables are optimised meanwhile: that must not keep anybody from writing."""
KINDS = ("read", "write", "stream", "commits")


@dataclass(frozen=True)
class Profile:
    """How long it goes on, how much is asked meanwhile, and by how much the server may grow after the first third."""

    seconds: float
    requests: int
    growth: int


SHORT = Profile(seconds=2.0, requests=240, growth=512 * MIB)
LONG = Profile(seconds=180.0, requests=2_000, growth=128 * MIB)


@pytest.mark.parametrize(
    "profile",
    [
        pytest.param(SHORT, id="short"),
        pytest.param(LONG, id="long", marks=[pytest.mark.soak, pytest.mark.timeout(900)]),
    ],
)
def test_what_many_clients_were_told_is_true_also_after_a_kill(
    profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMNIGRAPH_CACHE_BYTES", str(16 * MIB))  # what it keeps on purpose is soon all there
    graph = laid_out(tmp_path)
    with (tmp_path / "omnigraph.toml").open("a", encoding="utf-8") as settings:
        settings.write(MAINTAINED)
    for name in COUNTERS:
        graph.mutate(ADD, params={"n": name})
    told = Told()

    with running(graph, tmp_path) as process, dawdlers(process, 6):
        crowd = Crowd(f"http://localhost:{process.port}", told, CLIENTS, seed=9)
        crowd.start()
        memory = []
        for _ in range(3):
            wait_for(told, profile, 1 / 3)
            memory.append(resident_bytes(process))
        process.popen.kill()
        crowd.stop()

    report(told, memory)
    assert told.failures == []
    assert untrue_reads(told.events) == []
    assert memory[2] - memory[0] < profile.growth
    assert all(told.seconds[kind] for kind in KINDS)
    with running(graph, tmp_path) as again:
        found = contents(again)
    assert found == {row["p.name"]: row["p.age"] for row in graph.query(EVERYBODY).rows()}
    assert unlike_what_was_told(told, found) == []
    assert not graph.check().has_errors


def wait_for(told: Told, profile: Profile, share: float) -> None:
    """Return when that share of the time is over, that share of the requests is answered, and some of every kind."""
    end, enough = time.monotonic() + profile.seconds * share, told.answered + profile.requests * share
    while time.monotonic() < end or told.answered < enough or not all(told.seconds[kind] for kind in KINDS):
        time.sleep(0.05)


EVERYBODY = "query q() { match { $p: Person } return { $p.name, $p.age } }"


def contents(process: Process) -> dict[str, int]:
    with og.connect(f"http://localhost:{process.port}", TOKENS["reader"], graph="people") as graph:
        rows = graph.query(EVERYBODY).rows()
    assert len({row["p.name"] for row in rows}) == len(rows)
    return {row["p.name"]: row["p.age"] for row in rows}


def unlike_what_was_told(told: Told, found: dict[str, int]) -> list[str]:
    """What is there and should not be, or is not and should."""
    wrong = [f"{name} is gone" for name in told.inserted if name not in found]
    made = {"Ada", "Bob", *COUNTERS, *told.inserted, *told.unknown}
    wrong += [f"{name} was never sent" for name in found if name not in made]
    for counter in COUNTERS:
        steps = told.steps(counter)
        unanswered = told.unknown.count(counter)
        if len(set(steps)) != len(steps):
            wrong.append(f"{counter}: one value was made twice")
        if not len(steps) <= found[counter] <= len(steps) + unanswered:
            wrong.append(f"{counter} is {found[counter]} after {len(steps)} steps, and {unanswered} unanswered")
    return wrong


def report(told: Told, memory: list[int]) -> None:
    counts = {kind: len(times) for kind, times in sorted(told.seconds.items())}
    print(f"\n{told.answered} answers {counts}, refused {dict(told.refused)}, unanswered {len(told.unknown)}")  # noqa: T201 - for whoever runs it
    print(f"ms: median {told.percentile(0.5)}, p99 {told.percentile(0.99)}")  # noqa: T201 - as above
    thirds = ", ".join(f"{one / MIB:.0f}" for one in memory)
    print(f"memory of the server after each third: {thirds} MiB")  # noqa: T201 - as above


# --- the checker finds what it is for --------------------------------------------------------------------------


def event(begun: float, ended: float, value: int, *, is_step: bool = False) -> Event:
    return Event(begun, ended, "c", value, is_step)


@pytest.mark.parametrize(
    "events",
    [
        [event(0, 1, 1, is_step=True), event(2, 3, 0)],
        [event(0, 1, 2), event(2, 3, 1)],
        [event(0, 1, 1), event(2, 3, 1, is_step=True)],
        [event(0, 1, 1, is_step=True), event(2, 3, 1, is_step=True)],
    ],
    ids=["a lost update", "back in time", "before it was made", "made twice"],
)
def test_the_checker_finds_what_can_not_be(events: list[Event]) -> None:
    assert untrue_reads(events)


def test_the_checker_accepts_what_may_be() -> None:
    events = [
        event(0, 5, 1, is_step=True),
        event(1, 2, 0),
        event(1, 3, 1),
        event(4, 6, 1),
        event(6, 7, 2, is_step=True),
    ]

    assert untrue_reads(events) == []


def test_a_lost_insert_and_a_lost_step_are_found() -> None:
    told = Told(inserted=["x"], events=[Event(0, 1, COUNTERS[0], 1, is_step=True)])
    found = {"Ada": 1, "Bob": 1, **dict.fromkeys(COUNTERS, 0), "y": 0}

    assert len(unlike_what_was_told(told, found)) == 3
