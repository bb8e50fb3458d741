"""Cleanup: what is kept, what is spared, what is told, and what is never touched."""

import os
import shutil
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import lance
import msgspec
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
    files,
    looked_at,
    names,
    needed,
    pass_time,
    readable,
    small_world,
)
from load_calls import node
from omnigraph.commit.publisher import abandon, arm
from omnigraph.commit.task_journal import TaskJournal
from omnigraph.ops.branch import delete_branch
from omnigraph.ops.cleanup import CleanupCall, cleanup
from omnigraph.ops.cleanup_files import MIN_WHOLE_VERSIONS
from omnigraph.ops.history import list_commits
from omnigraph.ops.merge import MergeCall, merge
from omnigraph.ops.optimize import OptimizeCall, optimize
from omnigraph.ops.optimize_table import UpkeepCall
from omnigraph.ops.session import Session
from omnigraph.ops.write_tables import TableWrite, write_tables
from omnigraph.runtime import Runtime
from omnigraph.storage.cas_table_errors import SwapLostError
from omnigraph.storage.layout import DERIVED, MANIFEST, RECOVERY, format_version_name
from omnigraph.storage.table_cache import TableCache
from omnigraph.storage.version_files import PinnedFiles, list_pinned_files
from upkeep_calls import AtPoint, eager
from worlds import FAST

HOUR = timedelta(hours=1)


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """A row that said 1, 2 and 3."""
    session = small_world(tmp_path / "g")
    for number in (1, 2, 3):
        put(session, {"a": number})
    return session


# --- what is kept ----------------------------------------------------------------------------------


@pytest.mark.parametrize("keep, expected", [(1, [3]), (2, [3, 2]), (9, [3, 2, 1, 0])])
def test_the_newest_commits_of_a_branch_are_kept(session: Session, keep: int, expected: list[int]) -> None:
    pass_time(session.uri, 2 * DAY)

    collect(session, keep=keep)

    assert readable(session) == expected


def test_what_was_current_within_the_time_is_kept(session: Session) -> None:
    pass_time(session.uri, 5 * DAY)
    put(session, {"a": 4})
    pass_time(session.uri, 2 * DAY)
    put(session, {"a": 5})
    pass_time(session.uri, 2 * DAY)

    collect(session, keep=None, older_than=3 * DAY)

    assert readable(session) == [5, 4]  # 4 was there until two days ago; 3 was gone before


def test_what_either_a_number_or_a_time_keeps_stays(session: Session) -> None:
    pass_time(session.uri, 9 * DAY)
    put(session, {"a": 4})

    collect(session, keep=3, older_than=2 * DAY)

    assert readable(session) == [4, 3, 2]


def test_what_was_current_within_the_grace_is_kept_whatever_is_asked(session: Session) -> None:
    pass_time(session.uri, 9 * DAY)
    put(session, {"a": 4})
    pass_time(session.uri, 2 * HOUR)
    put(session, {"a": 5})

    collect(session, keep=1)

    assert readable(session) == [5, 4, 3]  # 3 was what everybody read until two hours ago


def test_every_instant_of_the_time_that_is_kept_can_be_read(session: Session) -> None:
    commits = list_commits(session)
    pass_time(session.uri, 9 * DAY)

    collect(session, keep=2)

    there = looked_at(session.uri)
    assert there.resolve_snapshot(at=session.runtime.clock.now()).commit.id == commits[0].id
    with pytest.raises(og.CommitCollectedError, match="was collected: it is number 1 on branch `main`, and cleanup 1"):
        there.resolve_snapshot(commit_id=commits[2].id)


def test_each_branch_keeps_its_own(session: Session) -> None:
    side = branch(session, "side")
    for number in (4, 5, 6):
        put(side, {"a": number})
    pass_time(session.uri, 2 * DAY)

    collect(session, keep=2)

    assert (readable(session), readable(session, "side")) == ([3, 2], [6, 5, 3, 2])  # side reads the older ones in main


def test_a_branch_keeps_commits_of_the_one_it_comes_from(session: Session) -> None:
    put(branch(session, "side"), {"a": 4})
    for number in (5, 6, 7):
        put(session, {"a": number})
    pass_time(session.uri, 2 * DAY)

    collect(session, keep=3)

    assert readable(session, "side") == [4, 3, 2]
    assert readable(session) == [6, 5, 4, 3, 2]


def test_once_collected_is_collected_for_good(session: Session) -> None:
    pass_time(session.uri, 2 * DAY)
    collect(session, keep=1)
    put(session, {"a": 4})
    pass_time(session.uri, 2 * DAY)

    collect(session, keep=9)

    assert readable(session) == [4, 3]


def test_commits_that_are_collected_stay_listed(session: Session) -> None:
    before = [commit.id for commit in list_commits(session)]
    pass_time(session.uri, 2 * DAY)

    collect(session)

    assert [commit.id for commit in list_commits(looked_at(session.uri))] == before


def test_merges_go_on_after_a_cleanup(session: Session) -> None:
    side = branch(session, "side")
    put(side, {"b": 1})
    put(session, {"c": 1})
    merge(session, MergeCall(source="side"))
    put(side, {"b": 2})
    put(session, {"c": 2})
    for number in range(3):
        put(session, {"d": number})
        put(side, {"e": number})
    pass_time(session.uri, 2 * DAY)
    collect(session)

    merge(again(session), MergeCall(source="side"))

    assert content(session, session.resolve_snapshot())["node:A"] == {"a": 3, "b": 2, "c": 2, "d": 2, "e": 2}


def test_branches_that_have_merged_a_third_still_merge_when_that_is_collected(session: Session) -> None:
    one, other, third = (branch(session, name) for name in ("one", "other", "third"))
    put(third, {"t": 1})
    for name in ("one", "other"):
        put(session.checkout(name), {name: 1})
        merge(session, MergeCall(source="third", into=name))
    delete_branch(session, "third")
    write_tables(one, [TableWrite(table_key="node:A", delete=["t"])], operation="delete", actor="test")
    put(other, {"x": 1})
    pass_time(session.uri, 2 * DAY)
    collect(session)

    merge(again(session), MergeCall(source="other", into="one"))

    rows = content(session, again(session).checkout("one").resolve_snapshot())["node:A"]
    assert rows == {"a": 3, "one": 1, "other": 1, "x": 1}  # `t` was deleted, and stays so


# --- what goes -------------------------------------------------------------------------------------


def test_everything_that_no_kept_state_needs_goes(session: Session) -> None:
    write_tables(session, [TableWrite(table_key="node:A", delete=["a"])], operation="delete", actor="test")
    put(session, {"a": 1, "b": 2})
    optimize(again(session, options=eager()), OptimizeCall(upkeep=UpkeepCall(actor="test", all_indexes=True)))
    pass_time(session.uri, 2 * DAY)

    done = collect(session)

    there = looked_at(session.uri)
    assert content_files(session.uri) - needed(session.uri, there.resolve_snapshot()) == set()
    assert needed(session.uri, there.resolve_snapshot()) - names(session.uri) == set()
    assert {one.table_key: one.old_versions_removed > 3 for one in done.tables} == {"node:A": True}


def test_the_branch_that_was_deleted_goes_with_its_directories(session: Session) -> None:
    put(branch(session, "side"), {"a": 9})
    delete_branch(session, "side")
    pass_time(session.uri, 2 * DAY)

    done = collect(session)

    assert list(Path(session.uri, "__branches").iterdir()) == []
    assert any(one.location.startswith("__branches/") and one.old_versions_removed == 3 for one in done.tables)


def test_what_a_killed_writer_left_goes(session: Session) -> None:
    class KilledError(BaseException):
        pass

    def die() -> None:
        raise KilledError

    before = content_files(session.uri)
    with pytest.raises(KilledError):
        put(again(session, faults=AtPoint("publish.flushed", die)), {"a": 9})
    assert content_files(session.uri) > before

    pass_time(session.uri, 2 * DAY)
    collect(session, keep=9)

    assert content_files(session.uri) == before


@pytest.mark.parametrize("room", [RECOVERY, DERIVED])
def test_an_object_that_a_killed_writer_had_not_put_in_its_place_goes(session: Session, room: str) -> None:
    left = Path(session.uri, room, ".tmp-0123456789abcdef")
    alike = Path(session.uri, room, ".tmp-0123456789abcdefg")
    left.parent.mkdir(exist_ok=True)
    for file in (left, alike):
        file.write_bytes(b"x")

    collect(session)
    is_there_while_young = left.exists()
    pass_time(session.uri, 2 * DAY)
    collect(session, confirm=False)
    is_there_after_a_look = left.exists()
    collect(session)

    assert (is_there_while_young, is_there_after_a_look) == (True, True)
    assert (left.exists(), alike.exists()) == (False, True)


def test_an_object_that_is_being_written_stays_whatever_the_grace(session: Session) -> None:
    begun = Path(session.uri, "__recovery", ".tmp-0123456789abcdef")
    begun.parent.mkdir(exist_ok=True)
    begun.write_bytes(b"x")
    pass_time(session.uri, HOUR)

    collect(session, grace=timedelta())

    assert begun.exists()


def test_old_versions_of_manifests_go_but_for_a_fence(session: Session) -> None:
    for number in range(12):
        put(session, {"a": number})
    pass_time(session.uri, 2 * DAY)

    collect(again(session, options=replace(FAST, manifest_versions=5)), keep=99)

    versions = [name for name in names(session.uri) if name.startswith("__manifest/_versions/1")]
    rows = [name for name in names(session.uri) if name.startswith("__manifest/data/")]
    assert (len(versions), len(rows)) == (6, 6)  # the fence, and the floor that was published last
    assert len(list_commits(looked_at(session.uri))) == 16


@pytest.mark.parametrize("hours", [-40, 40])
def test_a_clock_that_is_off_makes_no_state_look_older_than_it_is(tmp_path: Path, hours: int) -> None:
    uri = str(tmp_path / "g")
    session = small_world(uri, replace(FAST, manifest_versions=2), clock=SkewedClock(hours * HOUR))
    put(session, {"a": 1})
    pass_time(uri, 2 * DAY)
    for number in range(6):
        put(session, {"a": number})
    pass_time(uri, timedelta(minutes=5))
    collect(session, keep=99, grace=timedelta())  # versions of the manifest go, and with them when commits were made

    collect(session, keep=1, older_than=DAY)

    assert readable(session)[:7] == [7, 6, 5, 4, 3, 2, 1]  # 1 was current within the day, with files of two days ago


def test_of_most_versions_of_a_manifest_only_the_names_stay(session: Session) -> None:
    for number in range(40):
        put(session, {"a": number})
    pass_time(session.uri, 2 * DAY)

    collect(session, keep=99)

    versions = [name for name in names(session.uri) if name.startswith("__manifest/_versions/1")]
    rows = [name for name in names(session.uri) if name.startswith("__manifest/data/")]
    assert (len(versions), len(rows)) == (45, MIN_WHOLE_VERSIONS + 1)
    assert len(list_commits(looked_at(session.uri))) == 44


def test_what_was_current_within_the_grace_stays_whole(session: Session) -> None:
    before = again(session).head()
    pass_time(session.uri, 2 * DAY)
    for number in range(30):
        put(session, {"a": number})

    collect(session, keep=99, grace=DAY)

    assert before.table.read_head().num_rows


def test_a_writer_that_slept_on_one_of_these_names_loses_its_swap(session: Session) -> None:
    table = session.head().table
    late = table.prepare(table.read_head())
    for number in range(30):
        put(session, {"a": number})
    pass_time(session.uri, 2 * DAY)
    collect(session, keep=1)

    with pytest.raises(SwapLostError):
        table.commit(late)

    assert content(session, session.resolve_snapshot())["node:A"] == {"a": 29}


def test_a_young_version_that_a_writer_trims_meanwhile_is_not_missed(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    pass_time(session.uri, 2 * DAY)
    for number in range(6):
        put(session, {"a": number})
    few = again(session, options=replace(FAST, manifest_versions=2))
    trimmed: list[int] = []

    def read_late(handles: TableCache, path: str, versions: list[int]) -> PinnedFiles:
        newest = max(lance.dataset(f"{session.uri}/__manifest").versions(), key=lambda one: one["version"])["version"]
        if path == MANIFEST and not trimmed:
            trimmed.append(newest - 3)
            (Path(session.uri) / MANIFEST / format_version_name(newest - 3)).unlink()
        return list_pinned_files(handles, path, versions)

    monkeypatch.setattr("omnigraph.ops.cleanup_files.list_pinned_files", read_late)

    collect(few, keep=99)

    assert trimmed


def test_a_dropped_table_goes_but_for_the_mark_that_its_path_was_used(tmp_path: Path) -> None:
    graph = og.create_graph(str(tmp_path / "g"), "node A { v: I64 }\nnode B { v: I64 }", runtime=Runtime(options=FAST))
    graph.load([node("B", v=1)], mode="append")
    place = graph.snapshot().pin("node:B").path
    graph.apply_schema("node A { v: I64 }", allow_drops=True)
    pass_time(graph.uri, 2 * DAY)

    graph.cleanup(keep=1, confirm=True)

    left = {name.removeprefix(f"{place}/") for name in names(graph.uri) if name.startswith(place)}
    assert left == {"_versions/18446744073709551614.manifest", "_versions/latest_version_hint.json"}
    again = graph.apply_schema("node A { v: I64 }\nnode B { v: I64 }")
    assert again.commit_id is not None
    assert graph.snapshot().pin("node:B").path == f"{place}-2"


def test_what_was_dropped_with_its_data_goes_although_its_commits_are_kept(tmp_path: Path) -> None:
    schema = "node A { v: I64  w: I64? }\nnode B { v: I64 }"
    graph = og.create_graph(str(tmp_path / "g"), schema, runtime=Runtime(options=FAST))
    graph.load([node("A", v=1, w=2), node("B", v=3)], mode="append")
    graph.branches.create("apart")
    there = {key: graph.snapshot().pin(key) for key in ("node:A", "node:B")}
    graph.apply_schema("node A { v: I64 }", allow_data_loss=True)
    pass_time(graph.uri, 2 * DAY)

    graph.cleanup(keep=9, confirm=True)
    with_branch = {key: len(versions(graph.uri, pin.path)) for key, pin in there.items()}
    graph.branches.delete("apart")
    pass_time(graph.uri, 2 * DAY)
    graph.cleanup(keep=9, confirm=True)

    assert with_branch == {"node:A": 2, "node:B": 1}  # the branch has not dropped them
    assert {key: len(versions(graph.uri, pin.path)) for key, pin in there.items()} == {"node:A": 1, "node:B": 0}


def versions(uri: str, path: str) -> list[str]:
    return [name for name in names(uri) if name.startswith(f"{path}/_versions/d")]


# --- what is spared --------------------------------------------------------------------------------


def test_a_preview_changes_nothing_and_says_what_would_go(session: Session) -> None:
    pass_time(session.uri, 2 * DAY)
    before = names(session.uri)

    preview = collect(session, confirm=False)
    unchanged = names(session.uri)
    done = collect(session)

    assert unchanged == before
    assert preview.is_preview
    assert preview.epoch is None
    assert (preview.tables, preview.branches) == (done.tables, done.branches)


def test_what_goes_is_counted_to_the_byte(session: Session) -> None:
    pass_time(session.uri, 2 * DAY)
    sizes = {path: path.stat().st_size for path in files(session.uri)}

    done = collect(session)

    gone = {path: size for path, size in sizes.items() if not path.exists()}
    assert (done.bytes_removed, sum(one.files_removed for one in done.tables)) == (sum(gone.values()), len(gone))


def test_a_second_run_has_nothing_to_do_and_publishes_nothing(session: Session) -> None:
    pass_time(session.uri, 2 * DAY)
    collect(session)
    version = session.head().snapshot.manifest_version

    done = collect(session)

    assert (done.epoch, done.tables, done.bytes_removed) == (None, (), 0)
    assert session.head().snapshot.manifest_version == version


def test_what_is_young_stays(session: Session) -> None:
    before = names(session.uri)

    done = collect(session)

    assert (names(session.uri), done.epoch) == (before, None)


def test_files_from_the_future_stay(session: Session) -> None:
    later = time.time() + 10**6
    for path in files(session.uri):
        os.utime(path, (later, later))
    before = names(session.uri)

    collect(session, grace=timedelta())

    assert names(session.uri) == before


@pytest.mark.parametrize("off", [-3 * DAY, 10 * DAY], ids=["behind", "ahead"])
def test_a_store_whose_clock_is_wrong_costs_nothing_that_is_kept(
    session: Session, off: timedelta, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(branch(session, "side"), {"b": 1})
    before = names(session.uri)
    monkeypatch.setattr("omnigraph.ops.cleanup.read_store_clock", lambda store: store.runtime.clock.now() + off)

    collect(session)

    there = looked_at(session.uri)
    assert content(there, there.resolve_snapshot())["node:A"] == {"a": 3}
    assert content(there, there.checkout("side").resolve_snapshot())["node:A"] == {"a": 3, "b": 1}
    assert (names(session.uri) == before) is (off < timedelta())


def test_a_file_that_an_operation_in_flight_names_stays_however_old_it_is(session: Session) -> None:
    stray = f"{session.resolve_snapshot().pin('node:A').path}/data/01.lance"
    Path(session.uri, stray).write_bytes(b"rows of a long load")
    patient = again(session, options=replace(FAST, lease_seconds=10**7))
    armed = arm(patient.log, patient.head(), operation="load", actor="test")
    armed.lease.add_files([stray])
    base = session.resolve_snapshot().commit.seq
    put(session, {"a": 4})
    pass_time(session.uri, 9 * DAY)

    collect(patient)

    assert stray in names(session.uri)
    assert readable(session) == [4, base]  # what it stands on, too
    abandon(patient.log, armed, [])
    collect(patient)
    assert stray not in names(session.uri)


def test_a_file_that_a_task_has_noted_stays(session: Session) -> None:
    stray = f"{session.resolve_snapshot().pin('node:A').path}/data/01.lance"
    Path(session.uri, stray).write_bytes(b"rows of a task")
    patient = again(session, options=replace(FAST, lease_seconds=10**7))
    armed = arm(patient.log, patient.head(), operation="load", actor="test")
    armed.lease.enter_phase(1)
    note = TaskJournal(patient.store, armed.lease.operation_id, 1, 0)
    note.begin()
    note.on_begin([stray])
    pass_time(session.uri, 9 * DAY)

    collect(patient)

    assert stray in names(session.uri)
    armed.lease.disarm()


def test_a_sidecar_that_cannot_be_read_spares_every_file_whose_name_stands_in_it(session: Session) -> None:
    stray = f"{session.resolve_snapshot().pin('node:A').path}/data/01.lance"
    Path(session.uri, stray).write_bytes(b"rows of a later release")
    broken = Path(session.uri, "__recovery/01JC0000000000000000000000.json")
    broken.parent.mkdir(exist_ok=True)
    broken.write_bytes(msgspec.json.encode({"format": 9, "staged": {"rows": [stray]}}))
    pass_time(session.uri, 9 * DAY)

    collect(session)

    assert stray in names(session.uri)


@pytest.mark.parametrize(
    "name", ["diary.txt", "nodes/diary.txt", "nodes/{table}/data/diary.txt", "nodes/{table}/_versions/d1.bak", "x/y/z"]
)
def test_what_is_nothing_of_a_graphs_is_told_of_and_left_alone(session: Session, name: str) -> None:
    stranger = Path(session.uri, name.format(table=session.resolve_snapshot().pin("node:A").path.rpartition("/")[2]))
    stranger.parent.mkdir(parents=True, exist_ok=True)
    stranger.write_text("mine")
    pass_time(session.uri, 9 * DAY)

    done = collect(session)

    assert stranger.read_text() == "mine"
    assert [one for one in done.unknown_files if stranger.relative_to(session.uri).as_posix().startswith(one)] != []


def test_what_another_tool_has_made_of_a_table_stays(session: Session) -> None:
    place = session.store.resolve_uri(session.resolve_snapshot().pin("node:A").path)
    head = lance.dataset(place)
    lance.write_dataset(head.schema.empty_table(), place, mode="append")
    kept = {name for name in names(session.uri) if "_versions/1844" in name}
    pass_time(session.uri, 9 * DAY)

    collect(session)

    assert kept <= names(session.uri)
    assert lance.dataset(place).version == 2


# --- when something is wrong -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "call", [CleanupCall(), CleanupCall(keep=0), CleanupCall(keep=1, grace=-DAY), CleanupCall(older_than=-DAY)]
)
def test_a_call_that_makes_no_sense_is_refused(session: Session, call: CleanupCall) -> None:
    with pytest.raises(og.BadArgumentError):
        cleanup(session, call)


def test_a_table_that_cannot_be_read_is_left_whole_and_the_others_are_cleaned_up(session: Session) -> None:
    for number in (1, 2, 3):
        put(session, {"b": number}, "node:B")
    pin = session.resolve_snapshot().pin("node:A")
    Path(session.uri, f"{pin.path}/_versions/d{pin.version}.manifest").write_bytes(b"damaged")
    pass_time(session.uri, 2 * DAY)
    before = {name for name in names(session.uri) if name.startswith(pin.path)}

    done = cleanup(again(session), CleanupCall(keep=1, is_confirmed=True))

    assert {one.table_key: (one.error is None, one.files_removed > 0) for one in done.tables} == {
        "node:A": (False, False),
        "node:B": (True, True),
    }
    assert {name for name in names(session.uri) if name.startswith(pin.path)} == before
    assert done.has_failed


def test_a_branch_that_cannot_be_read_stops_it_all(session: Session) -> None:
    put(branch(session, "side"), {"a": 9})
    log = session.branches.get_log("side")
    shutil.rmtree(Path(session.uri, log.path, "data"))
    pass_time(session.uri, 2 * DAY)
    before = names(session.uri)

    with pytest.raises(og.OmnigraphError):
        cleanup(again(session), CleanupCall(keep=1, is_confirmed=True))

    assert names(session.uri) == before


def test_of_two_cleanups_at_once_one_gives_way(session: Session) -> None:
    pass_time(session.uri, 2 * DAY)

    with pytest.raises(og.ConflictError, match="another cleanup is running"):
        collect(again(session, faults=AtPoint("cleanup.listed", lambda: collect(session))))

    assert readable(session) == [3]


@pytest.mark.parametrize("point", ["cleanup.listed", "cleanup.floor", "cleanup.marked", "cleanup.removed"])
def test_writers_go_on_beside_it(session: Session, point: str) -> None:
    branch(session, "side")
    pass_time(session.uri, 2 * DAY)

    def meanwhile() -> None:
        put(session, {"b": 1}, "node:A", "node:B")
        put(session.checkout("side"), {"c": 1})
        put(branch(session, "new", "side"), {"d": 1})

    collect(again(session, faults=AtPoint(point, meanwhile)), grace=timedelta(hours=1))

    there = looked_at(session.uri)
    rows = [content(there, there.checkout(name).resolve_snapshot())["node:A"] for name in ("main", "side", "new")]
    assert rows == [{"a": 3, "b": 1}, {"a": 3, "c": 1}, {"a": 3, "c": 1, "d": 1}]


@pytest.mark.parametrize("point", ["publish.staged", "publish.applied", "publish.flushed"])
def test_a_write_that_is_younger_than_the_grace_survives_a_cleanup(session: Session, point: str) -> None:
    pass_time(session.uri, 2 * DAY)
    slow = again(session, faults=AtPoint(point, lambda: (put(session, {"b": 1}), collect(session))))

    put(slow, {"c": 1})

    there = looked_at(session.uri)
    assert content(there, there.resolve_snapshot())["node:A"] == {"a": 3, "b": 1, "c": 1}


@pytest.mark.parametrize("point", ["publish.staged", "publish.applied", "publish.flushed"])
def test_a_write_that_is_older_than_the_grace_fails_and_leaves_nothing(session: Session, point: str) -> None:
    def meanwhile() -> None:
        pass_time(session.uri, 2 * DAY)
        collect(session)

    before = content_files(session.uri)
    with pytest.raises(og.TooSlowError, match="this write took too long: cleanup 1 ran in the meantime"):
        put(again(session, faults=AtPoint(point, meanwhile)), {"c": 1})

    assert content_files(session.uri) < before
    assert content(session, looked_at(session.uri).resolve_snapshot())["node:A"] == {"a": 3}


def test_what_it_reads_does_not_grow_with_the_history(session: Session) -> None:
    counts = []
    for _ in range(2):
        for number in range(30):
            put(session, {"a": number})
        pass_time(session.uri, 2 * DAY)
        collect(again(session))
        counts.append(collect(session, confirm=False).versions_read)

    assert counts == [MIN_WHOLE_VERSIONS + 2] * 2  # and one version of each table
