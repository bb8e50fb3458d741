"""A job on Spark is watched, and stopped with whoever started it."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from omnigraph.engine.bulk.load_batch import LoadMode
from omnigraph.errors import FileMissingError
from omnigraph.ops.load_call import LoadCall, Progress
from omnigraph.ops.load_inputs import LoadInput
from omnigraph.spark.session.error_translation import carry_errors
from omnigraph.spark.session.job_monitor import JobProgress, build_progress_callback, run_job
from omnigraph.spark.spark_errors import SparkInputError
from raised_codes import has_code


def is_idle(spark: SparkSession) -> bool:
    return not spark.sparkContext.statusTracker().getActiveJobsIds()


def test_a_job_tells_how_many_of_its_tasks_are_done(spark: SparkSession, tmp_path: Path) -> None:
    told: list[JobProgress] = []
    seen = tmp_path / "seen"

    def tell(progress: JobProgress) -> None:
        told.append(progress)
        if 0 < progress.share < 1:
            seen.touch()

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            while (
                batch.column(0)[0].as_py() == 3 and not seen.exists()
            ):  # the last one ends when the others were told of
                time.sleep(0.02)
            yield batch

    frame = spark.range(0, 4, numPartitions=4).mapInArrow(task, "id long")
    rows = run_job(spark, frame.collect, description="slow", on_progress=tell)

    assert len(rows) == 4
    assert {progress.tasks for progress in told} <= {0, 4}
    assert [progress.done for progress in told] == sorted(progress.done for progress in told)
    assert any(0 < progress.share < 1 for progress in told)


def beating(path: Path) -> Callable[[], None]:
    """Work for a minute that everybody sees; a function of its own, since tasks can't import this module."""

    def beat() -> None:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            with path.open("a") as file:
                file.write("x")
            time.sleep(0.02)

    return beat


def beats_no_more(path: Path) -> bool:
    """Whether nobody is at work there any more: for fifty times as long as a beat takes."""
    before = path.stat().st_size
    time.sleep(1)
    return path.stat().st_size == before


@pytest.mark.parametrize("stop", [KeyboardInterrupt, RuntimeError])
def test_an_interrupt_stops_the_job_too(spark: SparkSession, tmp_path: Path, stop: type[BaseException]) -> None:
    def tell(progress: JobProgress) -> None:
        if progress.tasks and (tmp_path / "beats").exists():
            raise stop

    beat = beating(tmp_path / "beats")

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        beat()
        yield from batches

    with pytest.raises(stop):
        run_job(
            spark, spark.range(1).mapInArrow(task, "id long").collect, description="to be stopped", on_progress=tell
        )

    assert is_idle(spark)
    assert beats_no_more(tmp_path / "beats")


def test_when_a_job_has_failed_no_task_of_it_is_left(spark: SparkSession, tmp_path: Path) -> None:
    beat = beating(tmp_path / "beats")

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.column(0)[0].as_py() == 0:
                while not (tmp_path / "beats").exists():
                    time.sleep(0.02)
                raise LookupError
            beat()
            yield batch

    with pytest.raises(SparkInputError, check=has_code("task_failed")):
        run_job(spark, spark.range(0, 2, numPartitions=2).mapInArrow(task, "id long").collect, description="half bad")

    assert beats_no_more(tmp_path / "beats")


def test_an_error_of_a_task_is_raised_as_ours(spark: SparkSession) -> None:
    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carry_errors():
            yield from batches
            raise FileMissingError("people.jsonl")

    with pytest.raises(FileMissingError, match="people"):
        run_job(spark, spark.range(1).mapInArrow(task, "id long").collect, description="bad")


def test_the_job_group_of_the_caller_stays(spark: SparkSession) -> None:
    context = spark.sparkContext
    context.setJobGroup("mine", "my own")

    run_job(spark, spark.range(1).count, description="other")

    assert context.getLocalProperty("spark.jobGroup.id") == "mine"
    context.setJobGroup("", "")


def test_a_load_tells_bytes_by_the_share_of_its_tasks() -> None:
    told: list[Progress] = []
    call = LoadCall(input=LoadInput(), mode=LoadMode.APPEND, actor="test", progress=told.append)

    build_progress_callback(call, "read", rows=lambda: 30, total_bytes=1000)(JobProgress(tasks=4, done=1))

    assert told == [Progress(phase="read", rows=30, bytes=250, total_bytes=1000)]
