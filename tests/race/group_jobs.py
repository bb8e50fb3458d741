"""What processes do whose threads share a handle, so that their writes are published in groups.

Each thread notes in a file what it begins and what it was told, so that the history is there if the process is killed.
"""

import json
import os
import random
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.commit.commit_plan import CommitPlan
from omnigraph.commit.commit_queue import get_queue
from omnigraph.commit.conflict import ConflictError
from omnigraph.commit.manifest_log import Head
from omnigraph.commit.publisher import publish_or_replan
from omnigraph.commit.requirements import RowsUnchanged
from omnigraph.faults import read_faults
from omnigraph.ops.auto_maintenance import compact_tail
from omnigraph.ops.open import open_session
from omnigraph.ops.session import Session
from omnigraph.ops.write_tables import TableWrite, keep_tails_short, stage_plan
from omnigraph.options import Maintenance
from omnigraph.runtime import Runtime
from omnigraph.storage.key_lookup import find_existing
from race.checker import Txn
from race.jobs import KEYS, LISTS, RACING
from upkeep_calls import MAINTAINED

# Of the transactions of a process, those that are evaluated by the leader of their group.
DEFERRED_SHARE = 0.5
Places = list[tuple[str, str]]


def append_in_threads(uri: str, name: str, threads: int, times: int, seed: int, notes: str, *, maintains: bool) -> None:
    """Random list-append transactions of several threads, which may also compact; die where the environment says."""
    maintenance = Maintenance.AUTO if maintains else Maintenance.OFF
    # A swap that is lost to the other process is tried again as often as it takes.
    options = replace(RACING, publish_rounds=50, maintenance=maintenance, upkeep=MAINTAINED.upkeep)
    session = open_session(uri, is_read_only=False, runtime=Runtime(options=options))
    session.tails.compact = compact_tail
    session.store.runtime = Runtime(options=options, faults=read_faults(os.environ))
    failed: list[BaseException] = []

    def run(number: int) -> None:
        try:
            _append(session, f"{name}{number}t", times, random.Random(100 * seed + number), Path(notes))
        except BaseException as error:
            failed.append(error)
            raise

    running = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    session.tails.wait(60)
    if failed:
        raise failed[0]


def _append(session: Session, name: str, times: int, choice: random.Random, notes: Path) -> None:
    for number in range(times):
        places = sorted({(choice.choice(LISTS), choice.choice(KEYS)) for _ in range(choice.randint(1, 2))})
        written = places[: choice.randint(1, len(places))]
        txn = f"{name}{number}-"
        appends = {f"{table}/{key}": txn + key for table, key in written}
        _note(notes, {"name": txn, "start": time.monotonic(), "appends": appends})
        reads: dict[str, list[str]] = {}
        outcome = "ok"
        try:
            _publish(session, txn, places, written, reads, defers=choice.random() < DEFERRED_SHARE)
        except ConflictError:
            outcome = "fail"
        _note(notes, {"name": txn, "end": time.monotonic(), "outcome": outcome, "reads": reads})


def _publish(
    session: Session, name: str, places: Places, written: Places, reads: dict[str, list[str]], *, defers: bool
) -> None:
    """Append to lists what they lead to on the state in which the turn of this write comes."""

    def plan(head: Head) -> CommitPlan:
        tables = session.open_tables(head.snapshot)
        writes = []
        for table, key in places:
            stored = tables.open_table(table)
            existing = find_existing(stored, lambda key=key: pa.array([key]), 1)  # type: ignore[misc]
            items = stored.find_rows("id", [key], ["items"])["items"].to_pylist()
            reads[f"{table}/{key}"] = items[0].split() if items else []
            if (table, key) in written:
                value = " ".join([*reads[f"{table}/{key}"], name + key])
                located = existing.locate(np.array([True])) if items else None
                writes.append((table, pa.table({"id": [key], "items": [value]}), located))
        by_table: dict[str, TableWrite] = {}
        for table, rows, located in writes:
            # Two rows of one table are one write, whose rows are looked up when it is placed.
            other = by_table.get(table)
            joined = rows if other is None else pa.concat_tables([_rows(other), rows])
            by_table[table] = TableWrite(table_key=table, upsert=joined, located=located if other is None else None)
        needs = {table: tuple(key for other, key in places if other == table) for table, _ in places}
        requirements = tuple(RowsUnchanged(table_key=table, ids=ids) for table, ids in needs.items())
        parts = CommitPlan(base=head, operation="append", actor=name, requirements=requirements)
        staged = stage_plan(session, parts, list(by_table.values()))
        assert staged is not None
        return staged[0]

    head = session.cached_head()
    # As short mutations do, some that find others publishing are evaluated in their turn only.
    is_deferred = defers and get_queue(session.log).is_busy
    first = CommitPlan(base=head, operation="append", actor=name, is_deferred=True) if is_deferred else plan(head)
    done = publish_or_replan(session.log, session.handles, first, None, plan)
    assert done is not None
    keep_tails_short(session, first, done)


def _rows(write: TableWrite) -> pa.Table:
    assert isinstance(write.upsert, pa.Table)
    return write.upsert


def _note(notes: Path, event: dict[str, Any]) -> None:
    """One line; a write of a few bytes to a file that is only appended to is not divided."""
    descriptor = os.open(notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, f"{json.dumps(event)}\n".encode())
    finally:
        os.close(descriptor)


def read_history(*notes: Path) -> list[Txn]:
    """What the threads were told. Who was not answered does not know."""
    txns: dict[str, dict[str, Any]] = {}
    for line in (line for file in notes if file.exists() for line in file.read_text().splitlines()):
        event = json.loads(line)
        txns.setdefault(event["name"], {"end": float("inf"), "outcome": "unknown", "reads": {}}).update(event)
    return [Txn(**txn) for txn in txns.values()]


def find_torn(history: list[Txn], final: dict[str, list[str]]) -> list[str]:
    """The transactions of which a part is there."""
    torn = []
    for txn in history:
        there = [element in final.get(place, []) for place, element in txn.appends.items()]
        if any(there) != all(there):
            torn.append(txn.name)
    return torn
