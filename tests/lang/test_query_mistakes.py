"""One mistake, one diagnostic, at the marked place, with a way out."""

import pytest

from language_findings import unmarked
from omnigraph.lang.diagnostics import Diagnostic
from omnigraph.lang.query_parser import parse_queries
from omnigraph.lang.source import Source, Span


def only_finding(text: str) -> tuple[Diagnostic, Span]:
    text, span = unmarked(text)
    (found,) = parse_queries(Source(text)).diagnostics
    return found, span


IN_A_MATCH = [
    ("«p»: Person", "expected a variable, found `p`", "variables start with `$`: did you mean `$p`?"),
    ('$p.name «==» "x"', "unknown operator `==`", "write `=`"),
    ('$p.name «<>» "x"', "unknown operator `<>`", "write `!=`"),
    ("«!»($p.a = 1)", "unexpected `!`", "write `not`"),
    ("$p.a = 1 «AND» $p.b = 2", "unexpected `AND`", "write `and`"),
    ("«NOT» $p.a = 1", "unexpected `NOT`", "write `not`"),
    ("$p.name = «'x'»", "unexpected quotes ' around a string", 'strings are written with double quotes: `"x"`'),
    ('«p».name = "x"', "expected a variable, found `p`", "variables start with `$`: did you mean `$p`?"),
    (
        '$p.«Name» = "x"',
        "expected a property name, found `Name`",
        "property names start with a small letter: did you mean `name`?",
    ),
    (
        "$p knows «q»",
        "expected the variable that the hop leads to, found `q`",
        "variables start with `$`: did you mean `$q`?",
    ),
    ("«p» knows $q", "expected a variable, found `p`", "variables start with `$`: did you mean `$p`?"),
    (
        "«where» $p.a = 1",
        "unexpected `where` in a match block",
        "in a match block a predicate stands alone: delete the word",
    ),
    ("$p «order» $q", "`order` is a reserved word", 'write the edge as a string: `"order"`'),
    ("$p «match» $q", "`match` is a reserved word", 'write the edge as a string: `"match"`'),
    ("$p.active«»", "expected a comparison after `$p.active`", "a predicate compares: write `$p.active = true`"),
    ("$p.age + 1«»", "expected a comparison after `$p.age + 1`", "a predicate compares, as in `$p.age > 3`"),
    ("$p.a «^» 2 = 4", "unknown operator `^`", "a power is written `pow(base, exponent)`"),
    ('$p.a «||» $p.b = "x"', "unexpected `||`", "write `or`; texts are joined with `+`"),
    (
        "«case» $p.a when 1 = 2",
        "expected an expression, found `case`",
        'a case is written `case { $p.age < 18 => "child" else => "adult" }`',
    ),
    ("case { $p.a = 1 «->» 2 } = 2", "expected `=>`, found `->`", "a branch is written `condition => value`"),
    (
        "case { $p.a = 1 => 2 else => 1, «$p».b = 1 => 2 }",
        "expected `}`, found `$p`",
        "`else` is the last branch of a `case`",
    ),
    (
        "«case { else => 1 }» = 1",
        "a `case` needs a branch",
        'write `case { $p.age < 18 => "child" else => "adult" }`',
    ),
    ("1 < $p.a «<» 3", "comparisons can't be chained", "join two comparisons with `and`: `1 < $p.a and $p.a < …`"),
    ("$p.a «is NULL»", "unexpected `is NULL`", "write `is null`"),
    ("$p.a «IS NOT NULL»", "unexpected `IS NOT NULL`", "write `is not null`"),
    (
        "$p.a is «true»",
        "expected `null`, found `true`",
        "`is` and `is not` stand before `null`; compare values with `=`",
    ),
    (
        '$p.a «like» "x"',
        "unknown operator `like`",
        "write `contains`, `starts_with` or `matches(text, expression)`; `lower(text)` for any case",
    ),
    ('$p.a «startswith» "x"', "unknown operator `startswith`", "write `starts_with`"),
    ('$p.a «=~» "x"', "unknown operator `=~`", "write `contains`, or `matches(text, expression)`"),
    ("$p.a «=>» 3", "unknown operator `=>`", "write `>=`"),
    ("$p.a «=<» 3", "unknown operator `=<`", "write `<=`"),
    (
        "$p «->» $q",
        "unexpected `->`",
        "a traversal is written `$p knows $other`, with the edge's name between the variables",
    ),
    (
        "$p «-»[knows]-> $q",
        "unexpected `-`",
        "a traversal is written `$p knows $other`, with the edge's name between the variables",
    ),
    (
        "$p «--»> $q",
        "unexpected `--`",
        "a traversal is written `$p knows $other`, with the edge's name between the variables",
    ),
    ("$p knows«{3}» $q", "expected two bounds, found one", "write both bounds: `{3,3}` or `{1,3}`"),
    ("$p knows{1«..»3} $q", "expected `,`, found `..`", "the bounds of a hop are written `{1,3}`"),
    (
        "$p knows«*» $q",
        "unexpected `*` after an edge",
        "the bounds of a hop are written `{1,3}`, without an end `{1,*}`",
    ),
    (
        "$p knows{1,«}» $q",
        "expected the largest number of hops, found `}`",
        "the bounds of a hop are written `{1,3}`, without an end `{1,*}`",
    ),
    ('$p: Person { name «=» "x" }', "expected `:`, found `=`", "a value is given with `:`, as in `name: …`"),
    ('$p: Person { name«» "x" }', "missing `:` after `name`", "a value is given with `:`, as in `name: …`"),
    (
        '$p: Person { name: "x"«» \n $p knows $q',
        "missing `}` at the end of the filter of `$p`",
        "its `{` is in line 1, column 32",
    ),
    ("$p: Person«,»\n $q: Person", "unexpected `,` after a clause", "clauses need no commas between them"),
    ("$p«» Person", "missing `:` after `$p`", "a binding is written `$p: Person`"),
    (
        "$p.@«foo» = 1",
        "expected `@id`, `@src`, `@dst` or `@type`, found `foo`",
        "there are `@id`, `@src`, `@dst` and `@type`",
    ),
    ("$p.a = «1e5»", "`1e5` is not a number", "an exponent needs a fraction before it: `1.0e5`"),
    ("$p.a = «.5»", "`.5` is not a number", "write `0.5`"),
    ("$p.a in [1,2«,»]", "unexpected `,` before `]`", "delete it, or add a value after it"),
    (
        "$p.a in (1«,»2)",
        "expected `)`, found `,`",
        "a list is written `[1, 2]`; parentheses group an expression",
    ),
    ("«$P»: Person", "`$P` is not a variable", "variables start with a small letter: did you mean `$p`?"),
    ("«$1» = 2", "`$1` is not a variable", "the name of a variable starts with a letter"),
    ("«$» p: Person", "expected a name after `$`", "a variable is written `$name`, without a space"),
    ("«nott» { $p: Person }", "unexpected `nott {`", "did you mean `not`?"),
    (
        "«subquery» { $p: Person }",
        "unexpected `subquery {`",
        "a match block holds bindings, traversals, predicates, and blocks such as `not { … }`",
    ),
    ("«optionl» { $p: Person }", "unexpected `optionl {`", "did you mean `optional`?"),
    ("«exist» { $p: Person }", "unexpected `exist {`", "did you mean `exists`?"),
    ("$p.a = 1«)»", "unexpected `)`", "no `(` is open here, or something is missing before it"),
    ("«COUNT»($p) = 1", "unexpected function `COUNT`", "functions are written in small letters: `count(…)`"),
    ('search($p.a«» "x")', "missing `,`", "put a `,` between one argument and the next"),
    ('search($p.a, "x"«,»)', "unexpected `,` before `)`", "delete it, or add an argument after it"),
    ("$p.a «between» 1 and 3", "unknown operator `between`", "write `$p.a >= … and $p.a <= …`"),
    (
        '$p.a = «"»x',
        "this string is never closed",
        'add the closing `"`; a string ends on the line on which it starts (a line break in it is `\\n`)',
    ),
    ("$p.a = «foo».bar", "expected a variable, found `foo`", "variables start with `$`: did you mean `$foo`?"),
    (
        "$p.a = «Foo»",
        "expected an expression, found `Foo`",
        'a text is written `"Foo"`; names start with a small letter, a variable `$foo`',
    ),
    ("not «{ }»", "the `not` block is empty", "it needs at least one clause: `$p: Person`"),
    ("$p.a «not in» [1]", "unexpected `not in`", "`not` stands before the comparison: `not $p.a in …`"),
    (
        "$p.a is «in» [1]",
        "expected `null`, found `in`",
        "`is` and `is not` stand before `null`; compare values with `=`",
    ),
    ("«in» = 3", "expected an expression, found `in`", "`in` is a reserved word"),
    (
        "$p : Person «where» $p.a = 1",
        "unexpected `where` in a match block",
        "in a match block a predicate stands alone: delete the word",
    ),
    ("$p <knows«» $q", "missing `>`", "an undirected hop is written `<knows>`"),
    ('$p.a «has» "x"', "unknown operator `has`", "write `contains`"),
    ('$p:Person{name:"x",«,»age:3}', "unexpected second `,`", "delete it"),
    ('$p:Person{name:"x"«;»age:3}', "expected `,`, found `;`", "values are separated by `,`"),
    ("$p: P } «match» { $q: P", "`match` is given twice", "put all clauses into one `match { … }`"),
]

ELSEWHERE = [
    (
        "query q() { match { $p.a =  «}» return { $p } }",
        "expected an expression, found `}`",
        'for example `$p.name`, `$p`, `"text"`, `3` or `count(*)`',
    ),
    (
        "query q() { match { $p:  «}» return { $p } }",
        "expected a node type, found `}`",
        "type names start with a capital, as in `Person`",
    ),
    (
        "query q() { match { ($p.a = 1 «}» return { $p } }",
        "expected `)`, found `}`",
        "its `(` is in line 1, column 21",
    ),
    (
        "query q() { match «{  }» return { $p } }",
        "the match block is empty",
        "it needs at least one clause: `$p: Person`",
    ),
    (
        "query q() { match { $p knows «}» return { $p } }",
        "expected the variable that the hop leads to, found `}`",
        "a hop has one at both ends: `$p knows $other`",
    ),
    ("query «in»() { match { $p: P } return { $p } }", "`in` is a reserved word", "choose another name for the query"),
    (
        "query «Foo»() { match { $p: P } return { $p } }",
        "expected the query's name, found `Foo`",
        "query names start with a small letter: did you mean `foo`?",
    ),
    ("query q«» { match { $p: P } return { $p } }", "missing `()`", "a query without parameters is `query q() { … }`"),
    (
        "query q(«n»: String) { match { $p: P } return { $p } }",
        "expected a parameter, found `n`",
        "parameters start with `$`: `$n: String`",
    ),
    (
        "query q($n: String«» $m: I64) { match { $p: P } return { $p } }",
        "missing `,`",
        "put a `,` between one parameter and the next",
    ),
    (
        "query q($n«?»: String) { match { $p: P } return { $p } }",
        "unexpected `?` after a name",
        "`?` stands after the type: `$n: String?`",
    ),
    (
        "query q($n: String«» { match { $p: P } return { $p } }",
        "missing `)` after the parameters",
        "a query is written `query q(…) { … }`",
    ),
    ("«qury» q() { match { $p: P } return { $p } }", "expected `query`, found `qury`", "did you mean `query`?"),
    (
        "query q() { «mach» { $p: P } return { $p } }",
        "expected `match`, `insert`, `update` or `delete`, found `mach`",
        "did you mean `match`?",
    ),
    ("query q() { match { $p: P } «retrun» { $p } }", "expected `return`, found `retrun`", "did you mean `return`?"),
    ("query q() { match { $p: P }«» }", "missing `return`", "a read ends in `return { … }`"),
    (
        "query q() { match { $p: P } return«» $p, $p.name }",
        "missing `{` after `return`",
        "a return is written `return { $p.name }`",
    ),
    (
        "query q() { match { $p: P } return { $p } limit 3 «order» { $p.a } }",
        "`order` stands before `limit`",
        "the order is `match`, `return`, `having`, `order`, `limit`, `offset`",
    ),
    (
        "query q() { match { $p: P } return { $p } offset 2 «limit» 3 }",
        "`limit` stands before `offset`",
        "the order is `match`, `return`, `having`, `order`, `limit`, `offset`",
    ),
    (
        "query q() { match { $p: P } return { $p } order { $p.a«» $p.b } }",
        "missing `,`",
        "put a `,` between one key and the next",
    ),
    (
        "query q() { match { $p: P } return «{ }» }",
        "the return block is empty",
        "say what to return: `return { $p.name }`",
    ),
    (
        "query q() { match «{ }» return { $p } }",
        "the match block is empty",
        "it needs at least one clause: `$p: Person`",
    ),
    (
        "query q() «{ }»",
        "query `q` is empty",
        "it needs `match { … } return { … }`, or an `insert`, `update` or `delete`",
    ),
    (
        "query q() { match { $p: P } return { $p } limit «2.5» }",
        "expected a whole number or a parameter after `limit`, found `2.5`",
        "write a whole number, without a fraction",
    ),
    (
        "query q() { match { $p: P } return { $p } limit «n» }",
        "expected a number after `limit`, found `n`",
        "a parameter starts with `$`: did you mean `$n`?",
    ),
    (
        "query q() { match { $p: P } return { $p } limit «}»",
        "expected a whole number or a parameter after `limit`, found `}`",
        "for example `limit 10`",
    ),
    (
        "query q() { match { $p: P } return { $p as «in» } }",
        "`in` is a reserved word",
        "choose another alias, such as `in_`",
    ),
    (
        "query q() { match { $p: P } «where» $p.a = 1 return { $p } }",
        "unexpected `where` after a block",
        "put the predicate into the match block, where it stands alone",
    ),
    (
        "query q() { match { $p: P«» return { $p } }",
        "missing `}` at the end of the match block",
        "its `{` is in line 1, column 19",
    ),
    (
        "query q() { match { $p: P } return { $p«» \n order { $p.a } }",
        "missing `}` at the end of the return block",
        "its `{` is in line 1, column 36",
    ),
    (
        "query q() { match { $p: P } «}» return { $p } }",
        "unexpected `}` before `return`",
        "delete it, or look for one too many before it",
    ),
    (
        "query q() { match { $p: P } return { $p } «;» }",
        "unexpected `;`",
        "the parts of a read need nothing between them",
    ),
    (
        "query q() { match { $p: P } return { $p } «foo» }",
        "expected `order`, `limit`, `offset` or `}`, found `foo`",
        "a read ends here",
    ),
    (
        "query q() { match { $p: P } return { $p } «skip» 3 }",
        "expected `order`, `limit` or `offset`, found `skip`",
        "did you mean `offset`?",
    ),
    (
        "query q() { «return» { $p } }",
        "missing `match` before `return`",
        "a read is written `match { … } return { … }`",
    ),
    (
        "query q() { «select» { $p } }",
        "expected `match`, `insert`, `update` or `delete`, found `select`",
        "a read is written `match { $p: Person } return { $p.name }`",
    ),
    (
        "query q() { «SELECT» * FROM person }",
        "expected `match`, `insert`, `update` or `delete`, found `SELECT`",
        "a read is written `match { $p: Person } return { $p.name }`",
    ),
    ("«MATCH» (p:Person) RETURN p", "expected `query`, found `MATCH`", "a query has a name: `query people() { … }`"),
    (
        '«@»description("x") query q() { match { $p: P } return { $p } }',
        "unexpected annotation before a query",
        "annotations of a query stand between its `)` and its `{`",
    ),
    (
        "query q() @description «{» match { $p: P } return { $p } }",
        "expected `(`, found `{`",
        'write `@description("…")`',
    ),
    (
        'query q() { «@»description("x") match { $p: P } return { $p } }',
        "unexpected annotation in a query's body",
        "annotations of a query stand between its `)` and its `{`",
    ),
    (
        'query q() { insert Person { name «=» "x" } }',
        "expected `:`, found `=`",
        "a value is given with `:`, as in `name: …`",
    ),
    (
        'query q() { insert «into» Person { name: "x" } }',
        "unexpected `into` after `insert`",
        "write `insert Person …`",
    ),
    (
        'query q() { update Person«» { name: "x" } where a = 1 }',
        "missing `set`",
        "write `update Person set { name: … } where name = …`",
    ),
    (
        'query q() { update Person «where» a = 1 set { name: "x" } }',
        "`where` stands after `set { … }`",
        "write `update Person set { name: … } where name = …`",
    ),
    ("query q() { delete Person«» }", "missing `where`", "say which ones: `delete Person where name = …`"),
    (
        'query q() { update Person set { name: "x" }«» }',
        "missing `where`",
        "say which ones: `update Person set { name: … } where name = …`",
    ),
    (
        "query q() { insert Person { name: «}» \n insert Q { a: 1 } }",
        "expected an expression, found `}`",
        'for example `$p.name`, `$p`, `"text"`, `3` or `count(*)`',
    ),
    (
        "query q() { insert Person { a: 1«» \n insert Q { a: 1 } }",
        "missing `}` at the end of the values of `Person`",
        "its `{` is in line 1, column 27",
    ),
    (
        "query q() { match { $p: P } return { $p } «insert» Q { a: 1 } }",
        "a query either reads or changes data, not both",
        "write two queries: one that reads, one that changes",
    ),
    (
        "query q() { «insrt» Q { a: 1 } }",
        "expected `match`, `insert`, `update` or `delete`, found `insrt`",
        "did you mean `insert`?",
    ),
    (
        "query q() { delete Q where active«» 3 }",
        "expected a comparison after `active`",
        "a predicate compares: write `active = true`",
    ),
    (
        "query q() { delete Q where not «=» 3 }",
        "expected an expression, found `=`",
        'for example `$p.name`, `$p`, `"text"`, `3` or `count(*)`',
    ),
    (
        "query q() { delete Q where «Name» = 3 and $p.x = 2 }",
        "expected a property name, found `Name`",
        "property names start with a small letter: did you mean `name`?",
    ),
    ("query q() { delete Q where a = «limit» }", "expected an expression, found `limit`", "`limit` is a reserved word"),
    ("«node» P {}", "expected `query`, found `node`", "types are declared in a file of their own, a `.pg`"),
    (
        "query q() { match { $p: P } return { $p } order «{ }» }",
        "the order block is empty",
        "delete it, or give a key: `order { $p.name }`",
    ),
    (
        "query q() { match { $p: P } return distinct { $p, } «group» by $p }",
        "unexpected `group`",
        "the projections that are no aggregates are the group keys: delete it",
    ),
    ("query q() { match { $p: P } return { sum(distinct $p.a) «AS» x } }", "unexpected `AS`", "write `as`"),
    (
        "query q() { match { $p: P } return { $p.a }«»",
        "missing `}` at the end of query `q`",
        "its `{` is in line 1, column 11",
    ),
    ("query q() {«»", "missing `}` at the end of query `q`", "its `{` is in line 1, column 11"),
    ("query«»", "expected the query's name, found the end of the file", "a query has a name: `query people() { … }`"),
    ("query q«»", "expected `(`, found the end of the file", "a query without parameters is `query q() { … }`"),
    ("query q(«»", "expected a parameter, found the end of the file", "a parameter is written `$name: String`"),
    ("query q() { match { $p: P«»", "missing `}` at the end of the match block", "its `{` is in line 1, column 19"),
    ("query q() { match { $p: P } return«»", "missing `{` after `return`", "a return is written `return { $p.name }`"),
]


@pytest.mark.parametrize(
    "text, code, message",
    [
        ("query q() { match { $p: «person» } return { $p } }", "T1", "expected a node type, found `person`"),
        ("query q() { delete «person» where age > 3 }", "T10", "expected the type to delete, found `person`"),
    ],
)
def test_a_type_in_small_letters_is_an_unknown_type(text: str, code: str, message: str) -> None:
    found, span = only_finding(text)

    hint = "type names start with a capital: did you mean `Person`?"
    assert found == Diagnostic(code, span, message, hint)


@pytest.mark.parametrize("text, message, help", IN_A_MATCH)
def test_a_mistake_in_a_match_is_explained(text: str, message: str, help: str) -> None:
    found, span = only_finding(f"query q() {{ match {{ {text} }} return {{ $p }} }}")

    assert found == Diagnostic("Q000", span, message, help)


@pytest.mark.parametrize("text, message, help", ELSEWHERE)
def test_a_mistake_is_explained(text: str, message: str, help: str) -> None:
    found, span = only_finding(text)

    assert found == Diagnostic("Q000", span, message, help)


@pytest.mark.parametrize(
    "text, message, help",
    [
        ('«@foo("y")»', "queries have no annotation `@foo`", "queries have `@description` and `@instruction`"),
        ('«@descripton("y")»', "queries have no annotation `@descripton`", "did you mean `@description`?"),
        ('@description("a") «@description("b")»', "`@description` is given twice", "keep one of them"),
    ],
)
def test_a_query_has_two_annotations_each_once(text: str, message: str, help: str) -> None:
    found, span = only_finding(f"query q() {text} {{ delete T where a = 1 }}")

    assert found == Diagnostic("Q004", span, message, help)
