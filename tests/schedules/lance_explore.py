"""Run scenarios on a real graph, and judge what they leave."""

import logging
import random
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path

from omnigraph.commit.gc_horizon import build_collected_predicate
from omnigraph.commit.manifest_log import ManifestLog
from omnigraph.commit.recovery import recover
from omnigraph.commit.recovery_log import read_rows as read_audit
from omnigraph.commit.time_travel import read_at_commit
from omnigraph.errors import OmnigraphError
from omnigraph.ops.cleanup import CleanupCall, cleanup
from omnigraph.ops.cleanup_files import list_graph
from omnigraph.ops.session import Session
from omnigraph.storage.garbage_files import FileKind, classify_file
from omnigraph.storage.layout import RECOVERY
from omnigraph.storage.version_files import list_pinned_files
from schedules.exhaustive import Search
from schedules.explore import FAULTS, Outline, Result, shrink
from schedules.history import Attempt, History
from schedules.lance_actors import LISTS, Append, Call, Chain, Clone, Load, Mutate, Read
from schedules.lance_world import LanceActor, LanceRun, build_template, copied
from schedules.preemptions import Played, Switches, Taken, WatchedStrategy, search_preemptions
from schedules.scheduler import MAX_STEPS, Event, Fault, Process, Scheduler, Strategy
from schedules.simulation import SimulatedBackend, simulated
from schedules.strategies import (
    FaultPlan,
    PlannedFault,
    PriorityStrategy,
    RandomStrategy,
    ReplayStrategy,
    Schedule,
)

L, M = (f"{table}/p" for table in LISTS)
MAX_CLEANUPS = 4
MAX_REQUESTS = 1_500
MAX_RUNS = 50_000


@dataclass(frozen=True, slots=True)
class LanceScenario:
    """Processes by their names."""

    name: str
    processes: Mapping[str, tuple[LanceActor, ...]]
    setup: LanceActor | None = None
    """What has happened to the graph before, in no schedule."""


def _scenario(name: str, **processes: LanceActor | tuple[LanceActor, ...]) -> LanceScenario:
    return LanceScenario(
        name, {key: value if isinstance(value, tuple) else (value,) for key, value in processes.items()}
    )


_ON_X = Append((f"{LISTS[1]}/x",), branch="x")
LANCE_CASES: Mapping[str, LanceScenario] = {
    case.name: case
    for case in (
        _scenario("two-writers", a=Append((L, M), 2), b=Append((L, M), 1)),
        _scenario("a-group", a=(Append((L,)), Append((L, M), 1), Mutate()), b=Append((M, L), 1)),
        _scenario("a-cleanup-and-a-reader", a=Append((L,), times=2), b=Call("cleanup"), c=Read((L, M))),
        _scenario("a-merge", a=Chain((Call("create branch"), _ON_X, Call("merge"))), b=Append((L, M), 1)),
        _scenario("a-schema", a=Call("schema"), b=Append((L, M), 2)),
        _scenario("an-optimize", a=Append((L,), times=5), b=Call("optimize"), c=Call("cleanup", 61.0)),
        _scenario(
            "a-deleted-branch",
            a=Chain((Call("create branch"), _ON_X, _ON_X)),
            b=Call("delete branch", 1.0),
            c=Call("cleanup", 61.0),
        ),
        _scenario("a-clone", a=Append((L, M), 2), b=Clone((L, M)), c=Call("cleanup")),
        _scenario("a-distributed-load", a=Load(), b=Append((L, M), 1), c=Call("cleanup")),
        _scenario("a-slow-task", a=Load(pause=100.0), b=Call("cleanup", 1.0), c=Call("heal", 61.0)),
        _scenario("a-tag-and-a-healer", a=Append((L,), times=2), b=Call("tag"), c=Call("heal", 61.0)),
        _scenario("a-server", a=(Call("serve"), Append((L, M), 2), Mutate()), b=Append((L,), times=2, pause=30.0)),
        _scenario("trims", a=Append((L,), times=4), b=Append((M,), times=4), c=Read((L, M))),
        _scenario("mutations", a=(Mutate(2), Mutate(2)), b=Mutate(2), c=Call("optimize")),
    )
}


SMALL_CASES: Mapping[str, LanceScenario] = {
    case.name: case
    for case in (
        _scenario("two-writers-and-a-recovery", a=Append((L, M), 2), b=Append((L, M), 1), c=Call("heal")),
        _scenario("a-writer-a-cleanup-and-a-reader", a=Append((L,)), b=Call("cleanup"), c=Read((L,), 1)),
        replace(_scenario("two-merges", a=Call("merge"), b=Call("merge")), setup=Chain((Call("create branch"), _ON_X))),
        _scenario("a-schema-apply-and-a-writer", a=Call("schema"), b=Append((L,))),
        _scenario("a-group-and-a-crash", a=(Append((L,)), Append((M,))), c=Call("heal", 61.0)),
    )
}
"""Cases of which every schedule with few preemptions is run."""


@dataclass
class LanceModel:
    """A directory in which scenarios are run."""

    template: Path
    _outlines: dict[str, Outline] = field(default_factory=dict)
    _prepared: dict[str, tuple[Path, Sequence[Attempt]]] = field(default_factory=dict)

    def measure(self, scenario: LanceScenario) -> Outline:
        """Return the steps that each thread of a scenario takes if nothing disturbs it."""
        if scenario.name not in self._outlines:
            trace = self.play(scenario, ReplayStrategy(Schedule())).trace
            self._outlines[scenario.name] = [
                (event.task, event.number, event.step.writes) for event in trace if ":" not in event.task
            ]
        return self._outlines[scenario.name]

    def try_seed(self, seed: int) -> str | None:
        """See `Model.try_seed`."""
        cases = list(LANCE_CASES.values())
        case = cases[seed % len(cases)]
        result = self.play(case, draw_lance_strategy(seed, self.measure(case)))
        if not result.problems:
            return None
        return shrink(partial(self.play, case), result, 100).explain(seed, case)

    def search(self, scenario: LanceScenario, bound: int, crash: PlannedFault | None = None) -> Search:
        """Run every schedule with at most `bound` preemptions, perhaps with a crash in each."""
        faults = () if crash is None else (crash,)

        def play(switches: Switches) -> Played:
            strategy = WatchedStrategy(Schedule(switches, faults))
            changes: dict[int, frozenset[str]] = {}
            result = self.play(scenario, strategy, changes)
            steps = [_describe_step(event, changes.get(number)) for number, event in enumerate(result.trace)]
            return Played(result.problems, steps, strategy.others, strategy.free)

        return search_preemptions(play, bound, MAX_RUNS)

    def search_with_crash(self, scenario: LanceScenario, bound: int) -> Search:
        """Run every schedule with a crash of the first process at one of its requests, and `bound` preemptions."""
        total = Search(is_complete=True)
        result = self.play(scenario, ReplayStrategy(Schedule()))
        for event in result.trace:
            if event.step.is_request and event.task == next(iter(scenario.processes)):
                search = self.search(scenario, bound, PlannedFault(event.task, event.number, Fault.CRASH_BEFORE))
                total.add(search)
                total.faults += 1
                total.is_complete &= search.is_complete
        return total

    def play(
        self, scenario: LanceScenario, strategy: Strategy, changes: dict[int, frozenset[str]] | None = None
    ) -> Result:
        """Run a scenario once; note in `changes` the files that each call of Lance has changed."""
        template, earlier = self._prepare(scenario)
        scheduler = Scheduler(strategy)
        with copied(template, scheduler) as disk:
            run = LanceRun(scheduler, disk, History(scheduler), changes=changes)
            run.history.attempts += [replace(attempt) for attempt in earlier]
            with simulated(SimulatedBackend(scheduler, run.announce)), run.stored():
                for name, actors in scenario.processes.items():
                    run.add_process(name, *actors)
                scheduler.run()
                problems = judge(run)
            shutil.rmtree(run.clone_uri, ignore_errors=True)
        faults = tuple(
            PlannedFault(event.task, event.number, event.fault) for event in scheduler.trace if event.fault is not None
        )
        return Result(problems, Schedule(tuple(scheduler.switches), faults), scheduler.trace, len(scheduler.trace))

    def _prepare(self, scenario: LanceScenario) -> tuple[Path, Sequence[Attempt]]:
        """Return the graph that a scenario begins with, and what was done to it."""
        if scenario.setup is None:
            return self.template, ()
        if scenario.name not in self._prepared:
            scheduler = Scheduler(ReplayStrategy(Schedule()))
            with copied(self.template, scheduler) as disk:
                run = LanceRun(scheduler, disk, History(scheduler), first_number=10)
                with simulated(SimulatedBackend(scheduler, run.announce)), run.stored():
                    run.add_process("setup", scenario.setup)
                    scheduler.run()
                graph = self.template.parent / scenario.name
                shutil.copytree(disk.root, graph)
            earlier = [
                replace(each, start=each.start - MAX_STEPS, end=each.end - MAX_STEPS) for each in run.history.attempts
            ]
            assert all(attempt.outcome == "ok" for attempt in earlier)
            self._prepared[scenario.name] = graph, earlier
        return self._prepared[scenario.name]


def _describe_step(event: Event, changed: frozenset[str] | None) -> Taken:
    """Return what a step has read and written. Lance is taken to read all versions, of tables or of manifests."""
    step = event.step
    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    if changed is not None:
        target = f"versions of a {step.verb.rpartition(' ')[2]}"
        reads, writes = frozenset({target}), changed
        if any("/_versions/" in key for key in changed):
            # A data file alone is known to nobody. Lance may remove what is old when it writes a version.
            writes |= {target}
            reads |= _MANIFESTS if target in _MANIFESTS else _TABLES
    elif step.resource:
        reads = frozenset({step.resource})
        if step.writes:
            writes = reads if step.resource.startswith((f"{RECOVERY}/", "lock ", "rlock ", "event ")) else reads | _ALL
    return Taken(event.task, event.number, event.at, reads, writes, step.is_request, event.fault is not None)


_MANIFESTS = frozenset({"versions of a manifest", "__manifest/", "__branches/", "_graph_commit_recoveries.lance/"})
_TABLES = frozenset({"versions of a table", "nodes/", "edges/"})
_ALL = frozenset({"versions of a manifest", "versions of a table"})


@contextmanager
def lance_model(directory: Path) -> Iterator[LanceModel]:
    """Open a directory for runs."""
    logger = logging.getLogger("omnigraph")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield LanceModel(build_template(directory))
    finally:
        logger.setLevel(level)


def draw_lance_strategy(seed: int, outline: Outline) -> Strategy:
    """Return the choices of a seed, as `draw_strategy` does; a file of Lance can't be written late."""
    choice = random.Random(f"strategy {seed}")
    writes = [step for step in outline if step[2]]
    kinds = [fault for fault in FAULTS if fault is not Fault.LATE]
    faults = []
    for _ in range(choice.choice((0, 1, 1, 1, 2))):
        thread, number, _ = choice.choice(writes if choice.random() < 0.5 else outline)
        faults.append(PlannedFault(thread, number, choice.choice(kinds)))
    plan = FaultPlan(faults)
    if choice.random() < 0.5:
        return RandomStrategy(seed, plan)
    return PriorityStrategy(seed, plan, len(outline), choice.randint(2, 4))


# --- what must hold ------------------------------------------------------------------------------------------


def judge(run: LanceRun) -> list[str]:
    """Return everything that is wrong after a run; no thread runs any more."""
    scheduler = run.scheduler
    problems = [] if scheduler.wedge is None else [f"wedge: {scheduler.wedge}"]
    problems += [f"crash: {task.name} raised {task.error!r}" for task in scheduler.tasks if task.error is not None]
    problems += [
        f"cost: {process.name} sent {process.requests} requests"
        for process in run.processes
        if process.requests > MAX_REQUESTS
    ]
    scheduler.on_jump()
    scheduler.now += timedelta(hours=1)
    try:
        session = run.open_session(Process("judge"))
        problems += _judge_state(run, session)
    except OmnigraphError as error:
        problems.append(f"unreadable: {error!r}")
    return problems


def _judge_state(run: LanceRun, session: Session) -> list[str]:
    problems = [f"not recovered: {failed}" for failed in recover(session.store, session.log).failed]
    sidecars = [info.key for info in session.store.objects.list_under(RECOVERY) if info.key.endswith(".json")]
    problems += [f"left over: {key}" for key in sidecars]
    audit = read_audit(session.store)
    rows = [row.operation_id for row in audit]
    problems += [f"audited twice: {row}" for row in set(rows) if rows.count(row) > 1]
    for row in audit:
        if row.graph_commit_id is not None and row.kind == "RolledForward":
            log = ManifestLog(session.store)
            if not log.contains(log.head(), row.graph_commit_id, 0) and not run.history.gone:
                problems.append(f"audited as committed: {row.graph_commit_id}")
    problems += _judge_lists(run, session)
    branches = ["main", *(record.name for record in session.branches.list_records())]
    problems += [problem for branch in branches for problem in _judge_history(session.checkout(branch), branch)]
    problems += _judge_files(run, session, branches)
    return problems


def _read_lists(session: Session) -> dict[str, list[str]]:
    tables = session.open_tables(session.head().snapshot)
    lists = {}
    for key in LISTS:
        rows = tables.open_table(key).scan(["id", "items"])
        ids = rows["id"].to_pylist()
        if len(set(ids)) < len(ids):
            lists[f"{key}/twice"] = ["twice", "twice"]
        lists |= {f"{key}/{id_}": items.split() for id_, items in zip(ids, rows["items"].to_pylist(), strict=True)}
    return lists


def _judge_lists(run: LanceRun, session: Session) -> list[str]:
    history = run.history
    main = _read_lists(session)
    final = dict(main)
    live = [record.name for record in session.branches.list_records()]
    for branch in live:
        for key, items in _read_lists(session.checkout(branch)).items():
            if len(items) > len(final.get(key, [])):
                final[key] = items
    problems = []
    for name, since in history.gone.items():
        there = [attempt for attempt in history.attempts if any(key.endswith(f"/{name}") for key in attempt.appends)]
        if name not in live:
            late = [each for each in there if each.outcome == "ok" and each.start > since]
            problems += [f"told that {attempt.name} is on the branch {name}, which was deleted" for attempt in late]
        for attempt in there:
            attempt.outcome = "unknown"
    return [*problems, *history.find_anomalies(final)]


def _judge_history(session: Session, branch: str) -> list[str]:
    head = session.head()
    is_collected = build_collected_predicate(session.log, head)
    numbers = []
    for commit in session.log.iter_history(head):
        numbers.append(commit.seq)
        if not is_collected(commit):
            tables = session.open_tables(read_at_commit(session.log, head, commit.id))
            for key in tables.snapshot.pins:
                tables.open_table(key).scan(["id"])
    is_whole = numbers == list(range(numbers[0], -1, -1))
    return [] if is_whole else [f"the history of {branch} has numbers {numbers}"]


def _judge_files(run: LanceRun, session: Session, branches: list[str]) -> list[str]:
    problems: list[str] = []
    for _ in range(MAX_CLEANUPS):
        problems = _clean_up(session, branches)
        run.scheduler.on_jump()
        run.scheduler.now += timedelta(hours=1)
        if not problems:
            break
    return problems


def _clean_up(session: Session, branches: list[str]) -> list[str]:
    result = cleanup(session, CleanupCall(keep=1, grace=timedelta(), is_confirmed=True))
    problems = [f"not cleaned up: {table.location}: {table.error}" for table in result.tables if table.error]
    problems += [f"unknown file: {file}" for file in result.unknown_files]
    needed: dict[str, set[int]] = {}
    for branch in branches:
        there = session.checkout(branch)
        head = there.head()
        is_collected = build_collected_predicate(there.log, head)
        for commit in there.log.iter_history(head):
            if not is_collected(commit):
                for pin in read_at_commit(there.log, head, commit.id).pins.values():
                    needed.setdefault(pin.path, set()).add(pin.version)
    pinned = {path: list_pinned_files(session.handles, path, versions) for path, versions in needed.items()}
    for key in list_graph(session.store).table_files:
        path = "/".join(key.split("/")[:2])
        is_head = classify_file(key.removeprefix(f"{path}/")) is FileKind.HEAD
        if not is_head and (path not in pinned or key not in pinned[path]):
            problems.append(f"leaked: {key}")
    return problems
