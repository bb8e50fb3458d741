"""What a node sends along its edges in each round of an algorithm, and what it makes of what it receives.

A program works on the arrays of one part. Whatever nodes of one part send to the same node is merged before it is
sent, and messages arrive in the order of their senders' parts, so that sums do not depend on the run.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.spark.algorithms.stored_network import Part

Arrays: TypeAlias = Mapping[str, NDArray[Any]]
"""Columns of equal length. Messages have the numbers of their receivers in `node`, ascending."""
Facts: TypeAlias = tuple[float, ...]
"""What a part reports of a round; the driver adds the facts of all parts."""


class Program(Protocol):
    """An algorithm in rounds."""

    @property
    def max_rounds(self) -> int | None:
        """The number of rounds after which it ends in any case."""
        ...

    def start(self, part: Part, ids: pa.Array) -> tuple[Arrays, Facts]:
        """Return the state before the first round."""
        ...

    def send(self, number: int, part: Part, state: Arrays) -> Arrays:
        """Return the messages of a round."""
        ...

    def receive(self, number: int, part: Part, state: Arrays, messages: Arrays, sums: Facts) -> tuple[Arrays, Facts]:
        """Return the state after a round; `sums` are the facts of all parts before it."""
        ...

    def is_over(self, number: int, sums: Facts, before: Facts) -> bool:
        """Return whether a round was the last one, from the facts of it and of the one before."""
        ...

    def finish(self, part: Part, state: Arrays) -> pa.Array:
        """Return the value of each node of the part."""
        ...


@dataclass(frozen=True, slots=True)
class PagerankProgram:
    """The rank of each node. The facts are the change of all ranks, and the rank of nodes without edges."""

    count: int
    damping: float
    tolerance: float
    max_rounds: int | None

    def start(self, part: Part, ids: pa.Array) -> tuple[Arrays, Facts]:
        """Give each node the same rank."""
        del ids
        degree = np.bincount(part.source, minlength=part.size)
        rank = np.full(part.size, 1.0 / self.count)
        return {"rank": rank, "degree": degree}, (1.0, float(np.sum(rank[degree == 0])))

    def send(self, number: int, part: Part, state: Arrays) -> Arrays:
        """Send an equal share of a node's rank along each of its edges."""
        del number
        # A node without edges sends nothing: the divisor is only there to have one.
        shares = np.divide(state["rank"], np.maximum(state["degree"], 1))
        node, passed = _fold(part.target, shares[part.source], np.add)
        return {"node": node, "passed": passed}

    def receive(self, number: int, part: Part, state: Arrays, messages: Arrays, sums: Facts) -> tuple[Arrays, Facts]:
        """Add the shares. The rank of nodes without edges goes to all nodes."""
        del number
        # `bincount` adds in the order of the messages, which is that of the senders: the sum is the same in each run.
        passed = np.bincount(messages["node"] - part.first, weights=messages["passed"], minlength=part.size)
        base = (1.0 - self.damping + self.damping * sums[1]) / self.count
        rank = base + self.damping * passed
        change = float(np.sum(np.abs(rank - state["rank"])))
        return {"rank": rank, "degree": state["degree"]}, (change, float(np.sum(rank[state["degree"] == 0])))

    def is_over(self, number: int, sums: Facts, before: Facts) -> bool:
        """Return whether the ranks have converged."""
        del before
        return number > 0 and sums[0] < self.tolerance

    def finish(self, part: Part, state: Arrays) -> pa.Array:
        """Return the ranks."""
        del part
        return pa.array(state["rank"])


@dataclass(frozen=True, slots=True)
class LabelProgram:
    """The most frequent label of each node's neighbours. The fact is how many labels changed."""

    max_rounds: int | None

    def start(self, part: Part, ids: pa.Array) -> tuple[Arrays, Facts]:
        """Give each node its own label."""
        del ids
        return {"label": np.arange(part.first, part.first + part.size)}, (1.0,)

    def send(self, number: int, part: Part, state: Arrays) -> Arrays:
        """Send a node's label along each of its edges, equal ones as a number."""
        del number
        node, label, count = _count_pairs(part.target, state["label"][part.source], np.ones(len(part.target), np.int64))
        return {"node": node, "label": label, "count": count}

    def receive(self, number: int, part: Part, state: Arrays, messages: Arrays, sums: Facts) -> tuple[Arrays, Facts]:
        """Take the most frequent label, and among equally frequent ones the smallest."""
        del number, sums
        # Several parts may have sent the same label to a node.
        node, label, count = _count_pairs(messages["node"], messages["label"], messages["count"])
        order = np.lexsort((label, -count, node))
        first = order[_find_first(node[order])]
        renewed = np.array(state["label"])
        renewed[node[first] - part.first] = label[first]
        return {"label": renewed}, (float(np.count_nonzero(renewed != state["label"])),)

    def is_over(self, number: int, sums: Facts, before: Facts) -> bool:
        """Return whether no label changed."""
        del before
        return number > 0 and not sums[0]

    def finish(self, part: Part, state: Arrays) -> pa.Array:
        """Return the labels, which are numbers of nodes."""
        del part
        return pa.array(state["label"])


@dataclass(frozen=True, slots=True)
class DistanceProgram:
    """The distance of each node from one: Bellman-Ford. The fact is how many distances fell."""

    start_id: str
    is_weighted: bool
    max_rounds: int | None = None

    @property
    def _unreached(self) -> float | int:
        return np.inf if self.is_weighted else np.iinfo(np.int64).max

    def start(self, part: Part, ids: pa.Array) -> tuple[Arrays, Facts]:
        """Begin at one node, which only one part has."""
        # A part without the start is no mistake: the driver sees the facts of all parts.
        distance = np.full(part.size, self._unreached)
        at = pc.index(ids, self.start_id).as_py()
        is_new = np.arange(part.size) == at
        distance[is_new] = 0
        return {"distance": distance, "is_new": is_new}, (float(at >= 0),)

    def send(self, number: int, part: Part, state: Arrays) -> Arrays:
        """Offer a distance to the neighbours of nodes whose own fell in the last round: no other can be shorter."""
        del number
        chosen = np.flatnonzero(state["is_new"][part.source])
        weight = 1 if part.weight is None else part.weight[chosen]
        offers = state["distance"][part.source[chosen]] + weight
        node, offer = _fold(part.target[chosen], offers, np.minimum)
        return {"node": node, "offer": offer}

    def receive(self, number: int, part: Part, state: Arrays, messages: Arrays, sums: Facts) -> tuple[Arrays, Facts]:
        """Keep the smallest distance."""
        del number, sums
        distance = np.array(state["distance"])
        # Not by index: a node may get offers of several parts, of which an assignment would keep the last.
        np.minimum.at(distance, messages["node"] - part.first, messages["offer"])
        is_new = distance < state["distance"]
        return {"distance": distance, "is_new": is_new}, (float(np.count_nonzero(is_new)),)

    def is_over(self, number: int, sums: Facts, before: Facts) -> bool:
        """Return whether no distance fell."""
        del number, before
        return not sums[0]

    def finish(self, part: Part, state: Arrays) -> pa.Array:
        """Return the distances; null for nodes that can't be reached."""
        del part
        return pa.array(state["distance"], mask=state["distance"] == self._unreached)


@dataclass(frozen=True, slots=True)
class ComponentProgram:
    """The smallest node of each component, by alternating large stars and small stars, in few rounds.

    The state are pairs of a smaller and a larger node of the same component; in the end each node is paired with the
    smallest one alone. The fact is how many pairs were not in their place yet.
    """

    max_rounds: int | None = None

    def start(self, part: Part, ids: pa.Array) -> tuple[Arrays, Facts]:
        """Make a pair of the ends of each edge."""
        del ids
        source = part.source + part.first
        return _pair(np.minimum(source, part.target), np.maximum(source, part.target)), (1.0,)

    def send(self, number: int, part: Part, state: Arrays) -> Arrays:
        """Tell nodes of their neighbours: all of them before a large star, the smaller ones before a small star."""
        del part
        low, high = state["low"], state["high"]
        if _is_small_star(number):
            node, other, _ = _count_pairs(high, low)
        else:
            node, other, _ = _count_pairs(np.concatenate((low, high)), np.concatenate((high, low)))
        return {"node": node, "other": other}

    def receive(self, number: int, part: Part, state: Arrays, messages: Arrays, sums: Facts) -> tuple[Arrays, Facts]:
        """Move neighbours to the smallest: the larger ones in a large star, the smaller ones in a small star."""
        del part, state, sums
        node, other, _ = _count_pairs(messages["node"], messages["other"])
        first = _find_first(node)
        smallest = np.repeat(other[first], np.diff(np.append(first, len(node))))
        if _is_small_star(number):
            # The node itself, once, and its other smaller neighbours.
            is_moved = other != smallest
            low = np.concatenate((smallest[first], smallest[is_moved]))
            high = np.concatenate((node[first], other[is_moved]))
            return _pair(low, high), (float(np.count_nonzero(is_moved)),)
        # The node itself counts, too: a node that is smaller than its neighbours keeps them.
        least = np.minimum(node, smallest)
        is_larger = other > node
        changes = np.count_nonzero(is_larger & (least < node))
        return _pair(least[is_larger], other[is_larger]), (float(changes),)

    def is_over(self, number: int, sums: Facts, before: Facts) -> bool:
        """Return whether neither star moved a pair."""
        return number > 0 and _is_small_star(number) and not sums[0] and not before[0]

    def finish(self, part: Part, state: Arrays) -> pa.Array:
        """Return the smallest node of the component of each."""
        # A node without a pair is the smallest of its component, or alone in it.
        smallest = np.arange(part.first, part.first + part.size)
        smallest[state["high"] - part.first] = state["low"]
        return pa.array(smallest)


def _is_small_star(number: int) -> bool:
    return number % 2 == 0


def _pair(low: NDArray[Any], high: NDArray[Any]) -> Arrays:
    is_pair = low < high
    low, high, _ = _count_pairs(low[is_pair], high[is_pair])
    return {"low": low, "high": high}


def _find_first(values: NDArray[Any]) -> NDArray[np.int64]:
    """Return where each run of equal values begins."""
    if not len(values):
        return np.zeros(0, np.int64)
    return np.flatnonzero(np.append(True, values[1:] != values[:-1]))


def _fold(keys: NDArray[Any], values: NDArray[Any], merge: np.ufunc) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the distinct keys, which ascend, and the values of each merged."""
    first = _find_first(keys)
    return keys[first], merge.reduceat(values, first) if len(first) else values[:0]


def _count_pairs(
    left: NDArray[Any], right: NDArray[Any], counts: NDArray[Any] | None = None
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return the distinct pairs in order, and the sum of their counts."""
    # By the left value first: `lexsort` takes its last key as the first.
    order = np.lexsort((right, left))
    left, right = left[order], right[order]
    counts = np.ones(len(left), np.int64) if counts is None else counts[order]
    if not len(left):
        return left, right, counts
    first = np.flatnonzero(np.append(True, (left[1:] != left[:-1]) | (right[1:] != right[:-1])))
    return left[first], right[first], np.add.reduceat(counts, first)
