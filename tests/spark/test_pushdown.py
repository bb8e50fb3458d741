"""Columns and filters go down into the tables: the answers stay, and less is read."""

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import omnigraph as og
from omnigraph.spark.graph import SparkGraph
from omnigraph.spark.scan import fragment_groups, plan_scan, read_fragments
from omnigraph.spark.sql import planned_uses
from omnigraph.storage.dataset import Fragment, io_counts
from spark_worlds import all_types_graph, type_of

PREDICATES = [
    "text = 'a'",
    "text <> 'a'",
    "text <=> null",
    "not (text <=> 'é')",
    "text > 'a' and text <= 'é'",
    "text like 'a%'",
    "text like '%b'",
    "text like '%b%'",
    "not (text like 'a%')",
    "text in ('a', 'b', 'nope')",
    "text not in ('a', 'b')",
    "text in ('a', null)",
    "text not in ('a', null)",
    "text is null",
    "text is not null",
    "mood = 'sad'",
    "mood <> 'sad'",
    "flag",
    "not flag",
    "i32 = 1",
    "i32 >= 1.5",
    "i32 > 3000000000",
    "i64 < 0",
    "i64 = 9223372036854775807",
    "i64 in (0, 2)",
    "u32 = 4294967295",
    "u32 > -1",
    "u32 < 5000000000",
    "u64 = 18446744073709551615",
    "u64 > 9223372036854775807",
    "u64 not in (0, 1)",
    "u64 is null",
    "f32 = 0.0",
    "f32 = cast('-0.0' as float)",
    "f32 >= 0.5",
    "f32 < cast('NaN' as float)",
    "f64 = 0.0",
    "f64 <> 0.0",
    "f64 in (0.5, 3.0)",
    "f64 <=> cast('NaN' as double)",
    "day = date'0001-01-01'",
    "day > date'2000-01-01'",
    "seen >= timestamp'1969-12-31 23:59:59Z'",
    "seen < timestamp'0500-01-01 00:00:00Z'",
    "vec is null",
    "body is not null",
    "size(texts) = 2 and i32 is not null",
    "i32 = 1 or text = 'a'",
    "id = '007'",
]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    return all_types_graph(tmp_path_factory.mktemp("pushdown") / "g", rows=90)


@pytest.fixture(scope="module")
def handle(graph: og.Graph, spark: SparkSession) -> SparkGraph:
    return SparkGraph(graph._session, graph.snapshot(), spark)


def test_what_is_handed_down_lets_pass_what_spark_lets_pass(
    graph: og.Graph, handle: SparkGraph, spark: SparkSession
) -> None:
    type_, snapshot = type_of(graph, "Thing"), graph.snapshot()
    things = handle.table("Thing")
    plain = spark.createDataFrame(things.toArrow(), things.schema)
    told = plain.select("id", *(f.expr(one).alias(f"p{number}") for number, one in enumerate(PREDICATES))).collect()

    for number, one in enumerate(PREDICATES):
        planned = planned_uses(spark, f"select id from Thing where {one}", {"thing": type_})
        assert planned is not None
        use = planned[0]["thing"]
        print(one, "|", use)
        scan = plan_scan(graph._session, snapshot, type_, use.columns, use.where)
        numbers = [fragment.number for fragment in scan.table().fragments()]
        found = {id for batch in read_fragments(scan, numbers) for id in batch.column("id").to_pylist()}
        expected = {row.id for row in told if row[f"p{number}"]}
        assert found >= expected, one
        if found!=expected: print("   MORE", len(found), len(expected))
