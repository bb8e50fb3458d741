"""Statements of Cypher on Spark have the rows that they have in memory."""

import json

import pytest

import omnigraph as og
from raised_codes import has_code
from worlds import FAST, runtime

pytestmark = pytest.mark.usefixtures("spark")
SCHEMA = """
node Person { name: String @key age: I64? tags: [String]? }
edge Knows: Person -> Person { since: I64? }
"""
STATEMENTS = {
    "a hop and a group": "MATCH (p:Person)-[:KNOWS]->(q) RETURN p.name AS p, count(*) AS n ORDER BY p",
    "edges that differ": "MATCH (p)-[a:KNOWS]->(q)-[b:KNOWS]->(r) RETURN p.name, q.name, r.name, b.since",
    "an optional match": "MATCH (p:Person) OPTIONAL MATCH (p)-[r:KNOWS {since: 2}]->(q) RETURN p.name, q.name",
    "lists": "MATCH (p:Person) RETURN p.name, p.tags = ['a'] AS x, p.tags + 'z' AS y, 'b' IN p.tags AS z",
    "distinct lists": "MATCH (p:Person) RETURN DISTINCT p.tags AS t ORDER BY t",
}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    graph = og.create_graph(str(tmp_path_factory.mktemp("cypher") / "graph"), SCHEMA, runtime=runtime(FAST))
    people = [{"type": "Person", "data": {"name": name, "age": age, "tags": tags}} for name, age, tags in PEOPLE]
    knows = [{"edge": "Knows", "from": a, "to": b, "data": {"since": n}} for a, b, n in KNOWS]
    graph.load([*people, *knows], mode="append")
    return graph


PEOPLE: tuple[tuple[str, int | None, list[str] | None], ...] = (
    ("Ann", 40, ["a"]),
    ("Bob", 30, ["a", "b"]),
    ("Cid", None, None),
    ("Dee", 30, []),
    ("Eve", 1, ["a"]),
)
KNOWS = (("Ann", "Bob", 1), ("Ann", "Bob", 2), ("Bob", "Cid", 3), ("Cid", "Cid", 4), ("Dee", "Ann", 2))


@pytest.mark.parametrize("name", STATEMENTS)
def test_the_rows_are_those_of_memory(graph: og.Graph, name: str) -> None:
    rows = {
        engine: json.loads(json.dumps(graph.cypher(STATEMENTS[name], engine=engine).to_json()))["rows"]
        for engine in ("memory", "spark")
    }

    assert rows["memory"]
    assert sorted(map(str, rows["spark"])) == sorted(map(str, rows["memory"]))


def test_warnings_about_names_are_those_of_memory(graph: og.Graph) -> None:
    notes = [graph.cypher("MATCH (p:Person) RETURN p.agee", engine=engine).notes for engine in ("memory", "spark")]

    assert notes[0]
    assert notes[1] == notes[0]


def test_a_division_by_zero_is_named(graph: og.Graph) -> None:
    for engine in ("memory", "spark"):
        with pytest.raises(og.QueryError, check=has_code("division_by_zero"), match="divides by zero"):
            graph.cypher("MATCH (p:Person) RETURN 1 / (p.age - 1) AS x", engine=engine)
