"""Bind `match` to a pattern: the variables and types of a block first, then its predicates and inner blocks."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count

from omnigraph.lang import query_ast as ast
from omnigraph.lang.source import Span
from omnigraph.query.bind_expr import ExprBinder
from omnigraph.query.expr import Const, EdgeRef, Expr, In, NodeRef, Prop
from omnigraph.query.logical_plan import (
    GENERATED_PREFIX,
    Hop,
    HopDirection,
    HopMember,
    NodeBinding,
    NotExists,
    Pattern,
    SharedVariable,
)
from omnigraph.query.pattern_scope import BlockDrafter, NodeDraft, ResolvedHop, build_edge_ref
from omnigraph.query.scope import (
    Params,
    ReadNameResolver,
    Scope,
    VariableType,
    iter_mentioned_variables,
    iter_names_bound_inside,
    report_unknown_property,
)
from omnigraph.query.union_types import TYPE_COLUMN, NodeUnion, build_meta_value, unite_edges
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.findings import DiagnosticCollector
from omnigraph.schema.types import ListOf, Scalar


@dataclass(frozen=True)
class BoundMatch:
    """A bound block: its scope, its variables in order of appearance, and its pattern; None if there is an error."""

    scope: Scope
    order: tuple[str, ...]
    pattern: Pattern | None


def bind_match(
    clauses: tuple[ast.Clause, ...], catalog: Catalog, params: Params, findings: DiagnosticCollector
) -> BoundMatch:
    """Bind a `match` block; all its errors are reported."""
    drafter = BlockDrafter(catalog, params, findings, _generate_names())
    return _bind_block(clauses, None, drafter)


def _generate_names() -> Iterator[str]:
    return (f"{GENERATED_PREFIX}{number}" for number in count(1))


def _bind_block(clauses: tuple[ast.Clause, ...], outer: Scope | None, drafter: BlockDrafter) -> BoundMatch:
    draft = drafter.draft(clauses, outer)
    types = draft.types
    # Names that only inner blocks bind: a use of one here gets its own help.
    hidden = frozenset(iter_names_bound_inside(clauses)) - types.keys()
    scope = Scope(drafter.catalog, drafter.params, types, hidden, outer)
    binder = ExprBinder(ReadNameResolver(scope, drafter.findings), drafter.findings)
    filters: dict[str, list[Expr]] = {name: [] for name in types}
    block_filters: list[Expr] = []
    for node in draft.nodes:
        # A variable of an outer block has no binding in this pattern, so its filters belong to the block.
        filters.get(node.variable, block_filters).extend(_bind_brace_filters(node, binder, drafter, scope))
    absent: list[NotExists] = []
    for clause in clauses:
        if isinstance(clause, ast.Where):
            _hint_at_hop(clause.predicate, scope, drafter.findings)
            predicate = binder.bind_predicate(clause.predicate)
            if predicate is not None:
                block_filters.append(predicate)
        elif isinstance(clause, ast.NotBlock):
            block = _bind_not_block(clause, scope, drafter)
            if block is not None:
                absent.append(block)
    order = tuple(draft.order)
    # Plan nodes reject invalid input, so they are built only if the whole query is correct so far.
    if drafter.findings:
        return BoundMatch(scope, order, None)
    nodes = tuple(
        NodeBinding(variable=name, type=type_, filters=tuple(filters[name]), origin=draft.order[name])
        for name, type_ in types.items()
        if isinstance(type_, NodeRef)
    )
    hops = tuple(_build_hop(drafted, scope) for drafted in draft.hops if drafted.hop.edges)
    return BoundMatch(scope, order, Pattern(nodes=nodes, hops=hops, filters=tuple(block_filters), absent=tuple(absent)))


def _hint_at_hop(predicate: ast.Expr, scope: Scope, findings: DiagnosticCollector) -> None:
    """Report `$a in $b` with an unbound `$b` as a hop without quotes, if there is an edge of that name."""
    match predicate:
        case ast.Compare(left=ast.Variable(name=left), right=ast.Variable(name=right)) if (
            scope.catalog.find_edge(predicate.op.value) and right not in scope.params and scope.find(right) is None
        ):
            hop = f'${left} "{predicate.op.value}" ${right}'
            help_ = f"an edge with a reserved word as its name is written in quotes: `{hop}`"
            findings.add_error("T6", predicate.right.span, f"`${right}` is not bound", help_)
        case _:
            pass


def _bind_brace_filters(node: NodeDraft, binder: ExprBinder, drafter: BlockDrafter, scope: Scope) -> list[Expr]:
    predicates: list[Expr] = []
    type_ = scope.find(node.variable)
    declared_type = scope.get_type(type_) if isinstance(type_, NodeRef) else None
    narrowing = _build_type_filter(node, type_)
    if narrowing is not None:
        predicates.append(narrowing)
    for assignment in node.clause.filters:
        declared = None if declared_type is None else declared_type.find_property(assignment.name.text)
        if declared is None:
            if declared_type is not None:
                report_unknown_property(assignment.name, declared_type, drafter.findings, catalog=scope.catalog)
            if isinstance(assignment.value, ast.Variable):
                # Resolved for its diagnostics: an undeclared parameter is a separate error.
                binder.names.resolve(assignment.value)
            continue
        prop = Prop(
            variable=node.variable,
            name=declared.name,
            type=declared.type,
            nullable=declared.nullable,
            origin=assignment.name.span,
        )
        predicate = binder.bind_brace_filter(prop, assignment)
        if predicate is not None:
            predicates.append(predicate)
    return predicates


def _build_type_filter(node: NodeDraft, type_: VariableType | None) -> Expr | None:
    """Build the filter of a binding that names fewer types than its variable has, as one of an outer block may have."""
    if not isinstance(type_, NodeUnion) or not node.types or node.types.issuperset(type_.members):
        return None
    span = node.clause.type.span
    names = tuple(sorted(node.types.intersection(type_.members)))
    collection = Const(value=names, type=ListOf(Scalar.STRING), origin=span)
    return In(element=build_meta_value(node.variable, TYPE_COLUMN, span), collection=collection, origin=span)


def _build_hop(drafted: ResolvedHop, scope: Scope) -> Hop:
    hop = drafted.hop
    bounds = hop.clause.bounds
    source, target = scope.find(hop.source), scope.find(hop.target)
    # Both are nodes: the binder has reported everything else.
    assert isinstance(source, NodeRef) and isinstance(target, NodeRef)  # noqa: S101, PT018
    members = _list_hop_members(drafted)
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
        origin=hop.clause.span,
    )
    return _simplify_members(built)


def _list_hop_members(drafted: ResolvedHop) -> tuple[HopMember, ...]:
    hop = drafted.hop
    if hop.is_multi:
        direction = HopDirection.BOTH if hop.clause.is_undirected else HopDirection.OUT
        members = [HopMember(build_edge_ref(edge), direction) for edge in hop.edges]
    else:
        members = [HopMember(build_edge_ref(r.edge), r.direction) for r in drafted.readings if r.edge is not None]
        if hop.is_plain and hop.clause.is_undirected:
            # A plain hop has a single reading, as both ways have the same types.
            members.append(HopMember(members[0].edge, HopDirection.IN))
    return tuple(sorted(members, key=lambda member: (member.edge.name, member.direction is HopDirection.IN)))


def _choose_direction(drafted: ResolvedHop) -> HopDirection:
    return HopDirection.BOTH if drafted.hop.clause.is_undirected else HopDirection.OUT


def _simplify_members(hop: Hop) -> Hop:
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
    if hop.is_multi and not is_within_one_type:
        return hop
    return replace(hop, edge=edge, direction=direction, members=(), ends=None)


def _bind_not_block(clause: ast.NotBlock, scope: Scope, drafter: BlockDrafter) -> NotExists | None:
    inner = _bind_block(clause.clauses, scope, drafter)
    names = [
        v.name
        for v in iter_mentioned_variables(clause.clauses)
        if v.name not in scope.params and v.name != ast.ANONYMOUS
    ]
    outer_types = {name: scope.find(name) for name in dict.fromkeys(names)}
    bound_inside = {*inner.order, *iter_names_bound_inside(clause.clauses)}
    # An unbound name is another error; it may have been meant as the shared variable.
    if all(type_ is None for type_ in outer_types.values()) and all(name in bound_inside for name in outer_types):
        keyword = Span(clause.span.start, clause.span.start + len("not"))
        message = "this `not` block shares no variable with the clauses around it, so it would keep or drop all rows"
        drafter.findings.add_error("T9", keyword, message, "share a variable: use one of the clauses around the block")
        return None
    if inner.pattern is None:
        return None
    shared = tuple(
        SharedVariable(variable=name, type=type_)
        for name, type_ in outer_types.items()
        if isinstance(type_, NodeRef | EdgeRef)
    )
    return NotExists(shared=shared, pattern=inner.pattern, origin=clause.span)
