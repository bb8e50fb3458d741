"""Estimate the memory of columns, and decide when loading a whole column or building an index over it pays off."""

import threading

import pyarrow as pa

from omnigraph.engine.tables.row_layout import Layout
from omnigraph.storage.lance_table import is_blob

# A column of at most 16 MiB is read as a whole at its first use, even if only a few rows are requested.
_LIGHT_BYTES = 16 * 2**20
# No column may take more than a quarter of the read cache.
_CACHE_DIVISOR = 4
# The cost of fetching rows individually, in rows of a scan: a fixed part per call, and a part per row. Of 1.5 million
# texts of 10 bytes, 20 took 1.3 ms, 200 took 5.6 and 2,000 took 18; a scan of all of them took 33.
_TAKE_COST = 16_384
_TAKEN_ROW_COST = 512
# The bytes of a value that a scan reads in the time of one row; wider values take longer.
_SCANNED_BYTES = 24
# Up to this size, maintenance builds no index on its own and reading the column is as cheap (decision 54).
_TINY_ROWS = 16_384
# A structure over a column pays off immediately for a small table, and for larger ones after four lookups.
_SMALL_ROWS = 262_144
_MIN_LOOKUPS = 4
# A structure that takes as long to build as many lookups, such as vector clusters, pays off after this number.
_MANY_LOOKUPS = 16
# The minimum size of a text and a list, if the files tell nothing better; and the size of a blob's descriptor.
_TEXT_BYTES = 24
_LIST_BYTES = 64
_BLOB_BYTES = 40


class ColumnCosts:
    """Estimate the costs of reading the columns of one table version.

    It uses the table's metadata, and counts the lookups made so far. Thread-safe.
    """

    def __init__(self, layout: Layout, schema: pa.Schema, limit_bytes: int) -> None:
        self._layout = layout
        self._schema = schema
        self._max_column_bytes = limit_bytes // _CACHE_DIVISOR
        self._bytes: dict[str, int] = {}
        self._spent: dict[str, int] = {}
        self._lock = threading.Lock()

    def estimate_bytes(self, column: str) -> int:
        """Estimate the bytes that the whole column takes in memory."""
        nbytes = self._bytes.get(column)
        if nbytes is None:
            nbytes = self._bytes[column] = estimate_column_bytes(self._layout, self._schema, column)
        return nbytes

    def has_room_for(self, column: str, rows: int | None = None) -> bool:
        """Return whether the whole column, or this number of its rows, fits into the cache beside others."""
        nbytes = self.estimate_bytes(column)
        if rows is not None:
            nbytes = nbytes * rows // max(self._layout.size, 1)
        return nbytes <= self._max_column_bytes

    def is_light(self, column: str) -> bool:
        """Return whether the whole column is read at its first use."""
        return self.estimate_bytes(column) <= min(_LIGHT_BYTES, self._max_column_bytes)

    def is_light_by_size(self, column: str) -> bool:
        """Return whether the column is light, regardless of the cache's size: a plan must not depend on that."""
        return self.estimate_bytes(column) <= _LIGHT_BYTES

    def is_heavy(self, column: str) -> bool:
        """Return whether the values, which are long vectors, are too large to be cached for a filter."""
        return pa.types.is_fixed_size_list(self._schema.field(column).type) and not self.is_light(column)

    def should_load(self, column: str, rows: int) -> bool:
        """Return whether to read the whole column: it is light, or the rows fetched so far would have paid for it."""
        if self.is_light(column):
            return True
        if not self.has_room_for(column):
            return False
        scan_cost = max(self._layout.size, self.estimate_bytes(column) // _SCANNED_BYTES)
        return self._add_cost(column, _TAKE_COST + rows * _TAKEN_ROW_COST, scan_cost)

    def has_paid(self, what: str) -> bool:
        """Return whether building a structure pays off: the table is small, or it was needed often enough."""
        return self.is_small or self._add_cost(f"({what})", self._layout.size // _MIN_LOOKUPS + 1)

    def is_repeated(self, what: str) -> bool:
        """Return whether a lookup is not the first of its kind."""
        return self._add_cost(f"({what})", self._layout.size // 2 + 1) or not self._layout.size

    def is_frequent(self, what: str) -> bool:
        """Return whether a structure was needed so often that it pays off even if it is expensive to build."""
        return self._add_cost(f"({what})", self._layout.size // _MANY_LOOKUPS + 1)

    @property
    def is_tiny(self) -> bool:
        """Whether reading a column is faster than an index lookup, even with nothing in memory."""
        return self._layout.size <= _TINY_ROWS

    @property
    def is_small(self) -> bool:
        """Whether a pass over a column in memory is as fast as any index."""
        return self._layout.size <= _SMALL_ROWS

    def is_worth_loading(self, what: str) -> bool:
        """Return whether enough lookups were counted that reading the columns of a small table is cheaper."""
        return self.is_small and self._spent.get(f"({what})", 0) >= self._layout.size

    def note_lookup(self, what: str) -> None:
        """Count an index lookup that columns of a small table could have answered."""
        self._add_cost(f"({what})", self._layout.size // _MIN_LOOKUPS + 1)

    def _add_cost(self, what: str, cost: int, limit: int | None = None) -> bool:
        with self._lock:
            self._spent[what] = spent = self._spent.get(what, 0) + cost
        # From what a scan of the whole column costs, one unit per row, the lookups would have paid for it.
        return spent >= (self._layout.size if limit is None else limit)


def estimate_column_bytes(layout: Layout, schema: pa.Schema, column: str) -> int:
    """Estimate the bytes of a whole column from the table's metadata."""
    field = schema.field(column)
    if is_blob(field):
        return layout.size * _BLOB_BYTES
    width = _get_value_width(field.type)
    if width is not None:
        return int(layout.size * width)
    # Metadata has no sizes of single columns: all bytes of the files that columns of fixed width do not explain may
    # belong to this one.
    file_bytes = sum(fragment.nbytes for fragment in layout.fragments)
    fixed_bytes = layout.size * sum(_get_value_width(other.type) or 0 for other in schema if not is_blob(other))
    min_bytes = layout.size * (_LIST_BYTES if pa.types.is_list(field.type) else _TEXT_BYTES)
    return int(max(min_bytes, file_bytes - fixed_bytes))


def _get_value_width(type_: pa.DataType) -> float | None:
    """Return the bytes of one value; None for texts and lists, whose values differ in size."""
    if pa.types.is_fixed_size_list(type_):
        return float(type_.list_size * type_.value_type.bit_width / 8)
    try:
        return float(type_.bit_width / 8)
    except ValueError:
        return None
