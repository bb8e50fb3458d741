"""What requests leave in memory is bounded by bytes, not only by their number."""

from pathlib import Path

import omnigraph as og
from omnigraph.ops.plan_cache import MAX_PARTS
from worlds import FAST, runtime

HOPS = 60


def build_query(name: str) -> str:
    hops = " ".join(f"$p{number} knows $p{number + 1}" for number in range(HOPS))
    return f"query {name}($x: I64) {{ match {{ $p0: P $p0.age > $x {hops} }} return {{ $p0.name }} }}"


def test_long_queries_leave_fewer_plans_than_short_ones(tmp_path: Path) -> None:
    schema = "node P { name: String @key  age: I64? }\nedge Knows: P -> P\n"
    graph = og.create_graph(str(tmp_path / "g"), schema, runtime=runtime(FAST))

    for query in range(3):
        for value in range(10):
            graph.query(build_query(f"q{query}"), params={"x": value})
    for value in range(20):
        graph.query("query s($x: I64) { match { $p: P $p.age > $x } return { $p.name } }", params={"x": value})

    cache = graph._session.plans._queries
    parts_and_plans = [(entry.parts, len(entry.plans)) for entry in cache.list_values()]
    assert parts_and_plans[-1] == (1, 16)
    assert [plans for _, plans in parts_and_plans[:-1]] == [4, 4, 4]
    assert [parts for parts, _ in parts_and_plans[:-1]] == [2 * HOPS + 1] * 3
    assert cache.limit == MAX_PARTS
    assert cache.size == 3 * (2 * HOPS + 1) + 32
