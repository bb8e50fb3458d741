"""Fault points and counters."""

from pathlib import Path

import pytest

from omnigraph.faults import POINTS, ArmedFaults, InjectedFaultError, NoFaults, read_faults
from omnigraph.telemetry import Telemetry

SOURCE = Path(__file__).parents[2] / "src" / "omnigraph"


def test_nothing_is_armed_by_default() -> None:
    assert isinstance(read_faults({}), NoFaults)


def test_the_nth_time_a_point_is_reached_can_fail() -> None:
    faults = read_faults({"OMNIGRAPH_FAULT": "publish.applied@2=error"})

    faults.reach("publish.applied")
    faults.reach("publish.armed")
    with pytest.raises(InjectedFaultError, match=r"publish\.applied"):
        faults.reach("publish.applied")
    faults.reach("publish.applied")


@pytest.mark.parametrize("text", ["publish.appplied=kill", "publish.applied=maim", "publish.applied"])
def test_a_fault_that_does_not_exist_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="unknown fault"):
        read_faults({"OMNIGRAPH_FAULT": text})


@pytest.mark.parametrize("point", POINTS)
def test_every_point_is_reached_by_the_source(point: str) -> None:
    users = [path for path in SOURCE.rglob("*.py") if f'reach("{point}")' in path.read_text()]

    assert len(users) == 1


def test_an_error_pickles_with_its_facts() -> None:
    import pickle

    restored = pickle.loads(pickle.dumps(InjectedFaultError("publish.armed")))  # noqa: S301 - our own bytes

    assert restored.facts() == {"point": "publish.armed"}


def test_requests_are_counted_only_inside_the_block() -> None:
    telemetry = Telemetry()
    telemetry.record("table", "put")

    with telemetry.count_requests() as outer:
        telemetry.record("table", "put", 2)
        with telemetry.count_requests() as inner:
            telemetry.record("control", "list")
    telemetry.record("table", "put")

    assert (outer.count(), inner.count()) == (3, 1)
    assert outer.count(target="table", operation="put") == 2
    assert inner.format_table().split() == ["control", "list", "1"]


def test_an_inner_block_that_counted_the_same_does_not_end_the_outer_one() -> None:
    telemetry = Telemetry()

    with telemetry.count_requests() as outer:
        with telemetry.count_requests():
            pass
        telemetry.record("table", "put")

    assert outer.count() == 1
    assert not telemetry.is_listening


def test_armed_faults_know_their_points() -> None:
    with pytest.raises(ValueError, match="unknown fault"):
        ArmedFaults("nowhere", "kill")


def test_what_is_recorded_below_is_counted_above() -> None:
    above = Telemetry()
    below = Telemetry(parent=above)

    with above.count_requests() as all_of_it:
        below.record("table", "get", 2)
        above.record("table", "get")

    assert all_of_it.count() == 3
    assert not below.is_listening


def test_a_listener_above_makes_those_below_count() -> None:
    above = Telemetry()
    below = Telemetry(parent=above)

    with above.count_requests():
        is_listening = below.is_listening

    assert is_listening
