"""Rows that tasks have stored beside the graph's control objects, as Arrow streams."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from omnigraph.storage.object_store import ObjectStore


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredChunks:
    """The rows of a range of tasks, given the keys of each, as an Arrow stream that reads one object at a time.

    It can be opened repeatedly.
    """

    objects: ObjectStore
    tasks: tuple[tuple[str, ...], ...]
    schema: pa.Schema
    start: int = 0
    end: int | None = None

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return a new stream, as Arrow's PyCapsule interface defines it."""
        return pa.RecordBatchReader.from_batches(self.schema, self._iter_batches()).__arrow_c_stream__(requested_schema)

    def _iter_batches(self) -> Iterator[pa.RecordBatch]:
        for keys in self.tasks[self.start : self.end]:
            for key in keys:
                with pa.ipc.open_stream(self.objects.get(key).data) as reader:
                    for batch in reader:
                        yield pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)
