"""A distributed load: its driver, and tasks that are processes of their own, which write files and name them in notes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from omnigraph.commit.commit_plan import CommitPlan, Move
from omnigraph.commit.publisher import abandon, arm, publish_or_replan
from omnigraph.commit.task_journal import TaskJournal
from omnigraph.errors import OmnigraphError
from omnigraph.ops.session import Session
from omnigraph.spark.load.task_phases import Phases
from omnigraph.storage.staging import StagedWrite
from schedules.history import Attempt
from schedules.model_actors import ListsUnchanged, Run, read_rows, stage_file
from schedules.scheduler import Process, Step


class TaskLostError(Exception):
    """A task of a load has not ended well."""


@dataclass(frozen=True, slots=True)
class Load:
    """Append to lists, each in a task: places are `table/key`."""

    places: tuple[str, ...]

    def __call__(self, run: Run, session: Session, name: str) -> None:
        """Run the load as its driver."""
        attempt = run.history.begin(name, {place: f"{name}-{place[-3:]}" for place in self.places})
        try:
            self._run(run, session, attempt, name)
        except (OmnigraphError, TaskLostError) as error:
            run.history.end_with(attempt, error)
        else:
            run.history.end(attempt, "ok")

    def _run(self, run: Run, session: Session, attempt: Attempt, name: str) -> None:
        head = session.cached_head()
        armed = arm(session.log, head, operation="load", actor="test")
        results: dict[str, StagedWrite] = {}
        try:
            tables = session.open_tables(head.snapshot)
            written: dict[str, dict[str, tuple[str, ...]]] = {}
            for place, element in attempt.appends.items():
                table, _, key = place.partition("/")
                attempt.reads[place] = list(read_rows(tables.open_table(table)).get(key, ()))
                written.setdefault(table, {})[key] = (*attempt.reads[place], element)
            with Phases(session.store, armed).open_phase() as phase:
                tasks = []
                for number, (table, rows) in enumerate(written.items()):
                    process = Process(f"{name}:task{number}")
                    run.processes.append(process)

                    def work(table: str = table, rows: Mapping[str, tuple[str, ...]] = rows, at: int = number) -> None:
                        mine = run.open_session(run.processes[-len(written) + at])
                        results[table] = _write(mine, session, head.snapshot.pins[table], armed.lease.operation_id, rows, at)

                    tasks.append(run.scheduler.spawn(process, process.name, work, is_daemon=True))
                over: Callable[[], bool] = lambda: all(task.is_done or task.process.is_dead for task in tasks)
                run.scheduler.wait(Step("wait for the tasks"), over)
                if results.keys() != written.keys():
                    raise TaskLostError
                phase.keep([file for staged in results.values() for file in staged.files])
        except BaseException as error:
            abandon(session.log, armed, armed.lease.files, error)
            raise
