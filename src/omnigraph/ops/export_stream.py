"""Stream the rows of a snapshot as graph JSONL, for callers that consume them chunk by chunk."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from omnigraph.commit.manifest_types import Snapshot
from omnigraph.engine.jsonl_encoding import iter_json_lines
from omnigraph.engine.query_budget import Budget
from omnigraph.ops.export import iter_chunks, iter_ordered_rows, select_types
from omnigraph.ops.session import Session
from omnigraph.policy import Action


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportStream:
    """An iterator over the JSONL of `export_graph`, in chunks of about a megabyte, built on demand and only once."""

    commit_id: str
    """The exported commit."""
    pieces: Iterator[bytes]
    types: tuple[str, ...] = ()
    """The exported types, in their order; a type may have no rows."""

    def __iter__(self) -> Iterator[bytes]:
        return self.pieces


def _with_cancellation(session: Session, rows: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Yield the same rows, and check the session's limits before each batch."""
    for batch in rows:
        session.check_cancelled()
        yield batch


def _time_chunks(budget: Budget, chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the same chunks; the budget's clock runs while one is built, and is paused while the caller uses it."""
    while True:
        with budget.resume():
            chunk = next(chunks, None)
        if chunk is None:
            return
        yield chunk


def export_stream(session: Session, snapshot: Snapshot, types: Sequence[str] | None = None) -> ExportStream:
    """Return the rows of a snapshot as a stream of graph JSONL.

    Raises:
        TypeMissingError: The schema of that snapshot has no such type; raised by the call, not by the iterator.
    """
    session.allow(Action.EXPORT, snapshot.branch, hides_rows=True)
    selected = select_types(session.load_catalog(snapshot), types)
    tables = session.open_tables(snapshot)
    # A generator: rows are read when the consumer asks for the next chunk.
    chunks: Iterator[bytes] = (
        chunk
        for type_ in selected
        for rows in _with_cancellation(session, iter_ordered_rows(tables.open_table(type_.table_key), type_))
        for chunk in iter_chunks(iter_json_lines(type_, rows))
    )
    names = tuple(type_.name for type_ in selected)
    # A slow consumer must not use up the deadline of the export.
    if session.watch is not None:
        session.watch.pause()
        chunks = _time_chunks(session.watch, chunks)
    return ExportStream(commit_id=snapshot.commit.id, pieces=chunks, types=names)
