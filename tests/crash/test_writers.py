"""Every writer, killed at every point of the publish: all or nothing, nothing left, nobody blocked."""

import shutil
from pathlib import Path

import pytest

from omnigraph.ops.open import open_session
from worlds import TABLES, runtime, seeded_world, state
from zygote import Zygote

KINDS = ("append", "upsert", "delete", "overwrite", "empty")
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
ARMED_ONLY = ("publish.armed", "publish.disarmed")

SEED = {"a": 1, "b": 2, "c": 3, "d": 4}
AFTER = {
    "append": {**SEED, "z": 26},
    "upsert": {**SEED, "a": 100, "z": 26},
    "delete": {"c": 3, "d": 4},
    "overwrite": {"z": 26},
    "empty": {},
}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> str:
    return seeded_world(tmp_path_factory.mktemp("seeded") / "g").uri


@pytest.fixture
def uri(template: str, tmp_path: Path) -> str:
    """A graph of its own for each test, which is a copy: nothing in a graph says where it is."""
    return str(shutil.copytree(template, tmp_path / "g"))


def expected(kind: str, tables: int, point: str) -> dict[str, dict[str, int]]:
    changed = TABLES[:tables] if point in AFTER_SWAP else ()
    return {key: AFTER[kind] if key in changed else SEED for key in TABLES}


CELLS = [
    (kind, tables, point)
    for kind in KINDS
    for tables in (1, 2, 5)
    for point in POINTS
    if tables == 2 or (tables == 1 and point not in ARMED_ONLY) or (tables == 5 and kind == "upsert")
]
"""Every kind of one table and of two; with five it is the same but for their number, so one kind will do."""


@pytest.mark.parametrize("kind, tables, point", CELLS)
def test_a_killed_writer_leaves_all_or_nothing(kind: str, tables: int, point: str, uri: str, zygote: Zygote) -> None:
    job = {"uri": uri, "kind": kind, "tables": list(TABLES[:tables])}

    killed = zygote.run("crash.jobs:write", job, f"{point}=kill")
    after = zygote.run("crash.jobs:aftermath", {"uri": uri})

    assert killed.was_killed
    assert after.error is None
    assert after.result["seen"]["state"] == expected(kind, tables, point)
    assert after.result["next"]["state"]["node:A"]["next"] == 1
    settled = after.result["settled"]
    assert settled["sidecars"] == 0
    if tables > 1:
        had_sidecar = point not in ("publish.staged", "publish.disarmed")
        assert len(settled["audits"]) == had_sidecar
        if point != "publish.staged":
            assert settled["orphans"] == []


RECOVERY_POINTS = (
    "recovery.listed",
    "recovery.fenced",
    "recovery.published",
    "recovery.reclaimed",
    "recovery.audited",
    "recovery.removed",
)


@pytest.mark.parametrize("point", RECOVERY_POINTS)
@pytest.mark.parametrize("died_at", ["publish.armed", "publish.flushed", "publish.swapped"])
def test_a_killed_recovery_is_finished_by_the_next(died_at: str, point: str, uri: str, zygote: Zygote) -> None:
    job = {"uri": uri, "kind": "upsert", "tables": list(TABLES[:2])}
    zygote.run("crash.jobs:write", job, f"{died_at}=kill")
    before = state(open_session(uri, is_read_only=True, runtime=runtime()))

    zygote.run("crash.jobs:heal", {"uri": uri}, f"{point}=kill")
    settled = zygote.run("crash.jobs:settle", {"uri": uri})

    assert settled.error is None
    assert settled.result["state"] == before
    assert settled.result["sidecars"] == 0
    assert len(settled.result["audits"]) == 1
    assert settled.result["orphans"] == []
