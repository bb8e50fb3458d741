"""A merge on executors: a task fills some rows from the committed ones, compares them, and writes what has changed.

It is told where the committed rows lie. What is found wrong here is not told row by row: somebody else will look at
everything in the order of the input.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.commit.notes import TaskNote
from omnigraph.engine.bulk.ids import incomplete
from omnigraph.engine.bulk.incoming import Incoming, LoadMode
from omnigraph.engine.bulk.merging import find_unchanged, merged_batches
from omnigraph.engine.bulk.outdated import outdated
from omnigraph.engine.bulk.refusals import LoadError
from omnigraph.engine.bulk.spool import Spool
from omnigraph.schema.arrow import ID
from omnigraph.spark.keys import key_hashes
from omnigraph.spark.ledger import encode_gone, gone_roles
from omnigraph.spark.load_spec import Worker
from omnigraph.spark.locating import REPEATED, Group, Places
from omnigraph.spark.pieces import Piece, piece_rows
from omnigraph.spark.type_writers import TypeWriters
from omnigraph.storage.column_sets import Mask, one_array
from omnigraph.storage.lookup import Addresses, Existing
from omnigraph.storage.staging import deletion_files, taken_away


class Filled(msgspec.Struct, kw_only=True):
    """What a task made of a group."""

    number: int
    type: str
    rows: int = 0
    """Those that count: all, or where only known ones are asked for, those."""
    known: int = 0
    unchanged: int = 0
    suspects: int = 0
    """Rows that something may be wrong with; then nothing was written."""
    fragments: list[str] = msgspec.field(default_factory=list)
    replaced: str | None = None
    """The key of the addresses of the committed rows whose place is taken, ascending."""
    gone: str | None = None
    """The key of the hashes of what those rows said, by role."""


class Taken(msgspec.Struct, kw_only=True):
    """What a task took away from some fragments of a table."""

    type: str
    rows: int
    updated: list[str]
    removed: list[int]


_encode = msgspec.msgpack.Encoder().encode
decode_filled = msgspec.msgpack.Decoder(Filled).decode
decode_taken = msgspec.msgpack.Decoder(Taken).decode


def told(one: Filled | Taken) -> pa.RecordBatch:
    """What a task hands to the driver."""
    return pa.RecordBatch.from_arrays([pa.array([_encode(one)], pa.binary())], ["payload"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """How groups are filled."""

    groups: tuple[Group, ...]
    phase: int
    only_known: bool = False

    def done(self, worker: Worker, number: int, places: Places) -> Filled:
        """Fill a group."""
        return _Fill(self, worker, number).done(places)


@dataclass(frozen=True, slots=True, kw_only=True)
class Taking:
    """Rows that go from some fragments of a type's table, among the addresses in these objects."""

    type: str
    fragments: tuple[int, ...]
    addresses: tuple[str, ...]

    def done(self, worker: Worker, phase: int, number: int) -> Taken:
        """Write the deletion files."""
        table = worker.table(worker.type(self.type).table_key)
        note = worker.note(phase, number)
        own = np.sort(np.concatenate([np.empty(0, np.uint64), *self._own(worker)]))
        updated, removed = taken_away(table, own)
        note.made(deletion_files(table, updated))
        return Taken(type=self.type, rows=len(own), updated=list(updated), removed=list(removed))

    def _own(self, worker: Worker) -> Iterator[Addresses]:
        numbers = np.array(self.fragments, np.uint64)
        for key in self.addresses:
            addresses = np.frombuffer(worker.store.objects.get(key).data, np.uint64)
            yield addresses[np.isin(addresses >> np.uint64(32), numbers)]


class _Fill:
    """One group on its way."""

    def __init__(self, work: Filling, worker: Worker, number: int) -> None:
        self._work, self._worker = work, worker
        self._group = work.groups[number]
        self._type = worker.type(self._group.type)
        self._table = worker.table(self._type.table_key)
        self._told = Filled(number=number, type=self._group.type)
        self._replaced: list[Addresses] = []
        self._gone: dict[str, list[bytes]] = {}

    def done(self, places: Places) -> Filled:
        """All pieces, one after the other."""
        self._told.suspects = int((places[:, 1] == REPEATED).sum())
        if self._told.suspects:
            return self._told
        note = self._worker.note(self._work.phase, self._told.number)
        writers = TypeWriters(self._worker, note)
        try:
            start = 0
            for piece in self._group.pieces:
                first, last = np.searchsorted(places[:, 0], [start, start + piece.rows])
                self._piece(piece, places[first:last] - np.array([start, 0]), writers)
                start += piece.rows
                if self._told.suspects:
                    writers.abort()
                    return self._told
            self._told.fragments = writers.finish().get(self._type.name, [])
        except BaseException:
            writers.abort()
            raise
        self._keep(note)
        return self._told

    def _piece(self, piece: Piece, places: Places, writers: TypeWriters) -> None:
        at = np.full(piece.rows, -1, np.int64)
        at[places[:, 0]] = np.arange(len(places))
        there = Existing(self._table, at, np.ascontiguousarray(places[:, 1]))
        with Spool(keeps_left_out=True) as spool:
            for part in piece_rows(self._type, self._worker.store.objects.get(piece.key).data, 0):
                spool.add(0, part.window)
            spool.seal()
            rows = Incoming(spool.types[self._type.name], self._table, LoadMode.MERGE, existing=there)
            if self._work.only_known:
                rows.is_out |= ~rows.exists
            self._told.suspects += self._wrong(rows)
            if not self._told.suspects:
                self._write(rows, writers)

    def _wrong(self, rows: Incoming) -> int:
        """How many rows may be wrong: new ones that are not complete, texts without their vectors, equal hashes."""
        assert rows.existing is not None  # noqa: S101 - it was just made
        found = sum(len(one.rows) for one in (*incomplete(rows), *outdated(rows)))
        if rows.exists.any():
            own = rows.ids().filter(pa.array(rows.exists))
            there = rows.existing.fetch(rows.existing.at[rows.exists], [ID]).column(ID)
            found += len(own) - int(pc.sum(pc.equal(own, one_array(there))).as_py() or 0)
        return found

    def _write(self, rows: Incoming, writers: TypeWriters) -> None:
        find_unchanged(rows)
        is_kept = ~rows.is_out
        is_written = is_kept & ~rows.is_unchanged
        try:
            for batch in merged_batches(rows, is_written):
                writers.add(self._type, pa.Table.from_batches([batch]))
        except LoadError as error:  # what a record says and what its row keeps are too much together
            self._told.suspects += error.total
            return
        self._told.rows += int(is_kept.sum())
        self._told.known += int((rows.exists & is_kept).sum())
        self._told.unchanged += int((rows.is_unchanged & is_kept).sum())
        self._note_replaced(rows, is_written & rows.exists)

    def _note_replaced(self, rows: Incoming, is_replacing: Mask) -> None:
        if rows.existing is None or not is_replacing.any():
            return
        self._replaced.append(rows.existing.located(is_replacing).addresses)
        for role, columns in gone_roles(self._type).items():
            before = rows.existing.fetch(rows.existing.at[is_replacing], columns)
            hashes, _ = key_hashes(before, columns, self._worker.spec.seed)
            self._gone.setdefault(role, []).append(hashes.tobytes())

    def _keep(self, note: TaskNote) -> None:
        if self._replaced:
            self._told.replaced = note.keep("replaced", np.sort(np.concatenate(self._replaced)).tobytes())
        if self._gone:
            gone = {role: b"".join(parts) for role, parts in self._gone.items()}
            self._told.gone = note.keep("gone", encode_gone(gone))


def takings(type_name: str, fragments: Sequence[int], filled: Sequence[Filled], tasks: int) -> list[Taking]:
    """What is taken away from a table, in about so many tasks."""
    keys = tuple(one.replaced for one in filled if one.type == type_name and one.replaced is not None)
    if not keys:
        return []
    share = -(-len(fragments) // max(tasks, 1))
    return [
        Taking(type=type_name, fragments=tuple(fragments[start : start + share]), addresses=keys)
        for start in range(0, len(fragments), share)
    ]
