"""Statements of Cypher run as any query does: on branches, in the past, page by page, by each engine, as an actor."""

import json
from functools import partial
from pathlib import Path

import pytest

import omnigraph as og
from hidden_rows import VARIANTS, build_graph, load_policies, open_as
from omnigraph.errors import OmnigraphError
from omnigraph.lang.cypher.writing_clauses import WRITING_WORDS
from worlds import FAST, runtime

NAMES = "MATCH (p:Person) RETURN p.name AS name ORDER BY name"
READS = (
    NAMES,
    "MATCH (n) RETURN labels(n)[0] AS l, count(*) AS n ORDER BY l",
    "MATCH (p:Person) RETURN COUNT { (p)--() } AS n ORDER BY p.name",
    "MATCH (p:Person {name: 'h1'}) RETURN p.name",
    "MATCH w = (p:Person {name: 'p0'})-[:KNOWS*1..3]->(q) RETURN [n IN nodes(w) | n.name] AS names ORDER BY names",
    "MATCH (p:Person) RETURN max(p.level) AS m, collect(p.region) AS r, count(*) AS n",
    "MATCH (p:Person)-[:KNOWS]->(q)-[:KNOWS]->(r) RETURN p.name, r.name ORDER BY p.name, r.name",
)
SCHEMA = "node Person { name: String @key age: I64? }\nedge Knows: Person -> Person"


def list_rows(result: og.Result) -> list[object]:
    """The rows of a result as JSON has them."""
    rows: list[object] = json.loads(json.dumps(result.to_json()))["rows"]
    return rows


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.create_graph(str(tmp_path / "graph"), SCHEMA, runtime=runtime(FAST))
    graph.mutate('query add() { insert Person { name: "Ann", age: 40 } insert Person { name: "Bob", age: 30 } }')
    return graph


def test_hidden_rows_are_seen_by_no_statement(tmp_path: Path) -> None:
    policies = load_policies(tmp_path / "policies")
    answers = []
    for variant in VARIANTS:
        graph = open_as(build_graph(tmp_path / variant.name, variant), policies.of_graph("g"))
        answers.append([list_rows(graph.cypher(text)) for text in READS])

    assert answers[0][0]
    assert all(each == answers[0] for each in answers)


def test_a_statement_reads_a_branch_and_the_past(graph: og.Graph) -> None:
    before = graph.commits()[0].id
    graph.branches.create("draft")
    graph.mutate('query add() { insert Person { name: "Cid" } }', branch="draft")
    graph.mutate('query drop() { delete Person where name = "Bob" }')

    read = partial(graph.cypher, NAMES)

    assert list_rows(read()) == [{"name": "Ann"}]
    assert list_rows(read(branch="draft")) == [{"name": "Ann"}, {"name": "Bob"}, {"name": "Cid"}]
    assert list_rows(read(snapshot=before)) == [{"name": "Ann"}, {"name": "Bob"}]


@pytest.mark.parametrize("engine", ["memory", "local", "auto"])
def test_pages_follow_each_other(graph: og.Graph, engine: str) -> None:
    pages = [list_rows(graph.cypher(f"{NAMES} SKIP $at LIMIT 1", {"at": at}, engine=engine)) for at in range(3)]

    assert pages == [[{"name": "Ann"}], [{"name": "Bob"}], []]


@pytest.mark.parametrize("word", [word for word, help_ in WRITING_WORDS.items() if "`query " in help_])
def test_the_query_of_a_refused_clause_does_what_it_says(graph: og.Graph, word: str) -> None:
    with pytest.raises(OmnigraphError) as refused:
        # A node of any type is nothing that a query writes, so that the example of the word is shown.
        graph.cypher(f"MATCH (p) {word} p")
    query = next(part for part in str(refused.value).split("`") if part.startswith("query "))

    graph.mutate(query)

    (ann,) = list_rows(graph.cypher("MATCH (p:Person) RETURN count(*) AS n, max(p.age) AS age"))
    expected = {"DELETE": (1, 30), "DETACH": (1, 30), "REMOVE": (2, 30), "SET": (2, 42), "MERGE": (2, 42)}
    assert ann == dict(zip(("n", "age"), expected.get(word, (2, 40)), strict=True))


WRITTEN = {
    "CREATE (:Person {name: 'Cid \"x\"', age: -3})": ('Cid "x"', -3),
    "CREATE (p:Person {name: 'Cid', age: null}) RETURN p": ("Cid", None),
    "MERGE (p:Person {name: 'Ann', age: 7})": ("Ann", 7),
    "CREATE (p:Person {name: 'Cid'}), (q:Person {name: 'Dee'})": ("Dee", None),
    "CREATE (p:Person {name: 'C' + 'id'})": ("Cid", None),
}
OTHERWISE = (
    "CREATE (p:Person {name: $name})",
    "CREATE (p:Person:Named {name: 'Cid'})",
    "CREATE (p:Person {name: 'Cid'})-[:KNOWS]->(q)",
    "CREATE (p:Person {name: toUpper('Cid')})",
    "CREATE (p:Person {name: 'Cid', or: 1})",
    "CREATE (p:Person {name: 'Cid'",
    "CREATE (p:Person)",
    "MERGE (p:Person {name: 'Cid'}) ON CREATE SET p.age = 4",
)


def read_help(graph: og.Graph, statement: str) -> str:
    """The query that the refusal of a statement tells."""
    with pytest.raises(OmnigraphError) as refused:
        graph.cypher(statement)
    return next(part for part in str(refused.value).split("`") if part.startswith("query "))


@pytest.mark.parametrize("statement", WRITTEN)
def test_the_query_for_a_node_has_its_label_and_values(graph: og.Graph, statement: str) -> None:
    graph.mutate(read_help(graph, statement))

    name, age = WRITTEN[statement]
    found = graph.cypher("MATCH (p:Person {name: $name}) RETURN p.age AS age", {"name": name})
    assert list_rows(found) == [{"age": age}]


@pytest.mark.parametrize("statement", OTHERWISE)
def test_the_query_for_what_the_text_does_not_tell_is_an_example(graph: og.Graph, statement: str) -> None:
    word = statement.split(maxsplit=1)[0]

    assert f"`{read_help(graph, statement)}`" in WRITING_WORDS[word]
