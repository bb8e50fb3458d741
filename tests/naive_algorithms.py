"""The algorithms, done the slow and obvious way over plain pairs: what the fast ones are compared with."""

import heapq
import math
from collections import Counter
from collections.abc import Sequence
from itertools import combinations

Pair = tuple[int, int]


def naive_pagerank(size: int, edges: Sequence[Pair], damping: float, rounds: int) -> list[float]:
    """So many rounds, edge by edge."""
    ranks = [1 / size] * size
    degrees = Counter(source for source, _ in edges)
    for _ in range(rounds):
        lost = sum(ranks[node] for node in range(size) if not degrees[node])
        renewed = [(1 - damping) / size + damping * lost / size] * size
        for source, target in edges:
            renewed[target] += damping * ranks[source] / degrees[source]
        ranks = renewed
    return ranks


def naive_components(size: int, edges: Sequence[Pair]) -> list[int]:
    """The smallest node that each reaches."""
    found = []
    for node in range(size):
        seen, waiting = {node}, [node]
        while waiting:
            at = waiting.pop()
            for pair in edges:
                for near, far in (pair, pair[::-1]):
                    if near == at and far not in seen:
                        seen.add(far)
                        waiting.append(far)
        found.append(min(seen))
    return found


def naive_labels(size: int, edges: Sequence[Pair], rounds: int) -> list[int]:
    """Every node asks its neighbours, round by round."""
    labels = list(range(size))
    for _ in range(rounds):
        renewed = list(labels)
        for node in range(size):
            offered = Counter(labels[far] for pair in edges for near, far in (pair, pair[::-1]) if near == node)
            if offered:
                renewed[node] = min(offered, key=lambda label: (-offered[label], label))
        labels = renewed
    return labels


def naive_distances(size: int, edges: Sequence[Pair], weights: Sequence[float], start: int) -> list[float]:
    """Dijkstra's algorithm along the direction of the edges."""
    found = [math.inf] * size
    waiting = [(0.0, start)]
    while waiting:
        distance, node = heapq.heappop(waiting)
        if distance >= found[node]:
            continue
        found[node] = distance
        for (source, target), weight in zip(edges, weights, strict=True):
            if source == node:
                heapq.heappush(waiting, (distance + weight, target))
    return found


def naive_triangles(size: int, edges: Sequence[Pair]) -> list[int]:
    """Every three nodes are looked at."""
    sides = {frozenset(pair) for pair in edges}
    found = [0] * size
    for three in combinations(range(size), 3):
        if all(frozenset(side) in sides for side in combinations(three, 2)):
            for node in three:
                found[node] += 1
    return found
