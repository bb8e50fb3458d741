"""Bind aggregates, with their filters and orders, and window functions."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from omnigraph.lang import literals as lit
from omnigraph.lang import query_ast as ast
from omnigraph.lang.printer import format_expr as print_expr
from omnigraph.query.aggregates import RUNNING, OrderTerm
from omnigraph.query.expr import (
    Aggregate,
    AggregateFunction,
    Bm25,
    Const,
    EdgeRef,
    Entity,
    Expr,
    Input,
    Nearest,
    NodeRef,
    Now,
    ParamRef,
    ShapedType,
    WalkOf,
    Window,
    WindowFunction,
    is_foldable,
    is_whole,
)
from omnigraph.query.expr_types import WALK_KEY, WALK_LENGTH
from omnigraph.query.functions import CallContext, Function
from omnigraph.query.logical_plan import build_identity
from omnigraph.query.walk_plan import read_part
from omnigraph.schema.findings import DiagnosticCollector
from omnigraph.schema.types import Scalar, is_numeric, is_scalar

# For messages; `is_foldable` decides which types an aggregate accepts.
_NUMBERS = "numbers"
_SCALARS = "numbers, String, Bool, Date or DateTime"
ARGUMENT_TYPES = {
    AggregateFunction.SUM: _NUMBERS,
    AggregateFunction.AVG: _NUMBERS,
    AggregateFunction.MIN: _SCALARS,
    AggregateFunction.MAX: _SCALARS,
    AggregateFunction.COUNT: "values that compare",
    AggregateFunction.COLLECT: "values that compare",
}


class ArgumentBinder(Protocol):
    """A function that binds an argument of a call."""

    def __call__(self, node: ast.Expr, context: CallContext, /) -> Expr | None:
        """Bind the argument, or report its errors and return None."""
        ...


@dataclass(frozen=True, slots=True)
class AggregateBinder:
    """Bind calls of aggregates and window functions whose number of arguments is already checked.

    `ties` are the values that distinguish all rows: they order the rows that a written order leaves equal. Every method
    returns None for an invalid call, whose errors it has reported.
    """

    bind: ArgumentBinder
    bind_condition: Callable[[ast.Expr], Expr | None]
    ties: tuple[Expr, ...]
    findings: DiagnosticCollector

    # --- aggregates ------------------------------------------------------------------------------

    def bind_aggregate(self, call: ast.Call, function: Function) -> Aggregate | None:
        """Bind a call of an aggregate; its window, if there is one, is not looked at."""
        node = call.arguments[0]
        fold = AggregateFunction(function.name)
        # All parts are bound before the first error returns, so that each reports its own.
        before = len(self.findings)
        where = None if call.where is None else self.bind_condition(call.where)
        order = self._bind_order(call.order)
        fraction = self._bind_fraction(call.arguments[1]) if fold is AggregateFunction.PERCENTILE else None
        limit = None if call.limit is None else self._bind_limit(call.limit)
        argument = self._bind_argument(call, fold, node)
        if len(self.findings) > before or (argument is None and not _counts_rows(fold, node)):
            return None
        if isinstance(argument, Entity) and fold is AggregateFunction.COUNT:
            argument = self._identify(call, argument)
        is_listing = fold is AggregateFunction.COLLECT and not call.distinct
        return Aggregate(
            fold=fold,
            argument=argument,
            distinct=call.distinct,
            where=where,
            fraction=fraction,
            order=order,
            ties=self.ties if is_listing else (),
            limit=limit,
            origin=call.span,
        )

    def _bind_argument(self, call: ast.Call, fold: AggregateFunction, node: ast.Expr) -> Expr | None:
        """Bind the first argument; None for the `*` of `count(*)`, or for an error, which is reported."""
        if isinstance(node, ast.Star):
            if fold is AggregateFunction.COUNT and not call.distinct:
                return None
            what = "`count(distinct *)`" if call.distinct else f"`{fold.value}(*)`"
            message = f"{what} has no meaning: `*` represents rows"
            self.findings.add_error("T8", node.span, message, "count rows with `count(*)`")
            return None
        if fold in (AggregateFunction.ANY, AggregateFunction.ALL):
            # A condition may be a text search, which is no value of its own.
            return self.bind_condition(node)
        argument = self.bind(node, CallContext.AGGREGATE)
        if argument is None:
            return None
        if isinstance(argument.type, WalkOf) and fold is AggregateFunction.COUNT:
            # Equal walks have equal keys; to count rows, anything that is not null will do.
            argument = read_part(argument, WALK_KEY if call.distinct else WALK_LENGTH)
        if isinstance(argument, Nearest | Bm25):
            name = "nearest" if isinstance(argument, Nearest) else "bm25"
            message = f"`{name}` ranks rows here, so it can't be combined with aggregates"
            self.findings.add_error("T18", node.span, message)
            return None
        is_counted = isinstance(argument, Entity) and fold is AggregateFunction.COUNT
        if is_counted or is_foldable(fold, argument.type, distinct=call.distinct):
            return argument
        needed = ARGUMENT_TYPES.get(fold, _NUMBERS)
        if isinstance(argument, Entity):
            message = f"`{fold.value}` needs {needed}, but `{print_expr(node)}` is a whole `{argument.type}`"
            self.findings.add_error("T8", node.span, message, f"name a property: `{print_expr(node)}.property`")
        else:
            name = f"{fold.value}(distinct …)" if call.distinct else fold.value
            message = f"`{name}` needs {needed}, but `{print_expr(node)}` is {argument.type}"
            help_ = None
            if isinstance(argument.type, NodeRef | EdgeRef):
                help_ = f"name it in a stage before: `with {{ {print_expr(node)} as x }}`"
            self.findings.add_error("T8", node.span, message, help_)
        return None

    @staticmethod
    def _identify(call: ast.Call, argument: Entity) -> Expr | None:
        """Return what to count of a variable: its id, or nothing if every row has one."""
        # A variable that is never null is counted by counting rows.
        if not call.distinct and not argument.nullable:
            return None
        return build_identity(argument)

    def _bind_fraction(self, node: ast.Expr) -> Input | None:
        bound = self.bind(node, CallContext.AGGREGATE)
        if bound is None:
            return None
        is_input = isinstance(bound, Const | ParamRef) and not bound.nullable and is_numeric(bound.type)
        value = bound.value if isinstance(bound, Const) else 0
        if isinstance(bound, Const | ParamRef) and is_input and isinstance(value, int | float) and 0 <= value <= 1:
            return bound
        message = f"`percentile` takes a fraction from 0 to 1 as its second argument, not `{print_expr(node)}`"
        self.findings.add_error("T8", node.span, message, "give a number such as `0.95`, or a required F64 parameter")
        return None

    def _bind_limit(self, node: ast.Expr) -> Input | None:
        number = node.value if isinstance(node, ast.LiteralExpr) else None
        if isinstance(number, lit.IntLiteral) and 0 <= number.value < 2**63:
            return Const(value=number.value, type=Scalar.I64, origin=node.span)
        bound = self.bind(node, CallContext.AGGREGATE) if isinstance(node, ast.Variable) else None
        if isinstance(bound, ParamRef) and is_whole(bound, at_least=0):
            return bound
        message = f"`limit` takes a whole number of at least 0, not `{print_expr(node)}`"
        self.findings.add_error("T24", node.span, message, "give a number, or an integer parameter")
        return None

    def _bind_order(self, keys: tuple[ast.OrderKey, ...]) -> tuple[OrderTerm, ...]:
        terms = []
        for key in keys:
            value = self.bind(key.value, CallContext.AGGREGATE)
            if value is not None and self._has_order(value, key.value):
                terms.append(OrderTerm(value=value, descending=bool(key.descending)))
        return tuple(terms)

    def _has_order(self, value: Expr, node: ast.Expr) -> bool:
        text = print_expr(node)
        if isinstance(value, Const | ParamRef | Now):
            self.findings.add_error("T7", node.span, f"`{text}` is the same for all rows, so it orders nothing")
        elif isinstance(value.type, ShapedType) or not is_scalar(value.type):
            help_ = f"order by a property, or by its id: `{text}.@id`" if isinstance(value, Entity) else None
            self.findings.add_error("T7", node.span, f"`{text}` is {value.type}, which has no order", help_)
        else:
            return True
        return False

    # --- windows ---------------------------------------------------------------------------------

    def bind_window(self, call: ast.Call, function: Function, window: ast.Window) -> Window | None:
        """Bind an aggregate or window function with its window."""
        before = len(self.findings)
        per = tuple(value for node in window.per if (value := self._bind_partition(node)) is not None)
        order = self._bind_order(window.order)
        aggregate: Aggregate | None = None
        place: WindowFunction | None = None
        argument: Expr | None = None
        if function.name in {member.value for member in WindowFunction}:
            place = WindowFunction(function.name)
            argument = self._bind_neighbour(call) if call.arguments else None
        else:
            aggregate = self.bind_aggregate(call, function)
            if aggregate is not None and order:
                self._check_running(call, aggregate)
        # A block reports nothing of its own where the pattern around it has errors.
        is_unbound = aggregate is None if place is None else bool(call.arguments) and argument is None
        if len(self.findings) > before or is_unbound:
            return None
        return Window(
            aggregate=aggregate,
            function=place,
            argument=argument,
            per=per,
            order=order,
            ties=self.ties if place is not None or order else (),
            origin=call.span,
        )

    def _bind_partition(self, node: ast.Expr) -> Expr | None:
        value = self.bind(node, CallContext.AGGREGATE)
        if value is None or isinstance(value.type, NodeRef | EdgeRef):
            return value
        if isinstance(value.type, ShapedType) or not is_scalar(value.type):
            message = f"`{print_expr(node)}` is {value.type}, which can't be compared, so it can't be used in `per`"
            self.findings.add_error("T8", node.span, message)
            return None
        return value

    def _bind_neighbour(self, call: ast.Call) -> Expr | None:
        (node,) = call.arguments
        value = self.bind(node, CallContext.AGGREGATE)
        if value is not None and isinstance(value.type, ShapedType):
            message = f"`{call.function.text}` needs a value, but `{print_expr(node)}` is {value.type}"
            self.findings.add_error("T8", node.span, message, f"name a property: `{print_expr(node)}.property`")
            return None
        return value

    def _check_running(self, call: ast.Call, aggregate: Aggregate) -> None:
        if aggregate.fold in RUNNING and not aggregate.distinct:
            return
        name = f"{aggregate.fold.value}(distinct …)" if aggregate.distinct else aggregate.fold.value
        message = f"`{name}` can't be calculated up to each row, so its window has no `order`"
        help_ = "these can: count, sum, avg, min, max, any, all"
        self.findings.add_error("T8", call.span, message, help_)


def _counts_rows(fold: AggregateFunction, node: ast.Expr) -> bool:
    return fold is AggregateFunction.COUNT and isinstance(node, ast.Star)
