"""What a merge costs: a fast forward the same for any graph, a merge of rows what was changed."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.graph import Graph
from omnigraph.lang.source import Source
from omnigraph.ops.branch import create_branch
from omnigraph.ops.create import create
from omnigraph.ops.merge import MergeCall, merge
from omnigraph.ops.merge_result import MergeOutcome, MergeResult
from omnigraph.ops.session import Session
from omnigraph.ops.write import TableWrite, write_tables
from omnigraph.storage.dataset import io_counts
from omnigraph.telemetry import Requests
from worlds import FAST, runtime


def graph_of(uri: Path, tables: int, rows: int) -> Session:
    names = [f"T{number}" for number in range(tables)]
    schema = Source("\n".join(f"node {name} {{ v: I64?  w: I64? }}" for name in names))
    session = create(str(uri), schema, actor="t", runtime=runtime(FAST))
    put(session, np.arange(rows), 0)
    Graph(session).optimize()  # rows are looked up by their ids, which are indexed then
    create_branch(session, "dev", actor="t")
    return session


def put(session: Session, numbers: np.ndarray, value: int, *keys: str) -> None:
    ids = pa.array([f"{number:09}" for number in numbers.tolist()], pa.string())
    new = pa.table({"id": ids, "v": pa.array(numbers + value), "w": pa.array(np.zeros(len(ids), np.int64))})
    writes = [TableWrite(table_key=key, upsert=new) for key in keys or ("node:T0",)]
    write_tables(session, writes, operation="w", actor="x")


def measured(session: Session, operation: Callable[[], MergeResult]) -> tuple[MergeResult, Requests]:
    with session.runtime.telemetry.counting() as requests:
        done = operation()
    return done, requests


def test_a_fast_forward_costs_the_same_for_any_tables_and_rows(tmp_path: Path) -> None:
    found = []
    for tables, rows, name in ((3, 1_000, "small"), (217, 200_000, "large")):
        session = graph_of(tmp_path / name, tables, rows)
        keys = session.on("dev").snapshot().pins.keys()
        put(session.on("dev"), np.arange(5), 7, *keys)
        found.append(measured(session, lambda s=session: merge(s, MergeCall(source="dev"))))  # type: ignore[misc]

    (small, few), (large, many) = found
    assert small.outcome is large.outcome is MergeOutcome.FAST_FORWARD
    assert (len(small.tables), len(large.tables)) == (3, 217)
    assert few.counts == many.counts, many.table()
    assert many.total(target="table") == 0
    assert many.total() <= 8, many.table()


@pytest.mark.parametrize("kind", ["requests", "bytes"])
def test_a_merge_of_few_rows_costs_what_was_changed(kind: str, tmp_path: Path) -> None:
    costs = []
    for rows in (10_000, 400_000):
        session = graph_of(tmp_path / str(rows), 1, rows)
        put(session, np.arange(0, 100), 5)
        put(session.on("dev"), np.arange(200, 300), 7)
        before = io_counts()
        done = merge(session, MergeCall(source="dev"))
        after = io_counts()
        assert (done.outcome, done.tables[0].updated) == (MergeOutcome.MERGED, 100)
        costs.append((after.requests - before.requests, after.nbytes - before.nbytes))

    small, large = (cost[0 if kind == "requests" else 1] for cost in costs)
    assert large <= 3 * small, costs
