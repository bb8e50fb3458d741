"""Encode rows as graph JSONL, which `engine.decoding.graph_jsonl` reads back as the same rows."""

from collections.abc import Iterator

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.blob_marks import find_claims
from omnigraph.schema.arrow import DST, ID, SRC
from omnigraph.schema.catalog import AnyType, EdgeType
from omnigraph.schema.types import EnumOf, ListOf, Scalar, ValueType, VectorOf
from omnigraph.schema.values import to_json

# Readers that parse JSON numbers as floating point would round larger integers, so these are written as strings.
MAX_EXACT_INTEGER = 2**53 - 1

_encode = msgspec.json.Encoder().encode


def iter_json_lines(type_: AnyType, rows: pa.Table) -> Iterator[bytes]:
    """Yield one line for each row, with its line feed. Every property is written, a null as null.

    The id is left out if it is derived from the key.
    """
    names = [p.name for p in type_.properties]
    columns = [encode_json_column(p.type, rows[p.name].combine_chunks()) for p in type_.properties]
    # Without properties, `zip` would yield no row at all.
    data: Iterator[tuple[object, ...]] = zip(*columns, strict=True) if columns else iter([()] * rows.num_rows)
    head = {"edge": type_.name} if isinstance(type_, EdgeType) else {"type": type_.name}
    identifiers = [] if type_.key else [("id", rows[ID].to_pylist())]
    if isinstance(type_, EdgeType):
        identifiers += [("from", rows[SRC].to_pylist()), ("to", rows[DST].to_pylist())]
    for row, values in enumerate(data):
        record: dict[str, object] = dict(head)
        for name, texts in identifiers:
            record[name] = texts[row]
        record["data"] = dict(zip(names, values, strict=True))
        yield _encode(record) + b"\n"


def encode_json_column(type_: ValueType, column: pa.Array) -> list[object]:
    """Return the values of a column in their JSON forms; integers beyond ±(2^53 - 1) become strings."""
    match type_:
        case Scalar.I64 | Scalar.U64:
            return _encode_large_integers(column)
        case Scalar.F32:
            return _encode_short_floats(column)
        case VectorOf(size=size):
            items = _encode_short_floats(column.values.slice(column.offset * size, len(column) * size))
            return [
                items[row * size : (row + 1) * size] if has_value else None
                for row, has_value in enumerate(column.is_valid().to_pylist())
            ]
        case ListOf(element=element):
            return _encode_lists(element, column)
        case Scalar.DATE:
            return _to_list(column.cast(pa.utf8()))
        case Scalar.DATETIME:
            return [to_json(type_, value) for value in column.to_pylist()]
        case Scalar.BLOB:
            claims = find_claims(column)  # records that were not loaded still have the URI they came with
            return [claims.get(row) or to_json(type_, value) for row, value in enumerate(column.to_pylist())]
        case Scalar() | EnumOf():
            return _to_list(column)


def _to_list(column: pa.Array) -> list[object]:
    values: list[object] = column.to_pylist()
    return values


def _encode_large_integers(column: pa.Array) -> list[object]:
    ends = pc.min_max(column)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    values = _to_list(column)
    # Most columns have no large integer, which one pass over the array shows.
    if low is None or (low >= -MAX_EXACT_INTEGER and high <= MAX_EXACT_INTEGER):
        return values
    return [str(value) if isinstance(value, int) and abs(value) > MAX_EXACT_INTEGER else value for value in values]


def _encode_short_floats(column: pa.Array) -> list[object]:
    """Return 32-bit floats with the fewest digits that identify them: 0.1, not 0.10000000149011612."""
    # Arrow formats a float32 with the shortest text that reads back as the same float32.
    return _to_list(column.cast(pa.utf8()).cast(pa.float64()))


def _encode_lists(element: Scalar, column: pa.Array) -> list[object]:
    offsets = column.offsets.to_pylist()
    first, last = offsets[0], offsets[-1]
    items = encode_json_column(element, column.values.slice(first, last - first))
    return [
        items[start - first : end - first] if has_value else None
        for start, end, has_value in zip(offsets, offsets[1:], column.is_valid().to_pylist(), strict=False)
    ]
