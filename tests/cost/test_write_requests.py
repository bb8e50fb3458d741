"""What mutations and loads cost in requests: exact, on an object store, and the same at any length of history."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

import omnigraph as og
from load_calls import edge, loaded, node
from mutating import run
from omnigraph.options import Maintenance, Options, UpkeepOptions
from omnigraph.runtime import Runtime
from omnigraph.storage import carried_rows
from omnigraph.telemetry import RequestCounts
from s3_server import fresh_uri, s3_server
from upkeep_calls import settled
from worlds import CALM

SCHEMA = """
node P { name: String @key  age: I32?  email: String?  @unique(email) }
node E { v: I64 }
edge Knows: P -> P { since: I32?  @key(src, dst) }
"""
NUMBERS = count()


def name() -> str:
    """A key that nobody has."""
    return f"k{next(NUMBERS)}"


def update_one(graph: og.Graph) -> None:
    text = f'update P set {{ age: {next(NUMBERS)} }} where name = "a"'  # noqa: S608 - no SQL
    assert run(graph, text).affected_nodes == 1


def delete_one(graph: og.Graph) -> None:
    assert run(graph, 'delete P where name = "b"').affected_nodes == 1


def append_two_tables(graph: og.Graph) -> None:
    new = name()
    loaded(graph, "append", node("P", name=new), edge("Knows", new, "a"))


def merge_two_tables(graph: og.Graph) -> None:
    loaded(graph, "merge", node("P", name="a", age=next(NUMBERS)), edge("Knows", "a", "a", since=next(NUMBERS)))


def insert_edge(graph: og.Graph) -> None:
    run(graph, f'insert P {{ name: "{name()}" }} insert Knows {{ from: "a", to: "a" }}')


# Two puts for each table, a data file and a version, and three for the manifest, which has a transaction too. Two
# heads of the next version's name, before the write and after its swap. The rest are look-ups. A load has a sidecar.
WRITES: dict[str, tuple[Callable[[og.Graph], object], int]] = {
    "insert a node": (lambda graph: run(graph, f'insert P {{ name: "{name()}" }}'), 7),
    "insert a node without a key": (lambda graph: run(graph, f"insert E {{ v: {next(NUMBERS)} }}"), 7),
    "insert a unique value": (lambda graph: run(graph, f'insert P {{ name: "{name()}", email: "{name()}" }}'), 7),
    "insert a node and an edge": (insert_edge, 9),
    "update a node": (update_one, 8),
    "delete a node with its edges": (delete_one, 8),
    "append to two tables": (append_two_tables, 15),
    "merge into two tables": (merge_two_tables, 16),
    "overwrite a table": (lambda graph: loaded(graph, "overwrite", node("E", v=next(NUMBERS))), 14),
}


def new_graph(uri: str, options: Options) -> og.Graph:
    """A graph with a few rows."""
    graph = og.create_graph(uri, SCHEMA, runtime=Runtime(options=options))
    persons = [node("P", name=one, age=1) for one in "abc"]
    loaded(graph, "append", *persons, node("E", v=1), edge("Knows", "a", "b"), edge("Knows", "a", "c"))
    return graph


def look_keys_up(graph: og.Graph) -> None:
    """Write to every table, so that the keys of their files are in memory."""
    run(graph, "insert E { v: 0 }")
    run(graph, f'insert P {{ name: "{name()}", email: "{name()}" }} insert Knows {{ from: "c", to: "c" }}')
    run(graph, 'delete P where name = "c"')


def measured(graph: og.Graph, write: Callable[[og.Graph], object]) -> RequestCounts:
    graph.snapshot()  # warm, also after whatever took long before
    with graph._session.runtime.telemetry.count_requests() as requests:
        write(graph)
    return requests


@pytest.fixture(scope="module")
def s3() -> Iterator[Options]:
    with s3_server() as options:
        yield replace(CALM, storage=options)


@pytest.mark.parametrize("write", WRITES)
def test_a_warm_write_costs_so_many_requests(s3: Options, write: str) -> None:
    graph = new_graph(fresh_uri(), s3)
    look_keys_up(graph)
    do, exact = WRITES[write]

    requests = measured(graph, do)

    assert requests.count() == exact, requests.format_table()


def test_an_update_of_a_row_that_this_process_wrote_costs_what_an_insert_costs(s3: Options) -> None:
    graph = new_graph(fresh_uri(), s3)
    look_keys_up(graph)
    update_one(graph)

    requests = measured(graph, update_one)

    assert requests.count() == WRITES["insert a node"][1], requests.format_table()


@pytest.mark.parametrize("write", [name for name in WRITES if name.startswith(("insert", "update", "delete"))])
def test_a_warm_mutation_lists_nothing(s3: Options, write: str) -> None:
    graph = new_graph(fresh_uri(), s3)
    run(graph, "insert E { v: 0 }")

    requests = measured(graph, WRITES[write][0])

    assert requests.count(operation="list") == 0, requests.format_table()
    assert requests.count(target="control", operation="head") == 2


def test_a_cold_handle_reads_the_files_of_an_earlier_release_once_per_key(
    s3: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carried_rows, "MAX_CARRIED_ROWS", 0)
    graph = new_graph(fresh_uri(), s3)
    files = 1
    for more in (8, 24):
        for _ in range(more):
            run(graph, f'insert P {{ name: "{name()}", email: "{name()}" }}')
        files += more
        cold = og.open_graph(graph.uri, runtime=Runtime(options=s3))
        first, second = (
            measured(cold, lambda graph: run(graph, f'insert P {{ name: "{name()}", email: "{name()}" }}'))
            for _ in range(2)
        )

        the_id, the_email = 1, 1
        assert first.count(target="table", operation="get") == files * (the_id + the_email), first.format_table()
        assert second.count(target="table", operation="get") == 0, second.format_table()
        files += 2


CARD = """
node P { name: String @key }
edge Owns: P -> P @card(0..2) { since: I32?  @key(src, dst) }
"""


def test_an_edge_and_its_ends_are_looked_up_once_whatever_is_checked(s3: Options) -> None:
    graph = og.create_graph(fresh_uri(), CARD, runtime=Runtime(options=s3))
    loaded(graph, "append", *(node("P", name=one) for one in "ab"), edge("Owns", "a", "b"))

    requests = measured(graph, lambda graph: run(graph, 'insert Owns { from: "a", to: "a" }'))

    the_ends, the_edge, those_at_its_source = 1, 1, 1
    assert requests.count(target="table", operation="get") == the_ends + the_edge + those_at_its_source


# --- history -----------------------------------------------------------------------------------------

HEAD_COMMITS = 16
SHALLOW, DEEP = 10, 10 + 20 * HEAD_COMMITS
"""With as many commits in the head, and 20 times as many again sealed behind it."""


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> tuple[og.Graph, og.Graph]:
    """Two graphs with the same rows, one with a long past of a table that is rewritten again and again."""
    options = replace(CALM, head_commits=HEAD_COMMITS)
    made = tuple(new_graph(str(tmp_path_factory.mktemp("g") / "g"), options) for _ in range(2))
    for graph, commits in zip(made, (SHALLOW, DEEP), strict=True):
        while graph.snapshot().commit.seq < commits:
            loaded(graph, "overwrite", node("E", v=next(NUMBERS)))
    return made[0], made[1]


@pytest.mark.parametrize("write", WRITES)
def test_a_write_costs_the_same_at_any_length_of_history(graphs: tuple[og.Graph, og.Graph], write: str) -> None:
    do, _ = WRITES[write]

    costs = [measured(graph, do).counts for graph in graphs]

    assert costs[0] == costs[1]
    assert graphs[1].snapshot().commit.seq - graphs[0].snapshot().commit.seq == DEEP - SHALLOW


def test_a_refused_write_costs_no_put(tmp_path: Path) -> None:
    graph = new_graph(str(tmp_path / "g"), CALM)

    def refused(_: og.Graph) -> None:
        with pytest.raises(og.ConstraintError):
            run(graph, 'insert Knows { from: "a", to: "zed" }')

    assert measured(graph, refused).count(operation="put") == 0


def test_a_cold_write_costs_the_tail_and_not_the_history(tmp_path: Path) -> None:
    """Writers keep the tail short, so that the first write of a process reads few files after any number of commits."""
    upkeep = UpkeepOptions(merged_fragments=2, tail_fragments=4)
    kept = replace(CALM, maintenance=Maintenance.AUTO, upkeep=upkeep)
    graph = new_graph(str(tmp_path / "g"), kept)
    counts = []
    for more in (20, 60):
        for _ in range(more):
            run(graph, f'insert P {{ name: "{name()}" }}')
        settled(graph)
        cold = og.open_graph(graph.uri, runtime=Runtime(options=CALM))
        counts.append(measured(cold, lambda graph: run(graph, f'insert P {{ name: "{name()}" }}')).count())

    # Two reads for each of at most five small files, and what a warm write costs.
    assert max(counts) <= 2 * 5 + 12, counts
