"""Expressions with matches of their own, as blocks of the plan: tests, counts, lists, quantifiers, sums."""

from dataclasses import dataclass, replace

from omnigraph.lang.cypher import tree
from omnigraph.lang.query_ast import BlockKind
from omnigraph.lang.source import Span
from omnigraph.query.cypher import values
from omnigraph.query.cypher.composites import LIST_NULLS_HELP
from omnigraph.query.cypher.context import CypherContext
from omnigraph.query.cypher.elements import build_each
from omnigraph.query.cypher.expressions import ExpressionBinder
from omnigraph.query.cypher.patterns import MatchBinder
from omnigraph.query.cypher.scope import ComputedVariable
from omnigraph.query.expr import (
    ArrayOf,
    Case,
    Const,
    EdgeRef,
    Expr,
    IsNull,
    NodeRef,
    Not,
    Op,
    OrderTerm,
    ShapedType,
    ValueRef,
)
from omnigraph.query.logical_plan import Pattern, ValueBlock
from omnigraph.query.scalar_functions import ScalarFunction
from omnigraph.schema.types import ListOf, Scalar

_PLAIN_HELP = "a block is one `MATCH … WHERE …`, and for `COLLECT` a `RETURN` of one value"


@dataclass
class SubqueryBinder:
    """Bind the parts of expressions that have matches of their own."""

    context: CypherContext

    # --- patterns ----------------------------------------------------------------------------------

    def bind_test(self, expr: tree.PatternPredicate, binder: ExpressionBinder) -> Expr:
        """Return whether a pattern has a match."""
        if expr.pattern.kind is not tree.PathKind.ALL:
            binder.refuse_form(expr.span, "a shortest path is no value", "name it in a `MATCH`: `p = shortestPath(…)`")
        match = tree.Match(patterns=(expr.pattern,), where=None, span=expr.span)
        return self._bind_matches(match, BlockKind.EXISTS, binder, expr.span)

    def bind_subquery(self, expr: tree.Subquery, binder: ExpressionBinder) -> Expr:
        """Return the value of `EXISTS { }`, `COUNT { }` or `COLLECT { }`."""
        kind = BlockKind[expr.kind.value]
        clauses = expr.statement.queries[0].clauses
        returned = clauses[-1] if isinstance(clauses[-1], tree.Return) else None
        matches = clauses[:-1] if returned is not None else clauses
        is_plain = len(expr.statement.queries) == 1 and len(matches) == 1 and isinstance(matches[0], tree.Match)
        if not is_plain or (isinstance(matches[0], tree.Match) and matches[0].optional):
            binder.refuse_form(expr.span, f"this block of `{expr.kind.value}` is not supported", _PLAIN_HELP)
        (match,) = matches
        assert isinstance(match, tree.Match)  # noqa: S101 - checked above
        if returned is None or kind is BlockKind.EXISTS:
            return self._bind_matches(match, kind, binder, expr.span)
        return self._bind_returned(match, returned.projection, kind, binder, expr.span)

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
        return matched.pattern, inner

    def _bind_matches(self, match: tree.Match, kind: BlockKind, binder: ExpressionBinder, span: Span) -> Expr:
        pattern, _ = self._match(match, binder)
        return self._add(
            ValueBlock(variable="", kind=kind, shared=self.context.find_shared(pattern), pattern=pattern, origin=span),
            binder,
        )

    def _bind_returned(
        self, match: tree.Match, projection: tree.Projection, kind: BlockKind, binder: ExpressionBinder, span: Span
    ) -> Expr:
        if len(projection.items) != 1 or projection.star or projection.skip is not None:
            binder.refuse_form(span, "this `RETURN` of a block is not supported", _PLAIN_HELP)
        pattern, inner = self._match(match, binder)
        value = inner.bind(projection.items[0].value)
        if kind is BlockKind.COUNT and not projection.distinct and projection.limit is None:
            return self._bind_matches(match, kind, binder, span)
        if kind is BlockKind.COUNT or projection.limit is not None or (projection.distinct and projection.order):
            binder.refuse_form(span, "this `RETURN` of a block is not supported", _PLAIN_HELP)
        alias = projection.items[0].name
        inner.scope = inner.scope.add(alias, ComputedVariable(value=value))
        order = build_order(projection.order, inner)
        return self._collect(pattern, inner, value, binder, span, order=order, distinct=projection.distinct)

    def _collect(
        self,
        pattern: Pattern,
        inner: ExpressionBinder,
        value: Expr,
        binder: ExpressionBinder,
        span: Span,
        *,
        order: tuple[OrderTerm, ...] = (),
        ties: tuple[Expr, ...] = (),
        distinct: bool = False,
    ) -> Expr:
        # `collect` passes nulls over, where Cypher would keep them.
        if values.is_null(value) or value.nullable:
            binder.refuse_form(span, "a list whose elements may be null is not supported", LIST_NULLS_HELP)
        pattern = replace(pattern, blocks=(*pattern.blocks, *inner.blocks))
        exprs = (value, *(term.value for term in order), *ties)
        block = ValueBlock(
            variable="",
            kind=BlockKind.COLLECT,
            shared=self.context.find_shared(pattern, exprs),
            pattern=pattern,
            value=value,
            distinct=distinct,
            order=order,
            ties=ties,
            origin=span,
        )
        return self._add(block, binder)

    def _add(self, block: ValueBlock, binder: ExpressionBinder) -> Expr:
        block = replace(block, variable=self.context.declare(None, block.type))
        binder.blocks.append(block)
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
        listed = self._collect(pattern, inner, value, binder, expr.span, ties=(position,))
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
            counts[name] = self._add(block, binder)
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
        summed = self._add(block, binder)
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
        if isinstance(value, Const):
            continue
        if isinstance(value.type, NodeRef | EdgeRef):
            value = values.list_type_and_id(value)[1]
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
