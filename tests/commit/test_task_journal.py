"""Notes of tasks: what a job's processes write is found and removed, and a task that is late removes its own."""

import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from omnigraph.clock import SystemClock
from omnigraph.commit.publisher import ArmedWrite, arm
from omnigraph.commit.recovery import recover
from omnigraph.commit.sidecar import FencedError, list_sidecars
from omnigraph.commit.task_journal import TaskJournal, clear
from omnigraph.ops.session import Session
from raised_codes import has_code
from worlds import seeded_world


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return seeded_world(tmp_path / "g")


def begun(session: Session) -> tuple[ArmedWrite, TaskJournal]:
    """An operation whose first phase is open, and a task of it."""
    armed = arm(session.log, session.head(), operation="load", actor="test")
    armed.lease.enter_phase(1)
    note = TaskJournal(session.store, armed.lease.operation_id, 1, 0)
    note.begin()
    return armed, note


def keys(session: Session) -> list[str]:
    return [info.key for info in session.store.objects.list_under("__recovery")]


def written(session: Session, name: str) -> str:
    file = f"nodes/x/data/{name}"
    session.store.objects.put(file, b"rows")
    return file


def test_closing_a_phase_removes_what_notes_name_but_for_what_is_kept(session: Session) -> None:
    armed, note = begun(session)
    kept, lost = written(session, "kept"), written(session, "lost")
    note.on_complete([kept, lost])
    note.keep("piece", b"scratch")

    freed = clear(session.store, armed.lease.operation_id, phase=1, keep={kept})
    armed.lease.disarm()

    assert freed == len(b"rows")
    assert session.store.objects.stat(kept) is not None
    assert session.store.objects.stat(lost) is None
    assert keys(session) == []


def test_a_task_whose_note_was_cleared_takes_its_files_away(session: Session) -> None:
    armed, note = begun(session)
    clear(session.store, armed.lease.operation_id)
    late = written(session, "late")

    with pytest.raises(FencedError, check=has_code("phase_closed")):
        note.on_complete([late])
    armed.lease.disarm()

    assert session.store.objects.stat(late) is None
    assert keys(session) == []


@pytest.mark.parametrize("phase", [0, 2])
def test_a_task_can_t_begin_in_a_phase_that_is_not_open(session: Session, phase: int) -> None:
    armed, _ = begun(session)
    armed.lease.enter_phase(phase)

    with pytest.raises(FencedError, check=has_code("phase_closed")):
        TaskJournal(session.store, armed.lease.operation_id, 1, 1).begin()
    armed.lease.disarm()

    assert len(keys(session)) == 1


def test_a_task_of_an_operation_that_is_over_can_t_begin(session: Session) -> None:
    armed, _ = begun(session)
    armed.lease.disarm()

    with pytest.raises(FencedError, check=has_code("phase_closed")):
        TaskJournal(session.store, armed.lease.operation_id, 1, 1).begin()


def test_recovery_removes_what_the_tasks_of_a_dead_operation_wrote(session: Session) -> None:
    armed, note = begun(session)
    lost = written(session, "lost")
    note.on_begin([lost])
    note.keep("piece", b"scratch")
    armed.lease.stop()
    session.runtime.clock.sleep(session.runtime.options.lease_seconds * 1.5)

    report = recover(session.store, session.log)

    assert report.rolled_back == [armed.lease.operation_id]
    assert session.store.objects.stat(lost) is None
    assert keys(session) == []


def test_notes_are_no_sidecars(session: Session) -> None:
    armed, _ = begun(session)

    found, broken = list_sidecars(session.store)
    armed.lease.disarm()

    assert [one.sidecar.id for one in found] == [armed.lease.operation_id]
    assert broken == []


def test_a_note_can_t_make_recovery_remove_anything_but_rows(session: Session) -> None:
    armed, note = begun(session)
    note.on_complete(["__manifest/x", "nodes/../__manifest/y"])
    session.store.objects.put("__manifest/x", b"mine")

    clear(session.store, armed.lease.operation_id)
    armed.lease.disarm()

    assert session.store.objects.stat("__manifest/x") is not None


A, B, C = (f"nodes/x/data/{name}" for name in "abc")
PUT_AT = datetime(2030, 1, 1, 12, 0, 0, 500_000, tzinfo=UTC)


class HandClock(SystemClock):
    """A clock that goes forward when a test says so."""

    seconds = 100.0

    def monotonic(self) -> float:
        """See Clock."""
        return self.seconds


@pytest.fixture
def clock(session: Session) -> HandClock:
    clock = HandClock()
    session.store.runtime = replace(session.store.runtime, clock=clock)
    return clock


def close_phase(session: Session, armed: ArmedWrite, root: Path, put_at: datetime = PUT_AT) -> dict[str, datetime]:
    """Return when the files of the only note were named, if the store has put it at a time."""
    note = next(key for key in keys(session) if key.endswith(".note"))
    os.utime(root / note, (put_at.timestamp(), put_at.timestamp()))
    named: dict[str, datetime] = {}
    clear(session.store, armed.lease.operation_id, phase=1, named=named)
    armed.lease.disarm()
    return named


def test_a_note_tells_when_it_has_named_each_file(session: Session, clock: HandClock, tmp_path: Path) -> None:
    armed, note = begun(session)
    for name in (A, B, C):
        note.on_complete([name])
        clock.seconds += 50

    named = close_phase(session, armed, tmp_path / "g")

    # The store may give a put the time of its begin, and a put took less than a second.
    assert named == {
        A: PUT_AT - timedelta(seconds=100),
        B: PUT_AT - timedelta(seconds=50),
        C: PUT_AT + timedelta(seconds=1),
    }


def test_a_store_that_tells_whole_seconds_may_be_a_second_late(
    session: Session, clock: HandClock, tmp_path: Path
) -> None:
    armed, note = begun(session)
    note.on_complete([A])
    clock.seconds += 50
    note.on_complete([B])

    named = close_phase(session, armed, tmp_path / "g", PUT_AT.replace(microsecond=0))

    assert named[A] == PUT_AT.replace(microsecond=0) - timedelta(seconds=49)


def test_a_put_that_took_long_is_repeated(
    session: Session, clock: HandClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    armed, note = begun(session)
    put = session.store.objects.put_if_match
    puts: list[str] = []

    def put_slowly(key: str, data: bytes, etag: str) -> str:
        clock.seconds += 30
        puts.append(key)
        return put(key, data, etag)

    monkeypatch.setattr(session.store.objects, "put_if_match", put_slowly)
    note.on_complete([A])
    monkeypatch.undo()

    assert len(puts) == 2
    # It was named before the second put began.
    assert close_phase(session, armed, tmp_path / "g") == {A: PUT_AT}


def test_what_a_note_named_in_time_outlives_a_cleanup(session: Session) -> None:
    armed, _ = begun(session)
    armed.lease.learn_notes({"early": PUT_AT - timedelta(seconds=1), "late": PUT_AT})

    assert armed.lease.list_named_late(["early", "late", "unknown"], PUT_AT - timedelta(days=9_000)) == [
        "early",
        "late",
        "unknown",
    ]
    assert armed.lease.list_named_late(["early"], PUT_AT) == []
    armed.lease.disarm()
