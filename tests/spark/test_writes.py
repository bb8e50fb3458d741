"""Writes through the data source: one save is one commit, checked as every load."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import cast
from unittest.mock import Mock

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from ulid import ULID

import omnigraph as og
from crash.jobs import leftovers as crash_leftovers
from mutating import run
from omnigraph.commit.task_journal import find_noted_files
from omnigraph.engine.bulk.load_batch import LoadMode
from omnigraph.errors import BadArgumentError
from omnigraph.ops.load import LoadError
from omnigraph.spark.data_source import register
from omnigraph.spark.data_source_writer import BatchSink, WriteTarget
from omnigraph.spark.session.graph_location import GraphLocation
from omnigraph.spark.session.handshake import compute_build
from spark_worlds import all_types_graph, stored
from worlds import runtime

SCHEMA = """
node Person { name: String @key  age: I32?  big: U64? }
edge Knows: Person -> Person { since: Date? }
"""


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.create_graph(str(tmp_path / "g"), SCHEMA, runtime=runtime())
    graph.load([{"type": "Person", "data": {"name": "ada", "age": 36, "big": 7}}], mode="append")
    return graph


def save(frame: DataFrame, graph: og.Graph, type_name: str, *, spark_mode: str = "append", **options: str) -> None:
    graph.spark.spark  # noqa: B018 - makes the data source known
    writer = frame.write.format("omnigraph").mode(spark_mode)
    writer.options(graph=graph.uri, type=type_name, **options).save()


def refused(message: str) -> "pytest.RaisesExc[Exception]":
    """Spark's own error, which quotes ours, and no bytes."""
    plain = lambda error: re.search(message, str(error)) is not None and "[omnigraph:" not in str(error)  # noqa: E731
    return pytest.raises((PySparkException, Py4JError), check=plain)


def people(graph: og.Graph) -> dict[str, tuple[int | None, int | None]]:
    rows = graph.table("Person").to_table().to_pylist()
    return {row["name"]: (row["age"], row["big"]) for row in rows}


def leftovers(graph: og.Graph) -> list[str]:
    return [path.name for path in Path(graph.uri, "__recovery").glob("*")]


def test_a_save_is_one_commit_of_all_its_tasks(graph: og.Graph, spark: SparkSession) -> None:
    before = len(graph.commits())
    rows = spark.range(0, 100, 1, 4).selectExpr("concat('p', id) name", "cast(id as int) age", "cast(id as bigint) big")

    save(rows, graph, "Person", actor="ada", message="hello")

    commit = graph.commits()[0]
    assert len(graph.commits()) == before + 1
    assert (commit.actor, commit.message, commit.affected_nodes) == ("ada", "hello", 100)
    assert people(graph)["p99"] == (99, 99)
    assert leftovers(graph) == []


def fragments_of(graph: og.Graph, key: str) -> int:
    return len(graph._session.open_tables(graph.snapshot()).open_table(key).list_fragments())


def test_tasks_stage_their_rows_and_those_of_a_wrong_save_are_removed(graph: og.Graph, spark: SparkSession) -> None:
    rows = spark.range(0, 20, 1, 4).selectExpr("concat('p', id) name", "cast(id as int) age")

    save(rows, graph, "Person")
    stored = fragments_of(graph, "node:Person")
    with refused(r"<nodes Person>, row 20: Person 'p19' exists already"):
        save(rows, graph, "Person")

    assert stored == 1 + 4
    assert len(people(graph)) == 1 + 20
    assert leftovers(graph) == []
    assert orphans(graph) == []


def orphans(graph: og.Graph) -> list[str]:
    return list(cast("list[str]", crash_leftovers(graph._session, ("nodes", "edges"))["orphans"]))


def opened_sink(graph: og.Graph, monkeypatch: pytest.MonkeyPatch, mode: LoadMode = LoadMode.APPEND) -> BatchSink:
    """A writer whose tasks and commit run in this process."""

    task = Mock(
        **{"partitionId.return_value": 1, "taskAttemptId.return_value": 7, "getLocalProperty.return_value": None}
    )
    monkeypatch.setattr("omnigraph.spark.data_source_writer.TaskContext.get", lambda: task)
    target = WriteTarget(location=GraphLocation(uri=graph.uri), type="Person", mode=mode)
    return BatchSink(target, PEOPLE.schema, str(ULID()), compute_build())


PEOPLE = pa.record_batch({"name": ["ada", "bob"], "age": pa.array([1, 2], pa.int32())})


@pytest.mark.parametrize("change", ["a commit", "the schema"])
def test_what_happens_between_tasks_and_commit_is_seen_by_it(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    sink = opened_sink(graph, monkeypatch)
    written = sink.write(iter([PEOPLE.slice(1)]))
    if change == "a commit":
        run(graph, 'insert Person { name: "bob" }')
    else:
        graph.apply_schema(SCHEMA.replace("age: I32?", "age: I32?  @range(age, 5..40)"))

    with pytest.raises(LoadError, match="exists already" if change == "a commit" else "range"):
        sink.commit([None, written])

    assert (leftovers(graph), orphans(graph)) == ([], [])
    assert "bob" not in people(graph) or change == "a commit"


def test_the_files_of_a_save_are_noted_until_it_ends(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = opened_sink(graph, monkeypatch)
    sink.write(iter([PEOPLE]))
    notes = [name for name in leftovers(graph) if name.endswith(".note")]
    protected = find_noted_files(graph._session.store)

    sink.abort([])

    assert len(notes) == 1
    assert any("/data/" in one for one in protected)
    assert (leftovers(graph), orphans(graph)) == ([], [])


def test_a_merge_keeps_what_its_columns_leave_out(graph: og.Graph, spark: SparkSession) -> None:
    save(spark.createDataFrame([("ada", 37), ("bob", 1)], "name string, age int"), graph, "Person", mode="merge")

    assert people(graph) == {"ada": (37, 7), "bob": (1, None)}


def test_an_overwrite_replaces_the_table_with_nothing_too(graph: og.Graph, spark: SparkSession) -> None:
    empty = spark.createDataFrame([], "name string, age int")

    save(empty, graph, "Person", spark_mode="overwrite")

    assert people(graph) == {}


def test_what_a_load_refuses_is_refused_with_its_message(graph: og.Graph, spark: SparkSession) -> None:
    rows = spark.createDataFrame([("ada", "bob")], "from string, to string")

    with refused(r"LoadError: .*Knows\.to: no Person 'bob'"):
        save(rows, graph, "Knows")

    assert graph.snapshot().pin("edge:Knows").rows == 0
    assert leftovers(graph) == []


def test_a_task_that_fails_leaves_nothing(graph: og.Graph, spark: SparkSession) -> None:
    age = "cast(if(id = 9, raise_error('no'), id) as int) age"
    rows = spark.range(0, 10, 1, 1).selectExpr("concat('p', id) name", age)  # one task: others may outlive an abort

    with refused("no"):
        save(rows, graph, "Person")

    assert people(graph) == {"ada": (36, 7)}
    assert leftovers(graph) == []


def test_a_save_with_a_key_that_was_used_does_nothing(graph: og.Graph, spark: SparkSession) -> None:
    rows = spark.createDataFrame([("ada", "ada")], "from string, to string")

    save(rows, graph, "Knows", idempotency_key="k")
    save(rows, graph, "Knows", idempotency_key="k")

    assert graph.snapshot().pin("edge:Knows").rows == 1


@pytest.mark.parametrize("name", ["Thing", "Link"])
def test_what_was_read_can_be_written_back(name: str, tmp_path: Path, spark: SparkSession) -> None:
    assert spark is not None
    graph = all_types_graph(tmp_path / "g", rows=12)
    before = stored(graph, name)
    rows = graph.spark.table(name)
    if name == "Link":
        rows = rows.withColumnsRenamed({"src": "from", "dst": "to"})

    save(rows.drop("body"), graph, name, mode="merge")
    save(rows, graph, name, mode="merge")

    assert stored(graph, name).equals(before)


@pytest.mark.parametrize(
    "options, message",
    [({"mode": "upsert"}, "not one of append, merge, overwrite"), ({"typ": "x"}, "did you mean `type`")],
)
def test_options_that_can_not_be_meant_are_refused(
    graph: og.Graph, spark: SparkSession, options: dict[str, str], message: str
) -> None:
    with refused(message):
        save(spark.createDataFrame([("x",)], "name string"), graph, "Person", **options)


@pytest.mark.parametrize(
    "columns, message",
    [("name string, agge int", "agge"), ("name string, age string", "I32"), ("name int", "name")],
)
def test_columns_that_can_not_be_right_are_told_before_a_task_runs(
    graph: og.Graph, spark: SparkSession, tmp_path: Path, columns: str, message: str
) -> None:
    def mark(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        (tmp_path / "ran").touch()
        return batches

    rows = spark.createDataFrame([], columns).mapInArrow(mark, columns)

    with refused(message):
        save(rows, graph, "Person")

    assert not (tmp_path / "ran").exists()


def test_views_of_all_types_stay_and_show_one_snapshot(graph: og.Graph, spark: SparkSession) -> None:
    handle = graph.spark

    assert sorted(handle.register("og")) == ["og_Knows", "og_Person"]
    run(graph, 'insert Person { name: "bob" }')

    assert spark.sql("select count(*) n from og_Person p left join og_Knows k on k.src = p.id").first() == (1,)
    graph.spark.register("og")
    assert spark.sql("select name from og_person order by name").collect() == [("ada",), ("bob",)]
    with pytest.raises(BadArgumentError, match="prefix"):
        handle.register("a.b")
    for name in ("og_Knows", "og_Person"):
        spark.catalog.dropTempView(name)


def test_merge_updates_rows_that_exist_and_inserts_the_others(graph: og.Graph, spark: SparkSession) -> None:
    rows = spark.createDataFrame([("ada", 37), ("bob", 1)], "name string, age int")

    done = graph.spark.merge(rows, type="Person", actor="ada", message="ages")
    edges = graph.spark.at().merge(spark.createDataFrame([("ada", "bob")], "from string, to string"), type="Knows")

    assert (done.nodes["Person"].updated, done.nodes["Person"].inserted) == (1, 1)
    assert edges.edges["Knows"].inserted == 1
    assert people(graph) == {"ada": (37, 7), "bob": (1, None)}
    assert [commit.actor for commit in graph.commits()[:2]] == ["anonymous", "ada"]
    with pytest.raises(og.OmnigraphError, match="did you mean `Person`"):
        graph.spark.merge(rows, type="Persom")


def test_a_view_of_sql_reads_a_state_and_takes_rows(graph: og.Graph, spark: SparkSession) -> None:
    graph.spark.spark  # noqa: B018 - makes the data source known
    past = graph.commits()[0]
    options = f"graph '{graph.uri}', type 'Person'"
    spark.sql(f"create or replace temporary view people_now using omnigraph options ({options})")
    spark.sql(
        f"create or replace temporary view people_then using omnigraph options ({options}, versionAsOf '{past.id}')"
    )
    spark.sql(
        f"create or replace temporary view people_at using omnigraph options ({options}, timestampAsOf '{past.at}')"
    )

    spark.sql("insert into people_now select 'bob', 'bob', 1, 2")

    assert [spark.table(f"people_{name}").count() for name in ("now", "then", "at")] == [1, 1, 1]
    spark.sql(f"create or replace temporary view people_now using omnigraph options ({options})")
    assert spark.table("people_now").count() == 2
    assert people(graph)["bob"] == (1, 2)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"snapshot": "x", "versionAsOf": "y"}, "`snapshot` .*: it is given twice, by both of its names"),
        ({"timestampAsOf": "2026-01-31"}, "`2026-01-31` is not a time with a zone"),
        ({"versionAsOf": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}, "CommitMissingError"),
    ],
)
def test_a_state_that_can_not_be_meant_is_refused(
    graph: og.Graph, spark: SparkSession, options: dict[str, str], message: str
) -> None:
    graph.spark.spark  # noqa: B018 - makes the data source known

    with refused(message):
        spark.read.format("omnigraph").options(graph=graph.uri, type="Person", **options).load()


def test_a_table_of_the_catalog_is_told_the_way(graph: og.Graph, spark: SparkSession) -> None:
    graph.spark.spark  # noqa: B018 - makes the data source known

    with refused("use `CREATE TEMPORARY VIEW name USING omnigraph"):
        spark.sql(f"create table people using omnigraph options (graph '{graph.uri}', type 'Person')")


def test_a_new_session_has_the_source_once_it_is_registered(graph: og.Graph, spark: SparkSession) -> None:
    graph.spark.spark  # noqa: B018 - makes the data source known
    other = spark.newSession()

    rows = register(other).read.format("omnigraph").options(graph=graph.uri, type="Person").load()

    assert rows.count() == 1
    assert SparkSession.getActiveSession() is not other
    assert spark.read.format("omnigraph").options(graph=graph.uri, type="Person").load().count() == 1
