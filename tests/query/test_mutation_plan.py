from collections.abc import Callable

import pytest

from omnigraph.lang.source import Span
from omnigraph.query.expr import Compare, Const, EdgeRef, NodeRef, Op, Parameter, ParamRef, Prop
from omnigraph.query.expr_types import ROW
from omnigraph.query.mutation_plan import Assign, Delete, InsertEdge, InsertNode, MutationQuery, Statement, Update
from omnigraph.schema.types import Scalar

HERE = Span(0, 0)
PERSON, KNOWS = NodeRef("Person"), EdgeRef("Knows", "Person", "Person")
ASKED = ParamRef(name="who", type=Scalar.STRING, origin=HERE)
MAYBE = ParamRef(name="who", type=Scalar.STRING, nullable=True, origin=HERE)
NUMBER = Const(value=3, type=Scalar.I32, origin=HERE)


def assign(name: str) -> Assign:
    return Assign(property=name, value=ASKED, origin=HERE)


def where(variable: str = ROW) -> Compare:
    name = Prop(variable=variable, name="name", type=Scalar.STRING, origin=HERE)
    return Compare(op=Op.EQ, left=name, right=ASKED, origin=HERE)


def insert(*values: str, omitted: tuple[str, ...] = ()) -> InsertNode:
    return InsertNode(type=PERSON, values=tuple(map(assign, values)), omitted=omitted, is_upsert=False, origin=HERE)


def link(source: ParamRef | Const, target: ParamRef | Const) -> InsertEdge:
    return InsertEdge(type=KNOWS, source=source, target=target, values=(), omitted=(), is_upsert=False, origin=HERE)


def update(*values: str) -> Update:
    return Update(type=PERSON, values=tuple(map(assign, values)), where=where(), origin=HERE)


def mutation(*statements: Statement, nullable: bool = False) -> MutationQuery:
    param = Parameter(name="who", type=Scalar.STRING, nullable=nullable, origin=HERE)
    return MutationQuery(name="q", params=(param,), statements=statements, origin=HERE)


DELETE = Delete(type=PERSON, where=where(), origin=HERE)

REFUSED: dict[str, Callable[[], object]] = {
    "a property twice": lambda: insert("name", "name"),
    "a property given and left out": lambda: insert("name", omitted=("name",)),
    "an update of nothing": update,
    "an update of a property twice": lambda: update("name", "name"),
    "an end that is a number": lambda: link(ASKED, NUMBER),
    "an end that may be null": lambda: link(MAYBE, ASKED),
    "a where that is no predicate": lambda: Delete(type=PERSON, where=NUMBER, origin=HERE),
    "a where of another variable": lambda: Delete(type=PERSON, where=where("p"), origin=HERE),
    "no statements": mutation,
    "deletes beside others": lambda: mutation(DELETE, insert("name")),
    "an undeclared parameter": lambda: MutationQuery(name="q", statements=(DELETE,), origin=HERE),
    "a parameter declared otherwise": lambda: mutation(link(ASKED, ASKED), nullable=True),
}


@pytest.mark.parametrize("build", REFUSED.values(), ids=REFUSED.keys())
def test_a_mutation_without_meaning_is_refused_when_built(build: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        build()
