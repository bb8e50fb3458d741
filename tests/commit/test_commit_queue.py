"""Writers that have just been published together are awaited, and no others."""

import threading
import time
from collections.abc import Sequence

import pytest

from omnigraph.commit import commit_queue
from omnigraph.commit.commit_queue import MIN_AWAITED_GROUP, CommitQueue
from omnigraph.concurrency import Event, create_event

TIMEOUT_SECONDS = 60.0


class Write:
    """A write that only counts."""

    def __init__(self) -> None:
        self.wake: Event = create_event()
        self.is_settled = False

    def settle_interrupted(self) -> bool:
        return False


class Groups:
    """Leads groups, and notes how many members they have."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def lead(self, group: Sequence[Write]) -> None:
        self.sizes.append(len(group))
        for write in group:
            write.is_settled = True


def settle_together(queue: CommitQueue, groups: Groups, writers: int, rounds: int = 1) -> None:
    """Let writers wait for one turn; each then writes again until it has written in so many rounds."""

    def work() -> None:
        for _ in range(rounds):
            queue.settle(Write(), groups.lead)

    threads = [threading.Thread(target=work) for _ in range(writers)]
    with queue.hold():
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while len(queue._waiting) < writers and time.monotonic() < deadline:
            time.sleep(0.001)
    for thread in threads:
        thread.join(TIMEOUT_SECONDS)
        assert not thread.is_alive()


def test_writers_of_a_large_group_are_published_together_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slowly they return: the share of time is without a limit here."""
    monkeypatch.setattr(commit_queue, "AWAITED_SHARE", 1e9)
    groups = Groups()

    settle_together(CommitQueue(), groups, MIN_AWAITED_GROUP, rounds=5)

    assert groups.sizes == [MIN_AWAITED_GROUP] * 5


def test_a_writer_after_a_small_group_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_queue, "AWAITED_SHARE", 1e9)
    queue, groups = CommitQueue(), Groups()
    settle_together(queue, groups, MIN_AWAITED_GROUP - 1)

    queue.settle(Write(), groups.lead)

    assert groups.sizes == [MIN_AWAITED_GROUP - 1, 1]


def test_a_writer_waits_for_a_limited_time() -> None:
    queue, groups = CommitQueue(), Groups()
    settle_together(queue, groups, MIN_AWAITED_GROUP)

    # The group took no time, so there is nothing to wait for.
    queue.settle(Write(), groups.lead)

    assert groups.sizes == [MIN_AWAITED_GROUP, 1]
