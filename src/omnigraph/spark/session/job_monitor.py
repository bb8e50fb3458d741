"""A job on Spark, watched: somebody is told how far it is, and whoever interrupts us stops it there, too."""

import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeVar

from py4j.protocol import Py4JError
from pyspark import InheritableThread, SparkContext
from pyspark.sql import SparkSession

from omnigraph.ops.load_call import LoadCall
from omnigraph.spark.session.error_translation import surface_errors
from omnigraph.telemetry import log

_POLL_SECONDS = 0.2
_MAX_WAIT_SECONDS = 60
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress:
    """How far a job is: its tasks, of all stages that are known so far, and how many of them are done."""

    tasks: int = 0
    done: int = 0
    active: int = 0
    failed: int = 0

    @property
    def share(self) -> float:
        """From 0 to 1."""
        return self.done / self.tasks if self.tasks else 0.0


def run_job(
    spark: SparkSession,
    action: Callable[[], T],
    *,
    description: str,
    on_progress: Callable[[JobProgress], None] | None = None,
) -> T:
    """What `action` gives, which starts jobs on Spark and waits for them; failures are raised as our errors.

    It runs in a thread of its own while this one looks after it. An interrupt (Ctrl-C), or an exception of `tell`,
    cancels its jobs. Whatever is raised here, none of its tasks runs any more by then, so that what they wrote can be
    cleared away.
    """
    context = spark.sparkContext
    group = f"omnigraph-{uuid.uuid4().hex}"
    outcome: Future[T] = Future()
    is_over = threading.Event()

    def run() -> None:
        try:
            # A task that is interrupted ends at once, but leaves its Python at work; one that is not ends with it.
            context.setJobGroup(group, description, interruptOnCancel=False)
            outcome.set_result(action())
        except BaseException as error:  # noqa: BLE001 - raised again below, in the caller's thread
            outcome.set_exception(error)
        finally:
            is_over.set()

    thread = InheritableThread(target=run, daemon=True, name=group, session=spark)
    thread.start()
    try:
        while not is_over.wait(_POLL_SECONDS):
            if on_progress is not None:
                on_progress(_read_progress(context, group))
    except BaseException:
        log.debug("cancelling the jobs of %s", description)
        while not is_over.wait(_POLL_SECONDS):
            context.cancelJobGroup(group)  # again and again: a job may just be starting
        _wait_for_tasks(context, group)
        raise
    if outcome.exception() is not None:
        _wait_for_tasks(context, group)
    with surface_errors():
        return outcome.result()


def _wait_for_tasks(context: SparkContext, group: str) -> None:
    """Wait for the end of tasks that were told to stop; Spark kills their Python after two seconds."""
    try:
        for _ in range(int(_MAX_WAIT_SECONDS / _POLL_SECONDS)):
            if not _read_progress(context, group).active:
                return
            time.sleep(_POLL_SECONDS)
    except (Py4JError, ConnectionError):  # then there is nobody who could run them
        return
    log.warning("tasks of a job that failed are still running; their files are left to recovery")


def build_progress_callback(
    call: LoadCall, phase: str, *, rows: Callable[[], int] = lambda: 0, total_bytes: int | None = None
) -> Callable[[JobProgress], None]:
    """For `run_job`: what a load's caller is told. Of the bytes, the same share is done as of the tasks."""

    def tell(progress: JobProgress) -> None:
        done = int(progress.share * total_bytes) if total_bytes is not None else 0
        call.report_progress(phase, rows(), done, total_bytes)

    return tell


def _read_progress(context: SparkContext, group: str) -> JobProgress:
    tracker = context.statusTracker()
    tasks = done = active = failed = 0
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage in info.stageIds if info is not None else ():
            found = tracker.getStageInfo(stage)
            if found is not None:  # what is long done may be forgotten
                tasks += found.numTasks
                done += found.numCompletedTasks
                active += found.numActiveTasks
                failed += found.numFailedTasks
    return JobProgress(tasks=tasks, done=done, active=active, failed=failed)
