"""The statements of a mutation, run one after the other over what is pending."""

from collections.abc import Callable
from typing import assert_never

import pyarrow as pa

from omnigraph.commit.requirement import Requirement, SelectionUnchanged
from omnigraph.engine.predicates import Inputs
from omnigraph.engine.writing.embedded import without_outdated
from omnigraph.engine.writing.keys import derived_ids
from omnigraph.engine.writing.pending import Pending, PendingTable
from omnigraph.engine.writing.relations import cascade
from omnigraph.engine.writing.row_filter import ids_where
from omnigraph.ids import Ids
from omnigraph.query.expr import Expr
from omnigraph.query.mutation_ir import Delete, InsertEdge, InsertNode, MutationQuery, Update
from omnigraph.schema.arrow import DST, ID, SRC
from omnigraph.schema.catalog import Value
from omnigraph.schema.types import Scalar
from omnigraph.storage.dataset import Table


def run_statements(
    query: MutationQuery, pending: Pending, inputs: Inputs, ids: Ids, check: Callable[[], None]
) -> list[Requirement]:
    """Make the query's effects pending, and return what the choice of rows relied on; `check` may end it in between."""
    read: list[Requirement] = []
    for statement in query.statements:
        check()
        table = pending.of(pending.view.type(statement.type.name))
        match statement:
            case InsertNode():
                _insert(statement, table, inputs, ids)
            case InsertEdge():
                _insert(statement, table, inputs, ids)
                _expect_ends(statement, pending, inputs)
            case Update():
                read += _update(statement, table, inputs)
            case Delete():
                read += _delete(statement, table, inputs)
            case _:
                assert_never(statement)
    if any(isinstance(statement, Delete) for statement in query.statements):
        cascade(pending)
    check()
    return read


def _insert(statement: InsertNode | InsertEdge, table: PendingTable, inputs: Inputs, ids: Ids) -> None:
    type_ = table.type
    values = {assign.property: inputs.value(assign.value) for assign in statement.values}
    values |= {name: type_.by_name[name].default for name in statement.omitted}
    row = {name: _pending(table, name, value) for name, value in values.items()}
    if isinstance(statement, InsertEdge):
        row |= {SRC: inputs.value(statement.source), DST: inputs.value(statement.target)}
    is_fresh = not type_.key
    rows = pa.Table.from_pylist([{**row, ID: ids.ulid() if is_fresh else None}], table.schema)
    if not is_fresh:
        rows = rows.set_column(rows.schema.get_field_index(ID), ID, derived_ids(type_, rows))
    table.put(rows, is_fresh=is_fresh, omitted=() if is_fresh else statement.omitted)


def _expect_ends(statement: InsertEdge, pending: Pending, inputs: Inputs) -> None:
    """Let a look for nodes of this mutation find the ends of its edges too: that saves a request."""
    edge = pending.view.catalog.edges[statement.type.name]
    for node_name, end in ((edge.source, statement.source), (edge.target, statement.target)):
        known = pending.of(pending.node_type(node_name)).known
        known.expect(pa.array([inputs.value(end)], pa.string()))


def _update(statement: Update, table: PendingTable, inputs: Inputs) -> list[Requirement]:
    found = table.where(statement.where, inputs, table.schema.names)
    relied_on = _selection(statement.where, table, inputs, found)
    if not found.num_rows:
        return relied_on
    rows = found
    for assign in statement.values:
        place = rows.schema.get_field_index(assign.property)
        field = rows.schema.field(place)
        value = pa.scalar(_pending(table, assign.property, inputs.value(assign.value)), field.type)
        rows = rows.set_column(place, field, pa.repeat(value, rows.num_rows))
    given = {assign.property for assign in statement.values}
    all_rows = pa.repeat(pa.scalar(True), rows.num_rows)
    kept = {name: all_rows for name in table.schema.names if name not in given}
    outdated = {p.name for p in table.type.properties if p.embedding is not None}
    table.put(without_outdated(table.type, found, rows, kept), changed=given | outdated)
    return relied_on


def _pending(table: PendingTable, name: str, value: Value) -> object:
    """A property's value as a pending row holds it."""
    if value is None or table.type.by_name[name].type is not Scalar.BLOB:
        return value
    return table.given.add(str(value))


def _delete(statement: Delete, table: PendingTable, inputs: Inputs) -> list[Requirement]:
    rows = table.where(statement.where, inputs, [ID])
    relied_on = _selection(statement.where, table, inputs, rows)
    if rows.num_rows:
        table.delete(rows.column(ID).to_pylist())
    return relied_on


def _selection(where: Expr, table: PendingTable, inputs: Inputs, rows: pa.Table) -> list[Requirement]:
    """What must stay so for the statement to mean the same: the committed rows that it chose, and no others."""
    mine = table.superseded()

    def select(committed: Table) -> list[str]:
        return [row_id for row_id in ids_where(committed, where, inputs).to_pylist() if row_id not in mine]

    ids = tuple(row_id for row_id in rows.column(ID).to_pylist() if row_id not in mine)
    return [SelectionUnchanged(table_key=table.type.table_key, ids=ids, select=select)]
