"""Columns and filters go down into the tables: the answers stay, and less is read."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, Filter, InputPartition
from pyspark.sql.types import StructType

import omnigraph as og
from omnigraph.schema.catalog import AnyType
from omnigraph.spark.read.spark_types import to_spark_schema
from omnigraph.spark.read.sql_views import (
    TypeUsage,
    _build_predicate,
    _create_empty_table,
    _create_views,
    _iter_leaves,
    _plan_query,
    plan_usage,
)
from omnigraph.spark.read.table_scan import ScanTask, plan_scan, plan_tasks, read_task
from omnigraph.spark.spark_graph import SparkGraph
from omnigraph.storage.fragment_list import Fragment
from omnigraph.storage.lance_table import read_io_counts
from spark_worlds import all_types_graph, type_of

EXACT = [
    "text = 'a'",
    "text <> 'a'",
    "text <=> null",
    "text > 'a' and text <= 'é'",
    "text like 'a%'",
    "text like '%b%'",
    "text in ('a', 'b', 'nope')",
    "text not in ('a', 'b')",
    "text is null",
    "mood = 'sad'",
    "flag",
    "not flag",
    "i32 = 1",
    "i32 >= 1.5",
    "i64 < 0",
    "i64 in (0, 2)",
    "u32 = 4294967295",
    "u32 < 5000000000",
    "u64 = 18446744073709551615",
    "u64 not in (0, 1)",
    "f32 = 0.0",
    "f32 = cast('-0.0' as float)",
    "f32 < cast('NaN' as float)",
    "f64 = 0.0",
    "f64 in (0.5, 3.0)",
    "day > date'2000-01-01'",
    "seen >= timestamp'1969-12-31 23:59:59Z'",
    "vec is null",
    "body is not null",
    "i32 = 1 or text = 'a'",
    "id = '007'",
    "id > '020' and id <> '030'",
]
"""What the query language can say."""
IN_PART = [
    "not (text <=> 'é')",
    "text like '%b'",
    "f64 <=> cast('NaN' as double)",
    "day = date'0001-01-01'",
    "seen < timestamp'0500-01-01 00:00:00Z'",
    "seen <= timestamp'0001-01-02 00:00:00Z'",
    "day < date'-0004-01-01'",
    "size(texts) = 2 and i32 is not null",
    "length(text) = 2 and i64 < 2",
]
"""What it can say some of, or nothing."""


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    return all_types_graph(tmp_path_factory.mktemp("pushdown") / "g", rows=90)


@pytest.fixture(scope="module")
def handle(graph: og.Graph, spark: SparkSession) -> SparkGraph:
    return SparkGraph(graph._session, graph.snapshot(), spark)


def letters() -> type[DataSource]:
    """A source of two rows that takes filters; made here, so that workers need not find this module."""

    class LettersReader(DataSourceReader):
        def __init__(self) -> None:
            self.letters = ["a", "b"]

        def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:  # noqa: N802 - Spark's name
            for one in filters:
                if isinstance(one, EqualTo):
                    self.letters = [letter for letter in self.letters if letter == one.value]
                else:
                    yield one

        def read(self, partition: InputPartition) -> Iterator[tuple[str]]:  # noqa: ARG002 - Spark's signature
            return iter([(letter,) for letter in self.letters])

    class Letters(DataSource):
        @classmethod
        def name(cls) -> str:
            return "letters"

        def schema(self) -> str:
            return "letter string"

        def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - Spark's signature
            return LettersReader()

    return Letters


def read_rows(graph: og.Graph, name: str, columns: list[str] | None, where: str | None) -> list[dict[str, object]]:
    """What the tasks hand to Spark, read in this process."""
    scan = plan_scan(graph._session, graph.snapshot(), type_of(graph, name), columns, where)
    whole = ScanTask(tuple(fragment.number for fragment in scan.open_table().list_fragments()))
    return [row for batch in read_task(scan, whole) for row in batch.to_pylist()]


def test_what_is_handed_down_lets_pass_what_spark_lets_pass(
    graph: og.Graph, handle: SparkGraph, spark: SparkSession
) -> None:
    asked = [*EXACT, *IN_PART]
    things = handle.table("Thing")
    plain = spark.createDataFrame(things.toArrow(), things.schema)
    told = plain.select("id", *(f.expr(one).alias(f"p{number}") for number, one in enumerate(asked))).collect()

    handed = handed_down(spark, asked, "thing", type_of(graph, "Thing"))

    for number, one in enumerate(asked):
        found = {row["id"] for row in read_rows(graph, "Thing", ["id"], handed[number])}
        expected = {row.id for row in told if row[f"p{number}"]}
        assert found == expected if number < len(EXACT) else found > expected, one


def handed_down(spark: SparkSession, conditions: list[str], name: str, type_: AnyType) -> list[str | None]:
    """The predicate of each condition, planned all at once."""
    statements = [f"select id from {name} where {one}" for one in conditions]  # noqa: S608 - our own
    with _create_views(spark, {name: _create_empty_table(spark, name, to_spark_schema(type_))}):
        execution = _plan_query(spark, " union all ".join(statements))
        assert execution is not None
        return [_build_predicate(spark, leaf) for leaf in _iter_leaves(execution.optimizedPlan())]


@pytest.mark.parametrize(
    "text, columns, where",
    [
        ("select text from Thing where i32 = 1", ["text", "i32"], "((i32 is not null) and (i32 = 1))"),
        ("select count(*) from Thing", ["id"], None),
        ("select * from Thing where vec is null", None, "((vec is null))"),
        (
            "select a.text from Thing a join Thing b on a.i32 = b.i64",
            ["text", "i32", "i64"],
            "((i32 is not null)) or ((i64 is not null))",
        ),
        (
            "select text from Thing where i32 > (select avg(u32) from Thing where flag)",
            ["text", "flag", "i32", "u32"],
            "((i32 is not null)) or ((flag is not null) and (flag = true))",
        ),
        ("with t as (select * from Thing) select x.text from t x left join t y on x.id = y.id", ["id", "text"], None),
        ("select max(f64) over (partition by day) from Thing", ["f64", "day"], None),
        ("select text from Thing union all select mood from Thing", ["text", "mood"], None),
    ],
)
def test_a_statement_reads_what_it_uses(
    graph: og.Graph, spark: SparkSession, text: str, columns: list[str] | None, where: str | None
) -> None:
    type_ = type_of(graph, "Thing")

    planned = plan_usage(spark, text, {"thing": type_})

    assert planned is not None
    assert planned[0]["thing"] == TypeUsage(columns or to_spark_schema(type_).names, where)


@pytest.mark.parametrize(
    "text", ["select * from Thing union all select * from Thing", "create table t as select text from Thing"]
)
def test_where_columns_count_by_position_or_something_is_made_all_are_read(
    graph: og.Graph, spark: SparkSession, text: str
) -> None:
    assert plan_usage(spark, text, {"thing": type_of(graph, "Thing")}) is None


def test_fewer_columns_are_fewer_bytes(graph: og.Graph) -> None:
    before = read_io_counts().nbytes
    read_rows(graph, "Thing", None, None)
    everything = read_io_counts().nbytes - before
    read_rows(graph, "Thing", ["i32"], None)
    one = read_io_counts().nbytes - before - everything

    assert 0 < one < everything / 5


def test_spark_gets_only_the_rows_that_a_condition_lets_pass(handle: SparkGraph) -> None:
    answer = handle.sql("select id from Thing where i32 = 1")

    ids = [row.id for row in answer.collect()]

    plan = answer._jdf.queryExecution().executedPlan()
    while plan.nodeName() != "MapInArrow":
        plan = plan.children().apply(0)
    assert ids
    assert plan.metrics().apply("pythonNumRowsReceived").value() == len(ids)


def test_a_self_join_gets_the_rows_of_both_sides(handle: SparkGraph, spark: SparkSession) -> None:
    text = "select a.id, b.id from {t} a join {t} b on a.day = b.day where a.i32 = 1 and b.flag"

    found = handle.sql(text.format(t="Thing")).collect()

    handle.table("Thing").createOrReplaceTempView("every_thing")
    expected = spark.sql(text.format(t="every_thing")).collect()
    spark.catalog.dropTempView("every_thing")
    assert expected
    assert sorted(found) == sorted(expected)


def test_views_of_the_session_are_seen_and_left_alone(handle: SparkGraph, spark: SparkSession) -> None:
    spark.range(3).createOrReplaceTempView("thing")
    spark.range(5).createOrReplaceTempView("numbers")

    found = handle.sql("select (select count(*) from Thing) + (select count(*) from numbers) n").first()

    assert found is not None
    assert found.n == handle.table("Thing").count() + 5
    assert spark.table("thing").count() == 3
    for name in ("thing", "numbers"):
        spark.catalog.dropTempView(name)


def test_a_task_reads_as_many_rows_as_are_worth_it() -> None:
    small = [fragment(number, 40_000) for number in range(8)]
    large = [fragment(number, 1_000_000) for number in range(5)]

    assert plan_tasks([]) == []
    assert plan_tasks(small, min_tasks=2) == [ScanTask((0, 1, 2, 3)), ScanTask((4, 5, 6, 7))]
    assert plan_tasks(small, min_tasks=100) == [ScanTask((number,)) for number in range(8)]
    assert plan_tasks(large) == [ScanTask((0, 1)), ScanTask((2, 3)), ScanTask((4,))]
    halves = [ScanTask((0,), range(500_000)), ScanTask((0,), range(500_000, 1_000_000))]
    assert plan_tasks(large[:1], min_tasks=2) == halves
    assert plan_tasks(large[:1], min_tasks=2, can_split=False) == [ScanTask((0,))]
    uneven = [fragment(0, 1_048_576), fragment(1, 951_424)]
    assert plan_tasks(uneven, min_tasks=2) == [ScanTask((0,)), ScanTask((1,))]
    thirds = [fragment(number, rows) for number, rows in enumerate((969_932, 969_932, 681_574))]
    assert len(plan_tasks(thirds, min_tasks=4)) == 5


@pytest.mark.parametrize("name", ["Thing", "Link"])
def test_the_pieces_of_a_fragment_are_all_of_it(graph: og.Graph, name: str) -> None:
    scan = plan_scan(graph._session, graph.snapshot(), type_of(graph, name))
    for one in scan.open_table().list_fragments():
        rows = one.rows - one.deleted
        cut = [ScanTask((one.number,), range(rows // 3)), ScanTask((one.number,), range(rows // 3, rows))]

        found = [row for piece in cut for batch in read_task(scan, piece) for row in batch.to_pylist()]

        whole = [row for batch in read_task(scan, ScanTask((one.number,))) for row in batch.to_pylist()]
        assert found == whole
        assert len(found) == rows


def fragment(number: int, rows: int) -> Fragment:
    return Fragment(number=number, rows=rows, deleted=0, files=(), deletions=None, nbytes=rows)


def test_spark_still_keeps_the_filters_of_another_use(spark: SparkSession) -> None:
    """Why the source takes no filters from Spark: turns red when Spark is mended."""
    setting = "spark.sql.python.filterPushdown.enabled"
    spark.dataSource.register(letters())
    spark.conf.set(setting, "true")
    rows = spark.read.format("letters").load()

    counts = [rows.count(), rows.where("letter = 'a'").count(), rows.count()]

    spark.conf.set(setting, "false")
    assert counts == [2, 1, 1]
