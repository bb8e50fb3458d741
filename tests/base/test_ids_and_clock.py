"""Ids that sort, instants that round-trip."""

import threading
from datetime import UTC, datetime, timedelta, timezone

import pytest
from ulid import ULID

from omnigraph.clock import format_instant, parse_instant
from omnigraph.ids import ULID_LENGTH, SystemIds, format_ulids


class StandingClock:
    """A clock that a test moves by hand."""

    def __init__(self, instant: datetime) -> None:
        self.instant = instant

    def now(self) -> datetime:
        return self.instant

    def monotonic(self) -> float:
        return self.instant.timestamp()

    def sleep(self, seconds: float) -> None:
        self.instant += timedelta(seconds=seconds)


NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


def test_ulids_of_one_millisecond_are_unique_and_in_order() -> None:
    ids = SystemIds(StandingClock(NOON))

    made = [ids.ulid() for _ in range(1000)]

    assert made == sorted(set(made))


def test_ulids_stay_in_order_when_the_clock_steps_back() -> None:
    clock = StandingClock(NOON)
    ids = SystemIds(clock)
    first = ids.ulid()
    clock.instant -= timedelta(hours=1)

    second = ids.ulid()

    assert first < second


@pytest.mark.parametrize("first", [0, 2**60 - 3, 2**61 - 2, 2**80 - 2, 2**128 - 5])
def test_many_ulids_at_once_are_those_that_follow_each_other(first: int) -> None:
    texts = format_ulids(first, 5).decode()

    made = [texts[start : start + ULID_LENGTH] for start in range(0, len(texts), ULID_LENGTH)]

    assert made == [str(ULID.from_int(first + number)) for number in range(5)]


def test_many_ulids_at_once_lie_between_those_before_and_behind() -> None:
    ids = SystemIds(StandingClock(NOON))
    before = ids.ulid()
    texts = ids.ulids(3).decode()
    behind = ids.ulid()

    made = [before, texts[:26], texts[26:52], texts[52:], behind]

    assert made == sorted(set(made))
    assert ids.ulids(0) == b""


def test_ulids_of_many_threads_are_unique() -> None:
    ids = SystemIds(StandingClock(NOON))
    made: list[str] = []
    threads = [threading.Thread(target=lambda: made.extend(ids.ulid() for _ in range(200))) for _ in range(4)]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(set(made)) == 800


def test_a_ulid_has_26_characters_and_starts_with_its_time() -> None:
    early = SystemIds(StandingClock(NOON)).ulid()
    late = SystemIds(StandingClock(NOON + timedelta(milliseconds=1))).ulid()

    assert len(early) == 26
    assert early[:10] < late[:10]


@pytest.mark.parametrize(
    "instant, text",
    [
        (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "2026-01-02T03:04:05Z"),
        (datetime(2026, 1, 2, 3, 4, 5, 120, tzinfo=UTC), "2026-01-02T03:04:05.000120Z"),
        (datetime(2026, 1, 2, 3, tzinfo=timezone(timedelta(hours=2))), "2026-01-02T01:00:00Z"),
    ],
)
def test_an_instant_is_written_in_utc_and_read_back(instant: datetime, text: str) -> None:
    assert format_instant(instant) == text
    assert parse_instant(text) == instant


@pytest.mark.parametrize("text", ["2026-01-02T03:04:05", "yesterday", ""])
def test_an_instant_without_zone_or_sense_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_instant(text)
