"""Requests of Lance are attributed to whoever made them: each once, also those of scans that are read by turns."""

from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.storage.io_counters import counted, process_requests
from omnigraph.storage.lance_table import Table
from omnigraph.telemetry import Telemetry
from row_worlds import NODES, new_session, table_of, view_of, write


@pytest.fixture
def table(tmp_path: Path) -> Table:
    session = new_session(tmp_path / "g")
    for number in range(3):
        row = {"rank": number, "code": "a", "tags": None}
        write(session, NODES, append=table_of(session, {f"id{number}": row}))
    return view_of(session).tables.table(NODES)


def total() -> int:
    return sum(process_requests().values())


def test_a_scan_in_batches_is_counted(table: Table) -> None:
    telemetry = table.handles.store.runtime.telemetry
    before = total()

    with telemetry.counting() as requests:
        rows = pa.Table.from_batches(table.batches(["rank"]))

    assert rows.num_rows == 3
    assert requests.total(target="table") == total() - before > 0


def test_scans_that_are_read_by_turns_count_each_request_once(table: Table) -> None:
    telemetry = table.handles.store.runtime.telemetry
    before = total()

    with telemetry.counting() as requests:
        pairs = list(zip(table.batches(["rank"]), table.batches(["code"]), strict=True))
        table.scan(["tags"])

    assert len(pairs) == 3
    assert requests.total() == total() - before > 0


def test_a_block_inside_another_has_its_requests_for_itself(table: Table) -> None:
    outer, inner = Telemetry(), Telemetry()
    before = total()

    with outer.counting() as outside, inner.counting() as inside, counted(outer, "outer"):
        table.scan(["rank"])
        with counted(inner, "inner"):
            table.scan(["code"])
        first = inside.total()
        table.scan(["tags"])

    assert inside.total() == first > 0
    assert outside.total() > 0
    assert outside.total() + inside.total() == total() - before


def test_a_scan_that_is_given_up_is_open_no_more(table: Table) -> None:
    telemetry = table.handles.store.runtime.telemetry
    with telemetry.counting():
        begun = table.batches(["rank"])
        next(begun)
        begun.close()  # type: ignore[attr-defined]  # a generator
    other = Telemetry()

    with other.counting() as requests, counted(other, "other"):
        list(table.batches(["code"]))

    assert requests.total() > 0
