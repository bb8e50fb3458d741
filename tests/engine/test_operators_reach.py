"""Several hops at once, against a search from each node alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multigraphs import Multigraph, multigraphs
from omnigraph.clock import SystemClock
from omnigraph.engine.operators import bfs as reach_module
from omnigraph.engine.operators.bfs import run_bfs
from omnigraph.engine.operators.neighbour_lists import AdjacencyLists
from omnigraph.engine.query_budget import Budget, QueryCancelledError, QueryMemoryError
from property_profiles import profile

CELLS = st.sampled_from([1, 7, 1 << 20])


def simple_cycles(steps: dict[int, set[int]], start: int, *, is_directed: bool) -> set[int]:
    """The lengths of all cycles through a node that visit no other node twice."""
    found: set[int] = set()

    def walk(path: list[int]) -> None:
        for node in steps[path[-1]]:
            if node == start and (is_directed or len(path) != 2):
                found.add(len(path))
            elif node not in path:
                walk([*path, node])

    walk([start])
    return found


def distances(graph: Multigraph, *, is_directed: bool) -> dict[tuple[int, int], int]:
    steps = graph.steps(is_directed=is_directed)
    found: dict[tuple[int, int], int] = {}
    for start in range(graph.size):
        level, seen = {start}, {start}
        for distance in range(1, graph.size + 1):
            level = {node for reached in level for node in steps[reached]} - seen
            seen |= level
            found.update({(start, node): distance for node in level})
        cycles = simple_cycles(steps, start, is_directed=is_directed)
        if cycles:
            found[start, start] = min(cycles)
    return found


def pairs(found: AdjacencyLists) -> list[tuple[int, int]]:
    assert found.sources is not None
    return [
        (int(source), int(target))
        for place, source in enumerate(found.sources)
        for target in found.targets[found.starts[place] : found.starts[place + 1]]
    ]


@pytest.mark.parametrize("step_rows", [1, 3, reach_module.MAX_STEP_ROWS])
@pytest.mark.parametrize("is_directed", [True, False], ids=["directed", "undirected"])
def test_a_pair_is_found_once_if_its_smallest_distance_is_within_the_bounds(
    is_directed: bool, step_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reach_module, "MAX_STEP_ROWS", step_rows)

    @profile(150)
    @given(multigraphs(), st.integers(1, 4), st.integers(0, 4), st.sets(st.integers(0, 5)), CELLS)
    def check(graph: Multigraph, low: int, more: int, asked: set[int], cells: int) -> None:
        high = low + more
        sources = np.array(sorted(node for node in asked if node < graph.size), np.int64)
        lists = graph.out_set() if is_directed else graph.both_set()

        found = run_bfs(
            lambda _: lists,
            sources,
            graph.size,
            (low, high),
            Budget(SystemClock()),
            is_directed=is_directed,
            cells=cells,
        )

        known = distances(graph, is_directed=is_directed)
        expected = [pair for pair, distance in known.items() if low <= distance <= high and pair[0] in set(sources)]
        assert pairs(found) == sorted(expected)

    check()


def test_there_and_back_over_one_pair_is_no_cycle_without_direction() -> None:
    graph = Multigraph(3, ((0, 1), (1, 0), (0, 1), (1, 2)))

    found = run_bfs(lambda _: graph.both_set(), np.arange(3), 3, (1, 4), Budget(SystemClock()), is_directed=False)

    assert not {pair for pair in pairs(found) if pair[0] == pair[1]}


def test_a_search_asks_for_memory_before_it_starts() -> None:
    graph = Multigraph(1_000, ((0, 1),))
    budget = Budget(SystemClock(), memory_bytes=100_000)

    with pytest.raises(QueryMemoryError) as caught:
        run_bfs(lambda _: graph.out_set(), np.arange(1_000), 1_000, (1, 2), budget)

    assert caught.value.allowed == 100_000


@pytest.mark.parametrize("is_directed", [True, False], ids=["directed", "undirected"])
def test_a_dense_graph_takes_memory_by_its_pairs_and_not_by_its_paths(is_directed: bool) -> None:
    size = 200
    lists = AdjacencyLists(np.arange(size + 1) * size, np.tile(np.arange(size), size))
    budget = Budget(SystemClock(), memory_bytes=64 << 20)

    found = run_bfs(lambda _: lists, np.arange(size), size, (1, 2), budget, is_directed=is_directed)

    assert len(found.targets) == size * size


def test_a_search_can_be_cancelled_between_two_steps() -> None:
    graph = Multigraph(3, ((0, 1), (1, 2), (2, 0)))
    budget = Budget(SystemClock())

    def cancelled(_: object) -> AdjacencyLists:
        budget.cancel()
        return graph.out_set()

    with pytest.raises(QueryCancelledError):
        run_bfs(cancelled, np.arange(3), 3, (1, 3), budget)
