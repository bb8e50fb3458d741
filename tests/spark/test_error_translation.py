"""A failure on Spark reaches the caller as one typed error with one message, and no Java in it."""

import gc
import logging
import os
import pickle
import threading
from collections.abc import Callable, Iterator
from typing import NoReturn

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource

from omnigraph.bug_error import BugError
from omnigraph.engine.bulk.load_errors import LoadError, Problem
from omnigraph.engine.decoding.record_error import RecordError
from omnigraph.errors import FileMissingError, OmnigraphError
from omnigraph.spark.session.error_translation import carry_errors, surface_errors, translate_error
from omnigraph.spark.spark_errors import SparkFailedError, SparkInputError, SparkUsageError

Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
PROBLEM = Problem(
    rule="unique", file="in.jsonl", line=3, unit="line", type="T", property="p", value="1", message="it is taken"
)


def raising(error: BaseException) -> Task:
    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carry_errors():
            for batch in batches:
                yield batch
                raise error

    return task


def run(spark: SparkSession, task: Task) -> OmnigraphError:
    """The error of a job with one task."""
    with pytest.raises(OmnigraphError) as caught, surface_errors():
        spark.range(0, 3, numPartitions=1).mapInArrow(task, "id long").collect()
    assert "\tat " not in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    "error",
    [
        FileMissingError("people.jsonl"),
        RecordError("in.jsonl", 7, "Person", "age", '"old"', "it is no number"),
        LoadError([PROBLEM], 2, "bad"),
    ],
    ids=lambda error: error.code,
)
def test_an_error_of_ours_arrives_with_its_facts(spark: SparkSession, error: OmnigraphError) -> None:
    found = run(spark, raising(error))

    assert type(found) is type(error)
    assert str(found) == str(error)
    assert found.facts() == error.facts()
    assert found.__cause__ is None


def test_a_bug_in_a_task_says_what_and_where(spark: SparkSession) -> None:
    found = run(spark, raising(ValueError("no\nsuch thing")))

    assert isinstance(found, BugError)
    assert found.code == "task_broken"
    reason, place = found.args
    assert reason == "ValueError: no"
    assert place.startswith("test_error_translation.py:")


def test_a_function_of_the_user_that_fails_is_not_our_bug(spark: SparkSession) -> None:
    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        raise LookupError("nothing there")

    found = run(spark, task)

    assert isinstance(found, SparkInputError)
    assert found.code == "task_failed"
    assert found.facts()["reason"] == "LookupError: nothing there"


def test_python_that_dies_on_an_executor_is_told_so(spark: SparkSession) -> None:
    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        os._exit(9)
        yield from batches

    found = run(spark, task)

    assert isinstance(found, SparkFailedError)
    assert found.code == "executor_lost"
    assert "its Python process died" in str(found)


def test_an_executor_without_omnigraph_is_told_what_to_do(spark: SparkSession) -> None:
    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        raise ModuleNotFoundError("No module named 'omnigraph'")

    found = run(spark, task)

    assert isinstance(found, SparkUsageError)
    assert found.code == "executor_not_ready"
    assert "--py-files" in str(found)


def lacking() -> type[DataSource]:
    """A source whose process can't import what it needs, as it is on a machine that lacks omnigraph.

    It is made here because Spark's processes can't import this file.
    """

    class Lacking(DataSource):
        @classmethod
        def name(cls) -> str:
            return "lacking"

        def schema(self) -> str:
            raise ModuleNotFoundError(self.options["said"])

    return Lacking


@pytest.mark.parametrize(
    "said, kind, reason",
    [
        ("No module named 'omnigraph'", SparkUsageError, "its Python lacks omnigraph"),
        ("No module named 'other'", SparkInputError, "ModuleNotFoundError: No module named 'other'"),
    ],
)
def test_a_source_that_breaks_while_spark_plans_is_no_mistake_in_sql(
    spark: SparkSession, said: str, kind: type[OmnigraphError], reason: str
) -> None:
    spark.dataSource.register(lacking())

    with pytest.raises(kind, match=reason) as caught, surface_errors():
        spark.read.format("lacking").option("said", said).load()

    assert "\n" not in str(caught.value)


def test_spark_need_not_look_for_garbage_in_our_modules(spark: SparkSession) -> None:
    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carry_errors():
            for _ in batches:
                yield pa.RecordBatch.from_pydict(
                    {"kept": [gc.get_freeze_count()], "looked_at": [len(gc.get_objects())]}
                )

    found = spark.range(0, 1, numPartitions=1).mapInArrow(task, "kept long, looked_at long").first()

    assert found is not None
    assert found.kept > 10 * found.looked_at


def test_a_job_that_somebody_cancels_is_told_so(spark: SparkSession) -> None:
    started = threading.Event()

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        threading.Event().wait(60)
        yield from batches

    def cancel() -> None:
        started.wait()
        while not spark.sparkContext.statusTracker().getActiveJobsIds():
            threading.Event().wait(0.05)
        spark.sparkContext.cancelAllJobs()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    started.set()
    found = run(spark, task)
    canceller.join()

    assert isinstance(found, SparkFailedError)
    assert found.code == "job_cancelled"


@pytest.mark.parametrize(
    "statement, reason",
    [
        ("selec 1", "Syntax error at or near 'selec'"),
        ("select x from nothing", "The table or view `nothing` cannot be found"),
        ("select nonsense(1)", "Cannot resolve routine `nonsense`"),
    ],
)
def test_a_mistake_in_sql_is_one_line(spark: SparkSession, statement: str, reason: str) -> None:
    with pytest.raises(SparkInputError, match=reason) as caught, surface_errors():
        spark.sql(statement)

    assert "\n" not in str(caught.value)


def test_a_connection_that_is_gone_is_told_so() -> None:
    found = translate_error(ConnectionRefusedError(111, "Connection refused"))

    assert isinstance(found, SparkFailedError)
    assert "its process has ended" in str(found)


def test_the_whole_story_is_in_the_debug_log(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "omnigraph"):
        run(spark, raising(ValueError("no")))

    assert "Traceback (most recent call last)" in caplog.text


def test_what_an_error_carries_can_do_nothing() -> None:
    class Bad:
        def __reduce__(self) -> tuple[object, ...]:
            return os.system, ("true",)

    error = FileMissingError("x")
    vars(error)["path"] = Bad()

    def task() -> NoReturn:
        with carry_errors():
            raise error

    with pytest.raises(Exception, match="there is no file") as carried:
        task()
    found = translate_error(RuntimeError(str(carried.value)))

    assert isinstance(found, SparkFailedError)
    assert "an error could not be read" in str(found)


def test_the_driver_that_gets_no_error_of_ours_says_so() -> None:
    import base64

    text = base64.b64encode(pickle.dumps({"a": 1})).decode()

    assert isinstance(translate_error(RuntimeError(f"[omnigraph:{text}]")), SparkFailedError)
