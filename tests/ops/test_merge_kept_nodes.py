"""A node that a merge keeps, although one side deleted it, keeps its edges."""

from pathlib import Path

import pytest

import omnigraph as og
from merging import change, contents, kinds, run, try_merge
from omnigraph.ops.merge_result import MergeOutcome
from worlds import runtime

SCHEMA = """
node P { name: String @key  n: I32? }
node C { name: String @key  n: I32? }
edge WorksAt: P -> C { w: I32? }
edge Knows: P -> P { w: I32?  @key(src, dst) }
edge Owns: P -> C @card(0..1) { code: String?  @unique(code) }
"""
STRATEGIES = pytest.mark.parametrize("strategy, keeper, deleter", [("ours", "main", "dev"), ("theirs", "dev", "main")])
START = """
insert P { name: "ann" } insert P { name: "bob" } insert C { name: "acme" } insert C { name: "zoo" }
insert WorksAt { from: "ann", to: "acme", w: 1 } insert WorksAt { from: "bob", to: "zoo", w: 2 }
insert Knows { from: "ann", to: "bob", w: 1 } insert Knows { from: "bob", to: "ann", w: 2 }
insert Knows { from: "ann", to: "ann", w: 3 }
"""


def new_graph(root: Path, schema: str = SCHEMA, start: str = START) -> og.Graph:
    """Return a graph of two persons at two companies, with the branch `dev`."""
    graph = og.create_graph(str(root / "g"), schema, runtime=runtime())
    run(graph, start)
    graph.branches.create("dev")
    return graph


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return new_graph(tmp_path)


def ends(graph: og.Graph, type_name: str, branch: str = "main") -> list[tuple[str, str]]:
    """Return where the edges of a type lead from and to."""
    return sorted((one["src"], one["dst"]) for one in contents(graph, branch)[type_name].values())


def delete(graph: og.Graph, branch: str, *names: str, kind: str = "P") -> None:
    """Delete nodes on a branch, and with them their edges."""
    for name in names:
        run(graph, f'delete {kind} where name = "{name}"', branch)


@STRATEGIES
def test_a_kept_node_keeps_its_edges(strategy: str, keeper: str, deleter: str, graph: og.Graph) -> None:
    before = {kind: contents(graph)[kind] for kind in ("WorksAt", "Knows")}
    delete(graph, deleter, "ann")
    run(graph, change("P", "n", 5, name="ann"), keeper)

    planned = graph.merge("dev", strategy=strategy, dry_run=True)
    done = graph.merge("dev", strategy=strategy)

    assert done.outcome is MergeOutcome.MERGED
    assert {kind: contents(graph)[kind] for kind in ("WorksAt", "Knows")} == before
    assert contents(graph)["P"]["ann"]["n"] == 5
    assert done.restored_edges == planned.restored_edges == {"edge:Knows": 3, "edge:WorksAt": 1}
    assert planned.tables == done.tables


@STRATEGIES
def test_what_the_deleting_side_did_to_other_edges_comes_too(
    strategy: str, keeper: str, deleter: str, graph: og.Graph
) -> None:
    delete(graph, deleter, "ann")
    run(graph, 'insert WorksAt { from: "bob", to: "acme", w: 7 }', deleter)
    run(graph, 'delete WorksAt where to = "zoo"', deleter)
    run(graph, change("P", "n", 5, name="ann"), keeper)

    done = graph.merge("dev", strategy=strategy)

    assert ends(graph, "WorksAt") == [("ann", "acme"), ("bob", "acme")]
    assert done.restored_edges == {"edge:Knows": 3, "edge:WorksAt": 1}


@STRATEGIES
def test_edges_between_two_kept_nodes_come_back(strategy: str, keeper: str, deleter: str, graph: og.Graph) -> None:
    delete(graph, deleter, "ann", "bob")
    run(graph, change("P", "n", 5, name="ann") + change("P", "n", 5, name="bob"), keeper)

    graph.merge("dev", strategy=strategy)

    assert ends(graph, "Knows") == [("ann", "ann"), ("ann", "bob"), ("bob", "ann")]


@STRATEGIES
def test_an_edge_whose_other_end_is_gone_stays_away(strategy: str, keeper: str, deleter: str, graph: og.Graph) -> None:
    delete(graph, deleter, "ann", "bob")
    delete(graph, deleter, "acme", kind="C")
    run(graph, change("P", "n", 5, name="ann"), keeper)

    done = graph.merge("dev", strategy=strategy)

    assert done.outcome is MergeOutcome.MERGED
    assert ends(graph, "Knows") == [("ann", "ann")]
    assert ends(graph, "WorksAt") == []
    assert done.restored_edges == {"edge:Knows": 1}


@STRATEGIES
def test_an_edge_that_the_keeping_side_deleted_itself_stays_away(
    strategy: str, keeper: str, deleter: str, graph: og.Graph
) -> None:
    delete(graph, deleter, "ann")
    run(graph, 'delete Knows where from = "ann" and to = "bob" delete WorksAt where from = "ann"', keeper)
    run(graph, change("P", "n", 5, name="ann"), keeper)

    done = graph.merge("dev", strategy=strategy)

    assert ends(graph, "Knows") == [("ann", "ann"), ("bob", "ann")]
    assert ends(graph, "WorksAt") == [("bob", "zoo")]
    assert done.restored_edges == {"edge:Knows": 2}


@STRATEGIES
def test_edges_that_the_keeping_side_made_and_changed_stay(
    strategy: str, keeper: str, deleter: str, graph: og.Graph
) -> None:
    delete(graph, deleter, "ann")
    run(graph, change("P", "n", 5, name="ann") + 'insert WorksAt { from: "ann", to: "zoo", w: 8 }', keeper)
    run(graph, change("Knows", "w", 9, from_="ann", to="bob"), keeper)

    graph.merge("dev", strategy=strategy)

    assert {one["w"] for one in contents(graph)["Knows"].values()} == {9, 2, 3}
    assert ends(graph, "WorksAt") == [("ann", "acme"), ("ann", "zoo"), ("bob", "zoo")]


@STRATEGIES
def test_the_other_strategy_takes_the_edges_along(strategy: str, keeper: str, deleter: str, graph: og.Graph) -> None:
    delete(graph, deleter, "ann")
    run(graph, change("P", "n", 5, name="ann"), keeper)

    done = graph.merge("dev", strategy="theirs" if strategy == "ours" else "ours")

    assert (ends(graph, "Knows"), ends(graph, "WorksAt")) == ([], [("bob", "zoo")])
    assert done.restored_edges == {}


@STRATEGIES
def test_a_kept_node_at_the_far_end_brings_its_edges(strategy: str, keeper: str, deleter: str, graph: og.Graph) -> None:
    delete(graph, deleter, "acme", kind="C")
    run(graph, change("C", "n", 5, name="acme"), keeper)

    done = graph.merge("dev", strategy=strategy)

    assert ends(graph, "WorksAt") == [("ann", "acme"), ("bob", "zoo")]
    assert done.restored_edges == {"edge:WorksAt": 1}


OWNER = START + 'insert Owns { from: "bob", to: "acme", code: "x" }'


@STRATEGIES
def test_a_source_that_took_another_edge_meanwhile_has_too_many(
    strategy: str, keeper: str, deleter: str, tmp_path: Path
) -> None:
    graph = new_graph(tmp_path, start=OWNER)
    delete(graph, deleter, "acme", kind="C")
    run(graph, 'insert Owns { from: "bob", to: "zoo" }', deleter)
    run(graph, change("C", "n", 5, name="acme"), keeper)

    done = try_merge(graph, "dev", strategy=strategy)

    assert kinds(done) == [("CardinalityViolation", "edge:Owns", "bob")]
    assert "'bob' has 2 edges (max 1)" in done.conflicts[0].message


@STRATEGIES
def test_an_edge_that_comes_back_holds_its_unique_value(
    strategy: str, keeper: str, deleter: str, tmp_path: Path
) -> None:
    graph = new_graph(tmp_path, start=OWNER)
    delete(graph, deleter, "acme", kind="C")
    run(graph, 'insert Owns { from: "ann", to: "zoo", code: "x" }', deleter)
    run(graph, change("C", "n", 5, name="acme"), keeper)

    done = try_merge(graph, "dev", strategy=strategy)

    assert [kind for kind, *_ in kinds(done)] == ["UniqueViolation"]


@STRATEGIES
def test_an_edge_that_comes_back_keeps_the_rules_that_were_made_without_it(
    strategy: str, keeper: str, deleter: str, graph: og.Graph
) -> None:
    delete(graph, deleter, "ann")
    graph.apply_schema(
        SCHEMA.replace("edge WorksAt: P -> C { w: I32?", "edge WorksAt: P -> C { w: I32?  @range(w, 2..9)"),
        branch=deleter,
    )
    run(graph, change("P", "n", 5, name="ann"), keeper)

    done = try_merge(graph, "dev", strategy=strategy)

    assert [(kind, table) for kind, table, _ in kinds(done)] == [("ValueConstraintViolation", "edge:WorksAt")]


@STRATEGIES
def test_edges_come_back_in_the_columns_of_the_merged_schema(
    strategy: str, keeper: str, deleter: str, graph: og.Graph
) -> None:
    delete(graph, deleter, "ann")
    graph.apply_schema(SCHEMA.replace("P -> C { w: I32? }", "P -> C { w: I32?  z: I32 @default(4) }"), branch=deleter)
    run(graph, change("P", "n", 5, name="ann"), keeper)

    done = graph.merge("dev", strategy=strategy)

    assert done.conflicts == ()
    assert sorted((one["w"], one["z"]) for one in contents(graph)["WorksAt"].values()) == [(1, 4), (2, 4)]


@STRATEGIES
def test_edges_come_back_under_the_names_of_the_merged_schema(
    strategy: str, keeper: str, deleter: str, graph: og.Graph
) -> None:
    delete(graph, deleter, "ann")
    renamed = SCHEMA.replace("node P {", 'node Human @rename_from("P") {').replace("P -> ", "Human -> ")
    graph.apply_schema(renamed.replace("-> P", "-> Human"), branch=deleter)
    run(graph, change("P", "n", 5, name="ann"), keeper)

    done = graph.merge("dev", strategy=strategy)

    assert done.conflicts == ()
    assert ends(graph, "Knows") == [("ann", "ann"), ("ann", "bob"), ("bob", "ann")]


@STRATEGIES
def test_a_node_that_needs_an_edge_whose_other_end_is_gone(
    strategy: str, keeper: str, deleter: str, tmp_path: Path
) -> None:
    graph = new_graph(tmp_path, SCHEMA.replace("edge WorksAt: P -> C", "edge WorksAt: P -> C @card(1..2)"))
    delete(graph, deleter, "ann")
    delete(graph, deleter, "acme", kind="C")
    run(graph, change("P", "n", 5, name="ann"), keeper)

    done = try_merge(graph, "dev", strategy=strategy)

    assert kinds(done) == [("CardinalityViolation", "edge:WorksAt", "ann")]
    assert "'ann' has 0 edges (min 1)" in done.conflicts[0].message


@STRATEGIES
def test_a_node_that_needs_its_edges_has_them(strategy: str, keeper: str, deleter: str, tmp_path: Path) -> None:
    graph = new_graph(tmp_path, SCHEMA.replace("edge WorksAt: P -> C", "edge WorksAt: P -> C @card(1..2)"))
    delete(graph, deleter, "ann")
    run(graph, change("P", "n", 5, name="ann"), keeper)

    done = graph.merge("dev", strategy=strategy)

    assert done.outcome is MergeOutcome.MERGED
    assert ends(graph, "WorksAt") == [("ann", "acme"), ("bob", "zoo")]


@STRATEGIES
def test_edges_of_a_kept_node_after_a_crossing(strategy: str, keeper: str, deleter: str, graph: og.Graph) -> None:
    run(graph, 'insert P { name: "eve" } insert Knows { from: "eve", to: "ann", w: 4 }')
    run(graph, 'insert P { name: "dan" } insert Knows { from: "dan", to: "ann", w: 5 }', "dev")
    graph.branches.create("main-then", from_="main")
    graph.merge("dev")
    graph.merge("main-then", into="dev")
    delete(graph, deleter, "ann")
    run(graph, change("P", "n", 5, name="ann"), keeper)

    done = graph.merge("dev", strategy=strategy)

    assert done.outcome is MergeOutcome.MERGED
    assert len(ends(graph, "Knows")) == done.restored_edges["edge:Knows"] == 5


@pytest.mark.parametrize("source, into", [("dev", "main"), ("main", "dev")])
@pytest.mark.parametrize("strategy", ["ours", "theirs"])
def test_a_node_that_a_crossing_settled_both_ways_goes_or_stays_with_its_edges(
    source: str, into: str, strategy: str, graph: og.Graph
) -> None:
    delete(graph, "dev", "ann")
    run(graph, change("P", "n", 5, name="ann"))
    graph.branches.create("main-then", from_="main")
    graph.merge("dev", strategy="ours")
    graph.merge("main-then", into="dev", strategy="ours")
    assert (len(ends(graph, "Knows")), len(ends(graph, "Knows", "dev"))) == (3, 0)

    done = graph.merge(source, into=into, strategy=strategy)

    assert done.conflicts == ()
    is_kept = (into == "main") == (strategy == "ours")
    assert ("ann" in contents(graph, into)["P"]) == is_kept
    assert len(ends(graph, "Knows", into)) == (3 if is_kept else 0)
    assert len(ends(graph, "WorksAt", into)) == (2 if is_kept else 1)


@STRATEGIES
def test_edges_of_a_kept_node_come_back_after_a_compaction(
    strategy: str, keeper: str, deleter: str, graph: og.Graph
) -> None:
    for number in range(12):
        run(graph, f'insert WorksAt {{ from: "bob", to: "acme", w: {number} }}', keeper)
    delete(graph, deleter, "ann")
    run(graph, change("P", "n", 5, name="ann"), keeper)
    graph.optimize(branch=keeper)

    done = graph.merge("dev", strategy=strategy)

    assert len(ends(graph, "WorksAt")) == 14
    assert done.restored_edges == {"edge:Knows": 3, "edge:WorksAt": 1}


@STRATEGIES
def test_an_edge_comes_back_with_its_blob(strategy: str, keeper: str, deleter: str, tmp_path: Path) -> None:
    schema = SCHEMA.replace("edge Knows: P -> P { w: I32?", "edge Knows: P -> P { w: I32?  photo: Blob?")
    graph = new_graph(tmp_path, schema)
    run(graph, 'update Knows set { photo: $p } where from = "ann" and to = "bob"', p=b"picture")
    graph.merge("main", into="dev")
    delete(graph, deleter, "ann")
    run(graph, 'insert C { name: "new" }', deleter)
    run(graph, change("P", "n", 5, name="ann"), keeper)

    graph.merge("dev", strategy=strategy)

    stream = graph.blob("Knows", '["ann","bob"]', "photo")
    assert stream is not None
    assert stream.read() == b"picture"


@STRATEGIES
def test_what_was_restored_goes_to_the_other_branch_with_its_node(
    strategy: str, keeper: str, deleter: str, graph: og.Graph
) -> None:
    delete(graph, deleter, "ann")
    run(graph, change("P", "n", 5, name="ann"), keeper)
    graph.merge("dev", strategy=strategy)
    run(graph, 'insert C { name: "new" }', "dev")

    done = graph.merge("main", into="dev")

    assert done.conflicts == ()
    assert ends(graph, "Knows", "dev") == [("ann", "ann"), ("ann", "bob"), ("bob", "ann")]
    assert ends(graph, "WorksAt", "dev") == [("ann", "acme"), ("bob", "zoo")]
