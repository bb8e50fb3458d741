"""A writer that hangs, then dies, beside a long-lived session: its neighbour is never in trouble."""

import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from crash.jobs import leftovers
from omnigraph.commit.recovery import recover
from omnigraph.ops.session import Session
from omnigraph.ops.write_tables import TableWrite, write_tables
from worlds import FAST, TABLES, reopened, rows, seeded_world, state
from zygote import Zygote

POINTS = (
    "publish.staged",
    "publish.armed",
    "publish.applied",
    "publish.flushed",
    "publish.head_written",
    "publish.swapped",
    "publish.verified",
    "publish.disarmed",
)
AFTER_SWAP = ("publish.swapped", "publish.verified", "publish.disarmed")
UNARMED = ("publish.staged", "publish.disarmed")
SEED = {"a": 1, "b": 2, "c": 3, "d": 4}
AFTER = {
    "append": {**SEED, "z": 26},
    "upsert": {**SEED, "a": 100, "z": 26},
    "overwrite": {"z": 26},
}
BRIEF = replace(FAST, lease_seconds=0.15)


def is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"


def wait_until_stopped(pid: int) -> None:
    end = time.monotonic() + 60
    while not is_stopped(pid):
        assert time.monotonic() < end, "the victim never reached its point"
        time.sleep(0.005)


def cost_of_a_write(session: Session, row: str) -> int:
    """Write a row to a table of the victim's and to one that is not; the puts to the manifest, so many per round."""
    writes = [TableWrite(table_key=key, upsert=rows({row: 1})) for key in ("node:A", "node:C")]
    with session.runtime.telemetry.count_requests() as requests:
        assert write_tables(session, writes, operation="live", actor="neighbour") is not None
    return requests.count(target="manifest", operation="put")


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("kind", AFTER)
def test_a_neighbour_of_a_dying_writer_is_never_blocked_and_clears_up(
    kind: str, point: str, tmp_path: Path, zygote: Zygote
) -> None:
    neighbour = reopened(seeded_world(tmp_path / "g", BRIEF), BRIEF)
    alone = cost_of_a_write(neighbour, "before")
    job = {"uri": neighbour.uri, "kind": kind, "tables": list(TABLES[:2])}
    has_landed = point in AFTER_SWAP
    untouched = {key: {**SEED, "before": 1} if key in ("node:A", "node:C") else SEED for key in TABLES}
    landed = {key: AFTER[kind] if kind == "overwrite" else {**untouched[key], **AFTER[kind]} for key in TABLES[:2]}
    expected = {**untouched, **landed} if has_landed else untouched

    victim = zygote.start("crash.jobs:write", job, f"{point}=stop")
    wait_until_stopped(victim)
    seen = [state(neighbour)]
    costs = [cost_of_a_write(neighbour, "while it hangs")]
    seen.append(state(neighbour))
    os.kill(victim, signal.SIGKILL)
    ended = zygote.wait(victim)
    costs.append(cost_of_a_write(neighbour, "when it is dead"))
    seen.append(state(neighbour))
    time.sleep(BRIEF.lease_seconds * 1.3)
    report = recover(neighbour.store, neighbour.log)
    left = leftovers(neighbour)

    assert ended.was_killed
    assert costs == [alone, alone], "one round each: nothing was in their way"
    steps: tuple[dict[str, int], ...] = ({}, {"while it hangs": 1}, {"while it hangs": 1, "when it is dead": 1})
    assert seen == [
        {key: {**values, **step} if key in ("node:A", "node:C") else values for key, values in expected.items()}
        for step in steps
    ]
    assert state(neighbour) == seen[-1]
    assert (len(report.rolled_forward), len(report.rolled_back)) == {
        point in UNARMED: (0, 0),
        point not in UNARMED: (1, 0) if has_landed else (0, 1),
    }[True]
    assert left["sidecars"] == 0
    assert len(left["audits"]) == (point not in UNARMED)  # type: ignore[arg-type]
    if point != "publish.staged":  # nothing names the files of a writer that dies before its sidecar
        assert left["orphans"] == []
    assert cost_of_a_write(neighbour, "afterwards") == alone


def test_a_neighbour_that_reads_only_sees_a_landed_commit_before_its_writer_says_so(
    tmp_path: Path, zygote: Zygote
) -> None:
    neighbour = seeded_world(tmp_path / "g")
    job = {"uri": neighbour.uri, "kind": "upsert", "tables": list(TABLES[:2])}

    victim = zygote.start("crash.jobs:write", job, "publish.swapped=stop")
    wait_until_stopped(victim)
    seen = state(neighbour)
    os.kill(victim, signal.SIGCONT)
    ended = zygote.wait(victim)

    assert seen["node:A"] == seen["node:B"] == AFTER["upsert"]
    assert ended.error is None
    assert neighbour.head().snapshot.commit.id == ended.result
