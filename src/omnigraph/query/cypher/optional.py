"""Variables as they are after an `OPTIONAL MATCH`."""

from dataclasses import replace

from omnigraph.query.cypher import values
from omnigraph.query.cypher.patterns import Matched
from omnigraph.query.cypher.scope import (
    ComputedVariable,
    CypherVariable,
    EntityVariable,
    build_identity_of,
)
from omnigraph.query.expr import Case, EdgeRef, Expr, FieldRef, IsNull, NodeRef, ValueRef, WalkOf
from omnigraph.query.expr_tree import find_variables, walk


def make_optional(variable: CypherVariable, matched: Matched) -> CypherVariable:
    """Return a variable as it is after an `OPTIONAL MATCH`: null where there is no match."""
    if isinstance(variable, EntityVariable):
        return replace(variable, nullable=True)
    value = variable.value
    if isinstance(value, ValueRef | FieldRef):
        return ComputedVariable(value=_make_nullable(value))
    # A path of single hops is a record, which can't be null itself: its first node or relationship tells, or, if all of
    # it was bound before, any that the pattern binds.
    entities = [name for name, type_ in matched.pattern.types.items() if isinstance(type_, NodeRef | EdgeRef)]
    read = next((name for name in (*find_variables(value), *entities) if name in entities), None)
    if read is not None:
        type_ = matched.pattern.types[read]
        assert isinstance(type_, NodeRef | EdgeRef)  # noqa: S101 - chosen above
        marker: Expr | None = build_identity_of(EntityVariable(name=read, type=type_, nullable=True), value.origin)
    else:
        walks = (part for part in walk(value) if isinstance(part, ValueRef) and isinstance(part.type, WalkOf))
        found = next(walks, None)
        marker = matched.marker if found is None else replace(found, nullable=True)
        if marker is None:
            return variable
    assert marker is not None  # noqa: S101 - chosen above
    is_missing = IsNull(operand=marker, origin=value.origin)
    branch = (is_missing, values.build_null(value.type, value.origin))
    return ComputedVariable(value=Case(branches=(branch,), otherwise=value, origin=value.origin))


def _make_nullable(value: ValueRef | FieldRef) -> Expr:
    if isinstance(value, FieldRef) and isinstance(value.operand, ValueRef | FieldRef):
        return replace(value, operand=_make_nullable(value.operand), nullable=True)
    return replace(value, nullable=True)
