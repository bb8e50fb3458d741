"""Answers of SQL are results like any other: the same formats, JSON values and errors."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import omnigraph as og
from omnigraph.cli.main import main
from omnigraph.engine.output.sql_columns import convert_table
from omnigraph.engine.result import Result
from omnigraph.engine.result_forms import Target
from omnigraph.spark.read.fetched_rows import fetch_table
from omnigraph.spark.spark_errors import SparkInputError
from worlds import runtime

SCHEMA = """
node Person { name: String @key  age: U64?  seen: DateTime?  tags: [String]? }
edge Knows: Person -> Person { since: Date? }
"""
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    made = og.create_graph(str(tmp_path_factory.mktemp("sql") / "g"), SCHEMA, runtime=runtime())
    made.load(
        [
            {"type": "Person", "data": {"name": "ada", "age": 2**64 - 1, "seen": NOON, "tags": ["a", "b"]}},
            {"type": "Person", "data": {"name": "bob", "age": 7}},
            {"edge": "Knows", "from": "ada", "to": "bob", "data": {"since": "2026-01-05"}},
        ],
        mode="append",
    )
    return made


@pytest.mark.parametrize(
    "column, shown",
    [
        (pa.array([1, None], pa.int8()), [1, None]),
        (pa.array([2**60, None], pa.int64()), [str(2**60), None]),
        (pa.array([Decimal(2**64 - 1), None], pa.decimal128(20, 0)), [str(2**64 - 1), None]),
        (pa.array([Decimal(7), None], pa.decimal128(20, 0)), [7, None]),
        (pa.array([Decimal("0.10"), None], pa.decimal128(10, 2)), ["0.10", None]),
        (pa.array([Decimal(10**30), None], pa.decimal128(38, 0)), [str(10**30), None]),
        (pa.array([NOON, None], pa.timestamp("us", tz="Europe/Berlin")), ["2026-01-05T12:00:00Z", None]),
        (pa.array([NOON.replace(tzinfo=None), None], pa.timestamp("us")), ["2026-01-05 12:00:00", None]),
        (pa.array([b"\x00\xff", None], pa.binary()), ["base64:AP8=", None]),
        (pa.array([["a"], None], pa.list_(pa.utf8())), [["a"], None]),
        (pa.array([[["a"]], None], pa.list_(pa.list_(pa.utf8()))), ['[["a"]]', None]),
        (pa.array([{"x": 1}, None], pa.struct({"x": pa.int32()})), ['{"x": 1}', None]),
        (pa.array([None, None], pa.null()), [None, None]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_every_type_of_spark_can_be_shown(column: pa.Array, shown: list[Any]) -> None:
    table = convert_table(pa.table({"x": column}))

    result = Result.of_table(table, commit_id="c", target=Target("main"), query_name="sql")

    assert [row["x"] for row in result.json_rows()] == shown


@pytest.mark.usefixtures("spark")
def test_an_answer_is_a_result(graph: og.Graph) -> None:
    found = graph.sql(
        "select p.name, age, seen, tags, since from Person p left join Knows on src = p.id order by name",
        engine="spark",
    )

    assert found.rows() == [
        {"name": "ada", "age": 2**64 - 1, "seen": NOON, "tags": ["a", "b"], "since": datetime(2026, 1, 5).date()},  # noqa: DTZ001 - a day
        {"name": "bob", "age": 7, "seen": None, "tags": None, "since": None},
    ]
    assert found.commit_id == graph.snapshot().commit.id
    assert found.row_count == 2


@pytest.mark.usefixtures("spark")
def test_an_answer_of_the_past(graph: og.Graph) -> None:
    first = graph.commits()[-1].id

    found = graph.sql("select count(*) as n from Person", snapshot=first, engine="spark")

    assert found.rows() == [{"n": 0}]
    assert found.target == Target("main", first)


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    "statement, reason",
    [
        ("select nme from Person", "with name `nme` cannot be resolved. Did you mean one of the following"),
        ("select a.name, b.name from Person a, Person b", "two columns of the result are called `name`"),
        ("select * from Persn", "The table or view `Persn` cannot be found"),
    ],
)
def test_a_mistake_is_told_in_one_line(graph: og.Graph, statement: str, reason: str) -> None:
    with pytest.raises(SparkInputError, match=reason) as caught:
        graph.sql(statement, engine="spark")

    assert "\n" not in str(caught.value)
    assert "SQLSTATE" not in str(caught.value)


@pytest.mark.usefixtures("spark")
def test_the_command_prints_what_a_query_prints(graph: og.Graph, capfd: pytest.CaptureFixture[str]) -> None:
    code = main(["spark", "sql", "select name, age from Person order by name", graph.uri, "--json"])
    printed = capfd.readouterr()

    document = json.loads(printed.out)
    assert (code, printed.err) == (0, "")
    assert document["rows"] == [{"name": "ada", "age": str(2**64 - 1)}, {"name": "bob", "age": 7}]
    assert document["target"] == {"branch": "main"}


@pytest.mark.usefixtures("spark")
def test_the_command_writes_files(graph: og.Graph, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code = main(["spark", "sql", "select name from Person order by name", graph.uri, "--output", f"{tmp_path}/out.csv"])

    assert (code, capfd.readouterr().err) == (0, "")
    assert (tmp_path / "out.csv").read_text(encoding="utf-8") == '"name"\n"ada"\n"bob"\n'


@pytest.mark.usefixtures("spark")
def test_the_command_tells_a_mistake_and_nothing_of_java(graph: og.Graph, capfd: pytest.CaptureFixture[str]) -> None:
    code = main(["spark", "sql", "selec 1", graph.uri])

    printed = capfd.readouterr()
    assert code == 1
    assert printed.err.startswith("error: Syntax error at or near 'selec'")
    assert len(printed.err.splitlines()) == 1


def test_many_rows_are_fetched_by_partition_into_a_file(spark: SparkSession) -> None:
    frame = spark.range(0, 1000, 1, 7).selectExpr("id", "concat('r', id) name", "array(id, 1) both", "null nothing")
    ordered = frame.orderBy(f.col("id").desc())

    held = fetch_table(spark, ordered, description="test")
    filed = fetch_table(spark, ordered, description="test", max_bytes=0)

    assert filed.equals(held)
    assert filed.column("id").to_pylist() == [*range(999, -1, -1)]
    assert fetch_table(spark, frame.where("id < 0"), description="test").num_rows == 0


def test_an_error_of_a_task_is_told_when_rows_are_fetched(spark: SparkSession) -> None:
    with pytest.raises(og.OmnigraphError, match="no such luck"):
        fetch_table(spark, spark.sql("select raise_error('no such luck') x"), description="test")
