"""What it costs to have a column in memory, and when it has paid to read all of it."""

import threading

import pyarrow as pa

from omnigraph.engine.tables.row_layout import Layout
from omnigraph.storage.lance_table import is_blob

_LIGHT_BYTES = 16 * 2**20
"""A column of at most so many bytes is read whole at the first question, however few rows are asked for."""
_SHARE_OF_CACHE = 4
"""The most of the memory for reads that one column may take."""
_ROWS_PER_TAKE, _ROWS_PER_TAKEN = 16_384, 16
"""Reading some rows by themselves costs about as much as so many rows of a scan, and so many for each of them."""
_TINY_ROWS = 16_384
"""Up to so many rows maintenance builds no index by itself, and the column is read."""
_SMALL_ROWS, _QUESTIONS = 262_144, 4
"""A structure over a column pays at once for a small table, and for others at so many questions."""
_MANY_QUESTIONS = 16
"""And one that takes as long as many questions, at so many."""
_TEXT_BYTES, _LIST_BYTES, _BLOB_BYTES = 24, 64, 40
"""What a text or list takes at least, where nothing better is known; and where a blob lies."""


class ColumnCosts:
    """Judges the columns of one table version by its metadata, and by what was asked of it so far."""

    def __init__(self, layout: Layout, schema: pa.Schema, limit_bytes: int) -> None:
        self._layout, self._schema = layout, schema
        self._most = limit_bytes // _SHARE_OF_CACHE
        self._bytes: dict[str, int] = {}
        self._asked: dict[str, int] = {}
        self._lock = threading.Lock()

    def bytes_of(self, column: str) -> int:
        """About how many bytes the whole column takes."""
        found = self._bytes.get(column)
        if found is None:
            found = self._bytes[column] = column_bytes(self._layout, self._schema, column)
        return found

    def may_load(self, column: str) -> bool:
        """Whether the whole column has room in memory beside others."""
        return self.bytes_of(column) <= self._most

    def is_light(self, column: str) -> bool:
        """Whether the whole column is read at the first question."""
        return self.bytes_of(column) <= min(_LIGHT_BYTES, self._most)

    def is_light_by_size(self, column: str) -> bool:
        """Whether it would be, whatever room there is: the planner's view, which is the same everywhere."""
        return self.bytes_of(column) <= _LIGHT_BYTES

    def is_heavy(self, column: str) -> bool:
        """Whether its values are too large to be kept for the sake of a filter."""
        return pa.types.is_fixed_size_list(self._schema.field(column).type) and not self.is_light(column)

    def shall_load(self, column: str, rows: int) -> bool:
        """Whether to read the whole column: it is light, or what was asked for so far would have paid for it."""
        if self.is_light(column):
            return True
        return self.may_load(column) and self._has_paid(column, _ROWS_PER_TAKE + rows * _ROWS_PER_TAKEN)

    def has_paid(self, what: str) -> bool:
        """Whether a structure is worth making: the table is small, or enough questions were asked of it."""
        return self.is_small or self._has_paid(f"({what})", self._layout.size // _QUESTIONS + 1)

    def is_asked_again(self, what: str) -> bool:
        """Whether a question is not the first one of its kind."""
        return self._has_paid(f"({what})", self._layout.size // 2 + 1) or not self._layout.size

    def is_asked_often(self, what: str) -> bool:
        """Whether so many questions were asked that a structure is worth making which takes as long as many of them."""
        return self._has_paid(f"({what})", self._layout.size // _MANY_QUESTIONS + 1)

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
        return self.is_small and self._asked.get(f"({what})", 0) >= self._layout.size

    def note_lookup(self, what: str) -> None:
        """Note that an index was asked where a small table's columns could have been read."""
        self._has_paid(f"({what})", self._layout.size // _QUESTIONS + 1)

    def _has_paid(self, what: str, cost: int) -> bool:
        with self._lock:
            self._asked[what] = asked = self._asked.get(what, 0) + cost
        return asked >= self._layout.size


def column_bytes(layout: Layout, schema: pa.Schema, column: str) -> int:
    """About how many bytes a whole column takes, by what the table's metadata tell."""
    field = schema.field(column)
    if is_blob(field):
        return layout.size * _BLOB_BYTES
    width = _width(field.type)
    if width is not None:
        return int(layout.size * width)
    files = sum(fragment.nbytes for fragment in layout.fragments)
    fixed = layout.size * sum(_width(other.type) or 0 for other in schema if not is_blob(other))
    least = layout.size * (_LIST_BYTES if pa.types.is_list(field.type) else _TEXT_BYTES)
    return int(max(least, files - fixed))


def _width(type_: pa.DataType) -> float | None:
    """The bytes of one value; None for texts and lists."""
    if pa.types.is_fixed_size_list(type_):
        return float(type_.list_size * type_.value_type.bit_width / 8)
    try:
        return float(type_.bit_width / 8)
    except ValueError:
        return None
