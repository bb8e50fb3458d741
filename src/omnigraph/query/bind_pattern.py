"""Bind `match` to a pattern: the variables and types of a block first, then its predicates and inner blocks."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from omnigraph.lang import query_ast as ast
from omnigraph.lang.source import Span
from omnigraph.query.bind_each import EachBinder, find_each_clauses, find_element_types, widen_elements
from omnigraph.query.bind_expr import ExprBinder
from omnigraph.query.bind_hops import BoundWay, build_hop, build_type_filter
from omnigraph.query.bind_value_block import bind_value_block
from omnigraph.query.bind_ways import bind_way
from omnigraph.query.check_blocks import (
    check_alternative_types,
    check_optional_ends,
    find_test,
    is_isolated,
    report_isolated,
)
from omnigraph.query.expr import EdgeRef, Expr, ExprType, Identity, IsNull, NodeRef, Prop, ValueRef
from omnigraph.query.expr_tree import find_variables
from omnigraph.query.functions import CallContext
from omnigraph.query.logical_plan import (
    GENERATED_PREFIX,
    EitherBlock,
    Exists,
    NodeBinding,
    OptionalMatch,
    Pattern,
    PatternBlock,
    SharedVariable,
    ValueBlock,
    require_scores,
)
from omnigraph.query.pattern_scope import BlockDraft, BlockDrafter, NodeDraft
from omnigraph.query.resolution import note_property
from omnigraph.query.scope import (
    BrokenType,
    Params,
    ReadNameResolver,
    Scope,
    ValueVariable,
    VariableType,
    find_alternative_variables,
    iter_mentioned_variables,
    iter_names_bound_inside,
    report_unknown_property,
)
from omnigraph.query.union_types import is_part, list_members
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.findings import DiagnosticCollector

# The types that a variable can have by what is known outside of its clauses.
Hints = Mapping[str, frozenset[str]]


@dataclass(frozen=True)
class BoundMatch:
    """A bound block: its scope, its variables in order of appearance, and its pattern; None if there is an error."""

    scope: Scope
    order: tuple[str, ...]
    base: Pattern | None
    lifter: "_Lifter"

    @property
    def pattern(self) -> Pattern | None:
        """The pattern, with the blocks in all expressions that were bound in this scope so far."""
        if self.base is None:
            return None
        return replace(self.base, blocks=(*self.base.blocks, *self.lifter.blocks))


@dataclass
class _Lifter:
    """Lifts blocks out of the expressions of one scope: each becomes a variable of its pattern."""

    drafter: BlockDrafter
    scope: Scope | None = None
    # Equal blocks are solved once; equality ignores where they stand.
    lifted: dict[ast.Block, ValueBlock | None] = field(default_factory=dict)

    @property
    def blocks(self) -> tuple[ValueBlock, ...]:
        """The lifted blocks without errors, in order of appearance."""
        return tuple(block for block in self.lifted.values() if block is not None)

    def lift(self, node: ast.Block) -> Expr | None:
        """Return the value of a block; see `scope.BlockLifter`."""
        if node not in self.lifted:
            self.lifted[node] = self._bind(node)
        block = self.lifted[node]
        if block is None:
            return None
        return ValueRef(variable=block.variable, type=block.type, nullable=block.nullable, origin=node.span)

    def list_types(self) -> dict[str, ExprType]:
        """Return the types of the lifted values, by the names of their variables."""
        return {block.variable: block.type for block in self.blocks}

    def bind_elements(self, elements: EachBinder, scope: Scope) -> Scope:
        """Bind the lists whose variables are known by now; blocks inside them see the scope as it is so far."""
        self.scope = scope
        return elements.bind_ready(scope)

    def _bind(self, node: ast.Block) -> ValueBlock | None:
        assert self.scope is not None  # noqa: S101 - set as soon as the scope is built
        findings = self.drafter.findings
        inner = _bind_block(node.clauses, self.scope, self.drafter)
        draft = bind_value_block(node, inner.scope, inner.order, findings)
        shared = _find_shared(node, self.scope)
        if node.kind is ast.BlockKind.EXISTS and is_isolated(node.clauses, self.scope, inner.order):
            report_isolated("exists", node.span, findings)
            return None
        pattern = inner.pattern
        if pattern is None or draft is None or findings:
            return None
        return ValueBlock(
            variable=next(self.drafter.generated_names),
            kind=node.kind,
            shared=shared,
            pattern=require_scores(pattern, draft.order),
            value=draft.value,
            distinct=draft.distinct,
            order=draft.order,
            ties=draft.ties,
            limit=draft.limit,
            origin=node.span,
        )


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


# --- blocks ----------------------------------------------------------------------------------------


def _bind_block(
    clauses: tuple[ast.Clause, ...], outer: Scope | None, drafter: BlockDrafter, hints: Hints | None = None
) -> BoundMatch:
    eithers = [clause for clause in clauses if isinstance(clause, ast.Either)]
    known = {**(hints or {}), **_find_hints(eithers, clauses, outer, drafter)}
    draft = drafter.draft(clauses, outer, {**known, **_find_element_hints(clauses, outer, drafter, known)})
    late = _find_late_variables(eithers, clauses, outer)
    types: dict[str, VariableType] = {name: type_ for name, type_ in draft.types.items() if name not in late}
    ways = [
        bind_way(
            drafted,
            drafter,
            {name: _find_type(name, draft, outer) for name in (drafted.hop.source, drafted.hop.target)},
        )
        for drafted in draft.hops
    ]
    types |= _collect_walk_types(ways)
    lifter = _Lifter(drafter)
    # Names that only inner blocks bind: a use of one here gets its own help.
    hidden = frozenset(iter_names_bound_inside(clauses)) - types.keys()
    lets = frozenset(clause.variable.name for clause in clauses if isinstance(clause, ast.Let))
    scope = Scope(drafter.catalog, drafter.params, types, hidden, outer, lifter=lifter, lets=lets)
    order = {name: span for name, span in draft.order.items() if name in types}
    blocks: list[PatternBlock] = []
    elements = EachBinder(drafter, draft, lifter.list_types, find_each_clauses(clauses))
    scope = lifter.bind_elements(elements, scope)
    waiting = [(clause, late & _find_read_names(clause)) for clause in eithers]
    while waiting:
        clause = _take_ready(waiting, scope)
        scope, block = _bind_either(clause, scope, drafter, draft.types)
        order |= {variable.name: variable.span for variable in find_alternative_variables(clause)}
        blocks += [block] if block is not None else []
        scope = lifter.bind_elements(elements, scope)
    check_optional_ends(clauses, draft, drafter.findings)
    for optional in clauses:
        if isinstance(optional, ast.OptionalBlock):
            scope, left_join = _bind_optional(optional, scope, drafter, order)
            blocks += [left_join] if left_join is not None else []
            scope = lifter.bind_elements(elements, scope)
    scope = elements.bind_rest(scope)
    blocks += elements.blocks
    order |= elements.order
    lifter.scope = scope
    pattern = _bind_conditions(clauses, draft, ways, scope, drafter, blocks, late)
    appearance = tuple(sorted((name for name in order if scope.find(name) is not None), key=lambda name: order[name]))
    return BoundMatch(scope, appearance, pattern, lifter)


def _bind_conditions(
    clauses: tuple[ast.Clause, ...],
    draft: BlockDraft,
    ways: Sequence[BoundWay],
    scope: Scope,
    drafter: BlockDrafter,
    blocks: list[PatternBlock],
    late: frozenset[str],
) -> Pattern | None:
    """Bind the predicates and tests of a block, and build its pattern; None if there is an error."""
    binder = ExprBinder(ReadNameResolver(scope, drafter.findings), drafter.findings, scope.lifter)
    own = {name: type_ for name, type_ in draft.types.items() if name not in late}
    filters: dict[str, list[Expr]] = {name: [] for name in own}
    block_filters: list[Expr] = _build_null_guards(draft, scope)
    for node in draft.nodes:
        # A variable of an outer block has no binding in this pattern, so its filters belong to the block; and so do
        # filters that read another variable too.
        for condition in _bind_brace_filters(node, binder, drafter, scope):
            is_own = find_variables(condition) == (node.variable,)
            target = filters.get(node.variable, block_filters) if is_own else block_filters
            target.append(condition)
    for clause in clauses:
        if isinstance(clause, ast.Where):
            test = _bind_tests(clause.predicate, scope, drafter)
            if test is not None:
                blocks.extend(test)
                continue
            _hint_at_hop(clause.predicate, scope, drafter.findings)
            predicate = binder.bind_predicate(clause.predicate)
            block_filters += [predicate] if predicate is not None else []
        elif isinstance(clause, ast.NotBlock):
            keyword = Span(clause.span.start, clause.span.start + len("not"))
            block = _bind_test(clause.clauses, clause.span, keyword, scope, drafter, negated=True)
            blocks += [block] if block is not None else []
        elif isinstance(clause, ast.Let):
            _check_let(clause, scope, drafter)
    # Plan nodes reject invalid input, so they are built only if the whole query is correct so far.
    if drafter.findings:
        return None
    nodes = tuple(
        NodeBinding(variable=name, type=type_, filters=tuple(filters[name]), origin=draft.order[name])
        for name, type_ in own.items()
        if isinstance(type_, NodeRef)
    )
    hops = tuple(
        build_hop(drafted, scope, way) for drafted, way in zip(draft.hops, ways, strict=True) if drafted.hop.edges
    )
    return Pattern(nodes=nodes, hops=hops, filters=tuple(block_filters), blocks=tuple(blocks))


def _build_null_guards(draft: BlockDraft, scope: Scope) -> list[Expr]:
    """Return conditions that nothing matches from a variable that is null: one that is bound or a hop's end here."""
    ends = [(node.variable, node.clause.span) for node in draft.nodes]
    for drafted in draft.hops:
        ends += [(drafted.hop.source, drafted.hop.clause.span), (drafted.hop.target, drafted.hop.clause.span)]
    guards: dict[Expr, None] = {}
    for name, span in ends:
        if name not in scope.variables and scope.is_nullable(name):
            identity = Identity(variable=name, nullable=True, origin=span)
            guards[IsNull(operand=identity, negated=True, origin=span)] = None
    return list(guards)


def _check_let(clause: ast.Let, scope: Scope, drafter: BlockDrafter) -> None:
    """Bind an abbreviation on its own, for its errors alone: its uses are replaced by its expression."""
    # A lifter of its own, so that the pattern does not solve blocks that nothing uses.
    lifter = _Lifter(drafter, scope)
    binder = ExprBinder(ReadNameResolver(scope, drafter.findings), drafter.findings, lifter)
    binder.bind_value(clause.value, CallContext.OPERAND)


# --- tests -----------------------------------------------------------------------------------------


def _bind_tests(predicate: ast.Expr, scope: Scope, drafter: BlockDrafter) -> list[PatternBlock] | None:
    """Bind a condition that is an `exists` block, or `not` one; None if it is any other."""
    test = find_test(predicate)
    if test is None:
        return None
    node, negated = test
    keyword = Span(node.span.start, node.span.start + len("exists"))
    block = _bind_test(node.clauses, node.span, keyword, scope, drafter, negated=negated, node=node)
    return [] if block is None else [block]


def _bind_test(
    clauses: tuple[ast.Clause, ...],
    span: Span,
    keyword: Span,
    scope: Scope,
    drafter: BlockDrafter,
    *,
    negated: bool,
    node: ast.Block | None = None,
) -> Exists | None:
    inner = _bind_block(clauses, scope, drafter)
    if node is not None:
        # What an `exists` returns has no influence, but must be right.
        bind_value_block(node, inner.scope, inner.order, drafter.findings)
    if is_isolated(clauses, scope, inner.order):
        report_isolated("not" if node is None else "exists", keyword, drafter.findings)
        return None
    pattern = inner.pattern
    if pattern is None or drafter.findings:
        return None
    return Exists(shared=_find_shared_names(clauses, scope), pattern=pattern, negated=negated, origin=span)


# --- optional and either -----------------------------------------------------------------------------


def _bind_optional(
    clause: ast.OptionalBlock, scope: Scope, drafter: BlockDrafter, order: dict[str, Span]
) -> tuple[Scope, OptionalMatch | None]:
    """Bind an optional block; the scope that is returned has its variables too, and `order` gets them."""
    inner = _bind_block(clause.clauses, scope, drafter)
    order |= dict.fromkeys(inner.order, clause.span)
    # Reversed, so that the first place of a name stays.
    for variable in reversed(list(iter_mentioned_variables(clause.clauses))):
        if variable.name in inner.scope.variables:
            order[variable.name] = variable.span
    variables = {**scope.variables, **inner.scope.variables}
    optional = scope.optional | inner.scope.variables.keys()
    hidden = scope.hidden - inner.scope.variables.keys()
    elements = scope.elements | inner.scope.elements
    wider = replace(scope, variables=variables, optional=optional, hidden=hidden, elements=elements)
    keyword = Span(clause.span.start, clause.span.start + len("optional"))
    if is_isolated(clause.clauses, scope, inner.order):
        report_isolated("optional", keyword, drafter.findings)
        return wider, None
    if not inner.scope.variables and not drafter.findings:
        message = "this `optional` block binds no variable of its own, so it changes nothing"
        help_ = "write `exists { … }` to test it, or drop it"
        drafter.findings.add_error("T9", keyword, message, help_)
    pattern = inner.pattern
    if pattern is None or drafter.findings:
        return wider, None
    shared = _find_shared_names(clause.clauses, scope)
    return wider, OptionalMatch(shared=shared, pattern=pattern, origin=clause.span)


def _take_ready(waiting: list[tuple[ast.Either, frozenset[str]]], scope: Scope) -> ast.Either:
    """Remove and return the first block that reads no variable that another one has yet to bind.

    So the order in the text has no meaning.
    """
    ready = (n for n, (_, names) in enumerate(waiting) if all(scope.find(name) is not None for name in names))
    # Blocks that read each other's variables can't be solved; the first one reports what it does not find.
    clause, _ = waiting.pop(next(ready, 0))
    return clause


def _find_read_names(clause: ast.Either) -> frozenset[str]:
    """Return the variables that an `either` mentions and does not bind itself in all alternatives."""
    return frozenset(variable.name for variable in iter_mentioned_variables((clause,))) - _find_own_names(clause)


def _find_own_names(clause: ast.Either) -> frozenset[str]:
    return frozenset(variable.name for variable in find_alternative_variables(clause))


def _bind_either(
    clause: ast.Either, scope: Scope, drafter: BlockDrafter, types: Mapping[str, VariableType]
) -> tuple[Scope, EitherBlock | None]:
    """Bind the alternatives of an `either`; the scope that is returned has the variables that all of them bind."""
    names = [variable.name for variable in find_alternative_variables(clause) if scope.find(variable.name) is None]
    known = {
        name: frozenset(list_members(type_.name)) for name in names if isinstance(type_ := types.get(name), NodeRef)
    }
    inner = [_bind_block(clauses, scope, drafter, known) for clauses in clause.alternatives]
    bound = check_alternative_types(clause, names, [each.scope for each in inner], drafter.findings)
    # A hop outside may lead to more types than the alternatives bind; its end has one type everywhere.
    bound |= {name: types[name] for name, type_ in bound.items() if name in types and is_part(type_, types[name])}
    wider = replace(scope, variables={**scope.variables, **bound}, hidden=scope.hidden - set(names))
    every = tuple(each for clauses in clause.alternatives for each in clauses)
    shared = _find_shared_names(every, scope)
    patterns = [each.pattern for each in inner]
    variables = tuple(
        SharedVariable(variable=name, type=type_.type if isinstance(type_, ValueVariable) else type_)
        for name, type_ in bound.items()
        if not isinstance(type_, BrokenType)
    )
    if not shared and not bound:
        message = "the alternatives of this `either` have no variable in common, and none with the clauses around it"
        keyword = Span(clause.span.start, clause.span.start + len("either"))
        drafter.findings.add_error("T9", keyword, message, "bind one variable in all of them")
    elements = {each.variable: each.type for each in variables if not isinstance(each.type, NodeRef | EdgeRef)}
    alternatives = tuple(widen_elements(pattern, elements) for pattern in patterns if pattern is not None)
    if drafter.findings or len(alternatives) < len(patterns):
        return wider, None
    return wider, EitherBlock(shared=shared, alternatives=alternatives, variables=variables, origin=clause.span)


def _find_hints(
    eithers: Sequence[ast.Either], clauses: tuple[ast.Clause, ...], outer: Scope | None, drafter: BlockDrafter
) -> Hints:
    """Return the types that the alternatives give to their variables, for the hops outside that lead to these."""
    hints: dict[str, frozenset[str]] = {}
    if not eithers:
        return hints
    # Drafted on the side: what is wrong is reported when the alternatives are bound.
    scratch = replace(drafter, findings=DiagnosticCollector(), generated_names=generate_names())
    around = scratch.find_choices(clauses, outer)
    for clause in eithers:
        drafts = [scratch.draft(alternative, outer, around) for alternative in clause.alternatives]
        for variable in find_alternative_variables(clause):
            types = [draft.types.get(variable.name) for draft in drafts]
            nodes = [type_ for type_ in types if isinstance(type_, NodeRef)]
            decided = frozenset(member for node in nodes for member in list_members(node.name))
            if decided:
                hints[variable.name] = decided
    return hints


def _find_element_hints(
    clauses: tuple[ast.Clause, ...], outer: Scope | None, drafter: BlockDrafter, known: Hints
) -> Hints:
    """Return the types of the elements of lists that are nodes, for the hops that lead to these."""
    names = {clause.variable.name for clause in find_each_clauses(clauses)}
    hops = [clause for clause in clauses if isinstance(clause, ast.TraversalClause)]
    if not any(end.name in names for hop in hops for end in (hop.source, hop.target)):
        return {}
    # Drafted on the side, without the elements: what is wrong is reported when the clauses are bound.
    scratch = replace(drafter, findings=DiagnosticCollector(), generated_names=generate_names())
    draft = scratch.draft(clauses, outer, known)
    types = {name: type_ for name, type_ in draft.types.items() if name not in names}
    lifter = _Lifter(scratch)
    scope = Scope(scratch.catalog, scratch.params, types, outer=outer, lifter=lifter)
    lifter.scope = scope
    return find_element_types(clauses, scope, scratch, draft, lifter.list_types)


def _find_late_variables(
    eithers: Iterable[ast.Either], clauses: tuple[ast.Clause, ...], outer: Scope | None
) -> frozenset[str]:
    """Return the variables that alternatives bind: those that no clause around them binds but as an end of a hop.

    Those that lists bind are late too, whatever other clauses say about them.
    """
    bound = {clause.variable.name for clause in clauses if isinstance(clause, ast.Binding)}
    names = {name for clause in eithers for name in _find_own_names(clause)} - bound
    names |= {clause.variable.name for clause in find_each_clauses(clauses)}
    return frozenset(name for name in names if outer is None or outer.find(name) is None)


# --- shared variables --------------------------------------------------------------------------------


def _find_shared(node: ast.Block, scope: Scope) -> tuple[SharedVariable, ...]:
    """Return the variables of outer blocks that a block reads, those of its value and order included."""
    return _build_shared(_iter_block_names(node), scope)


def _find_shared_names(clauses: Iterable[ast.Clause], scope: Scope) -> tuple[SharedVariable, ...]:
    return _build_shared((variable.name for variable in iter_mentioned_variables(clauses)), scope)


def _iter_block_names(node: ast.Block) -> Iterator[str]:
    predicate = ast.Where(predicate=node, span=node.span)
    return (variable.name for variable in iter_mentioned_variables((predicate,)))


def _build_shared(names: Iterable[str], scope: Scope) -> tuple[SharedVariable, ...]:
    outer_types = {name: scope.find(name) for name in dict.fromkeys(names) if name not in scope.params}
    values = {name: type_.type for name, type_ in outer_types.items() if isinstance(type_, ValueVariable)}
    entities = {name: type_ for name, type_ in outer_types.items() if isinstance(type_, NodeRef | EdgeRef)}
    types: dict[str, ExprType] = {**entities, **values}
    return tuple(SharedVariable(variable=name, type=types[name]) for name in outer_types if name in types)


# --- conditions --------------------------------------------------------------------------------------


def _hint_at_hop(predicate: ast.Expr, scope: Scope, findings: DiagnosticCollector) -> None:
    """Report `$a in $b` with an unbound `$b` as a hop without quotes, if there is an edge of that name."""
    match predicate:
        case ast.Compare(left=ast.Variable(name=left), right=ast.Variable(name=right)) if (
            scope.catalog.find_edge(predicate.op.value) and right not in scope.params and scope.find(right) is None
        ):
            hop = f'${left} "{predicate.op.value}" ${right}'
            help_ = f"an edge with a reserved word as its name is written in quotes: `{hop}`"
            findings.add_error("T6", predicate.right.span, f"`${right}` is not bound", help_)
        case ast.Compare(op=ast.CompareOp.EQ, left=ast.Variable(name=left)) if (
            left not in scope.params
            and scope.find(left) is None
            and not scope.is_let(left)
            and left not in scope.hidden
        ):
            help_ = f"an abbreviation is written `let ${left} = …`"
            findings.add_error("T6", predicate.left.span, f"`${left}` is not bound", help_)
        case _:
            pass


def _bind_brace_filters(node: NodeDraft, binder: ExprBinder, drafter: BlockDrafter, scope: Scope) -> list[Expr]:
    predicates: list[Expr] = []
    type_ = scope.find(node.variable)
    declared_type = scope.get_type(type_) if isinstance(type_, NodeRef) else None
    narrowing = build_type_filter(node, type_)
    if narrowing is not None:
        predicates.append(narrowing)
    for assignment in node.clause.filters:
        declared = None if declared_type is None else declared_type.find_property(assignment.name.text)
        if declared is None:
            if declared_type is not None:
                report_unknown_property(
                    assignment.name, declared_type, drafter.findings, catalog=scope.catalog, is_in_braces=True
                )
            if isinstance(assignment.value, ast.Variable):
                # Resolved for its diagnostics: an undeclared parameter is a separate error.
                binder.names.resolve(assignment.value)
            continue
        if declared_type is not None:
            note_property(assignment.name.span, list_members(declared_type.name))
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


def _find_type(name: str, draft: BlockDraft, outer: Scope | None) -> VariableType | None:
    if name in draft.types or outer is None:
        return draft.types.get(name)
    return outer.find(name)


def _collect_walk_types(ways: Iterable[BoundWay]) -> dict[str, VariableType]:
    """Return the types of the variables of paths; those with an error are broken already."""
    walks = (way.walk for way in ways)
    return {walk.variable: ValueVariable(walk.type, nullable=False) for walk in walks if walk is not None}
