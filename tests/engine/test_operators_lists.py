"""Neighbour lists, gathered, joined and looked up, against plain pairs."""

from collections import Counter
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multigraphs import Multigraph, multigraphs
from omnigraph.clock import SystemClock
from omnigraph.engine.operators import cycle_close
from omnigraph.engine.operators.cycle_close import is_joined, is_marked
from omnigraph.engine.operators.neighbour_lists import AdjacencyLists, build_lists, merge_directions
from omnigraph.engine.query_budget import Budget
from property_profiles import profile

NODES = st.lists(st.integers(0, 5), max_size=12)


def within(nodes: list[int], graph: Multigraph) -> np.ndarray:
    return np.array([node % graph.size for node in nodes], np.int64)


@profile(150)
@given(multigraphs(), NODES)
def test_a_gather_gives_the_edges_of_each_row_in_order(graph: Multigraph, nodes: list[int]) -> None:
    sources = within(nodes, graph)

    found = graph.out().gather(sources)

    rows = zip(found.repeat_rows().tolist(), found.targets.tolist(), found.edges.tolist(), strict=True)  # type: ignore[union-attr]  # every edge was asked for
    expected = [
        (row, target, edge)
        for row, source in enumerate(sources)
        for target, edge in sorted((b, place) for place, (a, b) in enumerate(graph.edges) if a == source)
    ]
    assert list(rows) == expected


@profile(100)
@given(multigraphs(), NODES, st.sets(st.integers(0, 13)))
def test_what_does_not_pass_leaves_the_list_of_its_row(graph: Multigraph, nodes: list[int], passing: set[int]) -> None:
    gathered = graph.out().gather(within(nodes, graph))
    assert gathered.edges is not None
    mask = np.isin(gathered.edges, list(passing))

    found = gathered.filter(mask)

    assert found.repeat_rows().tolist() == gathered.repeat_rows()[mask].tolist()
    assert found.targets.tolist() == gathered.targets[mask].tolist()


@profile(100)
@given(multigraphs())
def test_two_directions_joined_have_every_edge_from_both_ends_and_a_loop_once(graph: Multigraph) -> None:
    found = merge_directions(graph.out(), graph.into()).gather(np.arange(graph.size))

    assert found.edges is not None
    rows = zip(found.repeat_rows().tolist(), found.targets.tolist(), found.edges.tolist(), strict=True)
    forwards = {(a, b, place) for place, (a, b) in enumerate(graph.edges)}
    assert Counter(rows) == Counter(forwards | {(b, a, place) for a, b, place in forwards})


@profile(100)
@given(multigraphs(), st.booleans())
def test_lists_made_of_single_edges_are_those_of_the_adjacency(graph: Multigraph, is_set: bool) -> None:
    ends = np.array(graph.edges, np.int64).reshape(-1, 2)
    sources = np.unique(ends[:, 0])
    places = np.searchsorted(sources, ends[:, 0])

    found = build_lists(sources, places, ends[:, 1], None if is_set else np.arange(len(ends)), is_set=is_set)

    whole = graph.out_set() if is_set else graph.out()
    assert found.gather(sources).targets.tolist() == whole.gather(sources).targets.tolist()
    assert found.count_neighbours(sources).tolist() == whole.count_neighbours(sources).tolist()


@profile(150)
@given(multigraphs(), st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=20), st.sampled_from([1, 64]))
def test_looking_up_and_marking_say_which_pairs_an_edge_joins(
    graph: Multigraph, pairs: list[tuple[int, int]], cells: int
) -> None:
    asked = sorted((a % graph.size, b % graph.size) for a, b in pairs)
    sources, targets = np.array(asked, np.int64).reshape(-1, 2).T
    expected = [pair in graph.edges for pair in asked]

    with patch.object(cycle_close, "MAX_MARKED_CELLS", cells):
        heads, begins = np.unique(sources, return_index=True)
        begins = np.append(begins, len(sources))
        marked = is_marked(graph.out_set(), heads, begins, targets, graph.size, Budget(SystemClock()))

    assert is_joined(graph.out_set(), sources, targets).tolist() == expected
    assert marked.tolist() == expected


def test_no_list_at_all_joins_nothing() -> None:
    nothing = AdjacencyLists(np.zeros(4, np.int64), np.zeros(0, np.int32))

    assert is_joined(nothing, np.array([0, 2]), np.array([0, 1])).tolist() == [False, False]


@pytest.mark.parametrize("places", [[0], [2, 0, 2], []])
def test_a_node_without_neighbours_has_an_empty_list(places: list[int]) -> None:
    graph = Multigraph(3, ((1, 1),))

    found = graph.out_set().gather(np.array(places, np.int64))

    assert found.counts.tolist() == [0] * len(places)
    assert not len(found.targets)


@pytest.mark.parametrize("places", [[1], [0, 1, 2]])
def test_what_all_queries_share_can_not_be_written_to(places: list[int]) -> None:
    graph = Multigraph(3, ((0, 1), (1, 2), (2, 0)))

    found = graph.out().gather(np.array(places, np.int64))

    with pytest.raises(ValueError, match="read-only"):
        found.targets[0] = 1
