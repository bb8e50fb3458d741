"""Statements of Cypher have the plans of queries that say the same, where parallel edges can't be or can't be seen."""

import json

import pytest

import omnigraph as og
from corpus_reading import plain_records
from cypher_pairs import PAIRS, SCHEMA
from read_seeding import append, new_graph
from schema_making import accepted
from worlds import FAST, runtime

# Of groups that are equal in the order, Cypher leaves open which comes first.
OPEN_TIES = ("groups, ordered",)


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """People who know each other once, and visit companies often."""
    lines: list[dict[str, object]] = [
        {"type": "Person", "data": {"name": f"p{n}", "age": n % 7, "city": f"c{n % 3}"}} for n in range(30)
    ]
    lines += [{"type": "Company", "data": {"name": f"k{n}"}} for n in range(3)]
    lines += [{"edge": "Knows", "from": f"p{n}", "to": f"p{(n + 7) % 30}", "data": {"since": n}} for n in range(30)]
    lines += [{"edge": "Visits", "id": f"v{n}", "from": f"p{n % 10}", "to": f"k{n % 3}"} for n in range(60)]
    root = tmp_path_factory.mktemp("plans") / "graph"
    append(new_graph(root, SCHEMA), list(plain_records(accepted(SCHEMA), "\n".join(map(json.dumps, lines)))))
    return og.Graph.open(str(root), is_read_only=True, runtime=runtime(FAST))


@pytest.mark.parametrize("name", PAIRS)
def test_the_plan_is_that_of_the_query(graph: og.Graph, name: str) -> None:
    query, statement = PAIRS[name]

    expected = str(graph.explain(f"query cypher() {{ {query} }}")).splitlines()
    found = str(graph.explain(statement, cypher=True)).splitlines()

    if name in OPEN_TIES:
        expected.remove("  ties by $a.city")
    # An anonymous node has no name of its own.
    assert [line.replace("$_", "$c") for line in found] == expected


@pytest.mark.parametrize("name", PAIRS)
def test_the_rows_are_those_of_the_query(graph: og.Graph, name: str) -> None:
    query, statement = PAIRS[name]

    expected = graph.query(f"query q() {{ {query} }}").to_arrow().to_pylist()
    found = graph.cypher(statement).to_arrow().to_pylist()

    assert sorted(map(str, found)) == sorted(map(str, expected))


def test_parallel_edges_that_are_seen_are_rows(graph: og.Graph) -> None:
    both = graph.cypher("MATCH (a:Person)-[:VISITS]->(c) RETURN count(*) AS n, count(DISTINCT c.name) AS m").to_json()

    assert both["rows"] == [{"n": 60, "m": 3}]
