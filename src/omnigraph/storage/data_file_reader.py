"""Read rows of a data file by offset, deleted ones too.

If a fragment has deleted rows, Lance checks for every row whether it is live: a pass over the ids takes twice as long,
and taking rows ten times. A caller that knows the deleted rows reads the file itself.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

import pyarrow as pa
from lance import LanceDataset
from lance.file import LanceFileReader

from omnigraph.storage.columnar_sets import Positions
from omnigraph.storage.graph_storage import GraphStorage

# For a smaller fragment, opening a file and reading the deleted offsets does not pay off.
MIN_RAW_FRAGMENT_ROWS = 100_000

# Returns a context that translates the errors of a read.
ReadGuard: TypeAlias = Callable[[], AbstractContextManager[None]]


class DataFileReader:
    """A reader of one data file that has all columns of a schema."""

    def __init__(self, store: GraphStorage, key: str, schema: pa.Schema, guard: ReadGuard) -> None:
        self._store = store
        self._key = key
        self._schema = schema
        self._guard = guard

    def iter_batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield some columns of all rows, in order."""
        with self._guard():
            yield from self._open(columns).read_all(batch_size=batch_rows).to_batches()

    def take(self, offsets: Positions, columns: Sequence[str]) -> pa.Table:
        """Return some columns of the rows at these offsets, which ascend."""
        with self._guard():
            rows = self._open(columns).take_rows(offsets.tolist()).to_table()
        # With the fields of the table: nullability and metadata of a column may have changed since the file was made.
        schema = pa.schema([self._schema.field(name) for name in columns])
        return pa.Table.from_arrays([rows.column(name) for name in columns], schema=schema)

    def matches(self, rows: int, size: int | None) -> bool:
        """Return whether the file has exactly these columns, this number of rows, and this size if it is known.

        If not, the caller reads through Lance, which checks the same and raises the error.
        """
        with self._guard():
            info = self._store.objects.stat(self._key)
            if info is None or size not in (None, info.size):
                return False
            metadata = self._open(self._schema.names[:1]).metadata()
        is_same = metadata.schema.names == self._schema.names and metadata.schema.types == self._schema.types
        return is_same and metadata.num_rows == rows

    def _open(self, columns: Sequence[str]) -> LanceFileReader:
        uri = self._store.resolve_uri(self._key)
        return LanceFileReader(uri, columns=list(columns))


def open_data_file(
    store: GraphStorage, path: str, dataset: LanceDataset, number: int, guard: ReadGuard
) -> DataFileReader | None:
    """Return a reader of a fragment if one file has all columns of the table under their current names, else None.

    Not for tables with blobs, of which a file has pointers only. Not on an object store either: there Lance reads
    several fragments concurrently and has their metadata cached, which is worth more.
    """
    fragment = dataset.get_fragment(number)
    if not store.location.is_local or fragment is None or fragment.physical_rows < MIN_RAW_FRAGMENT_ROWS:
        return None
    files = fragment.metadata.files
    if len(files) != 1 or list(files[0].fields) != _list_field_numbers(dataset.lance_schema.fields()):
        return None
    reader = DataFileReader(store, f"{path}/data/{files[0].path}", dataset.schema, guard)
    return reader if reader.matches(fragment.physical_rows, files[0].file_size_bytes) else None


def _list_field_numbers(fields: Sequence[Any]) -> list[int]:
    """Return the field numbers of columns in order; of lists and structs, those of their leaves."""
    return [number for field in fields for number in (_list_field_numbers(field.children()) or [field.id()])]
