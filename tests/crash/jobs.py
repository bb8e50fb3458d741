"""What the children of the crash tests do. Every function runs in its own process."""

import os
from collections.abc import Sequence
from dataclasses import replace

from omnigraph.commit import recovery_log
from omnigraph.commit.recovery import recover
from omnigraph.commit.sidecar import list_sidecars
from omnigraph.faults import read_faults
from omnigraph.lang.source import Source
from omnigraph.ops.create import create
from omnigraph.ops.open import open_session
from omnigraph.ops.session import Session
from omnigraph.ops.write_tables import TableWrite, write_tables
from omnigraph.runtime import Runtime
from worlds import FAST, SCHEMA, count_as_large, rows, state

OVER = replace(FAST, lease_seconds=-1)
"""For one that comes when every lease has run out."""


def armed() -> Runtime:
    """Test settings with the fault that the environment arms."""
    return Runtime(options=FAST, faults=read_faults(os.environ))


def writes(kind: str, tables: Sequence[str]) -> list[TableWrite]:
    """One write per table: after it, `z` says 26 or the listed rows are changed."""
    match kind:
        case "append":
            return [TableWrite(table_key=key, append=rows({"z": 26})) for key in tables]
        case "upsert":
            return [TableWrite(table_key=key, upsert=rows({"a": 100, "z": 26})) for key in tables]
        case "delete":
            return [TableWrite(table_key=key, delete=["a", "b"]) for key in tables]
        case "overwrite":
            return [TableWrite(table_key=key, overwrite=rows({"z": 26})) for key in tables]
        case "empty":
            return [TableWrite(table_key=key, overwrite=rows({})) for key in tables]
    raise AssertionError(kind)


def write(uri: str, kind: str, tables: list[str]) -> str:
    """Open, then write; the commit's id."""
    session = open_session(uri, is_read_only=False, runtime=Runtime(options=FAST))
    session.store.runtime = armed()
    count_as_large()
    done = write_tables(session, writes(kind, tables), operation=kind, actor="victim")
    assert done is not None
    return done.commit.id


def init(uri: str) -> None:
    """Make the world anew."""
    create(uri, Source(SCHEMA, "world.pg"), actor="victim", runtime=armed())


def heal(uri: str) -> None:
    """A recovery pass when all leases have run out, with faults."""
    session = open_session(uri, is_read_only=True, runtime=Runtime(options=OVER, faults=read_faults(os.environ)))
    recover(session.store, session.log)


def look(uri: str) -> dict[str, object]:
    """Open read-only: the state, whatever lies around."""
    session = open_session(uri, is_read_only=True, runtime=Runtime(options=FAST))
    return {"state": state(session), "commits": [c.id for c in session.log.iter_history(session.head())]}


def write_at_once(uri: str) -> dict[str, object]:
    """The next write, right after the crash, without waiting for anything."""
    session = open_session(uri, is_read_only=False, runtime=Runtime(options=FAST))
    done = write_tables(
        session,
        [TableWrite(table_key=key, upsert=rows({"next": 1})) for key in ("node:A", "node:B")],
        operation="next",
        actor="successor",
    )
    assert done is not None
    return {"state": state(session)}


def settle(uri: str) -> dict[str, object]:
    """Recover when all leases have run out, and tell what is left."""
    session = open_session(uri, is_read_only=False, runtime=Runtime(options=OVER))
    recover(session.store, session.log)
    return {**leftovers(session), "state": state(session)}


def aftermath(uri: str) -> dict[str, dict[str, object]]:
    """What somebody sees who looks at once, what the next write makes of it, and what is left in the end."""
    return {"seen": look(uri), "next": write_at_once(uri), "settled": settle(uri)}


def leftovers(session: Session, rooms: Sequence[str] = ("nodes",)) -> dict[str, object]:
    """Sidecars, audit rows and unreferenced data files."""
    found, broken = list_sidecars(session.store)
    return {
        "sidecars": len(found) + len(broken),
        "audits": [[row.operation_id, row.kind] for row in recovery_log.read_rows(session.store)],
        "orphans": orphans(session, rooms),
    }


def orphans(session: Session, rooms: Sequence[str]) -> list[str]:
    """Data and deletion files that no commit of the history uses."""
    used: set[str] = set()
    for commit in session.log.iter_history(session.head()):
        for change in commit.changes:
            if change.after is None:
                continue
            dataset = session.handles.open(change.path, int(change.after))
            for fragment in dataset.get_fragments():
                used |= {f"{change.path}/data/{file.path}" for file in fragment.metadata.files}
                deletion = fragment.deletion_file()
                if deletion:
                    used.add(f"{change.path}/{deletion}")
    there = [info.key for room in rooms for info in session.store.objects.list_under(room)]
    return sorted(key for key in there if ("/data/" in key or "/_deletions/" in key) and key not in used)
