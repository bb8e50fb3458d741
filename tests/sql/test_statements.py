"""SQL over one state of a graph: what it reads, what it returns, and what its mistakes say."""

from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.commit.branch_errors import BranchMissingError
from omnigraph.engine.duckdb import run_statement
from omnigraph.engine.duckdb.sql_errors import SqlError
from omnigraph.engine.duckdb.table_streams import ReadState, split_table
from omnigraph.errors import BadArgumentError
from omnigraph.query.params import ParameterError
from omnigraph.storage.table_cache import PinUnreadableError
from sql.conftest import NOON
from worlds import runtime


def test_a_node_type_is_a_table_of_its_id_and_properties_without_blobs(people: og.Graph) -> None:
    found = people.sql("select * from Person order by name")

    assert found.columns == ("id", "name", "age", "seen", "born", "tags", "v", "f")
    assert found.rows()[0] == {
        "id": "ada",
        "name": "ada",
        "age": 2**64 - 1,
        "seen": NOON,
        "born": date(1815, 12, 10),
        "tags": ["a", "b"],
        "v": [1.0, 2.0],
        "f": None,
    }
    assert found.schema.field("age").type == pa.uint64()
    assert found.schema.field("seen").type == pa.timestamp("us", tz="UTC")
    assert found.commit_id == people.snapshot().commit.id


def test_an_edge_type_has_its_ends(people: og.Graph) -> None:
    found = people.sql("select src, dst, since from knows order by src")

    assert [tuple(row.values()) for row in found.rows()] == [
        ("ada", "bob", date(2026, 1, 5)),
        ("bob", "cyd", date(2026, 1, 5)),
        ("cyd", "ada", date(2026, 1, 5)),
    ]


@pytest.mark.parametrize(
    "statement, expected",
    [
        (("select a.name n, c.name m from Person a join Knows k on k.src = a.id join Person c on c.id = k.dst "
          "where a.age < 10"), [{"n": "bob", "m": "cyd"}]),
        (("select count(*) n from Knows a join Knows b on a.dst = b.src join Knows c on b.dst = c.src "
          "where c.dst = a.src"), [{"n": 3}]),
        (("with x as (select id, age from Person where age < 100) select a.id i, b.id j from x a, x b "
          "where a.age < b.age"), [{"i": "bob", "j": "cyd"}]),
        ("with x as materialized (select id from Person) select count(*) n from x a, x b", [{"n": 9}]),
        (("select name from Person p where age = (select max(age) from Person) "
          "and exists (select 1 from Likes where src = p.id)"), [{"name": "ada"}]),
        (("with recursive r as (select 'ada' id, 0 n union all select k.dst, n + 1 from r join Knows k on k.src = r.id "
          "where n < 2) select id from r order by n"), [{"id": "ada"}, {"id": "bob"}, {"id": "cyd"}]),
        ("select name, row_number() over (order by name desc) r from Person qualify r = 1", [{"name": "cyd", "r": 1}]),
        ("from Person select name where f < 0", [{"name": "cyd"}]),
        ("select name from Person where f is null or f = 'nan'::double", [{"name": "ada"}]),
        ("select name from Person where seen > timestamptz '2026-01-05 11:00:00+00'", [{"name": "ada"}]),
        ("select name from Person where born < date '1900-01-01' and list_contains(tags, 'b')", [{"name": "ada"}]),
        ("select name from Person where age = 18446744073709551615", [{"name": "ada"}]),
        ("select name from Person where name in ('ada', 'bob') and name like 'b%'", [{"name": "bob"}]),
        ("select tag from Person, unnest(tags) as t(tag) order by tag", [{"tag": "a"}, {"tag": "b"}]),
        ("select sum(f) s, count(f) n from Person", [{"s": -0.5, "n": 2}]),
        ("values (1)", [{"col0": 1}]),
        ("select 1 as x union all select 2 order by x limit 1", [{"x": 1}]),
        ("select name from Person order by name limit 1;", [{"name": "ada"}]),
        ("pivot (select name, f from Person) on name in ('bob', 'cyd') using sum(f)", [{"bob": 1.5, "cyd": -2.0}]),
        ("select list_distance(v, [1.0, 2.0]) d from Person where v is not null", [{"d": 0.0}]),
        ("select column_name from (describe Likes) order by column_name",
         [{"column_name": "dst"}, {"column_name": "id"}, {"column_name": "src"}]),
    ],
)  # fmt: skip
def test_what_is_asked_is_answered(people: og.Graph, statement: str, expected: list[dict[str, Any]]) -> None:
    assert people.sql(statement).rows() == expected


def test_a_table_of_several_streams_is_one_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    graph = og.create_graph(str(tmp_path / "g"), "node P { k: I64 @key }", runtime=runtime())
    for start in range(0, 40, 10):
        graph.load([{"type": "P", "data": {"k": number}} for number in range(start, start + 10)], mode="append")
    made: list[int] = []

    def split(table: Any, _: int, state: ReadState, __: int) -> Any:
        streams = split_table(table, 4, state, min_rows=5)
        made.append(len(streams))
        return streams

    monkeypatch.setattr(run_statement, "split_table", split)
    found = graph.sql("select count(*) n, sum(a.k) s from P a join P b on a.k = b.k where b.k >= 5")

    assert made == [4]
    assert found.rows() == [{"n": 35, "s": sum(range(5, 40))}]


def test_only_the_columns_that_are_used_are_read(people: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    from omnigraph.storage.lance_table import LanceTable

    read: list[list[str]] = []
    original = LanceTable.iter_batches

    def record(self: LanceTable, columns: Any = None, *arguments: Any, **named: Any) -> Any:
        read.append(list(columns))
        return original(self, columns, *arguments, **named)

    monkeypatch.setattr(LanceTable, "iter_batches", record)
    people.sql("select name from Person where f < 1")

    assert [sorted(columns) for columns in read] == [["f", "name"]]


def test_parameters_have_names(people: og.Graph) -> None:
    found = people.sql("select name from Person where age < $limit and name <> $not", {"limit": 100, "not": "cyd"})

    assert found.rows() == [{"name": "bob"}]


@pytest.mark.parametrize(
    "statement, params, reason",
    [
        ("select $x", {}, "`\\$x` is missing"),
        ("select 1", {"x": 1}, "no parameter `\\$x`"),
        ("select ?", {}, "write `\\$name`"),
        ("select $x", {"x": object()}, "type object"),
    ],
)
def test_parameters_that_do_not_fit(people: og.Graph, statement: str, params: dict[str, object], reason: str) -> None:
    with pytest.raises(ParameterError, match=reason):
        people.sql(statement, params)


def test_a_past_state_and_a_branch(tmp_path: Path) -> None:
    graph = og.create_graph(str(tmp_path / "g"), "node P { k: I64 @key }", runtime=runtime())
    empty = graph.snapshot().commit.id
    graph.load([{"type": "P", "data": {"k": 1}}], mode="append")
    graph.branches.create("work", from_="main")
    graph.load([{"type": "P", "data": {"k": 2}}], mode="append", branch="work")
    count = "select count(*) as n from P"

    assert graph.sql(count, snapshot=empty).rows() == [{"n": 0}]
    assert graph.sql(count, branch="work").rows() == [{"n": 2}]
    assert graph.sql(count).rows() == [{"n": 1}]
    with pytest.raises(BranchMissingError):
        graph.sql(count, branch="nope")


@pytest.mark.parametrize(
    "statement, reason",
    [
        ("select nme from Person", 'Referenced column "nme" not found'),
        ("select * from Persn", "no table `Persn`; did you mean `Person`"),
        ("select a.name, b.name from Person a, Person b", "two columns of the result are called `name`"),
        ("select levenshtien('a', 'b')", "`levenshtien` is not available here; did you mean `levenshtein`"),
        ("selec 1", "syntax error"),
        ("select 'a'::int", "Could not convert"),
        ("select 1; select 2", "single query"),
        ("", "single query"),
    ],
)
def test_a_mistake_is_reported_in_one_line(people: og.Graph, statement: str, reason: str) -> None:
    with pytest.raises((SqlError, BadArgumentError), match=reason) as caught:
        people.sql(statement)

    assert "\n" not in str(caught.value)


def test_types_that_differ_in_case_only_are_ambiguous(tmp_path: Path) -> None:
    schema = "node Thing { k: String @key }\nnode THING { k: String @key }\nnode Other { k: String @key }"
    graph = og.create_graph(str(tmp_path / "g"), schema, runtime=runtime())

    assert graph.sql("select count(*) n from Other").rows() == [{"n": 0}]
    with pytest.raises(SqlError, match="differ in case only"):
        graph.sql("select * from Thing")


def test_a_damaged_table_is_reported_as_such(tmp_path: Path) -> None:
    graph = og.create_graph(str(tmp_path / "g"), "node P { k: I64 @key }", runtime=runtime())
    graph.load([{"type": "P", "data": {"k": 1}}], mode="append")
    for file in (tmp_path / "g").rglob("*.lance"):
        if file.is_file() and "manifest" not in str(file.relative_to(tmp_path)):
            file.unlink()

    with pytest.raises(PinUnreadableError):
        og.open_graph(graph.uri, runtime=runtime()).sql("select k from P")
