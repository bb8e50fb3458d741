"""The statements of a mutation, run one after the other over what is pending."""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from typing import assert_never

import pyarrow as pa

from omnigraph.commit.requirements import Requirement, SelectionUnchanged
from omnigraph.engine.predicate_eval import QueryInputs
from omnigraph.engine.writing.relations import cascade
from omnigraph.engine.writing.row_filter import find_matching_ids
from omnigraph.engine.writing.stale_embeddings import clear_stale_vectors
from omnigraph.engine.writing.streamed_update import (
    MAX_BUFFERED_BYTES,
    MAX_BUFFERED_ROWS,
    ScanSizeLimit,
    StreamedRows,
    TooManyRowsError,
)
from omnigraph.engine.writing.write_buffer import PendingTable, WriteBuffer
from omnigraph.ids import Ids
from omnigraph.query.expr import Expr
from omnigraph.query.mutation_plan import Delete, InsertEdge, InsertNode, MutationQuery, Update
from omnigraph.schema.arrow import DST, ID, SRC
from omnigraph.schema.catalog import AnyType, Value
from omnigraph.schema.types import Scalar, ValueType
from omnigraph.schema.values import derive_id, format_key
from omnigraph.storage.columnar_sets import concat_chunks, is_among
from omnigraph.storage.lance_table import LanceTable


def derive_row_ids(type_: AnyType, rows: pa.Table) -> pa.Array:
    """The id of every row of a type with a key, whose columns hold no nulls."""
    if len(type_.key) == 1 and pa.types.is_string(rows.schema.field(type_.key[0]).type):
        return rows.column(type_.key[0]).combine_chunks()
    columns = [_iter_key_texts(find_key_type(type_, name), rows.column(name)) for name in type_.key]
    return pa.array([derive_id(texts) for texts in zip(*columns, strict=True)], pa.string())


def find_key_type(type_: AnyType, column: str) -> ValueType:
    """The type of a property, or of an end of an edge."""
    found = type_.find_property(column)
    return Scalar.STRING if found is None else found.type


def _iter_key_texts(type_: ValueType, column: pa.ChunkedArray) -> Iterator[str]:
    return (format_key(type_, value) for value in column.to_pylist())


_BYTES_PER_ID = 300
"""What an id takes in memory while its row is deleted: a text of Python, and its places in a few sets. An estimate."""


def run_statements(
    query: MutationQuery, pending: WriteBuffer, inputs: QueryInputs, ids: Ids, check: Callable[[], None]
) -> list[Requirement]:
    """Make the query's effects pending, and return what the choice of rows relied on; `check` may end it in between.

    An update of many rows is streamed, unless another statement may have to see what it does: then they are held.
    """
    read: list[Requirement] = []
    about = Counter(statement.type.name for statement in query.statements)
    has_delete = any(isinstance(statement, Delete) for statement in query.statements)
    for statement in query.statements:
        check()
        table = pending.get_table(pending.view.get_type(statement.type.name))
        match statement:
            case InsertNode():
                _insert(statement, table, inputs, ids)
            case InsertEdge():
                _insert(statement, table, inputs, ids)
                _expect_ends(statement, pending, inputs)
            case Update():
                may_stream = about[statement.type.name] == 1  # and no delete can stand beside it
                read += _update(statement, table, inputs, _choose_buffer_limit(pending) if may_stream else None)
            case Delete():
                read += _delete(statement, table, inputs)
                pending.check_size(
                    len(table.deleted) * _BYTES_PER_ID, f"the ids of {len(table.deleted):,} rows to delete"
                )
            case _:
                assert_never(statement)
    if has_delete:
        cascade(pending)
        gone = sum(len(table.deleted) for table in pending.touched)
        pending.check_size(gone * _BYTES_PER_ID, f"the ids of {gone:,} rows to delete")
    check()
    return read


def _insert(statement: InsertNode | InsertEdge, table: PendingTable, inputs: QueryInputs, ids: Ids) -> None:
    type_ = table.type
    values = {assign.property: inputs.resolve(assign.value) for assign in statement.values}
    values |= {name: type_.by_name[name].default for name in statement.omitted}
    row = {name: _to_pending_value(table, name, value) for name, value in values.items()}
    if isinstance(statement, InsertEdge):
        row |= {SRC: inputs.resolve(statement.source), DST: inputs.resolve(statement.target)}
    is_fresh = not type_.key
    rows = pa.Table.from_pylist([{**row, ID: ids.ulid() if is_fresh else None}], table.schema)
    if not is_fresh:
        rows = rows.set_column(rows.schema.get_field_index(ID), ID, derive_row_ids(type_, rows))
    table.put(rows, is_fresh=is_fresh, omitted=() if is_fresh else statement.omitted)


def _expect_ends(statement: InsertEdge, pending: WriteBuffer, inputs: QueryInputs) -> None:
    """Let a look for nodes of this mutation find the ends of its edges too: that saves a request."""
    edge = pending.view.catalog.edges[statement.type.name]
    for node_name, end in ((edge.source, statement.source), (edge.target, statement.target)):
        known = pending.get_table(pending.get_node_type(node_name)).known
        known.expect(pa.array([inputs.resolve(end)], pa.string()))


def _choose_buffer_limit(pending: WriteBuffer) -> float:
    """Return how many bytes of rows an update may hold before it is streamed: of a small budget, a quarter."""
    memory = math.inf if pending.watch is None else pending.watch.memory_bytes
    return min(MAX_BUFFERED_BYTES, memory / 4)


def _update(statement: Update, table: PendingTable, inputs: QueryInputs, most_held: float | None) -> list[Requirement]:
    """Put the changed rows; with `most_held`, rows that take more bytes are streamed."""
    given = {assign.property for assign in statement.values}
    outdated = {p.name for p in table.type.properties if p.embedding is not None}
    found = _find_rows(statement, table, inputs, most_held)
    change = _build_assignment(statement, table, inputs) if found is None or found.num_rows else None
    if found is None:
        assert change is not None  # noqa: S101 - made above
        rows = StreamedRows(table.type, table.table, (statement.where, inputs), change, table.blob_values)
        table.stream(rows, given | outdated)
        return _build_selection_requirements(statement.where, table, inputs, rows.ids)
    relied_on = _build_selection_requirements(statement.where, table, inputs, concat_chunks(found.column(ID)))
    if change is not None:
        table.put(change(found), changed=given | outdated)
    return relied_on


def _find_rows(statement: Update, table: PendingTable, inputs: QueryInputs, most_held: float | None) -> pa.Table | None:
    """Return the rows that an update chooses, as they are; None when it is better streamed."""
    watch = None if most_held is None else ScanSizeLimit(most_held, table.table.watch)
    try:
        found = table.select_where(statement.where, inputs, table.schema.names, watch)
    except TooManyRowsError:
        return None
    return None if most_held is not None and found.num_rows > MAX_BUFFERED_ROWS else found


def _build_assignment(statement: Update, table: PendingTable, inputs: QueryInputs) -> Callable[[pa.Table], pa.Table]:
    """Return what an update does to rows. Each value is made once, however many parts of rows there are."""
    given = {
        assign.property: pa.scalar(
            _to_pending_value(table, assign.property, inputs.resolve(assign.value)),
            table.schema.field(assign.property).type,
        )
        for assign in statement.values
    }

    def change(found: pa.Table) -> pa.Table:
        rows = before = found.select(table.schema.names).cast(table.schema)
        for name, value in given.items():
            place = rows.schema.get_field_index(name)
            rows = rows.set_column(place, rows.schema.field(place), pa.repeat(value, rows.num_rows))
        all_rows = pa.repeat(pa.scalar(True), rows.num_rows)
        kept = {name: all_rows for name in table.schema.names if name not in given}
        return clear_stale_vectors(table.type, before, rows, kept)

    return change


def _to_pending_value(table: PendingTable, name: str, value: Value) -> object:
    """A property's value as a pending row holds it."""
    if value is None or table.type.by_name[name].type is not Scalar.BLOB:
        return value
    return table.blob_values.add(str(value))


def _delete(statement: Delete, table: PendingTable, inputs: QueryInputs) -> list[Requirement]:
    rows = table.select_where(statement.where, inputs, [ID])
    relied_on = _build_selection_requirements(statement.where, table, inputs, concat_chunks(rows.column(ID)))
    if rows.num_rows:
        table.delete(rows.column(ID).to_pylist())
    return relied_on


def _build_selection_requirements(
    where: Expr, table: PendingTable, inputs: QueryInputs, chosen: pa.Array
) -> list[Requirement]:
    """What must stay so for the statement to mean the same: the committed rows that it chose, and no others."""
    mine = pa.array(table.find_superseded_ids(), pa.string())

    def others(ids: pa.Array) -> pa.Array:
        return ids.filter(pa.array(~is_among(ids, mine))) if len(mine) else ids

    def select(committed: LanceTable) -> pa.Array:
        return others(find_matching_ids(committed, where, inputs))

    return [SelectionUnchanged(table_key=table.type.table_key, ids=others(chosen), select=select)]
