"""Rows of a query on Spark that its executors write: to Parquet, to Lance, to a table of the catalog."""

from pathlib import Path

import lance
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import omnigraph as og
from omnigraph.ops.export import ExportTargetError
from omnigraph.spark.query import write_rows
from raised_codes import has_code

SCHEMA = """
node Person { name: String @key  age: I64?  big: U64  tags: [String]? }
edge Knows: Person -> Person
"""
TEXT = """query friends() {
    match { $p: Person $p knows $q }
    return { $p.name as name, $p.big as big, $q as friend, $q.tags as tags, collect($q.name) as names, count($q) as n }
    order { $p.name desc }
}"""


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    graph = og.create_graph(str(tmp_path_factory.mktemp("people") / "graph"), SCHEMA)
    people: list[dict[str, object]] = [
        {"type": "Person", "data": {"name": f"p{n:02}", "age": n, "big": 2**63 + n, "tags": None if n % 3 else ["a"]}}
        for n in range(30)
    ]
    knows: list[dict[str, object]] = [
        {"edge": "Knows", "from": f"p{n:02}", "to": f"p{(n * 7 + 1) % 30:02}"} for n in range(30)
    ]
    graph.load([*people, *knows], mode="append")
    return graph


def test_a_lance_table_has_the_rows_and_types_of_a_result(graph: og.Graph, spark: SparkSession, tmp_path: Path) -> None:
    expected = graph.query(TEXT).to_arrow()

    written = graph.spark.write_query(TEXT, tmp_path / "rows.lance", format="lance")

    found = lance.dataset(str(tmp_path / "rows.lance"))
    assert found.to_table().to_pylist() == expected.to_pylist()
    assert [(field.name, field.type) for field in found.schema] == [(f.name, f.type) for f in expected.schema]
    assert (written.rows, written.commit_id) == (30, graph.snapshot().commit.id)
    with pytest.raises(ExportTargetError, match="it exists"):
        graph.spark.write_query(TEXT, tmp_path / "rows.lance", format="lance")
    assert spark.range(1).count() == 1


def test_parquet_files_and_tables_have_the_rows(graph: og.Graph, spark: SparkSession, tmp_path: Path) -> None:
    text = "query q() { match { $p: Person $p.age > 4 } return { $p.name as name, $p.age as age } order { $p.name } }"
    expected = graph.query(text).rows()

    to_files = graph.spark.write_query(text, tmp_path / "rows", format="parquet")
    to_table = graph.spark.write_query(text, "omnigraph_written", format="table")

    try:
        assert pq.read_table(tmp_path / "rows").to_pylist() == expected
        assert [row.asDict() for row in spark.table("omnigraph_written").orderBy("name").collect()] == expected
        assert (to_files.rows, to_table.rows) == (len(expected), len(expected))
        for target, format_ in ((str(tmp_path / "rows"), "parquet"), ("omnigraph_written", "table")):
            with pytest.raises(ExportTargetError, match="it exists"):
                graph.spark.write_query(text, target, format=format_)
    finally:
        spark.sql("drop table omnigraph_written")


def test_no_row_is_a_table_without_rows(graph: og.Graph, spark: SparkSession, tmp_path: Path) -> None:
    text = "query q() { match { $p: Person $p.age > 99 } return { $p.name as name, $p.big as big } }"

    assert graph.spark.write_query(text, tmp_path / "none.lance", format="lance").rows == 0

    found = lance.dataset(str(tmp_path / "none.lance"))
    assert (found.count_rows(), found.schema.names) == (0, ["name", "big"])
    assert spark.range(1).count() == 1


def test_a_failed_write_leaves_nothing(
    graph: og.Graph, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "rows.lance"
    overflow = "query q() { match { $p: Person } return { $p.age * 9223372036854775807 as x } }"
    with pytest.raises(og.QueryError, check=has_code("calculation_overflow")):
        graph.spark.write_query(overflow, target, format="lance")
    assert not target.exists()

    with pytest.raises(ExportTargetError, match=r"give `p\.name` another one with `as`"):
        graph.spark.write_query("query q() { match { $p: Person } return { $p.name } }", target, format="lance")

    def fail(*_: object) -> None:
        raise ExportTargetError("`x`", "y")

    monkeypatch.setattr(write_rows, "_check_files", fail)
    with pytest.raises(ExportTargetError):
        graph.spark.write_query(TEXT, target, format="lance")
    assert not target.exists()
    assert spark.range(1).count() == 1
