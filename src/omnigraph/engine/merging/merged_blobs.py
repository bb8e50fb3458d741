"""Blobs of rows that come together from two tables: compared and brought, a bounded number of bytes at once."""

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.merging.side_changes import StateTable, find_column
from omnigraph.engine.writing.blobs import list_blob_properties, split_by_bytes
from omnigraph.schema.arrow import build_arrow_schema
from omnigraph.schema.catalog import AnyType
from omnigraph.storage.blobs import read_blobs
from omnigraph.storage.columnar_sets import Mask, to_mask


class MergedBlobs:
    """The bytes that references lead to, in the tables that hold them.

    These are by what a reference says in `given`: nothing for the table that is kept, `TAKEN` for the one that rows are
    taken from, and further numbers where there are more.
    """

    def __init__(self, type_: AnyType, versions: Mapping[int | None, StateTable]) -> None:
        self._type, self._versions = type_, versions

    def compare(self, name: str, one: pa.Array, other: pa.Array) -> Mask:
        """Row by row, whether two references lead to the same bytes; only those of one size are read."""
        is_there, is_also = to_mask(one.is_valid()), to_mask(other.is_valid())
        sizes, others = _get_sizes(one), _get_sizes(other)
        is_one_place = (
            is_there
            & is_also
            & (_get_holders(one) == _get_holders(other))
            & (_get_addresses(one) == _get_addresses(other))
        )
        found: Mask = (~is_there & ~is_also) | is_one_place
        asked = np.flatnonzero(is_there & is_also & (sizes == others) & ~is_one_place)
        for start, end in split_by_bytes(sizes[asked]):
            some = pa.array(asked[start:end])
            pairs = zip(self._read(name, one.take(some)), self._read(name, other.take(some)), strict=True)
            found[asked[start:end]] = [first == second for first, second in pairs]
        return found

    def iter_stored(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """Merged rows as they are stored, each reference as its bytes."""
        names = list_blob_properties(self._type)
        schema = build_arrow_schema(self._type)
        sizes = np.zeros(rows.num_rows, np.int64)
        for name in names:
            sizes += _get_sizes(rows.column(name).combine_chunks())
        for start, end in split_by_bytes(sizes):
            part = rows.slice(start, end - start)
            for name in names:
                place = part.schema.get_field_index(name)
                values = self._read(name, part.column(place).combine_chunks())
                part = part.set_column(place, name, pa.array(values, pa.large_binary()))
            yield from part.cast(schema).combine_chunks().to_batches()

    def _read(self, name: str, references: pa.Array) -> list[bytes | None]:
        values: list[bytes | None] = [None] * len(references)
        is_there = to_mask(references.is_valid())
        holders = _get_holders(references)
        for holder, version in self._versions.items():
            rows = np.flatnonzero(is_there & (holders == (_NOBODY if holder is None else holder)))
            column = find_column(self._type, version.type, name)
            if len(rows) and column is not None:
                addresses = references.field("address").take(pa.array(rows)).to_pylist()
                for row, value in zip(rows, read_blobs(version.table, column, addresses), strict=True):
                    values[row] = value
        return values


_NOBODY = -1
"""In the place of a holder that is not named."""


def _get_holders(references: pa.Array) -> np.ndarray:
    return np.asarray(pc.fill_null(references.field("given"), _NOBODY).to_numpy(zero_copy_only=False))


def _get_addresses(references: pa.Array) -> np.ndarray:
    return np.asarray(pc.fill_null(references.field("address"), 0).to_numpy(zero_copy_only=False))


def _get_sizes(references: pa.Array) -> np.ndarray:
    sizes = pc.fill_null(references.field("size"), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return np.where(to_mask(references.is_valid()), sizes, 0)
