"""Idempotency keys are known for as long as the settings say, however many commits come in between."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from branching import branch, put
from collecting import again
from omnigraph.clock import SystemClock
from omnigraph.commit import key_index
from omnigraph.commit.key_index import KeyFinder
from omnigraph.commit.manifest_types import Commit, KeyIndex
from omnigraph.ops.cleanup import CleanupCall, cleanup
from omnigraph.ops.clone import CloneCall, clone
from omnigraph.ops.open import open_session
from omnigraph.ops.session import Session
from omnigraph.options import Options
from omnigraph.runtime import Runtime
from s3_server import fresh_uri, s3_server
from worlds import CALM, FAST, new_world, seeded_world

SMALL = replace(FAST, head_commits=4, sealed_fragments=2)
"""Every four commits are sealed, and sealed ones are merged at once."""


@dataclass
class MovedClock(SystemClock):
    """A clock that a test moves."""

    by: timedelta = timedelta()

    def now(self) -> datetime:
        return super().now() + self.by


def add_commits(session: Session, count: int, key: str | None = None) -> list[Commit]:
    """Publish commits that change nothing, each with a key of its own if `key` is given."""
    made = []
    for number in range(count):
        head = session.log.head()
        old = head.snapshot.manifest
        commit = msgspec.structs.replace(
            head.snapshot.commit,
            id=session.runtime.ids.ulid(),
            parent=head.snapshot.commit.id,
            seq=head.snapshot.commit.seq + 1,
            branch=session.log.branch,
            actor="test",
            at=session.runtime.clock.now().isoformat(),
            idempotency_key=None if key is None else f"{key}{number}",
            manifest_version=head.snapshot.manifest_version + 1,
            changes=(),
        )
        session.log.publish(head, replace(old, head=commit.id, commits=(*old.commits, commit)))
        made.append(commit)
    return made


def find(session: Session, key: str, actor: str = "test") -> str | None:
    found = session.log.find_by_idempotency_key(session.head(), actor, key)
    return None if found is None else found.id


def anew(session: Session, options: Options = SMALL, **runtime: object) -> Session:
    """Another process's handle."""
    return again(session, options=options, **runtime)


def test_a_key_is_known_after_more_than_a_thousand_commits(tmp_path: Path) -> None:
    session = seeded_world(tmp_path / "g")
    first = put(session, {"once": 1}, idempotency_key="k")
    add_commits(session, 1_100)

    assert find(again(session), "k") == first
    assert put(again(session), {"once": 1}, idempotency_key="k") == first


def test_every_key_of_a_long_past_is_found_and_no_other(tmp_path: Path) -> None:
    session = seeded_world(tmp_path / "g", SMALL)
    made = add_commits(session, 41, "k")
    other = anew(session)

    assert [find(other, f"k{number}") for number in range(41)] == [commit.id for commit in made]
    assert find(other, "k41") is None
    assert find(other, "k3", actor="somebody else") is None
    assert find(other, "k3\\") is None


def test_a_hash_that_two_actors_share_is_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_index, "_hash_key", lambda _actor, _key: 7)
    session = seeded_world(tmp_path / "g", SMALL)
    made = add_commits(session, 9, "k")

    assert find(anew(session), "k2") == made[2].id
    assert find(anew(session), "k2", actor="somebody else") is None


def test_keys_are_known_on_both_sides_of_a_full_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_index, "MAX_RUN_KEYS", 8)
    session = seeded_world(tmp_path / "g", SMALL)

    made = add_commits(session, 41, "k")

    runs = session.head().snapshot.manifest.key_runs
    assert all(8 <= run.keys < 8 + 4 for run in runs[:-1])
    assert len(runs) > 2
    assert [find(anew(session), f"k{number}") for number in range(41)] == [commit.id for commit in made]


def test_a_key_is_forgotten_after_its_days(tmp_path: Path) -> None:
    session = seeded_world(tmp_path / "g", SMALL)
    made = add_commits(session, 6, "k")
    week = timedelta(days=7)

    before, after = (anew(session, clock=MovedClock(week + timedelta(hours=by))) for by in (-1, 1))

    assert [find(before, key) for key in ("k0", "k5")] == [made[0].id, made[5].id]
    assert [find(after, key) for key in ("k0", "k5")] == [None, None]


def test_a_key_is_forgotten_behind_so_many_others_with_a_key_and_no_sooner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_index, "MAX_RUN_KEYS", 4)
    few = replace(SMALL, idempotency_keys=8)
    session = new_world(tmp_path / "g", few)
    made = add_commits(session, 8, "k")
    add_commits(session, 40)

    spared = find(anew(session, few), "k0")
    add_commits(session, 20, "later")

    assert spared == made[0].id
    assert find(anew(session, few), "k0") is None
    assert sum(run.keys for run in session.head().snapshot.manifest.key_runs) <= 8 + 4


def test_old_runs_leave_the_manifest_with_time(tmp_path: Path) -> None:
    clock = MovedClock()
    session = anew(new_world(tmp_path / "g", SMALL), clock=clock)
    add_commits(session, 8, "k")
    clock.by = timedelta(days=8)

    add_commits(session, 8)

    assert session.head().snapshot.manifest.key_runs == ()


def test_a_branch_knows_the_keys_of_its_own_commits_only(tmp_path: Path) -> None:
    session = seeded_world(tmp_path / "g", SMALL)
    add_commits(session, 11, "before")
    there = branch(session, "side")
    add_commits(session, 9, "after")
    child = branch(there, "child", "side")
    own = add_commits(child, 9, "own")

    fresh = anew(session)
    found = {
        key: find(fresh.checkout("child"), key) for key in ("before0", "before10", "after0", "after8", "own0", "own8")
    }

    inherited = dict.fromkeys(("before0", "before10", "after0", "after8"))
    assert found == {**inherited, "own0": own[0].id, "own8": own[8].id}
    assert find(fresh, "own0") is None


def test_a_clone_knows_the_keys_of_its_source(tmp_path: Path) -> None:
    session = seeded_world(tmp_path / "g", SMALL)
    made = add_commits(session, 21, "k")

    clone(session, CloneCall(target=str(tmp_path / "copy")))
    copy = open_session(str(tmp_path / "copy"), is_read_only=False, runtime=Runtime(options=SMALL))

    assert [find(copy, f"k{number}") for number in range(21)] == [commit.id for commit in made]
    assert run_files(copy) == named_runs(copy)


def test_cleanup_leaves_the_keys_that_are_named_and_removes_the_others(tmp_path: Path) -> None:
    session = seeded_world(tmp_path / "g", SMALL)
    made = add_commits(session, 21, "k")
    before = run_files(session)

    result = cleanup(session, CleanupCall(keep=1, grace=timedelta(0), is_confirmed=True))

    assert len(before) > 1
    assert result.unknown_files == ()
    assert run_files(session) == named_runs(session)
    assert [find(anew(session), f"k{number}") for number in range(21)] == [commit.id for commit in made]


def test_the_publisher_removes_runs_that_no_state_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = seeded_world(tmp_path / "g", SMALL)
    add_commits(session, 12, "k")
    young = run_files(session)
    session = anew(session, replace(SMALL, trim_every=1))
    add_commits(session, 1)
    spared = run_files(session)
    monkeypatch.setattr(key_index, "MIN_ORPHAN_AGE", timedelta(0))

    add_commits(session, 1)

    assert spared == young
    assert len(young) > 1
    assert run_files(session) == named_runs(session)


@pytest.mark.parametrize("damage", ["gone", "cut"])
def test_keys_whose_run_is_damaged_are_found_in_the_journal(damage: str, tmp_path: Path) -> None:
    session = seeded_world(tmp_path / "g", SMALL)
    made = add_commits(session, 13, "k")
    for name in named_runs(session):
        if damage == "gone":
            (tmp_path / "g" / name).unlink()
        else:
            (tmp_path / "g" / name).write_bytes(b"")
    other = anew(session)

    assert [find(other, f"k{number}") for number in range(13)] == [commit.id for commit in made]
    later = add_commits(other, 9, "later")
    assert [find(anew(session), key) for key in ("k0", "later0")] == [made[0].id, later[0].id]


def test_a_graph_of_a_release_without_runs_knows_its_keys_and_keeps_new_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = seeded_world(tmp_path / "g", SMALL)
    with monkeypatch.context() as earlier:
        earlier.setattr(KeyFinder, "extend", lambda *_args, **_kwargs: None)
        old = add_commits(session, 10, "old")
    stored = session.head().snapshot.manifest.keys
    new = add_commits(session, 10, "new")
    other = anew(session)

    assert stored is None
    assert other.head().snapshot.manifest.keys != KeyIndex()
    assert [find(other, f"old{number}") for number in range(10)] == [commit.id for commit in old]
    assert [find(other, f"new{number}") for number in range(10)] == [commit.id for commit in new]


def test_a_key_that_was_used_again_after_its_time_stands_for_the_newer_commit(tmp_path: Path) -> None:
    clock = MovedClock(-timedelta(days=8))
    session = anew(new_world(tmp_path / "g", SMALL), clock=clock)
    add_commits(session, 1, "k")
    clock.by = timedelta()

    second = add_commits(session, 1, "k")
    add_commits(session, 9)

    assert find(anew(session), "k0") == second[0].id


# --- cost --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def s3() -> Iterator[Options]:
    with s3_server() as options:
        yield replace(CALM, head_commits=16, sealed_fragments=64, storage=options)


def cost_of_a_look(session: Session, key: str) -> int:
    head = session.head()
    with session.runtime.telemetry.count_requests() as requests:
        session.log.find_by_idempotency_key(head, "test", key)
    return requests.count()


@pytest.mark.parametrize("commits", [20, 90])
def test_a_key_that_is_not_there_costs_one_request_once(commits: int, s3: Options) -> None:
    session = new_world(fresh_uri(), s3)
    add_commits(session, commits, "k")
    fresh = anew(session, s3)

    costs = [cost_of_a_look(fresh, key) for key in ("new", "newer")]

    assert costs == [1, 0]


def test_a_branch_looks_at_its_parent_once(s3: Options) -> None:
    session = new_world(fresh_uri(), s3)
    add_commits(session, 40, "k")
    there = branch(session, "side")
    cost_of_a_look(there, "new")

    assert cost_of_a_look(there, "newer") == 0


def run_files(session: Session) -> list[str]:
    return [info.key for info in session.store.objects.list_under("__manifest/keys")]


def named_runs(session: Session) -> list[str]:
    return sorted(f"__manifest/{run.name}" for run in session.head().snapshot.manifest.key_runs)
