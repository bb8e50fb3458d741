"""A group of writes, killed at every point: all of them or none, and nobody is blocked."""

import shutil
from pathlib import Path

import pytest

import omnigraph as og
from crash.test_writers import AFTER_SWAP, SEED
from worlds import TABLES, runtime, seeded_world
from zygote import Zygote

POINTS = (
    "publish.staged",
    "publish.staged@4",
    "group.led",
    "version.written",
    "group.placed",
    "group.placed@3",
    "publish.applied",
    "publish.applied@3",
    "publish.applied@5",
    "publish.flushed",
    "publish.head_written",
    "publish.swapped",
    "publish.verified",
)
DONE = {
    **dict.fromkeys(TABLES, SEED),
    "node:A": {**SEED, "a": 3, "z": 26},
    "node:B": {**SEED, "z": 26},
    "node:C": {**SEED, "z": 26},
}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> str:
    return seeded_world(tmp_path_factory.mktemp("seeded") / "g").uri


@pytest.fixture
def uri(template: str, tmp_path: Path) -> str:
    return str(shutil.copytree(template, tmp_path / "g"))


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_group_is_there_whole_or_not_at_all(point: str, uri: str, zygote: Zygote) -> None:
    killed = zygote.run("crash.group_jobs:write", {"uri": uri}, f"{point}=kill")
    after = zygote.run("crash.jobs:aftermath", {"uri": uri})

    assert killed.was_killed
    assert after.error is None
    is_done = point in AFTER_SWAP
    assert after.result["seen"]["state"] == (DONE if is_done else dict.fromkeys(TABLES, SEED))
    assert len(after.result["seen"]["commits"]) == (6 if is_done else 2)
    assert after.result["next"]["state"]["node:A"]["next"] == 1
    assert after.result["settled"]["sidecars"] == 0
    # Nothing but a few small files, for a cleanup.
    assert {finding.code for finding in og.check_graph(uri, runtime=runtime()).findings} <= {"unused_files"}


def test_a_group_that_lives_is_there_whole(uri: str, zygote: Zygote) -> None:
    lived = zygote.run("crash.group_jobs:write", {"uri": uri})
    seen = zygote.run("crash.jobs:look", {"uri": uri}).result

    assert lived.error is None
    assert seen["state"] == DONE
    assert seen["commits"][:4] == lived.result[::-1]
