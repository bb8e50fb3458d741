"""Merging branches that break the schema together, or whose schemas are not the same."""

from pathlib import Path

import pytest

import omnigraph as og
from merging import SCHEMA, change, contents, kinds, new_graph, row, run, try_merge
from omnigraph.ops.merge_result import MergeOutcome, MergeResult
from worlds import runtime


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return new_graph(tmp_path)


@pytest.mark.parametrize("is_deleted_here", [True, False])
def test_an_edge_to_a_node_that_the_other_side_deleted(is_deleted_here: bool, graph: og.Graph) -> None:
    deleter, maker = ("main", "dev") if is_deleted_here else ("dev", "main")
    run(graph, 'delete P where name = "c"', deleter)
    run(graph, 'insert Knows { from: "d", to: "c" }', maker)
    before = contents(graph)

    done = try_merge(graph, "dev", strategy="theirs")

    assert [(kind, table) for kind, table, _ in kinds(done)] == [("OrphanEdge", "edge:Knows")]
    assert f"of `{maker}` leads to P 'c', which `{deleter}` deleted" in done.conflicts[0].message
    assert contents(graph) == before


def test_edges_that_went_with_their_node_are_no_orphans(graph: og.Graph) -> None:
    run(graph, 'delete P where name = "b"')
    run(graph, 'insert Knows { from: "c", to: "d" }', "dev")

    done = graph.merge("dev")

    assert done.outcome is MergeOutcome.MERGED
    assert [one["src"] for one in contents(graph)["Knows"].values()] == ["c"]


def test_an_edge_that_a_strategy_keeps_needs_its_node(graph: og.Graph) -> None:
    run(graph, 'delete P where name = "b"')
    run(graph, 'update Knows set { w: 9 } where from = "a"', "dev")

    done = try_merge(graph, "dev", strategy="theirs")

    assert [kind for kind, *_ in kinds(done)] == ["OrphanEdge"]
    assert try_merge(graph, "dev", strategy="ours").outcome is MergeOutcome.MERGED


@pytest.mark.parametrize("deleter", ["main", "dev"])
def test_an_edge_that_went_with_its_node_and_was_changed_is_one_conflict(deleter: str, graph: og.Graph) -> None:
    run(graph, 'delete P where name = "b"', deleter)
    run(graph, 'update Knows set { w: 9 } where from = "a"', "dev" if deleter == "main" else "main")

    done = try_merge(graph, "dev")

    assert kinds(done) == [("DeleteVsUpdate", "edge:Knows", '["a","b"]')]


@pytest.mark.parametrize("deleter", ["main", "dev"])
def test_an_edge_made_at_a_node_that_was_changed_there_and_deleted_here(deleter: str, graph: og.Graph) -> None:
    run(graph, 'delete P where name = "c"', deleter)
    other = "dev" if deleter == "main" else "main"
    run(graph, 'update P set { n: 2 } where name = "c" insert Knows { from: "d", to: "c" }', other)

    done = try_merge(graph, "dev")

    assert kinds(done) == [("DeleteVsUpdate", "node:P", "c"), ("OrphanEdge", "edge:Knows", '["d","c"]')]


def test_two_rows_with_one_unique_value(graph: og.Graph) -> None:
    run(graph, 'update P set { email: "e" } where name = "a"')
    run(graph, 'update P set { email: "e" } where name = "b"', "dev")

    done = try_merge(graph, "dev")

    assert kinds(done) == [("UniqueViolation", "node:P", "b")]
    assert "'e' is held by 'a' and 'b'" in done.conflicts[0].message


def test_a_unique_value_that_moved_from_row_to_row(graph: og.Graph) -> None:
    run(graph, 'update P set { email: "e" } where name = "a"')
    graph.merge("main", into="dev")
    run(graph, 'update P set { email: null } where name = "a"')
    run(graph, 'update P set { m: 5 } where name = "c"', "dev")

    done = graph.merge("dev")

    assert done.outcome is MergeOutcome.MERGED


@pytest.mark.parametrize("source, into", [("dev", "main"), ("main", "dev")])
@pytest.mark.parametrize("is_both_changed", [True, False])
def test_a_unique_value_that_a_new_row_has_from_one_that_went(
    source: str, into: str, is_both_changed: bool, graph: og.Graph
) -> None:
    run(graph, 'update P set { email: "e" } where name = "a"')
    graph.merge("main", into="dev")
    run(graph, 'delete P where name = "a"', "dev")
    run(graph, 'insert P { name: "z", email: "e" }', "dev")
    run(graph, change("P", "m", 5, name="c") if is_both_changed else change("C", "v", 5, name="x"))

    done = try_merge(graph, source, into=into)

    assert done.conflicts == ()
    assert {name: one["email"] for name, one in contents(graph, into)["P"].items() if one["email"]} == {"z": "e"}


def test_a_unique_value_of_a_row_that_went_on_one_side_and_that_both_gave_on(graph: og.Graph) -> None:
    run(graph, 'update P set { email: "e" } where name = "a"')
    graph.merge("main", into="dev")
    run(graph, 'delete P where name = "a"', "dev")
    run(graph, 'insert P { name: "z", email: "e" }', "dev")
    run(graph, 'update P set { email: null } where name = "a" update P set { email: "e" } where name = "b"')

    done = try_merge(graph, "dev", strategy="theirs")

    assert [(kind, table) for kind, table, _ in kinds(done)] == [("UniqueViolation", "node:P")]


def test_more_edges_than_a_node_may_have(graph: og.Graph) -> None:
    run(graph, 'insert Owns { from: "a", to: "x" }')
    run(graph, 'insert Owns { from: "a", to: "y" }', "dev")

    done = try_merge(graph, "dev")

    assert kinds(done) == [("CardinalityViolation", "edge:Owns", "a")]
    assert "'a' has 2 edges (max 1)" in done.conflicts[0].message


def test_fewer_edges_than_a_node_must_have(tmp_path: Path) -> None:
    schema = "node P { name: String @key } edge Likes: P -> P @card(1..) { @key(src, dst) }"
    graph = og.create_graph(str(tmp_path / "g"), schema, runtime=runtime())
    run(
        graph,
        'insert P { name: "a" } insert P { name: "b" } insert Likes { from: "b", to: "b" }'
        ' insert Likes { from: "a", to: "a" } insert Likes { from: "a", to: "b" }',
    )
    graph.branches.create("dev")
    run(graph, 'delete Likes where from = "a" and to = "a"')
    run(graph, 'delete Likes where from = "a" and to = "b"', "dev")

    done = try_merge(graph, "dev")

    assert kinds(done) == [("CardinalityViolation", "edge:Likes", "a")]


# --- schemas ---


@pytest.mark.parametrize("changer", ["main", "dev"])
def test_a_property_that_one_side_added_is_filled_in_rows_of_the_other(changer: str, graph: og.Graph) -> None:
    wider = SCHEMA.replace("m: I32?", "m: I32?  level: I32 @default(3)")
    other = "dev" if changer == "main" else "main"
    graph.apply_schema(wider, branch=changer)
    run(graph, 'update P set { level: 4 } where name = "b"', changer)
    run(graph, 'update P set { n: 2 } where name = "a" insert P { name: "e" }', other)
    run(graph, 'delete P where name = "d"', other)

    done = graph.merge("dev")

    assert done.conflicts == ()
    assert "level" in graph.schema
    found = {name: (one["n"], one["level"]) for name, one in contents(graph)["P"].items()}
    assert found == {"a": (2, 3), "b": (1, 4), "c": (1, 3), "e": (None, 3)}


@pytest.mark.parametrize("changer", ["main", "dev"])
def test_types_that_one_side_added_renamed_and_dropped(changer: str, graph: og.Graph) -> None:
    other = "dev" if changer == "main" else "main"
    schema = """
    node Human @rename_from("P") { name: String @key  count: I32? @rename_from("n")  m: I32?  email: String?
      photo: Blob?  @unique(email)  @range(count, 0..100) }
    node New { name: String @key }
    edge Knows: Human -> Human { w: I32?  z: I32?  @key(src, dst) }
    """
    graph.apply_schema(schema, branch=changer, allow_drops=True)
    run(graph, 'insert New { name: "new" }', changer)
    run(graph, 'update P set { n: 2 } where name = "a"', other)

    done = graph.merge("dev")

    found = contents(graph)
    assert done.conflicts == ()
    assert sorted(found) == ["Human", "Knows", "New"]
    assert {name: one["count"] for name, one in found["Human"].items()} == {"a": 2, "b": 1, "c": 1, "d": 1}


def test_the_past_before_another_schema_was_merged_is_what_it_was(graph: og.Graph) -> None:
    run(graph, 'update C set { v: 2 } where name = "x"')
    before, then = contents(graph), graph.snapshot()
    schema = SCHEMA.replace("node C {", 'node City @rename_from("C") {').replace("P -> C", "P -> City")
    graph.apply_schema(schema, branch="dev")
    run(graph, 'update City set { v: 3 } where name = "y"', "dev")

    graph.merge("dev")
    graph.branches.create("then", snapshot=then.commit.id)

    assert {name: one["v"] for name, one in contents(graph)["City"].items()} == {"x": 2, "y": 3}
    assert contents(graph, "then") == before
    assert graph.snapshot(branch="then").manifest.schema == then.manifest.schema


def test_a_type_that_both_have_from_a_third_branch_is_no_divergence(graph: og.Graph) -> None:
    graph.branches.create("types")
    graph.branches.create("rows")
    graph.apply_schema(SCHEMA + "node New { name: String @key  v: I32? }", branch="types")
    run(graph, 'insert New { name: "new", v: 1 }', "types")
    run(graph, 'insert C { name: "z" }', "rows")
    for source in ("types", "rows"):
        for target in ("main", "dev"):
            run(graph, change("P", "m", len(source), name="a"), target)
            graph.merge(source, into=target)
    run(graph, 'insert New { name: "main" }')
    run(graph, 'insert New { name: "dev" }', "dev")

    done = graph.merge("dev")

    assert done.conflicts == ()
    assert sorted(contents(graph)["New"]) == ["dev", "main", "new"]


@pytest.mark.parametrize("changer", ["main", "dev"])
def test_a_rule_that_one_side_added_is_asked_of_rows_of_the_other(changer: str, graph: og.Graph) -> None:
    other = "dev" if changer == "main" else "main"
    graph.apply_schema(SCHEMA.replace("@range(n, 0..100)", "@range(n, 0..50)"), branch=changer)
    run(graph, 'update P set { n: 60 } where name = "a"', other)

    done = try_merge(graph, "dev")

    assert kinds(done) == [("ValueConstraintViolation", "node:P", "a")]


@pytest.mark.parametrize("changer", ["main", "dev"])
def test_values_for_a_property_that_the_other_side_dropped(changer: str, graph: og.Graph) -> None:
    other = "dev" if changer == "main" else "main"
    graph.apply_schema(SCHEMA.replace("m: I32?", ""), branch=changer, allow_drops=True)
    run(graph, 'update P set { m: 60 } where name = "a"', other)

    done = try_merge(graph, "dev")

    assert [(one.kind.value, one.table, one.property) for one in done.conflicts] == [
        ("SchemaDivergence", "node:P", "m")
    ]


@pytest.mark.parametrize("changer", ["main", "dev"])
def test_rows_of_a_type_that_the_other_side_dropped(changer: str, graph: og.Graph) -> None:
    other = "dev" if changer == "main" else "main"
    without = SCHEMA.replace("node C { name: String @key  v: I32? }", "").replace(
        "edge Owns: P -> C @card(0..1) { w: I32?  @key(src, dst) }", ""
    )
    graph.apply_schema(without, branch=changer, allow_drops=True)
    run(graph, 'update C set { v: 60 } where name = "x"', other)

    done = try_merge(graph, "dev")

    assert [(one.kind.value, one.table) for one in done.conflicts] == [("SchemaDivergence", "node:C")]


def test_a_property_that_both_sides_added_and_not_alike(graph: og.Graph) -> None:
    graph.apply_schema(SCHEMA.replace("v: I32?", "v: I32?  a: I32?"))
    graph.apply_schema(SCHEMA.replace("v: I32?", "v: I32?  a: String?"), branch="dev")

    done = try_merge(graph, "dev")

    assert [(one.kind.value, one.table, one.property) for one in done.conflicts] == [
        ("SchemaDivergence", "node:C", "a")
    ]


def test_a_fast_forward_brings_the_schema(graph: og.Graph) -> None:
    graph.apply_schema(SCHEMA.replace("v: I32?", "v: I32?  a: I32?"), branch="dev")
    run(graph, 'update C set { a: 5 } where name = "x"', "dev")

    done = graph.merge("dev")

    assert done.outcome is MergeOutcome.FAST_FORWARD
    assert row(graph, "x", type_name="C") == {"name": "x", "v": None, "a": 5}
    assert graph.snapshot().manifest.schema == graph.snapshot(branch="dev").manifest.schema


# --- what conflicts carry ---


def values(done: MergeResult) -> list[tuple[object, ...]]:
    return [(one.property, one.base, one.ours, one.theirs) for one in done.conflicts]


def test_a_unique_violation_carries_the_property_the_values_and_the_other_row(graph: og.Graph) -> None:
    run(graph, 'update P set { email: "e" } where name = "a" update P set { email: "o" } where name = "b"')
    graph.merge("main", into="dev")
    run(graph, 'update P set { email: null } where name = "a"')
    run(graph, 'insert P { name: "z", email: "e" }')
    run(graph, change("P", "m", 7, name="b"))
    run(graph, 'update P set { email: null } where name = "a" update P set { email: "e" } where name = "b"', "dev")

    done = try_merge(graph, "dev")

    assert kinds(done) == [("UniqueViolation", "node:P", "b")]
    assert values(done) == [("email", "o", "o", "e")]
    assert done.conflicts[0].other_id == "z"


def test_a_unique_violation_of_several_properties_carries_all_by_name(tmp_path: Path) -> None:
    schema = "node P { name: String @key  a: I32?  b: I32?  @unique(a, b) }"
    graph = og.create_graph(str(tmp_path / "g"), schema, runtime=runtime())
    run(graph, 'insert P { name: "x", a: 1, b: 1 } insert P { name: "y", a: 1, b: 2 }')
    graph.branches.create("dev")
    run(graph, change("P", "b", 5, name="x"))
    run(graph, change("P", "b", 5, name="y"), "dev")

    done = try_merge(graph, "dev")

    assert values(done) == [(None, {"a": 1, "b": 2}, {"a": 1, "b": 2}, {"a": 1, "b": 5})]
    assert done.conflicts[0].other_id == "x"


def test_a_cardinality_violation_carries_the_edges_of_each_state(graph: og.Graph) -> None:
    run(graph, 'insert Owns { from: "a", to: "x" }')
    run(graph, 'insert Owns { from: "a", to: "y" }', "dev")
    mine, theirs = (list(contents(graph, branch)["Owns"]) for branch in ("main", "dev"))

    done = try_merge(graph, "dev")

    assert values(done) == [(None, [], mine, theirs)]


def test_a_value_that_breaks_a_new_rule_comes_with_its_property_and_values(graph: og.Graph) -> None:
    graph.apply_schema(SCHEMA.replace("@range(n, 0..100)", "@range(n, 0..50)"))
    run(graph, 'update P set { n: 60 } where name = "a"', "dev")

    done = try_merge(graph, "dev")

    assert values(done) == [("n", 1, 1, 60)]


def test_an_edge_without_an_end_comes_with_where_it_leads_in_each_state(graph: og.Graph) -> None:
    run(graph, 'delete P where name = "c"')
    run(graph, 'insert Knows { from: "d", to: "c" }', "dev")

    done = try_merge(graph, "dev")

    assert values(done) == [("to", None, None, "c")]


def test_schemas_that_diverge_come_with_the_declarations(graph: og.Graph) -> None:
    graph.apply_schema(SCHEMA.replace("v: I32?", 'w: I32? @rename_from("v")'))
    graph.apply_schema(SCHEMA.replace("v: I32?", 'u: I32? @rename_from("v")'), branch="dev")

    done = try_merge(graph, "dev")

    assert [one.kind.value for one in done.conflicts] == ["SchemaDivergence"]
    assert values(done)[0][1:] == ("v: I32?", 'w: I32? @rename_from("v")', 'u: I32? @rename_from("v")')


@pytest.mark.parametrize("changer", ["main", "dev"])
def test_values_for_a_dropped_property_come_with_its_declarations(changer: str, graph: og.Graph) -> None:
    other = "dev" if changer == "main" else "main"
    graph.apply_schema(SCHEMA.replace("@range(n, 0..100)", "").replace("n: I32?", ""), branch=changer, allow_drops=True)
    run(graph, 'update P set { n: 60 } where name = "a"', other)

    done = try_merge(graph, "dev")

    there = "n: I32? @range(n, 0..100)"
    sides = (None, there) if changer == "main" else (there, None)
    assert values(done) == [("n", there, *sides)]
