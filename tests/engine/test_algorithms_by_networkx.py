"""Algorithms on arrays give what networkx gives, on graphs with loops, parallel edges and lonely nodes."""

import math
from collections import Counter
from itertools import combinations
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from networkx.algorithms.link_analysis import pagerank_alg
from numpy.typing import NDArray

from multigraphs import Multigraph, multigraphs
from omnigraph.clock import SystemClock
from omnigraph.engine.algorithms.betweenness import compute_betweenness
from omnigraph.engine.algorithms.cores import compute_core_numbers
from omnigraph.engine.algorithms.leiden import Communities, find_communities
from omnigraph.engine.algorithms.network import Direction, Network
from omnigraph.engine.algorithms.pagerank import compute_pagerank
from omnigraph.engine.algorithms.similarity import find_similar
from omnigraph.engine.algorithms.strong_components import find_strong_components
from omnigraph.engine.algorithms.topological_order import sort_topologically
from omnigraph.engine.query_budget import Budget

GRAPHS = multigraphs(max_size=9, max_edges=24)
SEEDS = st.integers(0, 1_000)
Floats = NDArray[np.float64]


def network_of(graph: Multigraph) -> Network:
    ends = np.array(graph.edges, np.int64).reshape(-1, 2)
    return Network(graph.size, ends[:, 0], ends[:, 1])


def weights_of(graph: Multigraph, seed: int) -> Floats:
    """Small whole weights, so that sums of both sides are exact and paths of equal length are equal."""
    return np.random.default_rng(seed).integers(1, 5, len(graph.edges)).astype(np.float64)


def budget() -> Budget:
    return Budget(SystemClock())


def lightest(graph: Multigraph, weights: Floats, *, is_directed: bool) -> "nx.DiGraph | nx.Graph":
    """A simple graph without loops, each edge with the smallest weight of the parallel ones."""
    simple = nx.DiGraph() if is_directed else nx.Graph()
    simple.add_nodes_from(range(graph.size))
    for (source, target), weight in zip(graph.edges, weights.tolist(), strict=True):
        if source != target and weight < simple.get_edge_data(source, target, {"w": math.inf})["w"]:
            simple.add_edge(source, target, w=weight)
    return simple


# --- betweenness -------------------------------------------------------------------------------------------


@given(GRAPHS, st.sampled_from(Direction), st.booleans(), st.booleans(), SEEDS)
def test_betweenness_is_that_of_networkx(
    graph: Multigraph, direction: Direction, is_weighted: bool, is_normalized: bool, seed: int
) -> None:
    weights = weights_of(graph, seed) if is_weighted else None
    simple = lightest(graph, weights_of(graph, seed), is_directed=direction is not Direction.BOTH)
    simple = simple.reverse() if direction is Direction.IN else simple

    found = compute_betweenness(
        network_of(graph),
        weights,
        direction=direction,
        samples=None,
        seed=0,
        is_normalized=is_normalized,
        budget=budget(),
    )

    expected = nx.betweenness_centrality(simple, normalized=is_normalized, weight="w" if is_weighted else None)
    assert found.tolist() == pytest.approx([expected[node] for node in range(graph.size)])


def test_all_nodes_as_samples_are_no_estimate() -> None:
    graph = Multigraph(6, ((0, 1), (1, 2), (2, 3), (3, 4), (1, 4), (4, 5)))

    scores = [
        compute_betweenness(
            network_of(graph),
            direction=Direction.OUT,
            samples=samples,
            seed=3,
            is_normalized=True,
            budget=budget(),
        ).tolist()
        for samples in (None, 6, 60)
    ]

    assert scores[0] == scores[1] == scores[2]


def test_samples_estimate_betweenness() -> None:
    pairs = nx.gnm_random_graph(300, 900, seed=5).edges
    network = Network(300, *np.array(list(pairs), np.int64).T)

    def compute(samples: int | None) -> Floats:
        return compute_betweenness(
            network, direction=Direction.BOTH, samples=samples, seed=9, is_normalized=True, budget=budget()
        )

    exact, estimate = compute(None), compute(100)
    assert np.corrcoef(exact, estimate)[0, 1] > 0.9
    assert estimate.sum() == pytest.approx(exact.sum(), rel=0.1)


# --- cores, components, orders -----------------------------------------------------------------------------


@given(GRAPHS)
def test_core_numbers_are_those_of_networkx(graph: Multigraph) -> None:
    expected = nx.core_number(lightest(graph, weights_of(graph, 0), is_directed=False))

    assert compute_core_numbers(network_of(graph), budget()).tolist() == [expected[n] for n in range(graph.size)]


@given(GRAPHS)
def test_strong_components_are_those_of_networkx(graph: Multigraph) -> None:
    whole = nx.MultiDiGraph(graph.edges)
    whole.add_nodes_from(range(graph.size))
    expected = {node: min(part) for part in nx.strongly_connected_components(whole) for node in part}

    assert find_strong_components(network_of(graph), budget()).tolist() == [expected[n] for n in range(graph.size)]


def test_a_long_cycle_is_one_strong_component_and_a_long_chain_none() -> None:
    size = 3_000
    nodes = np.arange(size)

    cycle = find_strong_components(Network(size, nodes, np.roll(nodes, -1)), budget())
    chain = find_strong_components(Network(size, nodes[:-1], nodes[1:]), budget())

    assert set(cycle.tolist()) == {0}
    assert chain.tolist() == nodes.tolist()


@given(GRAPHS)
def test_a_topological_order_follows_every_edge_or_a_cycle_is_named(graph: Multigraph) -> None:
    positions, cycle = sort_topologically(network_of(graph), budget())

    is_acyclic = nx.is_directed_acyclic_graph(nx.MultiDiGraph(graph.edges))
    assert bool(cycle) != is_acyclic
    if is_acyclic:
        assert sorted(positions.tolist()) == list(range(graph.size))
        assert all(positions[source] < positions[target] for source, target in graph.edges)
    else:
        assert len(set(cycle)) == len(cycle)
        assert {*zip(cycle, [*cycle[1:], cycle[0]], strict=True)} <= {*graph.edges}


# --- similarity --------------------------------------------------------------------------------------------


@given(GRAPHS, st.sampled_from(Direction), st.integers(1, 4))
def test_similar_nodes_share_the_neighbours_that_networkx_counts(
    graph: Multigraph, direction: Direction, top: int
) -> None:
    rows, others, scores = find_similar(network_of(graph), direction=direction, top=top, budget=budget())

    near: dict[int, set[int]] = {node: set() for node in range(graph.size)}
    for source, target in graph.edges:
        if direction is not Direction.IN:
            near[source].add(target)
        if direction is not Direction.OUT:
            near[target].add(source)
    expected = []
    for node in range(graph.size):
        shares = [
            (len(near[node] & near[other]) / len(near[node] | near[other]), -other)
            for other in range(graph.size)
            if other != node and near[node] & near[other]
        ]
        expected += [(node, -other, share) for share, other in sorted(shares, reverse=True)[:top]]
    assert list(zip(rows.tolist(), others.tolist(), scores.tolist(), strict=True)) == expected


@given(GRAPHS)
def test_similarity_of_friends_is_the_jaccard_coefficient(graph: Multigraph) -> None:
    simple = lightest(graph, weights_of(graph, 0), is_directed=False)
    ends = np.array([*simple.edges], np.int64).reshape(-1, 2)
    rows, others, scores = find_similar(
        Network(graph.size, ends[:, 0], ends[:, 1]), direction=Direction.BOTH, top=graph.size, budget=budget()
    )

    pairs = list(combinations(range(graph.size), 2))
    expected = {(one, other): share for one, other, share in nx.jaccard_coefficient(simple, pairs) if share}
    found = {
        (row, other): score for row, other, score in zip(rows.tolist(), others.tolist(), scores.tolist(), strict=True)
    }
    assert {pair: score for pair, score in found.items() if pair[0] < pair[1]} == pytest.approx(expected)


# --- communities -------------------------------------------------------------------------------------------


def communities(
    graph: Multigraph, seed: int = 0, resolution: float = 1.0, weights: Floats | None = None
) -> Communities:
    return find_communities(
        network_of(graph), weights, resolution=resolution, seed=seed, max_rounds=500, budget=budget()
    )


def parts(values: NDArray[np.int64]) -> list[set[int]]:
    return [set(np.flatnonzero(values == name).tolist()) for name in np.unique(values)]


@given(GRAPHS, st.sampled_from([0.5, 1.0, 2.0]), SEEDS, st.booleans())
def test_communities_have_the_modularity_that_networkx_computes(
    graph: Multigraph, resolution: float, seed: int, is_weighted: bool
) -> None:
    weights = weights_of(graph, seed) if is_weighted else None
    found = communities(graph, seed, resolution, weights)

    whole = nx.MultiGraph()
    whole.add_nodes_from(range(graph.size))
    for (source, target), weight in zip(graph.edges, weights_of(graph, seed).tolist(), strict=True):
        whole.add_edge(source, target, w=weight if is_weighted else 1.0)
    assert all(nx.is_connected(whole.subgraph(part)) for part in parts(found.values))
    assert all(min(part) == found.values[min(part)] for part in parts(found.values))
    if graph.edges:
        expected = nx.community.modularity(whole, parts(found.values), weight="w", resolution=resolution)
        assert found.modularity == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(5))
def test_communities_are_as_good_as_those_of_louvain(seed: int) -> None:
    planted = nx.planted_partition_graph(8, 25, 0.4, 0.02, seed=seed)
    graph = Multigraph(200, tuple(planted.edges))

    found = communities(graph, seed)

    best = nx.community.louvain_communities(planted, seed=seed)
    assert found.modularity >= nx.community.modularity(planted, best) - 0.01
    assert found.is_converged


def test_the_club_has_its_known_communities() -> None:
    club = nx.karate_club_graph()

    found = communities(Multigraph(34, tuple(club.edges)))

    # The best that is known for this graph is 0.4198.
    assert found.modularity >= 0.415


# --- what the order of edges does not change ---------------------------------------------------------------


@given(GRAPHS, SEEDS)
def test_equal_seeds_give_equal_communities(graph: Multigraph, seed: int) -> None:
    assert communities(graph, seed).values.tolist() == communities(graph, seed).values.tolist()


@given(GRAPHS)
def test_a_rank_by_equal_weights_is_the_rank_without(graph: Multigraph) -> None:
    even = np.full(len(graph.edges), 2.0)

    def ranks(weights: Floats | None) -> Any:
        found = compute_pagerank(network_of(graph), weights, damping=0.85, tolerance=1e-12, rounds=200, budget=budget())
        return found.values.tolist()

    assert ranks(even) == pytest.approx(ranks(None))


@given(GRAPHS, SEEDS)
def test_ranks_by_weights_are_those_of_networkx(graph: Multigraph, seed: int) -> None:
    weights = weights_of(graph, seed)
    whole = nx.DiGraph()
    whole.add_nodes_from(range(graph.size))
    sums: Counter[tuple[int, int]] = Counter()
    for pair, weight in zip(graph.edges, weights.tolist(), strict=True):
        sums[pair] += weight
    whole.add_weighted_edges_from((source, target, weight) for (source, target), weight in sums.items())

    found = compute_pagerank(network_of(graph), weights, damping=0.85, tolerance=1e-12, rounds=500, budget=budget())

    # The public function needs SciPy; this one is the same in plain Python.
    expected = pagerank_alg._pagerank_python(whole, alpha=0.85, tol=1e-12, max_iter=500, weight="weight")
    assert found.values.tolist() == pytest.approx([expected[node] for node in range(graph.size)], abs=1e-9)
