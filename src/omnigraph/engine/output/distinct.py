"""Group equal rows: each combination of values gets a code, and equal codes form a group."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.engine.bindings import Bindings
from omnigraph.engine.kernels import MAX_KERNEL_ROWS, Check, argsort_stable, skip_check
from omnigraph.engine.operators.multiplicity import sum_by_position
from omnigraph.engine.output.projection import Frame, Rows
from omnigraph.engine.output.sort_keys import to_ordered_ints
from omnigraph.query.expr import (
    Const,
    EdgeRef,
    Entity,
    Expr,
    Identity,
    MetaColumn,
    NodeRef,
    Now,
    ParamRef,
    Prop,
    ValueRef,
    WalkOf,
)
from omnigraph.query.walk_plan import WALK_KEY, read_part
from omnigraph.schema.catalog import AnyType
from omnigraph.schema.types import EnumOf, Scalar
from omnigraph.storage.arrow_buffers import fill_nulls, is_valid

Ints: TypeAlias = NDArray[np.int64]
# Limit of combined codes: they must fit into int64.
_MAX_CODES = 2**62
# The codes of a whole column are computed and cached only if at least one table row in this many is needed.
_MAX_TABLE_ROWS_PER_ROW = 8
# Codes up to this many times the rows, or up to a small range, are counted in an array; sparser ones are sorted.
_MAX_CODES_PER_ROW = 16
_SMALL_CODE_RANGE = 1 << 16


@dataclass(frozen=True, slots=True)
class Codes:
    """A code from 0 to below `bound` for each row; equal values have equal codes, and so have nulls."""

    numbers: Ints
    bound: int
    zero_is_null: bool = False
    is_of_rows: bool = False
    """Whether the codes are row positions: then all of them may well differ."""


@dataclass(frozen=True, slots=True)
class Groups:
    """The group of each row, from 0 to below `count`, and the first row of each group."""

    row_groups: Ints
    count: int
    first: Rows
    is_identity: bool = False
    """Whether row i is the only row of group i."""


def select_distinct(frame: Frame, exprs: Sequence[Expr]) -> Frame:
    """Return one row per combination of the expressions' values; whole nodes and edges are compared by identity."""
    return replace(frame.take(group_rows(frame, exprs).first), is_merged=True)


def merge_equal_rows(frame: Frame, exprs: Sequence[Expr], *, has_multiplicity: bool) -> Bindings:
    """Return one row per combination of the expressions' values, if `has_multiplicity` with the sum of its matches."""
    groups = group_rows(frame, exprs)
    bindings = frame.bindings
    if groups.is_identity:
        return bindings if has_multiplicity else Bindings(bindings.columns, bindings.size)
    columns = {name: column.take(groups.first) for name, column in bindings.columns.items()}
    multiplicity = None
    if has_multiplicity:
        multiplicity = sum_by_position(groups.row_groups, bindings.multiplicity, groups.count)
    return Bindings(columns, groups.count, multiplicity)


def group_rows(frame: Frame, exprs: Sequence[Expr]) -> Groups:
    """Return the groups of rows with equal values. Without an expression that varies, all rows are one group."""
    codes: list[Codes] = []
    for expr in exprs:
        code = encode_expr(frame, expr)
        if code is not None and code.is_of_rows and _has_distinct_codes(code):
            # All rows differ in this expression, whatever the values of the others.
            rows = np.arange(frame.size, dtype=np.int64)
            return Groups(rows, frame.size, rows, is_identity=True)
        if code is not None:
            codes.append(code)
    if not codes:
        first = np.zeros(min(frame.size, 1), np.int64)
        return Groups(np.zeros(frame.size, np.int64), len(first), first)
    return group_codes(combine_codes(frame, codes), frame.context.budget.check)


def read_columns(frame: Frame, exprs: Sequence[Expr]) -> None:
    """Load the columns that are needed as a whole: cheaper than reading some of their rows first, and then all."""
    for expr in exprs:
        if isinstance(expr, Prop):
            table = frame.get_table(expr.variable)
            if frame.size * _MAX_TABLE_ROWS_PER_ROW >= table.size:
                table.preload(expr.name, frame.context.budget)


def encode_expr(frame: Frame, expr: Expr) -> Codes | None:
    """Return the codes of an expression, or None if it is the same in every row."""
    match expr:
        case Const() | ParamRef() | Now():
            return None
        case Entity(variable=variable) | Identity(variable=variable, part=MetaColumn.ID):
            return _encode_positions(frame.get_positions(variable), frame.get_table(variable).size)
        case ValueRef() if isinstance(expr.type, WalkOf):
            # Equal walks may be stored more than once.
            return encode_values(frame.evaluate(read_part(expr, WALK_KEY)))
        case ValueRef(variable=variable, type=type_) if not (isinstance(type_, Scalar | EnumOf)):
            # Lists and records have no order, but the same index is the same value.
            indices = frame.get_positions(variable)
            return _encode_positions(indices, int(indices.max(initial=-1)) + 1)
        case Identity(variable=variable, part=part):
            return _encode_column(frame, variable, part.value, expr)
        case Prop(variable=variable, name=name):
            # Values of a unique column differ wherever rows do; nulls may repeat.
            if not expr.nullable and _is_unique(frame.get_table(variable).type, name):
                return _encode_positions(frame.get_positions(variable), frame.get_table(variable).size)
            return _encode_column(frame, variable, name, expr)
        case _ if isinstance(expr.type, NodeRef | EdgeRef):
            # A node or edge is its position, also if it is no variable.
            return encode_values(frame.evaluate_stored(expr))
        case _:
            return encode_values(frame.evaluate(expr))


def _encode_positions(positions: Ints, size: int) -> Codes:
    """Return codes of rows of a table; those of an optional variable without a row are null, and equal."""
    if positions.min(initial=0) >= 0:
        return Codes(positions, size, is_of_rows=True)
    return Codes(positions + 1, size + 1, zero_is_null=True)


def _is_unique(type_: AnyType, column: str) -> bool:
    return (column,) in (type_.key, *type_.unique)


def _encode_column(frame: Frame, variable: str, column: str, expr: Expr) -> Codes:
    table = frame.get_table(variable)
    if frame.size * _MAX_TABLE_ROWS_PER_ROW < table.size:
        return encode_values(frame.evaluate(expr))
    codes, distinct = table.load_codes(column, frame.context.budget)
    at = frame.get_positions(variable)
    is_bound = at >= 0
    numbers = np.zeros(len(at), np.int64)
    # A missing row has no code; its table may be empty.
    numbers[is_bound] = codes[at[is_bound]].astype(np.int64) + 1
    return Codes(numbers, len(distinct) + 1, zero_is_null=True)


def encode_values(values: pa.Array) -> Codes:
    """Return the codes of any column of scalars; null has the code 0."""
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        encoded = values.dictionary_encode()
        numbers = fill_nulls(encoded.indices, -1).astype(np.int64) + 1
        return Codes(numbers, len(encoded.dictionary) + 1, zero_is_null=True)
    valid = is_valid(values) if values.null_count else None
    ints = to_ordered_ints(values)
    if not len(ints):
        return Codes(ints, 1, zero_is_null=True)
    low, high = int(ints.min()), int(ints.max())
    if high - low < max(_MAX_CODES_PER_ROW * len(ints), _SMALL_CODE_RANGE):
        numbers, bound = ints - low + 1, high - low + 2
    else:
        distinct, numbers = np.unique(ints, return_inverse=True)
        numbers, bound = numbers.astype(np.int64) + 1, len(distinct) + 1
    return Codes(numbers if valid is None else np.where(valid, numbers, 0), bound, zero_is_null=True)


def combine_codes(frame: Frame, codes: Sequence[Codes]) -> Codes:
    """Combine one or more codes into a single code per combination."""
    if len(codes) == 1:
        return codes[0]
    numbers, bound = codes[0].numbers, codes[0].bound
    for code in codes[1:]:
        frame.context.budget.check()
        if bound * code.bound > _MAX_CODES:
            dense = group_codes(Codes(numbers, bound), frame.context.budget.check)
            numbers, bound = dense.row_groups, dense.count
        if bound * code.bound > _MAX_CODES:
            # Few groups times a large bound may still overflow: with both renumbered, each is at most the rows.
            other = group_codes(code)
            code = Codes(other.row_groups, other.count)  # noqa: PLW2901 - the same codes, renumbered
        numbers, bound = numbers * np.int64(code.bound) + code.numbers, bound * code.bound
    return Codes(numbers, bound)


def _has_distinct_codes(codes: Codes) -> bool:
    """Return whether all rows are known to have different codes."""
    numbers, size = codes.numbers, len(codes.numbers)
    if size > codes.bound:
        return False
    if bool((numbers[1:] > numbers[:-1]).all()):
        return True
    if codes.bound > _MAX_CODES_PER_ROW * size:
        # They may differ, but checking would need an array far larger than the rows.
        return False
    is_used = np.zeros(codes.bound, np.bool_)
    is_used[numbers] = True
    return int(np.count_nonzero(is_used)) == size


def group_codes(codes: Codes, check: Check = skip_check) -> Groups:
    """Return the groups of rows with equal codes, in the order of the codes; `check` is called between passes."""
    numbers, size = codes.numbers, len(codes.numbers)
    if not size:
        return Groups(numbers, 0, np.zeros(0, np.int64))
    if bool((numbers[1:] >= numbers[:-1]).all()):
        # Already sorted: equal codes are neighbours.
        is_new = np.ones(size, np.bool_)
        np.not_equal(numbers[1:], numbers[:-1], out=is_new[1:])
        first = np.flatnonzero(is_new)
        return Groups(np.cumsum(is_new) - 1, len(first), first)
    if codes.bound <= max(_MAX_CODES_PER_ROW * size, _SMALL_CODE_RANGE):
        dtype = np.int32 if size < 2**31 else np.int64
        # By code its first row, counted from 1; 0 means that no row has it. Rows are written last to first, so that
        # the first one stays.
        first = np.zeros(codes.bound, dtype)
        first[numbers[::-1]] = np.arange(size, 0, -1, dtype=dtype)
        check()
        used = np.flatnonzero(first)
        group_of_code = np.empty(codes.bound, dtype)
        group_of_code[used] = np.arange(len(used), dtype=dtype)
        check()
        return Groups(group_of_code[numbers].astype(np.int64), len(used), first[used].astype(np.int64) - 1)
    bits = size.bit_length()
    if size > MAX_KERNEL_ROWS or codes.bound.bit_length() + bits > _MAX_CODES.bit_length():
        rows = argsort_stable(numbers, check)
        values = numbers[rows]
    else:
        # Sorting codes with the row number in the low bits is faster than an argsort.
        packed = np.sort((numbers << np.int64(bits)) | np.arange(size))
        rows, values = packed & np.int64(2**bits - 1), packed >> np.int64(bits)
    check()
    is_new = np.concatenate(([True], values[1:] != values[:-1]))
    row_groups = np.empty(size, np.int64)
    row_groups[rows] = np.cumsum(is_new) - 1
    check()
    return Groups(row_groups, int(np.count_nonzero(is_new)), rows[is_new])
