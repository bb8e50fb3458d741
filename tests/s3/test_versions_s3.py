"""Branches, merges and schema changes on an object store: right, and as many requests for 3 tables as for 50."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

import omnigraph as og
from merging import contents, run
from omnigraph.options import Options
from omnigraph.runtime import Runtime
from omnigraph.storage.object_store import ObjectInfo
from s3_server import fresh_uri, s3_server
from worlds import FAST

PEOPLE = """
node P { name: String @key  n: I32?  told: String? }
node C { name: String @key }
edge E: P -> C { w: I32? }
"""
RANK = PEOPLE.replace("n: I32?", "n: I32?  rank: I32 @default(7)")
NICK = PEOPLE.replace("n: I32?", "n: I32?  nick: String?")
TABLES = (3, 50)


@pytest.fixture(scope="module")
def options() -> Iterator[Options]:
    with s3_server() as storage:
        yield replace(FAST, storage=storage, heartbeat_seconds=30, lease_seconds=90)  # a renewal is a request too


@pytest.fixture(scope="module")
def graphs(options: Options) -> tuple[og.Graph, og.Graph]:
    """Two graphs that hold the same, but for empty tables."""
    few, many = (new_graph(options, tables) for tables in TABLES)
    return few, many


def others(tables: int) -> str:
    return "".join(f"node T{number} {{ v: I64? }}\n" for number in range(tables - 3))


def new_graph(options: Options, tables: int) -> og.Graph:
    graph = og.create_graph(fresh_uri(), PEOPLE + others(tables), runtime=Runtime(options=options))
    run(graph, 'insert P { name: "a", n: 1, told: "x" } insert P { name: "b", n: 1 } insert C { name: "c" }')
    run(graph, 'insert E { from: "a", to: "c", w: 1 }')
    return graph


def rows(graph: og.Graph, branch: str = "main") -> dict[str, object]:
    return {name: found for name, found in contents(graph, branch).items() if name in "PCE"}


def files(graph: og.Graph) -> list[ObjectInfo]:
    return graph._session.store.objects.list_under("nodes")


def test_a_merge_of_two_schemas_costs_the_same_for_any_number_of_tables(graphs: tuple[og.Graph, og.Graph]) -> None:
    counted = []
    for graph, tables in zip(graphs, TABLES, strict=True):
        steps = {}
        with graph._session.runtime.telemetry.count_requests() as steps["branch"]:
            graph.branches.create("dev")
        with graph._session.runtime.telemetry.count_requests() as steps["apply"]:
            graph.apply_schema(RANK + others(tables))
        graph.apply_schema(NICK + others(tables), branch="dev")
        run(graph, 'update P set { nick: "ay" } where name = "a"', "dev")
        run(graph, 'update P set { rank: 9 } where name = "b"')
        with graph._session.runtime.telemetry.count_requests() as steps["merge"]:
            done = graph.merge("dev")
        assert done.outcome.value == "merged"
        counted.append({name: step.counts for name, step in steps.items()})

    assert counted[0] == counted[1]
    few, many = (rows(graph)["P"] for graph in graphs)
    assert few == many
    assert isinstance(few, dict)
    assert {name: (one["rank"], one["nick"]) for name, one in few.items()} == {"a": (7, "ay"), "b": (9, None)}


def test_what_is_dropped_for_good_is_in_no_file_of_the_new_state(options: Options) -> None:
    graph = new_graph(options, 3)
    before = {info.key for info in files(graph)}

    graph.apply_schema(PEOPLE.replace("  told: String?", ""), allow_data_loss=True)

    table = graph.table("P")
    names = [file.path for fragment in table.get_fragments() for file in fragment.data_files()]
    assert names
    assert not any(key.endswith(name) for key in before for name in names)
    assert rows(graph)["P"] == {"a": {"name": "a", "n": 1}, "b": {"name": "b", "n": 1}}
    with pytest.raises(og.OmnigraphError, match=r"dropped `P\.told`"):
        graph.table("P", snapshot=graph.commits()[1].id)
