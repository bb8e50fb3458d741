"""Find the rows that a node variable can be bound to, and count the matches of the subtrees that hang off them."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.bindings import Bindings, Positions
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.operators.csr_sums import sum_lists
from omnigraph.engine.operators.distinct import deduplicate
from omnigraph.engine.operators.edge_access import EdgeAccess
from omnigraph.engine.operators.filter import find_rows
from omnigraph.engine.operators.multiplicity import (
    Counts,
    add_counts,
    multiply_counts,
    sum_by_key,
    sum_by_position,
    sum_segments,
)
from omnigraph.engine.physical_plan import CountedSubtree, Node, SemiJoin, SubtreeDirection

# Evaluates a test: returns which rows it keeps.
Block: TypeAlias = Callable[[SemiJoin, Bindings], NDArray[np.bool_]]

# Limit of the rows that one vectorised operation produces, where it can be split.
CHUNK_ROWS = 1 << 21
# Memory per neighbour while it is counted.
_ROW_BYTES = 16
# Below this share of a table's rows, sums are computed by sorting and not in an array of the table's size.
_SPARSE_DIVISOR = 16
# Below this share of a table's rows, only the requested rows are computed, and not the whole table.
_FEW_DIVISOR = 4
# From this share of all neighbours on, one pass over all lists in order is faster than gathering some of them.
_SWEEP_DIVISOR = 3
# Rows that fail are dropped between two subtrees when at most this share of them pass.
_DROP_DIVISOR = 2


class Candidates:
    """The rows that a node of a plan can be bound to; results for a whole table are cached for the run."""

    def __init__(
        self,
        node: Node,
        context: ExecutionContext,
        block: Block,
        *,
        has_multiplicity: bool,
        chunk_rows: int = CHUNK_ROWS,
    ) -> None:
        self.node = node
        self._context = context
        self._block = block
        self._has_multiplicity = has_multiplicity
        self._chunk_rows = chunk_rows
        self._rows = context.get_reader(node.type)
        self._subtrees = [
            _SubtreeRun(
                subtree,
                EdgeAccess(subtree.link, context),
                Candidates(subtree.node, context, block, has_multiplicity=has_multiplicity, chunk_rows=chunk_rows),
            )
            for subtree in node.subtrees
        ]
        self._requested_rows = 0
        self._dense: NDArray[np.bool_] | Counts | None = None

    @property
    def size(self) -> int:
        """Number of positions of the node's table."""
        return self._rows.size

    def find_all(self) -> tuple[Positions, Counts | None]:
        """Return every row that passes, ascending, and the multiplicity of each."""
        return self._find_passing(None)

    def count_matches(self, positions: Positions) -> NDArray[np.bool_] | Counts | None:
        """Return the number of matches of each of these rows, in any order, 0 if it fails; None means one each.

        The result is boolean when only existence counts, or when no subtree multiplies a row.
        """
        if self.node.is_free:
            return None
        # Requests add up over the chunks of a run: many small ones are as good a reason to compute the whole table.
        self._requested_rows += len(positions)
        if self._dense is not None or self._requested_rows * _FEW_DIVISOR >= self.size:
            return self.count_by_position().take(positions)
        distinct = positions if bool((positions[1:] > positions[:-1]).all()) else deduplicate(positions)
        passing, multiplicity = self._find_passing(distinct)
        counts = _scatter(_find_indices(distinct, passing, self.size), multiplicity, len(distinct))
        return counts if distinct is positions else counts.take(_find_indices(distinct, positions, self.size))

    def count_by_position(self) -> NDArray[np.bool_] | Counts:
        """Return what `count_matches` returns, for every row of a node that is not free."""
        if self._dense is None:
            self._dense = self._count_everywhere()
        if self._dense is None:
            self._dense = _scatter(*self._find_passing(None), self.size)
        return self._dense

    def _count_everywhere(self) -> NDArray[np.bool_] | Counts | None:
        """Count the matches of all rows at once, or return None if more than subtrees from the root decides."""
        node = self.node
        from_root = [run for run in self._subtrees if run.subtree.direction is SubtreeDirection.FROM_ROOT]
        is_bare = not node.filters and not node.blocks and len(from_root) == len(self._subtrees)
        # With deleted rows, live positions are not consecutive, so counts by row would not be counts by position.
        if not is_bare or self._rows.count < self.size:
            return None
        counted: Counts | None = None
        for run in from_root:
            counted = multiply_counts(counted, self._count_from_root(run, self._rows.get_positions()))
        return counted if counted is None or self._has_multiplicity else counted > 0

    def _find_passing(self, demand: Positions | None) -> tuple[Positions, Counts | None]:
        """Return the rows of the demand (ascending; None: of the table) that pass, and their multiplicities."""
        rows, multiplicity = demand, None
        for run in self._subtrees:
            if run.subtree.direction is SubtreeDirection.FROM_LEAF:
                # Independent of the demand, so computed once per run.
                run.leaf_result = run.leaf_result or self._count_from_leaf(run)
                rows, multiplicity = _intersect(rows, multiplicity, *run.leaf_result)
        if self.node.filters:
            passing = find_rows(self.node.filters, self.node.type, rows, self._context)
            if multiplicity is not None and rows is not None:
                multiplicity = multiplicity.take(_find_indices(rows, passing, self.size))
            rows = passing
        rows = self._rows.get_positions() if rows is None else rows
        rows, multiplicity = self._apply_root_subtrees(rows, multiplicity)
        for block in self.node.blocks:
            if len(rows):
                mask = self._block(block, Bindings({self.node.variable: rows}, len(rows)))
                rows, multiplicity = rows[mask], None if multiplicity is None else multiplicity[mask]
        return rows, multiplicity

    def _apply_root_subtrees(self, rows: Positions, multiplicity: Counts | None) -> tuple[Positions, Counts | None]:
        """Return the ascending rows that pass the subtrees counted from the root, and their multiplicities."""
        counted: Counts | None = None
        for run in self._subtrees:
            if run.subtree.direction is SubtreeDirection.FROM_ROOT and len(rows):
                counts = self._count_from_root(run, rows)
                counted = multiply_counts(counted, counts if self._has_multiplicity else (counts > 0).astype(np.int64))
                # Rows that fail stay, with a count of 0, until dropping them pays off: after most hops nearly all
                # rows pass.
                if counted is not None and np.count_nonzero(counted) * _DROP_DIVISOR <= len(rows):
                    rows, multiplicity = self._drop_unmatched(rows, multiplicity, counted)
                    counted = None
        return (rows, multiplicity) if counted is None else self._drop_unmatched(rows, multiplicity, counted)

    def _drop_unmatched(
        self, rows: Positions, multiplicity: Counts | None, counted: Counts
    ) -> tuple[Positions, Counts | None]:
        """Return the rows whose subtrees have a match, and their multiplicities."""
        if not counted.all():
            passing = np.flatnonzero(counted)
            rows, counted = rows.take(passing), counted.take(passing)
            multiplicity = None if multiplicity is None else multiplicity.take(passing)
        return rows, multiply_counts(multiplicity, counted) if self._has_multiplicity else None

    # --- subtrees -----------------------------------------------------------------------------------

    def _count_from_root(self, run: "_SubtreeRun", positions: Positions) -> Counts:
        """Count the matches of a subtree at each of these ascending rows."""
        link = run.subtree.link
        if run.candidates.node.is_free and not link.filters and not link.is_multi:
            # Every neighbour matches: the lengths of the lists are the counts.
            lists = run.links.get_lists(positions)
            is_every = lists.sources is None and len(positions) == len(lists.starts) - 1
            return np.diff(lists.starts) if is_every else lists.count_neighbours(positions)
        if link.filters and run.links.is_in_memory and len(positions) * _FEW_DIVISOR >= self.size:
            return self._count_by_edges(run)[positions]
        if run.has_most_neighbours(run.links, positions):
            return self._sum_all_lists(run, run.candidates.count_by_position()).take(positions)
        if link.is_multi:
            counted = self._count_reached(run, positions)
            if counted is not None:
                return counted
        parts = [self._sum_gathered(run, part) for part in run.split(positions, self._chunk_rows)]
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)

    def _count_reached(self, run: "_SubtreeRun", positions: Positions) -> Counts | None:
        """Count the nodes reached over several edges without listing them, or return None if they must be listed."""
        if run.candidates.node.is_free:
            return run.links.count_reached(positions, None)
        counts = run.candidates.count_by_position()
        # A bitset can say that a node matches, but not how often.
        if counts.dtype != np.bool_:
            return None
        return run.links.count_reached(positions, counts.astype(np.bool_, copy=False))

    def _sum_all_lists(self, run: "_SubtreeRun", counts: NDArray[np.bool_] | Counts) -> Counts:
        """Return, for every row, the sum of the counts of its neighbours."""
        lists = run.links.get_all_lists()
        return sum_lists(lists.starts, lists.targets, counts, self._context.budget.check)

    def _sum_gathered(self, run: "_SubtreeRun", positions: Positions) -> Counts:
        gathered = run.links.gather(positions)
        counts = run.candidates.count_matches(gathered.targets)
        return gathered.counts if counts is None else sum_segments(counts, gathered.counts)

    def _count_by_edges(self, run: "_SubtreeRun") -> Counts:
        """Count the matches of a subtree at every row, starting with the edges that pass its filters."""
        nbytes = self._context.get_reader(run.subtree.link.edge).size * _ROW_BYTES
        self._context.budget.claim(nbytes, f"the edges of {run.subtree.link.edge}")
        sums = np.zeros(self.size, np.int64)
        for near, far in run.links.list_ends():
            self._context.budget.check()
            counts = run.candidates.count_matches(far)
            if counts is None:
                added = sum_by_position(near, None, self.size)
            elif counts.dtype == np.bool_:
                added = sum_by_position(near[counts], None, self.size)
            else:
                added = sum_by_position(near, counts.astype(np.int64, copy=False), self.size)
            sums = add_counts(sums, added)
        self._context.budget.release(nbytes)
        return sums

    def _count_from_leaf(self, run: "_SubtreeRun") -> tuple[Positions, Counts | None]:
        """Return the rows that a subtree reaches from its far end, ascending, and how often it reaches each."""
        far, multiplicity = run.candidates.find_all()
        back = run.links.reverse()
        if run.has_most_neighbours(back, far):
            return self._select_nonzero(self._sum_all_lists(run, _scatter(far, multiplicity, run.candidates.size)))
        sums: Counts | None = None
        for begin, part in _SubtreeRun(run.subtree, back, run.candidates).split_numbered(far, self._chunk_rows):
            gathered = back.gather(part)
            repeated: Counts | None = None
            if multiplicity is not None:
                repeated = np.repeat(multiplicity[begin : begin + len(part)], gathered.counts)
            if begin == 0 and len(part) == len(far) and len(gathered.targets) * _SPARSE_DIVISOR < self.size:
                # Everything fits into one chunk with few targets: no array of the table's size is needed.
                rows, counts = sum_by_key(gathered.targets.astype(np.int64, copy=False), repeated)
                is_one_each = not self._has_multiplicity or counts.max(initial=1) == 1
                return rows, None if is_one_each else counts
            added = sum_by_position(gathered.targets, repeated, self.size)
            sums = added if sums is None else add_counts(sums, added)
        return (np.zeros(0, np.int64), None) if sums is None else self._select_nonzero(sums)

    def _select_nonzero(self, sums: Counts) -> tuple[Positions, Counts | None]:
        """Return the rows with a sum, and their multiplicities unless each row counts once."""
        rows = np.flatnonzero(sums)
        if not self._has_multiplicity:
            return rows, None
        multiplicity = sums.take(rows)
        return rows, None if len(multiplicity) and multiplicity.max() == 1 else multiplicity


class _SubtreeRun:
    """A counted subtree during execution."""

    def __init__(self, subtree: CountedSubtree, links: EdgeAccess, candidates: Candidates) -> None:
        self.subtree = subtree
        self.links = links
        self.candidates = candidates
        # The rows that its far end reaches, once they were computed.
        self.leaf_result: tuple[Positions, Counts | None] | None = None

    def has_most_neighbours(self, links: EdgeAccess, positions: Positions) -> bool:
        """Return whether these nodes have so many of all neighbours in one direction that a full pass is cheaper.

        Only for unfiltered edges whose adjacency is in memory, or is about to be.
        """
        if self.subtree.link.filters or not links.is_in_memory or len(positions) * _SWEEP_DIVISOR < links.near_size:
            return False
        lists = links.get_all_lists()
        return int(lists.count_neighbours(positions).sum()) * _SWEEP_DIVISOR >= len(lists.targets)

    def split(self, positions: Positions, chunk_rows: int) -> Iterator[Positions]:
        """Yield ascending positions in parts that have about `chunk_rows` neighbours each."""
        return (part for _, part in self.split_numbered(positions, chunk_rows))

    def split_numbered(self, positions: Positions, chunk_rows: int) -> Iterator[tuple[int, Positions]]:
        """Yield the parts, each with the index of its first position."""
        begin = 0
        for end in find_cuts(self.links, positions, chunk_rows):
            yield begin, positions[begin:end]
            begin = end


def find_cuts(links: EdgeAccess, positions: Positions, chunk_rows: int) -> list[int]:
    """Return where to cut rows so that each part has at most `chunk_rows` neighbours, or is a single row."""
    if not len(positions):
        return []
    if links.link.is_multi or links.is_indexed:
        # Counting the neighbours would be the work itself: the planner's average has to do.
        step = max(1, int(chunk_rows / max(links.link.fan_out, 1.0)))
        return [*range(step, len(positions), step), len(positions)]
    return cut_by_counts(links.get_all_lists().count_neighbours(positions), chunk_rows)


def cut_by_counts(counts: NDArray[np.int64], chunk_rows: int) -> list[int]:
    """Return where to cut rows so that each part produces at most `chunk_rows` rows, or is a single row.

    `counts` has the number of rows that each row produces, and is not empty.
    """
    ends = np.cumsum(counts)
    if ends[-1] <= chunk_rows:
        return [len(ends)]
    cuts, begin, before = [], 0, 0
    while begin < len(ends):
        end = max(int(np.searchsorted(ends, before + chunk_rows, side="right")), begin + 1)
        cuts.append(end)
        begin, before = end, int(ends[end - 1])
    return cuts


def _find_indices(ascending: Positions, some: Positions, size: int) -> Positions:
    """Return the index of each of `some` positions within `ascending`, which contains them all."""
    if len(ascending) * _SPARSE_DIVISOR < size:
        return np.searchsorted(ascending, some)
    # Left uninitialised: only entries that are set here are read.
    indices = np.empty(size, np.int64)
    indices[ascending] = np.arange(len(ascending))
    return indices.take(some)


def _scatter(at: Positions, multiplicity: Counts | None, size: int) -> NDArray[np.bool_] | Counts:
    """Return an array of `size` with the multiplicities at these indices, 0 elsewhere; a mask without them."""
    if multiplicity is None:
        mask = np.zeros(size, np.bool_)
        mask[at] = True
        return mask
    dense = np.zeros(size, np.int64)
    dense[at] = multiplicity
    return dense


def _intersect(
    rows: Positions | None, multiplicity: Counts | None, other_rows: Positions, other_multiplicity: Counts | None
) -> tuple[Positions, Counts | None]:
    """Return the rows that are in both, ascending, with the product of their multiplicities."""
    if rows is None:
        return other_rows, other_multiplicity
    common, here, there = np.intersect1d(rows, other_rows, assume_unique=True, return_indices=True)
    return common, multiply_counts(
        None if multiplicity is None else multiplicity[here],
        None if other_multiplicity is None else other_multiplicity[there],
    )
