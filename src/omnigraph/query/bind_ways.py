"""Bind what is written after a hop and before it: conditions on the way, and the variable and weight of a path."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from omnigraph.lang import query_ast as ast
from omnigraph.lang.printer import format_expr as print_expr
from omnigraph.query.bind_expr import ExprBinder
from omnigraph.query.bind_hops import BoundWay, list_hop_members
from omnigraph.query.bind_literal import clip_text
from omnigraph.query.bind_walks import WayNameResolver
from omnigraph.query.expr import EdgeRef, Expr, Identity, NodeRef, Prop, TextMatch
from omnigraph.query.expr_tree import map_children
from omnigraph.query.expr_types import build_walk_type
from omnigraph.query.functions import CallContext
from omnigraph.query.named_patterns import DerivedCatalog
from omnigraph.query.pattern_scope import BlockDrafter, PathDraft, ResolvedHop
from omnigraph.query.scope import VariableType
from omnigraph.query.union_types import list_members, unite_edges, unite_nodes
from omnigraph.query.walk_plan import WalkBinding, WalkKind, get_cost_type
from omnigraph.schema.catalog import AnyType, EdgeType
from omnigraph.schema.types import Scalar


def bind_way(drafted: ResolvedHop, drafter: BlockDrafter, types: Mapping[str, VariableType | None]) -> BoundWay:
    """Bind the conditions of a hop and the weight of its path; nothing if its edge is unknown, which is reported."""
    clause = drafted.hop.clause
    members = list_hop_members(drafted) if drafted.hop.edges else ()
    if not members:
        return BoundWay()
    catalog = drafter.catalog
    derived = catalog.derived.get(members[0].edge.name) if isinstance(catalog, DerivedCatalog) else None
    # The pairs of a named pattern are no rows of a table, so there is nothing that a condition could read.
    if derived is not None:
        return BoundWay(derived=derived)
    edge = unite_edges(member.edge for member in members)
    edges: tuple[AnyType, ...] = tuple(drafter.catalog.edges[name] for name in list_members(edge.name))
    # The nodes on the way may be of any type that an edge connects.
    node = _unite_space(drafted, edges, types)
    inside = {end for each in edges if isinstance(each, EdgeType) for end in (each.source, each.target)}
    nodes: tuple[AnyType, ...] = tuple(drafter.catalog.nodes[name] for name in sorted(inside))
    along = _bind_conditions(clause.along, edges, "along", drafter)
    through = _bind_conditions(clause.through, nodes, "through", drafter)
    walk = None
    if drafted.path is not None:
        walk = _bind_walk(drafted.path, edge, node, edges, drafter)
    # A hop with an edge variable is a single edge, so a condition on the way is one on that edge.
    if drafted.edge_variable is not None:
        filters = tuple(_rename_row(expr, drafted.edge_variable) for expr in along)
        return BoundWay(filters=filters, walk=walk)
    return BoundWay(along=along, through=through, walk=walk)


def _unite_space(drafted: ResolvedHop, edges: Iterable[AnyType], types: Mapping[str, VariableType | None]) -> NodeRef:
    """Return the type of the nodes of a walk: those that the edges connect, and those at its ends."""
    names = {end for edge in edges if isinstance(edge, EdgeType) for end in (edge.source, edge.target)}
    for name in (drafted.hop.source, drafted.hop.target):
        type_ = types.get(name)
        if isinstance(type_, NodeRef):
            names.update(list_members(type_.name))
    return unite_nodes(names)


def _bind_conditions(
    nodes: Iterable[ast.Expr], declared: tuple[AnyType, ...], word: str, drafter: BlockDrafter
) -> tuple[Expr, ...]:
    binder = ExprBinder(WayNameResolver(declared, drafter.params, drafter.findings, word), drafter.findings)
    bound = [binder.bind_predicate(node) for node in nodes]
    return tuple(predicate for predicate in bound if predicate is not None)


def _bind_walk(
    path: PathDraft, edge: EdgeRef, node: NodeRef, declared: tuple[AnyType, ...], drafter: BlockDrafter
) -> WalkBinding | None:
    clause = path.clause
    kind = WalkKind(clause.kind.value)
    weight: Expr | None = None
    if clause.weight is not None:
        binder = ExprBinder(WayNameResolver(declared, drafter.params, drafter.findings, "by"), drafter.findings)
        weight = binder.bind_value(clause.weight, CallContext.OPERAND)
        if weight is None:
            return None
        if not (isinstance(weight.type, Scalar) and weight.type.is_numeric):
            message = f"a weight is a number, but `{clip_text(print_expr(clause.weight))}` is {weight.type}"
            drafter.findings.add_error("T7", clause.weight.span, message, "name a number of the edge: `by { length }`")
            return None
    # The other errors of its shape are reported with the hop.
    if path.variable is None or (weight is not None) != (kind is WalkKind.CHEAPEST):
        return None
    cost = None if weight is None else get_cost_type(weight)
    return WalkBinding(
        variable=path.variable,
        kind=kind,
        type=build_walk_type(node, edge, cost),
        weight=weight,
        text="" if clause.weight is None else clip_text(print_expr(clause.weight)),
        origin=clause.span,
    )


def _rename_row(expr: Expr, variable: str) -> Expr:
    """Return a condition on the edge itself as one on the edge variable."""
    if isinstance(expr, Prop | Identity):
        return replace(expr, variable=variable)
    # `map_children` leaves the operands of a search as they are.
    if isinstance(expr, TextMatch):
        return replace(expr, prop=replace(expr.prop, variable=variable))
    return map_children(expr, lambda part: _rename_row(part, variable))
