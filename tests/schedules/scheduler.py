"""Run threads of simulated processes, of which exactly one goes on at a time, chosen by a strategy.

A thread hands over before every step that another thread could notice: a request, a lock, a wait, a fault point, a look
at the clock. Between two steps nothing else runs, so a run is a function of the strategy's choices. Time is virtual: it
moves by a tick with each step, and to the next timer when all threads wait.

The threads are greenlets of one thread of the system, which switch in a microsecond: between threads of the system each
hand-over would wait for its turn on a busy machine.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import NamedTuple, Protocol

from greenlet import getcurrent, greenlet

from schedules.roles import describe

MAX_STEPS = 20_000
"""A run with more steps is taken for one that never ends."""
TICK = timedelta(microseconds=100)


class Killed(BaseException):
    """The simulated process was killed: nothing that it still does has an effect."""


class Fault(Enum):
    """What may happen at a step, beside the step."""

    CRASH_BEFORE = "is killed before"
    CRASH_AFTER = "is killed after"
    ERROR = "fails without an effect:"
    LOST_RESPONSE = "gets no response after"
    LATE = "gets no response, and only later happens:"
    OUTAGE = "reaches the store no more from"
    STALL = "is stopped for a long time before"
    PAUSE = "and all others are stopped for a long time before"


class StepError(Exception):
    """An injected failure of a request; each store translates it into what its real errors look like."""


class Step(NamedTuple):
    """What a thread is about to do: on what, whether it changes it, and whether a store may fail to do it."""

    verb: str
    resource: str = ""
    writes: bool = False
    is_request: bool = False
    is_on_key: bool = False
    """Whether the resource is a key of the store, and what it is belongs to the description."""

    @property
    def label(self) -> str:
        """The description."""
        return f"{self.verb} {describe(self.resource)}" if self.is_on_key else self.verb


START = Step("start")


@dataclass(eq=False)
class Process:
    """A simulated process: threads that share locks, caches and death."""

    name: str
    is_dead: bool = False
    stalled_until: datetime | None = None
    requests: int = 0
    outage: int = 0
    """The number of its next requests that fail."""
    faults: int = 0
    states: dict[object, object] = field(default_factory=dict)
    """What its threads share."""


@dataclass(eq=False)
class Task:
    """A thread of a simulated process."""

    name: str
    process: Process
    target: Callable[[], object]
    is_daemon: bool = False
    steps: int = 0
    step: Step = START
    is_done: bool = False
    may_go: Callable[[], bool] | None = None
    """What it waits for; None if nothing."""
    wakes_at: datetime | None = None
    """When it goes on in any case."""
    error: BaseException | None = None
    thread: "_Thread | None" = None


class _Thread(greenlet):  # type: ignore[misc]  # it has no types
    """What runs a task."""

    task: Task | None = None


class Event(NamedTuple):
    """A step that was taken: by whom, as its how many-th, and what happened beside it."""

    task: str
    number: int
    step: Step
    at: timedelta
    fault: Fault | None = None


class Strategy(Protocol):
    """The choices of a run."""

    def choose(self, last: Task | None, ready: list[Task], sleeping: list[Task]) -> Task | None:
        """Return the thread that goes on: one of `ready`, or of `sleeping`, whose time then comes at once.

        `last` ran until now. It is not in `ready` if it waits or has ended. None ends the run.
        """
        ...

    def inject(self, task: Task) -> Fault | None:
        """Return what happens at the step of this thread, if anything."""
        ...


class Scheduler:
    """One run."""

    def __init__(self, strategy: Strategy, start: datetime | None = None) -> None:
        self.now = start or datetime.now(UTC)
        self.began = self.now
        self.tasks: list[Task] = []
        self.trace: list[Event] = []
        self.switches: list[tuple[str, int, str]] = []
        """Where the thread that runs was not simply the one before: (who stopped, before its step, who went on)."""
        self.wedge: str | None = None
        self.is_cut_short = False
        self.on_jump: Callable[[], None] = lambda: None
        """Called before the time moves by more than a tick."""
        self._strategy = strategy
        self._home = getcurrent()
        self._following: Task | None = None
        self._is_closing = False

    # --- threads -----------------------------------------------------------------------------------

    def spawn(self, process: Process, name: str, target: Callable[[], object], *, is_daemon: bool = False) -> Task:
        """Add a thread, which begins when it is chosen for the first time."""
        names = {task.name for task in self.tasks}
        number = 2
        unique = name
        while unique in names:
            unique, number = f"{name}-{number}", number + 1
        task = Task(unique, process, target, is_daemon)
        self.tasks.append(task)
        return task

    def get_task(self) -> Task | None:
        """Return the simulated thread that calls; None for any other thread."""
        # A thread of the system that a simulated one has started is another greenlet.
        task: Task | None = getattr(getcurrent(), "task", None)
        return task

    def run(self) -> None:
        """Run until every thread that is no daemon has ended, then end the rest."""
        self._home = getcurrent()
        self._following = self._pick(None)
        while self._following is not None:
            self._switch(self._following)
        self._is_closing = True
        for task in self.tasks:
            task.process.is_dead = True
        for task in self.tasks:
            while task.thread is not None and not task.is_done:
                task.thread.switch()

    def _switch(self, task: Task) -> None:
        """Let a thread run, until another one switches back here."""
        if task.thread is None:
            task.thread = _Thread(self._live, self._home)
            task.thread.task = task
            task.thread.switch(task)
        else:
            task.thread.switch()

    def _live(self, task: Task) -> None:
        try:
            if not task.process.is_dead:
                task.target()
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001 - the caller of the run judges it
            task.error = error
        task.is_done = True
        # `run` goes on, and switches to the next thread.
        self._following = None if self._is_closing else self._pick(task)

    # --- steps -------------------------------------------------------------------------------------

    def reach(self, step: Step) -> Fault | None:
        """Hand over before a step; return what is to happen after it, if anything.

        Raises:
            Killed: The process is dead.
            StepError: The request fails.
        """
        task = self.get_task()
        if task is None:
            return None
        task.step = step
        self._hand_over(task)
        task.steps += 1
        if len(self.trace) >= MAX_STEPS:
            self.wedge = f"it did not end within {MAX_STEPS} steps"
            self._end_all()
            raise Killed
        self.now += TICK
        process = task.process
        if step.is_request:
            process.requests += 1
            if process.outage:
                process.outage -= 1
                raise StepError(f"{step.label}: no answer")
        fault = self._strategy.inject(task)
        self.trace.append(Event(task.name, task.steps, step, self.now - self.began, fault))
        if fault is None:
            return None
        process.faults += 1
        if fault is Fault.CRASH_BEFORE:
            process.is_dead = True
            raise Killed
        if fault is Fault.ERROR:
            raise StepError(step.label)
        if fault is Fault.OUTAGE:
            process.outage = OUTAGE
        if fault in {Fault.STALL, Fault.PAUSE}:
            if fault is Fault.STALL:
                process.stalled_until = self.now + STALL
            else:
                self._jump(self.now + STALL)
            self._hand_over(task)
            return None
        return fault

    def finish(self, fault: Fault | None) -> None:
        """Let happen after a step what `reach` has returned.

        Raises:
            Killed: The process is dead.
            StepError: The request seems to have failed.
        """
        if fault is None:
            return
        task = self.get_task()
        assert task is not None
        if fault is Fault.CRASH_AFTER:
            task.process.is_dead = True
            raise Killed
        raise StepError(f"no response to {task.step.label}")

    def wait(self, step: Step, may_go: Callable[[], bool], seconds: float | None = None) -> bool:
        """Wait until a condition holds or a time has passed; return whether it holds."""
        task = self.get_task()
        if task is None or task.process.is_dead:
            if task is not None and not may_go():
                raise Killed
            return may_go()
        task.may_go = may_go
        task.wakes_at = None if seconds is None else self.now + timedelta(seconds=seconds)
        try:
            self.reach(step)
        finally:
            task.may_go = task.wakes_at = None
        return may_go()

    def _hand_over(self, task: Task) -> None:
        if task.process.is_dead:
            raise Killed
        following = self._pick(task)
        if following is None:
            self._following = None
            self._home.switch()
        elif following is not task:
            self._switch(following)
        if task.process.is_dead:
            raise Killed

    def _end_all(self) -> None:
        for task in self.tasks:
            task.process.is_dead = True

    # --- choice ------------------------------------------------------------------------------------

    def _pick(self, last: Task | None) -> Task | None:
        """Return the next thread; None if the run is over."""
        while True:
            ready: list[Task] = []
            sleeping: list[Task] = []
            is_over = True
            for task in self.tasks:
                if task.is_done or task.process.is_dead:
                    continue
                is_over = is_over and task.is_daemon
                stalled = task.process.stalled_until
                if stalled is not None and stalled > self.now:
                    sleeping.append(task)
                elif task.may_go is None or task.may_go() or (task.wakes_at is not None and task.wakes_at <= self.now):
                    ready.append(task)
                elif task.wakes_at is not None:
                    sleeping.append(task)
            if is_over:
                # Threads of dead processes are ended by `run`.
                return None
            # A daemon's timer alone, such as a heartbeat's, does not keep a run going for ever; but it may let
            # another thread go on.
            if ready:
                chosen = self._strategy.choose(last, ready, sleeping)
                if chosen is None:
                    self.is_cut_short = True
                    self._end_all()
                    return None
                if chosen not in ready:
                    self._jump(_find_wake(chosen))
                if chosen is not last:
                    self.switches.append(("", 0, chosen.name) if last is None else (last.name, last.steps, chosen.name))
                return chosen
            times = [_find_wake(task) for task in sleeping]
            if not times or min(times) > self.began + LONGEST:
                stuck = [task for task in self.tasks if not (task.is_done or task.is_daemon or task.process.is_dead)]
                self.wedge = "; ".join(f"{task.name} waits for ever at {task.step.label}" for task in stuck)
                self._end_all()
                return None
            self._jump(min(times))

    def _jump(self, to: datetime) -> None:
        if to > self.now:
            self.on_jump()
            self.now = to


def _find_wake(task: Task) -> datetime:
    """Return when a sleeping thread, or one of a stopped process, may go on."""
    stalled = task.process.stalled_until
    if task.wakes_at is None:
        assert stalled is not None
        return stalled
    return task.wakes_at if stalled is None else max(task.wakes_at, stalled)


OUTAGE = 2
"""The number of requests that fail in an outage: another try of a swap, and the look at who has won it."""
STALL = timedelta(seconds=200)
"""Longer than a lease, and than what a manifest's versions are kept for."""
LONGEST = timedelta(hours=4)
"""A run that still waits after this time waits for ever."""
