"""Build the hops of a pattern from what inference found, and the conditions on the types of variables."""

from dataclasses import dataclass, replace

from omnigraph.query.expr import Const, Expr, In, NodeRef
from omnigraph.query.logical_plan import DerivedEdge, Hop, HopDirection, HopMember
from omnigraph.query.pattern_scope import NodeDraft, ResolvedHop, build_edge_ref
from omnigraph.query.scope import Scope, VariableType
from omnigraph.query.union_types import TYPE_COLUMN, NodeUnion, build_meta_value, unite_edges
from omnigraph.query.walk_plan import WalkBinding
from omnigraph.schema.types import ListOf, Scalar


def build_type_filter(node: NodeDraft, type_: VariableType | None) -> Expr | None:
    """Build the filter of a binding that names fewer types than its variable has, as one of an outer block may have."""
    if not isinstance(type_, NodeUnion) or not node.types or node.types.issuperset(type_.members):
        return None
    span = node.clause.type.span
    names = tuple(sorted(node.types.intersection(type_.members)))
    collection = Const(value=names, type=ListOf(Scalar.STRING), origin=span)
    return In(element=build_meta_value(node.variable, TYPE_COLUMN, span), collection=collection, origin=span)


@dataclass(frozen=True, slots=True)
class BoundWay:
    """The conditions of a hop and its walk; `filters` are conditions on the edge of an edge variable."""

    filters: tuple[Expr, ...] = ()
    along: tuple[Expr, ...] = ()
    through: tuple[Expr, ...] = ()
    walk: WalkBinding | None = None
    derived: DerivedEdge | None = None


def build_hop(drafted: ResolvedHop, scope: Scope, way: BoundWay) -> Hop:
    """Build a hop between variables whose types the scope knows; a single edge type needs no members."""
    hop = drafted.hop
    bounds = hop.clause.bounds
    source, target = scope.find(hop.source), scope.find(hop.target)
    # Both are nodes: the binder has reported everything else.
    assert isinstance(source, NodeRef) and isinstance(target, NodeRef)  # noqa: S101, PT018
    members = list_hop_members(drafted)
    edge = unite_edges(member.edge for member in members)
    built = Hop(
        edge=edge,
        source=hop.source,
        target=hop.target,
        direction=_choose_direction(drafted),
        edge_variable=drafted.edge_variable,
        low=1 if bounds is None else bounds.low,
        high=1 if bounds is None else bounds.high,
        members=members,
        ends=(source, target),
        # A condition on the edge of an edge variable is a filter of it, which an index may answer.
        filters=way.filters,
        along=way.along,
        through=way.through,
        walk=way.walk,
        derived=way.derived,
        origin=hop.clause.span,
    )
    return simplify_members(built)


def list_hop_members(drafted: ResolvedHop) -> tuple[HopMember, ...]:
    """Return the ways in which a hop is followed, by edge type; none if no reading fits."""
    hop = drafted.hop
    if hop.is_multi:
        direction = HopDirection.BOTH if hop.clause.is_undirected else HopDirection.OUT
        members = [HopMember(build_edge_ref(edge), direction) for edge in hop.edges]
    else:
        members = [HopMember(build_edge_ref(r.edge), r.direction) for r in drafted.readings if r.edge is not None]
        if hop.is_plain and hop.clause.is_undirected and members:
            # A plain hop has a single reading, as both ways have the same types; none if its ends don't fit.
            members.append(HopMember(members[0].edge, HopDirection.IN))
    return tuple(sorted(members, key=lambda member: (member.edge.name, member.direction is HopDirection.IN)))


def _choose_direction(drafted: ResolvedHop) -> HopDirection:
    return HopDirection.BOTH if drafted.hop.clause.is_undirected else HopDirection.OUT


def simplify_members(hop: Hop) -> Hop:
    """Return a hop of a single edge type without members, if its ends are exactly the types of its variables."""
    if len({member.edge.name for member in hop.members}) > 1:
        return hop
    edge = hop.members[0].edge
    directions = {member.direction for member in hop.members}
    is_within_one_type = edge.source == edge.target
    if len(directions) == 1 and HopDirection.BOTH not in directions:
        (direction,) = directions
        # Undirected, a plain hop within one type is followed either way.
        direction = HopDirection.BOTH if hop.direction is HopDirection.BOTH and is_within_one_type else direction
    elif is_within_one_type:
        direction = HopDirection.BOTH
    else:
        return hop
    plain_ends = (edge.target, edge.source) if direction is HopDirection.IN else (edge.source, edge.target)
    if hop.ends != tuple(map(NodeRef, plain_ends)):
        return hop
    # The nodes of a walk between different types are positions among both.
    if (hop.is_multi or hop.walk is not None) and not is_within_one_type:
        return hop
    return replace(hop, edge=edge, direction=direction, members=(), ends=None)
