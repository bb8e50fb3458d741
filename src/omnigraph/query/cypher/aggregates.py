"""The aggregates of Cypher; nulls are passed over."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from omnigraph.lang.cypher import tree
from omnigraph.query.cypher import values
from omnigraph.query.cypher.lists import build_list_key, has_entities, read_list_key
from omnigraph.query.expr import (
    Aggregate,
    AggregateFunction,
    Case,
    Const,
    Entity,
    Expr,
    Identity,
    Op,
    ParamRef,
    ShapedType,
    is_foldable,
)
from omnigraph.query.scalar_functions import ScalarFunction, widen
from omnigraph.schema.types import ListOf, Scalar

if TYPE_CHECKING:
    from omnigraph.query.cypher.expressions import ExpressionBinder

_F = ScalarFunction

AGGREGATES: Final[Mapping[str, AggregateFunction]] = {
    "count": AggregateFunction.COUNT,
    "sum": AggregateFunction.SUM,
    "avg": AggregateFunction.AVG,
    "min": AggregateFunction.MIN,
    "max": AggregateFunction.MAX,
    "collect": AggregateFunction.COLLECT,
    "stdev": AggregateFunction.STDDEV,
    "percentilecont": AggregateFunction.PERCENTILE,
}
# These are calculated from a list of the values, or from other aggregates.
_DERIVED: Final = ("percentiledisc", "stdevp")


def list_aggregates() -> tuple[str, ...]:
    """Return the names of all aggregates, in lower case."""
    return (*AGGREGATES, *_DERIVED)


def is_aggregate(name: str) -> bool:
    """Return whether a function of this name is an aggregate."""
    return name.lower() in AGGREGATES or name.lower() in _DERIVED


def bind_aggregate(call: tree.Call, binder: "ExpressionBinder") -> Expr:
    """Bind an aggregate; nulls are passed over."""
    name = call.function.text.lower()
    if not binder.allows_aggregates:
        help_ = "aggregates stand in `RETURN` and `WITH`, not inside another one"
        binder.context.findings.refuse("C007", call.span, f"`{call.function.text}` is an aggregate", help_)
    wanted = 2 if name.startswith("percentile") else int(bool(call.arguments) or name != "count")
    if len(call.arguments) != wanted:
        binder.context.findings.refuse(
            "C006", call.span, f"`{call.function.text}` takes {wanted} arguments, not {len(call.arguments)}"
        )
    # No aggregate stands inside another one.
    binder.allows_aggregates = False
    try:
        arguments = [binder.bind(argument) for argument in call.arguments]
    finally:
        binder.allows_aggregates = True
    if not arguments:
        return Aggregate(fold=AggregateFunction.COUNT, origin=call.span)
    if name in _DERIVED or (call.distinct and name in ("sum", "avg")):
        return _derive(call, name, arguments, binder)
    return _build_aggregate(call, AGGREGATES[name], arguments, binder)


def _derive(call: tree.Call, name: str, arguments: list[Expr], binder: "ExpressionBinder") -> Expr:
    """Return an aggregate that the plan has no fold for."""
    origin = call.span
    argument = arguments[0]
    if values.is_null(argument):
        argument = values.build_null(Scalar.I64, origin)
    if not values.is_number(argument):
        binder.refuse_type(
            origin, f"`{call.function.text}` needs numbers, but this is {values.describe(argument.type)}"
        )
    type_ = widen((values.get_value_type(argument),))
    if name == "stdevp":
        return _build_population_deviation(argument, call, binder)
    argument = values.convert(argument, type_)
    collected = Aggregate(fold=AggregateFunction.COLLECT, argument=argument, distinct=call.distinct, origin=origin)
    if name == "percentiledisc":
        fraction = _check_fraction(call, arguments[1], binder)
        return binder.compute(_F.PERCENTILE_OF, (collected, fraction), type_, origin, can_fail=True)
    total = binder.compute(_F.SUM_OF, (collected,), type_, origin, can_fail=False)
    if name == "sum":
        return total
    size = binder.compute(_F.SIZE, (collected,), Scalar.I64, origin, can_fail=False)
    is_empty = values.compare(Op.EQ, size, values.build_const(0, origin), origin)
    assert is_empty is not None  # noqa: S101 - numbers compare
    numbers = (values.convert(total, Scalar.F64), size)
    mean = binder.compute(_F.QUOTIENT, numbers, Scalar.F64, origin, can_fail=True)
    nothing = values.build_null(Scalar.F64, origin)
    return Case(branches=((is_empty, nothing),), otherwise=mean, origin=origin)


def _build_population_deviation(argument: Expr, call: tree.Call, binder: "ExpressionBinder") -> Expr:
    """Return `stDevP`: the deviation of a sample, times the root of (n - 1) / n."""
    origin = call.span
    sample = Aggregate(fold=AggregateFunction.STDDEV, argument=argument, origin=origin)
    count = Aggregate(fold=AggregateFunction.COUNT, argument=argument, origin=origin)
    number = values.convert(count, Scalar.F64)
    has_few = values.compare(Op.LE, count, values.build_const(1, origin), origin)
    assert has_few is not None  # noqa: S101 - numbers compare
    less = binder.compute(_F.SUBTRACT, (number, values.build_const(1.0, origin)), Scalar.F64, origin, can_fail=True)
    share = binder.compute(_F.QUOTIENT, (less, number), Scalar.F64, origin, can_fail=True)
    root = binder.compute(_F.SQRT, (share,), Scalar.F64, origin, can_fail=True)
    deviation = binder.compute(_F.MULTIPLY, (sample, root), Scalar.F64, origin, can_fail=True)
    return Case(branches=((has_few, values.build_const(0.0, origin)),), otherwise=deviation, origin=origin)


def _check_fraction(call: tree.Call, value: Expr, binder: "ExpressionBinder") -> Const | ParamRef:
    """Return the second argument of a percentile: a number from 0 to 1."""
    if isinstance(value, ParamRef) and values.is_number(value):
        return value
    fraction = values.convert(value, Scalar.F64)
    if not isinstance(fraction, Const) or not isinstance(fraction.value, float) or not 0 <= fraction.value <= 1:
        binder.refuse_type(call.arguments[1].span, "the percentile is a number from 0 to 1, or a parameter")
    return fraction


def _build_aggregate(
    call: tree.Call, fold: AggregateFunction, arguments: list[Expr], binder: "ExpressionBinder"
) -> Expr:
    argument = arguments[0]
    origin = call.span
    if values.is_null(argument):
        argument = values.build_null(Scalar.I64, origin)
    is_counting = fold is AggregateFunction.COUNT
    if isinstance(argument, Entity) and is_counting:
        argument = Identity(variable=argument.variable, nullable=argument.nullable, origin=origin)
    is_extreme = fold in (AggregateFunction.MIN, AggregateFunction.MAX)
    if is_extreme and values.is_untyped_list(argument):
        help_ = "aggregate lists with values: the type of an empty one is not known"
        binder.refuse_form(origin, f"`{call.function.text}` of an empty list is not supported", help_)
    if is_extreme and values.is_list(argument) and not has_entities(argument):
        key = Aggregate(fold=fold, argument=build_list_key(argument), origin=origin)
        return read_list_key(key, argument)
    if is_counting and call.distinct and isinstance(argument.type, ShapedType | ListOf):
        argument = build_list_key(argument)
    if not is_foldable(fold, argument.type, distinct=call.distinct):
        text = f"`{call.function.text}` of {values.describe(argument.type)} is not supported"
        binder.refuse_form(origin, text, "aggregate a property: `n.name`")
    if call.distinct and fold not in (AggregateFunction.COUNT, AggregateFunction.COLLECT):
        if fold not in (AggregateFunction.MIN, AggregateFunction.MAX):
            help_ = "make the values distinct before: `WITH DISTINCT x RETURN stDev(x)`"
            binder.refuse_form(origin, f"`{call.function.text}(DISTINCT …)` is not supported", help_)
        call = replace(call, distinct=False)
    fraction = _check_fraction(call, arguments[1], binder) if fold is AggregateFunction.PERCENTILE else None
    aggregate = Aggregate(fold=fold, argument=argument, distinct=call.distinct, fraction=fraction, origin=origin)
    # The sum of nothing is 0, not null.
    if fold is AggregateFunction.SUM:
        zero = values.build_const(0 if aggregate.type is Scalar.I64 else 0.0, origin)
        return replace(
            values.compute(_F.COALESCE, (aggregate, zero), aggregate.type, origin, "", can_fail=False), nullable=False
        )
    return aggregate
