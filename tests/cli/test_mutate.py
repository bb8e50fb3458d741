"""`omnigraph mutate`: a query, its parameters and a graph, by any of their names."""

import json
from pathlib import Path

import pytest

import omnigraph as og
from mutating import column, new_graph
from omnigraph.cli.main import main

ADD = "query add($n: String, $a: I32?) { insert Person { name: $n, age: $a } }"
TWO = f"{ADD}\nquery drop($n: String) {{ delete Person where name = $n }}"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return new_graph(tmp_path)


@pytest.fixture
def queries(tmp_path: Path) -> str:
    path = tmp_path / "people.gq"
    path.write_text(TWO, encoding="utf-8")
    return str(path)


def test_a_mutation_says_what_it_did(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(
        ["mutate", graph.uri, "-e", ADD, "--param", "n=ada", "--param", "a=36", "--as", "eve", "--message", "hi"]
    )

    commit = graph.commits()[0]
    assert code == 0
    assert capsys.readouterr().out == f"1 node, 0 edges\ncommit {commit.id}\n"
    assert (commit.actor, commit.message) == ("eve", "hi")
    assert column(graph, "Person", "age") == [36]


def test_as_json_it_is_one_document(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["mutate", graph.uri, "-e", ADD, "--params", '{"n": "ada", "a": null}', "--json"])

    assert code == 0
    assert json.loads(capsys.readouterr().out) == {
        "query_name": "add",
        "target": {"branch": "main"},
        "commit_id": graph.snapshot().commit.id,
        "affected_nodes": 1,
        "affected_edges": 0,
    }


def test_without_an_effect_there_is_no_commit(
    graph: og.Graph, queries: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["mutate", "drop", graph.uri, "--query", queries, "--param", "n=nobody"])

    assert code == 0
    assert capsys.readouterr().out == "0 nodes, 0 edges: nothing to change\n"
    assert len(graph.commits()) == 1


def test_a_single_word_is_the_query_when_the_graph_is_named_otherwise(graph: og.Graph, queries: str) -> None:
    code = main(["mutate", "add", "--store", graph.uri, "--query", queries, "--param", "n=ada"])

    assert code == 0
    assert column(graph, "Person", "id") == ["ada"]


def test_a_violation_is_told_and_exits_with_1(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["mutate", graph.uri, "-e", ADD, "--param", "n=ada", "--param", "a=999", "--json"])

    error = json.loads(capsys.readouterr().err)["error"]
    assert code == 1
    assert (error["code"], error["total"]) == ("constraint_violation", 1)
    assert error["violations"] == [
        {"rule": "range", "type": "Person", "id": "ada", "message": "@range violation on Person.age: 999 > max 200"}
    ]


def test_a_head_that_moved_is_a_conflict(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    old = graph.snapshot().commit.id
    main(["mutate", graph.uri, "-e", ADD, "--param", "n=ada"])

    code = main(["mutate", graph.uri, "-e", ADD, "--param", "n=bob", "--if-commit", old])

    assert code == 3
    assert "the branch has moved on" in capsys.readouterr().err
    assert column(graph, "Person", "id") == ["ada"]


def test_a_key_makes_a_repetition_harmless(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["mutate", graph.uri, "-e", 'query q() { insert City { name: "Rome" } }', "--idempotency-key", "k"]

    codes = [main(words), main(words)]

    lines = capsys.readouterr().out.splitlines()
    assert codes == [0, 0]
    assert lines[:2] == lines[2:]
    assert len(column(graph, "City", "id")) == 1


@pytest.mark.parametrize(
    "words, code, told",
    [
        ([], 2, "either --query FILE or -e TEXT"),
        (["-e", TWO], 2, "has 2 queries; name one: add, drop"),
        (["-e", ADD, "--param", "n"], 2, "--param takes NAME=VALUE"),
        (["-e", ADD, "--param", "n=a", "--params", '{"n": 1}'], 2, "`n` is given twice"),
        (["-e", ADD, "--params", "[1]"], 2, "--params takes one JSON object"),
        (["-e", ADD, "--params", "{"], 2, "--params is not JSON"),
        (["-e", ADD, "--param", "n=a", "--param", "a=x"], 1, "parameter `$a: I32`"),
        (["-e", "query q() { match { $p: Person } return { $p } }"], 1, "only reads"),
        (["-e", "query q() { insert Persn { name: 1 } }"], 1, "unknown type `Persn`"),
    ],
)
def test_a_call_that_is_wrong_is_told_why(
    graph: og.Graph, words: list[str], code: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["mutate", graph.uri, *words]) == code
    assert told in capsys.readouterr().err
    assert len(graph.commits()) == 1


def test_too_many_words_are_refused(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mutate", "a", graph.uri, "b", "-e", ADD]) == 2
    assert "at most NAME and URI" in capsys.readouterr().err


def test_returned_rows_are_printed_before_the_counts(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    text = """query add($rows: [{name: String, age: I32?}]) {
        match { each $r in $rows } insert Person { name: $r.name, age: $r.age } if absent as $p
        returning { $p.name, $p.age }
    }"""
    words = ["mutate", graph.uri, "-e", text, "--params", '{"rows": [{"name": "ada", "age": 3}, {"name": "bob"}]}']

    assert main(words) == 0
    shown = capsys.readouterr().out
    assert main(words) == 0
    again = capsys.readouterr().out
    assert main([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)

    rows = "p.name  p.age\nada     3\nbob     null\n\n"
    assert shown == f"{rows}2 nodes, 0 edges\ncommit {graph.snapshot().commit.id}\n"
    assert again == f"{rows}0 nodes, 0 edges (2 existed): nothing to change\n"
    assert document == {
        "query_name": "add",
        "target": {"branch": "main"},
        "commit_id": None,
        "affected_nodes": 0,
        "affected_edges": 0,
        "existing_nodes": 2,
        "existing_edges": 0,
        "columns": ["p.name", "p.age"],
        "rows": [{"p.name": "ada", "p.age": 3}, {"p.name": "bob", "p.age": None}],
    }
