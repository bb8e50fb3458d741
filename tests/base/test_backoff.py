"""One back-off for all that try again: waits double up to a limit, and are random below it."""

import pytest

from omnigraph.backoff import MAX_OUTAGE_SECONDS, OutageBackoff, compute_wait, wait_for_retry
from omnigraph.clock import SystemClock
from omnigraph.errors import OmnigraphError
from omnigraph.ids import SystemIds
from omnigraph.options import Options
from omnigraph.runtime import Runtime


class SkippingClock(SystemClock):
    """A clock that moves on by what is slept, at once."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return sum(self.slept)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


def highest(limit: float) -> float:
    """The end of the range that jitter draws from."""
    return limit


def wait_until_it_gives_up(backoff: OutageBackoff) -> None:
    while True:
        backoff.wait(OmnigraphError("away"))


def test_waits_double_up_to_a_limit() -> None:
    waits = [compute_wait(highest, attempt, first=0.1, limit=1) for attempt in range(6)]

    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1, 1])


def test_a_wait_after_thousands_of_attempts_is_the_limit() -> None:
    assert compute_wait(highest, 5_000, first=0.1, limit=10) == 10


def test_two_writers_that_lost_together_wait_differently() -> None:
    clocks = [SkippingClock(), SkippingClock()]
    for clock in clocks:
        runtime = Runtime(clock=clock, ids=SystemIds(clock), options=Options(backoff_seconds=0.05))
        for attempt in range(1, 9):
            wait_for_retry(runtime, attempt)

    first, second = (clock.slept for clock in clocks)
    assert first != second
    assert all(wait < 0.05 * 32 for wait in first)


def test_followers_of_a_store_that_is_out_do_not_come_back_together_and_give_up() -> None:
    clocks = [SkippingClock(), SkippingClock()]
    for clock in clocks:
        backoff = OutageBackoff(clock, SystemIds(clock))
        with pytest.raises(OmnigraphError, match="away"):
            wait_until_it_gives_up(backoff)

    first, second = (clock.slept for clock in clocks)
    assert first[:4] != second[:4]
    assert MAX_OUTAGE_SECONDS < sum(first) < MAX_OUTAGE_SECONDS + 10


def test_an_answer_ends_an_outage() -> None:
    clock = SkippingClock()
    backoff = OutageBackoff(clock, SystemIds(clock))
    for _ in range(20):
        backoff.wait(OmnigraphError("away"))

    backoff.reset()
    backoff.wait(OmnigraphError("away"))

    assert clock.slept[-1] < 0.1
