"""How many rows a predicate is likely to let pass: by what columns in memory tell, else by rules of thumb."""

from math import prod

import numpy as np

from omnigraph.engine.predicates import Inputs, RowValue, column_of
from omnigraph.engine.tables.table_columns import TableColumns
from omnigraph.query.expr import (
    And,
    Compare,
    Const,
    Expr,
    Identity,
    In,
    IsNull,
    Not,
    Now,
    Op,
    Or,
    ParamRef,
    Prop,
)
from omnigraph.schema.catalog import AnyType, Value
from omnigraph.schema.types import EnumOf, Scalar

_EQUAL, _RANGE, _NULL, _OTHER = 0.05, 0.33, 0.1, 0.2
"""The shares of rows that pass, where nothing is known of the values."""


def estimated_share(columns: TableColumns, type_: AnyType, terms: tuple[Expr, ...], inputs: Inputs) -> float:
    """The share of rows that pass all terms, taken as independent; reads nothing."""
    return min(1.0, max(0.0, prod(_share(columns, type_, term, inputs) for term in terms)))


def _share(columns: TableColumns, type_: AnyType, term: Expr, inputs: Inputs) -> float:
    match term:
        case Const():
            return float(term.value is True)
        case And(terms=terms):
            return prod(_share(columns, type_, part, inputs) for part in terms)
        case Or(terms=terms):
            return 1 - prod(1 - _share(columns, type_, part, inputs) for part in terms)
        case Not(term=inner):
            return 1 - _share(columns, type_, inner, inputs)
        case IsNull(operand=Prop(nullable=False) | Identity(), negated=negated):
            return float(negated)
        case IsNull(operand=operand, negated=negated):
            nulls = _nulls(columns, operand)
            return 1 - nulls if negated else nulls
        case Compare(op=op, left=Prop() | Identity() as column, right=Const() | ParamRef() | Now() as value):
            return _compared(columns, type_, column, op, inputs.value(value))
        case Compare(op=op, left=Const() | ParamRef() | Now() as value, right=Prop() | Identity() as column):
            return _compared(columns, type_, column, op.mirrored, inputs.value(value))
        case In(element=Prop() | Identity() as column, collection=Const() | ParamRef() as value):
            items = inputs.value(value)
            count = len(items) if isinstance(items, tuple | list) else 0
            return min(1.0, count * _equal(columns, type_, column))
        case _:
            return _OTHER


def _nulls(columns: TableColumns, operand: Expr) -> float:
    if isinstance(operand, Prop) and columns.is_resident(operand.name) and columns.layout.size:
        return float(columns.written(operand.name).null_count) / columns.layout.size
    return _NULL


def _compared(columns: TableColumns, type_: AnyType, column: RowValue, op: Op, value: Value) -> float:
    if value is None:
        return 0.0
    if op is Op.EQ:
        return _equal(columns, type_, column)
    if op is Op.NE:
        return 1 - _equal(columns, type_, column)
    bounds = _bounds(columns, column)
    if bounds is None or not isinstance(value, int | float):
        return _RANGE
    low, high = bounds
    below = 0.5 if high <= low else min(1.0, max(0.0, (value - low) / (high - low)))
    return below if op in (Op.LT, Op.LE) else 1 - below


def _equal(columns: TableColumns, type_: AnyType, column: RowValue) -> float:
    name, count = column_of(column), max(columns.layout.count, 1)
    if columns.has_derived(name, "codes"):
        return 1 / max(len(columns.codes(name)[1]), 1)
    if isinstance(column, Identity) or (name,) in type_.unique or type_.key == (name,):
        return 1 / count
    match column.type:
        case EnumOf(values=values):
            return 1 / len(values)
        case Scalar.BOOL:
            return 0.5
        case Scalar.I32 | Scalar.I64 | Scalar.U32 | Scalar.U64:
            bounds = _bounds(columns, column)
            return _EQUAL if bounds is None else max(1 / count, 1 / (bounds[1] - bounds[0] + 1))
        case _:
            return _EQUAL


def _bounds(columns: TableColumns, column: RowValue) -> tuple[float, float] | None:
    """The least and the greatest number of a column in memory."""
    name = column_of(column)
    if not isinstance(column.type, Scalar) or not column.type.is_numeric or not columns.is_resident(name):
        return None

    def find() -> tuple[float, float] | None:
        values, valid = columns.numbers(name)
        some = values if valid is None else values[valid]
        return (float(np.min(some)), float(np.max(some))) if len(some) else None

    return columns.derived(name, "bounds", find, lambda _: 64)
