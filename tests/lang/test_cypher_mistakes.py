"""Mistakes in statements of Cypher: each is named, with the way out, and none ends the parser."""

import pytest

from omnigraph.lang.cypher.parser import parse_cypher
from omnigraph.lang.source import Source

LONG = "a" * 400


def find_first(text: str) -> str:
    """The first message of a statement, with its help."""
    first = parse_cypher(Source(text)).diagnostics[0]
    return f"{first.code}: {first.message} {first.help}"


@pytest.mark.parametrize(
    "text, expected",
    [
        (f"RETURN 1 AS `{LONG}`", "C001: a name has at most"),
        ("RETURN 1 AS ``", "C000: a name is empty"),
        (f"RETURN {'9' * 400} AS x", "C001: a number has at most"),
        ("RETURN 1e999 AS x", "C001: the number `1e999` is too large"),
        ("RETURN 12abc AS x", "C000: unexpected `a` in a number"),
        (r"RETURN '\uD800' AS x", "is no character"),
        ("RETURN 1 /* AS x", "C000: this comment is never closed"),
        ("RETURN `abc", "C000: this name is never closed"),
        ("RETURN 1 § 2", "C000: unexpected character `§`"),
        ("MATCH (n {name: {x}}) RETURN n", "a parameter is written `$x`"),
        ("RETURN [1; 2]", "C000"),
        ("RETURN filter(x IN [1] WHERE x > 0) AS l", "C002: `filter` over a list is not supported"),
        ("RETURN extract(x IN [1] | x) AS l", "C002: `extract` over a list is not supported"),
        ("RETURN CASE 1 END AS x", "WHEN"),
        ("MATCH (a) RETURN COLLECT { MATCH (a)-->(b) } AS x", "`COLLECT` needs a `RETURN` of one value"),
        ("MATCH p = shortestPath((a)) RETURN p", "`shortestPath` needs one relationship"),
        ("MATCH (a)" + "-->(b)" * 500 + " RETURN a", "C001: more than"),
        ("MATCH ((a)-->(b)){2} RETURN a", "C002: quantified patterns are not supported"),
        ("MATCH (a:$x) RETURN a", "C002: labels from parameters are not supported"),
        ("MATCH (a)-[*1..$n]->(b) RETURN a", "C002: a length can't be a parameter"),
        ("USE films MATCH (a) RETURN a", "C002: `USE` is not supported"),
        ("PROFILE MATCH (a) RETURN a", "C002: `PROFILE` is not supported"),
        ("WHERE 1 = 1 RETURN 1", "`WHERE` follows `MATCH`, `WITH` or `YIELD` directly"),
        ("MATCH (a) ORDER BY a.name RETURN a", "follows the columns of `RETURN` or `WITH`"),
        ("MATCH (a) RETURN a LIMIT 2 SKIP 1", "`SKIP` stands before `LIMIT`"),
        ("MATCH (a) RETURN a.name ORDER BY a.name NULLS LAST", "C002: `NULLS` is not supported"),
        ("MATCH (a) CALL (a) { RETURN 1 AS x } RETURN x", "the scope of `CALL (…) { }` is not supported"),
        ("RETURN " + " + ".join("1" * 2_000), "C001: more than"),
        ("RETURN ! true", "C000: unexpected `!` a negation is written `NOT`"),
        ("123", "C000: expected a clause"),
    ],
)
def test_a_mistake_is_named(text: str, expected: str) -> None:
    assert expected in find_first(text)


@pytest.mark.parametrize(
    "text",
    [
        "RETURN [(1), 2] AS x",
        "MATCH (n) WHERE n.name IN ['a'] RETURN [n IN [1], 3] AS x",
        "MATCH (n) RETURN [(n)-->(), true] AS x",
        "RETURN CASE 1 WHEN 1, 2 THEN 'a' ELSE 'b' END AS x",
        r"RETURN '\U0001F600' AS x, '\uD83D\uDE00' AS y",
        "CALL { MATCH (n) RETURN count(*) AS n } RETURN n",
        "MATCH (n IS Person) RETURN n",
        "MATCH (n $properties) RETURN n",
    ],
)
def test_a_rare_form_is_read(text: str) -> None:
    assert parse_cypher(Source(text)).ok
