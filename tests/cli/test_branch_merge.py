"""`omnigraph branch merge`: what it did, or a table of what is in the way."""

import json
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from merging import contents, new_graph, row, run
from omnigraph.cli.main import main


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return new_graph(tmp_path)


def merge(graph: og.Graph, *options: str, capsys: pytest.CaptureFixture[str], expected: int = 0) -> str:
    code = main(["branch", "merge", "dev", graph.uri, *options])

    captured = capsys.readouterr()
    assert (code, captured.err) == (expected, "")
    return captured.out


def document(graph: og.Graph, *options: str, capsys: pytest.CaptureFixture[str], expected: int = 0) -> Any:
    return json.loads(merge(graph, *options, "--json", capsys=capsys, expected=expected))


def in_conflict(graph: og.Graph) -> None:
    run(graph, 'update P set { n: 2 } where name = "a" update P set { m: 9 } where name = "b"')
    run(graph, 'delete P where name = "d"')
    run(graph, 'update P set { n: 3 } where name = "a" insert Knows { from: "c", to: "d" }', "dev")
    run(graph, 'delete P where name = "b"', "dev")


def test_what_was_merged_is_told_by_table(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    run(graph, 'update P set { n: 2 } where name = "a"')
    run(graph, 'update P set { m: 2 } where name = "b" insert P { name: "e" } insert C { name: "z" }', "dev")

    first, *lines = merge(graph, "--as", "ada", "--message", "fine", capsys=capsys).splitlines()

    commit = graph.commits()[0]
    assert first == f"dev is merged into main, commit {commit.id}"
    assert [line.split() for line in lines] == [
        ["table", "how", "rows", "before", "after", "inserted", "updated", "deleted"],
        ["node:C", "adopted", "2", "3"],
        ["node:P", "merged", "4", "5", "1", "1", "0"],
    ]
    assert (commit.actor, commit.message) == ("ada", "fine")


def test_a_fast_forward_says_so(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    run(graph, 'update P set { n: 2 } where name = "a"', "dev")

    told = merge(graph, capsys=capsys)

    assert told.startswith(f"dev is merged into main (fast forward), commit {graph.snapshot().commit.id}\n")


def test_nothing_to_merge_is_fine(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    assert merge(graph, capsys=capsys) == "main is up to date: it has all changes of dev\n"


def test_edges_that_stay_with_their_node_are_counted(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    run(graph, 'update P set { n: 2 } where name = "a"')
    run(graph, 'delete P where name = "a"', "dev")

    planned = document(graph, "--strategy", "ours", "--dry-run", capsys=capsys)
    told = merge(graph, "--strategy", "ours", capsys=capsys)

    assert planned["restored_edges"] == {"edge:Knows": 1}
    last = told.splitlines()[-1]
    assert last == "kept together with their nodes, which one side had deleted: 1 edge of edge:Knows"


def test_a_dry_run_only_tells(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    run(graph, 'update P set { n: 2 } where name = "a"', "dev")
    head = graph.snapshot().commit.id

    told = merge(graph, "--dry-run", capsys=capsys)

    assert told.startswith("dev would be merged into main (fast forward)\n")
    assert graph.snapshot().commit.id == head


def test_conflicts_are_a_table_with_all_values(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    in_conflict(graph)
    before = contents(graph)

    told = merge(graph, capsys=capsys, expected=3)

    lines = [" ".join(line.split()) for line in told.splitlines()]
    assert lines[0] == "3 conflicts: nothing is merged"
    assert "conflict table id property before main dev" in lines
    assert "DivergentUpdate node:P a n 1 2 3" in lines
    assert 'DeleteVsUpdate node:P b {"m": 1} {"m": 9} -' in lines
    assert any(line.startswith("OrphanEdge edge:Knows") and line.endswith('to - - "d"') for line in lines)
    assert any(line.startswith("OrphanEdge Knows") and line.endswith("P 'd', which `main` deleted") for line in lines)
    assert "help: change dev or main so that they agree, and merge again" in lines
    assert contents(graph) == before


def test_conflicts_are_a_document_for_programs(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    in_conflict(graph)

    found = document(graph, capsys=capsys, expected=3)

    assert (found["outcome"], found["commit_id"], found["tables"]) == ("conflicts", None, [])
    assert found["conflicts"]["total"] == 3
    assert found["conflicts"]["kinds"] == {"DivergentUpdate": 1, "DeleteVsUpdate": 1, "OrphanEdge": 1}
    [first] = [one for one in found["conflicts"]["shown"] if one["kind"] == "DivergentUpdate"]
    assert first == {
        "kind": "DivergentUpdate",
        "table": "node:P",
        "id": "a",
        "property": "n",
        "other_id": None,
        "base": 1,
        "ours": 2,
        "theirs": 3,
        "message": "`n` of P 'a' was 1; it is 2 on `main` and 3 on `dev`",
    }


def test_a_value_that_two_rows_would_hold_is_in_the_table(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    run(graph, 'update P set { email: "e" } where name = "a"')
    run(graph, 'update P set { email: "e" } where name = "b"', "dev")

    told = merge(graph, capsys=capsys, expected=3)

    lines = [" ".join(line.split()) for line in told.splitlines()]
    assert 'UniqueViolation node:P b email - - "e"' in lines
    assert "UniqueViolation @unique violation on P.email: 'e' is held by 'a' and 'b'" in lines


def test_more_conflicts_than_are_shown_are_counted(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    for branch, n in (("main", 1), ("dev", 2)):
        run(graph, " ".join(f'insert C {{ name: "c{number}", v: {n} }}' for number in range(25)), branch)

    told = merge(graph, capsys=capsys, expected=3)

    assert told.startswith("25 conflicts: nothing is merged\n")
    assert told.count("DivergentInsert") == 20
    assert "\nand 5 more\n" in told


@pytest.mark.parametrize("strategy, n", [("ours", 2), ("theirs", 3)])
def test_a_strategy_settles_rows(strategy: str, n: int, graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    run(graph, 'update P set { n: 2 } where name = "a"')
    run(graph, 'update P set { n: 3, m: 5 } where name = "a"', "dev")

    found = document(graph, "--strategy", strategy, capsys=capsys)

    assert found["outcome"] == "merged"
    assert row(graph, "a") == {"name": "a", "n": n, "m": 5, "email": None}


def test_another_target_can_be_named(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    graph.branches.create("review")
    run(graph, 'update P set { n: 2 } where name = "a"', "dev")

    found = document(graph, "--into", "review", capsys=capsys)

    assert (found["into"], found["outcome"]) == ("review", "fast_forward")
    assert row(graph, "a", "review") != row(graph, "a")


def test_a_branch_that_is_not_there_is_an_error(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["branch", "merge", "dve", graph.uri])

    assert (code, capsys.readouterr().out) == (4, "")
