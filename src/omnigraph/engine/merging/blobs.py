"""Blobs of rows that come together from two tables: compared and brought, a bounded number of bytes at once."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.merging.sides import Version, column_in
from omnigraph.engine.writing.blobs import blob_names, slices
from omnigraph.schema.arrow import arrow_schema
from omnigraph.schema.catalog import AnyType
from omnigraph.storage.blobs import read_blobs
from omnigraph.storage.column_sets import Mask, mask_of


class TwoTables:
    """The bytes that references lead to: in the table that is kept, or in the one that rows are taken from."""

    def __init__(self, type_: AnyType, kept: Version, taken: Version) -> None:
        self._type, self._kept, self._taken = type_, kept, taken

    def same(self, name: str, kept: pa.Array, taken: pa.Array) -> Mask:
        """Row by row, whether two references lead to the same bytes; only those of one size are read."""
        is_there, is_also = mask_of(kept.is_valid()), mask_of(taken.is_valid())
        sizes, others = _sizes(kept), _sizes(taken)
        found: Mask = ~is_there & ~is_also
        asked = np.flatnonzero(is_there & is_also & (sizes == others))
        for start, end in slices(sizes[asked]):
            some = pa.array(asked[start:end])
            pairs = zip(self._read(name, kept.take(some)), self._read(name, taken.take(some)), strict=True)
            found[asked[start:end]] = [one == other for one, other in pairs]
        return found

    def stored(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """Merged rows as they are stored, each reference as its bytes."""
        names = blob_names(self._type)
        schema = arrow_schema(self._type)
        sizes = np.zeros(rows.num_rows, np.int64)
        for name in names:
            sizes += _sizes(rows.column(name).combine_chunks())
        for start, end in slices(sizes):
            part = rows.slice(start, end - start)
            for name in names:
                place = part.schema.get_field_index(name)
                values = self._read(name, part.column(place).combine_chunks())
                part = part.set_column(place, name, pa.array(values, pa.large_binary()))
            yield from part.cast(schema).combine_chunks().to_batches()

    def _read(self, name: str, references: pa.Array) -> list[bytes | None]:
        values: list[bytes | None] = [None] * len(references)
        is_there = mask_of(references.is_valid())
        is_taken = mask_of(references.field("given").is_valid())
        for version, chosen in ((self._kept, is_there & ~is_taken), (self._taken, is_there & is_taken)):
            rows = np.flatnonzero(chosen)
            column = column_in(self._type, version.type, name)
            if len(rows) and column is not None:
                addresses = references.field("address").take(pa.array(rows)).to_pylist()
                for row, value in zip(rows, read_blobs(version.table, column, addresses), strict=True):
                    values[row] = value
        return values


def _sizes(references: pa.Array) -> np.ndarray:
    sizes = pc.fill_null(references.field("size"), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return np.where(mask_of(references.is_valid()), sizes, 0)
