"""Threads that share one handle: as good as processes, and cheaper."""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from omnigraph.commit.conflict import ConflictError
from omnigraph.commit.requirements import RowsUnchanged
from omnigraph.ops.session import Session
from omnigraph.ops.write_tables import TableWrite, write_tables
from worlds import FAST, TABLES, reopened, rows, seeded_world, state

THREADS, TIMES = 5, 8


@pytest.fixture
def shared(tmp_path: Path) -> Session:
    """A handle whose journal is sealed and merged while it is used."""
    return seeded_world(tmp_path / "g", replace(FAST, head_commits=4, sealed_fragments=3, publish_rounds=50))


def together(work: Callable[[int], None]) -> None:
    failed: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001 - told to the test below
            failed.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


def test_threads_of_one_handle_lose_no_increment(shared: Session) -> None:
    def count_up(_: int) -> None:
        done = 0
        while done < TIMES:
            head = shared.head()
            value = shared.open_tables(head.snapshot).open_table("node:A").find_rows("id", ["a"], ["v"])["v"][0].as_py()
            try:
                write_tables(
                    shared,
                    [TableWrite(table_key="node:A", upsert=rows({"a": value + 1}))],
                    operation="count",
                    actor="racer",
                    base=head,
                    requirements=[RowsUnchanged(table_key="node:A", ids=("a",))],
                )
            except ConflictError:
                continue
            done += 1

    together(count_up)

    assert state(reopened(shared))["node:A"]["a"] == 1 + THREADS * TIMES


def test_threads_of_one_handle_on_tables_of_their_own_never_fail(shared: Session) -> None:
    def append(number: int) -> None:
        for time in range(TIMES):
            write_tables(
                shared,
                [TableWrite(table_key=TABLES[number], append=rows({f"{number}-{time}": 1}))],
                operation="w",
                actor="x",
            )

    together(append)

    opened = reopened(shared)
    assert [len(found) for found in state(opened).values()] == [4 + TIMES] * len(TABLES)
    seqs = [commit.seq for commit in opened.log.iter_history(opened.head())]
    assert seqs == list(range(2 + THREADS * TIMES))[::-1]
