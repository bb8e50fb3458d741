"""Schedules of the commit package on the model: random and by priorities with faults, all of small cases, planted bugs.

A failure prints the shortest schedule that was found, as text and as a `Schedule` for a regression test in
`test_found.py`. One seed: `PYTHONPATH=tests python -m schedules.soak model --seed 123`.
"""

from collections.abc import Callable, Iterator, Sequence

import pytest

from schedules.exhaustive import GuidedStrategy, Search, search_with_one_fault
from schedules.explore import Model, draw_strategy, list_threads, model
from schedules.oracles import ORACLES, find_oracle
from schedules.planted import BUGS, ONLY, plant
from schedules.scenarios import CASES, Scenario
from schedules.scheduler import Fault
from schedules.strategies import Schedule

CHUNKS, SCHEDULES = 20, 500
PLANTED_LIMIT = 1_500
"""Schedules until a planted bug must be found; the README says how many each took."""
EXHAUSTED = {
    "two-writers-and-a-recovery": 10,
    "a-small-write-and-a-cleanup": 389,
    "two-merges": 22,
    "a-schema-apply-and-a-writer": 14,
    "a-group-and-a-recovery": 8,
}
"""Cases of which every order is run, and how many differ if nothing fails."""
ONE_FAULT = (Fault.CRASH_BEFORE, Fault.LOST_RESPONSE, Fault.ERROR, Fault.STALL)


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


@pytest.mark.parametrize("oracle", ORACLES)
def test_an_oracle_finds_what_no_other_does(room: Model, oracle: str) -> None:
    name, case = ONLY[oracle]
    found: set[frozenset[str]] = set()
    outline = room.measure(CASES[case])
    with plant(BUGS[name]):
        for seed in range(PLANTED_LIMIT):
            result = room.play(CASES[case], draw_strategy(seed, outline))
            found.add(frozenset(find_oracle(problem) for problem in result.problems))
            if {oracle} in found:
                return
    pytest.fail(f"{name} was found only together with others: {found}")


def explore_all(room: Model, case: Scenario, kinds: Sequence[Fault], limit: int = 100_000) -> Search:
    def play(strategy: GuidedStrategy) -> tuple[list[str], Schedule]:
        result = room.play(case, strategy)
        return result.problems, result.schedule

    return search_with_one_fault(play, list(list_threads(case)), kinds, limit)


@pytest.mark.parametrize("name", EXHAUSTED)
def test_every_order_of_a_small_case(room: Model, name: str) -> None:
    search = explore_all(room, CASES[name], ())

    assert search.problems == []
    assert search.is_complete
    assert search.runs >= EXHAUSTED[name] // 2


def test_every_order_of_a_group_with_every_crash(room: Model) -> None:
    search = explore_all(room, CASES["a-group-and-a-recovery"], [Fault.CRASH_BEFORE])

    assert search.problems == []
    assert search.is_complete
    assert search.faults > 20


@pytest.mark.parametrize("name", ["requirements-are-not-checked", "a-swap-without-comparison"])
def test_every_order_includes_that_of_a_planted_bug(room: Model, name: str) -> None:
    with plant(BUGS[name]):
        search = explore_all(room, CASES["two-writers-and-a-recovery"], (), 1_000)

    assert search.problems


@pytest.mark.soak
@pytest.mark.parametrize("kind", ONE_FAULT)
@pytest.mark.parametrize("name", EXHAUSTED)
def test_every_order_with_one_fault(room: Model, name: str, kind: Fault, capsys: pytest.CaptureFixture[str]) -> None:
    search = explore_all(room, CASES[name], [kind])

    with capsys.disabled():
        print(  # noqa: T201 - the counts are what it is for
            f"{name}, {kind.name}: {search.runs} runs, {search.pruned} pruned, {search.faults} faults"
        )
    assert search.problems == []
    assert search.is_complete
