"""What a worker remembers of long requests."""

from pathlib import Path

import pytest

from omnigraph.server import fleet as fleets
from omnigraph.server.fleet import Fleet
from omnigraph.server.shared_state import SharedState


class Time:
    """A clock that a test sets."""

    now = 100.0

    def monotonic(self) -> float:
        """The time."""
        return self.now


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    clock = Time()
    monkeypatch.setattr(fleets, "time", clock)
    return clock


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    shared = SharedState.create(2)
    return Fleet(shared, shared.slots[0], tmp_path, 1)


def measure(fleet: Fleet, time: Time) -> float:
    """For how long a request is taken for long from now on, by steps of a second."""
    begun = time.now
    while fleet.is_known_long("q"):
        time.now += 1
    return time.now - begun


def test_a_request_that_was_long_once_is_tried_again_soon(fleet: Fleet, time: Time) -> None:
    fleet.note_long("q")

    assert fleet.is_known_long("q")
    assert measure(fleet, time) == 2


def test_one_that_is_long_each_time_is_taken_for_long_at_once(fleet: Fleet, time: Time) -> None:
    found = []
    for _ in range(6):
        fleet.note_long("q")
        found.append(measure(fleet, time))

    assert found == [2, 8, 32, 128, 300, 300]


def test_one_that_is_short_again_begins_anew(fleet: Fleet, time: Time) -> None:
    for _ in range(4):
        fleet.note_long("q")
    time.now += 200
    fleet.note_short("q")
    fleet.note_short("never long")

    assert not fleet.is_known_long("q")
    fleet.note_long("q")
    assert measure(fleet, time) == 2
