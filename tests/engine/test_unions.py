"""Hops of several types: bounds that are open, notes of those that cut off, and what a large graph costs."""

import json
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.cli.main import main
from omnigraph.clock import SystemClock
from omnigraph.engine.cut_off import CutOff
from omnigraph.engine.operators.bfs import run_bfs
from omnigraph.engine.operators.bitset_bfs import BitsetBfs
from omnigraph.engine.operators.neighbour_lists import AdjacencyLists
from omnigraph.engine.query_budget import Budget, QueryMemoryError, QueryTimeoutError
from omnigraph.engine.tables.union_reader import UnionReader

SCHEMA = """
node Person { name: String @key }
node Company { name: String @key }
edge Knows: Person -> Person
edge WorksAt: Person -> Company
"""
CHAIN = 'query q() { match { $a: Person { name: "p0" } $a %s $b } return { count(*) as n } }'


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """Five people in a chain, who all work at one company."""
    home = tmp_path_factory.mktemp("chain")
    graph = og.create_graph(str(home / "g.omni"), SCHEMA)
    records: list[dict[str, Any]] = [{"type": "Person", "data": {"name": f"p{n}"}} for n in range(5)]
    records.append({"type": "Company", "data": {"name": "acme"}})
    records += [{"edge": "Knows", "from": f"p{n}", "to": f"p{n + 1}"} for n in range(4)]
    records += [{"edge": "WorksAt", "from": f"p{n}", "to": "acme"} for n in range(5)]
    (home / "data.jsonl").write_text("\n".join(map(json.dumps, records)))
    graph.load(str(home / "data.jsonl"), mode="append")
    return graph


# --- notes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "hop, count, notes",
    [
        ("knows{1,2}", 2, ["Knows{1,2}"]),
        ("knows{2,3}", 2, ["Knows{2,3}"]),
        ("knows{1,4}", 4, []),  # the last node is at the bound, and nothing lies beyond
        ("knows{1,5}", 4, []),
        ("knows{1,*}", 4, []),
        ("knows{0,1}", 2, []),  # a single edge is no traversal that a bound ends
        ("knows", 1, []),
        ("<*>{1,2}", 5, []),  # all others are colleagues
        ("(knows|worksAt){1,2}", 3, ["*{1,2}"]),
    ],
)
def test_a_bound_that_cut_off_is_noted(chain: og.Graph, hop: str, count: int, notes: list[str]) -> None:
    result = chain.query(CHAIN % hop)

    ending = " stopped at its upper bound: more nodes are reachable over more edges"
    assert (result.rows(), list(result.notes)) == ([{"n": count}], [note + ending for note in notes])


@pytest.mark.parametrize("kind", ["path", "shortest", "all_shortest", "cheapest"])
@pytest.mark.parametrize(
    "hop, count, notes",
    [
        ("knows{1,2}", 2, ["Knows{1,2}"]),
        ("knows{1,4}", 4, []),
        ("<worksAt>{1,2}", 5, []),
        ("(knows|worksAt){0,2} $b $b: Person", 3, ["*{0,2}"]),
        # Between given ends, only a pair without a walk was cut off.
        ('knows{1,3} $b $b: Person { name: "p2" }', 1, []),
        ('knows{1,3} $b $b: Person { name: "p4" }', 0, ["Knows{1,3}"]),
        ('knows{0,2} $a $c: Person { name: "p2" } $c knows{1,2} $b', 2, []),
    ],
)
def test_a_bound_that_cut_off_walks_is_noted(
    chain: og.Graph, kind: str, hop: str, count: int, notes: list[str]
) -> None:
    weight = " by { 1 }" if kind == "cheapest" else ""
    hop, _, rest = hop.partition(" $")
    end, _, rest = f"${rest}".partition(" ") if rest else ("$b", "", "")
    match = f'$a: Person {{ name: "p0" }} {kind} $w = $a {hop} {end}{weight} {rest}'

    result = chain.query(f"match {{ {match} }} return {{ count($w) as n }}")

    ending = " stopped at its upper bound: more nodes are reachable over more edges"
    assert (result.rows(), list(result.notes)) == ([{"n": count}], [note + ending for note in notes])


def test_a_note_is_part_of_the_document_only_if_there_is_one(chain: og.Graph) -> None:
    with_note, without = (chain.query(CHAIN % hop).to_json() for hop in ("knows{1,2}", "knows{1,*}"))

    assert "notes" in with_note
    assert with_note.keys() - without.keys() == {"notes"}


def test_the_command_prints_a_note_beside_the_rows(chain: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["query", chain.uri, "-e", CHAIN % "knows{1,2}", "--format", "jsonl"])

    printed = capsys.readouterr()
    assert (code, printed.out) == (0, '{"n":2}\n')
    assert printed.err.startswith("note: Knows{1,2} stopped at its upper bound")


def test_both_searches_notice_what_lies_beyond() -> None:
    # A ring of ten: from each node the bound of 3 leaves six out, that of 10 none.
    starts, targets = np.arange(11), (np.arange(10) + 1) % 10
    lists, budget = AdjacencyLists(starts, targets), Budget(SystemClock())
    for high, is_found in ((3, True), (9, True), (10, False)):
        for is_dense in (False, True):
            cut_off = CutOff(is_looked_for=True)
            if is_dense:
                BitsetBfs(lists, 10, budget, is_directed=True, cut_off=cut_off).list_reached(np.arange(10), 1, high)
            else:
                run_bfs(lambda _: lists, np.arange(10), 10, (1, high), budget, cut_off=cut_off)
            assert cut_off.is_found is is_found, (high, is_dense)


def test_looking_beyond_a_bound_returns_its_memory() -> None:
    budget = Budget(SystemClock(), memory_bytes=1 << 20)
    lists = AdjacencyLists(np.arange(11), (np.arange(10) + 1) % 10)

    run_bfs(lambda _: lists, np.arange(10), 10, (1, 3), budget, cut_off=CutOff(is_looked_for=True))

    budget.claim(1 << 20, "all of it again")


# --- open bounds -----------------------------------------------------------------------------------


@pytest.mark.parametrize("is_directed", [True, False])
@pytest.mark.parametrize("low", [0, 1, 2, 5])
def test_a_search_without_an_upper_bound_reaches_all(low: int, is_directed: bool) -> None:
    # A path of 600 nodes: more distances than fit into a byte.
    size = 600
    heads, tails = np.arange(size - 1), np.arange(1, size)
    near = np.concatenate([heads, tails]) if not is_directed else heads
    far = np.concatenate([tails, heads]) if not is_directed else tails
    order = np.lexsort((far, near))
    starts = np.concatenate([[0], np.cumsum(np.bincount(near, minlength=size))])
    lists = AdjacencyLists(starts, far[order])

    found = run_bfs(lambda _: lists, np.array([10]), size, (low, size), Budget(SystemClock()), is_directed=is_directed)

    distances = np.arange(size) - 10
    wanted = np.flatnonzero((distances if is_directed else np.abs(distances)) >= low)
    # Without direction, a path has no cycle: the start is reached only by not leaving it.
    assert found.targets.tolist() == wanted.tolist()


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """A million edges between 100,000 nodes, at random: nearly all of it is one cycle through everything."""
    home = tmp_path_factory.mktemp("large")
    graph = og.create_graph(str(home / "g.omni"), SCHEMA)
    random, nodes, edges = np.random.default_rng(7), 100_000, 1_000_000
    names = pa.array([f"p{n}" for n in range(nodes)])
    ends = [names.take(pa.array(random.integers(0, nodes, edges))) for _ in range(2)]
    pq.write_table(pa.table({"name": names}), home / "Person.parquet")
    pq.write_table(pa.table({"from": ends[0], "to": ends[1]}), home / "Knows.parquet")
    people, friends = ({name: str(home / f"{name}.parquet")} for name in ("Person", "Knows"))
    graph.load(nodes=people, edges=friends, mode="append")
    return graph


def test_a_million_edges_without_an_upper_bound_stay_within_the_budget(large: og.Graph) -> None:
    (row,) = large.query(CHAIN % "knows{1,*}", memory_bytes=64 << 20).rows()

    assert row["n"] > 99_000


def test_a_union_refuses_to_find_rows_by_id() -> None:
    members = [SimpleNamespace(type=SimpleNamespace(name=name), version=0, size=1, count=1) for name in "AB"]
    union = UnionReader(SimpleNamespace(name="A|B"), members)  # type: ignore[arg-type]  # all that it needs of them

    with pytest.raises(TypeError, match=r"which of \['A', 'B'\] it is: ask one of them"):
        union.find(["x"])


@pytest.mark.soak
def test_all_pairs_without_an_upper_bound_obey_the_budget_and_the_deadline(large: og.Graph) -> None:
    text = "query q() { match { $a knows{1,*} $b } return { $a, $b } }"

    with pytest.raises(QueryMemoryError):
        large.query(text, memory_bytes=64 << 20)
    started = time.monotonic()
    with pytest.raises(QueryTimeoutError):
        large.query("query q() { match { $a knows{1,*} $b } return { count(*) as n } }", seconds=1)
    assert time.monotonic() - started < 5
