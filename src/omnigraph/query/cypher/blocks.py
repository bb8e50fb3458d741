"""The clauses of `EXISTS { }`, `COUNT { }` and `COLLECT { }`, as the one pattern that a block of the plan has."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NoReturn

from omnigraph.lang.cypher import tree
from omnigraph.lang.query_ast import BlockKind
from omnigraph.query.cypher import values
from omnigraph.query.cypher.context import CypherContext
from omnigraph.query.cypher.elements import build_each
from omnigraph.query.cypher.expressions import ExpressionBinder
from omnigraph.query.cypher.folding import substitute
from omnigraph.query.cypher.mentions import has_aggregate
from omnigraph.query.cypher.optional import make_optional
from omnigraph.query.cypher.patterns import MatchBinder, join_late
from omnigraph.query.cypher.scope import ComputedVariable, CypherScope, CypherVariable, EntityVariable
from omnigraph.query.expr import Aggregate, Entity, Expr
from omnigraph.query.expr_tree import find_aggregates, find_variables, map_children
from omnigraph.query.logical_plan import EitherBlock, OptionalMatch, Pattern, SharedVariable, ValueBlock

if TYPE_CHECKING:
    from omnigraph.query.cypher.subqueries import SubqueryBinder

PLAIN_HELP = "write the clauses before the block, by `WITH`, or as a statement of its own"
_AGGREGATED_HELP = "in a block, a `WITH` with aggregates keeps variables of the outside only: `WITH n, count(*) AS c`"


@dataclass
class BlockBinder:
    """Bind the clauses of a block one after the other; `pattern` and `scope` are those after them."""

    subqueries: "SubqueryBinder"
    outer: ExpressionBinder
    expr: tree.Subquery
    scope: CypherScope = field(init=False)
    pattern: Pattern = field(default_factory=lambda: Pattern(nodes=()))
    conditions: list[Expr] = field(default_factory=list)
    """What has to hold of aggregates of the matches, beside that there is one."""

    def __post_init__(self) -> None:
        self.scope = self.outer.scope

    def bind(self, clause: tree.Clause) -> None:
        """Add a clause.

        Raises:
            RefusedError: It has a mistake, or the plan has no form for it; that was reported.
        """
        match clause:
            case tree.Match(optional=True):
                self._bind_optional(clause)
            case tree.Match():
                self._bind_match(clause)
            case tree.Unwind():
                self._bind_unwind(clause)
            case tree.With():
                self._bind_with(clause)
            case _:
                self._refuse()

    def refuse_after_aggregates(self) -> None:
        """Refuse what would read the rows of a `WITH` with aggregates."""
        if self.conditions:
            self.outer.refuse_form(
                self.expr.span, f"this block of `{self.expr.kind.value}` is not supported", _AGGREGATED_HELP
            )

    def _refuse(self) -> NoReturn:
        message = f"this block of `{self.expr.kind.value}` is not supported"
        self.outer.refuse_form(self.expr.span, message, PLAIN_HELP)

    def _add(self, pattern: Pattern) -> None:
        mine = self.pattern
        self.pattern = Pattern(
            nodes=(*mine.nodes, *pattern.nodes),
            hops=(*mine.hops, *pattern.hops),
            filters=(*mine.filters, *pattern.filters),
            blocks=(*mine.blocks, *pattern.blocks),
        )

    def _bind_match(self, clause: tree.Match) -> None:
        self.refuse_after_aggregates()
        # The hops of a pattern come before its optional blocks.
        if self.pattern.optional_variables:
            self._refuse()
        binder = MatchBinder(self.subqueries.context, self.subqueries)
        matched = binder.bind(clause, self.scope)
        self.scope = matched.scope
        self._add(join_late(matched))

    def _bind_optional(self, clause: tree.Match) -> None:
        self.refuse_after_aggregates()
        before = self.scope
        matched = MatchBinder(self.subqueries.context, self.subqueries).bind(clause, before)
        variables: dict[str, CypherVariable] = dict(before.variables)
        for name, variable in matched.scope.variables.items():
            if name not in before.variables:
                variables[name] = make_optional(variable, matched)
        self.scope = replace(before, variables=variables)
        pattern = join_late(matched)
        shared = self.subqueries.context.find_shared(pattern)
        block = OptionalMatch(shared=shared, pattern=pattern, origin=clause.span)
        self._add(Pattern(nodes=(), blocks=(block,)))

    def _bind_unwind(self, clause: tree.Unwind) -> None:
        self.refuse_after_aggregates()
        inner = self.outer.at(self.scope)
        source = inner.bind(clause.source)
        if not values.is_list(source):
            inner.refuse_type(clause.source.span, f"`UNWIND` needs a list, but this is {values.describe(source.type)}")
        self._add(Pattern(nodes=(), blocks=tuple(inner.blocks)))
        context = self.subqueries.context
        block, self.scope, _ = build_each(context, clause.variable.text, source, clause.source.span, self.scope)
        self._add(Pattern(nodes=(), blocks=(block,)))

    def _bind_with(self, clause: tree.With) -> None:
        self.refuse_after_aggregates()
        projection = clause.projection
        if projection.limit is not None or projection.skip is not None:
            self._refuse()
        inner = self.outer.at(self.scope)
        inner.allows_aggregates = True
        named = [(item.name, inner.bind(item.value)) for item in projection.items]
        self._add(Pattern(nodes=(), blocks=tuple(inner.blocks)))
        if projection.distinct:
            self._make_distinct([value for _, value in named], is_whole=projection.star)
        if any(find_aggregates(value) for _, value in named):
            named = self._fold(named)
        variables = dict(self.scope.variables) if projection.star else {}
        variables |= {name: self._name(value) for name, value in named}
        self.scope = replace(self.scope, variables=variables)
        if clause.where is None:
            return
        # A condition on aggregates is one on their values for each row of the outside.
        reader = self.outer if self.conditions else self.outer.at(self.scope)
        scope, reader.scope = reader.scope, self.scope
        condition = reader.bind_condition(clause.where)
        reader.scope = scope
        if self.conditions:
            self.conditions.append(condition)
        else:
            self._add(Pattern(nodes=(), filters=(condition,), blocks=tuple(reader.blocks)))

    def _make_distinct(self, bound: list[Expr], *, is_whole: bool) -> None:
        """Leave one match for each combination of nodes and relationships."""
        pattern = make_distinct(self.subqueries.context, self.pattern, bound)
        if pattern is None or is_whole:
            self._refuse()
        self.pattern = pattern

    def _name(self, value: Expr) -> CypherVariable:
        if isinstance(value, Entity):
            return EntityVariable(name=value.variable, type=value.type, nullable=value.nullable)
        return ComputedVariable(value=value)

    def _fold(self, named: list[tuple[str, Expr]]) -> list[tuple[str, Expr]]:
        """Return the values of a `WITH` with aggregates, each a value of a block for each row of the outside."""
        own = set(self.pattern.types)
        for _, value in named:
            if not find_aggregates(value) and own & set(find_variables(value)):
                self.outer.refuse_form(
                    value.origin, f"this block of `{self.expr.kind.value}` is not supported", _AGGREGATED_HELP
                )
        # A group exists only where there is a match; without keys there is always one.
        has_keys = any(not find_aggregates(value) for _, value in named)
        always = values.build_const(value=True, origin=self.expr.span)
        self.conditions.append(self._build(BlockKind.EXISTS, None) if has_keys else always)
        return [(name, _map_tree(value, self._fold_aggregate)) for name, value in named]

    def _fold_aggregate(self, part: Expr) -> Expr | None:
        if not isinstance(part, Aggregate):
            return None
        if part.fold.value not in {kind.value for kind in BlockKind} or part.distinct:
            self._refuse()
        return self._build(BlockKind(part.fold.value), part.argument)

    def _build(self, kind: BlockKind, value: Expr | None) -> Expr:
        exprs = () if value is None else (value,)
        shared = self.subqueries.context.find_shared(self.pattern, exprs)
        block = ValueBlock(
            variable="", kind=kind, shared=shared, pattern=self.pattern, value=value, origin=self.expr.span
        )
        return self.subqueries.add(block, self.outer)


def make_distinct(context: CypherContext, pattern: Pattern, bound: Sequence[Expr]) -> Pattern | None:
    """Return a pattern with one match for each combination of values; None if one is no node or relationship of it."""
    types = pattern.types
    variables: dict[str, SharedVariable] = {}
    for value in bound:
        # What the outside binds is the same in all matches.
        for name in find_variables(value):
            if name in types:
                if not isinstance(value, Entity):
                    return None
                variables[name] = SharedVariable(variable=name, type=types[name])
    shared = context.find_shared(pattern)
    if not variables and not shared:
        return None
    origin = bound[0].origin
    block = EitherBlock(shared=shared, alternatives=(pattern,), variables=tuple(variables.values()), origin=origin)
    return Pattern(nodes=(), blocks=(block,))


def merge_last(query: tree.Query) -> tree.Query:
    """Return a query whose last `WITH` is its `RETURN`, if it cuts or orders rows, which then only are returned."""
    ends_in_return = isinstance(query.clauses[-1], tree.Return)
    index = len(query.clauses) - (2 if ends_in_return else 1)
    last = query.clauses[index] if index >= 0 else None
    if not isinstance(last, tree.With) or last.where is not None or has_aggregate(last.projection.items):
        return query
    before, returned = last.projection, query.clauses[-1]
    is_plain = not (before.distinct or before.order or before.skip is not None or before.limit is not None)
    if is_plain or before.star:
        return query
    projection = before
    if isinstance(returned, tree.Return):
        after = returned.projection
        is_cut = after.distinct or after.order or after.skip is not None or after.limit is not None
        if is_cut or after.star or has_aggregate(after.items):
            return query
        names: dict[object, tree.Expr] = {
            tree.Variable(name=item.name, span=item.span): item.value for item in before.items
        }
        read = [item.value for item in after.items]
        if before.distinct and (len(set(read)) < len(names) or not all(value in names for value in read)):
            return query
        items = tuple(replace(item, value=substitute(item.value, names)) for item in after.items)
        projection = replace(before, items=items, order=substitute(before.order, names))
    merged = tree.Return(projection=projection, span=last.span)
    return replace(query, clauses=(*query.clauses[:index], merged))


def _map_tree(expr: Expr, change: Callable[[Expr], Expr | None]) -> Expr:
    """Return an expression with the parts replaced for which `change` returns another one."""
    changed = change(expr)
    return map_children(expr, lambda part: _map_tree(part, change)) if changed is None else changed
