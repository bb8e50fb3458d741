"""Loads on Spark: one commit or nothing, exactly once, whatever tasks, executors and callers do."""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import omnigraph as og
from crash.jobs import leftovers
from load_calls import Record, edge, files_below, loaded, node, person, source
from mutating import column, new_graph, rows, run
from omnigraph.commit.sidecar import FencedError
from omnigraph.engine.decoding.record_error import ColumnError
from omnigraph.faults import ArmedFaults
from omnigraph.ops.load import GraphSource, LoadCall, LoadError, LoadInput, LoadMode, LoadResult, Progress, TypedSource
from omnigraph.spark.load.frame_digest import digest_frames
from omnigraph.spark.load.load_engine import SparkLoadOptions
from omnigraph.spark.load.load_input import SparkInput
from omnigraph.spark.load.load_jobs import LoadJobs
from omnigraph.spark.load.load_spec import LoadSpec
from omnigraph.spark.load.load_task import StageWork, run_splits
from omnigraph.spark.load.row_filter import StoredRows, Wanted
from omnigraph.spark.spark_errors import SparkFailedError, SparkInputError
from raised_codes import has_code
from spark_loading import APART, SMALL, exported, file_of, left_over, reasons, spark_loaded, texts
from worlds import runtime

PEOPLE = [*(person(f"p{number}", age=number) for number in range(40))]
KNOWS = [*(edge("Knows", f"p{number}", f"p{number * 7 % 40}") for number in range(40))]


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return new_graph(tmp_path)


def opened(graph: og.Graph, faults: object) -> og.Graph:
    """Another handle, with faults."""
    return og.open_graph(graph.uri, runtime=replace(runtime(), faults=faults))  # type: ignore[arg-type]


def settled(graph: og.Graph) -> None:
    """Nothing is left but what commits use."""
    assert left_over(graph) == []
    assert leftovers(graph._session, ("nodes", "edges"))["orphans"] == []


# --- what it gives -----------------------------------------------------------------------------------


def test_splits_on_executors_and_on_the_driver_give_one_commit(
    spark: SparkSession, graph: og.Graph, tmp_path: Path
) -> None:
    data = file_of(tmp_path, *KNOWS, *PEOPLE)

    result = spark_loaded(spark, graph, "append", data, APART)

    assert result.commit_id == graph.snapshot().commit.id
    assert (result.nodes["Person"].inserted, result.edges["Knows"].inserted) == (40, 40)
    assert len(rows(graph, "Person")) == len(rows(graph, "Knows")) == 40
    settled(graph)


def test_rows_of_a_data_frame_are_loaded(spark: SparkSession, graph: og.Graph) -> None:
    people = spark.range(100).selectExpr("concat('p', id) as name", "cast(id % 90 as int) as age")
    knows = spark.range(100).selectExpr("concat('p', id) as `from`", "concat('p', 99 - id) as `to`")
    given = LoadInput(
        typed=(
            TypedSource(type="Person", is_edge=False, data=people),
            TypedSource(type="Knows", is_edge=True, data=knows),
        )
    )

    result = spark_loaded(spark, graph, "append", given)

    assert (result.nodes["Person"].inserted, result.edges["Knows"].inserted) == (100, 100)
    assert sorted(column(graph, "Knows", "src")) == sorted(f"p{number}" for number in range(100))
    settled(graph)


def test_what_spark_has_partitioned_is_loaded_with_its_columns(
    spark: SparkSession, graph: og.Graph, tmp_path: Path
) -> None:
    people = spark.range(0, 20, 1, 2).selectExpr("concat('p', id) as name", "nullif(id % 3, 0) as age")
    for name in ("parquet", "csv"):
        people.write.partitionBy("age").option("header", value=True).format(name).save(str(tmp_path / name))

    for name, mode in (("parquet", "append"), ("csv", "merge")):
        given = LoadInput(typed=(TypedSource(type="Person", is_edge=False, data=tmp_path / name),))
        result = spark_loaded(spark, graph, mode, given, APART)
        counts = result.nodes["Person"]
        assert (counts.inserted, counts.updated, counts.unchanged) == ((20, 0, 0) if mode == "append" else (0, 0, 20))

    ages = dict(zip(column(graph, "Person", "name"), column(graph, "Person", "age"), strict=True))
    assert ages == {f"p{number}": number % 3 or None for number in range(20)}
    settled(graph)


def test_a_bad_row_of_a_data_frame_is_told_with_its_partition(spark: SparkSession, graph: og.Graph) -> None:
    people = spark.range(0, 10, 1, 2).selectExpr("concat('p', id % 9) as name", "cast(id as int) as age")
    given = LoadInput(typed=(TypedSource(type="Person", is_edge=False, data=people),))

    with pytest.raises(LoadError) as refused:
        spark_loaded(spark, graph, "append", given)

    told = [str(problem) for problem in refused.value.problems]
    first = "first in <nodes Person, partition 0>, row 1"
    assert told == [f"<nodes Person, partition 1>, row 5: Person 'p0' appears twice: {first}"]
    settled(graph)


@pytest.mark.parametrize("mode", ["append", "merge"])
@pytest.mark.parametrize(
    "columns, told",
    [
        (["cast(id as int) as age"], "there is no column `name`, which is the key"),
        (["concat('p', id) as name", "1 as agge"], 'unknown column "agge" for `Person`; did you mean `age`?'),
    ],
)
def test_columns_that_can_not_be_loaded_are_told_before_a_job_starts(
    spark: SparkSession, graph: og.Graph, mode: str, columns: list[str], told: str
) -> None:
    given = LoadInput(typed=(TypedSource(type="Person", is_edge=False, data=spark.range(10).selectExpr(*columns)),))
    jobs = len(spark.sparkContext.statusTracker().getJobIdsForGroup(None))

    with pytest.raises(ColumnError) as refused:
        spark_loaded(spark, graph, mode, given)

    assert str(refused.value) == f"<nodes Person>: {told}"
    assert len(spark.sparkContext.statusTracker().getJobIdsForGroup(None)) == jobs
    settled(graph)


def shuffled(spark: SparkSession, pairs: list[tuple[str, str]]) -> DataFrame:
    """Edges that come in another order whenever they are asked for."""
    chance = f.udf(lambda _: random.random(), "double").asNondeterministic()
    frame = spark.createDataFrame(pairs, "from string, to string").coalesce(1)
    return frame.withColumn("chance", chance("from")).sortWithinPartitions("chance").drop("chance")


@pytest.mark.parametrize("on_error", [None, "aside"])
def test_a_data_frame_whose_rows_change_places_is_refused_when_it_has_bad_ones(
    spark: SparkSession, graph: og.Graph, tmp_path: Path, on_error: str | None
) -> None:
    loaded(graph, "append", *PEOPLE)
    before = graph.snapshot().commit.id
    pairs = [(f"p{number % 40}", f"p{number % 7}" if number % 20 else "nobody") for number in range(200)]
    directory = None if on_error is None else tmp_path / on_error

    with pytest.raises(SparkInputError, match="persist"):
        graph.spark.load(edges={"Knows": shuffled(spark, pairs)}, mode="append", on_error=directory)

    assert graph.snapshot().commit.id == before
    settled(graph)


def test_a_stream_is_loaded_once(spark: SparkSession, graph: og.Graph) -> None:
    result = spark_loaded(spark, graph, "append", LoadInput(graph=(source(*PEOPLE),)))

    assert result.nodes["Person"].inserted == 40
    settled(graph)


def test_a_request_that_comes_twice_is_done_once(spark: SparkSession, graph: og.Graph, tmp_path: Path) -> None:
    data = file_of(tmp_path, *PEOPLE)

    first = spark_loaded(spark, graph, "append", data, idempotency_key="k")
    second = spark_loaded(spark, graph, "append", data, idempotency_key="k")

    assert first == second
    assert len(rows(graph, "Person")) == 40


def test_a_key_of_a_load_on_spark_is_none_for_other_files(spark: SparkSession, graph: og.Graph, tmp_path: Path) -> None:
    spark_loaded(spark, graph, "append", file_of(tmp_path, *PEOPLE), idempotency_key="k")

    with pytest.raises(og.KeyReusedError, match="`load of something else`"):
        spark_loaded(spark, graph, "append", file_of(tmp_path, *PEOPLE[1:]), idempotency_key="k")


def test_a_dataframe_is_known_again_by_its_rows_in_any_order(spark: SparkSession, graph: og.Graph) -> None:
    people = spark.createDataFrame([("a", 1), ("b", None), ("c", 3)], "name string, age int")
    others = spark.createDataFrame([("a", 1), ("b", 2), ("c", None)], "name string, age int")
    load = partial(graph.spark.load, mode="append", idempotency_key="k")

    first = load(nodes={"Person": people})
    again = load(nodes={"Person": people.orderBy(f.desc("name")).repartition(2)})
    with pytest.raises(og.KeyReusedError):
        load(nodes={"Person": others})

    assert again == first
    assert len(rows(graph, "Person")) == 3


def test_where_nulls_are_is_part_of_the_digest_of_a_dataframe(spark: SparkSession) -> None:
    frames = [spark.createDataFrame([row], "x string, y string") for row in (("v", None), (None, "v"))]
    digests = [
        digest_frames(LoadInput(typed=(TypedSource(type="Person", is_edge=False, data=frame),))) for frame in frames
    ]

    assert digests[0] != digests[1]


def test_blobs_by_uri_are_read_by_tasks(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs" / "a").write_bytes(b"abc")
    options = replace(runtime().options, blob_sources=(f"file://{tmp_path}/blobs",))
    graph = og.create_graph(
        str(tmp_path / "g"), "node Doc { name: String @key  body: Blob? }", runtime=replace(runtime(), options=options)
    )
    good = [node("Doc", name=f"d{number}", body=f"file://{tmp_path}/blobs/a") for number in range(5)]
    data = file_of(tmp_path, *good, node("Doc", name="d0", body=f"file://{tmp_path}/blobs/a"))

    result = spark_loaded(spark, graph, "append", data, on_error=tmp_path / "bad", max_errors=None)

    assert (result.nodes["Doc"].inserted, result.rejected) == (5, 1)
    found = [graph.blob("Doc", f"d{number}", "body") for number in range(5)]
    assert [one.read() if one is not None else None for one in found] == [b"abc"] * 5
    assert f"file://{tmp_path}/blobs/a" in (tmp_path / "bad" / "rejected.jsonl").read_text()
    settled(graph)


def test_values_behind_a_blob_are_compared_as_they_are(spark: SparkSession, tmp_path: Path) -> None:
    others = "  ".join(f"c{number}: String?" for number in range(6))
    schema = f"node Doc {{ body: Blob?  code: String? @unique  {others}  name: String @key }}"
    graph = og.create_graph(str(tmp_path / "g"), schema, runtime=runtime())
    more = {f"c{number}": "same" for number in range(6)}
    good = [node("Doc", name=f"d{number}", code=f"x{number}", body="base64:AAA=", **more) for number in range(5)]
    data = file_of(tmp_path, *good, node("Doc", name="d9", code="x3", **more))

    result = spark_loaded(spark, graph, "append", data, APART, on_error=tmp_path / "bad")

    assert (result.nodes["Doc"].inserted, result.rejected) == (5, 1)
    assert [one["message"] for one in reasons(tmp_path / "bad")] == [
        "@unique violation on Doc.code: 'x3' is held by 'd3' and 'd9'"
    ]
    assert sorted(one["code"] for one in rows(graph, "Doc", "code")) == [f"x{number}" for number in range(5)]


def test_an_overwrite_leaves_no_edge_hanging_whose_own_records_were_all_refused(
    spark: SparkSession, graph: og.Graph, tmp_path: Path
) -> None:
    loaded(graph, "append", person("old"), person("new"), edge("Knows", "old", "old"))
    data = file_of(tmp_path, person("new"), edge("Knows", "new", "nobody"))

    with pytest.raises(LoadError, match=r"Knows\.from: Person 'old' would be removed, but the edge .* stays") as told:
        spark_loaded(spark, graph, "overwrite", data, APART, on_error=tmp_path / "bad")

    assert told.value.total == 3
    assert column(graph, "Person", "name") == ["new", "old"]
    settled(graph)


# --- tasks that fail, come twice, or come too late ------------------------------------------------------


@pytest.mark.parametrize("action, point", [("error", "task.begun"), ("kill", "task.staged")])
def test_tasks_that_fail_and_are_tried_again_load_every_row_once(
    spark: SparkSession, graph: og.Graph, tmp_path: Path, action: str, point: str
) -> None:
    data = file_of(tmp_path, *KNOWS[:9], *PEOPLE)

    result = spark_loaded(spark, opened(graph, ArmedFaults(point, action)), "append", data)

    assert result.nodes["Person"].inserted == 40
    assert len(rows(graph, "Person")) == 40
    settled(graph)


def test_what_two_tasks_of_one_split_write_is_loaded_once(
    spark: SparkSession, graph: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one is done before the phase is: its files go with the phase."""
    data = file_of(tmp_path, *PEOPLE)
    take_over = SparkInput.take_over

    def beside(given: SparkInput, *rest: object) -> object:
        assert [one.split for one in run_splits(given.spec, 1, [[0, 1]], StageWork())] == [0, 1]
        return take_over(given, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(SparkInput, "take_over", beside)
    spark_loaded(spark, graph, "append", data)

    assert len(rows(graph, "Person")) == 40
    settled(graph)


def test_a_task_that_outlives_its_phase_leaves_nothing(graph: og.Graph, tmp_path: Path) -> None:
    """One has begun before the phase is closed, and is done with a file behind that; another begins behind it."""
    call = LoadCall(
        input=LoadInput(graph=(GraphSource(data=file_of(tmp_path, *PEOPLE)),)), mode=LoadMode.APPEND, actor="test"
    )
    before = files_below(graph)
    given = SparkInput(graph._session, call, graph._session.head(), split_bytes=200)
    armed, phases = given.begin(keeps_staged=True)
    late = Path(graph.uri, "nodes", "late.lance")

    with phases.open_phase() as phase:
        note = given.spec.create_worker().begin_journal(phase.number, 0)
    late.write_bytes(b"x")
    with pytest.raises(FencedError, check=has_code("phase_closed")):
        note.on_complete(["nodes/late.lance"])
    with pytest.raises(FencedError, check=has_code("phase_closed")):
        list(run_splits(given.spec, phase.number, [[0]], StageWork()))
    armed.lease.disarm()
    given.close()

    assert files_below(graph) == before


# --- callers that give up ----------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_an_interrupted_load_leaves_nothing_and_the_next_one_works(
    spark: SparkSession, graph: og.Graph, tmp_path: Path, mode: str
) -> None:
    data = file_of(tmp_path, *PEOPLE * 200 if mode == "merge" else PEOPLE)
    before = files_below(graph)

    def interrupt(progress: Progress) -> None:
        if progress.phase == "read":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        spark_loaded(spark, graph, mode, data, progress=interrupt)
    after = files_below(graph)
    result = spark_loaded(spark, graph, "append", file_of(tmp_path, *PEOPLE, name="again.jsonl"))

    assert after == before
    assert result.nodes["Person"].inserted == 40
    settled(graph)


def test_a_job_that_somebody_cancels_leaves_nothing(spark: SparkSession, graph: og.Graph, tmp_path: Path) -> None:
    data = file_of(tmp_path, *PEOPLE * 400)
    before = files_below(graph)

    def cancel(progress: Progress) -> None:
        if progress.phase == "read":
            spark.sparkContext.cancelAllJobs()

    with pytest.raises((SparkFailedError, LoadError)) as failed:
        spark_loaded(spark, graph, "append", data, SparkLoadOptions(split_bytes=2000), progress=cancel)

    assert isinstance(failed.value, SparkFailedError)
    assert failed.value.code == "job_cancelled"
    assert files_below(graph) == before


def test_a_task_that_fails_for_good_is_one_readable_message(
    spark: SparkSession, graph: og.Graph, tmp_path: Path
) -> None:
    data = tmp_path / "people.parquet"
    data.write_bytes(b"this is not Parquet")
    given = LoadInput(typed=(TypedSource(type="Person", is_edge=False, data=data),))
    before = files_below(graph)

    with pytest.raises(og.OmnigraphError) as failed:
        spark_loaded(spark, graph, "append", given)

    assert failed.value.code == "file_damaged"
    assert "Traceback" not in str(failed.value)
    assert files_below(graph) == before


# --- others at work ------------------------------------------------------------------------------------


class Meanwhile:
    """Faults that do something else, once, when the load has staged its rows; and count the phases."""

    def __init__(self, first: Callable[[], object]) -> None:
        self._waiting = [first]
        self.reached: list[str] = []

    def reach(self, point: str) -> None:
        """Called on the driver."""
        self.reached.append(point)
        if point == "publish.staged" and self._waiting:
            self._waiting.pop()()


Outcome = LoadResult | str


def outcome(call: Callable[[], LoadResult]) -> Outcome:
    """The result without its commit, or what is said, without versions."""
    try:
        return msgspec.structs.replace(call(), commit_id=None, quarantine=None)
    except LoadError as error:
        return str(error)
    except og.OmnigraphError as error:
        told = f"{error.code}: {getattr(error, 'table_key', '')} {getattr(error, 'reason', error)}"
        return re.sub("[0-9A-HJKMNP-TV-Z]{26}", "(made)", told)


RACES: dict[str, tuple[str, str, list[Record]]] = {
    "others insert other rows": ('insert Person { name: "z" }', "append", [person("n"), edge("Knows", "n", "a")]),
    "the id is taken": ('insert Person { name: "n" }', "append", [person("n")]),
    "the id was moved, not taken": ('update Person set { age: 5 } where name = "a"', "append", [person("n")]),
    "the unique value is taken": ('insert Person { name: "z", email: "x@" }', "append", [person("n", email="x@")]),
    "the node at the end goes": ('delete Person where name = "b"', "append", [edge("Knows", "a", "b")]),
    "the last place of the source is taken": (
        'insert Leads { from: "t", to: "b" }',
        "append",
        [edge("Leads", "t", "c")],
    ),
    "the overwritten table is changed": ('insert Person { name: "z" }', "overwrite", [person("a"), person("b")]),
    "a node that goes gets an edge": (
        'insert Leads { from: "t", to: "c" }',
        "overwrite",
        [person("a"), person("b")],
    ),
}
SEED = (
    'insert Person { name: "a" } insert Person { name: "b" } insert Person { name: "c" }'
    ' insert Team { name: "t" } insert Leads { from: "t", to: "a" }'
)
AFTER_REBASE = frozenset({"others insert other rows", "the id was moved, not taken"})


def raced(
    spark: SparkSession, place: Path, name: str, *, leaves_out: bool, loading: SparkLoadOptions = SMALL
) -> tuple[list[tuple[object, ...]], list[Meanwhile]]:
    """How a race ends in one process and on Spark: what is told, what is kept aside, what the graph holds."""
    other, mode, records = RACES[name]
    data = file_of(place, *records, *((person("twice"), person("twice")) if leaves_out else ()))
    given = LoadInput(graph=(GraphSource(data=data),))
    ends: list[tuple[object, ...]] = []
    seen: list[Meanwhile] = []
    for engine in ("local", "spark"):
        (place / engine).mkdir()
        graph = new_graph(place / engine)
        run(graph, SEED)
        seen.append(Meanwhile(partial(run, graph, other)))
        beside = opened(graph, seen[-1])
        kept = place / f"bad-{engine}"
        options: dict[str, Any] = {"on_error": kept} if leaves_out else {}
        call = (
            partial(loaded, beside, mode, inputs=given, **options)
            if engine == "local"
            else partial(spark_loaded, spark, beside, mode, data, loading, **options)
        )
        ends.append((outcome(call), reasons(kept), texts(kept), exported(graph)))
        settled(graph)
    return ends, seen


@pytest.mark.parametrize("name", RACES)
def test_a_load_beside_another_writer_ends_as_in_one_process(spark: SparkSession, tmp_path: Path, name: str) -> None:
    (local, on_spark), seen = raced(spark, tmp_path, name, leaves_out=False)

    assert on_spark == local
    if name in AFTER_REBASE:  # the requirements were checked again, and nothing was staged again
        assert seen[1].reached.count("publish.staged") == seen[1].reached.count("phase.open") == 1


@pytest.mark.parametrize("name", ["others insert other rows", "the id is taken", "the node at the end goes"])
def test_a_load_that_leaves_records_out_beside_another_writer_ends_as_in_one_process(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    (local, on_spark), _ = raced(spark, tmp_path, name, leaves_out=True)

    assert on_spark == local


@pytest.mark.parametrize(
    "name",
    [
        "others insert other rows",
        "the unique value is taken",
        "the last place of the source is taken",
        "a node that goes gets an edge",
    ],
)
def test_a_load_that_is_rebased_reads_its_rows_in_tasks(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    by_tasks: list[bool] = []
    filter_rows = LoadJobs.filter_rows

    def watched(self: LoadJobs, spec: LoadSpec, parts: Sequence[StoredRows], wanted: Wanted) -> Any:
        batches = filter_rows(self, spec, parts, wanted)
        by_tasks.append(batches is not None)
        return batches

    monkeypatch.setattr(LoadJobs, "filter_rows", watched)

    loading = replace(APART, max_local_rebase_rows=0)

    (local, on_spark), _ = raced(spark, tmp_path, name, leaves_out=False, loading=loading)

    assert on_spark == local
    assert by_tasks
    assert all(by_tasks)
