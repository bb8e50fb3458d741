"""Algorithms on arrays give what the obvious ways give, on graphs with loops, parallel edges and lonely nodes."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multigraphs import Multigraph, multigraphs
from naive_algorithms import naive_components, naive_distances, naive_labels, naive_pagerank, naive_triangles
from omnigraph.clock import SystemClock
from omnigraph.engine.algorithms import triangles as triangles_module
from omnigraph.engine.algorithms.components import find_components
from omnigraph.engine.algorithms.label_propagation import propagate_labels
from omnigraph.engine.algorithms.network import Direction, Network
from omnigraph.engine.algorithms.pagerank import compute_pagerank
from omnigraph.engine.algorithms.shortest_paths import compute_hops, compute_weighted_distances
from omnigraph.engine.algorithms.triangles import count_triangles
from omnigraph.engine.query_budget import Budget, QueryTimeoutError

GRAPHS = multigraphs(max_size=9, max_edges=24)


def network_of(graph: Multigraph) -> Network:
    ends = np.array(graph.edges, np.int64).reshape(-1, 2)
    return Network(graph.size, ends[:, 0], ends[:, 1])


def budget() -> Budget:
    return Budget(SystemClock())


@given(GRAPHS, st.integers(1, 6))
def test_pagerank_gives_what_edge_by_edge_gives(graph: Multigraph, rounds: int) -> None:
    found = compute_pagerank(network_of(graph), damping=0.85, tolerance=1e-300, rounds=rounds, budget=budget())

    assert found.values.tolist() == pytest.approx(naive_pagerank(graph.size, graph.edges, 0.85, found.rounds))


@given(GRAPHS)
def test_ranks_add_up_to_one_and_settle(graph: Multigraph) -> None:
    found = compute_pagerank(network_of(graph), damping=0.85, tolerance=1e-9, rounds=500, budget=budget())

    assert found.is_converged
    assert math.isclose(found.values.sum(), 1.0, abs_tol=1e-9)


@given(GRAPHS)
def test_a_component_is_named_by_its_smallest_node(graph: Multigraph) -> None:
    found = find_components(network_of(graph), budget())

    assert found.tolist() == naive_components(graph.size, graph.edges)


def test_a_long_chain_in_the_worst_order_is_one_component() -> None:
    size = 2_000
    nodes = np.arange(size)[::-1].copy()

    found = find_components(Network(size, nodes[:-1], nodes[1:]), budget())

    assert not found.any()


@given(GRAPHS, st.integers(1, 5))
def test_labels_spread_as_node_by_node(graph: Multigraph, rounds: int) -> None:
    found = propagate_labels(network_of(graph), rounds=rounds, budget=budget())

    assert found.values.tolist() == naive_labels(graph.size, graph.edges, rounds)


@given(GRAPHS, st.data())
def test_hops_are_distances_with_weights_of_one(graph: Multigraph, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, graph.size - 1))
    ones = [1.0] * len(graph.edges)
    backwards = [(b, a) for a, b in graph.edges]

    for direction, edges in (
        (Direction.OUT, list(graph.edges)),
        (Direction.IN, backwards),
        (Direction.BOTH, [*graph.edges, *backwards]),
    ):
        found = compute_hops(network_of(graph), start, direction, budget()).tolist()
        wanted = naive_distances(graph.size, edges, ones * 2 if direction is Direction.BOTH else ones, start)
        assert found == [-1 if math.isinf(one) else int(one) for one in wanted]


@given(GRAPHS, st.data())
def test_weighted_distances_are_dijkstras(graph: Multigraph, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, graph.size - 1))
    count = len(graph.edges)
    weights = data.draw(st.lists(st.integers(0, 9).map(float), min_size=count, max_size=count))

    found = compute_weighted_distances(network_of(graph), np.array(weights, np.float64), start, Direction.OUT, budget())

    assert found.tolist() == naive_distances(graph.size, graph.edges, weights, start)


@given(GRAPHS, st.sampled_from([1, 3, 4_000_000]))
def test_triangles_are_those_of_every_three_nodes(graph: Multigraph, at_once: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(triangles_module, "_CHUNK_PAIRS", at_once)
        found = count_triangles(network_of(graph), budget())

    assert found.tolist() == naive_triangles(graph.size, graph.edges)


def test_an_algorithm_stops_at_its_deadline() -> None:
    chain = Network(3, np.array([0, 1]), np.array([1, 2]))

    with pytest.raises(QueryTimeoutError):
        compute_pagerank(chain, damping=0.85, tolerance=1e-10, rounds=100, budget=Budget(SystemClock(), seconds=0.0))
