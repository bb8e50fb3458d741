"""Who follows a branch gets each commit as it comes, outlasts a store that fails, and hears when the branch is gone."""

import json
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

import omnigraph as og
from feeding import head, run
from omnigraph.clock import SystemClock
from omnigraph.commit.history_reader import read_next_commits
from omnigraph.ops import change_feed as feeds
from omnigraph.ops.row_diff import Pair
from omnigraph.options import Options
from omnigraph.runtime import Runtime
from omnigraph.storage.object_store import StoreDeniedError, StoreUnavailableError
from worlds import FAST, runtime

SCHEMA = "node P { name: String @key  n: I32? }\nnode C { name: String @key }\n"
ROUNDS = 3


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.create_graph(str(tmp_path / "g"), SCHEMA, runtime=runtime())
    run(graph, 'insert P { name: "a", n: 1 } insert P { name: "b", n: 1 }')
    return graph


class Waiting(SystemClock):
    """A clock on which, while somebody waits, the next thing happens. When nothing is left, it ends."""

    def __init__(self) -> None:
        self.happenings: list[Callable[[], object]] = []
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        if not self.happenings:
            raise KeyboardInterrupt
        self.happenings.pop(0)()


@pytest.fixture
def clock() -> Waiting:
    return Waiting()


@pytest.fixture
def watched(graph: og.Graph, clock: Waiting) -> og.Graph:
    """Another handle on the graph, whose clock tells what happens while it waits."""
    return og.open_graph(graph.uri, runtime=Runtime(options=Options(durability=FAST.durability), clock=clock))


def until_interrupted(feed: Iterator[Any]) -> list[Any]:
    found: list[Any] = []
    with pytest.raises(KeyboardInterrupt):
        found.extend(feed)  # what came before the interruption is kept
    return found


def test_who_follows_gets_each_commit_as_it_comes(graph: og.Graph, watched: og.Graph, clock: Waiting) -> None:
    clock.happenings = [
        lambda: run(graph, 'insert C { name: "x" }'),
        lambda: None,
        lambda: (run(graph, 'insert C { name: "y" }'), run(graph, 'insert C { name: "z" }')),
    ]

    found = until_interrupted(watched.changes(since=head(graph), follow=True, poll_seconds=0.25))

    assert [[row["id"] for row in one.records()] for one in found] == [["x"], ["y"], ["z"]]
    assert clock.slept == [0.25] * 4


def test_a_limit_ends_it(graph: og.Graph, watched: og.Graph, clock: Waiting) -> None:
    clock.happenings = [lambda: run(graph, 'insert C { name: "x" }')]

    assert len(list(watched.changes(since=head(graph), follow=True, limit=1))) == 1


def test_commits_that_race_each_other_come_once_and_in_their_order(tmp_path: Path) -> None:
    """Two writers and maintenance beside one who follows, while the journal is sealed and its parts are merged."""
    options = replace(FAST, head_commits=3, sealed_fragments=2)
    graph = og.create_graph(str(tmp_path / "g"), SCHEMA, runtime=runtime(options))

    def write(name: str) -> None:
        own = og.open_graph(graph.uri, runtime=runtime(options))
        for number in range(12):
            run(own, f'insert {name} {{ name: "{number}" }}')
        own.optimize()

    writers = [threading.Thread(target=write, args=(name,)) for name in ("P", "C")]
    for writer in writers:
        writer.start()
    followed = og.open_graph(graph.uri, runtime=runtime(options)).changes(follow=True, limit=25, poll_seconds=0.01)
    found = [(one.cursor, len(list(one.records()))) for one in followed]
    for writer in writers:
        writer.join()
    rest = [(one.cursor, len(list(one.records()))) for one in graph.changes(since=followed.cursor)]

    assert [commit for commit, _ in found + rest] == [commit.id for commit in graph.commits()][::-1]
    assert sum(rows for _, rows in found + rest) == 24


@pytest.mark.parametrize("is_made_anew", [False, True])
def test_a_branch_that_is_deleted_ends_it(
    is_made_anew: bool, graph: og.Graph, watched: og.Graph, clock: Waiting
) -> None:
    graph.branches.create("dev")
    clock.happenings = [
        lambda: run(graph, 'insert C { name: "x" }', "dev"),
        lambda: [graph.branches.delete("dev"), *([graph.branches.create("dev")] if is_made_anew else [])],
    ]
    feed = watched.changes(branch="dev", since=head(graph), follow=True)

    found = [next(feed)]
    with pytest.raises(og.BranchGoneError, match="dev"):
        next(feed)

    assert [row["id"] for one in found for row in one.records()] == ["x"]


def test_a_branch_whose_files_are_gone_too_ends_it(graph: og.Graph, watched: og.Graph, clock: Waiting) -> None:
    graph.branches.create("dev")
    place = Path(graph.uri) / watched._session.checkout("dev").log.path

    def lose() -> None:
        graph.branches.delete("dev")
        shutil.rmtree(place)

    clock.happenings = [lose, *[lambda: None] * 20]

    with pytest.raises(og.BranchGoneError):
        list(watched.changes(branch="dev", since=head(graph), follow=True))


def failing(times: int, original: Callable[..., Any], error: type[StoreUnavailableError]) -> Callable[..., Any]:
    left = iter(range(times))

    def call(*arguments: Any) -> Any:
        if next(left, None) is not None:
            raise error("read", "down for a moment")
        return original(*arguments)

    return call


def test_a_store_that_fails_for_a_while_is_outlasted(
    graph: og.Graph, watched: og.Graph, clock: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock.happenings = [lambda: run(graph, 'insert C { name: "x" }'), *[lambda: None] * (ROUNDS - 1)]
    feed = watched.changes(since=head(graph), follow=True, limit=1)
    monkeypatch.setattr(feeds, "read_next_commits", failing(ROUNDS, read_next_commits, StoreUnavailableError))

    assert [one.cursor for one in feed] == [head(graph)]
    assert not clock.happenings


def test_a_commit_in_whose_middle_the_store_fails_begins_again(
    graph: og.Graph, watched: og.Graph, clock: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock.happenings = [lambda: None] * ROUNDS
    last = graph.commits()[1].id
    monkeypatch.setattr("omnigraph.ops.commit_changes.BLOCK_BYTES", 1)
    original = Pair.iter_changes
    failures = iter(range(ROUNDS))

    def changes(pair: Pair) -> Iterator[Any]:
        yield from original(pair)
        if next(failures, None) is not None:
            raise StoreUnavailableError("read", "down for a moment")

    monkeypatch.setattr(Pair, "iter_changes", changes)

    lines = [
        json.loads(line)
        for line in watched.changes(since=last, follow=True, limit=1).blocks()
        for line in line.splitlines()
    ]

    assert [list(line)[1] for line in lines if "begin" in line] == ["begin"] * (ROUNDS + 1)
    assert [list(line)[1] for line in lines[-4:]] == ["begin", "type", "type", "end"]


@pytest.mark.parametrize("error", [StoreUnavailableError, StoreDeniedError])
def test_who_does_not_follow_or_is_denied_is_told_of_the_failure(
    error: type[StoreUnavailableError], watched: og.Graph, clock: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = watched.changes(follow=error is StoreDeniedError)
    monkeypatch.setattr(feeds, "read_next_commits", failing(1, read_next_commits, error))

    with pytest.raises(error):
        next(feed)

    assert not clock.slept


def test_a_store_that_stays_away_is_given_up(
    watched: og.Graph, clock: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = iter(range(0, 10_000, 100))
    clock.happenings = [lambda: None] * 100
    feed = watched.changes(follow=True)
    monkeypatch.setattr(feeds, "read_next_commits", failing(100, read_next_commits, StoreUnavailableError))
    monkeypatch.setattr(clock, "monotonic", lambda: float(next(seconds)))

    with pytest.raises(StoreUnavailableError):
        next(feed)

    assert 3 < len(clock.slept) < 20


def test_who_follows_notices_that_the_branch_was_taken_back(
    graph: og.Graph, watched: og.Graph, clock: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a repair of the manifest, other commits have the numbers of those that are lost."""
    lost = head(graph)
    feed = watched.changes(since=lost, follow=True)
    clock.happenings = [lambda: run(graph, 'insert P { name: "x" }')]
    stranger = read_next_commits

    def others(*arguments: Any) -> tuple[og.Commit, ...]:
        return tuple(msgspec.structs.replace(one, parent="another") for one in stranger(*arguments))

    monkeypatch.setattr(feeds, "read_next_commits", others)

    with pytest.raises(og.CommitMissingError, match=lost):
        next(feed)
