"""The order of rows: total, null smallest, and no more of it worked out than the limit asks for."""

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
from omnigraph.query.expr import Expr
from omnigraph.query.logical_plan import ReadQuery
from omnigraph.storage.columnar_sets import find_true_positions

Ints: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]
_MAX_PACKED_KEY = 2**62
_BLOCK_ROWS, _MIN_BLOCKS_PER_ROW = 256, 4
"""Rows are compared by blocks of so many first, when there are so many blocks for each row that is wanted."""


@dataclass(frozen=True, slots=True)
class SortKey:
    """One thing to sort by: an expression, or places that are known for every row of the frame."""

    expr: Expr | None
    descending: bool = False
    ranks: Ints | None = None

    def encode(self, frame: Frame, rows: Rows | None, *, is_whole_sort: bool) -> SortKeys:
        """What it says about some rows, or about all."""
        if self.ranks is not None:
            return SortKeys(None, self.ranks if rows is None else self.ranks[rows])
        assert self.expr is not None  # noqa: S101 - one of the two is given
        return compute_sort_keys(frame, self.expr, rows, is_whole_sort=is_whole_sort)


def build_sort_keys(query: ReadQuery, rank: SortKey | None = None) -> list[SortKey]:
    """The keys of a query: its rank, its own keys, then the ties; one that stands there again decides nothing."""
    keys = {key.value: SortKey(key.value, key.descending) for key in reversed(query.order)}
    ordered = [keys[value] for value in dict.fromkeys(key.value for key in query.order)]
    ties = [SortKey(tie) for tie in query.ties if tie not in keys]
    return [*([rank] if rank is not None else []), *ordered, *ties]


def sort_rows(frame: Frame, keys: Sequence[SortKey], top: int | None) -> Rows:
    """The rows of a frame in order, or the first `top` of them. Rows that no key tells apart stay as they are."""
    if top is not None and top < frame.size:
        return _sort(frame, keys, _select_first(frame, keys, top))[0]
    return _sort(frame, keys, None)[0]


def sort_runs(frame: Frame, keys: Sequence[SortKey]) -> tuple[Rows, Mask]:
    """The rows of a frame in order, and which of them, in this order, differ from the one before; the first does."""
    rows, starts = _sort(frame, keys, None)
    starts[:1] = True
    return rows, starts


# --- the first few, in any order ---------------------------------------------------------------------


def _select_first(frame: Frame, keys: Sequence[SortKey], top: int) -> Rows:
    """The first `top` rows of more. A key is read only of the rows that the keys before it leave in doubt."""
    certain: list[Rows] = []
    rows: Rows | None = None  # all of them
    for key in keys:
        if top <= 0 or (rows is not None and len(rows) <= top):
            break
        frame.context.budget.check()
        levels = key.encode(frame, rows, is_whole_sort=False)
        if levels.valid is not None:
            given = levels.valid.astype(np.int64)
            before, tied = _split(~given if key.descending else given, top)
            certain.append(_take_rows(rows, before))
            top -= len(before)
            rows, levels = _take_rows(rows, tied), levels.take(tied)
            if top <= 0 or len(rows) <= top:
                break
            if not given[tied[0]]:  # only nulls are left in doubt: the next key decides
                continue
        before, tied = _split_values(levels, top, descending=key.descending)
        certain.append(_take_rows(rows, before))
        top -= len(before)
        rows = _take_rows(rows, tied)
    rest = np.arange(max(top, 0), dtype=np.int64) if rows is None else rows[: max(top, 0)]
    return np.concatenate((*certain, rest))


def _take_rows(rows: Rows | None, places: Ints) -> Rows:
    """The rows at some places; None has every row at its own."""
    return places if rows is None else rows[places]


def _split_values(levels: SortKeys, top: int, *, descending: bool) -> tuple[Ints, Ints]:
    values = levels.values
    if isinstance(values, np.ndarray):
        return _split(~values if descending else values, top)
    order = "descending" if descending else "ascending"
    best = pc.select_k_unstable(pa.table({"text": values}), k=top, sort_keys=[("text", order)])
    bound = values[best[-1].as_py()]
    before = (pc.greater if descending else pc.less)(values, bound)
    return find_true_positions(before), find_true_positions(pc.equal(values, bound))


def _split(values: Ints, top: int) -> tuple[Ints, Ints]:
    """The places that are surely among the first `top`, and those that tie for what is left of it."""
    places = _prefilter_smallest(values, top)
    if places is not None:
        values = values[places]
    bound = np.partition(values, top - 1)[top - 1]
    before, tied = np.flatnonzero(values < bound), np.flatnonzero(values == bound)
    return (before, tied) if places is None else (places[before], places[tied])


def _prefilter_smallest(values: Ints, top: int) -> Ints | None:
    """Some places that have all of the first `top` and what ties with them; None where that spares nothing.

    At least `top` blocks have a value as small as the `top`-th smallest of the blocks' own smallest ones.
    """
    blocks = len(values) // _BLOCK_ROWS
    if blocks < _MIN_BLOCKS_PER_ROW * top:
        return None
    least = values[: blocks * _BLOCK_ROWS].reshape(blocks, _BLOCK_ROWS).min(axis=1)
    return np.flatnonzero(values <= np.partition(least, top - 1)[top - 1])


# --- a whole sort ------------------------------------------------------------------------------------


def _sort(frame: Frame, keys: Sequence[SortKey], wanted: Rows | None) -> tuple[Rows, Mask]:
    """Some rows, or all, in order: by the first key, then what it leaves tied by the next, and so on.

    And which of them start a run of rows that no key tells apart, but for the first.
    """
    rows = np.arange(frame.size, dtype=np.int64) if wanted is None else wanted
    starts = np.zeros(len(rows), np.bool_)
    if len(rows) < 2 or not keys:
        return rows, starts
    frame.context.budget.check()
    columns = _build_columns(keys[0], frame, wanted)
    order = _lexsort(columns, frame.context.budget.check)
    rows = rows[order]
    _mark_run_starts(starts[1:], columns, order)
    for key in keys[1:]:
        if starts[1:].all():
            break
        frame.context.budget.check()
        tied = _find_tied(starts)
        # Rows that are tied so far have equal numbers, and stand together.
        own: Ints = np.cumsum(starts, dtype=np.int64)[tied]
        columns = _build_columns(key, frame, rows[tied])
        order = _lexsort([own, *columns] if own[0] != own[-1] else columns, frame.context.budget.check)
        rows[tied] = rows[tied][order]
        is_new = own[1:] != own[:-1]  # sorting inside of runs moves none of their bounds
        _mark_run_starts(is_new, columns, order)
        starts[tied[1:][is_new]] = True
    return rows, starts


def _mark_run_starts(is_new: Mask, columns: list[Ints], order: Ints) -> None:
    """Note where a row, in this order, differs from the one before it."""
    for column in columns:
        moved = column[order]
        is_new |= moved[1:] != moved[:-1]


def _find_tied(starts: Mask) -> Ints:
    """The places of rows whose run has others in it; the first row starts the first run."""
    same = ~starts[1:]
    tied = np.zeros(len(starts), np.bool_)
    tied[1:] = same
    tied[:-1] |= same
    return np.flatnonzero(tied)


def _build_columns(key: SortKey, frame: Frame, rows: Rows | None) -> list[Ints]:
    levels = key.encode(frame, rows, is_whole_sort=True)
    values = levels.to_ints(frame.context.budget.check)
    if key.descending:
        values = ~values
    if levels.valid is None:
        return [values]
    given = levels.valid.astype(np.int64)
    return [~given if key.descending else given, np.where(levels.valid, values, 0)]


def _lexsort(keys: list[Ints], check: Check) -> Ints:
    """The order by the keys, equals as they are."""
    packed = _pack_keys(keys)
    if packed is not None:
        return argsort_stable(packed, check)
    order = argsort_stable(keys[-1], check)
    for key in keys[-2::-1]:  # the least important key first: what follows leaves its order among equals
        order = order[argsort_stable(key[order], check)]
    return order


def _pack_keys(keys: list[Ints]) -> Ints | None:
    """Several keys as one, which is sorted in a third of the time; None when 64 bits don't hold them."""
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
