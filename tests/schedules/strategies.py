"""Choices of a run: random, by priorities (PCT), or those of a recorded run."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from schedules.scheduler import Fault, Task

Choice = tuple[str, int, str]
"""Who stops, before which of its steps it would be the next, and who goes on."""


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """A fault at the n-th step of a thread."""

    task: str
    number: int
    fault: Fault


@dataclass(frozen=True, slots=True)
class Schedule:
    """The choices that differ from letting the running thread go on, and the faults: enough to repeat a run."""

    switches: tuple[Choice, ...] = ()
    faults: tuple[PlannedFault, ...] = ()


def is_possible(fault: Fault, task: Task) -> bool:
    """Return whether a fault can happen at the step of a thread."""
    if fault is Fault.OUTAGE:
        return task.step.is_request
    if fault is Fault.LATE:
        return task.step.is_request and task.step.writes
    if fault in {Fault.ERROR, Fault.LOST_RESPONSE}:
        return task.step.is_request
    return True


class FaultPlan:
    """Faults at chosen steps of threads; the first possible step from the chosen one on."""

    def __init__(self, faults: Sequence[PlannedFault], may_fail: Callable[[Task], bool] = lambda _: True) -> None:
        self._waiting = list(faults)
        self._may_fail = may_fail
        self.injected: list[PlannedFault] = []

    def inject(self, task: Task) -> Fault | None:
        """Return the fault of the step that a thread takes now."""
        for planned in self._waiting:
            if planned.task == task.name and planned.number <= task.steps and is_possible(planned.fault, task):
                if not self._may_fail(task):
                    return None
                self._waiting.remove(planned)
                self.injected.append(PlannedFault(task.name, task.steps, planned.fault))
                return planned.fault
        return None


class RandomStrategy:
    """Switch with a probability that is drawn once for each run: some runs have few switches, some many."""

    def __init__(self, seed: int, plan: FaultPlan) -> None:
        self._random = random.Random(seed)
        self._plan = plan
        self._probability = self._random.choice((0.02, 0.05, 0.1, 0.25, 0.5))

    def choose(self, last: Task | None, ready: list[Task], sleeping: list[Task]) -> Task:
        """See Strategy."""
        if last is not None and last in ready and self._random.random() >= self._probability:
            return last
        # A timer that fires while others could go on: these are slow. Rarely, or heartbeats alone would run.
        if sleeping and self._random.random() < 0.1:
            return self._random.choice(sleeping)
        return self._random.choice(ready)

    def inject(self, task: Task) -> Fault | None:
        """See Strategy."""
        return self._plan.inject(task)


class PriorityStrategy:
    """Probabilistic concurrency testing: the ready thread of the highest priority runs.

    Priorities are random, and `depth - 1` times, at random steps, the running thread gets the lowest one. Any bug that
    needs `depth` ordering constraints is found by a run with a probability of at least 1 / (n * k^(depth - 1)) for n
    threads and k steps (Burckhardt et al., 2010).
    """

    def __init__(self, seed: int, plan: FaultPlan, steps: int, depth: int) -> None:
        self._random = random.Random(seed)
        self._plan = plan
        self._changes = {self._random.randrange(steps) for _ in range(depth - 1)}
        self._priorities: dict[str, float] = {}
        self._taken = 0
        self._lowest = 0.0

    def choose(self, last: Task | None, ready: list[Task], sleeping: list[Task]) -> Task:
        """See Strategy."""
        del sleeping
        for task in ready:
            if task.name not in self._priorities:
                self._priorities[task.name] = 1 + self._random.random()
        if self._taken in self._changes and last is not None and last.name in self._priorities:
            self._lowest -= 1
            self._priorities[last.name] = self._lowest
        self._taken += 1
        return max(ready, key=lambda task: self._priorities[task.name])

    def inject(self, task: Task) -> Fault | None:
        """See Strategy."""
        return self._plan.inject(task)


class ReplayStrategy:
    """Repeat recorded choices; where they no longer fit, let the running thread go on."""

    def __init__(self, schedule: Schedule) -> None:
        self._targets: dict[tuple[str, int], list[str]] = {}
        for stopped, number, target in schedule.switches:
            self._targets.setdefault((stopped, number), []).append(target)
        self._plan = FaultPlan(schedule.faults)

    def choose(self, last: Task | None, ready: list[Task], sleeping: list[Task]) -> Task:
        """See Strategy."""
        key = ("", 0) if last is None else (last.name, last.steps)
        default = last if last is not None and last in ready else ready[0]
        return self._find(key, ready, sleeping) or default

    def _find(self, key: tuple[str, int], ready: list[Task], sleeping: list[Task]) -> Task | None:
        for target in self._targets.get(key, ()):
            task = next((task for task in (*ready, *sleeping) if task.name == target), None)
            if task is not None:
                self._targets[key].remove(target)
                return task
        return None

    def inject(self, task: Task) -> Fault | None:
        """See Strategy."""
        return self._plan.inject(task)
