"""The rows of a task on their way into fragments: few files per type, and few of them open at once."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from omnigraph.engine.writing.blob_claims import redeem_claims
from omnigraph.schema.catalog import AnyType
from omnigraph.spark.load.load_spec import Worker
from omnigraph.storage.fragment_writer import FragmentWriter, list_fragment_files
from omnigraph.storage.staging import WriteObserver

MAX_OPEN_WRITERS = 8
MIN_STREAMED_BYTES = 8 * 1024 * 1024
"""A type with so many bytes waiting gets a writer of its own, while there are few."""
MAX_BUFFERED_BYTES = 64 * 1024 * 1024
"""How much may wait in all."""


@dataclass(slots=True)
class _PendingRows:
    """Rows of a type that nobody writes yet."""

    type: AnyType
    batches: list[pa.RecordBatch] = field(default_factory=list)
    nbytes: int = 0


class FragmentWriters:
    """Takes rows of many types in any order, and gives the fragments of each, in the order of its rows."""

    def __init__(self, worker: Worker, witness: WriteObserver) -> None:
        self._worker, self._witness = worker, witness
        self._waiting: dict[str, _PendingRows] = {}
        self._open: dict[str, FragmentWriter] = {}
        self._written: dict[str, list[str]] = {}

    def add(self, type_: AnyType, rows: pa.Table) -> None:
        """Some more rows of a type."""
        waiting = self._waiting.setdefault(type_.name, _PendingRows(type_))
        for batch in self._resolve_blobs(type_, rows):
            if type_.name in self._open:
                self._open[type_.name].write(batch)
                continue
            waiting.batches.append(batch)
            waiting.nbytes += batch.nbytes
            if waiting.nbytes >= MIN_STREAMED_BYTES and len(self._open) < MAX_OPEN_WRITERS:
                self._stream(waiting)
            elif sum(one.nbytes for one in self._waiting.values()) >= MAX_BUFFERED_BYTES:
                self._write(max(self._waiting.values(), key=lambda one: one.nbytes))

    def finish(self) -> dict[str, list[str]]:
        """Everything is written: the fragments by type."""
        while self._open:
            self._close(next(iter(self._open)))
        for waiting in self._waiting.values():
            if waiting.batches:
                self._write(waiting)
        return self._written

    def abort(self) -> None:
        """Stop every writer."""
        for writer in self._open.values():
            writer.abort()
        self._open = {}

    def _resolve_blobs(self, type_: AnyType, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        table = self._worker.open_table(type_.table_key)
        yield from redeem_claims(type_, rows.to_batches(), table, self._worker.spec.blobs)

    def _stream(self, waiting: _PendingRows) -> None:
        writer = FragmentWriter(self._worker.open_table(waiting.type.table_key), self._witness)
        self._open[waiting.type.name] = writer
        for batch in waiting.batches:
            writer.write(batch)
        waiting.batches, waiting.nbytes = [], 0

    def _write(self, waiting: _PendingRows) -> None:
        """Write what waits, in files of its own."""
        self._stream(waiting)
        self._close(waiting.type.name)

    def _close(self, name: str) -> None:
        fragments = self._open.pop(name).close()
        table = self._worker.open_table(self._waiting[name].type.table_key)
        self._witness.on_complete(list_fragment_files(table, fragments))
        self._written.setdefault(name, []).extend(fragments)
