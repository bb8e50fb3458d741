"""The hand-written parsers accept what the reference grammars accept, and nothing else."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from language_oracle import accepts
from language_strategies import mutated, query_texts, schema_texts
from omnigraph.lang.lexer import Language
from omnigraph.lang.query_parser import parse_queries
from omnigraph.lang.schema_parser import parse_schema
from omnigraph.lang.source import Source
from property_profiles import SOME_AND_MANY, profile

LIMITS = {"S001", "Q001"}
NOT_OF_THE_GRAMMAR = {"Q004"}
"""Found while parsing, but by meaning: an annotation that queries don't have, or that is given twice."""


def codes(language: Language, text: str) -> set[str]:
    source = Source(text)
    parsed = parse_schema(source) if language is Language.SCHEMA else parse_queries(source)
    return {found.code for found in parsed.diagnostics if found.is_error} - NOT_OF_THE_GRAMMAR


def check_agreement(language: Language, text: str) -> None:
    found = codes(language, text)
    assume(not found & LIMITS)
    assert (not found) == accepts(language, text), f"the parser says {found or 'fine'}, the grammar otherwise: {text!r}"


@SOME_AND_MANY
def test_both_read_schemas_alike(examples: int) -> None:
    @profile(examples)
    @given(st.one_of(schema_texts, mutated(schema_texts, most=2)))
    def holds(text: str) -> None:
        check_agreement(Language.SCHEMA, text)

    holds()


@SOME_AND_MANY
def test_both_read_queries_alike(examples: int) -> None:
    @profile(examples)
    @given(st.one_of(query_texts, mutated(query_texts, most=2)))
    def holds(text: str) -> None:
        check_agreement(Language.QUERY, text)

    holds()


# --- cases that a generator seldom finds -------------------------------------------------------------------

BOTH = pytest.mark.parametrize("language", list(Language), ids=lambda language: language.name.lower())

SCHEMAS = [
    *("", " \n", "// c", "/* c */", "/* c", "/*/", "/**/", "\ufeffnode A {}", "node\ufeff A {}", "\ufeff\ufeff", "}"),
    *("node A", "node A {", "node a {}", "node A {} node B {}", "nodeA {}", "node A{}edge E:A->A", "node A { } }"),
    *("node A @x {}", "node A @x() {}", "node A @ x {}", "node A @x implements B {}", "node A implements {}"),
    *("node A implements B, {}", "node A implements B C {}", "node A implements B @x @y {}", "node A @key(a) {}"),
    *("node A @key(a, b) {}", "node A @card(0..1) {}", "node A @card {}", "node A @card(1) {}", "interface A @x {}"),
    *("edge E: A -> B", "edge E: A - > B", "edge E: A -> B {}", "edge E A -> B", "edge E: A -> B @card(0..*)"),
    *("edge E: A -> B @card(..1)", "edge E: A -> B @card(1..)", "edge E: A -> B @x @card(0..1) @y {}"),
    *("edge E: A -> B @card(0..1) @card(0..1)", "edge E: A -> B @card(-1..2)", "edge E: A -> B @card(0 .. 1)"),
    *("edge E: A -> B @card(0.0..1)", "edge E: A -> B @card", "edge E: A -> B {} {}"),
]
MEMBERS = [
    *(
        "a: String",
        "a: String?",
        "a: String ?",
        "a: String??",
        "a:String b:I64",
        "a: String, b: I64",
        "a: String; b: I64",
    ),
    *("A: String", "a: string", "a: Text", "a String", "a:", ": String", "node: String", "enum: enum(enum)", "a: enum"),
    *(
        "a: enum()",
        "a: enum(a,)",
        "a: enum(a b)",
        "a: enum(a-b, -, --, 1, 1a, a--b, 1-2)",
        'a: enum("a")',
        "a: enum(a - b)",
    ),
    *(
        "a: enum(a/**/-b)",
        "a: enum(1.5)",
        "a: enum(é)",
        "a: enum(a, --b)",
        "a: enum(--b)",
        "a: enum( --b)",
        "a: enum($x)",
    ),
    *("a: [String]", "a: [String?]", "a: [[String]]", "a: [Vector(3)]", "a: [enum(a)]", "a: []", "a: [Blob]?"),
    *("a: Vector(3)", "a: Vector", "a: Vector(-3)", "a: Vector(3.0)", "a: Vector(N)", "a: Vector (3)", "a: Vector()"),
    *(
        "a: String @key",
        "a: String @key(a)",
        "a: String @key @key(a)",
        "@key",
        "@key()",
        "@key(a,)",
        "@key(a b)",
        "@x",
        "@x(1)",
    ),
    *("@key(A)", "@Key(a)", "@ key ( a )", "@key/**/(a)", "a: String @index // x\n (a)", "@unique(a) @index(b)"),
    *("@range(a, 1..2)", "@range(a, ..)", "@range(a, 1)", "@range(a 1..2)", "@range(a, 1.5..2.5)", "@range(a, 1...2)"),
    *(
        "@range(a, -1..-0.5)",
        "@range(a, 1 .. 2)",
        "@range(a, ..2)",
        '@range(a, "a".."b")',
        "@range(a, 1.)",
        "@range(a, *..2)",
    ),
    *('@range(a, date("x")..datetime("y"))', "@range(a, b..c)", "@range(a, 1e5..2)", "@range(a, 1.0e5..2)", "@range()"),
    *('@check(a, "x")', "@check(a, x)", '@check("a", "x")', '@check(a "x")', "@check(a)", '@check(a, "x",)'),
    *(
        "a: I64 @default(1)",
        "a: I64 @default(- 1)",
        "a: I64 @default(+1)",
        "a: I64 @default(1_000)",
        "a: I64 @default(0x1)",
    ),
    *(
        "a: I64 @default(1 2)",
        "a: I64 @default(01)",
        "a: F64 @default(.5)",
        "a: F64 @default(1.)",
        "a: F64 @default(1.5.2)",
    ),
    *("a: F64 @default(1.0E+5)", "a: F64 @default(1.0e)", "a: Bool @default(True)", "a: Bool @default(true)"),
    *("a: String @default(now())", "a: String @default(null)", "a: String @default([])", "a: String @default([1,])"),
    *(
        'a: String @x("a", b="c")',
        'a: String @x(b="c")',
        "a: String @x(a, b)",
        "a: String @x(a, true=1)",
        "a: String @x(true)",
    ),
    *(
        "a: String @x(date)",
        'a: Date @x(date("x"))',
        "a: Date @x(date(x))",
        "a: String @x(A)",
        "a: String @x($a)",
        "a: String @X",
    ),
    *(
        "a: String @card(0..1)",
        "a: String @card(1)",
        "a: String @range",
        "a: String @check",
        "a: String @implements implements: I64",
    ),
]
STRINGS = [
    *(
        '""',
        '"a',
        "'a'",
        '"a\nb"',
        '"a\tb"',
        r'"\n\r\t\"\\"',
        r'"\a"',
        r'"\/"',
        r'"\u00e9"',
        r'"\u00E9"',
        r'"\u00e"',
        r'"\x41"',
    ),
    *(
        r'"\ud83d\ude00"',
        r'"\ud83d"',
        r'"\ude00\ud83d"',
        r'"\ud83d\ud83d\ude00"',
        r'"\ud83dx\ude00"',
        r'"\u0041\ude00"',
        r'"\U0001F600"',
    ),
    *(
        '"\u202e"',
        r'"\u202e"',
        '"\x00"',
        '"\x7f"',
        '"\x85"',
        '"\ufeff"',
        '"\u200d"',
        '"\u2028"',
        '"\ud800"',
        '"é"',
        '"\\',
        r'"\"',
        "“a”",
    ),
]
CLAUSES = [
    *(
        "$a: A",
        "$a:A",
        "$a : A {}",
        "$a: A { }",
        "$a: A { x: 1 }",
        "$a: A { x: 1, }",
        "$a: A { x: 1 y: 2 }",
        "$a: A { x: 1,, y: 2 }",
    ),
    *(
        "$a: A { x = 1 }",
        "$a: A { in: 1, null: 2, A: 3 }",
        "$a: A { x: $b.c }",
        "$a: A { x: }",
        "$a: a",
        "$A: A",
        "$ a: A",
        "$1: A",
    ),
    *(
        "$a: A $b: B",
        "$a: A; $b: B",
        "$a: A;; $b: B;",
        "; $a: A",
        "$a: A, $b: B",
        "$a: A { x: 1; y: 2 }",
        "",
        "not {}",
        "a: A",
    ),
    *(
        "$a knows $b",
        "$a Knows $b",
        '$a "in" $b',
        "$a in $b",
        "$a like $b",
        "$a order $b",
        "$a <order> $b",
        '$a <"order"> $b',
    ),
    *(
        "$a knows{1,2} $b",
        "$a knows {1,2} $b",
        "$a knows{1} $b",
        "$a knows{1,} $b",
        "$a knows{1..2} $b",
        "$a knows{-1,2} $b",
    ),
    *(
        "$a <knows> $b",
        "$a < knows > $b",
        "$a <knows>{1,2} $b",
        "$a <knows $b",
        "$a < knows",
        "$a < b $c: C",
        "$a < $b > $c",
    ),
    *(
        "$a $e:knows $b",
        "$a $e : knows $b",
        "$a $e:<knows> $b",
        "$a <$e:knows> $b",
        "$a $e:knows{1,2} $b",
        "$a $e knows $b",
    ),
    *(
        "$a knows $b along { x }",
        "$a knows $b along { x; y }",
        "$a knows $b along { x y = 1 }",
        "$a knows $b along { x\ny = 1 }",
        "$a knows $b through { x; y = 1; z; }",
        "$a knows $b through { 1 }",
        "$a\n$e:knows\n$b",
        "$a\nknows\n$b",
        "$a\n<knows>\n$b",
        '$a\n"in"\n$b',
        "$a knows",
        "$a",
        "$a $b",
        "$a knows $b $c",
        "$a knows knows $b",
    ),
    *(
        "$a.x = 1",
        "$a.x == 1",
        "$a . x = 1",
        "$a.\nx = 1",
        "$a.@id = 1",
        "$a. @ id = 1",
        "$a.@name = 1",
        "$a.X = 1",
    ),
    *(
        "$a.in in [1]",
        "$a.x in [1, 2]",
        "$a.x in [1, 2,]",
        "$a.x in [$b]",
        "$a.x in []",
        "$a.x is null",
        "$a.x is not null",
        "$a.x is 1",
    ),
    *(
        "$a.x = 1 and $a.y = 2 or not $a.z = 3",
        "not not $a.x = 1",
        "not ($a.x = 1)",
        "($a.x = 1",
        "($a.x) = 1",
        "$a.x = (1)",
        "()",
    ),
    *(
        "$a.x and $a.y",
        "$a.x = 1 and",
        "and $a.x = 1",
        "$a.x = 1 < 2",
        "1 < 2",
        "1 = -1",
        "1=-1",
        "1 -1",
        "1-1 = 2",
        "$a.x = 1 -5 = 2",
    ),
    *(
        "not { $a: A }",
        "not { not { $a: A } }",
        "not\n{ $a: A }",
        "not ({ $a: A })",
    ),
    *(
        "search($a.x, $b)",
        "search($a.x $b)",
        "search($a.x,)",
        "search()",
        "Search($a)",
        "order($a)",
        "f(*)",
        "f(*, 1)",
        "f(distinct)",
    ),
    *(
        "f(distinct $a, $b) = 1",
        "f(distinct = 1)",
        "f(in = 1)",
        "f(k = 1, 2)",
        "f(k: 1)",
        "f(k = *)",
        "f(g(h(1)))",
        "f(1)(2)",
        "f (1)",
    ),
    *(
        "$a = b; ($c = 1)",
        "$a = b ($c = 1)",
        "$a = b\n($c = 1)",
        "$a = $b\n($c = 1)",
        "date = 1",
        'date("x") = 1',
        "date(1) = 1",
        "x.y = 1",
    ),
    *(
        "filter = 1",
        "where = 1",
        "where $a.x = 1",
        "filter $a.x = 1",
        "in = 1",
        "true = true",
        "null is null",
        "@id = 1",
        "@ id = 1",
        "query = 1",
    ),
    *(
        "$a != 1",
        "$a <> 1",
        "$a ! = 1",
        "$a <= 1",
        "$a =< 1",
        "$a > 1",
        "$a >= 1",
        "$a => 1",
        "$a & $b",
        "$a = 1 && $b = 2",
        "$a contains 1",
    ),
    *(
        "$a starts_with 1",
        "$a startswith 1",
        "$a CONTAINS 1",
        "$a IN [1]",
        "$_ knows $_",
        "$in = $match",
        "$a = True",
        "$a = nil",
        "*",
        "$a = *",
    ),
]
TAILS = [
    *(
        "return { $a }",
        "return { $a, $b }",
        "return { $a $b }",
        "return { $a,, $b }",
        "return { $a, }",
        "return { , $a }",
        "return {}",
    ),
    *(
        "return { $a as b }",
        "return { $a as in }",
        "return { $a as B }",
        "return { $a as $b }",
        "return { a: $a }",
        "return { $a; $b }",
    ),
    *(
        "return { * }",
        "return { count(*) as n n2 }",
        "return { query\nfoo }",
        "return { query foo }",
        "return { query foo($a) }",
        "return {\nquery\nfoo }",
        "return {\nquery as a }",
        "return $a",
    ),
    *(
        "return distinct { $a }",
        "return { distinct $a }",
        "return { $a } order { $a }",
        "return { $a } order { $a asc, b desc, }",
    ),
    *(
        "return { $a } order { a b }",
        "return { $a } order { a\ndesc }",
        "return { $a } order {}",
        "return { $a } order { asc }",
    ),
    *(
        "return { $a } order by { $a }",
        "return { $a } limit 1",
        "return { $a } limit -1",
        "return { $a } limit 1.0",
        "return { $a } limit $n",
    ),
    *(
        "return { $a } limit 1 offset 2",
        "return { $a } offset 2",
        "return { $a } offset 2 limit 1",
        "return { $a } limit 1offset 2",
    ),
    *(
        "return { $a } limit n",
        "return { $a } limit 1 limit 2",
        "return { $a } order { $a } order { $b }",
        "order { $a } return { $a }",
        "",
    ),
    *(
        "return { $a } return { $b }",
        "return { $a } match { $b: B }",
        "return { $a } insert A {}",
        "return { $a } ;",
        "return { limit }",
    ),
    *(
        "return { $a } having { $a }",
        "return { $a } having { $a.x }",
        "return { $a } having { a }",
        "return { $a } having { true }",
        "return { $a } having { null }",
        "return { $a } having { 1 }",
        "return { $a } having { ($a.x) }",
        "return { $a } having { $a.x[0] }",
        "return { $a } having { [$a.x] }",
        "return { $a } having { [$a = 1] }",
        "return { $a } having { -$a.x }",
        "return { $a } having { -($a = 1) }",
        "return { $a } having { $a.x + 1 }",
        "return { $a } having { $a.* }",
        "return { $a } having { $a.x, $a.y }",
        "return { $a } having { $a.x 1 }",
        "return { count(* where $a.x) as n }",
        "return { count(* where 1) as n }",
        "return { count(* where $a.x limit 1) as n }",
    ),
    *(
        "return { $a.limit $a.offset }",
        "return { $a as limit_ }",
        "return { 1 -1 }",
        "return { 1 - 1 }",
        "return { 1.5 .5 }",
        "return { null }",
    ),
]
BODIES = [
    *(
        "",
        "insert A",
        "insert A {}",
        "insert A { x: 1 }",
        "insert A { x: 1 y: 2, }",
        "insert A { , }",
        "insert A { x: 1,, }",
        "insert a {}",
    ),
    *(
        "insert A {} insert B {}",
        "insert A {}; insert B {}",
        "insert into A {}",
        "insert A { in: in }",
        "insert A { x: y }",
        "insert A { x }",
    ),
    *(
        "update A set {} where x = 1",
        "update A set { x: 1 }",
        "update A where x = 1",
        "update A set x: 1 where y = 1",
        "update A {} where x = 1",
    ),
    *(
        "delete A",
        "delete A where x = 1",
        "delete A where x",
        "delete A where true",
        "delete A where null",
        "delete A where x insert A {}",
        "delete A where order",
        "delete A where @id",
        "delete A where x 1",
        "delete A where $x",
        "delete A where in = 1",
        "delete A where not = 1",
        "delete A where not not = 1",
    ),
    *(
        "delete A where true = 1",
        "delete A where null is null",
        "delete A where and = 1 and or = 2 or and = 3",
        "delete A where x = in",
    ),
    *(
        "delete A where is is null",
        "delete A where is is is",
        "delete A where contains contains contains",
        "delete A where where = 1",
    ),
    *(
        "delete A where delete = 1 delete A where x = 1",
        "delete A where x = delete delete A where x = 1",
        "delete A where @src = $x and @dst = $y",
    ),
    *(
        "delete A where @from = 1",
        "delete A where order(1)",
        "delete A where order (1) = 2",
        "delete A where f(1) and f(2) = 3",
        "delete A wherex = 1",
    ),
    *(
        "delete A where ((x = 1))",
        "delete A where (x = 1) = 2",
        "delete A where in in in",
        "delete A where not in in [1]",
        "delete A where $p.x = 1",
    ),
    *(
        "delete A where x = 1 match { $a: A } return { $a }",
        "match { $a: A } return { $a } delete A where x = 1",
        "delete A where x = 1 }",
    ),
]
HEADERS = [
    *(
        "query q()()",
        'query q() @description("a") ()',
        'query q @description("a") ($x: I64)',
        "query q()",
        "query Q()",
        "query match()",
        "query query()",
        "query q",
        "query ()",
        "query q(,)",
        "query q($a: String)",
        "query q($a)",
    ),
    *(
        "query q($a: String,)",
        "query q($a: String $b: I64)",
        "query q(a: String)",
        "query q($a: [I64]?)",
        "query q($a: enum(a))",
    ),
    *(
        "query q($a: Vector(3))",
        "query q($a: Person)",
        "query q($a: String = 1)",
        "query q($in: String)",
        'query q() @description("a")',
    ),
    *(
        'query q() @description("a") @instruction("b")',
        "query q() @description",
        "query q() @description(a)",
        'query q() @other("a")',
    ),
    *(
        'query q() @in("a")',
        'query q() @description("a", b="c")',
        'query q() @ description ( "a" )',
        '@description("a") query q()',
    ),
]


@pytest.mark.parametrize("text", [*SCHEMAS, *(f"node A {{ {member} }}" for member in MEMBERS)])
def test_both_read_this_schema_alike(text: str) -> None:
    assert (not codes(Language.SCHEMA, text)) == accepts(Language.SCHEMA, text)


@pytest.mark.parametrize(
    "text",
    [
        *(f"query q() {{ match {{ {clause} }} return {{ $a }} }}" for clause in CLAUSES),
        *(f"query q() {{ match {{ $a: A }} {tail} }}" for tail in TAILS),
        *(f"query q() {{ {body} }}" for body in BODIES),
        *(f"{header} {{ insert A {{}} }}" for header in HEADERS),
    ],
)
def test_both_read_this_query_alike(text: str) -> None:
    assert (not codes(Language.QUERY, text)) == accepts(Language.QUERY, text)


@BOTH
@pytest.mark.parametrize("literal", STRINGS)
def test_both_read_this_string_alike(language: Language, literal: str) -> None:
    frame = {Language.SCHEMA: "node A @x({}) {{}}", Language.QUERY: "query q() {{ insert A {{ x: {} }} }}"}[language]
    text = frame.format(literal)

    assert (not codes(language, text)) == accepts(language, text)
