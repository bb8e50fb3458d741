"""Lines of JSON objects of one shape, read by Arrow's own reader, and only believed where it is as strict as ours.

Arrow's reader takes what we refuse, or tells less than we need:

- several objects on one line, and one object on several: every line has to start with `{` and end with `}`. A line
  break is refused in a string, and behind `}` no object can go on with `{`, so every line then holds whole objects;
  as many rows as lines means one on each. This also catches a NUL, at which the reader stops without a word.
- bytes that are no UTF-8, as they are: every text is validated.
- NaN, Inf and Infinity, and integers that a float can't hold: see `fast_columns`.
- `-0` of a float is -0.0, but 0 in JSON's own terms: see `fast_columns`.
- null and a name that is not there look alike: they are told apart by the text, see `_NullSpellings`.

What it refuses (duplicate and unknown names, numbers and escapes that are not JSON's, half surrogate pairs, values of
another kind) may be right or wrong: the caller asks the strict reader.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json

from omnigraph.engine.decoding.line_blocks import LineBlock, LinePositions

BLOCK_BYTES = 1 << 20
"""How much of the text is parsed by one thread at a time."""

Doubts = npt.NDArray[np.bool_]
"""True for each row that the strict reader has to look at."""


@dataclass(frozen=True, slots=True)
class FastTable:
    """Rows that Arrow read: a column for each name, what was left out of each, and the rows that are in doubt."""

    columns: Mapping[str, pa.Array]
    left_out: Mapping[str, pa.Array]
    doubts: Doubts


def read_fast(block: LineBlock, positions: LinePositions, schema: pa.Schema) -> FastTable | None:
    """The objects of these lines, or None when Arrow can't read them.

    The lines have to be `whole`. The fields of a struct are columns too; where one has the name of another column, it
    takes its place.
    """
    part = block.select(positions)
    text = part.to_buffer()
    longest = int(np.diff(part.offsets).max())
    reading = pa_json.ReadOptions(use_threads=text.size > BLOCK_BYTES, block_size=max(BLOCK_BYTES, longest + 1))
    parsing = pa_json.ParseOptions(explicit_schema=schema, newlines_in_values=False, unexpected_field_behavior="error")
    try:
        table = pa_json.read_json(pa.BufferReader(text), reading, parsing)
        if table.num_rows != len(positions):
            return None
        table.validate(full=True)
    except pa.ArrowException:
        return None
    columns: dict[str, pa.Array] = {}
    for name in schema.names:
        column = _combine_chunks(table[name])
        columns[name] = column
        if pa.types.is_struct(column.type):
            columns |= zip([one.name for one in column.type], column.flatten(), strict=True)
    return _separate_nulls(columns, _NullSpellings(part, tuple(columns)))


def _combine_chunks(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


# --- null, or left out -------------------------------------------------------------------------------


@dataclass(slots=True)
class _NullSpellings:
    """Where a text says null.

    An explicit null of a name is written `"name":null` or `"name": null`. Those bytes can't stand for anything else:
    inside of a string the quotes would be escaped. Any other spelling (`"name" : null`) and any text that looks like
    one (`a null`) has a null behind a colon or blank that is not counted among them.
    """

    block: LineBlock
    names: Sequence[str]
    _is_plain: bool | None = field(init=False, default=None)

    @property
    def has_any(self) -> bool:
        """Whether there may be one."""
        start, end = self.block.offsets[[0, -1]].tolist()
        return self.block.data.find(b"null", start, end) >= 0

    def count_explicit(self, name: str) -> int:
        """How often a name is null, in the usual spellings."""
        key = b'"%s":' % name.encode()
        return self.block.count(key + b"null") + self.block.count(key + b" null")

    def is_plain(self) -> bool:
        """Whether every null behind a colon or blank is counted by `explicit` of some name."""
        if self._is_plain is None:
            all_of_them = sum(self.block.count(sign + b"null") for sign in (b":", b" ", b"\t", b"\r"))
            self._is_plain = all_of_them == sum(map(self.count_explicit, self.names))
        return self._is_plain

    def find_odd(self, lines: pa.Array) -> Doubts:
        """Which lines have a null that no usual spelling explains."""
        if self.is_plain():
            return np.zeros(len(lines), bool)
        names = "|".join(map(re.escape, self.names))
        usual = pc.count_substring_regex(lines, f'"({names})": ?null')
        found = pc.count_substring_regex(lines, r"[: \t\r]null")
        odd: Doubts = pc.not_equal(usual, found).to_numpy(zero_copy_only=False)
        return odd


def _separate_nulls(columns: dict[str, pa.Array], nulls: _NullSpellings) -> FastTable:
    doubts = np.zeros(len(nulls.block.offsets) - 1, bool)
    left_out: dict[str, pa.Array] = {}
    lines: pa.Array | None = None
    has_nulls = nulls.has_any
    for name, column in columns.items():
        if not column.null_count:
            continue
        is_null = column.is_null()
        explicit = nulls.count_explicit(name) if has_nulls else 0
        if explicit == column.null_count:
            continue
        if explicit or (has_nulls and not nulls.is_plain()):
            if lines is None:
                lines = nulls.block.to_array()
                doubts |= nulls.find_odd(lines)
            is_explicit = pc.match_substring_regex(lines, f'"{re.escape(name)}": ?null')
            is_null = pc.and_not(is_null, is_explicit)
        left_out[name] = is_null
    return FastTable(columns, left_out, doubts)
