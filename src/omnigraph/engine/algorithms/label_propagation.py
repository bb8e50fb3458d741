"""Label propagation: find communities by giving every node the most frequent label of its neighbours."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.algorithms.network import Network, sum_by_key
from omnigraph.engine.kernels import Check, argsort_stable
from omnigraph.engine.query_budget import Budget


@dataclass(frozen=True, slots=True)
class PropagatedLabels:
    """The label of each node, which is a node; the number of rounds, and whether another would change nothing."""

    values: NDArray[np.int64]
    rounds: int
    is_converged: bool


def propagate_labels(
    network: Network, weights: NDArray[np.float64] | None = None, *, rounds: int, budget: Budget
) -> PropagatedLabels:
    """Propagate labels, all nodes in each round; the smallest of equally frequent labels wins.

    Edges count in both directions, parallel edges each, loops twice; with weights, as much as they weigh. A node
    without neighbours keeps its own label.
    """
    labels = np.arange(network.count)
    near = np.concatenate((network.source, network.target))
    far = np.concatenate((network.target, network.source))
    order = argsort_stable(near, budget.check)
    near = near[order]
    far = far[order]
    counts = np.ones(len(near)) if weights is None else np.concatenate((weights, weights))[order]
    for number in range(1, rounds + 1):
        budget.check()
        new_labels = _find_most_frequent(near, labels[far], counts, labels, budget.check)
        if np.array_equal(new_labels, labels):
            return PropagatedLabels(labels, number, is_converged=True)
        labels = new_labels
    return PropagatedLabels(labels, rounds, is_converged=not len(near))


def _find_most_frequent(
    near: NDArray[np.int64],
    offered: NDArray[np.int64],
    weights: NDArray[np.float64],
    labels: NDArray[np.int64],
    check: Check,
) -> NDArray[np.int64]:
    """Return for each node the label that it is offered most often."""
    if not len(near):
        return labels
    # A key is a pair of node and label in one integer.
    keys, counts = sum_by_key(near * len(labels) + offered, weights, check)
    nodes = keys // len(labels)
    offers = keys % len(labels)
    check()
    # Runs of one node are adjacent and ascend by label, so the first of its most frequent ones is the smallest.
    node_starts = np.flatnonzero(np.concatenate(([True], nodes[1:] != nodes[:-1])))
    max_counts = np.repeat(np.maximum.reduceat(counts, node_starts), np.diff(np.append(node_starts, len(nodes))))
    best = np.flatnonzero(counts == max_counts)
    first = best[np.concatenate(([True], nodes[best][1:] != nodes[best][:-1]))]
    check()
    new_labels = labels.copy()
    new_labels[nodes[first]] = offers[first]
    return new_labels
