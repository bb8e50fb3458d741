"""Where two versions of a table can hold different rows, and the rows at such places.

A place is a position among the rows that live in a version. Fragments that both versions list with the same deletions
hold the same rows, and are not looked at.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.schema.arrow import identity_from_arrow
from omnigraph.schema.catalog import UNASSIGNED
from omnigraph.schema.identity import Aliases
from omnigraph.storage.arrow_buffers import build_array
from omnigraph.storage.columnar_sets import Mask, Positions, are_equal, repeat_scalar, to_mask
from omnigraph.storage.deletion_vectors import invert_offsets
from omnigraph.storage.lance_table import ADDRESS, Fragment, LanceTable

Fills = Mapping[str, pa.Scalar | None]
"""Columns that the later version alone has, by name: what every row got that was there before; None is null."""

MAX_RUNS = 64
"""Up to so many runs of rows are read one by one."""
RUN_GAP = 1_024
"""Rows no further apart than this are one run: to read what lies between costs less than another request."""
_MAX_SPAN, _MAX_SPAN_WITH_DELETIONS = 2, 16
"""Rows are read with all between them if these are less than so many times as many; the latter if some are deleted."""
_OFFSET_MASK = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True, slots=True)
class ChangedRange:
    """Some places of one fragment, in ascending order: all `count` from `start` on, or those of `chosen`."""

    start: int
    count: int
    chosen: Positions | None = None
    fragment: int = -1
    """The fragment's number."""

    def iter_slices(self, size: int) -> Iterator[Positions]:
        """The places, at most `size` at once."""
        for first in range(0, self.count, size):
            last = min(first + size, self.count)
            if self.chosen is None:
                yield np.arange(self.start + first, self.start + last, dtype=np.int64)
            else:
                yield self.chosen[first:last]


def concat_positions(pieces: Sequence[ChangedRange]) -> Positions:
    """The places of these pieces together."""
    parts = [part for piece in pieces for part in piece.iter_slices(max(piece.count, 1))]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def find_changed_ranges(
    before: LanceTable, after: LanceTable, fills: Fills | None = None, same: Aliases | None = None
) -> tuple[list[ChangedRange], list[ChangedRange]]:
    """Where rows lie that the other version may not have in the same place: of the earlier one, and of the later one.

    With `fills`, what a new schema brought does not count: a fragment that has only got more columns holds the same
    rows, but for those that say something else in a new column than what fills it. Without, a row counts that has a
    value in a column which only one version has, also where a column was taken out of the schema and left in the files.
    `same` are identities of columns that stand for others.
    """
    old, new = before.list_fragments(), after.list_fragments()
    if before.path != after.path:
        return [_place_fragment(before, at).whole for at in range(len(old))], [
            _place_fragment(after, at).whole for at in range(len(new))
        ]
    asked = _UnsharedColumns({}, {} if fills is None else fills)
    if fills is None:
        asked = _UnsharedColumns(
            _find_unshared_columns(before, after, same or {}), _find_unshared_columns(after, before, same or {})
        )
    places = {name: at for at, one in enumerate(old) for name in _get_file_keys(one, fills)}
    left: dict[int, ChangedRange | None] = dict.fromkeys(range(len(old)))
    """Fragments of the earlier version that hold something else, or that the later one has not: then None."""
    theirs: list[ChangedRange] = []
    for number, one in enumerate(new):
        at = next((places[name] for name in _get_file_keys(one, fills) if name in places), None)
        if at is None:
            theirs.append(_place_fragment(after, number).whole)
            continue
        there = old[at]
        is_read = bool(asked.before or asked.after) and (fills is None or there.files != one.files)
        if there.deletions == one.deletions and not is_read:  # most are alike: nothing is made for them
            left.pop(at, None)
            continue
        left[at], other = _compare_fragment(before, at, after, number, asked if is_read else None)
        theirs.append(other)
    mine = [piece or _place_fragment(before, at).whole for at, piece in sorted(left.items())]
    return [piece for piece in mine if piece.count], [piece for piece in theirs if piece.count]


def find_live_offsets(table: LanceTable, fragment: Fragment) -> Positions:
    """Where the living rows of a fragment lie in it, in order; no column is read."""
    if not fragment.deleted:
        return np.arange(fragment.rows, dtype=np.int64)
    return invert_offsets(table.read_deleted_offsets([fragment.number])[0], fragment.rows)


def read_rows_at(table: LanceTable, positions: Positions, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows at these places, in that order; held are these rows and little more.

    Where many rows lie close together, runs of rows are read; that is sooner so where rows were deleted, because there
    each row takes longer to be found.
    """
    fragments, starts = table.list_fragments(), table.get_address_map().starts
    at = np.searchsorted(starts, positions, side="right") - 1
    asked = np.unique(at)
    has_holes = any(fragments[number].deleted for number in asked)
    if not _is_dense(positions, _MAX_SPAN_WITH_DELETIONS if has_holes else _MAX_SPAN):
        return table.take(build_array(positions), columns)
    living = [fragments[number].rows - fragments[number].deleted for number in asked]
    moved = np.zeros(len(fragments), np.int64)
    moved[asked] = np.concatenate(([0], np.cumsum(living)))[:-1]
    wanted = positions - starts[at] + moved[at]
    order = np.argsort(wanted, kind="stable")
    numbers = [fragments[number].number for number in asked]
    parts: list[pa.RecordBatch] = []
    for run in _split_runs(wanted[order]):
        parts += _read_run(table, numbers, run, columns)
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return pa.Table.from_batches(parts).take(build_array(back))


def _is_dense(positions: Positions, span: int) -> bool:
    """Whether many rows lie so close together that reading all between them is quicker than to look for each."""
    return len(positions) > RUN_GAP and int(positions.max() - positions.min()) < span * len(positions)


def _split_runs(wanted: Positions) -> list[Positions]:
    """Ascending places in groups of neighbours, or all in one when there are too many groups."""
    cuts = np.flatnonzero(np.diff(wanted) > RUN_GAP) + 1
    return [wanted] if len(cuts) >= MAX_RUNS else np.split(wanted, cuts)


def _read_run(
    table: LanceTable, fragments: Sequence[int], run: Positions, columns: Sequence[str] | None
) -> Iterator[pa.RecordBatch]:
    start = int(run[0])
    for batch in table.iter_batches(columns, fragments=fragments, within=range(start, int(run[-1]) + 1)):
        low, high = np.searchsorted(run, (start, start + batch.num_rows))
        if high > low:
            yield batch.take(build_array(run[low:high] - start))
        start += batch.num_rows


@dataclass(frozen=True, slots=True)
class _PlacedFragment:
    """A fragment, and the place of its first living row."""

    fragment: Fragment
    start: int

    @property
    def live_rows(self) -> int:
        return self.fragment.rows - self.fragment.deleted

    @property
    def whole(self) -> ChangedRange:
        return ChangedRange(self.start, self.live_rows, None, self.fragment.number)

    def select(self, is_chosen: Mask) -> ChangedRange:
        found = self.start + np.flatnonzero(is_chosen)
        return ChangedRange(self.start, len(found), found, self.fragment.number)


def _place_fragment(table: LanceTable, at: int) -> _PlacedFragment:
    """One of the fragments of a version."""
    return _PlacedFragment(table.list_fragments()[at], int(table.get_address_map().starts[at]))


def _get_file_keys(fragment: Fragment, fills: Fills | None) -> Sequence[object]:
    """What a fragment is known by in another version: all of its files, or when columns may have come any of them."""
    return [fragment.files] if fills is None else fragment.files


@dataclass(frozen=True, slots=True)
class _UnsharedColumns:
    """Columns that only one of two versions has, and what a row says in them that does not count."""

    before: Fills
    after: Fills


def _find_unshared_columns(table: LanceTable, other: LanceTable, same: Aliases) -> Fills:
    """The columns of a version that another one has not; in these, a null is nothing."""
    known = {_identify_column(field, same) for field in other.schema}
    return {field.name: None for field in table.schema if _identify_column(field, same) not in known}


def _identify_column(field: pa.Field, same: Aliases) -> int | str:
    """The identity of a column's property; of a column that is none, its name."""
    identity = identity_from_arrow(field)
    return str(field.name) if identity == UNASSIGNED else same.get(identity, identity)


def _compare_fragment(
    before: LanceTable, at: int, after: LanceTable, number: int, asked: _UnsharedColumns | None
) -> tuple[ChangedRange, ChangedRange]:
    """The places of one fragment at which its two versions may differ: for their deletions, and for what is asked."""
    old, new = _place_fragment(before, at), _place_fragment(after, number)
    mine, theirs = find_live_offsets(before, old.fragment), find_live_offsets(after, new.fragment)
    differs_in_old, differs_in_new = np.ones((2, new.fragment.rows), np.bool_)
    differs_in_old[theirs] = False
    differs_in_new[mine] = False
    if asked is not None:
        for table, fragment, fills in ((before, old.fragment, asked.before), (after, new.fragment, asked.after)):
            said = _find_changed_offsets(table, fragment, fills)
            differs_in_old[said] = True
            differs_in_new[said] = True
    return old.select(differs_in_old[mine]), new.select(differs_in_new[theirs])


def _find_changed_offsets(table: LanceTable, fragment: Fragment, fills: Fills) -> Positions:
    """The offsets of a fragment's living rows that say something else in one of these columns than what fills it."""
    found: list[Positions] = []
    if not fills:
        return np.empty(0, np.int64)
    for batch in table.iter_batches(list(fills), fragments=[fragment.number], with_address=True):
        differs = np.zeros(batch.num_rows, np.bool_)
        for name, fill in fills.items():
            differs |= compare_with_fill(batch.column(name), fill)
        addresses = np.asarray(batch.column(ADDRESS).to_numpy(), np.uint64)[differs]
        found.append((addresses & _OFFSET_MASK).astype(np.int64))
    return np.concatenate(found) if found else np.empty(0, np.int64)


def compare_with_fill(column: pa.Array, fill: pa.Scalar | None) -> Mask:
    """Row by row, whether a column says something else than a value."""
    if fill is None or not fill.is_valid:
        return to_mask(column.is_valid())
    differs: Mask = ~are_equal(column, repeat_scalar(fill, len(column)).cast(column.type))
    return differs
