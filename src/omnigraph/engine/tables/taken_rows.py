"""Keep values that were fetched row by row, so that the next question for the same rows does not fetch them again."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.engine.tables.content_cache import ContentCache, Key
from omnigraph.storage.arrow_buffers import build_array

# Rows of a column that are kept: adding to this number copies them, which takes about 0.2 ms for short texts.
MAX_KEPT_ROWS = 16_384
# All kept rows of a column take at most one part in this many of the cache.
_CACHE_DIVISOR = 64


@dataclass(frozen=True, slots=True)
class _TakenRows:
    """The values of some rows of a column; positions ascend."""

    positions: NDArray[np.int64]
    values: pa.Array


def take_cached(
    cache: ContentCache, key: Key, at: Positions, fetch: Callable[[NDArray[np.int64]], pa.Array]
) -> pa.Array:
    """Return the values at these positions, in any order; `fetch` reads those that no earlier call has read.

    `fetch` gets distinct ascending positions.
    """
    wanted: NDArray[np.int64] = np.unique(at).astype(np.int64, copy=False)
    kept = cache.get(key)
    if isinstance(kept, _TakenRows):
        missing = wanted[~_find(kept.positions, wanted)[1]]
        rows = _merge(kept, _TakenRows(missing, fetch(missing))) if len(missing) else kept
    else:
        rows = _TakenRows(wanted, fetch(wanted))
    if rows is not kept:
        # Of too many rows the newest ones stay.
        new = rows if _has_room(rows, cache) else _TakenRows(wanted, rows.values.take(_indices(rows, wanted)))
        if _has_room(new, cache):
            cache.put(key, new, int(new.positions.nbytes + new.values.nbytes))
    return rows.values.take(_indices(rows, at))


def _has_room(rows: _TakenRows, cache: ContentCache) -> bool:
    return len(rows.positions) <= MAX_KEPT_ROWS and rows.values.nbytes * _CACHE_DIVISOR <= cache.limit_bytes


def _find(positions: NDArray[np.int64], wanted: Positions) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return where each wanted position is, or would be, and whether it is there."""
    at = np.searchsorted(positions, wanted)
    if not len(positions):
        return at, np.zeros(len(at), np.bool_)
    return at, positions[np.minimum(at, len(positions) - 1)] == wanted


def _indices(rows: _TakenRows, at: Positions) -> pa.Array:
    return build_array(np.searchsorted(rows.positions, at))


def _merge(kept: _TakenRows, new: _TakenRows) -> _TakenRows:
    positions = np.concatenate((kept.positions, new.positions))
    order = np.argsort(positions, kind="stable")
    return _TakenRows(positions[order], pa.concat_arrays([kept.values, new.values]).take(build_array(order)))
