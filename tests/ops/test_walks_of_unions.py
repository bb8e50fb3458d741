"""Walks over nodes of several types: what tells them apart."""

from pathlib import Path

from mutating import new_graph, run

SCHEMA = """
node A { k: String @key }
node B { k: String @key }
edge E: A -> B { @key(src, dst) }
edge F: B -> A { @key(src, dst) }
"""


def test_walks_over_nodes_of_two_types_with_equal_ids_are_different(tmp_path: Path) -> None:
    graph = new_graph(tmp_path, SCHEMA)
    run(
        graph,
        'insert A { k: "x" } insert B { k: "x" } insert E { from: "x", to: "x" } insert F { from: "x", to: "x" }',
    )

    result = graph.query(
        "match { $a: (A|B) path $w = $a (e|f){0,1} $b } return { count(distinct $w) as different, count($w) as every }"
    )

    assert result.rows() == [{"different": 4, "every": 4}]
