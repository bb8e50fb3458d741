"""Branches that were merged crosswise have several best common ancestors: what one side undid since stays undone."""

from pathlib import Path

import pytest

import omnigraph as og
from merging import change, contents, kinds, new_graph, row, run
from omnigraph.ops.merge_result import MergeOutcome


def cross(graph: og.Graph, name: str = "1") -> None:
    """Merge `main` into `dev` and `dev` into `main`, each as it was before the other merge."""
    graph.branches.create(f"x{name}", from_="main")
    graph.branches.create(f"y{name}", from_="dev")
    assert graph.merge(f"y{name}").outcome is MergeOutcome.MERGED
    assert graph.merge(f"x{name}", into="dev").outcome is MergeOutcome.MERGED


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    """Main has brought `q` and a change of `a`, dev has brought `o` and a change of `b`, and the two have crossed."""
    graph = new_graph(tmp_path)
    run(graph, 'insert P { name: "q", n: 1 } ' + change("P", "n", 2, name="a"))
    run(graph, 'insert P { name: "o", n: 1 } ' + change("P", "n", 2, name="b"), "dev")
    cross(graph)
    return graph


@pytest.mark.parametrize("source, into", [("dev", "main"), ("main", "dev")])
@pytest.mark.parametrize("undoer", ["main", "dev"])
@pytest.mark.parametrize("name, changed", [("q", "a"), ("o", "b")])
def test_what_a_side_undid_after_a_crossing_stays_undone(
    source: str, into: str, undoer: str, name: str, changed: str, graph: og.Graph
) -> None:
    other = "dev" if undoer == "main" else "main"
    run(graph, f'delete P where name = "{name}"', undoer)
    run(graph, change("P", "n", 1, name=changed), undoer)
    run(graph, 'insert P { name: "z" }', other)

    done = graph.merge(source, into=into)

    assert done.outcome is MergeOutcome.MERGED
    found = contents(graph, into)["P"]
    assert found.keys() == {*"abcdz", *({"q", "o"} - {name})}
    assert {key: found[key]["n"] for key in "ab"} == {"a": 2, "b": 2, changed: 1}
    assert done.tables[0].rows_after == len(found)


def test_edits_of_different_properties_after_a_crossing_come_together(graph: og.Graph) -> None:
    run(graph, change("P", "n", 5, name="q"))
    run(graph, change("P", "m", 6, name="q"), "dev")

    done = graph.merge("dev")

    assert done.outcome is MergeOutcome.MERGED
    found = row(graph, "q")
    assert found is not None
    assert (found["n"], found["m"]) == (5, 6)


def test_a_deletion_and_a_change_after_a_crossing_are_a_conflict(graph: og.Graph) -> None:
    run(graph, 'delete P where name = "q"')
    run(graph, change("P", "m", 6, name="q"), "dev")

    assert kinds(graph.merge("dev")) == kinds(graph.merge("main", into="dev")) == [("DeleteVsUpdate", "node:P", "q")]


def test_an_edge_to_a_node_that_came_before_the_crossing_and_went_after_it(graph: og.Graph) -> None:
    run(graph, 'delete P where name = "q"')
    run(graph, 'insert Knows { from: "a", to: "q" }', "dev")

    done = graph.merge("dev")

    assert [kind for kind, *_ in kinds(done)] == ["OrphanEdge"]


def test_edges_of_a_node_that_went_after_the_crossing_stay_away(tmp_path: Path) -> None:
    graph = new_graph(tmp_path)
    run(graph, 'insert Knows { from: "c", to: "d" }')
    run(graph, 'insert Knows { from: "d", to: "c" }', "dev")
    cross(graph)
    run(graph, 'delete P where name = "d"')
    run(graph, 'insert P { name: "z" } insert Knows { from: "z", to: "a" }', "dev")

    graph.merge("dev")

    ends = sorted((one["src"], one["dst"]) for one in contents(graph)["Knows"].values())
    assert ends == [("a", "b"), ("z", "a")]


def test_a_crossing_after_a_crossing(graph: og.Graph) -> None:
    run(graph, 'insert P { name: "q2" }')
    run(graph, 'delete P where name = "o"', "dev")
    cross(graph, "2")
    run(graph, 'delete P where name = "q2"')
    run(graph, 'insert P { name: "o", n: 7 }')
    run(graph, 'delete P where name = "q"', "dev")

    done = graph.merge("dev")

    assert done.outcome is MergeOutcome.MERGED
    assert contents(graph)["P"].keys() == {*"abcdo"}


def test_a_clash_that_the_crossing_settled_both_ways_is_a_conflict_again(tmp_path: Path) -> None:
    graph = new_graph(tmp_path)
    run(graph, change("P", "n", 2, name="a"))
    run(graph, change("P", "n", 3, name="a"), "dev")
    graph.branches.create("x", from_="main")
    graph.branches.create("y", from_="dev")
    graph.merge("y", strategy="ours")
    graph.merge("x", into="dev", strategy="ours")

    done, back = graph.merge("dev"), graph.merge("main", into="dev")

    assert kinds(done) == kinds(back) == [("DivergentUpdate", "node:P", "a")]
    assert graph.merge("dev", strategy="theirs").outcome is MergeOutcome.MERGED
    assert (row(graph, "a") or {})["n"] == 3


def test_a_property_that_was_dropped_after_the_crossing_stays_dropped(tmp_path: Path) -> None:
    schema = "node P { name: String @key  n: I32? }"
    wider = "node P { name: String @key  n: I32?  k: I32? }"
    graph = og.create_graph(str(tmp_path / "g"), schema)
    run(graph, 'insert P { name: "a" }')
    graph.branches.create("dev")
    graph.apply_schema(wider)
    run(graph, 'insert P { name: "o" }', "dev")
    cross(graph)
    graph.apply_schema(schema)
    run(graph, 'insert P { name: "z" }', "dev")

    done = graph.merge("dev")

    assert done.outcome is MergeOutcome.MERGED
    assert "k" not in graph.table("P").to_table().column_names
    assert contents(graph)["P"].keys() == {"a", "o", "z"}


def test_blobs_of_rows_that_came_before_a_crossing(graph: og.Graph) -> None:
    run(graph, 'update P set { photo: $p } where name = "q"', p=b"one")
    run(graph, 'insert P { name: "z" }', "dev")
    cross(graph, "2")
    run(graph, change("P", "m", 9, name="q"), "dev")
    run(graph, 'insert P { name: "y" }')

    done = graph.merge("dev")

    assert done.outcome is MergeOutcome.MERGED
    assert (row(graph, "q") or {})["m"] == 9


@pytest.mark.parametrize("source, into", [("dev", "main"), ("main", "dev")])
def test_branches_that_both_have_merged_the_same_three_others(source: str, into: str, tmp_path: Path) -> None:
    graph = new_graph(tmp_path)
    for name in ("p", "q", "r"):
        graph.branches.create(name)
        run(graph, f'insert P {{ name: "{name}1" }} insert P {{ name: "{name}2", n: 1 }}', name)
        run(graph, f'insert C {{ name: "{name}" }}')
    for name in ("p", "q", "r"):
        graph.merge(name)
        graph.merge(name, into="dev")
    run(graph, " ".join(f'delete P where name = "{name}1"' for name in ("p", "q", "r")))
    run(graph, " ".join(change("P", "n", 7, name=f"{name}2") for name in ("p", "q", "r")), "dev")

    done = graph.merge(source, into=into)

    assert done.outcome is MergeOutcome.MERGED
    found = contents(graph, into)["P"]
    assert found.keys() == {*"abcd", "p2", "q2", "r2"}
    assert {found[name]["n"] for name in ("p2", "q2", "r2")} == {7}


def test_a_base_that_was_merged_into_another_and_undone_there(tmp_path: Path) -> None:
    graph = new_graph(tmp_path)
    for name in ("p", "q"):
        graph.branches.create(name)
        run(graph, f'insert P {{ name: "{name}" }}', name)
    graph.branches.create("r", from_="q")
    graph.merge("p", into="r")
    run(graph, 'delete P where name = "p"', "r")
    run(graph, 'insert P { name: "more" }', "p")
    for name in ("p", "r"):
        graph.merge(name)
        graph.merge(name, into="dev")
    run(graph, 'insert P { name: "p" }')
    run(graph, 'delete P where name = "q"', "dev")

    done = graph.merge("dev")

    assert done.outcome is MergeOutcome.MERGED
    assert contents(graph)["P"].keys() == {*"abcdp", "more"}
