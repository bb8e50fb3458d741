"""Rows of a data file by their offsets, deleted ones too.

Where a fragment has deleted rows, Lance looks at every row whether it lives: a pass over the ids takes twice as long,
and rows that are taken ten times. Whoever knows what was deleted reads the file itself.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

import pyarrow as pa
from lance import LanceDataset
from lance.file import LanceFileReader

from omnigraph.storage.columnar_sets import Positions
from omnigraph.storage.graph_storage import GraphStorage

MIN_RAW_FRAGMENT_ROWS = 100_000
"""A fragment of fewer rows is not worth opening a file, and reading what was deleted."""

ReadGuard: TypeAlias = Callable[[], AbstractContextManager[None]]
"""What tells the errors of a read."""


class DataFileReader:
    """The rows of one data file that has all columns of a schema."""

    def __init__(self, store: GraphStorage, key: str, schema: pa.Schema, reading: ReadGuard) -> None:
        self._store, self._key, self._schema, self._reading = store, key, schema, reading

    def iter_batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Some columns of all rows, in order."""
        with self._reading():
            yield from self._open(columns).read_all(batch_size=batch_rows).to_batches()

    def take(self, offsets: Positions, columns: Sequence[str]) -> pa.Table:
        """Some columns of the rows at these offsets, ascending."""
        with self._reading():
            found = self._open(columns).take_rows(offsets.tolist()).to_table()
        # As the table has them now: what may be null, and what is noted of a column, may have changed since.
        schema = pa.schema([self._schema.field(name) for name in columns])
        return pa.Table.from_arrays([found.column(name) for name in columns], schema=schema)

    def is_whole(self, rows: int, size: int | None) -> bool:
        """Whether the file has just these columns, as many rows, and as many bytes if that is known.

        What is there instead is told by Lance, who looks for the same.
        """
        with self._reading():
            info = self._store.objects.stat(self._key)
            if info is None or size not in (None, info.size):
                return False
            found = self._open(self._schema.names[:1]).metadata()
        is_same = found.schema.names == self._schema.names and found.schema.types == self._schema.types
        return is_same and found.num_rows == rows

    def _open(self, columns: Sequence[str]) -> LanceFileReader:
        uri = self._store.resolve_uri(self._key)
        return LanceFileReader(uri, columns=list(columns))


def open_data_file(
    store: GraphStorage, path: str, dataset: LanceDataset, number: int, reading: ReadGuard
) -> DataFileReader | None:
    """The rows of a fragment, where one file holds them as the table has them now: all columns under their names.

    Not for tables with blobs, of which a file holds only where they lie. On an object store Lance itself reads several
    fragments at once and knows their files already, which is worth more there.
    """
    fragment = dataset.get_fragment(number)
    if not store.location.is_local or fragment is None or fragment.physical_rows < MIN_RAW_FRAGMENT_ROWS:
        return None
    files = fragment.metadata.files
    if len(files) != 1 or list(files[0].fields) != _list_field_numbers(dataset.lance_schema.fields()):
        return None
    found = DataFileReader(store, f"{path}/data/{files[0].path}", dataset.schema, reading)
    return found if found.is_whole(fragment.physical_rows, files[0].file_size_bytes) else None


def _list_field_numbers(fields: Sequence[Any]) -> list[int]:
    """The numbers of these columns in order: of lists and structs, those of what they are made of."""
    return [number for one in fields for number in (_list_field_numbers(one.children()) or [one.id()])]
