"""What tells a claim from data in a column of blobs: a mark that each process draws anew.

A claim is bytes like every other value of the column; nothing on its way has to know of it. Nobody can write data that
begins with the mark.
"""

import secrets

import pyarrow as pa
import pyarrow.compute as pc

_MARK = secrets.token_bytes(24)
URI_MARK, ROW_MARK = _MARK + b"u", _MARK + b"r"


def encode_claim(uri: str) -> bytes:
    """What stands for the object at a URI."""
    return URI_MARK + uri.encode()


def find_claims(column: pa.Array | pa.ChunkedArray) -> dict[int, str]:
    """The URIs that a column of blobs claims, by row."""
    return {row: text.decode() for row, text in find_marked_values(column, URI_MARK).items()}


def find_marked_values(column: pa.Array | pa.ChunkedArray, mark: bytes) -> dict[int, bytes]:
    """What stands behind the mark, by row, where a value begins with it."""
    found = pc.indices_nonzero(pc.fill_null(pc.starts_with(column, mark), fill_value=False))
    texts = column.take(found).to_pylist()
    return {row: text[len(mark) :] for row, text in zip(found.to_pylist(), texts, strict=True)}
