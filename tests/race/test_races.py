"""Processes that write at the same time: nothing lost, nothing half visible, nothing twice."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from omnigraph.ops.open import open_session
from omnigraph.ops.session import Session
from race.checker import Txn, anomalies
from worlds import TABLES, runtime, seeded_world, state
from zygote import Ended, Zygote


def together(zygote: Zygote, target: str, jobs: Sequence[Mapping[str, object]]) -> list[Ended]:
    started = [zygote.start(f"race.jobs:{target}", job) for job in jobs]
    ended = [zygote.wait(pid) for pid in started]
    assert [one.error for one in ended] == [None] * len(jobs)
    return ended


def line_of_history(uri: str, commits: int) -> None:
    """The history is one line without gaps, of the expected length."""
    session = reader(uri)
    history = list(session.log.iter_history(session.head()))
    assert [commit.seq for commit in history] == list(range(commits))[::-1]
    assert all(later.parent == earlier.id for later, earlier in pairwise(history))


def reader(uri: str) -> Session:
    return open_session(uri, is_read_only=True, runtime=runtime())


def test_a_shared_counter_loses_no_increment(tmp_path: Path, zygote: Zygote) -> None:
    uri = seeded_world(tmp_path / "g").uri

    together(zygote, "count_up", [{"uri": uri, "times": 40} for _ in range(4)])

    assert state(reader(uri))["node:A"]["a"] == 1 + 4 * 40
    line_of_history(uri, 2 + 4 * 40)


def test_transfers_between_tables_are_never_seen_half(tmp_path: Path, zygote: Zygote) -> None:
    uri = seeded_world(tmp_path / "g").uri
    watcher = zygote.start("race.jobs:watch", {"uri": uri, "until": 1 + 3 * 40, "looks": 21})

    together(zygote, "transfer", [{"uri": uri, "times": 40, "seed": seed} for seed in range(3)])
    sums = zygote.wait(watcher)

    assert sums.error is None
    assert set(sums.result) == {20}
    assert len(sums.result) > 20
    line_of_history(uri, 2 + 3 * 40)


def test_writers_of_disjoint_tables_never_fail(tmp_path: Path, zygote: Zygote) -> None:
    uri = seeded_world(tmp_path / "g").uri
    jobs = [{"uri": uri, "table": table, "name": f"w{n}", "times": 40} for n, table in enumerate(TABLES[:4])]

    ended = together(zygote, "append_own", jobs)

    assert [one.result for one in ended] == [0, 0, 0, 0]
    assert all(len(state(reader(uri))[table]) == 4 + 40 for table in TABLES[:4])


def test_appenders_to_one_table_lose_and_double_nothing(tmp_path: Path, zygote: Zygote) -> None:
    uri = seeded_world(tmp_path / "g").uri
    jobs = [{"uri": uri, "table": "node:A", "name": f"w{n}", "times": 30} for n in range(4)]

    ended = together(zygote, "append_own", jobs)

    written = sum(30 - one.result for one in ended)
    assert len(state(reader(uri))["node:A"]) == 4 + written


def histories(uri: str, zygote: Zygote, *, processes: int, times: int, bug: str | None = None) -> list[str]:
    zygote.run("race.jobs:new_lists", {"uri": uri})
    jobs = [{"uri": uri, "name": f"p{n}t", "times": times, "seed": n, "bug": bug} for n in range(processes)]
    ended = together(zygote, "list_append", jobs)
    history = [Txn(**entry) for one in ended for entry in one.result]
    assert len(history) == processes * times
    assert sum(txn.outcome == "ok" and bool(txn.appends) for txn in history) > processes * times / 10
    final = zygote.run("race.jobs:lists", {"uri": uri})
    assert final.error is None
    return anomalies(history, final.result)


def test_histories_are_strictly_serializable(tmp_path: Path, zygote: Zygote) -> None:
    found = histories(str(tmp_path / "g"), zygote, processes=4, times=60)

    assert found == []


@pytest.mark.parametrize("bug", ["no requirements", "stale pin"])
def test_the_checker_catches_a_publisher_that_is_broken_on_purpose(bug: str, tmp_path: Path, zygote: Zygote) -> None:
    found = histories(str(tmp_path / "g"), zygote, processes=4, times=60, bug=bug)

    assert found != []


@pytest.mark.soak
def test_long_histories_are_strictly_serializable(tmp_path: Path, zygote: Zygote) -> None:
    found = histories(str(tmp_path / "g"), zygote, processes=8, times=600)

    assert found == []
