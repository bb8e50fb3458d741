"""A distributed load on the model: its driver, and tasks in processes of their own, which name their files in notes."""

from dataclasses import dataclass
from functools import partial

from omnigraph.commit.branch_errors import OutcomeUnknownError
from omnigraph.commit.commit_plan import CommitPlan, Move
from omnigraph.commit.manifest_log import Head
from omnigraph.commit.publisher import ArmedWrite, abandon, arm, publish_or_replan
from omnigraph.commit.task_journal import TaskJournal
from omnigraph.errors import OmnigraphError
from omnigraph.ops.session import Session
from omnigraph.spark.load.task_phases import Phases
from omnigraph.storage.staging import StagedWrite
from schedules.history import Attempt
from schedules.model_actors import Lists, ListsUnchanged, Run, read_rows, stage
from schedules.scheduler import Process
from schedules.simulation import TaskLostError, wait_for_tasks


@dataclass(frozen=True, slots=True)
class Load:
    """Append to lists, those of each table in a task of its own: places are `table/key`."""

    places: tuple[str, ...]
    pause: float = 0.0
    """For how long each task stands still between a file and its note."""

    def __call__(self, run: Run, session: Session, name: str) -> None:
        """Run the load as its driver."""
        attempt = run.history.begin(name, {place: f"{name}-{place[-3:]}" for place in self.places})
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
        except (OmnigraphError, TaskLostError) as error:
            run.history.end(attempt, "fail", repr(error))
        else:
            run.history.end(attempt, "ok")

    def _stage(self, run: Run, session: Session, head: Head, armed: ArmedWrite, attempt: Attempt) -> CommitPlan:
        tables = session.open_tables(head.snapshot)
        written: dict[str, Lists] = {}
        for place, element in attempt.appends.items():
            table, _, key = place.partition("/")
            attempt.reads[place] = list(read_rows(tables.open_table(table)).get(key, ()))
            written[table] = {**written.get(table, {}), key: (*attempt.reads[place], element)}
        with Phases(session.store, armed).open_phase() as phase:
            staged = self._run_tasks(run, head, armed.lease.operation_id, phase.number, written)
            phase.keep([file for each in staged.values() for file in each.files])
        needs = [place.partition("/")[::2] for place in self.places]
        return CommitPlan(
            base=head,
            operation="load",
            actor="test",
            moves=tuple(Move(table_key=table, staged=each) for table, each in staged.items()),
            requirements=tuple(
                ListsUnchanged(table_key=table, ids=[key for other, key in needs if other == table]) for table in staged
            ),
        )

    def _run_tasks(
        self, run: Run, head: Head, operation_id: str, phase: int, written: dict[str, Lists]
    ) -> dict[str, StagedWrite]:
        """Let tasks write the files, and wait for them as a driver does.

        Raises:
            TaskLostError: One of them has no result.
        """
        results: dict[str, StagedWrite] = {}

        def work(process: Process, number: int, table: str) -> None:
            session = run.open_session(process)
            journal = TaskJournal(session.store, operation_id, phase, number)
            try:
                journal.begin()
                staged = stage(session, table, head, written[table])
                if self.pause:
                    session.runtime.clock.sleep(self.pause)
                journal.on_complete(staged.files)
            except OmnigraphError:
                return
            results[table] = staged

        tasks = [
            run.add_task(number, partial(work, number=number, table=table)) for number, table in enumerate(written, 1)
        ]
        wait_for_tasks(run.scheduler, tasks)
        if results.keys() != written.keys():
            raise TaskLostError
        return {table: results[table] for table in written}
