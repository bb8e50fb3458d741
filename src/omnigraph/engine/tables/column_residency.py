"""What it costs to have a column in memory, and when it has paid to read all of it."""

import threading

import pyarrow as pa

from omnigraph.engine.tables.row_layout import Layout
from omnigraph.storage.lance_table import is_blob

_LIGHT_BYTES = 16 * 2**20
"""A column of at most so many bytes is read whole at the first question, however few rows are asked for."""
_CACHE_DIVISOR = 4
"""The most of the memory for reads that one column may take."""
_TAKE_COST, _TAKEN_ROW_COST = 16_384, 16
"""Reading some rows by themselves costs about as much as so many rows of a scan, and so many for each of them."""
_TINY_ROWS = 16_384
"""Up to so many rows maintenance builds no index by itself, and the column is read."""
_SMALL_ROWS, _MIN_LOOKUPS = 262_144, 4
"""A structure over a column pays at once for a small table, and for others at so many questions."""
_MANY_LOOKUPS = 16
"""And one that takes as long as many questions, at so many."""
_TEXT_BYTES, _LIST_BYTES, _BLOB_BYTES = 24, 64, 40
"""What a text or list takes at least, where nothing better is known; and where a blob lies."""


class ColumnCosts:
    """Judges the columns of one table version by its metadata, and by what was asked of it so far."""

    def __init__(self, layout: Layout, schema: pa.Schema, limit_bytes: int) -> None:
        self._layout, self._schema = layout, schema
        self._max_column_bytes = limit_bytes // _CACHE_DIVISOR
        self._bytes: dict[str, int] = {}
        self._spent: dict[str, int] = {}
        self._lock = threading.Lock()

    def estimate_bytes(self, column: str) -> int:
        """About how many bytes the whole column takes."""
        found = self._bytes.get(column)
        if found is None:
            found = self._bytes[column] = estimate_column_bytes(self._layout, self._schema, column)
        return found

    def has_room_for(self, column: str) -> bool:
        """Whether the whole column has room in memory beside others."""
        return self.estimate_bytes(column) <= self._max_column_bytes

    def is_light(self, column: str) -> bool:
        """Whether the whole column is read at the first question."""
        return self.estimate_bytes(column) <= min(_LIGHT_BYTES, self._max_column_bytes)

    def is_light_by_size(self, column: str) -> bool:
        """Whether it would be, whatever room there is: the planner's view, which is the same everywhere."""
        return self.estimate_bytes(column) <= _LIGHT_BYTES

    def is_heavy(self, column: str) -> bool:
        """Whether its values are too large to be kept for the sake of a filter."""
        return pa.types.is_fixed_size_list(self._schema.field(column).type) and not self.is_light(column)

    def should_load(self, column: str, rows: int) -> bool:
        """Whether to read the whole column: it is light, or what was asked for so far would have paid for it."""
        if self.is_light(column):
            return True
        return self.has_room_for(column) and self._add_cost(column, _TAKE_COST + rows * _TAKEN_ROW_COST)

    def has_paid(self, what: str) -> bool:
        """Whether a structure is worth making: the table is small, or enough questions were asked of it."""
        return self.is_small or self._add_cost(f"({what})", self._layout.size // _MIN_LOOKUPS + 1)

    def is_repeated(self, what: str) -> bool:
        """Whether a question is not the first one of its kind."""
        return self._add_cost(f"({what})", self._layout.size // 2 + 1) or not self._layout.size

    def is_frequent(self, what: str) -> bool:
        """Whether so many questions were asked that a structure is worth making which takes as long as many of them."""
        return self._add_cost(f"({what})", self._layout.size // _MANY_LOOKUPS + 1)

    @property
    def is_tiny(self) -> bool:
        """Whether a column is read sooner than an index, also if nothing is in memory."""
        return self._layout.size <= _TINY_ROWS

    @property
    def is_small(self) -> bool:
        """Whether one pass over a column is as quick as any index, once it is in memory."""
        return self._layout.size <= _SMALL_ROWS

    def is_worth_loading(self, what: str) -> bool:
        """Return whether so many look-ups were noted that the columns of a small table are read instead."""
        return self.is_small and self._spent.get(f"({what})", 0) >= self._layout.size

    def note_lookup(self, what: str) -> None:
        """Note that an index was asked where a small table's columns could have been read."""
        self._add_cost(f"({what})", self._layout.size // _MIN_LOOKUPS + 1)

    def _add_cost(self, what: str, cost: int) -> bool:
        with self._lock:
            self._spent[what] = asked = self._spent.get(what, 0) + cost
        return asked >= self._layout.size


def estimate_column_bytes(layout: Layout, schema: pa.Schema, column: str) -> int:
    """About how many bytes a whole column takes, by what the table's metadata tell."""
    field = schema.field(column)
    if is_blob(field):
        return layout.size * _BLOB_BYTES
    width = _get_value_width(field.type)
    if width is not None:
        return int(layout.size * width)
    files = sum(fragment.nbytes for fragment in layout.fragments)
    fixed = layout.size * sum(_get_value_width(other.type) or 0 for other in schema if not is_blob(other))
    least = layout.size * (_LIST_BYTES if pa.types.is_list(field.type) else _TEXT_BYTES)
    return int(max(least, files - fixed))


def _get_value_width(type_: pa.DataType) -> float | None:
    """The bytes of one value; None for texts and lists."""
    if pa.types.is_fixed_size_list(type_):
        return float(type_.list_size * type_.value_type.bit_width / 8)
    try:
        return float(type_.bit_width / 8)
    except ValueError:
        return None
