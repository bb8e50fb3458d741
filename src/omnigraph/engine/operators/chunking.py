"""Large tables of bindings in parts: where they are cut, who takes what is made of them, and how they come together."""

from collections.abc import Collection, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.bindings import Bindings, Positions
from omnigraph.engine.operators.distinct import compact
from omnigraph.engine.operators.edge_access import EdgeAccess
from omnigraph.engine.operators.expand import bindings_nbytes
from omnigraph.engine.physical_plan import Compact, Step
from omnigraph.engine.query_budget import Budget

Truths = NDArray[np.bool_]
CumulativeRows = NDArray[np.int64]
"""Row by row, how many rows are made of all rows up to it."""


class Sink(Protocol):
    """Takes matches part by part. What is added has been claimed from the budget, and is the taker's now."""

    @property
    def next_chunk_rows(self) -> int:
        """How many rows the next part should become, if the order of parts matters."""

    @property
    def is_deduplicating(self) -> bool:
        """Whether equal rows become one here anyway."""

    @property
    def is_done(self) -> bool:
        """Whether nothing that comes makes a difference."""

    @property
    def rows_received(self) -> int:
        """How many rows were added so far."""

    def is_full(self, since: int) -> bool:
        """Whether enough came since so many were received: nothing that comes behind these makes a difference."""

    def add(self, chunk: Bindings) -> None:
        """More matches."""

    def end_chunk(self, *, is_complete: bool) -> None:
        """A part has come; `is_complete`: what comes later is nowhere equal to it in what `led` looks at."""

    def has_leading_keys(self, bound: Collection[str]) -> bool:
        """Whether these variables decide about what comes first in the answer, or together."""

    def sort_by_leading_keys(self, bindings: Bindings) -> tuple[NDArray[np.int64], Truths]:
        """The rows in that order, as far as they can matter, and which of them differ there from the one before."""

    def prune(self, side: Bindings) -> Bindings:
        """What is needed of one side of a product that is the whole pattern: for any row of the other, no more."""


class CollectSink:
    """Holds all matches; if the last step forgets columns, equal rows are one also across parts."""

    is_deduplicating, rows_received = False, 0

    def __init__(self, budget: Budget, last: Step | None, *, has_multiplicity: bool, chunk_rows: int) -> None:
        self._budget, self._has_multiplicity, self.next_chunk_rows = budget, has_multiplicity, chunk_rows
        self._last_compact = last if isinstance(last, Compact) else None
        self._chunks: list[Bindings] = []

    @property
    def is_done(self) -> bool:
        """Whether one row is enough, and is there."""
        return bool(
            self._last_compact is not None
            and not self._last_compact.keep
            and not self._last_compact.has_multiplicity
            and self._chunks
        )

    def add(self, chunk: Bindings) -> None:
        """More matches."""
        if chunk.size:
            self._chunks.append(chunk)

    def is_full(self, since: int) -> bool:
        """Never: all are held."""
        del since
        return False

    def end_chunk(self, *, is_complete: bool) -> None:
        """That makes no difference."""
        del is_complete

    def has_leading_keys(self, bound: Collection[str]) -> bool:
        """Nothing is asked of the order."""
        del bound
        return False

    def sort_by_leading_keys(self, bindings: Bindings) -> tuple[NDArray[np.int64], Truths]:
        """As they are."""
        return np.arange(bindings.size), np.ones(bindings.size, np.bool_)

    def prune(self, side: Bindings) -> Bindings:
        """All of it."""
        return side

    def finalize(self) -> Bindings:
        """All of them."""
        if len(self._chunks) < 2:
            return self._chunks[0] if self._chunks else empty_bindings(has_multiplicity=self._has_multiplicity)
        needed = sum(map(bindings_nbytes, self._chunks))
        self._budget.claim(needed, "the matches of the pattern")
        found = concat_bindings(self._chunks)
        if self._last_compact is not None:
            found = compact(found, self._last_compact.keep, has_multiplicity=self._last_compact.has_multiplicity)
        self._budget.release(2 * needed - bindings_nbytes(found))  # the parts, and what was put together of them
        self._chunks = [found]
        return found


def empty_bindings(*, has_multiplicity: bool) -> Bindings:
    """No match."""
    return Bindings({}, 0, np.zeros(0, np.int64) if has_multiplicity else None)


def concat_bindings(parts: Sequence[Bindings]) -> Bindings:
    """The rows of several tables of bindings, which have the same columns, one table behind the other."""
    columns = {name: np.concatenate([part.columns[name] for part in parts]) for name in parts[0].columns}
    weight = None
    if any(part.multiplicity is not None for part in parts):
        each = (np.ones(part.size, np.int64) if part.multiplicity is None else part.multiplicity for part in parts)
        weight = np.concatenate(list(each))
    return Bindings(columns, sum(part.size for part in parts), weight)


def slice_bindings(bindings: Bindings, begin: int, end: int) -> Bindings:
    """A range of rows, nothing copied."""
    columns = {name: column[begin:end] for name, column in bindings.columns.items()}
    return Bindings(columns, end - begin, None if bindings.multiplicity is None else bindings.multiplicity[begin:end])


# --- where to cut ----------------------------------------------------------------------------------------


def accumulate_even(size: int, each: float = 1.0) -> CumulativeRows:
    """The ends of rows that all become equally many."""
    return (np.arange(1, size + 1) * each).astype(np.int64)


def accumulate_hops(links: EdgeAccess, positions: Positions) -> CumulativeRows:
    """The ends of rows that become their neighbours; by the average where counting would be the work itself."""
    if links.link.is_multi or links.is_indexed:
        return accumulate_even(len(positions), max(links.link.fan_out, 1.0))
    return np.cumsum(links.get_all_lists().count_neighbours(positions))


def find_chunk_end(ends: CumulativeRows, begin: int, rows: int) -> int:
    """Where the part that starts at `begin` ends, so that it becomes at most so many rows, or is a single one."""
    before = int(ends[begin - 1]) if begin else 0
    return max(int(np.searchsorted(ends, before + rows, side="right")), begin + 1)


def snap_to_run_start(end: int, begin: int, is_new: Truths) -> int:
    """The last place up to `end` where a run of equal rows starts; `end` where none does behind `begin`."""
    if end >= len(is_new):
        return end
    starts = np.flatnonzero(is_new[begin + 1 : end + 1])
    return begin + 1 + int(starts[-1]) if len(starts) else end
