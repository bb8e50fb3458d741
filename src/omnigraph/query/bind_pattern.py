"""Bind `match` to a pattern: the variables and types of a block first, then its predicates and inner blocks."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from omnigraph.lang import query_ast as ast
from omnigraph.lang.source import Span
from omnigraph.query.bind_expr import ExprBinder
from omnigraph.query.expr import EdgeRef, Expr, NodeRef, Prop
from omnigraph.query.logical_plan import GENERATED_PREFIX, Hop, NodeBinding, NotExists, Pattern, SharedVariable
from omnigraph.query.pattern_scope import BlockDrafter, NodeDraft, ResolvedHop
from omnigraph.query.scope import (
    Params,
    ReadNameResolver,
    Scope,
    ValueVariable,
    iter_mentioned_variables,
    iter_names_bound_inside,
    report_unknown_property,
)
from omnigraph.schema.catalog import Catalog, EdgeType
from omnigraph.schema.findings import DiagnosticCollector


@dataclass(frozen=True)
class BoundMatch:
    """A bound block: its scope, its variables in order of appearance, and its pattern; None if there is an error."""

    scope: Scope
    order: tuple[str, ...]
    pattern: Pattern | None


def bind_match(
    clauses: tuple[ast.Clause, ...],
    catalog: Catalog,
    params: Params,
    findings: DiagnosticCollector,
    outer: Scope | None = None,
    generated_names: Iterator[str] | None = None,
) -> BoundMatch:
    """Bind a `match` block; all its errors are reported.

    After a stage, `outer` has the variables that the stage names, and `generated_names` go on from those before it.
    """
    drafter = BlockDrafter(catalog, params, findings, generated_names or generate_names())
    return _bind_block(clauses, outer, drafter)


def generate_names() -> Iterator[str]:
    """Yield names for the variables of one query that have none."""
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
        filters.get(node.variable, block_filters).extend(_bind_brace_filters(node, binder, drafter))
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
    hops = tuple(_build_hop(drafted, drafted.hop.edge) for drafted in draft.hops if drafted.hop.edge is not None)
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


def _bind_brace_filters(node: NodeDraft, binder: ExprBinder, drafter: BlockDrafter) -> list[Expr]:
    predicates: list[Expr] = []
    for assignment in node.clause.filters:
        declared = None if node.type is None else node.type.find_property(assignment.name.text)
        if declared is None:
            if node.type is not None:
                report_unknown_property(assignment.name, node.type, drafter.findings)
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


def _build_hop(drafted: ResolvedHop, edge: EdgeType) -> Hop:
    hop = drafted.hop
    bounds = hop.clause.bounds
    return Hop(
        edge=EdgeRef(edge.name, edge.source, edge.target),
        source=hop.source,
        target=hop.target,
        direction=drafted.direction,
        edge_variable=drafted.edge_variable,
        low=1 if bounds is None else bounds.low,
        high=1 if bounds is None else bounds.high,
        origin=hop.clause.span,
    )


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
        SharedVariable(variable=name, type=type_.type if isinstance(type_, ValueVariable) else type_)
        for name, type_ in outer_types.items()
        if isinstance(type_, NodeRef | EdgeRef | ValueVariable)
    )
    return NotExists(shared=shared, pattern=inner.pattern, origin=clause.span)
