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
from omnigraph.spark.load.key_hashes import id_hashes
from omnigraph.spark.load.key_shuffle import COMMITTED, NEW, bucket_of
from omnigraph.spark.load.key_sources import COMMITTED_ROWS
from omnigraph.spark.load.load_spec import Worker
from omnigraph.spark.load.row_chunks import Piece
from omnigraph.storage.column_hashing import Hashes

MET = "bucket int, role string, payload binary"
_MET = pa.schema([pa.field("bucket", pa.int32()), pa.field("role", pa.string()), pa.field("payload", pa.binary())])
FOUND = "number int, payload binary"
_FOUND = pa.schema([pa.field("number", pa.int32()), pa.field("payload", pa.binary())])
REPEATED = -1
"""In place of a position: the load has the id twice. Where it is committed too, its position is told beside."""
GROUP_BYTES = 96 * 1024 * 1024
"""About how many bytes of pieces one task fills."""
_ROW_BITS = np.uint64(32)
_GROUP = "group"

Pairs: TypeAlias = npt.NDArray[np.uint64]
"""Two numbers for each row."""
Places: TypeAlias = npt.NDArray[np.int64]
"""For some rows of a group: its number there, and the position of the committed row of its id, or REPEATED, or both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Pieces of one type, in the order of their rows, which one task fills."""

    type: str
    pieces: tuple[Piece, ...]
    first: int = 0
    """The number of its first piece among those of all groups."""

    @property
    def rows(self) -> int:
        """How many rows they have."""
        return sum(piece.rows for piece in self.pieces)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Fragments of a committed table, and the position of their first row."""

    type: str
    fragments: tuple[int, ...]
    start: int


def groups_of(pieces: Mapping[str, Sequence[Piece]]) -> list[Group]:
    """Groups of neighbouring pieces of each type."""
    found: list[Group] = []
    first = 0
    for name, own in pieces.items():
        held: list[Piece] = []
        for piece in own:
            if held and sum(one.nbytes for one in held) + piece.nbytes > GROUP_BYTES:
                found.append(Group(type=name, pieces=tuple(held), first=first))
                first += len(held)
                held = []
            held.append(piece)
        if held:
            found.append(Group(type=name, pieces=tuple(held), first=first))
            first += len(held)
    return found


def stretches_of(view: View, names: Sequence[str]) -> list[Stretch]:
    """All committed rows of some types, in parts for tasks."""
    found: list[Stretch] = []
    for name in names:
        held: list[int] = []
        start = rows = 0
        for fragment in view.table(view.type(name)).fragments():
            living = fragment.rows - fragment.deleted
            if held and rows + living > COMMITTED_ROWS:
                found.append(Stretch(type=name, fragments=tuple(held), start=start))
                held, start, rows = [], start + rows, 0
            held.append(fragment.number)
            rows += living
        if held:
            found.append(Stretch(type=name, fragments=tuple(held), start=start))
    return found


# --- map ---------------------------------------------------------------------------------------------


def group_keys(worker: Worker, number: int, group: Group, buckets: int) -> Iterator[pa.RecordBatch]:
    """The hashes of a group's ids, each with its place; and that there is such a group, should nobody else say so."""
    yield _batch([number % buckets], _GROUP, [np.int64(number).tobytes()])
    start = 0
    for piece in group.pieces:
        assert piece.ids is not None  # noqa: S101 - a merge on executors asks for them
        hashes = np.frombuffer(worker.store.objects.get(piece.ids).data, np.uint64)
        rows = np.arange(start, start + len(hashes), dtype=np.uint64)
        yield _packed(f"{NEW}/{group.type}", hashes, np.uint64(number) << _ROW_BITS | rows, buckets)
        start += len(hashes)


def stretch_keys(worker: Worker, stretch: Stretch, buckets: int) -> Iterator[pa.RecordBatch]:
    """The hashes of committed ids, each with its position."""
    table = worker.table(worker.type(stretch.type).table_key)
    batches = table.batches([ID], fragments=stretch.fragments)
    hashes = np.concatenate([np.empty(0, np.uint64), *(id_hashes(one.column(0), worker.spec.seed) for one in batches)])
    positions = np.arange(stretch.start, stretch.start + len(hashes), dtype=np.uint64)
    yield _packed(f"{COMMITTED}/{stretch.type}", hashes, positions, buckets)


def _packed(role: str, hashes: Hashes, values: Hashes, buckets: int) -> pa.RecordBatch:
    """One row per bucket that has a hash: pairs of a hash and its value."""
    bucket = bucket_of(hashes, buckets)
    order = np.argsort(bucket, kind="stable")
    pairs = np.stack([hashes[order], values[order]], axis=1)
    counts = np.bincount(bucket, minlength=buckets)
    ends = np.cumsum(counts)
    there = np.flatnonzero(counts).tolist()
    return _batch(there, role, [pairs[ends[at] - counts[at] : ends[at]].tobytes() for at in there])


def _batch(buckets: Sequence[int], role: str, payloads: Sequence[bytes]) -> pa.RecordBatch:
    arrays = [
        pa.array(buckets, pa.int32()),
        pa.array([role] * len(buckets), pa.string()),
        pa.array(payloads, pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_MET)


# --- reduce ------------------------------------------------------------------------------------------


def places_found(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What a bucket tells the groups: a row for each of them that it has found something of, or has heard of."""
    parts: dict[str, list[Pairs]] = {}
    for batch in batches:
        for role, payload in zip(batch.column("role").to_pylist(), batch.column("payload"), strict=True):
            if role == _GROUP:
                number = int(np.frombuffer(payload.as_buffer(), np.int64)[0])
                yield _told([number], [b""])
            else:
                parts.setdefault(role, []).append(np.frombuffer(payload.as_buffer(), np.uint64).reshape(-1, 2))
    for role in [one for one in parts if one.startswith(f"{NEW}/")]:
        there = parts.pop(f"{COMMITTED}/{role.removeprefix(f'{NEW}/')}", [])
        yield from _matched(np.concatenate(parts.pop(role)), there)


def _matched(new: Pairs, committed: Sequence[Pairs]) -> Iterator[pa.RecordBatch]:
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
        yield _told(groups.tolist(), [part.tobytes() for part in np.split(pairs_out, starts[1:])])


def _told(numbers: Sequence[int], payloads: Sequence[bytes]) -> pa.RecordBatch:
    arrays = [pa.array(numbers, pa.int32()), pa.array(payloads, pa.binary())]
    return pa.RecordBatch.from_arrays(arrays, schema=_FOUND)


def places_of(batches: Iterator[pa.RecordBatch]) -> dict[int, Places]:
    """What all buckets have told a task, by group: its rows ascending, and first the one without a position of two."""
    parts: dict[int, list[Places]] = {}
    for batch in batches:
        for number, payload in zip(batch.column("number").to_pylist(), batch.column("payload"), strict=True):
            own = np.frombuffer(payload.as_buffer(), np.int64).reshape(-1, 2)
            parts.setdefault(number, []).append(own)
    found: dict[int, Places] = {}
    for number, own_parts in parts.items():
        places = np.concatenate(own_parts)
        found[number] = places[np.lexsort((places[:, 1], places[:, 0]))]
    return found
