"""Which committed rows the rows of a merge belong to: ids meet as hashes in buckets, and places come out.

A row of the merge is known by the group of pieces that it lies in and its number there; a committed row by its position
in its table. What a bucket finds goes to the tasks that fill the groups, never to the driver. Equal hashes are a
suspicion: whoever uses a place compares the ids.
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
from omnigraph.spark.load.key_shuffle import COMMITTED, MAX_COMMITTED_ROWS, NEW, assign_buckets
from omnigraph.spark.load.load_spec import Worker
from omnigraph.spark.load.row_chunks import RowChunk
from omnigraph.storage.column_hashing import Hashes

ID_KEYS_DDL = "bucket int, role string, payload binary"
_ID_KEYS_SCHEMA = pa.schema(
    [pa.field("bucket", pa.int32()), pa.field("role", pa.string()), pa.field("payload", pa.binary())]
)
MATCHES_DDL = "number int, payload binary"
_MATCHES_SCHEMA = pa.schema([pa.field("number", pa.int32()), pa.field("payload", pa.binary())])
REPEATED = -1
"""In place of a position: the load has the id twice. Where it is committed too, its position is told beside."""
MAX_GROUP_BYTES = 96 * 1024 * 1024
"""About how many bytes of pieces one task fills."""
_ROW_BITS = np.uint64(32)
_GROUP_ROLE = "group"

Pairs: TypeAlias = npt.NDArray[np.uint64]
"""Two numbers for each row."""
RowMatches: TypeAlias = npt.NDArray[np.int64]
"""For some rows of a group: its number there, and the position of the committed row of its id, or REPEATED, or both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkGroup:
    """Pieces of one type, in the order of their rows, which one task fills."""

    type: str
    chunks: tuple[RowChunk, ...]
    first: int = 0
    """The number of its first piece among those of all groups."""

    @property
    def rows(self) -> int:
        """How many rows they have."""
        return sum(piece.rows for piece in self.chunks)


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentRange:
    """Fragments of a committed table, and the position of their first row."""

    type: str
    fragments: tuple[int, ...]
    start: int


def group_chunks(pieces: Mapping[str, Sequence[RowChunk]]) -> list[ChunkGroup]:
    """Groups of neighbouring pieces of each type."""
    found: list[ChunkGroup] = []
    first = 0
    for name, own in pieces.items():
        held: list[RowChunk] = []
        for piece in own:
            if held and sum(one.nbytes for one in held) + piece.nbytes > MAX_GROUP_BYTES:
                found.append(ChunkGroup(type=name, chunks=tuple(held), first=first))
                first += len(held)
                held = []
            held.append(piece)
        if held:
            found.append(ChunkGroup(type=name, chunks=tuple(held), first=first))
            first += len(held)
    return found


def split_fragments(view: View, names: Sequence[str]) -> list[FragmentRange]:
    """All committed rows of some types, in parts for tasks."""
    found: list[FragmentRange] = []
    for name in names:
        held: list[int] = []
        start = rows = 0
        for fragment in view.get_table(view.get_type(name)).list_fragments():
            living = fragment.rows - fragment.deleted
            if held and rows + living > MAX_COMMITTED_ROWS:
                found.append(FragmentRange(type=name, fragments=tuple(held), start=start))
                held, start, rows = [], start + rows, 0
            held.append(fragment.number)
            rows += living
        if held:
            found.append(FragmentRange(type=name, fragments=tuple(held), start=start))
    return found


# --- map ---------------------------------------------------------------------------------------------


def iter_group_keys(worker: Worker, number: int, group: ChunkGroup, buckets: int) -> Iterator[pa.RecordBatch]:
    """The hashes of a group's ids, each with its place; and that there is such a group, should nobody else say so."""
    yield _build_batch([number % buckets], _GROUP_ROLE, [np.int64(number).tobytes()])
    start = 0
    for piece in group.chunks:
        assert piece.ids is not None  # noqa: S101 - a merge on executors asks for them
        hashes = np.frombuffer(worker.store.objects.get(piece.ids).data, np.uint64)
        rows = np.arange(start, start + len(hashes), dtype=np.uint64)
        yield _pack_pairs(f"{NEW}/{group.type}", hashes, np.uint64(number) << _ROW_BITS | rows, buckets)
        start += len(hashes)


def iter_fragment_keys(worker: Worker, stretch: FragmentRange, buckets: int) -> Iterator[pa.RecordBatch]:
    """The hashes of committed ids, each with its position."""
    table = worker.open_table(worker.get_type(stretch.type).table_key)
    batches = table.iter_batches([ID], fragments=stretch.fragments)
    hashes = np.concatenate([np.empty(0, np.uint64), *(hash_ids(one.column(0), worker.spec.seed) for one in batches)])
    positions = np.arange(stretch.start, stretch.start + len(hashes), dtype=np.uint64)
    yield _pack_pairs(f"{COMMITTED}/{stretch.type}", hashes, positions, buckets)


def _pack_pairs(role: str, hashes: Hashes, values: Hashes, buckets: int) -> pa.RecordBatch:
    """One row per bucket that has a hash: pairs of a hash and its value."""
    bucket = assign_buckets(hashes, buckets)
    order = np.argsort(bucket, kind="stable")
    pairs = np.stack([hashes[order], values[order]], axis=1)
    counts = np.bincount(bucket, minlength=buckets)
    ends = np.cumsum(counts)
    there = np.flatnonzero(counts).tolist()
    return _build_batch(there, role, [pairs[ends[at] - counts[at] : ends[at]].tobytes() for at in there])


def _build_batch(buckets: Sequence[int], role: str, payloads: Sequence[bytes]) -> pa.RecordBatch:
    arrays = [
        pa.array(buckets, pa.int32()),
        pa.array([role] * len(buckets), pa.string()),
        pa.array(payloads, pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_ID_KEYS_SCHEMA)


# --- reduce ------------------------------------------------------------------------------------------


def join_ids(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What a bucket tells the groups: a row for each of them that it has found something of, or has heard of."""
    parts: dict[str, list[Pairs]] = {}
    for batch in batches:
        for role, payload in zip(batch.column("role").to_pylist(), batch.column("payload"), strict=True):
            if role == _GROUP_ROLE:
                number = int(np.frombuffer(payload.as_buffer(), np.int64)[0])
                yield _build_match_batch([number], [b""])
            else:
                parts.setdefault(role, []).append(np.frombuffer(payload.as_buffer(), np.uint64).reshape(-1, 2))
    for role in [one for one in parts if one.startswith(f"{NEW}/")]:
        there = parts.pop(f"{COMMITTED}/{role.removeprefix(f'{NEW}/')}", [])
        yield from _match_pairs(np.concatenate(parts.pop(role)), there)


def _match_pairs(new: Pairs, committed: Sequence[Pairs]) -> Iterator[pa.RecordBatch]:
    new = new[np.argsort(new[:, 0], kind="stable")]
    hashes, places = np.ascontiguousarray(new[:, 0]), new[:, 1]
    is_equal = hashes[1:] == hashes[:-1]
    is_repeated = np.zeros(len(hashes), np.bool_)
    is_repeated[1:] |= is_equal
    is_repeated[:-1] |= is_equal
    found = [(places[is_repeated], np.full(int(is_repeated.sum()), REPEATED, np.int64))]
    for pairs in committed:
        at = np.minimum(np.searchsorted(hashes, pairs[:, 0]), len(hashes) - 1)
        is_met = hashes[at] == pairs[:, 0]
        first, met = at[is_met], pairs[is_met]
        counts = np.searchsorted(hashes, met[:, 0], side="right") - first  # more than one where an id is repeated
        every = np.repeat(first - np.cumsum(counts) + counts, counts) + np.arange(int(counts.sum()))
        found.append((places[every], np.repeat(met[:, 1], counts).astype(np.int64)))
    where = np.concatenate([one for one, _ in found])
    positions = np.concatenate([other for _, other in found])
    numbers = (where >> _ROW_BITS).astype(np.int64)
    rows = (where & np.uint64(0xFFFFFFFF)).astype(np.int64)
    order = np.argsort(numbers, kind="stable")
    pairs_out = np.stack([rows[order], positions[order]], axis=1)
    groups, starts = np.unique(numbers[order], return_index=True)
    if len(groups):
        yield _build_match_batch(groups.tolist(), [part.tobytes() for part in np.split(pairs_out, starts[1:])])


def _build_match_batch(numbers: Sequence[int], payloads: Sequence[bytes]) -> pa.RecordBatch:
    arrays = [pa.array(numbers, pa.int32()), pa.array(payloads, pa.binary())]
    return pa.RecordBatch.from_arrays(arrays, schema=_MATCHES_SCHEMA)


def collect_matches(batches: Iterator[pa.RecordBatch]) -> dict[int, RowMatches]:
    """What all buckets have told a task, by group: its rows ascending, and first the one without a position of two."""
    parts: dict[int, list[RowMatches]] = {}
    for batch in batches:
        for number, payload in zip(batch.column("number").to_pylist(), batch.column("payload"), strict=True):
            own = np.frombuffer(payload.as_buffer(), np.int64).reshape(-1, 2)
            parts.setdefault(number, []).append(own)
    found: dict[int, RowMatches] = {}
    for number, own_parts in parts.items():
        places = np.concatenate(own_parts)
        found[number] = places[np.lexsort((places[:, 1], places[:, 0]))]
    return found
