"""Schedules of whole operations on S3, as a model behind HTTP has it."""

from collections.abc import Iterator

import pytest

from schedules.s3_explore import S3_CASES, S3Model, s3_model
from schedules.s3_model import HttpFault, PlannedHttpFault
from schedules.strategies import ReplayStrategy, Schedule

CHUNKS, SCHEDULES = 2, 25


@pytest.fixture(scope="module")
def bucket() -> Iterator[S3Model]:
    with s3_model() as opened:
        yield opened


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_schedules_over_http(bucket: S3Model, chunk: int) -> None:
    for seed in range(chunk * SCHEDULES, (chunk + 1) * SCHEDULES):
        assert bucket.try_seed(seed) is None


@pytest.mark.parametrize("fault", HttpFault)
def test_a_fault_inside_of_a_call_of_lance_is_survived(bucket: S3Model, fault: HttpFault) -> None:
    case = S3_CASES[0]
    # The third request of a writer is part of its swap.
    faults = tuple(PlannedHttpFault("a", number, fault) for number in (3, 6))

    result = bucket.play(case, ReplayStrategy(Schedule()), faults)

    assert result.problems == []
    assert len(bucket.server.state.injected) == len(faults)
