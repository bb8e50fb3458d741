"""Filters as Lance is given them: text, every literal in the type of its column.

Lance takes Arrow's expressions too, but can't convert one over unsigned integers, or over a table that has a list of
them. Text works for every type and reaches the index of each, with values at the bounds of their types too: measured.

To Lance a NaN lies beyond the infinities, so a filter of floats lets such rows pass too, and the caller asks again.
Zeros of both signs are equal in comparisons, as they should be, but not in lists.
"""

import math
from collections.abc import Sequence
from datetime import date

import pyarrow as pa

_CASTS = {
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.uint32(): "INT UNSIGNED",
    pa.uint64(): "BIGINT UNSIGNED",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
}
_MIN_INTEGER = -(2**63)
_LAST_CODE_POINT = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


def build_comparison(column: str, op: str, value: pa.Scalar) -> str:
    """Return the filter `column op value`, with an operator of SQL; the value is neither null nor NaN."""
    return f"{_quote_column(column)} {op} {_format_literal(value)}"


def build_in_list(column: str, values: pa.Array) -> str:
    """Return the filter for rows whose value is one of these; there is at least one, and none is null or NaN."""
    literals = dict.fromkeys(map(_format_literal, values))
    if len(literals) == 1:
        return f"{_quote_column(column)} = {next(iter(literals))}"
    return f"{_quote_column(column)} IN ({', '.join(literals)})"


def build_list_contains(column: str, value: pa.Scalar) -> str:
    """Return the filter for rows whose list holds a value, which is neither null nor NaN."""
    items = [value]
    if pa.types.is_floating(value.type) and value.as_py() == 0.0:
        items = [pa.scalar(zero, value.type) for zero in (-0.0, 0.0)]
    # An index of labels is only asked for literals of exactly the type of its items.
    return join_with_or([f"array_has({_quote_column(column)}, {_format_typed_literal(item)})" for item in items])


def build_is_null(column: str) -> str:
    """Return the filter for rows without a value."""
    return f"{_quote_column(column)} IS NULL"


def build_prefix_match(column: str, prefix: str) -> str:
    """Return the filter for texts that begin like this; the prefix is not empty."""
    low = f"{_quote_column(column)} >= {_format_literal(pa.scalar(prefix))}"
    end = find_prefix_end(prefix)
    return low if end is None else f"({low} AND {_quote_column(column)} < {_format_literal(pa.scalar(end))})"


def find_prefix_end(prefix: str) -> str | None:
    """Return the least text that is greater than all texts that begin like this; None where there is none."""
    for length in range(len(prefix), 0, -1):
        last = ord(prefix[length - 1])
        if last < _LAST_CODE_POINT:
            following = last + 1
            return prefix[: length - 1] + chr(_SURROGATES.stop if following in _SURROGATES else following)
    return None


def join_with_and(filters: Sequence[str]) -> str:
    """Return the filter for rows that pass all of these; there is at least one."""
    return _fold(filters, "AND")


def join_with_or(filters: Sequence[str]) -> str:
    """Return the filter for rows that pass one of these; there is at least one."""
    return _fold(filters, "OR")


def _fold(filters: Sequence[str], word: str) -> str:
    """Join filters as flat a tree as can be: Lance's parser refuses deep ones, and its planner calls itself."""
    parts = list(filters)
    while len(parts) > 1:
        pairs = [f"({a} {word} {b})" for a, b in zip(parts[::2], parts[1::2], strict=False)]
        parts = pairs + parts[len(pairs) * 2 :]
    return parts[0]


def _quote_column(column: str) -> str:
    return f"`{column}`"


def _format_typed_literal(value: pa.Scalar) -> str:
    """Return a literal that has the type of the value without being converted."""
    if pa.types.is_integer(value.type):
        return f"CAST('{value.as_py()}' AS {_CASTS[value.type]})"
    return _format_literal(value)


def _format_literal(value: pa.Scalar) -> str:
    type_ = value.type
    if pa.types.is_timestamp(type_):  # not by `as_py`, which takes 60 microseconds for its time zone
        assert type_ == pa.timestamp("us", "UTC"), type_  # noqa: S101 - the only one that a column has
        return f"arrow_cast({value.value}, 'Timestamp(Microsecond, Some(\"UTC\"))')"
    given = value.as_py()
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        quoted = given.replace("'", "''")
        return f"'{quoted}'"
    if pa.types.is_boolean(type_):
        return "true" if given else "false"
    if pa.types.is_integer(type_):
        # Without its sign the least one is no integer to Lance's parser.
        return _format_typed_literal(value) if given == _MIN_INTEGER else str(given)
    if pa.types.is_floating(type_):
        assert not math.isnan(given)  # noqa: S101 - no comparison with it is true, so no filter says it
        return f"CAST('{given!r}' AS {_CASTS[type_]})"
    assert isinstance(given, date), type_  # noqa: S101 - the only other type of a column that is compared
    return f"DATE '{given.isoformat()}'"
