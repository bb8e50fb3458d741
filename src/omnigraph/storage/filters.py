"""Build Lance filters as SQL text, with every literal in the type of its column.

Lance also takes Arrow expressions, but can't convert one over unsigned integers, or over a table that has a list of
them. Text works for every type and uses the index of each, also with values at the bounds of their types: measured.

To Lance a NaN is beyond the infinities, so a filter of floats also accepts such rows, and the caller has to check
again. Zeros of both signs are equal in comparisons, as they should be, but not in lists.
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
# The smallest integer needs a cast, see `_format_literal`.
_MIN_INTEGER = -(2**63)
_LAST_CODE_POINT = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


def build_comparison(column: str, op: str, value: pa.Scalar) -> str:
    """Return the filter `column op value` with an SQL operator; the value is neither null nor NaN."""
    return f"{_quote_column(column)} {op} {_format_literal(value)}"


def build_in_list(column: str, values: pa.Array) -> str:
    """Return the filter for rows with one of these values; there is at least one, and none is null or NaN."""
    literals = dict.fromkeys(map(_format_literal, values))
    if len(literals) == 1:
        return f"{_quote_column(column)} = {next(iter(literals))}"
    return f"{_quote_column(column)} IN ({', '.join(literals)})"


def build_list_contains(column: str, value: pa.Scalar) -> str:
    """Return the filter for rows whose list contains a value, which is neither null nor NaN."""
    items = [value]
    if pa.types.is_floating(value.type) and value.as_py() == 0.0:
        items = [pa.scalar(zero, value.type) for zero in (-0.0, 0.0)]
    # Lance uses a label index only for literals of exactly the type of its items.
    return join_with_or([f"array_has({_quote_column(column)}, {_format_typed_literal(item)})" for item in items])


def build_is_null(column: str) -> str:
    """Return the filter for rows without a value."""
    return f"{_quote_column(column)} IS NULL"


def build_prefix_match(column: str, prefix: str) -> str:
    """Return the filter for texts with a prefix, which is not empty."""
    low = f"{_quote_column(column)} >= {_format_literal(pa.scalar(prefix))}"
    end = find_prefix_end(prefix)
    return low if end is None else f"({low} AND {_quote_column(column)} < {_format_literal(pa.scalar(end))})"


def find_prefix_end(prefix: str) -> str | None:
    """Return the smallest text that is greater than all texts with this prefix, or None if there is none."""
    for length in range(len(prefix), 0, -1):
        last = ord(prefix[length - 1])
        if last < _LAST_CODE_POINT:
            following = last + 1
            # Surrogates are no characters of a text: skip to the code point after them.
            return prefix[: length - 1] + chr(_SURROGATES.stop if following in _SURROGATES else following)
    return None


def join_with_and(filters: Sequence[str]) -> str:
    """Return the filter for rows that pass all of these filters; there is at least one."""
    return _fold(filters, "AND")


def join_with_or(filters: Sequence[str]) -> str:
    """Return the filter for rows that pass one of these filters; there is at least one."""
    return _fold(filters, "OR")


def _fold(filters: Sequence[str], word: str) -> str:
    """Join filters as a balanced tree: Lance's parser rejects deep ones, and its planner is recursive."""
    parts = list(filters)
    while len(parts) > 1:
        pairs = [f"({a} {word} {b})" for a, b in zip(parts[::2], parts[1::2], strict=False)]
        parts = pairs + parts[len(pairs) * 2 :]
    return parts[0]


def _quote_column(column: str) -> str:
    return f"`{column}`"


def _format_typed_literal(value: pa.Scalar) -> str:
    """Return a literal that has the type of the value without conversion."""
    if pa.types.is_integer(value.type):
        return f"CAST('{value.as_py()}' AS {_CASTS[value.type]})"
    return _format_literal(value)


def _format_literal(value: pa.Scalar) -> str:
    type_ = value.type
    if pa.types.is_timestamp(type_):  # not `as_py`, which takes 60 µs for the time zone
        assert type_ == pa.timestamp("us", "UTC"), type_  # noqa: S101 - the only timestamp type of a column
        return f"arrow_cast({value.value}, 'Timestamp(Microsecond, Some(\"UTC\"))')"
    plain = value.as_py()
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        quoted = plain.replace("'", "''")
        return f"'{quoted}'"
    if pa.types.is_boolean(type_):
        return "true" if plain else "false"
    if pa.types.is_integer(type_):
        # Lance's parser reads the sign and the number separately, and the number alone is out of range.
        return _format_typed_literal(value) if plain == _MIN_INTEGER else str(plain)
    if pa.types.is_floating(type_):
        assert not math.isnan(plain)  # noqa: S101 - no comparison with NaN is true, so no filter has it
        return f"CAST('{plain!r}' AS {_CASTS[type_]})"
    assert isinstance(plain, date), type_  # noqa: S101 - the only other type that is compared
    return f"DATE '{plain.isoformat()}'"
