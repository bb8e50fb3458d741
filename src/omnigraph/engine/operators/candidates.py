"""Which rows a node variable can be, and how many matches its branches have there: one question for every operator."""

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
from omnigraph.engine.physical_plan import AntiJoin, CountedSubtree, Node, SubtreeDirection

Block: TypeAlias = Callable[[AntiJoin, Bindings], NDArray[np.bool_]]
"""Which rows a `not` block keeps."""

CHUNK_ROWS = 1 << 21
"""How many rows one vectorised operation makes at most, where it can be split."""
_ROW_BYTES = 16
"""What a neighbour takes while it is counted."""
_SPARSE_DIVISOR = 16
"""Below this share of a table's rows, sums are made by sorting and not in an array of its size."""
_FEW_DIVISOR = 4
"""Below this share of a table's rows, only what is asked for is worked out."""
_SWEEP_DIVISOR = 3
"""From this share of all neighbours on, going through all lists in their order is faster than gathering some."""
_DROP_DIVISOR = 2
"""Rows that fail are left out between two branches when no more than this share of them pass."""


class Candidates:
    """The rows that a node of a plan can be bound to. What was worked out for a whole table is kept for the run."""

    def __init__(
        self,
        node: Node,
        reading: ExecutionContext,
        block: Block,
        *,
        has_multiplicity: bool,
        chunk_rows: int = CHUNK_ROWS,
    ) -> None:
        self.node, self._context, self._block, self._has_multiplicity = node, reading, block, has_multiplicity
        self._chunk_rows = chunk_rows
        self._rows = reading.get_reader(node.type)
        self._subtrees = [
            _SubtreeRun(
                branch,
                EdgeAccess(branch.link, reading),
                Candidates(branch.node, reading, block, has_multiplicity=has_multiplicity, chunk_rows=chunk_rows),
            )
            for branch in node.subtrees
        ]
        self._requested_rows = 0
        self._dense: NDArray[np.bool_] | Counts | None = None

    @property
    def size(self) -> int:
        """How many positions its table has."""
        return self._rows.size

    def find_all(self) -> tuple[Positions, Counts | None]:
        """Every row that passes, ascending, and the weight of each."""
        return self._find_passing(None)

    def count_matches(self, positions: Positions) -> NDArray[np.bool_] | Counts | None:
        """How many matches each of these rows, in any order, stands for, none if it fails; None: one each.

        Truths when only existence counts, or when no branch makes it more than one.
        """
        if self.node.is_free:
            return None
        self._requested_rows += len(positions)
        if self._dense is not None or self._requested_rows * _FEW_DIVISOR >= self.size:
            return self.count_by_position().take(positions)
        each = positions if bool((positions[1:] > positions[:-1]).all()) else deduplicate(positions)
        found, weight = self._find_passing(each)
        weighed = _scatter(_find_places(each, found, self.size), weight, len(each))
        return weighed if each is positions else weighed.take(_find_places(each, positions, self.size))

    def count_by_position(self) -> NDArray[np.bool_] | Counts:
        """As `weigh`, of every row; there is something to weigh."""
        if self._dense is None:
            self._dense = self._count_everywhere()
        if self._dense is None:
            self._dense = _scatter(*self._find_passing(None), self.size)
        return self._dense

    def _count_everywhere(self) -> NDArray[np.bool_] | Counts | None:
        """The weights of all rows, where nothing but branches that start here decides; None where more does."""
        node, pulled = self.node, [run for run in self._subtrees if run.subtree.direction is SubtreeDirection.FROM_ROOT]
        is_bare = not node.filters and not node.absent and len(pulled) == len(self._subtrees)
        if not is_bare or self._rows.count < self.size:
            return None
        counted: Counts | None = None
        for run in pulled:
            counted = multiply_counts(counted, self._count_from_root(run, self._rows.get_positions()))
        return counted if counted is None or self._has_multiplicity else counted > 0

    def _find_passing(self, demand: Positions | None) -> tuple[Positions, Counts | None]:
        """The rows of the demand (ascending; None: of the table) that pass, and their weights."""
        found, weight = demand, None
        for run in self._subtrees:
            if run.subtree.direction is SubtreeDirection.FROM_LEAF:
                run.leaf_result = run.leaf_result or self._count_from_leaf(run)
                found, weight = _intersect(found, weight, *run.leaf_result)
        if self.node.filters:
            kept = find_rows(self.node.filters, self.node.type, found, self._context)
            if weight is not None and found is not None:
                weight = weight.take(_find_places(found, kept, self.size))
            found = kept
        found = self._rows.get_positions() if found is None else found
        found, weight = self._apply_root_subtrees(found, weight)
        for block in self.node.absent:
            if len(found):
                mask = self._block(block, Bindings({self.node.variable: found}, len(found)))
                found, weight = found[mask], None if weight is None else weight[mask]
        return found, weight

    def _apply_root_subtrees(self, found: Positions, weight: Counts | None) -> tuple[Positions, Counts | None]:
        """What the branches that are worked out from here leave of some rows, which ascend, and their weights.

        Rows that fail stay, with no weight, until leaving them out pays: behind most hops nearly all rows pass.
        """
        counted: Counts | None = None
        for run in self._subtrees:
            if run.subtree.direction is SubtreeDirection.FROM_ROOT and len(found):
                own = self._count_from_root(run, found)
                counted = multiply_counts(counted, own if self._has_multiplicity else (own > 0).astype(np.int64))
                if counted is not None and np.count_nonzero(counted) * _DROP_DIVISOR <= len(found):
                    found, weight, counted = self._drop_unmatched(found, weight, counted)
        return (found, weight) if counted is None else self._drop_unmatched(found, weight, counted)[:2]

    def _drop_unmatched(
        self, found: Positions, weight: Counts | None, counted: Counts
    ) -> tuple[Positions, Counts | None, None]:
        """The rows whose branches have a match, and their weights."""
        if not counted.all():
            at = np.flatnonzero(counted)
            found, counted = found.take(at), counted.take(at)
            weight = None if weight is None else weight.take(at)
        return found, multiply_counts(weight, counted) if self._has_multiplicity else None, None

    # --- branches -----------------------------------------------------------------------------------

    def _count_from_root(self, run: "_SubtreeRun", positions: Positions) -> Counts:
        """For each of these rows, which ascend, how many matches the branch has there."""
        link = run.subtree.link
        if run.candidates.node.is_free and not link.filters and not link.is_multi:
            lists = run.links.get_lists(positions)
            is_every = lists.sources is None and len(positions) == len(lists.starts) - 1
            return np.diff(lists.starts) if is_every else lists.count_neighbours(positions)
        if link.filters and run.links.is_in_memory and len(positions) * _FEW_DIVISOR >= self.size:
            return self._count_by_edges(run)[positions]
        if run.is_most(run.links, positions):
            return self._sum_all_lists(run, run.candidates.count_by_position()).take(positions)
        if link.is_multi:
            counted = self._count_reached(run, positions)
            if counted is not None:
                return counted
        parts = [self._sum_gathered(run, part) for part in run.split(positions, self._chunk_rows)]
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)

    def _count_reached(self, run: "_SubtreeRun", positions: Positions) -> Counts | None:
        """As `_count_from_root` over several edges, without listing who is reached; None where they have to be listed."""
        if run.candidates.node.is_free:
            return run.links.count_reached(positions, None)
        weighed = run.candidates.count_by_position()
        if weighed.dtype != np.bool_:
            return None
        return run.links.count_reached(positions, weighed.astype(np.bool_, copy=False))

    def _sum_all_lists(self, run: "_SubtreeRun", weighed: NDArray[np.bool_] | Counts) -> Counts:
        """For every row, the sum of what is known of the far ends that it has."""
        lists = run.links.get_all_lists()
        return sum_lists(lists.starts, lists.targets, weighed, self._context.budget.check)

    def _sum_gathered(self, run: "_SubtreeRun", positions: Positions) -> Counts:
        gathered = run.links.gather(positions)
        weighed = run.candidates.count_matches(gathered.targets)
        return gathered.counts if weighed is None else sum_segments(weighed, gathered.counts)

    def _count_by_edges(self, run: "_SubtreeRun") -> Counts:
        """As `_count_from_root` for every row, starting with the edges that pass."""
        needed = self._context.get_reader(run.subtree.link.edge).size * _ROW_BYTES
        self._context.budget.claim(needed, f"the edges of {run.subtree.link.edge}")
        sums = np.zeros(self.size, np.int64)
        for near, far in run.links.list_ends():
            self._context.budget.check()
            weighed = run.candidates.count_matches(far)
            if weighed is None:
                added = sum_by_position(near, None, self.size)
            elif weighed.dtype == np.bool_:
                added = sum_by_position(near[weighed], None, self.size)
            else:
                added = sum_by_position(near, weighed.astype(np.int64, copy=False), self.size)
            sums = add_counts(sums, added)
        self._context.budget.release(needed)
        return sums

    def _count_from_leaf(self, run: "_SubtreeRun") -> tuple[Positions, Counts | None]:
        """The rows that the branch leads to, ascending, and how often."""
        far, weight = run.candidates.find_all()
        back = run.links.reverse()
        if run.is_most(back, far):
            return self._select_nonzero(self._sum_all_lists(run, _scatter(far, weight, run.candidates.size)))
        sums: Counts | None = None
        for begin, part in _SubtreeRun(run.subtree, back, run.candidates).split_numbered(far, self._chunk_rows):
            gathered = back.gather(part)
            spread = None if weight is None else np.repeat(weight[begin : begin + len(part)], gathered.counts)
            if begin == 0 and len(part) == len(far) and len(gathered.targets) * _SPARSE_DIVISOR < self.size:
                found, counted = sum_by_key(gathered.targets.astype(np.int64, copy=False), spread)
                is_one_each = not self._has_multiplicity or counted.max(initial=1) == 1
                return found, None if is_one_each else counted
            added = sum_by_position(gathered.targets, spread, self.size)
            sums = added if sums is None else add_counts(sums, added)
        return (np.zeros(0, np.int64), None) if sums is None else self._select_nonzero(sums)

    def _select_nonzero(self, sums: Counts) -> tuple[Positions, Counts | None]:
        """The rows that have a sum, and their weights, unless each one counts once."""
        found = np.flatnonzero(sums)
        if not self._has_multiplicity:
            return found, None
        weight = sums.take(found)
        return found, None if len(weight) and weight.max() == 1 else weight


class _SubtreeRun:
    """A branch while it runs."""

    def __init__(self, branch: CountedSubtree, links: EdgeAccess, candidates: Candidates) -> None:
        self.subtree, self.links, self.candidates = branch, links, candidates
        self.leaf_result: tuple[Positions, Counts | None] | None = None
        """Where its far end leads, once that is known."""

    def is_most(self, links: EdgeAccess, positions: Positions) -> bool:
        """Whether these nodes have so many of all neighbours along the hop, in one direction, that no list is skipped.

        Only where no edge is filtered, and where both directions are in memory or soon are.
        """
        if self.subtree.link.filters or not links.is_in_memory or len(positions) * _SWEEP_DIVISOR < links.near_size:
            return False
        return int(links.get_all_lists().count_neighbours(positions).sum()) * _SWEEP_DIVISOR >= len(
            links.get_all_lists().targets
        )

    def split(self, positions: Positions, chunk_rows: int) -> Iterator[Positions]:
        """Parts of ascending positions whose neighbours are not too many at once."""
        return (part for _, part in self.split_numbered(positions, chunk_rows))

    def split_numbered(self, positions: Positions, chunk_rows: int) -> Iterator[tuple[int, Positions]]:
        """The parts, each with the number of its first position."""
        begin = 0
        for end in find_cuts(self.links, positions, chunk_rows):
            yield begin, positions[begin:end]
            begin = end


def find_cuts(links: EdgeAccess, positions: Positions, chunk_rows: int) -> list[int]:
    """Where to cut rows apart so that the neighbours of a part are at most `chunk_rows`, or those of one row."""
    if not len(positions):
        return []
    if links.link.is_multi or links.is_indexed:
        step = max(1, int(chunk_rows / max(links.link.fan_out, 1.0)))
        return [*range(step, len(positions), step), len(positions)]
    return cut_by_counts(links.get_all_lists().count_neighbours(positions), chunk_rows)


def cut_by_counts(counts: NDArray[np.int64], chunk_rows: int) -> list[int]:
    """Where to cut rows apart so that what they become is at most `chunk_rows`, or what one row does; there are some.

    `counts` says what each row becomes.
    """
    ends = np.cumsum(counts)
    if ends[-1] <= chunk_rows:
        return [len(ends)]
    found, begin, before = [], 0, 0
    while begin < len(ends):
        end = max(int(np.searchsorted(ends, before + chunk_rows, side="right")), begin + 1)
        found.append(end)
        begin, before = end, int(ends[end - 1])
    return found


def _find_places(found: Positions, kept: Positions, size: int) -> Positions:
    """Where some of these positions, which ascend, are among them."""
    if len(found) * _SPARSE_DIVISOR < size:
        return np.searchsorted(found, kept)
    places = np.empty(size, np.int64)  # only what is asked for is set
    places[found] = np.arange(len(found))
    return places.take(kept)


def _scatter(at: Positions, weight: Counts | None, size: int) -> NDArray[np.bool_] | Counts:
    """By position the weight, none where there is no row."""
    if weight is None:
        mask = np.zeros(size, np.bool_)
        mask[at] = True
        return mask
    dense = np.zeros(size, np.int64)
    dense[at] = weight
    return dense


def _intersect(
    found: Positions | None, weight: Counts | None, others: Positions, other_weight: Counts | None
) -> tuple[Positions, Counts | None]:
    """Rows that are in both, ascending, their weights multiplied."""
    if found is None:
        return others, other_weight
    common, mine, theirs = np.intersect1d(found, others, assume_unique=True, return_indices=True)
    return common, multiply_counts(
        None if weight is None else weight[mine], None if other_weight is None else other_weight[theirs]
    )
