"""The scheduler itself: one thread at a time, virtual time, death, and the order that a strategy chooses."""

from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest

from schedules import preemptions
from schedules.exhaustive import GuidedStrategy, search_all
from schedules.explore import shrink
from schedules.preemptions import Played, Switches, Taken, WatchedStrategy, search_preemptions
from schedules.scheduler import Fault, Process, Scheduler, Step, Strategy
from schedules.simulation import InlineExecutor, SimulatedBackend, SimulatedClock
from schedules.strategies import (
    FaultPlan,
    PlannedFault,
    PriorityStrategy,
    RandomStrategy,
    ReplayStrategy,
    Schedule,
)

READ, WRITE = Step("read x", "x", is_request=True), Step("write x", "x", writes=True, is_request=True)


def count_up(scheduler: Scheduler, shared: dict[str, int]) -> Callable[[], None]:
    """Increment a number in two steps, as nobody should."""

    def live() -> None:
        scheduler.reach(READ)
        value = shared["x"]
        scheduler.reach(WRITE)
        shared["x"] = value + 1

    return live


def race(strategy: Strategy, threads: int = 2) -> tuple[int, Scheduler]:
    scheduler = Scheduler(strategy)
    shared = {"x": 0}
    for number in range(threads):
        name = "ab"[number] if number < 2 else f"c{number}"
        scheduler.spawn(Process(name), name, count_up(scheduler, shared))
    scheduler.run()
    return shared["x"], scheduler


def test_a_seed_names_a_run() -> None:
    runs = [race(RandomStrategy(seed, FaultPlan(()))) for seed in (7, 7)]

    assert runs[0][1].trace == runs[1][1].trace
    assert len({race(RandomStrategy(seed, FaultPlan(())))[0] for seed in range(20)}) == 2


def test_a_recorded_run_is_repeated() -> None:
    value, first = next(run for seed in range(50) if (run := race(RandomStrategy(seed, FaultPlan(()))))[0] == 1)
    again, second = race(ReplayStrategy(Schedule(tuple(first.switches))))

    assert (again, second.trace) == (value, first.trace)


def test_priorities_find_a_bug_of_depth_two_as_often_as_they_promise() -> None:
    # n threads and k steps: at least 1 / (n * k). Each thread has two steps and its start.
    runs = 400
    found = sum(race(PriorityStrategy(seed, FaultPlan(()), 6, 2))[0] == 1 for seed in range(runs))

    assert found >= runs / (2 * 6)


def play_race(strategy: GuidedStrategy) -> tuple[list[str], Schedule]:
    value, scheduler = race(strategy, 3)
    problems = [] if value == 3 or scheduler.is_cut_short else [f"lost: {value}"]
    return problems, Schedule(tuple(scheduler.switches))


def test_all_orders_of_dependent_steps_are_tried_once() -> None:
    search = search_all(play_race)

    # The steps of three threads with two dependent steps each can come in 90 orders; 6 of them lose nothing. Reads of
    # different threads are independent, so fewer runs tell all outcomes.
    assert search.is_complete
    assert 6 < search.runs <= 90
    outcomes = Counter(problem for _, problems in search.problems for problem in problems)
    assert set(outcomes) == {"lost: 1", "lost: 2"}
    assert search.runs - len(search.problems) >= 6


def play_with_switches(switches: Switches) -> Played:
    """Let three threads race that also write something of their own."""
    strategy = WatchedStrategy(Schedule(switches))
    scheduler = Scheduler(strategy)
    shared = {"x": 0}

    def live(name: str) -> None:
        scheduler.reach(Step("write own", name, writes=True, is_request=True))
        count_up(scheduler, shared)()
        scheduler.reach(Step("write own", name, writes=True, is_request=True))

    for name in "abc":
        scheduler.spawn(Process(name), name, partial(live, name))
    scheduler.run()
    steps = []
    for event in scheduler.trace:
        reads = frozenset({event.step.resource})
        writes = reads if event.step.writes else frozenset()
        steps.append(Taken(event.task, event.number, event.at, reads, writes, event.step.is_request))
    value = shared["x"]
    return Played([] if value == 3 else [f"lost: {value}"], steps, strategy.others, strategy.free)


def find_outcomes(bound: int) -> tuple[set[str], int]:
    """Return what a search finds, and how many runs it takes."""
    search = search_preemptions(play_with_switches, bound, 10_000)
    assert search.is_complete
    return {problem for _, problems in search.problems for problem in problems}, search.runs


def test_few_preemptions_find_a_race() -> None:
    assert find_outcomes(0) == (set(), 6)
    # One that has read stands still while both others come and go.
    assert find_outcomes(1)[0] == {"lost: 1", "lost: 2"}


@pytest.mark.parametrize("bound", [1, 2])
def test_schedules_that_are_left_out_tell_nothing_new(bound: int, monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes, runs = find_outcomes(bound)
    monkeypatch.setattr(preemptions._PreemptionSearch, "_find_equivalent", lambda *_: None)

    all_outcomes, all_runs = find_outcomes(bound)

    assert outcomes == all_outcomes
    assert runs < all_runs


def test_a_failing_run_is_shortened() -> None:
    from schedules.explore import Result

    def play(strategy: Strategy) -> Result:
        value, scheduler = race(strategy, 5)
        problems = [] if value == 5 else [f"lost: {value}"]
        return Result(problems, Schedule(tuple(scheduler.switches)), scheduler.trace, len(scheduler.trace))

    long = next(
        result
        for seed in range(50)
        if len((result := play(RandomStrategy(seed, FaultPlan(())))).schedule.switches) > 9 and result.problems
    )
    short = shrink(play, long)

    assert short.problems
    assert len(short.schedule.switches) < len(long.schedule.switches)
    assert "=> lost" in short.describe()


def test_threads_that_wait_for_each_other_are_a_wedge() -> None:
    scheduler = Scheduler(RandomStrategy(3, FaultPlan(())))
    backend = SimulatedBackend(scheduler)
    locks = [backend.create_lock(), backend.create_lock()]

    def take(first: int) -> Callable[[], None]:
        def live() -> None:
            with locks[first]:
                scheduler.reach(READ)
                with locks[1 - first]:
                    scheduler.reach(WRITE)

        return live

    wedges = []
    for seed in range(30):
        scheduler = Scheduler(RandomStrategy(seed, FaultPlan(())))
        backend = SimulatedBackend(scheduler)
        locks = [backend.create_lock(), backend.create_lock()]
        for number, name in enumerate("ab"):
            scheduler.spawn(Process(name), name, take(number))
        scheduler.run()
        wedges.append(scheduler.wedge)

    assert any(wedge is not None and "a waits for ever" in wedge for wedge in wedges)
    assert None in wedges


def test_time_moves_to_the_next_timer_when_all_wait() -> None:
    scheduler = Scheduler(RandomStrategy(1, FaultPlan(())))
    clock = SimulatedClock(scheduler)
    seen = []

    def sleep(seconds: float) -> Callable[[], None]:
        def live() -> None:
            clock.sleep(seconds)
            seen.append(round(clock.monotonic() - 1_000))

        return live

    for seconds in (3600.0, 5.0, 60.0):
        scheduler.spawn(Process(f"{seconds}"), f"{seconds}", sleep(seconds))
    scheduler.run()

    assert sorted(seen) == [5, 60, 3600]


@pytest.mark.parametrize(
    "fault, value", [(Fault.CRASH_BEFORE, 0), (Fault.CRASH_AFTER, 1), (Fault.ERROR, 0), (Fault.LOST_RESPONSE, 1)]
)
def test_what_is_killed_reaches_nothing_any_more(fault: Fault, value: int) -> None:
    strategy = ReplayStrategy(Schedule((), (PlannedFault("a", 1, fault),)))
    scheduler = Scheduler(strategy)
    done = []

    def live() -> None:
        try:
            after = scheduler.reach(WRITE)
            done.append("written")
            scheduler.finish(after)
        finally:
            # As a clean-up does.
            scheduler.reach(Step("clean up", "y", writes=True, is_request=True))
            done.append("cleaned up")

    scheduler.spawn(Process("a"), "a", live)
    scheduler.run()

    is_dead = fault in {Fault.CRASH_BEFORE, Fault.CRASH_AFTER}
    assert done.count("written") == value
    assert ("cleaned up" in done) is not is_dead


def test_a_process_shares_its_death_with_its_threads() -> None:
    strategy = ReplayStrategy(Schedule((), (PlannedFault("a", 1, Fault.CRASH_BEFORE),)))
    scheduler = Scheduler(strategy)
    both, other = Process("p"), Process("q")
    done: list[str] = []

    def work(name: str) -> Callable[[], None]:
        def live() -> None:
            for _ in range(3):
                scheduler.reach(WRITE)
            done.append(name)

        return live

    for name, process in (("a", both), ("a2", both), ("b", other)):
        scheduler.spawn(process, name, work(name))
    scheduler.run()

    assert done == ["b"]


def test_a_pool_runs_its_tasks_at_once() -> None:
    def fail() -> None:
        raise ValueError

    with InlineExecutor() as pool:
        assert list(pool.map(abs, [-1, 2])) == [1, 2]
        assert isinstance(pool.submit(fail).exception(), ValueError)
