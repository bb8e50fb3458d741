"""Blob values on their way into a table. Pending rows hold references; the bytes are moved a few rows at a time.

A value that a statement gives is held once, however many rows get it, and one that it names by a URI is read when its
row is written. A value that a row keeps is the address of the committed row that has it.
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

REFERENCE = pa.struct([("given", pa.int32()), ("address", pa.uint64()), ("size", pa.uint64())])
"""Stands for a blob in a pending row: the number of a given value, or the address of the row that has it."""

BATCH_BYTES = 32 * 1024 * 1024
BATCH_ROWS = 8_192


def list_blob_properties(type_: AnyType) -> list[str]:
    """The Blob properties of a type."""
    return [p.name for p in type_.properties if p.type is Scalar.BLOB]


class BlobValues:
    """The blob values that the statements of one write give."""

    def __init__(self, sources: BlobSources = NO_SOURCES) -> None:
        self._sources = sources
        self._texts: list[str] = []

    def add(self, text: str) -> dict[str, int]:
        """The reference to a value in its JSON form, for any number of rows.

        Raises:
            BlobSourceError: It is a URI that is not allowed, leads nowhere, or to something too large.
        """
        size = _compute_decoded_size(text) if text.startswith(BASE64_PREFIX) else self._sources.read_size(text)
        self._texts.append(text)
        return {"given": len(self._texts) - 1, "size": size}

    def read(self, number: int) -> bytes:
        """The bytes of a value, or BlobSourceError when its place does not give them any more."""
        text = self._texts[number]
        if text.startswith(BASE64_PREFIX):
            return base64.b64decode(text[len(BASE64_PREFIX) :])
        return self._sources.read(text)


def _compute_decoded_size(text: str) -> int:
    digits = len(text) - len(BASE64_PREFIX)
    return digits // 4 * 3 - text[-2:].count("=")


def reference_blobs(type_: AnyType, committed: pa.Table) -> pa.Table:
    """Committed rows, read with their addresses, as pending ones: each blob is the reference to its row."""
    for name in list_blob_properties(type_):
        place = committed.schema.get_field_index(name)
        if place >= 0:
            described = committed.column(place).combine_chunks()
            parts = [
                pa.nulls(len(described), pa.int32()),
                committed.column(ADDRESS).combine_chunks(),
                described.field("size"),
            ]
            references = pa.StructArray.from_arrays(parts, fields=list(REFERENCE), mask=described.is_null())
            committed = committed.set_column(place, name, references)
    return committed


def iter_stored_batches(
    type_: AnyType, rows: pa.Table, table: LanceTable, given: BlobValues
) -> Iterator[pa.RecordBatch]:
    """Pending rows as they are stored, each reference as its bytes; at most about `BATCH_BYTES`, or one row, at once.

    `table` is the one that the addresses are of.
    """
    schema = build_arrow_schema(type_)
    names = list_blob_properties(type_)
    for start, end in split_by_bytes(_compute_sizes(rows, names)):
        part = rows.slice(start, end - start)
        for name in names:
            place = part.schema.get_field_index(name)
            part = part.set_column(place, name, _read_bytes(part.column(place), name, table, given))
        yield from part.cast(schema).combine_chunks().to_batches()


def iter_stored_by_id(type_: AnyType, table: LanceTable, within: range | None = None) -> Iterator[pa.RecordBatch]:
    """All rows of a table by id, with their blobs; at most about `BATCH_BYTES` of them, or one row, at once.

    Held together are the ids, and where the blobs lie. With `within`, only the rows of these places in that order.
    """
    schema = build_arrow_schema(type_)
    names = list_blob_properties(type_)
    plain = [name for name in schema.names if name not in names]
    found = reference_blobs(type_, table.scan([ID, *names], with_address=True))
    order = pc.sort_indices(found.column(ID))
    order = order if within is None else order.slice(within.start, len(within))
    references = found.select(names).take(order)
    for start, end in split_by_bytes(_compute_sizes(references, names)):
        part = table.take(order.slice(start, end - start), plain)
        for name in names:
            part = part.append_column(name, references.column(name).slice(start, end - start))
        yield from iter_stored_batches(type_, part.select(schema.names), table, BlobValues())


def _compute_sizes(rows: pa.Table, names: list[str]) -> np.ndarray:
    sizes = np.zeros(rows.num_rows, np.int64)
    for name in names:
        references = rows.column(name).combine_chunks()
        sizes += references.field("size").fill_null(0).to_numpy().astype(np.int64) * references.is_valid().to_numpy(
            zero_copy_only=False
        )
    return sizes


def split_by_bytes(sizes: np.ndarray) -> Iterator[tuple[int, int]]:
    """Ranges of rows that together have at most `BATCH_BYTES`; a row that has more is alone."""
    ends = np.cumsum(sizes)
    start = 0
    while start < len(sizes):
        before = ends[start - 1] if start else 0
        end = int(np.searchsorted(ends, before + BATCH_BYTES, side="right"))
        end = min(max(end, start + 1), start + BATCH_ROWS, len(sizes))
        yield start, end
        start = end


def _read_bytes(column: pa.ChunkedArray, name: str, table: LanceTable, given: BlobValues) -> pa.Array:
    references = column.to_pylist()
    addresses = [one["address"] for one in references if one is not None and one["given"] is None]
    kept = iter(read_blobs(table, name, addresses))
    own = {one["given"] for one in references if one is not None and one["given"] is not None}
    new = {number: given.read(number) for number in own}
    values: list[bytes | None] = []
    for one in references:
        if one is None:
            values.append(None)
        else:
            values.append(next(kept) if one["given"] is None else new[one["given"]])
    return pa.array(values, pa.large_binary())
