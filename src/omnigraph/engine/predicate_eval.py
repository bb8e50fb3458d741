"""Evaluate expressions over rows of one table or bindings of several variables, in three-valued logic, with Arrow.

Numbers compare exactly whatever their types, without rounding. One exception: compared with an F32, a fraction is read
as an F32, as it would be if it were stored in such a column.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.bug_error import BugError
from omnigraph.engine.in_list_eval import is_in_items, is_in_list
from omnigraph.engine.numeric_compare import compare_exactly, round_fractions
from omnigraph.engine.query_inputs import QueryInputs
from omnigraph.engine.scalar_eval import OverflowLog, evaluate_case, evaluate_computed, evaluate_record
from omnigraph.engine.value_store import read_records, to_stored_type
from omnigraph.engine.walk_values import build_walk_keys, measure_walks
from omnigraph.query.expr import (
    Aggregate,
    And,
    ArrayOf,
    Bm25,
    Case,
    Compare,
    Computed,
    Const,
    Contains,
    Distance,
    EdgeRef,
    Entity,
    Expr,
    FieldRef,
    FuzzyScore,
    Identity,
    In,
    IsNull,
    Missing,
    Mmr,
    Nearest,
    NodeRef,
    Not,
    Now,
    Op,
    Or,
    ParamRef,
    Prop,
    Rank,
    RecordExpr,
    RecordsParam,
    Rerank,
    Rrf,
    SearchValue,
    Snippet,
    StartsWith,
    TextMatch,
    United,
    ValueRef,
    WalkOf,
    Window,
)
from omnigraph.query.expr_tree import walk
from omnigraph.query.expr_types import WALK_KEY, WALK_LENGTH
from omnigraph.query.union_types import TYPE_COLUMN, is_union
from omnigraph.schema.arrow import to_arrow_type
from omnigraph.schema.types import EnumOf, ListOf, Scalar, ValueType, VectorOf
from omnigraph.storage.arrow_buffers import read_booleans, repeat_value
from omnigraph.storage.columnar_sets import concat_chunks

Column: TypeAlias = pa.ChunkedArray | pa.Array
Operand: TypeAlias = pa.ChunkedArray | pa.Array | pa.Scalar
RowValue: TypeAlias = Prop | Identity
VariableValue: TypeAlias = Prop | Identity | ValueRef

_ARROW_OPS: dict[Op, Callable[[Operand, Operand], Operand]] = {
    Op.EQ: pc.equal,
    Op.NE: pc.not_equal,
    Op.LT: pc.less,
    Op.LE: pc.less_equal,
    Op.GT: pc.greater,
    Op.GE: pc.greater_equal,
}
# Every value of these types is exact in both I64 and F64.
_SMALL_INTEGERS = (Scalar.I32, Scalar.U32)


def get_column_name(expr: RowValue) -> str:
    """Return the name of the column that an expression reads."""
    return expr.name if isinstance(expr, Prop) else expr.part.value


def find_columns(expr: Expr) -> list[str]:
    """Return the names of the columns that an expression reads, each once."""
    return list(dict.fromkeys(get_column_name(part) for part in walk(expr) if isinstance(part, Prop | Identity)))


class ValueSource(Protocol):
    """The column values that an expression reads, for rows that bind any number of variables."""

    @property
    def size(self) -> int:
        """The number of rows."""
        ...

    def read_column(self, expr: VariableValue) -> Column:
        """Return the values of a property, id or value variable."""
        ...

    def compare(self, expr: Compare) -> Column | None:
        """Return the result of a comparison if it can be computed without reading its values, else None."""
        ...

    def match_text(self, expr: TextMatch) -> Column:
        """Return the result of a text search."""
        ...


@runtime_checkable
class OverflowSource(Protocol):
    """A source of values whose variables may be bound to values that were calculated."""

    def log_overflow(self, variable: str, log: OverflowLog) -> None:
        """Add the rows to `log` in which the value of a variable is null because a calculation overflowed."""
        ...


@runtime_checkable
class EntitySource(Protocol):
    """A source of values whose variables are bound to rows: a whole node or edge is the position of its row."""

    def read_positions(self, variable: str) -> Column:
        """Return the positions of a variable's rows; null where it has none."""
        ...

    def read_property(self, type_name: str, column: str, at: Column) -> Column:
        """Return the values of a column at positions of a type's table; null where there is no position."""
        ...

    def unite_positions(self, type_name: str, union_name: str, at: Column) -> Column:
        """Return positions of a type's table as positions of a union of types; null where there is none."""
        ...


@runtime_checkable
class ResultValueSource(Protocol):
    """A source of values that also has aggregates and scores: the rows of a result."""

    def read_result(self, expr: Aggregate | Window | Rank) -> Column:
        """Return an aggregate or score."""
        ...


@runtime_checkable
class SearchValueSource(Protocol):
    """A source of values that also evaluates searches: its variables are bound to rows."""

    def read_search_value(self, expr: SearchValue) -> Column:
        """Return a score, a distance or a passage."""
        ...


@dataclass(frozen=True, slots=True)
class _SingleTable:
    """The rows of one table, whose columns have the names of properties."""

    rows: pa.Table

    @property
    def size(self) -> int:
        return int(self.rows.num_rows)

    def read_column(self, expr: VariableValue) -> Column:
        # The rows of one table bind no variable to a value.
        assert not isinstance(expr, ValueRef)  # noqa: S101
        return self.rows.column(get_column_name(expr))

    def compare(self, expr: Compare) -> Column | None:  # noqa: ARG002 - values are all it has
        return None

    def match_text(self, expr: TextMatch) -> Column:
        raise BugError.search_not_here(expr.mode.value)


def evaluate(expr: Expr, rows: pa.Table, inputs: QueryInputs, log: OverflowLog | None = None) -> Column:
    """Return the value of an expression in every row of one table. A predicate is true, false or null (unknown).

    Rows in which an integer overflows are null, and are added to `log`.

    Raises:
        BugError: The expression contains a text search.
    """
    return evaluate_over(expr, _SingleTable(rows), inputs, log)


def evaluate_over(expr: Expr, values: ValueSource, inputs: QueryInputs, log: OverflowLog | None = None) -> Column:
    """Return the same as `evaluate`, for rows that may bind several variables; overflows are added to `log`.

    Raises:
        QueryError: There is no log, as in conditions, and a calculation that is strict overflowed.
    """
    own = OverflowLog(is_strict_only=log is None or log.is_strict_only)
    result = _evaluate_operand(expr, values, inputs, own)
    # A calculation that is the same in all rows fails in none if there are none.
    if values.size and log is None:
        own.check()
    elif values.size and log is not None:
        log.add(own.mask, own.text)
    return repeat_value(result, values.size) if isinstance(result, pa.Scalar) else result


def _evaluate_operand(expr: Expr, values: ValueSource, inputs: QueryInputs, log: OverflowLog | None) -> Operand:
    """Return the value in every row, or a scalar if it is the same in all."""
    match expr:
        case Const() | ParamRef() | Now():
            return pa.scalar(inputs.resolve(expr), to_arrow_type(expr.type))
        case RecordsParam():
            return read_records(inputs.get_records(expr), expr.type)
        case Prop() | Identity():
            return values.read_column(expr)
        case ValueRef():
            if log is not None and not log.is_strict_only and isinstance(values, OverflowSource):
                values.log_overflow(expr.variable, log)
            return values.read_column(expr)
        case IsNull():
            operand = _evaluate_operand(expr.operand, values, inputs, log)
            return pc.is_valid(operand) if expr.negated else pc.is_null(operand)
        case Not():
            return pc.invert(_evaluate_operand(expr.term, values, inputs, log))
        case And() | Or():
            return _evaluate_terms(expr, values, inputs, log)
        case Compare():
            # Ids of one type are compared by the positions of their rows, without reading them.
            by_position = values.compare(expr)
            return _evaluate_comparison(expr, values, inputs, log) if by_position is None else by_position
        case In() | Contains() | StartsWith() | TextMatch():
            return _evaluate_match(expr, values, inputs, log)
        case Computed() | Case() | RecordExpr() | FieldRef():
            return _evaluate_composed(expr, values, inputs, log)
        case Entity() | United() | Missing():
            return _evaluate_entity(expr, values, inputs, log)
        case Aggregate() | Window() | Nearest() | Bm25() | Rrf() | Mmr() | Rerank() if isinstance(
            values, ResultValueSource
        ):
            return values.read_result(expr)
        case Nearest() | Bm25() | Rrf() | Mmr() | Rerank() | Distance() | Snippet() | FuzzyScore() if isinstance(
            values, SearchValueSource
        ):
            return values.read_search_value(expr)
        case _:
            raise AssertionError(f"a {type(expr).__name__} is not allowed in a predicate")


def _evaluate_terms(expr: And | Or, values: ValueSource, inputs: QueryInputs, log: OverflowLog | None) -> Operand:
    is_strict_only = log is not None and log.is_strict_only
    own = OverflowLog(is_strict_only=True) if is_strict_only else log
    combine = pc.and_kleene if isinstance(expr, And) else pc.or_kleene
    result = _evaluate_operand(expr.terms[0], values, inputs, own)
    for term in expr.terms[1:]:
        result = combine(result, _evaluate_operand(term, values, inputs, own))
    if log is not None and is_strict_only and own is not None and own.mask is not None:
        # Where another term decides, it does not matter that this one has no value.
        column = repeat_value(result, values.size) if isinstance(result, pa.Scalar) else concat_chunks(result)
        is_open = read_booleans(pc.is_null(column))
        log.add(own.mask & is_open, own.text)
    return result


def _evaluate_match(
    expr: In | Contains | StartsWith | TextMatch, values: ValueSource, inputs: QueryInputs, log: OverflowLog | None
) -> Operand:
    match expr:
        case In():
            return _evaluate_in(expr, values, inputs, log)
        case Contains():
            return _evaluate_text(
                expr.text, expr.part, values, inputs, pc.match_substring, lambda text, part: part in text, log
            )
        case StartsWith():
            return _evaluate_text(expr.text, expr.prefix, values, inputs, pc.starts_with, str.startswith, log)
        case TextMatch():
            return values.match_text(expr)


def _evaluate_composed(
    expr: Computed | Case | RecordExpr | FieldRef, values: ValueSource, inputs: QueryInputs, log: OverflowLog | None
) -> Operand:
    def evaluate_part(part: Expr, own: OverflowLog | None) -> Operand:
        return _evaluate_operand(part, values, inputs, own)

    match expr:
        case Computed():
            return evaluate_computed(expr, evaluate_part, inputs, log)
        case Case():
            return evaluate_case(expr, evaluate_part, values.size, log)
        case RecordExpr():
            return evaluate_record(expr, evaluate_part, values.size, log)
        case FieldRef():
            return _evaluate_field(expr, values, inputs, log)


def _evaluate_entity(
    expr: Entity | United | Missing, values: ValueSource, inputs: QueryInputs, log: OverflowLog | None
) -> Operand:
    """Return the positions of a whole node or edge; null where there is none."""
    if isinstance(expr, Missing):
        return pa.scalar(None, to_stored_type(expr.type))
    assert isinstance(values, EntitySource)  # noqa: S101 - other sources bind no nodes and edges
    if isinstance(expr, Entity):
        return values.read_positions(expr.variable)
    operand_type = expr.operand.type
    assert isinstance(operand_type, NodeRef | EdgeRef)  # noqa: S101 - expressions check this when built
    operand = _evaluate_operand(expr.operand, values, inputs, log)
    at = repeat_value(operand, values.size) if isinstance(operand, pa.Scalar) else operand
    return values.unite_positions(operand_type.name, expr.type.name, at)


def _evaluate_field(expr: FieldRef, values: ValueSource, inputs: QueryInputs, log: OverflowLog | None) -> Operand:
    owner = expr.operand.type
    if isinstance(owner, NodeRef | EdgeRef):
        assert isinstance(values, EntitySource)  # noqa: S101 - other sources bind no nodes and edges
        operand = _evaluate_operand(expr.operand, values, inputs, log)
        at = repeat_value(operand, values.size) if isinstance(operand, pa.Scalar) else operand
        if expr.name == TYPE_COLUMN and not is_union(owner.name):
            return pc.if_else(pc.is_valid(at), pa.scalar(owner.name), pa.scalar(None, pa.utf8()))
        return values.read_property(owner.name, expr.name, at)
    record = _evaluate_operand(expr.operand, values, inputs, log)
    if isinstance(owner, WalkOf) and expr.name in (WALK_LENGTH, WALK_KEY):
        walks = repeat_value(record, values.size) if isinstance(record, pa.Scalar) else concat_chunks(record)
        if expr.name == WALK_LENGTH:
            return measure_walks(walks)
        assert isinstance(values, EntitySource)  # noqa: S101 - other sources bind no paths
        return build_walk_keys(walks, owner, values.read_property)
    # The kernel, unlike the child array itself, is null where the record is.
    return pc.struct_field(record, expr.name)


# --- single operators --------------------------------------------------------------------------------


def _get_value_type(expr: Expr) -> ValueType:
    type_ = expr.type
    assert isinstance(type_, Scalar | EnumOf | ListOf | VectorOf)  # noqa: S101 - expressions check this when built
    return type_


def _evaluate_comparison(expr: Compare, values: ValueSource, inputs: QueryInputs, log: OverflowLog | None) -> Operand:
    left, right = (_evaluate_operand(side, values, inputs, log) for side in (expr.left, expr.right))
    result = _compare_operands(expr.op, left, _get_value_type(expr.left), right, _get_value_type(expr.right))
    # `compare_exactly` returns an array also for two scalars.
    is_single = isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar)
    return result[0] if is_single and isinstance(result, pa.Array) else result


def _compare_operands(op: Op, left: Operand, left_type: ValueType, right: Operand, right_type: ValueType) -> Operand:
    if find_shared_type(left_type, right_type) is None:
        return compare_exactly(op, left, right)
    return _ARROW_OPS[op](as_shared(left, left_type, right_type), as_shared(right, right_type, left_type))


def as_shared(operand: Operand, type_: ValueType, other: ValueType) -> Operand:
    """Return values cast to the type that they share with another one, ready to be compared."""
    shared = find_shared_type(type_, other)
    assert shared is not None  # noqa: S101 - callers check it first
    if type_ is Scalar.F64 and other is Scalar.F32:
        return round_fractions(operand)
    return _cast(operand, shared)


def _cast(operand: Operand, type_: pa.DataType) -> Operand:
    # Arrow compares strings with large strings, and a large column may not fit into the 32-bit offsets of the other.
    if operand.type == type_ or pa.types.is_large_string(operand.type):
        return operand
    return operand.cast(type_)


def find_shared_type(left: ValueType, right: ValueType) -> pa.DataType | None:
    """Return the type that represents the values of both types exactly, or None if there is none."""
    a, b = (Scalar.STRING if isinstance(side, EnumOf) else side for side in (left, right))
    if a == b:
        return to_arrow_type(a)
    if not isinstance(a, Scalar) or not isinstance(b, Scalar):
        return None
    # No Arrow integer type has the values of both U64 and a signed type; `compare_exactly` handles them.
    if a.is_integer and b.is_integer:
        return None if Scalar.U64 in (a, b) else pa.int64()
    if all(side.is_float or side in _SMALL_INTEGERS for side in (a, b)):
        return pa.float64()
    return None


def _evaluate_pairwise(function: Callable[..., bool], left: Column, right: Column) -> pa.Array:
    pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
    return pa.array([None if a is None or b is None else function(a, b) for a, b in pairs], pa.bool_())


def _evaluate_in(expr: In, values: ValueSource, inputs: QueryInputs, log: OverflowLog | None) -> Column:
    element = evaluate_over(expr.element, values, inputs, log)
    collection = expr.collection
    if isinstance(collection.type, ArrayOf):
        # Nodes and edges are positions here, and equal positions are the same row.
        return is_in_list(element, evaluate_over(collection, values, inputs, log), pc.equal)
    type_ = _get_value_type(expr.element)
    assert isinstance(collection.type, ListOf)  # noqa: S101 - expressions check this when built
    if not isinstance(collection, Const | ParamRef):
        of_items = collection.type.element
        lists = evaluate_over(collection, values, inputs, log)
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
    log: OverflowLog | None,
) -> Column:
    column = evaluate_over(text, values, inputs, log)
    if isinstance(part, Const | ParamRef):
        pattern = inputs.resolve(part)
        if pattern is None:
            return pa.nulls(values.size, pa.bool_())
        return vectorised(column, pattern=pattern)
    # Arrow's kernels take a single pattern, so a pattern per row is compared in Python.
    return _evaluate_pairwise(single, column, evaluate_over(part, values, inputs, log))
