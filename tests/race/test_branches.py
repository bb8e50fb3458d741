"""Processes that make, delete and write to branches at the same time."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from omnigraph.ops.branch import create_branch, list_branches
from omnigraph.ops.open import open_session
from omnigraph.ops.session import Session
from worlds import runtime, seeded_world, state
from zygote import Zygote


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> str:
    return seeded_world(tmp_path_factory.mktemp("template") / "g").uri


@pytest.fixture
def uri(template: str, tmp_path: Path) -> str:
    return str(shutil.copytree(template, tmp_path / "g"))


def together(zygote: Zygote, jobs: Sequence[tuple[str, Mapping[str, object]]]) -> list[Any]:
    started = [zygote.start(f"race.branch_jobs:{target}", job) for target, job in jobs]
    ended = [zygote.wait(pid) for pid in started]
    assert [one.error for one in ended] == [None] * len(jobs)
    return [one.result for one in ended]


def opened(uri: str) -> Session:
    return open_session(uri, is_read_only=False, runtime=runtime())


def names(session: Session) -> list[str]:
    return [branch.name for branch in list_branches(session)][1:]


def test_of_all_who_make_a_branch_of_one_name_one_wins(uri: str, zygote: Zygote) -> None:
    made = together(
        zygote, [("create", {"uri": uri, "name": f"p{n}", "times": 15, "is_shared": True}) for n in range(3)]
    )

    won = sorted(branch for one in made for branch in one)
    found = sorted(f"{branch.name} {branch.id}" for branch in list_branches(opened(uri))[1:])
    assert won == found
    assert len(found) == 15


def test_makers_of_different_branches_never_fail(uri: str, zygote: Zygote) -> None:
    made = together(
        zygote, [("create", {"uri": uri, "name": f"p{n}", "times": 8, "is_shared": False}) for n in range(3)]
    )

    session = opened(uri)
    assert [len(one) for one in made] == [8, 8, 8]
    assert len(names(session)) == 24
    assert all(state(session.checkout(name)) == state(session) for name in names(session)[::7])


def test_every_creation_is_undone_by_one_deletion(uri: str, zygote: Zygote) -> None:
    counts = together(zygote, [("churn", {"uri": uri, "name": f"p{n}", "times": 12}) for n in range(3)])

    session = opened(uri)
    left = len(names(session))
    total = {key: sum(one[key] for one in counts) for key in counts[0]}
    assert total["made"] == total["deleted"] + left
    assert total["made"] + total["exists"] == total["written"] + total["gone"] == 36
    assert len(state(session)["node:A"]) == 4
    assert all(record.is_deleted is False for record in session.head().snapshot.manifest.branches.values())


def test_a_parent_is_never_deleted_under_its_children(uri: str, zygote: Zygote) -> None:
    parents, *children = together(
        zygote,
        [
            ("parent", {"uri": uri, "times": 20}),
            *(("families", {"uri": uri, "name": f"p{n}", "times": 12}) for n in "12"),
        ],
    )

    session = opened(uri)
    assert parents["deleted"] + parents["kept"] == 20
    assert sum(one["made"] + one["orphaned"] for one in children) == 24
    assert set(names(session)) <= {"parent"}


def test_writers_of_different_branches_do_not_meet(uri: str, zygote: Zygote) -> None:
    session = opened(uri)
    for name in ("one", "two"):
        create_branch(session, name, actor="test")

    done = together(
        zygote,
        [("write_on", {"uri": uri, "branch": name, "name": name, "times": 15}) for name in ("main", "one", "two")],
    )

    assert [len(one) for one in done] == [15, 15, 15]
    for name, rows in zip(("main", "one", "two"), done, strict=True):
        assert set(state(session.checkout(name))["node:A"]) == {"a", "b", "c", "d", *rows}
        assert session.checkout(name).resolve_snapshot().commit.seq == 1 + 15


def test_writers_of_one_branch_lose_nothing(uri: str, zygote: Zygote) -> None:
    session = opened(uri)
    create_branch(session, "shared", actor="test")

    done = together(
        zygote, [("write_on", {"uri": uri, "branch": "shared", "name": f"p{n}", "times": 12}) for n in range(3)]
    )

    written = [row for one in done for row in one]
    assert set(state(session.checkout("shared"))["node:A"]) == {"a", "b", "c", "d", *written}
    assert len(state(session)["node:A"]) == 4
