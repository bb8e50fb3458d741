"""The canonical text of both languages, by example."""

import pytest

from omnigraph.lang.expression_printer import print_literal
from omnigraph.lang.literals import (
    BoolLiteral,
    DateLiteral,
    DateTimeLiteral,
    FloatLiteral,
    IntLiteral,
    ListLiteral,
    Literal,
    NullLiteral,
    StringLiteral,
)
from omnigraph.lang.printer import format_expr, print_queries, print_schema, print_type
from omnigraph.lang.query_ast import Delete, Insert
from omnigraph.lang.query_parser import parse_queries
from omnigraph.lang.schema_ast import NodeDecl, PropertyDecl
from omnigraph.lang.schema_parser import parse_schema
from omnigraph.lang.source import Source, Span

HERE = Span(0, 0)
LONG = "x" * 60


def schema(text: str) -> str:
    source = Source(text)
    return print_schema(parse_schema(source).require(source))


def queries(text: str) -> str:
    source = Source(text)
    return print_queries(parse_queries(source).require(source))


def clauses(text: str) -> str:
    """The printed clauses of a match block, without their indent."""
    printed = queries(f"query q() {{ match {{ {text} }} return {{ $a }} }}").splitlines()
    return "\n".join(line.removeprefix(" " * 8) for line in printed[2 : printed.index("    return {") - 1])


def condition(text: str) -> str:
    """The printed predicate of a mutation."""
    source = Source(f"query q() {{ delete A where {text} }}")
    body = parse_queries(source).require(source).queries[0].body
    assert isinstance(body, tuple)
    assert isinstance(body[0], Delete)
    return format_expr(body[0].where)


def test_a_schema_stands_in_lines() -> None:
    text = (
        'interface Named{name:String@index}node Person implements Named@description("p"){@key(name)age:I32?'
        " tags:[String] v:Vector(3) @range(age,0..)}edge Knows:Person->Person@since(2020)@card(0..)"
        "edge Likes:Person->Person{since:Date}node Empty{}"
    )

    assert schema(text) == (
        "interface Named {\n"
        "    name: String @index\n"
        "}\n"
        "\n"
        'node Person @description("p") implements Named {\n'
        "    @key(name)\n"
        "    age: I32?\n"
        "    tags: [String]\n"
        "    v: Vector(3)\n"
        "    @range(age, 0..)\n"
        "}\n"
        "\n"
        "edge Knows: Person -> Person @card(0..*) @since(2020)\n"
        "\n"
        "edge Likes: Person -> Person {\n"
        "    since: Date\n"
        "}\n"
        "\n"
        "node Empty {}\n"
    )


def test_edges_without_a_body_stand_together() -> None:
    text = "edge A: N -> N\n\n\nedge B: N -> N"

    assert schema(text) == "edge A: N -> N\nedge B: N -> N\n"


def test_a_long_property_is_broken_before_its_annotations() -> None:
    text = f'node A {{ a: String @description("{LONG}") @instruction("{LONG}") }}'

    assert schema(text) == (
        f'node A {{\n    a: String\n        @description("{LONG}")\n        @instruction("{LONG}")\n}}\n'
    )


def test_a_long_enum_has_a_value_on_each_line() -> None:
    text = f"node A {{ a: enum({LONG}, b, {LONG})? @index }}"

    assert schema(text) == (
        f"node A {{\n    a: enum(\n        {LONG},\n        b,\n        {LONG}\n    )?\n        @index\n}}\n"
    )


def test_a_long_header_is_broken_into_its_parts() -> None:
    text = f'node A @x("{LONG}") @y("{LONG}") implements B {{}}'

    assert schema(text) == f'node A\n    @x("{LONG}")\n    @y("{LONG}")\n    implements B\n{{\n}}\n'


def test_a_read_stands_in_lines() -> None:
    text = (
        'query q($a:String,$b:I64?)@description("d"){match{$p:P{name:$a}$p knows{1,2}$f;not{$p <likes> $_}}'
        "return distinct{$p.name as n,count(*)}order{n desc,$p.age}limit 10 offset $b}"
    )

    assert queries(text) == (
        'query q($a: String, $b: I64?) @description("d") {\n'
        "    match {\n"
        "        $p: P { name: $a }\n"
        "        $p knows{1,2} $f\n"
        "        not { $p <likes> $_ }\n"
        "    }\n"
        "    return distinct {\n"
        "        $p.name as n\n"
        "        count(*)\n"
        "    }\n"
        "    order { n desc, $p.age }\n"
        "    limit 10\n"
        "    offset $b\n"
        "}\n"
    )


def test_mutations_stand_in_lines() -> None:
    text = "query q() { insert A{x:1 y:now()} update A set{x:2}where y is not null delete A where x=1 insert B{} }"

    assert queries(text) == (
        "query q() {\n"
        "    insert A { x: 1, y: now() }\n"
        "    update A set { x: 2 } where y is not null\n"
        "    delete A where x = 1\n"
        "    insert B {}\n"
        "}\n"
    )


def test_a_long_binding_has_a_filter_on_each_line() -> None:
    assert clauses(f'$p: P {{ a: "{LONG}", b: "{LONG}" }}') == f'$p: P {{\n    a: "{LONG}",\n    b: "{LONG}"\n}}'


def test_a_long_predicate_is_broken_before_its_joining_words() -> None:
    text = f'$p.a = "{LONG}" and ($p.b = "{LONG}" or $p.c = "{LONG}") and not ($p.d = 1)'

    assert clauses(text) == (
        f'$p.a = "{LONG}"\n'
        "    and (\n"
        f'        $p.b = "{LONG}"\n'
        f'            or $p.c = "{LONG}"\n'
        "    )\n"
        "    and not $p.d = 1"
    )


def test_a_long_update_is_broken_before_set_and_where() -> None:
    long_value = f'"{LONG}"'

    printed = queries("query q() { update A set { a: …, b: … } where c = 1 }".replace("…", long_value))

    assert printed.replace(long_value, "…").splitlines()[1:-1] == [
        "    update A",
        "        set {",
        "            a: …,",
        "            b: …",
        "        }",
        "        where c = 1",
    ]


def test_a_long_header_of_a_query_has_a_parameter_on_each_line() -> None:
    text = f"query q(${LONG}: String, ${LONG}b: String) {{ insert A {{}} }}"

    assert queries(text) == (f"query q(\n    ${LONG}: String,\n    ${LONG}b: String\n) {{\n    insert A {{}}\n}}\n")


def test_a_name_before_a_parenthesis_does_not_become_a_call() -> None:
    assert clauses("$a = b; ($c = 1 and $d = 2) and ($e = 3 or $f = 4)") == (
        "$a = b;\n($c = 1 and $d = 2) and ($e = 3 or $f = 4)"
    )


@pytest.mark.parametrize(
    "written, printed",
    [
        ("((a = 1))", "a = 1"),
        ("(a = 1 and b = 2) and c = 3", "(a = 1 and b = 2) and c = 3"),
        ("(a = 1 and b = 2) or c = 3", "a = 1 and b = 2 or c = 3"),
        ("a = 1 and (b = 2 or c = 3)", "a = 1 and (b = 2 or c = 3)"),
        ("a = 1 or (b = 2 or c = 3)", "a = 1 or (b = 2 or c = 3)"),
        ("not (a = 1)", "not a = 1"),
        ("not (a = 1 or b = 2)", "not (a = 1 or b = 2)"),
        ("not (not (a is null))", "not not a is null"),
        ("and = 1 and in in [1]", "and = 1 and in in [1]"),
    ],
)
def test_parentheses_stand_where_the_tree_needs_them(written: str, printed: str) -> None:
    assert condition(written) == printed


@pytest.mark.parametrize(
    "clause",
    ['$a "in" $b', "$a $e:knows $b", "$a <knows>{1,3} $b", "$a $e:<knows>{0,70} $b", "$a Knows $b", '$a <"a\\nb"> $b'],
)
def test_every_form_of_a_hop_is_kept(clause: str) -> None:
    assert clauses(clause) == clause


@pytest.mark.parametrize(
    "literal, printed",
    [
        (StringLiteral('a"\\\n\r\tb', HERE), r'"a\"\\\n\r\tb"'),
        (StringLiteral("é中🙂", HERE), '"é中🙂"'),
        (StringLiteral("\x00\x7f\u202e\ufeff\u00a0\u2028", HERE), r'"\u0000\u007f\u202e\ufeff\u00a0\u2028"'),
        (StringLiteral("\U000e0041", HERE), r'"\udb40\udc41"'),
        (StringLiteral("👩\u200d🔧 ❤\ufe0f", HERE), '"👩\u200d🔧 ❤\ufe0f"'),
        (StringLiteral("admin\u200d\ufe0f", HERE), r'"admin\u200d\ufe0f"'),
        (IntLiteral(-(10**30), HERE), f"-1{'0' * 30}"),
        (FloatLiteral(1e16, HERE), "1.0e16"),
        (FloatLiteral(-1.5e-7, HERE), "-1.5e-7"),
        (FloatLiteral(0.1, HERE), "0.1"),
        (FloatLiteral(-0.0, HERE), "-0.0"),
        (BoolLiteral(True, HERE), "true"),
        (NullLiteral(HERE), "null"),
        (DateLiteral("2026-01-02", HERE), 'date("2026-01-02")'),
        (DateTimeLiteral("2026-01-02T03:04:05Z", HERE), 'datetime("2026-01-02T03:04:05Z")'),
        (ListLiteral((), HERE), "[]"),
        (ListLiteral((IntLiteral(1, HERE), ListLiteral((NullLiteral(HERE),), HERE)), HERE), "[1, [null]]"),
    ],
)
def test_a_literal_has_one_spelling(literal: Literal, printed: str) -> None:
    assert print_literal(literal) == printed


@pytest.mark.parametrize("type_", ["String", "[DateTime]", "Vector(768)", "enum(a, b-c)"])
def test_a_type_is_printed_for_messages(type_: str) -> None:
    node = parse_schema(Source(f"node A {{ a: {type_} }}")).tree.declarations[0]
    assert isinstance(node, NodeDecl)
    assert isinstance(node.members[0], PropertyDecl)

    assert print_type(node.members[0].type) == type_


@pytest.mark.parametrize(
    "expr", ["$p", "$p.name", "$p.@id", "$p.in", "name", "count(distinct $p.x)", "rrf(a, b, k=60)", "now()"]
)
def test_an_expression_is_printed_for_messages(expr: str) -> None:
    body = parse_queries(Source(f"query q() {{ insert A {{ x: {expr} }} }}")).tree.queries[0].body
    assert isinstance(body, tuple)
    assert isinstance(body[0], Insert)

    assert format_expr(body[0].assignments[0].value) == expr
