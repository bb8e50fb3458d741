"""The walks of random small graphs are those of the plain model, from either end and between pairs."""

import random
from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.clock import SystemClock
from omnigraph.engine.operators.neighbour_lists import AdjacencyLists, merge_directions
from omnigraph.engine.operators.walks import solve_walks
from omnigraph.engine.operators.walks.solve_walks import WalkBounds, solve_from, solve_pairs
from omnigraph.engine.operators.walks.walk_graph import IdOrder, WalkGraph
from omnigraph.engine.operators.walks.walk_list import WalkList
from omnigraph.engine.query_budget import Budget, QueryMemoryError, QueryTimeoutError
from omnigraph.engine.tables.csr import build_csr
from omnigraph.query.walk_plan import WalkKind
from walk_model import ModelEdge, ModelWalk, choose_walks, iter_walks

# Sums of these differ in the last bit by the order of addition, and the difference can vanish in the next addition.
WEIGHTS: list[list[float | int]] = [[0, 1, 2], [1], [0.1, 0.2, 0.3, 0.7, 1.0, 100.0], [0.0, 0.1, 1e17]]


class World:
    """A random graph as the model and as arrays; ids are in another order than positions."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        size = rng.randint(1, 5)
        count = rng.randint(0, 8)
        self.rng = rng
        self.node_ids = rng.sample([f"n{number}" for number in range(size)], size)
        self.edge_ids = rng.sample([f"e{number}" for number in range(count)], count)
        weights = rng.choice(WEIGHTS)
        self.edges = [
            ModelEdge(edge, rng.choice(self.node_ids), rng.choice(self.node_ids), rng.choice(weights))
            for edge in self.edge_ids
        ]
        self.is_undirected = rng.random() < 0.5
        self.inner = {node for node in self.node_ids if rng.random() < 0.7} if rng.random() < 0.4 else None
        # The model has no end of its own: no walk without a repeated edge is longer than all edges.
        self.high = rng.choice([None, 0, 1, 2, 3, 6])
        self.low = rng.randint(0, min(2, 2 if self.high is None else self.high))

    def build_graph(self, budget: Budget | None = None) -> WalkGraph:
        at = {node: position for position, node in enumerate(self.node_ids)}
        sources = np.array([at[edge.source] for edge in self.edges], np.int64)
        targets = np.array([at[edge.target] for edge in self.edges], np.int64)
        size = len(self.node_ids)
        out, into = (build_csr(*ends, size, size) for ends in ((sources, targets), (targets, sources)))
        onward, back = (AdjacencyLists(csr.starts, csr.targets, csr.edges) for csr in (out, into))
        if self.is_undirected:
            onward = back = merge_directions(onward, back)
        inner = None if self.inner is None else np.array([node in self.inner for node in self.node_ids])
        return WalkGraph(
            onward=onward,
            back=back,
            size=size,
            is_undirected=self.is_undirected,
            nodes=_build_order(self.node_ids),
            edges=_build_order(self.edge_ids),
            budget=budget or Budget(SystemClock()),
            label="the walks",
            inner=inner,
            weights=np.array([edge.weight for edge in self.edges] or np.zeros(0, np.int64)),
        )

    def find_expected(self, kind: str) -> dict[tuple[str, str], list[ModelWalk]]:
        by_pair: dict[tuple[str, str], list[ModelWalk]] = defaultdict(list)
        longest = len(self.edges) if kind != "path" or self.high is None else self.high
        for start in self.node_ids:
            walks = iter_walks(
                self.edges,
                start,
                longest,
                is_undirected=self.is_undirected,
                may_be_inner=lambda node: self.inner is None or node in self.inner,
            )
            for walk in walks:
                by_pair[start, walk.nodes[-1]].append(walk)
        chosen = {pair: choose_walks(kind, walks, self.low, self.high) for pair, walks in by_pair.items()}
        return {pair: walks for pair, walks in chosen.items() if walks}

    def to_model(self, walks: WalkList) -> list[ModelWalk]:
        result = []
        for index in range(len(walks)):
            nodes = walks.nodes[walks.node_starts[index] : walks.node_starts[index + 1]]
            edges = walks.edges[walks.edge_starts[index] : walks.edge_starts[index + 1]]
            cost = 0 if walks.costs is None else walks.costs[index].item()
            result.append(
                ModelWalk(tuple(self.node_ids[at] for at in nodes), tuple(self.edge_ids[at] for at in edges), cost)
            )
        return result


def _build_order(ids: list[str]) -> IdOrder:
    return IdOrder(len(ids), lambda at: pa.array([ids[row] for row in at], pa.utf8()), lambda: np.arange(len(ids)))


def _group(walks: list[ModelWalk]) -> dict[tuple[str, str], list[ModelWalk]]:
    by_pair: dict[tuple[str, str], list[ModelWalk]] = defaultdict(list)
    for walk in walks:
        by_pair[walk.nodes[0], walk.nodes[-1]].append(walk)
    return {pair: sorted(found, key=lambda walk: walk.ids) for pair, found in by_pair.items()}


def _sort(
    expected: dict[tuple[str, str], list[ModelWalk]], *, has_costs: bool
) -> dict[tuple[str, str], list[ModelWalk]]:
    def strip(walk: ModelWalk) -> ModelWalk:
        return walk if has_costs else ModelWalk(walk.nodes, walk.edges)

    return {pair: sorted(map(strip, walks), key=lambda walk: walk.ids) for pair, walks in expected.items()}


@pytest.mark.parametrize("kind", list(WalkKind))
@pytest.mark.parametrize("seed", range(150))
def test_walks_are_those_of_the_model(kind: WalkKind, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(seed)
    if kind is WalkKind.CHEAPEST:
        world.low = min(world.low, 1)
    if kind is WalkKind.PATH:
        world.high = 4 if world.high is None else world.high
    if world.rng.random() < 0.5:
        # As if there were many pairs.
        monkeypatch.setattr(solve_walks, "MAX_BIDIRECTIONAL_PAIRS", 0)
    bounds = WalkBounds(kind=kind, low=world.low, high=world.high)
    expected = _sort(world.find_expected(kind.value), has_costs=kind is WalkKind.CHEAPEST)
    every = np.arange(len(world.node_ids))
    accepted = np.array([world.rng.random() < 0.8 for _ in every], np.bool_)
    allowed = {node for node, is_allowed in zip(world.node_ids, accepted, strict=True) if is_allowed}

    starts, ends = np.repeat(every, len(every)), np.tile(every, len(every))
    between, pairs = solve_pairs(world.build_graph(), bounds, starts, ends)
    onward, numbers = solve_from(world.build_graph(), bounds, every, lambda nodes: accepted[nodes], is_back=False)
    back, back_numbers = solve_from(world.build_graph(), bounds, every, lambda nodes: accepted[nodes], is_back=True)

    assert _group(world.to_model(between)) == expected
    assert [int(node) for node in starts[pairs]] == between.first_nodes.tolist()
    assert [int(node) for node in ends[pairs]] == between.last_nodes.tolist()
    assert _group(world.to_model(onward)) == {pair: walks for pair, walks in expected.items() if pair[1] in allowed}
    assert every[numbers].tolist() == onward.first_nodes.tolist()
    assert _group(world.to_model(back)) == {pair: walks for pair, walks in expected.items() if pair[0] in allowed}
    assert every[back_numbers].tolist() == back.last_nodes.tolist()


class TickingClock(SystemClock):
    """A second passes each time the clock is read."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        self.seconds += 1.0
        return self.seconds


def build_ladder(budget: Budget) -> WalkGraph:
    """Twenty nodes with two parallel edges from each to the next: a million walks from the first to the last."""
    world = World(0)
    world.node_ids = [f"n{number:02}" for number in range(20)]
    world.edge_ids = [f"e{number:02}" for number in range(38)]
    world.edges = [
        ModelEdge(edge, f"n{number // 2:02}", f"n{number // 2 + 1:02}") for number, edge in enumerate(world.edge_ids)
    ]
    world.is_undirected, world.inner = False, None
    return world.build_graph(budget)


@pytest.mark.parametrize("kind", [WalkKind.PATH, WalkKind.ALL_SHORTEST])
def test_too_many_walks_are_an_error_that_says_what_was_too_large(kind: WalkKind) -> None:
    graph = build_ladder(Budget(SystemClock(), memory_bytes=2**20))
    bounds = WalkBounds(kind=kind, low=1, high=19)

    with pytest.raises(QueryMemoryError, match="the walks"):
        solve_pairs(graph, bounds, np.array([0]), np.array([19]))


@pytest.mark.parametrize("kind", list(WalkKind))
def test_a_search_ends_at_its_deadline(kind: WalkKind) -> None:
    graph = build_ladder(Budget(TickingClock(), seconds=5))
    bounds = WalkBounds(kind=kind, low=1, high=19)

    with pytest.raises(QueryTimeoutError):
        solve_pairs(graph, bounds, np.array([0]), np.array([19]))


def test_the_claims_of_a_search_are_the_memory_of_its_walks() -> None:
    budget = Budget(SystemClock(), memory_bytes=2**20)
    graph = build_ladder(budget)

    walks, _ = solve_pairs(graph, WalkBounds(kind=WalkKind.SHORTEST, low=1, high=None), np.arange(19), np.full(19, 19))
    budget.release(walks.nbytes)

    budget.claim(2**20, "all of it")
