"""One run tells every mistake, each once, and reads on behind it."""

import pytest

from language_findings import parse, places
from omnigraph.lang.lexer import Language
from omnigraph.lang.query_ast import Read
from omnigraph.lang.query_parser import parse_queries
from omnigraph.lang.schema_ast import NodeDecl
from omnigraph.lang.schema_parser import parse_schema
from omnigraph.lang.source import Source

FIVE_IN_A_SCHEMA = """\
node person {
    name: Strin @key
    Age: I64
}

edge Knows: Person => Person @card(0,1)

node Company {
    title: String
"""

FIVE_IN_A_QUERY = """\
query adults(n: String) {
    match {
        $p: person { name = $n }
        $p.age == 18
        $p knows
    }
    retrun { $p.name as in }
}

query all() { match { $p: Person } return { $p } offset 3 limit 2 }
"""


def test_five_mistakes_in_a_schema_are_five_findings() -> None:
    source = Source(FIVE_IN_A_SCHEMA)

    parsed = parse_schema(source)

    assert places(source, parsed.diagnostics) == [
        "1:6 expected the node's type name, found `person`",
        "2:11 unknown type `Strin`",
        "3:5 expected a property, found `Age`",
        "6:20 expected `->`, found `=>`",
        "6:37 expected `..`, found `,`",
        "9:18 missing `}` at the end of the body of `Company`",
    ]
    assert [declaration.name.text for declaration in parsed.tree.declarations] == ["Person", "Knows", "Company"]


def test_five_mistakes_in_a_query_are_five_findings() -> None:
    source = Source(FIVE_IN_A_QUERY)

    parsed = parse_queries(source)

    assert places(source, parsed.diagnostics) == [
        "1:14 expected a parameter, found `n`",
        "3:13 expected a node type, found `person`",
        "3:27 expected `:`, found `=`",
        "4:16 unknown operator `==`",
        "6:5 expected the variable that the hop leads to, found `}`",
        "7:5 expected `return`, found `retrun`",
        "7:25 `in` is a reserved word",
        "10:59 `limit` stands before `offset`",
    ]
    assert [query.name.text for query in parsed.tree.queries] == ["adults", "all"]


def test_a_broken_property_costs_only_itself() -> None:
    parsed = parse_schema(Source("node P {\n a: String\n b: %%% ( [ \n c: Bool\n @key(a\n d: I64\n}\nnode Q {}"))

    first, second = parsed.tree.declarations
    assert len(parsed.diagnostics) == 2
    assert isinstance(first, NodeDecl)
    assert [getattr(member, "name").text for member in first.members] == ["a", "c", "d"]  # noqa: B009 - members are a union
    assert second.name.text == "Q"


def test_a_broken_clause_costs_only_itself() -> None:
    text = "query q() { match {\n $p: P\n $p % 3 { } \n $q: Q\n ($p.a = 1\n $r: R\n } return { $p } }"

    parsed = parse_queries(Source(text))

    (query,) = parsed.tree.queries
    assert len(parsed.diagnostics) == 2
    assert [clause.variable.name for clause in query.body.clauses] == ["p", "q", "r"]  # type: ignore[union-attr] # bindings


def test_a_broken_query_leaves_the_next_one_whole() -> None:
    parsed = parse_queries(Source("query a( { ) }\nquery b() { delete T where x = 1 }"))

    broken, whole = parsed.tree.queries
    assert (broken.name.text, whole.name.text) == ("a", "b")
    assert broken.body == Read(clauses=(), projections=(), span=broken.span)
    assert isinstance(whole.body, tuple)


@pytest.mark.parametrize(
    "text, names",
    [
        ("node P { a: String\nnode Q { b: String }", ["P", "Q"]),
        ("node P { a: String\nedge K: P -> P", ["P", "K"]),
        ("interface I {\nnode P implements I {}", ["I", "P"]),
        ("node P { a: enum(x\nnode Q {}", ["P", "Q"]),
        ("node P { a: String\nnod Q { b: Bool }", ["P", "Q"]),
    ],
)
def test_a_declaration_ends_a_body_that_was_left_open(text: str, names: list[str]) -> None:
    parsed = parse_schema(Source(text))

    assert [declaration.name.text for declaration in parsed.tree.declarations] == names
    assert len(parsed.diagnostics) <= 2


@pytest.mark.parametrize(
    "text",
    [
        "query q() { match { $p: P\n return { $p } }",
        "query q() { match { $p: P not { $p knows $q\n return { $p } }",
        "query q() { match { $p: P { a: 1 } return { $p } }",
        "query q() { match { $p: P { a: 1\n return { $p } }",
        "query q() { match { $p: P } return { $p\n order { $p.a } }",
        "query q() { match { $p: P } return { $p } order { $p.a\n limit 3 }",
        "query q() { match { $p: P } return { $p } limit 3",
        "query q() { insert P { a: 1\n insert P { a: 2 } }",
        "query q() { match { $p: P } return { $p }\nquery r() { delete T where a = 1 }",
    ],
)
def test_a_forgotten_brace_is_one_finding_that_points_back(text: str) -> None:
    (found,) = parse_queries(Source(text)).diagnostics

    assert found.message.startswith("missing `}` at the end of ")
    assert found.help is not None
    assert found.help.startswith("its `{` is in line 1, column ")


@pytest.mark.parametrize(
    "language, text",
    [
        (Language.SCHEMA, 'node P { a: String @description("x)\n b: Bool\n}'),
        (Language.SCHEMA, 'node P { a: String @description("x }\nnode Q {}'),
        (Language.SCHEMA, "node P { a: String /* }\nnode Q {}"),
        (Language.SCHEMA, "node P { a: € }"),
        (Language.QUERY, 'query q() { match { $p: P { a: "x }\n $p knows $q }\n return { $p } }'),
        (Language.QUERY, 'query q() { match { search($p.a, "x) }\n return { $p } }'),
        (Language.QUERY, "query q() { match { $p.a = 'x }\n return { $p } }"),
    ],
)
def test_what_the_lexer_reports_is_not_reported_again(language: Language, text: str) -> None:
    assert len(parse(language, text).diagnostics) == 1


def test_one_brace_too_many_is_one_finding() -> None:
    parsed = parse_queries(
        Source("query q() { match { $p: P } } return { $p } }\nquery r() { delete T where a = 1 } }")
    )

    assert [found.message for found in parsed.diagnostics] == [
        "unexpected `}` before `return`",
        "unexpected `}`: nothing is open here",
    ]
    assert len(parsed.tree.queries) == 2


def test_at_most_fifty_findings_are_reported() -> None:
    schema = parse_schema(Source("node P {\n" + "a: Strin\n" * 80 + "}"))
    queries = parse_queries(Source("query q() { match {\n" + "$p.a == 1\n" * 80 + "} return { $p } }"))

    assert (len(schema.diagnostics), len(queries.diagnostics)) == (50, 50)


def test_findings_stand_in_the_order_of_the_text() -> None:
    found = parse_schema(Source('node p {\n a: Strin\n # x\n b: Bool @x("\\q")\n c: Foo }')).diagnostics

    assert [one.span for one in found] == sorted(one.span for one in found)
    assert len(found) == 5
