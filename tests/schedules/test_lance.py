"""Schedules of whole operations on a real graph in memory files."""

from collections.abc import Iterator

import pytest

from schedules.exhaustive import Search
from schedules.lance_actors import Append
from schedules.lance_explore import SMALL_CASES, L, LanceModel, LanceScenario, M, lance_model
from schedules.planted import BUGS, plant

CHUNKS, SCHEDULES = 10, 50
SKEW = LanceScenario("a-skew", {"a": (Append((L, M)),), "b": (Append((M, L)),)})


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LanceModel]:
    with lance_model(tmp_path_factory.mktemp("schedules")) as opened:
        yield opened


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_schedules_of_real_operations(disk: LanceModel, chunk: int) -> None:
    for seed in range(chunk * SCHEDULES, (chunk + 1) * SCHEDULES):
        assert disk.try_seed(seed) is None


def test_few_preemptions_find_a_planted_bug(disk: LanceModel) -> None:
    with plant(BUGS["reads-are-not-checked"]):
        search = disk.search(SKEW, 1)

    assert any("skew" in problem for _, problems in search.problems for problem in problems)
    assert search.pruned


@pytest.mark.soak
@pytest.mark.parametrize("name", SMALL_CASES)
def test_every_schedule_with_two_preemptions(disk: LanceModel, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    check(disk.search(SMALL_CASES[name], 2), name, capsys)


@pytest.mark.soak
def test_every_crash_of_a_group_with_one_preemption(disk: LanceModel, capsys: pytest.CaptureFixture[str]) -> None:
    check(disk.search_with_crash(SMALL_CASES["a-group-and-a-crash"], 1), "a crash", capsys)


@pytest.mark.parametrize("name", ["two-merges", "a-schema-apply-and-a-writer"])
def test_every_schedule_with_one_preemption(disk: LanceModel, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    check(disk.search(SMALL_CASES[name], 1), name, capsys)


def check(search: Search, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(f"{name}: {search.runs} runs, {search.pruned} left out, {search.decisions} requests")  # noqa: T201 - the counts are what it is for
    assert search.problems == []
    assert search.is_complete
