"""Define fault points between durable steps, where a test may stop, kill or fail the process.

In production nothing is armed, and `reach` does nothing. Tests pass their own `Faults`; a subprocess is armed by
`OMNIGRAPH_FAULT=point[@n]=action`, with action `kill`, `stop` or `error` at the n-th time (default 1).
"""

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from omnigraph.errors import Kind, OmnigraphError

FAULT_VARIABLE = "OMNIGRAPH_FAULT"

# Every fault point, with its position in the operation; the crash matrix runs over all of them.
POINTS: dict[str, str] = {
    "init.begin": "before an init writes anything",
    "init.table": "after each empty table of a new graph",
    "init.manifest": "after the manifest of a new graph",
    "publish.staged": "after staging, before the sidecar",
    "publish.armed": "after the sidecar",
    "group.led": "after a leader has taken the waiting writes, before it checks the first",
    "version.written": "after the file of a table version is written, or its upload has begun",
    "group.placed": "after each write of a group is checked and has its versions",
    "publish.applied": "after each table's detached version",
    "publish.flushed": "after the staged files are durable",
    "publish.head_written": "after the new head fragment, before the swap",
    "publish.swapped": "after the swap, before it is verified",
    "publish.verified": "after the swap is verified, before the sidecar is removed",
    "publish.disarmed": "after the sidecar is removed",
    "schema.purged": "after files without the columns of a hard drop, before a version refers to them",
    "schema.reshaped": "after a version with other columns, before a manifest refers to it",
    "branch.written": "after a new branch's manifest, before it is registered",
    "branch.registered": "after the row of a new branch",
    "branch.marked": "after a branch is marked as deleted, before its manifest is closed",
    "branch.closed": "after the manifest of a deleted branch is closed",
    "branch.removed": "after the row of a deleted branch is removed",
    "clone.claimed": "after a clone has claimed its location, before it copies anything",
    "clone.copied": "after each file of a table that a clone copies",
    "clone.flushed": "after all tables of a clone are durable, before its manifests",
    "restore.flushed": "after all tables of a restored backup are durable, before its manifests",
    "clone.branch": "after the manifest of each branch of a clone",
    "clone.ready": "after all files of a clone except the one that makes it a graph",
    "clone.placed": "after a clone has become a graph",
    "backup.copied": "after the table files of a backup are copied, before its manifests",
    "backup.ready": "after all files of a backup, before its record",
    "backup.added": "after a backup exists, before older ones are removed",
    "backup.removed": "after the record of an old backup is removed, before its files are",
    "tag.registered": "after the row of a new tag",
    "upkeep.compacted": "after the fragments of a compaction are written",
    "upkeep.indexed": "after the segments of indexes are built",
    "maintain.begun": "before automatic maintenance of a table writes anything",
    "maintain.done": "after automatic maintenance of a table",
    "derived.begun": "before derived data, such as a text index or the recall of a vector index, is stored",
    "derived.stored": "after it is stored",
    "phase.open": "after the tasks of a Spark load may write, before they are started",
    "phase.done": "after all tasks of a Spark load have written their rows",
    "phase.named": "after the sidecar names the files that they wrote",
    "phase.cleared": "after files that only their notes named are removed",
    "task.begun": "after a task of a Spark load has put its note, at its first try",
    "task.staged": "after a task of a Spark load has written its rows, at its first try",
    "stream.begun": "after Spark has begun a batch of a stream, before it is loaded",
    "stream.loaded": "after a batch of a stream is loaded, before Spark knows of it",
    "cleanup.listed": "after everything is listed, before anything is published",
    "cleanup.floored": "after the horizon is published on each branch except main",
    "cleanup.floor": "after the horizon is published on main, and so on all branches",
    "cleanup.marked": "after everything that is retained is marked, before anything is removed",
    "cleanup.removed": "after each file that cleanup removes",
    "cleanup.swept": "after each table that is swept",
    "repair.planned": "after a repair is planned, before it is published",
    "repair.looked": "after a damaged manifest is inspected, before any version is put aside",
    "repair.aside": "after each damaged version of a manifest is put aside",
    "repair.beyond": "after a restored manifest is published again",
    "recovery.listed": "after the sidecars are listed",
    "recovery.fenced": "after a dead operation is fenced",
    "recovery.published": "after the empty recovery commit",
    "recovery.reclaimed": "after the orphaned files are removed",
    "recovery.audited": "after the audit row",
    "recovery.removed": "after the sidecar is removed",
}


class Faults(Protocol):
    """The action at a fault point."""

    def reach(self, point: str) -> None:
        """Act at `point`, one of POINTS."""
        ...


class NoFaults:
    """Faults that never happen."""

    def reach(self, point: str) -> None:
        """Do nothing."""


class InjectedFaultError(OmnigraphError):
    """A test made this fault point fail."""

    kind = Kind.UNAVAILABLE
    code = "injected_fault"
    point: str
    message = "a fault was injected at {point}"


class ArmedFaults:
    """Kills or stops the process, or raises, at the n-th time `point` is reached."""

    def __init__(self, point: str, action: str, nth: int = 1) -> None:
        if point not in POINTS or action not in ("kill", "stop", "error"):
            msg = f"unknown fault {point}={action}"
            raise ValueError(msg)
        self._point = point
        self._action = action
        self._left = nth

    def reach(self, point: str) -> None:
        """Act if it is this object's point and the n-th time."""
        if point != self._point:
            return
        self._left -= 1
        if self._left:
            return
        if self._action == "error":
            raise InjectedFaultError(point)
        if self._action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        _wait_for_file_locks()
        os.kill(os.getpid(), signal.SIGSTOP)


def _wait_for_file_locks() -> None:
    """Wait until no thread of this process locks a file: a stopped process would keep others from it.

    A heartbeat locks the directory of its sidecar for a moment, and may do so while its writer is at a fault point.
    Wait for at most a second, for a point that lies inside a lock.
    """
    locks = Path("/proc/locks")
    deadline = time.monotonic() + 1
    while locks.exists() and time.monotonic() < deadline:
        lines = [line.split() for line in locks.read_text("utf-8").splitlines()]
        # A lock that somebody waits for has an arrow after its number, and then the same columns.
        if not any(line[1] == "FLOCK" and line[4] == str(os.getpid()) for line in lines):
            return
        time.sleep(0.001)


def read_faults(environment: Mapping[str, str]) -> Faults:
    """Return the faults that an environment arms, usually none.

    Raises:
        ValueError: The variable is malformed; it is never ignored.
    """
    text = environment.get(FAULT_VARIABLE)
    if not text:
        return NoFaults()
    position, _, action = text.partition("=")
    point, _, nth = position.partition("@")
    return ArmedFaults(point, action, int(nth or 1))
