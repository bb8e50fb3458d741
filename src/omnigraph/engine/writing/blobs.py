"""Hold the blobs of pending rows as references, and read their bytes a few rows at a time when rows are written.

A value set by a statement is held once for all rows that get it; one named by a URI is read when its row is written. A
blob that a row keeps is referenced by the address of the committed row.
"""

import base64
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.schema.arrow import ID, build_arrow_schema
from omnigraph.schema.catalog import AnyType
from omnigraph.schema.types import Scalar
from omnigraph.schema.values import BASE64_PREFIX
from omnigraph.storage.blob_sources import NO_SOURCES, BlobSources
from omnigraph.storage.blobs import read_blobs
from omnigraph.storage.lance_table import ADDRESS, LanceTable

# A blob of a pending row: the number of a value set by a statement, or the address of the committed row that has it.
REFERENCE = pa.struct([("given", pa.int32()), ("address", pa.uint64()), ("size", pa.uint64())])

# Limits of a batch whose blobs are in memory together. A larger blob is a batch alone.
BATCH_BYTES = 32 * 1024 * 1024
BATCH_ROWS = 8_192


def list_blob_properties(type_: AnyType) -> list[str]:
    """Return the names of a type's Blob properties."""
    return [p.name for p in type_.properties if p.type is Scalar.BLOB]


class BlobValues:
    """The blob values set by the statements of one write, by number."""

    def __init__(self, sources: BlobSources = NO_SOURCES) -> None:
        self._sources = sources
        self._texts: list[str] = []

    def add(self, text: str) -> dict[str, int]:
        """Add a value in its JSON form (base64 or a URI), and return a reference to it for any number of rows.

        Raises:
            BlobSourceError: The URI is not allowed, names no object, or names one that is too large.
        """
        # The size of an object is requested now, so that a bad URI fails before any row is written.
        size = _compute_decoded_size(text) if text.startswith(BASE64_PREFIX) else self._sources.read_size(text)
        self._texts.append(text)
        return {"given": len(self._texts) - 1, "size": size}

    def read(self, number: int) -> bytes:
        """Return the bytes of a value.

        Raises:
            BlobSourceError: The object at its URI can no longer be read.
        """
        text = self._texts[number]
        if text.startswith(BASE64_PREFIX):
            return base64.b64decode(text[len(BASE64_PREFIX) :])
        return self._sources.read(text)


def _compute_decoded_size(text: str) -> int:
    # Four base64 digits encode three bytes; each `=` at the end pads one byte.
    digits = len(text) - len(BASE64_PREFIX)
    return digits // 4 * 3 - text[-2:].count("=")


def reference_blobs(type_: AnyType, committed: pa.Table) -> pa.Table:
    """Convert committed rows, read with their addresses, to pending rows: each blob becomes a reference to its row."""
    for name in list_blob_properties(type_):
        index = committed.schema.get_field_index(name)
        if index >= 0:
            described = committed.column(index).combine_chunks()
            parts = [
                pa.nulls(len(described), pa.int32()),
                committed.column(ADDRESS).combine_chunks(),
                described.field("size"),
            ]
            references = pa.StructArray.from_arrays(parts, fields=list(REFERENCE), mask=described.is_null())
            committed = committed.set_column(index, name, references)
    return committed


def iter_stored_batches(
    type_: AnyType, rows: pa.Table, table: LanceTable, blob_values: BlobValues
) -> Iterator[pa.RecordBatch]:
    """Yield pending rows in their stored form, with bytes instead of references.

    A batch has at most about `BATCH_BYTES` of blobs, or one row. `table` is the one that the addresses belong to.
    """
    schema = build_arrow_schema(type_)
    names = list_blob_properties(type_)
    for start, end in split_by_bytes(_compute_sizes(rows, names)):
        part = rows.slice(start, end - start)
        for name in names:
            index = part.schema.get_field_index(name)
            part = part.set_column(index, name, _read_bytes(part.column(index), name, table, blob_values))
        yield from part.cast(schema).combine_chunks().to_batches()


def iter_stored_by_id(type_: AnyType, table: LanceTable, within: range | None = None) -> Iterator[pa.RecordBatch]:
    """Yield all rows of a table in the order of their ids, with the bytes of their blobs.

    A batch has at most about `BATCH_BYTES` of blobs, or one row. With `within`, only the rows at these positions of
    that order are read. Only ids and references to blobs are in memory for the whole table.
    """
    schema = build_arrow_schema(type_)
    names = list_blob_properties(type_)
    plain = [name for name in schema.names if name not in names]
    rows = reference_blobs(type_, table.scan([ID, *names], with_address=True))
    order = pc.sort_indices(rows.column(ID))
    order = order if within is None else order.slice(within.start, len(within))
    references = rows.select(names).take(order)
    for start, end in split_by_bytes(_compute_sizes(references, names)):
        part = table.take(order.slice(start, end - start), plain)
        for name in names:
            part = part.append_column(name, references.column(name).slice(start, end - start))
        yield from iter_stored_batches(type_, part.select(schema.names), table, BlobValues())


def _compute_sizes(rows: pa.Table, names: list[str]) -> np.ndarray:
    sizes = np.zeros(rows.num_rows, np.int64)
    for name in names:
        references = rows.column(name).combine_chunks()
        # `field` ignores the nulls of the struct itself: a null reference counts for nothing.
        sizes += references.field("size").fill_null(0).to_numpy().astype(np.int64) * references.is_valid().to_numpy(
            zero_copy_only=False
        )
    return sizes


def measure_blobs(type_: AnyType, rows: pa.Table) -> int:
    """Return the bytes of all blobs of pending rows."""
    return int(_compute_sizes(rows, list_blob_properties(type_)).sum())


def split_by_bytes(sizes: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows with at most `BATCH_BYTES` and `BATCH_ROWS` each; a larger row is a range alone."""
    ends = np.cumsum(sizes)
    start = 0
    while start < len(sizes):
        before = ends[start - 1] if start else 0
        end = int(np.searchsorted(ends, before + BATCH_BYTES, side="right"))
        end = min(max(end, start + 1), start + BATCH_ROWS, len(sizes))
        yield start, end
        start = end


def _read_bytes(column: pa.ChunkedArray, name: str, table: LanceTable, blob_values: BlobValues) -> pa.Array:
    references = column.to_pylist()
    addresses = [ref["address"] for ref in references if ref is not None and ref["given"] is None]
    committed = iter(read_blobs(table, name, addresses))
    # Each value of a statement is read once per batch, however many of its rows get it.
    numbers = {ref["given"] for ref in references if ref is not None and ref["given"] is not None}
    new = {number: blob_values.read(number) for number in numbers}
    values: list[bytes | None] = []
    for ref in references:
        if ref is None:
            values.append(None)
        else:
            values.append(next(committed) if ref["given"] is None else new[ref["given"]])
    return pa.array(values, pa.large_binary())
