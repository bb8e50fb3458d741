from collections.abc import Callable
from dataclasses import replace

import pytest

from omnigraph.lang.source import Span
from omnigraph.query.column_pruning import prune_columns
from omnigraph.query.expr import (
    Aggregate,
    AggregateFunction,
    Compare,
    Const,
    EdgeRef,
    Entity,
    Expr,
    Identity,
    Nearest,
    NodeRef,
    Op,
    Parameter,
    ParamRef,
    Prop,
)
from omnigraph.query.logical_plan import (
    Exists,
    Grouping,
    Hop,
    HopDirection,
    NodeBinding,
    OrderTerm,
    OutputColumn,
    Pattern,
    ReadQuery,
    SharedVariable,
    iter_predicates,
)
from omnigraph.schema.types import ListOf, Scalar, VectorOf
from query.pattern_blocks import exists_blocks

HERE = Span(0, 0)
PERSON, COMPANY = NodeRef("Person"), NodeRef("Company")
KNOWS, WORKS_AT = EdgeRef("Knows", "Person", "Person"), EdgeRef("WorksAt", "Person", "Company")


def node(name: str, type_: NodeRef = PERSON, *filters: Expr) -> NodeBinding:
    return NodeBinding(variable=name, type=type_, filters=filters, origin=HERE)


def hop(source: str, edge: EdgeRef, target: str, direction: HopDirection = HopDirection.OUT, **more: object) -> Hop:
    plain = Hop(edge=edge, source=source, target=target, direction=direction, origin=HERE)
    return replace(plain, **more)  # type: ignore[arg-type]  # keyword arguments of a test, checked when built


def prop(variable: str, name: str) -> Prop:
    return Prop(variable=variable, name=name, type=Scalar.I32, origin=HERE)


def is_three(variable: str, name: str = "age") -> Compare:
    three = Const(value=3, type=Scalar.I32, origin=HERE)
    return Compare(op=Op.EQ, left=prop(variable, name), right=three, origin=HERE)


ID = Identity(variable="p", origin=HERE)
AGE = prop("p", "age")
COUNT = Aggregate(fold=AggregateFunction.COUNT, origin=HERE)
LIMIT = ParamRef(name="n", type=Scalar.I64, origin=HERE)
VECTOR = Prop(variable="p", name="face", type=VectorOf(2), origin=HERE)
RANK = Nearest(prop=VECTOR, query=Const(value="x", type=Scalar.STRING, origin=HERE), origin=HERE)
SHARES_P = (SharedVariable(variable="p", type=PERSON),)


def read(pattern: Pattern | None = None, **more: object) -> ReadQuery:
    plain = ReadQuery(
        name="q",
        pattern=pattern or Pattern(nodes=(node("p"),)),
        output=(OutputColumn(name="age", value=AGE),),
        ties=(ID,),
        origin=HERE,
    )
    return replace(plain, **more)  # type: ignore[arg-type]  # keyword arguments of a test, checked when built


REFUSED: dict[str, Callable[[], object]] = {
    "bounds below zero": lambda: hop("p", KNOWS, "q", low=-1),
    "no step at all": lambda: hop("p", KNOWS, "q", low=0, high=0),
    "bounds upside down": lambda: hop("p", KNOWS, "q", low=3, high=2),
    "too many steps": lambda: hop("p", KNOWS, "q", high=65),
    "several steps between types": lambda: hop("p", WORKS_AT, "c", high=2),
    "several steps with an edge variable": lambda: hop("p", KNOWS, "q", high=2, edge_variable="e"),
    "undirected between types": lambda: hop("p", WORKS_AT, "c", HopDirection.BOTH),
    "a filter without an edge variable": lambda: hop("p", KNOWS, "q", filters=(is_three("e"),)),
    "a filter of another variable": lambda: node("p", PERSON, is_three("q")),
    "a filter that is no predicate": lambda: node("p", PERSON, AGE),
    "an unbound end": lambda: read(Pattern(nodes=(node("p"),), hops=(hop("p", KNOWS, "q"),))),
    "an end of another type": lambda: read(Pattern(nodes=(node("p"), node("q")), hops=(hop("p", WORKS_AT, "q"),))),
    "a direction that does not fit": lambda: read(
        Pattern(nodes=(node("p"), node("c", COMPANY)), hops=(hop("p", WORKS_AT, "c", HopDirection.IN),))
    ),
    "a variable bound twice": lambda: read(Pattern(nodes=(node("p"), node("p")))),
    "an edge with a node's name": lambda: read(
        Pattern(nodes=(node("p"),), hops=(hop("p", KNOWS, "p", edge_variable="p"),))
    ),
    "an unbound variable in a filter": lambda: read(Pattern(nodes=(node("p"),), filters=(is_three("x"),))),
    "an unbound variable in a column": lambda: read(output=(OutputColumn(name="a", value=prop("x", "a")),)),
    "a block that shares nothing": lambda: Exists(
        negated=True, shared=(), pattern=Pattern(nodes=(node("q"),)), origin=HERE
    ),
    "a block that binds again": lambda: Exists(
        negated=True, shared=SHARES_P, pattern=Pattern(nodes=(node("p"),)), origin=HERE
    ),
    "a block that shares what is not there": lambda: read(
        Pattern(
            nodes=(node("p"),),
            blocks=(
                Exists(
                    negated=True,
                    shared=(SharedVariable(variable="x", type=PERSON),),
                    pattern=Pattern(nodes=(), filters=(is_three("x"),)),
                    origin=HERE,
                ),
            ),
        )
    ),
    "no columns": lambda: read(output=()),
    "two columns of one name": lambda: read(
        output=(OutputColumn(name="a", value=AGE), OutputColumn(name="a", value=ID))
    ),
    "an undeclared parameter": lambda: read(limit=LIMIT),
    "a parameter of another type": lambda: read(
        limit=LIMIT, params=(Parameter(name="n", type=Scalar.I32, origin=HERE),)
    ),
    "a negative limit": lambda: read(limit=-1),
    "an aggregate without groups": lambda: read(output=(OutputColumn(name="n", value=COUNT),)),
    "a column outside the groups": lambda: read(grouping=Grouping(keys=(), aggregates=(COUNT,))),
    "groups without aggregates": lambda: Grouping(keys=(AGE,), aggregates=()),
    "a group key twice": lambda: Grouping(keys=(AGE, AGE), aggregates=(COUNT,)),
    "a rank with distinct": lambda: read(rank=RANK, distinct=True),
    "an order outside distinct columns": lambda: read(distinct=True, ties=(), order=(OrderTerm(value=ID),)),
}


@pytest.mark.parametrize("build", REFUSED.values(), ids=REFUSED.keys())
def test_a_plan_without_meaning_is_refused_when_built(build: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        build()


def test_a_hop_between_bound_variables_closes_a_cycle() -> None:
    nodes = (node("p"), node("q"))

    query = read(Pattern(nodes=nodes, hops=(hop("p", KNOWS, "q"), hop("q", KNOWS, "p"))))

    assert len(query.pattern.hops) == 2


def test_a_hop_is_a_set_unless_it_has_an_edge_variable() -> None:
    assert hop("p", KNOWS, "q").is_set
    assert not hop("p", KNOWS, "q", edge_variable="e").is_set


def test_a_backward_hop_has_the_stored_types_exchanged() -> None:
    backward = hop("c", WORKS_AT, "p", HopDirection.IN)

    assert (backward.source_type, backward.target_type) == ("Company", "Person")


@pytest.mark.parametrize("more", [{"limit": 3}, {"offset": 0}, {"order": (OrderTerm(value=AGE),)}])
def test_a_read_with_a_limit_offset_or_order_is_ordered(more: dict[str, object]) -> None:
    assert read(**more).is_ordered  # type: ignore[arg-type]  # keyword arguments of a test, checked when built
    assert not read().is_ordered


def test_distinct_nodes_may_be_ordered_by_their_id() -> None:
    whole = Entity(variable="p", type=PERSON, fields=(), origin=HERE)

    query = read(distinct=True, output=(OutputColumn(name="p", value=whole),), order=(OrderTerm(value=ID),))

    assert query.order == (OrderTerm(value=ID),)


def test_predicates_are_found_at_every_depth() -> None:
    inner = Exists(negated=True, shared=SHARES_P, pattern=Pattern(nodes=(), filters=(is_three("p", "d"),)), origin=HERE)
    block = Exists(
        negated=True,
        shared=SHARES_P,
        pattern=Pattern(nodes=(node("q", PERSON, is_three("q", "c")),), blocks=(inner,)),
        origin=HERE,
    )
    nodes = (node("p", PERSON, is_three("p", "a")),)

    found = iter_predicates(Pattern(nodes=nodes, filters=(is_three("p", "b"),), blocks=(block,)))

    assert list(found) == [is_three("p", "a"), is_three("p", "b"), is_three("q", "c"), is_three("p", "d")]


def test_columns_are_what_is_read_of_a_variable_anywhere() -> None:
    block = Exists(
        negated=True, shared=SHARES_P, pattern=Pattern(nodes=(), filters=(is_three("p", "inside"),)), origin=HERE
    )
    nodes = (node("p", PERSON, is_three("p", "at_node")), node("q"))
    edge = hop("p", KNOWS, "q", edge_variable="e", filters=(is_three("e", "weight"),))
    query = read(Pattern(nodes=nodes, hops=(edge,), blocks=(block,)))

    pattern = prune_columns(query).pattern

    assert pattern.find_node("p").columns == ("age", "at_node", "inside")
    assert pattern.find_node("q").columns == ()
    assert pattern.hops[0].columns == ("weight",)


def test_two_blocks_with_a_variable_of_one_name_keep_their_columns_apart() -> None:
    def block(type_: NodeRef, name: str) -> Exists:
        inner = Pattern(nodes=(node("x", type_, is_three("x", name)),), filters=(is_three("p"),))
        return Exists(negated=True, shared=SHARES_P, pattern=inner, origin=HERE)

    query = read(Pattern(nodes=(node("p"),), blocks=(block(PERSON, "height"), block(COMPANY, "founded"))))

    first, second = (absent.pattern.find_node("x") for absent in exists_blocks(prune_columns(query).pattern))
    assert first.columns == ("height",)
    assert second.columns == ("founded",)


def test_group_keys_and_aggregates_are_read_too() -> None:
    tags = Prop(variable="p", name="tags", type=ListOf(Scalar.STRING), origin=HERE)
    counted = Aggregate(fold=AggregateFunction.COUNT, argument=tags, origin=HERE)
    columns = (OutputColumn(name="age", value=AGE), OutputColumn(name="n", value=counted))

    query = read(output=columns, grouping=Grouping(keys=(AGE,), aggregates=(counted,)), ties=(AGE,))

    assert prune_columns(query).pattern.find_node("p").columns == ("age", "tags")
