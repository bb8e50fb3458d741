"""Apply text functions to columns. Positions count code points, from 0."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.letter_case import lower_texts, upper_texts
from omnigraph.engine.query_budget import Budget, QueryMemoryError
from omnigraph.errors import QueryError
from omnigraph.query.scalar_functions import ScalarFunction
from omnigraph.schema.regex import compile_pattern, find_pattern_problem
from omnigraph.storage.arrow_buffers import repeat_value
from omnigraph.storage.columnar_sets import concat_chunks

# A function gets each argument as a column, or as a scalar if it is the same in all rows; the first is a column.
Argument: TypeAlias = pa.Array | pa.Scalar
Operand: TypeAlias = pa.ChunkedArray | pa.Array | pa.Scalar

# Arrow's offsets of texts have 32 bits.
MAX_COLUMN_BYTES = (1 << 31) - 1
_MAX_BYTES_PER_CHARACTER = 4


def apply_text_function(function: ScalarFunction, text: pa.Array, *arguments: Argument) -> pa.Array:
    """Return a text function of a column of texts; null where an argument is null."""
    simple = _UNARY.get(function)
    if simple is not None:
        return simple(text)
    vectorised = _VECTORISED.get(function)
    fixed = [argument.as_py() for argument in arguments if isinstance(argument, pa.Scalar)]
    if vectorised is not None and len(fixed) == len(arguments):
        # One null argument makes every row null.
        if None in fixed:
            return pa.nulls(len(text), _RESULTS.get(function, pa.string()))
        return vectorised(text, *fixed)
    # Arrow's kernels take one pattern or position for all rows; one per row is rare and handled in Python.
    return _map_rows(_SINGLE[function], _RESULTS.get(function, pa.string()), text, *arguments)


def check_text_size(function: ScalarFunction, operands: Sequence[Operand], size: int, budget: Budget) -> None:
    """Check that the texts which a function builds in `size` rows fit into memory, before it builds them.

    Raises:
        QueryMemoryError: They would exceed the budget, or what one column can hold.
    """
    measure = _MEASURES.get(function)
    if measure is None:
        return
    nbytes = measure(size, *operands)
    name = "+" if function is ScalarFunction.CONCATENATE else function.value
    what = f"building texts with `{name}`"
    budget.check_size(nbytes, what)
    if nbytes > MAX_COLUMN_BYTES:
        raise QueryMemoryError(what, nbytes, MAX_COLUMN_BYTES)


def _measure(size: int, operand: Operand) -> int:
    """Return the size of a text in all rows, in bytes."""
    total = pc.sum(pc.binary_length(operand)).as_py() or 0
    return int(total) * (size if isinstance(operand, pa.Scalar) else 1)


def _measure_concatenated(size: int, left: Operand, right: Operand) -> int:
    return _measure(size, left) + _measure(size, right)


def _measure_replaced(size: int, text: Operand, part: Operand, by: Operand) -> int:
    if not isinstance(part, pa.Scalar) or not isinstance(by, pa.Scalar):
        return _measure_replaced_rows(text, part, by)
    looked_for, replacement = part.as_py(), by.as_py()
    if not looked_for or replacement is None:
        return _measure(size, text)
    growth = len(replacement.encode()) - len(looked_for.encode())
    count = int(pc.sum(pc.count_substring(text, pattern=looked_for)).as_py() or 0) if growth > 0 else 0
    return _measure(size, text) + max(growth, 0) * count * (size if isinstance(text, pa.Scalar) else 1)


def _measure_replaced_rows(*operands: Operand) -> int:
    """Return an upper limit of the size of texts in which every row has its own parts replaced."""
    size = max(len(operand) for operand in operands if not isinstance(operand, pa.Scalar))
    columns = ([each.as_py()] * size if isinstance(each, pa.Scalar) else each.to_pylist() for each in operands)
    rows = (row for row in zip(*columns, strict=True) if None not in row)
    characters = sum(len(text) + text.count(part) * len(by) for text, part, by in rows)
    return int(characters) * _MAX_BYTES_PER_CHARACTER


def _measure_joined(size: int, lists: Operand, separator: Operand) -> int:
    column = concat_chunks(pa.repeat(lists, 1) if isinstance(lists, pa.Scalar) else lists)
    longest = pc.max(pc.binary_length(separator)).as_py() or 0
    elements = pc.list_flatten(column)
    return (_measure(1, elements) + len(elements) * longest) * (size if isinstance(lists, pa.Scalar) else 1)


# Other functions build at most a few times what they read; these can build any size.
_MEASURES: dict[ScalarFunction, Callable[..., int]] = {
    ScalarFunction.CONCATENATE: _measure_concatenated,
    ScalarFunction.REPLACE: _measure_replaced,
    ScalarFunction.JOIN: _measure_joined,
}


def concatenate(left: Argument, right: Argument) -> pa.Array:
    """Return the two texts joined, row by row."""
    return pc.binary_join_element_wise(left, right, "")


def join_texts(lists: pa.Array, separator: Argument) -> pa.Array:
    """Return the texts of each list joined by a separator."""
    return pc.binary_join(lists, separator)


def _length(text: pa.Array) -> pa.Array:
    return pc.utf8_length(text).cast(pa.int64())


_UNARY: dict[ScalarFunction, Callable[[pa.Array], pa.Array]] = {
    ScalarFunction.LOWER: lower_texts,
    ScalarFunction.UPPER: upper_texts,
    ScalarFunction.TRIM: pc.utf8_trim_whitespace,
    ScalarFunction.TRIM_LEFT: pc.utf8_ltrim_whitespace,
    ScalarFunction.TRIM_RIGHT: pc.utf8_rtrim_whitespace,
    ScalarFunction.LENGTH: _length,
}


def _substring(text: pa.Array, start: int, length: int | None = None) -> pa.Array:
    begin, end = _clip_range(start, length)
    return pc.utf8_slice_codeunits(text, begin, end)


def _clip_range(start: int, length: int | None) -> tuple[int, int | None]:
    """Return the range from `start`; what lies before the text is cut off, a negative length is none."""
    # Arrow counts with 64 bits; no text is longer than a column.
    begin = min(max(start, 0), MAX_COLUMN_BYTES)
    if length is None:
        return begin, None
    return begin, min(max(start + max(length, 0), 0), MAX_COLUMN_BYTES)


def _substring_in_text(text: str, start: int, length: int | None = None) -> str:
    begin, end = _clip_range(start, length)
    return text[begin:end]


def _index_of(text: pa.Array, part: str) -> pa.Array:
    at = pc.find_substring(text, pattern=part)
    # Bytes are code points in ASCII texts; in others the texts before the part are measured.
    if not pc.all(pc.string_is_ascii(text)).as_py():
        return _map_rows(_find_in_text, pa.int64(), text, pa.scalar(part))
    return pc.if_else(pc.less(at, 0), pa.scalar(None, pa.int64()), at.cast(pa.int64()))


def _find_in_text(text: str, part: str) -> int | None:
    at = text.find(part)
    return at if at >= 0 else None


def _replace(text: pa.Array, part: str, by: str) -> pa.Array:
    # Nothing is replaced where there is nothing to look for.
    return pc.replace_substring(text, pattern=part, replacement=by) if part else text


def _replace_in_text(text: str, part: str, by: str) -> str:
    return text.replace(part, by) if part else text


def _split(text: pa.Array, separator: str) -> pa.Array:
    if not separator:
        return _map_rows(_split_in_text, pa.list_(pa.string()), text, pa.scalar(separator))
    return pc.split_pattern(text, pattern=separator)


def _split_in_text(text: str, separator: str) -> list[str]:
    return text.split(separator) if separator else list(text)


def _starts_with(text: pa.Array, prefix: str) -> pa.Array:
    return pc.starts_with(text, pattern=prefix)


def _ends_with(text: pa.Array, suffix: str) -> pa.Array:
    return pc.ends_with(text, pattern=suffix)


def _matches(text: pa.Array, pattern: str) -> pa.Array:
    _check_pattern(pattern)
    return pc.match_substring_regex(text, pattern=pattern)


def _extract(text: pa.Array, pattern: str) -> pa.Array:
    _check_pattern(pattern)
    compiled = compile_pattern(pattern)
    # Each distinct text once: Arrow's kernel accepts no pattern with groups that have no name.
    encoded = text.dictionary_encode()
    found = [compiled.search(value) for value in encoded.dictionary.to_pylist()]
    parts = [None if match is None else match.group(min(compiled.groups, 1)) for match in found]
    return pa.array(parts, pa.string()).take(encoded.indices)


def _check_pattern(pattern: str) -> None:
    """Check a pattern that came as a parameter; the binder has checked literals.

    Raises:
        QueryError: It is no regular expression (`bad_pattern`).
    """
    problem = find_pattern_problem(pattern)
    if problem is not None:
        raise QueryError.bad_pattern(pattern, problem)


_VECTORISED: dict[ScalarFunction, Callable[..., pa.Array]] = {
    ScalarFunction.SUBSTRING: _substring,
    ScalarFunction.INDEX_OF: _index_of,
    ScalarFunction.REPLACE: _replace,
    ScalarFunction.SPLIT: _split,
    ScalarFunction.STARTS_WITH: _starts_with,
    ScalarFunction.ENDS_WITH: _ends_with,
    ScalarFunction.MATCHES: _matches,
    ScalarFunction.EXTRACT: _extract,
}
_SINGLE: dict[ScalarFunction, Callable[..., object]] = {
    ScalarFunction.SUBSTRING: _substring_in_text,
    ScalarFunction.INDEX_OF: _find_in_text,
    ScalarFunction.REPLACE: _replace_in_text,
    ScalarFunction.SPLIT: _split_in_text,
    ScalarFunction.STARTS_WITH: str.startswith,
    ScalarFunction.ENDS_WITH: str.endswith,
}
_RESULTS: dict[ScalarFunction, pa.DataType] = {
    ScalarFunction.INDEX_OF: pa.int64(),
    ScalarFunction.SPLIT: pa.list_(pa.string()),
    ScalarFunction.STARTS_WITH: pa.bool_(),
    ScalarFunction.ENDS_WITH: pa.bool_(),
    ScalarFunction.MATCHES: pa.bool_(),
}


def _map_rows(function: Callable[..., object], type_: pa.DataType, text: pa.Array, *arguments: Argument) -> pa.Array:
    columns = [text, *(repeat_value(a, len(text)) if isinstance(a, pa.Scalar) else a for a in arguments)]
    rows = zip(*(column.to_pylist() for column in columns), strict=True)
    return pa.array([None if None in row else function(*row) for row in rows], type_)
