"""Bind expressions and predicates to typed nodes.

Reads and mutations share this binder; they differ in how names are resolved (`NameResolver`). Every method returns None
for an invalid expression, whose error is then already reported, so that callers continue and find the other errors.
"""

from dataclasses import dataclass, replace
from typing import assert_never

from omnigraph.lang import query_ast as ast
from omnigraph.lang.foreign_words import ELEMENTS_FORM, QUANTIFIER_FORM, QUANTIFIERS
from omnigraph.lang.printer import format_expr as print_expr
from omnigraph.query.alias_scope import AliasResolver
from omnigraph.query.bind_aggregates import AggregateBinder
from omnigraph.query.bind_calls import CallBinder
from omnigraph.query.bind_compare import MismatchReporter, Operand, bind_brace_filter, bind_compare
from omnigraph.query.bind_computed import ComputedBinder
from omnigraph.query.bind_literal import bind_literal, clip_text, infer_literal_type
from omnigraph.query.bind_records import bind_field, bind_record
from omnigraph.query.bind_walks import bind_walk_call
from omnigraph.query.expr import (
    And,
    Compare,
    Const,
    Entity,
    Expr,
    IsNull,
    Not,
    Now,
    Op,
    Or,
    ParamRef,
    Predicate,
    Prop,
    WalkOf,
)
from omnigraph.query.functions import CallContext, Function, FunctionFamily, list_functions, resolve_function
from omnigraph.query.logical_plan import build_identity
from omnigraph.query.mutation_scope import RowNameResolver
from omnigraph.query.scalar_functions import SIGNATURES
from omnigraph.query.scope import BlockLifter, NameResolver, ReadNameResolver
from omnigraph.schema.findings import DiagnosticCollector
from omnigraph.schema.types import Scalar
from omnigraph.schema.values import InvalidValue

_SEARCHES = frozenset(list_functions([FunctionFamily.SEARCH]))
# Where a condition may calculate with aggregates, windows and scores.
_RESULT_PLACES = frozenset({CallContext.OUTPUT, CallContext.ORDER, CallContext.HAVING})


@dataclass(frozen=True, slots=True)
class ExprBinder:
    """Bind expressions; `names` resolves variables, properties and bare names.

    `ties` are the values that distinguish all rows of a read, for aggregates and windows that have an order. `place` is
    where a condition stands that may calculate with aggregates and scores; None for the conditions of a pattern.
    """

    names: NameResolver
    findings: DiagnosticCollector
    # Binds blocks inside expressions; None where none may stand.
    lifter: BlockLifter | None = None
    ties: tuple[Expr, ...] = ()
    place: CallContext | None = None

    def bind_predicate(self, node: ast.Expr) -> Expr | None:
        """Bind a condition; all its terms are checked, also those after an invalid one."""
        match node:
            case ast.Compare():
                left = self._bind_operand(node.left)
                right = self._bind_operand(node.right)
                return None if left is None or right is None else bind_compare(node, left, right, self.findings)
            case ast.IsNull():
                return self._bind_is_null(node)
            case ast.Not():
                term = self.bind_predicate(node.term)
                return None if term is None else Not(term=term, origin=node.span)
            case ast.And():
                terms = self._bind_terms(node.terms)
                return None if terms is None else And(terms=terms, origin=node.span)
            case ast.Or():
                terms = self._bind_terms(node.terms)
                return None if terms is None else Or(terms=terms, origin=node.span)
            case _:
                return self._bind_condition(node)

    def _bind_condition(self, node: ast.Expr) -> Expr | None:
        """Bind a value that is used as a condition, which must be a Bool."""
        is_search = isinstance(node, ast.Call) and node.function.text in _SEARCHES
        context = CallContext.PREDICATE if self.place is None or is_search else self.place
        value = self.bind_value(node, context)
        if value is None:
            return None
        if isinstance(value, Const) and value.value is None:
            value = replace(value, type=Scalar.BOOL)  # unknown; the literal null has its type by chance
        if value.type is not Scalar.BOOL:
            text = print_expr(node)
            message = f"`{clip_text(text)}` is {value.type}, not a condition"
            self.findings.add_error("T7", node.span, message, f"compare it: `{clip_text(text)} = …`")
            return None
        if isinstance(value, Prop | ParamRef | Const):
            # A comparison, because indexes and rules know that form.
            true = Const(value=True, type=Scalar.BOOL, origin=node.span)
            return Compare(op=Op.EQ, left=value, right=true, origin=node.span)
        return value

    def bind_value(self, node: ast.Expr, context: CallContext) -> Expr | None:
        """Bind an expression that gets its type from no other: an output, an order key, an argument."""
        match node:
            case ast.Variable() | ast.PropertyRef() | ast.BareName():
                return self.names.resolve(node)
            case ast.LiteralExpr():
                constant = bind_literal(node.value)
                if isinstance(constant, InvalidValue):
                    MismatchReporter("T3", node.span, self.findings).report_misfit(
                        infer_literal_type(node.value), node.value, constant
                    )
                    return None
                return constant
            case ast.AllProperties():
                message = f"`{print_expr(node)}` is several columns, not a value"
                self.findings.add_error("T8", node.span, message, "write it as a column of its own in `return`")
                return None
            case ast.Star():
                self.findings.add_error("T8", node.span, "`*` represents rows", "count them with `count(*)`")
                return None
            case ast.Call():
                return self._bind_call(node, context)
            case ast.Arithmetic() | ast.Negate() | ast.Index() | ast.ListExpr() | ast.Case():
                return self._bind_computed(node, context)
            case ast.Block():
                return self._bind_block(node)
            case ast.Compare() | ast.IsNull() | ast.Not() | ast.And() | ast.Or():
                return self._move_to(context).bind_predicate(node)
            case ast.Record():
                return bind_record(node, lambda item: self.bind_value(item, context), self.findings)
            case ast.Field():
                operand = self.bind_value(node.operand, context)
                if operand is None:
                    return None
                return bind_field(operand, node.name, node.span, self.names, self.findings, is_meta=node.is_meta)
            case _:
                assert_never(node)

    def _bind_computed(
        self, node: ast.Arithmetic | ast.Negate | ast.Index | ast.ListExpr | ast.Case, context: CallContext
    ) -> Expr | None:
        computed = self._get_computed_binder(context)
        match node:
            case ast.Arithmetic():
                return computed.bind_arithmetic(node)
            case ast.Negate():
                return computed.bind_negation(node)
            case ast.Index():
                return computed.bind_index(node)
            case ast.ListExpr():
                if len(node.items) == 1 and self._refuse_element(node.items[0], ELEMENTS_FORM):
                    return None
                return computed.bind_list(node)
            case ast.Case():
                return computed.bind_case(node)
            case _:
                assert_never(node)

    def _get_computed_binder(self, context: CallContext) -> ComputedBinder:
        # Only a whole condition may be a text search: inside a calculation it is an operand.
        inner = CallContext.OPERAND if context is CallContext.PREDICATE else context
        bind_condition = self._move_to(context).bind_predicate
        return ComputedBinder(self.findings, lambda node: self.bind_value(node, inner), bind_condition)

    def _move_to(self, context: CallContext) -> "ExprBinder":
        """Return the binder of the conditions inside an expression at a place."""
        place = context if context in _RESULT_PLACES else None
        return self if place is self.place else replace(self, place=place)

    def bind_brace_filter(self, prop: Prop, node: ast.Assignment) -> Predicate | None:
        """Bind a filter `{p: v}` of a node binding."""
        # A likely mistake, which gets a more helpful message than the general one.
        if isinstance(node.value, ast.BareName):
            name = node.value.name.text
            help_ = f'write a text in quotes, `"{name}"`, or a parameter with `$`, `${name}`'
            self.findings.add_error("T6", node.value.span, f"`{name}` has no value here", help_)
            return None
        value = self._bind_operand(node.value, CallContext.STORED)
        return None if value is None else bind_brace_filter(prop, node, value, self.findings)

    def _bind_aggregate(self, node: ast.Call, function: Function) -> Expr | None:
        # Inside of an aggregate, conditions are those of single rows.
        inner = replace(self, place=None)
        binder = AggregateBinder(inner.bind_value, inner.bind_predicate, self.ties, self.findings)
        if node.window is not None:
            return binder.bind_window(node, function, node.window)
        return binder.bind_aggregate(node, function)

    @property
    def _calls(self) -> CallBinder:
        return CallBinder(self.names, self.findings)

    def _bind_operand(self, node: ast.Expr, context: CallContext | None = None) -> Operand | None:
        # A literal stays unbound here: the other side decides its type.
        if isinstance(node, ast.LiteralExpr):
            return Operand(node, node.value)
        value = self.bind_value(node, context or self.place or CallContext.OPERAND)
        return None if value is None else Operand(node, value)

    def _bind_terms(self, nodes: tuple[ast.Expr, ...]) -> tuple[Expr, ...] | None:
        # All terms are bound before the first failure returns, so that each reports its errors.
        bound = [self.bind_predicate(node) for node in nodes]
        terms = tuple(term for term in bound if term is not None)
        return terms if len(terms) == len(bound) else None

    def _bind_block(self, node: ast.Block) -> Expr | None:
        if self.lifter is None:
            message = f"a `{node.kind.value}` block can't stand here: it reads a pattern"
            help_ = "compute it in a read, or drive the write by a `match`"
            self.findings.add_error("T14", node.span, message, help_)
            return None
        return self.lifter.lift(node)

    def _bind_is_null(self, node: ast.IsNull) -> IsNull | None:
        operand = self.bind_value(node.operand, self.place or CallContext.OPERAND)
        if isinstance(operand, Entity) and operand.nullable:
            # A variable of an optional block is null where it has no id.
            operand = build_identity(operand)
        if isinstance(operand, Entity):
            message = f"`{print_expr(node.operand)}` is a whole `{operand.type}`, which is never null"
            help_ = f"test a property (`{print_expr(node.operand)}.property is null`), or use a `not` block"
            self.findings.add_error("T7", node.operand.span, message, help_)
            return None
        return None if operand is None else IsNull(operand=operand, negated=node.negated, origin=node.span)

    def _is_walk(self, node: ast.Expr) -> bool:
        """Return whether a node is the variable of a path; anything else has no walk as its value."""
        if not isinstance(node, ast.Variable):
            return False
        # An alias is a bare name, so a variable is what it is without the aliases.
        names = self.names.names if isinstance(self.names, AliasResolver) else self.names
        # Resolved without findings: the call reports them.
        silent = replace(names, findings=DiagnosticCollector()) if isinstance(names, ReadNameResolver) else None
        value = None if silent is None else silent.resolve(node)
        return value is not None and isinstance(value.type, WalkOf)

    def _refuse_element(self, node: ast.Expr, form: str) -> bool:
        """Report `x in list` whose `x` is to be each element, as other languages bind it; return whether it is."""
        if not (isinstance(node, ast.Compare) and node.op is ast.CompareOp.IN):
            return False
        left = node.left
        names = self.names.names if isinstance(self.names, AliasResolver) else self.names
        if not isinstance(left, ast.Variable | ast.BareName) or not isinstance(names, ReadNameResolver):
            return False
        if isinstance(left, ast.BareName) and names is not self.names:
            # It may be an alias.
            return False
        unbound = DiagnosticCollector()
        if replace(names, findings=unbound).resolve(left) is not None or not len(unbound):
            return False
        self.findings.add_error("T6", left.span, f"`{print_expr(left)}` has no value here", form)
        return True

    def _bind_call(self, node: ast.Call, context: CallContext) -> Expr | None:
        is_quantifier = node.function.text in QUANTIFIERS and len(node.arguments) == 1
        if is_quantifier and self._refuse_element(node.arguments[0], QUANTIFIER_FORM):
            return None
        function = resolve_function(node, context, self.findings)
        if function is None:
            return None
        is_search_value = function.family in (FunctionFamily.RANK, FunctionFamily.TEXT_VALUE)
        if is_search_value and isinstance(self.names, RowNameResolver):
            message = f"`{function.name}` can't be used in a mutation"
            self.findings.add_error("T18", node.span, message, "find the rows in a `match` before the statement")
            return None
        match function.family:
            case FunctionFamily.VALUE:
                return Now(origin=node.span)
            case FunctionFamily.AGGREGATE | FunctionFamily.WINDOW:
                return self._bind_aggregate(node, function)
            case FunctionFamily.RANK:
                return self._calls.bind_rank(node, function, self.bind_value)
            case FunctionFamily.TEXT_VALUE:
                return self._calls.bind_text_value(node, function)
            case FunctionFamily.SEARCH:
                return self._calls.bind_text_match(node, function)
            case FunctionFamily.WALK:
                return bind_walk_call(node, function, lambda part: self.bind_value(part, context), self.findings)
            case FunctionFamily.SCALAR if function.name == "length" and self._is_walk(node.arguments[0]):
                return bind_walk_call(node, function, lambda part: self.bind_value(part, context), self.findings)
            case FunctionFamily.SCALAR:
                return self._get_computed_binder(context).bind_call(node, SIGNATURES[function.name])
            case _:
                assert_never(function.family)
