"""Branches in tests: short ways to make, write to and look at them."""

from omnigraph.ops.branch import create_branch
from omnigraph.ops.history import list_commits
from omnigraph.ops.session import Session
from omnigraph.ops.write_tables import TableWrite, write_tables
from worlds import rows, state


def put(session: Session, values: dict[str, int], *keys: str, idempotency_key: str | None = None) -> str:
    """Write rows to tables, node:A by default; the commit's id."""
    done = write_tables(
        session,
        [TableWrite(table_key=key, upsert=rows(values)) for key in keys or ("node:A",)],
        operation="put",
        actor="test",
        idempotency_key=idempotency_key,
    )
    assert done is not None
    return done.commit.id


def branch(session: Session, name: str, source: str = "main", commit_id: str | None = None) -> Session:
    create_branch(session, name, source=source, commit_id=commit_id, actor="ada")
    return session.checkout(name)


def value(session: Session, row: str = "a") -> int | None:
    return state(session)["node:A"].get(row)


def seqs(session: Session) -> list[tuple[str, int]]:
    return [(commit.branch, commit.seq) for commit in list_commits(session)]


def data_files(session: Session) -> list[str]:
    return [info.key for info in session.store.objects.list_under("nodes") if "/data/" in info.key]
