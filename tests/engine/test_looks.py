"""How much is done between two looks at the clock is bounded by rows: an operation on more rows looks more often."""

from collections.abc import Callable

import numpy as np
import pytest

from omnigraph.clock import SystemClock
from omnigraph.engine import kernels
from omnigraph.engine.algorithms import triangles as triangles_module
from omnigraph.engine.algorithms.components import find_components
from omnigraph.engine.algorithms.label_propagation import propagate_labels
from omnigraph.engine.algorithms.network import Direction, Network
from omnigraph.engine.algorithms.pagerank import compute_pagerank
from omnigraph.engine.algorithms.shortest_paths import compute_hops, compute_weighted_distances
from omnigraph.engine.algorithms.triangles import count_triangles
from omnigraph.engine.bindings import Bindings
from omnigraph.engine.operators.join import ComparedKeys, build_product, join, match_keys
from omnigraph.engine.query_budget import Budget
from omnigraph.query.expr import Op
from omnigraph.storage.arrow_buffers import build_array

PART, NODES, EDGES = 64, 16, 40 * 64


class Looked(Budget):
    """A budget without limits that counts how often it is looked at."""

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self.looks = 0

    def check(self) -> None:
        """Count the look."""
        self.looks += 1
        super().check()


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "MAX_KERNEL_ROWS", PART)
    monkeypatch.setattr(triangles_module, "_CHUNK_PAIRS", PART)


def network(edges: int) -> Network:
    random = np.random.default_rng(3)
    return Network(NODES, random.integers(0, NODES, edges), random.integers(0, NODES, edges))


ALGORITHMS: dict[str, Callable[[Network, Budget], object]] = {
    "pagerank": lambda net, budget: compute_pagerank(net, damping=0.85, tolerance=1e-300, rounds=2, budget=budget),
    "components": find_components,
    "labels": lambda net, budget: propagate_labels(net, rounds=2, budget=budget),
    "triangles": count_triangles,
    "hops": lambda net, budget: compute_hops(net, 0, Direction.OUT, budget),
    "weighted": lambda net, budget: compute_weighted_distances(net, np.ones(len(net.source)), 0, Direction.OUT, budget),
}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_algorithm_looks_at_the_clock_for_every_part_of_its_edges(name: str) -> None:
    budget = Looked()

    ALGORITHMS[name](network(EDGES), budget)

    assert budget.looks >= EDGES // PART


def test_a_product_and_a_join_look_for_every_column_that_they_make() -> None:
    numbers = np.arange(30)
    left, right = Bindings({"a": numbers, "b": numbers}, 30), Bindings({"c": numbers}, 30)
    crossing, joining = Looked(), Looked()

    build_product(left, right, crossing)
    keys = ComparedKeys(build_array(numbers), Op.EQ, build_array(numbers))
    join(left, right, match_keys([keys], None, (30, 30)), joining)

    assert crossing.looks >= 1 + 3
    assert joining.looks >= 1 + 3
