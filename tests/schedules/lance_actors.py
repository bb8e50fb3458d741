"""What the simulated processes do on a real graph: the operations of users."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import pyarrow as pa

from omnigraph.commit.branch_errors import OutcomeUnknownError
from omnigraph.commit.commit_plan import CommitPlan, Move
from omnigraph.commit.manifest_log import Head
from omnigraph.commit.manifest_types import MAIN
from omnigraph.commit.publisher import ArmedWrite, abandon, arm, publish_or_replan
from omnigraph.commit.requirements import RowsUnchanged
from omnigraph.commit.task_journal import TaskJournal
from omnigraph.errors import OmnigraphError
from omnigraph.lang.source import Source
from omnigraph.ops.branch import create_branch, delete_branch
from omnigraph.ops.cleanup import CleanupCall, cleanup
from omnigraph.ops.clone import CloneCall, clone
from omnigraph.ops.merge import MergeCall, merge
from omnigraph.ops.mutate import MutationCall, mutate
from omnigraph.ops.open import heal, open_session
from omnigraph.ops.optimize import OptimizeCall, optimize
from omnigraph.ops.optimize_table import UpkeepCall
from omnigraph.ops.schema_apply import SchemaCall, apply_schema
from omnigraph.ops.session import Session
from omnigraph.ops.tag import create_tag
from omnigraph.ops.write_tables import TableWrite, keep_tails_short, stage_plan
from omnigraph.spark.load.task_phases import Phases
from omnigraph.storage.staging import StagedWrite, stage_append
from race.jobs import LIST_SCHEMA
from schedules.healing import serve
from schedules.history import Attempt
from schedules.lance_world import LanceActor, LanceRun
from schedules.scheduler import Process
from schedules.simulation import TaskLostError, wait_for_tasks

LISTS = ("node:L", "node:M")
GRAPH_ERRORS = (OmnigraphError,)


def read_list(session: Session, head: Head, place: str) -> list[str]:
    """Return a list of a state."""
    table, _, key = place.partition("/")
    rows = session.open_tables(head.snapshot).open_table(table).find_rows("id", [key], ["items"])
    items = rows["items"].to_pylist()
    return items[0].split() if items else []


@dataclass(frozen=True, slots=True)
class Append:
    """Append to lists what they lead to; the first `writes` places are written."""

    places: tuple[str, ...]
    writes: int = 1
    branch: str = MAIN
    times: int = 1
    pause: float = 0.0

    def __call__(self, run: LanceRun, session: Session, name: str) -> None:
        """Run the transactions."""
        for number in range(self.times):
            if self.pause:
                session.runtime.clock.sleep(self.pause)
            own = f"{name}.{number}"
            attempt = run.history.begin(own, {place: f"{own}-{place[-3:]}" for place in self.places[: self.writes]})
            try:
                self._run(session.checkout(self.branch), attempt)
            except OutcomeUnknownError as error:
                run.history.end(attempt, "unknown", str(error))
            except GRAPH_ERRORS as error:
                run.history.end(attempt, "fail", repr(error))
            else:
                run.history.end(attempt, "ok")

    def _run(self, session: Session, attempt: Attempt) -> None:
        def plan(head: Head) -> CommitPlan:
            attempt.reads = {place: read_list(session, head, place) for place in self.places}
            by_table: dict[str, list[tuple[str, str]]] = {}
            for place, element in attempt.appends.items():
                table, _, key = place.partition("/")
                by_table.setdefault(table, []).append((key, " ".join([*attempt.reads[place], element])))
            writes = [
                TableWrite(
                    table_key=table,
                    upsert=pa.table({"id": [key for key, _ in rows], "items": [items for _, items in rows]}),
                )
                for table, rows in by_table.items()
            ]
            needs: dict[str, list[str]] = {}
            for place in self.places:
                needs.setdefault(place.partition("/")[0], []).append(place.partition("/")[2])
            parts = CommitPlan(
                base=head,
                operation="append",
                actor="test",
                requirements=tuple(RowsUnchanged(table_key=key, ids=ids) for key, ids in needs.items()),
                answer=attempt.reads,
            )
            staged = stage_plan(session, parts, writes)
            assert staged is not None
            plans.append(staged[0])
            armed.append(staged[1])
            return staged[0]

        plans: list[CommitPlan] = []
        armed: list[object] = []
        first = plan(session.cached_head())
        done = publish_or_replan(session.log, session.handles, first, armed[0], plan)  # type: ignore[arg-type]
        assert done is not None
        # Not what its last run read: an earlier run may be the one that was committed.
        attempt.reads = done.answer if isinstance(done.answer, dict) else {}
        keep_tails_short(session, first, done)


@dataclass(frozen=True, slots=True)
class Mutate:
    """Insert a row of its own by a mutation, as a server does."""

    times: int = 1

    def __call__(self, run: LanceRun, session: Session, name: str) -> None:
        """Run the mutations."""
        for number in range(self.times):
            own = f"{name}.{number}"
            attempt = run.history.begin(own, {f"{LISTS[1]}/{own}": own})
            text = f'query add() {{ insert M {{ id: "{own}", items: "{own}" }} }}'
            call = MutationCall(source=Source(text, "add.gq"), name="add", params={}, actor="test")
            try:
                mutate(session, call)
            except OutcomeUnknownError as error:
                run.history.end(attempt, "unknown", str(error))
            except GRAPH_ERRORS as error:
                run.history.end(attempt, "fail", repr(error))
            else:
                run.history.end(attempt, "ok")


@dataclass(frozen=True, slots=True)
class Read:
    """Read lists in one snapshot, some times."""

    places: tuple[str, ...]
    times: int = 2

    def __call__(self, run: LanceRun, session: Session, name: str) -> None:
        """Read."""
        for number in range(self.times):
            attempt = run.history.begin(f"{name}.{number}", {})
            try:
                head = session.head()
                reads = {place: read_list(session, head, place) for place in self.places}
            except GRAPH_ERRORS as error:
                run.history.end(attempt, "fail", repr(error))
            else:
                attempt.reads = reads
                run.history.end(attempt, "ok")


@dataclass(frozen=True, slots=True)
class Call:
    """Any operation whose outcome is judged by the state that it leaves."""

    what: str
    pause: float = 0.0

    def __call__(self, run: LanceRun, session: Session, name: str) -> None:
        """Call it; an error of ours is an answer."""
        del name
        if self.pause:
            session.runtime.clock.sleep(self.pause)
        try:
            _CALLS[self.what](run, session)
        except GRAPH_ERRORS:
            return


@dataclass(frozen=True, slots=True)
class Clone:
    """Clone the graph: what the clone has is read in one state."""

    places: tuple[str, ...]

    def __call__(self, run: LanceRun, session: Session, name: str) -> None:
        """Clone it, and read the clone."""
        attempt = run.history.begin(name, {})
        try:
            clone(session, CloneCall(target=run.clone_uri))
            there = open_session(run.clone_uri, is_read_only=False, runtime=session.runtime)
            attempt.reads = {place: read_list(there, there.head(), place) for place in self.places}
        except GRAPH_ERRORS as error:
            run.history.end(attempt, "fail", repr(error))
        else:
            run.history.end(attempt, "ok")


@dataclass(frozen=True, slots=True)
class Load:
    """Append a row of its own to each table of lists by a distributed load: each task is a process of its own."""

    pause: float = 0.0
    """For how long each task stands still between a file and its note."""

    def __call__(self, run: LanceRun, session: Session, name: str) -> None:
        """Run the load as its driver."""
        attempt = run.history.begin(name, {f"{table}/{name}": f"{name}-{table[-1]}" for table in LISTS})
        try:
            head = session.cached_head()
            armed = arm(session.log, head, operation="load", actor="test")
            try:
                plan = self._stage(run, session, head, armed, attempt)
            except BaseException as error:
                abandon(session.log, armed, armed.lease.files, error)
                raise
            publish_or_replan(session.log, session.handles, plan, armed, None)
        except OutcomeUnknownError as error:
            run.history.end(attempt, "unknown", str(error))
        except (*GRAPH_ERRORS, TaskLostError) as error:
            run.history.end(attempt, "fail", repr(error))
        else:
            run.history.end(attempt, "ok")

    def _stage(self, run: LanceRun, session: Session, head: Head, armed: ArmedWrite, attempt: Attempt) -> CommitPlan:
        staged: dict[str, StagedWrite] = {}

        def work(process: Process, number: int, place: str, phase: int) -> None:
            table, _, key = place.partition("/")
            try:
                mine = run.open_session(process)
                journal = TaskJournal(mine.store, armed.lease.operation_id, phase, number)
                journal.begin()
                rows = pa.table({"id": [key], "items": [attempt.appends[place]]})
                written = stage_append(mine.open_tables(head.snapshot).open_table(table), rows)
                if self.pause:
                    mine.runtime.clock.sleep(self.pause)
                journal.on_complete(written.files)
            except GRAPH_ERRORS:
                return
            staged[table] = written

        with Phases(session.store, armed).open_phase() as phase:
            wait_for_tasks(
                run.scheduler,
                [
                    run.add_task(number, partial(work, number=number, place=place, phase=phase.number))
                    for number, place in enumerate(attempt.appends, 1)
                ],
            )
            if staged.keys() != set(LISTS):
                raise TaskLostError
            phase.keep([file for each in staged.values() for file in each.files])
        moves = tuple(Move(table_key=table, staged=staged[table]) for table in LISTS)
        return CommitPlan(base=head, operation="load", actor="test", moves=moves)


@dataclass(frozen=True, slots=True)
class Chain:
    """Run actors one after the other."""

    actors: Sequence[LanceActor]

    def __call__(self, run: LanceRun, session: Session, name: str) -> None:
        """Run them."""
        for number, actor in enumerate(self.actors):
            actor(run, session, f"{name}:{number}")


def _cleanup(run: LanceRun, session: Session) -> None:
    del run
    cleanup(session, CleanupCall(keep=2, grace=timedelta(), is_confirmed=True))


def _delete_branch(run: LanceRun, session: Session) -> None:
    run.history.gone.setdefault("x", float("inf"))
    delete_branch(session, "x")
    run.history.gone["x"] = len(run.scheduler.trace)


_CALLS: dict[str, Callable[[LanceRun, Session], object]] = {
    "cleanup": _cleanup,
    "delete branch": _delete_branch,
    "create branch": lambda _, session: create_branch(session, "x", actor="test"),
    "merge": lambda _, session: merge(session, MergeCall(source="x", actor="test")),
    "optimize": lambda _, session: optimize(session, OptimizeCall(upkeep=UpkeepCall(actor="test"))),
    "schema": lambda _, session: apply_schema(
        session, SchemaCall(source=Source(f"{LIST_SCHEMA}\nnode Z {{ items: String }}", "z.pg"), actor="test")
    ),
    "tag": lambda _, session: create_tag(session, "t", actor="test"),
    "serve": lambda _, session: serve(session, 61.0, 130.0),
    "heal": lambda _, session: heal(session, session.head(), spares_live=True),
}
