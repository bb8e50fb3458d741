"""Sort the rows of a frame: a total order with null smallest, computed only as far as LIMIT needs it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.engine.kernels import Check, argsort_stable
from omnigraph.engine.output.projection import Frame, Rows
from omnigraph.engine.output.sort_keys import SortKeys, compute_sort_keys
from omnigraph.engine.parallel import find_nth_values
from omnigraph.query.expr import Expr
from omnigraph.query.logical_plan import ReadQuery
from omnigraph.storage.columnar_sets import find_true_positions

Ints: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]
# Limit of several keys packed into one: it must fit into int64.
_MAX_PACKED_KEY = 2**62
# For a small top-k, blocks of this many rows are compared by their minimum first, if there are at least this many
# blocks per requested row.
_BLOCK_ROWS = 256
_MIN_BLOCKS_PER_ROW = 4
# From one row in this many on, the first rows are found by their ranks: the first half of 300,000 texts took 500 ms by
# comparing texts, and 30 by ranking them, which later queries need not do again.
_LARGE_TOP_DIVISOR = 16
# This number of rows beside those of a page is sorted rather than narrowed down by the next key.
_MAX_EXTRA_ROWS = 1_024


@dataclass(frozen=True, slots=True)
class SortKey:
    """One sort key: an expression, or precomputed ranks of every row of the frame."""

    expr: Expr | None
    descending: bool = False
    ranks: Ints | None = None

    def encode(self, frame: Frame, rows: Rows | None, *, is_whole_sort: bool) -> SortKeys:
        """Return the comparable values of this key for some rows, or for all."""
        if self.ranks is not None:
            return SortKeys(None, self.ranks if rows is None else self.ranks[rows])
        assert self.expr is not None  # noqa: S101 - one of the two is given
        return compute_sort_keys(frame, self.expr, rows, is_whole_sort=is_whole_sort)


def build_sort_keys(query: ReadQuery, rank: SortKey | None = None) -> list[SortKey]:
    """Return the sort keys of a query: its rank, its own keys, then the tie-breakers; repeated keys are left out."""
    # Reversed, so that the first of several keys with the same expression stays.
    keys = {key.value: SortKey(key.value, key.descending) for key in reversed(query.order)}
    ordered = [keys[value] for value in dict.fromkeys(key.value for key in query.order)]
    ties = [SortKey(tie) for tie in query.ties if tie not in keys]
    return [*([rank] if rank is not None else []), *ordered, *ties]


def sort_rows(frame: Frame, keys: Sequence[SortKey], top: int | None) -> Rows:
    """Return the row numbers of a frame in order, or the first `top` of them; the sort is stable."""
    return sort_page(frame, keys, 0, top)


def sort_page(frame: Frame, keys: Sequence[SortKey], first: int, last: int | None) -> Rows:
    """Return the row numbers from `first` to before `last` in the order of a frame; the sort is stable.

    Of many rows only those that the keys can't tell from the page are sorted.
    """
    if last is None or last >= frame.size:
        last = frame.size
    if first >= last:
        return np.zeros(0, np.int64)
    if last * _LARGE_TOP_DIVISOR <= frame.size:
        return _sort(frame, keys, _select_first(frame, keys, last))[0][first:]
    if last - first == frame.size or not keys:
        return _sort(frame, keys, None)[0][first:last]
    rows, before = _select_range(frame, keys, first, last)
    return _sort(frame, keys, rows)[0][first - before : last - before]


def sort_runs(frame: Frame, keys: Sequence[SortKey]) -> tuple[Rows, Mask]:
    """Return the row numbers of a frame in order, and which of them start a new run of equal keys."""
    rows, starts = _sort(frame, keys, None)
    starts[:1] = True
    return rows, starts


# --- the first few, in any order ---------------------------------------------------------------------


def _select_first(frame: Frame, keys: Sequence[SortKey], top: int) -> Rows:
    """Return the first `top` rows, in any order. A key is read only for rows that tie in all keys before it."""
    certain: list[Rows] = []
    rows: Rows | None = None
    for key in keys:
        if top <= 0 or (rows is not None and len(rows) <= top):
            break
        frame.context.budget.check()
        sort_keys = key.encode(frame, rows, is_whole_sort=False)
        if sort_keys.valid is not None:
            valid = sort_keys.valid.astype(np.int64)
            before, tied = _split(~valid if key.descending else valid, top)
            certain.append(_take_rows(rows, before))
            top -= len(before)
            rows, sort_keys = _take_rows(rows, tied), sort_keys.take(tied)
            if top <= 0 or len(rows) <= top:
                break
            if not valid[tied[0]]:
                # Only nulls are tied: the next key decides.
                continue
        before, tied = _split_values(sort_keys, top, descending=key.descending)
        certain.append(_take_rows(rows, before))
        top -= len(before)
        rows = _take_rows(rows, tied)
    rest = np.arange(max(top, 0), dtype=np.int64) if rows is None else rows[: max(top, 0)]
    return np.concatenate((*certain, rest))


def _take_rows(rows: Rows | None, indices: Ints) -> Rows:
    """Return the rows at these indices; None means all rows in order."""
    return indices if rows is None else rows[indices]


def _split_values(sort_keys: SortKeys, top: int, *, descending: bool) -> tuple[Ints, Ints]:
    values = sort_keys.values
    if isinstance(values, np.ndarray):
        return _split(~values if descending else values, top)
    order = "descending" if descending else "ascending"
    best = pc.select_k_unstable(pa.table({"text": values}), k=top, sort_keys=[("text", order)])
    bound = values[best[-1].as_py()]
    before = (pc.greater if descending else pc.less)(values, bound)
    return find_true_positions(before), find_true_positions(pc.equal(values, bound))


def _split(values: Ints, top: int) -> tuple[Ints, Ints]:
    """Return the indices that are certainly among the first `top`, and those that tie for the rest."""
    indices = _prefilter_smallest(values, top)
    if indices is not None:
        values = values[indices]
    bound = np.partition(values, top - 1)[top - 1]
    before, tied = np.flatnonzero(values < bound), np.flatnonzero(values == bound)
    return (before, tied) if indices is None else (indices[before], indices[tied])


def _prefilter_smallest(values: Ints, top: int) -> Ints | None:
    """Return indices that include the `top` smallest values and all ties, or None if there are too few blocks.

    At least `top` blocks have a value up to the `top`-th smallest of the blocks' minima.
    """
    blocks = len(values) // _BLOCK_ROWS
    if blocks < _MIN_BLOCKS_PER_ROW * top:
        return None
    minima = values[: blocks * _BLOCK_ROWS].reshape(blocks, _BLOCK_ROWS).min(axis=1)
    return np.flatnonzero(values <= np.partition(minima, top - 1)[top - 1])


# --- a range, in any order ----------------------------------------------------------------------------


def _select_range(frame: Frame, keys: Sequence[SortKey], first: int, last: int) -> tuple[Rows | None, int]:
    """Return rows that include those from `first` to before `last`, and the number of rows before all of them.

    Rows are in the order of the frame; None means all. A key is read only for rows that the keys before it left.
    """
    rows: Rows | None = None
    before = 0
    for key in keys:
        count = frame.size if rows is None else len(rows)
        if count <= _MAX_EXTRA_ROWS + 2 * (last - first):
            break
        frame.context.budget.check()
        columns = _build_columns(key, frame, rows)
        # A key with nulls has two columns; the second one decides among the rows that the first has left.
        for number in range(len(columns)):
            values = columns[number]
            low, high = find_nth_values(values, first - before, last - before - 1, frame.context.budget)
            kept = np.flatnonzero((values >= low) & (values <= high))
            before += int(np.count_nonzero(values < low))
            rows = _take_rows(rows, kept)
            if low != high:
                # The next column compares only rows that are equal so far.
                return rows, before
            columns = [column[kept] for column in columns]
    return rows, before


# --- a full sort -------------------------------------------------------------------------------------


def _sort(frame: Frame, keys: Sequence[SortKey], selected: Rows | None) -> tuple[Rows, Mask]:
    """Return some rows, or all, in order, and which of them start a run of equal rows (never set for the first one).

    Rows are sorted by the first key, then those that it leaves tied by the next, and so on.
    """
    rows = np.arange(frame.size, dtype=np.int64) if selected is None else selected
    starts = np.zeros(len(rows), np.bool_)
    if len(rows) < 2 or not keys:
        return rows, starts
    frame.context.budget.check()
    columns = _build_columns(keys[0], frame, selected)
    order = _lexsort(columns, frame.context.budget.check)
    rows = rows[order]
    _mark_run_starts(starts[1:], columns, order)
    for key in keys[1:]:
        if starts[1:].all():
            break
        frame.context.budget.check()
        tied = _find_tied(starts)
        # Rows that are tied so far have the same run number, and are neighbours.
        runs: Ints = np.cumsum(starts, dtype=np.int64)[tied]
        columns = _build_columns(key, frame, rows[tied])
        order = _lexsort([runs, *columns] if runs[0] != runs[-1] else columns, frame.context.budget.check)
        rows[tied] = rows[tied][order]
        # Sorting within runs moves none of their bounds.
        is_new = runs[1:] != runs[:-1]
        _mark_run_starts(is_new, columns, order)
        starts[tied[1:][is_new]] = True
    return rows, starts


def _mark_run_starts(is_new: Mask, columns: list[Ints], order: Ints) -> None:
    """Set `is_new` where a row, in this order, differs from the one before it."""
    for column in columns:
        ordered = column[order]
        is_new |= ordered[1:] != ordered[:-1]


def _find_tied(starts: Mask) -> Ints:
    """Return the indices of rows whose run has more than one row; the first row starts the first run."""
    is_same = ~starts[1:]
    is_tied = np.zeros(len(starts), np.bool_)
    is_tied[1:] = is_same
    is_tied[:-1] |= is_same
    return np.flatnonzero(is_tied)


def _build_columns(key: SortKey, frame: Frame, rows: Rows | None) -> list[Ints]:
    sort_keys = key.encode(frame, rows, is_whole_sort=True)
    values = sort_keys.to_ints(frame.context.budget.check)
    if key.descending:
        # The complement reverses the order and, unlike a negation, never overflows.
        values = ~values
    if sort_keys.valid is None:
        return [values]
    valid = sort_keys.valid.astype(np.int64)
    return [~valid if key.descending else valid, np.where(sort_keys.valid, values, 0)]


def _lexsort(keys: list[Ints], check: Check) -> Ints:
    """Return the stable order by several keys, the most important first."""
    packed = _pack_keys(keys)
    if packed is not None:
        return argsort_stable(packed, check)
    order = argsort_stable(keys[-1], check)
    # The least important key first: later stable sorts keep its order among equals.
    for key in keys[-2::-1]:
        order = order[argsort_stable(key[order], check)]
    return order


def _pack_keys(keys: list[Ints]) -> Ints | None:
    """Pack several keys into one, which sorts in a third of the time, or return None if 64 bits can't hold them."""
    if len(keys) == 1:
        return keys[0]
    lows = [int(key.min()) for key in keys]
    spans = [int(key.max()) - low + 1 for key, low in zip(keys, lows, strict=True)]
    if math.prod(spans) > _MAX_PACKED_KEY:
        return None
    packed = keys[0] - lows[0]
    for key, low, span in zip(keys[1:], lows[1:], spans[1:], strict=True):
        packed = packed * span + (key - low)
    return packed
