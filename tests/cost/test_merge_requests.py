"""What a merge costs: a fast forward the same for any graph, a merge of rows what was changed."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.lang.source import Source
from omnigraph.ops.branch import create_branch
from omnigraph.ops.create import create
from omnigraph.ops.merge import MergeCall, merge
from omnigraph.ops.merge_result import MergeOutcome, MergeResult
from omnigraph.ops.schema_apply import SchemaCall, apply_schema
from omnigraph.ops.session import Session
from omnigraph.ops.write_tables import TableWrite, write_tables
from omnigraph.storage.lance_table import read_io_counts
from omnigraph.telemetry import RequestCounts
from worlds import CALM, runtime


def graph_of(uri: Path, tables: int, rows: int, extra: str = "") -> Session:
    names = [f"T{number}" for number in range(tables)]
    schema = Source("\n".join(f"node {name} {{ v: I64?  w: I64?{extra} }}" for name in names))
    session = create(str(uri), schema, actor="t", runtime=runtime(CALM))
    put(session, np.arange(rows), 0)
    create_branch(session, "dev", actor="t")
    return session


def put(session: Session, numbers: np.ndarray, value: int, *keys: str, extra: str | None = None) -> None:
    ids = pa.array([f"{number:09}" for number in numbers.tolist()], pa.string())
    new = pa.table({"id": ids, "v": pa.array(numbers + value), "w": pa.array(np.zeros(len(ids), np.int64))})
    if "pic" in session.open_tables(session.resolve_snapshot()).open_table((keys or ("node:T0",))[0]).schema.names:
        new = new.append_column("pic", pa.array([b"x" * 10] * len(ids), pa.large_binary()))
    if extra is not None:
        new = new.append_column(extra, pa.array(numbers))
    writes = [TableWrite(table_key=key, upsert=new) for key in keys or ("node:T0",)]
    write_tables(session, writes, operation="w", actor="x")


def measured(session: Session, operation: Callable[[], MergeResult]) -> tuple[MergeResult, RequestCounts]:
    with session.runtime.telemetry.count_requests() as requests:
        done = operation()
    return done, requests


def test_a_fast_forward_costs_the_same_for_any_tables_and_rows(tmp_path: Path) -> None:
    found = []
    for tables, rows, name in ((3, 1_000, "small"), (217, 1_000_000, "large")):
        session = graph_of(tmp_path / name, tables, rows)
        keys = session.checkout("dev").resolve_snapshot().pins.keys()
        put(session.checkout("dev"), np.arange(5), 7, *keys)
        found.append(measured(session, lambda s=session: merge(s, MergeCall(source="dev"))))  # type: ignore[misc]

    (small, few), (large, many) = found
    assert small.outcome is large.outcome is MergeOutcome.FAST_FORWARD
    assert (len(small.tables), len(large.tables)) == (3, 217)
    assert few.counts == many.counts, many.format_table()
    assert many.count(target="table") == 0
    assert many.count() <= 8, many.format_table()


@pytest.mark.parametrize("extra", ["", "  pic: Blob?"], ids=["plain", "blobs"])
def test_a_merge_of_few_rows_costs_what_was_changed(extra: str, tmp_path: Path) -> None:
    """No index helps: where a row lies is known from where it differs."""
    costs = []
    for rows in (10_000, 300_000 if extra else 1_000_000):
        session = graph_of(tmp_path / str(rows), 1, rows, extra)
        put(session, np.arange(0, 100), 5)
        put(session.checkout("dev"), np.arange(200, 300), 7)
        before, disk = read_io_counts(), written(session)
        done = merge(session, MergeCall(source="dev"))
        after = read_io_counts()
        assert (done.outcome, done.tables[0].updated) == (MergeOutcome.MERGED, 100)
        costs.append((after.requests - before.requests, after.nbytes - before.nbytes, written(session) - disk))

    (small_requests, small_read, small_written), (requests, read, wrote) = costs
    assert requests == small_requests, costs
    found_by_lance = 5 * 300_000 if extra else 0  # a few bytes for each row, to find blobs in a fragment
    assert read <= 1.2 * small_read + found_by_lance, costs
    assert wrote <= 1.2 * small_written, costs


def written(session: Session) -> int:
    """How many bytes the tables take."""
    return sum(info.size for info in session.store.objects.list_under("nodes"))


def test_a_schema_change_of_one_side_makes_a_merge_read_no_more_rows(tmp_path: Path) -> None:
    """A new nullable property on both sides: columns are added, and only what was changed is read."""
    costs = []
    for rows in (10_000, 200_000):
        session = graph_of(tmp_path / str(rows), 1, rows)
        for branch, name in (("main", "a"), ("dev", "b")):
            schema = Source(f"node T0 {{ v: I64?  w: I64?  {name}: I64? }}")
            apply_schema(session.checkout(branch), SchemaCall(source=schema, actor="x"))
        put(session, np.arange(0, 100), 5, extra="a")
        put(session.checkout("dev"), np.arange(200, 300), 7, extra="b")
        before = read_io_counts()
        done = merge(session, MergeCall(source="dev"))
        assert (done.outcome, done.tables[0].updated) == (MergeOutcome.MERGED, 100)
        costs.append(read_io_counts().nbytes - before.nbytes)

    assert costs[1] <= 1.2 * costs[0], costs


def test_a_merge_of_rows_costs_the_same_beside_any_number_of_other_tables(tmp_path: Path) -> None:
    found = []
    for others, name in ((2, "few"), (216, "many")):
        nodes = "\n".join(f"node N{number} {{ v: I64? }}\nedge E{number}: T0 -> N{number}" for number in range(others))
        schema = Source(f"node T0 {{ v: I64?  w: I64? }}\n{nodes}")
        session = create(str(tmp_path / name), schema, actor="t", runtime=runtime(CALM))
        put(session, np.arange(1000), 0)
        create_branch(session, "dev", actor="t")
        put(session, np.arange(0, 10), 5)
        put(session.checkout("dev"), np.arange(20, 30), 7)
        found.append(measured(session, lambda s=session: merge(s, MergeCall(source="dev"))))  # type: ignore[misc]

    (small, few), (large, many) = found
    assert small.outcome is large.outcome is MergeOutcome.MERGED
    assert few.counts == many.counts, (few.format_table(), many.format_table())
