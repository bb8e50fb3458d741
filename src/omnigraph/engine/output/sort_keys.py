"""Values as integers in the same order, so that rows can be compared without looking at values again."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.engine.kernels import Check, encode_dictionary, rank_distinct, skip_check
from omnigraph.engine.output.projection import Frame, Rows
from omnigraph.query.expr import Entity, Expr, Identity, MetaColumn, Prop
from omnigraph.schema.arrow import ID
from omnigraph.schema.types import is_text
from omnigraph.storage.arrow_buffers import build_array, is_valid, read_numbers
from omnigraph.storage.arrow_buffers import read_booleans as plain_truths

Ints: TypeAlias = NDArray[np.int64]
_SIGN_BIT = np.uint64(2**63)
_VALUE_BITS = np.int64(2**63 - 1)
_MAX_TABLE_ROWS_PER_ROW = 4
"""Of a table, at least one row in so many must be wanted before the order of all its rows is worked out and kept."""
_MIN_RANKED_ROWS = 4_096
_MAX_UNRANKED_REQUESTS = 3
"""Finding the first of many texts costs a tenth of sorting them all; after so many times the order is worked out."""


@dataclass(frozen=True, slots=True)
class SortKeys:
    """What a key says about rows: a mask of those with a value (None: all have one), and the values.

    Null is smallest. Values are integers that compare as they do, or texts, where that is not worth the work yet.
    """

    valid: NDArray[np.bool_] | None
    values: "Ints | pa.Array"

    def to_ints(self, check: Check = skip_check) -> Ints:
        """The values as integers that compare as they do, among these rows."""
        return self.values if isinstance(self.values, np.ndarray) else rank_texts(self.values, check)

    def take(self, rows: Ints) -> "SortKeys":
        """Only these rows, by number."""
        given = None if self.valid is None else self.valid[rows]
        values = self.values[rows] if isinstance(self.values, np.ndarray) else self.values.take(build_array(rows))
        return SortKeys(given, values)


def to_sort_keys(values: pa.Array) -> SortKeys:
    """The levels of any column that has an order."""
    given = None if not values.null_count else is_valid(values)
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        return SortKeys(given, values if given is None else values.fill_null(""))
    return SortKeys(given, to_ordered_ints(values))


def to_ordered_ints(values: pa.Array) -> Ints:
    """Numbers, truths, dates and instants as 64-bit integers in the same order; equal ones, as 0.0 and -0.0, are equal.

    What stands for a null means nothing.
    """
    type_ = values.type
    if pa.types.is_boolean(type_):
        return plain_truths(values).astype(np.int64)
    if pa.types.is_date32(type_):
        values = values.cast(pa.int32())
    elif pa.types.is_timestamp(type_):
        values = values.cast(pa.int64())
    plain = read_numbers(values)
    if plain.dtype == np.uint64:
        return (plain ^ _SIGN_BIT).view(np.int64)
    if plain.dtype.kind == "f":
        bits = (plain.astype(np.float64) + 0.0).view(np.int64)
        return bits ^ ((bits >> np.int64(63)) & _VALUE_BITS)
    return plain.astype(np.int64, copy=False)


def rank_texts(texts: pa.Array, check: Check = skip_check) -> Ints:
    """The place of each text among the distinct ones, in the order of code points; none is null."""
    codes, distinct = encode_dictionary(texts, check)
    return np.asarray(rank_distinct(distinct, check)[read_numbers(codes)], np.int64)


def compute_sort_keys(frame: Frame, expr: Expr, rows: Rows | None, *, is_whole_sort: bool) -> SortKeys:
    """The levels of an expression at some rows of a frame.

    The order of a table's ids is kept: where they ascend, positions are as good. When many rows are to be sorted, or
    the first of many are asked for again and again, the order of a whole column of texts is worked out and kept too.
    """
    match expr:
        case Identity(variable=variable, part=MetaColumn.ID) | Entity(variable=variable):
            known = _encode_ids(frame, variable, rows, is_whole_sort=is_whole_sort)
            if known is not None:
                return SortKeys(None, known)
        case Prop(variable=variable, name=name, type=type_) if is_text(type_):
            if _is_ranking_cheaper(frame, variable, name, rows, is_whole_sort=is_whole_sort):
                places = _get_or_build_ranks(frame, variable, name, _rank_coded_column)[
                    frame.get_positions(variable, rows)
                ]
                given = places >= 0
                return SortKeys(None if given.all() else given, places.astype(np.int64))
        case _:
            pass
    return to_sort_keys(frame.evaluate(expr, rows))


def _encode_ids(frame: Frame, variable: str, rows: Rows | None, *, is_whole_sort: bool) -> Ints | None:
    """The ids of a variable as integers, where their order is known or worth finding out; None where it is not."""
    table = frame.get_table(variable)
    if not _has_many_rows(frame, variable, rows) and not table.is_resident(ID):
        return None
    key = (table.version, "ids ascend")
    if frame.context.cache.get_or_build(
        key, lambda: _is_ascending(table.load_column(ID, frame.context.budget)), lambda _: 64
    ):
        return frame.get_positions(variable, rows)
    if _is_ranking_cheaper(frame, variable, ID, rows, is_whole_sort=is_whole_sort):
        return _get_or_build_ranks(frame, variable, ID, _rank_plain_column)[frame.get_positions(variable, rows)].astype(
            np.int64
        )
    return None


def _is_ranking_cheaper(frame: Frame, variable: str, column: str, rows: Rows | None, *, is_whole_sort: bool) -> bool:
    """Whether to work out the order of a whole column of texts."""
    if not _has_many_rows(frame, variable, rows):
        return False
    key = (frame.get_table(variable).version, "asked", column)
    asked = frame.context.cache.get_or_build(key, count, lambda _: 64)
    return is_whole_sort or next(asked) >= _MAX_UNRANKED_REQUESTS


def _has_many_rows(frame: Frame, variable: str, rows: Rows | None) -> bool:
    size = frame.size if rows is None else len(rows)
    return size >= _MIN_RANKED_ROWS and size * _MAX_TABLE_ROWS_PER_ROW >= frame.get_table(variable).size


def _is_ascending(ids: pa.Array) -> bool:
    living = ids.drop_null()
    return len(living) < 2 or bool(pc.all(pc.less(living.slice(0, len(living) - 1), living.slice(1))).as_py())


def _get_or_build_ranks(
    frame: Frame, variable: str, column: str, make: Callable[[Frame, str, str], NDArray[np.int32]]
) -> NDArray[np.int32]:
    """By position the place of a column's text among all texts of the table; -1 for null, which is smallest."""
    table = frame.get_table(variable)
    key = (table.version, "order", column)
    budget = frame.context.budget
    return frame.context.cache.get_or_build(
        key, lambda: make(frame, variable, column), lambda made: int(made.nbytes), budget
    )


def _rank_plain_column(frame: Frame, variable: str, column: str) -> NDArray[np.int32]:
    whole = frame.get_table(variable).load_column(column, frame.context.budget)
    return rank_distinct(whole, frame.context.budget.check).astype(np.int32)


def _rank_coded_column(frame: Frame, variable: str, column: str) -> NDArray[np.int32]:
    codes, distinct = frame.get_table(variable).load_codes(column, frame.context.budget)
    ranks = rank_distinct(distinct, frame.context.budget.check)
    places = np.append(ranks, np.int64(-1))  # the code -1 is the last entry
    return places[codes].astype(np.int32)
