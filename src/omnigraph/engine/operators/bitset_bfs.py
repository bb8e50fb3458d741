"""Breadth-first search in a dense graph: the neighbours of a node are a bitset, and a step is a union of bitsets.

The result is the same as that of `run_bfs`. Where nodes have many neighbours, handling sixty-four of them per word is
faster than handling each, and counting the reached nodes needs no list of them.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.engine.cut_off import CutOff
from omnigraph.engine.operators.multiplicity import Counts
from omnigraph.engine.operators.neighbour_lists import AdjacencyLists
from omnigraph.engine.query_budget import Budget

Bits = NDArray[np.uint64]

# Limit of the memory for the bitsets of all nodes.
MAX_BITSET_BYTES = 1 << 25
# Sparser graphs, whose bitsets have more words than this per neighbour of an average node, are searched by lists.
MAX_WORDS_PER_NEIGHBOUR = 2.0
# Bitsets are built once a search expects this number of neighbours of neighbours.
MIN_WORK = 1 << 22
# Unions can't detect longer undirected cycles: they don't record through which neighbour a node was reached.
MAX_UNDIRECTED_HOPS = 3
_WORD_BITS = 64
# Rows that are united, or built, in one operation.
_CHUNK_ROWS = 256
_BUDGET_LABEL = "a hop over several edges"


def is_dense(lists: AdjacencyLists, size: int, sources: int, high: int, *, is_directed: bool) -> bool:
    """Return whether bitsets pay off for a search from `sources` nodes.

    `lists` has a list for every node, with each neighbour once.
    """
    if not size or (high > MAX_UNDIRECTED_HOPS and not is_directed):
        return False
    words = -(-size // _WORD_BITS)
    degree = len(lists.targets) / size
    return (
        estimate_bitset_bytes(size) <= MAX_BITSET_BYTES
        and words <= MAX_WORDS_PER_NEIGHBOUR * degree
        and sources * degree * degree >= MIN_WORK
    )


def estimate_bitset_bytes(size: int) -> int:
    """Return the memory that the bitsets of `size` nodes take."""
    return size * -(-size // _WORD_BITS) * 8


class BitsetBfs:
    """The adjacency of all nodes as bitsets, for searches along edges or, without `is_directed`, both ways."""

    def __init__(
        self,
        lists: AdjacencyLists,
        size: int,
        budget: Budget,
        *,
        is_directed: bool,
        cut_off: CutOff | None = None,
    ) -> None:
        self.size = size
        self._cut_off = cut_off
        self.is_directed = is_directed
        self._budget = budget
        self._words = -(-size // _WORD_BITS)
        self._rows = np.zeros((size, self._words), np.uint64)
        for begin in range(0, size, _CHUNK_ROWS):
            budget.check()
            end = min(begin + _CHUNK_ROWS, size)
            edges = slice(int(lists.starts[begin]), int(lists.starts[end]))
            row_numbers = np.repeat(np.arange(end - begin), np.diff(lists.starts[begin : end + 1]))
            self._rows[begin:end] = self._pack(row_numbers, lists.targets[edges], end - begin)
        self._all_nodes = self._pack(np.zeros(0, np.int64), np.arange(size), 1)[0]
        nodes = np.arange(size)
        # Word and bit of each node within a bitset.
        self._word = nodes // _WORD_BITS
        self._bit = np.uint64(1) << (nodes % _WORD_BITS).astype(np.uint64)
        self._has_loop = (self._rows[nodes, self._word] & self._bit) != 0
        if not is_directed:
            # Undirected, only a cycle leads a node back to itself, and `_search_undirected` adds those.
            self._rows[nodes, self._word] &= ~self._bit

    def count_reached(self, sources: Positions, low: int, high: int, mask: NDArray[np.bool_] | None) -> Counts:
        """Return, for each source, how many nodes of the mask have a distance within the bounds."""
        mask_bits = None if mask is None else self._pack(np.zeros(0, np.int64), np.flatnonzero(mask), 1)[0]
        counts = np.empty(len(sources), np.int64)
        for begin, reached in self._iter_reached(sources, low, high):
            selected = reached if mask_bits is None else reached & mask_bits
            counts[begin : begin + len(selected)] = np.bitwise_count(selected).sum(axis=1)
        return counts

    def list_reached(self, sources: Positions, low: int, high: int) -> AdjacencyLists:
        """Return, for distinct ascending sources, the nodes whose distance is within the bounds."""
        target_parts, count_parts, claimed = [], [], 0
        for _, reached in self._iter_reached(sources, low, high):
            counts = np.bitwise_count(reached).sum(axis=1, dtype=np.int64)
            # Eight bytes per target now, and eight more when the parts are concatenated.
            nbytes = int(counts.sum()) * 16
            self._budget.claim(nbytes, _BUDGET_LABEL)
            claimed += nbytes
            bits = np.unpackbits(reached.view(np.uint8), axis=1, bitorder="little")
            target_parts.append(np.nonzero(bits)[1])
            count_parts.append(counts)
        starts = np.zeros(len(sources) + 1, np.int64)
        np.cumsum(np.concatenate([np.zeros(0, np.int64), *count_parts]), out=starts[1:])
        targets = np.concatenate([np.zeros(0, np.int64), *target_parts])
        self._budget.release(claimed)
        return AdjacencyLists(starts, targets, None, sources)

    def _pack(self, row_numbers: Positions, targets: Positions, rows: int) -> Bits:
        """Return bitsets with the bits of `targets` set; without row numbers, all in the first one."""
        bits = np.zeros((rows, self._words * _WORD_BITS), np.bool_)
        bits[row_numbers if len(row_numbers) else 0, targets] = True
        return np.packbits(bits, axis=1, bitorder="little").view(np.uint64)

    def _iter_reached(self, sources: Positions, low: int, high: int) -> Iterator[tuple[int, Bits]]:
        """Yield the bitsets of the nodes that some sources reach, with the number of the first of these sources."""
        search = self._search_directed if self.is_directed else self._search_undirected
        for begin in range(0, len(sources), _CHUNK_ROWS):
            self._budget.check()
            part = sources[begin : begin + _CHUNK_ROWS].tolist()
            yield begin, np.stack([search(source, low, high) for source in part])

    def _search_directed(self, source: int, low: int, high: int) -> Bits:
        # The source itself is not marked as seen: a cycle may lead back to it.
        level: Bits = self._rows[source]
        seen: Bits = level.copy()
        result: Bits = level.copy() if low <= 1 else np.zeros_like(level)
        word, bit = self._word[source], self._bit[source]
        if low == 0:
            # The source reaches itself without a cycle.
            seen[word] |= bit
            result[word] |= bit
        for distance in range(2, high + 1):
            level = self._find_new(level, seen)
            if not level.any():
                break
            seen |= level
            if distance >= low:
                result |= level
        self._detect_cut_off(level, seen)
        return result

    def _search_undirected(self, source: int, low: int, high: int) -> Bits:
        level: Bits = self._rows[source]
        first = level
        seen: Bits = level.copy()
        result: Bits = level.copy() if low <= 1 else np.zeros_like(level)
        word, bit = self._word[source], self._bit[source]
        seen[word] |= bit
        cycle = 1 if self._has_loop[source] else high + 1
        for distance in range(2, high + 1):
            if distance == 2 and high > 2 and (self._find_new(level, ~first) & first).any():
                # Two neighbours of the source are neighbours of each other: a triangle.
                cycle = min(cycle, 3)
            level = self._find_new(level, seen)
            if not level.any():
                break
            seen |= level
            if distance >= low:
                result |= level
        self._detect_cut_off(level, seen)
        if low == 0 or low <= cycle <= high:
            result[word] |= bit
        return result

    def _detect_cut_off(self, level: Bits, seen: Bits) -> None:
        """Record whether the last level, empty if the search ended before its bound, has a neighbour not seen yet."""
        cut_off = self._cut_off
        if cut_off is not None and cut_off.is_open:
            cut_off.is_found = bool(self._find_new(level, seen).any())

    def _find_new(self, level: Bits, seen: Bits) -> Bits:
        """Return the neighbours of all nodes of a level that were not seen yet."""
        missing = self._all_nodes & ~seen
        nodes = np.flatnonzero(np.unpackbits(level.view(np.uint8), bitorder="little"))
        new: Bits = np.zeros_like(level)
        for begin in range(0, len(nodes), _CHUNK_ROWS):
            new |= np.bitwise_or.reduce(self._rows[nodes[begin : begin + _CHUNK_ROWS]], axis=0)
            if not (missing & ~new).any():
                # All missing nodes are reached: the remaining rows can't add any.
                break
        new &= missing
        return new
