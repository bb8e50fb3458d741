"""Rows that are equal: each combination of values gets a number, and one row that stands for it."""

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
from omnigraph.query.expr import Const, Entity, Expr, Identity, MetaColumn, Now, ParamRef, Prop
from omnigraph.schema.catalog import AnyType
from omnigraph.storage.arrow_buffers import fill_nulls, is_valid

Ints: TypeAlias = NDArray[np.int64]
_MAX_CODES = 2**62
_MAX_TABLE_ROWS_PER_ROW = 8
"""Of a table, at least one row in so many must be wanted before the codes of a whole column are worked out and kept."""
_MAX_CODES_PER_ROW = 16
"""Codes of so many times the rows are counted in an array; sparser ones are sorted."""
_SMALL_CODE_RANGE = 1 << 16


@dataclass(frozen=True, slots=True)
class Codes:
    """A number from 0 to below `bound` for each row; equal values, and nulls, have equal numbers."""

    numbers: Ints
    bound: int
    zero_is_null: bool = False
    is_of_rows: bool = False
    """Whether they are the positions of rows: then all of them may well differ."""


@dataclass(frozen=True, slots=True)
class Groups:
    """The group of each row, from 0 to below `count`, and a row of each group: its first."""

    row_groups: Ints
    count: int
    first: Rows
    is_identity: bool = False
    """Whether every row is a group of its own, in their order."""


def select_distinct(frame: Frame, exprs: Sequence[Expr]) -> Frame:
    """One row for each combination of the expressions' values; whole nodes and edges are compared by identity."""
    return replace(frame.take(group_rows(frame, exprs).first), is_merged=True)


def merge_equal_rows(frame: Frame, exprs: Sequence[Expr], *, has_multiplicity: bool) -> Bindings:
    """One row for each combination of the expressions' values; with `counts`, for as many matches as had it."""
    groups = group_rows(frame, exprs)
    bindings, weight = frame.bindings, frame.bindings.multiplicity
    if groups.is_identity:
        return bindings if has_multiplicity else Bindings(bindings.columns, bindings.size)
    columns = {name: column.take(groups.first) for name, column in bindings.columns.items()}
    return Bindings(
        columns, groups.count, sum_by_position(groups.row_groups, weight, groups.count) if has_multiplicity else None
    )


def group_rows(frame: Frame, exprs: Sequence[Expr]) -> Groups:
    """The groups of rows that have the same values. Without an expression that varies, all rows are one group."""
    codes: list[Codes] = []
    for expr in exprs:
        code = encode_expr(frame, expr)
        if code is not None and code.is_of_rows and _has_distinct_codes(code):  # whatever the others are
            rows = np.arange(frame.size, dtype=np.int64)
            return Groups(rows, frame.size, rows, is_identity=True)
        codes += [] if code is None else [code]
    if not codes:
        first = np.zeros(min(frame.size, 1), np.int64)
        return Groups(np.zeros(frame.size, np.int64), len(first), first)
    return group_codes(combine_codes(frame, codes), frame.context.budget.check)


def read_columns(frame: Frame, exprs: Sequence[Expr]) -> None:
    """Have the columns in memory that are needed as a whole: that costs less than to ask for some of the rows first."""
    for expr in exprs:
        if isinstance(expr, Prop):
            table = frame.get_table(expr.variable)
            if frame.size * _MAX_TABLE_ROWS_PER_ROW >= table.size:
                table.columns.load_written(expr.name, frame.context.budget)


def encode_expr(frame: Frame, expr: Expr) -> Codes | None:
    """The codes of an expression; None for one that is the same in every row."""
    match expr:
        case Const() | ParamRef() | Now():
            return None
        case Entity(variable=variable) | Identity(variable=variable, part=MetaColumn.ID):
            return Codes(frame.get_positions(variable), frame.get_table(variable).size, is_of_rows=True)
        case Identity(variable=variable, part=part):
            return _encode_column(frame, variable, part.value, expr)
        case Prop(variable=variable, name=name):
            if not expr.nullable and _is_unique(frame.get_table(variable).type, name):
                return Codes(frame.get_positions(variable), frame.get_table(variable).size, is_of_rows=True)
            return _encode_column(frame, variable, name, expr)
        case _:
            return encode_values(frame.evaluate(expr))


def _is_unique(type_: AnyType, column: str) -> bool:
    return (column,) in (type_.key, *type_.unique)


def _encode_column(frame: Frame, variable: str, column: str, expr: Expr) -> Codes:
    table = frame.get_table(variable)
    if frame.size * _MAX_TABLE_ROWS_PER_ROW < table.size:
        return encode_values(frame.evaluate(expr))
    codes, distinct = table.load_codes(column, frame.context.budget)
    return Codes(codes[frame.get_positions(variable)].astype(np.int64) + 1, len(distinct) + 1, zero_is_null=True)


def encode_values(values: pa.Array) -> Codes:
    """The codes of any column of scalars; null has 0."""
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        encoded = values.dictionary_encode()
        numbers = fill_nulls(encoded.indices, -1).astype(np.int64) + 1
        return Codes(numbers, len(encoded.dictionary) + 1, zero_is_null=True)
    given = is_valid(values) if values.null_count else None
    ints = to_ordered_ints(values)
    if not len(ints):
        return Codes(ints, 1, zero_is_null=True)
    low, high = int(ints.min()), int(ints.max())
    if high - low < max(_MAX_CODES_PER_ROW * len(ints), _SMALL_CODE_RANGE):
        numbers, bound = ints - low + 1, high - low + 2
    else:
        found, numbers = np.unique(ints, return_inverse=True)
        numbers, bound = numbers.astype(np.int64) + 1, len(found) + 1
    return Codes(numbers if given is None else np.where(given, numbers, 0), bound, zero_is_null=True)


def combine_codes(frame: Frame, codes: Sequence[Codes]) -> Codes:
    """One code for each combination of several, at least one."""
    if len(codes) == 1:
        return codes[0]
    numbers, bound = codes[0].numbers, codes[0].bound
    for code in codes[1:]:
        frame.context.budget.check()
        if bound * code.bound > _MAX_CODES:
            dense = group_codes(Codes(numbers, bound), frame.context.budget.check)
            numbers, bound = dense.row_groups, dense.count
        if bound * code.bound > _MAX_CODES:
            # Few groups times a large bound may still be too many: then both are as dense as there are rows.
            other = group_codes(code)
            code = Codes(other.row_groups, other.count)  # noqa: PLW2901 - the same codes, numbered anew
        numbers, bound = numbers * np.int64(code.bound) + code.numbers, bound * code.bound
    return Codes(numbers, bound)


def _has_distinct_codes(codes: Codes) -> bool:
    """Whether no two rows have the same code."""
    numbers, size = codes.numbers, len(codes.numbers)
    if size > codes.bound:
        return False
    if bool((numbers[1:] > numbers[:-1]).all()):
        return True
    if codes.bound > _MAX_CODES_PER_ROW * size:
        return False  # maybe they do; finding out is not worth it
    is_there = np.zeros(codes.bound, np.bool_)
    is_there[numbers] = True
    return int(np.count_nonzero(is_there)) == size


def group_codes(codes: Codes, check: Check = skip_check) -> Groups:
    """The groups of rows with equal codes, in the order of the codes; `check` is called between passes."""
    numbers, size = codes.numbers, len(codes.numbers)
    if not size:
        return Groups(numbers, 0, np.zeros(0, np.int64))
    if bool((numbers[1:] >= numbers[:-1]).all()):  # equal ones stand together
        is_new = np.ones(size, np.bool_)
        np.not_equal(numbers[1:], numbers[:-1], out=is_new[1:])
        first = np.flatnonzero(is_new)
        return Groups(np.cumsum(is_new) - 1, len(first), first)
    if codes.bound <= max(_MAX_CODES_PER_ROW * size, _SMALL_CODE_RANGE):
        kind = np.int32 if size < 2**31 else np.int64
        first = np.zeros(codes.bound, kind)  # of each code its first row, counted from 1; 0: no row has it
        first[numbers[::-1]] = np.arange(size, 0, -1, dtype=kind)
        check()
        used = np.flatnonzero(first)
        places = np.empty(codes.bound, kind)
        places[used] = np.arange(len(used), dtype=kind)
        check()
        return Groups(places[numbers].astype(np.int64), len(used), first[used].astype(np.int64) - 1)
    bits = size.bit_length()
    if size > MAX_KERNEL_ROWS or codes.bound.bit_length() + bits > _MAX_CODES.bit_length():
        rows = argsort_stable(numbers, check)
        values = numbers[rows]
    else:
        packed = np.sort((numbers << np.int64(bits)) | np.arange(size))  # the row is part of it: faster than an argsort
        rows, values = packed & np.int64(2**bits - 1), packed >> np.int64(bits)
    check()
    is_new = np.concatenate(([True], values[1:] != values[:-1]))
    of_row = np.empty(size, np.int64)
    of_row[rows] = np.cumsum(is_new) - 1
    check()
    return Groups(of_row, int(np.count_nonzero(is_new)), rows[is_new])
