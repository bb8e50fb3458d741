"""Placeholders in blob columns: values that begin with a mark refer to a URI or to a row instead of holding data.

A placeholder is bytes like every other value of its column, so no step that passes the column on has to know about it.
"""

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.ids import draw_bytes

# Random and new in each process, so that no input can contain it.
_MARK = draw_bytes(24)
URI_MARK = _MARK + b"u"
ROW_MARK = _MARK + b"r"


def encode_claim(uri: str) -> bytes:
    """Return the placeholder of the object at a URI."""
    return URI_MARK + uri.encode()


def find_claims(column: pa.Array | pa.ChunkedArray) -> dict[int, str]:
    """Return the URIs that a blob column refers to, by row."""
    return {row: text.decode() for row, text in find_marked_values(column, URI_MARK).items()}


def find_marked_values(column: pa.Array | pa.ChunkedArray, mark: bytes) -> dict[int, bytes]:
    """Return the values that begin with the mark, without it, by row."""
    rows = pc.indices_nonzero(pc.fill_null(pc.starts_with(column, mark), fill_value=False))
    texts = column.take(rows).to_pylist()
    return {row: text[len(mark) :] for row, text in zip(rows.to_pylist(), texts, strict=True)}
