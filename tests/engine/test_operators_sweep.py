"""Sums over all neighbour lists in one pass are exact, and refuse to overflow."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multigraphs import Multigraph, multigraphs
from omnigraph.engine.operators import csr_sums
from omnigraph.engine.operators.csr_sums import sum_lists
from omnigraph.engine.operators.multiplicity import OVERFLOWED
from omnigraph.engine.query_budget import QueryCancelledError
from property_profiles import profile

WEIGHTS = st.sampled_from([0, 1, 2, 2**31 - 1, 2**31, 2**53 + 1, 2**58])


def nothing() -> None:
    """Nobody minds."""


@pytest.mark.parametrize("chunk", [1, 3, 1 << 18])
def test_the_sum_of_every_list_is_exact(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csr_sums, "_CHUNK_NEIGHBOURS", chunk)

    @profile(150)
    @given(multigraphs(), st.data())
    def check(graph: Multigraph, data: st.DataObject) -> None:
        lists = graph.out()
        weights = data.draw(st.lists(WEIGHTS, min_size=graph.size, max_size=graph.size))
        steps = [[target for source, target in graph.edges if source == node] for node in range(graph.size)]

        counted = sum_lists(lists.starts, lists.targets, np.array(weights, np.int64), nothing)
        passed = sum_lists(lists.starts, lists.targets, np.array(weights, np.int64) > 1, nothing)

        assert counted.tolist() == [sum(weights[node] for node in near) for near in steps]
        assert passed.tolist() == [sum(weights[node] > 1 for node in near) for near in steps]

    check()


def test_a_sum_beyond_64_bits_is_known_to_be_that_and_the_others_are_exact() -> None:
    starts, targets = np.array([0, 3, 4]), np.array([0, 0, 0, 1], np.int32)

    found = sum_lists(starts, targets, np.array([2**62, 7]), nothing)

    assert found.tolist() == [OVERFLOWED, 7]


def test_a_sweep_can_be_stopped() -> None:
    def stop() -> None:
        raise QueryCancelledError

    with pytest.raises(QueryCancelledError):
        sum_lists(np.array([0, 1]), np.array([0]), np.array([1]), stop)
