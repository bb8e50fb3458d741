"""Compare and read the blobs of rows merged from two tables, a bounded number of bytes at a time."""

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
    """The bytes of blob references, read from the table versions that hold them.

    `versions` is keyed by the `given` field of a reference: None for the kept table, `TAKEN` for the table that rows
    are taken from, and further numbers where there are more versions.
    """

    def __init__(self, type_: AnyType, versions: Mapping[int | None, StateTable]) -> None:
        self._type = type_
        self._versions = versions

    def compare(self, name: str, left: pa.Array, right: pa.Array) -> Mask:
        """Return, row by row, whether two references have the same bytes or are both null."""
        has_left = to_mask(left.is_valid())
        has_right = to_mask(right.is_valid())
        has_both = has_left & has_right
        sizes = _get_sizes(left)
        is_same_blob = (
            has_both & (_get_holders(left) == _get_holders(right)) & (_get_addresses(left) == _get_addresses(right))
        )
        result: Mask = (~has_left & ~has_right) | is_same_blob
        # Only blobs of equal size at different addresses have to be read.
        rows = np.flatnonzero(has_both & (sizes == _get_sizes(right)) & ~is_same_blob)
        for start, end in split_by_bytes(sizes[rows]):
            chunk = pa.array(rows[start:end])
            pairs = zip(self._read(name, left.take(chunk)), self._read(name, right.take(chunk)), strict=True)
            result[rows[start:end]] = [first == second for first, second in pairs]
        return result

    def iter_stored(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """Yield merged rows in their stored form, with the bytes instead of each reference."""
        names = list_blob_properties(self._type)
        schema = build_arrow_schema(self._type)
        sizes = np.zeros(rows.num_rows, np.int64)
        for name in names:
            sizes += _get_sizes(rows.column(name).combine_chunks())
        for start, end in split_by_bytes(sizes):
            part = rows.slice(start, end - start)
            for name in names:
                position = part.schema.get_field_index(name)
                values = self._read(name, part.column(position).combine_chunks())
                part = part.set_column(position, name, pa.array(values, pa.large_binary()))
            yield from part.cast(schema).combine_chunks().to_batches()

    def _read(self, name: str, references: pa.Array) -> list[bytes | None]:
        values: list[bytes | None] = [None] * len(references)
        is_valid = to_mask(references.is_valid())
        holders = _get_holders(references)
        for holder, version in self._versions.items():
            rows = np.flatnonzero(is_valid & (holders == (_NO_HOLDER if holder is None else holder)))
            # The property may have another name in this version, or not exist there.
            column = find_column(self._type, version.type, name)
            if len(rows) and column is not None:
                addresses = references.field("address").take(pa.array(rows)).to_pylist()
                for row, value in zip(rows, read_blobs(version.table, column, addresses), strict=True):
                    values[row] = value
        return values


# Replaces null, which numpy's integers can't represent. Holders are numbered from `TAKEN` = 1 on.
_NO_HOLDER = -1


def _get_holders(references: pa.Array) -> np.ndarray:
    return np.asarray(pc.fill_null(references.field("given"), _NO_HOLDER).to_numpy(zero_copy_only=False))


def _get_addresses(references: pa.Array) -> np.ndarray:
    return np.asarray(pc.fill_null(references.field("address"), 0).to_numpy(zero_copy_only=False))


def _get_sizes(references: pa.Array) -> np.ndarray:
    sizes = pc.fill_null(references.field("size"), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    # The child arrays of a struct may hold values where the struct itself is null.
    return np.where(to_mask(references.is_valid()), sizes, 0)
