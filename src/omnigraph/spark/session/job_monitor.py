"""Run Spark jobs with progress reports and cancellation: an interrupt of the caller stops the job, too."""

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, cast

from py4j.protocol import Py4JError
from pyspark import InheritableThread, SparkContext
from pyspark.sql import SparkSession

from omnigraph.ids import draw_bytes
from omnigraph.ops.load_call import LoadCall
from omnigraph.spark.session.connect import is_connect
from omnigraph.spark.session.error_translation import surface_errors
from omnigraph.telemetry import log

if TYPE_CHECKING:
    from pyspark.sql.connect.shell.progress import ProgressHandler, StageInfo

_POLL_SECONDS = 0.2
_CALL_SITE = "callSite.short"
# How long to wait for the tasks of a failed job. Files of tasks that run even longer are left to recovery.
_MAX_WAIT_SECONDS = 60
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress:
    """The progress of a job: the number of its tasks by state, in all stages that are known so far."""

    tasks: int = 0
    done: int = 0
    active: int = 0
    failed: int = 0

    @property
    def share(self) -> float:
        """The share of tasks that are done, from 0 to 1."""
        return self.done / self.tasks if self.tasks else 0.0


def run_job(
    spark: SparkSession,
    action: Callable[[], T],
    *,
    description: str,
    on_progress: Callable[[JobProgress], None] | None = None,
) -> T:
    """Run `action`, which starts Spark jobs and waits for them, and return its result.

    It runs in a separate thread, while this one reports progress. An interrupt (Ctrl-C), or an exception of
    `on_progress`, cancels its jobs. When an exception is raised here, no task is running any longer, so that the files
    of tasks can be removed.

    Raises:
        OmnigraphError: Spark or a task failed; failures are translated.
    """
    if is_connect(spark):
        return _run_tagged(spark, action, on_progress)
    context = spark.sparkContext
    group = f"omnigraph-{draw_bytes(16).hex()}"
    outcome: Future[T] = Future()
    is_over = threading.Event()

    def run() -> None:
        try:
            # An interrupted task is reported as ended immediately, although its Python still runs and may write files.
            # Without the interrupt, the task ends together with its Python.
            context.setJobGroup(group, description, interruptOnCancel=False)
            # The name of a job is where it was called: for all of ours, a line of PySpark's thread.
            context.setLocalProperty(_CALL_SITE, description)
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
            context.cancelJobGroup(group)  # repeatedly: the action may be about to start another job
        _wait_for_tasks(context, group)
        raise
    if outcome.exception() is not None:
        _wait_for_tasks(context, group)
    with surface_errors():
        return outcome.result()


def _run_tagged(spark: SparkSession, action: Callable[[], T], on_progress: Callable[[JobProgress], None] | None) -> T:
    """Run `action` through Spark Connect, whose server reports progress, and cancels operations by a tag.

    It does not tell which tasks still run. Files that those of a cancelled job write later are left to recovery.
    """
    tag = f"omnigraph-{draw_bytes(16).hex()}"
    outcome: Future[T] = Future()
    is_over = threading.Event()
    latest = JobProgress()

    def run() -> None:
        try:
            spark.addTag(tag)  # of this thread only
            outcome.set_result(action())
        except BaseException as error:  # noqa: BLE001 - raised again below, in the caller's thread
            outcome.set_exception(error)
        finally:
            is_over.set()

    def report(stages: "Iterable[StageInfo] | None", inflight_tasks: int, operation_id: str | None, done: bool) -> None:
        nonlocal latest
        del operation_id, done
        counts = [(stage.num_tasks, stage.num_completed_tasks) for stage in stages or ()]
        tasks, completed = (sum(numbers) for numbers in zip(*counts, strict=True)) if counts else (0, 0)
        latest = JobProgress(tasks=tasks, done=completed, active=inflight_tasks)

    handler = cast("ProgressHandler", report)
    spark.registerProgressHandler(handler)
    threading.Thread(target=run, daemon=True, name=tag).start()
    try:
        while not is_over.wait(_POLL_SECONDS):
            if on_progress is not None:
                on_progress(latest)
    except BaseException:
        log.debug("cancelling the operations of %s", tag)
        while not is_over.wait(_POLL_SECONDS):
            spark.interruptTag(tag)  # repeatedly: the action may be about to start another operation
        raise
    finally:
        spark.removeProgressHandler(handler)
    with surface_errors():
        return outcome.result()


def _wait_for_tasks(context: SparkContext, group: str) -> None:
    """Wait until the tasks of a cancelled job have ended; Spark kills their Python after two seconds."""
    try:
        for _ in range(int(_MAX_WAIT_SECONDS / _POLL_SECONDS)):
            if not _read_progress(context, group).active:
                return
            time.sleep(_POLL_SECONDS)
    except (Py4JError, ConnectionError):  # without the JVM, no task runs
        return
    log.warning("tasks of a failed job are still running; recovery will remove their files")


def build_progress_callback(
    call: LoadCall, phase: str, *, rows: Callable[[], int] = lambda: 0, total_bytes: int | None = None
) -> Callable[[JobProgress], None]:
    """Return a callback for `run_job` that reports the progress of a load.

    The share of the bytes that are done is estimated by that of the tasks.
    """

    def report(progress: JobProgress) -> None:
        done = int(progress.share * total_bytes) if total_bytes is not None else 0
        call.report_progress(phase, rows(), done, total_bytes)

    return report


def _read_progress(context: SparkContext, group: str) -> JobProgress:
    tracker = context.statusTracker()
    tasks = done = active = failed = 0
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage in info.stageIds if info is not None else ():
            stage_info = tracker.getStageInfo(stage)
            if stage_info is not None:  # Spark forgets stages that ended long ago
                tasks += stage_info.numTasks
                done += stage_info.numCompletedTasks
                active += stage_info.numActiveTasks
                failed += stage_info.numFailedTasks
    return JobProgress(tasks=tasks, done=done, active=active, failed=failed)
