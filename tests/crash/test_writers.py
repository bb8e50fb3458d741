"""Every writer, killed at every point of the publish: all or nothing, nothing left, nobody blocked."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from worlds import TABLES, seeded_world, state
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
def zygote() -> Iterator[Zygote]:
    zygote = Zygote()
    yield zygote
    zygote.close()


def expected(kind: str, tables: int, point: str) -> dict[str, dict[str, int]]:
    changed = TABLES[:tables] if point in AFTER_SWAP else ()
    return {key: AFTER[kind] if key in changed else SEED for key in TABLES}


CELLS = [
    (kind, tables, point)
    for kind in KINDS
    for tables in (1, 2, 5)
    for point in POINTS
    if tables > 1 or point not in ARMED_ONLY
]


@pytest.mark.parametrize("kind, tables, point", CELLS)
def test_a_killed_writer_leaves_all_or_nothing(
    kind: str, tables: int, point: str, tmp_path: Path, zygote: Zygote
) -> None:
    uri = seeded_world(tmp_path / "g").uri

    killed = zygote.run(
        "crash.jobs:write", {"uri": uri, "kind": kind, "tables": list(TABLES[:tables])}, f"{point}=kill"
    )
    seen = zygote.run("crash.jobs:look", {"uri": uri})
    next_write = zygote.run("crash.jobs:write_at_once", {"uri": uri})
    settled = zygote.run("crash.jobs:settle", {"uri": uri})

    assert killed.was_killed
    assert seen.error is None
    assert seen.result["state"] == expected(kind, tables, point)
    assert next_write.error is None
    assert next_write.result["state"]["node:A"]["next"] == 1
    assert settled.error is None
    assert settled.result["sidecars"] == 0
    if tables > 1:
        had_sidecar = point not in ("publish.staged", "publish.disarmed")
        assert len(settled.result["audits"]) == had_sidecar
        if point != "publish.staged":
            assert settled.result["orphans"] == []


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
def test_a_killed_recovery_is_finished_by_the_next(died_at: str, point: str, tmp_path: Path, zygote: Zygote) -> None:
    session = seeded_world(tmp_path / "g")
    job = {"uri": session.uri, "kind": "upsert", "tables": list(TABLES[:2])}
    zygote.run("crash.jobs:write", job, f"{died_at}=kill")
    before = state(session)
    zygote.run("crash.jobs:sleep_past_lease", {})

    zygote.run("crash.jobs:heal", {"uri": session.uri}, f"{point}=kill")
    settled = zygote.run("crash.jobs:settle", {"uri": session.uri})

    assert settled.error is None
    assert settled.result["state"] == before
    assert settled.result["sidecars"] == 0
    assert len(settled.result["audits"]) == 1
    assert settled.result["orphans"] == []
