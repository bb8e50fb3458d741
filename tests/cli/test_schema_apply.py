"""`omnigraph schema apply`, `show` and `plan` on a graph: exit codes, and what is printed where."""

import json
from pathlib import Path

import pytest

from mutating import new_graph, run
from omnigraph.cli.main import main

OLD = "node Person { name: String @key\n  age: I32? }\n"
NEW = OLD.replace("age: I32?", "age: I32?\n  @range(age, 0..9)")


@pytest.fixture
def uri(tmp_path: Path) -> str:
    graph = new_graph(tmp_path, OLD)
    run(graph, 'insert Person { name: "ada", age: 20 }')
    return graph.uri


def written(directory: Path, text: str) -> str:
    path = directory / "new.pg"
    path.write_text(text)
    return str(path)


def test_what_rows_break_is_told_with_their_id(uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["schema", "apply", uri, "--schema", written(tmp_path, NEW), "--json"])

    error = json.loads(capsys.readouterr().err)["error"]
    assert code == 1
    assert (error["code"], error["diagnostic"], error["violations"][0]["id"]) == ("schema_unfit", "OG-MF-107", "ada")
    assert "20 > max 9, in 'ada'" in error["message"]


def test_an_applied_schema_is_shown_and_the_one_before_too(
    uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["schema", "show", uri, "--json"]) == 0
    before = json.loads(capsys.readouterr().out)

    assert main(["schema", "apply", uri, "--schema", written(tmp_path, OLD.replace("}", "  nick: String? }"))]) == 0

    assert "safe        add_property" in capsys.readouterr().out
    assert main(["schema", "show", uri]) == 0
    assert "nick" in capsys.readouterr().out
    assert main(["schema", "show", uri, "--snapshot", before["commit_id"]]) == 0
    assert capsys.readouterr().out == OLD


def test_a_change_without_a_migration_is_refused_by_plan_and_apply(
    uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, OLD.replace("I32?", "String?"))

    assert main(["schema", "plan", uri, "--schema", path]) == 1
    assert main(["schema", "apply", uri, "--schema", path]) == 1

    assert capsys.readouterr().err.count("OG-MF-106") == 1


def test_a_plan_is_of_a_graph_or_of_a_file(uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, NEW)

    assert main(["schema", "plan", uri, "--from", path, "--schema", path]) == 2
    assert main(["schema", "plan", "--schema", path]) == 2
    assert "name the graph" in capsys.readouterr().err
