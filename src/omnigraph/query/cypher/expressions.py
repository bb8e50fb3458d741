"""Bind expressions of Cypher to typed expressions of the plan."""

from dataclasses import dataclass, field, replace
from typing import NoReturn, Protocol

from omnigraph.lang.cypher import tree
from omnigraph.lang.literals import Name
from omnigraph.lang.source import Span
from omnigraph.query.cypher import values
from omnigraph.query.cypher.aggregates import bind_aggregate, is_aggregate
from omnigraph.query.cypher.composites import (
    bind_case,
    bind_list,
    bind_projection,
    bind_property,
    bind_slice,
    bind_subscript,
    build_map,
)
from omnigraph.query.cypher.context import CypherContext, ParameterForm
from omnigraph.query.cypher.functions import bind_function
from omnigraph.query.cypher.lists import build_list
from omnigraph.query.cypher.names import suggest
from omnigraph.query.cypher.operators import bind_binary, bind_comparison, bind_unary
from omnigraph.query.cypher.properties import bind_labels_test
from omnigraph.query.cypher.scope import CypherScope
from omnigraph.query.expr import (
    Computed,
    Expr,
    ExprType,
    Parameter,
    ParamRef,
    RecordExpr,
)
from omnigraph.query.logical_plan import PatternBlock
from omnigraph.query.scalar_functions import ScalarFunction
from omnigraph.schema.types import Scalar

_F = ScalarFunction
# Each of these items becomes a parameter of its own.
MAX_PARAMETER_ITEMS = 1_000


class Subqueries(Protocol):
    """What binds the parts of expressions that have matches of their own."""

    def bind_test(self, expr: tree.PatternPredicate, binder: "ExpressionBinder") -> Expr:
        """Return whether a pattern has a match."""

    def bind_subquery(self, expr: tree.Subquery, binder: "ExpressionBinder") -> Expr:
        """Return the value of `EXISTS { }`, `COUNT { }` or `COLLECT { }`."""

    def bind_pattern_list(self, expr: tree.PatternComprehension, binder: "ExpressionBinder") -> Expr:
        """Return the list of a pattern comprehension."""

    def bind_list(self, expr: tree.ListComprehension, binder: "ExpressionBinder") -> Expr:
        """Return the list of a list comprehension."""

    def bind_quantifier(self, expr: tree.Quantifier, binder: "ExpressionBinder") -> Expr:
        """Return whether the elements of a list fulfil a condition."""

    def bind_reduce(self, expr: tree.Reduce, binder: "ExpressionBinder") -> Expr:
        """Return the sum that a `reduce` is."""


@dataclass
class ExpressionBinder:
    """Bind expressions at one place; `blocks` takes the blocks whose values they read."""

    context: CypherContext
    scope: CypherScope
    subqueries: Subqueries
    blocks: list[PatternBlock] = field(default_factory=list)
    allows_aggregates: bool = False
    is_condition: bool = False
    """Whether a pattern may stand here: in a condition, and in `exists(…)`."""

    def at(self, scope: CypherScope) -> "ExpressionBinder":
        """Return a binder of the same place with other variables and blocks of its own."""
        return replace(self, scope=scope, blocks=[], allows_aggregates=False, is_condition=False)

    def bind(self, expr: tree.Expr) -> Expr:
        """Return the typed expression.

        Raises:
            RefusedError: It has a mistake, which was reported.
        """
        match expr:
            case tree.Literal(value=value):
                return values.build_const(value, expr.span)
            case tree.Parameter():
                return self._bind_parameter(expr)
            case tree.Variable():
                return self._bind_variable(expr)
            case tree.Property():
                return bind_property(self, expr)
            case tree.Unary() | tree.Binary() | tree.Comparison() | tree.IsNull() | tree.HasLabels():
                return self._bind_operator(expr)
            case tree.Call():
                if is_aggregate(expr.function.text):
                    return bind_aggregate(expr, self)
                return bind_function(expr, self)
            case tree.CountStar():
                return bind_aggregate(tree.Call(function=Name("count", expr.span), arguments=(), span=expr.span), self)
            case tree.Case():
                return bind_case(self, expr)
            case tree.ListLiteral() | tree.MapLiteral() | tree.MapProjection() | tree.Subscript() | tree.Slice():
                return self._bind_collection(expr)
            case _:
                return self._bind_inner(expr)

    def bind_condition(self, expr: tree.Expr) -> Expr:
        """Return a predicate."""
        was_condition, self.is_condition = self.is_condition, True
        try:
            value = self.bind(expr)
        finally:
            self.is_condition = was_condition
        if values.is_null(value):
            return values.build_unknown(expr.span)
        if value.type is not Scalar.BOOL:
            self.refuse_type(
                expr.span, f"a condition is a Bool, but {self.show(expr)} is {values.describe(value.type)}"
            )
        return value

    # --- reporting -------------------------------------------------------------------------------------

    def show(self, expr: tree.Expr) -> str:
        """Return an expression as written, for a message."""
        return f"`{self.context.quote(expr.span)}`"

    def refuse_type(self, span: Span, message: str, help: str | None = None) -> NoReturn:
        """Refuse operands of a wrong type."""
        self.context.findings.refuse("C005", span, message, help)

    def refuse_form(self, span: Span, message: str, help: str) -> NoReturn:
        """Refuse a form that is not supported."""
        self.context.findings.refuse("C002", span, message, help)

    # --- names -----------------------------------------------------------------------------------------

    def _bind_variable(self, expr: tree.Variable) -> Expr:
        variable = self.scope.find(expr.name)
        if variable is None:
            from_near = values_near(expr.name, self.scope)
            self.context.findings.refuse("C004", expr.span, f"`{expr.name}` is not defined", from_near)
        return self.scope.read(variable, expr.span)

    def _bind_parameter(self, expr: tree.Parameter) -> Expr:
        given = self.context.given.get(expr.name)
        if given is None:
            help_ = "give it a value: `--param NAME=VALUE`, or `params` in Python"
            self.context.findings.refuse("C004", expr.span, f"the parameter `${expr.name}` has no value", help_)
        return self._declare_parameter(expr.name, given, expr.span)

    def _declare_parameter(self, name: str, given: ParameterForm, origin: Span) -> Expr:
        if given.fields is not None:
            items = (
                (key, self._declare_parameter(f"{name}.{key}", each, origin)) for key, each in given.fields.items()
            )
            return RecordExpr(items=tuple(items), origin=origin)
        if given.items is not None:
            if len(given.items) > MAX_PARAMETER_ITEMS:
                help_ = "pass each key as a list of its own, or ask in `.gq`, whose parameters may be lists of records"
                message = f"the parameter `${name}` is a list of more than {MAX_PARAMETER_ITEMS} maps, lists or nulls"
                self.refuse_form(origin, message, help_)
            parts = [self._declare_parameter(f"{name}.{index}", item, origin) for index, item in enumerate(given.items)]
            return build_list(self, parts, origin)
        if given.type is None:
            return values.build_unknown(origin)
        self.context.declared[name] = Parameter(name=name, type=given.type, nullable=False, origin=origin)
        return ParamRef(name=name, type=given.type, nullable=False, origin=origin)

    # --- operators -------------------------------------------------------------------------------------

    def _bind_operator(self, expr: tree.Unary | tree.Binary | tree.Comparison | tree.IsNull | tree.HasLabels) -> Expr:
        match expr:
            case tree.Unary():
                return bind_unary(self, expr)
            case tree.Binary():
                return bind_binary(self, expr)
            case tree.Comparison():
                return bind_comparison(self, expr)
            case tree.IsNull():
                return values.is_null_test(self.bind(expr.operand), expr.span, negated=expr.negated)
            case tree.HasLabels():
                return bind_labels_test(self, expr)

    def compute(
        self, function: ScalarFunction, arguments: tuple[Expr, ...], type_: ExprType, span: Span, *, can_fail: bool
    ) -> Computed:
        """Return the value of a function of the plan."""
        return values.compute(function, arguments, type_, span, self.context.quote(span), can_fail=can_fail)

    # --- choices, collections ----------------------------------------------------------------------------

    def _bind_collection(
        self, expr: tree.ListLiteral | tree.MapLiteral | tree.MapProjection | tree.Subscript | tree.Slice
    ) -> Expr:
        match expr:
            case tree.ListLiteral():
                return bind_list(self, expr)
            case tree.MapLiteral():
                items = {key.text: self.bind(value) for key, value in expr.entries}
                return build_map(items, expr.span)
            case tree.MapProjection():
                return bind_projection(self, expr)
            case tree.Subscript():
                return bind_subscript(self, expr)
            case tree.Slice():
                return bind_slice(self, expr)

    def _bind_inner(self, expr: tree.Expr) -> Expr:
        """Bind an expression that has matches or variables of its own."""
        match expr:
            case tree.PatternPredicate():
                return self.subqueries.bind_test(expr, self)
            case tree.Subquery():
                return self.subqueries.bind_subquery(expr, self)
            case tree.PatternComprehension():
                return self.subqueries.bind_pattern_list(expr, self)
            case tree.ListComprehension():
                return self.subqueries.bind_list(expr, self)
            case tree.Quantifier():
                return self.subqueries.bind_quantifier(expr, self)
            case tree.Reduce():
                return self.subqueries.bind_reduce(expr, self)
            case _:
                raise AssertionError(type(expr).__name__)


def values_near(name: str, scope: CypherScope) -> str | None:
    """Return a help line with the nearest variable, or None."""
    return suggest(name, scope.variables) or "a variable is defined by a pattern, `WITH`, `UNWIND` or a comprehension"
