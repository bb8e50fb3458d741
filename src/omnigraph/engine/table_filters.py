"""Push predicates down into Lance filters, which can use an index.

A filter passes every row for which the predicate is true, and may pass others: the predicate itself is evaluated on the
rows that were read. Literals are converted to the type of the column, as the nearest values below and above: for a
column of integers, a comparison with 2.5 becomes one with 2 or 3 without losing a row. Where an F32 is compared with an
F64, fractions are rounded here as the predicate rounds them.
"""

import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from omnigraph.engine.predicate_eval import RowValue, get_column_name
from omnigraph.engine.query_inputs import QueryInputs
from omnigraph.query.expr import (
    And,
    Compare,
    Const,
    Expr,
    Identity,
    In,
    IsNull,
    Now,
    Op,
    Or,
    ParamRef,
    Prop,
    StartsWith,
)
from omnigraph.schema.arrow import to_arrow_type
from omnigraph.schema.catalog import Value
from omnigraph.schema.types import INTEGER_RANGES, EnumOf, ListOf, Scalar, ValueType
from omnigraph.storage import filters

# Longer lists of `in` are not pushed down.
MAX_PUSHED_VALUES = 4_096
# The deepest nesting of parentheses in a filter; Lance's parser rejects about 50.
MAX_NESTING = 24
_SQL_OPS: dict[Op, str] = {Op.EQ: "=", Op.NE: "!=", Op.LT: "<", Op.LE: "<=", Op.GT: ">", Op.GE: ">="}


def build_table_filter(predicate: Expr, inputs: QueryInputs) -> str | None:
    """Return a filter that passes every row for which the predicate is true, or None if nothing can be pushed down."""
    return None if _measure_nesting(predicate) > MAX_NESTING else _build_filter(predicate, inputs)


def _measure_nesting(predicate: Expr) -> int:
    """Return the maximum nesting of parentheses in the filter of a predicate."""
    if not isinstance(predicate, And | Or):
        return 1
    # `join_with_and` and `join_with_or` build a balanced tree, so n terms nest log2(n) deep.
    return max(map(_measure_nesting, predicate.terms)) + math.ceil(math.log2(max(len(predicate.terms), 2)))


def _build_filter(predicate: Expr, inputs: QueryInputs) -> str | None:
    match predicate:
        case And(terms=terms):
            # Without one of its terms, a conjunction passes more rows, never fewer.
            parts = [_build_filter(term, inputs) for term in terms]
            pushed = [part for part in parts if part is not None]
            return filters.join_with_and(pushed) if pushed else None
        case Or(terms=terms):
            # Without one of its terms, a disjunction would lose rows.
            parts = [_build_filter(term, inputs) for term in terms]
            pushed = [part for part in parts if part is not None]
            return filters.join_with_or(pushed) if len(pushed) == len(parts) else None
        case IsNull(operand=Prop() as column, negated=False) if _find_scalar(column.type) is not None:
            return filters.build_is_null(column.name)
        case Compare(op=op, left=Prop() | Identity() as column, right=Const() | ParamRef() | Now() as value):
            return _build_comparison(op, column, inputs.resolve(value), value.type)
        case Compare(op=op, left=Const() | ParamRef() | Now() as value, right=Prop() | Identity() as column):
            return _build_comparison(op.mirrored, column, inputs.resolve(value), value.type)
        case In(element=Prop() | Identity() as column, collection=Const() | ParamRef() as value):
            return _build_membership(column, inputs.resolve(value), value.type)
        case In(element=Const() | ParamRef() as value, collection=Prop(type=ListOf(element=item)) as column):
            return _build_containment(column, item, inputs.resolve(value), value.type)
        case StartsWith(text=Prop() as column, prefix=Const() | ParamRef() as value):
            prefix = inputs.resolve(value)
            # Every text starts with the empty prefix.
            return filters.build_prefix_match(column.name, prefix) if isinstance(prefix, str) and prefix else None
        case _:
            return None


def _build_comparison(op: Op, column: RowValue, value: Value, value_type: ValueType) -> str | None:
    type_ = _find_scalar(column.type)
    value = _round_operand(value, value_type, type_)
    bounds = None if type_ is None else find_bounds(value, type_)
    if type_ is None or bounds is None:
        return None
    if _is_rounded(type_, value_type):
        return _build_rounded_comparison(op, column, value)
    low, high = bounds
    if low == value:
        # `!=` passes nearly every row, including NaN, for which filters of floats are not reliable.
        if (op is Op.NE and type_.is_float) or (type_ is Scalar.BOOL and op is not Op.EQ):
            return None
        return filters.build_comparison(get_column_name(column), _SQL_OPS[op], pa.scalar(low, to_arrow_type(type_)))
    match op:
        case Op.NE:
            return None
        case Op.GT | Op.GE:
            return filters.build_comparison(get_column_name(column), ">=", pa.scalar(high, to_arrow_type(type_)))
        case Op.LT | Op.LE:
            return filters.build_comparison(get_column_name(column), "<=", pa.scalar(low, to_arrow_type(type_)))
        case Op.EQ:
            # No value of the column's type equals this one; the filter passes one neighbour, the predicate none.
            return filters.build_comparison(get_column_name(column), "=", pa.scalar(low, to_arrow_type(type_)))


def _build_rounded_comparison(op: Op, column: RowValue, value: Value) -> str | None:
    """Return the filter of an F64 column whose fractions are rounded to F32 before the comparison with an F32.

    A value that is rounded to a number lies between the two F32 next to it; one that is rounded to less was less.
    """
    assert isinstance(value, float)  # noqa: S101 - a value of F32
    below, above = (float(np.nextafter(np.float32(value), np.float32(end))) for end in (-np.inf, np.inf))
    limits = {
        Op.EQ: ((">=", below), ("<=", above)),
        Op.LE: (("<=", above),),
        Op.GE: ((">=", below),),
        Op.LT: (("<", value),),
        Op.GT: ((">", value),),
        Op.NE: (),
    }
    parts = [filters.build_comparison(get_column_name(column), sign, pa.scalar(limit)) for sign, limit in limits[op]]
    return filters.join_with_and(parts) if parts else None


def _build_membership(column: RowValue, items: Value, items_type: ValueType) -> str | None:
    type_ = _find_scalar(column.type)
    if type_ is None or not isinstance(items, tuple | list) or not 0 < len(items) <= MAX_PUSHED_VALUES:
        return None
    item_type = items_type.element if isinstance(items_type, ListOf) else items_type
    if _is_rounded(type_, item_type):
        return None
    values = _convert_items([_round_operand(item, item_type, type_) for item in items], type_)
    return filters.build_in_list(get_column_name(column), pa.array(values, to_arrow_type(type_))) if values else None


def _convert_items(items: Sequence[Value], type_: Scalar) -> list[Value] | None:
    """Return the values of a column's type that equal one of the items, or None if the list can't be pushed down."""
    values: list[Value] = []
    for item in items:
        bounds = find_bounds(item, type_)
        # A list may contain NaN, which `in` finds but which has no bounds to filter by.
        if bounds is None:
            return None
        if bounds[0] == item:
            values.append(bounds[0])
    return values


def _build_containment(column: Prop, type_: Scalar, value: Value, value_type: ValueType) -> str | None:
    value = _round_operand(value, value_type, type_)
    bounds = find_bounds(value, type_)
    if bounds is None or bounds[0] != value or _is_rounded(type_, value_type):
        return None
    return filters.build_list_contains(column.name, pa.scalar(bounds[0], to_arrow_type(type_)))


def _round_operand(value: Value, value_type: ValueType, type_: Scalar | None) -> Value:
    """Return a value as it is compared with those of a column: for an F32 column, a fraction of F64 is rounded."""
    if (type_, value_type) != (Scalar.F32, Scalar.F64) or not isinstance(value, float) or value.is_integer():
        return value
    return float(np.float32(value))


def _is_rounded(type_: Scalar, value_type: ValueType) -> bool:
    """Return whether a comparison rounds the values of the column, not the literal."""
    return (type_, value_type) == (Scalar.F64, Scalar.F32)


def _find_scalar(type_: ValueType) -> Scalar | None:
    """Return the type by which a table compares the column, or None if it has no order."""
    if isinstance(type_, EnumOf):
        return Scalar.STRING
    return type_ if isinstance(type_, Scalar) and type_ is not Scalar.BLOB else None


def find_bounds(value: Value, type_: Scalar) -> tuple[Value, Value] | None:
    """Return the nearest values of a type below and above this one; both are the value itself if the type has it.

    Beyond an end of the type's range both are that end. None for null, and for NaN, which has no neighbours.
    """
    if value is None or not type_.is_numeric:
        return None if value is None else (value, value)
    assert isinstance(value, int | float)  # noqa: S101 - a number compares with numbers only
    if isinstance(value, float) and math.isnan(value):
        return None
    if type_.is_float:
        return _find_float_bounds(value, type_)
    low, high = INTEGER_RANGES[type_]
    if isinstance(value, float) and math.isinf(value):
        end = high if value > 0 else low
        return end, end
    return min(max(math.floor(value), low), high), min(max(math.ceil(value), low), high)


def _find_float_bounds(value: float, type_: Scalar) -> tuple[float, float]:
    kind = np.float32 if type_ is Scalar.F32 else np.float64
    with np.errstate(over="ignore"):
        near = kind(value)  # infinite if the value is too large for the type
    nearest = float(near)
    if nearest == value:
        return nearest, nearest
    if nearest < value:
        return nearest, float(np.nextafter(near, kind(np.inf)))
    return float(np.nextafter(near, kind(-np.inf))), nearest
