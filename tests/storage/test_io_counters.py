"""Requests of Lance are attributed to whoever made them: each once, also those of scans that are read by turns."""

from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.storage.io_counters import attribute_requests, count_process_requests
from omnigraph.storage.lance_table import LanceTable
from omnigraph.telemetry import Telemetry
from row_worlds import NODES, new_session, table_of, view_of, write


@pytest.fixture
def table(tmp_path: Path) -> LanceTable:
    session = new_session(tmp_path / "g")
    for number in range(3):
        row = {"rank": number, "code": "a", "tags": None}
        write(session, NODES, append=table_of(session, {f"id{number}": row}))
    return view_of(session).tables.open_table(NODES)


def total() -> int:
    return sum(count_process_requests().values())


def test_a_scan_in_batches_is_counted(table: LanceTable) -> None:
    telemetry = table.handles.store.runtime.telemetry
    before = total()

    with telemetry.count_requests() as requests:
        rows = pa.Table.from_batches(table.iter_batches(["rank"]))

    assert rows.num_rows == 3
    assert requests.count(target="table") == total() - before > 0


def test_scans_that_are_read_by_turns_count_each_request_once(table: LanceTable) -> None:
    telemetry = table.handles.store.runtime.telemetry
    before = total()

    with telemetry.count_requests() as requests:
        pairs = list(zip(table.iter_batches(["rank"]), table.iter_batches(["code"]), strict=True))
        table.scan(["tags"])

    assert len(pairs) == 3
    assert requests.count() == total() - before > 0


def test_a_block_inside_another_has_its_requests_for_itself(table: LanceTable) -> None:
    outer, inner = Telemetry(), Telemetry()
    before = total()

    with outer.count_requests() as outside, inner.count_requests() as inside, attribute_requests(outer, "outer"):
        table.scan(["rank"])
        with attribute_requests(inner, "inner"):
            table.scan(["code"])
        first = inside.count()
        table.scan(["tags"])

    assert inside.count() == first > 0
    assert outside.count() > 0
    assert outside.count() + inside.count() == total() - before


def test_a_scan_that_is_given_up_is_open_no_more(table: LanceTable) -> None:
    telemetry = table.handles.store.runtime.telemetry
    with telemetry.count_requests():
        begun = table.iter_batches(["rank"])
        next(begun)
        begun.close()  # type: ignore[attr-defined]  # a generator
    other = Telemetry()

    with other.count_requests() as requests, attribute_requests(other, "other"):
        list(table.iter_batches(["code"]))

    assert requests.count() > 0
