"""Several hops in a dense graph: the neighbours of a node are a row of bits, and a step is the union of rows.

The same pairs as `reach` finds. Where nodes have many neighbours, looking at sixty-four of them at once is faster than
looking at each, and how many were reached is known without listing them.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.engine.operators.multiplicity import Counts
from omnigraph.engine.operators.neighbour_lists import AdjacencyLists
from omnigraph.engine.query_budget import Budget

Bits = NDArray[np.uint64]

MAX_BITSET_BYTES = 1 << 25
"""The most that the rows of all nodes may take."""
MAX_WORDS_PER_NEIGHBOUR = 2.0
"""A row has at most so many words for each neighbour of an average node."""
MIN_WORK = 1 << 22
"""The rows are made for at least so many neighbours of neighbours."""
MAX_UNDIRECTED_HOPS = 3
"""A longer cycle without direction is not told by unions."""
_WORD_BITS = 64
_CHUNK_ROWS = 256
"""How many rows are united, or made, together."""
_BUDGET_LABEL = "a hop over several edges"


def is_dense(lists: AdjacencyLists, size: int, sources: int, high: int, *, is_directed: bool) -> bool:
    """Whether rows of bits pay for a search from so many nodes; `lists` has one of every node, each neighbour once."""
    if not size or (high > MAX_UNDIRECTED_HOPS and not is_directed):
        return False
    words, degree = -(-size // _WORD_BITS), len(lists.targets) / size
    return (
        estimate_bitset_bytes(size) <= MAX_BITSET_BYTES
        and words <= MAX_WORDS_PER_NEIGHBOUR * degree
        and sources * degree * degree >= MIN_WORK
    )


def estimate_bitset_bytes(size: int) -> int:
    """What the rows of so many nodes take."""
    return size * -(-size // _WORD_BITS) * 8


class BitsetBfs:
    """The neighbours of every node as bits, for searches in one direction or, `not is_directed`, in both."""

    def __init__(self, lists: AdjacencyLists, size: int, budget: Budget, *, is_directed: bool) -> None:
        self.size, self.is_directed = size, is_directed
        self._budget, self._words = budget, -(-size // _WORD_BITS)
        self._rows = np.zeros((size, self._words), np.uint64)
        for begin in range(0, size, _CHUNK_ROWS):
            budget.check()
            end = min(begin + _CHUNK_ROWS, size)
            some = slice(int(lists.starts[begin]), int(lists.starts[end]))
            places = np.repeat(np.arange(end - begin), np.diff(lists.starts[begin : end + 1]))
            self._rows[begin:end] = self._pack(places, lists.targets[some], end - begin)
        self._every = self._pack(np.zeros(0, np.int64), np.arange(size), 1)[0]
        own = np.arange(size)
        self._word, self._bit = own // _WORD_BITS, np.uint64(1) << (own % _WORD_BITS).astype(np.uint64)
        self._has_loop = (self._rows[own, self._word] & self._bit) != 0
        if not is_directed:  # a step back, or on the spot, is none: only a cycle leads a node to itself
            self._rows[own, self._word] &= ~self._bit

    def count_reached(self, sources: Positions, low: int, high: int, mask: NDArray[np.bool_] | None) -> Counts:
        """For each source how many nodes, of those in the mask, have a distance within the bounds."""
        wanted = None if mask is None else self._pack(np.zeros(0, np.int64), np.flatnonzero(mask), 1)[0]
        found = np.empty(len(sources), np.int64)
        for begin, reached in self._iter_reached(sources, low, high):
            asked = reached if wanted is None else reached & wanted
            found[begin : begin + len(asked)] = np.bitwise_count(asked).sum(axis=1)
        return found

    def list_reached(self, sources: Positions, low: int, high: int) -> AdjacencyLists:
        """For distinct ascending sources, the nodes whose distance is within the bounds."""
        targets, counts, claimed = [], [], 0
        for _, reached in self._iter_reached(sources, low, high):
            own = np.bitwise_count(reached).sum(axis=1, dtype=np.int64)
            needed = int(own.sum()) * 16
            self._budget.claim(needed, _BUDGET_LABEL)
            claimed += needed
            bits = np.unpackbits(reached.view(np.uint8), axis=1, bitorder="little")
            targets.append(np.nonzero(bits)[1])
            counts.append(own)
        starts = np.zeros(len(sources) + 1, np.int64)
        np.cumsum(np.concatenate([np.zeros(0, np.int64), *counts]), out=starts[1:])
        found = np.concatenate([np.zeros(0, np.int64), *targets])
        self._budget.release(claimed)
        return AdjacencyLists(starts, found, None, sources)

    def _pack(self, places: Positions, targets: Positions, rows: int) -> Bits:
        """Rows of bits of which some are set; without places, those of the only row."""
        bits = np.zeros((rows, self._words * _WORD_BITS), np.bool_)
        bits[places if len(places) else 0, targets] = True
        return np.packbits(bits, axis=1, bitorder="little").view(np.uint64)

    def _iter_reached(self, sources: Positions, low: int, high: int) -> Iterator[tuple[int, Bits]]:
        """The nodes that some sources reach, a row each, and the number of the first of these sources."""
        search = self._search_directed if self.is_directed else self._search_undirected
        for begin in range(0, len(sources), _CHUNK_ROWS):
            self._budget.check()
            part = sources[begin : begin + _CHUNK_ROWS].tolist()
            yield begin, np.stack([search(source, low, high) for source in part])

    def _search_directed(self, source: int, low: int, high: int) -> Bits:
        level: Bits = self._rows[source]  # whether it reaches itself is not known yet: a cycle may lead back
        seen: Bits = level.copy()
        found: Bits = level.copy() if low <= 1 else np.zeros_like(level)
        for distance in range(2, high + 1):
            level = self._find_new(level, seen)
            if not level.any():
                break
            seen |= level
            if distance >= low:
                found |= level
        return found

    def _search_undirected(self, source: int, low: int, high: int) -> Bits:
        level: Bits = self._rows[source]
        first = level
        seen: Bits = level.copy()
        found: Bits = level.copy() if low <= 1 else np.zeros_like(level)
        word, bit = self._word[source], self._bit[source]
        seen[word] |= bit
        cycle = 1 if self._has_loop[source] else high + 1
        for distance in range(2, high + 1):
            if distance == 2 and high > 2 and (self._find_new(level, ~first) & first).any():
                cycle = min(cycle, 3)  # two of its neighbours are neighbours
            level = self._find_new(level, seen)
            if not level.any():
                break
            seen |= level
            if distance >= low:
                found |= level
        if low <= cycle <= high:
            found[word] |= bit
        return found

    def _find_new(self, level: Bits, seen: Bits) -> Bits:
        """The neighbours of all nodes of a row that were not seen; looks no further once there can be no more."""
        missing = self._every & ~seen
        nodes = np.flatnonzero(np.unpackbits(level.view(np.uint8), bitorder="little"))
        found: Bits = np.zeros_like(level)
        for begin in range(0, len(nodes), _CHUNK_ROWS):
            found |= np.bitwise_or.reduce(self._rows[nodes[begin : begin + _CHUNK_ROWS]], axis=0)
            if not (missing & ~found).any():
                break
        found &= missing
        return found
