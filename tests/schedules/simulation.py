"""The parts of a process that the engine gets from outside, under a scheduler: clock, ids, faults, locks, threads."""

import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from types import TracebackType
from typing import Any

from omnigraph import concurrency
from omnigraph.concurrency import Lock, Mutex, Thread
from omnigraph.ids import format_ulid, format_ulids
from omnigraph.options import Options
from omnigraph.runtime import Runtime
from schedules.scheduler import Killed, Process, Scheduler, Step, Task

CLOCK = Step("look at the clock")


class SimulatedClock:
    """The virtual clock, which is the same for all processes."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def now(self) -> datetime:
        """See Clock."""
        self._scheduler.reach(CLOCK)
        return self._scheduler.now

    def monotonic(self) -> float:
        """See Clock."""
        self._scheduler.reach(CLOCK)
        return (self._scheduler.now - self._scheduler.began).total_seconds() + 1_000.0

    def sleep(self, seconds: float) -> None:
        """See Clock."""
        self._scheduler.wait(Step(f"sleep {seconds:g} s"), lambda: False, seconds)


class SimulatedIds:
    """Ids that depend on the process and on nothing else."""

    def __init__(self, scheduler: Scheduler, number: int) -> None:
        self._random = random.Random(number)
        # ULIDs are sorted by time, and those of two processes in one millisecond by the rest.
        self._next = int(scheduler.began.timestamp() * 1000) << 80 | number << 64

    def ulid(self) -> str:
        """See Ids."""
        self._next += 1
        return format_ulid(self._next)

    def ulids(self, count: int) -> bytes:
        """See Ids."""
        first = self._next + 1
        self._next += count
        return format_ulids(first, count) if count else b""

    def jitter(self, limit: float) -> float:
        """See Ids."""
        return self._random.random() * limit


class SimulatedFaults:
    """Fault points, at each of which a process hands over and may be killed."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def reach(self, point: str) -> None:
        """See Faults."""
        self._scheduler.finish(self._scheduler.reach(Step(f"fault point {point}")))


class SimulatedLock:
    """A lock whose waiters the scheduler sees; also one that its holder may take again."""

    def __init__(self, scheduler: Scheduler, name: str, *, is_reentrant: bool) -> None:
        self._scheduler = scheduler
        self._take = Step(f"take {name}", name, writes=True)
        self._give = Step(f"give {name} back", name, writes=True)
        self._look = Step(f"look at {name}", name)
        self._is_reentrant = is_reentrant
        self._holder: Task | None = None
        self._depth = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """See Lock."""
        task = self._scheduler.get_task()
        if self._is_reentrant and self._depth and self._holder is task:
            self._depth += 1
            return True
        while True:
            if blocking:
                seconds = None if timeout < 0 else timeout
                if not self._scheduler.wait(self._take, lambda: not self._depth, seconds) and seconds is not None:
                    return False
            elif self._depth:
                return False
            if not self._depth:
                self._holder, self._depth = task, 1
                return True

    def release(self) -> None:
        """See Lock."""
        if self._depth == 1:
            self._scheduler.reach(self._give)
            self._holder = None
        self._depth -= 1

    def locked(self) -> bool:
        """See Mutex."""
        self._scheduler.reach(self._look)
        return bool(self._depth)

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.release()


class SimulatedEvent:
    """An event whose waiters the scheduler sees."""

    def __init__(self, scheduler: Scheduler, name: str) -> None:
        self._scheduler = scheduler
        self._name = name
        self._is_set = False

    def is_set(self) -> bool:
        """See Event."""
        self._scheduler.reach(Step(f"look at {self._name}", self._name))
        return self._is_set

    def set(self) -> None:
        """See Event."""
        self._scheduler.reach(Step(f"set {self._name}", self._name, writes=True))
        self._is_set = True

    def clear(self) -> None:
        """See Event."""
        self._scheduler.reach(Step(f"reset {self._name}", self._name, writes=True))
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        """See Event."""
        return self._scheduler.wait(Step(f"wait for {self._name}", self._name), lambda: self._is_set, timeout)


class SimulatedThread:
    """A thread of the process that creates it."""

    def __init__(self, scheduler: Scheduler, process: Process, target: Callable[[], object], name: str) -> None:
        self._scheduler = scheduler
        self._process = process
        self._target = target
        self._name = name
        self._task: Task | None = None

    def start(self) -> None:
        """See Thread."""
        # What runs beside the operations of a process ends with it.
        self._task = self._scheduler.spawn(self._process, self._name, self._target, is_daemon=True)

    def join(self, timeout: float | None = None) -> None:
        """See Thread."""
        self._scheduler.wait(Step(f"join {self._name}"), lambda: not self.is_alive(), timeout)

    def is_alive(self) -> bool:
        """See Thread."""
        return self._task is not None and not self._task.is_done


class TaskLostError(Exception):
    """A task of a distributed load was killed or has failed."""


def wait_for_tasks(scheduler: Scheduler, tasks: Sequence[Task]) -> None:
    """Wait until all tasks of a distributed load have ended, or were killed."""
    scheduler.wait(Step("wait for the tasks"), lambda: all(task.is_done or task.process.is_dead for task in tasks))


class InlineExecutor(Executor):
    """A pool that runs each task at once, in the thread that submits it."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """See Executor."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Killed:
            raise
        except BaseException as error:  # noqa: BLE001 - as a pool does
            future.set_exception(error)
        return future


class SimulatedBackend:
    """Where the engine gets locks, events, threads and pools from."""

    def __init__(
        self, scheduler: Scheduler, on_call: Callable[[str], AbstractContextManager[None]] | None = None
    ) -> None:
        self._scheduler = scheduler
        self._numbers: dict[str, int] = {}
        self._on_call = on_call
        self._states: dict[object, object] = {}

    def create_lock(self) -> Mutex:
        """See Backend."""
        return SimulatedLock(self._scheduler, self._name("lock"), is_reentrant=False)

    def create_rlock(self) -> Lock:
        """See Backend."""
        return SimulatedLock(self._scheduler, self._name("rlock"), is_reentrant=True)

    def create_event(self) -> SimulatedEvent:
        """See Backend."""
        return SimulatedEvent(self._scheduler, self._name("event"))

    def create_thread(self, target: Callable[[], object], name: str, *, daemon: bool) -> Thread:
        """See Backend."""
        del daemon
        task = self._scheduler.get_task()
        assert task is not None
        # A lease's thread is called after an operation, whose id is random on a real store.
        role = f"{task.process.name}:{name.partition('-')[0]}"
        return SimulatedThread(self._scheduler, task.process, target, role)

    def create_pool(self, threads: int, name: str) -> Executor:
        """See Backend."""
        del threads, name
        return InlineExecutor()

    def get_thread_id(self) -> int:
        """See Backend."""
        return id(self._scheduler.get_task())

    def get_states(self) -> dict[object, object]:
        """See Backend."""
        task = self._scheduler.get_task()
        return self._states if task is None else task.process.states

    def announce_call(self, target: str) -> AbstractContextManager[None]:
        """See Backend."""
        if self._on_call is None or self._scheduler.get_task() is None:
            return nullcontext()
        return self._on_call(target)

    def _name(self, kind: str) -> str:
        task = self._scheduler.get_task()
        owner = "setup" if task is None else task.process.name
        number = self._numbers[owner] = self._numbers.get(owner, 0) + 1
        return f"{kind} {owner}.{number}"


@contextmanager
def simulated(backend: SimulatedBackend) -> Iterator[None]:
    """Let the engine get its locks and threads from a backend inside the block."""
    concurrency.install(backend)
    try:
        yield
    finally:
        concurrency.install(None)


def build_runtime(scheduler: Scheduler, options: Options, number: int) -> Runtime:
    """Return what a simulated process gets from outside."""
    return Runtime(
        clock=SimulatedClock(scheduler),
        ids=SimulatedIds(scheduler, number),
        faults=SimulatedFaults(scheduler),
        options=options,
    )
