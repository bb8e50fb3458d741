"""All requests that wait for a commit of a branch share one poll."""

import asyncio
import threading
from pathlib import Path

import pytest

from omnigraph.errors import BadArgumentError
from omnigraph.server import branch_watchers
from omnigraph.server.branch_watchers import BranchWatchers
from serving import ADD, serving

SECONDS = 60.0
"""More than any test takes: a wait that ends earlier was ended by a commit."""


@pytest.fixture(autouse=True)
def quick_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(branch_watchers, "POLL_SECONDS", 0.01)


def test_one_poll_wakes_all_that_wait() -> None:
    async def run() -> tuple[int, int, int]:
        head, polls, watchers = "one", 0, BranchWatchers()

        async def read_head() -> str:
            nonlocal polls
            polls += 1
            return head

        waits = [asyncio.ensure_future(watchers.wait("g", "main", "one", SECONDS, read_head)) for _ in range(50)]
        while polls < 3:  # noqa: ASYNC110 - what is tested has no event for a poll
            await asyncio.sleep(0.01)
        before, watched = polls, watchers.count
        head = "two"
        await asyncio.gather(*waits)
        return before, watched, watchers.count

    polls, watched, left = asyncio.run(run())

    assert polls < 50
    assert (watched, left) == (1, 0)


def test_a_wait_ends_with_its_time_and_leaves_nothing() -> None:
    async def run() -> int:
        watchers = BranchWatchers()

        async def read_head() -> str:
            return "one"

        await watchers.wait("g", "main", "one", 0.05, read_head)
        return watchers.count + len(asyncio.all_tasks()) - 1

    assert asyncio.run(run()) <= 1  # the cancelled poll may not have had its last turn


def test_a_poll_that_fails_wakes_all() -> None:
    async def run() -> int:
        watchers = BranchWatchers()

        async def read_head() -> str:
            raise BadArgumentError("branch", "x", "it is gone")

        await asyncio.gather(*(watchers.wait("g", "main", "one", SECONDS, read_head) for _ in range(5)))
        return watchers.count

    assert asyncio.run(run()) == 0


def test_a_request_that_waits_is_answered_with_the_next_commit(tmp_path: Path) -> None:
    server = serving(tmp_path)
    since = server.graph.snapshot().commit.id
    done = threading.Timer(0.3, lambda: server.graph.mutate(ADD, params={"n": "Eve"}))
    done.start()

    answer = server.client.get(
        f"/graphs/people/changes?since={since}&wait=60&counts=true", headers=server.as_role("reader")
    )
    done.join()
    server.service.close()

    assert [len(answer.json()["changes"]), server.service.watchers.count] == [1, 0]
