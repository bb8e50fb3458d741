"""The order of rows: total, null smallest, and no more of it worked out than the limit asks for."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.engine.output.levels import Levels, levels_at
from omnigraph.engine.output.projection import Frame, Rows
from omnigraph.query.expr import Expr
from omnigraph.query.ir import ReadQuery

Ints: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]
_MOST_PACKED = 2**62


@dataclass(frozen=True, slots=True)
class Key:
    """One thing to sort by: an expression, or places that are known for every row of the frame."""

    expr: Expr | None
    descending: bool = False
    places: Ints | None = None

    def levels(self, frame: Frame, rows: Rows, *, is_whole_sort: bool) -> Levels:
        """What it says about some rows."""
        if self.places is not None:
            return Levels(None, self.places[rows])
        assert self.expr is not None  # noqa: S101 - one of the two is given
        return levels_at(frame, self.expr, rows, is_whole_sort=is_whole_sort)


def keys_of(query: ReadQuery, rank: Key | None = None) -> list[Key]:
    """The keys of a query: its rank, its own keys, then the ties; one that stands there again decides nothing."""
    keys = {key.value: Key(key.value, key.descending) for key in reversed(query.order)}
    ordered = [keys[value] for value in dict.fromkeys(key.value for key in query.order)]
    ties = [Key(tie) for tie in query.ties if tie not in keys]
    return [*([rank] if rank is not None else []), *ordered, *ties]


def ordered_rows(frame: Frame, keys: Sequence[Key], top: int | None) -> Rows:
    """The rows of a frame in order, or the first `top` of them. Rows that no key tells apart stay as they are."""
    rows = np.arange(frame.size, dtype=np.int64)
    if top is not None and top < frame.size:
        rows = _first(frame, keys, rows, top)
    return _sorted(frame, keys, rows)


# --- the first few, in any order ---------------------------------------------------------------------


def _first(frame: Frame, keys: Sequence[Key], rows: Rows, top: int) -> Rows:
    """The first `top` rows. A key is read only of the rows that the keys before it leave in doubt."""
    certain: list[Rows] = []
    for key in keys:
        if top <= 0 or len(rows) <= top:
            break
        frame.reading.budget.check()
        levels = key.levels(frame, rows, is_whole_sort=False)
        if levels.given is not None:
            given = levels.given.astype(np.int64)
            before, tied = _split(~given if key.descending else given, top)
            certain.append(rows[before])
            top -= int(np.count_nonzero(before))
            rows, levels = rows[tied], levels.take(tied)
            if top <= 0 or len(rows) <= top:
                break
            if not given[tied][0]:  # only nulls are left in doubt: the next key decides
                continue
        before, tied = _split_values(levels, top, descending=key.descending)
        certain.append(rows[before])
        top -= int(np.count_nonzero(before))
        rows = rows[tied]
    return np.concatenate((*certain, rows[: max(top, 0)]))


def _split_values(levels: Levels, top: int, *, descending: bool) -> tuple[Mask, Mask]:
    values = levels.values
    if isinstance(values, np.ndarray):
        return _split(~values if descending else values, top)
    order = "descending" if descending else "ascending"
    best = pc.select_k_unstable(pa.table({"text": values}), k=top, sort_keys=[("text", order)])
    bound = values[best[-1].as_py()]
    before = (pc.greater if descending else pc.less)(values, bound)
    return np.asarray(before), np.asarray(pc.equal(values, bound))


def _split(values: Ints, top: int) -> tuple[Mask, Mask]:
    """Which rows are surely among the first `top`, and which tie for the places that are left."""
    bound = np.partition(values, top - 1)[top - 1]
    return values < bound, values == bound


# --- a whole sort ------------------------------------------------------------------------------------


def _sorted(frame: Frame, keys: Sequence[Key], rows: Rows) -> Rows:
    """The rows in order: by the first key, then what it leaves tied by the next, and so on."""
    rows = rows.copy()
    runs = np.zeros(len(rows), np.int64)  # rows that are tied so far have equal numbers, and stand together
    for key in keys:
        tied = _tied(runs)
        if not len(tied):
            break
        frame.reading.budget.check()
        columns = _columns(key, frame, rows[tied])
        own = runs[tied]
        order = _lexsorted(columns, own)
        rows[tied] = rows[tied][order]
        is_new = own[1:] != own[:-1]  # runs stand together, so sorting inside them moves none of their bounds
        for column in columns:
            moved = column[order]
            is_new |= moved[1:] != moved[:-1]
        starts = np.zeros(len(rows), np.bool_)
        starts[tied[1:][is_new]] = True
        starts |= np.concatenate(([False], runs[1:] != runs[:-1]))
        runs = np.cumsum(starts)
    return rows


def _tied(runs: Ints) -> Ints:
    """The places of rows whose run has others in it."""
    if len(runs) < 2:
        return np.zeros(0, np.int64)
    same = runs[1:] == runs[:-1]
    return np.flatnonzero(np.concatenate((same, [False])) | np.concatenate(([False], same)))


def _columns(key: Key, frame: Frame, rows: Rows) -> list[Ints]:
    levels = key.levels(frame, rows, is_whole_sort=True)
    values = levels.ints()
    if key.descending:
        values = ~values
    if levels.given is None:
        return [values]
    given = levels.given.astype(np.int64)
    return [~given if key.descending else given, np.where(levels.given, values, 0)]


def _lexsorted(columns: list[Ints], runs: Ints) -> Ints:
    """The order by run, then by the columns, equals as they are."""
    keys = columns if runs[0] == runs[-1] else [runs, *columns]
    packed = _packed(keys)
    return np.lexsort(keys[::-1]) if packed is None else np.argsort(packed, kind="stable")


def _packed(keys: list[Ints]) -> Ints | None:
    """Several keys as one, which is sorted in a third of the time; None when 64 bits don't hold them."""
    if len(keys) == 1:
        return keys[0]
    lows = [int(key.min()) for key in keys]
    spans = [int(key.max()) - low + 1 for key, low in zip(keys, lows, strict=True)]
    if math.prod(spans) > _MOST_PACKED:
        return None
    packed = keys[0] - lows[0]
    for key, low, span in zip(keys[1:], lows[1:], spans[1:], strict=True):
        packed = packed * span + (key - low)
    return packed
