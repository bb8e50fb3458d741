"""Branches that are made and deleted by processes that are killed at every point: there whole, or not at all."""

import shutil
from pathlib import Path

import pytest

from crash.branch_jobs import DOOMED, KEPT
from crash.jobs import OVER, leftovers
from load_calls import person
from mutating import new_graph
from omnigraph.ops.branch import create_branch
from omnigraph.ops.open import open_session
from omnigraph.ops.write_tables import TableWrite, write_tables
from worlds import TABLES, rows, runtime, seeded_world
from zygote import Zygote

SEED = {"a": 1, "b": 2, "c": 3, "d": 4}
WORLD = dict.fromkeys(TABLES, SEED)
OTHER = {**WORLD, "node:A": {**SEED, "a": 9}}
"""What the branch that is to be deleted says."""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Main, a branch that stays, and one that differs from both."""
    session = seeded_world(tmp_path_factory.mktemp("template") / "g")
    create_branch(session, KEPT, actor="test")
    return session.uri


@pytest.fixture
def uri(template: str, tmp_path: Path) -> str:
    return str(shutil.copytree(template, tmp_path / "g"))


CREATE = {
    "branch.written": False,
    "publish.head_written": False,
    "publish.swapped": True,
    "publish.verified": True,
    "branch.registered": True,
}
"""By point, whether the branch is there when its maker was killed at it."""


@pytest.mark.parametrize("point", CREATE)
def test_a_killed_maker_leaves_a_branch_or_none(point: str, uri: str, zygote: Zygote) -> None:
    killed = zygote.run("crash.branch_jobs:create", {"uri": uri, "name": DOOMED}, f"{point}=kill")
    seen = zygote.run("crash.branch_jobs:look", {"uri": uri})
    after = zygote.run("crash.branch_jobs:go_on", {"uri": uri})

    assert killed.was_killed
    assert seen.error is None
    assert seen.result == {"main": WORLD, KEPT: WORLD, **({DOOMED: WORLD} if CREATE[point] else {})}
    assert after.error is None
    assert after.result["value"] == {**SEED, "next": 1}
    assert after.result["after"] == ["main", KEPT]


DELETE = {
    "publish.head_written@1": True,
    "publish.swapped@1": False,
    "publish.verified@1": False,
    "branch.marked": False,
    "publish.head_written@2": False,
    "publish.swapped@2": False,
    "publish.verified@2": False,
    "branch.closed": False,
    "publish.head_written@3": False,
    "publish.swapped@3": False,
    "publish.verified@3": False,
    "branch.removed": False,
}
"""By point, whether the branch is still there when its deleter was killed at it."""


@pytest.mark.parametrize("point", DELETE)
def test_a_killed_deleter_leaves_the_branch_or_none(point: str, uri: str, zygote: Zygote) -> None:
    session = open_session(uri, is_read_only=False, runtime=runtime())
    create_branch(session, DOOMED, actor="test")
    write_tables(
        session.checkout(DOOMED), [TableWrite(table_key="node:A", upsert=rows({"a": 9}))], operation="w", actor="test"
    )

    killed = zygote.run("crash.branch_jobs:delete", {"uri": uri, "name": DOOMED}, f"{point}=kill")
    seen = zygote.run("crash.branch_jobs:look", {"uri": uri})
    after = zygote.run("crash.branch_jobs:go_on", {"uri": uri})

    assert killed.was_killed
    assert seen.error is None
    assert seen.result == {"main": WORLD, KEPT: WORLD, **({DOOMED: OTHER} if DELETE[point] else {})}
    assert after.error is None
    assert after.result["rows"] == ([DOOMED] if DELETE[point] else []) + [KEPT]
    assert after.result["value"] == {**(OTHER["node:A"] if DELETE[point] else SEED), "next": 1}
    assert after.result["after"] == ["main", KEPT]


LOAD = {
    "branch.written": False,
    "publish.armed": False,
    "publish.flushed": False,
    "publish.swapped@1": False,
    "publish.disarmed": False,
    "publish.head_written@2": False,
    "publish.swapped@2": True,
    "branch.registered": True,
}
"""By point, whether the branch is there when a load that makes it was killed at it."""


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> str:
    graph = new_graph(tmp_path_factory.mktemp("people"))
    graph.load([person("a")], mode="append")
    return graph.uri


@pytest.mark.parametrize("point", LOAD)
def test_a_killed_load_into_a_new_branch_leaves_both_or_neither(
    point: str, people: str, tmp_path: Path, zygote: Zygote
) -> None:
    uri = str(shutil.copytree(people, tmp_path / "g"))
    expected = {"main": ["a"], **({"new": ["a", "y", "z"]} if LOAD[point] else {})}

    killed = zygote.run("crash.branch_jobs:load_from", {"uri": uri, "name": "new"}, f"{point}=kill")
    seen = zygote.run("crash.branch_jobs:people", {"uri": uri})
    again = zygote.run("crash.branch_jobs:load_from", {"uri": uri, "name": "again"})
    settled = open_session(uri, is_read_only=False, runtime=runtime(OVER))

    assert killed.was_killed
    assert seen.result == expected
    assert again.error is None
    assert zygote.run("crash.branch_jobs:people", {"uri": uri}).result == {**expected, "again": ["a", "y", "z"]}
    assert leftovers(settled)["sidecars"] == 0


# The mutation writes one table, for which nothing is noted before and after.
@pytest.mark.parametrize("point", [point for point in LOAD if point not in ("publish.armed", "publish.disarmed")])
def test_a_killed_proposal_is_there_with_its_change_or_not_at_all(
    point: str, people: str, tmp_path: Path, zygote: Zygote
) -> None:
    uri = str(shutil.copytree(people, tmp_path / "g"))
    expected = {"main": ["a"], **({"new": ["a", "z"]} if LOAD[point] else {})}

    killed = zygote.run("crash.branch_jobs:propose_change", {"uri": uri, "name": "new"}, f"{point}=kill")
    seen = zygote.run("crash.branch_jobs:people", {"uri": uri})
    again = zygote.run("crash.branch_jobs:propose_change", {"uri": uri, "name": "again"})

    assert killed.was_killed
    assert seen.result == expected
    assert again.error is None
    assert zygote.run("crash.branch_jobs:people", {"uri": uri}).result == {**expected, "again": ["a", "z"]}
