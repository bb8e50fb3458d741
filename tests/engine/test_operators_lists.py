"""Neighbour lists, gathered, joined and looked up, against plain pairs."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multigraphs import Multigraph, multigraphs
from omnigraph.clock import SystemClock
from omnigraph.engine import parallel
from omnigraph.engine.operators import cycle_close
from omnigraph.engine.operators.cycle_close import find_joined, intersect_lists, is_joined
from omnigraph.engine.operators.neighbour_lists import AdjacencyLists, build_lists, merge_directions
from omnigraph.engine.operators.reduced_lists import reduce_lists
from omnigraph.engine.query_budget import Budget
from property_profiles import profile

NODES = st.lists(st.integers(0, 5), max_size=12)
PAIRS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=20)


@contextmanager
def marking(bits: int) -> Iterator[None]:
    """Inside, few rows are looked up in a table of marks, in chunks of two."""
    values: dict[str, Any] = {
        "MIN_MARKED_ROWS": 1,
        "MAX_MARKED_PER_ROW": 1_000,
        "_MIN_CELL_BITS": bits,
        "_MAX_CELL_BITS": bits,
    }
    with patch.multiple(cycle_close, **values), patch.multiple(parallel, MIN_PARALLEL_ROWS=1, MAX_CHUNK_ROWS=2):
        yield


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
@given(multigraphs(), PAIRS, st.sampled_from([1, 6]), st.sampled_from([1, 3]))
def test_looking_up_and_marking_say_which_pairs_an_edge_joins(
    graph: Multigraph, pairs: list[tuple[int, int]], bits: int, threads: int
) -> None:
    asked = [(a % graph.size, b % graph.size) for a, b in pairs]
    sources, targets = np.array(asked, np.int64).reshape(-1, 2).T
    expected = [pair in graph.edges for pair in asked]
    by_source = sorted(asked, key=lambda pair: pair[0])
    nodes = np.arange(graph.size)
    counts = np.array([sum(a == node for a, _ in asked) for node in nodes], np.int64)

    with marking(bits):
        limits = Budget(SystemClock(), threads=threads)
        one_each = find_joined(graph.out_set(), sources, None, targets, limits)
        many_each = find_joined(graph.out_set(), nodes, counts, np.array([b for _, b in by_source], np.int64), limits)

    assert is_joined(graph.out_set(), sources, targets).tolist() == expected
    assert one_each.tolist() == expected
    assert many_each.tolist() == [pair in graph.edges for pair in by_source]


@profile(150)
@given(multigraphs(), PAIRS, st.sampled_from([0, 1, 1_000]), st.sampled_from([1, 3]))
def test_two_lists_have_the_neighbours_in_common_that_both_have(
    graph: Multigraph, pairs: list[tuple[int, int]], min_shorter: int, threads: int
) -> None:
    rows = [(a % graph.size, b % graph.size) for a, b in pairs]
    first, second = np.array(rows, np.int64).reshape(-1, 2).T

    with marking(6), patch.object(cycle_close, "MIN_SHORTER", min_shorter):
        limits = Budget(SystemClock(), threads=threads)
        found = intersect_lists((graph.out_set(), first), (graph.out_set(), second), limits)

    expected = [
        (row, node)
        for row, (a, b) in enumerate(rows)
        for node in range(graph.size)
        if (a, node) in graph.edges and (b, node) in graph.edges
    ]
    assert list(zip(found.rows.tolist(), found.targets.tolist(), strict=True)) == expected


@profile(150)
@given(multigraphs(), NODES, st.sets(st.integers(0, 5)), st.booleans(), st.booleans())
def test_reduced_lists_have_the_edges_to_nodes_that_pass(
    graph: Multigraph, nodes: list[int], passing: set[int], has_edges: bool, is_cyclic: bool
) -> None:
    sources = within(nodes, graph)
    whole = graph.out() if has_edges else graph.out_set()
    is_passing = np.array([node in passing for node in range(graph.size)])

    found = reduce_lists(whole, sources, is_passing, Budget(SystemClock()), is_cyclic=is_cyclic)

    assert found.covers(sources)
    gathered, expected = found.lists.gather(sources), whole.gather(sources)
    expected = expected.filter(is_passing[expected.targets])
    assert gathered.counts.tolist() == expected.counts.tolist()
    assert gathered.targets.tolist() == expected.targets.tolist()
    assert (gathered.edges is None) == (expected.edges is None)
    if gathered.edges is not None and expected.edges is not None:
        assert gathered.edges.tolist() == expected.edges.tolist()


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
