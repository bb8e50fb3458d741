"""The `.gq` that a refused clause of Cypher shows is its own: run, it does what the clause says."""

import json
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from corpus_reading import plain_records
from omnigraph.errors import OmnigraphError
from read_seeding import append, new_graph
from schema_making import accepted
from worlds import FAST, runtime

SCHEMA = """
node Person { name: String @key age: I64? city: String? }
node Film { title: String @key }
edge Knows: Person -> Person { since: I64? }
edge ActedIn: Person -> Film { role: String? @key(src, dst) }
edge In: Person -> Film
"""
AGES = "MATCH (p:Person) RETURN p.name AS a, p.age AS b ORDER BY a"
KNOWN = "MATCH (p:Person)-[r:KNOWS]->(q) RETURN p.name AS a, q.name AS b, r.since AS c ORDER BY a, b, c"
ACTED = "MATCH (p:Person)-[r:ACTED_IN]->(f) RETURN p.name AS a, f.title AS b, r.role AS c ORDER BY a, b"
BEFORE: dict[str, list[list[Any]]] = {
    AGES: [["ann", 40], ["bob", 30], ["cid", None]],
    KNOWN: [["ann", "bob", 2001], ["ann", "cid", 2002], ["bob", "cid", None]],
    ACTED: [["ann", "Up", "Ellie"]],
}
# A statement, what is asked before and after it, and its rows after it.
EFFECTS: list[tuple[str, str, list[list[Any]]]] = [
    ("CREATE (p:Person {name: 'dee', age: -4})", AGES, [*BEFORE[AGES], ["dee", -4]]),
    ("MERGE (p:Person {name: 'bob', age: 31})", AGES, [["ann", 40], ["bob", 31], ["cid", None]]),
    (
        "MATCH (a:Person {name: 'cid'}), (b:Person) WHERE b.name = 'ann' CREATE (a)-[:KNOWS {since: 7}]->(b)",
        KNOWN,
        [*BEFORE[KNOWN], ["cid", "ann", 7]],
    ),
    (
        "MATCH (a:Person {name: 'cid'}) CREATE (a)<-[:KNOWS]-(:Person {name: 'eve'})",
        KNOWN,
        [*BEFORE[KNOWN], ["eve", "cid", None]],
    ),
    (
        "CREATE (a:Person {name: 'x', age: 1})-[:ACTED_IN {role: 'r'}]->(f:Film {title: 'New'})",
        ACTED,
        [*BEFORE[ACTED], ["x", "New", "r"]],
    ),
    (
        "MATCH (a:Person), (f:Film {title: 'Up'}) MERGE (a)-[:ACTED_IN]->(f)",
        ACTED,
        [["ann", "Up", "Ellie"], ["bob", "Up", None], ["cid", "Up", None]],
    ),
    (
        "MATCH (a:Person {name: 'ann'}), (b:Person) WHERE b.age IS NULL OR b.age < 35 MERGE (b)-[:KNOWS]->(a)",
        KNOWN,
        [*BEFORE[KNOWN][:2], ["bob", "ann", None], BEFORE[KNOWN][2], ["cid", "ann", None]],
    ),
    ("MATCH (p:Person) WHERE p.age > 35 SET p.age = p.age + 1", AGES, [["ann", 41], ["bob", 30], ["cid", None]]),
    ("MATCH (p:Person {name: 'cid'}) SET p += {age: 5, city: 'Bonn'}", AGES, [*BEFORE[AGES][:2], ["cid", 5]]),
    (
        "MATCH (p:Person {name: 'ann'})-[r:KNOWS]->(q) SET r.since = 9, q.age = 1",
        KNOWN,
        [["ann", "bob", 9], ["ann", "cid", 9], ["bob", "cid", None]],
    ),
    ("MATCH (p:Person) WHERE NOT p.name IN ['bob'] REMOVE p.age", AGES, [["ann", None], ["bob", 30], ["cid", None]]),
    ("MATCH (p:Person) WHERE p.name STARTS WITH 'a' AND -p.age < 0 DETACH DELETE p", AGES, BEFORE[AGES][1:]),
    ("MATCH (p:Person {name: 'ann'}) DETACH DELETE p", KNOWN, BEFORE[KNOWN][2:]),
    ("MATCH (p:Person)-[r:KNOWS {since: 2001}]->(q:Person) DELETE r", KNOWN, BEFORE[KNOWN][1:]),
    ("MATCH (:Person {name: 'bob'})<-[r:KNOWS]-() DELETE r", KNOWN, BEFORE[KNOWN][1:]),
    ("MATCH (p:Person)-[r:KNOWS WHERE r.since = 2002]->(q) DELETE r, q", AGES, BEFORE[AGES][:2]),
    ("MATCH (p:Person) SET p.age = 1 RETURN DISTINCT p", AGES, [["ann", 1], ["bob", 1], ["cid", 1]]),
    ("MATCH (p:Person)-[:IN]->(f:Film) SET p.age = 99", AGES, [["ann", 40], ["bob", 99], ["cid", None]]),
    ("MATCH (p:Person {name: 'cid'})-[:KNOWS]-(q) SET q.age = 8", AGES, [["ann", 8], ["bob", 8], ["cid", None]]),
]


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    """Three people, of whom two are known, and a film."""
    lines: list[dict[str, object]] = [
        {"type": "Person", "data": {"name": name, "age": age}} for name, age in BEFORE[AGES]
    ]
    lines.append({"type": "Film", "data": {"title": "Up"}})
    for number, (source, target, since) in enumerate(BEFORE[KNOWN]):
        lines.append(
            {"edge": "Knows", "id": f"k{number}", "from": source, "to": target, "data": {"since": since}},
        )
    lines.append({"edge": "ActedIn", "from": "ann", "to": "Up", "data": {"role": "Ellie"}})
    lines.append({"edge": "In", "id": "i1", "from": "bob", "to": "Up"})
    root = tmp_path / "graph"
    append(new_graph(root, SCHEMA), list(plain_records(accepted(SCHEMA), "\n".join(map(json.dumps, lines)))))
    return og.Graph.open(str(root), is_read_only=False, runtime=runtime(FAST))


def find_query(graph: og.Graph, statement: str) -> str:
    """Return the query that the refusal of a statement shows."""
    with pytest.raises(OmnigraphError) as refused:
        graph.cypher(statement)
    shown = str(refused.value)
    assert "C003" in shown
    return next(part for part in shown.split("`") if part.startswith("query "))


def ask(graph: og.Graph, statement: str) -> list[list[Any]]:
    return [list(row.values()) for row in graph.cypher(statement).to_arrow().to_pylist()]


@pytest.mark.parametrize("statement, question, expected", EFFECTS, ids=[each[0] for each in EFFECTS])
def test_the_query_of_a_refused_clause_does_what_the_clause_says(
    graph: og.Graph, statement: str, question: str, expected: list[list[Any]]
) -> None:
    assert ask(graph, question) == BEFORE[question]

    graph.mutate(find_query(graph, statement))

    assert ask(graph, question) == expected


@pytest.mark.parametrize(
    "statement",
    [
        "MATCH (n) DETACH DELETE n",
        "MATCH (p:Person) SET p = {age: 4}",
        "MATCH (p:Person) SET p.age = $age",
        "MATCH (p:Person)-[*1..2]->(q) DELETE q",
        "MATCH (p:Person) WITH p LIMIT 1 DELETE p",
        "OPTIONAL MATCH (p:Person) DELETE p",
        "MATCH (p:Person|Film) DELETE p",
        "MATCH (p:Person) DELETE q",
        "MATCH (p:Person) SET q.age = 1",
        "MATCH (p:Person) CREATE (p)-[:KNOWS]-(p)",
        "MERGE (:Person {name: 'a'})-[:KNOWS]->(:Person {name: 'b'})",
        "CREATE (:Person {name: toUpper('a')})",
        "CREATE (:Person)",
        "CREATE (:person {name: 'a'})",
        "CREATE (P:Person {name: 'a'})-[:KNOWS]->(Q:Person {name: 'b'})",
        "MERGE (p:Person {name: 'a'}), (q:Person {name: 'b'})",
        "MATCH (p:Person) SET p:Film",
        "MATCH (p:Person) DELETE p.age",
        "CREATE (p:Person {name: 'a'}) WHERE p.age = 1",
        "MATCH (p:Person) SET p.`a b` = 1",
        "MATCH (p:Person) SET p.match = 1",
        f"CREATE (:Person {{name: '{'a' * 400}'}})",
        f"CREATE (:Person {{name: '{'a' * 2_000}'}})",
        "MATCH (p:Person), p2 = (p)-[:KNOWS]->(q) DELETE q",
        "CREATE (:Person {name: 'tick ` tick'})",
    ],
)
def test_a_clause_that_its_text_does_not_tell_is_answered_with_an_example(graph: og.Graph, statement: str) -> None:
    query = find_query(graph, statement)

    # The examples are about one person, and have no match.
    assert "Ann" in query
    assert "match" not in query
