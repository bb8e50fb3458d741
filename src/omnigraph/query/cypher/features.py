"""What of Cypher is done, and what is refused by name: the reference page is written from these tables."""

from dataclasses import dataclass
from typing import Final

from omnigraph.lang.cypher.writing_clauses import WRITING_WORDS
from omnigraph.query.cypher.aggregates import list_aggregates
from omnigraph.query.cypher.functions import FUNCTIONS


@dataclass(frozen=True, slots=True)
class CypherFeature:
    """A form of the language, an example, and, if it is refused, what to write instead."""

    group: str
    name: str
    example: str
    instead: str | None = None


_DONE: Final = (
    ("clauses", "`MATCH`", "MATCH (p:Person) RETURN p.name"),
    ("clauses", "`OPTIONAL MATCH`", "MATCH (p:Person) OPTIONAL MATCH (p)-[:WORKS_AT]->(c) RETURN p.name, c.name"),
    ("clauses", "`WHERE`", "MATCH (p:Person) WHERE p.age > 30 RETURN p.name"),
    ("clauses", "`WITH`, also with `WHERE`", "MATCH (p:Person) WITH p.city AS c, count(*) AS n WHERE n > 1 RETURN c"),
    ("clauses", "`UNWIND`", "UNWIND [1, 2] AS x RETURN x"),
    ("clauses", "`RETURN`, `DISTINCT`, `*`", "MATCH (p:Person) RETURN DISTINCT p.city"),
    ("clauses", "`SKIP` and `LIMIT` of calculations, also with parameters", "MATCH (p:Person) RETURN p LIMIT 2 * 3"),
    ("clauses", "`ORDER BY`, `SKIP`, `LIMIT`", "MATCH (p:Person) RETURN p.name ORDER BY p.age DESC SKIP 1 LIMIT 2"),
    ("clauses", "`UNION`, `UNION ALL`", "RETURN 1 AS x UNION ALL RETURN 2 AS x"),
    ("clauses", "`CALL db.labels()` and the like", "CALL db.labels() YIELD label RETURN label"),
    ("patterns", "labels, `:A|B`, `:A&!B`", "MATCH (n:Person|Company) RETURN n.name"),
    ("patterns", "no label: all types", "MATCH (n) RETURN n LIMIT 25"),
    ("patterns", "properties in braces", "MATCH (p:Person {name: 'Ada'}) RETURN p"),
    ("patterns", "conditions inside", "MATCH (p:Person WHERE p.age > 30) RETURN p.name"),
    ("patterns", "directions", "MATCH (a:Person)<-[:KNOWS]-(b)-[:KNOWS]-(c) RETURN c.name"),
    ("patterns", "types, `:A|B`", "MATCH (a:Person)-[r:KNOWS|FOLLOWS]->(b) RETURN type(r)"),
    ("patterns", "variable lengths", "MATCH (a:Person)-[r:KNOWS*1..3]->(b) RETURN size(r)"),
    ("patterns", "variable lengths without an upper bound", "MATCH (a:Person)-[:KNOWS*]->(b) RETURN b.name"),
    ("patterns", "properties along a length", "MATCH (a:Person)-[:KNOWS*2 {km: 1.0}]->(b) RETURN b"),
    ("patterns", "a `WHERE` inside a length", "MATCH (a:Person)-[r:KNOWS*2 WHERE r.km > 1]->(b) RETURN b"),
    ("patterns", "named paths", "MATCH p = (a:Person)-[:KNOWS]->(b) RETURN nodes(p)"),
    (
        "patterns",
        "paths of lengths and hops",
        "MATCH p = (a:Person)-[:KNOWS*1..2]->()-[:WORKS_AT]->() RETURN length(p)",
    ),
    ("patterns", "`shortestPath`", "MATCH p = shortestPath((a:Person)-[:KNOWS*]->(b:Person)) RETURN length(p)"),
    ("patterns", "`allShortestPaths`", "MATCH p = allShortestPaths((a:Person)-[:KNOWS*]->(b:Person)) RETURN length(p)"),
    ("expressions", "`AND`, `OR`, `XOR`, `NOT`", "RETURN NOT (true XOR false) AS x"),
    ("expressions", "comparisons, chained", "RETURN 1 < 2 <= 3 AS x"),
    ("expressions", "`IN`, `IS NULL`, `IS NOT NULL`", "MATCH (p:Person) WHERE p.age IN [3, 4] RETURN p.age IS NULL"),
    ("expressions", "`STARTS WITH`, `ENDS WITH`, `CONTAINS`", "MATCH (p:Person) WHERE p.name CONTAINS 'd' RETURN p"),
    ("expressions", "`=~`", "MATCH (p:Person) WHERE p.name =~ 'A.*' RETURN p"),
    ("expressions", "`+`, `-`, `*`, `/`, `%`, `^`", "RETURN 7 / 2 + 2 ^ 3 AS x"),
    ("expressions", "`||`", "RETURN 'a' || 'b' AS x"),
    ("expressions", "labels as a condition", "MATCH (n) WHERE n:Person RETURN n.name"),
    ("expressions", "elements and parts of lists", "RETURN [1, 2, 3][-1] AS x, [1, 2, 3][0..2] AS y"),
    ("expressions", "lists with null", "RETURN [1, null] AS x"),
    ("expressions", "lists that are joined", "RETURN [1] + [2] + 3 AS x"),
    (
        "expressions",
        "lists that are compared, in three-valued logic",
        "RETURN [1, null] = [1, 2] AS x, [1] < [1, 2] AS y",
    ),
    ("expressions", "groups, `DISTINCT` and order by lists", "MATCH (n) RETURN labels(n) AS l, count(*) ORDER BY l"),
    ("expressions", "maps that are compared", "RETURN {a: 1} = {a: 1} AS x"),
    ("expressions", "empty maps", "RETURN {} AS x"),
    ("expressions", "a property by its name, also as a parameter: `n[$key]`", "MATCH (p:Person) RETURN p['name'] AS x"),
    ("expressions", "maps, map projections", "MATCH (p:Person) RETURN p {.name, years: p.age}"),
    ("expressions", "`CASE`", "MATCH (p:Person) RETURN CASE WHEN p.age > 3 THEN 'x' ELSE 'y' END AS x"),
    ("expressions", "list comprehensions", "RETURN [x IN [1, 2] WHERE x > 1 | x * 2] AS x"),
    ("expressions", "quantifiers", "RETURN all(x IN [1, 2] WHERE x > 0) AS x"),
    ("expressions", "pattern predicates", "MATCH (p:Person) WHERE NOT (p)-[:KNOWS]->() RETURN p.name"),
    ("expressions", "pattern comprehensions", "MATCH (p:Person) RETURN [(p)-[:KNOWS]->(q) | q.name] AS x"),
    ("expressions", "`EXISTS { }`, `COUNT { }`", "MATCH (p:Person) RETURN COUNT { (p)-[:KNOWS]->() } AS n"),
    (
        "expressions",
        "blocks of several clauses",
        "MATCH (p:Person) WHERE EXISTS { MATCH (p)-->(q) WITH p, count(q) AS n WHERE n > 1 } RETURN p.name",
    ),
    (
        "expressions",
        "blocks that cut, order and unite rows",
        "MATCH (p:Person) RETURN COUNT { MATCH (p)-->(q) WITH DISTINCT q RETURN q UNION MATCH (p)--(q) RETURN q } AS n",
    ),
    ("expressions", "`COLLECT { }`", "MATCH (p:Person) RETURN COLLECT { MATCH (p)-[:KNOWS]->(q) RETURN q.name } AS x"),
    ("expressions", "`reduce` that is a sum", "RETURN reduce(t = 0, x IN [1, 2] | t + x) AS x"),
)
_REFUSED: Final = (
    ("clauses", "`CALL { }`", "CALL { RETURN 1 AS x } RETURN x", "write its clauses after the others"),
    ("clauses", "several statements", "RETURN 1; RETURN 2", "run them one after the other"),
    ("patterns", "quantified patterns", "MATCH (a)-[:KNOWS]->+(b) RETURN b", "`-[:KNOWS*]->`"),
    ("patterns", "path selectors", "MATCH p = SHORTEST 1 (a)-[:KNOWS]->(b) RETURN p", "`shortestPath(…)`"),
    (
        "patterns",
        "a `WHERE` inside a length that reads other variables",
        "MATCH (a:Person)-[r:KNOWS*2 WHERE r.km > a.age]->(b) RETURN b",
        "test them afterwards, by `all(r IN relationships(p) WHERE …)`",
    ),
    (
        "expressions",
        "a block with a `LIMIT` between its clauses",
        "MATCH (p:Person) RETURN COUNT { MATCH (p)-->(q) WITH q LIMIT 1 MATCH (q)-->(r) RETURN r } AS n",
        "write the clauses before the block",
    ),
    ("expressions", "zones", "RETURN datetime('2026-01-31T09:30:00+02:00') AS x", "an instant of UTC"),
    ("expressions", "lists of several types", "RETURN [1, 'a'] AS x", "make them one, by `toString`"),
    ("expressions", "property names from data", "MATCH (p:Person) RETURN p[p.name] AS x", "name the property"),
    ("expressions", "`reduce` that is no sum", "RETURN reduce(t = 1, x IN [2] | t * x) AS x", "`UNWIND` and aggregate"),
    ("expressions", "type predicates", "RETURN 1 IS :: INTEGER AS x", "types are static"),
)


def list_features() -> tuple[CypherFeature, ...]:
    """Return all forms, those of one group together: first what is done, then what is refused."""
    done = (CypherFeature(group, name, example) for group, name, example in _DONE)
    refused = (CypherFeature(group, name, example, instead) for group, name, example, instead in _REFUSED)
    order = ("clauses", "patterns", "expressions")
    return tuple(sorted((*done, *refused), key=lambda each: order.index(each.group)))


def list_functions() -> tuple[tuple[str, str | None], ...]:
    """Return how each function and aggregate is written, and, if it is refused, what to write instead."""
    scalar = [(each.usage if each.bind else each.name, each.instead or None) for each in FUNCTIONS.values()]
    return (
        *sorted((f"{name}(…)", None) for name in list_aggregates()),
        *sorted(scalar, key=lambda each: each[0].lower()),
    )


def list_writing_clauses() -> tuple[tuple[str, str], ...]:
    """Return the clauses that write, and what does the same here."""
    return tuple(WRITING_WORDS.items())
