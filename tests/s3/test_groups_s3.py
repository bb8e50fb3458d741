"""Groups on an object store, killed at every point: whole or not at all, and every history is strictly serializable."""

import json
import os
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest

import omnigraph as og
from crash.test_groups import DONE, POINTS
from crash.test_writers import AFTER_SWAP, SEED
from grouping import grouped
from omnigraph.commit import group_commit
from omnigraph.ops.open import open_session
from omnigraph.runtime import Runtime
from omnigraph.storage.s3_object_store import S3ObjectStore
from race.test_groups import MAINTENANCE_POINTS, check, run_both
from race.test_groups import POINTS as HISTORY_POINTS
from s3_server import copied, fresh_uri, s3_server
from worlds import FAST, STORAGE, TABLES, runtime, seeded_world
from zygote import Zygote


@pytest.fixture(scope="module")
def storage() -> Iterator[dict[str, str]]:
    with s3_server() as options:
        yield options


@pytest.fixture(scope="module")
def template(storage: dict[str, str]) -> str:
    return seeded_world(fresh_uri(), replace(FAST, storage=storage)).uri


@pytest.fixture(scope="module")
def zygote(storage: dict[str, str]) -> Iterator[Zygote]:
    with mock.patch.dict(os.environ, {STORAGE: json.dumps(storage)}):
        zygote = Zygote()
    yield zygote
    zygote.close()


@pytest.mark.parametrize("point", POINTS)
def test_a_group_killed_on_s3_is_there_whole_or_not_at_all(point: str, template: str, zygote: Zygote) -> None:
    uri = copied(template)

    killed = zygote.run("crash.group_jobs:write", {"uri": uri}, f"{point}=kill")
    after = zygote.run("s3.jobs:aftermath", {"uri": uri})

    assert killed.was_killed
    assert after.error is None
    is_done = point in AFTER_SWAP
    assert after.result["seen"]["state"] == (DONE if is_done else dict.fromkeys(TABLES, SEED))
    assert len(after.result["seen"]["commits"]) == (6 if is_done else 2)
    assert after.result["settled"]["state"]["node:A"]["next"] == 1
    assert after.result["settled"]["sidecars"] == 0


def test_histories_of_groups_on_s3_are_strictly_serializable(
    tmp_path: Path, storage: dict[str, str], zygote: Zygote
) -> None:
    uri = fresh_uri()

    run_both(uri, tmp_path, zygote, None, times=3)

    assert check(uri, tmp_path, zygote) == 0
    session = open_session(uri, is_read_only=True, runtime=runtime(replace(FAST, storage=storage)))
    versions = Counter(commit.manifest_version for commit in session.log.iter_history(session.head()))
    assert max(versions.values()) > 2, "there was no group: this shows nothing"


@pytest.mark.parametrize("point", [*HISTORY_POINTS[1:], *MAINTENANCE_POINTS])
def test_a_group_killed_on_s3_loses_doubles_and_reorders_nothing(point: str, tmp_path: Path, zygote: Zygote) -> None:
    uri = fresh_uri()

    run_both(uri, tmp_path, zygote, point, times=4)

    assert check(uri, tmp_path, zygote) > 0 or point in MAINTENANCE_POINTS


class Placed:
    """Faults that set an event once so many writes of a group are placed."""

    def __init__(self, writes: int) -> None:
        self.left = writes
        self.event = threading.Event()

    def reach(self, point: str) -> None:
        self.left -= point == "group.placed"
        if self.left == 0:
            self.event.set()


def test_members_that_depend_on_each_other_wait_for_no_file(
    storage: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each increment reads the row of the one before it, whose files are still on their way."""
    uri = fresh_uri()
    options = replace(FAST, storage=storage)
    graph = og.create_graph(uri, "node Item { name: String @key  n: I64 }", runtime=Runtime(options=options))
    graph.mutate('query add() { insert Item { name: "c", n: 0 } }')
    increment = 'query increment() { update Item set { n: n + 1 } where name = "c" }'
    graph.mutate(increment)
    # The first of the group is staged before its turn; its file is on its way too.
    placed = Placed(4)
    graph._session.store.runtime = replace(graph._session.runtime, faults=placed)
    right, held = S3ObjectStore.put, list[str]()

    def put(store: S3ObjectStore, key: str, data: bytes) -> str:
        if key.startswith("nodes/"):
            held.append(key)
            assert placed.event.wait(60), "a member waits for a file"
        return right(store, key, data)

    monkeypatch.setattr(S3ObjectStore, "put", put)
    # A group that takes long is published before it is complete, however busy the machine is.
    monkeypatch.setattr(group_commit, "MAX_PLACING_SECONDS", 60.0)

    commits = grouped(graph._session, [lambda: graph.mutate(increment).commit_id] * 4)

    assert all(isinstance(commit, str) for commit in commits), commits
    assert len([key for key in held if "/_versions/" in key]) == 4
    fresh = og.open_graph(uri, runtime=Runtime(options=options))
    text = "query read() { match { $i: Item } return { $i.n as n } }"
    assert [fresh.query(text, snapshot=commit).rows()[0]["n"] for commit in commits] == [2, 3, 4, 5]
    assert fresh.query(text).rows() == [{"n": 5}]
