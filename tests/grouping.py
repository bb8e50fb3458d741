"""Writes that wait for the same turn, so that one of them publishes all."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import omnigraph as og
from omnigraph.commit.commit_plan import CommitPlan
from omnigraph.commit.commit_queue import get_queue
from omnigraph.commit.manifest_log import Head
from omnigraph.commit.manifest_types import Commit
from omnigraph.commit.publisher import publish_or_replan
from omnigraph.commit.requirements import RowsUnchanged
from omnigraph.ops.session import Session
from omnigraph.ops.write_tables import TableWrite, stage_plan
from worlds import rows

Call = Callable[[], Any]


def grouped(session: Session, calls: Sequence[Call], before: Call = lambda: None) -> list[Any]:
    """What each call returns or raises, when all wait for one turn, in this order; `before` is called ahead of it."""
    outcomes: list[Any] = [None] * len(calls)
    threads: list[threading.Thread] = []
    queue = get_queue(session.log)

    def run(number: int) -> None:
        try:
            outcomes[number] = calls[number]()
        except BaseException as error:  # noqa: BLE001 - told to the test
            outcomes[number] = error

    with queue.hold():
        for number in range(len(calls)):
            threads.append(threading.Thread(target=run, args=(number,)))
            threads[-1].start()
            while len(queue._waiting) <= number and threads[-1].is_alive():
                time.sleep(0.001)
        before()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a writer waits for ever"
    return outcomes


def plan_increment(session: Session, head: Head, row: str = "a", key: str = "node:A") -> CommitPlan:
    """The plan of an increment on a state."""
    table = session.open_tables(head.snapshot).open_table(key)
    value = table.find_rows("id", [row], ["v"])["v"][0].as_py()
    requirements = (RowsUnchanged(table_key=key, ids=(row,)),)
    parts = CommitPlan(base=head, operation="count", actor="x", requirements=requirements)
    staged = stage_plan(session, parts, [TableWrite(table_key=key, upsert=rows({row: value + 1}))])
    assert staged is not None
    return staged[0]


def increment(session: Session, row: str = "a", key: str = "node:A") -> Commit:
    """Add one to a row, whatever it holds when its turn comes."""

    def plan(head: Head) -> CommitPlan:
        return plan_increment(session, head, row, key)

    done = publish_or_replan(session.log, session.handles, plan(session.cached_head()), None, plan)
    assert done is not None
    return done.commit


def versions(graph: og.Graph) -> list[int]:
    """The manifest version of each commit, oldest first."""
    return [commit.manifest_version for commit in reversed(list(graph.commits()))]
