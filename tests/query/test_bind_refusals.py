"""What the second part of the language refuses: each mistake has its code, and is found before anything is read."""

import pytest

from omnigraph.lang.query_parser import parse_queries
from omnigraph.lang.source import Source
from omnigraph.query.bind import bind_file
from query.reading import CATALOG, checked


def codes(text: str) -> list[str]:
    """The codes of a query's mistakes."""
    return [one.code for one in checked(text).diagnostics]


@pytest.mark.parametrize(
    "value, code",
    [
        ("sum { $p knows $q return $q }", "T8"),
        ("sum { $p knows $q return $q.name }", "T8"),
        ("max { $p knows $q return $q.tags }", "T8"),
        ("collect { $p knows $q return $q.photo }", "T8"),
        ("count { $p knows $q return distinct $q.tags }", "T8"),
        ("collect { $p knows $q return $q.name order { $q } }", "T7"),
        ("collect { $p knows $q return $q.name order { 1 } }", "T7"),
        ("collect { $p knows $q return $q.name order { $q.tags } }", "T7"),
        ("collect { $p knows $q return distinct $q.name order { $q.age } }", "T9"),
        ("collect { $p knows $q return $q.nme }", "T2"),
        ("collect { $p knows $q return $q.name order { $q.nme } }", "T2"),
        ('min { $p knows $q return bm25($q.bio, "x") }', "T18"),
    ],
)
def test_a_value_block_with_a_mistake(value: str, code: str) -> None:
    assert codes(f"query q() {{ match {{ $p: Person }} return {{ {value} as v }} }}") == [code]


@pytest.mark.parametrize(
    "column, code",
    [
        ("percentile($p.age, 2)", "T8"),
        ('percentile($p.age, "x")', "T8"),
        ("percentile($p.age, $p.height)", "T8"),
        ("collect($p.name order { 1 })", "T7"),
        ("collect($p.name order { $p })", "T7"),
        ("collect($p.name order { $p.tags })", "T7"),
        ("collect($p.name limit -1)", "T24"),
        ("collect($p.name limit $p)", "T24"),
        ("sum($p.age) over { per { $p.tags } }", "T8"),
        ("lag($p) over { order { $p.name } }", "T8"),
        ("sum($p.age) over { order { $p.tags } }", "T7"),
        ("median($p.name)", "T8"),
        ("product($p.name)", "T8"),
        ("any($p.age)", "T7"),
    ],
)
def test_an_aggregate_or_window_with_a_mistake(column: str, code: str) -> None:
    assert code in codes(f"query q() {{ match {{ $p: Person }} return {{ {column} as v }} }}")


@pytest.mark.parametrize(
    "clauses, code",
    [
        ("$p knows{1,3} $q along { $p.age > 3 }", "T6"),
        ("$p knows{1,3} $q along { sinse is null }", "T2"),
        ("$p knows{1,3} $q through { @src = 1 }", "T2"),
        ("$p knows{1,3} $q through { tags = 1 }", "T7"),
        ("path $w = $p knows{1,*} $q", "T15"),
        ('shortest $w = $p knows{1,3} $q  length($w) = "x"', "T7"),
        ("shortest $w = $p knows{1,3} $q  cost($w) > 1", "T27"),
        ("nodes($p.tags) = 1", "T27"),
        ("cheapest $w = $p knows{1,*} $q by { since }", "T7"),
    ],
)
def test_a_path_or_a_condition_on_the_way_with_a_mistake(clauses: str, code: str) -> None:
    assert code in codes(f"query q() {{ match {{ $p: Person {clauses} }} return {{ $p.name }} }}")


PATTERNS = """
pattern near($a: Person, $b: Person) { $a knows $b }
pattern lone($a: Person) { $a.age > 3 }
"""


@pytest.mark.parametrize(
    "clause, code",
    [
        ("$p (near|knows) $q", "T4"),
        ("$p lone $q", "T4"),
        ("$p $e:near $q", "T23"),
        ("$p near{1,3} $q along { since is null }", "T23"),
        ("near($p)", "T27"),
        ("near($p, 3)", "T27"),
    ],
)
def test_a_named_pattern_that_is_misused(clause: str, code: str) -> None:
    source = Source(f"{PATTERNS} query q() {{ match {{ $p: Person {clause} }} return {{ $p.name }} }}")

    diagnostics = bind_file(parse_queries(source).require(source), CATALOG).diagnostics

    assert code in [one.code for one in diagnostics]


@pytest.mark.parametrize(
    "expression, code",
    [
        ("$p.name + 1", "T27"),
        ("$p.tags + 1", "T27"),
        ("-$p.name", "T27"),
        ("$p.born + hours(3)", "T27"),
        ("$p.born - $p.born", "T27"),
        ("days(3)", "Q000"),
        ("$p.name[0]", "T27"),
        ('$p.tags["x"]', "T27"),
        ('[1, "a"]', "T3"),
        ('case { $p.age > 3 => 1, else => "x" }', "T27"),
        ("case { $p.name => 1 }", "T7"),
        ("coalesce($p.age, $p.name)", "T27"),
        ("matches($p.name, $p.bio)", "T27"),
        ('matches($p.name, "(")', "T27"),
        ('trunc($p.seen, "moment")', "T27"),
        ("substring($p.name)", "T27"),
        ("round($p.name)", "T27"),
    ],
)
def test_a_calculation_with_a_mistake(expression: str, code: str) -> None:
    found = codes(f"query q() {{ match {{ $p: Person }} return {{ {expression} as v }} }}")

    assert len(found) == 1, found
    assert found[0] == code
