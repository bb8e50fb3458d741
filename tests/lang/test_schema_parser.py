import pytest

from language_findings import unmarked
from omnigraph.lang.diagnostics import Diagnostic, SourceError
from omnigraph.lang.literals import (
    BaseType,
    BoolLiteral,
    DateLiteral,
    DateTimeLiteral,
    EnumType,
    FloatLiteral,
    IntLiteral,
    ListLiteral,
    ListType,
    Name,
    NullLiteral,
    StringLiteral,
    TypeExpr,
    VectorType,
)
from omnigraph.lang.schema_ast import (
    Annotation,
    CheckDecl,
    EdgeDecl,
    IndexDecl,
    InterfaceDecl,
    KeyDecl,
    Member,
    NodeDecl,
    PropertyDecl,
    RangeDecl,
    SchemaFile,
    UniqueDecl,
)
from omnigraph.lang.schema_parser import parse_schema
from omnigraph.lang.source import Source, Span

HERE = Span(0, 0)


def name(text: str) -> Name:
    return Name(text, HERE)


def tree(text: str) -> SchemaFile:
    source = Source(text)
    return parse_schema(source).require(source)


def members(text: str) -> tuple[Member, ...]:
    (node,) = tree(f"node P {{ {text} }}").declarations
    assert isinstance(node, NodeDecl)
    return node.members


def property_of(text: str) -> PropertyDecl:
    (found,) = members(text)
    assert isinstance(found, PropertyDecl)
    return found


# --- what is right -------------------------------------------------------------------------------


def test_a_file_may_be_empty() -> None:
    assert tree("") == SchemaFile(declarations=(), span=HERE)


def test_an_interface_holds_properties() -> None:
    found = tree("interface Named { name: String  nick: String? }")

    one = PropertyDecl(name=name("name"), type=BaseType("String", HERE), span=HERE)
    other = PropertyDecl(name=name("nick"), type=BaseType("String", HERE), nullable=True, span=HERE)
    assert found.declarations == (InterfaceDecl(name=name("Named"), members=(one, other), span=HERE),)


def test_a_node_has_annotations_on_both_sides_of_its_interfaces() -> None:
    found = tree("node Person @internal implements Named, Dated @owner(hr) {}")

    annotations = (
        Annotation(name=name("internal"), span=HERE),
        Annotation(name=name("owner"), argument=name("hr"), span=HERE),
    )
    interfaces = (name("Named"), name("Dated"))
    node = NodeDecl(name=name("Person"), annotations=annotations, implements=interfaces, span=HERE)
    assert found.declarations == (node,)


def test_an_edge_may_do_without_a_body() -> None:
    found = tree("edge Knows: Person -> Company")

    assert found.declarations == (
        EdgeDecl(name=name("Knows"), source=name("Person"), target=name("Company"), span=HERE),
    )


def test_an_edge_has_cards_annotations_and_members() -> None:
    (found,) = tree(
        'edge Knows: A -> B @card(0..2) @description("x") @card(1..) @card(3..*) { @key(src, dst) }'
    ).declarations

    assert isinstance(found, EdgeDecl)
    assert [(card.low, card.high) for card in found.cards] == [(0, 2), (1, None), (3, None)]
    assert [annotation.name.text for annotation in found.annotations] == ["description"]
    assert found.members == (KeyDecl(columns=(name("src"), name("dst")), span=HERE),)


def test_a_card_in_the_wrong_place_is_kept_without_its_bounds() -> None:
    found = property_of("a: String @card(0..1)")

    assert found.annotations == (Annotation(name=name("card"), span=HERE),)


@pytest.mark.parametrize(
    "base", ["String", "Blob", "Bool", "I32", "I64", "U32", "U64", "F32", "F64", "Date", "DateTime"]
)
def test_every_base_type_stands_alone_and_in_a_list(base: str) -> None:
    assert property_of(f"a: {base}").type == BaseType(base, HERE)
    assert property_of(f"a: [{base}]").type == ListType(BaseType(base, HERE), HERE)


@pytest.mark.parametrize(
    "text, type_",
    [
        ("Vector(3)", VectorType(3, HERE)),
        ("enum(a)", EnumType((name("a"),), HERE)),
        (
            "enum(in-progress, 2fa, A_b, -x, a--b)",
            EnumType(tuple(map(name, ["in-progress", "2fa", "A_b", "-x", "a--b"])), HERE),
        ),
    ],
)
def test_vectors_and_enums_have_arguments(text: str, type_: TypeExpr) -> None:
    assert property_of(f"a: {text}").type == type_


@pytest.mark.parametrize(
    "text, value",
    [
        ('"x"', StringLiteral("x", HERE)),
        ("-3", IntLiteral(-3, HERE)),
        ("0.5e-3", FloatLiteral(0.0005, HERE)),
        ("true", BoolLiteral(True, HERE)),
        ("false", BoolLiteral(False, HERE)),
        ("null", NullLiteral(HERE)),
        ('date("2026-01-31")', DateLiteral("2026-01-31", HERE)),
        ('datetime("2026-01-31T00:00:00Z")', DateTimeLiteral("2026-01-31T00:00:00Z", HERE)),
        ("[]", ListLiteral((), HERE)),
        ("[1, [2]]", ListLiteral((IntLiteral(1, HERE), ListLiteral((IntLiteral(2, HERE),), HERE)), HERE)),
        ("date", name("date")),
    ],
)
def test_an_annotation_takes_every_literal_and_a_name(text: str, value: object) -> None:
    (found,) = property_of(f"a: String @x({text})").annotations

    assert found.argument == value


def test_an_annotation_has_options_behind_its_argument() -> None:
    (found,) = property_of('a: Vector(3) @embed("bio", model="m", dim=3)').annotations

    assert found.options == ((name("model"), StringLiteral("m", HERE)), (name("dim"), IntLiteral(3, HERE)))


def test_constraints_stand_among_the_properties_in_source_order() -> None:
    found = members('@key(a) a: String @unique(a, b) @index(b) b: I64 @range(b, 0..200) @check(a, "^x")')

    assert [type(member) for member in found] == [
        KeyDecl,
        PropertyDecl,
        UniqueDecl,
        IndexDecl,
        PropertyDecl,
        RangeDecl,
        CheckDecl,
    ]


def test_a_bare_key_behind_a_property_is_its_annotation() -> None:
    found = property_of("a: String @key @index")

    assert [annotation.name.text for annotation in found.annotations] == ["key", "index"]


@pytest.mark.parametrize(
    "text, low, high",
    [
        ("0..200", IntLiteral(0, HERE), IntLiteral(200, HERE)),
        ("-1.5..1", FloatLiteral(-1.5, HERE), IntLiteral(1, HERE)),
        ("..3", None, IntLiteral(3, HERE)),
        ("3..", IntLiteral(3, HERE), None),
        ("..", None, None),
        ('date("2026-01-01")..', DateLiteral("2026-01-01", HERE), None),
    ],
)
def test_either_end_of_a_range_may_be_open(text: str, low: object, high: object) -> None:
    (found,) = members(f"@range(a, {text})")

    assert isinstance(found, RangeDecl)
    assert (found.low, found.high) == (low, high)


def test_a_check_knows_the_place_of_its_pattern() -> None:
    (found,) = members('@check(a, "^x")')

    assert found == CheckDecl(column=name("a"), pattern="^x", pattern_span=HERE, span=HERE)
    assert isinstance(found, CheckDecl)
    assert found.pattern_span == Span(19, 23)


@pytest.mark.parametrize("word", ["node", "edge", "interface", "order", "enum", "implements", "date"])
def test_a_property_may_have_the_name_of_a_keyword(word: str) -> None:
    assert property_of(f"{word}: String").name == name(word)


def test_spans_run_from_the_first_token_to_the_last() -> None:
    text = "node P { a: String? @x(1) }\nedge E: P -> P @card(0..1)"
    source = Source(text)

    node, edge = tree(text).declarations

    assert source.slice(node.span) == "node P { a: String? @x(1) }"
    assert source.slice(edge.span) == "edge E: P -> P @card(0..1)"
    assert isinstance(node, NodeDecl)
    assert source.slice(node.members[0].span) == "a: String? @x(1)"


# --- what is not: one mistake, one diagnostic, at the marked place ---------------------------------


def only_finding(text: str) -> tuple[Diagnostic, Span]:
    text, span = unmarked(text)
    (found,) = parse_schema(Source(text)).diagnostics
    return found, span


IN_A_BODY = [
    (
        "a: String«,»",
        "unexpected `,` after a property",
        "properties need no separators, only a line or a space between them",
    ),
    ("@key(a«,») a: String", "unexpected `,` before `)`", "delete it, or add a property after it"),
    ("@key(a«» b) a: String", "missing `,`", "put a `,` between a property and the next"),
    (
        '@key(«"a"») a: String',
        "expected a property name, found a string",
        "property names are written without quotes: `a`",
    ),
    ("@key(«)» a: String", "expected a property name, found `)`", "for example `@key(name)`"),
    (
        "«@key» a: String",
        "`@key` can't stand alone in a body",
        "name its properties: `@key(name)`, or put `@key` after a property",
    ),
    ("«@kee(a)» a: String", "`@kee` can't stand alone in a body", "did you mean `@key(name)`?"),
    ("a«?»: String", "unexpected `?` after a name", "`?` stands after the type: `a: String?`"),
    ("a: «?»String", "unexpected `?` before a type", "`?` stands after the type: `String?`"),
    (
        "a: [String«?»]",
        "unexpected `?` inside a list type",
        "the items of a list are never null; for a list that may be null, write `[…]?`",
    ),
    ("a: String?«?»", "unexpected second `?`", "one `?` makes a type nullable"),
    ("a: String @index «?»", "unexpected `?` after an annotation", "`?` stands directly after the type"),
    ("a: String«!»", "unexpected `!` after a type", "a type without `?` is required already: delete the `!`"),
    ("a: I64 «=» 3", "unexpected `=` after a type", "a default is written `@default(…)`"),
    ("a: «String[]»", "unexpected `[]` after `String`", "a list is written `[String]`"),
    ("a: «List»<String>", "unknown type `List<…>`", "a list is written `[String]`, a vector `Vector(768)`"),
    ("a: Vector«<»3>", "expected `(`, found `<`", "a Vector has a size: `Vector(768)`"),
    ("a: «vector»(3)", "unknown type `vector`", "did you mean `Vector`?"),
    ("a: enum(x«» y)", "missing `,`", "put a `,` between a value and the next"),
    ("a: enum(x«,»)", "unexpected `,` before `)`", "delete it, or add a value after it"),
    ("a: «enum»", "unknown type `enum`", "an enum lists its values: `enum(draft, published)`"),
    ("a: F64 @default(«1e5»)", "`1e5` is not a number", "an exponent needs a fraction before it: `1.0e5`"),
    ("a: F64 @default(«.5»)", "`.5` is not a number", "write `0.5`"),
    ("a: F64 @default(«5.»)", "`5.` is not a number", "write `5.0`"),
    ("a: F64 @default(«+5»)", "`+5` is not a number", "write `5`"),
    ("a: F64 @default(«1_000»)", "`1_000` is not a number", "digits are not grouped: `1000`"),
    ("a: F64 @default(«0x10»)", "`0x10` is not a number", "numbers are written in decimal digits"),
    ("a: F64 @default(«- 5»)", "`- 5` is not a number", "write `-5`"),
    ("a: F64 @default(«True»)", "expected a value, found `True`", "did you mean `true`?"),
    (
        "a: F64 @default(«now»())",
        "unexpected call of `now`",
        'annotations take literals: a string, a number, `true`, `date("…")`, a list',
    ),
    (
        "a: String @description(«'hi'»)",
        "unexpected quotes ' around a string",
        'strings are written with double quotes: `"hi"`',
    ),
    (
        'a: String @description(«"»hi) \n b: String',
        "this string is never closed",
        'add the closing `"`; a string ends on the line on which it starts (a line break in it is `\\n`)',
    ),
    (
        "a: String«»\nnode Q { b: String",
        "missing `}` at the end of the body of `P`",
        "its `{` is in line 1, column 8",
    ),
    ("a: String @range(«0»..200)", "expected a property name, found `0`", "for example `@range(age, 0..200)`"),
    ("@range(a, 0«,» 200)", "expected `..`, found `,`", "a range is written `low..high`"),
    ("@range(a«» 0..200)", "missing `,`", "for example `@range(age, 0..200)`"),
    ("@range(a, 0..«*»)", "`*` is not a bound", "an open end is left out: `0..`"),
    ('@check(a«» "x")', "missing `,`", 'for example `@check(name, "pattern")`'),
    ("@check(a, «x»)", "expected the pattern as a string, found `x`", 'for example `@check(name, "pattern")`'),
    (
        "a: String @«Default»(1)",
        "unexpected annotation `@Default`",
        "annotations start with a small letter: did you mean `@default`?",
    ),
    ("a: String @x(«)»", "expected an argument, found `)`", "write `@x` without parentheses, or an argument in them"),
    (
        'a: String @embed("x", «"y"»)',
        'expected an option, found `"y"`',
        'further arguments have names: `@embed("…", model="…")`',
    ),
    ("«String name»", "expected a property, found `String name`", "the name stands first: `name: String`"),
    ('«"name"»: String', "expected a property, found a string", "property names are written without quotes: `name`"),
    ("name«» String", "missing `:` after `name`", "a property is written `name: String`"),
    ("name «=» String", "expected `:`, found `=`", "a property is written `name: String`"),
    ("«:» String", "expected a property, found `:`", "property names start with a small letter, as in `name`"),
    ("«`a`»: String", "unexpected quotes ` around `a`", "names are written without quotes"),
    (
        'a: String @check(a, "«\\d»+")',
        "unknown escape `\\d`",
        'the escapes are `\\"` `\\\\` `\\n` `\\r` `\\t` and `\\uXXXX`; a backslash itself is `\\\\`',
    ),
]

ELSEWHERE = [
    (
        "node «person» { name: String }",
        "expected the node's type name, found `person`",
        "type names start with a capital: did you mean `Person`?",
    ),
    (
        "node Person { «Name»: String }",
        "expected a property, found `Name`",
        "property names start with a small letter: did you mean `name`?",
    ),
    ("«nod» Person { a: String }", "expected `node`, `edge` or `interface`, found `nod`", "did you mean `node`?"),
    (
        "edge «knows»: Person -> Person",
        "expected the edge's type name, found `knows`",
        "type names start with a capital: did you mean `Knows`?",
    ),
    (
        "edge Knows«» Person -> Person",
        "missing `:` after `Knows`",
        "an edge is written `edge Knows: Person -> Person`",
    ),
    ("edge Knows: Person«» Person", "missing `->`", "an edge is written `edge Knows: Person -> Person`"),
    (
        "edge Knows: Person «=>» Person",
        "expected `->`, found `=>`",
        "an edge is written `edge Knows: Person -> Person`",
    ),
    (
        "edge Knows: Person «--» Person",
        "expected `->`, found `--`",
        "an edge is written `edge Knows: Person -> Person`",
    ),
    (
        "edge Knows: Person «--»> Person",
        "expected `->`, found `--`",
        "an edge is written `edge Knows: Person -> Person`",
    ),
    ("edge K: A -> B @card(«1»)", "expected a range, found one number", "write `1..1` or `1..*`"),
    ("edge K: A -> B @card(0«,»1)", "expected `..`, found `,`", "a range is written with `..`: `0..1`"),
    ("edge K: A -> B @card(«*»)", "expected the least number", "write `0..*` or `0..1`"),
    ('edge K: A -> B @card(«"0..1"»)', "expected a range, found a string", "write it without quotes: `0..1`"),
    ("edge K: A -> B @card(«..»1)", "expected the least number", "write `0..*` or `0..1`"),
    (
        "edge K: A -> B @«key»(src, dst)\nnode X {}",
        "`@key` with more than one argument can't stand here",
        "put `@key(…)` into the body: `{ @key(…) }`",
    ),
    (
        "node P @«key»(a, b) { a: String b: String }",
        "`@key` with more than one argument can't stand here",
        "put `@key(…)` into the body: `{ @key(…) }`",
    ),
    (
        "node P @«range»(a, 0..1) { a: I64 }",
        "`@range` with more than one argument can't stand here",
        "put `@range(…)` into the body: `{ @range(…) }`",
    ),
    ("node P { a: Vector «}»", "expected `(`, found `}`", "a Vector has a size: `Vector(768)`"),
    ("node P { a: String «/*» never", "this comment is never closed", "add the closing `*/`"),
    ("node P { a: String«»\n", "missing `}` at the end of the body of `P`", "its `{` is in line 1, column 8"),
    ("«}»\nnode P {}", "unexpected `}`: nothing is open here", "delete it, or look for one too many before it"),
    (
        "node P {} «}»\nnode Q {}",
        "unexpected `}`: nothing is open here",
        "delete it, or look for one too many before it",
    ),
    ("node P«»\n a: String\n}", "missing `{` after the header of `P`", "the properties of a type stand in `{ … }`"),
    ("node P«»\nnode Q {}", "missing body of `P`", "a type without properties of its own has the body `{}`"),
    ("node «{»}", "expected the node's type name, found `{`", "type names start with a capital, as in `Person`"),
    ("node«»", "missing the node's type name", "type names start with a capital, as in `Person`"),
    ("node P implements A«» B { }", "missing `,`", "put a `,` between one interface and the next"),
    ("node P implements A«,» { }", "unexpected `,` before `{`", "delete it, or add an interface"),
    ("node P «extends» A { }", "expected `implements` or `{`, found `extends`", "did you mean `implements`?"),
    ("node P «:» A { }", "expected `implements` or `{`, found `:`", "did you mean `implements`?"),
    ("node P «implments» A { }", "expected `implements` or `{`, found `implments`", "did you mean `implements`?"),
    (
        "interface I { «@key(a)» a: String }",
        "an interface has no constraints of its own",
        "put it into the node types that implement the interface",
    ),
    (
        "interface I «@»x { a: String }",
        "an interface has no annotations",
        "put them on the node types, or on properties",
    ),
    ("node P @rename_from(«Old») { a: String }", "expected a value, found `Old`", 'write it as a string: `"Old"`'),
    (
        "node P { name: «}»",
        "expected a type, found `}`",
        "the types are String, Blob, Bool, I32, I64, U32, U64, F32, F64, Date, DateTime, Vector(N), enum(…) and [T]",
    ),
    ("node P { name «}»", "expected `:` and a type after `name`, found `}`", "a property is written `name: String`"),
    (
        "«query» x() {}",
        "expected `node`, `edge` or `interface`, found `query`",
        "queries stand in a file of their own, a `.gq`",
    ),
    ("«type» Person { a: String }", "expected `node`, `edge` or `interface`, found `type`", "did you mean `node`?"),
    ("«Node» Person { a: String }", "expected `node`, `edge` or `interface`, found `Node`", "did you mean `node`?"),
]


@pytest.mark.parametrize("text, message, help", IN_A_BODY)
def test_a_mistake_in_a_body_is_explained(text: str, message: str, help: str) -> None:
    found, span = only_finding(f"node P {{ {text} }}")

    assert found == Diagnostic("S000", span, message, help)


@pytest.mark.parametrize("text, message, help", ELSEWHERE)
def test_a_mistake_is_explained(text: str, message: str, help: str) -> None:
    found, span = only_finding(text)

    assert found == Diagnostic("S000", span, message, help)


@pytest.mark.parametrize(
    "type_, what", [("[«Vector(3)»]", "a Vector"), ("[«[String]»]", "a list"), ("[«enum(a)»]", "an enum")]
)
def test_a_list_holds_base_types_only(type_: str, what: str) -> None:
    found, span = only_finding(f"node P {{ a: {type_} }}")

    hint = "a list holds a base type, such as `[String]` or `[F64]`"
    assert found == Diagnostic("S020", span, f"a list can't hold {what}", hint)


def test_an_enum_has_values() -> None:
    found, span = only_finding("node P { a: enum«()» }")

    assert found == Diagnostic("S019", span, "an enum needs at least one value", "for example `enum(draft, published)`")


@pytest.mark.parametrize(
    "written, meant",
    [
        ("Int", "I64"),
        ("int64", "I64"),
        ("string", "String"),
        ("Text", "String"),
        ("Float", "F64"),
        ("Timestamp", "DateTime"),
        ("boolean", "Bool"),
        ("bytes", "Blob"),
        ("Strng", "String"),
        ("Datetime", "DateTime"),
        ("i32", "I32"),
    ],
)
def test_a_type_of_another_language_is_translated(written: str, meant: str) -> None:
    found, span = only_finding(f"node P {{ a: «{written}» }}")

    assert found == Diagnostic("S000", span, f"unknown type `{written}`", f"did you mean `{meant}`?")


def test_a_mended_tree_goes_on_as_it_was_meant() -> None:
    parsed = parse_schema(Source("nod person { Name string }"))

    meant = NodeDecl(
        name=name("Person"),
        members=(PropertyDecl(name=name("name"), type=BaseType("String", HERE), span=HERE),),
        span=HERE,
    )
    assert parsed.tree.declarations == (meant,)
    assert not parsed.ok


def test_a_tree_with_errors_is_not_handed_out() -> None:
    source = Source("node P { a: Strin }")

    with pytest.raises(SourceError, match="unknown type `Strin`"):
        parse_schema(source).require(source)
