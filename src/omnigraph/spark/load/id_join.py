"""Match the rows of a merge with committed rows: a hash join of their ids in one shuffle.

A row of the merge is identified by its group of chunks and its number in the group, a committed row by its position in
its table. The matches of a bucket go to the tasks that fill the groups, never to the driver. Ids with equal hashes may
still differ: a task that uses a match compares the ids.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.engine.view import View
from omnigraph.schema.arrow import ID
from omnigraph.spark.load.key_hashes import hash_ids
from omnigraph.spark.load.key_shuffle import COMMITTED, MAX_COMMITTED_ROWS, NEW, build_key_batch, pack_by_bucket
from omnigraph.spark.load.load_spec import Worker
from omnigraph.spark.load.row_chunks import RowChunk
from omnigraph.storage.column_hashing import Hashes

MATCHES_DDL = "number int, payload binary"
_MATCHES_SCHEMA = pa.schema([pa.field("number", pa.int32()), pa.field("payload", pa.binary())])
# Stands for a position when the load has the id more than once. If the id is committed too, another match of the row
# has the position. Negative, so that it sorts before any position.
REPEATED = -1
# About this many bytes of chunks are filled by one task.
MAX_GROUP_BYTES = 96 * 1024 * 1024
# A row of the merge is one 64-bit number: its group in the high bits, its number there in the low ones.
_ROW_BITS = np.uint64(32)
_GROUP_ROLE = "group"

Pairs: TypeAlias = npt.NDArray[np.uint64]
"""Two numbers for each row: the hash of its id, and its position or packed group and number."""
RowMatches: TypeAlias = npt.NDArray[np.int64]
"""Pairs of a row's number in its group, and the position of the committed row with its id, or REPEATED."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkGroup:
    """Consecutive chunks of one type that one task fills."""

    type: str
    chunks: tuple[RowChunk, ...]
    first: int = 0
    """The number of its first chunk among those of all groups."""

    @property
    def rows(self) -> int:
        """The number of rows in all of its chunks."""
        return sum(chunk.rows for chunk in self.chunks)


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentRange:
    """Fragments of a committed table, and the position of their first row."""

    type: str
    fragments: tuple[int, ...]
    start: int


def group_chunks(chunks_by_type: Mapping[str, Sequence[RowChunk]]) -> list[ChunkGroup]:
    """Combine consecutive chunks of each type to groups of up to MAX_GROUP_BYTES; a larger chunk is its own group."""
    groups: list[ChunkGroup] = []
    first = 0
    for name, chunks in chunks_by_type.items():
        pending: list[RowChunk] = []
        for chunk in chunks:
            if pending and sum(other.nbytes for other in pending) + chunk.nbytes > MAX_GROUP_BYTES:
                groups.append(ChunkGroup(type=name, chunks=tuple(pending), first=first))
                first += len(pending)
                pending = []
            pending.append(chunk)
        if pending:
            groups.append(ChunkGroup(type=name, chunks=tuple(pending), first=first))
            first += len(pending)
    return groups


def split_fragments(view: View, names: Sequence[str]) -> list[FragmentRange]:
    """Split the committed fragments of some types into ranges of about MAX_COMMITTED_ROWS rows, one per task."""
    ranges: list[FragmentRange] = []
    for name in names:
        pending: list[int] = []
        start = rows = 0
        for fragment in view.get_table(view.get_type(name)).list_fragments():
            # Positions count live rows only.
            live_rows = fragment.rows - fragment.deleted
            if pending and rows + live_rows > MAX_COMMITTED_ROWS:
                ranges.append(FragmentRange(type=name, fragments=tuple(pending), start=start))
                start += rows
                pending, rows = [], 0
            pending.append(fragment.number)
            rows += live_rows
        if pending:
            ranges.append(FragmentRange(type=name, fragments=tuple(pending), start=start))
    return ranges


# --- map ---------------------------------------------------------------------------------------------


def iter_group_keys(worker: Worker, number: int, group: ChunkGroup, buckets: int) -> Iterator[pa.RecordBatch]:
    """Yield the hashes of a group's ids with their rows, preceded by a record that names the group."""
    # Without this record, a group none of whose rows has a match would reach no task, and would not be filled.
    yield build_key_batch([number % buckets], _GROUP_ROLE, [np.int64(number).tobytes()])
    start = 0
    for chunk in group.chunks:
        assert chunk.ids is not None  # noqa: S101 - a merge on executors requests them
        hashes = np.frombuffer(worker.store.objects.get(chunk.ids).data, np.uint64)
        rows = np.arange(start, start + len(hashes), dtype=np.uint64)
        yield _pack_pairs(f"{NEW}/{group.type}", hashes, np.uint64(number) << _ROW_BITS | rows, buckets)
        start += len(hashes)


def iter_fragment_keys(worker: Worker, fragments: FragmentRange, buckets: int) -> Iterator[pa.RecordBatch]:
    """Yield the hashes of committed ids with their positions."""
    table = worker.open_table(worker.get_type(fragments.type).table_key)
    batches = table.iter_batches([ID], fragments=fragments.fragments)
    parts = [hash_ids(batch.column(0), worker.spec.seed) for batch in batches]
    hashes = np.concatenate([np.empty(0, np.uint64), *parts])
    positions = np.arange(fragments.start, fragments.start + len(hashes), dtype=np.uint64)
    yield _pack_pairs(f"{COMMITTED}/{fragments.type}", hashes, positions, buckets)


def _pack_pairs(role: str, hashes: Hashes, values: Hashes, buckets: int) -> pa.RecordBatch:
    return pack_by_bucket(role, hashes, np.stack([hashes, values], axis=1), buckets)


# --- reduce ------------------------------------------------------------------------------------------


def join_ids(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the matches of a bucket by group, and an empty record for each group that the bucket was informed of."""
    parts: dict[str, list[Pairs]] = {}
    for batch in batches:
        for role, payload in zip(batch.column("role").to_pylist(), batch.column("payload"), strict=True):
            if role == _GROUP_ROLE:
                number = int(np.frombuffer(payload.as_buffer(), np.int64)[0])
                yield _build_match_batch([number], [b""])
            else:
                parts.setdefault(role, []).append(np.frombuffer(payload.as_buffer(), np.uint64).reshape(-1, 2))
    new_roles = [role for role in parts if role.startswith(f"{NEW}/")]
    for role in new_roles:
        committed = parts.pop(f"{COMMITTED}/{role.removeprefix(f'{NEW}/')}", [])
        yield from _match_pairs(np.concatenate(parts.pop(role)), committed)


def _match_pairs(new: Pairs, committed: Sequence[Pairs]) -> Iterator[pa.RecordBatch]:
    new = new[np.argsort(new[:, 0], kind="stable")]
    hashes, packed_rows = np.ascontiguousarray(new[:, 0]), new[:, 1]
    # Both rows of an equal pair of neighbours are repeated.
    is_equal = hashes[1:] == hashes[:-1]
    is_repeated = np.zeros(len(hashes), np.bool_)
    is_repeated[1:] |= is_equal
    is_repeated[:-1] |= is_equal
    matched_rows = [packed_rows[is_repeated]]
    matched_positions = [np.full(int(is_repeated.sum()), REPEATED, np.int64)]
    for pairs in committed:
        at = np.minimum(np.searchsorted(hashes, pairs[:, 0]), len(hashes) - 1)
        is_match = hashes[at] == pairs[:, 0]
        first, matched = at[is_match], pairs[is_match]
        # More than one where the load repeats an id: then each of its rows, from `first` on, gets the position.
        counts = np.searchsorted(hashes, matched[:, 0], side="right") - first
        every = np.repeat(first - np.cumsum(counts) + counts, counts) + np.arange(int(counts.sum()))
        matched_rows.append(packed_rows[every])
        matched_positions.append(np.repeat(matched[:, 1], counts).astype(np.int64))
    all_rows = np.concatenate(matched_rows)
    positions = np.concatenate(matched_positions)
    numbers = (all_rows >> _ROW_BITS).astype(np.int64)
    rows = (all_rows & np.uint64(0xFFFFFFFF)).astype(np.int64)
    order = np.argsort(numbers, kind="stable")
    matches = np.stack([rows[order], positions[order]], axis=1)
    groups, starts = np.unique(numbers[order], return_index=True)
    if len(groups):
        yield _build_match_batch(groups.tolist(), [part.tobytes() for part in np.split(matches, starts[1:])])


def _build_match_batch(numbers: Sequence[int], payloads: Sequence[bytes]) -> pa.RecordBatch:
    arrays = [pa.array(numbers, pa.int32()), pa.array(payloads, pa.binary())]
    return pa.RecordBatch.from_arrays(arrays, schema=_MATCHES_SCHEMA)


def collect_matches(batches: Iterator[pa.RecordBatch]) -> dict[int, RowMatches]:
    """Return the matches of all buckets by group, sorted by row; of a row's two matches, REPEATED comes first."""
    parts: dict[int, list[RowMatches]] = {}
    for batch in batches:
        for number, payload in zip(batch.column("number").to_pylist(), batch.column("payload"), strict=True):
            pairs = np.frombuffer(payload.as_buffer(), np.int64).reshape(-1, 2)
            parts.setdefault(number, []).append(pairs)
    result: dict[int, RowMatches] = {}
    for number, group_parts in parts.items():
        matches = np.concatenate(group_parts)
        result[number] = matches[np.lexsort((matches[:, 1], matches[:, 0]))]
    return result
