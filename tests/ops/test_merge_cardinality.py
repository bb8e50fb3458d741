"""Merging a branch that demands edges with one that took some away: the merged state has as many as it demands."""

from pathlib import Path

import pytest

import omnigraph as og
from merging import contents, kinds, run, try_merge
from omnigraph.ops.merge_result import MergeOutcome
from worlds import runtime

FREE = """
node T { k: String @key  n: I32? }
node P { k: String @key }
edge L: T -> P { w: I32? }
"""
BOTH_WAYS = pytest.mark.parametrize("source, target", [("dev", "main"), ("main", "dev")])


def demanding(low: int, schema: str = FREE) -> str:
    """The schema, with so many edges of every T."""
    return schema.replace("T -> P", f"T -> P @card({low}..9)")


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    """`t` and `u` have two edges each, with `w` 1 to 4; nobody has to have any."""
    graph = og.create_graph(str(tmp_path / "g"), FREE, runtime=runtime())
    run(graph, 'insert T { k: "t" } insert T { k: "u" } insert P { k: "p" } insert P { k: "q" }')
    for w, (source, target) in enumerate([("t", "p"), ("t", "q"), ("u", "p"), ("u", "q")], 1):
        put(graph, w, source, target)
    graph.branches.create("dev")
    return graph


def put(graph: og.Graph, w: int, source: str, target: str, branch: str = "main") -> None:
    """An edge, or other ends for one that is there."""
    edge = {"edge": "L", "id": f"e{w}", "from": source, "to": target, "data": {"w": w}}
    graph.load([edge], mode="merge", branch=branch)


def assert_refused(graph: og.Graph, source: str, target: str, node: str = "t") -> None:
    """The merge says that the node has too few edges, and changes nothing."""
    before = contents(graph, target)
    done = try_merge(graph, source, into=target)
    assert kinds(done) == [("CardinalityViolation", "edge:L", node)]
    assert contents(graph, target) == before


@BOTH_WAYS
@pytest.mark.parametrize(
    "low, statement",
    [
        pytest.param(1, 'delete L where from = "t"', id="all"),
        pytest.param(2, 'delete L where from = "t" and to = "p"', id="one of two"),
    ],
)
def test_edges_that_one_side_deleted_and_the_other_demands(
    low: int, statement: str, source: str, target: str, graph: og.Graph
) -> None:
    graph.apply_schema(demanding(low))
    run(graph, statement, "dev")

    assert_refused(graph, source, target)


@BOTH_WAYS
def test_edges_that_went_with_a_node_and_that_the_other_side_demands(source: str, target: str, graph: og.Graph) -> None:
    put(graph, 4, "u", "p")
    graph.merge("main", into="dev")
    graph.apply_schema(demanding(2))
    run(graph, 'delete P where k = "q"', "dev")

    assert_refused(graph, source, target)


@BOTH_WAYS
def test_an_edge_that_one_side_turned_away_from_where_the_other_demands_it(
    source: str, target: str, graph: og.Graph
) -> None:
    graph.apply_schema(demanding(2))
    put(graph, 1, "u", "p", "dev")

    assert_refused(graph, source, target)


@BOTH_WAYS
def test_an_edge_that_went_while_the_other_side_turned_it_to_where_it_is_needed(
    source: str, target: str, graph: og.Graph
) -> None:
    run(graph, 'insert T { k: "v" }')
    graph.merge("main", into="dev")
    put(graph, 1, "v", "p")
    graph.apply_schema(demanding(1))
    run(graph, "delete L where w = 1", "dev")

    done = try_merge(graph, source, into=target, strategy="ours" if target == "dev" else "theirs")

    assert kinds(done) == [("CardinalityViolation", "edge:L", "v")]


@BOTH_WAYS
def test_an_edge_that_both_sides_inserted_with_other_sources(source: str, target: str, graph: og.Graph) -> None:
    run(graph, 'insert T { k: "v" }')
    graph.merge("main", into="dev")
    put(graph, 5, "v", "p")
    graph.apply_schema(demanding(1))
    put(graph, 5, "u", "p", "dev")

    done = try_merge(graph, source, into=target, strategy="ours" if target == "dev" else "theirs")

    assert kinds(done) == [("CardinalityViolation", "edge:L", "v")]


@BOTH_WAYS
def test_a_new_node_without_the_edges_that_the_other_side_demands(source: str, target: str, graph: og.Graph) -> None:
    graph.apply_schema(demanding(1))
    run(graph, 'insert T { k: "v" }', "dev")

    assert_refused(graph, source, target, "v")


@BOTH_WAYS
def test_a_new_node_without_edges_of_a_type_that_the_other_side_added(
    source: str, target: str, graph: og.Graph
) -> None:
    run(graph, 'delete T where k = "t" delete T where k = "u"')
    graph.apply_schema(FREE + "edge M: T -> P @card(1..9)")
    run(graph, 'insert T { k: "v" }', "dev")

    done = try_merge(graph, source, into=target)

    assert kinds(done) == [("CardinalityViolation", "edge:M", "v")]


@BOTH_WAYS
def test_what_went_may_go_if_enough_is_left(source: str, target: str, graph: og.Graph) -> None:
    graph.apply_schema(demanding(1))
    run(graph, 'delete L where from = "t" and to = "p" delete T where k = "u"', "dev")

    done = graph.merge(source, into=target)

    assert (done.outcome, done.conflicts) == (MergeOutcome.MERGED, ())
    assert [one["w"] for one in contents(graph, target)["L"].values()] == [2]


@BOTH_WAYS
def test_what_went_may_go_if_the_other_side_brings_another(source: str, target: str, graph: og.Graph) -> None:
    graph.apply_schema(demanding(1))
    put(graph, 5, "t", "p")
    run(graph, 'delete L where from = "t"', "dev")

    done = graph.merge(source, into=target)

    assert (done.outcome, done.conflicts) == (MergeOutcome.MERGED, ())
    assert sorted(one["w"] for one in contents(graph, target)["L"].values()) == [3, 4, 5]


@BOTH_WAYS
def test_edges_that_went_where_the_other_side_also_changed_the_columns(
    source: str, target: str, graph: og.Graph
) -> None:
    graph.apply_schema(demanding(1).replace("w: I32?", "w: I32?  z: I32? @default(3)"))
    run(graph, 'delete L where from = "t"', "dev")

    assert_refused(graph, source, target)
