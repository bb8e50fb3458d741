"""`omnigraph explain`: the logical plan of one query without a graph, and the steps of its plan on one."""

import json
import re
from pathlib import Path

import pytest

import omnigraph as og
from mutating import new_graph, run
from omnigraph.cli.main import main

SCHEMA = "node Person { name: String  age: I32?  @key(name) }\nedge Knows: Person -> Person\n"
QUERIES = """\
query friends($n: String) { match { $p: Person { name: $n }; $p knows $f } return { $f.name } }
query add($n: String) { insert Person { name: $n } }
"""


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    schema, queries = tmp_path / "s.pg", tmp_path / "q.gq"
    schema.write_text(SCHEMA, encoding="utf-8")
    queries.write_text(QUERIES, encoding="utf-8")
    return ["--schema", str(schema), "--query", str(queries)]


def test_a_read_is_explained(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["explain", "friends", *files])

    captured = capsys.readouterr()
    assert code == 0, captured.err
    assert "Knows" in captured.out
    assert "Person" in captured.out


def test_a_mutation_is_explained(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["explain", "add", *files])

    captured = capsys.readouterr()
    assert code == 0, captured.err
    assert "insert" in captured.out.lower()


def test_json_is_one_document(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["explain", "friends", "--json", *files])

    document = json.loads(capsys.readouterr().out)
    assert code == 0
    assert document["query_name"] == "friends"
    assert "Knows" in document["plan"]


def test_a_single_query_needs_no_name(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["explain", *files[:2], "-e", "query q() { match { $p: Person } return { $p.name } }"])

    captured = capsys.readouterr()
    assert code == 0, captured.err
    assert "Person" in captured.out


def test_one_of_several_must_be_named(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["explain", *files])

    assert code == 2
    assert "name one: friends, add" in capsys.readouterr().err


def test_an_unknown_name_exits_4_with_the_near_miss(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["explain", "freinds", *files])

    assert code == 4
    assert "holds no query `freinds`; did you mean `friends`?" in capsys.readouterr().err


def test_a_file_without_queries_exits_4(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["explain", *files[:2], "-e", ""])

    assert code == 4
    assert "holds no query" in capsys.readouterr().err


def test_an_error_in_the_query_is_shown_at_its_place(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["explain", *files[:2], "-e", "query q() { match { $p: Persn } return { $p.name } }"])

    captured = capsys.readouterr()
    assert code == 1
    assert captured.out == ""
    assert "error[T1]" in captured.err
    assert "<-e>:1:25" in captured.err


@pytest.mark.parametrize("options", [[], ["-e", "query", "--query", "q.gq"]])
def test_the_query_is_named_in_exactly_one_way(
    options: list[str], files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["explain", *files[:2], *options])

    assert code == 2
    assert "either --query FILE or -e TEXT" in capsys.readouterr().err


# --- on a graph -----------------------------------------------------------------------------------------------

FRIENDS = "query friends($n: String) { match { $p: Person { name: $n } $p knows $f } return { $f.name } limit 3 }"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    made = new_graph(tmp_path)
    run(made, 'insert Person { name: "ada" } insert Person { name: "bob" } insert Knows { from: "ada", to: "bob" }')
    return made


def test_the_plan_on_a_graph_names_its_commit_and_its_steps(
    graph: og.Graph, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["explain", graph.uri, "-e", FRIENDS, "--param", "n=ada"])

    captured = capsys.readouterr()
    assert code == 0, captured.err
    assert captured.out.startswith(f"query friends at main, commit {graph.snapshot().commit.id}\n")
    assert "Knows" in captured.out
    assert "limit 3" in captured.out
    assert " ms" not in captured.out


def test_an_analysed_plan_says_what_each_step_did(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["explain", "friends", "--store", graph.uri, "-e", FRIENDS, "--param", "n=ada", "--analyze"])

    captured = capsys.readouterr()
    assert code == 0, captured.err
    assert captured.out.splitlines()[-1].startswith("1 row in ")
    assert re.search(r" ms with \d+ requests?, after planning for [\d.]+ ms with \d+ ", captured.out.splitlines()[-1])


def test_an_analysed_query_has_its_time_and_memory(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["explain", graph.uri, "-e", FRIENDS, "--param", "n=ada", "--analyze"]

    assert main([*words, "--timeout", "60", "--memory", "1GiB"]) == 0
    assert main([*words, "--timeout", "0.000001"]) == 1
    assert "ran longer than 1e-06 seconds" in capsys.readouterr().err


def test_a_plan_on_a_graph_is_one_json_document(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["explain", graph.uri, "-e", FRIENDS, "--params", '{"n": "ada"}', "--analyze", "--json"])

    document = json.loads(capsys.readouterr().out)
    assert code == 0
    assert (document["query_name"], document["target"]) == ("friends", {"branch": "main"})
    assert document["commit_id"] == graph.snapshot().commit.id
    assert document["measured"]["rows"] == 1


def test_the_plan_of_a_past_state_is_asked(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    first = graph.commits()[-1].id

    code = main(["explain", graph.uri, "-e", FRIENDS, "--param", "n=ada", "--snapshot", first])

    assert code == 0
    assert f"commit {first}" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words, code, problem",
    [
        (["-e", FRIENDS], 1, "`$n: String` is missing"),
        (["-e", 'query d() { delete Person where name = "a" }'], 1, "changes the graph"),
        (["-e", FRIENDS, "--param", "n=a", "--branch", "b"], 4, "no branch `b`"),
        (["-e", FRIENDS, "--snapshot", "a", "--at", "2026-01-01T00:00:00Z"], 2, "either --snapshot or --at"),
        (["-e", FRIENDS, "--schema", "s.pg", "--analyze"], 2, "--analyze need a graph"),
        (["more", "-e", FRIENDS, "--schema", "s.pg"], 2, "either a graph or --schema"),
    ],
)
def test_what_can_t_be_explained_is_refused(
    graph: og.Graph, words: list[str], code: int, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = main(["explain", graph.uri, *words])

    captured = capsys.readouterr()
    assert found == code, captured.err
    assert problem in captured.err
    assert captured.out == ""


def test_without_a_graph_or_a_schema_there_is_nothing_to_explain_it_on(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["explain", "-e", FRIENDS])

    assert code == 2
    assert "name the graph" in capsys.readouterr().err


def test_an_explained_query_changes_nothing(graph: og.Graph) -> None:
    before = graph.snapshot().commit.id

    explained = graph.explain(FRIENDS, params={"n": "ada"}, analyze=True)

    assert explained.measured is not None
    assert graph.snapshot().commit.id == before
