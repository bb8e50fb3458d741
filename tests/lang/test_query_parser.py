import pytest

from omnigraph.lang.literals import (
    BaseType,
    BoolLiteral,
    DateLiteral,
    FloatLiteral,
    IntLiteral,
    ListLiteral,
    ListType,
    Literal,
    Name,
    NullLiteral,
    StringLiteral,
    VectorType,
)
from omnigraph.lang.query_ast import (
    And,
    Assignment,
    BareName,
    Binding,
    Call,
    Clause,
    Compare,
    CompareOp,
    Delete,
    EdgeName,
    Expr,
    HopBounds,
    Insert,
    IsNull,
    LiteralExpr,
    Mutation,
    Not,
    NotBlock,
    Or,
    OrderKey,
    ParamDecl,
    Projection,
    PropertyRef,
    Query,
    QueryAnnotation,
    Read,
    Star,
    TraversalClause,
    Update,
    Variable,
    Where,
)
from omnigraph.lang.query_parser import parse_queries
from omnigraph.lang.source import Source, Span

HERE = Span(0, 0)


def name(text: str) -> Name:
    return Name(text, HERE)


def var(text: str) -> Variable:
    return Variable(name=text, span=HERE)


def prop(owner: str, text: str, *, is_meta: bool = False) -> PropertyRef:
    return PropertyRef(variable=var(owner), name=name(text), is_meta=is_meta, span=HERE)


def bare(text: str, *, is_meta: bool = False) -> BareName:
    return BareName(name=name(text), is_meta=is_meta, span=HERE)


def value(literal: Literal) -> LiteralExpr:
    return LiteralExpr(value=literal, span=HERE)


def number(whole: int) -> LiteralExpr:
    return value(IntLiteral(whole, HERE))


def call(function: str, *arguments: Expr) -> Call:
    return Call(function=name(function), arguments=arguments, span=HERE)


def compare(left: Expr, op: str, right: Expr) -> Compare:
    return Compare(op=CompareOp(op), left=left, right=right, op_span=HERE, span=HERE)


A, B, C = (compare(prop("p", letter), "=", number(1)) for letter in "abc")


def queries(text: str) -> tuple[Query, ...]:
    source = Source(text)
    return parse_queries(source).require(source).queries


def only_query(text: str) -> Query:
    (found,) = queries(text)
    return found


def read_of(text: str) -> Read:
    body = only_query(f"query q() {{ {text} }}").body
    assert isinstance(body, Read)
    return body


def clauses(text: str) -> tuple[Clause, ...]:
    return read_of(f"match {{ {text} }} return {{ $p }}").clauses


def predicate(text: str) -> Expr:
    (found,) = clauses(text)
    assert isinstance(found, Where)
    return found.predicate


def where(text: str) -> Expr:
    (found,) = mutations(f"delete T where {text}")
    assert isinstance(found, Delete)
    return found.where


def mutations(text: str) -> tuple[Mutation, ...]:
    body = only_query(f"query q() {{ {text} }}").body
    assert isinstance(body, tuple)
    return body


def projected(text: str) -> Expr:
    (found,) = read_of(f"match {{ $p: P }} return {{ {text} }}").projections
    return found.value


# --- queries -------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", " ", "// nothing"])
def test_a_file_may_be_empty(text: str) -> None:
    assert queries(text) == ()


def test_a_query_has_parameters_and_annotations() -> None:
    text = 'query q($a: String, $b: [I64]?, $c: Vector(3)) @description("x") @instruction("y") { delete T where a = 1 }'

    found = only_query(text)

    assert found.params == (
        ParamDecl(name=name("a"), type=BaseType("String", HERE), span=HERE),
        ParamDecl(name=name("b"), type=ListType(BaseType("I64", HERE), HERE), nullable=True, span=HERE),
        ParamDecl(name=name("c"), type=VectorType(3, HERE), span=HERE),
    )
    assert found.annotations == (
        QueryAnnotation(name=name("description"), text="x", span=HERE),
        QueryAnnotation(name=name("instruction"), text="y", span=HERE),
    )


def test_a_read_has_all_its_parts() -> None:
    found = read_of(
        "match { $p: P } return distinct { $p.a as x, $p } order { x desc, $p.b, $p.c asc } limit 10 offset $o"
    )

    assert found == Read(
        clauses=(Binding(variable=var("p"), types=(name("P"),), span=HERE),),
        projections=(
            Projection(value=prop("p", "a"), alias=name("x"), span=HERE),
            Projection(value=var("p"), span=HERE),
        ),
        distinct=True,
        order=(
            OrderKey(value=bare("x"), descending=True, span=HERE),
            OrderKey(value=prop("p", "b"), span=HERE),
            OrderKey(value=prop("p", "c"), descending=False, span=HERE),
        ),
        limit=number(10),
        offset=var("o"),
        span=HERE,
    )


@pytest.mark.parametrize("text", ["$p.a, $p.b", "$p.a $p.b", "$p.a, $p.b,"])
def test_commas_between_projections_are_optional(text: str) -> None:
    found = read_of(f"match {{ $p: P }} return {{ {text} }}")

    assert [projection.value for projection in found.projections] == [prop("p", "a"), prop("p", "b")]


# --- clauses -------------------------------------------------------------------------------------


def test_a_binding_has_filters() -> None:
    (found,) = clauses("$p: Person { name: $n, order: 3, seen: now() }")

    filters = (
        Assignment(name=name("name"), value=var("n"), span=HERE),
        Assignment(name=name("order"), value=number(3), span=HERE),
        Assignment(name=name("seen"), value=call("now"), span=HERE),
    )
    assert found == Binding(variable=var("p"), types=(name("Person"),), filters=filters, span=HERE)


def hop(edge: str, *, is_text: bool = False, **more: object) -> TraversalClause:
    edges = (EdgeName(name=name(edge), is_text=is_text, span=HERE),)
    found = TraversalClause(source=var("a"), edges=edges, target=var("b"), edge_span=HERE, span=HERE)
    return TraversalClause(**{field: getattr(found, field) for field in TraversalClause.__slots__} | more)


BOUNDS = HopBounds(low=1, high=3, span=HERE)


@pytest.mark.parametrize(
    "text, traversal",
    [
        ("$a knows $b", hop("knows")),
        ("$a Knows $b", hop("Knows")),
        ("$a In $b", hop("In")),
        ("$a knows{1,3} $b", hop("knows", bounds=BOUNDS)),
        ("$a <knows> $b", hop("knows", is_undirected=True)),
        ("$a <knows>{1,3} $b", hop("knows", is_undirected=True, bounds=BOUNDS)),
        ("$a $e:knows $b", hop("knows", edge_variable=var("e"))),
        ("$a $e:<knows> $b", hop("knows", edge_variable=var("e"), is_undirected=True)),
        ("$a $e:knows{1,3} $b", hop("knows", edge_variable=var("e"), bounds=BOUNDS)),
        ('$a "in" $b', hop("in", is_text=True)),
        ('$a <"in">{1,3} $b', hop("in", is_text=True, is_undirected=True, bounds=BOUNDS)),
    ],
)
def test_a_hop_is_written_in_many_ways(text: str, traversal: TraversalClause) -> None:
    assert clauses(text) == (traversal,)


def test_a_smaller_sign_compares_unless_an_edge_stands_between_two_signs() -> None:
    assert predicate("$a < $b.age") == compare(var("a"), "<", prop("b", "age"))
    assert predicate("$a < x") == compare(var("a"), "<", bare("x"))


@pytest.mark.parametrize("separator", [" ", "\n", ";", " ; ;\n"])
def test_clauses_need_nothing_between_them(separator: str) -> None:
    found = clauses(separator.join(["$a: A", "$a knows $b", "not { $b: B }", "$a.x = 1", "($a.y = 2)"]))

    assert [type(clause) for clause in found] == [Binding, TraversalClause, NotBlock, Where, Where]


def test_not_blocks_nest() -> None:
    (found,) = clauses("not { $a: A not { $a knows $b } }")

    inner = NotBlock(clauses=(hop("knows"),), span=HERE)
    assert found == NotBlock(clauses=(Binding(variable=var("a"), types=(name("A"),), span=HERE), inner), span=HERE)


# --- predicates ----------------------------------------------------------------------------------


@pytest.mark.parametrize("op", [op.value for op in CompareOp])
def test_every_operator_compares(op: str) -> None:
    assert predicate(f"$p.a {op} $q.b") == compare(prop("p", "a"), op, prop("q", "b"))


@pytest.mark.parametrize(
    "text, tree",
    [
        ("$p.a = 1 and $p.b = 1 or $p.c = 1", Or(terms=(And(terms=(A, B), span=HERE), C), span=HERE)),
        ("$p.a = 1 and ($p.b = 1 or $p.c = 1)", And(terms=(A, Or(terms=(B, C), span=HERE)), span=HERE)),
        ("$p.a = 1 and $p.b = 1 and $p.c = 1", And(terms=(A, B, C), span=HERE)),
        ("($p.a = 1 and $p.b = 1) and $p.c = 1", And(terms=(And(terms=(A, B), span=HERE), C), span=HERE)),
        ("not $p.a = 1 and $p.b = 1", And(terms=(Not(term=A, span=HERE), B), span=HERE)),
        ("not not $p.a = 1", Not(term=Not(term=A, span=HERE), span=HERE)),
        ("not ($p.a = 1)", Not(term=A, span=HERE)),
        ("(($p.a = 1))", A),
        ("$p.a is null", IsNull(operand=prop("p", "a"), span=HERE)),
        ("$p.a is not null", IsNull(operand=prop("p", "a"), negated=True, span=HERE)),
        ("$p.a = null", compare(prop("p", "a"), "=", value(NullLiteral(HERE)))),
        ("$p.@id = $p.and", compare(prop("p", "id", is_meta=True), "=", prop("p", "and"))),
        ("search($p.a, $q)", call("search", prop("p", "a"), var("q"))),
    ],
)
def test_and_binds_closer_than_or_and_not_closer_than_both(text: str, tree: Expr) -> None:
    assert predicate(text) == tree


@pytest.mark.parametrize(
    "text, tree",
    [
        ("age > 3", compare(bare("age"), ">", number(3))),
        ("in in [1]", compare(bare("in"), "in", value(ListLiteral((IntLiteral(1, HERE),), HERE)))),
        ("order is null", IsNull(operand=bare("order"), span=HERE)),
        ("from = $x", compare(bare("from"), "=", var("x"))),
        ("@src = $x", compare(bare("src", is_meta=True), "=", var("x"))),
        ("not (and = 1)", Not(term=compare(bare("and"), "=", number(1)), span=HERE)),
        ('date = date("2026-01-31")', compare(bare("date"), "=", value(DateLiteral("2026-01-31", HERE)))),
    ],
)
def test_a_mutation_names_properties_without_a_variable(text: str, tree: Expr) -> None:
    assert where(text) == tree


def test_parentheses_belong_to_the_span_of_what_they_hold() -> None:
    text = "query q() { match { ($p.a = 1) } return { $p } }"

    body = only_query(text).body

    assert isinstance(body, Read)
    assert Source(text).slice(body.clauses[0].span) == "($p.a = 1)"


# --- expressions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, tree",
    [
        ("$p", var("p")),
        ("$p.a", prop("p", "a")),
        ("$p.@src", prop("p", "src", is_meta=True)),
        ("alias", bare("alias")),
        ('"x"', value(StringLiteral("x", HERE))),
        ("-1.5", value(FloatLiteral(-1.5, HERE))),
        ("true", value(BoolLiteral(True, HERE))),
        ("now()", call("now")),
        ("count(*)", call("count", Star(span=HERE))),
        ("sum($p.a)", call("sum", prop("p", "a"))),
        ("count(distinct $x)", Call(function=name("count"), arguments=(var("x"),), distinct=True, span=HERE)),
        (
            "rrf(nearest($p.v, $q), bm25($p.t, $s), k=60)",
            Call(
                function=name("rrf"),
                arguments=(call("nearest", prop("p", "v"), var("q")), call("bm25", prop("p", "t"), var("s"))),
                options=((name("k"), number(60)),),
                span=HERE,
            ),
        ),
    ],
)
def test_every_expression_can_be_projected(text: str, tree: Expr) -> None:
    assert projected(text) == tree


# --- mutations -----------------------------------------------------------------------------------


def test_statements_follow_each_other() -> None:
    found = mutations("insert P { a: 1 b: $x, } update P set { a: 2 } where b = 1 delete P where c = 1")

    one = Assignment(name=name("a"), value=number(1), span=HERE)
    two = Assignment(name=name("b"), value=var("x"), span=HERE)
    three = Assignment(name=name("a"), value=number(2), span=HERE)
    assert found == (
        Insert(type=name("P"), assignments=(one, two), span=HERE),
        Update(type=name("P"), assignments=(three,), where=compare(bare("b"), "=", number(1)), span=HERE),
        Delete(type=name("P"), where=compare(bare("c"), "=", number(1)), span=HERE),
    )


def test_empty_assignments_are_the_binders_business() -> None:
    insert, update = mutations("insert P {} update P set {} where a = 1")

    assert isinstance(insert, Insert)
    assert isinstance(update, Update)
    assert (insert.assignments, update.assignments) == ((), ())


def test_a_mended_tree_goes_on_as_it_was_meant() -> None:
    parsed = parse_queries(Source("qury q() { mach { p: person p.a == 1 } retrun { $p } }"))

    meant = only_query("query q() { match { $p: Person $p.a = 1 } return { $p } }")
    assert parsed.tree.queries == (meant,)
    assert not parsed.ok
