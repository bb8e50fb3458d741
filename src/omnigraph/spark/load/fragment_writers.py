"""Write the rows of a task to fragments, with few files per type and a bounded number of open writers."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from omnigraph.engine.writing.blob_claims import redeem_claims
from omnigraph.schema.catalog import AnyType
from omnigraph.spark.load.load_spec import Worker
from omnigraph.storage.fragment_writer import FragmentWriter, list_fragment_files
from omnigraph.storage.staging import WriteObserver

MAX_OPEN_WRITERS = 8
# A type with this many buffered bytes gets its own writer, if fewer than MAX_OPEN_WRITERS are open.
MIN_STREAMED_BYTES = 8 * 1024 * 1024
# All types together buffer at most this much; beyond it, the largest buffer is written.
MAX_BUFFERED_BYTES = 64 * 1024 * 1024


@dataclass(slots=True)
class _PendingRows:
    """Buffered rows of a type that has no open writer."""

    type: AnyType
    batches: list[pa.RecordBatch] = field(default_factory=list)
    nbytes: int = 0


class FragmentWriters:
    """Write rows of many types, added in any order, to fragments; those of each type keep the order of its rows."""

    def __init__(self, worker: Worker, observer: WriteObserver) -> None:
        self._worker, self._observer = worker, observer
        self._pending: dict[str, _PendingRows] = {}
        self._open: dict[str, FragmentWriter] = {}
        self._fragments: dict[str, list[str]] = {}

    def add(self, type_: AnyType, rows: pa.Table) -> None:
        """Add rows of a type: to its writer, or to a buffer while it has none."""
        pending = self._pending.setdefault(type_.name, _PendingRows(type_))
        for batch in self._resolve_blobs(type_, rows):
            if type_.name in self._open:
                self._open[type_.name].write(batch)
                continue
            pending.batches.append(batch)
            pending.nbytes += batch.nbytes
            if pending.nbytes >= MIN_STREAMED_BYTES and len(self._open) < MAX_OPEN_WRITERS:
                self._open_writer(pending)
            elif sum(other.nbytes for other in self._pending.values()) >= MAX_BUFFERED_BYTES:
                self._flush(max(self._pending.values(), key=lambda other: other.nbytes))

    def finish(self) -> dict[str, list[str]]:
        """Write all buffered rows, close all writers, and return the fragments by type."""
        # Open writers first: a type with one buffers nothing, so its rows stay in order.
        while self._open:
            self._close(next(iter(self._open)))
        for pending in self._pending.values():
            if pending.batches:
                self._flush(pending)
        return self._fragments

    def abort(self) -> None:
        """Stop every open writer."""
        for writer in self._open.values():
            writer.abort()
        self._open = {}

    def _resolve_blobs(self, type_: AnyType, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        table = self._worker.open_table(type_.table_key)
        yield from redeem_claims(type_, rows.to_batches(), table, self._worker.spec.blobs)

    def _open_writer(self, pending: _PendingRows) -> None:
        writer = FragmentWriter(self._worker.open_table(pending.type.table_key), self._observer)
        self._open[pending.type.name] = writer
        for batch in pending.batches:
            writer.write(batch)
        pending.batches, pending.nbytes = [], 0

    def _flush(self, pending: _PendingRows) -> None:
        """Write the buffered rows to files of their own."""
        self._open_writer(pending)
        self._close(pending.type.name)

    def _close(self, name: str) -> None:
        fragments = self._open.pop(name).close()
        table = self._worker.open_table(self._pending[name].type.table_key)
        self._observer.on_complete(list_fragment_files(table, fragments))
        self._fragments.setdefault(name, []).extend(fragments)
