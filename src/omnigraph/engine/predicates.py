"""Predicates over the rows of one table: three-valued, as columns of Arrow.

A predicate reads the columns of the row at hand by name. Numbers compare exactly whatever their types: what Arrow
would round first is compared one by one.
"""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias, assert_never, cast

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import Kind, OmnigraphError
from omnigraph.query.expr import (
    And,
    Compare,
    Const,
    Contains,
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
    StartsWith,
    TextMatch,
    walk,
)
from omnigraph.query.mutation_ir import StoredValue
from omnigraph.schema.arrow import arrow_type
from omnigraph.schema.catalog import Value
from omnigraph.schema.types import EnumOf, ListOf, Scalar, ValueType, VectorOf

Column: TypeAlias = "pa.ChunkedArray | pa.Array"
RowValue: TypeAlias = Prop | Identity

_ARROW_OPS: dict[Op, Callable[[Column, Column], Column]] = {
    Op.EQ: pc.equal,
    Op.NE: pc.not_equal,
    Op.LT: pc.less,
    Op.LE: pc.less_equal,
    Op.GT: pc.greater,
    Op.GE: pc.greater_equal,
}
_PYTHON_OPS: dict[Op, Callable[..., bool]] = {
    Op.EQ: operator.eq,
    Op.NE: operator.ne,
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
}
_SMALL = (Scalar.I32, Scalar.U32)
"""Integers that both I64 and F64 hold exactly."""


class SearchNotHereError(OmnigraphError):
    """A text search stands where rows are chosen to be changed."""

    kind = Kind.INVALID
    code = "search_in_mutation"

    def __init__(self, function: str) -> None:
        super().__init__(function)
        self.function = function

    def __str__(self) -> str:
        return (
            f"`{self.function}` can't choose the rows of an update or delete:"
            " find the rows by a query, then name them by their ids"
        )


@dataclass(frozen=True, slots=True)
class Inputs:
    """What is known before a row is read: the parameters' values and the query's one instant."""

    params: Mapping[str, Value]
    now: datetime

    def value(self, expr: StoredValue) -> Value:
        """The value of a literal, a parameter or `now()`."""
        match expr:
            case Const():
                return expr.value
            case ParamRef():
                return self.params[expr.name]
            case Now():
                return self.now
            case _:
                assert_never(expr)


def column_of(expr: RowValue) -> str:
    """The name of the column that an expression reads."""
    return expr.name if isinstance(expr, Prop) else expr.part.value


def columns_of(expr: Expr) -> list[str]:
    """The columns that an expression reads, each once."""
    return list(dict.fromkeys(column_of(part) for part in walk(expr) if isinstance(part, Prop | Identity)))


def holding(rows: pa.Table, predicate: Expr, inputs: Inputs) -> pa.Table:
    """The rows for which the predicate is true; where it is unknown, a row does not count."""
    return rows.filter(evaluate(predicate, rows, inputs), null_selection_behavior="drop")


def evaluate(expr: Expr, rows: pa.Table, inputs: Inputs) -> Column:
    """The value of an expression in every row. A predicate is true, false or null (unknown).

    Raises:
        SearchNotHereError: It holds a text search.
    """
    match expr:
        case Const() | ParamRef() | Now():
            return _constant(inputs.value(expr), expr.type, rows.num_rows)
        case Prop() | Identity():
            return rows.column(column_of(expr))
        case IsNull():
            operand = evaluate(expr.operand, rows, inputs)
            return pc.is_valid(operand) if expr.negated else pc.is_null(operand)
        case Not():
            return pc.invert(evaluate(expr.term, rows, inputs))
        case And() | Or():
            combine = pc.and_kleene if isinstance(expr, And) else pc.or_kleene
            found = evaluate(expr.terms[0], rows, inputs)
            for term in expr.terms[1:]:
                found = combine(found, evaluate(term, rows, inputs))
            return found
        case Compare():
            return _compare(expr, rows, inputs)
        case In():
            return _in(expr, rows, inputs)
        case Contains():
            return _text(expr.text, expr.part, rows, inputs, pc.match_substring, lambda text, part: part in text)
        case StartsWith():
            return _text(expr.text, expr.prefix, rows, inputs, pc.starts_with, str.startswith)
        case TextMatch():
            raise SearchNotHereError(expr.mode.value)
        case _:
            raise AssertionError(f"a {type(expr).__name__} can't stand in a predicate over one row")


# --- pushed into the table -------------------------------------------------------------------------

_PUSHED = (Scalar.STRING, Scalar.I32, Scalar.I64)
"""Types that a table compares exactly as we do. Floats are not: there -0.0 and 0.0 differ."""
MAX_PUSHED_VALUES = 4_096


def pushed(predicate: Expr, inputs: Inputs) -> pc.Expression | None:
    """A filter that every row of `holding` passes, to read fewer rows; None when no part of it can be told.

    It lets others pass too: the predicate itself is asked of what was read.
    """
    match predicate:
        case And(terms=terms):
            found = [part for part in (pushed(term, inputs) for term in terms) if part is not None]
            return _folded(found, operator.and_) if found else None
        case Or(terms=terms):
            parts = [pushed(term, inputs) for term in terms]
            known = [part for part in parts if part is not None]
            return _folded(known, operator.or_) if len(known) == len(parts) else None
        case Compare(op=op, left=Prop() | Identity() as column, right=Const() | ParamRef() as value):
            return _pushed_comparison(op, column, value, inputs)
        case Compare(op=op, left=Const() | ParamRef() as value, right=Prop() | Identity() as column):
            return _pushed_comparison(op.mirrored, column, value, inputs)
        case In(element=Prop() | Identity() as column, collection=Const() | ParamRef() as value):
            items = inputs.value(value)
            wanted = _pushable(column.type)
            if not isinstance(items, tuple | list) or not isinstance(value.type, ListOf) or wanted is None:
                return None
            if _pushable(value.type.element) is not wanted or not 0 < len(items) <= MAX_PUSHED_VALUES:
                return None
            return pc.field(column_of(column)).isin(pa.array(items, arrow_type(wanted)))
        case _:
            return None


def _folded(
    parts: list[pc.Expression], combine: Callable[[pc.Expression, pc.Expression], pc.Expression]
) -> pc.Expression:
    """One expression of all parts, as flat a tree as can be: deep ones are dangerous to hand on."""
    while len(parts) > 1:
        pairs = [combine(a, b) for a, b in zip(parts[::2], parts[1::2], strict=False)]
        parts = pairs + parts[len(pairs) * 2 :]
    return parts[0]


def _pushable(type_: ValueType) -> Scalar | None:
    if isinstance(type_, EnumOf):
        return Scalar.STRING
    return type_ if isinstance(type_, Scalar) and type_ in _PUSHED else None


def _pushed_comparison(op: Op, column: RowValue, value: Const | ParamRef, inputs: Inputs) -> pc.Expression | None:
    wanted = _pushable(column.type)
    given = inputs.value(value)
    if wanted is None or given is None or _pushable(value.type) is not wanted:
        return None
    field, scalar = pc.field(column_of(column)), pa.scalar(given, arrow_type(wanted))
    return cast("pc.Expression", _PYTHON_OPS[op](field, scalar))  # an Expression overloads the operators


# --- single operators --------------------------------------------------------------------------------


def _constant(value: Value, type_: ValueType, rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, arrow_type(type_)), rows)


def _value_type(expr: Expr) -> ValueType:
    found = expr.type
    assert isinstance(found, Scalar | EnumOf | ListOf | VectorOf)  # noqa: S101 - expressions check this when built
    return found


def _compare(expr: Compare, rows: pa.Table, inputs: Inputs) -> Column:
    left, right = (evaluate(side, rows, inputs) for side in (expr.left, expr.right))
    shared = _shared_type(_value_type(expr.left), _value_type(expr.right))
    if shared is not None:
        return _ARROW_OPS[expr.op](left.cast(shared), right.cast(shared))
    return _one_by_one(_PYTHON_OPS[expr.op], left, right)


def _shared_type(left: ValueType, right: ValueType) -> pa.DataType | None:
    """The type in which values of both are what they were; None when there is none."""
    a, b = (Scalar.STRING if isinstance(side, EnumOf) else side for side in (left, right))
    if a == b:
        return arrow_type(a)
    if not isinstance(a, Scalar) or not isinstance(b, Scalar):
        return None
    if a.is_integer and b.is_integer:
        return None if Scalar.U64 in (a, b) else pa.int64()
    if all(side.is_float or side in _SMALL for side in (a, b)):
        return pa.float64()
    return None


def _one_by_one(function: Callable[..., bool], left: Column, right: Column) -> pa.Array:
    pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
    return pa.array([None if a is None or b is None else function(a, b) for a, b in pairs], pa.bool_())


def _in(expr: In, rows: pa.Table, inputs: Inputs) -> Column:
    element = evaluate(expr.element, rows, inputs)
    collection = expr.collection
    if isinstance(collection, Const | ParamRef):
        items = inputs.value(collection)
        if items is None:
            return pa.nulls(rows.num_rows, pa.bool_())
        assert isinstance(items, tuple | list) and isinstance(collection.type, ListOf)  # noqa: S101, PT018 - by type
        shared = _shared_type(_value_type(expr.element), collection.type.element)
        if shared is not None and not pa.types.is_floating(shared):
            found = pc.is_in(element.cast(shared), value_set=pa.array(items, shared))
            return pc.if_else(pc.is_valid(element), found, pa.scalar(None, pa.bool_()))
        known = set(items)
        return pa.array([None if item is None else item in known for item in element.to_pylist()], pa.bool_())
    return _one_by_one(lambda item, items: item in items, element, evaluate(collection, rows, inputs))


def _text(
    text: Expr,
    part: Expr,
    rows: pa.Table,
    inputs: Inputs,
    vectorised: Callable[..., Column],
    single: Callable[[str, str], bool],
) -> Column:
    column = evaluate(text, rows, inputs)
    if isinstance(part, Const | ParamRef):
        wanted = inputs.value(part)
        if wanted is None:
            return pa.nulls(rows.num_rows, pa.bool_())
        return vectorised(column, pattern=wanted)
    return _one_by_one(single, column, evaluate(part, rows, inputs))
