"""Statements of Cypher beside the queries that say the same, for `bench/cypher.py` and for the test of their plans.

Parallel edges can't be, or can't be seen, so that the plan of each pair is one and the same.
"""

SCHEMA = """
node Person { name: String @key age: I64? city: String? }
node Company { name: String @key }
edge Knows: Person -> Person { since: I64? @key(src, dst) }
edge Visits: Person -> Company { times: I64? }
"""
PAIRS = {
    "neighbours of one": (
        'match { $a: Person { name: "p1" } $a knows $b } return { $b.name as name } order { $b.name }',
        "MATCH (a:Person {name: 'p1'})-[:KNOWS]->(b) RETURN b.name AS name ORDER BY b.name",
    ),
    "neighbours of one, counted": (
        'match { $a: Person { name: "p1" } $a knows $b } return { count(*) as n }',
        "MATCH (a:Person {name: 'p1'})-[:KNOWS]->(b) RETURN count(*) AS n",
    ),
    "all pairs": (
        "match { $a: Person $a knows $b } return { $a.name as x, $b.name as y }",
        "MATCH (a:Person)-[:KNOWS]->(b) RETURN a.name AS x, b.name AS y",
    ),
    "all pairs, counted": (
        "match { $a: Person $a knows $b $b.age > 40 } return { count(*) as n }",
        "MATCH (a:Person)-[:KNOWS]->(b) WHERE b.age > 40 RETURN count(*) AS n",
    ),
    "neighbours of neighbours, distinct": (
        'match { $a: Person { name: "p1" } $a knows $b $b knows $c } return distinct { $c.name as name }',
        "MATCH (a:Person {name: 'p1'})-[:KNOWS]->(b) MATCH (b)-[:KNOWS]->(c) RETURN DISTINCT c.name AS name",
    ),
    "distinct ends of parallel edges": (
        "match { $a: Person { age: 7 } $a visits $c } return distinct { $c.name as name }",
        "MATCH (a:Person {age: 7})-[:VISITS]->(c) RETURN DISTINCT c.name AS name",
    ),
    "an extreme over parallel edges": (
        "match { $a: Person $a visits $c } return { $c.name as c, max($a.age) as n }",
        "MATCH (a:Person)-[:VISITS]->(c) RETURN c.name AS c, max(a.age) AS n",
    ),
    "a test": (
        "match { $a: Person exists { $a visits $c } } return { count(*) as n }",
        "MATCH (a:Person) WHERE (a)-[:VISITS]->() RETURN count(*) AS n",
    ),
    "a test, ordered": (
        "match { $a: Person $a.age > 3 exists { $a visits $c } } return { $a.name as n } order { $a.name } limit 5",
        "MATCH (a:Person) WHERE a.age > 3 AND (a)-[:VISITS]->() RETURN a.name AS n ORDER BY a.name LIMIT 5",
    ),
    "a test that fails": (
        "match { $a: Person not { $a visits $c } } return { $a.name as n }",
        "MATCH (a:Person) WHERE NOT EXISTS { (a)-[:VISITS]->() } RETURN a.name AS n",
    ),
    "groups": (
        "match { $a: Person } return { $a.city as city, count(*) as n }",
        "MATCH (a:Person) RETURN a.city AS city, count(*) AS n",
    ),
    "groups, ordered": (
        "match { $a: Person } return { $a.city as city, count(*) as n } order { count(*) desc } limit 5",
        "MATCH (a:Person) RETURN a.city AS city, count(*) AS n ORDER BY n DESC LIMIT 5",
    ),
}
