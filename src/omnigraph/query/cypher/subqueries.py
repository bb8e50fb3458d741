"""Expressions with matches of their own, as blocks of the plan: tests, counts, lists, quantifiers, sums."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from omnigraph.lang.cypher import tree
from omnigraph.lang.query_ast import BlockKind
from omnigraph.lang.source import Span
from omnigraph.query.counts import fold_number, is_calculated
from omnigraph.query.cypher import values
from omnigraph.query.cypher.blocks import PLAIN_HELP, BlockBinder, make_distinct, merge_last
from omnigraph.query.cypher.context import CypherContext
from omnigraph.query.cypher.elements import build_each
from omnigraph.query.cypher.expressions import ExpressionBinder
from omnigraph.query.cypher.lists import ENTITY_NULLS_HELP, build_list_key, has_entities, join
from omnigraph.query.cypher.mentions import has_aggregate
from omnigraph.query.cypher.patterns import MatchBinder, join_late
from omnigraph.query.cypher.scope import ComputedVariable
from omnigraph.query.expr import (
    ArrayOf,
    Case,
    Computed,
    Const,
    EdgeRef,
    Entity,
    Expr,
    IsNull,
    NodeRef,
    Not,
    Op,
    Or,
    OrderTerm,
    ParamRef,
    RecordExpr,
    ShapedType,
    ValueRef,
    is_whole,
)
from omnigraph.query.expr_tree import list_children as list_parts
from omnigraph.query.group_plan import is_compared
from omnigraph.query.logical_plan import Count, Pattern, ValueBlock, build_identity
from omnigraph.query.scalar_functions import ScalarFunction
from omnigraph.schema.types import ListOf, Scalar

if TYPE_CHECKING:
    from omnigraph.lang.literals import Name


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Which values a list takes, and in which order."""

    order: tuple[OrderTerm, ...] = ()
    ties: tuple[Expr, ...] = ()
    distinct: bool = False
    limit: Count | None = None


@dataclass
class SubqueryBinder:
    """Bind the parts of expressions that have matches of their own."""

    context: CypherContext

    # --- patterns ----------------------------------------------------------------------------------

    def bind_test(self, expr: tree.PatternPredicate, binder: ExpressionBinder) -> Expr:
        """Return whether a pattern has a match."""
        if expr.pattern.kind is not tree.PathKind.ALL:
            binder.refuse_form(expr.span, "a shortest path is no value", "name it in a `MATCH`: `p = shortestPath(…)`")
        names: list[Name | None] = [each.variable for each in expr.pattern.nodes]
        names += [each.variable for each in expr.pattern.relationships]
        for name in names:
            if name is not None and binder.scope.find(name.text) is None:
                help_ = "a pattern that is a condition binds nothing: leave the name out, or use `EXISTS { }`"
                self.context.findings.refuse("C004", name.span, f"`{name.text}` is not defined", help_)
        if not binder.is_condition:
            help_ = "a pattern is a condition: `WHERE (a)-->(b)`; as a value, write `EXISTS { (a)-->(b) }`"
            binder.refuse_type(expr.span, "a pattern is no value", help_)
        match = tree.Match(patterns=(expr.pattern,), where=None, span=expr.span)
        return self._bind_matches(match, BlockKind.EXISTS, binder, expr.span)

    def bind_subquery(self, expr: tree.Subquery, binder: ExpressionBinder) -> Expr:
        """Return the value of `EXISTS { }`, `COUNT { }` or `COLLECT { }`."""
        kind = BlockKind[expr.kind.value]
        queries = [merge_last(query) for query in expr.statement.queries]
        if len(queries) > 1 and expr.statement.distinct and kind is not BlockKind.EXISTS:
            return self._unite_distinct(expr, queries, kind, binder)
        values_of = [self._bind_query(expr, query, kind, binder) for query in queries]
        if len(values_of) == 1:
            return values_of[0]
        return self._unite(expr, values_of, binder)

    def _bind_query(self, expr: tree.Subquery, query: tree.Query, kind: BlockKind, binder: ExpressionBinder) -> Expr:
        """Return the value of the clauses between two `UNION` of a block."""
        last = query.clauses[-1]
        returned = last.projection if isinstance(last, tree.Return) else None
        block = BlockBinder(self, binder, expr)
        for clause in query.clauses if returned is None else query.clauses[:-1]:
            block.bind(clause)
        if block.conditions:
            if kind is not BlockKind.EXISTS or (returned is not None and has_aggregate(returned.items)):
                block.refuse_after_aggregates()
            return values.build_and(block.conditions, expr.span)
        inner = binder.at(block.scope)
        if returned is None:
            return self._bind_pattern(block.pattern, kind, binder, expr.span)
        return self._bind_returned(block.pattern, returned, kind, binder, inner, expr)

    def _unite(self, expr: tree.Subquery, united: list[Expr], binder: ExpressionBinder) -> Expr:
        """Return the value of a block with `UNION`."""
        if expr.kind is tree.SubqueryKind.EXISTS:
            return Or(terms=tuple(united), origin=expr.span)
        whole = united[0]
        for each in united[1:]:
            if expr.kind is tree.SubqueryKind.COUNT:
                whole = binder.compute(ScalarFunction.ADD, (whole, each), Scalar.I64, expr.span, can_fail=False)
            else:
                whole = join(binder, whole, each, expr.span)
        return whole

    def _unite_distinct(
        self, expr: tree.Subquery, queries: list[tree.Query], kind: BlockKind, binder: ExpressionBinder
    ) -> Expr:
        """Return the distinct values of a block with `UNION`, or how many there are."""
        listed = [self._list_values(expr, query, kind, binder) for query in queries]
        whole = listed[0]
        for each in listed[1:]:
            whole = join(binder, whole, each, expr.span)
        distinct = binder.compute(ScalarFunction.UNIQUE, (whole,), whole.type, expr.span, can_fail=False)
        if kind is BlockKind.COLLECT:
            return distinct
        return binder.compute(ScalarFunction.SIZE, (distinct,), Scalar.I64, expr.span, can_fail=False)

    def _list_values(self, expr: tree.Subquery, query: tree.Query, kind: BlockKind, binder: ExpressionBinder) -> Expr:
        """Return the list of what a part of a `UNION` returns; to be counted, nodes are their ids with types."""
        block = BlockBinder(self, binder, expr)
        last = query.clauses[-1]
        projection = last.projection if isinstance(last, tree.Return) else None
        is_cut = projection is not None and (projection.skip is not None or projection.limit is not None)
        is_single = projection is not None and len(projection.items) == 1 and not projection.star
        if projection is None or is_cut or not is_single or has_aggregate(projection.items):
            help_ = "return one value in each part, without `SKIP` and `LIMIT`, or write `UNION ALL`"
            binder.refuse_form(expr.span, f"this `UNION` in a block of `{expr.kind.value}` is not supported", help_)
        for clause in query.clauses[:-1]:
            block.bind(clause)
        block.refuse_after_aggregates()
        inner = binder.at(block.scope)
        value = inner.bind(projection.items[0].value)
        if kind is BlockKind.COUNT and isinstance(value.type, NodeRef | EdgeRef):
            value = values.build_element_id(value, value.origin)
        if values.is_null(value) or isinstance(value.type, ShapedType | ListOf):
            help_ = "return a property, or write `UNION ALL`"
            message = f"`UNION` of {values.describe(value.type)} in a block is not supported"
            binder.refuse_form(expr.span, message, help_)
        return self._collect(block.pattern, inner, value, binder, expr.span)

    def bind_pattern_list(self, expr: tree.PatternComprehension, binder: ExpressionBinder) -> Expr:
        """Return the list of a pattern comprehension."""
        match = tree.Match(patterns=(expr.pattern,), where=expr.where, span=expr.span)
        pattern, inner = self._match(match, binder)
        value = inner.bind(expr.value)
        return self._collect(pattern, inner, value, binder, expr.span)

    def _match(self, match: tree.Match, binder: ExpressionBinder) -> tuple[Pattern, ExpressionBinder]:
        """Return the pattern of a block and a binder for what reads its matches."""
        matched = MatchBinder(self.context, self).bind(match, binder.scope)
        inner = binder.at(matched.scope)
        return join_late(matched), inner

    def _bind_matches(self, match: tree.Match, kind: BlockKind, binder: ExpressionBinder, span: Span) -> Expr:
        pattern, _ = self._match(match, binder)
        return self.add(
            ValueBlock(variable="", kind=kind, shared=self.context.find_shared(pattern), pattern=pattern, origin=span),
            binder,
        )

    def _bind_pattern(self, pattern: Pattern, kind: BlockKind, binder: ExpressionBinder, span: Span) -> Expr:
        block = ValueBlock(
            variable="", kind=kind, shared=self.context.find_shared(pattern), pattern=pattern, origin=span
        )
        return self.add(block, binder)

    def _bind_returned(
        self,
        pattern: Pattern,
        projection: tree.Projection,
        kind: BlockKind,
        binder: ExpressionBinder,
        inner: ExpressionBinder,
        expr: tree.Subquery,
    ) -> Expr:
        """Return the value of a block with a `RETURN`."""
        span = expr.span
        message = f"this `RETURN` of a block of `{expr.kind.value}` is not supported"
        skip = _read_count(projection.skip, binder)
        is_last = kind is BlockKind.COLLECT and not skip
        cut = _read_cut(projection.limit, binder) if is_last else None
        limit = None if cut is not None else _read_count(projection.limit, binder)
        if has_aggregate(projection.items):
            binder.refuse_form(span, message, PLAIN_HELP)
        is_single = len(projection.items) == 1 and not projection.star
        if kind is not BlockKind.COLLECT and not projection.distinct:
            # Bound for its mistakes: the rows are as many as the matches, whatever they return.
            for item in projection.items:
                inner.bind(item.value)
            return self._cut_count(self._bind_pattern(pattern, kind, binder, span), kind, skip, limit, binder, span)
        if kind is BlockKind.EXISTS and not skip:
            return self._bind_pattern(pattern, kind, binder, span)
        if not is_single and kind is BlockKind.COUNT:
            bound = [inner.bind(item.value) for item in projection.items]
            distinct = None if projection.star or inner.blocks else make_distinct(self.context, pattern, bound)
            if distinct is not None:
                counted = self._bind_pattern(distinct, kind, binder, span)
                return self._cut_count(counted, kind, skip, limit, binder, span)
        if not is_single:
            binder.refuse_form(span, message, "return one value")
        value = inner.bind(projection.items[0].value)
        if kind is not BlockKind.COLLECT:
            counted = self._count_distinct(pattern, inner, value, binder, expr)
            return self._cut_count(counted, kind, skip, limit, binder, span)
        alias = projection.items[0].name
        inner.scope = inner.scope.add(alias, ComputedVariable(value=value))
        order = build_order(projection.order, inner)
        if projection.distinct and any(value not in (term.value, *list_parts(term.value)) for term in order):
            binder.refuse_form(span, message, "order distinct values by themselves")
        chosen = _Chosen(order=order, distinct=projection.distinct, limit=cut)
        whole = self._collect(pattern, inner, value, binder, span, chosen)
        if skip or limit is not None:
            start = values.build_const(skip or 0, span)
            arguments = (whole, start) if limit is None else (whole, start, values.build_const(limit, span))
            return binder.compute(ScalarFunction.SLICE, arguments, whole.type, span, can_fail=False)
        return whole

    def _count_distinct(
        self, pattern: Pattern, inner: ExpressionBinder, value: Expr, binder: ExpressionBinder, expr: tree.Subquery
    ) -> Expr:
        if isinstance(value, Entity):
            value = build_identity(value)
        if value.nullable or not is_compared(value):
            help_ = "count values that are never null: `WHERE … IS NOT NULL`"
            binder.refuse_form(expr.span, "this `RETURN DISTINCT` of a block is not supported", help_)
        pattern = replace(pattern, blocks=(*pattern.blocks, *inner.blocks))
        shared = self.context.find_shared(pattern, (value,))
        block = ValueBlock(
            variable="",
            kind=BlockKind.COUNT,
            shared=shared,
            pattern=pattern,
            value=value,
            distinct=True,
            origin=expr.span,
        )
        return self.add(block, binder)

    def _cut_count(
        self,
        value: Expr,
        kind: BlockKind,
        skip: int | None,
        limit: int | None,
        binder: ExpressionBinder,
        span: Span,
    ) -> Expr:
        """Return a count, or whether there is a row, after `SKIP` and `LIMIT`."""
        if kind is BlockKind.EXISTS:
            if skip:
                help_ = "compare the number of rows: `COUNT { … } > 2`"
                binder.refuse_form(span, "`SKIP` in a block of `EXISTS` is not supported", help_)
            return values.build_const(value=False, origin=span) if limit == 0 else value
        zero = values.build_const(0, span)
        if skip:
            less = (value, values.build_const(skip, span))
            value = binder.compute(ScalarFunction.SUBTRACT, less, Scalar.I64, span, can_fail=False)
            value = binder.compute(ScalarFunction.GREATEST, (value, zero), Scalar.I64, span, can_fail=False)
        if limit is not None:
            most = values.build_const(limit, span)
            value = binder.compute(ScalarFunction.LEAST, (value, most), Scalar.I64, span, can_fail=False)
        return value

    def _collect(
        self,
        pattern: Pattern,
        inner: ExpressionBinder,
        value: Expr,
        binder: ExpressionBinder,
        span: Span,
        chosen: "_Chosen | None" = None,
    ) -> Expr:
        chosen = _Chosen() if chosen is None else chosen
        if isinstance(value.type, NodeRef | EdgeRef) and value.nullable:
            message = "a list of nodes or relationships that may be null is not supported"
            binder.refuse_form(span, message, ENTITY_NULLS_HELP)
        pattern = replace(pattern, blocks=(*pattern.blocks, *inner.blocks))
        exprs = (value, *(term.value for term in chosen.order), *chosen.ties)
        block = ValueBlock(
            variable="",
            kind=BlockKind.COLLECT,
            shared=self.context.find_shared(pattern, exprs),
            pattern=pattern,
            value=value,
            distinct=chosen.distinct,
            order=chosen.order,
            ties=chosen.ties,
            limit=chosen.limit,
            keeps_nulls=value.nullable,
            origin=span,
        )
        return self.add(block, binder)

    def add(self, block: ValueBlock, binder: ExpressionBinder) -> Expr:
        """Add a block to those of a place, and return its value."""
        block = replace(block, variable=self.context.declare(None, block.type))
        binder.blocks.append(block)
        if block.kind is BlockKind.COLLECT and not block.keeps_nulls:
            self.context.full_lists.add(block.variable)
        return ValueRef(variable=block.variable, type=block.type, nullable=block.nullable, origin=block.origin)

    # --- lists -------------------------------------------------------------------------------------

    def bind_list(self, expr: tree.ListComprehension, binder: ExpressionBinder) -> Expr:
        """Return the list of a list comprehension, in the order of its source."""
        source = binder.bind(expr.source)
        if values.is_null(source):
            return values.build_unknown(expr.span)
        pattern, inner, position = self._each(expr.variable.text, source, expr.source.span, binder)
        if expr.where is not None:
            condition = inner.bind_condition(expr.where)
            pattern = replace(pattern, filters=(condition,), blocks=(*pattern.blocks, *inner.blocks))
            inner.blocks = []
        if values.is_empty_list(source):
            return source
        element = tree.Variable(name=expr.variable.text, span=expr.variable.span)
        value = inner.bind(element if expr.value is None else expr.value)
        listed = self._collect(pattern, inner, value, binder, expr.span, _Chosen(ties=(position,)))
        return _null_where_null(source, listed, expr.span)

    def bind_quantifier(self, expr: tree.Quantifier, binder: ExpressionBinder) -> Expr:
        """Return whether elements of a list fulfil a condition, in three-valued logic."""
        source = binder.bind(expr.source)
        if values.is_null(source):
            return values.build_unknown(expr.span)
        # Three counts decide every quantifier, also where conditions are unknown.
        counts: dict[str, Expr] = {}
        for name in ("true", "false", "unknown"):
            pattern, inner, _ = self._each(expr.variable.text, source, expr.source.span, binder)
            condition = inner.bind_condition(expr.where)
            if name == "unknown" and not condition.nullable:
                counts[name] = values.build_const(0, expr.span)
                continue
            test = condition
            if name == "false":
                test = Not(term=condition, origin=expr.span)
            elif name == "unknown":
                test = IsNull(operand=condition, origin=expr.span)
            pattern = replace(pattern, filters=(test,), blocks=(*pattern.blocks, *inner.blocks))
            shared = self.context.find_shared(pattern)
            block = ValueBlock(variable="", kind=BlockKind.COUNT, shared=shared, pattern=pattern, origin=expr.span)
            counts[name] = self.add(block, binder)
        return _null_where_null(source, _decide(expr.kind, counts, expr.span), expr.span)

    def bind_reduce(self, expr: tree.Reduce, binder: ExpressionBinder) -> Expr:
        """Return a `reduce` that is a sum: the initial value and an expression of each element."""
        total = tree.Variable(name=expr.accumulator.text, span=expr.accumulator.span)
        body = expr.value
        is_sum = isinstance(body, tree.Binary) and body.op is tree.BinaryOp.ADD and total in (body.left, body.right)
        if not isinstance(body, tree.Binary) or not is_sum:
            help_ = "a sum is `reduce(total = 0, x IN list | total + x)`; otherwise `UNWIND` the list and aggregate"
            binder.refuse_form(expr.span, "this `reduce` is not supported", help_)
        added = body.right if body.left == total else body.left
        initial, source = binder.bind(expr.initial), binder.bind(expr.source)
        pattern, inner, _ = self._each(expr.variable.text, source, expr.source.span, binder)
        value = inner.bind(added)
        if not (values.is_number(initial) and values.is_number(value)) or value.nullable:
            binder.refuse_form(expr.span, "this `reduce` is not supported", "`UNWIND` the list and aggregate")
        pattern = replace(pattern, blocks=(*pattern.blocks, *inner.blocks))
        shared = self.context.find_shared(pattern, (value,))
        block = ValueBlock(
            variable="", kind=BlockKind.SUM, shared=shared, pattern=pattern, value=value, origin=expr.span
        )
        summed = self.add(block, binder)
        zero = values.build_const(0 if block.type is Scalar.I64 else 0.0, expr.span)
        total_value = binder.compute(ScalarFunction.COALESCE, (summed, zero), block.type, expr.span, can_fail=False)
        type_ = Scalar.I64 if initial.type is Scalar.I64 and block.type is Scalar.I64 else Scalar.F64
        whole = binder.compute(ScalarFunction.ADD, (initial, total_value), type_, expr.span, can_fail=True)
        return _null_where_null(source, whole, expr.span)

    def _each(
        self, name: str, source: Expr, span: Span, binder: ExpressionBinder
    ) -> tuple[Pattern, ExpressionBinder, Expr]:
        """Return a pattern with a match for each element of a list, and a binder that knows the element."""
        if not isinstance(source.type, ListOf | ArrayOf):
            binder.refuse_type(span, f"this needs a list, but it is {values.describe(source.type)}")
        block, scope, position = build_each(self.context, name, source, span, binder.scope)
        return Pattern(nodes=(), blocks=(block,)), binder.at(scope), position


def build_order(keys: tuple[tree.SortKey, ...], binder: ExpressionBinder) -> tuple[OrderTerm, ...]:
    """Return sort keys with null as the largest value: last ascending, first descending."""
    terms: list[OrderTerm] = []
    for key in keys:
        value = binder.bind(key.value)
        # A constant orders nothing.
        if isinstance(value, Const) or (isinstance(value, RecordExpr) and not value.items):
            continue
        if isinstance(value.type, NodeRef | EdgeRef):
            value = values.list_type_and_id(value)[1]
        if values.is_list(value) and not has_entities(value):
            value = build_list_key(value)
        if isinstance(value.type, ShapedType | ListOf):
            binder.refuse_form(
                key.span, f"an order by {values.describe(value.type)} is not supported", "order by a value"
            )
        # The plan has null as the smallest value, so whether there is one comes first.
        if value.nullable:
            terms.append(OrderTerm(value=IsNull(operand=value, origin=key.span), descending=key.descending))
        terms.append(OrderTerm(value=value, descending=key.descending))
    return tuple(dict.fromkeys(terms))


def _null_where_null(source: Expr, value: Expr, span: Span) -> Expr:
    """Return a value that is null where its list is."""
    if not source.nullable:
        return value
    branch = (values.is_null_test(source, span), values.build_null(value.type, span))
    return Case(branches=(branch,), otherwise=value, origin=span)


def _decide(kind: tree.QuantifierKind, counts: dict[str, Expr], span: Span) -> Expr:
    zero, single = values.build_const(0, span), values.build_const(1, span)

    def test(op: Op, name: str, number: Expr) -> Expr:
        found = values.compare(op, counts[name], number, span)
        assert found is not None  # noqa: S101 - numbers compare
        return found

    no, yes, unknown = (
        values.build_const(value=False, origin=span),
        values.build_const(value=True, origin=span),
        values.build_unknown(span),
    )
    some_unknown = test(Op.GT, "unknown", zero)
    otherwise: Expr
    match kind:
        case tree.QuantifierKind.ALL:
            branches, otherwise = ((test(Op.GT, "false", zero), no), (some_unknown, unknown)), yes
        case tree.QuantifierKind.ANY:
            branches, otherwise = ((test(Op.GT, "true", zero), yes), (some_unknown, unknown)), no
        case tree.QuantifierKind.NONE:
            branches, otherwise = ((test(Op.GT, "true", zero), no), (some_unknown, unknown)), yes
        case _:
            is_one = test(Op.EQ, "true", single)
            branches, otherwise = ((test(Op.GT, "true", single), no), (some_unknown, unknown)), is_one
    return Case(branches=branches, otherwise=otherwise, origin=span)


def _read_cut(expr: tree.Expr | None, binder: ExpressionBinder) -> Count | None:
    """Return a number of rows that is known when the statement runs."""
    value = None if expr is None else binder.bind(expr)
    if isinstance(value, ParamRef):
        return value if is_whole(value, at_least=0) else None
    is_number = isinstance(value, Computed) and value.type is Scalar.I64 and is_calculated(value)
    return value if isinstance(value, Computed) and is_number and fold_number(value) is None else None


def _read_count(expr: tree.Expr | None, binder: ExpressionBinder) -> int | None:
    if expr is None:
        return None
    number = fold_number(binder.bind(expr))
    if isinstance(number, int) and number >= 0:
        return number
    help_ = "in a block, `SKIP` is a whole number in the text, and `LIMIT` also a parameter in `COLLECT` without `SKIP`"
    return binder.refuse_form(expr.span, "this `SKIP` or `LIMIT` is not supported", help_)
