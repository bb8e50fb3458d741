"""Reads that may be a moment old: never older than allowed, never behind a commit that the caller knows."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.commit.manifest_log import Head, ManifestLog
from omnigraph.commit.time_travel import CommitMissingError
from omnigraph.errors import BadArgumentError
from worlds import FAST, runtime

SCHEMA = "node P { name: String @key }\n"
ADD = "query add($n: String) { insert P { name: $n } }"
COUNT = "query count() { match { $p: P } return { count($p) as n } }"


class StillClock:
    """A clock that a test moves."""

    def __init__(self, real: object) -> None:
        self._real = real
        self.moved = 0.0

    def monotonic(self) -> float:
        """Return a time that stands still."""
        return 1_000.0 + self.moved

    def __getattr__(self, name: str) -> object:
        return getattr(self._real, name)


@pytest.fixture
def pair(tmp_path: Path) -> tuple[og.Graph, og.Graph, StillClock]:
    """Two handles on one graph, as two processes have them, and the clock of the first."""
    writer = og.create_graph(str(tmp_path / "g"), SCHEMA, runtime=runtime(FAST))
    machine = runtime(FAST)
    clock = StillClock(machine.clock)
    reader = og.open_graph(str(tmp_path / "g"), runtime=replace(machine, clock=clock))  # type: ignore[arg-type]
    return writer, reader, clock


def count(graph: og.Graph, **options: object) -> int:
    rows = graph.query(COUNT, **options).rows()  # type: ignore[arg-type]
    return int(rows[0]["n"])


def test_a_recent_state_is_read_again_until_it_is_too_old(pair: tuple[og.Graph, og.Graph, StillClock]) -> None:
    writer, reader, clock = pair
    assert count(reader) == 0
    writer.mutate(ADD, params={"n": "a"})

    assert count(reader, max_staleness=5) == 0
    clock.moved += 5.5
    assert count(reader, max_staleness=5) == 1


def test_the_default_reads_the_newest_state(pair: tuple[og.Graph, og.Graph, StillClock]) -> None:
    writer, reader, _ = pair
    assert count(reader) == 0
    writer.mutate(ADD, params={"n": "a"})

    assert count(reader) == 1


def test_a_stale_read_is_never_behind_a_commit_that_is_named(pair: tuple[og.Graph, og.Graph, StillClock]) -> None:
    writer, reader, _ = pair
    assert count(reader) == 0
    first = writer.mutate(ADD, params={"n": "a"}).commit_id
    writer.mutate(ADD, params={"n": "b"})

    assert count(reader, max_staleness=60, min_commit=first) == 2
    # The state that was read is contained from now on, without another look.
    writer.mutate(ADD, params={"n": "c"})
    assert count(reader, max_staleness=60, min_commit=first) == 2
    assert count(reader, min_commit=first) == 3


def test_one_sees_what_one_has_written(pair: tuple[og.Graph, og.Graph, StillClock]) -> None:
    _, reader, _ = pair
    reader.mutate(ADD, params={"n": "a"})

    assert count(reader, max_staleness=60) == 1


def test_a_recent_read_asks_the_store_for_no_head(
    pair: tuple[og.Graph, og.Graph, StillClock], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, reader, _ = pair
    count(reader)
    probes: list[int] = []
    log = reader._session.log
    probe = type(log).final_head

    def count_probe(self: ManifestLog) -> Head:
        probes.append(1)
        return probe(self)

    monkeypatch.setattr(type(log), "final_head", count_probe)

    count(reader, max_staleness=60)
    assert len(probes) == 0
    count(reader)
    assert len(probes) == 1


def test_an_old_commit_is_found_beyond_the_manifest(tmp_path: Path) -> None:
    graph = og.create_graph(str(tmp_path / "g"), SCHEMA, runtime=runtime(replace(FAST, head_commits=2)))
    first = graph.mutate(ADD, params={"n": "first"}).commit_id
    for number in range(8):
        graph.mutate(ADD, params={"n": f"p{number}"})

    assert count(graph, min_commit=first) == 9


def test_a_commit_of_another_branch_is_missing(pair: tuple[og.Graph, og.Graph, StillClock]) -> None:
    writer, reader, _ = pair
    writer.branches.create("other")
    commit = writer.mutate(ADD, params={"n": "a"}, branch="other").commit_id

    with pytest.raises(CommitMissingError):
        reader.query(COUNT, min_commit=commit)


@pytest.mark.parametrize("seconds", [-1.0, math.inf, math.nan])
def test_a_time_that_is_none_is_refused(seconds: float, pair: tuple[og.Graph, og.Graph, StillClock]) -> None:
    with pytest.raises(BadArgumentError):
        pair[1].query(COUNT, max_staleness=seconds)


def test_a_past_state_can_not_be_recent_too(pair: tuple[og.Graph, og.Graph, StillClock]) -> None:
    reader = pair[1]

    with pytest.raises(BadArgumentError):
        reader.query(COUNT, snapshot=reader.snapshot().commit.id, max_staleness=1)
