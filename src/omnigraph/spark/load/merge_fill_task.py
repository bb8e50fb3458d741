"""A merge on executors: a task fills some rows from the committed ones, compares them, and writes what has changed.

It is told where the committed rows lie. What is found wrong here is not told row by row: see `telling`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa

from omnigraph.commit.task_journal import TaskJournal
from omnigraph.engine.bulk.load_batch import TypeBatch
from omnigraph.engine.bulk.load_errors import LoadError
from omnigraph.engine.bulk.upsert import find_unchanged, iter_merged_batches
from omnigraph.spark.load.chunk_batch import ChunkBatch, open_chunks
from omnigraph.spark.load.fragment_writers import FragmentWriters
from omnigraph.spark.load.id_join import REPEATED, ChunkGroup, RowMatches
from omnigraph.spark.load.key_hashes import hash_keys
from omnigraph.spark.load.key_shuffle import encode_hashes, find_replaced_roles
from omnigraph.spark.load.load_spec import Worker
from omnigraph.spark.load.row_chunks import RowChunk
from omnigraph.storage.columnar_sets import Mask
from omnigraph.storage.row_addresses import Addresses
from omnigraph.storage.staging import delete_rows, list_deletion_files


class FillResult(msgspec.Struct, kw_only=True):
    """What a task made of a group."""

    number: int
    type: str
    rows: int = 0
    """Those that count: all, or where only known ones are asked for, those."""
    known: int = 0
    unchanged: int = 0
    suspects: int = 0
    """Rows that something may be wrong with; then not all was written."""
    unsure: int = 0
    """Rows that only the driver can decide about: all rows have to be looked at there."""
    fragments: list[str] = msgspec.field(default_factory=list)
    replaced: str | None = None
    """The key of the addresses of the committed rows whose place is taken, ascending."""
    gone: str | None = None
    """The key of the hashes of what those rows said, by role."""
    told: str | None = None
    """The key of the hashes of what all rows say, filled, by role; where that was asked."""
    handed: dict[int, RowChunk] = msgspec.field(default_factory=dict)
    """By the number of their piece, rows that were wanted, each with its place in that piece as its ordinal."""
    shared: dict[str, bytes] = msgspec.field(default_factory=dict)
    """By role, the hashes by which other rows may share something with those."""


class DeletionResult(msgspec.Struct, kw_only=True):
    """What a task took away from some fragments of a table."""

    type: str
    rows: int
    updated: list[str]
    removed: list[int]


_encode = msgspec.msgpack.Encoder().encode
decode_fill_result = msgspec.msgpack.Decoder(FillResult).decode
decode_deletion_result = msgspec.msgpack.Decoder(DeletionResult).decode


def encode_result(one: FillResult | DeletionResult) -> pa.RecordBatch:
    """What a task hands to the driver."""
    return pa.RecordBatch.from_arrays([pa.array([_encode(one)], pa.binary())], ["payload"])


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeFill:
    """How groups are filled."""

    groups: tuple[ChunkGroup, ...]
    phase: int
    only_known: bool = False
    left_out: Mapping[int, bytes] | None = None
    """By the number of their piece, the places of rows that were refused, packed; None when nobody has looked yet."""

    def run(self, worker: Worker, number: int, places: RowMatches) -> FillResult:
        """Fill a group."""
        return _FillTask(self, worker, number).run(places)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionTask:
    """Rows that go from some fragments of a type's table, among the addresses in these objects."""

    type: str
    fragments: tuple[int, ...]
    addresses: tuple[str, ...]

    def run(self, worker: Worker, phase: int, number: int) -> DeletionResult:
        """Write the deletion files."""
        table = worker.open_table(worker.get_type(self.type).table_key)
        note = worker.begin_note(phase, number)
        own = np.sort(np.concatenate([np.empty(0, np.uint64), *self._read_addresses(worker)]))
        updated, removed = delete_rows(table, own)
        note.on_complete(list_deletion_files(table, updated))
        return DeletionResult(type=self.type, rows=len(own), updated=list(updated), removed=list(removed))

    def _read_addresses(self, worker: Worker) -> Iterator[Addresses]:
        numbers = np.array(self.fragments, np.uint64)
        for key in self.addresses:
            addresses = np.frombuffer(worker.store.objects.get(key).data, np.uint64)
            yield addresses[np.isin(addresses >> np.uint64(32), numbers)]


class _FillTask:
    """One group on its way."""

    def __init__(self, work: MergeFill, worker: Worker, number: int) -> None:
        self._work, self._worker = work, worker
        self._group = work.groups[number]
        self._type = worker.get_type(self._group.type)
        self._result = FillResult(number=number, type=self._group.type)
        self._replaced: list[Addresses] = []
        self._gone: dict[str, list[bytes]] = {}

    def run(self, places: RowMatches) -> FillResult:
        """All pieces, one after the other; the first row that may be wrong ends it."""
        if self._work.left_out is None and (places[:, 1] == REPEATED).any():
            self._result.suspects = int((places[:, 1] == REPEATED).sum())
            return self._result
        note = self._worker.begin_note(self._work.phase, self._result.number)
        writers = FragmentWriters(self._worker, note)
        try:
            for piece in open_chunks(self._worker, self._type, self._group, places):
                self._fill_chunk(piece, writers)
                if self._result.suspects or self._result.unsure:
                    writers.abort()
                    return self._result
            self._result.fragments = writers.finish().get(self._type.name, [])
        except BaseException:
            writers.abort()
            raise
        self._keep_hashes(note)
        return self._result

    def _fill_chunk(self, piece: ChunkBatch, writers: FragmentWriters) -> None:
        rows = piece.rows
        if self._work.left_out is not None:
            rows.is_excluded[np.frombuffer(self._work.left_out.get(piece.number, b""), np.int64)] = True
        if self._work.only_known:
            rows.is_excluded |= ~rows.exists
        # Whoever has looked at the rows has also decided which of those stays that have the same id.
        is_wrong = piece.find_suspects() if self._work.left_out is None else piece.find_suspects() & ~piece.is_repeated
        self._result.suspects += int(is_wrong.sum())
        self._result.unsure += piece.count_hash_collisions()
        if not self._result.suspects and not self._result.unsure:
            self._write(rows, writers)

    def _write(self, rows: TypeBatch, writers: FragmentWriters) -> None:
        find_unchanged(rows)
        is_kept = ~rows.is_excluded
        is_written = is_kept & ~rows.is_unchanged
        try:
            for batch in iter_merged_batches(rows, is_written):
                writers.add(self._type, pa.Table.from_batches([batch]))
        except LoadError as error:  # what a record says and what its row keeps are too much together
            self._result.unsure += error.total
            return
        self._result.rows += int(is_kept.sum())
        self._result.known += int((rows.exists & is_kept).sum())
        self._result.unchanged += int((rows.is_unchanged & is_kept).sum())
        self._note_replaced(rows, is_written & rows.exists)

    def _note_replaced(self, rows: TypeBatch, is_replacing: Mask) -> None:
        if rows.existing is None or not is_replacing.any():
            return
        self._replaced.append(rows.existing.locate(is_replacing).addresses)
        for role, columns in find_replaced_roles(self._type).items():
            before = rows.existing.fetch(rows.existing.at[is_replacing], columns)
            hashes, _ = hash_keys(before, columns, self._worker.spec.seed)
            self._gone.setdefault(role, []).append(hashes.tobytes())

    def _keep_hashes(self, note: TaskJournal) -> None:
        if self._replaced:
            self._result.replaced = note.keep("replaced", np.sort(np.concatenate(self._replaced)).tobytes())
        if self._gone:
            gone = {role: b"".join(parts) for role, parts in self._gone.items()}
            self._result.gone = note.keep("gone", encode_hashes(gone))


def plan_deletions(
    type_name: str, fragments: Sequence[int], filled: Sequence[FillResult], tasks: int
) -> list[DeletionTask]:
    """What is taken away from a table, in about so many tasks."""
    keys = tuple(one.replaced for one in filled if one.type == type_name and one.replaced is not None)
    if not keys:
        return []
    share = -(-len(fragments) // max(tasks, 1))
    return [
        DeletionTask(type=type_name, fragments=tuple(fragments[start : start + share]), addresses=keys)
        for start in range(0, len(fragments), share)
    ]
