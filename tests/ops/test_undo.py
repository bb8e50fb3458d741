"""Reverts, cherry-picks and resets, one case each."""

from pathlib import Path

import pytest

import omnigraph as og
from collecting import DAY, pass_time
from merging import SCHEMA, change, contents, kinds, new_graph, row, run
from omnigraph.ops import merge as merge_module
from omnigraph.ops import reset as module
from omnigraph.ops.merge_result import MergeOutcome


def head(graph: og.Graph, branch: str = "main") -> str:
    return graph.snapshot(branch=branch).commit.id


def commit(graph: og.Graph, statements: str, branch: str = "main") -> str:
    """Run statements, and return the commit that they made."""
    run(graph, statements, branch)
    return head(graph, branch)


def test_a_revert_undoes_one_commit_and_keeps_what_came_later(tmp_path: Path) -> None:
    graph = new_graph(tmp_path)
    wrong = commit(graph, change("P", "n", 7, name="a"))
    run(graph, change("P", "m", 8, name="a"))
    run(graph, change("P", "n", 9, name="b"))

    done = graph.revert(wrong, message="it was wrong", actor="ada")

    assert done.outcome is MergeOutcome.MERGED
    assert row(graph, "a") == {"name": "a", "n": 1, "m": 8, "email": None}
    assert contents(graph)["P"]["b"]["n"] == 9
    recorded = graph.commit(done.commit_id or "")
    assert (recorded.operation, recorded.refers_to, recorded.message) == ("revert", wrong, "it was wrong")
    assert recorded.to_json()["refers_to"] == wrong


def test_a_revert_of_the_newest_commit_moves_pins_and_writes_no_row(tmp_path: Path) -> None:
    graph = new_graph(tmp_path)
    before = graph.snapshot().pins["node:P"]
    wrong = commit(graph, change("P", "n", 7, name="a"))

    done = graph.revert(wrong)

    assert [table.how for table in done.tables] == ["adopted"]
    assert graph.snapshot().pins["node:P"] == before


def test_rows_that_were_changed_since_are_conflicts_and_nothing_is_written(tmp_path: Path) -> None:
    graph = new_graph(tmp_path)
    wrong = commit(graph, change("P", "n", 7, name="a"))
    newest = commit(graph, change("P", "n", 8, name="a"))

    with pytest.raises(og.MergeConflictsError) as caught:
        graph.revert(wrong)

    assert kinds(caught.value.result) == [("DivergentUpdate", "node:P", "a")]
    assert f"8 on `main` and 1 on `before {wrong}`" in caught.value.result.conflicts[0].message
    assert head(graph) == newest
    assert graph.revert(wrong, strategy="ours").outcome is MergeOutcome.ALREADY_UP_TO_DATE
    graph.revert(wrong, strategy="theirs")
    assert contents(graph)["P"]["a"]["n"] == 1


def test_an_insert_whose_node_got_edges_later_is_not_reverted(tmp_path: Path) -> None:
    graph = new_graph(tmp_path)
    added = commit(graph, 'insert P { name: "new" }')
    newest = commit(graph, 'insert Knows { from: "new", to: "a" }')

    with pytest.raises(og.MergeConflictsError) as caught:
        graph.revert(added)

    assert [(kind, table) for kind, table, _ in kinds(caught.value.result)] == [("OrphanEdge", "edge:Knows")]
    assert head(graph) == newest


def test_an_edge_does_not_come_back_without_its_end(tmp_path: Path) -> None:
    graph = new_graph(tmp_path)
    removed = commit(graph, 'delete Knows where from = "a" and to = "b"')
    run(graph, 'delete P where name = "b"')

    with pytest.raises(og.MergeConflictsError) as caught:
        graph.revert(removed)

    assert [(kind, table) for kind, table, _ in kinds(caught.value.result)] == [("OrphanEdge", "edge:Knows")]


def test_a_reverted_delete_brings_the_cascaded_edges_back(tmp_path: Path) -> None:
    graph = new_graph(tmp_path)
    before = contents(graph)
    removed = commit(graph, 'delete P where name = "a"')
    run(graph, change("P", "n", 9, name="c"))

    graph.revert(removed)

    assert contents(graph)["Knows"] == before["Knows"]
    assert row(graph, "a") == before["P"]["a"]


def test_a_node_that_a_revert_keeps_keeps_its_edges(tmp_path: Path) -> None:
    graph = new_graph(tmp_path)
    before = contents(graph)
    wrong = commit(graph, change("P", "n", 7, name="a"))
    run(graph, 'delete P where name = "a"')

    with pytest.raises(og.MergeConflictsError) as caught:
        graph.revert(wrong)
    done = graph.revert(wrong, strategy="theirs")

    assert kinds(caught.value.result) == [("DeleteVsUpdate", "node:P", "a")]
    assert done.restored_edges == {"edge:Knows": 1}
    assert contents(graph) == before


def test_a_unique_value_that_was_taken_since_is_a_conflict(tmp_path: Path) -> None:
    graph = new_graph(tmp_path)
    run(graph, change("P", "email", '"x"', name="a"))
    freed = commit(graph, change("P", "email", "null", name="a"))
    run(graph, change("P", "email", '"x"', name="b"))

    with pytest.raises(og.MergeConflictsError) as caught:
        graph.revert(freed)

    assert [kind for kind, _, _ in kinds(caught.value.result)] == ["UniqueViolation"]


def test_a_reverted_merge_does_not_come_back_by_merging_again(tmp_path: Path) -> None:
    graph = new_graph(tmp_path)
    run(graph, change("P", "n", 5, name="a"), "dev")
    run(graph, change("P", "n", 6, name="b"))
    merged = graph.merge("dev").commit_id or ""

    undone = graph.revert(merged)
    again = graph.merge("dev")

    assert (contents(graph)["P"]["a"]["n"], contents(graph)["P"]["b"]["n"]) == (1, 6)
    assert again.outcome is MergeOutcome.ALREADY_UP_TO_DATE
    graph.revert(undone.commit_id or "")
    assert contents(graph)["P"]["a"]["n"] == 5


def test_a_schema_change_is_reverted_with_its_commit(tmp_path: Path) -> None:
    graph = new_graph(tmp_path)
    changed = graph.apply_schema(SCHEMA.replace("v: I32?", "v: I32?  size: I64?")).commit_id or ""
    run(graph, 'insert C { name: "z", v: 3 }')

    done = graph.revert(changed)

    assert "size" not in graph.accepted_schema().source
    assert contents(graph)["C"]["z"] == {"name": "z", "v": 3}
    assert graph.commit(done.commit_id or "").schema_after is not None


def test_values_of_a_reverted_property_are_a_conflict(tmp_path: Path) -> None:
    graph = new_graph(tmp_path)
    changed = graph.apply_schema(SCHEMA.replace("v: I32?", "v: I32?  size: I64?")).commit_id or ""
    run(graph, 'insert C { name: "z", size: 3 }')

    with pytest.raises(og.MergeConflictsError) as caught:
        graph.revert(changed)

    assert [kind for kind, _, _ in kinds(caught.value.result)] == ["SchemaDivergence"]


def test_a_blob_comes_back_with_its_row(tmp_path: Path) -> None:
    graph = new_graph(tmp_path)
    run(graph, 'insert P { name: "seen", photo: $b }', b=b"pixels")
    removed = commit(graph, 'delete P where name = "seen"')
    run(graph, change("P", "n", 9, name="c"))

    graph.revert(removed)

    photo = graph.blob("P", "seen", "photo")
    assert photo is not None
    assert photo.read() == b"pixels"


def test_a_cherry_pick_onto_its_own_parent_is_the_commit(tmp_path: Path) -> None:
    graph = new_graph(tmp_path)
    picked = commit(graph, change("P", "n", 5, name="a") + ' insert Knows { from: "c", to: "d" }', "dev")
    run(graph, change("P", "n", 6, name="a"), "dev")

    done = graph.cherry_pick(picked)

    assert contents(graph) == contents_at(graph, picked)
    assert graph.commit(done.commit_id or "").refers_to == picked
    assert graph.cherry_pick(picked).outcome is MergeOutcome.ALREADY_UP_TO_DATE


def contents_at(graph: og.Graph, state: str) -> object:
    graph.branches.create("there", snapshot=state, from_="dev")
    return contents(graph, "there")


def test_the_first_commit_and_unknown_ones_are_refused(tmp_path: Path) -> None:
    graph = new_graph(tmp_path)
    first = graph.commits()[-1].id

    with pytest.raises(og.BadArgumentError, match="it is the first commit"):
        graph.revert(first)
    with pytest.raises(og.CommitMissingError):
        graph.revert("01JC0000000000000000000000")
    with pytest.raises(og.BadArgumentError, match="strategy"):
        graph.revert(first, strategy="mine")


def test_a_compaction_has_nothing_to_revert(tmp_path: Path) -> None:
    graph = new_graph(tmp_path)
    for number in range(3):
        run(graph, f'insert P {{ name: "k{number}" }}')
    graph.optimize()

    assert graph.revert(head(graph)).outcome is MergeOutcome.ALREADY_UP_TO_DATE


def test_a_collected_commit_is_refused_by_name(tmp_path: Path) -> None:
    graph = new_graph(tmp_path)
    wrong = commit(graph, change("P", "n", 7, name="a"))
    for number in range(3):
        run(graph, change("P", "m", number, name="b"))
    graph.branches.delete("dev")
    pass_time(graph.uri, 2 * DAY)
    graph.cleanup(keep=1, confirm=True)

    for call in (graph.revert, graph.cherry_pick, lambda state: graph.reset("main", to=state)):
        with pytest.raises(og.CommitCollectedError, match=wrong):
            call(wrong)


def test_a_reset_across_a_schema_change_restores_both(tmp_path: Path) -> None:
    graph = new_graph(tmp_path)
    before, state = head(graph), contents(graph)
    graph.apply_schema(SCHEMA.partition("edge Owns")[0], allow_drops=True)
    run(graph, 'delete P where name = "a"')

    done = graph.reset("main", to=before)

    assert contents(graph) == state
    assert done.is_schema_changed
    run(graph, 'insert Owns { from: "a", to: "x" }')
    assert list(contents(graph)["Owns"].values()) == [{"src": "a", "dst": "x", "w": None}]


def test_an_older_branch_merges_after_a_reset(tmp_path: Path) -> None:
    graph = new_graph(tmp_path)
    before = head(graph)
    run(graph, change("P", "n", 7, name="a"))
    run(graph, change("P", "m", 5, name="a"), "dev")

    graph.reset("main", to=before)
    graph.merge("dev")

    assert row(graph, "a") == {"name": "a", "n": 1, "m": 5, "email": None}


def test_a_feed_tells_a_revert_and_a_reset_as_changes_of_rows(tmp_path: Path) -> None:
    graph = new_graph(tmp_path)
    before = head(graph)
    wrong = commit(graph, change("P", "n", 7, name="a"))
    undone = graph.revert(wrong).commit_id or ""
    reset = graph.reset("main", to=wrong).commit_id or ""

    values = [
        (part.commit.id, row["n"])
        for part in graph.changes(since=before)
        for rows in part
        if rows.after is not None
        for row in rows.after.to_pylist()
    ]

    assert values == [(wrong, 7), (undone, 1), (reset, 7)]


def test_another_commit_during_a_reset_is_a_conflict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = new_graph(tmp_path)
    before = head(graph)
    run(graph, change("P", "n", 7, name="a"))
    build = merge_module.build_manifest_change

    def race(*arguments: object) -> object:
        monkeypatch.setattr(module, "build_manifest_change", build)
        run(graph, change("P", "n", 8, name="b"))
        return build(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "build_manifest_change", race)
    with pytest.raises(og.ConflictError):
        graph.reset("main", to=before)

    assert (contents(graph)["P"]["a"]["n"], contents(graph)["P"]["b"]["n"]) == (7, 8)
