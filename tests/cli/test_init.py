"""`omnigraph init`: a graph where nothing was, or a refusal that says why."""

import io
import json
from pathlib import Path

import pytest

from omnigraph import open_graph
from omnigraph.cli.main import main
from worlds import SCHEMA, new_world

PEOPLE = "node Person { name: String  @key(name) }\nnode City { name: String }\nedge LivesIn: Person -> City\n"


@pytest.fixture
def schema(tmp_path: Path) -> str:
    path = tmp_path / "people.pg"
    path.write_text(PEOPLE, encoding="utf-8")
    return str(path)


def test_a_graph_is_made_from_a_schema(tmp_path: Path, schema: str, capsys: pytest.CaptureFixture[str]) -> None:
    uri = str(tmp_path / "people.omni")

    code = main(["init", uri, "--schema", schema])

    graph = open_graph(uri, read_only=True)
    captured = capsys.readouterr()
    assert code == 0
    assert captured.out == f"created {uri}: 2 node types, 1 edge type\ncommit {graph.snapshot().commit.id}\n"
    assert captured.err == ""
    assert graph.schema == PEOPLE


def test_as_json_it_is_the_snapshot_that_was_made(
    tmp_path: Path, schema: str, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = str(tmp_path / "people.omni")

    code = main(["init", uri, "--schema", schema, "--json"])

    document = json.loads(capsys.readouterr().out)
    assert code == 0
    assert document == {"uri": uri, **open_graph(uri).snapshot().to_json()}
    assert [table["table_key"] for table in document["tables"]] == ["node:Person", "node:City", "edge:LivesIn"]


@pytest.mark.parametrize("options, actor", [([], "anonymous"), (["--as", "ada"], "ada")])
def test_the_first_commit_is_by_the_actor(tmp_path: Path, schema: str, options: list[str], actor: str) -> None:
    uri = str(tmp_path / "people.omni")

    main(["init", uri, "--schema", schema, *options])

    (commit,) = open_graph(uri).commits()
    assert (commit.actor, commit.operation) == (actor, "init")


def test_the_schema_may_come_from_stdin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(PEOPLE.encode())))

    code = main(["init", str(tmp_path / "g"), "--schema", "-"])

    assert code == 0
    assert open_graph(str(tmp_path / "g")).schema == PEOPLE


def test_a_schema_with_mistakes_is_shown_like_lint_shows_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.pg"
    bad.write_text("node Person { name: Strng }\nnode City { nam: Strin }\n", encoding="utf-8")

    code = main(["init", str(tmp_path / "g"), "--schema", str(bad)])

    captured = capsys.readouterr()
    assert code == 1
    assert captured.out == ""
    assert captured.err.count("error[") == 2
    assert f" --> {bad}:1:21\n" in captured.err
    assert "^^^^^" in captured.err
    assert not (tmp_path / "g").exists()


def test_a_schema_with_mistakes_is_one_document_with_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.pg"
    bad.write_text("node Person { name: Strng }\n", encoding="utf-8")

    code = main(["init", str(tmp_path / "g"), "--schema", str(bad), "--json"])

    error = json.loads(capsys.readouterr().err)["error"]
    assert code == 1
    assert (error["code"], error["kind"]) == ("invalid_source", "invalid")
    assert len(error["diagnostics"]) == 1


def test_a_schema_file_that_is_missing_is_not_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["init", str(tmp_path / "g"), "--schema", str(tmp_path / "none.pg")])

    assert code == 4
    assert "there is no file" in capsys.readouterr().err


def test_a_place_with_a_graph_is_a_conflict(tmp_path: Path, schema: str, capsys: pytest.CaptureFixture[str]) -> None:
    session = new_world(tmp_path / "g")

    code = main(["init", session.uri, "--schema", schema])

    assert code == 3
    assert "holds a graph" in capsys.readouterr().err
    assert open_graph(session.uri).schema == SCHEMA


def test_a_place_with_something_else_is_a_conflict(
    tmp_path: Path, schema: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "g").mkdir()
    (tmp_path / "g" / "notes.txt").write_text("mine", encoding="utf-8")

    code = main(["init", str(tmp_path / "g"), "--schema", schema])

    assert code == 3
    assert "`notes.txt`, which is not part of a graph" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "g").iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("uri", ["https://server/graph", "gs://bucket/graph", "s3://bucket", ""])
def test_an_address_that_holds_no_graph_is_a_usage_error(
    uri: str, schema: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["init", uri, "--schema", schema, "--json"])

    error = json.loads(capsys.readouterr().err)["error"]
    assert code == 2
    assert (error["code"], error["kind"]) == ("bad_uri", "usage")


def test_an_annotation_that_is_likely_a_slip_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schema = tmp_path / "s.pg"
    schema.write_text("node Person { name: String @kye }\n", encoding="utf-8")

    code = main(["init", str(tmp_path / "g"), "--schema", str(schema)])

    captured = capsys.readouterr()
    assert code == 0
    assert captured.err.startswith("warning[L105]: `@kye` is not a known annotation")
    assert "did you mean `@key`?" in captured.err
    assert captured.out.startswith("created ")
