"""A writer that recovery has declared dead is told that, whatever it stumbles over first."""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from branching import put
from collecting import DAY, TABLES, again, collect, content, pass_time, small_world
from omnigraph.commit import gc_plan, group_commit, publisher, recovery_log
from omnigraph.commit.commit_plan import CommitPlan
from omnigraph.commit.commit_queue import CommitQueue
from omnigraph.commit.conflict import ConflictError
from omnigraph.commit.publisher import ArmedWrite, abandon, arm, publish
from omnigraph.commit.recovery import recover
from omnigraph.commit.requirements import TableUnchanged
from omnigraph.commit.sidecar import FencedError, list_sidecars
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.faults import ArmedFaults
from omnigraph.ops.session import Session
from omnigraph.ops.write_tables import TableWrite, stage_writes, write_tables
from omnigraph.runtime import Runtime
from omnigraph.storage.object_store import StoreUnavailableError
from upkeep_calls import AtPoint
from worlds import FAST, rows

SILENT = replace(FAST, heartbeat_seconds=1_000, lease_seconds=1_000)
"""No heartbeat: nobody hears of a fence before it is asked for."""
pytestmark = pytest.mark.usefixtures("with_sidecars")
UNCHANGED = tuple(TableUnchanged(table_key=key) for key in TABLES)
IMPATIENT = replace(SILENT, lease_seconds=-5)


@pytest.fixture
def session(tmp_path: Path) -> Session:
    session = small_world(tmp_path / "g", SILENT)
    put(session, {"a": 1}, *TABLES)
    return session


@pytest.fixture(autouse=True)
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """The writers of a test stand for different processes: the mutex between threads is not theirs."""
    monkeypatch.setattr(publisher, "get_queue", lambda *_: CommitQueue())
    monkeypatch.setattr(group_commit, "get_branch_lock", lambda *_: threading.Lock())
    monkeypatch.setattr(gc_plan, "get_branch_lock", lambda *_: threading.Lock())


def declare_dead(session: Session) -> None:
    """Settle every operation as dead, from another handle."""
    other = again(session, options=SILENT)
    other.store.runtime = Runtime(options=IMPATIENT)
    assert len(recover(other.store, other.log).rolled_back) == 1


def write(session: Session, value: int = 2) -> None:
    write_tables(
        session,
        [TableWrite(table_key=key, upsert=rows({"a": value})) for key in TABLES],
        operation="w",
        actor="x",
        base=session.head(),
        requirements=UNCHANGED,
    )


def meanwhile(session: Session, what: Callable[[], object], point: str = "publish.head_written") -> Session:
    """A handle on the graph in whose writes something else happens once."""
    return again(session, options=SILENT, faults=AtPoint(point, what))


def test_one_whose_rows_were_changed_since_is_fenced_and_in_no_conflict(session: Session) -> None:
    def others() -> None:
        declare_dead(session)
        put(session, {"a": 9}, *TABLES)

    with pytest.raises(FencedError) as fenced:
        write(meanwhile(session, others))

    assert isinstance(fenced.value.__cause__, ConflictError)
    assert content(session, session.resolve_snapshot())["node:A"] == {"a": 9}
    assert list_sidecars(session.store) == ([], [])


def test_one_whose_files_a_cleanup_took_as_well_is_fenced_and_not_too_slow(session: Session) -> None:
    def others() -> None:
        declare_dead(session)
        put(session, {"b": 1})
        pass_time(session.uri, 2 * DAY)
        collect(again(session))

    with pytest.raises(FencedError):
        write(meanwhile(session, others))

    assert content(session, session.resolve_snapshot())["node:A"] == {"a": 1, "b": 1}


def test_one_that_may_try_again_after_a_conflict_may_not_after_a_fence(session: Session) -> None:
    def others() -> None:
        declare_dead(session)
        put(session, {"a": 9}, *TABLES)

    writer = meanwhile(session, others)
    head = writer.head()
    armed = arm(writer.log, head, operation="w", actor="x", keeps_staged=True)
    writes = [TableWrite(table_key=key, upsert=rows({"a": 2})) for key in TABLES]
    moves = stage_writes(writer, writer.open_tables(head.snapshot), writes, armed)

    plan = CommitPlan(base=head, operation="w", actor="x", moves=moves, requirements=UNCHANGED)
    with pytest.raises(FencedError):
        publish(writer.log, writer.handles, plan, armed)

    assert not armed.lease.is_running


def armed_writer(session: Session) -> ArmedWrite:
    return arm(session.log, session.head(), operation="w", actor="x")


def test_one_that_fails_while_it_stages_is_fenced(session: Session) -> None:
    armed = armed_writer(session)
    declare_dead(session)
    failure = StoreUnavailableError("read rows", "their file is gone")

    with pytest.raises(FencedError) as fenced:
        abandon(session.log, armed, (), failure)

    assert fenced.value.__cause__ is failure


@pytest.mark.parametrize("error", [KeyboardInterrupt(), None])
def test_one_that_is_interrupted_or_comes_to_nothing_is_told_nothing_else(
    session: Session, error: BaseException | None
) -> None:
    armed = armed_writer(session)
    declare_dead(session)

    abandon(session.log, armed, (), error)

    assert not armed.lease.is_running


class LateError(OmnigraphError):
    kind = Kind.EXHAUSTED


def test_one_that_is_out_of_time_is_told_that(session: Session) -> None:
    armed = armed_writer(session)
    declare_dead(session)

    abandon(session.log, armed, (), LateError())

    assert not armed.lease.is_running


def test_one_that_is_alive_is_told_of_its_own_failure(session: Session) -> None:
    armed = armed_writer(session)

    abandon(session.log, armed, (), StoreUnavailableError("read rows", "no reason"))

    assert list_sidecars(session.store) == ([], [])


def test_the_sidecar_stays_for_a_recovery_that_has_not_finished(session: Session) -> None:
    armed = armed_writer(session)
    other = again(session, options=SILENT)
    other.store.runtime = Runtime(options=IMPATIENT, faults=ArmedFaults("recovery.fenced", "error"))
    recover(other.store, other.log)

    with pytest.raises(FencedError):
        abandon(session.log, armed, (), StoreUnavailableError("read rows", "no reason"))
    left = len(list_sidecars(session.store)[0])
    again(session)  # which settles it

    assert left == 1
    assert [row.kind for row in recovery_log.read_rows(session.store)] == ["RolledBack"]
