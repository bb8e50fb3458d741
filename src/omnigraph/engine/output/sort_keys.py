"""Values as integers in the same order, so that rows can be compared without looking at values again."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.engine.kernels import Check, encoded, never, rank_distinct
from omnigraph.engine.output.projection import Frame, Rows
from omnigraph.query.expr import Entity, Expr, Identity, Meta, Prop
from omnigraph.schema.arrow import ID
from omnigraph.schema.types import is_text
from omnigraph.storage.arrow_buffers import array_of, is_given, numbers
from omnigraph.storage.arrow_buffers import truths as plain_truths

Ints: TypeAlias = NDArray[np.int64]
_SIGN = np.uint64(2**63)
_REST = np.int64(2**63 - 1)
_SHARE = 4
"""Of a table, at least one row in so many must be wanted before the order of all its rows is worked out and kept."""
_MANY = 4_096
_ASKED = 3
"""Finding the first of many texts costs a tenth of sorting them all; after so many times the order is worked out."""


@dataclass(frozen=True, slots=True)
class Levels:
    """What a key says about rows: a mask of those with a value (None: all have one), and the values.

    Null is smallest. Values are integers that compare as they do, or texts, where that is not worth the work yet.
    """

    given: NDArray[np.bool_] | None
    values: "Ints | pa.Array"

    def ints(self, check: Check = never) -> Ints:
        """The values as integers that compare as they do, among these rows."""
        return self.values if isinstance(self.values, np.ndarray) else text_places(self.values, check)

    def take(self, rows: Ints) -> "Levels":
        """Only these rows, by number."""
        given = None if self.given is None else self.given[rows]
        values = self.values[rows] if isinstance(self.values, np.ndarray) else self.values.take(array_of(rows))
        return Levels(given, values)


def levels_of(values: pa.Array) -> Levels:
    """The levels of any column that has an order."""
    given = None if not values.null_count else is_given(values)
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        return Levels(given, values if given is None else values.fill_null(""))
    return Levels(given, ordered_ints(values))


def ordered_ints(values: pa.Array) -> Ints:
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
    plain = numbers(values)
    if plain.dtype == np.uint64:
        return (plain ^ _SIGN).view(np.int64)
    if plain.dtype.kind == "f":
        bits = (plain.astype(np.float64) + 0.0).view(np.int64)
        return bits ^ ((bits >> np.int64(63)) & _REST)
    return plain.astype(np.int64, copy=False)


def text_places(texts: pa.Array, check: Check = never) -> Ints:
    """The place of each text among the distinct ones, in the order of code points; none is null."""
    codes, distinct = encoded(texts, check)
    return np.asarray(rank_distinct(distinct, check)[numbers(codes)], np.int64)


def levels_at(frame: Frame, expr: Expr, rows: Rows | None, *, is_whole_sort: bool) -> Levels:
    """The levels of an expression at some rows of a frame.

    The order of a table's ids is kept: where they ascend, positions are as good. When many rows are to be sorted, or
    the first of many are asked for again and again, the order of a whole column of texts is worked out and kept too.
    """
    match expr:
        case Identity(variable=variable, part=Meta.ID) | Entity(variable=variable):
            known = _known_ids(frame, variable, rows, is_whole_sort=is_whole_sort)
            if known is not None:
                return Levels(None, known)
        case Prop(variable=variable, name=name, type=type_) if is_text(type_):
            if _is_worth_it(frame, variable, name, rows, is_whole_sort=is_whole_sort):
                places = _places_of(frame, variable, name, _coded_places)[frame.positions(variable, rows)]
                given = places >= 0
                return Levels(None if given.all() else given, places.astype(np.int64))
        case _:
            pass
    return levels_of(frame.values(expr, rows))


def _known_ids(frame: Frame, variable: str, rows: Rows | None, *, is_whole_sort: bool) -> Ints | None:
    """The ids of a variable as integers, where their order is known or worth finding out; None where it is not."""
    table = frame.table(variable)
    if not _are_many(frame, variable, rows) and not table.is_resident(ID):
        return None
    key = (table.version, "ids ascend")
    if frame.reading.cache.keep(key, lambda: _ascends(table.whole(ID, frame.reading.budget)), lambda _: 64):
        return frame.positions(variable, rows)
    if _is_worth_it(frame, variable, ID, rows, is_whole_sort=is_whole_sort):
        return _places_of(frame, variable, ID, _plain_places)[frame.positions(variable, rows)].astype(np.int64)
    return None


def _is_worth_it(frame: Frame, variable: str, column: str, rows: Rows | None, *, is_whole_sort: bool) -> bool:
    """Whether to work out the order of a whole column of texts."""
    if not _are_many(frame, variable, rows):
        return False
    key = (frame.table(variable).version, "asked", column)
    asked = frame.reading.cache.keep(key, count, lambda _: 64)
    return is_whole_sort or next(asked) >= _ASKED


def _are_many(frame: Frame, variable: str, rows: Rows | None) -> bool:
    size = frame.size if rows is None else len(rows)
    return size >= _MANY and size * _SHARE >= frame.table(variable).size


def _ascends(ids: pa.Array) -> bool:
    living = ids.drop_null()
    return len(living) < 2 or bool(pc.all(pc.less(living.slice(0, len(living) - 1), living.slice(1))).as_py())


def _places_of(
    frame: Frame, variable: str, column: str, make: Callable[[Frame, str, str], NDArray[np.int32]]
) -> NDArray[np.int32]:
    """By position the place of a column's text among all texts of the table; -1 for null, which is smallest."""
    table = frame.table(variable)
    key = (table.version, "order", column)
    budget = frame.reading.budget
    return frame.reading.cache.keep(key, lambda: make(frame, variable, column), lambda made: int(made.nbytes), budget)


def _plain_places(frame: Frame, variable: str, column: str) -> NDArray[np.int32]:
    whole = frame.table(variable).whole(column, frame.reading.budget)
    return rank_distinct(whole, frame.reading.budget.check).astype(np.int32)


def _coded_places(frame: Frame, variable: str, column: str) -> NDArray[np.int32]:
    codes, distinct = frame.table(variable).codes(column, frame.reading.budget)
    ranks = rank_distinct(distinct, frame.reading.budget.check)
    places = np.append(ranks, np.int64(-1))  # the code -1 is the last entry
    return places[codes].astype(np.int32)
