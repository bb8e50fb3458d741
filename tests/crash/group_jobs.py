"""What the children of the crash tests of groups do. Every function runs in its own process."""

from collections.abc import Callable

from crash.jobs import armed
from grouping import grouped, increment
from omnigraph.commit.manifest_types import Commit
from omnigraph.ops.open import open_session
from omnigraph.ops.session import Session
from omnigraph.ops.write_tables import TableWrite, write_tables
from omnigraph.runtime import Runtime
from worlds import FAST, rows


def insert(session: Session, *tables: str) -> Callable[[], Commit]:
    """An insert of a row into each table, to be called."""

    def call() -> Commit:
        writes = [TableWrite(table_key=key, append=rows({"z": 26})) for key in tables]
        done = write_tables(session, writes, operation="insert", actor="victim")
        assert done is not None
        return done.commit

    return call


def write(uri: str) -> list[str]:
    """Four writes in one group, the first of two tables; the ids of their commits.

    The versions of the first two are created side by side, those of the others in turn.
    """
    session = open_session(uri, is_read_only=False, runtime=Runtime(options=FAST))
    session.store.runtime = armed()
    both, third = insert(session, "node:A", "node:B"), insert(session, "node:C")
    commits = grouped(session, [both, third, lambda: increment(session), lambda: increment(session)])
    return [commit.id for commit in commits]
