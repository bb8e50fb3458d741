"""Processes that write at the same time on S3: nothing lost, nothing half visible, nothing twice."""

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from unittest import mock

import pytest

from omnigraph.ops.open import open_session
from omnigraph.ops.session import Session
from race.checker import Txn, anomalies
from s3_server import fresh_uri, s3_server
from worlds import FAST, STORAGE, runtime, seeded_world, state
from zygote import Ended, Zygote


@pytest.fixture(scope="module")
def storage() -> Iterator[dict[str, str]]:
    with s3_server() as options:
        yield options


@pytest.fixture(scope="module")
def zygote(storage: dict[str, str]) -> Iterator[Zygote]:
    with mock.patch.dict(os.environ, {STORAGE: json.dumps(storage)}):
        zygote = Zygote()
    yield zygote
    zygote.close()


@pytest.fixture
def world(storage: dict[str, str]) -> Session:
    return seeded_world(fresh_uri(), replace(FAST, storage=storage))


def together(zygote: Zygote, target: str, jobs: list[dict[str, object]]) -> list[Ended]:
    started = [zygote.start(f"race.jobs:{target}", job) for job in jobs]
    ended = [zygote.wait(pid) for pid in started]
    assert [one.error for one in ended] == [None] * len(jobs)
    return ended


def is_a_line(session: Session, commits: int) -> bool:
    """Whether the history is one line without gaps, of this length."""
    history = list(session.log.iter_history(session.head()))
    return [commit.seq for commit in history] == list(range(commits))[::-1] and all(
        later.parent == earlier.id for later, earlier in pairwise(history)
    )


def test_a_shared_counter_on_s3_loses_no_increment(world: Session, zygote: Zygote) -> None:
    ended = together(zygote, "count_up", [{"uri": world.uri, "times": 12} for _ in range(3)])

    assert sum(int(str(one.result)) for one in ended) > 0, "they never met: this shows nothing"
    assert state(world)["node:A"]["a"] == 1 + 3 * 12
    assert is_a_line(world, 2 + 3 * 12)


def test_transfers_between_tables_on_s3_are_never_seen_half(world: Session, zygote: Zygote) -> None:
    watcher = zygote.start("race.jobs:watch", {"uri": world.uri, "until": 1 + 2 * 8, "looks": 4})

    together(zygote, "transfer", [{"uri": world.uri, "times": 8, "seed": seed} for seed in range(2)])
    sums = zygote.wait(watcher)

    assert sums.error is None
    assert isinstance(sums.result, list)
    assert set(sums.result) == {20}
    assert len(sums.result) > 3
    assert is_a_line(world, 2 + 2 * 8)
    values = state(world)
    assert sum(values["node:A"].values()) + sum(values["node:B"].values()) == 20


def test_histories_on_s3_are_strictly_serializable(storage: dict[str, str], zygote: Zygote) -> None:
    uri = fresh_uri()
    zygote.run("race.jobs:new_lists", {"uri": uri})
    jobs: list[dict[str, object]] = [
        {"uri": uri, "name": f"p{n}t", "times": 20, "seed": n, "bug": None} for n in range(3)
    ]

    ended = together(zygote, "list_append", jobs)
    final = zygote.run("race.jobs:lists", {"uri": uri})

    history = [Txn(**entry) for one in ended for entry in one.result]
    assert len(history) == 3 * 20
    assert sum(txn.outcome == "ok" and bool(txn.appends) for txn in history) >= 10
    assert anomalies(history, final.result) == []
    session = open_session(uri, is_read_only=True, runtime=runtime(replace(FAST, storage=storage)))
    assert len(list(session.log.iter_history(session.head()))) == 1 + sum(
        txn.outcome == "ok" and bool(txn.appends) for txn in history
    )
