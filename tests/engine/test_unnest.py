"""Elements of lists as rows: plans, chunks and the memory that they may take."""

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.engine.query_budget import QueryMemoryError
from omnigraph.lang.source import Source
from omnigraph.ops.create import create
from worlds import FAST, runtime

SCHEMA = "node P { k: String @key  l: [I64]? }\nedge Knows: P -> P"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    create(str(tmp_path / "g"), Source(SCHEMA, "p.pg"), actor="test", runtime=runtime(FAST))
    opened = og.Graph.open(str(tmp_path / "g"), is_read_only=False, runtime=runtime(FAST))
    for key, items in (("a", [1, 2]), ("b", []), ("c", None), ("d", [2])):
        opened.mutate("query i($k: String, $l: [I64]?) { insert P { k: $k, l: $l } }", params={"k": key, "l": items})
    return opened


def test_a_list_that_nothing_reads_is_counted_not_listed(graph: og.Graph) -> None:
    text = "query q() { match { $p: P  each $x in $p.l } return { count(*) as n } }"

    assert graph.query(text).rows() == [{"n": 3}]
    assert "each $x in $p.l" in str(graph.explain(text))


def test_the_elements_of_a_parameter_are_bound_once_and_joined(graph: og.Graph) -> None:
    text = "query q($l: [String]) { match { each $x in $l  $p: P  $p.k = $x } return { $x } order { $x } }"
    plan = str(graph.explain(text, params={"l": ["a"]}))

    assert "1. each $x in $l" in plan
    assert "join on $x = $p.k" in plan
    assert graph.query(text, params={"l": ["d", "a", "zz", "a"]}).rows() == [{"x": "a"}, {"x": "a"}, {"x": "d"}]


def test_a_product_of_long_lists_ends_with_the_budget(graph: og.Graph) -> None:
    text = "query q($l: [I64]) { match { each $x in $l  each $y in $l } return { $x, $y } }"

    with pytest.raises(QueryMemoryError, match="elements of"):
        graph.query(text, params={"l": list(range(20_000))}, memory_bytes=2**24)


def test_lists_of_blocks_beside_each_other_may_have_one_name(graph: og.Graph) -> None:
    text = """query q() {
        match { $p: P { k: "a" } }
        return { sum { each $x in $p.l return $x } as n, collect { each $x in ["s", "t"]  $x != $p.k return $x } as s }
    }"""

    assert graph.query(text).rows() == [{"n": 3, "s": ["s", "t"]}]
