"""What people who know Cypher or SQL type: the help shows a form, and a query with this form is accepted."""

from pathlib import Path

import pytest

from omnigraph.lang.diagnostics import Diagnostic
from omnigraph.lang.query_parser import parse_queries
from omnigraph.lang.source import Source
from omnigraph.query.bind import bind_query
from schema_making import catalog_from

CATALOG = catalog_from((Path(__file__).parents[1] / "corpus/schemas/people.pg").read_text(encoding="utf-8"))
SHOWN = [
    (
        "MATCH (a)-[:KNOWS]->(b) RETURN b",
        "match { $a: Person $a knows $b } return { $b.name }",
        "match { $a: Person $a knows $b } return { $b.name }",
    ),
    ("select name from Person", "match { $p: Person } return { $p.name }", "match { $p: Person } return { $p.name }"),
    (
        "match { $p: Person count(*) > 3 } return { $p.name }",
        "count { $p knows $q } > 3",
        "match { $p: Person count { $p knows $q } > 3 } return { 1 as one }",
    ),
    (
        "match { $p: Person count(*) > 3 } return { $p.name }",
        "having { count(*) > 3 }",
        "match { $p: Person } return { $p.age, count(*) as n } having { count(*) > 3 }",
    ),
    (
        "match { $p: Person $p.age = max($p.age) } return { $p.name }",
        "max { $q: Person return $q.age }",
        "match { $p: Person $p.age = max { $q: Person return $q.age } } return { $p }",
    ),
    ("match { $p: person } return { $p.name }", "Person", "match { $p: Person } return { 1 as one }"),
    (
        "match { $p: Person } with { $p, count(*) as n } where n > 3 return { $p.name }",
        "having { n > 3 }",
        "match { $p: Person } with { $p, count(*) as n } having { n > 3 } return { $p }",
    ),
    (
        "match { $p: Person } with { $p, count(*) as n } return { $p.name, n }",
        "$n",
        "match { $p: Person } with { $p, count(*) as n } return { $n }",
    ),
    (
        "match { $p: Person optional $p worksAt $c } return { $p.name }",
        "optional { $p worksAt $c }",
        "match { $p: Person optional { $p worksAt $c } } return { 1 as one }",
    ),
    (
        "match { $p: Person exists $p worksAt $c } return { $p.name }",
        "exists { $p worksAt $c }",
        "match { $p: Person exists { $p worksAt $c } } return { 1 as one }",
    ),
    (
        "match { $p: Person either $p worksAt $c } return { $p.name }",
        "either { $p knows $q } or { $q knows $p }",
        "match { $p: Person either { $p knows $q } or { $q knows $p } } return { 1 as one }",
    ),
    (
        "match { $p: Person } return { $p.born + hours(3) as x }",
        "days",
        "match { $p: Person } return { $p.born + days(3) as x }",
    ),
    (
        "match { $p: Person } return { case $p.age when 3 then 1 end as x }",
        'case { $p.age < 18 => "child" else => "adult" }',
        'match { $p: Person } return { case { $p.age < 18 => "child" else => "adult" } as x }',
    ),
    (
        "match { $p: Person } return { $p.age > 3 ? 1 : 2 as x }",
        'case { $p.age < 18 => "child" else => "adult" }',
        'match { $p: Person } return { case { $p.age < 18 => "child" else => "adult" } as x }',
    ),
    ("match { $p: Person let $x = $p.age } return { x }", "$x", "match { $p: Person let $x = $p.age } return { $x }"),
    ("match { each $x in 1..3 } return { $x }", "[1, 2, 3]", "match { each $x in [1, 2, 3] } return { $x }"),
    ("match { each $x in range(1, 3) } return { $x }", "[1, 2, 3]", "match { each $x in [1, 2, 3] } return { $x }"),
    (
        "match { $p: Person date($p.born) = today() } return { $p }",
        "$p.born",
        "match { $p: Person $p.born = today() } return { 1 as one }",
    ),
    (
        "match { $p: Person date($p.name) = today() } return { $p }",
        "to_date($p.name)",
        "match { $p: Person to_date($p.name) = today() } return { 1 as one }",
    ),
    (
        'match { $p: Person $p.seen > "2020-01-01" } return { $p }',
        'datetime("2020-01-01T00:00:00Z")',
        'match { $p: Person $p.seen > datetime("2020-01-01T00:00:00Z") } return { 1 as one }',
    ),
    (
        'match { $p: Person $p.seen > datetime("2020-01-01") } return { $p }',
        'datetime("2020-01-01T00:00:00Z")',
        'match { $p: Person $p.seen > datetime("2020-01-01T00:00:00Z") } return { 1 as one }',
    ),
    (
        "match { $p: Person } return { size($p.name) as x }",
        "length($p.name)",
        "match { $p: Person } return { length($p.name) as x }",
    ),
    (
        "match { $p: Person } return { length($p.nicknames) as x }",
        "size($p.nicknames)",
        "match { $p: Person } return { size($p.nicknames) as x }",
    ),
    (
        "match { $p: Person } return { $p.name[0] as x }",
        "substring($p.name, 0, 1)",
        "match { $p: Person } return { substring($p.name, 0, 1) as x }",
    ),
    (
        "match { $p: Person|Company } return { $p }",
        "(Person|Company)",
        "match { $p: (Person|Company) } return { 1 as one }",
    ),
    ("match { $p knows -> $q } return { $q }", "$p knows $q", "match { $p knows $q } return { $q }"),
    ("match { $p knows> $q } return { $q }", "$p knows $q", "match { $p knows $q } return { $q }"),
    (
        "match { $p $e:knows{1,3} $q } return { $e }",
        "path $w = $a knows{1,3} $b",
        "match { path $w = $a knows{1,3} $b } return { edges($w) as e }",
    ),
    (
        "match { shortest $w = $a knows{1,3} $b } return { size($w) as n }",
        "length($w)",
        "match { shortest $w = $a knows{1,3} $b } return { length($w) as n }",
    ),
    (
        "match { shortest $w = $a knows{1,3} $b } return { $w.length as n }",
        "length($w)",
        "match { shortest $w = $a knows{1,3} $b } return { length($w) as n }",
    ),
    (
        "match { shortest $w = $a knows{1,3} $b } return { relationships($w) as n }",
        "edges($w)",
        "match { shortest $w = $a knows{1,3} $b } return { edges($w) as n }",
    ),
    (
        "match { $p: Person } return { $p } order { $p.age } desc",
        "order { $p.name desc }",
        "match { $p: Person } return { $p } order { $p.name desc }",
    ),
    (
        "match { $p: Person } return { $p } limit 5, 10",
        "limit 10 offset 20",
        "match { $p: Person } return { $p } limit 10 offset 20",
    ),
    (
        "match { $p worksAt $c } return { $p } limit 3 per $c",
        "limit 3 per { $c }",
        "match { $p worksAt $c } return { $p } limit 3 per { $c }",
    ),
    (
        "match { $p: Person } return { sum($p.age) over () as x }",
        "over { per { $c } order { $d } }",
        "match { $c: City let $d = $c.name } return { count(*) over { per { $c } order { $d } } as x }",
    ),
    (
        "match { $p: Person } return { dense_rank() over { order { $p.age } } as x }",
        "rank() over { order { $p.age } }",
        "match { $p: Person } return { rank() over { order { $p.age } } as x }",
    ),
    ("match { $p } return { $p }", "$p: Person", "match { $p: Person } return { 1 as one }"),
    ('merge Person { name: "x" }', "if absent", 'insert Person { name: "x" } if absent'),
    ('insert Person { name: "x" } on conflict do nothing', "if absent", 'insert Person { name: "x" } if absent'),
    ('create (p:Person {name: "x"})', 'insert Person { name: "Ann" }', 'insert Person { name: "Ann" }'),
    (
        'insert Person { name: "x" } as $p returning $p',
        "returning { $p.name }",
        'insert Person { name: "x" } as $p returning { $p.name }',
    ),
    (
        'update Person set { age: $p.age + 1 } where name = "x"',
        "age",
        'update Person set { age: age + 1 } where name = "x"',
    ),
    (
        'update Person set { age: Person.age + 1 } where name = "x"',
        "age",
        'update Person set { age: age + 1 } where name = "x"',
    ),
    ("match { $p: Person } update $p set { $p.age: 3 }", "age", "match { $p: Person } update $p set { age: 3 }"),
    (
        "match { $p: Person } delete $p.email",
        "update $p set { email: null }",
        "match { $p: Person } update $p set { email: null }",
    ),
    (
        "match { $p: Person } remove $p.email",
        "update $p set { email: null }",
        "match { $p: Person } update $p set { email: null }",
    ),
    ("match { $p: Person } delete p", "$p", "match { $p: Person } delete $p"),
    (
        'delete Person where name = "x" limit 10',
        "with { $p } order { $p.name } limit 10 delete $p",
        "match { $p: Person } with { $p } order { $p.name } limit 10 delete $p",
    ),
    (
        "match { path $w = $p knows{1,2} $q } delete $w",
        "each $e in edges($w)",
        "match { path $w = $p knows{1,2} $q each $e in edges($w) } delete $e",
    ),
    (
        "query q($rows: [{name: String}]) { insert Person { name: $rows.name } }",
        "match { each $r in $rows }",
        "query q($rows: [{name: String}]) { match { each $r in $rows } insert Person { name: $r.name } }",
    ),
    (
        "match { $p: Person $p * $q } return { $q }",
        "$p (*) $other",
        "match { $p: Person $p (*) $other } return { 1 as one }",
    ),
    (
        "match { $p: Person $p *{1,3} $q } return { $q }",
        "$p (*){1,3} $other",
        "match { $p: Person $p (*){1,3} $other } return { 1 as one }",
    ),
    (
        "match { $p: Person $p !knows $q } return { $q }",
        "not { $p knows $q }",
        "match { $p: Person not { $p knows $q } } return { 1 as one }",
    ),
    (
        "match { $p: Person $p <-knows- $q } return { $q }",
        "$p knows $q",
        "match { $p: Person $p knows $q } return { 1 as one }",
    ),
    (
        "match { ($p)-[:KNOWS]->($q) } return { $q }",
        "$p knows $q",
        "match { $p: Person $p knows $q } return { 1 as one }",
    ),
    (
        "match { $p: Person $p is Company } return { $p }",
        '$p.@type = "Company"',
        'match { $p: Person $p.@type = "Company" } return { 1 as one }',
    ),
    (
        "match { $p: Person $p.email == null } return { $p }",
        "is null",
        "match { $p: Person $p.email is null } return { 1 as one }",
    ),
    (
        "match { $p: Person $p.email <> null } return { $p }",
        "is not null",
        "match { $p: Person $p.email is not null } return { 1 as one }",
    ),
    (
        'match { $p: Person $p knows "Ann" } return { $p }',
        '$p knows $other  $other.@id = "Ann"',
        'match { $p: Person $p knows $other  $other.@id = "Ann" } return { 1 as one }',
    ),
    (
        "match { $p: Person $p knows{since: 3} $q } return { $p }",
        "$p knows $other along {",
        "match { $p: Person $p knows $other along { weight > 3 } } return { 1 as one }",
    ),
    (
        "match { $p: Person $p e:knows $q } return { $p }",
        "$p $e:knows $other",
        "match { $p: Person $p $e:knows $other } return { 1 as one }",
    ),
    (
        "match { $p: Person $p knows $q { age: 3 } } return { $p }",
        "$q: Person {",
        "match { $p: Person $p knows $q $q: Person { age: 3 } } return { 1 as one }",
    ),
    (
        "match { $p: Person } return { $p.knows.name }",
        "$p knows $q",
        "match { $p: Person $p knows $q } return { $q.name }",
    ),
    (
        "match { $p: Person $x = $p.age + 1 } return { $x }",
        "let $x =",
        "match { $p: Person let $x = $p.age + 1 } return { $x }",
    ),
    (
        "match { $p: Person } return { $p.name } order { desc $p.name }",
        "$p.name desc",
        "match { $p: Person } return { $p.name } order { $p.name desc }",
    ),
    (
        "match { $p: Person } return { $p.name } order { $p.age desc nulls first }",
        "order { $p.age is null, $p.age }",
        "match { $p: Person } return { $p.name } order { $p.age is null, $p.age }",
    ),
    (
        "match { $p: Person } return { $p.name } order { $p.age } limit 3 by { $p.age }",
        "limit 3 per { $",
        "match { $p: Person $p worksAt $c } return { $p.name } order { $p.age } limit 3 per { $c }",
    ),
    (
        "match { $p: Person } return { $p.age ?? 0 as x }",
        "coalesce($p.age, 0)",
        "match { $p: Person } return { coalesce($p.age, 0) as x }",
    ),
    (
        "match { $p: Person } return { first($p.name) as x }",
        "first(collect($p.name))",
        "match { $p: Person } return { first(collect($p.name)) as x }",
    ),
    (
        "match { $p: Person } return { degree($p) as x }",
        "count { $p knows $q }",
        "match { $p: Person } return { count { $p knows $q } as x }",
    ),
    (
        "match { $p: Person } return { collect { $p knows $q return { $q.name } } as x }",
        "return $a.name",
        "match { $p: Person } return { collect { $p knows $a return $a.name } as x }",
    ),
    (
        "match { $p: Person } return { $p.name, count { $p knows $q } as x } having { count(*) > 1 }",
        "count(*) as n",
        "match { $p: Person } return { $p.name, count(*) as n } having { n > 1 }",
    ),
    (
        "match { $p: Person shortest path $w = $p knows{1,3} $q } return { $w }",
        "shortest $w = $a knows{1,4} $b",
        "match { shortest $w = $a knows{1,4} $b } return { $w }",
    ),
    (
        "match { $p: Person shortest_path $w = $p knows{1,3} $q } return { $w }",
        "shortest $w = $a knows{1,4} $b",
        "match { shortest $w = $a knows{1,4} $b } return { $w }",
    ),
    (
        "match { $p: Person shortest($p knows{1,3} $q) } return { $q }",
        "shortest $w = $a knows{1,*} $b",
        "match { shortest $w = $a knows{1,*} $b } return { $w }",
    ),
    (
        "match { shortest $w = $a knows{1,*} $b } return { length(nodes($w)) as n }",
        "size(nodes($w))",
        "match { shortest $w = $a knows{1,*} $b } return { size(nodes($w)) as n }",
    ),
    (
        'match { $p: Person $p.born > datetime("2020-01-01T00:00:00Z") } return { $p }',
        'date("2020-01-01")',
        'match { $p: Person $p.born > date("2020-01-01") } return { 1 as one }',
    ),
    (
        'match { $p: Person { born: datetime("2020-01-01") } } return { $p }',
        'date("2020-01-01")',
        'match { $p: Person { born: date("2020-01-01") } } return { 1 as one }',
    ),
    (
        "match { $p: Person $q: Person } insert $p knows $q",
        "insert Knows { from: $p, to: $q }",
        "match { $p: Person $q: Person } insert Knows { from: $p, to: $q }",
    ),
    (
        'match { $p: Person } delete Person where name = "x"',
        "$x: Person",
        "match { $x: Person } delete $x",
    ),
    (
        'match { $p: Person } delete Knows where from = "x"',
        "$a $x:knows $b",
        "match { $a $x:knows $b } delete $x",
    ),
    (
        'each $x in [1] insert Note { text: "a", created: now() }',
        "each $x in $list",
        "query q($list: [I64]) { match { each $x in $list } insert Note { text: to_string($x), created: now() } }",
    ),
    (
        "match { $p: Person $p knows $q } return { $p.name } order { $p.name } limit 3 per $p.name",
        "limit 3 per { $c }",
        "match { $p: Person $p worksAt $c } return { $p.name } order { $p.name } limit 3 per { $c }",
    ),
    (
        "match { $p $e:knows $q } return { $e.from as x }",
        "@src",
        "match { $p $e:knows $q } return { $e.@src as x }",
    ),
]
"""A mistake, the form that its help shows, and a query with it."""

SKETCHED = [
    ("match { $p: Person } where $p.age > 3 return { $p.name }", "where it stands alone"),
    (
        "match { $p: Person $p.age = median($p.age) } return { $p.name }",
        "with { median($v.property) as n } match { … }",
    ),
    ("match { $p: Person } return { $p.age // 2 as half }", "div(a, b)"),
    ("match { $p: Person } return { $p.age ^ 2 as x }", "pow(base, exponent)"),
    ('match { $p: Person } return { $p.name || "x" as x }', "texts are joined with `+`"),
    ("match { path $w = $a knows{1,*} $b } return { $w }", "shortest $w = …"),
    ("match { $p: Person unwind $p.nicknames as n } return { $n }", "each $x in $list"),
    ("match { $p: Person for $n in $p.nicknames } return { $n }", "each $x in $p.tags"),
    ("match { $p: Person let x = $p.age } return { $x }", "let $x = …"),
    ('match { $p: Person $p.name ends_with "n" } return { $p }', "ends_with($p.name, …)"),
    ('match { $p: Person $p.name not like "n%" } return { $p }', "not $p.name starts_with …"),
    ("match { $p: Person $p.age not between 3 and 9 } return { $p }", "not ($p.age >= … and $p.age <= …)"),
    ("match { $p knows{1,3} $q where { weight > 0 } } return { $q }", "along { since > 3 }"),
    ('match { $p: Person "a" in $p.nicknames + "b" } return { $p }', "[a, b]"),
    ('update Person set { age += 1 } where name = "x"', "age: age + …"),
    (
        'update Person set { age: avg(age) } where name = "x"',
        "match { … } with { $p, count($q) as n } update $p set { … }",
    ),
    ("match { $p: Person } foreach $p { update $p set { age: 3 } }", "match { … } update $p set { … }"),
    ('match { $p: Person $p.name.startsWith("A") } return { $p }', "starts_with($p.name, …)"),
    ('match { $p: Person $p.name ~ "A" } return { $p }', "matches($p.name, expression)"),
    ("match { $p: Person } return { int($p.name) as x }", "to_int(value)"),
    ("match { $p: Person } return { mode($p.name) as x }", "order { count(*) desc } limit 1"),
    ("drop Person", "omnigraph schema apply"),
    (
        "match { shortest $w = $a knows{1,*} $b } return { nodes($w).name as n }",
        "collect { each $x in … return $x.name }",
    ),
    (
        "match { cheapest $w = $a (knows|worksAt){1,*} $b by { weight } } return { $w }",
        "leave out the types that don't have it",
    ),
]
"""A mistake, and what its help says; the form has places to fill."""


def findings_of(text: str) -> tuple[Diagnostic, ...]:
    """Everything that is wrong with a query, which may have no name."""
    source = Source(text)
    parsed = parse_queries(source, allows_bare=True)
    if not parsed.ok:
        return parsed.diagnostics
    (query,) = parsed.require(source).queries
    return bind_query(query, CATALOG).diagnostics


@pytest.mark.parametrize("mistake, form, working", SHOWN)
def test_the_help_shows_a_form_that_works(mistake: str, form: str, working: str) -> None:
    first = findings_of(mistake)[0]

    assert first.is_error
    assert form in (first.help or "")
    assert form in working
    assert findings_of(working) == ()


@pytest.mark.parametrize("mistake, form", SKETCHED)
def test_the_help_says_what_to_write(mistake: str, form: str) -> None:
    first = findings_of(mistake)[0]

    assert first.is_error
    assert form in (first.help or "")
