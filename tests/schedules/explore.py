"""Run scenarios on the model by seeds, repeat a run, shorten one that fails, and print it."""

import gc
import logging
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol, TypeVar

from schedules.history import History
from schedules.model_actors import BEGIN, TASK, Actor, CreateBranch, Run, Wait, build_room
from schedules.model_room import Room, modelled
from schedules.oracles import judge
from schedules.scenarios import ARMED, Scenario, branch_writer, choose_scenario
from schedules.scheduler import Event, Fault, Scheduler, Strategy
from schedules.simulation import SimulatedBackend, simulated
from schedules.strategies import (
    FaultPlan,
    PlannedFault,
    PriorityStrategy,
    RandomStrategy,
    ReplayStrategy,
    Schedule,
)

FAULTS = (
    Fault.CRASH_BEFORE,
    Fault.CRASH_BEFORE,
    Fault.CRASH_AFTER,
    Fault.ERROR,
    Fault.LOST_RESPONSE,
    Fault.LATE,
    Fault.OUTAGE,
    Fault.STALL,
    Fault.STALL,
    Fault.STALL,
)


@dataclass(frozen=True)
class Result:
    """What became of a run."""

    problems: list[str]
    schedule: Schedule
    trace: list[Event]
    steps: int

    def describe(self) -> str:
        """Return the schedule as text: who ran, up to which step, and what failed."""
        return "\n".join([*_format_trace(self.trace), *(f"=> {problem}" for problem in self.problems)])

    def explain(self, seed: int, case: object) -> str:
        """Return the report of a seed that fails."""
        return f"seed {seed}, {case}:\n{self.describe()}\n{self.schedule}"


A_co = TypeVar("A_co", covariant=True)
Outline = Sequence[tuple[str, int, bool]]
"""The steps of an undisturbed run: the thread, the number of its step, and whether it writes."""
DEATH = PlannedFault("dead", 40, Fault.CRASH_BEFORE)
"""How a writer dies that has written its files."""
Play = Callable[[Strategy], Result]


@dataclass
class Model:
    """The model, as a place where scenarios are run."""

    room: Room

    _outlines: dict[Actor, Outline] = field(default_factory=dict)

    def measure(self, scenario: Scenario) -> Outline:
        """Return the steps that each thread of a scenario takes if it is alone."""
        return [
            (name if task == "a" else task, number, writes)
            for name, actor in list_threads(scenario).items()
            for task, number, writes in self._measure_actor(actor)
        ]

    def try_seed(self, seed: int) -> str | None:
        """Return what is wrong after the run of a seed, with the shortest schedule that was found; None if nothing."""
        case = choose_scenario(seed)
        result = self.play(case, draw_strategy(seed, self.measure(case)))
        if not result.problems:
            return None
        return shrink(partial(self.play, case), result).explain(seed, case)

    def _measure_actor(self, actor: Actor) -> Outline:
        """Return the steps of an actor `a`, and of its tasks: on a new graph, with a branch, or with a dead writer."""
        if actor not in self._outlines:
            alone = self._play_alone({"a": (actor,)})
            beside = self._play_alone({"x": (CreateBranch("x", branch_writer("x")),), "a": (Wait(5, actor),)})
            after = self._play_alone({"dead": (ARMED,), "a": (Wait(61, actor),)}, DEATH)
            self._outlines[actor] = max(alone, beside, after, key=len)
        return self._outlines[actor]

    def _play_alone(self, processes: Mapping[str, tuple[Actor, ...]], *faults: PlannedFault) -> Outline:
        scheduler = Scheduler(ReplayStrategy(Schedule((), faults)), BEGIN)
        with simulated(SimulatedBackend(scheduler)):
            Scenario("alone", processes).start(Run(scheduler, self.room.copy(), History(scheduler)))
            scheduler.run()
        return [
            (event.task, event.number - 1, event.step.writes)
            for event in scheduler.trace
            if event.task == "a" or event.task.startswith(TASK)
        ]

    def play(self, scenario: Scenario, strategy: Strategy) -> Result:
        """Run a scenario once."""
        scheduler = Scheduler(strategy, BEGIN)
        run = Run(scheduler, self.room.copy(), History(scheduler))
        with simulated(SimulatedBackend(scheduler)):
            scenario.start(run)
            scheduler.run()
            problems = [] if scheduler.is_cut_short else judge(run)
        faults = tuple(
            PlannedFault(event.task, event.number, event.fault) for event in scheduler.trace if event.fault is not None
        )
        schedule = Schedule(tuple(scheduler.switches), faults)
        return Result(problems, schedule, scheduler.trace, len(scheduler.trace))


@contextmanager
def model() -> Iterator[Model]:
    """Open the model for runs."""
    logger = logging.getLogger("omnigraph")
    level = logger.level
    # What recoveries and heartbeats report is expected here.
    logger.setLevel(logging.CRITICAL)
    try:
        with modelled(), without_long_collections():
            yield Model(build_room())
    finally:
        logger.setLevel(level)


@contextmanager
def without_long_collections() -> Iterator[None]:
    """Let the garbage collector leave alone what is there now: a run makes much garbage, which all is young."""
    thresholds = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


def draw_strategy(seed: int, outline: Outline) -> Strategy:
    """Return the choices of a seed: random or by priorities, with up to two faults at steps of an undisturbed run."""
    choice = random.Random(f"strategy {seed}")
    writes = [step for step in outline if step[2]]
    faults = []
    for _ in range(choice.choice((0, 1, 1, 1, 2))):
        # Requests that write are a tenth of the steps; what goes wrong there matters more.
        thread, number, _ = choice.choice(writes if writes and choice.random() < 0.5 else outline)
        faults.append(PlannedFault(thread, number, choice.choice(FAULTS)))
    plan = FaultPlan(faults)
    if choice.random() < 0.5:
        return RandomStrategy(seed, plan)
    return PriorityStrategy(seed, plan, len(outline), choice.randint(2, 4))


class HasProcesses(Protocol[A_co]):
    """A scenario, of whatever actors."""

    @property
    def processes(self) -> Mapping[str, tuple[A_co, ...]]:
        """The actors of each process."""
        ...


def list_threads(scenario: HasProcesses[A_co]) -> Mapping[str, A_co]:
    """Return the threads with which a scenario begins, by their names."""
    return {
        name if not number else f"{name}{number + 1}": actor
        for name, actors in scenario.processes.items()
        for number, actor in enumerate(actors)
    }


def shrink(play: Play, result: Result, limit: int = 400) -> Result:
    """Return a failing run with as few switches and faults as can be left out of it one by one, or in blocks."""
    best = result
    tried = 0
    for part in ("faults", "switches"):
        size = max(len(getattr(best.schedule, part)) // 2, 1)
        while size and tried < limit:
            position, is_shorter = 0, False
            while position < len(getattr(best.schedule, part)) and tried < limit:
                items = getattr(best.schedule, part)
                fewer = replace(best.schedule, **{part: (*items[:position], *items[position + size :])})
                tried += 1
                again = play(ReplayStrategy(fewer))
                if again.problems and len(_list_all(again.schedule)) < len(_list_all(best.schedule)):
                    best, is_shorter = again, True
                else:
                    position += size
            if size == 1 and not is_shorter:
                break
            size = max(size // 2, 1)
    return best


def _list_all(schedule: Schedule) -> Sequence[object]:
    return (*schedule.switches, *schedule.faults)


def _format_trace(trace: Sequence[Event]) -> Iterator[str]:
    """Yield the runs of one thread at a time: the steps that others could notice."""
    last = ""
    for event in trace:
        is_quiet = event.step.label.startswith(("look at ", "take ", "give ", "set ", "reset ", "fault point"))
        if is_quiet and event.fault is None:
            continue
        name = event.task if event.task != last else ""
        last = event.task
        what = event.step.label if event.fault is None else f"*** {event.fault.value} {event.step.label}"
        yield f"{name:16} {event.number:4}  {what}"
