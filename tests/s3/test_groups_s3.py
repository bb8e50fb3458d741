"""Groups on an object store, killed at every point: whole or not at all, and every history is strictly serializable."""

import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest

from crash.test_groups import DONE, POINTS
from crash.test_writers import AFTER_SWAP, SEED
from omnigraph.ops.open import open_session
from race.test_groups import MAINTENANCE_POINTS, check, run_both
from race.test_groups import POINTS as HISTORY_POINTS
from s3_server import copied, fresh_uri, s3_server
from worlds import FAST, STORAGE, TABLES, runtime, seeded_world
from zygote import Zygote


@pytest.fixture(scope="module")
def storage() -> Iterator[dict[str, str]]:
    with s3_server() as options:
        yield options


@pytest.fixture(scope="module")
def template(storage: dict[str, str]) -> str:
    return seeded_world(fresh_uri(), replace(FAST, storage=storage)).uri


@pytest.fixture(scope="module")
def zygote(storage: dict[str, str]) -> Iterator[Zygote]:
    with mock.patch.dict(os.environ, {STORAGE: json.dumps(storage)}):
        zygote = Zygote()
    yield zygote
    zygote.close()


@pytest.mark.parametrize("point", POINTS)
def test_a_group_killed_on_s3_is_there_whole_or_not_at_all(point: str, template: str, zygote: Zygote) -> None:
    uri = copied(template)

    killed = zygote.run("crash.group_jobs:write", {"uri": uri}, f"{point}=kill")
    after = zygote.run("s3.jobs:aftermath", {"uri": uri})

    assert killed.was_killed
    assert after.error is None
    is_done = point in AFTER_SWAP
    assert after.result["seen"]["state"] == (DONE if is_done else dict.fromkeys(TABLES, SEED))
    assert len(after.result["seen"]["commits"]) == (6 if is_done else 2)
    assert after.result["settled"]["state"]["node:A"]["next"] == 1
    assert after.result["settled"]["sidecars"] == 0


def test_histories_of_groups_on_s3_are_strictly_serializable(
    tmp_path: Path, storage: dict[str, str], zygote: Zygote
) -> None:
    uri = fresh_uri()

    run_both(uri, tmp_path, zygote, None, times=3)

    assert check(uri, tmp_path, zygote) == 0
    session = open_session(uri, is_read_only=True, runtime=runtime(replace(FAST, storage=storage)))
    versions = Counter(commit.manifest_version for commit in session.log.iter_history(session.head()))
    assert max(versions.values()) > 2, "there was no group: this shows nothing"


@pytest.mark.parametrize("point", [*HISTORY_POINTS[1:], *MAINTENANCE_POINTS])
def test_a_group_killed_on_s3_loses_doubles_and_reorders_nothing(point: str, tmp_path: Path, zygote: Zygote) -> None:
    uri = fresh_uri()

    run_both(uri, tmp_path, zygote, point, times=4)

    assert check(uri, tmp_path, zygote) > 0 or point in MAINTENANCE_POINTS
