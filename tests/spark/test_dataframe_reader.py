"""What Spark knows of a DataFrame of a type: its schema, its tasks, and about how large it is."""

import secrets
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import omnigraph as og
from omnigraph.spark.read import table_scan
from omnigraph.spark.spark_graph import SparkGraph
from omnigraph.storage.lance_table import LanceTable

SCHEMA = """
node Person { name: String @key  story: String? }
node Page { title: String @key  text: String  meaning: Vector(256)? }
node Picture { title: String @key  body: Blob? }
edge Wrote: Person -> Page
"""
MEGABYTE = 1024 * 1024


@pytest.fixture(scope="module")
def handle(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> SparkGraph:
    graph = og.create_graph(tmp_path_factory.mktemp("frames") / "g", SCHEMA)
    names = [f"name {number}" for number in range(3000)]
    unlike = [f"{number:x} " * 400 for number in range(0, 3_000_000_000, 1_000_000)]
    vectors = pa.array([[float(number)] * 256 for number in range(3000)], pa.list_(pa.float32(), 256))
    nodes = {
        "Person": pa.table({"name": names}),
        "Page": pa.table({"title": names, "text": unlike, "meaning": vectors}),
        "Picture": pa.table({"title": names[:2], "body": [b"1", None]}),
    }
    graph.load(nodes=nodes, edges={"Wrote": pa.table({"from": names, "to": names})}, mode="append", engine="local")
    return SparkGraph(graph._session, graph.snapshot(), spark)


def known_size(frame: DataFrame) -> int:
    return int(str(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))


def planned(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


def leaf(frame: DataFrame) -> JavaObject:
    return frame._jdf.queryExecution().executedPlan().collectLeaves().apply(0)


def test_spark_knows_about_how_large_a_table_is(handle: SparkGraph) -> None:
    small, large = known_size(handle.table("Person")), known_size(handle.table("Page"))

    assert 3000 * 20 < small < MEGABYTE
    assert large > 3000 * (256 * 4 + 400)


def test_a_size_is_never_below_what_texts_and_their_files_take(handle: SparkGraph) -> None:
    without_vectors = known_size(handle.table("Page", columns=["id", "title", "text"]))
    only_ids = known_size(handle.table("Person", columns=["id"]))

    assert without_vectors > 3000 * 400 * 9
    assert only_ids >= 3000 * 64


def test_texts_count_where_vectors_are_null(tmp_path: Path, spark: SparkSession) -> None:
    graph = og.create_graph(tmp_path / "g", SCHEMA)
    texts = [secrets.token_hex(2500) for _ in range(1000)]
    pages = pa.table({"title": [f"{number}" for number in range(1000)], "text": texts})
    graph.load(nodes={"Page": pages}, mode="append", engine="local")
    handle = SparkGraph(graph._session, graph.snapshot(), spark)

    assert known_size(handle.table("Page", columns=["id", "text"])) > 1000 * 5000


def test_files_of_unknown_size_are_never_taken_for_small(handle: SparkGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    every = LanceTable.list_fragments
    monkeypatch.setattr(
        LanceTable, "list_fragments", lambda table: tuple(replace(one, nbytes=0) for one in every(table))
    )

    assert known_size(handle.table("Person")) > 1024 * 1024 * MEGABYTE


def test_a_table_is_read_by_all_cores_where_that_pays(handle: SparkGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_scan, "MIN_ROWS_PER_TASK", 100)

    assert handle.table("Person").rdd.getNumPartitions() == handle.spark.sparkContext.defaultParallelism == 2


def test_what_has_blobs_is_never_taken_for_small(handle: SparkGraph) -> None:
    assert known_size(handle.table("Picture")) > 1024 * 1024 * MEGABYTE
    assert known_size(handle.table("Picture", columns=["id"])) < MEGABYTE


def test_a_small_table_is_sent_to_every_task_of_a_join_and_a_large_one_is_not(handle: SparkGraph) -> None:
    edges, people = handle.edges("Wrote"), handle.table("Person")

    to_small = edges.join(people, edges.src == people.id)
    to_large = handle.table("Picture").join(handle.table("Picture"), "id")

    assert "BroadcastHashJoin" in planned(to_small)
    assert "BroadcastHashJoin" not in planned(to_large)


def test_a_task_is_told_one_number_however_large_the_table_is(
    handle: SparkGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_scan, "MIN_ROWS_PER_TASK", 100)
    monkeypatch.setattr(table_scan, "ROWS_PER_TASK", 500)
    frame = handle.table("Page", columns=["title"])

    titles = [row.title for row in frame.collect()]

    assert sorted(titles) == sorted(f"name {number}" for number in range(3000))
    assert frame.rdd.getNumPartitions() == 6
    assert leaf(frame).metrics().apply("numOutputRows").value() == 6


def test_a_frame_is_joined_with_itself(handle: SparkGraph) -> None:
    people = handle.table("Person")

    found = people.alias("a").join(people.alias("b"), f.expr("a.id = b.id and a.name <> 'name 7'"))

    assert found.count() == 2999


def test_an_empty_table_is_a_frame_without_rows(tmp_path: Path, spark: SparkSession) -> None:
    graph = og.create_graph(tmp_path / "g", SCHEMA)
    handle = SparkGraph(graph._session, graph.snapshot(), spark)

    frame = handle.table("Person")

    assert frame.columns == ["id", "name", "story"]
    assert frame.collect() == []
    assert handle.sql("select count(*) n from Person p join Wrote w on p.id = w.src").first() == (0,)


def test_another_session_of_the_process_reads_too(handle: SparkGraph) -> None:
    other = SparkGraph(handle._session, handle._snapshot, handle.spark.newSession())

    assert other.table("Person").count() == 3000
    assert other.sql("select count(*) from Person").collect() == [(3000,)]


def test_a_node_type_is_no_edge_type(handle: SparkGraph) -> None:
    with pytest.raises(og.TypeMissingError, match="no edge type `Person`"):
        handle.edges("Person")


def test_settings_of_an_object_store_are_not_in_a_plan(handle: SparkGraph) -> None:
    frame = handle.table("Person")

    assert handle._session.uri not in planned(frame)
    assert "omnigraph" in planned(frame)
