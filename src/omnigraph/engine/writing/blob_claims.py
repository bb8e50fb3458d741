"""Represent the blobs of a load by claims, and replace each claim by its bytes when the row is written.

A claim names the object at a URI, or the blob of a committed row that a merge keeps. The bytes are therefore moved once
and never pass through the spool. A random mark distinguishes claims from data, see `blob_marks`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.blob_marks import ROW_MARK, encode_claim, find_claims, find_marked_values
from omnigraph.engine.writing.blobs import BATCH_BYTES, list_blob_properties, split_by_bytes
from omnigraph.schema.catalog import AnyType
from omnigraph.storage.blob_sources import BlobSourceError, BlobSources
from omnigraph.storage.blobs import read_blobs
from omnigraph.storage.lance_table import LanceTable

__all__ = [
    "are_same_blobs",
    "build_row_claims",
    "encode_claim",
    "find_claims",
    "find_unreadable_claims",
    "redeem_claims",
]

# Addresses and sizes are encoded as 64-bit integers.
_NUMBER_BYTES = 8


def build_row_claims(described: pa.Array, addresses: pa.Array) -> pa.Array:
    """Return claims for the blobs of committed rows, given Lance's blob descriptions and the rows' addresses."""
    sizes = described.field("size").to_pylist()
    is_valid = described.is_valid().to_pylist()
    claims = [
        ROW_MARK + address.to_bytes(_NUMBER_BYTES) + size.to_bytes(_NUMBER_BYTES) if has_blob else None
        for address, size, has_blob in zip(addresses.to_pylist(), sizes, is_valid, strict=True)
    ]
    return pa.array(claims, pa.large_binary())


def find_unreadable_claims(column: pa.Array, sources: BlobSources) -> dict[int, tuple[str, str]]:
    """Return the rows whose objects can't be read, each with its URI and the reason; only sizes are requested."""
    unreadable: dict[int, tuple[str, str]] = {}
    for row, uri in find_claims(column).items():
        try:
            sources.read_size(uri)
        except BlobSourceError as error:
            unreadable[row] = (uri, str(error))
    return unreadable


def are_same_blobs(
    table: LanceTable, name: str, values: pa.Array, described: pa.Array, addresses: pa.Array
) -> npt.NDArray[np.bool_]:
    """Return for each row whether its new blob equals that of the committed row; a claim by URI never does.

    Only blobs of equal size are read, in batches of about `BATCH_BYTES`.
    """
    sizes = np.asarray(pc.fill_null(described.field("size"), 0), np.int64)
    has_value = _to_mask(values.is_valid())
    has_committed = _to_mask(described.is_valid())
    lengths = np.asarray(pc.fill_null(pc.binary_length(values), -1), np.int64)
    is_same: npt.NDArray[np.bool_] = has_value == has_committed
    rows = np.flatnonzero(has_value & has_committed)
    is_same[rows] = False
    # The size is in the description, so blobs of different sizes need no read.
    rows = rows[lengths[rows] == sizes[rows]]
    for start, end in split_by_bytes(sizes[rows]):
        chunk = pa.array(rows[start:end])
        committed = read_blobs(table, name, addresses.take(chunk).to_pylist())
        new = values.take(chunk).to_pylist()
        is_same[rows[start:end]] = [value == other for value, other in zip(new, committed, strict=True)]
    return is_same


def redeem_claims(
    type_: AnyType, batches: Iterable[pa.RecordBatch], table: LanceTable, sources: BlobSources
) -> Iterator[pa.RecordBatch]:
    """Yield the rows with bytes instead of claims, in smaller batches where the blobs are large.

    Raises:
        BlobSourceError: An object that existed when its record was decoded can no longer be read.
    """
    names = list_blob_properties(type_)
    for batch in batches:
        claims = [column for name in names if (column := _collect_claims(batch, name)).count]
        yield from _redeem_batch(batch, claims, table, sources) if claims else (batch,)


@dataclass(frozen=True, slots=True)
class _ColumnClaims:
    """The claims of one column of a batch, by row."""

    name: str
    uris: Mapping[int, str]
    rows: Mapping[int, tuple[int, int]]
    """Address and size of the committed blob."""
    read: dict[int, bytes] = field(default_factory=dict)
    """The bytes read from URIs for the next part."""

    @property
    def count(self) -> int:
        return len(self.uris) + len(self.rows)


def _collect_claims(batch: pa.RecordBatch, name: str) -> _ColumnClaims:
    column = batch.column(name)
    marked = find_marked_values(column, ROW_MARK)
    rows = {
        row: (int.from_bytes(claim[:_NUMBER_BYTES]), int.from_bytes(claim[_NUMBER_BYTES:]))
        for row, claim in marked.items()
    }
    return _ColumnClaims(name, find_claims(column), rows)


def _redeem_batch(
    batch: pa.RecordBatch, claims: list[_ColumnClaims], table: LanceTable, sources: BlobSources
) -> Iterator[pa.RecordBatch]:
    start = nbytes = 0
    for row in range(batch.num_rows):
        for column in claims:
            if row in column.uris:
                # An object may have changed since its size was requested: the bytes that are read count.
                column.read[row] = sources.read(column.uris[row])
                nbytes += len(column.read[row])
            elif row in column.rows:
                # Committed blobs are read later, in one call per part: here their recorded size is enough.
                nbytes += column.rows[row][1]
        if nbytes >= BATCH_BYTES or row == batch.num_rows - 1:
            yield _fill_bytes(batch, start, row + 1, claims, table)
            start, nbytes = row + 1, 0


def _fill_bytes(
    batch: pa.RecordBatch, start: int, end: int, claims: list[_ColumnClaims], table: LanceTable
) -> pa.RecordBatch:
    part = batch.slice(start, end - start)
    for column in claims:
        rows = [row for row in range(start, end) if row in column.rows]
        blobs = read_blobs(table, column.name, [column.rows[row][0] for row in rows])
        bytes_by_row = dict(zip(rows, blobs, strict=True))
        bytes_by_row.update(column.read)
        # The bytes of one part only are in memory at a time.
        column.read.clear()
        if bytes_by_row:
            index = part.schema.get_field_index(column.name)
            values = [bytes_by_row.get(row, value) for row, value in enumerate(part.column(index).to_pylist(), start)]
            part = part.set_column(index, part.schema.field(index), pa.array(values, pa.large_binary()))
    return part


def _to_mask(column: pa.Array) -> npt.NDArray[np.bool_]:
    return np.asarray(column.to_numpy(zero_copy_only=False), np.bool_)
