"""Blobs that the rows of a load don't bring along: until a row is written, a claim stands in their place.

A claim is for the object at a URI that a record names, or for the blob that a committed row has and a merge keeps. So
each is moved once, when its row is written; neither memory nor temporary files hold it before. `blob_marks` tells it
from data.
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

_NUMBER_BYTES = 8  # bytes of an address or size


def build_row_claims(described: pa.Array, addresses: pa.Array) -> pa.Array:
    """What stands for the blobs of committed rows, of their descriptions and the rows' addresses."""
    sizes = described.field("size").to_pylist()
    return pa.array(
        [
            ROW_MARK + address.to_bytes(_NUMBER_BYTES) + size.to_bytes(_NUMBER_BYTES) if is_there else None
            for address, size, is_there in zip(
                addresses.to_pylist(), sizes, described.is_valid().to_pylist(), strict=True
            )
        ],
        pa.large_binary(),
    )


def find_unreadable_claims(column: pa.Array, sources: BlobSources) -> dict[int, tuple[str, str]]:
    """The rows whose claims can't be met, each with its URI and the reason. Nothing is read but sizes."""
    refused: dict[int, tuple[str, str]] = {}
    for row, uri in find_claims(column).items():
        try:
            sources.read_size(uri)
        except BlobSourceError as error:
            refused[row] = (uri, str(error))
    return refused


def are_same_blobs(
    table: LanceTable, name: str, given: pa.Array, described: pa.Array, addresses: pa.Array
) -> npt.NDArray[np.bool_]:
    """Row by row, whether a given blob is what a committed row has. One that is claimed is taken for another.

    Only blobs of equal size are read, at most about `BATCH_BYTES` at once.
    """
    sizes = np.asarray(pc.fill_null(described.field("size"), 0), np.int64)
    is_given, is_there = _to_mask(given.is_valid()), _to_mask(described.is_valid())
    lengths = np.asarray(pc.fill_null(pc.binary_length(given), -1), np.int64)
    is_same: npt.NDArray[np.bool_] = is_given == is_there
    asked = np.flatnonzero(is_given & is_there)
    is_same[asked] = False
    asked = asked[lengths[asked] == sizes[asked]]
    for start, end in split_by_bytes(sizes[asked]):
        some = pa.array(asked[start:end])
        there = read_blobs(table, name, addresses.take(some).to_pylist())
        is_same[asked[start:end]] = [
            one == other for one, other in zip(given.take(some).to_pylist(), there, strict=True)
        ]
    return is_same


def redeem_claims(
    type_: AnyType, batches: Iterable[pa.RecordBatch], table: LanceTable, sources: BlobSources
) -> Iterator[pa.RecordBatch]:
    """The rows with the bytes that were claimed, in smaller batches where these are large.

    Raises:
        BlobSourceError: An object that was there when its record was read can't be read any more.
    """
    names = list_blob_properties(type_)
    for batch in batches:
        claims = [found for name in names if (found := _collect_claims(batch, name)).count]
        yield from _redeem_batch(batch, claims, table, sources) if claims else (batch,)


@dataclass(frozen=True, slots=True)
class _ColumnClaims:
    """The claims of one column of a batch, by row."""

    name: str
    uris: Mapping[int, str]
    rows: Mapping[int, tuple[int, int]]
    """Address and size."""
    read: dict[int, bytes] = field(default_factory=dict)
    """What the URIs of the next part have given."""

    @property
    def count(self) -> int:
        return len(self.uris) + len(self.rows)


def _collect_claims(batch: pa.RecordBatch, name: str) -> _ColumnClaims:
    column = batch.column(name)
    rows = find_marked_values(column, ROW_MARK)
    numbers = {
        row: (int.from_bytes(text[:_NUMBER_BYTES]), int.from_bytes(text[_NUMBER_BYTES:])) for row, text in rows.items()
    }
    return _ColumnClaims(name, find_claims(column), numbers)


def _redeem_batch(
    batch: pa.RecordBatch, claims: list[_ColumnClaims], table: LanceTable, sources: BlobSources
) -> Iterator[pa.RecordBatch]:
    start = held = 0
    for row in range(batch.num_rows):
        for one in claims:
            if row in one.uris:
                one.read[row] = sources.read(one.uris[row])
                held += len(one.read[row])
            elif row in one.rows:
                held += one.rows[row][1]
        if held >= BATCH_BYTES or row == batch.num_rows - 1:
            yield _fill_bytes(batch, start, row + 1, claims, table)
            start, held = row + 1, 0


def _fill_bytes(
    batch: pa.RecordBatch, start: int, end: int, claims: list[_ColumnClaims], table: LanceTable
) -> pa.RecordBatch:
    part = batch.slice(start, end - start)
    for one in claims:
        own = [row for row in range(start, end) if row in one.rows]
        found = dict(zip(own, read_blobs(table, one.name, [one.rows[row][0] for row in own]), strict=True))
        found.update(one.read)
        one.read.clear()
        if found:
            place = part.schema.get_field_index(one.name)
            values = [found.get(row, value) for row, value in enumerate(part.column(place).to_pylist(), start)]
            part = part.set_column(place, part.schema.field(place), pa.array(values, pa.large_binary()))
    return part


def _to_mask(column: pa.Array) -> npt.NDArray[np.bool_]:
    return np.asarray(column.to_numpy(zero_copy_only=False), np.bool_)
