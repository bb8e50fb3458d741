"""Cleanup and the journals of branches that were merged or deleted, or whose manifest was trimmed or damaged."""

import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

import omnigraph as og
from branching import branch, put
from collecting import (
    DAY,
    SkewedClock,
    again,
    collect,
    content,
    content_files,
    looked_at,
    names,
    needed,
    pass_time,
    readable,
    small_world,
)
from omnigraph.commit import manifest_log
from omnigraph.commit.merge_base import MergeBaseGoneError
from omnigraph.ops.branch import delete_branch
from omnigraph.ops.check import CheckCall, check
from omnigraph.ops.history import list_commits
from omnigraph.ops.merge import MergeCall, merge
from omnigraph.ops.session import Session
from omnigraph.ops.tag import create_tag
from omnigraph.ops.write_tables import TableWrite, write_tables
from omnigraph.runtime import Runtime
from omnigraph.storage.layout import MANIFEST
from worlds import FAST


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """A row that said 1, 2 and 3."""
    session = small_world(tmp_path / "g")
    for number in (1, 2, 3):
        put(session, {"a": number})
    return session


def delete(session: Session, row: str) -> None:
    write_tables(session, [TableWrite(table_key="node:A", delete=[row])], operation="delete", actor="test")


def test_what_was_merged_by_way_of_a_deleted_branch_does_not_come_back(session: Session) -> None:
    side, middle, third = (branch(session, name) for name in ("side", "middle", "third"))
    put(third, {"t": 1})
    put(middle, {"m": 1})
    merge(session, MergeCall(source="third", into="middle"))
    put(side, {"s": 1})
    merge(session, MergeCall(source="third", into="side"))
    put(session, {"b": 1})
    merge(session, MergeCall(source="middle"))
    delete_branch(session, "middle")
    delete(session, "t")
    pass_time(session.uri, 2 * DAY)
    collect(session)

    merge(again(session), MergeCall(source="side"))

    assert content(session, again(session).resolve_snapshot())["node:A"] == {"a": 3, "b": 1, "m": 1, "s": 1}


def test_what_was_merged_by_way_of_a_branch_of_a_branch_does_not_come_back(session: Session) -> None:
    side = branch(session, "side")
    put(side, {"t": 1})
    put(branch(session, "middle", "side"), {"m": 1})
    put(session, {"b": 1})
    merge(session, MergeCall(source="middle"))
    delete_branch(session, "middle")
    delete(session, "t")
    put(side, {"s": 1})
    pass_time(session.uri, 2 * DAY)
    collect(session)

    merge(again(session), MergeCall(source="side"))

    assert content(session, again(session).resolve_snapshot())["node:A"] == {"a": 3, "b": 1, "m": 1, "s": 1}


def test_a_merged_and_deleted_branch_keeps_its_journal_and_none_of_its_rows(session: Session) -> None:
    put(branch(session, "side"), {"s": 1})
    middle = branch(session, "middle")
    for number in (1, 2):
        put(middle, {"m": number})
    put(session, {"b": 1})
    merge(session, MergeCall(source="middle"))
    delete_branch(session, "middle")
    put(session, {"b": 2})
    pass_time(session.uri, 2 * DAY)

    collect(session)

    there = looked_at(session.uri)
    used = needed(session.uri, there.resolve_snapshot()) | needed(
        session.uri, there.checkout("side").resolve_snapshot()
    )
    fork = there.checkout("side").log.final_head().snapshot.manifest.fork
    assert fork is not None
    used |= needed(session.uri, there.resolve_snapshot(commit_id=fork.commit_id))
    assert content_files(session.uri) - used == set()
    assert there.branches.get_journal("middle", middle.log.path).final_head().snapshot.commit.seq == 5


def test_what_is_collected_of_a_deleted_branch_is_told_as_collected(session: Session) -> None:
    old = branch(session, "old")
    for number in (4, 5, 6):
        put(old, {"a": number})
    create_tag(session, "last", ref="old", actor="test")
    delete_branch(session, "old")
    put(branch(session, "new", "last"), {"a": 7})
    put(session, {"b": 1})
    pass_time(session.uri, 2 * DAY)
    collect(session)

    assert readable(session, "new") == [7, 6, 3]
    assert check(looked_at(session.uri), CheckCall()).findings == ()


def test_what_was_collected_of_a_deleted_branch_stays_so(session: Session) -> None:
    old = branch(session, "old")
    for number in (4, 5, 6):
        put(old, {"a": number})
    create_tag(session, "last", ref="old", actor="test")
    delete_branch(session, "old")
    put(branch(session, "new", "last"), {"a": 7})
    pass_time(session.uri, 2 * DAY)
    collect(session)
    put(session, {"b": 1})
    put(session, {"b": 2})
    pass_time(session.uri, 2 * DAY)

    collect(again(session), keep=10)

    assert readable(session, "new") == [7, 6, 3]


def test_a_deleted_branch_is_told_once_what_goes(session: Session) -> None:
    old = branch(session, "old")
    for number in (4, 5):
        put(old, {"a": number})
    create_tag(session, "last", ref="old", actor="test")
    delete_branch(session, "old")
    pass_time(session.uri, 2 * DAY)
    collect(session)
    put(session, {"b": 1})
    put(session, {"b": 2})
    pass_time(session.uri, 2 * DAY)
    told = old.log.final_head()

    done = collect(again(session))

    assert (told.snapshot.manifest.gc_horizon.epoch, done.epoch) == (1, 2)
    assert old.log.final_head().snapshot.manifest_version == told.snapshot.manifest_version


@pytest.mark.parametrize("source, into", [("side", "main"), ("main", "side")])
def test_a_merge_is_refused_when_a_journal_that_is_gone_may_come_from_the_other_branch(
    source: str, into: str, session: Session
) -> None:
    side = branch(session, "side")
    put(side, {"t": 1})
    middle = branch(session, "middle", "side")
    put(middle, {"m": 1})
    put(session, {"b": 1})
    merge(session, MergeCall(source="middle"))
    delete_branch(session, "middle")
    delete(session, "t")
    shutil.rmtree(Path(session.uri, middle.log.path))

    with pytest.raises(MergeBaseGoneError, match="one branch has merged `middle`"):
        merge(again(session), MergeCall(source=source, into=into))


def test_clocks_that_differ_do_not_make_such_a_merge_look_harmless(session: Session) -> None:
    side = branch(session, "side")
    fast = again(side)
    fast.store.runtime = replace(fast.store.runtime, clock=SkewedClock(timedelta(hours=3)))
    put(fast.checkout("side"), {"t": 1})
    middle = branch(session, "middle", "side")
    put(middle, {"m": 1})
    put(session, {"b": 1})
    merge(session, MergeCall(source="middle"))
    delete_branch(session, "middle")
    delete(session, "t")
    shutil.rmtree(Path(session.uri, middle.log.path))

    with pytest.raises(MergeBaseGoneError, match="one branch has merged `middle`"):
        merge(again(session), MergeCall(source="side"))


@pytest.mark.parametrize("name", ["kept", "tagged"])
def test_a_branch_from_before_a_merge_can_be_merged_when_the_merged_one_is_deleted(session: Session, name: str) -> None:
    before = session.resolve_snapshot().commit.id
    put(branch(session, "side"), {"s": 1})
    put(session, {"b": 1})
    if name == "tagged":
        create_tag(session, "before", ref=f"main@{before}", actor="test")
    merge(session, MergeCall(source="side"))
    delete_branch(session, "side")
    pass_time(session.uri, 2 * DAY)
    collect(session, keep=1 if name == "tagged" else 9)
    put(branch(again(session), "late", commit_id=before), {"l": 1})

    merge(again(session), MergeCall(source="late"))

    assert content(session, session.resolve_snapshot())["node:A"] == {"a": 3, "b": 1, "s": 1, "l": 1}


@pytest.mark.parametrize("way", ["third", "side"])
def test_a_merge_is_refused_when_a_journal_that_is_gone_may_hide_what_was_merged(session: Session, way: str) -> None:
    side, third = branch(session, "side"), branch(session, "third")
    put(third, {"t": 1})
    put(side, {"s": 1})
    merge(session, MergeCall(source="third", into="side"))
    middle = branch(session, "middle", way)
    put(middle, {"m": 1})
    put(session, {"b": 1})
    merge(session, MergeCall(source="middle"))
    delete_branch(session, "middle")
    delete(session, "t")
    shutil.rmtree(Path(session.uri, middle.log.path))

    with pytest.raises(MergeBaseGoneError, match="one branch has merged `middle`"):
        merge(again(session), MergeCall(source="side"))


def tear_newest(session: Session, path: str = MANIFEST) -> None:
    """Damage the newest version of a manifest; the newest has the first name."""
    newest = min(Path(session.uri, path, "_versions").glob("*.manifest"))
    newest.write_bytes(newest.read_bytes()[:10])


@pytest.mark.parametrize("name", ["main", "side"])
def test_what_was_collected_stays_so_when_the_manifest_that_says_it_is_damaged(session: Session, name: str) -> None:
    side = branch(session, "side")
    for number in (4, 5, 6):
        put(session, {"a": number})
        put(side, {"b": number})
    create_tag(session, "first", ref=f"{name}@{list_commits(session.checkout(name))[2].id}", actor="test")
    pass_time(session.uri, 2 * DAY)
    collect(session)
    kept = readable(session, name)
    tear_newest(session, session.checkout(name).log.path)

    og.repair_graph(session.uri, confirm=True, force=True, actor="test", runtime=Runtime(options=FAST))

    assert kept == [6, 4, 3]
    assert [seq for seq in readable(session, name) if seq] == [7, 6, 4, 3]  # the empty tables of 0 are always there
    assert {one.code for one in check(looked_at(session.uri), CheckCall()).findings} == {"version_aside"}
    assert collect(again(session), keep=10).has_failed is False


def test_all_that_is_there_can_be_read_when_a_manifest_went_back_and_nothing_was_collected(session: Session) -> None:
    put(session, {"a": 4})
    tear_newest(session)

    og.repair_graph(session.uri, confirm=True, force=True, actor="test", runtime=Runtime(options=FAST))

    assert readable(session) == [4, 3, 2, 1, 0]


@pytest.mark.parametrize("grace", [DAY, timedelta(hours=1)])
def test_a_branch_from_where_a_merged_one_parted_can_be_merged(session: Session, grace: timedelta) -> None:
    before = session.resolve_snapshot().commit.id
    put(branch(session, "third"), {"t": 1})
    put(branch(session, "middle"), {"m": 1})
    put(session, {"b": 1})
    merge(session, MergeCall(source="middle"))
    delete_branch(session, "middle")
    put(session, {"b": 2})
    put(branch(session, "side"), {"s": 1})
    merge(session, MergeCall(source="third", into="side"))
    delete_branch(session, "third")
    put(session, {"b": 3})
    pass_time(session.uri, 2 * grace)
    collect(session, grace=grace)
    late = branch(again(session), "late", commit_id=before)
    put(late, {"l": 1})

    merge(again(session), MergeCall(source="main", into="late"))

    assert content(late, late.resolve_snapshot())["node:A"] == {"a": 3, "b": 3, "m": 1, "l": 1}


def test_a_branch_from_what_another_one_keeps_of_main_can_be_merged(session: Session) -> None:
    before = session.resolve_snapshot().commit.id
    put(branch(session, "middle"), {"m": 1})
    put(session, {"b": 1})
    merge(session, MergeCall(source="middle"))
    delete_branch(session, "middle")
    put(session, {"b": 2})
    put(branch(session, "side"), {"s": 1})
    for number in range(9):
        put(session, {"b": number})
    pass_time(session.uri, 2 * DAY)
    collect(session, keep=5)
    late = branch(again(session), "late", commit_id=before)
    put(late, {"l": 1})

    merge(again(session), MergeCall(source="main", into="late"))

    assert content(late, late.resolve_snapshot())["node:A"] == {"a": 3, "b": 8, "m": 1, "l": 1}


def test_a_branch_taken_at_the_very_merge_commit_can_be_merged_after_a_cleanup(session: Session) -> None:
    side = branch(session, "side")
    put(side, {"s": 1})
    put(session, {"b": 1})
    merge(session, MergeCall(source="side"))
    late = branch(session, "late")
    for number in (2, 3):
        put(side, {"s": number})
        put(session, {"b": number})
        merge(session, MergeCall(source="side"))
    put(late, {"l": 1})
    delete(late, "b")
    pass_time(session.uri, 2 * DAY)
    collect(session)

    merge(again(session), MergeCall(source="side", into="late"))

    assert content(late, again(late).checkout("late").resolve_snapshot())["node:A"] == {"a": 3, "l": 1, "s": 3}


def test_a_branch_taken_at_the_very_merge_commit_keeps_nothing_that_it_does_not_need(session: Session) -> None:
    middle = branch(session, "middle")
    for number in (1, 2):
        put(middle, {"m": number})
    put(session, {"b": 1})
    merge(session, MergeCall(source="middle"))
    put(branch(session, "late"), {"l": 1})
    delete_branch(session, "middle")
    put(session, {"b": 2})
    pass_time(session.uri, 2 * DAY)

    collect(session)

    there = looked_at(session.uri)
    used = needed(session.uri, there.resolve_snapshot()) | needed(
        session.uri, there.checkout("late").resolve_snapshot()
    )
    fork = there.checkout("late").log.final_head().snapshot.manifest.fork
    assert fork is not None
    used |= needed(session.uri, there.resolve_snapshot(commit_id=fork.commit_id))
    assert content_files(session.uri) - used == set()


def test_what_a_merged_branch_had_merged_of_the_one_it_went_into_is_not_kept(session: Session) -> None:
    for number in range(3):
        middle = branch(session, f"middle{number}")
        put(middle, {"m": number})
        put(session, {"b": number})
        merge(session, MergeCall(source="main", into=f"middle{number}"))
        put(session, {"c": number})
        merge(session, MergeCall(source=f"middle{number}"))
        delete_branch(session, f"middle{number}")
    pass_time(session.uri, 2 * DAY)

    collect(session, keep=2)

    assert len(readable(session)) == 2


@pytest.mark.parametrize("days", [-400, 0, 400])
def test_a_clock_that_is_ahead_keeps_nothing_that_is_older_than_what_follows_it(tmp_path: Path, days: int) -> None:
    uri = str(tmp_path / "g")
    session = small_world(uri, replace(FAST, manifest_versions=2), clock=SkewedClock(days * DAY))
    for number in range(8):
        put(session, {"a": number})
    pass_time(uri, 30 * DAY)
    for path in sorted(Path(uri, MANIFEST, "_versions").glob("*.manifest"))[3:]:
        path.unlink()  # as a writer trims them, and with them when commits were made

    collect(session, keep=5, older_than=7 * DAY)

    assert readable(session) == [8, 7, 6, 5, 4]


@pytest.mark.parametrize("on", ["main", "side"])
def test_a_clock_that_was_ahead_keeps_nothing_for_longer_than_its_commits_are_there(tmp_path: Path, on: str) -> None:
    uri = str(tmp_path / "g")
    session = small_world(uri, clock=SkewedClock(400 * DAY))
    there = session if on == "main" else branch(session, on)
    for number in range(8):
        put(there, {"a": number})
    Path(uri, there.resolve_snapshot().pin("node:A").path, "data", "01.lance").touch()
    pass_time(uri, timedelta(minutes=5))
    collect(again(session), keep=99, grace=timedelta())  # a version of each manifest that no commit has made
    for path in sorted(Path(uri, there.log.path, "_versions").glob("*.manifest"))[1:]:
        path.unlink()  # all others, as a writer trims them
    pass_time(uri, 30 * DAY)

    collect(again(session), keep=5, older_than=7 * DAY)

    assert [seq for seq in readable(session, on) if seq > 0] == [8, 7, 6, 5, 4]


def test_branches_that_always_overlap_leave_no_more_behind_and_cost_no_more_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest_log, "TRIM_AGE", timedelta(0))  # only the times of files are set back
    session = small_world(tmp_path / "g", replace(FAST, manifest_versions=2))
    left: list[int] = []
    asked: list[int] = []
    live: list[str] = []
    for number in range(48):
        live.append(f"b{number}")
        put(branch(session, live[-1]), {f"k{number % 6}": number})
        if len(live) > 3:
            merge(session, MergeCall(source=live[0]))
            delete_branch(session, live.pop(0))
        pass_time(session.uri, timedelta(hours=6))
        if number % 12 == 11:
            cleaner = again(session)
            with cleaner.runtime.telemetry.count_requests() as requests:
                collect(cleaner, keep=2)
            left.append(len(names(session.uri)))
            asked.append(requests.count())

    assert max(left[2:]) <= max(left[:2]) * 1.05, left
    assert max(asked[2:]) <= max(asked[:2]) * 1.05, asked


def test_a_draft_that_is_older_than_the_grace_does_not_become_a_branch(session: Session) -> None:
    log, found = session.locate_snapshot()
    draft = session.branches.draft("late", log, found, "ada")
    pass_time(session.uri, 2 * DAY)
    collect(again(session))

    with pytest.raises(og.TooSlowError, match="was collected"):
        session.branches.register(draft)

    assert session.branches.list_records() == []
