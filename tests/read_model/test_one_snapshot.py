"""One query reads one snapshot, however long it takes and whatever is committed meanwhile."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest

import omnigraph as og
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.result import Result
from omnigraph.ops import query as ops_query
from omnigraph.ops.write_tables import TableWrite, write_tables
from omnigraph.options import Traversal
from read_seeding import append, named_rows, new_graph
from read_thresholds import as_if_large
from reference_reader import Record
from worlds import FAST, runtime

SCHEMA = """
node Left { k: String @key  v: I64 }
node Right { k: String @key  v: I64 }
edge Pair: Left -> Right { v: I64 }
"""
SIZE = 40
"""Every commit gives all rows of all three tables one new number."""
EVERYTHING = """
query everything() {
    match { $a: Left $a $e:pair $b not { $a $f:pair $b $f.v != $e.v } }
    return { $a.v, $e.v, $b.v }
}
"""
SUMS = """
query sums() {
    match { $a: Left $a $e:pair $b }
    return {
        min($a.v) as a, max($a.v) as b, min($b.v) as c, max($b.v) as d, min($e.v) as e, max($e.v) as f, count(*) as n
    }
}
"""
PAGE = """
query page($skip: I64) {
    match { $a: Left $a pair $b }
    return { $a.k, $a.v, $b.v }
    order { $a.v desc }
    limit 7
    offset $skip
}
"""


def state(number: int) -> list[tuple[str, Record]]:
    """All rows, with this number."""
    keys = [f"k{place:02}" for place in range(SIZE)]
    found: list[tuple[str, Record]] = [("Left", {"@id": key, "k": key, "v": number}) for key in keys]
    found += [("Right", {"@id": key, "k": key, "v": number}) for key in keys]
    found += [("Pair", {"@id": key, "@src": key, "@dst": key, "v": number}) for key in keys]
    return found


@pytest.fixture
def uri(tmp_path: Path) -> str:
    session = new_graph(tmp_path / "g", SCHEMA)
    append(session, state(0))
    return session.uri


def handle(uri: str, mode: Traversal = Traversal.AUTO, cache_bytes: int | None = None) -> og.Graph:
    options = replace(FAST, traversal_mode=mode, cache_bytes=cache_bytes)
    return og.Graph.open(uri, is_read_only=False, runtime=runtime(options))


def commit(uri: str, number: int) -> None:
    """Write the number everywhere: by upserts, or every third time by replacing the tables."""
    session = handle(uri)._session
    rows = named_rows(session, state(number))
    is_overwrite = number % 3 == 0
    writes = [
        TableWrite(table_key=key, overwrite=table) if is_overwrite else TableWrite(table_key=key, upsert=table)
        for key, table in rows.items()
    ]
    write_tables(session, writes, operation="w", actor="x")


@contextmanager
def racing(uri: str) -> Iterator[None]:
    """Somebody commits all the time."""
    is_over = threading.Event()
    failures: list[BaseException] = []

    def write() -> None:
        number = 0
        try:
            while not is_over.is_set():
                number += 1
                commit(uri, number)
        except BaseException as error:  # noqa: BLE001 - it is raised again below, where a test sees it
            failures.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        is_over.set()
        writer.join()
    if failures:
        raise failures[0]


@contextmanager
def committing_at_every_check(uri: str) -> Iterator[None]:
    """The head moves whenever a query looks at its budget: between any two of its steps."""
    check, numbers = Budget.check, iter(range(1, 10**6))
    # The parts of a step check on several threads; one commit follows the other.
    lock = threading.Lock()

    def commit_and_check(self: Budget) -> None:
        with lock:
            number = next(numbers)
            if number <= 30:
                commit(uri, number)
        check(self)

    with patch.object(Budget, "check", commit_and_check):
        yield


@pytest.mark.parametrize("mode", [Traversal.CSR, Traversal.INDEXED])
def test_a_query_between_whose_steps_others_commit_sees_one_state(uri: str, mode: Traversal) -> None:
    graph = handle(uri, mode, cache_bytes=0)

    with as_if_large(chunk_rows=16), committing_at_every_check(uri):
        result = graph.query(EVERYTHING)
    rows = result.rows()

    assert len(rows) == SIZE
    assert {value for row in rows for value in row.values()} == {0}
    assert graph.snapshot().commit.id != result.commit_id


@pytest.mark.parametrize("cache_bytes", [None, 0], ids=["kept", "not kept"])
def test_queries_of_a_reader_that_races_a_writer_see_one_state_each(uri: str, cache_bytes: int | None) -> None:
    graph = handle(uri, cache_bytes=cache_bytes)

    answers, seen = [], [0]
    with racing(uri):
        while len(set(seen)) < 6 and len(seen) < 10_000:
            answers.append(graph.query(SUMS).rows())
            seen.append(answers[-1][0]["a"])

    assert len(set(seen)) == 6, "nothing was committed meanwhile"
    assert all(set(row.values()) == {row["a"], SIZE} for (row,) in answers)
    assert seen == sorted(seen), "a later query saw an earlier state"


def test_rows_that_are_fetched_later_are_of_the_state_that_was_asked(uri: str) -> None:
    graph = handle(uri, cache_bytes=0)

    with patch.object(ops_query, "MAX_EAGER_ROWS", 0):
        result = graph.query("query q() { match { $a: Left } return { $a.k, $a.v } }")
        batches = result.batches(7)
        first = next(batches)
        commit(uri, 1)
        commit(uri, 3)
        rest = [value for batch in batches for value in batch.column("a.v").to_pylist()]

    assert [*first.column("a.v").to_pylist(), *rest] == [0] * SIZE


def test_pages_of_one_commit_fit_together(uri: str) -> None:
    graph = handle(uri)
    commit_id = graph.snapshot().commit.id

    pages = []
    for skip in range(0, SIZE + 7, 7):
        pages.append(graph.query(PAGE, params={"skip": skip}, snapshot=commit_id).rows())
        commit(uri, skip + 1)

    rows = [row for page in pages for row in page]
    assert [row["a.k"] for row in rows] == [f"k{place:02}" for place in range(SIZE)]
    assert {row["a.v"] for row in rows} | {row["b.v"] for row in rows} == {0}


def test_the_state_before_is_read_while_the_newest_is_kept_in_memory(uri: str) -> None:
    graph = handle(uri)
    before = graph.snapshot().commit.id
    commit(uri, 1)
    graph.query(SUMS)

    (old,) = graph.query(SUMS, snapshot=before).rows()
    (new,) = graph.query(SUMS).rows()

    assert (old["a"], old["f"], old["n"]) == (0, 0, SIZE)
    assert (new["a"], new["f"], new["n"]) == (1, 1, SIZE)


def test_threads_that_share_a_handle_get_what_one_alone_gets(uri: str) -> None:
    queries = [(EVERYTHING, None), (SUMS, None), *((PAGE, {"skip": skip}) for skip in range(0, SIZE, 7))]
    alone = [sorted_rows(handle(uri).query(text, params=params)) for text, params in queries]
    shared = handle(uri, cache_bytes=3_000)

    with ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(shared.query, text, params=params) for text, params in queries * 8]
        together = [sorted_rows(future.result()) for future in futures]

    assert together == alone * 8


def sorted_rows(result: Result) -> list[tuple[object, ...]]:
    """The rows in an order of their own."""
    return sorted((tuple(row.values()) for row in result.rows()), key=repr)
