"""Write a stream of rows in a background thread, and return the fragments."""

import json
import queue
import threading
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.staging import RowStream, WriteKind, WriteObserver, stage_fragments, write_rows

# Batches that may wait in the queue of a writer; `write` blocks beyond it.
_MAX_WAITING_BATCHES: Final = 4
# Interval at which a waiting thread checks whether the other one has ended or aborted.
_POLL_SECONDS = 0.2


def count_fragment_rows(fragment: str) -> int:
    """Return the number of rows of a staged fragment."""
    return int(json.loads(fragment)["physical_rows"])


def list_fragment_files(table: LanceTable, fragments: Sequence[str]) -> tuple[str, ...]:
    """Return the files of staged fragments, relative to the root."""
    rows = sum(map(count_fragment_rows, fragments))
    return stage_fragments(table, WriteKind.APPEND, fragments, rows).files


class FragmentWriter:
    """Writes the rows of one table in its own thread, so that several writers can be open concurrently.

    Call `write` for each batch, then `close` once for the fragments. After `abort` nothing more is written; files that
    were complete before it were reported to the witness.
    """

    def __init__(self, table: LanceTable, witness: WriteObserver) -> None:
        self._waiting: queue.Queue[pa.RecordBatch | None] = queue.Queue(_MAX_WAITING_BATCHES)
        self._is_aborted = threading.Event()
        self._failure: BaseException | None = None
        self._fragments: tuple[str, ...] = ()
        self._thread = threading.Thread(
            target=self._run, args=(table, witness), name=f"write-{table.path}", daemon=True
        )
        self._thread.start()

    def write(self, batch: pa.RecordBatch) -> None:
        """Queue a batch. Raises the error of an earlier batch if writing it failed."""
        self._put(batch)

    def close(self) -> tuple[str, ...]:
        """Finish writing, and return the fragments in the JSON form of Lance."""
        self._put(None)
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        return self._fragments

    def abort(self) -> None:
        """Stop writing immediately, and wait for the thread to end."""
        self._is_aborted.set()
        self._thread.join()

    def _put(self, item: pa.RecordBatch | None) -> None:
        # With a timeout: if the thread fails while the queue is full, a plain `put` would block forever.
        while self._thread.is_alive():
            try:
                self._waiting.put(item, timeout=_POLL_SECONDS)
            except queue.Full:
                continue
            return
        if self._failure is not None:
            raise self._failure

    def _run(self, table: LanceTable, witness: WriteObserver) -> None:
        try:
            self._fragments = write_rows(table, RowStream(batches=self._iter_batches), witness)
        except BaseException as error:  # noqa: BLE001 - raised again by `write` or `close`
            self._failure = error

    def _iter_batches(self) -> Iterator[pa.RecordBatch]:
        while True:
            try:
                batch = self._waiting.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                if self._is_aborted.is_set():
                    raise WriteAbortedError from None
                continue
            if self._is_aborted.is_set():
                raise WriteAbortedError
            if batch is None:
                return
            yield batch


class WriteAbortedError(Exception):
    """Ends the thread of an aborted writer; never reaches a caller."""
