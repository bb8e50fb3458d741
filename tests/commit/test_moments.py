"""Time goes forward along a branch, also where a writer's clock does not."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from branching import put
from collecting import small_world
from omnigraph.clock import SystemClock, parse_instant
from omnigraph.commit.refs import CommitMissingError
from omnigraph.ops.open import open_session
from omnigraph.ops.session import Session
from omnigraph.runtime import Runtime
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
    return [parse_instant(commit.at) for commit in session.log.history(head)][::-1]


def test_a_clock_that_is_behind_by_a_little_takes_the_time_of_the_commit_before(session: Session) -> None:
    put(session, {"a": 1})

    put(off(session, timedelta(seconds=-3)), {"a": 2})

    assert times(session)[-1] == times(session)[-2]


def test_a_slow_clock_takes_the_time_of_the_store(session: Session) -> None:
    put(session, {"a": 1})

    put(off(session, -DAYS), {"a": 2})

    assert times(session)[-1] >= times(session)[-2]
    assert datetime.now(UTC) - times(session)[-1] < timedelta(minutes=5)


def test_one_fast_clock_does_not_spoil_the_time_of_what_follows(session: Session) -> None:
    put(off(session, DAYS), {"a": 1})

    put(session, {"a": 2})

    assert datetime.now(UTC) - times(session)[-1] < timedelta(minutes=5)


def test_a_time_before_there_was_a_graph_has_no_state_whatever_clocks_say(session: Session) -> None:
    put(session, {"a": 1})
    put(off(session, -DAYS), {"a": 2})

    with pytest.raises(CommitMissingError):
        session.snapshot(at=datetime.now(UTC) - timedelta(days=20))


def test_clocks_that_agree_cost_nothing(session: Session) -> None:
    put(session, {"a": 1})
    with session.runtime.telemetry.counting() as usual:
        put(session, {"a": 2})
    slow = off(session, -timedelta(seconds=5))
    put(slow, {"a": 3})

    with slow.runtime.telemetry.counting() as counted:
        put(slow, {"a": 4})

    assert counted.total() == usual.total()
