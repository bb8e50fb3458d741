"""Schedules of the commit package on the model: random and by priorities with faults, all of small cases, planted bugs.

A failure prints the shortest schedule that was found, as text and as a `Schedule` for a regression test in
`test_found.py`. One seed: `PYTHONPATH=tests python -m schedules.soak model --seed 123`.
"""

from collections.abc import Callable, Iterator

import pytest

from schedules.exhaustive import GuidedStrategy, Search, search_all, search_with_one_fault
from schedules.explore import Model, draw_strategy, list_threads, model
from schedules.planted import BUGS, plant
from schedules.scenarios import CASES, Scenario
from schedules.scheduler import Fault
from schedules.strategies import Schedule

CHUNKS, SCHEDULES = 20, 500
PLANTED_LIMIT = 1_500
"""Schedules until a planted bug must be found; the README says how many each took."""
EXHAUSTED = {
    "two-writers-and-a-recovery": 35,
    "two-merges": 26,
    "a-schema-apply-and-a-writer": 34,
}
"""Cases without a fault that are searched completely, and their runs."""
ONE_FAULT = (Fault.CRASH_BEFORE, Fault.LOST_RESPONSE, Fault.ERROR)


@pytest.fixture(scope="module")
def room() -> Iterator[Model]:
    with model() as opened:
        yield opened


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_schedules_of_the_model(room: Model, chunk: int) -> None:
    for seed in range(chunk * SCHEDULES, (chunk + 1) * SCHEDULES):
        assert room.try_seed(seed) is None


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(room: Model, name: str, record_property: Callable[[str, object], None]) -> None:
    bug = BUGS[name]
    outlines = {case: room.measure(CASES[case]) for case in bug.cases}
    with plant(bug):
        for seed in range(PLANTED_LIMIT):
            case = bug.cases[seed % len(bug.cases)]
            result = room.play(CASES[case], draw_strategy(seed, outlines[case]))
            if result.problems:
                record_property("schedules", seed + 1)
                return
    pytest.fail(f"{bug.rule} {PLANTED_LIMIT} schedules found nothing")


def explore_all(room: Model, case: Scenario, limit: int) -> Search:
    def play(strategy: GuidedStrategy) -> tuple[list[str], Schedule]:
        result = room.play(case, strategy)
        return result.problems, result.schedule

    return search_all(play, (), limit)


@pytest.mark.parametrize("name", EXHAUSTED)
def test_every_order_of_a_small_case(room: Model, name: str) -> None:
    search = explore_all(room, CASES[name], 1_000)

    assert search.problems == []
    assert search.is_complete
    assert search.runs + search.pruned >= EXHAUSTED[name] // 2


@pytest.mark.parametrize("name", ["requirements-are-not-checked", "a-swap-without-comparison"])
def test_every_order_includes_that_of_a_planted_bug(room: Model, name: str) -> None:
    with plant(BUGS[name]):
        search = explore_all(room, CASES["two-writers-and-a-recovery"], 1_000)

    assert search.problems


@pytest.mark.soak
@pytest.mark.parametrize(
    "name", [*EXHAUSTED, "a-writer-a-cleanup-and-a-reader", "a-group-and-a-crash", "an-armed-load-alone"]
)
def test_every_order_with_one_fault(room: Model, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    case = CASES[name]

    def play(strategy: GuidedStrategy) -> tuple[list[str], Schedule]:
        result = room.play(case, strategy)
        return result.problems, result.schedule

    search = search_with_one_fault(play, list(list_threads(case)), ONE_FAULT, 200_000)

    with capsys.disabled():
        print(  # noqa: T201 - the counts are what it is for
            f"{name}: {search.runs} runs, {search.pruned} pruned, {search.faults} faults, complete={search.is_complete}"
        )
    assert search.problems == []
