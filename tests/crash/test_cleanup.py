"""Cleanup, killed at every point, and writers that sleep while it takes what they stand on."""

import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from branching import branch, put
from collecting import DAY, Content, collect, content, looked_at, names, pass_time, small_world
from crash.test_live_neighbour import is_stopped
from omnigraph.ops.branch import delete_branch
from omnigraph.ops.open import open_session
from omnigraph.ops.revision import resolve_state
from omnigraph.ops.session import Session
from omnigraph.ops.tag import create_tag
from omnigraph.options import Options
from omnigraph.runtime import Runtime
from worlds import FAST
from zygote import Zygote

POINTS = (
    ("cleanup.listed", 1),
    ("cleanup.floored", 1),
    ("cleanup.floor", 1),
    ("cleanup.marked", 1),
    ("cleanup.removed", 1),
    ("cleanup.removed", 7),
    ("cleanup.swept", 1),
)
KEPT = ["main", "side", "then"]


def again(session: Session, options: Options = FAST) -> Session:
    """Another handle, opened for writing."""
    return open_session(session.uri, is_read_only=False, runtime=Runtime(options=options))


def states(uri: str) -> list[Content]:
    """What the kept states say, to somebody who has just opened the graph."""
    session = looked_at(uri)
    return [content(session, resolve_state(session, name)) for name in KEPT]


def wait_until_stopped(pid: int) -> None:
    end = time.monotonic() + 60
    while not is_stopped(pid):
        assert time.monotonic() < end, "the victim never reached its point"
        time.sleep(0.005)


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """A past of two days, with a branch, a tag, and a branch that was deleted."""
    session = small_world(tmp_path / "g")
    for number in range(3):
        put(session, {"a": number, "b": number}, "node:A", "node:B")
    create_tag(session, "then", actor="test")
    side = branch(session, "side")
    put(branch(session, "gone"), {"a": 9})
    delete_branch(session, "gone")
    for number in range(3):
        put(session, {"c": number})
        put(side, {"d": number})
    pass_time(session.uri, 2 * DAY)
    return session


@pytest.mark.parametrize("point, nth", POINTS)
def test_a_killed_cleanup_leaves_what_is_kept_and_the_next_one_ends_it(
    point: str, nth: int, session: Session, zygote: Zygote
) -> None:
    before = states(session.uri)

    killed = zygote.run("crash.cleanup_jobs:clean_up", {"uri": session.uri}, f"{point}@{nth}=kill")
    after = states(session.uri)
    put(again(session), {"next": 1})
    pass_time(session.uri, 2 * DAY)
    done = collect(again(session))

    assert killed.was_killed
    assert after == before
    assert done.bytes_removed > 0
    assert collect(again(session), confirm=False).bytes_removed == 0
    assert states(session.uri)[1:] == before[1:]


@pytest.mark.parametrize(
    "point, fence",
    [
        pytest.param("publish.staged", 200, marks=pytest.mark.soak),
        ("publish.applied", 200),
        ("publish.flushed", 1),
        ("publish.head_written", 1),
        pytest.param("publish.head_written", 200, marks=pytest.mark.soak),
    ],
)
def test_a_writer_that_sleeps_across_a_cleanup_fails_and_is_never_seen(
    point: str, fence: int, session: Session, zygote: Zygote
) -> None:
    job = {"uri": session.uri, "branch": "main", "tables": ["node:A"]}

    victim = zygote.start("crash.cleanup_jobs:write", job, f"{point}=stop")
    wait_until_stopped(victim)
    neighbour = again(session, replace(FAST, manifest_versions=fence))
    for number in range(3):
        put(neighbour, {"c": 100 + number})
    expected = content(neighbour, neighbour.resolve_snapshot())
    pass_time(session.uri, 2 * DAY)
    collect(neighbour)
    os.kill(victim, signal.SIGCONT)
    ended = zygote.wait(victim)

    assert "took too long: cleanup 1 ran in the meantime" in (ended.error or "")
    assert states(session.uri)[0] == expected
    put(again(session), {"next": 1})


@pytest.mark.parametrize("point", ["publish.flushed", "publish.head_written"])
def test_a_writer_that_sleeps_until_its_branch_is_collected_finds_it_gone(
    point: str, session: Session, zygote: Zygote
) -> None:
    job = {"uri": session.uri, "branch": "side", "tables": ["node:A"]}

    victim = zygote.start("crash.cleanup_jobs:write", job, f"{point}=stop")
    wait_until_stopped(victim)
    delete_branch(session, "side")
    pass_time(session.uri, 2 * DAY)
    collect(session)
    os.kill(victim, signal.SIGCONT)
    ended = zygote.wait(victim)

    assert "the branch `side` was deleted in the meantime" in (ended.error or "")
    assert not any(name.startswith("__branches/") and name.endswith(".manifest") for name in names(session.uri))


def test_a_writer_that_sleeps_with_a_sidecar_is_cancelled_before_its_files_go(session: Session, zygote: Zygote) -> None:
    job = {"uri": session.uri, "branch": "main", "tables": ["node:A", "node:B"]}
    expected = content(session, session.resolve_snapshot())

    victim = zygote.start("crash.cleanup_jobs:write", job, "publish.flushed=stop")
    wait_until_stopped(victim)
    pass_time(session.uri, 2 * DAY)
    collect(session)
    os.kill(victim, signal.SIGCONT)
    ended = zygote.wait(victim)

    assert "was cancelled by recovery" in (ended.error or "")
    assert states(session.uri)[0] == expected
