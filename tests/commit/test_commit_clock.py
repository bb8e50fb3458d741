"""Time goes forward along a branch, also where a writer's clock does not."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import omnigraph as og
from branching import put
from collecting import small_world
from omnigraph.clock import SystemClock, parse_instant
from omnigraph.commit.publisher import arm
from omnigraph.commit.recovery import recover
from omnigraph.commit.time_travel import CommitMissingError
from omnigraph.ops.open import open_session
from omnigraph.ops.session import Session
from omnigraph.runtime import Runtime
from omnigraph.storage.layout import MANIFEST, format_version_name
from worlds import FAST

DAYS = timedelta(days=40)


class OffClock(SystemClock):
    """A clock that is off."""

    def __init__(self, off: timedelta) -> None:
        self.off = off

    def now(self) -> datetime:
        return super().now() + self.off


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """A graph made now."""
    return small_world(tmp_path / "g")


def off(session: Session, by: timedelta) -> Session:
    """A writer whose clock is off."""
    return open_session(session.uri, is_read_only=False, runtime=Runtime(options=FAST, clock=OffClock(by)))


def times(session: Session) -> list[datetime]:
    """The times of the commits, oldest first."""
    head = session.head()
    return [parse_instant(commit.at) for commit in session.log.iter_history(head)][::-1]


def test_a_clock_that_is_behind_by_a_little_takes_the_time_of_the_commit_before(session: Session) -> None:
    put(session, {"a": 1})

    put(off(session, timedelta(seconds=-3)), {"a": 2})

    assert times(session)[-1] == times(session)[-2]


def test_a_slow_clock_takes_the_time_of_the_store(session: Session) -> None:
    put(session, {"a": 1})

    put(off(session, -DAYS), {"a": 2})

    assert times(session)[-1] >= times(session)[-2]
    assert datetime.now(UTC) - times(session)[-1] < timedelta(minutes=5)


def test_no_commit_is_older_than_the_one_before_however_fast_the_clock_of_that_one_was(session: Session) -> None:
    put(off(session, DAYS), {"a": 1})

    put(session, {"a": 2})
    put(off(session, -DAYS), {"a": 3})

    assert times(session) == sorted(times(session))


def test_the_store_is_asked_once_about_a_fast_clock_and_not_by_every_commit_that_follows(session: Session) -> None:
    for value in range(-2, 1):  # so that the keys of the table are in memory
        put(session, {"a": value})
    with session.runtime.telemetry.count_requests() as usual:
        put(session, {"a": 1})
    put(off(session, DAYS), {"a": 2})
    put(session, {"a": 3})

    with session.runtime.telemetry.count_requests() as counted:
        put(session, {"a": 4})

    assert counted.count() == usual.count()


def test_what_recovery_writes_into_the_history_is_not_older_than_what_was_there(session: Session) -> None:
    put(off(session, DAYS), {"a": 1})
    arm(session.log, session.head(), operation="w", actor="x").lease.stop()

    session.store.runtime = Runtime(options=replace(FAST, lease_seconds=-5))
    report = recover(session.store, session.log)

    assert len(report.rolled_back) == 1
    assert times(session) == sorted(times(session))


def test_a_repair_that_goes_back_is_not_older_than_what_it_goes_back_to(session: Session) -> None:
    put(off(session, DAYS), {"a": 1})
    put(session, {"a": 2})
    newest = session.head().snapshot.manifest_version
    (Path(session.uri) / MANIFEST / format_version_name(newest)).write_bytes(b"torn")

    og.repair_graph(session.uri, confirm=True, force=True, runtime=Runtime(options=FAST))

    found = times(open_session(session.uri, is_read_only=True, runtime=Runtime(options=FAST)))
    assert len(found) == 3
    assert found == sorted(found)


def test_a_time_before_there_was_a_graph_has_no_state_whatever_clocks_say(session: Session) -> None:
    put(session, {"a": 1})
    put(off(session, -DAYS), {"a": 2})

    with pytest.raises(CommitMissingError):
        session.resolve_snapshot(at=datetime.now(UTC) - timedelta(days=20))


def test_clocks_that_agree_cost_nothing(session: Session) -> None:
    put(session, {"a": 1})
    with session.runtime.telemetry.count_requests() as usual:
        put(session, {"a": 2})
    slow = off(session, -timedelta(seconds=5))
    put(slow, {"a": 3})

    with slow.runtime.telemetry.count_requests() as counted:
        put(slow, {"a": 4})

    assert counted.count() == usual.count()
