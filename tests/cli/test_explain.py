"""`omnigraph explain`: the logical plan of one query, without a graph."""

import json
from pathlib import Path

import pytest

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
