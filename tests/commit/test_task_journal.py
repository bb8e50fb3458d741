"""Notes of tasks: what a job's processes write is found and removed, and a task that is late removes its own."""

from pathlib import Path

import pytest

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
