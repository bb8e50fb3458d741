"""Compute sort keys: integers in the order of the values, so that rows are compared without reading values again."""

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
from omnigraph.engine.tables.union_reader import UnionReader
from omnigraph.query.expr import Entity, Expr, Identity, MetaColumn, Prop
from omnigraph.schema.arrow import ID
from omnigraph.schema.types import is_text
from omnigraph.storage.arrow_buffers import build_array, is_valid, read_booleans, read_numbers

Ints: TypeAlias = NDArray[np.int64]
_SIGN_BIT = np.uint64(2**63)
_VALUE_BITS = np.int64(2**63 - 1)
# A whole column is ranked, and its ranks cached, only if at least one table row in this many is to be sorted, and at
# least this number of rows.
_MAX_TABLE_ROWS_PER_ROW = 4
_MIN_RANKED_ROWS = 4_096
# Finding the first of many texts costs a tenth of sorting them all; after this number of requests the column is ranked.
_MAX_UNRANKED_REQUESTS = 3


@dataclass(frozen=True, slots=True)
class SortKeys:
    """The comparable values of one sort key: a mask of the rows with a value (None: all have one), and the values.

    Null is smallest. Values are integers in the order of the originals, or texts while ranking them does not pay off.
    """

    valid: NDArray[np.bool_] | None
    values: "Ints | pa.Array"

    def to_ints(self, check: Check = skip_check) -> Ints:
        """Return the values as integers that have the same order among these rows."""
        return self.values if isinstance(self.values, np.ndarray) else rank_texts(self.values, check)

    def take(self, rows: Ints) -> "SortKeys":
        """Return the keys of these rows, by number."""
        valid = None if self.valid is None else self.valid[rows]
        values = self.values[rows] if isinstance(self.values, np.ndarray) else self.values.take(build_array(rows))
        return SortKeys(valid, values)


def to_sort_keys(values: pa.Array) -> SortKeys:
    """Return the sort keys of any column that has an order."""
    valid = None if not values.null_count else is_valid(values)
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        return SortKeys(valid, values if valid is None else values.fill_null(""))
    return SortKeys(valid, to_ordered_ints(values))


def to_ordered_ints(values: pa.Array) -> Ints:
    """Convert numbers, booleans, dates and timestamps to 64-bit integers in the same order.

    Equal values, such as 0.0 and -0.0, become equal integers. The integer of a null is arbitrary.
    """
    type_ = values.type
    if pa.types.is_boolean(type_):
        return read_booleans(values).astype(np.int64)
    if pa.types.is_date32(type_):
        values = values.cast(pa.int32())
    elif pa.types.is_timestamp(type_):
        values = values.cast(pa.int64())
    numbers = read_numbers(values)
    if numbers.dtype == np.uint64:
        # Flipping the highest bit maps 0 to the smallest signed integer.
        return (numbers ^ _SIGN_BIT).view(np.int64)
    if numbers.dtype.kind == "f":
        # The bits of positive floats are in order; those of negative ones are in reverse, so all but the sign are
        # flipped. Adding 0.0 turns -0.0 into 0.0.
        bits = (numbers.astype(np.float64) + 0.0).view(np.int64)
        return bits ^ ((bits >> np.int64(63)) & _VALUE_BITS)
    return numbers.astype(np.int64, copy=False)


def rank_texts(texts: pa.Array, check: Check = skip_check) -> Ints:
    """Return the rank of each text among the distinct ones, in the order of code points; none may be null."""
    codes, distinct = encode_dictionary(texts, check)
    return np.asarray(rank_distinct(distinct, check)[read_numbers(codes)], np.int64)


def compute_sort_keys(frame: Frame, expr: Expr, rows: Rows | None, *, is_whole_sort: bool) -> SortKeys:
    """Compute the sort keys of an expression at some rows of a frame, or at all.

    Ids that ascend are compared by position. If many rows are sorted, or the first of many are requested repeatedly,
    the ranks of a whole column of texts are computed and cached.
    """
    match expr:
        case Identity(variable=variable, part=MetaColumn.ID) | Entity(variable=variable):
            ids = _encode_ids(frame, variable, rows, is_whole_sort=is_whole_sort)
            if ids is not None:
                return SortKeys(None, ids)
        case Prop(variable=variable, name=name, type=type_) if is_text(type_):
            if _is_ranking_cheaper(frame, variable, name, rows, is_whole_sort=is_whole_sort):
                column_ranks = _get_or_build_ranks(frame, variable, name, _rank_coded_column)
                ranks = _take_ranks(column_ranks, frame.get_positions(variable, rows))
                valid = ranks >= 0
                return SortKeys(None if valid.all() else valid, ranks.astype(np.int64))
        case _:
            pass
    return to_sort_keys(frame.evaluate(expr, rows))


def _encode_ids(frame: Frame, variable: str, rows: Rows | None, *, is_whole_sort: bool) -> Ints | None:
    """Return the ids of a variable as ordered integers, or None if computing their order does not pay off."""
    table = frame.get_table(variable)
    if isinstance(table, UnionReader):
        return _encode_union_ids(frame, table, frame.get_positions(variable, rows))
    if not _has_many_rows(frame, variable, rows) and not table.is_resident(ID):
        return None
    key = (table.version, "ids ascend")
    if frame.context.cache.get_or_build(
        key, lambda: _is_ascending(table.load_column(ID, frame.context.budget)), lambda _: 64
    ):
        # Ids in the order of their positions: no text has to be compared. A missing row is -1, the smallest.
        return frame.get_positions(variable, rows)
    if _is_ranking_cheaper(frame, variable, ID, rows, is_whole_sort=is_whole_sort):
        ranks = _get_or_build_ranks(frame, variable, ID, _rank_plain_column)
        return _take_ranks(ranks, frame.get_positions(variable, rows)).astype(np.int64)
    return None


def _encode_union_ids(frame: Frame, table: UnionReader, at: Rows) -> Ints:
    """Return the rows of a union as ordered integers: by type, then by id."""
    order = np.empty(len(at), np.int64)
    for member, indices, own in table.split(at):
        ids = member.take_values(ID, own, frame.context.budget)
        # A member's base is larger than the ranks of all members before it.
        base = int(at[indices[0]] - own[0])
        order[indices] = rank_texts(ids, frame.context.budget.check) + base
    return order


def _take_ranks(ranks: NDArray[np.int32], at: Rows) -> NDArray[np.int32]:
    """Return the ranks of rows; -1, as that of a null, where an optional variable has no row."""
    is_bound = at >= 0
    taken = np.full(len(at), -1, np.int32)
    # The table of a variable without any row may be empty.
    taken[is_bound] = ranks[at[is_bound]]
    return taken


def _is_ranking_cheaper(frame: Frame, variable: str, column: str, rows: Rows | None, *, is_whole_sort: bool) -> bool:
    """Return whether to rank a whole column of texts."""
    if not _has_many_rows(frame, variable, rows):
        return False
    key = (frame.get_table(variable).version, "asked", column)
    # The counter of requests is cached with the column's version, so that it counts across queries.
    requests = frame.context.cache.get_or_build(key, count, lambda _: 64)
    return is_whole_sort or next(requests) >= _MAX_UNRANKED_REQUESTS


def _has_many_rows(frame: Frame, variable: str, rows: Rows | None) -> bool:
    size = frame.size if rows is None else len(rows)
    return size >= _MIN_RANKED_ROWS and size * _MAX_TABLE_ROWS_PER_ROW >= frame.get_table(variable).size


def _is_ascending(ids: pa.Array) -> bool:
    # Deleted rows are null here, and must not break the order.
    live = ids.drop_null()
    return len(live) < 2 or bool(pc.all(pc.less(live.slice(0, len(live) - 1), live.slice(1))).as_py())


def _get_or_build_ranks(
    frame: Frame, variable: str, column: str, build: Callable[[Frame, str, str], NDArray[np.int32]]
) -> NDArray[np.int32]:
    """Return, by position, the rank of a column's text among all texts of the table; -1 for null, the smallest."""
    table = frame.get_table(variable)
    key = (table.version, "order", column)
    budget = frame.context.budget
    return frame.context.cache.get_or_build(
        key, lambda: build(frame, variable, column), lambda ranks: int(ranks.nbytes), budget
    )


def _rank_plain_column(frame: Frame, variable: str, column: str) -> NDArray[np.int32]:
    texts = frame.get_table(variable).load_column(column, frame.context.budget)
    return rank_distinct(texts, frame.context.budget.check).astype(np.int32)


def _rank_coded_column(frame: Frame, variable: str, column: str) -> NDArray[np.int32]:
    codes, distinct = frame.get_table(variable).load_codes(column, frame.context.budget)
    ranks = rank_distinct(distinct, frame.context.budget.check)
    # Null has the code -1, which indexes the last entry.
    ranks = np.append(ranks, np.int64(-1))
    return ranks[codes].astype(np.int32)
