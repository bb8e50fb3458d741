"""The rows of an update that are too many to hold: read again, batch by batch, whenever they are needed.

The committed rows that an update chooses are those of one table version, which never changes. So a second pass over
that version gives the same rows in the same order. Held between two passes are their ids, and where they lie.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.engine.predicate_eval import QueryInputs, find_columns
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

BATCH_ROWS, BATCH_BYTES = 16_384, 4 * 1024 * 1024
"""So many committed rows are read at once, fewer of wide ones: as many as take about so much in their files."""
_PREFETCH_BATCHES, _IO_BYTES = 2, 16 * 1024 * 1024
"""What Lance may decode and read ahead. Two passes over 2,000,000 rows of 120 bytes took 128 MB, else 209 MB."""
MAX_BUFFERED_BYTES, MAX_BUFFERED_ROWS = 64 * 1024 * 1024, 131_072
"""An update of more is streamed. While it is held, its ids are texts of Python in lists and sets. An estimate."""


class TooManyRowsError(Exception):
    """What is read is more than may be held. Never leaves this package."""


@dataclass(frozen=True, slots=True)
class ScanSizeLimit:
    """A watch that ends a scan, by TooManyRowsError, once its rows take more than `nbytes`."""

    nbytes: float
    outer: Watch | None
    """The watch in whose place it is, and whose deadline counts."""

    def check(self) -> None:
        """See Watch."""
        if self.outer is not None:
            self.outer.check()

    def check_size(self, nbytes: int, what: str) -> None:
        """See Watch."""
        del what
        if nbytes > self.nbytes:
            raise TooManyRowsError


class StreamedRows:
    """The committed rows of a table that a predicate chooses, each as `change` leaves it."""

    def __init__(
        self,
        type_: AnyType,
        table: LanceTable,
        chosen_by: tuple[Expr, QueryInputs],
        change: Callable[[pa.Table], pa.Table],
        given: BlobValues,
    ) -> None:
        self.type, self.table = type_, table
        self._where, self._inputs = chosen_by
        self._change, self._blob_values = change, given
        ids, addresses, held = [], [np.empty(0, np.uint64)], 0
        for part in self._iter_selected([]):
            ids += part.column(ID).chunks
            addresses.append(read_numbers(concat_chunks(part.column(ADDRESS))))
            held += part.nbytes
            if table.watch is not None:  # twice: once in parts, once in one piece
                table.watch.check_size(2 * held, f"the ids of the {type_.name} rows that are updated")
        self.ids = pa.concat_arrays(ids) if ids else pa.array([], pa.string())
        self.located = RowLocations(path=table.path, version=table.version, addresses=np.concatenate(addresses))

    def iter_parts(self) -> Iterator[pa.Table]:
        """Yield the rows as they are pending: changed, with references in the place of blobs."""
        for part in self._iter_selected(build_arrow_schema(self.type).names):
            yield self._change(reference_blobs(self.type, part))

    def iter_stored(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as they are stored."""
        for part in self.iter_parts():
            if list_blob_properties(self.type):
                yield from iter_stored_batches(self.type, part, self.table, self._blob_values)
            else:
                yield from part.cast(build_arrow_schema(self.type)).combine_chunks().to_batches()

    def _choose_batch_rows(self) -> int:
        fragments = self.table.list_fragments()
        rows, nbytes = sum(one.rows for one in fragments), sum(one.nbytes for one in fragments)
        return max(1, min(BATCH_ROWS, BATCH_BYTES * rows // max(nbytes, 1)))

    def _iter_selected(self, columns: list[str]) -> Iterator[pa.Table]:
        """Yield some columns of the committed rows that are chosen, with ids and addresses."""
        wanted = list(dict.fromkeys([ID, *columns]))
        names = list(dict.fromkeys([*wanted, *find_columns(self._where)]))
        filter_ = build_table_filter(self._where, self._inputs)
        for batch in self.table.iter_batches(
            names,
            filter_,
            batch_rows=self._choose_batch_rows(),
            ahead=_PREFETCH_BATCHES,
            io_bytes=_IO_BYTES,
            with_address=True,
        ):
            rows = filter_rows(pa.Table.from_batches([batch]), self._where, self._inputs)
            if rows.num_rows:
                yield rows.select([*wanted, ADDRESS])
