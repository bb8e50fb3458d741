"""Groups of two processes under the history checker, beside their own maintenance; one is killed at every point."""

from collections import Counter
from pathlib import Path

import pytest

from omnigraph.ops.open import open_session
from race.checker import anomalies
from race.group_jobs import find_torn, read_history
from worlds import runtime
from zygote import Zygote

POINTS = (
    "publish.staged@9",
    "group.led@4",
    "version.written@2",
    "group.placed@7",
    "publish.applied@9",
    "publish.flushed@4",
    "publish.head_written@4",
    "publish.swapped@4",
    "publish.verified@4",
)
"""Each after some groups are published."""
MAINTENANCE_POINTS = ("maintain.begun", "upkeep.compacted", "maintain.done")


def run_both(uri: str, notes: Path, zygote: Zygote, point: str | None, times: int = 6) -> None:
    """Two processes of several threads each; the first is killed at a point, if one is given."""
    zygote.run("race.jobs:new_lists", {"uri": uri})
    jobs = [
        {
            "uri": uri,
            "name": name,
            "threads": threads,
            "times": times,
            "seed": seed,
            "notes": str(notes / name),
            # Who dies amid maintenance must not leave it to the other.
            "maintains": name == "victim" or point not in MAINTENANCE_POINTS,
        }
        for seed, (name, threads) in enumerate({"victim": 6, "other": 3}.items())
    ]
    faults = (None if point is None else f"{point}=kill", None)
    started = [
        zygote.start("race.group_jobs:append_in_threads", job, fault) for job, fault in zip(jobs, faults, strict=True)
    ]
    victim, other = (zygote.wait(pid) for pid in started)
    assert victim.was_killed == (point is not None), victim.error
    assert other.error is None


def check(uri: str, notes: Path, zygote: Zygote) -> int:
    """Whether everything that was told is true; the number of transactions that nobody was told of."""
    final = zygote.run("race.jobs:lists", {"uri": uri})
    assert final.error is None
    history = read_history(notes / "victim", notes / "other")
    assert anomalies(history, final.result) == []
    assert find_torn(history, final.result) == []
    return sum(txn.outcome == "unknown" for txn in history)


def test_histories_of_groups_are_strictly_serializable(tmp_path: Path, zygote: Zygote) -> None:
    run_both(str(tmp_path / "g"), tmp_path, zygote, None)

    assert check(str(tmp_path / "g"), tmp_path, zygote) == 0
    session = open_session(str(tmp_path / "g"), is_read_only=True, runtime=runtime())
    history = list(session.log.iter_history(session.head()))
    versions = Counter(commit.manifest_version for commit in history)
    assert max(versions.values()) > 2, "there was no group: this shows nothing"
    operations = Counter(commit.operation for commit in history)
    assert operations.pop("maintain") > 0
    assert operations == {"init": 1, "append": (6 + 3) * 6}


@pytest.mark.parametrize("point", [*POINTS, *MAINTENANCE_POINTS])
def test_a_killed_group_loses_doubles_and_reorders_nothing(point: str, tmp_path: Path, zygote: Zygote) -> None:
    run_both(str(tmp_path / "g"), tmp_path, zygote, point)

    unknown = check(str(tmp_path / "g"), tmp_path, zygote)
    # Those that were waiting do not know; nobody waits for maintenance.
    assert unknown > 0 or point in MAINTENANCE_POINTS
