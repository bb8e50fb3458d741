"""A graph's rows as graph JSONL, a piece at a time: for whoever takes them as they come."""

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
    """What `export_graph` writes as JSONL, in pieces of about a megabyte that are made as they are asked for, once."""

    commit_id: str
    """The commit whose state it shows."""
    pieces: Iterator[bytes]
    types: tuple[str, ...] = ()
    """The types that it is of, in their order; there may be no row of one."""

    def __iter__(self) -> Iterator[bytes]:
        return self.pieces


def _with_cancellation(session: Session, rows: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Yield the same rows, each part after a look at the session's limits."""
    for part in rows:
        session.check_cancelled()
        yield part


def _time_chunks(budget: Budget, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the same pieces; the budget's clock runs while one is made, and not while a caller has it."""
    while True:
        with budget.resume():
            piece = next(pieces, None)
        if piece is None:
            return
        yield piece


def export_stream(session: Session, snapshot: Snapshot, types: Sequence[str] | None = None) -> ExportStream:
    """The rows of a snapshot, as a stream.

    Raises:
        TypeMissingError: The schema of that snapshot has no such type; it is told at once.
    """
    session.allow(Action.EXPORT, snapshot.branch)
    chosen = select_types(session.load_catalog(snapshot), types)
    tables = session.open_tables(snapshot)
    pieces: Iterator[bytes] = (
        piece
        for type_ in chosen
        for rows in _with_cancellation(session, iter_ordered_rows(tables.open_table(type_.table_key), type_))
        for piece in iter_chunks(iter_json_lines(type_, rows))
    )
    names = tuple(type_.name for type_ in chosen)
    if session.watch is not None:
        session.watch.pause()
        pieces = _time_chunks(session.watch, pieces)
    return ExportStream(commit_id=snapshot.commit.id, pieces=pieces, types=names)
