"""What a cleanup's boundary means for writes that are slower than its grace, with and without a lease."""

import os
from pathlib import Path

import pytest

import omnigraph as og
from branching import put
from collecting import DAY, again, collect, content, looked_at, pass_time, small_world
from omnigraph.ops.session import Session
from omnigraph.ops.write_tables import TableWrite, write_tables
from omnigraph.storage.layout import RECOVERY
from upkeep_calls import AtPoint
from worlds import CALM
from worlds import rows as table_rows


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """A row that said 1, 2 and 3."""
    session = small_world(tmp_path / "g")
    for number in (1, 2, 3):
        put(session, {"a": number})
    return session


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("point", ["publish.staged", "publish.flushed"])
def test_a_write_without_a_lease_whose_files_are_older_than_the_boundary_fails_though_they_are_there(
    session: Session, point: str
) -> None:
    def meanwhile() -> None:
        pass_time(session.uri, 2 * DAY)
        with pytest.raises(KeyboardInterrupt):  # it has said what goes, and nothing is gone yet
            collect(again(session, faults=AtPoint("cleanup.floor", interrupt)))

    with pytest.raises(og.TooSlowError, match="is too old to be kept"):
        put(again(session, faults=AtPoint(point, meanwhile)), {"c": 1})

    assert content(session, looked_at(session.uri).resolve_snapshot())["node:A"] == {"a": 3}


def test_a_slow_write_with_a_lease_passes_however_old_its_files_are(session: Session) -> None:
    def meanwhile() -> None:
        pass_time(session.uri, 2 * DAY)
        for sidecar in Path(session.uri, RECOVERY).iterdir():
            os.utime(sidecar)  # its owner is alive
        collect(again(session, options=CALM))

    done = write_tables(
        again(session, options=CALM, faults=AtPoint("publish.armed", meanwhile)),
        [TableWrite(table_key=key, upsert=table_rows({"c": 1})) for key in ("node:A", "node:B")],
        operation="put",
        actor="slow",
    )

    there = looked_at(session.uri)
    assert done is not None
    assert there.resolve_snapshot().commit.id == done.commit.id
    assert content(there, there.resolve_snapshot())["node:A"] == {"a": 3, "c": 1}
