"""Maintenance on an object store: the same as on a disk."""

import os
from collections.abc import Iterator
from dataclasses import replace

import pytest

import omnigraph as og
from mutating import run
from s3_server import fresh_uri, s3_server
from upkeep_calls import MAINTAINED, AtPoint, eager, exported, fragments, indexed_rows, settled
from worlds import FAST, runtime

SCHEMA = "node P { k: String @key  n: I64 @index  s: String? @index  z: Blob? }\nedge E: P -> P\n"


@pytest.fixture(scope="module")
def storage() -> Iterator[dict[str, str]]:
    with s3_server() as options:
        yield options


@pytest.fixture
def graph(storage: dict[str, str]) -> og.Graph:
    """Four fragments, one with a hole; maintenance always pays."""
    settings = eager(replace(FAST, storage=storage))
    made = og.create_graph(fresh_uri(), SCHEMA, runtime=runtime(settings))
    for part in range(4):
        rows = [{"k": f"p{part}-{n}", "n": n, "s": "graphs", "z": os.urandom(n * 50_000)} for n in range(3)]
        records: list[dict[str, object]] = [{"type": "P", "data": row} for row in rows]
        records.append({"edge": "E", "from": f"p{part}-0", "to": f"p{part}-1"})
        made.load(records, mode="append")
    run(made, 'delete P where k = "p1-2"')
    return made


def test_tables_are_compacted_and_indexed_on_s3(graph: og.Graph) -> None:
    before = exported(graph)

    done = graph.optimize(all_indexes=True)

    assert not done.has_failed
    assert exported(graph) == before
    assert (fragments(graph, "P"), fragments(graph, "E")) == (1, 1)
    assert set(indexed_rows(graph).values()) == {1.0}
    assert graph.operations().pending == ()


def test_what_is_deleted_meanwhile_stays_deleted_on_s3(graph: og.Graph, storage: dict[str, str]) -> None:
    other = og.open_graph(graph.uri, runtime=runtime(replace(FAST, storage=storage)))
    meanwhile = AtPoint("publish.flushed", lambda: run(other, 'delete P where k = "p2-1"'))
    graph._session.store.runtime = replace(graph._session.runtime, faults=meanwhile)
    expected = [line for line in exported(graph).splitlines() if b'"p2-1"' not in line]

    done = graph.optimize(types=["P"])

    assert done.tables[0].commit_id is not None
    assert fragments(graph, "P") == 1
    assert exported(graph).splitlines() == expected


def test_small_writes_keep_their_tail_short_on_s3(storage: dict[str, str]) -> None:
    graph = og.create_graph(fresh_uri(), SCHEMA, runtime=runtime(replace(MAINTAINED, storage=storage)))

    for number in range(4):
        run(graph, f'insert P {{ k: "p{number}", n: {number} }}')
        settled(graph)

    assert fragments(graph, "P") == 1
    assert len(exported(graph).splitlines()) == 4
    assert graph.operations().pending == ()
