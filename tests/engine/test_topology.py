"""Adjacency is what a walk over all edges finds, however the tables came to be."""

import tempfile
import threading
from collections.abc import Iterable
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.clock import SystemClock
from omnigraph.engine.query_budget import Budget, QueryTimeoutError
from omnigraph.engine.tables import csr as adjacency_module
from omnigraph.engine.tables.csr import CsrAdjacency, EdgeList, build_csr, collapse_parallel_edges, patch_csr
from omnigraph.engine.tables.graph_cache import GraphCache
from omnigraph.engine.tables.topology import Topology, derive_endpoints
from omnigraph.errors import CorruptError
from omnigraph.options import Options
from row_worlds import EDGES, NODES, budget, live_rows, new_session, rows_of, table_of, view_of, write
from topology_past import Past, assert_equal, edge_table, topology_of


def pairs(found: CsrAdjacency, near: list[str | None], far: list[str | None]) -> list[tuple[str | None, str | None]]:
    """Every (node, neighbour) of the lists, by ids, in their order."""
    return [
        (near[node], far[int(neighbour)])
        for node in range(len(found.starts) - 1)
        for neighbour in found.targets[found.starts[node] : found.starts[node + 1]]
    ]


def check_against(past: Past, topology: Topology) -> None:
    nodes, edges = rows_of(past.session), rows_of(past.session, "E")
    ids: list[str | None] = nodes.load_column("id").to_pylist()
    edge_ids: list[str | None] = edges.load_column("id").to_pylist()
    assert [None if at < 0 else ids[at] for at in topology.source.tolist()] == [
        past.edges[edge_id][0] if edge_id else None for edge_id in edge_ids
    ]
    assert [None if at < 0 else ids[at] for at in topology.target.tolist()] == [
        past.edges[edge_id][1] if edge_id else None for edge_id in edge_ids
    ]
    out, into = topology.get_out_csr(), topology.get_in_csr()
    assert out.edges is not None
    assert into.edges is not None
    assert sorted(pairs(out, ids, ids)) == sorted(past.edges.values())
    assert sorted(pairs(into, ids, ids)) == sorted((dst, src) for src, dst in past.edges.values())
    assert [past.edges[str(edge_ids[at])] for at in out.edges.tolist()] == pairs(out, ids, ids)
    assert [past.edges[str(edge_ids[at])][::-1] for at in into.edges.tolist()] == pairs(into, ids, ids)
    assert sorted(pairs(topology.get_out_set_csr(), ids, ids)) == sorted(set(past.edges.values()))
    assert sorted(pairs(topology.get_in_set_csr(), ids, ids)) == sorted(
        {(dst, src) for src, dst in past.edges.values()}
    )
    for found in (out, into, topology.get_out_set_csr(), topology.get_in_set_csr()):
        assert_sorted(found)


def assert_sorted(found: CsrAdjacency) -> None:
    """Neighbours ascend in every list; equal ones by edge, or never where each stands once."""
    places = range(len(found.targets)) if found.edges is None else found.edges.tolist()
    for start, end in zip(found.starts.tolist(), found.starts[1:].tolist(), strict=False):
        keys = list(zip(found.targets[start:end].tolist(), list(places)[start:end], strict=True))
        assert keys == sorted(keys)
        if found.edges is None:
            assert len({target for target, _ in keys}) == len(keys)


@settings(max_examples=15)
@given(st.integers(0, 2**32), st.integers(1, 9))
def test_an_extended_topology_is_what_a_new_one_would_be(seed: int, steps: int) -> None:
    with tempfile.TemporaryDirectory() as root:
        past = Past(new_session(Path(root) / "g"), seed)
        for _ in range(steps):
            past.step()

            check_against(past, topology_of(past.session))

        assert_equal(topology_of(past.session), topology_of(past.session, GraphCache(Options())))


@settings(max_examples=8)
@given(st.integers(0, 2**32), st.integers(2, 8))
def test_an_older_snapshot_after_a_newer_one_is_right_as_well(seed: int, steps: int) -> None:
    with tempfile.TemporaryDirectory() as root:
        past = Past(new_session(Path(root) / "g"), seed)
        views = []
        for _ in range(steps):
            past.step()
            views.append(view_of(past.session))

        for view in reversed(views):
            found = topology_of(past.session, view=view)
            assert_equal(found, topology_of(past.session, GraphCache(Options()), view))


def test_no_memory_gives_the_same_answers(tmp_path: Path) -> None:
    past = Past(new_session(tmp_path / "g"), 5)
    for _ in range(9):
        past.step()

    check_against(past, topology_of(past.session, GraphCache(Options(cache_bytes=0))))


def test_equal_rows_share_one_topology(tmp_path: Path) -> None:
    past = Past(new_session(tmp_path / "g"), 3)
    for _ in range(6):
        past.step()
    first = topology_of(past.session)

    again = topology_of(past.session)

    assert again is first
    assert past.session.reads.has_topology(view_of(past.session), view_of(past.session).catalog.edges["E"])


def test_an_edge_without_its_node_is_reported(tmp_path: Path) -> None:
    session = new_session(tmp_path / "g")
    write(session, NODES, append=table_of(session, live_rows(Random(1), ["a", "b"])))
    write(session, EDGES, append=edge_table({"e1": ("a", "b"), "e2": ("a", "ghost"), "e3": ("b", "ghost")}))

    with pytest.raises(CorruptError, match=r"E has `ghost` as its target.* \(and 1 more\)"):
        topology_of(session)


def test_a_deleted_edge_may_have_lost_its_node(tmp_path: Path) -> None:
    session = new_session(tmp_path / "g")
    write(session, NODES, append=table_of(session, live_rows(Random(1), ["a", "b"])))
    write(session, EDGES, append=edge_table({"e1": ("a", "b"), "e2": ("a", "a")}))
    write(session, EDGES, delete=["e1"])
    write(session, NODES, delete=["b"])

    found = topology_of(session)

    assert (found.source.tolist(), found.target.tolist()) == ([-1, 0], [-1, 0])


def test_a_deadline_stops_the_making(tmp_path: Path) -> None:
    session = new_session(tmp_path / "g")
    write(session, NODES, append=table_of(session, live_rows(Random(1), ["a"])))
    write(session, EDGES, append=edge_table({"e1": ("a", "a")}))
    late = Budget(SystemClock(), seconds=-1)
    view = view_of(session)

    with pytest.raises(QueryTimeoutError):
        session.reads.get_topology(view, view.catalog.edges["E"], late)

    assert session.reads.get_topology(view, view.catalog.edges["E"], budget()).source.tolist() == [0]


def test_threads_make_one_topology(tmp_path: Path) -> None:
    past = Past(new_session(tmp_path / "g"), 11)
    for _ in range(8):
        past.step()
    view, found = view_of(past.session), []

    threads = [
        threading.Thread(target=lambda: found.append(topology_of(past.session, view=view).get_out_csr()))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len({id(one) for one in found}) == 1


# --- arrays alone ----------------------------------------------------------------------------------


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, int, list[tuple[int, int]]]:
    """Sizes of both sides, and edges with some holes."""
    sources, targets = draw(st.integers(1, 8)), draw(st.integers(1, 8))
    edge = st.tuples(st.integers(0, sources - 1), st.integers(0, targets - 1)) | st.just((-1, -1))
    return sources, targets, draw(st.lists(edge, max_size=40))


def columns(edges: Iterable[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    table = np.array(list(edges), np.int32).reshape(-1, 2)
    return table[:, 0].copy(), table[:, 1].copy()


@settings(max_examples=200)
@given(graphs(), st.randoms(use_true_random=False), st.integers(-3, 3))
def test_patched_lists_are_sorted_lists(
    graph: tuple[int, int, list[tuple[int, int]]], random: Random, more: int
) -> None:
    size, far_size, edges = graph
    older = build_csr(*columns(edges), size, far_size)
    new_size, new_far = max(1, size + more), max(1, far_size + more)
    now = [
        random.choice([(-1, -1), (random.randrange(new_size), random.randrange(new_far))])
        if random.random() < 0.3 or pair[0] >= new_size or pair[1] >= new_far
        else pair
        for pair in edges
    ]
    now += [(random.randrange(new_size), random.randrange(new_far)) for _ in range(random.randint(0, 5))]
    now = now[: random.randint(0, len(now))] if random.random() < 0.3 else now
    changed = [place for place in range(len(now)) if place >= len(edges) or now[place] != edges[place]]

    left = [place for place in changed if place < len(edges)] + list(range(len(now), len(edges)))
    gone = picked(edges, [place for place in left if edges[place] != (-1, -1)])
    new = picked(now, [place for place in changed if now[place] != (-1, -1)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(adjacency_module, "_MIN_EDGES_PER_EDIT", 0)
        found = patch_csr(older, (new_size, new_far, len(now)), gone, new)

    expected = build_csr(*columns(now), new_size, new_far)
    assert found is not None
    for array, other in zip(found.arrays, expected.arrays, strict=True):
        np.testing.assert_array_equal(array, other)
        assert array.dtype == other.dtype


def picked(edges: list[tuple[int, int]], places: list[int]) -> EdgeList:
    return EdgeList(np.array(places, np.int64), *columns([edges[place] for place in places]))


def test_many_changes_are_not_patched() -> None:
    source = np.zeros(40, np.int32)
    older, some = build_csr(source, source, 1, 1), np.arange(3)

    assert (
        patch_csr(older, (1, 1, 43), EdgeList(some, some * 0, some * 0), EdgeList(some + 40, some * 0, some * 0))
        is None
    )


@settings(max_examples=100)
@given(graphs())
def test_all_edges_tell_both_ends(graph: tuple[int, int, list[tuple[int, int]]]) -> None:
    size, far_size, edges = graph
    source, target = columns(edges)

    found = derive_endpoints(build_csr(source, target, size, far_size), len(edges))

    np.testing.assert_array_equal(found.source, source)
    np.testing.assert_array_equal(found.target, target)


@settings(max_examples=100)
@given(graphs())
def test_a_set_has_every_neighbour_once(graph: tuple[int, int, list[tuple[int, int]]]) -> None:
    size, far_size, edges = graph

    found = collapse_parallel_edges(build_csr(*columns(edges), size, far_size))

    lists = [found.targets[found.starts[n] : found.starts[n + 1]].tolist() for n in range(size)]
    assert lists == [sorted({to for from_, to in edges if from_ == n}) for n in range(size)]
    assert found.compute_degrees().tolist() == [len(one) for one in lists]


def test_sizes_that_fill_more_than_one_word_are_sorted_too() -> None:
    source, target = np.array([2**30, 5, 5], np.int64), np.array([7, 2**33, 3], np.int64)

    order, targets = sorted_edges(source, target)

    assert order.tolist() == [2, 1, 0]
    assert targets.tolist() == [3, 2**33, 7]


def sorted_edges(source: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    from omnigraph.engine.tables.csr import _sort_edges

    return _sort_edges(source, target, 2**31, 2**34, 1)
