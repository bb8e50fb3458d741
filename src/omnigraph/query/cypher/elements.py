"""A row for each element of a list."""

from omnigraph.lang.source import Span
from omnigraph.query.cypher import values
from omnigraph.query.cypher.context import CypherContext
from omnigraph.query.cypher.lists import may_hold_null
from omnigraph.query.cypher.scope import ComputedVariable, CypherScope, EntityVariable
from omnigraph.query.expr import ArrayOf, EdgeRef, Expr, NodeRef, ValueRef
from omnigraph.query.logical_plan import EachBlock, Pattern
from omnigraph.query.scope import build_position_name
from omnigraph.schema.types import ListOf, Scalar


def build_each(
    context: CypherContext, name: str, source: Expr, span: Span, scope: CypherScope
) -> tuple[EachBlock, CypherScope, Expr]:
    """Return a block with a match for each element of a list, the scope that knows the element, and its position."""
    assert isinstance(source.type, ListOf | ArrayOf)  # noqa: S101 - callers have checked it
    element = source.type.element
    chosen = context.declare(name, element)
    position = build_position_name(chosen)
    context.types[position] = Scalar.I64
    block = EachBlock(
        variable=chosen,
        position=position,
        value=source,
        shared=context.find_shared(Pattern(nodes=()), (source,)),
        origin=span,
    )
    variable: EntityVariable | ComputedVariable
    if values.is_untyped_list(source):
        variable = ComputedVariable(value=values.build_unknown(span))
    elif isinstance(element, NodeRef | EdgeRef):
        variable = EntityVariable(name=chosen, type=element)
    else:
        # What a list holds may be null, but for the lists that are known to be full.
        nullable = may_hold_null(context, source)
        if nullable:
            context.nullable_values.add(chosen)
        variable = ComputedVariable(value=ValueRef(variable=chosen, type=element, nullable=nullable, origin=span))
    place = ValueRef(variable=position, type=Scalar.I64, nullable=False, origin=span)
    return block, scope.add(name, variable), place
