"""What people who know Cypher or SQL write: one diagnostic, at the marked place, with the form that works."""

import pytest

from language_findings import unmarked
from omnigraph.lang.diagnostics import Diagnostic
from omnigraph.lang.query_parser import parse_queries
from omnigraph.lang.source import Source

MATCH_FORM = "a pattern is written `match { $a: Person $a knows $b } return { $b.name }`"
CASE_FORM = 'a case is written `case { $p.age < 18 => "child" else => "adult" }`'
OPTIONAL_FORM = "an optional part is a block of the match: `match { $p: Person optional { $p worksAt $c } }`"
EACH_FORM = "the elements of a list are rows of a match: `match { each $x in $list }`"
DIVISION = "`//` starts a comment; numbers are divided with `/`, and whole numbers with `div(a, b)`"
UPDATE_FORM = (
    "a mutation names a type, not a variable: `update Person …`;"
    " a variable comes from a match before it: `match { … } update $p …`"
)
ALTERNATIVES_FORM = "clauses need none between them, and alternatives are `either { … } or { … }`"
SLICE_FORM = "a part of a list is written `slice(list, from, length)`, of a text `substring(text, from, length)`"
SUBQUERY_FORM = (
    "a value of another match is a block: `count { $q: Person }`, `avg { $q: Person return $q.age }`,"
    " `$p.name in collect { $q: Person return $q.name }`"
)
STATEMENT = "expected `match`, `insert`, `update` or `delete`, found"

IN_A_MATCH = [
    ("«(»a:Person)-[:KNOWS]->(b)", "unexpected `(` before a node", f"{MATCH_FORM}, without parentheses and arrows"),
    ("«(»a)-[:KNOWS]->(b)", "unexpected `(` before a node", f"{MATCH_FORM}, without parentheses and arrows"),
    ("«(»a)<-[:KNOWS]-(b)", "unexpected `(` before a node", f"{MATCH_FORM}, without parentheses and arrows"),
    ("«(»)-->(b)", "unexpected `(` before a node", f"{MATCH_FORM}, without parentheses and arrows"),
    ("$p.a «^» 2 > 3", "unknown operator `^`", "a power is written `pow(base, exponent)`"),
    ('$p.a «||» "x" = "y"', "unexpected `||`", "write `or`; texts are joined with `+`"),
    (
        "optional «$p» worksAt $c",
        "unexpected `$p` after `optional`",
        "write the clauses in braces: `optional { $p worksAt $c }`",
    ),
    (
        "OPTIONAL «MATCH» (p)",
        "unexpected `MATCH` after `OPTIONAL`",
        "write the clauses in braces: `optional { $p worksAt $c }`",
    ),
    (
        "exists «$p» worksAt $c",
        "unexpected `$p` after `exists`",
        "write the clauses in braces: `exists { $p worksAt $c }`",
    ),
    (
        "not exists «$p» worksAt $c",
        "unexpected `$p` after `exists`",
        "write the clauses in braces: `exists { $p worksAt $c }`",
    ),
    (
        "either «$p» worksAt $c or $p knows $q",
        "unexpected `$p` after `either`",
        "write the alternatives in braces: `either { $p knows $q } or { $q knows $p }`",
    ),
    ("either { $p: A }«»", "missing `or { … }`", "write `either { … } or { … }`"),
    ("unwind «$p».tags as t", "unexpected `$p` after `unwind`", "write `each $x in $list`"),
    (
        "path «$p» knows{1,3} $q",
        "unexpected `$p` after `path`",
        "a path is written `path $w = $a knows{1,4} $b`",
    ),
    ("path $w = «$p».a", "expected a hop, found `$p`", "a path is written `path $w = $a knows{1,4} $b`"),
    (
        "$w = «shortestPath»($p knows{1,*} $q)",
        "unexpected `shortestPath` after `=`",
        "a path is written `shortest $w = $a knows{1,4} $b`",
    ),
    (
        "$w = «path» $p knows{1,3} $q",
        "unexpected `path` after `=`",
        "a path is written `path $w = $a knows{1,4} $b`",
    ),
    (
        "cheapest $w = $p knows{1,*} $q by «weight»",
        "unexpected `weight` after `by`",
        "the weight of an edge is written in braces: `by { km }`",
    ),
    ("$p.tags[0«:»2] = []", "expected `]`, found `:`", SLICE_FORM),
    ("$p.tags[0«..»2] = []", "expected `]`, found `..`", SLICE_FORM),
    ("$p.age > («select» avg(age) from p)", "expected an expression, found `select`", SUBQUERY_FORM),
    (
        "$p knows $q «or» $p follows $q",
        "expected an expression, found `or`",
        f"`or` stands between two conditions; {ALTERNATIVES_FORM}",
    ),
    ("«case» $p.age when 1 then 2 end = 2", "expected an expression, found `case`", CASE_FORM),
    ("«case» when $p.age = 1 then 2 end = 2", "expected an expression, found `case`", CASE_FORM),
    ("«CASE» x WHEN 1 THEN 2 END = 2", "expected an expression, found `CASE`", CASE_FORM),
    (
        "«collect» { $p wrote $a } = []",
        "`collect { … }` needs a `return`",
        "say of what: `collect { $p wrote $a return $a.length }`",
    ),
    (
        "collect { $p wrote $a return $a.x«,» $a.y } = []",
        "expected `}`, found `,`",
        "a block returns one value, `return $a.name`; several are a record: `return { name: $a.name, n: $a.n }`",
    ),
    (
        "$p (knows«||»follows) $q",
        "expected `|`, found `||`",
        "several edges are written `(knows|follows)`, any edge `(*)`",
    ),
    ("$p: (A«,» B)", "expected `|`, found `,`", "several types are written `(Person|Company)`"),
    ("$p.age«» // 2 > 3\n", "expected a comparison after `$p.age`", DIVISION),
]

ELSEWHERE = [
    ("query q() { «MATCH» (a)-[:KNOWS]->(b) RETURN b }", f"{STATEMENT} `MATCH`", MATCH_FORM),
    ("query q() { match «(»a)-[:KNOWS]->(b) return { b } }", "expected `{`, found `(`", MATCH_FORM),
    (
        "query q() { «select» name from Person }",
        f"{STATEMENT} `select`",
        "a read is written `match { $p: Person } return { $p.name }`",
    ),
    (
        "query q() { match { $p: P } «where» $p.age > 3 return { $p } }",
        "unexpected `where` after a block",
        "put the predicate into the match block, where it stands alone",
    ),
    (
        "query q() { match { $p: P } with { count(*) as n } «where» n > 3 return { $n } }",
        "unexpected `where` after a block",
        "a condition on columns and groups is written `having { n > 3 }`; one on rows stands in the match block",
    ),
    (
        "query q() { match { $p: P } with { count(*) as n } having«» n > 3 return { $n } }",
        "missing `{` after `having`",
        "a having is written `having { n > 3 }`",
    ),
    (
        "query q() { match { $p: P } «optional» match { $p a $c } return { $p } }",
        "unexpected `optional`",
        OPTIONAL_FORM,
    ),
    ("query q() { «unwind» $list as x return { $x } }", f"{STATEMENT} `unwind`", EACH_FORM),
    ("query q() { match { $p: P } «UNWIND» $p.tags as t return { $p } }", "unexpected `UNWIND`", EACH_FORM),
    (
        "query q() { match { $p: P } «upsert» P { name: $p.name } }",
        "unexpected `upsert`",
        "`insert Person { … }` writes over the row with the same key",
    ),
    (
        'query q() { «merge» Person { name: "x" } }',
        f"{STATEMENT} `merge`",
        "`insert Person { … }` writes over the row with the same key; with `if absent` it leaves that alone",
    ),
    (
        'query q() { insert P { name: "x" } if «not exists» }',
        "unexpected `not exists`",
        "write `if absent`",
    ),
    (
        "query q() { update «$p» set { a: 1 } }",
        "expected the type to update, found `$p`",
        UPDATE_FORM,
    ),
    (
        "query q() { match { $p: P } delete $p «where» $p.a = 1 }",
        "unexpected `where` after a variable",
        "the match before it says which ones: `match { … } delete $p`",
    ),
    (
        'query q() { insert P { name: "x" } «return» { $p } }',
        "a query either reads or changes data, not both",
        "the columns of a mutation are written `returning { … }`",
    ),
    (
        "query q() { match { $p: P } return { sum($n) over { «partition» by $c } } }",
        "expected `per`, `order` or `}`, found `partition`",
        "a window is written `sum($n) over { per { $c } order { $d } }`",
    ),
    (
        "query q() { match { $p: P } return { $p } «UNION» match { $p: Q } return { $p } }",
        "unexpected `UNION`",
        "write `union`",
    ),
    (
        "query q($r: «{name: String}») { match { $p: P } return { $p } }",
        "a parameter can't be a record",
        "records are passed in a list: `$rows: [{name: String, age: I32?}]`",
    ),
    (
        "query q() { match { $p: P } return { $p } union match { $p: Q } return { $p } limit 3 per { «$p.a» } }",
        "`per` can't follow a union",
        "give each read its own, or put the union's rows into a query of their own",
    ),
]


def only_finding(text: str) -> Diagnostic:
    (found,) = parse_queries(Source(text)).diagnostics
    return found


@pytest.mark.parametrize("text, message, help", IN_A_MATCH)
def test_a_foreign_clause_is_explained(text: str, message: str, help: str) -> None:
    text, span = unmarked(f"query q() {{ match {{ {text} }} return {{ $p }} }}")

    assert only_finding(text) == Diagnostic("Q000", span, message, help)


@pytest.mark.parametrize("text, message, help", ELSEWHERE)
def test_a_foreign_statement_is_explained(text: str, message: str, help: str) -> None:
    text, span = unmarked(text)

    assert only_finding(text) == Diagnostic("Q000", span, message, help)


def test_a_division_that_hides_the_closing_brace_is_explained() -> None:
    found = only_finding("query q() { match { $p: P } return { $p.age // 2 as half }\n}\n")

    assert (found.message, found.help) == ("missing `}` at the end of query `q`", DIVISION)


def test_a_comment_is_not_blamed_for_a_mistake_elsewhere() -> None:
    found = only_finding("query q() {\n match { $p: P // 2 years\n }\n return { $p }\n order by { $p.a }\n}\n")

    assert found.help == "an order is written `order { $p.name desc }`"


@pytest.mark.parametrize(
    "text",
    [
        "MATCH (a)-[:KNOWS]->(b) RETURN b",
        "match (a) return b",
        "select name from person",
        "unwind [1] as x",
        "merge P {}",
    ],
)
def test_a_bare_query_of_another_language_is_explained(text: str) -> None:
    (found, *_) = parse_queries(Source(text), allows_bare=True).diagnostics

    assert found.help is not None
    assert "match {" in found.help or "insert Person" in found.help
