"""Spark reads what the graph holds: every type, one snapshot, and no more than was asked for."""

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import omnigraph as og
from omnigraph.schema.arrow import build_arrow_schema
from omnigraph.spark.spark_graph import SparkGraph
from spark_worlds import all_types_graph, put, stored, type_of


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    return all_types_graph(tmp_path_factory.mktemp("reads") / "g")


@pytest.fixture(scope="module")
def handle(graph: og.Graph, spark: SparkSession) -> SparkGraph:
    return SparkGraph(graph._session, graph.snapshot(), spark)


def rows_of(frame: DataFrame, graph: og.Graph, name: str) -> pa.Table:
    """What a DataFrame holds, in the types of the table, by id."""
    schema = build_arrow_schema(type_of(graph, name))
    found = frame.toArrow()
    return found.cast(pa.schema([schema.field(column) for column in found.column_names])).sort_by("id")


@pytest.mark.parametrize("name", ["Thing", "Link"])
def test_every_value_of_every_type_is_read(graph: og.Graph, handle: SparkGraph, name: str) -> None:
    found = rows_of(handle.table(name), graph, name)

    assert found.equals(stored(graph, name))


@pytest.mark.parametrize("name", ["Thing", "Link"])
def test_every_value_of_every_type_is_read_through_the_data_source(
    graph: og.Graph, handle: SparkGraph, name: str
) -> None:
    source = handle.spark.read.format("omnigraph").option("graph", graph.uri).option("type", name).load()

    assert source.schema == handle.table(name).schema
    assert rows_of(source, graph, name).equals(stored(graph, name))


def test_only_the_columns_asked_for_are_read_in_their_order(graph: og.Graph, handle: SparkGraph) -> None:
    found = handle.edges("link", columns=["dst", "body", "id"])

    assert found.columns == ["dst", "body", "id"]
    assert rows_of(found, graph, "Link").equals(stored(graph, "Link").select(["dst", "body", "id"]))


def test_a_handle_reads_one_snapshot_while_others_write(graph: og.Graph, handle: SparkGraph) -> None:
    before = stored(graph, "Thing")
    lazy = handle.table("Thing", columns=["id"])
    in_sql = handle.sql("select id from Thing")

    put(graph, "Thing", [{"id": "late"}])

    assert sorted(row.id for row in lazy.collect()) == before["id"].to_pylist()
    assert in_sql.count() == handle.table("Thing").count() == before.num_rows
    assert handle.at().table("Thing").count() == before.num_rows + 1
    assert handle.at(snapshot=handle.commit_id).sql("select count(*) n from Thing").first() == (before.num_rows,)


def test_the_data_source_pins_what_it_loads(graph: og.Graph, spark: SparkSession, handle: SparkGraph) -> None:
    assert handle.spark is spark
    loaded = spark.read.format("omnigraph").option("graph", graph.uri).option("type", "Thing").load()
    before = graph.snapshot().pin("node:Thing").rows

    put(graph, "Thing", [{"id": "later"}])

    assert loaded.count() == before


def test_the_data_source_takes_a_state_columns_and_a_filter(
    graph: og.Graph, spark: SparkSession, handle: SparkGraph
) -> None:
    past = graph.commits()[-2]
    options = {"graph": graph.uri, "type": "Thing", "columns": "id, i32", "filter": 'i32 > 0 or text = "é"'}

    by_id = handle.spark.read.format("omnigraph").options(**options, snapshot=past.id).load()
    by_time = spark.read.format("omnigraph").options(**options, at=past.at).load()

    wanted = [
        row["id"]
        for row in stored(graph, "Thing", snapshot=past.id).to_pylist()
        if (row["i32"] or 0) > 0 or row["text"] == "é"
    ]
    assert by_id.columns == ["id", "i32"]
    assert wanted
    assert sorted(row.id for row in by_id.collect()) == wanted
    assert sorted(row.id for row in by_time.collect()) == wanted


@pytest.mark.parametrize(
    "statement",
    [
        "insert into Thing select * from Thing",
        "INSERT OVERWRITE TABLE `thing` VALUES (1)",
        "-- a comment\nmerge into Thing using Link on true when matched then delete",
        "/* a\ncomment */ delete from thing where true",
    ],
)
def test_a_statement_that_writes_to_a_type_names_the_way(handle: SparkGraph, statement: str) -> None:
    with pytest.raises(og.OmnigraphError, match=r"SQL only reads `Thing`; write its rows with `graph.spark.load"):
        handle.sql(statement)
