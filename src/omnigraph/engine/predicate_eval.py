"""Predicates over rows of one table, or over bindings of several variables: three-valued, as columns of Arrow.

Numbers compare exactly whatever their types: nothing is rounded first. One exception: beside an F32, a fraction is read
as an F32, as it would be if it was stored there.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeAlias, assert_never

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.in_list_eval import is_in_items, is_in_list
from omnigraph.engine.numeric_compare import compare_exactly, round_fractions
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
from omnigraph.query.mutation_plan import StoredValue
from omnigraph.schema.arrow import to_arrow_type
from omnigraph.schema.catalog import Value
from omnigraph.schema.types import EnumOf, ListOf, Scalar, ValueType, VectorOf
from omnigraph.storage.arrow_buffers import build_scalar

Column: TypeAlias = pa.ChunkedArray | pa.Array
Operand: TypeAlias = pa.ChunkedArray | pa.Array | pa.Scalar
RowValue: TypeAlias = Prop | Identity

_ARROW_OPS: dict[Op, Callable[[Operand, Operand], Operand]] = {
    Op.EQ: pc.equal,
    Op.NE: pc.not_equal,
    Op.LT: pc.less,
    Op.LE: pc.less_equal,
    Op.GT: pc.greater,
    Op.GE: pc.greater_equal,
}
_SMALL_INTEGERS = (Scalar.I32, Scalar.U32)
"""Integers that both I64 and F64 hold exactly."""


class SearchNotHereError(OmnigraphError):
    """A text search was handed to what compares the values of columns; whoever plans a query keeps them apart."""

    kind = Kind.INTERNAL
    code = "search_not_here"

    def __init__(self, function: str) -> None:
        super().__init__(function)
        self.function = function

    def __str__(self) -> str:
        return f"`{self.function}` can't be answered by comparing values: please report it, with the query"


@dataclass(frozen=True, slots=True)
class QueryInputs:
    """What is known before a row is read: the parameters' values and the query's one instant."""

    params: Mapping[str, Value]
    now: datetime

    def resolve(self, expr: StoredValue) -> Value:
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


def get_column_name(expr: RowValue) -> str:
    """The name of the column that an expression reads."""
    return expr.name if isinstance(expr, Prop) else expr.part.value


def find_columns(expr: Expr) -> list[str]:
    """The columns that an expression reads, each once."""
    return list(dict.fromkeys(get_column_name(part) for part in walk(expr) if isinstance(part, Prop | Identity)))


class ValueSource(Protocol):
    """Where an expression finds what it reads of the rows at hand, whatever variables they bind."""

    @property
    def size(self) -> int:
        """How many rows there are."""
        ...

    def read_column(self, expr: RowValue) -> Column:
        """The value of a property or id in every row."""
        ...

    def compare(self, expr: Compare) -> Column | None:
        """The truth of a comparison in every row, when it can be told without its values."""
        ...

    def match_text(self, expr: TextMatch) -> Column:
        """The truth of a text search in every row."""
        ...


@dataclass(frozen=True, slots=True)
class _SingleTable:
    """The rows of one table, whose columns have the names of properties."""

    rows: pa.Table

    @property
    def size(self) -> int:
        return int(self.rows.num_rows)

    def read_column(self, expr: RowValue) -> Column:
        return self.rows.column(get_column_name(expr))

    def compare(self, expr: Compare) -> Column | None:  # noqa: ARG002 - values are all it has
        return None

    def match_text(self, expr: TextMatch) -> Column:
        raise SearchNotHereError(expr.mode.value)


def evaluate(expr: Expr, rows: pa.Table, inputs: QueryInputs) -> Column:
    """The value of an expression in every row of one table. A predicate is true, false or null (unknown).

    Raises:
        SearchNotHereError: It holds a text search.
    """
    return evaluate_over(expr, _SingleTable(rows), inputs)


def evaluate_over(expr: Expr, values: ValueSource, inputs: QueryInputs) -> Column:
    """As `evaluate`, for rows that may bind several variables."""
    found = _evaluate_operand(expr, values, inputs)
    return pa.repeat(found, values.size) if isinstance(found, pa.Scalar) else found


def _evaluate_operand(expr: Expr, values: ValueSource, inputs: QueryInputs) -> Operand:
    """The value in every row, or one value when it is the same in all."""
    match expr:
        case Const() | ParamRef() | Now():
            return build_scalar(inputs.resolve(expr), to_arrow_type(expr.type))
        case Prop() | Identity():
            return values.read_column(expr)
        case IsNull():
            operand = _evaluate_operand(expr.operand, values, inputs)
            return pc.is_valid(operand) if expr.negated else pc.is_null(operand)
        case Not():
            return pc.invert(_evaluate_operand(expr.term, values, inputs))
        case And() | Or():
            combine = pc.and_kleene if isinstance(expr, And) else pc.or_kleene
            found = _evaluate_operand(expr.terms[0], values, inputs)
            for term in expr.terms[1:]:
                found = combine(found, _evaluate_operand(term, values, inputs))
            return found
        case Compare():
            known = values.compare(expr)
            return _evaluate_comparison(expr, values, inputs) if known is None else known
        case In():
            return _evaluate_in(expr, values, inputs)
        case Contains():
            return _evaluate_text(
                expr.text, expr.part, values, inputs, pc.match_substring, lambda text, part: part in text
            )
        case StartsWith():
            return _evaluate_text(expr.text, expr.prefix, values, inputs, pc.starts_with, str.startswith)
        case TextMatch():
            return values.match_text(expr)
        case _:
            raise AssertionError(f"a {type(expr).__name__} can't stand in a predicate")


# --- single operators --------------------------------------------------------------------------------


def _get_value_type(expr: Expr) -> ValueType:
    found = expr.type
    assert isinstance(found, Scalar | EnumOf | ListOf | VectorOf)  # noqa: S101 - expressions check this when built
    return found


def _evaluate_comparison(expr: Compare, values: ValueSource, inputs: QueryInputs) -> Operand:
    left, right = (_evaluate_operand(side, values, inputs) for side in (expr.left, expr.right))
    found = _compare_operands(expr.op, left, _get_value_type(expr.left), right, _get_value_type(expr.right))
    is_single = isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar)
    return found[0] if is_single and isinstance(found, pa.Array) else found


def _compare_operands(op: Op, left: Operand, left_type: ValueType, right: Operand, right_type: ValueType) -> Operand:
    if find_shared_type(left_type, right_type) is None:
        return compare_exactly(op, left, right)
    return _ARROW_OPS[op](as_shared(left, left_type, right_type), as_shared(right, right_type, left_type))


def as_shared(operand: Operand, type_: ValueType, other: ValueType) -> Operand:
    """Return values in the type that they share with those of another type, ready to be compared with them."""
    shared = find_shared_type(type_, other)
    assert shared is not None  # noqa: S101 - the caller has asked
    if type_ is Scalar.F64 and other is Scalar.F32:
        return round_fractions(operand)
    return _cast(operand, shared)


def _cast(operand: Operand, type_: pa.DataType) -> Operand:
    if operand.type == type_ or pa.types.is_large_string(operand.type):
        return operand  # texts of either kind compare; a large column does not fit into the other
    return operand.cast(type_)


def find_shared_type(left: ValueType, right: ValueType) -> pa.DataType | None:
    """The type in which comparable values of both are what they were; None when there is none."""
    a, b = (Scalar.STRING if isinstance(side, EnumOf) else side for side in (left, right))
    if a == b:
        return to_arrow_type(a)
    if not isinstance(a, Scalar) or not isinstance(b, Scalar):
        return None
    if a.is_integer and b.is_integer:
        return None if Scalar.U64 in (a, b) else pa.int64()
    if all(side.is_float or side in _SMALL_INTEGERS for side in (a, b)):
        return pa.float64()
    return None


def _evaluate_pairwise(function: Callable[..., bool], left: Column, right: Column) -> pa.Array:
    pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
    return pa.array([None if a is None or b is None else function(a, b) for a, b in pairs], pa.bool_())


def _evaluate_in(expr: In, values: ValueSource, inputs: QueryInputs) -> Column:
    element = evaluate_over(expr.element, values, inputs)
    type_, collection = _get_value_type(expr.element), expr.collection
    assert isinstance(collection.type, ListOf)  # noqa: S101 - expressions check this when built
    if not isinstance(collection, Const | ParamRef):
        of_items = collection.type.element
        lists = evaluate_over(collection, values, inputs)
        return is_in_list(element, lists, lambda item, other: _compare_operands(Op.EQ, item, type_, other, of_items))
    items = inputs.resolve(collection)
    if items is None:
        return pa.nulls(values.size, pa.bool_())
    assert isinstance(items, tuple | list)  # noqa: S101 - the value of a list
    return is_in_items(element, type_, items, collection.type.element)


def _evaluate_text(
    text: Expr,
    part: Expr,
    values: ValueSource,
    inputs: QueryInputs,
    vectorised: Callable[..., Column],
    single: Callable[[str, str], bool],
) -> Column:
    column = evaluate_over(text, values, inputs)
    if isinstance(part, Const | ParamRef):
        wanted = inputs.resolve(part)
        if wanted is None:
            return pa.nulls(values.size, pa.bool_())
        return vectorised(column, pattern=wanted)
    return _evaluate_pairwise(single, column, evaluate_over(part, values, inputs))
