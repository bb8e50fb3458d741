"""What branches cost, counted in requests: the same for any number of tables, rows and commits."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.lang.source import Source
from omnigraph.ops.branch import create_branch, delete_branch, list_branches
from omnigraph.ops.create import create
from omnigraph.ops.history import list_commits
from omnigraph.ops.open import open_session
from omnigraph.ops.session import Session
from omnigraph.ops.write_tables import TableWrite, write_tables
from omnigraph.options import Options
from omnigraph.runtime import Runtime
from omnigraph.telemetry import RequestCounts
from s3_server import fresh_uri, s3_server
from worlds import CALM, rows

MOST_FOR_A_BRANCH = 12
NEXT = iter(range(10**9))
SEALING = replace(CALM, head_commits=4, sealed_fragments=1_000)
"""Every four commits a sealed fragment, and none is merged."""


def append(session: Session) -> None:
    new = rows({f"k{next(NEXT)}": 1})
    write_tables(session, [TableWrite(table_key="node:A", append=new)], operation="w", actor="x")


def fill(session: Session, count: int) -> None:
    ids = pa.array(np.arange(count)).cast(pa.string())
    new = pa.table({"id": ids, "v": pa.array(np.arange(count, dtype=np.int64))})
    write_tables(session, [TableWrite(table_key="node:A", append=new)], operation="w", actor="x")


def graph_of(uri: str, tables: int, options: Options) -> Session:
    names = ["A", "B", "C", *(f"T{number}" for number in range(tables - 3))]
    schema = Source("\n".join(f"node {name} {{ v: I64 }}" for name in names))
    return create(uri, schema, actor="t", runtime=Runtime(options=options))


def measured(session: Session, operation: Callable[[], object]) -> RequestCounts:
    with session.runtime.telemetry.count_requests() as requests:
        operation()
    return requests


@pytest.fixture(scope="module")
def s3() -> Iterator[Options]:
    with s3_server() as options:
        yield replace(CALM, storage=options)


@pytest.fixture(scope="module")
def on_s3(s3: Options) -> Session:
    session = graph_of(fresh_uri(), 3, s3)
    append(session)
    return session


def test_making_a_branch(on_s3: Session) -> None:
    requests = measured(on_s3, lambda: create_branch(on_s3, "made", actor="t"))

    assert requests.count() == 11, requests.format_table()
    assert requests.count(target="table") == 0


def test_making_a_branch_of_a_branch(on_s3: Session) -> None:
    create_branch(on_s3, "parent", actor="t")

    requests = measured(on_s3, lambda: create_branch(on_s3, "child", source="parent", actor="t"))

    assert requests.count() <= MOST_FOR_A_BRANCH, requests.format_table()


def test_deleting_a_branch(on_s3: Session) -> None:
    create_branch(on_s3, "doomed", actor="t")

    requests = measured(on_s3, lambda: delete_branch(on_s3, "doomed"))

    assert requests.count() <= 15, requests.format_table()


def test_listing_branches_is_one_probe(on_s3: Session) -> None:
    list_branches(on_s3)

    requests = measured(on_s3, lambda: list_branches(on_s3))

    assert requests.count() == 1, requests.format_table()


def test_work_on_a_branch_costs_what_it_costs_on_main(on_s3: Session) -> None:
    create_branch(on_s3, "work", actor="t")
    sides = (on_s3, on_s3.checkout("work"))
    for session in sides:
        append(session)

    reads = [measured(on_s3, lambda s=session: on_s3.checkout(s.log.branch).head()).counts for session in sides]  # type: ignore[misc]
    writes = [measured(on_s3, lambda s=session: append(s)).counts for session in sides]  # type: ignore[misc]

    assert reads[0] == reads[1]
    assert writes[0] == writes[1]


def test_a_branch_costs_the_same_for_any_tables_rows_and_commits(tmp_path: Path) -> None:
    small, large = graph_of(str(tmp_path / "s"), 3, SEALING), graph_of(str(tmp_path / "l"), 217, SEALING)
    fill(small, 1_000)
    fill(large, 1_000_000)
    for session, commits in ((small, 3), (large, 80)):
        while session.head().snapshot.commit.seq < commits:
            append(session)

    made = [measured(one, lambda s=one: create_branch(s, "x", actor="t")).counts for one in (small, large)]  # type: ignore[misc]
    deleted = [measured(one, lambda s=one: delete_branch(s, "x")).counts for one in (small, large)]  # type: ignore[misc]

    assert made[0] == made[1]
    assert deleted[0] == deleted[1]
    assert large.head().table.sealed_count > 0
    assert len(large.resolve_snapshot().pins) == 217


def test_the_history_of_an_old_branch_skips_what_its_parent_did_since(tmp_path: Path) -> None:
    """The parent's commits after the fork are not read, however many: only some last rows, to find the place."""
    costs = []
    for since in (10, 170):
        session = graph_of(str(tmp_path / f"{since}"), 3, SEALING)
        for _ in range(9):
            append(session)
        create_branch(session, "old", actor="t")
        for _ in range(since):
            append(session)
        cold = open_session(session.uri, is_read_only=True, runtime=Runtime(options=SEALING))
        history = measured(cold, lambda one=cold: list_commits(one.checkout("old")))  # type: ignore[misc]
        costs.append(history.count(operation="get"))
        assert len(list_commits(cold.checkout("old"))) == 10

    assert costs[1] <= costs[0] + 20
