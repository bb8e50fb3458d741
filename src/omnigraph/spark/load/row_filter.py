"""Find those of a load's own rows that other commits have touched, by a job over their files.

A publish that another writer was faster than has to know whether its rows and the other writer's meet. The changes of
the other are few, so they are sent to the tasks, which return the rows that have one of their values.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.constraints.streamed_rows import ColumnReader
from omnigraph.schema.arrow import ID
from omnigraph.spark.load.load_spec import Worker
from omnigraph.storage.columnar_sets import to_mask
from omnigraph.storage.fragment_writer import count_fragment_rows
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.written_rows import iter_staged_batches

Wanted: TypeAlias = Mapping[int, pa.Array]
"""By the number of a column, values of which a row must have one in any of the columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRows:
    """Some columns of a staged fragment of the table at `path`; or the ids of a chunk, if it is the key of one."""

    rows: int
    fragment: str | None = None
    path: str = ""
    columns: tuple[str, ...] = (ID,)
    chunk: str = ""

    def iter_batches(self, store: GraphStorage) -> Iterator[pa.RecordBatch]:
        """Yield all rows."""
        if self.fragment is not None:
            yield from iter_staged_batches(store, self.path, self.fragment, self.columns)
            return
        with pa.ipc.open_stream(store.objects.get(self.chunk).data) as reader:
            for batch in reader:
                yield batch.select([ID])


# Returns the batches with the wanted rows of all parts, or None where the driver reads them sooner itself.
RowFilter: TypeAlias = Callable[[Sequence[StoredRows], Wanted], Iterator[pa.RecordBatch] | None]


@dataclass(frozen=True, slots=True)
class OwnRows:
    """A stream of columns of a load's own rows, read again on every call; see `RowSource`."""

    store: GraphStorage
    parts: tuple[StoredRows, ...]
    filter_rows: RowFilter

    def __call__(self) -> Iterator[pa.RecordBatch]:
        """Yield all batches, from the start."""
        for part in self.parts:
            yield from part.iter_batches(self.store)

    def iter_matching(self, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """Yield at least the batches' rows that have one of the wanted values."""
        batches = self.filter_rows(self.parts, wanted)
        return self() if batches is None else batches


def build_column_reader(table: LanceTable, fragments: Sequence[str], filter_rows: RowFilter) -> ColumnReader:
    """Return a function that streams some columns of staged fragments of a table."""

    def read(*names: str) -> OwnRows:
        parts = tuple(
            StoredRows(rows=count_fragment_rows(fragment), fragment=fragment, path=table.path, columns=names)
            for fragment in fragments
        )
        return OwnRows(table.handles.store, parts, filter_rows)

    return read


def select_wanted(worker: Worker, part: StoredRows, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """Yield the wanted rows of a part."""
    for batch in part.iter_batches(worker.store):
        is_wanted = np.zeros(batch.num_rows, np.bool_)
        for number, values in wanted.items():
            is_wanted |= to_mask(pc.is_in(batch.column(number), value_set=values, skip_nulls=True))
        if is_wanted.any():
            yield batch.filter(pa.array(is_wanted))
