"""What branches cost, counted in requests: the same for any number of tables, rows and commits."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from omnigraph.lang.source import Source
from omnigraph.ops.branch import create_branch, delete_branch, list_branches
from omnigraph.ops.create import create
from omnigraph.ops.history import list_commits
from omnigraph.ops.open import open_session
from omnigraph.ops.session import Session
from omnigraph.ops.write import TableWrite, write_tables
from omnigraph.options import Options
from omnigraph.runtime import Runtime
from omnigraph.telemetry import Requests
from s3_server import fresh_uri, s3_server
from worlds import FAST, new_world, rows, runtime

MOST_FOR_A_BRANCH = 12
MANY_ROWS = 1_000_000


def append(session: Session, count: int = 1) -> None:
    new = rows({f"{session.head().snapshot.commit.seq}-{number}": number for number in range(count)})
    write_tables(session, [TableWrite(table_key="node:A", append=new)], operation="w", actor="x")


def measured(session: Session, operation: Callable[[], object]) -> Requests:
    with session.runtime.telemetry.counting() as requests:
        operation()
    return requests


def schema_of(tables: int) -> Source:
    return Source("\n".join(f"node {'ABC'[n] if n < 3 else f'T{n}'} {{ v: I64 }}" for n in range(tables)))


@pytest.fixture(scope="module")
def s3() -> Iterator[Options]:
    with s3_server() as options:
        yield replace(FAST, storage=options)


def graph_on(s3: Options, tables: int) -> Session:
    session = create(fresh_uri(), schema_of(tables), actor="t", runtime=Runtime(options=s3))
    append(session)
    return session


@pytest.fixture(scope="module")
def on_s3(s3: Options) -> Session:
    return graph_on(s3, 3)


def test_making_a_branch_takes_a_dozen_requests(on_s3: Session) -> None:
    requests = measured(on_s3, lambda: create_branch(on_s3, "one", actor="t"))
    print(requests.table())
    requests = measured(on_s3, lambda: create_branch(on_s3, "one2", actor="t"))
    print(requests.table())
    requests = measured(on_s3, lambda: delete_branch(on_s3, "one2"))
    print(requests.table())
    requests = measured(on_s3, lambda: append(on_s3))
    print(requests.table())
    b = on_s3.on("one")
    append(b)
    requests = measured(on_s3, lambda: append(b))
    print(requests.table())

    assert requests.total() <= MOST_FOR_A_BRANCH, requests.table()
