"""The probe task of a merge on executors that has suspect rows: report keys or rows, without writing any.

The first probe collects the keys of all rows, completed from the committed ones, for the key shuffle; later ones fetch
the suspect rows for the driver, which runs the ordinary checks on them.
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
    """The work of probing groups: for the keys of all rows or, with `wanted`, for the requested and the wrong rows."""

    groups: tuple[ChunkGroup, ...]
    phase: int
    only_known: bool = False
    wanted: WantedKeys | None = None

    def run(self, worker: Worker, number: int, matches: RowMatches) -> FillResult:
        """Probe a group."""
        task = _ProbeTask(self, worker, number)
        return task.collect_keys(matches) if self.wanted is None else task.collect_rows(matches, self.wanted)


class _ProbeTask:
    """The probe of one group."""

    def __init__(self, work: MergeProbe, worker: Worker, number: int) -> None:
        self._work, self._worker = work, worker
        self._group = work.groups[number]
        self._type = worker.get_type(self._group.type)
        self._result = FillResult(number=number, type=self._group.type)
        self._journal = worker.begin_journal(work.phase, number)

    def collect_keys(self, matches: RowMatches) -> FillResult:
        """Store the hashes of the keys of all rows, and of the committed rows that they replace."""
        new: dict[str, list[bytes]] = {}
        replaced: dict[str, list[bytes]] = {}
        for chunk in self._iter_chunks(matches):
            # Two ids with one hash can't be distinguished here, so the driver takes all rows.
            self._result.unsure += chunk.count_hash_collisions()
            self._result.rows += int((~chunk.rows.is_excluded).sum())
            _add_packed(new, hash_new_keys(chunk, self._seed))
            _add_packed(replaced, hash_replaced_keys(chunk, self._seed))
        self._result.row_hashes = self._journal.keep("told", _pack_keys(new))
        self._result.replaced_hashes = self._journal.keep("gone", _pack_keys(replaced))
        return self._result

    def collect_rows(self, matches: RowMatches, wanted: WantedKeys) -> FillResult:
        """Store the requested rows, and those that are wrong by themselves."""
        wanted_roles = wanted.get(self._type.name, {})
        wanted_hashes = {role: np.frombuffer(packed, np.uint64) for role, packed in wanted_roles.items()}
        shared: dict[str, list[bytes]] = {}
        for chunk in self._iter_chunks(matches):
            sides = hash_new_keys(chunk, self._seed), hash_replaced_keys(chunk, self._seed)
            is_wanted = chunk.find_suspects()
            # Replaced values count too: without them, a unique value that moves between rows would look taken.
            for keys in sides:
                for role, (hashes, rows) in keys.items():
                    if role in wanted_hashes:
                        is_wanted[rows[find_among(hashes, wanted_hashes[role])]] = True
            if not is_wanted.any():
                continue
            self._result.fetched[chunk.number] = self._write_chunk(chunk, is_wanted)
            # Rows that share a key with a fetched one, old or new, have to be fetched too.
            for keys in sides:
                for role in find_replaced_roles(self._type).keys() & keys.keys():
                    hashes, rows = keys[role]
                    shared.setdefault(role, []).append(hashes[is_wanted[rows]].tobytes())
        self._result.shared = {role: b"".join(parts) for role, parts in shared.items()}
        return self._result

    @property
    def _seed(self) -> int:
        return self._worker.spec.seed

    def _iter_chunks(self, matches: RowMatches) -> Iterator[ChunkBatch]:
        for chunk in open_chunks(self._worker, self._type, self._group, matches):
            if self._work.only_known:
                chunk.rows.is_excluded |= ~chunk.rows.exists
            yield chunk

    def _write_chunk(self, chunk: ChunkBatch, is_wanted: Mask) -> RowChunk:
        """Write the requested rows, not completed, with their positions in the chunk as ordinals."""
        writer = ChunkWriter(self._type)
        start = 0
        for part in read_chunk(self._type, self._worker.store.objects.get(chunk.chunk.key).data, 0):
            end = start + part.window.rows.num_rows
            at = np.flatnonzero(is_wanted[start:end])
            writer.add(take_rows(part.window, at), at + start)
            start = end
        data = writer.finalize()
        key = self._journal.keep(f"{chunk.number}.piece", data)
        return RowChunk(key=key, rows=writer.rows, nbytes=len(data))


def hash_new_keys(chunk: ChunkBatch, seed: int) -> dict[str, tuple[Hashes, Positions]]:
    """Return, by role, the hashes of the keys that rows will have, and the rows; without excluded rows."""
    result: dict[str, tuple[Hashes, Positions]] = {}
    for role, columns in find_roles(chunk.rows.type).items():
        hashes, complete = hash_keys(compute_effective_values(chunk.rows, columns), columns, seed)
        rows = np.arange(chunk.chunk.rows) if complete is None else complete
        is_accepted = ~chunk.rows.is_excluded[rows]
        result[role] = hashes[is_accepted], rows[is_accepted]
    return result


def hash_replaced_keys(chunk: ChunkBatch, seed: int) -> dict[str, tuple[Hashes, Positions]]:
    """Return, by role of `find_replaced_roles`, the hashes of committed rows' keys, and the rows that replace them."""
    result: dict[str, tuple[Hashes, Positions]] = {}
    rows = chunk.rows
    replacing = np.flatnonzero(rows.exists & ~rows.is_excluded)
    if rows.existing is None or not len(replacing):
        return result
    for role, columns in find_replaced_roles(rows.type).items():
        before = rows.existing.fetch(rows.existing.at[replacing], list(columns))
        hashes, complete = hash_keys(before, columns, seed)
        result[role] = hashes, replacing if complete is None else replacing[complete]
    return result


def _add_packed(packed: dict[str, list[bytes]], keys: Mapping[str, tuple[Hashes, Positions]]) -> None:
    for role, (hashes, _) in keys.items():
        packed.setdefault(role, []).append(hashes.tobytes())


def _pack_keys(keys: Mapping[str, list[bytes]]) -> bytes:
    return encode_hashes({role: b"".join(parts) for role, parts in keys.items()})
