"""What the processes do that race with cleanup. Every function runs in its own process."""

from datetime import timedelta

import omnigraph as og
from branching import branch, put, value
from collecting import collect
from omnigraph.ops.branch import delete_branch
from omnigraph.ops.tag import create_tag, delete_tag
from race.jobs import rounds_until
from race.upkeep_jobs import opened

GRACE = timedelta(hours=1)
"""Longer than anything here takes; what was written before the race is made older."""


def clean_up(uri: str, until: str) -> dict[str, int]:
    """Clean up again and again, until there is a file of this name; what came of it."""
    session = opened(uri)
    found = {"done": 0, "gave way": 0, "bytes": 0}
    for _ in rounds_until(until):
        try:
            done = collect(session, keep=1, grace=GRACE)
        except og.ConflictError:
            found["gave way"] += 1
        else:
            found["done"] += 1
            found["bytes"] += done.bytes_removed
    return found


def branches_and_tags(uri: str, name: str, times: int) -> list[str]:
    """Make branches and tags, read through them, delete them; whatever failed."""
    session = opened(uri)
    failed = []
    for number in range(times):
        try:
            there = branch(session, f"{name}-{number}")
            put(there, {name: number})
            create_tag(session, f"{name}-t", ref=f"{name}-{number}", actor=name)
            delete_branch(session, f"{name}-{number}")
            tagged = session.resolve_snapshot(commit_id=f"{name}-t")
            if value(session.checkout_log(session.log), "a") is None or tagged.commit.branch != f"{name}-{number}":
                failed.append("read something else")
            delete_tag(session, f"{name}-t")
        except Exception as error:  # noqa: BLE001 - whatever it is, the test wants none
            failed.append(repr(error))
    return failed
