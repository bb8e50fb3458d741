"""Branches that were merged crosswise have several best common ancestors: what one side undid since stays undone."""

from pathlib import Path

import pytest

import omnigraph as og
from merging import SCHEMA, change, contents, kinds, new_graph, row, run, try_merge
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

    assert (
        kinds(try_merge(graph, "dev"))
        == kinds(try_merge(graph, "main", into="dev"))
        == [("DeleteVsUpdate", "node:P", "q")]
    )


def test_an_edge_to_a_node_that_came_before_the_crossing_and_went_after_it(graph: og.Graph) -> None:
    run(graph, 'delete P where name = "q"')
    run(graph, 'insert Knows { from: "a", to: "q" }', "dev")

    done = try_merge(graph, "dev")

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

    done, back = try_merge(graph, "dev"), try_merge(graph, "main", into="dev")

    assert kinds(done) == kinds(back) == [("DivergentUpdate", "node:P", "a")]
    assert (done.conflicts[0].base, done.conflicts[0].ours, done.conflicts[0].theirs) == (None, 2, 3)
    assert "`n` of P 'a' is 2 on `main` and 3 on `dev`; the earlier value is not known" in done.conflicts[0].message
    assert try_merge(graph, "dev", strategy="theirs").outcome is MergeOutcome.MERGED
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
    graph.apply_schema(schema, allow_drops=True)
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


def photo(graph: og.Graph, name: str, branch: str = "main") -> bytes | None:
    stream = graph.blob("P", name, "photo", branch=branch)
    return None if stream is None else stream.read()


@pytest.mark.parametrize("source, into", [("dev", "main"), ("main", "dev")])
@pytest.mark.parametrize("changer", ["main", "dev"])
def test_a_blob_that_one_side_changed_after_the_bases_had_others(
    source: str, into: str, changer: str, tmp_path: Path
) -> None:
    graph = new_graph(tmp_path)
    run(graph, 'update P set { photo: $p } where name = "a"', p=b"main's")
    run(graph, change("P", "n", 9, name="a"), "dev")
    run(graph, 'update P set { photo: $p } where name = "b"', "dev", p=b"dev's")
    cross(graph)
    run(graph, 'update P set { photo: $p } where name = "a"', changer, p=b"newer!")
    run(graph, 'update P set { photo: null } where name = "b"', changer)
    run(graph, 'insert P { name: "z" }', "dev" if changer == "main" else "main")

    done = graph.merge(source, into=into)

    assert done.conflicts == ()
    assert (photo(graph, "a", into), photo(graph, "b", into)) == (b"newer!", None)
    assert (row(graph, "a", into) or {})["n"] == 9


def test_blobs_that_both_sides_changed_after_a_crossing_are_a_conflict(tmp_path: Path) -> None:
    graph = new_graph(tmp_path)
    run(graph, 'update P set { photo: $p } where name = "a"', p=b"main's")
    run(graph, change("P", "n", 9, name="a"), "dev")
    cross(graph)
    run(graph, 'update P set { photo: $p } where name = "a"', p=b"one")
    run(graph, 'update P set { photo: $p } where name = "a"', "dev", p=b"two")

    done = try_merge(graph, "dev")

    assert [(one.kind.value, one.property, one.ours) for one in done.conflicts] == [
        ("DivergentUpdate", "photo", {"bytes": 3})
    ]


@pytest.mark.parametrize("dropper", ["main", "dev"])
@pytest.mark.parametrize("source, into", [("dev", "main"), ("main", "dev")])
def test_a_type_that_was_dropped_after_the_crossing_stays_dropped(
    source: str, into: str, dropper: str, tmp_path: Path
) -> None:
    graph = new_graph(tmp_path)
    run(graph, change("C", "v", 2, name="x"))
    run(graph, 'insert C { name: "z", v: 3 }', "dev")
    cross(graph)
    graph.apply_schema(SCHEMA.replace("node C {", "//").replace("edge Owns", "//"), branch=dropper, allow_drops=True)
    run(graph, change("P", "n", 5, name="a"), "dev" if dropper == "main" else "main")

    done = graph.merge(source, into=into)

    assert done.conflicts == ()
    assert "C" not in contents(graph, into)


@pytest.mark.parametrize("dropper", ["main", "dev"])
def test_rows_that_came_after_the_crossing_to_a_type_that_the_other_side_dropped(dropper: str, tmp_path: Path) -> None:
    graph = new_graph(tmp_path)
    run(graph, change("C", "v", 2, name="x"))
    run(graph, 'insert C { name: "z", v: 3 }', "dev")
    cross(graph)
    graph.apply_schema(SCHEMA.replace("node C {", "//").replace("edge Owns", "//"), branch=dropper, allow_drops=True)
    run(graph, change("C", "v", 5, name="z"), "dev" if dropper == "main" else "main")

    assert [(kind, table) for kind, table, _ in kinds(try_merge(graph, "dev"))] == [("SchemaDivergence", "node:C")]


@pytest.mark.parametrize("dropper", ["main", "dev"])
@pytest.mark.parametrize("source, into", [("dev", "main"), ("main", "dev")])
def test_a_property_with_values_that_was_dropped_after_the_crossing_stays_dropped(
    source: str, into: str, dropper: str, tmp_path: Path
) -> None:
    graph = new_graph(tmp_path)
    run(graph, change("P", "m", 2, name="a") + ' insert P { name: "e", m: 4 }')
    run(graph, 'insert P { name: "z", m: 3 }', "dev")
    cross(graph)
    graph.apply_schema(SCHEMA.replace("m: I32?", ""), branch=dropper, allow_drops=True)
    run(graph, change("P", "n", 5, name="a"), "dev" if dropper == "main" else "main")

    done = graph.merge(source, into=into)

    assert done.conflicts == ()
    assert contents(graph, into)["P"].keys() == {*"abcdez"}
    assert "m" not in (row(graph, "a", into) or {})


@pytest.mark.parametrize("dropper", ["main", "dev"])
def test_values_that_came_after_the_crossing_to_a_property_that_the_other_side_dropped(
    dropper: str, tmp_path: Path
) -> None:
    graph = new_graph(tmp_path)
    run(graph, change("P", "m", 2, name="a"))
    run(graph, 'insert P { name: "z", m: 3 }', "dev")
    cross(graph)
    graph.apply_schema(SCHEMA.replace("m: I32?", ""), branch=dropper, allow_drops=True)
    run(graph, change("P", "m", 5, name="z"), "dev" if dropper == "main" else "main")

    done = try_merge(graph, "dev")

    assert [(one.kind.value, one.property) for one in done.conflicts] == [("SchemaDivergence", "m")]


@pytest.mark.parametrize("source, into", [("dev", "main"), ("main", "dev")])
@pytest.mark.parametrize("dropped", ["left", "right"])
def test_what_was_dropped_of_schemas_that_crossed_stays_dropped(
    source: str, into: str, dropped: str, tmp_path: Path
) -> None:
    both = {"left": SCHEMA.replace("v: I32?", "v: I32?  left: I32?")}
    both["right"] = SCHEMA.replace("v: I32?", "v: I32?  right: I32?")
    graph = new_graph(tmp_path)
    graph.apply_schema(both["left"])
    graph.apply_schema(both["right"], branch="dev")
    cross(graph)
    kept = "right" if dropped == "left" else "left"
    graph.apply_schema(both[kept], allow_drops=True)
    run(graph, 'insert C { name: "z" }', "dev")

    done = graph.merge(source, into=into)

    assert done.conflicts == ()
    assert set(contents(graph, into)["C"]["z"]) == {"name", "v", kept}


@pytest.mark.parametrize("cap", ["MAX_CRISS_CROSS_DEPTH", "MAX_BASES"])
@pytest.mark.parametrize("source, into", [("dev", "main"), ("main", "dev")])
def test_where_it_is_not_gone_back_any_further_what_differs_is_a_conflict(
    cap: str, source: str, into: str, graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"omnigraph.ops.merge.{cap}", 0)
    run(graph, 'delete P where name = "q"')
    run(graph, 'insert P { name: "z" } ' + change("P", "m", 9, name="c"), "dev")

    done = try_merge(graph, source, into=into)

    assert kinds(done) == [("DeleteVsUpdate", "node:P", "q")]
    told = "P 'q' was deleted on `main`, and `dev` has it; it is not known whether it was changed"
    assert done.conflicts[0].message == told


@pytest.mark.parametrize("cap", ["MAX_CRISS_CROSS_DEPTH", "MAX_BASES"])
def test_where_it_is_not_gone_back_any_further_what_is_alike_comes(
    cap: str, graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"omnigraph.ops.merge.{cap}", 0)
    run(graph, 'insert P { name: "y" }')
    run(graph, 'insert P { name: "z" } ' + change("P", "m", 9, name="c"), "dev")

    done = graph.merge("dev")

    assert done.outcome is MergeOutcome.MERGED
    assert contents(graph)["P"].keys() == {*"abcdqoyz"}


def test_more_crossings_in_a_row_than_are_gone_back_through(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraph.ops.merge.MAX_CRISS_CROSS_DEPTH", 2)
    for number in range(2, 6):
        run(graph, f'insert P {{ name: "q{number}" }}')
        run(graph, f'insert P {{ name: "o{number}" }}' + change("P", "n", number, name="b"), "dev")
        cross(graph, str(number))
    run(graph, 'delete P where name = "q"')
    run(graph, 'delete P where name = "q5"')
    run(graph, 'delete P where name = "o2"', "dev")

    done = graph.merge("dev")

    assert done.outcome is MergeOutcome.MERGED
    assert contents(graph)["P"].keys() == {*"abcdo", "q2", "q3", "q4", "o3", "o4", "o5"}
