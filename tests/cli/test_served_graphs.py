"""Graphs that clients create and delete on a server, by the command line and from Python; keys of repeated merges."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.cli.main import main
from server_process import Process, laid_out, running
from serving import ADD, TOKENS

SCHEMA = "node Thing { name: String @key }\n"
POLICY = (
    """permit(principal in Group::"admins", action in [Action::"graph_create", Action::"graph_delete"], resource);"""
)


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    home = tmp_path_factory.mktemp("graphs")
    graph = laid_out(home)
    settings = home / "omnigraph.toml"
    text = settings.read_text(encoding="utf-8")
    settings.write_text(text.replace("workers = 1", 'workers = 1\ngraph_root = "root"'), encoding="utf-8")
    (home / "root").mkdir()
    (home / "policies" / "graphs.cedar").write_text(POLICY, encoding="utf-8")
    with running(graph, home) as served:
        yield served


@pytest.fixture
def server(process: Process, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("OMNIGRAPH_TOKEN", TOKENS["admin"])
    return f"http://localhost:{process.port}"


def test_a_graph_is_created_listed_and_deleted(server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "own.pg").write_text(SCHEMA, encoding="utf-8")

    created = main(["graph", "create", "own", "--schema", str(tmp_path / "own.pg"), "--server", server, "--json"])
    commit = json.loads(capsys.readouterr().out)["commit_id"]
    again = main(["graph", "create", "own", "--schema", str(tmp_path / "own.pg"), "--server", server])
    main(["graph", "list", "--server", server])
    listed = capsys.readouterr().out
    unconfirmed = main(["graph", "delete", "own", "--server", server])
    deleted = main(["graph", "delete", "own", "--server", server, "--yes"])
    missing = main(["graph", "delete", "own", "--server", server, "--yes"])

    assert (created, unconfirmed, deleted) == (0, 2, 0)
    assert commit
    assert again != 0
    assert listed == "own\npeople\n"
    assert missing != 0


def test_no_server_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", "list"]) == 2
    assert "--server URL" in capsys.readouterr().err


def test_a_schema_with_a_mistake_is_shown_where_it_is(
    server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own.pg").write_text("node Thing { name: Strin @key }\n", encoding="utf-8")

    assert main(["graph", "create", "wrong", "--schema", str(tmp_path / "own.pg"), "--server", server]) != 0
    assert "Strin" in capsys.readouterr().err


def test_python_does_the_same(server: str) -> None:
    with og.connect_server(server, TOKENS["admin"]) as graphs:
        graphs.create("own", SCHEMA)
        with og.connect(server, TOKENS["admin"], graph="own") as graph:
            assert graph.query("query q() { match { $t: Thing } return { $t.name } }").row_count == 0
            assert graph.me()["actor"] == "admin"
            assert graph.running() == []
            assert graph.cancel("nothing") is False
        graphs.delete("own")
        assert graphs.list() == ["people"]


def test_a_repeated_merge_with_its_key_has_no_second_commit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = laid_out(tmp_path)
    graph.branches.create("work")
    graph.mutate(ADD, params={"n": "Eve"}, branch="work")
    command = ["branch", "merge", "work", graph.uri, "--idempotency-key", "k1", "--json"]

    assert main(command) == 0
    first = json.loads(capsys.readouterr().out)["commit_id"]
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out)["commit_id"] == first

    undo = ["revert", first, graph.uri, "--idempotency-key", "k2", "--json"]
    assert main(undo) == 0
    undone = json.loads(capsys.readouterr().out)["commit_id"]
    assert main(undo) == 0
    assert json.loads(capsys.readouterr().out)["commit_id"] == undone


def test_a_repeated_cherry_pick_with_its_key_has_no_second_commit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = laid_out(tmp_path)
    graph.branches.create("work")
    picked = graph.mutate(ADD, params={"n": "Eve"}, branch="work").commit_id or ""
    command = ["cherry-pick", picked, graph.uri, "--idempotency-key", "k1", "--json"]

    assert main(command) == 0
    first = json.loads(capsys.readouterr().out)["commit_id"]
    # Without the key, it would be applied once more.
    graph.mutate("query gone($n: String) { delete Person where name = $n }", params={"n": "Eve"})
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out)["commit_id"] == first
    assert graph.commits()[1].id == first
