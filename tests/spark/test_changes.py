"""The change feed on Spark: as a DataFrame, and as a stream that resumes."""

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

import omnigraph as og
from mutating import new_graph, run
from omnigraph.commit.time_travel import CommitMissingError
from omnigraph.ops.open_table import TypeMissingError
from omnigraph.spark.read import change_rows


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = new_graph(tmp_path)
    run(graph, 'insert Person { name: "ada", age: 36 } insert Person { name: "bob" }')
    run(graph, 'insert Knows { from: "ada", to: "bob" }')
    run(graph, 'update Person set { age: 37 } where name = "ada"')
    run(graph, 'delete Person where name = "bob"')
    return graph


def told(rows: Sequence[Row]) -> list[tuple[Any, ...]]:
    """The rows, as a feed gives them."""
    sort = sorted(rows, key=lambda row: (row.seq, row.type or "", row.id or "", row.change))
    return [
        (row.commit, row.change, row.type, row.id, None if row.changed is None else [*row.changed], *documents(row))
        for row in sort
    ]


def documents(row: Row) -> tuple[Any, Any]:
    return tuple(None if text is None else json.loads(text) for text in (row.before, row.after))  # type: ignore[return-value]


def fed(graph: og.Graph, since: str | None = None, types: Sequence[str] | None = None, **options: Any) -> list[Any]:
    """What `Graph.changes` gives."""
    rows: list[tuple[int, str, str, str, tuple[Any, ...]]] = []
    for changes in graph.changes(since=since, types=types, **options):
        seq, commit = changes.commit.seq, changes.commit.id
        if changes.schema is not None:
            rows.append((seq, "", "", "schema", (commit, "schema", None, None, None, None, changes.schema.to_json())))
        for record in changes.records():
            name, row_id, change = str(record.get("type") or record["edge"]), str(record["id"]), str(record["change"])
            row = (commit, change, name, row_id, record.get("changed"), record["before"], record["after"])
            rows.append((seq, name, row_id, change, json.loads(json.dumps(row), object_hook=dict)))
    return [tuple(row) for *_, row in sorted(rows, key=lambda row: row[:4])]


def normalized(rows: Sequence[Any]) -> Any:
    return json.loads(json.dumps(rows))


@pytest.mark.usefixtures("spark")
def test_the_changes_are_those_of_the_feed(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_rows, "_MIN_COMMITS", 2)
    since = graph.commits()[2].id

    assert normalized(told(graph.spark.changes().collect())) == normalized(fed(graph))
    assert normalized(told(graph.spark.changes(since=since).collect())) == normalized(fed(graph, since))
    found = graph.spark.changes(types=["Knows"]).where("change != 'schema'").collect()
    assert {row.type for row in found} == {"Knows"}
    assert [row.change for row in sorted(found, key=lambda row: row.seq)] == ["inserted", "deleted"]


@pytest.mark.usefixtures("spark")
def test_changes_end_with_the_snapshot_and_name_what_is_missing(graph: og.Graph) -> None:
    pinned = graph.spark
    newest = run(graph, 'insert Person { name: "eve" }').commit_id

    assert all(row.commit != newest for row in pinned.changes().collect())
    assert pinned.changes(since=newest).collect() == []
    with pytest.raises(TypeMissingError):
        pinned.changes(types=["Persom"])
    with pytest.raises(CommitMissingError):
        pinned.changes(since="01ARZ3NDEKTSV4RRFFQ69G5FAV")


def stream_of(spark: SparkSession, graph: og.Graph, **options: str) -> DataFrame:
    graph.spark.spark  # noqa: B018 - makes the data source known
    return spark.readStream.format("omnigraph").options(graph=graph.uri, changes="true", **options).load()


def read_all(frame: DataFrame, place: Path) -> None:
    """Run a stream until it has read what there is."""
    options: Mapping[str, str] = {"checkpointLocation": str(place / "checkpoint"), "path": str(place / "out")}
    query = frame.writeStream.format("parquet").options(**options).trigger(availableNow=True).start()
    query.awaitTermination()


def test_a_stream_gives_each_change_once_across_restarts(spark: SparkSession, graph: og.Graph, tmp_path: Path) -> None:
    since = graph.commits()[-1].id
    read_all(stream_of(spark, graph, since=since), tmp_path)
    first = spark.read.parquet(str(tmp_path / "out")).collect()
    run(graph, 'insert Person { name: "eve" }')
    run(graph, 'update Person set { age: 1 } where name = "eve"')
    read_all(stream_of(spark, graph, since=since), tmp_path)

    assert 0 < len(first) < len(spark.read.parquet(str(tmp_path / "out")).collect())
    assert normalized(told(spark.read.parquet(str(tmp_path / "out")).collect())) == normalized(fed(graph, since))


def test_a_stream_follows_its_branch_through_changes_of_the_schema(
    spark: SparkSession, graph: og.Graph, tmp_path: Path
) -> None:
    since = graph.commits()[0].id
    graph.branches.create("draft")
    draft = {"branch": "draft", "since": since, "types": "Person"}
    run(graph, 'insert Person { name: "of main" }')
    graph.mutate('query q() { insert Person { name: "of draft" } }', branch="draft")
    read_all(stream_of(spark, graph, **draft), tmp_path)
    source = graph.snapshot(branch="draft").manifest.schema.source
    graph.apply_schema(source.replace("age: I32?", "age: I32?\n  nick: String?", 1), branch="draft")
    graph.mutate('query q() { insert Person { name: "later", nick: "l" } }', branch="draft")
    read_all(stream_of(spark, graph, **draft), tmp_path)

    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    assert normalized(told(rows)) == normalized(fed(graph, since, ["Person"], branch="draft"))
    assert {json.loads(row.after)["name"] for row in rows if row.change == "inserted"} == {"of draft", "later"}
    assert [row.change for row in rows].count("schema") == 1


def test_a_stream_whose_next_commit_was_collected_ends_with_the_way_out(
    spark: SparkSession, graph: og.Graph, tmp_path: Path
) -> None:
    read_all(stream_of(spark, graph, since=graph.commits()[-1].id), tmp_path)
    run(graph, 'insert Person { name: "eve" }')
    run(graph, 'update Person set { age: 1 } where name = "eve"')
    graph.cleanup(keep=1, grace=timedelta(0), confirm=True)

    with pytest.raises(PySparkException, match=r"CommitCollectedError.* was collected"):
        read_all(stream_of(spark, graph), tmp_path)
    newest = graph.commits()[0].id
    read_all(stream_of(spark, graph, since=newest), tmp_path / "anew")
    assert spark.read.parquet(str(tmp_path / "anew" / "out")).count() == 0


def test_a_batch_read_of_the_source_gives_the_same_and_errors_are_plain(
    spark: SparkSession, graph: og.Graph, tmp_path: Path
) -> None:
    graph.spark.spark  # noqa: B018 - makes the data source known
    reader = spark.read.format("omnigraph").options(graph=graph.uri, changes="true")

    assert normalized(told(reader.load().collect())) == normalized(fed(graph))
    with pytest.raises(PySparkException, match="CommitMissingError") as refused:
        reader.options(since="01ARZ3NDEKTSV4RRFFQ69G5FAV").load().collect()
    assert "[omnigraph:" not in str(refused.value)
    rows = spark.readStream.format("omnigraph").options(graph=graph.uri, type="Person").load()
    sink = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c"))
    with pytest.raises(
        PySparkException, match="`changes` of the data source `omnigraph`: a stream reads the change feed"
    ):
        sink.start().awaitTermination()
