"""Several hops by rows of bits, against the search that lists neighbours."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multigraphs import Multigraph, multigraphs
from omnigraph.clock import SystemClock
from omnigraph.engine.operators import bitset_bfs
from omnigraph.engine.operators.bfs import run_bfs
from omnigraph.engine.operators.bitset_bfs import BitsetBfs, is_dense
from omnigraph.engine.operators.neighbour_lists import AdjacencyLists
from omnigraph.engine.query_budget import Budget, QueryCancelledError
from property_profiles import profile


def lists_of(graph: Multigraph, *, is_directed: bool) -> AdjacencyLists:
    return graph.out_set() if is_directed else graph.both_set()


def complete(size: int) -> AdjacencyLists:
    return AdjacencyLists(np.arange(size + 1) * size, np.tile(np.arange(size), size))


@pytest.mark.parametrize("at_once", [1, 2, 256])
@pytest.mark.parametrize("is_directed", [True, False], ids=["directed", "undirected"])
def test_rows_of_bits_find_the_pairs_that_a_search_finds(
    is_directed: bool, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bitset_bfs, "_CHUNK_ROWS", at_once)

    @profile(150)
    @given(multigraphs(max_size=70, max_edges=80) | multigraphs(), st.integers(1, 3), st.integers(0, 3), st.data())
    def check(graph: Multigraph, low: int, more: int, data: st.DataObject) -> None:
        high = low + more if is_directed else min(low + more, 3)
        asked = data.draw(st.sets(st.integers(0, graph.size - 1)))
        sources, mask = np.array(sorted(asked), np.int64), np.arange(graph.size) % 3 == 0
        lists, budget = lists_of(graph, is_directed=is_directed), Budget(SystemClock())
        wanted = run_bfs(lambda _: lists, sources, graph.size, (low, high), budget, is_directed=is_directed)

        rows = BitsetBfs(lists, graph.size, budget, is_directed=is_directed)
        found = rows.list_reached(sources, low, high)

        assert found.starts.tolist() == wanted.starts.tolist()
        assert found.targets.tolist() == wanted.targets.tolist()
        assert rows.count_reached(sources, low, high, None).tolist() == np.diff(wanted.starts).tolist()
        chosen = [mask[wanted.targets[a:b]].sum() for a, b in zip(wanted.starts, wanted.starts[1:], strict=False)]
        assert rows.count_reached(sources, low, high, mask).tolist() == chosen

    check()


def test_rows_of_bits_are_for_dense_graphs_many_searches_and_short_cycles() -> None:
    dense, sparse = complete(512), AdjacencyLists(np.arange(513), np.arange(512))

    assert is_dense(dense, 512, 512, 3, is_directed=False)
    assert is_dense(dense, 512, 512, 9, is_directed=True)
    assert not is_dense(dense, 512, 512, 4, is_directed=False)
    assert not is_dense(dense, 512, 1, 3, is_directed=True)
    assert not is_dense(sparse, 512, 512, 3, is_directed=True)


def test_a_search_by_bits_can_be_cancelled() -> None:
    budget = Budget(SystemClock())
    rows = BitsetBfs(complete(8), 8, budget, is_directed=True)
    budget.cancel()

    with pytest.raises(QueryCancelledError):
        rows.count_reached(np.arange(8), 1, 2, None)
