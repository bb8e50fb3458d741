"""Where two versions of a table can hold different rows, and the rows at such places.

A place is a position among the rows that live in a version. Fragments that both versions list with the same deletions
hold the same rows, and are not looked at.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.storage.column_sets import Mask, Positions, are_equal, mask_of
from omnigraph.storage.dataset import ADDRESS, Fragment, Table

Fills = Mapping[str, pa.Scalar | None]
"""Columns that the later version alone has, by name: what every row got that was there before; None is null."""

MOST_RUNS = 64
"""Up to so many runs of rows are read one by one."""
RUN_GAP = 1_024
"""Rows no further apart than this are one run: to read what lies between costs less than another request."""
_OFFSETS = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True, slots=True)
class Piece:
    """Some places of one fragment, in ascending order: all `count` from `start` on, or those of `chosen`."""

    start: int
    count: int
    chosen: Positions | None = None
    fragment: int = -1
    """The fragment's number."""

    def slices(self, size: int) -> Iterator[Positions]:
        """The places, at most `size` at once."""
        for first in range(0, self.count, size):
            last = min(first + size, self.count)
            if self.chosen is None:
                yield np.arange(self.start + first, self.start + last, dtype=np.int64)
            else:
                yield self.chosen[first:last]


def all_places(pieces: Sequence[Piece]) -> Positions:
    """The places of these pieces together."""
    parts = [part for piece in pieces for part in piece.slices(max(piece.count, 1))]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def differing_places(before: Table, after: Table, fills: Fills | None = None) -> tuple[list[Piece], list[Piece]]:
    """Where rows lie that the other version may not have in the same place: of the earlier one, and of the later one.

    With `fills`, what a new schema brought does not count: a fragment that has only got more columns holds the same
    rows, but for those that say something else in a new column than what fills it.
    """
    old, new = _laid_out(before), _laid_out(after)
    if before.path != after.path:
        return [one.whole for one in old], [one.whole for one in new]
    places = {name: at for at, one in enumerate(old) for name in _names(one.fragment, fills)}
    mine: dict[int, Piece] = {at: one.whole for at, one in enumerate(old)}
    theirs: list[Piece] = []
    for one in new:
        at = next((places[name] for name in _names(one.fragment, fills) if name in places), None)
        if at is None:
            theirs.append(one.whole)
            continue
        own, other = _compared(before, old[at], after, one, fills)
        mine[at] = own
        theirs.append(other)
    return [piece for _, piece in sorted(mine.items()) if piece.count], [piece for piece in theirs if piece.count]


def offsets_in(table: Table, fragment: Fragment) -> Positions:
    """Where the living rows of a fragment lie in it, in order; no column is read."""
    if not fragment.deleted:
        return np.arange(fragment.rows, dtype=np.int64)
    addresses = np.asarray(table.living_addresses([fragment.number]).to_numpy(), np.uint64)
    return (addresses & _OFFSETS).astype(np.int64)


def rows_at(table: Table, positions: Positions, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows at these places, in that order; held are these rows and little more.

    Where rows were deleted, Lance walks a fragment for each row that it is asked for: there, and where rows lie close
    together, runs of rows are read.
    """
    laid_out = _laid_out(table)
    starts = np.array([one.start for one in laid_out], np.int64)
    at = np.searchsorted(starts, positions, side="right") - 1
    asked = np.unique(at)
    if not any(laid_out[number].fragment.deleted for number in asked) and not _is_dense(positions):
        return table.take(pa.array(positions), columns)
    living = [laid_out[number].living for number in asked]
    moved = np.zeros(len(laid_out), np.int64)
    moved[asked] = np.concatenate(([0], np.cumsum(living)))[:-1]
    wanted = positions - starts[at] + moved[at]
    order = np.argsort(wanted, kind="stable")
    numbers = [laid_out[number].fragment.number for number in asked]
    parts: list[pa.RecordBatch] = []
    for run in _runs(wanted[order]):
        parts += _run_rows(table, numbers, run, columns)
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return pa.Table.from_batches(parts).take(pa.array(back))


def _is_dense(positions: Positions) -> bool:
    """Whether many rows lie so close together that reading all between them is quicker than to look for each."""
    return len(positions) > RUN_GAP and int(positions.max() - positions.min()) < 2 * len(positions)


def _runs(wanted: Positions) -> list[Positions]:
    """Ascending places in groups of neighbours, or all in one when there are too many groups."""
    cuts = np.flatnonzero(np.diff(wanted) > RUN_GAP) + 1
    return [wanted] if len(cuts) >= MOST_RUNS else np.split(wanted, cuts)


def _run_rows(
    table: Table, fragments: Sequence[int], run: Positions, columns: Sequence[str] | None
) -> Iterator[pa.RecordBatch]:
    start = int(run[0])
    for batch in table.batches(columns, fragments=fragments, within=range(start, int(run[-1]) + 1)):
        low, high = np.searchsorted(run, (start, start + batch.num_rows))
        if high > low:
            yield batch.take(pa.array(run[low:high] - start))
        start += batch.num_rows


@dataclass(frozen=True, slots=True)
class _LaidOut:
    """A fragment, and the place of its first living row."""

    fragment: Fragment
    start: int

    @property
    def living(self) -> int:
        return self.fragment.rows - self.fragment.deleted

    @property
    def whole(self) -> Piece:
        return Piece(self.start, self.living, None, self.fragment.number)

    def chosen(self, is_chosen: Mask) -> Piece:
        found = self.start + np.flatnonzero(is_chosen)
        return Piece(self.start, len(found), found, self.fragment.number)


def _laid_out(table: Table) -> list[_LaidOut]:
    found: list[_LaidOut] = []
    start = 0
    for fragment in table.fragments():
        found.append(_LaidOut(fragment, start))
        start += fragment.rows - fragment.deleted
    return found


def _names(fragment: Fragment, fills: Fills | None) -> Sequence[object]:
    """What a fragment is known by in another version: all of its files, or when columns may have come any of them."""
    return [fragment.files] if fills is None else fragment.files


def _compared(before: Table, old: _LaidOut, after: Table, new: _LaidOut, fills: Fills | None) -> tuple[Piece, Piece]:
    """The places of one fragment at which its two versions may differ."""
    is_filled = bool(fills) and old.fragment.files != new.fragment.files
    if old.fragment.deletions == new.fragment.deletions and not is_filled:
        return Piece(old.start, 0), Piece(new.start, 0)
    mine, theirs = offsets_in(before, old.fragment), offsets_in(after, new.fragment)
    differs_in_old, differs_in_new = np.ones((2, new.fragment.rows), np.bool_)
    differs_in_old[theirs] = False
    differs_in_new[mine] = False
    if is_filled:
        said = _said_otherwise(after, new.fragment, fills or {})
        differs_in_old[said] = True
        differs_in_new[said] = True
    return old.chosen(differs_in_old[mine]), new.chosen(differs_in_new[theirs])


def _said_otherwise(table: Table, fragment: Fragment, fills: Fills) -> Positions:
    """The offsets of a fragment's living rows that say something else in a new column than what fills it."""
    found: list[Positions] = []
    for batch in table.batches(list(fills), fragments=[fragment.number], with_address=True):
        differs = np.zeros(batch.num_rows, np.bool_)
        for name, fill in fills.items():
            differs |= differs_from(batch.column(name), fill)
        addresses = np.asarray(batch.column(ADDRESS).to_numpy(), np.uint64)[differs]
        found.append((addresses & _OFFSETS).astype(np.int64))
    return np.concatenate(found) if found else np.empty(0, np.int64)


def differs_from(column: pa.Array, fill: pa.Scalar | None) -> Mask:
    """Row by row, whether a column says something else than a value."""
    if fill is None or not fill.is_valid:
        return mask_of(column.is_valid())
    differs: Mask = ~are_equal(column, pa.repeat(fill, len(column)).cast(column.type))
    return differs
