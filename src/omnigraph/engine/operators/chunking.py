"""Bindings in chunks: the sinks that consume them, how tables are cut, and how chunks are concatenated."""

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
# Row by row, the number of rows produced by all rows up to and including it.
CumulativeRows = NDArray[np.int64]


class Sink(Protocol):
    """The consumer of a pipeline's chunks.

    A caller reserves the memory of a chunk before it calls `add`; from then on it belongs to the sink.
    """

    @property
    def next_chunk_rows(self) -> int:
        """Number of rows that the next chunk should produce, if the order of chunks matters."""

    @property
    def is_deduplicating(self) -> bool:
        """Whether equal rows become one in this sink."""

    @property
    def is_done(self) -> bool:
        """Whether no further match can change the result."""

    @property
    def rows_received(self) -> int:
        """Number of rows added so far."""

    def is_full(self, since: int) -> bool:
        """Return whether the rows received after the first `since` fill the result, so that later ones can't change it.

        Chunks must arrive in the order of the leading keys, and the last run of equal keys must be complete.
        """

    def add(self, chunk: Bindings) -> None:
        """Add a chunk of matches."""

    def end_chunk(self, *, is_complete: bool) -> None:
        """End a chunk; if `is_complete`, no later row has the same leading keys as one of its rows."""

    def has_leading_keys(self, bound: Collection[str]) -> bool:
        """Return whether the variables in `bound` alone decide the first sort keys, or a group key."""

    def sort_by_leading_keys(self, bindings: Bindings) -> tuple[NDArray[np.int64], Truths]:
        """Return the row numbers in the order of the leading keys, and which of them start a new run of equal keys.

        Rows that can't be in the result may be left out.
        """

    def prune(self, side: Bindings) -> Bindings:
        """Return the rows of one side of a cross product, the pattern's last step, that can reach the result."""


class CollectSink:
    """A sink that collects all matches; if the last step is a compaction, rows are also merged across chunks."""

    is_deduplicating = False
    rows_received = 0

    def __init__(self, budget: Budget, last: Step | None, *, has_multiplicity: bool, chunk_rows: int) -> None:
        self._budget = budget
        self._has_multiplicity = has_multiplicity
        self.next_chunk_rows = chunk_rows
        self._last_compact = last if isinstance(last, Compact) else None
        self._chunks: list[Bindings] = []

    @property
    def is_done(self) -> bool:
        """Whether the query only asks for existence, and a match has arrived."""
        return bool(
            self._last_compact is not None
            and not self._last_compact.keep
            and not self._last_compact.has_multiplicity
            and self._chunks
        )

    def add(self, chunk: Bindings) -> None:
        """Add a chunk of matches."""
        if chunk.size:
            self._chunks.append(chunk)

    def is_full(self, since: int) -> bool:
        """Return False: all matches are collected."""
        del since
        return False

    def end_chunk(self, *, is_complete: bool) -> None:
        """Do nothing: the bounds of chunks don't matter here."""
        del is_complete

    def has_leading_keys(self, bound: Collection[str]) -> bool:
        """Return False: any order will do."""
        del bound
        return False

    def sort_by_leading_keys(self, bindings: Bindings) -> tuple[NDArray[np.int64], Truths]:
        """Return all row numbers in their present order, each as a run of its own."""
        return np.arange(bindings.size), np.ones(bindings.size, np.bool_)

    def prune(self, side: Bindings) -> Bindings:
        """Return `side` unchanged."""
        return side

    def finalize(self) -> Bindings:
        """Return all matches as one table."""
        if len(self._chunks) < 2:
            return self._chunks[0] if self._chunks else empty_bindings(has_multiplicity=self._has_multiplicity)
        nbytes = sum(map(bindings_nbytes, self._chunks))
        self._budget.claim(nbytes, "the matches of the pattern")
        matches = concat_bindings(self._chunks)
        if self._last_compact is not None:
            # Each chunk was compacted on its own; equal rows of different chunks are still apart.
            matches = compact(matches, self._last_compact.keep, has_multiplicity=self._last_compact.has_multiplicity)
        # Both the chunks and their concatenation were claimed; only the result stays in memory.
        self._budget.release(2 * nbytes - bindings_nbytes(matches))
        self._chunks = [matches]
        return matches


def empty_bindings(*, has_multiplicity: bool) -> Bindings:
    """Return bindings without a row."""
    return Bindings({}, 0, np.zeros(0, np.int64) if has_multiplicity else None)


def concat_bindings(parts: Sequence[Bindings]) -> Bindings:
    """Concatenate the rows of several tables of bindings, which have the same columns."""
    columns = {name: np.concatenate([part.columns[name] for part in parts]) for name in parts[0].columns}
    multiplicity = None
    if any(part.multiplicity is not None for part in parts):
        each = (np.ones(part.size, np.int64) if part.multiplicity is None else part.multiplicity for part in parts)
        multiplicity = np.concatenate(list(each))
    return Bindings(columns, sum(part.size for part in parts), multiplicity)


def slice_bindings(bindings: Bindings, begin: int, end: int) -> Bindings:
    """Return a range of rows, without copying."""
    columns = {name: column[begin:end] for name, column in bindings.columns.items()}
    return Bindings(columns, end - begin, None if bindings.multiplicity is None else bindings.multiplicity[begin:end])


# --- where to cut ----------------------------------------------------------------------------------------


def accumulate_even(size: int, each: float = 1.0) -> CumulativeRows:
    """Return the cumulative rows if every row produces the same number."""
    return (np.arange(1, size + 1) * each).astype(np.int64)


def accumulate_hops(links: EdgeAccess, positions: Positions) -> CumulativeRows:
    """Return the cumulative rows of a hop: exact, or by the average fan-out where counting would be the work itself."""
    if links.link.is_multi or links.is_indexed:
        return accumulate_even(len(positions), max(links.link.fan_out, 1.0))
    return np.cumsum(links.get_lists(positions).count_neighbours(positions))


def find_chunk_end(ends: CumulativeRows, begin: int, rows: int) -> int:
    """Return the end of the chunk that starts at `begin` and produces at most `rows` rows, or is a single row."""
    before = int(ends[begin - 1]) if begin else 0
    return max(int(np.searchsorted(ends, before + rows, side="right")), begin + 1)


def snap_to_run_start(end: int, begin: int, is_new: Truths) -> int:
    """Return the last start of a run of equal rows after `begin` and up to `end`, or `end` if there is none."""
    if end >= len(is_new):
        return end
    # Cutting between runs keeps the rows of a run in one chunk, so that a chunk is complete in its leading keys.
    starts = np.flatnonzero(is_new[begin + 1 : end + 1])
    return begin + 1 + int(starts[-1]) if len(starts) else end
