"""Label propagation: communities, by every node taking the label that most of its neighbours have."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.algorithms.network import Network
from omnigraph.engine.kernels import Check, argsort_stable, sort_values
from omnigraph.engine.query_budget import Budget


@dataclass(frozen=True, slots=True)
class PropagatedLabels:
    """By node the node whose label it has; how many rounds it took, and whether another would change nothing."""

    values: NDArray[np.int64]
    rounds: int
    is_converged: bool


def propagate_labels(network: Network, *, rounds: int, budget: Budget) -> PropagatedLabels:
    """All nodes at once, round by round; of several labels that are as frequent, the smallest.

    Edges count in both directions, parallel ones as often as they are, loops twice. A node without neighbours keeps
    its own label.
    """
    labels = np.arange(network.count)
    near = np.concatenate((network.source, network.target))
    far = np.concatenate((network.target, network.source))
    order = argsort_stable(near, budget.check)
    near, far = near[order], far[order]
    for number in range(1, rounds + 1):
        budget.check()
        renewed = _find_most_frequent(near, labels[far], labels, budget.check)
        if np.array_equal(renewed, labels):
            return PropagatedLabels(labels, number, is_converged=True)
        labels = renewed
    return PropagatedLabels(labels, rounds, is_converged=not len(near))


def _find_most_frequent(
    near: NDArray[np.int64], offered: NDArray[np.int64], labels: NDArray[np.int64], check: Check
) -> NDArray[np.int64]:
    """By node the label that it is offered most often."""
    if not len(near):
        return labels
    keys = sort_values(near * len(labels) + offered, check)
    starts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    counts = np.diff(np.concatenate((starts, [len(keys)])))
    nodes, offers = keys[starts] // len(labels), keys[starts] % len(labels)
    check()
    # Runs of one node stand together and ascend by label, so the first of its most frequent ones is the smallest.
    begins = np.flatnonzero(np.concatenate(([True], nodes[1:] != nodes[:-1])))
    most = np.repeat(np.maximum.reduceat(counts, begins), np.diff(np.append(begins, len(nodes))))
    best = np.flatnonzero(counts == most)
    first = best[np.concatenate(([True], nodes[best][1:] != nodes[best][:-1]))]
    check()
    renewed = labels.copy()
    renewed[nodes[first]] = offers[first]
    return renewed
