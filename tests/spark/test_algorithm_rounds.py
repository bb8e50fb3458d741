"""Algorithms in rounds, without Spark: parts that exchange messages give what one process gives; leases of runs."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import omnigraph as og
from mutating import new_graph
from omnigraph.clock import SystemClock
from omnigraph.commit.sidecar import FencedError
from omnigraph.engine.algorithms.components import find_components
from omnigraph.engine.algorithms.label_propagation import propagate_labels
from omnigraph.engine.algorithms.network import Direction, Network
from omnigraph.engine.algorithms.pagerank import compute_pagerank
from omnigraph.engine.algorithms.shortest_paths import compute_hops, compute_weighted_distances
from omnigraph.engine.query_budget import Budget
from omnigraph.ops.algorithm_call import Components, Pagerank
from omnigraph.spark.algorithms.blocks import BlockStore, RunLease, build_run_id
from omnigraph.spark.algorithms.programs import (
    ComponentProgram,
    DistanceProgram,
    LabelProgram,
    PagerankProgram,
    Program,
)
from omnigraph.spark.algorithms.stored_network import Part, count_parts
from omnigraph.spark.session.graph_location import GraphLocation
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.layout import RECOVERY
from worlds import FAST, runtime

SCHEMA = "node N { k: String @key }\nedge E: N -> N"


def random_network(random: Random) -> tuple[Network, np.ndarray[Any, Any]]:
    """A network with loops, parallel edges, hubs and nodes without edges, and weights."""
    count = random.randrange(1, 60)
    edges = random.choice((0, count // 2, count, 3 * count))
    hub = random.randrange(count)
    ends = [tuple(hub if random.random() < 0.2 else random.randrange(count) for _ in range(2)) for _ in range(edges)]
    # A long path takes many rounds.
    ends += [(node, node + 1) for node in range(count // 3)]
    source, target = (np.array([end[side] for end in ends], np.int64) for side in (0, 1))
    weights = np.array([random.choice((0.0, 0.5, 1.25, 7.0)) for _ in ends])
    return Network(count, source, target), weights


def divide(
    network: Network, weights: np.ndarray[Any, Any] | None, direction: Direction, starts: list[int]
) -> list[Part]:
    """The parts that begin at these nodes, each with the edges that are followed from its own."""
    ways = {
        Direction.OUT: [(network.source, network.target)],
        Direction.IN: [(network.target, network.source)],
        Direction.BOTH: [(network.source, network.target), (network.target, network.source)],
    }[direction]
    source, target = (np.concatenate([way[side] for way in ways]) for side in (0, 1))
    weight = None if weights is None else np.concatenate([weights] * len(ways))
    order = np.lexsort((source, target))
    parts = []
    for low, high in zip(starts, [*starts[1:], network.count], strict=True):
        own = order[(source[order] >= low) & (source[order] < high)]
        part_weight = None if weight is None else weight[own]
        parts.append(Part(low, high - low, source[own] - low, target[own], part_weight))
    return parts


def run(program: Program, parts: list[Part]) -> tuple[list[object], int, bool]:
    """The values of all nodes, the number of rounds, and whether the program was over."""
    ids = [pa.array([f"n{node:03}" for node in range(part.first, part.first + part.size)]) for part in parts]
    states, facts = map(list, zip(*(program.start(*each) for each in zip(parts, ids, strict=True)), strict=True))
    number, sums = 0, tuple(map(math.fsum, zip(*facts, strict=True)))
    before: tuple[float, ...] = ()
    while not (is_over := program.is_over(number, sums, before)) and number != program.max_rounds:
        number += 1
        sent = [program.send(number, part, state) for part, state in zip(parts, states, strict=True)]
        received = []
        for part, state in zip(parts, states, strict=True):
            columns: dict[str, list[np.ndarray[Any, Any]]] = {name: [] for name in sent[0]}
            for messages in sent:
                assert (np.diff(messages["node"]) >= 0).all()
                is_own = (messages["node"] >= part.first) & (messages["node"] < part.first + part.size)
                for name, values in messages.items():
                    columns[name].append(values[is_own])
            arrays = {name: np.concatenate(chunks) for name, chunks in columns.items()}
            received.append(program.receive(number, part, state, arrays, sums))
        states, facts = map(list, zip(*received, strict=True))
        before, sums = sums, tuple(map(math.fsum, zip(*facts, strict=True)))
    finished = [program.finish(part, state) for part, state in zip(parts, states, strict=True)]
    return pa.concat_arrays(finished).to_pylist(), number, is_over


def check_ranks(network: Network, weights: np.ndarray[Any, Any], starts: list[int], budget: Budget) -> None:
    del weights
    expected = compute_pagerank(network, None, damping=0.85, tolerance=1e-6, rounds=30, budget=budget)

    found, rounds, is_over = run(
        PagerankProgram(network.count, 0.85, 1e-6, 30), divide(network, None, Direction.OUT, starts)
    )

    assert found == pytest.approx(expected.values.tolist(), rel=1e-9)
    assert (rounds, is_over) == (expected.rounds, expected.is_converged)


def check_labels(network: Network, weights: np.ndarray[Any, Any], starts: list[int], budget: Budget) -> None:
    del weights
    expected = propagate_labels(network, rounds=6, budget=budget)

    found, rounds, is_over = run(LabelProgram(6), divide(network, None, Direction.BOTH, starts))

    assert found == expected.values.tolist()
    assert (rounds, is_over) == (expected.rounds, expected.is_converged)


def check_components(network: Network, weights: np.ndarray[Any, Any], starts: list[int], budget: Budget) -> None:
    del weights

    found, rounds, _ = run(ComponentProgram(), divide(network, None, Direction.OUT, starts))

    assert found == find_components(network, budget).tolist()
    assert rounds <= 4 * (2 + network.count.bit_length())


@pytest.mark.parametrize("direction", Direction)
def test_distances_of_parts_are_those_of_one_process(direction: Direction) -> None:
    random, budget = Random(5), Budget(SystemClock())
    for _ in range(40):
        network, weights = random_network(random)
        starts = choose_starts(random, network.count)
        start = random.randrange(network.count)
        hops = compute_hops(network, start, direction, budget)
        sums = compute_weighted_distances(network, weights, start, direction, budget)

        by_edges, _, _ = run(
            DistanceProgram(f"n{start:03}", is_weighted=False), divide(network, None, direction, starts)
        )
        by_weight, _, _ = run(
            DistanceProgram(f"n{start:03}", is_weighted=True), divide(network, weights, direction, starts)
        )

        assert by_edges == [None if hop < 0 else hop for hop in hops.tolist()]
        assert by_weight == [None if math.isinf(each) else each for each in sums.tolist()]


@pytest.mark.parametrize("check", [check_ranks, check_labels, check_components])
def test_parts_that_exchange_messages_give_what_one_process_gives(check: Callable[..., None]) -> None:
    random = Random(11)
    for _ in range(60):
        network, weights = random_network(random)
        check(network, weights, choose_starts(random, network.count), Budget(SystemClock()))


def choose_starts(random: Random, count: int) -> list[int]:
    return sorted({0, *(random.randrange(count) for _ in range(random.randrange(4)))})


def test_a_part_fits_into_a_task() -> None:
    assert count_parts(10, 20, cores=16) == 1
    assert count_parts(1_000_000, 2_000_000, cores=16) == 16
    assert count_parts(1_000_000_000, 2_000_000_000, cores=16) == 500
    assert count_parts(1_000_000, 400_000_000, cores=1) == 100


# --- leases of runs --------------------------------------------------------------------------------------------------


def test_a_run_is_found_by_what_it_computes() -> None:
    first = build_run_id("commit", "edge:Knows", repr(Pagerank()))

    assert first == build_run_id("commit", "edge:Knows", repr(Pagerank()))
    others = {build_run_id("commit", "edge:Knows", repr(other)) for other in (Components(), Pagerank(damping=0.5))}
    assert len(others | {first, build_run_id("later", "edge:Knows", repr(Pagerank()))}) == 4


def open_store(path: Path, *, heartbeat: float, lease: float) -> GraphStorage:
    options = replace(FAST, heartbeat_seconds=heartbeat, lease_seconds=lease)
    graph = og.create_graph(str(path / "g"), SCHEMA, runtime=runtime(options))
    return graph._session.store


def test_a_lease_that_is_renewed_is_not_taken(tmp_path: Path) -> None:
    store = open_store(tmp_path, heartbeat=0.01, lease=60.0)
    first, second = RunLease(store, "RUN"), RunLease(store, "RUN")

    assert first.take()
    assert not second.take()
    first.check()
    first.release()
    assert second.take()
    second.release()
    assert not list(store.objects.list_under(RECOVERY))


def test_a_lease_of_a_dead_process_is_taken_over_and_it_notices_if_it_lives(tmp_path: Path) -> None:
    store = open_store(tmp_path, heartbeat=0.5, lease=0.0)
    first, second = RunLease(store, "RUN"), RunLease(store, "RUN")
    assert first.take()

    assert second.take()

    first._thread.join(timeout=60)  # type: ignore[union-attr]
    with pytest.raises(FencedError):
        first.check()
    assert not first.release()
    second.check()
    assert second.release()


def test_blocks_and_records_are_there_until_they_are_cleared(tmp_path: Path) -> None:
    graph = new_graph(tmp_path, SCHEMA)
    store = BlockStore(GraphLocation.from_session(graph._session), build_run_id("x"))
    block = pa.table({"node": pa.array([1, 2]), "x": pa.array([0.5, None])})

    key = store.put_block("state-1-0", block)

    assert store.read_block(key).equals(block)
    assert store.has_blocks([key])
    assert not store.has_blocks([key, f"{key}x"])
    store.clear()
    assert not list(graph._session.store.objects.list_under(RECOVERY))
