"""The rows of an update that are too many to hold: read again, batch by batch, whenever they are needed.

The committed rows that an update chooses are those of one table version, which never changes. So a second pass over
that version gives the same rows in the same order. Held between two passes are their ids, and where they lie.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.engine.predicate_eval import Inputs, columns_of
from omnigraph.engine.table_filters import pushed
from omnigraph.engine.writing.blobs import GivenBlobs, blob_names, referring, stored_batches
from omnigraph.engine.writing.row_filter import holding
from omnigraph.query.expr import Expr
from omnigraph.schema.arrow import ID, arrow_schema
from omnigraph.schema.catalog import AnyType
from omnigraph.storage.arrow_buffers import numbers
from omnigraph.storage.columnar_sets import one_array
from omnigraph.storage.key_lookup import Located
from omnigraph.storage.lance_table import ADDRESS, Table
from omnigraph.storage.watch import Watch

BATCH_ROWS, BATCH_BYTES = 16_384, 4 * 1024 * 1024
"""So many committed rows are read at once, fewer of wide ones: as many as take about so much in their files."""
_AHEAD, _IO_BYTES = 2, 16 * 1024 * 1024
"""What Lance may decode and read ahead. Two passes over 2,000,000 rows of 120 bytes took 128 MB, else 209 MB."""
MAX_HELD_BYTES, MAX_HELD_ROWS = 64 * 1024 * 1024, 131_072
"""An update of more is streamed. While it is held, its ids are texts of Python in lists and sets. An estimate."""


class TooManyRowsError(Exception):
    """What is read is more than may be held. Never leaves this package."""


@dataclass(frozen=True, slots=True)
class HeldAtMost:
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
        table: Table,
        chosen_by: tuple[Expr, Inputs],
        change: Callable[[pa.Table], pa.Table],
        given: GivenBlobs,
    ) -> None:
        self.type, self.table = type_, table
        self._where, self._inputs = chosen_by
        self._change, self._given = change, given
        ids, addresses, held = [], [np.empty(0, np.uint64)], 0
        for part in self._chosen([]):
            ids += part.column(ID).chunks
            addresses.append(numbers(one_array(part.column(ADDRESS))))
            held += part.nbytes
            if table.watch is not None:  # twice: once in parts, once in one piece
                table.watch.check_size(2 * held, f"the ids of the {type_.name} rows that are updated")
        self.ids = pa.concat_arrays(ids) if ids else pa.array([], pa.string())
        self.located = Located(path=table.path, version=table.version, addresses=np.concatenate(addresses))

    def parts(self) -> Iterator[pa.Table]:
        """Yield the rows as they are pending: changed, with references in the place of blobs."""
        for part in self._chosen(arrow_schema(self.type).names):
            yield self._change(referring(self.type, part))

    def stored(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as they are stored."""
        for part in self.parts():
            if blob_names(self.type):
                yield from stored_batches(self.type, part, self.table, self._given)
            else:
                yield from part.cast(arrow_schema(self.type)).combine_chunks().to_batches()

    def _batch_rows(self) -> int:
        fragments = self.table.fragments()
        rows, nbytes = sum(one.rows for one in fragments), sum(one.nbytes for one in fragments)
        return max(1, min(BATCH_ROWS, BATCH_BYTES * rows // max(nbytes, 1)))

    def _chosen(self, columns: list[str]) -> Iterator[pa.Table]:
        """Yield some columns of the committed rows that are chosen, with ids and addresses."""
        wanted = list(dict.fromkeys([ID, *columns]))
        names = list(dict.fromkeys([*wanted, *columns_of(self._where)]))
        filter_ = pushed(self._where, self._inputs)
        for batch in self.table.batches(
            names, filter_, batch_rows=self._batch_rows(), ahead=_AHEAD, io_bytes=_IO_BYTES, with_address=True
        ):
            rows = holding(pa.Table.from_batches([batch]), self._where, self._inputs)
            if rows.num_rows:
                yield rows.select([*wanted, ADDRESS])
