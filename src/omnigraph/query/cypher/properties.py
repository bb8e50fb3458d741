"""Properties and labels of variables that may have several types: null where a type lacks the property."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from omnigraph.lang.cypher import tree
from omnigraph.lang.literals import Name
from omnigraph.lang.source import Span
from omnigraph.query.cypher import values
from omnigraph.query.cypher.context import CypherContext
from omnigraph.query.cypher.names import suggest
from omnigraph.query.cypher.scope import EntityVariable
from omnigraph.query.expr import ArrayOf, Const, EdgeRef, Expr, ExprType, In, NodeRef, Prop, RecordOf
from omnigraph.query.union_types import is_union, list_members, list_object_fields, resolve_types, unite_value_types
from omnigraph.schema.catalog import Property
from omnigraph.schema.types import ListOf, Scalar, ValueType, VectorOf

if TYPE_CHECKING:
    from omnigraph.query.cypher.expressions import ExpressionBinder


def find_property(context: CypherContext, type_: NodeRef | EdgeRef, name: Name) -> Property | None:
    """Return a property of a type, or the one that several types have; None with a warning if none has it.

    Raises:
        RefusedError: Two of the types have it with types that have nothing in common.
    """
    declared = resolve_types(context.catalog, type_.name)
    having = [(each.name, prop) for each in declared if (prop := each.find_property(name.text)) is not None]
    if not having:
        known = dict.fromkeys(prop.name for each in declared for prop in each.properties)
        owners = " or ".join(f"`{each.name}`" for each in declared[:3])
        message = f"no {'relationship' if isinstance(type_, EdgeRef) else 'node'} here has the property `{name.text}`"
        if len(declared) <= 3:
            message = f"{owners} has no property `{name.text}`"
        context.findings.warn_property(name, message, suggest(name.text, known))
        return None
    # Numbers of several types and texts and enums have a common type; anything else is two properties of one name.
    common = unite_value_types([prop.type for _, prop in having])
    if common is None:
        owners = ", ".join(f"{prop.type} of `{owner}`" for owner, prop in _list_different(having))
        message = f"`{name.text}` has two types here: {owners}"
        context.findings.refuse("C008", name.span, message, "name a label, so that it has one: `(n:Label)`")
    nullable = len(having) < len(declared) or any(prop.nullable for _, prop in having)
    first = having[0][1]
    return Property(name=first.name, type=common, nullable=nullable, metric=first.metric, language=first.language)


def find_common_property(context: CypherContext, type_: NodeRef | EdgeRef, name: str) -> ValueType | None:
    """Return the type that a property has in all of the types that have it; None if there are two, or none."""
    declared = resolve_types(context.catalog, type_.name)
    found = [prop.type for each in declared if (prop := each.find_property(name)) is not None]
    return unite_value_types(found) if found else None


def warn_omissions(context: CypherContext, type_: ExprType, span: Span) -> None:
    """Warn of properties that whole nodes and relationships of this type leave out, as they have two types there."""
    match type_:
        case NodeRef(name=name) | EdgeRef(name=name) if is_union(name):
            _warn_omitted(context, name, span)
        case ArrayOf(element=element):
            warn_omissions(context, element, span)
        case RecordOf(fields=fields):
            for _, each in fields:
                warn_omissions(context, each, span)


def _warn_omitted(context: CypherContext, union: str, span: Span) -> None:
    declared = resolve_types(context.catalog, union)
    kept = {prop.name for prop in list_object_fields(context.catalog, union)}
    by_name: dict[str, list[tuple[str, Property]]] = {}
    for each in declared:
        for prop in each.properties:
            # Whole nodes never have these.
            if prop.name not in kept and not isinstance(prop.type, VectorOf) and prop.type != Scalar.BLOB:
                by_name.setdefault(prop.name, []).append((each.name, prop))
    if not by_name:
        return
    omitted = "; ".join(
        f"`{name}` ({', '.join(f'{prop.type} of `{owner}`' for owner, prop in _list_different(having))})"
        for name, having in by_name.items()
    )
    message = f"left out of whole nodes or relationships, as it has two types: {omitted}"
    context.findings.add("C103", span, message, "name a label, so that it has one: `(n:Label)`")


def _list_different(found: Sequence[tuple[str, Property]]) -> list[tuple[str, Property]]:
    by_type = {str(prop.type): (owner, prop) for owner, prop in reversed(found)}
    return list(reversed(by_type.values()))


def read_property(context: CypherContext, variable: EntityVariable, key: Name) -> Expr:
    """Return a property of a variable; null with a warning if there is none."""
    prop = find_property(context, variable.type, key)
    if prop is None:
        return values.build_unknown(key.span)
    return Prop(
        variable=variable.name,
        name=prop.name,
        type=prop.type,
        nullable=prop.nullable or variable.nullable,
        metric=prop.metric,
        language=prop.language,
        origin=key.span,
    )


def bind_labels_test(binder: "ExpressionBinder", expr: tree.HasLabels) -> Expr:
    """Return whether a node has labels, or a relationship a type."""
    operand = binder.bind(expr.operand)
    if values.is_null(operand):
        return values.build_unknown(expr.span)
    names = binder.context.names
    if isinstance(operand.type, NodeRef):
        wanted = names.resolve_labels(expr.labels)
    elif isinstance(operand.type, EdgeRef):
        wanted = names.resolve_types(expr.labels)
    else:
        binder.refuse_type(expr.span, f"only nodes have labels, but this is {values.describe(operand.type)}")
    return build_type_test(operand, wanted, expr)


def build_type_test(operand: Expr, wanted: frozenset[str], expr: tree.HasLabels | tree.NodePattern) -> Expr:
    """Return whether a node or relationship has one of these types; unknown for null."""
    members = set(list_members(str(operand.type)))
    if members <= wanted or not members & wanted:
        return values.decide_unless_null((operand,), bool(members & wanted), expr.span)
    type_name, _ = values.list_type_and_id(operand)
    collection = Const(value=tuple(sorted(members & wanted)), type=ListOf(Scalar.STRING), origin=expr.span)
    return In(element=type_name, collection=collection, origin=expr.span)


def has_one_type(type_: NodeRef | EdgeRef) -> bool:
    """Return whether all rows of a variable have one type."""
    return not is_union(type_.name)
