"""Small graphs for the tests of the commit core: five tables of (id, v), and one number per table to compare."""

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from omnigraph.lang.source import Source
from omnigraph.ops import write_tables as write_tables_module
from omnigraph.ops.create import create
from omnigraph.ops.open import open_session
from omnigraph.ops.session import Session
from omnigraph.ops.write_tables import TableWrite, write_tables
from omnigraph.options import Durability, Maintenance, Options
from omnigraph.runtime import Runtime

TABLES = ("node:A", "node:B", "node:C", "node:D", "node:E")
SCHEMA = "\n".join(f"node {key[-1]} {{ v: I64 }}" for key in TABLES)
STORAGE = "OMNIGRAPH_TEST_STORAGE"
"""The environment variable, JSON, that tells the processes of a test how to reach an object store."""
FAST = Options(
    durability=Durability.OS,
    heartbeat_seconds=0.1,
    lease_seconds=0.4,
    recovery_seconds=3600,
    backoff_seconds=0.01,
    reserve_bytes=0,
    maintenance=Maintenance.OFF,
    storage=json.loads(os.environ.get(STORAGE, "{}")),
)
"""Settings for tests: no flushing, reserve or maintenance, a lease to wait for, and no recovery unless asked for."""
CALM = replace(FAST, heartbeat_seconds=600, lease_seconds=3600)
"""For tests that count requests: no heartbeat comes in between, however slow the machine is."""

State = dict[str, dict[str, int]]


def runtime(options: Options = FAST) -> Runtime:
    """A runtime with test settings."""
    return Runtime(options=options)


def new_world(root: Path | str, options: Options = FAST) -> Session:
    """A graph of five empty tables."""
    return create(str(root), Source(SCHEMA, "world.pg"), actor="test", runtime=runtime(options))


def seeded_world(root: Path | str, options: Options = FAST, tables: Sequence[str] = TABLES) -> Session:
    """A graph whose tables hold `a`..`d`, committed once."""
    session = new_world(root, options)
    seed = rows({"a": 1, "b": 2, "c": 3, "d": 4})
    write_tables(session, [TableWrite(table_key=key, append=seed) for key in tables], operation="seed", actor="test")
    return session


def reopened(session: Session, options: Options = FAST) -> Session:
    """Another handle on the same graph, opened for writing."""
    return open_session(session.uri, is_read_only=False, runtime=runtime(options))


def count_as_large() -> None:
    """Let no write of this process count as small: one of several tables then has a sidecar, whatever its size."""
    setattr(write_tables_module, "MAX_KEPT_ROWS", -1)  # noqa: B010 - the module does not export what it uses


def rows(values: dict[str, int]) -> pa.Table:
    """Rows (id, v)."""
    return pa.table({"id": pa.array(values.keys(), pa.string()), "v": pa.array(values.values(), pa.int64())})


def state(session: Session) -> State:
    """What every table of the newest snapshot says; a row that is there twice fails."""
    tables = session.open_tables(session.resolve_snapshot())
    found: State = {}
    for key in TABLES:
        table = tables.open_table(key).scan(["id", "v"])
        found[key] = dict(zip(table["id"].to_pylist(), table["v"].to_pylist(), strict=True))
        assert len(found[key]) == table.num_rows, f"{key} holds an id twice"
        assert tables.snapshot.pin(key).rows == table.num_rows, f"{key} counts wrong"
    return found


__all__ = ["FAST", "TABLES", "State", "new_world", "reopened", "rows", "runtime", "seeded_world", "state"]
