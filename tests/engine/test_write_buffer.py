"""Pending rows over committed ones: every read sees both."""

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from mutating import new_graph, run
from omnigraph.engine.query_inputs import QueryInputs
from omnigraph.engine.view import View
from omnigraph.engine.writing.write_buffer import PendingTable, WriteBuffer
from omnigraph.lang.source import Span
from omnigraph.query.expr import Compare, Const, Expr, Op, Prop
from omnigraph.query.expr_types import ROW
from omnigraph.schema.types import Scalar

INPUTS = QueryInputs({}, datetime(2026, 1, 2, tzinfo=UTC))
NOWHERE = Span(0, 0)


@pytest.fixture
def pending(tmp_path: Path) -> WriteBuffer:
    """Nothing yet, over the nodes a = 1, b = 2."""
    graph = new_graph(tmp_path, "node N { k: String @key  v: I64 }\nedge E: N -> N")
    run(graph, 'insert N { k: "a", v: 1 } insert N { k: "b", v: 2 }')
    session = graph._session
    return WriteBuffer(
        View(session.load_catalog(session.resolve_snapshot()), session.open_tables(session.resolve_snapshot()))
    )


@pytest.fixture
def nodes(pending: WriteBuffer) -> PendingTable:
    return pending.get_table(pending.get_node_type("N"))


def some(**values: int) -> pa.Table:
    return pa.table({"id": list(values), "k": list(values), "v": pa.array(values.values(), pa.int64())})


def above(limit: int) -> Expr:
    column = Prop(variable=ROW, name="v", type=Scalar.I64, origin=NOWHERE)
    return Compare(op=Op.GT, left=column, right=Const(value=limit, type=Scalar.I64, origin=NOWHERE), origin=NOWHERE)


def found(rows: pa.Table) -> dict[str, int]:
    return dict(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True))


def test_a_pending_row_hides_the_committed_one_of_its_id(nodes: PendingTable) -> None:
    nodes.put(some(a=7, c=3))

    assert found(nodes.select_where(above(1), INPUTS, ["id", "v"])) == {"a": 7, "b": 2, "c": 3}
    assert found(nodes.select_where(above(5), INPUTS, ["id", "v"])) == {"a": 7}
    assert found(nodes.find_matching("id", ["a", "b", "z"], ["id", "v"])) == {"a": 7, "b": 2}


def test_a_committed_row_that_matched_is_hidden_by_a_pending_one_that_does_not(nodes: PendingTable) -> None:
    nodes.put(some(b=0))

    assert found(nodes.select_where(above(1), INPUTS, ["id", "v"])) == {}


def test_the_last_row_of_an_id_wins(nodes: PendingTable) -> None:
    nodes.put(some(a=5, c=1))
    nodes.put(some(c=2))

    assert found(nodes.rows) == {"a": 5, "c": 2}


def test_a_deleted_row_is_seen_by_nobody(nodes: PendingTable) -> None:
    nodes.put(some(c=3))
    nodes.delete(["a", "c"])

    assert found(nodes.select_where(above(0), INPUTS, ["id", "v"])) == {"b": 2}
    assert found(nodes.rows) == {}


def test_a_row_may_come_back_after_it_was_deleted(nodes: PendingTable) -> None:
    nodes.delete(["a"])
    nodes.put(some(a=9))

    assert found(nodes.select_where(above(0), INPUTS, ["id", "v"])) == {"a": 9, "b": 2}
    assert not nodes.deleted


def test_every_entity_is_counted_once(pending: WriteBuffer, nodes: PendingTable) -> None:
    nodes.put(some(a=5, c=1))
    nodes.put(some(a=6))
    nodes.delete(["b"])

    assert pending.count_affected() == (3, 0)


def test_only_rows_that_can_be_known_are_looked_up(nodes: PendingTable) -> None:
    nodes.put(some(x=1), is_fresh=True)

    assert nodes.is_append
    nodes.put(some(a=1))
    assert nodes.known_ids == ["a"]
    assert not nodes.is_append
