"""Schedules of whole operations on a real graph in memory files."""

from collections.abc import Iterator

import pytest

from schedules.exhaustive import search_preemptions
from schedules.lance_explore import LANCE_CASES, LanceModel, lance_model
from schedules.strategies import ReplayStrategy

CHUNKS, SCHEDULES = 10, 50


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LanceModel]:
    with lance_model(tmp_path_factory.mktemp("schedules")) as opened:
        yield opened


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_schedules_of_real_operations(disk: LanceModel, chunk: int) -> None:
    for seed in range(chunk * SCHEDULES, (chunk + 1) * SCHEDULES):
        assert disk.try_seed(seed) is None


@pytest.mark.soak
@pytest.mark.parametrize("name", ["two-writers", "a-schema", "a-cleanup-and-a-reader", "a-merge"])
def test_every_schedule_with_two_preemptions(disk: LanceModel, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    case = LANCE_CASES[name]

    def play(strategy: ReplayStrategy) -> tuple[list[str], list[tuple[str, int, tuple[str, ...]]]]:
        result = disk.play(case, strategy)
        requests = [event for event in result.trace if event.step.is_request and ":" not in event.task]
        return result.problems, [(event.task, event.number - 1, tuple(case.processes)) for event in requests]

    search = search_preemptions(play, 2, 20_000)

    with capsys.disabled():
        print(f"{name}: {search.runs} runs, complete={search.is_complete}")  # noqa: T201 - the count is what it is for
    assert search.problems == []
