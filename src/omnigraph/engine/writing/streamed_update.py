"""Stream the rows of an update that are too many to buffer: scan them again, batch by batch, whenever needed.

An update selects committed rows of one table version, which is immutable. A second scan of that version therefore
yields the same rows in the same order. Between scans, only their ids and addresses are in memory.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.engine.predicate_eval import find_columns
from omnigraph.engine.query_inputs import QueryInputs
from omnigraph.engine.table_filters import build_table_filter
from omnigraph.engine.writing.blobs import BlobValues, iter_stored_batches, list_blob_properties, reference_blobs
from omnigraph.engine.writing.row_filter import filter_rows
from omnigraph.query.expr import Expr
from omnigraph.schema.arrow import ID, build_arrow_schema
from omnigraph.schema.catalog import AnyType
from omnigraph.storage.arrow_buffers import read_numbers
from omnigraph.storage.columnar_sets import concat_chunks
from omnigraph.storage.key_lookup import RowLocations
from omnigraph.storage.lance_table import ADDRESS, LanceTable
from omnigraph.storage.watch import Watch

# Committed rows read per batch; wide rows fewer, so that a batch takes about `BATCH_BYTES` in its files.
BATCH_ROWS = 16_384
BATCH_BYTES = 4 * 1024 * 1024
# How far Lance may decode and read ahead. Two passes over 2,000,000 rows of 120 bytes took 128 MB with these limits,
# 209 MB without.
_PREFETCH_BATCHES = 2
_IO_BYTES = 16 * 1024 * 1024
# A larger update is streamed. The ids of a buffered one are Python strings in lists and sets; the row limit is an
# estimate of what these take.
MAX_BUFFERED_BYTES = 64 * 1024 * 1024
MAX_BUFFERED_ROWS = 131_072


class TooManyRowsError(Exception):
    """A scan has read more rows than may be buffered. Never leaves this package."""


@dataclass(frozen=True, slots=True)
class ScanSizeLimit:
    """A watch that ends a scan, by TooManyRowsError, once its rows take more than `nbytes`."""

    nbytes: float
    outer: Watch | None
    """The watch that it replaces, whose deadline still applies."""

    def check(self) -> None:
        """Check the deadline of the outer watch."""
        if self.outer is not None:
            self.outer.check()

    def check_size(self, nbytes: int, what: str) -> None:
        """End the scan if its rows take too many bytes."""
        del what
        if nbytes > self.nbytes:
            raise TooManyRowsError


class StreamedRows:
    """The committed rows of a table that a predicate selects, with the assignments of an update applied."""

    def __init__(
        self,
        type_: AnyType,
        table: LanceTable,
        selection: tuple[Expr, QueryInputs],
        change: Callable[[pa.Table], pa.Table],
        blob_values: BlobValues,
    ) -> None:
        self.type, self.table = type_, table
        self._where, self._inputs = selection
        self._change, self._blob_values = change, blob_values
        ids = []
        addresses = [np.empty(0, np.uint64)]
        nbytes = 0
        for part in self._iter_selected([]):
            ids += part.column(ID).chunks
            addresses.append(read_numbers(concat_chunks(part.column(ADDRESS))))
            nbytes += part.nbytes
            if table.watch is not None:
                # Twice the size: concatenating copies all parts while they are still referenced.
                table.watch.check_size(2 * nbytes, f"the ids of the {type_.name} rows that are updated")
        self.ids = pa.concat_arrays(ids) if ids else pa.array([], pa.string())
        self.located = RowLocations(path=table.path, version=table.version, addresses=np.concatenate(addresses))

    def iter_parts(self) -> Iterator[pa.Table]:
        """Yield the changed rows in their pending form, with references instead of blobs."""
        for part in self._iter_selected(build_arrow_schema(self.type).names):
            yield self._change(reference_blobs(self.type, part))

    def iter_stored(self) -> Iterator[pa.RecordBatch]:
        """Yield the changed rows in their stored form."""
        for part in self.iter_parts():
            if list_blob_properties(self.type):
                yield from iter_stored_batches(self.type, part, self.table, self._blob_values)
            else:
                yield from part.cast(build_arrow_schema(self.type)).combine_chunks().to_batches()

    def _choose_batch_rows(self) -> int:
        # The average row width is taken from the sizes of the data files, which no row has to be read for.
        fragments = self.table.list_fragments()
        rows = sum(fragment.rows for fragment in fragments)
        nbytes = sum(fragment.nbytes for fragment in fragments)
        return max(1, min(BATCH_ROWS, BATCH_BYTES * rows // max(nbytes, 1)))

    def _iter_selected(self, columns: list[str]) -> Iterator[pa.Table]:
        """Yield some columns of the selected committed rows, with ids and addresses."""
        selected = list(dict.fromkeys([ID, *columns]))
        names = list(dict.fromkeys([*selected, *find_columns(self._where)]))
        filter_ = build_table_filter(self._where, self._inputs)
        for batch in self.table.iter_batches(
            names,
            filter_,
            batch_rows=self._choose_batch_rows(),
            ahead=_PREFETCH_BATCHES,
            io_bytes=_IO_BYTES,
            with_address=True,
        ):
            # The pushed filter may select too many rows: it holds only what Lance can evaluate.
            rows = filter_rows(pa.Table.from_batches([batch]), self._where, self._inputs)
            if rows.num_rows:
                yield rows.select([*selected, ADDRESS])
