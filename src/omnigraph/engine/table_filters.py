"""What a table's own filter, and so an index, can tell of a predicate before rows are read.

A filter lets every row pass for which the predicate is true, and may let others pass: the predicate itself is asked of
what was read. Literals are handed over in the column's own type, in which each number has two neighbours: a comparison
with 2.5 is one with 2 or 3 for a column of integers, and loses nothing. Where an F32 meets an F64, fractions are
rounded here as the predicate rounds them.
"""

import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from omnigraph.engine.predicate_eval import QueryInputs, RowValue, get_column_name
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
from omnigraph.storage.arrow_buffers import build_scalar

MAX_PUSHED_VALUES = 4_096
MAX_NESTING = 24
"""How many parentheses a filter may nest; Lance's parser refuses about 50."""
_SQL_OPS: dict[Op, str] = {Op.EQ: "=", Op.NE: "!=", Op.LT: "<", Op.LE: "<=", Op.GT: ">", Op.GE: ">="}


def build_table_filter(predicate: Expr, inputs: QueryInputs) -> str | None:
    """Return a filter that every row passes for which the predicate is true; None where nothing can be told."""
    return None if _measure_nesting(predicate) > MAX_NESTING else _build_filter(predicate, inputs)


def _measure_nesting(predicate: Expr) -> int:
    """Return how many parentheses the filter of a predicate nests at most."""
    if not isinstance(predicate, And | Or):
        return 1
    return max(map(_measure_nesting, predicate.terms)) + math.ceil(math.log2(max(len(predicate.terms), 2)))


def _build_filter(predicate: Expr, inputs: QueryInputs) -> str | None:
    match predicate:
        case And(terms=terms):
            found = [part for part in (_build_filter(term, inputs) for term in terms) if part is not None]
            return filters.join_with_and(found) if found else None
        case Or(terms=terms):
            parts = [_build_filter(term, inputs) for term in terms]
            known = [part for part in parts if part is not None]
            return filters.join_with_or(known) if len(known) == len(parts) else None
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
            return filters.build_prefix_match(column.name, prefix) if isinstance(prefix, str) and prefix else None
        case _:
            return None


def _build_comparison(op: Op, column: RowValue, value: Value, given: ValueType) -> str | None:
    type_ = _find_scalar(column.type)
    value = _round_operand(value, given, type_)
    found = None if type_ is None else find_bounds(value, type_)
    if type_ is None or found is None:
        return None
    if _is_rounded(type_, given):
        return _build_rounded_comparison(op, column, value)
    low, high = found
    if low == value:
        # What is not equal is nearly everything, a NaN too, which no filter of floats can be relied on to tell.
        if (op is Op.NE and type_.is_float) or (type_ is Scalar.BOOL and op is not Op.EQ):
            return None
        return filters.build_comparison(get_column_name(column), _SQL_OPS[op], build_scalar(low, to_arrow_type(type_)))
    match op:
        case Op.NE:
            return None
        case Op.GT | Op.GE:
            return filters.build_comparison(get_column_name(column), ">=", build_scalar(high, to_arrow_type(type_)))
        case Op.LT | Op.LE:
            return filters.build_comparison(get_column_name(column), "<=", build_scalar(low, to_arrow_type(type_)))
        case Op.EQ:  # no row, and one value at most to look at
            return filters.build_comparison(get_column_name(column), "=", build_scalar(low, to_arrow_type(type_)))


def _build_rounded_comparison(op: Op, column: RowValue, value: Value) -> str | None:
    """Return the filter of a column of F64 whose fractions are rounded to F32 before they are compared with an F32.

    What is rounded to a number lies between the two F32 beside it; what is rounded to less was less.
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


def _build_membership(column: RowValue, items: Value, given: ValueType) -> str | None:
    type_ = _find_scalar(column.type)
    if type_ is None or not isinstance(items, tuple | list) or not 0 < len(items) <= MAX_PUSHED_VALUES:
        return None
    of_items = given.element if isinstance(given, ListOf) else given
    if _is_rounded(type_, of_items):
        return None
    found = _convert_items([_round_operand(item, of_items, type_) for item in items], type_)
    return filters.build_in_list(get_column_name(column), pa.array(found, to_arrow_type(type_))) if found else None


def _convert_items(items: Sequence[Value], type_: Scalar) -> list[Value] | None:
    """Return the values of a column's type that equal one of the items; None where one of them can't be told.

    A list may hold a NaN, which `in` finds.
    """
    found: list[Value] = []
    for item in items:
        near = find_bounds(item, type_)
        if near is None:
            return None
        if near[0] == item:
            found.append(near[0])
    return found


def _build_containment(column: Prop, type_: Scalar, value: Value, given: ValueType) -> str | None:
    value = _round_operand(value, given, type_)
    found = find_bounds(value, type_)
    if found is None or found[0] != value or _is_rounded(type_, given):
        return None
    return filters.build_list_contains(column.name, build_scalar(found[0], to_arrow_type(type_)))


def _round_operand(value: Value, given: ValueType, type_: Scalar | None) -> Value:
    """Return a value as it is compared with those of a column: beside an F32, a fraction of F64 is read as an F32."""
    if (type_, given) != (Scalar.F32, Scalar.F64) or not isinstance(value, float) or value.is_integer():
        return value
    return float(np.float32(value))


def _is_rounded(type_: Scalar, given: ValueType) -> bool:
    """Whether it is the values of the column that are rounded for a comparison with those of a type."""
    return (type_, given) == (Scalar.F64, Scalar.F32)


def _find_scalar(type_: ValueType) -> Scalar | None:
    """Return the type that a table compares the column by; None where it has no order."""
    if isinstance(type_, EnumOf):
        return Scalar.STRING
    return type_ if isinstance(type_, Scalar) and type_ is not Scalar.BLOB else None


def find_bounds(value: Value, type_: Scalar) -> tuple[Value, Value] | None:
    """Return the nearest values of a type that are at most and at least this one: itself where it is one of them.

    Beyond an end of the type both are that end. None for no value, and for a NaN, which nothing is near to.
    """
    if value is None or not type_.is_numeric:
        return None if value is None else (value, value)
    assert isinstance(value, int | float)  # noqa: S101 - a number compares with numbers only
    if isinstance(value, float) and math.isnan(value):
        return None
    if type_.is_float:
        return _find_float_bounds(value, type_)
    least, greatest = INTEGER_RANGES[type_]
    if isinstance(value, float) and math.isinf(value):
        end = greatest if value > 0 else least
        return end, end
    return min(max(math.floor(value), least), greatest), min(max(math.ceil(value), least), greatest)


def _find_float_bounds(value: float, type_: Scalar) -> tuple[float, float]:
    kind = np.float32 if type_ is Scalar.F32 else np.float64
    with np.errstate(over="ignore"):
        near = kind(value)
    own = float(near)
    if own == value:
        return own, own
    if own < value:
        return own, float(np.nextafter(near, kind(np.inf)))
    return float(np.nextafter(near, kind(-np.inf))), own
