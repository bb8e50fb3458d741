"""Run scenarios on a graph behind the model of S3: every request of Lance and ours goes over HTTP."""

import logging
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TypeVar
from unittest.mock import patch

from omnigraph.lang.source import Source
from omnigraph.ops.create import create
from omnigraph.ops.open import open_session
from omnigraph.ops.session import Session
from omnigraph.options import Maintenance, Options
from omnigraph.runtime import Runtime
from omnigraph.storage.object_store import ObjectInfo, StoredObject, StoreUnavailableError
from omnigraph.storage.s3_object_store import S3ObjectStore
from race.jobs import LIST_SCHEMA
from schedules.explore import Outline, Result, shrink
from schedules.history import History
from schedules.lance_explore import LANCE_CASES, LanceScenario, judge
from schedules.lance_world import OPTIONS, Disk, LanceRun
from schedules.s3_model import (
    BUCKET,
    HttpFault,
    PlannedHttpFault,
    S3Object,
    S3State,
    _Server,
    build_options,
    serving_s3,
)
from schedules.scheduler import Fault, Process, Scheduler, Step, StepError, Strategy
from schedules.simulation import SimulatedBackend, build_runtime, simulated
from schedules.strategies import FaultPlan, PlannedFault, RandomStrategy, ReplayStrategy, Schedule

T = TypeVar("T")
URI = f"s3://{BUCKET}/graph"
S3_NAMES = (
    "two-writers",
    "a-group",
    "a-cleanup-and-a-reader",
    "a-merge",
    "a-schema",
    "a-tag-and-a-healer",
    "a-server",
    "a-deleted-branch",
    "an-optimize",
    "a-clone",
    "mutations",
    "a-distributed-load",
)
S3_CASES = [LANCE_CASES[name] for name in S3_NAMES]


class ScheduledS3(S3ObjectStore):
    """The control objects of one process, over HTTP."""

    scheduler: Scheduler
    state: S3State

    def _request(self, label: str, key: str, act: Callable[[], T], *, writes: bool = False) -> T:
        step = Step(label, key, writes, is_request=True, is_on_key=True)
        # What is on its way arrives between two steps.
        self.state.let_late_happen()
        try:
            fault = self.scheduler.reach(step)
            result = act()
            self.scheduler.finish(fault)
        except StepError as error:
            raise StoreUnavailableError(step.label, "a fault was injected") from error
        return result

    def get(self, key: str) -> StoredObject:
        """See ObjectStore."""
        return self._request("get", key, lambda: S3ObjectStore.get(self, key))

    def stat(self, key: str) -> ObjectInfo | None:
        """See ObjectStore."""
        return self._request("look up", key, lambda: S3ObjectStore.stat(self, key))

    def put(self, key: str, data: bytes) -> str:
        """See ObjectStore."""
        return self._request("put", key, lambda: S3ObjectStore.put(self, key, data), writes=True)

    def put_if_absent(self, key: str, data: bytes) -> str:
        """See ObjectStore."""
        return self._request("create", key, lambda: S3ObjectStore.put_if_absent(self, key, data), writes=True)

    def put_if_match(self, key: str, data: bytes, etag: str) -> str:
        """See ObjectStore."""
        return self._request("replace", key, lambda: S3ObjectStore.put_if_match(self, key, data, etag), writes=True)

    def delete(self, key: str) -> None:
        """See ObjectStore."""
        self._request("delete", key, lambda: S3ObjectStore.delete(self, key), writes=True)

    def list_under(self, prefix: str) -> list[ObjectInfo]:
        """See ObjectStore."""
        return self._request("list", f"{prefix}/", lambda: S3ObjectStore.list_under(self, prefix))


@dataclass
class S3Run(LanceRun):
    """One run on the model of S3."""

    server: _Server = field(kw_only=True)

    @property
    def clone_uri(self) -> str:
        """See LanceRun."""
        return f"s3://{BUCKET}/clone"

    def open_session(self, process: Process) -> Session:
        """See LanceRun."""
        number = self.processes.index(process) + 1 if process in self.processes else 99
        options = replace(self.options, storage=build_options(self.server, process.name))
        return open_session(URI, is_read_only=False, runtime=build_runtime(self.scheduler, options, number))

    @contextmanager
    def stored(self) -> Iterator[None]:
        """See LanceRun."""

        def open_objects(location: object, runtime: Runtime) -> S3ObjectStore:
            store = ScheduledS3(location.bucket, location.path, runtime.options.storage)  # type: ignore[attr-defined]
            store.scheduler, store.state = self.scheduler, self.server.state
            return store

        with patch("omnigraph.storage.graph_storage._open_remote_objects", open_objects):
            yield


@dataclass
class S3Model:
    """A server, and the objects of the graph that every run begins with."""

    server: _Server
    template: dict[str, S3Object]
    _outlines: dict[str, Outline] = field(default_factory=dict)

    def measure(self, scenario: LanceScenario) -> Outline:
        """Return the steps that each thread of a scenario takes if nothing disturbs it."""
        if scenario.name not in self._outlines:
            trace = self.play(scenario, ReplayStrategy(Schedule()), ()).trace
            self._outlines[scenario.name] = [
                (event.task, event.number, event.step.writes) for event in trace if ":" not in event.task
            ]
        return self._outlines[scenario.name]

    def try_seed(self, seed: int) -> str | None:
        """See `Model.try_seed`."""
        case = S3_CASES[seed % len(S3_CASES)]
        strategy, faults = draw_s3_choices(seed, case, self.measure(case))
        result = self.play(case, strategy, faults)
        if not result.problems:
            return None
        return shrink(partial(self.play, case, faults=faults), result, 100).explain(seed, case)

    def play(self, scenario: LanceScenario, strategy: Strategy, faults: tuple[PlannedHttpFault, ...]) -> Result:
        """Run a scenario once."""
        scheduler = Scheduler(strategy)
        self.server.state = S3State(lambda: scheduler.now, dict(self.template), faults)
        run = S3Run(scheduler, Disk(Path("none"), scheduler), History(scheduler), server=self.server)
        with simulated(SimulatedBackend(scheduler, run.announce)), run.stored():
            for name, actors in scenario.processes.items():
                run.add_process(name, *actors)
            scheduler.run()
            self.server.state.let_late_happen()
            problems = judge(run)
        problems = [f"{problem} {self.server.state.injected}" for problem in problems]
        injected = tuple(
            PlannedFault(event.task, event.number, event.fault) for event in scheduler.trace if event.fault is not None
        )
        return Result(problems, Schedule(tuple(scheduler.switches), injected), scheduler.trace, len(scheduler.trace))


@contextmanager
def s3_model() -> Iterator[S3Model]:
    """Serve the model for runs."""
    logger = logging.getLogger("omnigraph")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    state = S3State(lambda: datetime.now(UTC))
    try:
        with serving_s3(state) as server:
            options: Options = replace(OPTIONS, maintenance=Maintenance.OFF, storage=build_options(server, "setup"))
            create(URI, Source(LIST_SCHEMA, "lists.pg"), actor="test", runtime=Runtime(options=options))
            yield S3Model(server, dict(state.objects))
    finally:
        logger.setLevel(level)


def draw_s3_choices(
    seed: int, scenario: LanceScenario, outline: Outline
) -> tuple[Strategy, tuple[PlannedHttpFault, ...]]:
    """Return the choices of a seed: a fault between requests or none, and one inside of Lance's requests or none."""
    choice = random.Random(f"s3 {seed}")
    faults = []
    if choice.random() < 0.5:
        thread, number, _ = choice.choice(outline)
        kinds = (Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.ERROR, Fault.LOST_RESPONSE, Fault.STALL)
        faults.append(PlannedFault(thread, number, choice.choice(kinds)))
    http = []
    if choice.random() < 0.7:
        process = choice.choice(sorted(scenario.processes))
        http.append(PlannedHttpFault(process, choice.randint(1, 16), choice.choice(list(HttpFault))))
    return RandomStrategy(seed, FaultPlan(faults)), tuple(http)
