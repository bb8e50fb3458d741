"""Rows by rank: the best come first, what ties is decided by the keys behind it, scores are columns."""

import json
from typing import Any

import pytest

import omnigraph as og
from mutating import new_graph, run

SCHEMA = """
node Doc { name: String  body: String?  face: Vector(2)?  rank: I32?  @key(name) }
node Shelf { name: String @key }
edge On: Doc -> Shelf
"""
DOCS: dict[str, dict[str, Any]] = {
    "a": {"face": (1.0, 0.0), "rank": 3, "body": "graph"},
    "b": {"face": (2.0, 0.0), "rank": 1, "body": "graph engine"},
    "c": {"face": (3.0, 0.0), "rank": 2, "body": "table"},
    "d": {"face": (0.0, 1.0), "rank": 0, "body": "graph graph"},
    "e": {"face": None, "rank": 0, "body": None},
}
NEAR = "nearest($d.face, [1.0, 0.0])"
FUSED = 'rrf(nearest($d.face, [1.0, 0.0]), bm25($d.body, "graph"))'


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    made = new_graph(tmp_path_factory.mktemp("ranked"), SCHEMA)
    for name, values in DOCS.items():
        given = ", ".join(f"{key}: {json.dumps(value)}" for key, value in values.items() if value is not None)
        run(made, f'insert Doc {{ name: "{name}", {given} }}')
    run(made, 'insert Shelf { name: "z" } insert Shelf { name: "y" }')
    for doc, shelf in (("a", "z"), ("b", "y"), ("c", "z"), ("c", "y")):
        run(made, f'insert On {{ from: "{doc}", to: "{shelf}" }}')
    return made


def asked(graph: og.Graph, clauses: str, output: str, tail: str) -> list[tuple[Any, ...]]:
    result = graph.query(f"query q() {{ match {{ {clauses} }} return {{ {output} }} {tail} }}")
    return [tuple(row.values()) for row in result.rows()]


def test_the_nearest_come_first_and_rows_without_a_vector_not_at_all(graph: og.Graph) -> None:
    found = asked(graph, "$d: Doc", f"$d.name, {NEAR} as distance", f"order {{ {NEAR} }} limit 9")

    assert [name for name, _ in found] == ["a", "b", "c", "d"]
    assert [distance for _, distance in found] == pytest.approx([0.0, 0.0, 0.0, 1.0])


def test_ties_of_a_rank_that_straddle_the_limit_are_decided_by_the_next_key(graph: og.Graph) -> None:
    assert asked(graph, "$d: Doc", "$d.name", f"order {{ {NEAR}, $d.rank }} limit 2") == [("b",), ("c",)]
    assert asked(graph, "$d: Doc", "$d.name", f"order {{ {NEAR}, $d.rank desc }} limit 2") == [("a",), ("c",)]
    assert asked(graph, "$d: Doc", "$d.name", f"order {{ {NEAR}, $d.rank }} limit 1 offset 1") == [("c",)]


def test_ties_of_a_rank_go_by_the_variables_in_order_of_appearance(graph: og.Graph) -> None:
    found = asked(graph, "$s: Shelf $d: Doc $d on $s", "$s.name, $d.name", f"order {{ {NEAR} }} limit 2")

    assert found == [("y", "b"), ("y", "c")]


def test_the_limit_counts_rows_and_every_filter_comes_first(graph: og.Graph) -> None:
    found = asked(graph, "$d: Doc $d on $s $d.rank > 1", "$d.name, $s.name", f"order {{ {NEAR} }} limit 3")

    assert found == [("a", "z"), ("c", "y"), ("c", "z")]


def test_rows_without_a_match_are_not_in_bm25(graph: og.Graph) -> None:
    found = asked(graph, "$d: Doc", "$d.name", 'order { bm25($d.body, "graph") }')

    assert sorted(found) == [("a",), ("b",), ("d",)]


def test_a_score_is_a_column_and_null_where_there_is_none(graph: og.Graph) -> None:
    found = asked(graph, "$d: Doc", f'$d.name, {NEAR} as n, bm25($d.body, "graph") as b', "order { $d.name }")

    assert [(name, n is None, b is None) for name, n, b in found] == [
        ("a", False, False),
        ("b", False, False),
        ("c", False, True),
        ("d", False, False),
        ("e", True, True),
    ]


def test_a_column_of_the_rank_itself_is_the_score_that_ordered(graph: og.Graph) -> None:
    found = asked(graph, "$d: Doc", f"$d.name, {FUSED} as score", f"order {{ {FUSED} }} limit 3")

    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)
    assert found[0][1] == pytest.approx(max(1 / 61 + 1 / 62, 1 / 61 + 1 / 61, 1 / 64 + 1 / 61), abs=1e-3)


def test_a_fused_score_as_a_column_is_of_all_candidates_not_of_the_rows_that_come_out(graph: og.Graph) -> None:
    by_rank = dict(asked(graph, "$d: Doc", f"$d.name, {FUSED} as score", f"order {{ {FUSED} }} limit 4"))

    by_name = asked(graph, "$d: Doc", f"$d.name, {FUSED} as score", "order { $d.name desc } limit 2 offset 1")

    assert by_name == [("d", by_rank["d"]), ("c", by_rank["c"])]


def test_a_rank_over_nothing_has_no_rows(graph: og.Graph) -> None:
    assert asked(graph, "$d: Doc $d.rank > 99", "$d.name", f"order {{ {NEAR} }} limit 3") == []
    assert asked(graph, "$d: Doc", "$d.name", f"order {{ {NEAR} }} limit 0") == []


def test_more_than_two_lists_are_fused_by_their_weights(graph: og.Graph) -> None:
    words, other = 'bm25($d.body, "graph")', 'bm25($d.body, "engine")'
    fused = f"rrf({NEAR}, {words}, {other}, k=1, weights=[1, 0.5, 10])"
    found = dict(asked(graph, "$d: Doc", f"$d.name, {fused} as score", f"order {{ {fused} }} limit 9"))
    ranked = {
        1.0: [name for (name,) in asked(graph, "$d: Doc", "$d.name", f"order {{ {NEAR} }} limit 9")],
        0.5: [name for (name,) in asked(graph, "$d: Doc", "$d.name", f"order {{ {words} }} limit 9")],
        10.0: [name for (name,) in asked(graph, "$d: Doc", "$d.name", f"order {{ {other} }} limit 9")],
    }
    expected = {
        name: sum(weight / (2 + order.index(name)) for weight, order in ranked.items() if name in order)
        for name in DOCS
    }

    assert found == pytest.approx(expected)
    assert next(iter(found)) == "b"


def test_without_weights_all_lists_count_alike(graph: og.Graph) -> None:
    words = 'bm25($d.body, "graph")'
    plain = asked(graph, "$d: Doc", "$d.name", f"order {{ rrf({NEAR}, {words}, {words}, 60) }} limit 9")

    assert plain == asked(graph, "$d: Doc", "$d.name", f"order {{ rrf({NEAR}, {words}, weights=[1, 2]) }} limit 9")
