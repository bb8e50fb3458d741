"""Which rows a node variable can be, and how many matches its branches have there: one question for every operator."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.bindings import Bindings, Positions
from omnigraph.engine.execution_context import Reading
from omnigraph.engine.operators.csr_sums import list_sums
from omnigraph.engine.operators.distinct import distinct
from omnigraph.engine.operators.edge_access import Links
from omnigraph.engine.operators.filter import rows_where
from omnigraph.engine.operators.multiplicity import (
    Counts,
    multiplied,
    segment_sums,
    summed,
    sums_by_position,
    sums_of_equal,
)
from omnigraph.engine.physical_plan import AntiJoin, Branch, Node, Travel

Block: TypeAlias = Callable[[AntiJoin, Bindings], NDArray[np.bool_]]
"""Which rows a `not` block keeps."""

CHUNK_ROWS = 1 << 21
"""How many rows one vectorised operation makes at most, where it can be split."""
_ROW_BYTES = 16
"""What a neighbour takes while it is counted."""
_SPARSE = 16
"""Below this share of a table's rows, sums are made by sorting and not in an array of its size."""
_FEW = 4
"""Below this share of a table's rows, only what is asked for is worked out."""
_MOST = 3
"""From this share of all neighbours on, going through all lists in their order is faster than gathering some."""
_DENSE = 2
"""Rows that fail are left out between two branches when no more than this share of them pass."""


class Candidates:
    """The rows that a node of a plan can be bound to. What was worked out for a whole table is kept for the run."""

    def __init__(
        self, node: Node, reading: Reading, block: Block, *, counts: bool, chunk_rows: int = CHUNK_ROWS
    ) -> None:
        self.node, self._reading, self._block, self._counts = node, reading, block, counts
        self._chunk_rows = chunk_rows
        self._rows = reading.rows(node.type)
        self._branches = [
            _BranchRun(
                branch,
                Links(branch.link, reading),
                Candidates(branch.node, reading, block, counts=counts, chunk_rows=chunk_rows),
            )
            for branch in node.branches
        ]
        self._asked = 0
        self._dense: NDArray[np.bool_] | Counts | None = None

    @property
    def size(self) -> int:
        """How many positions its table has."""
        return self._rows.size

    def all(self) -> tuple[Positions, Counts | None]:
        """Every row that passes, ascending, and the weight of each."""
        return self._passing(None)

    def weigh(self, positions: Positions) -> NDArray[np.bool_] | Counts | None:
        """How many matches each of these rows, in any order, stands for, none if it fails; None: one each.

        Truths when only existence counts, or when no branch makes it more than one.
        """
        if self.node.is_free:
            return None
        self._asked += len(positions)
        if self._dense is not None or self._asked * _FEW >= self.size:
            return self.by_position().take(positions)
        each = positions if bool((positions[1:] > positions[:-1]).all()) else distinct(positions)
        found, weight = self._passing(each)
        weighed = _spread(_places(each, found, self.size), weight, len(each))
        return weighed if each is positions else weighed.take(_places(each, positions, self.size))

    def by_position(self) -> NDArray[np.bool_] | Counts:
        """As `weigh`, of every row; there is something to weigh."""
        if self._dense is None:
            self._dense = self._counted_everywhere()
        if self._dense is None:
            self._dense = _spread(*self._passing(None), self.size)
        return self._dense

    def _counted_everywhere(self) -> NDArray[np.bool_] | Counts | None:
        """The weights of all rows, where nothing but branches that start here decides; None where more does."""
        node, pulled = self.node, [run for run in self._branches if run.branch.travel is Travel.PULL]
        is_bare = not node.filters and not node.absent and len(pulled) == len(self._branches)
        if not is_bare or self._rows.count < self.size:
            return None
        counted: Counts | None = None
        for run in pulled:
            counted = multiplied(counted, self._pulled(run, self._rows.positions()))
        return counted if counted is None or self._counts else counted > 0

    def _passing(self, demand: Positions | None) -> tuple[Positions, Counts | None]:
        """The rows of the demand (ascending; None: of the table) that pass, and their weights."""
        found, weight = demand, None
        for run in self._branches:
            if run.branch.travel is Travel.PUSH:
                run.pushed = run.pushed or self._pushed(run)
                found, weight = _both(found, weight, *run.pushed)
        if self.node.filters:
            kept = rows_where(self.node.filters, self.node.type, found, self._reading)
            if weight is not None and found is not None:
                weight = weight.take(_places(found, kept, self.size))
            found = kept
        found = self._rows.positions() if found is None else found
        found, weight = self._pull(found, weight)
        for block in self.node.absent:
            if len(found):
                mask = self._block(block, Bindings({self.node.variable: found}, len(found)))
                found, weight = found[mask], None if weight is None else weight[mask]
        return found, weight

    def _pull(self, found: Positions, weight: Counts | None) -> tuple[Positions, Counts | None]:
        """What the branches that are worked out from here leave of some rows, which ascend, and their weights.

        Rows that fail stay, with no weight, until leaving them out pays: behind most hops nearly all rows pass.
        """
        counted: Counts | None = None
        for run in self._branches:
            if run.branch.travel is Travel.PULL and len(found):
                own = self._pulled(run, found)
                counted = multiplied(counted, own if self._counts else (own > 0).astype(np.int64))
                if counted is not None and np.count_nonzero(counted) * _DENSE <= len(found):
                    found, weight, counted = self._left(found, weight, counted)
        return (found, weight) if counted is None else self._left(found, weight, counted)[:2]

    def _left(self, found: Positions, weight: Counts | None, counted: Counts) -> tuple[Positions, Counts | None, None]:
        """The rows whose branches have a match, and their weights."""
        if not counted.all():
            at = np.flatnonzero(counted)
            found, counted = found.take(at), counted.take(at)
            weight = None if weight is None else weight.take(at)
        return found, multiplied(weight, counted) if self._counts else None, None

    # --- branches -----------------------------------------------------------------------------------

    def _pulled(self, run: "_BranchRun", positions: Positions) -> Counts:
        """For each of these rows, which ascend, how many matches the branch has there."""
        link = run.branch.link
        if run.candidates.node.is_free and not link.filters and not link.is_multi:
            lists = run.links.neighbours(positions)
            is_every = lists.sources is None and len(positions) == len(lists.starts) - 1
            return np.diff(lists.starts) if is_every else lists.counts(positions)
        if link.filters and run.links.is_in_memory and len(positions) * _FEW >= self.size:
            return self._by_edges(run)[positions]
        if run.is_most(run.links, positions):
            return self._swept(run, run.candidates.by_position()).take(positions)
        if link.is_multi:
            counted = self._reached(run, positions)
            if counted is not None:
                return counted
        parts = [self._summed(run, part) for part in run.split(positions, self._chunk_rows)]
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)

    def _reached(self, run: "_BranchRun", positions: Positions) -> Counts | None:
        """As `_pulled` over several edges, without listing who is reached; None where they have to be listed."""
        if run.candidates.node.is_free:
            return run.links.reach_counts(positions, None)
        weighed = run.candidates.by_position()
        if weighed.dtype != np.bool_:
            return None
        return run.links.reach_counts(positions, weighed.astype(np.bool_, copy=False))

    def _swept(self, run: "_BranchRun", weighed: NDArray[np.bool_] | Counts) -> Counts:
        """For every row, the sum of what is known of the far ends that it has."""
        lists = run.links.whole()
        return list_sums(lists.starts, lists.targets, weighed, self._reading.budget.check)

    def _summed(self, run: "_BranchRun", positions: Positions) -> Counts:
        gathered = run.links.gather(positions)
        weighed = run.candidates.weigh(gathered.targets)
        return gathered.counts if weighed is None else segment_sums(weighed, gathered.counts)

    def _by_edges(self, run: "_BranchRun") -> Counts:
        """As `_pulled` for every row, starting with the edges that pass."""
        needed = self._reading.rows(run.branch.link.edge).size * _ROW_BYTES
        self._reading.budget.claim(needed, f"the edges of {run.branch.link.edge}")
        sums = np.zeros(self.size, np.int64)
        for near, far in run.links.ends():
            self._reading.budget.check()
            weighed = run.candidates.weigh(far)
            if weighed is None:
                added = sums_by_position(near, None, self.size)
            elif weighed.dtype == np.bool_:
                added = sums_by_position(near[weighed], None, self.size)
            else:
                added = sums_by_position(near, weighed.astype(np.int64, copy=False), self.size)
            sums = summed(sums, added)
        self._reading.budget.release(needed)
        return sums

    def _pushed(self, run: "_BranchRun") -> tuple[Positions, Counts | None]:
        """The rows that the branch leads to, ascending, and how often."""
        far, weight = run.candidates.all()
        back = run.links.reversed()
        if run.is_most(back, far):
            return self._led_to(self._swept(run, _spread(far, weight, run.candidates.size)))
        sums: Counts | None = None
        for begin, part in _BranchRun(run.branch, back, run.candidates).numbered(far, self._chunk_rows):
            gathered = back.gather(part)
            spread = None if weight is None else np.repeat(weight[begin : begin + len(part)], gathered.counts)
            if begin == 0 and len(part) == len(far) and len(gathered.targets) * _SPARSE < self.size:
                found, counted = sums_of_equal(gathered.targets.astype(np.int64, copy=False), spread)
                is_one_each = not self._counts or counted.max(initial=1) == 1
                return found, None if is_one_each else counted
            added = sums_by_position(gathered.targets, spread, self.size)
            sums = added if sums is None else summed(sums, added)
        return (np.zeros(0, np.int64), None) if sums is None else self._led_to(sums)

    def _led_to(self, sums: Counts) -> tuple[Positions, Counts | None]:
        """The rows that have a sum, and their weights, unless each one counts once."""
        found = np.flatnonzero(sums)
        if not self._counts:
            return found, None
        weight = sums.take(found)
        return found, None if len(weight) and weight.max() == 1 else weight


class _BranchRun:
    """A branch while it runs."""

    def __init__(self, branch: Branch, links: Links, candidates: Candidates) -> None:
        self.branch, self.links, self.candidates = branch, links, candidates
        self.pushed: tuple[Positions, Counts | None] | None = None
        """Where its far end leads, once that is known."""

    def is_most(self, links: Links, positions: Positions) -> bool:
        """Whether these nodes have so many of all neighbours along the hop, in one direction, that no list is skipped.

        Only where no edge is filtered, and where both directions are in memory or soon are.
        """
        if self.branch.link.filters or not links.is_in_memory or len(positions) * _MOST < links.near_size:
            return False
        return int(links.whole().counts(positions).sum()) * _MOST >= len(links.whole().targets)

    def split(self, positions: Positions, chunk_rows: int) -> Iterator[Positions]:
        """Parts of ascending positions whose neighbours are not too many at once."""
        return (part for _, part in self.numbered(positions, chunk_rows))

    def numbered(self, positions: Positions, chunk_rows: int) -> Iterator[tuple[int, Positions]]:
        """The parts, each with the number of its first position."""
        begin = 0
        for end in cuts(self.links, positions, chunk_rows):
            yield begin, positions[begin:end]
            begin = end


def cuts(links: Links, positions: Positions, chunk_rows: int) -> list[int]:
    """Where to cut rows apart so that the neighbours of a part are at most `chunk_rows`, or those of one row."""
    if not len(positions):
        return []
    if links.link.is_multi or links.is_indexed:
        step = max(1, int(chunk_rows / max(links.link.fan_out, 1.0)))
        return [*range(step, len(positions), step), len(positions)]
    return cut_by(links.whole().counts(positions), chunk_rows)


def cut_by(counts: NDArray[np.int64], chunk_rows: int) -> list[int]:
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


def _places(found: Positions, kept: Positions, size: int) -> Positions:
    """Where some of these positions, which ascend, are among them."""
    if len(found) * _SPARSE < size:
        return np.searchsorted(found, kept)
    places = np.empty(size, np.int64)  # only what is asked for is set
    places[found] = np.arange(len(found))
    return places.take(kept)


def _spread(at: Positions, weight: Counts | None, size: int) -> NDArray[np.bool_] | Counts:
    """By position the weight, none where there is no row."""
    if weight is None:
        mask = np.zeros(size, np.bool_)
        mask[at] = True
        return mask
    dense = np.zeros(size, np.int64)
    dense[at] = weight
    return dense


def _both(
    found: Positions | None, weight: Counts | None, others: Positions, other_weight: Counts | None
) -> tuple[Positions, Counts | None]:
    """Rows that are in both, ascending, their weights multiplied."""
    if found is None:
        return others, other_weight
    common, mine, theirs = np.intersect1d(found, others, assume_unique=True, return_indices=True)
    return common, multiplied(
        None if weight is None else weight[mine], None if other_weight is None else other_weight[theirs]
    )
