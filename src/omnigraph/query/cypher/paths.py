"""The values of named paths, and relationships of one `MATCH` that are kept apart."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import NoReturn

from omnigraph.lang.cypher import tree
from omnigraph.lang.source import Span
from omnigraph.query.cypher import values
from omnigraph.query.cypher.context import CypherContext
from omnigraph.query.cypher.drafts import PatternHop, PatternNode
from omnigraph.query.cypher.elements import build_each
from omnigraph.query.cypher.scope import ComputedVariable, CypherScope, CypherVariable, EntityVariable, build_whole
from omnigraph.query.expr import (
    ArrayOf,
    Computed,
    Const,
    EdgeRef,
    Expr,
    In,
    NodeRef,
    Not,
    Op,
    Or,
    RecordExpr,
    WalkOf,
)
from omnigraph.query.expr_types import WALK_EDGES, WALK_NODES
from omnigraph.query.logical_plan import (
    Exists,
    Pattern,
    PatternBlock,
)
from omnigraph.query.scalar_functions import ScalarFunction
from omnigraph.query.union_types import is_part, list_members, unite_edges, unite_nodes
from omnigraph.query.walk_plan import read_part
from omnigraph.schema.types import ListOf, Scalar


def build_path(
    context: CypherContext, path: tree.PathPattern, nodes: list[PatternNode], hops: list[PatternHop]
) -> CypherVariable:
    """Return the value of a named path: a walk, or a record of the nodes and relationships of single hops."""
    span = path.span
    if len(hops) == 1 and hops[0].is_walk and hops[0].pattern.direction is not tree.Direction.IN:
        assert hops[0].value is not None  # noqa: S101 - it was bound before
        return ComputedVariable(value=hops[0].value)
    wholes = [
        build_whole(context.catalog, node.bound or EntityVariable(name=node.name, type=node.type), span)
        for node in nodes
    ]
    node_type = unite_nodes(member for whole in wholes for member in list_members(whole.type.name))
    edges = {member.edge for hop in hops for member in hop.members}
    walk = next((hop.value for hop in hops if hop.is_walk and hop.value is not None), None)
    if walk is not None and isinstance(walk.type, WalkOf) and isinstance(walk.type.nodes.element, NodeRef):
        node_type = walk.type.nodes.element
    node_parts = [_build_list([values.convert(wholes[0], node_type)], node_type, span)]
    edge_parts: list[Expr] = []
    edge_type = unite_edges(edges) if hops else None
    for hop, target in zip(hops, wholes[1:], strict=True):
        assert hop.value is not None and edge_type is not None  # noqa: S101, PT018 - it was bound before
        if not hop.is_walk:
            node_parts.append(_build_list([values.convert(target, node_type)], node_type, span))
            edge_parts.append(_build_list([values.convert(hop.value, edge_type)], edge_type, span))
            continue
        # The first node of a walk is the one before it.
        listed = _turn(hop, read_part(hop.value, WALK_NODES), span)
        first = values.build_const(1, span)
        node_parts.append(values.compute(ScalarFunction.SLICE, (listed, first), listed.type, span, "", can_fail=False))
        edge_parts.append(list_relationships(hop))
    items: list[tuple[str, Expr]] = [(WALK_NODES, _join(node_parts, span))]
    none = Const(value=(), type=ListOf(Scalar.STRING), origin=span)
    items.append((WALK_EDGES, _join(edge_parts, span) if edge_parts else none))
    return ComputedVariable(value=RecordExpr(items=tuple(items), origin=span))


def _join(parts: list[Expr], span: Span) -> Expr:
    """Return the lists of the parts of a path as one; single elements stay together."""
    whole = parts[0]
    for part in parts[1:]:
        is_plain = all(isinstance(each, Computed) and each.function is ScalarFunction.LIST for each in (whole, part))
        if is_plain and isinstance(whole, Computed) and isinstance(part, Computed):
            whole = replace(whole, arguments=(*whole.arguments, *part.arguments))
        else:
            whole = values.compute(ScalarFunction.JOIN_LISTS, (whole, part), whole.type, span, "", can_fail=False)
    return whole


def _turn(hop: PatternHop, listed: Expr, span: Span) -> Expr:
    """Return a list of a walk in the order of the pattern: a walk is followed along its relationships."""
    if hop.pattern.direction is not tree.Direction.IN:
        return listed
    return values.compute(ScalarFunction.REVERSE, (listed,), listed.type, span, "", can_fail=False)


def _build_list(items: list[Expr], element: NodeRef | EdgeRef, span: Span) -> Expr:
    return values.compute(ScalarFunction.LIST, items, ArrayOf(element), span, "", can_fail=False)


def separate_hops(context: CypherContext, hops: Sequence[PatternHop]) -> tuple[list[Expr], list[PatternBlock]]:
    """Keep the relationships of this `MATCH` apart, where two of them can have one type."""
    filters: list[Expr] = []
    blocks: list[PatternBlock] = []
    for first, second in combinations(hops, 2):
        shared = {member.edge.name for member in first.members} & {member.edge.name for member in second.members}
        if not shared or first.value is None or second.value is None:
            continue
        span = second.pattern.span
        if first.is_walk and second.is_walk:
            blocks.append(_separate_walks(context, first, second, span))
        elif first.is_walk or second.is_walk:
            walk, single = (first, second) if first.is_walk else (second, first)
            filters.append(_exclude(walk, single.value, span))
        else:
            differ = values.compare(Op.NE, first.value, second.value, span)
            assert differ is not None  # noqa: S101 - relationships compare
            filters.append(differ)
    return filters, blocks


def _exclude(walk: PatternHop, relationship: Expr | None, span: Span) -> Expr:
    listed = list_relationships(walk)
    assert isinstance(listed.type, ArrayOf) and isinstance(listed.type.element, EdgeRef)  # noqa: S101, PT018
    assert relationship is not None  # noqa: S101 - it was bound before
    whole = values.convert(relationship, listed.type.element)
    differs = Not(term=In(element=whole, collection=listed, origin=span), origin=span)
    if is_part(relationship.type, listed.type.element):
        return differs
    # One of a type that the walk does not have differs from all of its relationships, and is null as one of them.
    type_name, _ = values.list_type_and_id(relationship)
    names = Const(value=list_members(listed.type.element.name), type=ListOf(Scalar.STRING), origin=span)
    return Or(terms=(Not(term=In(element=type_name, collection=names, origin=span), origin=span), differs), origin=span)


def _separate_walks(context: CypherContext, first: PatternHop, second: PatternHop, span: Span) -> Exists:
    listed = list_relationships(first)
    block, scope, _ = build_each(context, "#e", listed, span, CypherScope(context.catalog))
    element = scope.find("#e")
    assert element is not None and isinstance(listed.type, ArrayOf)  # noqa: S101, PT018
    other = list_relationships(second)
    whole = scope.read(element, span)
    if whole.type != getattr(other.type, "element", None):
        _refuse_separation(context, span)
    pattern = Pattern(nodes=(), blocks=(block,), filters=(In(element=whole, collection=other, origin=span),))
    shared = context.find_shared(pattern)
    return Exists(shared=shared, pattern=pattern, negated=True, origin=span)


def _refuse_separation(context: CypherContext, span: Span) -> NoReturn:
    help_ = "name the same relationship types in both, or write two `MATCH` clauses, which may repeat one"
    message = "relationships of several types beside a variable length are not supported in one `MATCH`"
    context.findings.refuse("C002", span, message, help_)


def list_relationships(hop: PatternHop) -> Expr:
    """Return the list of the relationships of a walk, in the order of the pattern."""
    assert hop.value is not None  # noqa: S101 - it was bound before
    return _turn(hop, read_part(hop.value, WALK_EDGES), hop.pattern.span)
