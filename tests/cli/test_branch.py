"""`omnigraph branch`, and the option --branch of other commands."""

import json
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from mutating import column, new_graph, people
from omnigraph.cli.main import main


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = new_graph(tmp_path)
    people(graph, "ada")
    return graph


def run(*arguments: str, capsys: pytest.CaptureFixture[str], expected: int = 0) -> tuple[str, str]:
    code = main(list(arguments))

    captured = capsys.readouterr()
    assert code == expected, captured.err
    return captured.out, captured.err


def document(*arguments: str, capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(run(*arguments, "--json", capsys=capsys)[0])


def names(graph: og.Graph) -> list[str]:
    return [branch.name for branch in graph.branches.list()]


def test_a_graph_that_is_given_first_is_told_to_go_last(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    _, err = run("branch", "create", graph.uri, "review/x", capsys=capsys, expected=4)

    command = f"omnigraph branch create review/x {graph.uri}"
    assert err.endswith(f"help: there is one at {graph.uri}, and the graph is the last argument: `{command}`\n")


def test_create_says_what_was_made_from_what(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = run("branch", "create", "review/x", graph.uri, capsys=capsys)

    assert out == f"branch review/x from main, commit {graph.snapshot().commit.id}\n"
    assert err == ""
    assert names(graph) == ["main", "review/x"]


def test_create_takes_a_branch_a_commit_or_a_time(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    first = graph.commits()[-1]
    run("branch", "create", "one", graph.uri, "--as", "eve", capsys=capsys)

    run("branch", "create", "two", "--store", graph.uri, "--from", "one", capsys=capsys)
    run("branch", "create", "three", graph.uri, "--snapshot", first.id, capsys=capsys)
    run("branch", "create", "four", graph.uri, "--at", first.at, capsys=capsys)

    by_name = {branch.name: branch for branch in graph.branches.list()}
    assert by_name["one"].created_by == "eve"
    assert by_name["two"].parent_branch == "one"
    assert by_name["three"].parent_commit == by_name["four"].parent_commit == first.id


def test_a_branch_has_one_origin(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    at = graph.commits()[0]

    _, err = run("branch", "create", "x", graph.uri, "--snapshot", at.id, "--at", at.at, capsys=capsys, expected=2)

    assert "give either --snapshot or --at, not both" in err


def test_create_as_json(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    found = document("branch", "create", "x", graph.uri, capsys=capsys)

    [_, branch] = graph.branches.list()
    assert found == {"uri": graph.uri, **branch.to_json()}
    assert found["name"] == "x"


def test_the_list_for_people_is_a_table(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    graph.branches.create("x", actor="ada")

    head, main_line, line = run("branch", "list", graph.uri, capsys=capsys)[0].splitlines()

    branch = graph.branches.list()[1]
    assert head.split() == ["branch", "from", "commit", "at", "by"]
    assert main_line.split() == ["main"]
    assert line.split() == ["x", "main", branch.parent_commit, branch.created_at, "ada"]


def test_the_list_as_json(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    graph.branches.create("x")

    found = document("branch", "list", graph.uri, capsys=capsys)

    assert found == {"uri": graph.uri, "branches": [branch.to_json() for branch in graph.branches.list()]}


def test_delete_says_so(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    graph.branches.create("x")

    out, _ = run("branch", "delete", "x", graph.uri, capsys=capsys)

    assert out == "deleted branch x\n"
    assert names(graph) == ["main"]


def test_delete_as_json(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    branch = graph.branches.create("x")

    assert document("branch", "delete", "x", graph.uri, capsys=capsys) == {
        "uri": graph.uri,
        "deleted": branch.to_json(),
    }


@pytest.mark.parametrize(
    "arguments, code, error",
    [
        (("create", "x"), 3, "branch_exists"),
        (("create", "x/y"), 3, "branch_exists"),
        (("create", "a b"), 2, "bad_branch_name"),
        (("create", "main"), 2, "bad_branch_name"),
        (("create", "new", "--from", "nope"), 4, "branch_not_found"),
        (("create", "new", "--snapshot", "nope"), 4, "commit_not_found"),
        (("delete", "nope"), 4, "branch_not_found"),
        (("delete", "x"), 3, "branch_has_children"),
        (("delete", "main"), 2, "bad_branch_name"),
    ],
)
def test_a_failure_has_a_code_and_changes_nothing(
    arguments: tuple[str, ...], code: int, error: str, graph: og.Graph, capsys: pytest.CaptureFixture[str]
) -> None:
    graph.branches.create("x")
    graph.branches.create("child", from_="x")
    verb, name, *options = arguments

    _, err = run("branch", verb, name, graph.uri, *options, "--json", capsys=capsys, expected=code)

    assert json.loads(err)["error"]["code"] == error
    assert names(graph) == ["main", "child", "x"]


def test_deleting_a_branch_of_a_remote_graph_needs_a_yes(capsys: pytest.CaptureFixture[str]) -> None:
    _, err = run("branch", "delete", "x", "s3://bucket/graph", capsys=capsys, expected=2)

    assert (
        "deleting the branch `x` of s3://bucket/graph, which is remote, needs --yes when there is no terminal to ask at"
        in err
    )


def test_a_name_may_start_with_a_dash(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    run("branch", "create", "--", "-x", graph.uri, capsys=capsys)
    run("branch", "delete", "--", "-x", graph.uri, capsys=capsys)

    assert names(graph) == ["main"]


# --- --branch of other commands --------------------------------------------------------------------

ADD = 'query q() { insert Person { name: "eve" } }'
ALL = "query q() { match { $p: Person } return { $p.name as name } }"


@pytest.fixture
def dev(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> og.Graph:
    """The graph with a branch `dev`, on which eve was added."""
    graph.branches.create("dev")
    run("mutate", graph.uri, "--branch", "dev", "-e", ADD, capsys=capsys)
    return graph


def test_mutate_and_query_take_a_branch(dev: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    found = document("query", dev.uri, "--branch", "dev", "-e", ALL, capsys=capsys)

    assert (found["target"], found["row_count"]) == ({"branch": "dev"}, 2)
    assert column(dev, "Person", "name") == ["ada"]


def test_the_history_takes_a_branch(dev: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    found = document("commit", "list", dev.uri, "--branch", "dev", capsys=capsys)["commits"]

    assert [commit["branch"] for commit in found] == ["dev", "main", "main"]
    shown = document("commit", "show", found[0]["id"], dev.uri, "--branch", "dev", capsys=capsys)
    assert {**shown, "collected": False} == found[0]
    run("commit", "show", found[0]["id"], dev.uri, "--branch", "main", capsys=capsys, expected=4)


def test_a_snapshot_takes_a_branch(dev: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    found = document("snapshot", dev.uri, "--branch", "dev", capsys=capsys)

    pins = {table["table_key"]: (table["branch"], table["rows"]) for table in found["tables"]}
    assert found["branch"] == "dev"
    assert pins["node:Person"] == ("dev", 2)
    assert pins["node:City"] == ("main", 0)


def test_an_export_takes_a_branch(dev: og.Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "out.jsonl"

    run("export", dev.uri, "--branch", "dev", "--output", str(output), capsys=capsys)

    assert len(output.read_text().splitlines()) == 2


def test_a_load_makes_its_branch(graph: og.Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "in.jsonl"
    data.write_text('{"type": "Person", "data": {"name": "bob"}}\n')
    arguments = ("load", graph.uri, "--mode", "append", "--data", str(data), "--branch", "new", "--from", "main")

    found = document(*arguments, capsys=capsys)
    _, err = run(*arguments, capsys=capsys, expected=3)

    assert found["target"] == {"branch": "new"}
    assert names(graph) == ["main", "new"]
    assert column(graph, "Person", "name") == ["ada"]
    assert "to load into it leave out `--from`, or add `--if-exists`" in err
