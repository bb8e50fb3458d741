"""The adjacency of several edge types: after a commit it is patched, and equals one that is built from all edges."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnigraph as og
from mutating import new_graph, run
from omnigraph.engine.operators import union_csr
from omnigraph.engine.operators.union_csr import UnionCsr, WayEnds, build_union_csr
from omnigraph.engine.tables.csr import CsrAdjacency, Ints, build_csr

SCHEMA = """
node Company { name: String @key }
node Person { name: String @key }
node Team { name: String @key }
edge Knows: Person -> Person
edge Leads: Person -> Team
edge WorksAt: Person -> Company
"""
# The members of the near and far union that each way connects. The last one is the second in both directions.
WAYS = ((0, 0), (0, 1), (1, 2), (2, 1), (1, 2))


def _grow_ways(
    random: np.random.Generator, sizes: list[int], old: UnionCsr | None, changes: int, appended: int
) -> list[WayEnds]:
    """Return random ways, or older ones with some edges changed or deleted, and some more."""
    bases = np.cumsum([0, *sizes])
    ways = []
    for number, (near_type, far_type) in enumerate(WAYS):
        ends = [random.integers(0, sizes[type_], appended).astype(np.int32) for type_ in (near_type, far_type)]
        if old is not None:
            kept = old.ways[number]
            ends = [np.append(kept.near, ends[0]), np.append(kept.far, ends[1])]
            changed = random.integers(0, len(ends[0]), changes)
            ends[1][changed] = random.integers(0, sizes[far_type], changes)
            is_deleted = random.random(changes) < 0.5
            ends[0][changed[is_deleted]] = ends[1][changed[is_deleted]] = -1
        ways.append(WayEnds(ends[0], ends[1], int(bases[near_type]), int(bases[far_type])))
    return ways


def _list_arrays(union: UnionCsr) -> list[list[int]]:
    return [array.tolist() for array in union.csr.arrays]


@pytest.mark.parametrize("grown", [(0, 0, 0), (3, 0, 0), (0, 2, 1), (0, 0, 4), (1, 1, 1)])
@pytest.mark.parametrize("changes, appended", [(0, 0), (0, 1), (2, 0), (2, 3)])
def test_patched_lists_equal_those_of_all_edges(
    changes: int, appended: int, grown: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(changes * 10 + appended)
    sizes = [8, 5, 6]
    union = build_union_csr(_grow_ways(random, sizes, None, 0, 100), sizes, sizes, None)
    for _ in range(3):
        sizes = [size + more for size, more in zip(sizes, grown, strict=True)]
        ways = _grow_ways(random, sizes, union, changes, appended)
        expected = build_union_csr(ways, sizes, sizes, None)
        with monkeypatch.context() as patch:
            patch.delattr(union_csr, "build_csr")
            union = build_union_csr(ways, sizes, sizes, union)
        assert _list_arrays(union) == _list_arrays(expected)


@pytest.mark.parametrize("shrunk", ["nodes", "edges"])
def test_lists_of_tables_that_shrank_are_built_anew(shrunk: str) -> None:
    random = np.random.default_rng(4)
    ways = _grow_ways(random, [8, 5, 6], None, 0, 100)
    union = build_union_csr(ways, [9, 5, 6], [9, 5, 6], None)
    if shrunk == "edges":
        ways[0] = WayEnds(ways[0].near[:-1], ways[0].far[:-1], ways[0].near_base, ways[0].far_base)

    again = build_union_csr(ways, [8, 5, 6], [8, 5, 6], union)

    assert _list_arrays(again) == _list_arrays(build_union_csr(ways, [8, 5, 6], [8, 5, 6], None))


# --- in a graph ------------------------------------------------------------------------------------


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    """Sixty people, who know each other in a ring and work at one of three companies, and two teams."""
    graph = new_graph(tmp_path, SCHEMA)
    records: list[dict[str, Any]] = [{"type": "Person", "data": {"name": f"p{n}"}} for n in range(60)]
    records += [{"type": "Company", "data": {"name": f"c{n}"}} for n in range(3)]
    records += [{"type": "Team", "data": {"name": name}} for name in "tu"]
    records += [{"edge": "Leads", "from": "p4", "to": name} for name in "tu"]
    records += [{"edge": "Knows", "from": f"p{n}", "to": f"p{(n + 1) % 60}"} for n in range(60)]
    records += [{"edge": "WorksAt", "from": f"p{n}", "to": f"c{n % 3}"} for n in range(60)]
    (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, records)))
    graph.load(str(tmp_path / "data.jsonl"), mode="append")
    return graph


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of edges of each adjacency of several types that is built from all of them."""
    counts = []

    def count(near: Ints, far: Ints, size: int, far_size: int) -> CsrAdjacency:
        counts.append(len(near))
        return build_csr(near, far, size, far_size)

    monkeypatch.setattr(union_csr, "build_csr", count)
    return counts


HOPS = {
    "(knows|worksAt)": "match { $a: Person $a (knows|worksAt) $b } return { $a.name, $b.name as b }",
    "<*>{1,3}": 'match { $a: Person { name: "p5" } $a <*>{1,3} $b } return { $b.name as b }',
    "$e:*": "match { $a: Person $a $e:* $b } return { $a.name, $e.@type, $b.name as b }",
}


def _answer(graph: og.Graph, hop: str) -> list[str]:
    return sorted(json.dumps(row) for row in graph.query(HOPS[hop]).rows())


@pytest.mark.parametrize("hop", HOPS)
@pytest.mark.parametrize(
    "change",
    [
        'insert Company { name: "new" }',
        'insert Person { name: "new" }',
        'insert Knows { from: "p7", to: "p3" }',
        'insert Person { name: "new" } insert WorksAt { from: "new", to: "c1" } insert Knows { from: "p5", to: "new" }',
        'insert Knows { from: "p5", to: "p5" }',
        'delete Team where name = "t"',
        'delete Person where name = "p6"',
    ],
)
def test_a_commit_to_one_member_does_not_build_all_lists_again(
    graph: og.Graph, builds: list[int], hop: str, change: str
) -> None:
    _answer(graph, hop)
    assert len(builds) == 1

    run(graph, change)
    after = _answer(graph, hop)

    assert len(builds) == 1
    # Another handle has nothing in memory, and builds all lists.
    assert after == _answer(og.open_graph(graph.uri), hop)
    assert len(builds) == 2


def test_lists_with_and_without_edges_come_from_one_adjacency(graph: og.Graph, builds: list[int]) -> None:
    match = "match { $a: Person $a %s $b } return { count(*) as n }"
    for hop in ("(knows|worksAt)", "$e:(knows|worksAt)"):
        assert graph.query(match % hop).rows() == [{"n": 120}]

    assert len(builds) == 1
