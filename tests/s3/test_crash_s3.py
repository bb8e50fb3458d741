"""The crash matrix on S3, reduced: writers of two tables killed at every point."""

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from unittest import mock

import pytest

from s3_server import copied, fresh_uri, s3_server
from worlds import FAST, STORAGE, TABLES, seeded_world
from zygote import Zygote

POINTS = (
    "publish.staged",
    "publish.armed",
    "publish.applied",
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


@pytest.fixture(scope="module")
def storage() -> Iterator[dict[str, str]]:
    with s3_server() as options:
        yield options


@pytest.fixture(scope="module")
def template(storage: dict[str, str]) -> str:
    return seeded_world(fresh_uri(), replace(FAST, storage=storage)).uri


@pytest.fixture
def uri(template: str) -> str:
    """A graph of its own for each test."""
    return copied(template)


@pytest.fixture(scope="module")
def zygote(storage: dict[str, str]) -> Iterator[Zygote]:
    with mock.patch.dict(os.environ, {STORAGE: json.dumps(storage)}):
        zygote = Zygote()
    yield zygote
    zygote.close()


@pytest.mark.parametrize(
    "kind",
    ["upsert", pytest.param("append", marks=pytest.mark.soak), pytest.param("overwrite", marks=pytest.mark.soak)],
)
@pytest.mark.parametrize("point", POINTS)
def test_a_writer_killed_on_s3_leaves_all_or_nothing(kind: str, point: str, uri: str, zygote: Zygote) -> None:
    victim = {"uri": uri, "kind": kind, "tables": list(TABLES[:2])}

    killed = zygote.run("crash.jobs:write", victim, f"{point}=kill")
    after = zygote.run("s3.jobs:aftermath", {"uri": uri})

    changed = TABLES[:2] if point in AFTER_SWAP else ()
    expected = {key: AFTER[kind] if key in changed else SEED for key in TABLES}
    assert killed.was_killed
    assert after.error is None
    assert after.result["seen"]["state"] == expected
    settled = after.result["settled"]
    assert settled["state"] == {
        key: {**rows, "next": 1} if key in TABLES[:2] else rows for key, rows in expected.items()
    }
    assert settled["sidecars"] == 0
    assert [kind for _, kind in settled["audits"]] == (
        [] if point in UNARMED else ["RolledForward" if point in AFTER_SWAP else "RolledBack"]
    )
    if point != "publish.staged":  # nothing names the files of a writer that dies before its sidecar
        assert settled["orphans"] == []


@pytest.mark.parametrize("point", ["recovery.fenced", "recovery.published", "recovery.reclaimed", "recovery.audited"])
def test_a_recovery_killed_on_s3_is_finished_by_the_next(point: str, uri: str, zygote: Zygote) -> None:
    before = dict.fromkeys(TABLES, SEED)
    victim = {"uri": uri, "kind": "upsert", "tables": list(TABLES[:2])}
    zygote.run("crash.jobs:write", victim, "publish.applied@2=kill")

    killed = zygote.run("s3.jobs:heal", {"uri": uri}, f"{point}=kill")
    settled = zygote.run("s3.jobs:settle", {"uri": uri})

    assert killed.was_killed
    assert settled.error is None
    assert settled.result["state"] == before
    assert settled.result["sidecars"] == 0
    assert len(settled.result["audits"]) == 1
    assert settled.result["orphans"] == []
