"""What the racing processes do. Every function runs in its own process."""

import os
import random
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa

from omnigraph.commit import group_commit
from omnigraph.commit.commit_plan import CommitPlan
from omnigraph.commit.conflict import ConflictError
from omnigraph.commit.manifest_log import Head
from omnigraph.commit.manifest_types import Commit
from omnigraph.commit.rebase import rebase
from omnigraph.commit.requirements import RowsUnchanged
from omnigraph.commit.row_changes import RowChange
from omnigraph.commit.snapshot_tables import SnapshotTables
from omnigraph.lang.source import Source
from omnigraph.ops.create import create
from omnigraph.ops.open import open_session
from omnigraph.ops.session import Session
from omnigraph.ops.write_tables import TableWrite, write_tables
from omnigraph.options import Durability, Options
from omnigraph.runtime import Runtime
from omnigraph.storage.table_cache import TableCache
from worlds import FAST, rows, state

RACING = Options(
    durability=Durability.OS,
    heartbeat_seconds=5,
    lease_seconds=30,
    backoff_seconds=0.02,
    publish_rounds=8,
    storage=FAST.storage,
)
LISTS = ("node:L", "node:M", "node:N")
LIST_SCHEMA = "\n".join(f"node {key[-1]} {{ items: String }}" for key in LISTS)
KEYS = ("p", "q", "r", "s")


def opened(uri: str) -> Session:
    """The graph, with settings for races."""
    return open_session(uri, is_read_only=False, runtime=Runtime(options=RACING))


def new_lists(uri: str) -> None:
    """A graph of lists."""
    create(uri, Source(LIST_SCHEMA, "lists.pg"), actor="test", runtime=Runtime(options=RACING))


def count_up(uri: str, times: int) -> int:
    """Read-modify-write of one shared counter; how often it took another try."""
    session = opened(uri)
    retries = 0
    for _ in range(times):
        while True:
            head = session.head()
            value = (
                session.open_tables(head.snapshot).open_table("node:A").find_rows("id", ["a"], ["v"])["v"][0].as_py()
            )
            try:
                write_tables(
                    session,
                    [TableWrite(table_key="node:A", upsert=rows({"a": value + 1}))],
                    operation="count",
                    actor="racer",
                    base=head,
                    requirements=[RowsUnchanged(table_key="node:A", ids=("a",))],
                )
            except ConflictError:
                retries += 1
                continue
            break
    return retries


def transfer(uri: str, times: int, seed: int) -> int:
    """Move one unit from a row of A to a row of B or back, in one commit of two tables; how many conflicts."""
    session = opened(uri)
    choice = random.Random(seed)
    conflicts = 0
    for _ in range(times):
        row, step = choice.choice("abcd"), choice.choice((1, -1))
        while True:
            head = session.head()
            tables = session.open_tables(head.snapshot)
            values = {
                key: tables.open_table(key).find_rows("id", [row], ["v"])["v"][0].as_py()
                for key in ("node:A", "node:B")
            }
            try:
                write_tables(
                    session,
                    [
                        TableWrite(table_key="node:A", upsert=rows({row: values["node:A"] - step})),
                        TableWrite(table_key="node:B", upsert=rows({row: values["node:B"] + step})),
                    ],
                    operation="transfer",
                    actor="racer",
                    base=head,
                    requirements=[RowsUnchanged(table_key=key, ids=(row,)) for key in ("node:A", "node:B")],
                )
            except ConflictError:
                conflicts += 1
                continue
            break
    return conflicts


def rounds_until(file: str) -> Iterator[None]:
    """Go on until there is a file of this name, and once more behind it: however slow the machine is, one is done then.

    It also ends with the process that started this one, which would have made the file.
    """
    parent = os.getppid()
    while not Path(file).exists() and os.getppid() == parent:
        yield
    yield


def watch(uri: str, until: int, looks: int) -> list[int]:
    """The sum over A and B in every snapshot that is seen until this commit is, and in so many at least."""
    session = open_session(uri, is_read_only=True, runtime=Runtime(options=RACING))
    sums: list[int] = []
    while len(sums) < looks or session.head().snapshot.commit.seq < until:
        seen = state(session)
        sums.append(sum(seen["node:A"].values()) + sum(seen["node:B"].values()))
    return sums


def append_own(uri: str, table: str, name: str, times: int) -> int:
    """Append rows of one's own to a table; how many writes failed."""
    session = opened(uri)
    failed = 0
    for number in range(times):
        try:
            write_tables(
                session,
                [TableWrite(table_key=table, append=rows({f"{name}-{number}": number}))],
                operation="append",
                actor=name,
            )
        except ConflictError:
            failed += 1
    return failed


def list_append(uri: str, name: str, times: int, seed: int, bug: str | None) -> list[dict[str, object]]:
    """Random list-append transactions over three tables; the history as this process saw it."""
    if bug is not None:
        plant(bug)
    session = opened(uri)
    choice = random.Random(seed)
    history = []
    for number in range(times):
        places = [(choice.choice(LISTS), choice.choice(KEYS)) for _ in range(choice.randint(1, 3))]
        written = dict.fromkeys(choice.sample(sorted(set(places)), k=min(len(set(places)), choice.randint(0, 2))))
        history.append(_transaction(session, f"{name}{number}", sorted(set(places)), list(written)))
    return history


def lists(uri: str) -> dict[str, list[str]]:
    """Every list, in the end."""
    session = opened(uri)
    return _read(session.open_tables(session.resolve_snapshot()), [(table, key) for table in LISTS for key in KEYS])


def _transaction(
    session: Session, name: str, places: list[tuple[str, str]], written: list[tuple[str, str]]
) -> dict[str, object]:
    start = time.monotonic()
    head: Head = session.head()
    reads = _read(session.open_tables(head.snapshot), places)
    appends = {f"{table}/{key}": name + key for table, key in written}
    outcome = "ok"
    if written:
        by_table: dict[str, dict[str, str]] = {}
        for table, key in written:
            items = [*reads[f"{table}/{key}"], name + key]
            by_table.setdefault(table, {})[key] = " ".join(items)
        needs = {table: tuple(key for other, key in places if other == table) for table, _ in places}
        try:
            write_tables(
                session,
                [TableWrite(table_key=table, upsert=_items(values)) for table, values in by_table.items()],
                operation="append",
                actor=name,
                base=head,
                requirements=[RowsUnchanged(table_key=table, ids=ids) for table, ids in needs.items()],
            )
        except ConflictError:
            outcome = "fail"
    end = time.monotonic()
    return {"name": name, "start": start, "end": end, "outcome": outcome, "reads": reads, "appends": appends}


def _read(tables: SnapshotTables, places: list[tuple[str, str]]) -> dict[str, list[str]]:
    found = {}
    for table, key in places:
        items = tables.open_table(table).find_rows("id", [key], ["items"])["items"].to_pylist()
        assert len(items) <= 1, f"{table}/{key} is there {len(items)} times"
        found[f"{table}/{key}"] = items[0].split() if items else []
    return found


def _items(values: dict[str, str]) -> pa.Table:
    return pa.table({"id": list(values), "items": list(values.values())})


def plant(bug: str) -> None:
    """Break the publisher of this process on purpose, so that the checker can be seen to notice."""
    right = rebase

    def without_requirements(
        plan: CommitPlan, now: Head, between: list[Commit], handles: TableCache, known: Mapping[str, RowChange | None]
    ) -> CommitPlan:
        """Bug: what the write relied on is not looked at again."""
        import dataclasses

        return right(dataclasses.replace(plan, requirements=()), now, between, handles, known)

    def on_the_stale_pin(
        plan: CommitPlan, now: Head, between: list[Commit], handles: TableCache, known: Mapping[str, RowChange | None]
    ) -> CommitPlan:
        """Bug: the staged write stays on the pin it was made for, and takes the place of what others wrote."""
        import dataclasses

        del handles, between, known
        manifest = now.snapshot.manifest
        stale = {**manifest.pins, **{m.table_key: plan.base.snapshot.pins[m.table_key] for m in plan.moves}}
        snapshot = dataclasses.replace(now.snapshot, manifest=dataclasses.replace(manifest, pins=stale))
        return dataclasses.replace(plan, base=Head(snapshot, now.table))

    broken = {"no requirements": without_requirements, "stale pin": on_the_stale_pin}[bug]
    setattr(group_commit, "rebase", broken)  # noqa: B010 - the module does not export what it uses
