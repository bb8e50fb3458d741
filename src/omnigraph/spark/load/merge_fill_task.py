"""The fill task of a merge on executors: complete rows from the committed ones, compare them, and write changed ones.

A task gets the positions of the committed rows. At a row that may be wrong it stops, and reports only a number;
`merge_probe_task` then fetches the rows in question.
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
from omnigraph.storage.row_deletion import delete_rows, list_deletion_files


class FillResult(msgspec.Struct, kw_only=True):
    """The result of a task for one group."""

    number: int
    type: str
    rows: int = 0
    """The number of rows that count: not those left out, nor new rows if only existing ones may change."""
    known: int = 0
    unchanged: int = 0
    suspects: int = 0
    """The number of rows that may be wrong; if there are any, not all rows were written."""
    unsure: int = 0
    """The number of rows that only the driver can decide about; if there are any, it takes all rows."""
    fragments: list[str] = msgspec.field(default_factory=list)
    replaced: str | None = None
    """The key of the addresses of the replaced committed rows, ascending."""
    replaced_hashes: str | None = None
    """The key of the hashes of those rows' keys, by role."""
    row_hashes: str | None = None
    """The key of the hashes of all filled rows' keys, by role; of a probe for keys."""
    fetched: dict[int, RowChunk] = msgspec.field(default_factory=dict)
    """The requested rows by the number of their chunk; the ordinal of each is its position in that chunk."""
    shared: dict[str, bytes] = msgspec.field(default_factory=dict)
    """By role, the hashes of keys that other rows may share with those."""


class DeletionResult(msgspec.Struct, kw_only=True):
    """The result of deleting rows from some fragments of a table."""

    type: str
    rows: int
    updated: list[str]
    removed: list[int]


_encode = msgspec.msgpack.Encoder().encode
decode_fill_result = msgspec.msgpack.Decoder(FillResult).decode
decode_deletion_result = msgspec.msgpack.Decoder(DeletionResult).decode


def encode_result(result: FillResult | DeletionResult) -> pa.RecordBatch:
    """Return the result of a task as a batch of one row, for the driver."""
    return pa.RecordBatch.from_arrays([pa.array([_encode(result)], pa.binary())], ["payload"])


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeFill:
    """The work of filling the groups of a merge."""

    groups: tuple[ChunkGroup, ...]
    phase: int
    only_known: bool = False
    left_out: Mapping[int, bytes] | None = None
    """The packed positions of rejected rows by the number of their chunk; None before the rows are checked."""

    def run(self, worker: Worker, number: int, matches: RowMatches) -> FillResult:
        """Fill a group."""
        return _FillTask(self, worker, number).run(matches)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionTask:
    """The deletion of rows from some fragments of a type's table; the objects in `addresses` list rows of all."""

    type: str
    fragments: tuple[int, ...]
    addresses: tuple[str, ...]

    def run(self, worker: Worker, phase: int, number: int) -> DeletionResult:
        """Write the deletion files."""
        table = worker.open_table(worker.get_type(self.type).table_key)
        journal = worker.begin_journal(phase, number)
        addresses = np.sort(np.concatenate([np.empty(0, np.uint64), *self._read_addresses(worker)]))
        updated, removed = delete_rows(table, addresses)
        files = list_deletion_files(table, updated)
        journal.on_complete(files)
        # The driver flushes all files before it publishes them, but can't wait for uploads of this process.
        worker.store.flush(files)
        return DeletionResult(type=self.type, rows=len(addresses), updated=list(updated), removed=list(removed))

    def _read_addresses(self, worker: Worker) -> Iterator[Addresses]:
        numbers = np.array(self.fragments, np.uint64)
        for key in self.addresses:
            addresses = np.frombuffer(worker.store.objects.get(key).data, np.uint64)
            # The high half of a row address is the fragment's number.
            yield addresses[np.isin(addresses >> np.uint64(32), numbers)]


class _FillTask:
    """The fill of one group."""

    def __init__(self, work: MergeFill, worker: Worker, number: int) -> None:
        self._work, self._worker = work, worker
        self._group = work.groups[number]
        self._type = worker.get_type(self._group.type)
        self._result = FillResult(number=number, type=self._group.type)
        self._replaced: list[Addresses] = []
        self._replaced_hashes: dict[str, list[bytes]] = {}

    def run(self, matches: RowMatches) -> FillResult:
        """Fill all chunks in order, up to the first one with a row that may be wrong."""
        # A repeated id is a suspect, which needs no reading of chunks to be found.
        if self._work.left_out is None and (matches[:, 1] == REPEATED).any():
            self._result.suspects = int((matches[:, 1] == REPEATED).sum())
            return self._result
        journal = self._worker.begin_journal(self._work.phase, self._result.number)
        writers = FragmentWriters(self._worker, journal)
        try:
            for chunk in open_chunks(self._worker, self._type, self._group, matches):
                self._fill_chunk(chunk, writers)
                if self._result.suspects or self._result.unsure:
                    writers.abort()
                    return self._result
            self._result.fragments = writers.finish().get(self._type.name, [])
        except BaseException:
            writers.abort()
            raise
        self._keep_hashes(journal)
        return self._result

    def _fill_chunk(self, chunk: ChunkBatch, writers: FragmentWriters) -> None:
        rows = chunk.rows
        if self._work.left_out is not None:
            rows.is_excluded[np.frombuffer(self._work.left_out.get(chunk.number, b""), np.int64)] = True
        if self._work.only_known:
            rows.is_excluded |= ~rows.exists
        is_suspect = chunk.find_suspects()
        # The check that rejected the left-out rows has also decided which row of a repeated id stays.
        if self._work.left_out is not None:
            is_suspect &= ~chunk.is_repeated
        self._result.suspects += int(is_suspect.sum())
        self._result.unsure += chunk.count_hash_collisions()
        if not self._result.suspects and not self._result.unsure:
            self._write(rows, writers)

    def _write(self, rows: TypeBatch, writers: FragmentWriters) -> None:
        find_unchanged(rows)
        is_accepted = ~rows.is_excluded
        is_written = is_accepted & ~rows.is_unchanged
        try:
            for batch in iter_merged_batches(rows, is_written):
                writers.add(self._type, pa.Table.from_batches([batch]))
        except LoadError as error:
            # A record exceeds the size limit only together with the values that its row keeps.
            self._result.unsure += error.total
            return
        self._result.rows += int(is_accepted.sum())
        self._result.known += int((rows.exists & is_accepted).sum())
        self._result.unchanged += int((rows.is_unchanged & is_accepted).sum())
        self._record_replaced(rows, is_written & rows.exists)

    def _record_replaced(self, rows: TypeBatch, is_replacing: Mask) -> None:
        if rows.existing is None or not is_replacing.any():
            return
        # The deletion tasks need the addresses, and the key shuffle subtracts the keys from the committed ones.
        self._replaced.append(rows.existing.locate(is_replacing).addresses)
        for role, columns in find_replaced_roles(self._type).items():
            before = rows.existing.fetch(rows.existing.at[is_replacing], columns)
            hashes, _ = hash_keys(before, columns, self._worker.spec.seed)
            self._replaced_hashes.setdefault(role, []).append(hashes.tobytes())

    def _keep_hashes(self, journal: TaskJournal) -> None:
        if self._replaced:
            self._result.replaced = journal.keep("replaced", np.sort(np.concatenate(self._replaced)).tobytes())
        if self._replaced_hashes:
            hashes = {role: b"".join(parts) for role, parts in self._replaced_hashes.items()}
            self._result.replaced_hashes = journal.keep("gone", encode_hashes(hashes))


def plan_deletions(
    type_name: str, fragments: Sequence[int], fills: Sequence[FillResult], tasks: int
) -> list[DeletionTask]:
    """Plan the deletion of replaced rows from a table, in at most `tasks` tasks, each with its own fragments."""
    keys = tuple(fill.replaced for fill in fills if fill.type == type_name and fill.replaced is not None)
    if not keys:
        return []
    share = -(-len(fragments) // max(tasks, 1))
    return [
        DeletionTask(type=type_name, fragments=tuple(fragments[start : start + share]), addresses=keys)
        for start in range(0, len(fragments), share)
    ]
