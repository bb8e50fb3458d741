from collections.abc import Callable

import pytest

from omnigraph.lang.source import Span
from omnigraph.query.expr import (
    Aggregate,
    AggregateFunction,
    And,
    Bm25,
    Compare,
    Const,
    Contains,
    Entity,
    Expr,
    Identity,
    In,
    IsNull,
    Nearest,
    NodeRef,
    Not,
    Now,
    Op,
    Or,
    ParamRef,
    Prop,
    Rrf,
    StartsWith,
    TextMatch,
    TextMode,
)
from omnigraph.query.expr_tree import (
    find_properties,
    find_variables,
    list_children,
    map_children,
    split_conjuncts,
    walk,
)
from omnigraph.schema.types import EnumOf, ListOf, Scalar, ValueType, VectorOf

HERE = Span(0, 0)


def prop(name: str, type_: ValueType = Scalar.I32, *, variable: str = "p", nullable: bool = False) -> Prop:
    return Prop(variable=variable, name=name, type=type_, nullable=nullable, origin=HERE)


def const(value: int | str | None, type_: ValueType = Scalar.I32) -> Const:
    return Const(value=value, type=type_, origin=HERE)


def less(left: Expr, right: Expr) -> Compare:
    return Compare(op=Op.LT, left=left, right=right, origin=HERE)


AGE, NAME, BIO = prop("age", nullable=True), prop("name", Scalar.STRING), prop("bio", Scalar.STRING)
TAGS, FACE = prop("tags", ListOf(Scalar.STRING)), prop("face", VectorOf(2))
TEXT, ASKED = const("x", Scalar.STRING), ParamRef(name="q", type=Scalar.STRING, nullable=True, origin=HERE)
PERSON = Entity(variable="p", type=NodeRef("Person"), fields=(AGE, NAME), origin=HERE)
K = const(60, Scalar.I64)
NEAREST, BM25 = Nearest(prop=FACE, query=TEXT, origin=HERE), Bm25(prop=BIO, query=ASKED, origin=HERE)

EVERY_KIND: list[Expr] = [
    TEXT,
    ASKED,
    Now(origin=HERE),
    AGE,
    Identity(variable="p", origin=HERE),
    PERSON,
    less(AGE, const(3)),
    In(element=NAME, collection=TAGS, origin=HERE),
    Contains(text=NAME, part=TEXT, origin=HERE),
    StartsWith(text=NAME, prefix=TEXT, origin=HERE),
    IsNull(operand=AGE, origin=HERE),
    Not(term=less(AGE, const(3)), origin=HERE),
    And(terms=(less(AGE, const(3)), IsNull(operand=NAME, origin=HERE)), origin=HERE),
    Or(terms=(less(AGE, const(3)), IsNull(operand=NAME, origin=HERE)), origin=HERE),
    TextMatch(mode=TextMode.FUZZY, prop=BIO, query=ASKED, edits=const(1, Scalar.I64), origin=HERE),
    NEAREST,
    BM25,
    Rrf(first=NEAREST, second=BM25, k=K, origin=HERE),
    Aggregate(fold=AggregateFunction.SUM, argument=AGE, origin=HERE),
    Aggregate(fold=AggregateFunction.COUNT, origin=HERE),
]


@pytest.mark.parametrize("expr", EVERY_KIND, ids=lambda expr: type(expr).__name__)
def test_mapping_children_to_themselves_changes_nothing(expr: Expr) -> None:
    assert map_children(expr, lambda child: child) == expr


@pytest.mark.parametrize("expr", EVERY_KIND, ids=lambda expr: type(expr).__name__)
def test_walking_meets_the_expression_and_all_its_children(expr: Expr) -> None:
    met = list(walk(expr))

    assert met[0] is expr
    assert all(child in met for child in list_children(expr))


def test_where_an_expression_was_written_is_no_part_of_it() -> None:
    elsewhere = Prop(variable="p", name="age", type=Scalar.I32, nullable=True, origin=Span(7, 9))

    assert elsewhere == AGE
    assert hash(elsewhere) == hash(AGE)


def test_variables_and_properties_come_once_in_order() -> None:
    other = prop("age", variable="q")
    expr = And(terms=(less(AGE, other), less(other, AGE), less(prop("age", variable="a"), K)), origin=HERE)

    assert find_variables(expr) == ("p", "q", "a")
    assert find_properties(expr) == (("p", "age"), ("q", "age"), ("a", "age"))


def test_a_whole_node_needs_all_its_fields() -> None:
    assert find_properties(PERSON) == (("p", "age"), ("p", "name"))


def test_conjuncts_take_nested_ands_apart_and_leave_ors() -> None:
    one, two, three = (less(AGE, const(n)) for n in (1, 2, 3))
    either = Or(terms=(one, two), origin=HERE)
    nested = And(terms=(one, And(terms=(two, either), origin=HERE), three), origin=HERE)

    assert split_conjuncts(nested) == (one, two, either, three)


@pytest.mark.parametrize(
    "expr, nullable",
    [
        (less(AGE, const(3)), True),
        (less(NAME, TEXT), False),
        (less(const(None), const(3)), True),
        (IsNull(operand=AGE, origin=HERE), False),
        (Not(term=less(AGE, const(3)), origin=HERE), True),
        (And(terms=(less(NAME, TEXT), less(AGE, const(3))), origin=HERE), True),
        (Or(terms=(less(NAME, TEXT), less(TEXT, NAME)), origin=HERE), False),
        (In(element=ASKED, collection=TAGS, origin=HERE), True),
        (TextMatch(mode=TextMode.ANY, prop=BIO, query=TEXT, origin=HERE), False),
        (TextMatch(mode=TextMode.ANY, prop=BIO, query=ASKED, origin=HERE), True),
        (NEAREST, False),
        (BM25, True),
        (Aggregate(fold=AggregateFunction.COUNT, argument=AGE, origin=HERE), False),
        (Aggregate(fold=AggregateFunction.MAX, argument=NAME, origin=HERE), True),
    ],
)
def test_an_expression_knows_whether_it_can_be_unknown(expr: Expr, nullable: bool) -> None:
    assert expr.nullable is nullable


@pytest.mark.parametrize(
    "fold, argument, type_",
    [
        (AggregateFunction.COUNT, TAGS, Scalar.I64),
        (AggregateFunction.SUM, AGE, Scalar.I64),
        (AggregateFunction.SUM, prop("x", Scalar.U64), Scalar.I64),
        (AggregateFunction.SUM, prop("x", Scalar.F32), Scalar.F64),
        (AggregateFunction.AVG, AGE, Scalar.F64),
        (AggregateFunction.MIN, AGE, Scalar.I32),
        (AggregateFunction.MAX, prop("s", EnumOf(("a",))), EnumOf(("a",))),
    ],
)
def test_an_aggregate_has_the_type_of_its_function(fold: AggregateFunction, argument: Prop, type_: ValueType) -> None:
    assert Aggregate(fold=fold, argument=argument, origin=HERE).type == type_


REFUSED: list[Callable[[], object]] = [
    lambda: const("x"),
    lambda: const(2**31),
    lambda: Const(value=True, type=Scalar.I32, origin=HERE),
    lambda: Const(value=1, type=Scalar.F64, origin=HERE),
    lambda: Const(value="c", type=EnumOf(("a", "b")), origin=HERE),
    lambda: Const(value=(1.0,), type=VectorOf(2), origin=HERE),
    lambda: Const(value=("x",), type=ListOf(Scalar.I32), origin=HERE),
    lambda: less(AGE, NAME),
    lambda: less(TAGS, TAGS),
    lambda: less(PERSON, PERSON),
    lambda: In(element=AGE, collection=TAGS, origin=HERE),
    lambda: In(element=NAME, collection=NAME, origin=HERE),
    lambda: Contains(text=AGE, part=TEXT, origin=HERE),
    lambda: StartsWith(text=NAME, prefix=AGE, origin=HERE),
    lambda: IsNull(operand=PERSON, origin=HERE),
    lambda: Not(term=AGE, origin=HERE),
    lambda: And(terms=(less(AGE, AGE),), origin=HERE),
    lambda: Or(terms=(less(AGE, AGE), AGE), origin=HERE),
    lambda: TextMatch(mode=TextMode.ANY, prop=AGE, query=TEXT, origin=HERE),
    lambda: TextMatch(mode=TextMode.ANY, prop=BIO, query=TEXT, edits=K, origin=HERE),
    lambda: TextMatch(mode=TextMode.FUZZY, prop=BIO, query=TEXT, edits=const(-1), origin=HERE),
    lambda: Nearest(prop=BIO, query=TEXT, origin=HERE),
    lambda: Nearest(prop=FACE, query=ParamRef(name="v", type=VectorOf(3), origin=HERE), origin=HERE),
    lambda: Bm25(prop=FACE, query=TEXT, origin=HERE),
    lambda: Rrf(first=NEAREST, second=BM25, k=const(0), origin=HERE),
    lambda: Rrf(
        first=NEAREST,
        second=Bm25(prop=prop("b", Scalar.STRING, variable="x"), query=TEXT, origin=HERE),
        k=K,
        origin=HERE,
    ),
    lambda: Aggregate(fold=AggregateFunction.SUM, origin=HERE),
    lambda: Aggregate(fold=AggregateFunction.SUM, argument=NAME, origin=HERE),
    lambda: Aggregate(fold=AggregateFunction.MIN, argument=TAGS, origin=HERE),
    lambda: Aggregate(fold=AggregateFunction.SUM, argument=AGE, distinct=True, origin=HERE),
    lambda: Aggregate(fold=AggregateFunction.COUNT, argument=TAGS, distinct=True, origin=HERE),
    lambda: Entity(variable="q", type=NodeRef("Person"), fields=(AGE,), origin=HERE),
    lambda: Entity(variable="p", type=NodeRef("Person"), fields=(FACE,), origin=HERE),
]


@pytest.mark.parametrize("build", REFUSED)
def test_an_expression_without_meaning_is_refused_when_built(build: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        build()


@pytest.mark.parametrize("op", Op)
def test_mirroring_and_negating_twice_changes_nothing(op: Op) -> None:
    assert op.mirrored.mirrored is op
    assert op.negated.negated is op
