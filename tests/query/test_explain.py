"""Plans as text. A change here is a change that people see."""

from datetime import UTC, date, datetime
from textwrap import dedent

import pytest

from omnigraph.query.explain import explain
from omnigraph.query.rules import rewrite
from omnigraph.schema.catalog import Value
from omnigraph.schema.values import format_value
from query.planning import plan


def shown(text: str) -> str:
    return explain(plan(text))


def optimized(text: str) -> str:
    return explain(rewrite(plan(text)))


def golden(text: str) -> str:
    return dedent(text).lstrip("\n")


FRIENDS = """
query friends($name: String, $min: I32?) {
    match {
        $p: Person { name: $name }
        $p $e:knows $f
        $f.age >= $min and ($e.since > date("2020-01-01") or $p.age = $f.age)
        $e.weight < 0.5
        not { $f worksAt $c  $c.city = "Bern" }
    }
    return { $f.name, count(*) as n }
    order { n desc }
    limit 10
}
"""


def test_a_read_as_bound() -> None:
    assert shown(FRIENDS) == golden("""
        query friends($name: String, $min: I32?)
          match
            $p: Person  (reads age, name)
              $p.name = $name
            $f: Person  (reads age, name)
            $p -[$e: Knows]-> $f  (each edge; reads since, weight)
            where
              $f.age >= $min and ($e.since > date("2020-01-01") or $p.age = $f.age)
              $e.weight < 0.5
            not, for each $f
              $c: Company  (reads city)
              $f -[WorksAt]-> $c  (each pair once)
              where
                $c.city = "Bern"
          group by $f.name
          return
            $f.name
            count(*) as n
          order by count(*) desc
          ties by $f.name
          limit 10
    """)


def test_a_read_as_rewritten_shows_which_filters_were_pushed() -> None:
    assert optimized(FRIENDS) == golden("""
        query friends($name: String, $min: I32?)
          match
            $p: Person  (reads age, name)
              $p.name = $name
            $f: Person  (reads age, name)
              $f.age >= $min
            $p -[$e: Knows]-> $f  (each edge; reads since, weight)
              $e.weight < 0.5
            where
              $e.since > date("2020-01-01") or $p.age = $f.age
            not, for each $f
              $c: Company  (reads city)
                $c.city = "Bern"
              $f -[WorksAt]-> $c  (each pair once)
          group by $f.name
          return
            $f.name
            count(*) as n
          order by count(*) desc
          ties by $f.name
          limit 10
    """)


def test_hops_show_direction_bounds_and_what_a_row_is() -> None:
    text = """
    query hops($n: U32) {
        match { $c: Company  $c worksAt $p  $p knows{1,3} $q  $q <knows> $_ }
        return distinct { $p.name as who, $q.@id }
        offset $n
    }
    """

    assert shown(text) == golden("""
        query hops($n: U32)
          match
            $c: Company
            $p: Person  (reads name)
            $q: Person
            $#1: Person
            $c <-[WorksAt]- $p  (each pair once)
            $p -[Knows{1,3}]-> $q  (each pair once, by its smallest distance)
            $q -[Knows]- $#1  (each pair once)
          return distinct
            $p.name as who
            $q.@id
          order by $p.name, $q.@id
          offset $n
    """)


def test_a_rank_shows_its_direction() -> None:
    text = """
    query like($v: Vector(2)) {
        match { $p: Person  search($p.bio, "graph") }
        return { $p }
        order { nearest($p.face, $v), $p.name desc }
        limit 3
    }
    """

    assert shown(text) == golden("""
        query like($v: Vector(2))
          match
            $p: Person  (reads age, bio, face, mail, name, seen, status)
            where
              search($p.bio, "graph")
          return
            $p
          order by nearest($p.face, $v) asc, $p.name desc
            top 3 of the rows that pass all filters and hops
          ties by $p.@id
          limit 3
    """)


def order_of(order: str, rest: str = "") -> str:
    head = "query q($v: Vector(2), $q: String, $n: U32, $k: U32) { match { $p: Person } return { $p.name }"
    text = shown(f"{head} order {{ {order} }} {rest} }}")
    return dedent(text[text.index("  order by") :])


def test_a_rank_by_relevance_leaves_rows_out() -> None:
    assert order_of("bm25($p.bio, $q), $p.name") == golden("""
        order by bm25($p.bio, $q) desc, $p.name asc
          rows without a match are left out
        ties by $p.@id
    """)


def test_a_limited_rank_by_relevance_takes_the_best_of_what_passes() -> None:
    assert order_of("bm25($p.bio, $q)", "limit $n offset 5") == golden("""
        order by bm25($p.bio, $q) desc
          rows without a match are left out
          top $n + 5 of the rows that pass all filters and hops
        ties by $p.@id
        limit $n
        offset 5
    """)


def test_a_fusion_says_how_long_its_lists_are() -> None:
    assert order_of("rrf(nearest($p.face, $v), bm25($p.bio, $q))", "limit 10") == golden("""
        order by rrf(nearest($p.face, $v), bm25($p.bio, $q), 60) desc
          each list: top 100 of the rows that pass all filters and hops
          rows without a match are not in the list of bm25
          top 10 of both lists; a list without the row adds 0
        ties by $p.@id
        limit 10
    """)


def test_a_fusion_with_parameters_says_how_its_lists_come_about() -> None:
    assert order_of("rrf(nearest($p.face, $v), nearest($p.face, $v), $k)", "limit $n offset 2") == golden("""
        order by rrf(nearest($p.face, $v), nearest($p.face, $v), $k) desc
          each list: top max(4 * ($n + 2), 100) of the rows that pass all filters and hops
          top $n + 2 of both lists; a list without the row adds 0
        ties by $p.@id
        limit $n
        offset 2
    """)


def test_a_read_that_cannot_match_says_so() -> None:
    assert optimized(
        "query none() { match { $p: Person  $p.age > 5  $p.age < 3 } return { count(*) as n } }"
    ) == golden("""
        query none()
          match
            nothing: no row can match
            $p: Person
          group all rows into one
          return
            count(*) as n
          order unspecified
    """)


def test_a_mutation() -> None:
    text = """
    query hire($n: String, $c: String, $age: I32?) {
        insert Person { name: $n, age: $age, seen: now() }
        insert WorksAt { from: $n, to: $c, role: "dev" }
        insert Knows { from: $n, to: "ada" }
        update Person set { status: "active", mail: null } where name = $n and (age > 3 or not age in [1, 2])
    }
    """

    assert shown(text) == golden("""
        query hire($n: String, $c: String, $age: I32?)
          insert Person  (an update if the key exists)
            name: $n
            age: $age
            seen: now()
            default or null: mail, status, bio, face, photo
          insert WorksAt  (an update if the key exists)
            from: $n
            to: $c
            role: "dev"
          insert Knows
            from: $n
            to: "ada"
            default or null: since, weight
          update Person
            status: "active"
            mail: null
            where name = $n and (age > 3 or not (age in [1, 2]))
    """)


def test_a_delete() -> None:
    assert shown("query drop($a: String) { delete Knows where from = $a or @id = $a }") == golden("""
        query drop($a: String)
          delete Knows
            where from = $a or @id = $a
    """)


@pytest.mark.parametrize(
    "value,text",
    [
        (None, "null"),
        (True, "true"),
        (-3, "-3"),
        (1.0, "1.0"),
        (1e300, "1.0e300"),
        ('a"b', r'"a\"b"'),
        (date(2026, 1, 2), 'date("2026-01-02")'),
        (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), 'datetime("2026-01-02T03:04:05Z")'),
        ((1, 2), "[1, 2]"),
        (tuple(range(20)), "[0, 1, 2, 3, 4, 5, 6, 7, … 12 more]"),
        (b"abc", "<3 bytes>"),
    ],
)
def test_a_value_is_shown_as_the_language_writes_it(value: Value, text: str) -> None:
    assert format_value(value, in_query=True) == text


def test_a_long_text_is_clipped() -> None:
    assert len(format_value("x" * 10_000, in_query=True)) < 100
