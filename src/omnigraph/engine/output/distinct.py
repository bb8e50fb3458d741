"""Rows that are equal: each combination of values gets a number, and one row that stands for it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.engine.bindings import Bindings
from omnigraph.engine.kernels import ROWS_AT_ONCE, Check, never, stable_order
from omnigraph.engine.operators.multiplicity import sums_by_position
from omnigraph.engine.output.projection import Frame, Rows
from omnigraph.engine.output.sort_keys import ordered_ints
from omnigraph.query.expr import Const, Entity, Expr, Identity, Meta, Now, ParamRef, Prop
from omnigraph.schema.catalog import AnyType
from omnigraph.storage.arrow_buffers import filled, is_given

Ints: TypeAlias = NDArray[np.int64]
_MOST_CODES = 2**62
_SHARE = 8
"""Of a table, at least one row in so many must be wanted before the codes of a whole column are worked out and kept."""
_SPARSE = 16
"""Codes of so many times the rows are counted in an array; sparser ones are sorted."""
_SMALL = 1 << 16


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

    of_row: Ints
    count: int
    first: Rows
    is_each: bool = False
    """Whether every row is a group of its own, in their order."""


def distinct_rows(frame: Frame, exprs: Sequence[Expr]) -> Frame:
    """One row for each combination of the expressions' values; whole nodes and edges are compared by identity."""
    return replace(frame.take(groups_of(frame, exprs).first), is_merged=True)


def merged_rows(frame: Frame, exprs: Sequence[Expr], *, counts: bool) -> Bindings:
    """One row for each combination of the expressions' values; with `counts`, for as many matches as had it."""
    groups = groups_of(frame, exprs)
    bindings, weight = frame.bindings, frame.bindings.weight
    if groups.is_each:
        return bindings if counts else Bindings(bindings.columns, bindings.size)
    columns = {name: column.take(groups.first) for name, column in bindings.columns.items()}
    return Bindings(columns, groups.count, sums_by_position(groups.of_row, weight, groups.count) if counts else None)


def groups_of(frame: Frame, exprs: Sequence[Expr]) -> Groups:
    """The groups of rows that have the same values. Without an expression that varies, all rows are one group."""
    codes: list[Codes] = []
    for expr in exprs:
        code = codes_of(frame, expr)
        if code is not None and code.is_of_rows and _all_differ(code):  # whatever the others are
            rows = np.arange(frame.size, dtype=np.int64)
            return Groups(rows, frame.size, rows, is_each=True)
        codes += [] if code is None else [code]
    if not codes:
        first = np.zeros(min(frame.size, 1), np.int64)
        return Groups(np.zeros(frame.size, np.int64), len(first), first)
    return grouped(combined(frame, codes), frame.reading.budget.check)


def read_columns(frame: Frame, exprs: Sequence[Expr]) -> None:
    """Have the columns in memory that are needed as a whole: that costs less than to ask for some of the rows first."""
    for expr in exprs:
        if isinstance(expr, Prop):
            table = frame.table(expr.variable)
            if frame.size * _SHARE >= table.size:
                table.columns.written(expr.name, frame.reading.budget)


def codes_of(frame: Frame, expr: Expr) -> Codes | None:
    """The codes of an expression; None for one that is the same in every row."""
    match expr:
        case Const() | ParamRef() | Now():
            return None
        case Entity(variable=variable) | Identity(variable=variable, part=Meta.ID):
            return Codes(frame.positions(variable), frame.table(variable).size, is_of_rows=True)
        case Identity(variable=variable, part=part):
            return _column_codes(frame, variable, part.value, expr)
        case Prop(variable=variable, name=name):
            if not expr.nullable and _is_unique(frame.table(variable).type, name):
                return Codes(frame.positions(variable), frame.table(variable).size, is_of_rows=True)
            return _column_codes(frame, variable, name, expr)
        case _:
            return codes_of_values(frame.values(expr))


def _is_unique(type_: AnyType, column: str) -> bool:
    return (column,) in (type_.key, *type_.unique)


def _column_codes(frame: Frame, variable: str, column: str, expr: Expr) -> Codes:
    table = frame.table(variable)
    if frame.size * _SHARE < table.size:
        return codes_of_values(frame.values(expr))
    codes, distinct = table.codes(column, frame.reading.budget)
    return Codes(codes[frame.positions(variable)].astype(np.int64) + 1, len(distinct) + 1, zero_is_null=True)


def codes_of_values(values: pa.Array) -> Codes:
    """The codes of any column of scalars; null has 0."""
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        encoded = values.dictionary_encode()
        numbers = filled(encoded.indices, -1).astype(np.int64) + 1
        return Codes(numbers, len(encoded.dictionary) + 1, zero_is_null=True)
    given = is_given(values) if values.null_count else None
    ints = ordered_ints(values)
    if not len(ints):
        return Codes(ints, 1, zero_is_null=True)
    low, high = int(ints.min()), int(ints.max())
    if high - low < max(_SPARSE * len(ints), _SMALL):
        numbers, bound = ints - low + 1, high - low + 2
    else:
        found, numbers = np.unique(ints, return_inverse=True)
        numbers, bound = numbers.astype(np.int64) + 1, len(found) + 1
    return Codes(numbers if given is None else np.where(given, numbers, 0), bound, zero_is_null=True)


def combined(frame: Frame, codes: Sequence[Codes]) -> Codes:
    """One code for each combination of several, at least one."""
    if len(codes) == 1:
        return codes[0]
    numbers, bound = codes[0].numbers, codes[0].bound
    for code in codes[1:]:
        frame.reading.budget.check()
        if bound * code.bound > _MOST_CODES:
            dense = grouped(Codes(numbers, bound), frame.reading.budget.check)
            numbers, bound = dense.of_row, dense.count
        if bound * code.bound > _MOST_CODES:
            # Few groups times a large bound may still be too many: then both are as dense as there are rows.
            other = grouped(code)
            code = Codes(other.of_row, other.count)  # noqa: PLW2901 - the same codes, numbered anew
        numbers, bound = numbers * np.int64(code.bound) + code.numbers, bound * code.bound
    return Codes(numbers, bound)


def _all_differ(codes: Codes) -> bool:
    """Whether no two rows have the same code."""
    numbers, size = codes.numbers, len(codes.numbers)
    if size > codes.bound:
        return False
    if bool((numbers[1:] > numbers[:-1]).all()):
        return True
    if codes.bound > _SPARSE * size:
        return False  # maybe they do; finding out is not worth it
    is_there = np.zeros(codes.bound, np.bool_)
    is_there[numbers] = True
    return int(np.count_nonzero(is_there)) == size


def grouped(codes: Codes, check: Check = never) -> Groups:
    """The groups of rows with equal codes, in the order of the codes; `check` is called between passes."""
    numbers, size = codes.numbers, len(codes.numbers)
    if not size:
        return Groups(numbers, 0, np.zeros(0, np.int64))
    if bool((numbers[1:] >= numbers[:-1]).all()):  # equal ones stand together
        is_new = np.ones(size, np.bool_)
        np.not_equal(numbers[1:], numbers[:-1], out=is_new[1:])
        first = np.flatnonzero(is_new)
        return Groups(np.cumsum(is_new) - 1, len(first), first)
    if codes.bound <= max(_SPARSE * size, _SMALL):
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
    if size > ROWS_AT_ONCE or codes.bound.bit_length() + bits > _MOST_CODES.bit_length():
        rows = stable_order(numbers, check)
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
