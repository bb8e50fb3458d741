"""What the planner knows of a column's values: counted in a sample that the table version alone decides.

The same rows always give the same statistics, whatever is in memory and in whichever process.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.engine.query_budget import Budget
from omnigraph.engine.tables.column_store import ColumnStore
from omnigraph.engine.tables.histogram import Histogram, to_order_number, to_order_numbers
from omnigraph.schema.catalog import Value
from omnigraph.schema.types import EnumOf, Scalar, ValueType
from omnigraph.storage.arrow_buffers import read_numbers
from omnigraph.storage.index_pages import read_index_pages
from omnigraph.storage.lance_table import IndexCoverage

SAMPLE_ROWS = 4_096
"""Tables of at most so many rows are counted completely; of others so many rows, one from each stretch."""
_GOLDEN_RATIO = (5**0.5 - 1) / 2
BITMAP_KINDS = ("BITMAP",)
"""Answers equality, and keeps a set of rows for each value."""
ORDERED_KINDS = ("BTREE", *BITMAP_KINDS)
"""The kinds of indexes that answer comparisons."""
LABEL_KINDS = ("LABELLIST",)
"""Answers whether a list holds a value, and keeps a set of rows for each."""
_MAX_COMMON_VALUES, _MIN_OCCURRENCES = 64, 4
"""So many values are told apart, each of which the sample has so often at least; or all, of a whole table."""


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """Shares of a column's living rows."""

    nulls: float
    common: Mapping[Value, float]
    """The commonest values, and the share of rows that has each."""
    others: float
    """The share of one value that is not among them."""
    distinct: float
    """About how many different values all rows have."""
    ordered: NDArray[np.float64] | None
    """Numbers, dates or instants of the sample, ascending; None for a column of anything else."""
    type: ValueType

    @property
    def nbytes(self) -> int:
        """The memory it takes, about."""
        ordered = 0 if self.ordered is None else self.ordered.nbytes
        return 256 + ordered + sum(128 + (len(key) if isinstance(key, str) else 0) for key in self.common)

    def estimate_equal(self, value: Value) -> float:
        """The share of rows that have this value."""
        return self.common.get(value, self.others)

    def estimate_below(self, value: Value, *, or_equal: bool) -> float | None:
        """The share of rows whose value is less; None where that was not counted."""
        number = to_order_number(value, self.type)
        if self.ordered is None or not len(self.ordered) or number is None:
            return None
        place = np.searchsorted(self.ordered, number, side="right" if or_equal else "left")
        return float(place) / len(self.ordered) * (1 - self.nulls)


def load_statistics(
    columns: ColumnStore, column: str, type_: ValueType, budget: Budget | None = None
) -> ColumnStatistics | Histogram | None:
    """Return what the index of a scalar column tells of its values, or else a sample of them.

    None where a sample is not worth its cost: a query with a predicate on the column does not read it as a whole.
    """
    if not isinstance(type_, Scalar | EnumOf) or type_ is Scalar.BLOB or not columns.layout.count:
        return None
    index = None if columns.costs.is_tiny else find_index(columns, column, ORDERED_KINDS)
    if index is not None:
        return _load_histogram(columns, index, type_, budget) if index.kind.upper() == "BTREE" else None
    if not columns.costs.is_light_by_size(column):
        return None
    return columns.get_or_derive(
        column,
        "statistics",
        lambda: _sample_statistics(columns, column, type_, budget),
        lambda made: made.nbytes,
        budget,
    )


def find_index(columns: ColumnStore, column: str, kinds: Collection[str]) -> IndexCoverage | None:
    """Return the first index of a column that is of one of these kinds and covers a row."""
    for index in columns.list_indexes():
        if index.columns == (column,) and index.kind.upper() in kinds and index.covered_fragments:
            return index
    return None


def count_share_by_index(columns: ColumnStore, index: IndexCoverage, where: str, budget: Budget | None) -> float:
    """Return the share of rows that pass a filter, counted by an index that keeps a set of rows for each value."""
    count = columns.get_or_derive(
        index.columns[0], f"rows where {where}", lambda: columns.table.count(where), lambda _: 64 + len(where), budget
    )
    return count / max(columns.layout.count, 1)


def _load_histogram(columns: ColumnStore, index: IndexCoverage, type_: ValueType, budget: Budget | None) -> Histogram:
    """Return the histogram of an index; it stays in memory for as long as versions have these segments."""
    key = (columns.table.path, "histogram", *index.segments)

    def build() -> Histogram:
        return Histogram([read_index_pages(columns.table, segment) for segment in index.segments], type_)

    return columns.cache.get_or_build(key, build, lambda made: made.nbytes, budget)


def _sample_statistics(columns: ColumnStore, column: str, type_: ValueType, budget: Budget | None) -> ColumnStatistics:
    count = columns.layout.count
    places = _choose_sample(count)
    at = places if columns.live_rows.get_mask() is None else columns.live_rows.get_positions()[places]
    sample = columns.take_values(column, at, budget)
    values = sample.drop_null()
    nulls = 1 - len(values) / len(sample)
    counted = pc.value_counts(values)
    times = read_numbers(counted.field("counts"))
    is_whole = len(sample) == count
    first = (
        np.argsort(-times, kind="stable")[:_MAX_COMMON_VALUES]
        if type_ not in (Scalar.DATE, Scalar.DATETIME)
        else times[:0]
    )
    first = first if is_whole else first[times[first] >= _MIN_OCCURRENCES]
    common = zip(
        counted.field("values").take(pa.array(first)).to_pylist(), (times[first] / len(sample)).tolist(), strict=True
    )
    distinct = _estimate_distinct(times, len(sample), count)
    rest = 1 - nulls - float(times[first].sum()) / len(sample)
    others = max(rest / max(distinct - len(first), 1.0), 1 / count)
    ordered = None
    if isinstance(type_, Scalar) and (type_.is_numeric or type_ in (Scalar.DATE, Scalar.DATETIME)):
        ordered = np.sort(to_order_numbers(values))
        ordered.flags.writeable = False
    return ColumnStatistics(nulls, dict(common), others, distinct, ordered, type_)


def _choose_sample(count: int) -> NDArray[np.int64]:
    """Which rows are looked at: one of each of as many stretches, at a place that follows no period of the data."""
    if count <= SAMPLE_ROWS:
        return np.arange(count)
    stretches = np.arange(SAMPLE_ROWS)
    return ((stretches + stretches * _GOLDEN_RATIO % 1.0) * (count / SAMPLE_ROWS)).astype(np.int64)


def _estimate_distinct(times: NDArray[np.int64], sampled: int, rows: int) -> float:
    """About how many values a column has, of which a sample has these so often.

    Those that were met once stand for as many more as the square root of what was left out; the others are known.
    """
    once = int(np.count_nonzero(times == 1))
    return float(len(times) - once + once * np.sqrt(rows / sampled))
