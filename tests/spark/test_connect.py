"""Through Spark Connect: what its client can do without a JVM, and what it says of the rest."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
import spark_connect
from load_calls import edge, person
from mutating import new_graph
from omnigraph.spark.read.connect_sql import find_named_columns
from spark_loading import file_of, left_over
from spark_worlds import all_types_graph, type_of

SCHEMA = "node Person { name: String @key  age: I32? @index  @range(age, 0..150) }\nedge Knows: Person -> Person"
QUICK = ("bad_load", "load", "read", "sql", "sink", "query", "stream")
Answers = dict[str, Any]


def ask(place: Path, *doors: str) -> tuple[og.Graph, Answers]:
    """What the doors say, or all of them, and the graph afterwards."""
    graph = new_graph(place, SCHEMA)
    people = [person(f"p{number}", age=number) for number in range(40)]
    knows = [edge("Knows", f"p{number}", f"p{number * 7 % 40}") for number in range(40)]
    (place / "bad").mkdir()
    data, bad = (
        file_of(place, *people, *knows),
        file_of(place / "bad", person("q1", age=200), edge("Knows", "q1", "nobody")),
    )
    words = [sys.executable, spark_connect.__file__, graph.uri, str(data), str(bad), str(place), *doors]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return graph, json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> tuple[og.Graph, Answers]:
    return ask(tmp_path_factory.mktemp("connect"), *QUICK)


def check_quick(answers: Answers) -> None:
    """Whatever runs in the quick profile too."""
    assert answers["bad_load"]["code"] == "load_refused"
    assert "line 1: @range violation on Person.age: 200 > max 150" in answers["bad_load"]["message"]
    assert "Knows.from: no Person 'q1'" in answers["bad_load"]["message"]
    assert answers["load"]["nodes"]["Person"]["inserted"] == answers["load"]["edges"]["Knows"]["inserted"] == 40
    assert answers["read"][-3:] == [["p0", 0], ["p1", 1], ["p2", 2]]
    assert answers["sink"] == "load"
    assert answers["query"]["code"] == answers["stream"]["code"] == "connect_unsupported"
    assert "Use the engine `local`" in answers["query"]["message"]
    assert 'writeStream.format("omnigraph")' in answers["stream"]["message"]


def test_loads_reads_sql_and_writes_run_without_a_jvm(quick: tuple[og.Graph, Answers]) -> None:
    graph, answers = quick

    check_quick(answers)
    assert left_over(graph) == []
    assert answers["sql"] == [[[[40, 39]], [[40, 39], [40, 39]]], ["id", "name", "age"]]
    assert len(graph.commits()) == 3
    assert graph.snapshot().pin("node:Person").rows == 41


@pytest.mark.soak
def test_every_door_answers(tmp_path: Path) -> None:
    _, answers = ask(tmp_path, *(name for name in spark_connect.list_doors() if name != "cancelled_load"))

    check_quick(answers)
    assert answers["merge"]["nodes"]["Person"]["unchanged"] == 40
    assert answers["load_of_a_frame"]["nodes"]["Person"]["inserted"] == 2
    assert answers["estimate"] == 80
    assert answers["sql"][1] == ["id", "name", "age"]
    assert answers["sql_result"] == [{"name": "p1"}, {"name": "new"}]
    assert answers["wrong_sql"]["code"] == "sql"
    assert "[`age`, `id`, `name`]" in answers["wrong_sql"]["message"]
    assert answers["write_by_sql"]["code"] == "sql_write"
    assert answers["taken_view"]["code"] == "view_taken"
    assert answers["register"] == [["og_Person", "og_Knows"], 42]
    assert answers["changes"] == [["inserted", 122], ["schema", 1]]
    assert answers["source"] == 2
    assert "@range violation" in answers["bad_sink"]["message"]
    assert answers["stream_of_changes"] is True
    assert answers["export"] == 123
    assert answers["optimize"] is False
    assert answers["algorithm"] is True
    assert answers["other_master"]["code"] == "other_master"
    assert answers["other_process"]["code"] == "spark_not_started"
    assert "SparkSession.builder.remote" in answers["other_process"]["message"]


@pytest.mark.soak
def test_a_cancelled_load_publishes_nothing_and_the_next_one_does(tmp_path: Path) -> None:
    graph, answers = ask(tmp_path, "cancelled_load", "load")

    assert answers["cancelled_load"] == "cancelled"
    assert answers["load"]["nodes"]["Person"]["inserted"] == 40
    # Files of tasks that still ran are left to recovery, but no row of them.
    assert [commit.operation for commit in graph.commits()] == ["load", "init"]
    assert graph.snapshot().pin("edge:Knows").rows == 40


@pytest.fixture(scope="module")
def things(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    return all_types_graph(tmp_path_factory.mktemp("named") / "g", rows=10)


@pytest.mark.parametrize(
    "text, columns",
    [
        ("select text, count(*) from Thing where I32 = 1 group by text", ["text", "i32"]),
        ("select count(*) from Thing", ["id"]),
        ("select `flag` from Thing", ["flag"]),
        ("select * from Thing", None),
        ("select t.* except (text) from Thing t", None),
        ("table Thing", None),
        ("from Thing |> where flag", None),
        ("select text from Thing natural join Link", None),
        ("select identifier('te' || 'xt') from Thing", None),
    ],
)
def test_columns_that_a_statement_does_not_name_are_not_read(
    things: og.Graph, text: str, columns: list[str] | None
) -> None:
    assert find_named_columns(text, type_of(things, "Thing")) == columns
