"""Schedules of whole operations on S3, as a model behind HTTP has it."""

from collections.abc import Iterator

import pytest

from schedules.s3_explore import S3_CASES, S3Model, draw_s3_choices, s3_model
from schedules.s3_model import HttpFault, PlannedHttpFault
from schedules.strategies import ReplayStrategy, Schedule

CHUNKS, SCHEDULES = 2, 25
SOAK_CHUNKS, SOAK_SCHEDULES = 50, 100


@pytest.fixture(scope="module")
def bucket() -> Iterator[S3Model]:
    with s3_model() as opened:
        yield opened


def run_seeds(bucket: S3Model, first: int, count: int) -> None:
    for seed in range(first, first + count):
        case = S3_CASES[seed % len(S3_CASES)]
        strategy, faults = draw_s3_choices(seed, case, bucket.measure(case))
        result = bucket.play(case, strategy, faults)
        assert result.problems == [], f"seed {seed}, {case.name}:\n{result.describe()}"


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_schedules_over_http(bucket: S3Model, chunk: int) -> None:
    run_seeds(bucket, chunk * SCHEDULES, SCHEDULES)


@pytest.mark.soak
@pytest.mark.parametrize("chunk", range(SOAK_CHUNKS))
def test_five_thousand_schedules_over_http(bucket: S3Model, chunk: int) -> None:
    run_seeds(bucket, 1_000_000 + chunk * SOAK_SCHEDULES, SOAK_SCHEDULES)


@pytest.mark.parametrize("fault", HttpFault)
def test_a_fault_inside_of_a_call_of_lance_is_survived(bucket: S3Model, fault: HttpFault) -> None:
    case = S3_CASES[0]
    # The third request of a writer is part of its swap.
    faults = tuple(PlannedHttpFault("a", number, fault) for number in (3, 6))

    result = bucket.play(case, ReplayStrategy(Schedule()), faults)

    assert result.problems == []
    assert len(bucket.server.state.injected) == len(faults)
