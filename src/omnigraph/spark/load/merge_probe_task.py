"""A merge on executors that something may be wrong with: a task tells what its rows say, without writing any.

First the keys of all rows, filled from the committed ones, for the ledger; then those rows that are under suspicion,
for the driver, which decides about them by the ordinary checks.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from omnigraph.engine.bulk.unique import compute_effective_values
from omnigraph.spark.load.chunk_batch import ChunkBatch, open_chunks
from omnigraph.spark.load.id_join import ChunkGroup, RowMatches
from omnigraph.spark.load.key_hashes import WantedKeys, find_among, find_roles, hash_keys
from omnigraph.spark.load.key_shuffle import encode_hashes, find_replaced_roles
from omnigraph.spark.load.load_spec import Worker
from omnigraph.spark.load.merge_fill_task import FillResult
from omnigraph.spark.load.row_chunks import ChunkWriter, RowChunk, read_chunk, take_rows
from omnigraph.storage.column_hashing import Hashes
from omnigraph.storage.columnar_sets import Mask, Positions


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeProbe:
    """What is asked of groups: the keys of all rows, or the rows that are wanted and those that are wrong."""

    groups: tuple[ChunkGroup, ...]
    phase: int
    only_known: bool = False
    wanted: WantedKeys | None = None

    def run(self, worker: Worker, number: int, places: RowMatches) -> FillResult:
        """What a group tells."""
        told = _ProbeTask(self, worker, number)
        return told.collect_keys(places) if self.wanted is None else told.collect_rows(places, self.wanted)


class _ProbeTask:
    """One group on its way."""

    def __init__(self, work: MergeProbe, worker: Worker, number: int) -> None:
        self._work, self._worker = work, worker
        self._group = work.groups[number]
        self._type = worker.get_type(self._group.type)
        self._result = FillResult(number=number, type=self._group.type)
        self._note = worker.begin_note(work.phase, number)

    def collect_keys(self, places: RowMatches) -> FillResult:
        """The keys of all rows."""
        said: dict[str, list[bytes]] = {}
        gone: dict[str, list[bytes]] = {}
        for piece in self._iter_chunks(places):
            self._result.unsure += piece.count_hash_collisions()
            self._result.rows += int((~piece.rows.is_excluded).sum())
            for side, keys in ((said, hash_new_keys(piece, self._seed)), (gone, hash_replaced_keys(piece, self._seed))):
                for role, (hashes, _) in keys.items():
                    side.setdefault(role, []).append(hashes.tobytes())
        self._result.told = self._note.keep("told", _pack_keys(said))
        self._result.gone = self._note.keep("gone", _pack_keys(gone))
        return self._result

    def collect_rows(self, places: RowMatches, wanted: WantedKeys) -> FillResult:
        """The rows that are wanted."""
        asked = {role: np.frombuffer(one, np.uint64) for role, one in wanted.get(self._type.name, {}).items()}
        shared: dict[str, list[bytes]] = {}
        for piece in self._iter_chunks(places):
            sides = hash_new_keys(piece, self._seed), hash_replaced_keys(piece, self._seed)
            is_wanted = piece.find_suspects()
            for keys in sides:
                for role, (hashes, rows) in keys.items():
                    if role in asked:
                        is_wanted[rows[find_among(hashes, asked[role])]] = True
            if not is_wanted.any():
                continue
            self._result.handed[piece.number] = self._write_chunk(piece, is_wanted)
            for keys in sides:
                for role in find_replaced_roles(self._type).keys() & keys.keys():
                    hashes, rows = keys[role]
                    shared.setdefault(role, []).append(hashes[is_wanted[rows]].tobytes())
        self._result.shared = {role: b"".join(parts) for role, parts in shared.items()}
        return self._result

    @property
    def _seed(self) -> int:
        return self._worker.spec.seed

    def _iter_chunks(self, places: RowMatches) -> Iterator[ChunkBatch]:
        for piece in open_chunks(self._worker, self._type, self._group, places):
            if self._work.only_known:
                piece.rows.is_excluded |= ~piece.rows.exists
            yield piece

    def _write_chunk(self, piece: ChunkBatch, is_wanted: Mask) -> RowChunk:
        """Those rows as they were read, each with its place in the piece."""
        writer = ChunkWriter(self._type)
        start = 0
        for part in read_chunk(self._type, self._worker.store.objects.get(piece.chunk.key).data, 0):
            end = start + part.window.rows.num_rows
            at = np.flatnonzero(is_wanted[start:end])
            writer.add(take_rows(part.window, at), at + start)
            start = end
        data = writer.finalize()
        key = self._note.keep(f"{piece.number}.piece", data)
        return RowChunk(key=key, rows=writer.rows, nbytes=len(data))


def hash_new_keys(piece: ChunkBatch, seed: int) -> dict[str, tuple[Hashes, Positions]]:
    """By role, the keys that rows will have, filled, and the rows that have them; not of those that are out."""
    found: dict[str, tuple[Hashes, Positions]] = {}
    for role, columns in find_roles(piece.rows.type).items():
        hashes, held = hash_keys(compute_effective_values(piece.rows, columns), columns, seed)
        rows = np.arange(piece.chunk.rows) if held is None else held
        is_kept = ~piece.rows.is_excluded[rows]
        found[role] = hashes[is_kept], rows[is_kept]
    return found


def hash_replaced_keys(piece: ChunkBatch, seed: int) -> dict[str, tuple[Hashes, Positions]]:
    """By role in which it matters, the keys of the committed rows, and the rows that take their places."""
    found: dict[str, tuple[Hashes, Positions]] = {}
    rows = piece.rows
    taking = np.flatnonzero(rows.exists & ~rows.is_excluded)
    if rows.existing is None or not len(taking):
        return found
    for role, columns in find_replaced_roles(rows.type).items():
        before = rows.existing.fetch(rows.existing.at[taking], list(columns))
        hashes, held = hash_keys(before, columns, seed)
        found[role] = hashes, taking if held is None else taking[held]
    return found


def _pack_keys(keys: Mapping[str, list[bytes]]) -> bytes:
    return encode_hashes({role: b"".join(parts) for role, parts in keys.items()})
