"""A stream is in the graph exactly once, however often it is interrupted."""

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import omnigraph as og
import spark_streaming
from omnigraph.engine.decoding.record_error import ColumnError
from omnigraph.errors import BadArgumentError
from omnigraph.faults import ArmedFaults, InjectedFaultError
from omnigraph.runtime import Runtime
from omnigraph.spark.spark_errors import SparkUsageError
from omnigraph.spark.stream import structured_streaming as stream_module
from omnigraph.spark.stream.checkpoint import CheckpointTakenError
from omnigraph.spark.stream.structured_streaming import RowMapping
from spark_streaming import MAPPING, SCHEMA, events, expected, found, run, write_events
from worlds import FAST, runtime

FILES = 4
JOB = Path(spark_streaming.__file__)


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.create_graph(str(tmp_path / "g"), SCHEMA, runtime=runtime())


@pytest.fixture
def incoming(tmp_path: Path) -> Path:
    for number in range(FILES):
        write_events(tmp_path / "in", number)
    return tmp_path / "in"


def batches_of(graph: og.Graph) -> list[str]:
    """What batches are known by, oldest first."""
    return [str(one.idempotency_key).rpartition(" ")[2] for one in reversed(graph.commits()) if one.idempotency_key]


def forget_last_batch(checkpoint: Path) -> None:
    """As if Spark had been killed when the last batch was done, before it wrote that down."""
    last = max((path for path in (checkpoint / "commits").iterdir() if path.name.isdigit()), key=lambda p: int(p.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)


def test_a_stream_that_fails_at_every_step_ends_with_exactly_the_input(
    graph: og.Graph, incoming: Path, tmp_path: Path, spark: SparkSession
) -> None:
    for point, nth in (("stream.begun", 2), ("publish.swapped", 2), ("stream.loaded", 1)):
        armed = Runtime(options=FAST, faults=ArmedFaults(point, "error", nth))
        with pytest.raises((InjectedFaultError, og.OutcomeUnknownError)):
            run(og.open_graph(graph.uri, runtime=armed), spark, incoming, tmp_path / "checkpoint")
    run(graph, spark, incoming, tmp_path / "checkpoint")

    assert found(graph) == expected(FILES)
    assert batches_of(graph) == [str(number) for number in range(FILES)]


def test_a_stream_whose_process_is_killed_goes_on(
    graph: og.Graph, incoming: Path, tmp_path: Path, spark: SparkSession
) -> None:
    job = [sys.executable, str(JOB), graph.uri, str(incoming), str(tmp_path / "checkpoint")]
    killed = subprocess.run(job, env={**os.environ, "OMNIGRAPH_FAULT": "stream.loaded@2=kill"}, check=False)
    after_the_kill = batches_of(graph)
    write_events(incoming, FILES)
    run(graph, spark, incoming, tmp_path / "checkpoint")

    assert killed.returncode == -signal.SIGKILL
    assert after_the_kill == ["0", "1"]
    assert found(graph) == expected(FILES + 1)


def test_a_batch_is_known_however_many_commits_came_after_it(
    graph: og.Graph, incoming: Path, tmp_path: Path, spark: SparkSession
) -> None:
    run(graph, spark, incoming, tmp_path / "checkpoint")
    forget_last_batch(tmp_path / "checkpoint")
    forgetful = runtime(replace(FAST, idempotency_days=1e-9))

    run(og.open_graph(graph.uri, runtime=forgetful), spark, incoming, tmp_path / "checkpoint")

    assert found(graph) == expected(FILES)


def test_the_data_source_takes_a_stream_exactly_once(
    graph: og.Graph, incoming: Path, tmp_path: Path, spark: SparkSession
) -> None:
    people = graph.spark.spark.read.json(str(incoming)).selectExpr("one as name", "batch as seen").distinct()
    others = people.selectExpr("concat(seen, 'b') as name", "seen").distinct()
    graph.spark.load(nodes={"Person": people.union(others)}, mode="append")
    checkpoint = tmp_path / "checkpoint"
    edges = events(spark, incoming).selectExpr("one as `from`", "other as `to`", "at")
    sink = edges.writeStream.format("omnigraph").options(
        graph=graph.uri, type="Saw", checkpointLocation=str(checkpoint)
    )

    sink.trigger(availableNow=True).start().awaitTermination()
    forget_last_batch(checkpoint)
    sink.trigger(availableNow=True).start().awaitTermination()

    assert found(graph) == expected(FILES)
    assert batches_of(graph) == [str(number) for number in range(FILES)]
    assert not list(Path(graph.uri, "__recovery").glob("*"))


def test_a_bad_record_stops_the_stream_with_its_reason_or_is_put_aside(
    graph: og.Graph, incoming: Path, tmp_path: Path, spark: SparkSession
) -> None:
    (incoming / "999.json").write_text('{"batch": null, "one": "x", "other": "y"}\n', encoding="utf-8")
    frame = events(spark, incoming)

    with pytest.raises(og.LoadError, match=r"`Person\.seen`: expected a whole number .*, got null"):
        run(graph, spark, incoming, tmp_path / "checkpoint")
    stopped = found(graph)
    going_on = graph.spark.stream(
        frame, MAPPING, checkpoint=tmp_path / "checkpoint", until_empty=True, on_error=tmp_path / "refused"
    )
    going_on.wait()

    assert stopped == expected(FILES)
    assert found(graph) == expected(FILES)
    assert [path.name for path in (tmp_path / "refused").iterdir()] == [f"batch-{FILES}"]


def test_a_large_batch_is_loaded_by_executors(
    graph: og.Graph, incoming: Path, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_module, "MAX_LOCAL_ROWS", 1)

    run(graph, spark, incoming, tmp_path / "checkpoint")

    assert found(graph) == expected(FILES)


@pytest.mark.parametrize(
    "rows, is_small",
    [
        ("explode(sequence(1, 500)) as one", True),
        ("explode(sequence(1, 300000)) as one", False),  # one row of the batch
        ("repeat('x', 20000) as one", False),
        ("cast(repeat('x', 20000) as binary) as one", False),
        ("array(repeat('x', 20000)) as one", False),
        ("cast(null as array<string>) as one", True),
    ],
)
def test_a_batch_is_as_large_as_what_its_mapping_makes_of_it(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, rows: str, is_small: bool
) -> None:
    monkeypatch.setattr(stream_module, "MAX_LOCAL_BYTES", 10_000)
    batch = spark.range(1)

    assert stream_module.has_small_rows([batch, batch.selectExpr(rows)]) is is_small


def test_a_batch_with_too_many_bad_records_is_tried_again_when_more_are_allowed(
    graph: og.Graph, tmp_path: Path, spark: SparkSession
) -> None:
    write_events(tmp_path / "in", 0)
    bad = "".join(f'{{"batch": null, "one": "x{number}", "other": "y"}}\n' for number in range(3))
    (tmp_path / "in" / "999.json").write_text(bad, encoding="utf-8")
    refused = tmp_path / "refused"

    def start(most: int) -> None:
        frame = events(spark, tmp_path / "in")
        graph.spark.stream(
            frame, MAPPING, checkpoint=tmp_path / "c", until_empty=True, on_error=refused, max_errors=most
        ).wait()

    with pytest.raises(og.LoadError, match=r"the bad records and their reasons are in .*batch-1"):
        start(1)
    start(100)

    assert found(graph) == expected(1)
    assert sorted(path.name for path in (refused / "batch-1").iterdir()) == ["reasons.jsonl", "rejected.jsonl"]


def test_refused_records_of_a_batch_are_there_when_the_driver_died_behind_its_commit(
    graph: og.Graph, tmp_path: Path, spark: SparkSession
) -> None:
    write_events(tmp_path / "in", 0)
    with (tmp_path / "in" / "000.json").open("a") as file:
        file.write('{"batch": null, "one": "x", "other": "y"}\n')
    refused = tmp_path / "refused" / "batch-0"

    def start(actor: str) -> None:
        frame = events(spark, tmp_path / "in")
        graph.spark.stream(
            frame, MAPPING, checkpoint=tmp_path / "c", until_empty=True, on_error=tmp_path / "refused", actor=actor
        ).wait()

    start("one")
    forget_last_batch(tmp_path / "c")
    for name in ("rejected.jsonl", "reasons.jsonl"):
        (refused / name).rename(refused / f".{name}.new")  # as a driver leaves it that dies right behind the commit
    start("another")

    assert found(graph) == expected(1)
    assert sorted(path.name for path in refused.iterdir()) == ["reasons.jsonl", "rejected.jsonl"]


def test_a_checkpoint_belongs_to_one_branch_of_one_graph(graph: og.Graph, tmp_path: Path, spark: SparkSession) -> None:
    write_events(tmp_path / "in", 0)
    run(graph, spark, tmp_path / "in", tmp_path / "checkpoint")
    elsewhere = og.create_graph(str(tmp_path / "other"), SCHEMA, runtime=runtime())
    graph.branches.create("review")

    for door in (elsewhere.spark, graph.spark.at(branch="review")):
        with pytest.raises(CheckpointTakenError, match=r"is the checkpoint of a stream into .* would miss every row"):
            door.stream(events(spark, tmp_path / "in"), MAPPING, checkpoint=tmp_path / "checkpoint")


def failing(batch: DataFrame) -> dict[str, DataFrame]:
    """A mapping that does not work."""
    raise KeyError(batch.columns[0])


@pytest.mark.parametrize(
    "mapping, message",
    [(failing, "the function failed: KeyError: 'batch'"), (lambda _: ["Person"], "must return DataFrames by type")],
)
def test_a_function_that_makes_no_rows_stops_the_stream_with_its_reason(
    graph: og.Graph, incoming: Path, tmp_path: Path, spark: SparkSession, mapping: RowMapping, message: str
) -> None:
    stream = graph.spark.stream(events(spark, incoming), mapping, checkpoint=tmp_path / "checkpoint", until_empty=True)

    with pytest.raises(SparkUsageError, match=message):
        stream.wait()


@pytest.mark.parametrize(
    "mapping, message",
    [
        ({}, "it names no types"),
        ({"Persn": {"name": "one"}}, "did you mean `Person`"),
        ({"Person": []}, "it names no columns"),
        ({"Person": [{"name": "one", "seen": "batch"}, {"name": "other"}]}, "not all have `seen`"),
        ({"Person": {"name": "nobody + 1"}}, "nobody"),
        ({"Person": {"nme": "one", "seen": "batch"}}, 'unknown column "nme".*did you mean `name`'),
        ({"Person": {"seen": "batch"}}, "there is no column `name`, which is the key"),
        ("Person", 'unknown columns for `Person`: "batch"'),
    ],
)
def test_a_mapping_that_can_not_be_meant_is_refused(
    graph: og.Graph, incoming: Path, tmp_path: Path, spark: SparkSession, mapping: RowMapping, message: str
) -> None:
    with pytest.raises((SparkUsageError, og.TypeMissingError, ColumnError), match=message):
        graph.spark.stream(events(spark, incoming), mapping, checkpoint=tmp_path / "checkpoint")


@pytest.mark.parametrize(
    "given, message", [({"mode": "overwrite"}, "use merge or append"), ({"every": "often"}, "such as `10 seconds`")]
)
def test_an_argument_that_can_not_be_meant_is_refused(
    graph: og.Graph, incoming: Path, tmp_path: Path, spark: SparkSession, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadArgumentError, match=message):
        graph.spark.stream(events(spark, incoming), MAPPING, checkpoint=tmp_path / "checkpoint", **given)


def test_a_frame_that_ends_is_no_stream(graph: og.Graph, tmp_path: Path, spark: SparkSession) -> None:
    with pytest.raises(BadArgumentError, match="use `load`"):
        graph.spark.stream(spark.range(1).toDF("name"), "Person", checkpoint=tmp_path / "checkpoint")


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_a_stream_that_is_killed_ten_times_at_random_ends_with_exactly_the_input(
    graph: og.Graph, tmp_path: Path, spark: SparkSession
) -> None:
    files = 60
    for number in range(files):
        write_events(tmp_path / "in", number)
    chance = random.Random(20260105)
    job = [sys.executable, str(JOB), graph.uri, str(tmp_path / "in"), str(tmp_path / "checkpoint")]

    kills = 0
    while kills < 10:
        before = len(graph.commits())
        with subprocess.Popen(job, start_new_session=True) as process:
            while len(graph.commits()) == before and process.poll() is None:
                time.sleep(0.05)
            time.sleep(chance.uniform(0, 3))
            assert process.poll() is None, "the stream ended before it was killed: give it more files"
            os.killpg(process.pid, signal.SIGKILL)
        kills += 1
    run(graph, spark, tmp_path / "in", tmp_path / "checkpoint")

    assert found(graph) == expected(files)
    assert batches_of(graph) == [str(number) for number in range(files)]
