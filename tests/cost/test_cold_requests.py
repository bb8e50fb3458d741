"""What the first write of a new process costs in requests: the same after any number of commits.

The file of a version carries the rows of tiny files, and a compaction of the tail leaves the keys of all others in one
page. So a process reads neither the tail of a table, whose length changes all the time, nor its larger files, of which
there are more and more.
"""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import omnigraph as og
from mutating import run
from omnigraph.engine.tables.key_pages import build_page_key
from omnigraph.options import Maintenance, Options, UpkeepOptions
from omnigraph.runtime import Runtime
from omnigraph.telemetry import RequestCounts
from s3_server import copied, s3_server, uploaded
from upkeep_calls import settled
from worlds import CALM

SCHEMA = """
node P { name: String @key  age: I32?  email: String? @unique }
edge Knows: P -> P @card(0..1000000) { since: I32?  @key(src, dst) }
"""
WRITES = {
    "insert": 'insert P { name: "new", email: "new" }',
    "update": 'update P set { age: 1 } where name = "k4"',
    "upsert": 'insert P { name: "k5", age: 1 }',
    "edge": 'insert Knows { from: "k1", to: "k4" }',
    "delete": 'delete P where name = "k3"',
}
# By purpose: a list and two reads of the manifest, a list of recovery, a head of the next version; the version and the
# page of each table, and its one file with a row that is replaced; what a warm write puts, and the last head.
EXACT = {"insert": 13, "update": 15, "upsert": 15, "edge": 15, "delete": 19}
QUIET = replace(CALM, head_commits=16)
SHORT_TAIL = UpkeepOptions(merged_fragments=2, tail_fragments=8)


def grow(graph: og.Graph, first: int, commits: int) -> int:
    """Insert nodes, and an edge to every third, until there are so many commits; return the next number."""
    number = first
    while graph.snapshot().commit.seq < commits:
        run(graph, f'insert P {{ name: "k{number}", email: "e{number}" }}')
        if number % 3 == 0:
            run(graph, f'insert Knows {{ from: "k1", to: "k{number}" }}')
        number += 1
    return number


def made(root: Path, marks: tuple[int, ...], upkeep: UpkeepOptions) -> dict[int, Path]:
    """Copies of one graph after these numbers of commits."""
    kept = replace(QUIET, maintenance=Maintenance.AUTO, upkeep=upkeep)
    graph = og.create_graph(str(root / "live"), SCHEMA, runtime=Runtime(options=kept))
    number = 1
    copies = {}
    for mark in marks:
        number = grow(graph, number, mark)
        settled(graph)
        # Some more files in each tail, of which the version carries the rows; and no commit that moves others into the
        # sealed part of the journal comes next, which takes one more request.
        calm = og.open_graph(graph.uri, runtime=Runtime(options=QUIET))
        number = grow(calm, number, calm.snapshot().commit.seq + 8)
        while len(calm.snapshot().manifest.commits) != QUIET.head_commits // 2:
            # One commit at a time: with an edge it would be two, which may pass the number for ever.
            run(calm, f'insert P {{ name: "k{number}", email: "e{number}" }}')
            number += 1
        copies[mark] = root / str(mark)
        shutil.copytree(root / "live", copies[mark])
    return copies


def first_write(uri: str, options: Options, write: str) -> RequestCounts:
    """The requests of a process that opens the graph, writes, and ends."""
    runtime = Runtime(options=options)
    with runtime.telemetry.count_requests() as requests:
        assert run(og.open_graph(uri, runtime=runtime), WRITES[write]).affected_nodes or write == "edge"
    return requests


@pytest.fixture(scope="module")
def s3() -> Iterator[Options]:
    with s3_server() as options:
        yield replace(QUIET, storage=options)


@pytest.fixture(scope="module")
def graphs(s3: Options, tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    del s3  # the server is there
    return {
        mark: uploaded(path) for mark, path in made(tmp_path_factory.mktemp("cold"), (100, 500), SHORT_TAIL).items()
    }


@pytest.mark.parametrize("write", WRITES)
def test_the_first_write_of_a_process_costs_the_same_after_any_number_of_commits(
    s3: Options, graphs: dict[int, str], write: str
) -> None:
    found = {mark: first_write(copied(uri), s3, write) for mark, uri in graphs.items()}

    assert found[500].counts == found[100].counts
    assert found[100].count() == EXACT[write], found[100].format_table()


@pytest.mark.soak
@pytest.mark.timeout(3_600)
def test_the_first_write_costs_the_same_after_ten_thousand_commits(s3: Options, tmp_path: Path) -> None:
    marks = (100, 1_000, 10_000)
    short = replace(SHORT_TAIL, tail_fragments=16)

    found = {
        mark: {write: first_write(copied(uri), s3, write).count() for write in WRITES}
        for mark, uri in ((mark, uploaded(path)) for mark, path in made(tmp_path, marks, short).items())
    }

    assert found[10_000] == found[1_000] == found[100] == EXACT


def test_a_damaged_or_missing_page_changes_no_answer(tmp_path: Path) -> None:
    kept = replace(CALM, maintenance=Maintenance.AUTO, upkeep=SHORT_TAIL)
    graph = og.create_graph(str(tmp_path / "g"), SCHEMA, runtime=Runtime(options=kept))
    grow(graph, 1, 30)
    settled(graph)
    path = next(pin.path for key, pin in graph.snapshot().pins.items() if key == "node:P")
    page = Path(graph.uri, build_page_key(path))
    whole = page.read_bytes()

    for damaged in (whole, whole[:-9], whole[:40], b"", None):
        page.unlink() if damaged is None else page.write_bytes(damaged)
        cold = og.open_graph(graph.uri, runtime=Runtime(options=CALM))
        assert run(cold, 'update P set { age: 1 } where name = "k2"').affected_nodes == 1
        with pytest.raises(og.ConstraintError, match="e2"):
            run(cold, 'insert P { name: "other", email: "e2" }')
